# The jobs of bench/ops.c beside PyTorch's, taking turns on one thread. Processor time, medians: PyTorch's / situ's.
# Usage: ops.py LIBSITU.SO [NAME...]     (bench/ops is looked for beside the library; NAME: only these jobs)
# SPDX-License-Identifier: MIT
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(1)
program = os.path.join(os.path.dirname(sys.argv[1]), "bench", "ops")
situ = subprocess.Popen([program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

line, positive, one = torch.randn(1 << 20), torch.rand(1 << 20), torch.randn(1)
square, image, deep = torch.randn(1024, 1024), torch.randn(32, 64, 28, 28), torch.randn(8, 256, 14, 14)
mask, marked, f16, bf16 = line > 0, square > 1, square.half(), square.bfloat16()
permuted = torch.randn(64, 8, 16, 32).permute(3, 1, 0, 2)
w1, w3, depthwise, wide = torch.randn(64, 64, 1, 1), torch.randn(64, 64, 3, 3), torch.randn(64, 1, 3, 3), torch.randn(256, 256, 3, 3)
scale, shift = torch.ones(64), torch.zeros(64)

jobs = {
    "pow_2": lambda: line.pow(2),
    "pow_3": lambda: line.pow(3),
    "exp": lambda: line.exp(),
    "log": lambda: positive.log(),
    "log1p": lambda: positive.log1p(),
    "sin": lambda: line.sin(),
    "tanh": lambda: line.tanh(),
    "erf": lambda: line.erf(),
    "gelu": lambda: F.gelu(line),
    "silu": lambda: F.silu(line),
    "sigmoid": lambda: line.sigmoid(),
    "clamp": lambda: line.clamp(-1, 1),
    "where": lambda: torch.where(mask, line, positive),
    "add": lambda: line + line,
    "add_permuted": lambda: permuted + permuted,
    "add_transposed": lambda: square + square.t(),
    "permute": lambda: permuted.contiguous(),
    "transpose": lambda: square.t().contiguous(),
    "cat": lambda: torch.cat((square, square), 1),
    "sum": lambda: line.sum(),
    "sum_columns": lambda: square.sum(0),
    "sum_rows": lambda: square.sum(1),
    "argmax": lambda: square.argmax(1),
    "cumsum": lambda: square.cumsum(1),
    "softmax": lambda: square.softmax(1),
    "topk": lambda: line.topk(10),
    "sort": lambda: line.sort(),
    "sort_rows": lambda: square.sort(1),
    "nonzero": lambda: marked.nonzero(),
    "masked_select": lambda: line.masked_select(mask),
    "rand": lambda: torch.rand(1 << 20),
    "randn": lambda: torch.randn(1 << 20),
    "randint": lambda: torch.randint(0, 100, (1 << 20,)),
    "randperm": lambda: torch.randperm(1 << 20),
    "avg_pool_all": lambda: F.adaptive_avg_pool2d(image, 1),
    "group_norm": lambda: F.group_norm(image, 8, scale, shift),
    "conv_1x1": lambda: F.conv2d(image, w1),
    "conv_3x3": lambda: F.conv2d(image, w3, padding=1),
    "conv_deep": lambda: F.conv2d(deep, wide, padding=1),
    "conv_depthwise": lambda: F.conv2d(image, depthwise, padding=1, groups=64),
    "matmul": lambda: square @ square,
    "matmul_transposed": lambda: square.t() @ square,
    "matmul_f16": lambda: f16 @ f16,
    "matmul_bf16": lambda: bf16 @ bf16,
    "item": lambda: one.item(),
}


def ours(job):
    situ.stdin.write(job + "\n")
    situ.stdin.flush()
    answer = situ.stdout.readline()
    if not answer:
        sys.exit(f"ops serve: {job} failed")
    return float(answer)


def theirs(call):
    calls, begin = 0, time.process_time()
    while True:
        call()
        calls += 1
        taken = time.process_time() - begin
        if taken >= 2e-3:
            return taken / calls


def measure(job, rounds=21, most=1.5):
    times, begin = [], time.monotonic()
    while len(times) < rounds + 2 and (len(times) < 7 or time.monotonic() - begin < most):
        times.append((ours(job), theirs(jobs[job])))
    ratio = statistics.median(b / a for a, b in times[2:])  # the first ones warm up
    mine, other = (statistics.median(t[k] for t in times[2:]) for k in (0, 1))
    print(f"{job:20s} situ {1e6 * mine:10.2f} us   torch {1e6 * other:10.2f} us   {ratio:6.2f}x")
    print(json.dumps({"goal": "H2", "what": job, "ratio": ratio, "must": 1, "torch": torch.__version__}))
    sys.stdout.flush()
    return ratio


with torch.no_grad():
    ratios = [measure(job) for job in sys.argv[2:] or jobs]
mean = math.exp(statistics.mean(map(math.log, ratios)))
print(f"{len(ratios)} jobs: geometric mean {mean:.2f}x (must 2), {sum(r < 1 for r in ratios)} below 1.0 (must 0)")
situ.stdin.close()
situ.wait()
