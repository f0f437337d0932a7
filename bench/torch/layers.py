# Layers beside PyTorch's, f32, one thread, taking turns. Processor time, medians.
# Usage: layers.py LIBSITU.SO [ROUNDS [NAME...]]     (bench/layers is looked for beside the library)
# SPDX-License-Identifier: MIT
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
program = os.path.join(os.path.dirname(sys.argv[1]), "bench", "layers")
situ = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def learns(*shape):
    return torch.randn(shape, requires_grad=True)


class Op:
    """f(x, *more), and its gradients from that of the result"""

    def __init__(self, f, x, *more):
        self.f, self.operands = f, (x, *more)
        with torch.no_grad():
            self.up = torch.randn_like(f(*self.operands))

    def run(self):
        self.f(*self.operands)

    def step(self):
        self.f(*self.operands).backward(self.up)
        for t in self.operands:
            t.grad = None


class Lstm:
    def __init__(self, batch, steps, width, hidden):
        self.net = torch.nn.LSTM(width, hidden, batch_first=True)
        self.optim = torch.optim.Adam(self.net.parameters(), foreach=True)
        self.x, self.target = torch.randn(batch, steps, width), torch.randn(batch, steps, hidden)

    def run(self):
        return self.net(self.x)[0]

    def step(self):
        loss = F.mse_loss(self.run(), self.target)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


def depthwise(k):
    return lambda: Op(lambda x, w: F.conv2d(x, w, groups=64, padding=k // 2), learns(8, 64, 56, 56), learns(64, 1, k, k))


def interpolate(mode):
    return lambda: Op(lambda x: F.interpolate(x, scale_factor=2, mode=mode), learns(8, 64, 28, 28))


i, j = torch.randint(10000, (20000,)), torch.randint(64, (20000,))
mask, rows = torch.randn(10000, 64) > 0, torch.randn(20000, 64)


def index(f):
    return lambda: Op(f, learns(10000, 64))


jobs = {
    "lstm_small": (lambda: Lstm(64, 40, 1, 32), 1.5),
    "lstm_large": (lambda: Lstm(32, 64, 128, 256), 1.5),
    "depthwise_3": (depthwise(3), 1),
    "depthwise_5": (depthwise(5), 1),
    "depthwise_7": (depthwise(7), 1),
    "group_norm": (lambda: Op(lambda x, w, b: F.group_norm(x, 32, w, b), learns(8, 64, 56, 56), learns(64), learns(64)), 1),
    "interpolate_nearest": (interpolate("nearest"), 1),
    "interpolate_bilinear": (interpolate("bilinear"), 1),
    "interpolate_bicubic": (interpolate("bicubic"), 1),
    "index_rows": (index(lambda x: x[i]), 1),
    "index_pairs": (index(lambda x: x[i, j]), 1),
    "index_mask": (index(lambda x: x[mask]), 1),
    "index_put": (index(lambda x: x.index_put((i,), rows)), 1),
    "index_add": (index(lambda x: x.index_put((i,), rows, accumulate=True)), 1),
}


def ours(name, backward, calls):
    situ.stdin.write(f"{name} {backward} {calls}\n")
    situ.stdin.flush()
    answer = situ.stdout.readline()
    if not answer:
        sys.exit(f"bench/layers: {name} failed")
    return float(answer)


def theirs(job, backward, calls):
    begin = time.process_time()
    with torch.set_grad_enabled(bool(backward)):
        for _ in range(calls):
            job.step() if backward else job.run()
    return (time.process_time() - begin) / calls


for name, (make, must) in jobs.items():
    if sys.argv[3:] and name not in sys.argv[3:]:
        continue
    job = make()
    for backward in (0, 1):
        if name == "index_mask" and backward:
            continue  # both masks are random, so the gradients would differ in size
        calls = max(1, int(0.05 / max(theirs(job, backward, 1), theirs(job, backward, 1))))
        pairs = [(ours(name, backward, calls), theirs(job, backward, calls)) for _ in range(rounds + 1)][1:]
        mine, other = (statistics.median(p[k] for p in pairs) for k in (0, 1))
        ratio = statistics.median(b / a for a, b in pairs)
        what = name + (" step" if name.startswith("lstm") and backward else " forward+backward" if backward else " forward")
        print(f"{what:42s} situ {1e3 * mine:9.3f} ms   torch {1e3 * other:9.3f} ms   {ratio:5.2f}x   must {must}")
        print(json.dumps({"goal": "layers", "what": what, "ratio": ratio, "must": must, "torch": torch.__version__}))
        sys.stdout.flush()
situ.stdin.close()
situ.wait()
