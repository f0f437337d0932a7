# Attention of bench/attention.c beside PyTorch's, f32, one thread, taking turns. Processor time, medians; the most by
# which resident memory grew. H5: the time, and the memory beside PyTorch's.
# Usage: attention.py LIBSITU.SO [TOKENS...]     (128, 1024, 4096; $SITU_BENCH_BATCH: the batch of 4096)
# SPDX-License-Identifier: MIT
import ctypes
import json
import os
import sys
import time

import torch
import torch.nn.functional as F
from support.turns import Server, in_turn, say

torch.set_num_threads(1)
situ = Server(sys.argv[1], "attention")
kept = {}


def memory(what):
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith(what))


def operands(batch, heads, tokens, features, kind):
    key = batch, tokens, kind == "gqa"
    if key not in kept:
        kept.clear()
        shapes = [(batch, heads // 4 if kind == "gqa" and k in (1, 2) else heads, tokens, features) for k in range(4)]
        kept[key] = [torch.randn(shape, requires_grad=k < 3) for k, shape in enumerate(shapes)] + [torch.randn(tokens, tokens)]
    return kept[key]


def theirs(batch, heads, tokens, features, kind, backward):
    *x, up, mask = operands(batch, heads, tokens, features, kind)
    ctypes.CDLL(None).malloc_trim(0)  # else memory of the last call serves this one
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    there, begin = memory("VmRSS"), time.process_time()
    with torch.set_grad_enabled(bool(backward)):
        y = F.scaled_dot_product_attention(*x, attn_mask=mask if kind == "mask" else None, is_causal=kind == "causal",
                                           dropout_p=0.1 if kind == "dropout" else 0, enable_gqa=kind == "gqa")
    if backward:
        y.backward(up)
    taken, peak = time.process_time() - begin, memory("VmHWM")
    for t in x:
        t.grad = None
    return taken, peak - there


for tokens, batch in ((128, 8), (1024, 2), (4096, int(os.environ.get("SITU_BENCH_BATCH", "1")))):
    if sys.argv[2:] and str(tokens) not in sys.argv[2:]:
        continue
    for kind in ("plain", "causal", "mask", "dropout", "gqa"):
        for backward in (0, 1):
            job = (batch, 12, tokens, 64, kind, backward)
            pairs = in_turn(lambda: situ.ask(*job), lambda: theirs(*job), 15, 4, 3)
            what = f"{batch}x12x{tokens}x64 {kind}" + (" f+b" if backward else "")
            say("H5", what, [(a[0], b[0]) for a, b in pairs], 1.2)
            held = [round(max(pair[k][1] for pair in pairs) / 2**20, 1) for k in (0, 1)]
            print(f"     memory: situ {held[0]:.1f} MiB, torch {held[1]:.1f} MiB")
            # Less than a MiB is what both sides' caches do.
            print(json.dumps({"goal": "H5", "what": what + ", memory", "ratio": max(held[0], 1) / max(held[1], 1), "must": 1,
                              "at_most": True, "situ_mib": held[0], "torch_mib": held[1]}), flush=True)
situ.end()
