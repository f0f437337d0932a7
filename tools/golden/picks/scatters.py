"""Hand-picked cases of reductions by index, and of parts and elements written into a copy.
SPDX-License-Identifier: MIT"""
import torch

from picks import INF, INTS, NAN, FLOATS, ints, maybe, pick, r, t, turned, values

i = torch.tensor
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def scatters():
    for reduce in REDUCTIONS:
        for self in (True, False):
            reductions(reduce, self)
    elements()
    parts()


def reductions(reduce, self):
    index = i([[0, 2, 0, 0, 2], [1, 1, 1, 1, 1], [3, 0, 3, 0, 3]])
    how = dict(include_self=self)
    pick("scatter_reduce", r(3, 4), 1, index, r(3, 5), reduce, **how)
    pick("scatter_reduce", turned(r(4, 6)), 0, index, turned(r(3, 5)), reduce, **how, variant="turned")
    pick("scatter_reduce", r(3, 4), -1, index[:2, :3], r(3, 5), reduce, **how, variant="larger", grad=False)
    pick("scatter_reduce", r(3, 4), 1, index[:, :0], r(3, 0), reduce, **how, variant="empty")
    pick("scatter_reduce", ints(3, 4).float(), 1, index, ints(3, 5, lo=-1, hi=2).float(), reduce, **how, variant="ties")
    pick("scatter_reduce", r(6), 0, i([5] * 9 + [1]), t(0, 2, 3, 0.5, 1, -1, 1, 2, 3, 0.0), reduce, **how, variant="zeros")
    pick("scatter_reduce", t(0.0, 1.0, 2.0), 0, i([0, 1, 1]), t(3.0, 0.0, 0.0), reduce, **how, variant="zeros")
    pick("scatter_reduce", t(1.0, NAN, 2.0, INF), 0, i([0, 1, 2, 3, 0]), t(NAN, 1.0, INF, -INF, 3.0), reduce, **how,
         variant="special", grad=False)
    for dtype in FLOATS + INTS:
        maybe("scatter_reduce", values(3, 4, dtype=dtype), 1, index, values(3, 5, dtype=dtype), reduce, **how,
              variant="dtype", grad=dtype in FLOATS[:2])
    pick("scatter_reduce_", r(3, 4), 1, index, r(3, 5), reduce, **how)
    if reduce != "sum":
        pick("index_reduce", r(3, 4), 0, i([0, 2, 0, 0]), r(4, 4), reduce, **how)
        pick("index_reduce", turned(r(3, 4)), 1, i([3, 3, 1, 3, 3]), r(3, 5), reduce, **how, variant="turned")
        pick("index_reduce", r(4), 0, i([1, 1, 2]), r(3), reduce, **how, variant="line")
        pick("index_reduce_", r(3, 4), 0, i([0, 2, 0, 0]), r(4, 4), reduce, **how)


def elements():
    for index in (i([0, 5, -1]), i([[2, 2], [-6, 0]]), i(3), i([], dtype=torch.int64)):
        pick("take", r(2, 3), index)
        pick("take", turned(r(2, 3)), index, variant="turned")
        pick("put", r(2, 3), index, r(*index.shape), True)
        pick("put_", r(2, 3), index, r(*index.shape), True)
    for accumulate in (False, True):
        pick("put", turned(r(2, 3)), i([[4, 1], [0, -1]]), r(4), accumulate, variant="turned")
        pick("put_", turned(r(2, 3)), i([4, 1, 0]), r(3), accumulate, variant="turned")
    for dtype in FLOATS + INTS + (torch.bool, ):
        pick("take", values(2, 3, dtype=dtype), i([1, 4]), variant="dtype")
        pick("masked_scatter", values(2, 3, dtype=dtype), i([True, False, True]), values(5, dtype=dtype), variant="dtype")
    mask = i([[True, False, True], [False, False, True]])
    for name in ("masked_scatter", "masked_scatter_"):
        pick(name, r(2, 3), mask, r(3))
        pick(name, turned(r(2, 3)), mask, r(3, 4), variant="turned")
        pick(name, r(2, 3), mask[0], r(2, 2), variant="broadcast")
        pick(name, r(2, 3), ~mask & mask, r(0), variant="empty", grad=False)
        pick(name, r(2, 3), i(True), r(6), variant="scalar")
    pick("masked_scatter", r(3), mask, r(2, 3), variant="broadcast")


def parts():
    for x in (r(4, 5), turned(r(4, 5))):
        pick("slice_scatter", x, r(2, 5), 0, 1, 3)
        pick("slice_scatter", x, r(4, 2), 1, 0, 4, 2)
        pick("slice_scatter", x, r(4, 2), -1, -2)
        pick("slice_scatter", x, r(0, 5), 0, 2, 1, variant="empty")
        pick("select_scatter", x, r(4), 1, -1)
        pick("select_scatter", x, r(5), 0, 2)
        for offset, n in ((0, 4), (2, 3), (-1, 3)):
            pick("diagonal_scatter", x, r(n), offset)
    pick("diagonal_scatter", r(2, 3, 4), r(3, 2), 1, 0, -1)
