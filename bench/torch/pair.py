# The jobs of bench/pair.c beside PyTorch's, taking turns on one device. Wall time, medians.
# Usage: pair.py LIBSITU.SO     (bench/pair is looked for beside the library; $SITU_BENCH_DEVICE: cpu or cuda:N)
# SPDX-License-Identifier: MIT
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from support.gpt2 import GPT2

name = os.environ.get("SITU_BENCH_DEVICE", "cpu")
if not name.startswith(("cpu", "cuda")) or (name.startswith("cuda") and not torch.cuda.is_available()):
    print(f"SKIPPED: torch {torch.__version__} has no {name}")
    sys.exit(0)
device = torch.device(name)
small = device.type == "cpu"
program = os.path.join(os.path.dirname(sys.argv[1]), "bench", "pair")
situ = subprocess.Popen([program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait():
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def ours(job):
    situ.stdin.write(job + "\n")
    situ.stdin.flush()
    answer = situ.stdout.readline()
    if not answer:
        sys.exit(f"pair serve: {job} failed")
    return float(answer)


def timed(call):
    wait()
    begin = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - begin


# ---- ops ----

kept = {}


def square(side, dtype):
    if (side, dtype) not in kept:
        kept[side, dtype] = torch.randn(side, side, device=device).to(dtype), torch.randn(side, side, device=device).to(dtype)
    return kept[side, dtype]


def op():
    calls = 1000
    x = square(8, torch.float32)[0]
    wait()
    begin = time.perf_counter()
    for _ in range(calls):
        x.mul_(1.0)
    taken = (time.perf_counter() - begin) / calls
    wait()
    return taken


rows = 1024 if small else 8192
classes = torch.zeros(rows, dtype=torch.int64, device=device)


def on_rows(call):
    x = square(rows, torch.float32)
    with torch.no_grad():
        return timed(lambda: call(*x))


def matmul(side):
    x = square(side, torch.bfloat16)
    with torch.no_grad():
        return timed(lambda: torch.matmul(*x))


# ---- moves ----


def move(model):
    return timed(lambda: model.to(device))


# ---- a training step of GPT-2 ----


class Training:
    def __init__(self, compiled):
        vocabulary, context, width, heads, layers, batch = (512, 64, 64, 4, 2, 4) if small else (50304, 1024, 768, 12, 12, 8)
        self.model = GPT2(vocabulary, context, width, heads, layers).to(device)
        self.optim = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **({} if small else {"fused": True}))
        self.forward = torch.compile(self.model) if compiled else self.model
        self.ids = torch.randint(0, vocabulary, (batch, context), device=device)
        self.next = torch.randint(0, vocabulary, (batch * context,), device=device)

    def step(self):
        self.optim.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=not small):
            loss = F.cross_entropy(self.forward(self.ids).flatten(0, 1), self.next)
        loss.backward()
        self.optim.step()


training = {}


def gpt2(compiled):
    if compiled not in training:
        training[compiled] = Training(compiled)
    return timed(training[compiled].step)


# ---- taking turns ----


def measure(what, job, theirs, must, rounds=21):
    times = []
    for k in range(rounds + 3):
        both = ours(job), theirs()
        if k >= 3:  # the first ones warm up
            times.append(both)
    ratio = statistics.median(b / a for a, b in times)
    mine, other = (statistics.median(t[k] for t in times) for k in (0, 1))
    goal = f"(must {must}x)" if device.type == "cuda" else ""
    print(f"{what:40s} situ {1e6 * mine:11.1f} us   torch {1e6 * other:11.1f} us   {ratio:6.2f}x   {goal}")
    print(json.dumps({"what": what, "device": name, "situ_us": 1e6 * mine, "torch_us": 1e6 * other, "ratio": ratio, "must": must, "torch": torch.__version__}))
    sys.stdout.flush()


measure("host cost of an op", "op", op, 2)
measure("a + b", "add", lambda: on_rows(torch.add), 1)
measure("gelu (tanh)", "gelu", lambda: on_rows(lambda a, b: F.gelu(a, approximate="tanh")), 1)
measure("softmax of rows", "softmax", lambda: on_rows(lambda a, b: torch.softmax(a, 1)), 1)
measure("layer norm of rows", "layer_norm", lambda: on_rows(lambda a, b: F.layer_norm(a, (rows,))), 1)
measure("cross entropy", "cross_entropy", lambda: on_rows(lambda a, b: F.cross_entropy(a, classes)), 1)
measure("bf16 matmul 4096", "matmul_4096", lambda: matmul(256 if small else 4096), 0.95)
measure("bf16 matmul 8192", "matmul_8192", lambda: matmul(512 if small else 8192), 0.95)
if device.type == "cuda":
    measure("1,000 small parameters to the device", "move_1000", lambda: move(torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(500))), 10)
    measure("1 GiB of parameters, pageable", "move_1gib", lambda: move(torch.nn.Embedding(16384, 16384)), 2, 7)
measure("GPT-2 step, torch eager", "gpt2", lambda: gpt2(False), 1)
if device.type == "cuda" and hasattr(torch, "compile"):
    training.clear()
    measure("GPT-2 step, torch.compile", "gpt2", lambda: gpt2(True), 0.9)
situ.stdin.close()
situ.wait()
