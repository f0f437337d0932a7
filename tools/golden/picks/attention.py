"""Hand-picked cases of attention: lengths around blocks of keys, heads that share a key, odd features.
SPDX-License-Identifier: MIT"""
import torch

from picks import INF, pick, r, turned


def attention():
    name = "attention"
    for length, source, width, out in ((1, 70, 8, 8), (3, 130, 3, 1), (27, 5, 1, 6), (2, 2, 80, 20)):
        q, k, v = r(1, 2, length, width), r(1, 2, source, width), r(1, 2, source, out)
        pick(name, q, k, v, variant="long")
        pick(name, q, k, v, is_causal=True, variant="long causal")
    q, k, v = r(2, 4, 5, 3), r(2, 2, 6, 3), r(2, 2, 6, 4)
    masks = [torch.rand(shape) > 0.4 for shape in ((5, 6), (2, 1, 5, 6), (2, 4, 5, 6), (2, 1, 1, 6))]
    pick(name, q, k, v, enable_gqa=True, variant="groups")
    pick(name, q, k[:, :1], v[:, :1], enable_gqa=True, variant="groups one")
    pick(name, q, k, v, is_causal=True, enable_gqa=True, variant="groups causal")
    pick(name, turned(q), turned(k), turned(v), enable_gqa=True, scale=0.3, variant="groups turned")
    for mask in masks:
        mask[..., 0] = True
        pick(name, q, k, v, mask, enable_gqa=True, variant="groups bool mask")
        pick(name, q, k, v, torch.where(mask, 0.5, -INF), enable_gqa=True, variant="groups float mask")
    hidden = masks[0].clone()
    hidden[2] = False
    pick(name, q, k, v, hidden, enable_gqa=True, variant="groups hidden row")
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        pick(name, q.to(dtype), k.to(dtype), v.to(dtype), enable_gqa=True, variant="groups dtype")
