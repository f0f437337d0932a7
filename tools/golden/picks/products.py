"""Hand-picked cases of products and running sums that situ makes of others.
SPDX-License-Identifier: MIT"""
import torch

from picks import FLOATS, INF, ints, pick, r, t, turned


def products():
    for factors in (dict(), dict(beta=0.5, alpha=-2.0), dict(beta=0.0), dict(alpha=0.0)):
        pick("addr", r(3, 4), r(3), r(4), **factors)
        pick("addmv", r(3), turned(r(3, 4)), r(4), **factors)
        pick("addbmm", r(3, 2), r(5, 3, 4), turned(r(5, 4, 2)), **factors)
    pick("addbmm", r(2), r(0, 3, 4), r(0, 4, 2), variant="empty")
    pick("addr", ints(3, 2), ints(3), ints(2), beta=2, alpha=3, variant="whole")
    for a, b in (((4, ), (4, )), ((2, 4), (3, 4)), ((), (3, )), ((2, 3, 4), (4, )), ((2, 0), (3, 0))):
        pick("inner", r(*a), r(*b))
    for dim in (0, -1, 1):
        pick("linalg_cross", r(3, 3, 3), turned(r(3, 3, 3)), dim)
    pick("linalg_cross", r(2, 3), r(1, 3), -1, variant="broadcast")
    pick("linalg_cross", ints(2, 3), ints(2, 3), -1, variant="whole")
    pick("linalg_vecdot", r(2, 3, 4), turned(r(3, 4)), dim=-1)
    pick("linalg_vecdot", r(2, 3), r(2, 3), dim=0)
    for dim in (0, 1, -1):
        pick("logcumsumexp", r(3, 9), dim)
        pick("logcumsumexp", turned(r(3, 5)), dim, variant="turned")
    for dtype in FLOATS:
        pick("logcumsumexp", r(7, dtype=dtype), 0, variant="dtype")
    pick("logcumsumexp", t(-INF, 100.0, 300.0, -300.0, INF), 0, variant="range", grad=False)
    pick("logcumsumexp", r(), 0, variant="scalar")
    pick("logcumsumexp", r(0, 3), 0, variant="empty")
    for name in ("trapezoid", "cumulative_trapezoid"):
        for dim in (0, 1, -1):
            pick(name, r(4, 3), dx=0.5, dim=dim)
            pick(name, turned(r(4, 3)), r(4, 3), dim=dim, variant="places")
        pick(name, r(4, 3), r(3), dim=1, variant="line")
        pick(name, r(1, 3), dim=0, variant="one")
        pick(name, ints(5), dx=2.0, variant="whole")
    pick("cartesian_prod", [r(2), r(3), r(2)])
    pick("cartesian_prod", [r(3)], variant="one")
    pick("cartesian_prod", [r(0), r(3)], variant="empty")
    for p in (0.0, 1.0, 2.0, 3.0, INF, -INF):
        pick("linalg_vector_norm", r(3, 4), p, [1], True)
