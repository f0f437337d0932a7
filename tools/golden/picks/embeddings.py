"""Hand-picked cases of embeddings with limits, and of bags of embeddings.
SPDX-License-Identifier: MIT"""
import torch

from picks import FLOATS, INF, NAN, pick, r, t, turned, values

i = torch.tensor


def embeddings():
    limits()
    for mode in ("sum", "mean", "max"):
        bags(mode)
    weighted()


def limits():
    one, two, none = i([1, 0, 4, 1, 1]), i([[1, 2], [4, 4]]), torch.zeros(0, dtype=torch.int64)
    for index in (one, two, none, i(3), one.int(), turned(torch.randint(0, 5, (2, 3)))):
        pick("embedding_limited", index, r(5, 3), max_norm=1.0)
        pick("embedding_limited", index, r(5, 3), scale_grad_by_freq=True, variant="frequency")
        pick("embedding_limited", index, turned(r(5, 3)), 1, max_norm=0.5, scale_grad_by_freq=True, variant="all")
    for norm in (0.5, 1.0, 3.0, INF, -1.0):
        pick("embedding_limited", one, r(5, 3), max_norm=0.75, norm_type=norm, variant="norm")
    pick("embedding_limited", one, t(3.0, 4.0, 0.0, 0.0, 6.0, 8.0, 1.0, 1.0, 0.3, 0.4).reshape(5, 2), max_norm=5.0,
         variant="edge")
    pick("embedding_limited", i([0, 1, 2]), t(NAN, 1.0, INF, 1.0, -0.0, 9.0).reshape(3, 2), max_norm=2.0, grad=False,
         variant="special")
    for dtype in FLOATS[1:]:
        pick("embedding_limited", one, values(5, 3, dtype=dtype), max_norm=1.0, variant="dtype")


def bags(mode):
    index, offsets = i([1, 0, 4, 1, 1, 3, 2]), i([0, 2, 2, 6])
    how = dict(mode=mode)
    for o in (offsets, i([0]), i([0, 0, 7]), offsets.int()):
        pick("embedding_bag", index.to(o.dtype), r(5, 3), o, **how)
        pick("embedding_bag", index.to(o.dtype), turned(r(5, 3)), o, **how, padding_idx=1, variant="padding")
    pick("embedding_bag", index, r(5, 3), i([0, 1, 1, 7]), **how, include_last_offset=True, variant="last")
    pick("embedding_bag", index, r(5, 3), i([0, 3, 7]), **how, include_last_offset=True, padding_idx=4, variant="last")
    pick("embedding_bag", index[:0], r(5, 3), i([0, 0]), **how, grad=False, variant="empty")
    for two in (i([[1, 2, 0], [4, 4, 1]]), turned(torch.randint(0, 5, (3, 4))), i([[3]])):
        pick("embedding_bag", two, r(5, 3), **how, variant="rows")
        pick("embedding_bag", two, r(5, 1), **how, padding_idx=4, variant="rows")
    pick("embedding_bag", i([[2, 2], [2, 1]]), r(5, 3), **how, padding_idx=2, variant="all padding")
    pick("embedding_bag", i([0, 1, 2, 1, 0]), t(1.0, 5.0, 1.0, 2.0, 0.0, 5.0).reshape(3, 2), i([0, 3]), **how,
         variant="ties")
    pick("embedding_bag", index, r(5, 3), offsets, 1.0, **how, variant="max_norm")
    pick("embedding_bag", index, r(5, 3), offsets, 0.5, 1.0, **how, padding_idx=1, variant="max_norm")
    if mode != "max":
        pick("embedding_bag", index, r(5, 3), offsets, scale_grad_by_freq=True, **how, variant="frequency")
        pick("embedding_bag", index, r(5, 3), offsets, scale_grad_by_freq=True, **how, padding_idx=1, variant="frequency")
    for dtype in FLOATS[1:]:
        pick("embedding_bag", index, values(5, 3, dtype=dtype), offsets, **how, variant="dtype")


def weighted():
    index, offsets = i([1, 0, 4, 1, 1, 3, 2]), i([0, 2, 2, 6])
    for padding in (None, 1):
        how = dict(mode="sum", padding_idx=padding)
        pick("embedding_bag", index, r(5, 3), offsets, per_sample_weights=r(7), **how, variant="weights")
        pick("embedding_bag", index[:6].reshape(2, 3), r(5, 3), per_sample_weights=turned(r(2, 3)), **how,
             variant="weights")
        pick("embedding_bag", index, r(5, 3), i([0, 4, 7]), per_sample_weights=r(7), include_last_offset=True, **how,
             variant="weights")
    pick("embedding_bag", index, r(5, 3), offsets, per_sample_weights=r(7), mode="sum", scale_grad_by_freq=True,
         variant="weights")
    for dtype in FLOATS[1:]:
        pick("embedding_bag", index, values(5, 3, dtype=dtype), offsets, per_sample_weights=values(7, dtype=dtype),
             mode="sum", variant="weights")
