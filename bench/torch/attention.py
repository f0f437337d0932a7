# Attention beside PyTorch's, f32, one thread, taking turns. Processor time, medians; peaks of resident memory.
# Usage: attention.py LIBSITU.SO [ROUNDS]     (bench/attention is looked for beside the library)
# SPDX-License-Identifier: MIT
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
program = os.path.join(os.path.dirname(sys.argv[1]), "bench", "attention")
situ = subprocess.Popen([program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
kept = {}


def ours(job):
    situ.stdin.write(" ".join(map(str, job)) + "\n")
    situ.stdin.flush()
    answer = situ.stdout.readline().split()
    if not answer:
        sys.exit(f"bench/attention: {job} failed")
    return tuple(map(float, answer))


def memory(what):
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith(what))


def theirs(job):
    shape, causal, backward = job[:4], bool(job[4]), bool(job[5])
    if shape not in kept:
        kept.clear()
        kept[shape] = [torch.randn(shape, requires_grad=k < 3) for k in range(4)]
    *x, up = kept[shape]
    ctypes.CDLL(None).malloc_trim(0)  # else memory of the last call serves this one
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    there, begin = memory("VmRSS"), time.process_time()
    with torch.set_grad_enabled(backward):
        y = F.scaled_dot_product_attention(*x, is_causal=causal)
    if backward:
        y.backward(up)
    taken, peak = time.process_time() - begin, memory("VmHWM")
    for t in x:
        t.grad = None
    return taken, peak - there


def measure(job):
    times, bytes_ = [], []
    for k in range(rounds + 1):
        both = ours(job), theirs(job)
        if k:  # the first one warms up
            times.append([b[0] for b in both])
            bytes_.append([b[1] for b in both])
    mine, other = (statistics.median(t[k] for t in times) for k in (0, 1))
    held = [max(b[k] for b in bytes_) / 2**20 for k in (0, 1)]
    ratio = statistics.median(b / a for a, b in times)
    what = "x".join(map(str, job[:4])) + (" causal" if job[4] else "") + (" forward+backward" if job[5] else " forward")
    print(f"{what:42s} situ {1e3 * mine:9.2f} ms {held[0]:7.1f} MiB   torch {1e3 * other:9.2f} ms {held[1]:7.1f} MiB   {ratio:5.2f}x")
    print(json.dumps({"goal": "H5", "what": what, "ratio": ratio, "must": 1.2, "situ_mib": held[0], "torch_mib": held[1], "torch": torch.__version__}))
    sys.stdout.flush()


for tokens, batch in ((128, 8), (1024, 8), (4096, int(os.environ.get("SITU_BENCH_BATCH", "8")))):
    for causal in (0, 1):
        for backward in (0, 1):
            measure((batch, 12, tokens, 64, causal, backward))
situ.stdin.close()
situ.wait()
