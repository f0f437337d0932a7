"""Hand-picked cases of elementary functions of two tensors.
SPDX-License-Identifier: MIT"""
import itertools

import torch

from picks import FLOATS, INF, INTS, NAN, SIGNED_ZERO, ints, maybe, pick, r, special, stepped, t, turned, values
from table.pairs import IN_PLACE, REAL, INTEGER

EDGES = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5)
DTYPES = FLOATS[:1] + FLOATS[2:] + (torch.int64, torch.uint8)


def pairs():
    for name in REAL + ["special_xlog1py", "nextafter"]:
        floating(name)
    for name in INTEGER:
        whole(name)
    for name in IN_PLACE:
        if name in INTEGER:
            pick(name + "_", ints(3, 4, lo=0), ints(4, lo=0), variant="broadcast")
            maybe(name + "_", ints(3, 4, lo=0), ints(3, 4, lo=0, dtype=torch.int32), variant="promote")
        else:
            pick(name + "_", r(3, 4), r(4), variant="broadcast")
            pick(name + "_", turned(r(3, 4)), ints(3, 4), variant="promote")
    for dtype in FLOATS + INTS + (torch.bool, ):
        pick("signbit", special(dtype) if dtype in FLOATS else values(5, dtype=dtype))


def floating(name):
    grad = name != "nextafter"
    for a, b in (((), ()), ((0, 3), (3, )), ((3, 4), (4, )), ((3, 1), (1, 4)), ((2, 1, 5), ())):
        pick(name, r(*a), r(*b, lo=0.1, hi=3), variant="shape", grad=grad)
    pick(name, turned(r(3, 4)), stepped(r(3, 4, lo=0.1, hi=3)), variant="strides", grad=grad)
    for a, b in itertools.product(DTYPES, DTYPES):
        if grad or torch.float32 in (a, b):
            maybe(name, values(2, 5, dtype=a), values(2, 5, dtype=b).abs(), variant="promote", grad=grad)
    pick(name, r(2, 9, dtype=torch.float64), r(9, dtype=torch.float64), variant="f64", grad=grad)
    first, second = zip(*itertools.product(EDGES, EDGES))
    pick(name, t(*first), t(*second), variant="special", flags=SIGNED_ZERO, grad=False)
    finite = [0.0, -0.0, 1.0, -1.0, 2.5]
    first, second = zip(*itertools.product(finite, finite))
    pick(name, t(*first), t(*second), variant="edge", grad=grad)
    pick(name, t(3e38, -3e38, 1e-40, 100.0, -200.0), t(2e38, 1.0, 1e-42, -100.0, 100.0), variant="range", grad=False)


def whole(name):
    for dtype in INTS:
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        ends = (least, least + 1, 0, 1, 6, 7, 64, most)
        if name in ("gcd", "lcm"):  # torch's overflow at the ends
            ends = (0, 1, 6, 9, 12)
        first, second = zip(*itertools.product(ends, ends))
        pick(name, t(*first, dtype=dtype), t(*second, dtype=dtype), variant="edge")
        pick(name, ints(3, 4, dtype=dtype), ints(4, dtype=dtype), variant="broadcast")
        pick(name, values(2, 3, dtype=torch.bool), ints(2, 3, dtype=dtype), variant="bool")
    pick(name, turned(ints(3, 4)), stepped(ints(3, 4, dtype=torch.int32)), variant="strides")
