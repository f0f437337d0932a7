# The products of bench/matmul.c beside PyTorch's, taking turns on one thread. Processor time, medians. H3: f32, f64 and
# linear; H4: bf16 and f16.
# Usage: matmul.py LIBSITU.SO [DTYPE...]     (f32, f64, bf16, f16)
# SPDX-License-Identifier: MIT
import sys
import time

import torch
import torch.nn.functional as F
from support.turns import Server, geometric_mean, in_turn, say

torch.set_num_threads(1)
torch.set_grad_enabled(False)
dtypes = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
jobs = ([("f32", n, n, n, kind) for n in (64, 128, 256, 512, 1024, 2048) for kind in ("NN", "NT", "TN")]
        + [("f32", *shape, "LB") for shape in ((32, 1024, 256), (64, 784, 256), (64, 512, 512), (128, 768, 768),
                                               (512, 768, 3072), (1024, 64, 256), (1024, 256, 1024))]
        + [("f64", n, n, n, "NN") for n in (64, 256, 1024)]
        + [(t, n, n, n, kind) for t in ("bf16", "f16") for n in (128, 256, 512, 1024, 2048) for kind in ("NN", "NT", "TN")])


def product(dtype, m, k, n, kind):
    """A call that does the job once."""
    def random(*shape):
        return torch.randn(shape).to(dtypes[dtype])
    if kind == "LB":
        x, w = random(m, k).requires_grad_(), random(n, k).requires_grad_()

        def step():
            with torch.enable_grad():
                y = F.linear(x, w)
                y.backward(y.detach())
            x.grad = w.grad = None
        return step
    a = random(k, m).t() if kind[0] == "T" else random(m, k)
    b = random(n, k).t() if kind[1] == "T" else random(k, n)
    return lambda: torch.matmul(a, b)


def time_of(call):
    calls, begin = 0, time.process_time()
    while True:
        call()
        calls += 1
        taken = time.process_time() - begin
        if taken >= 2e-3:
            return taken / calls


situ = Server(sys.argv[1], "matmul")
ratios = {}
for job in jobs:
    if sys.argv[2:] and job[0] not in sys.argv[2:]:
        continue
    call = product(*job)
    pairs = in_turn(lambda: situ.ask(*job)[0], lambda: time_of(call), 15, 1.5, 5)
    dtype, m, k, n, kind = job
    what = f"{dtype} linear {m}x{k}x{n} f+b" if kind == "LB" else f"{dtype} {kind} {n}"
    goal, must = ("H3", 0.97) if dtype in ("f32", "f64") else ("H4", 1)
    ratios.setdefault(goal, []).append(say(goal, what, pairs, must))
for goal, seen in ratios.items():
    print(f"{goal}: geometric mean {geometric_mean(seen):.2f}x" + (" (must 1.05)" if goal == "H3" else ""))
situ.end()
