"""Hand-picked cases of matrix products.
SPDX-License-Identifier: MIT"""
import torch

from picks import FLOATS, INF, INTS, NAN, ints, maybe, pick, r, stepped, t, turned, values

MATMUL = (([3], [3]), ([3, 4], [4]), ([3], [3, 4]), ([2, 3], [3, 4]), ([2, 3, 4], [4]), ([4], [2, 4, 3]),
          ([2, 3, 4], [4, 5]), ([3, 4], [2, 4, 5]), ([2, 3, 4], [2, 4, 5]), ([2, 1, 3, 4], [5, 4, 2]),
          ([1, 3, 4], [2, 4, 2]), ([2, 3, 4], [1, 4, 2]), ([2, 2, 3, 4], [2, 2, 4, 3]), ([3, 1, 2,
                                                                                          4], [1, 2, 4, 2]),
          ([4], [4, 1]), ([1, 4], [4, 1]), ([1, 1], [1, 1]), ([2, 1, 4], [4]), ([5, 2, 3, 4], [4]),
          ([3], [2, 2, 3,
                 2]), ([0], [0]), ([0, 3], [3, 2]), ([2, 0], [0, 3]), ([3, 2], [2, 0]), ([0, 2, 3], [3, 2]),
          ([2, 0, 3], [2, 3, 2]), ([2, 3, 0], [2, 0, 2]), ([2, 3, 0], [0]), ([0, 2, 3], [0, 3, 2]))
FIXED = {
    "mm": (([2, 3], [3, 4]), ([1, 5], [5, 1]), ([4, 1], [1, 4]), ([0, 3], [3, 2]), ([2, 0], [0, 3]),
           ([3, 3], [3, 0]), ([17, 9], [9, 5])),
    "bmm": (([2, 2, 3], [2, 3, 4]), ([1, 1, 5], [1, 5, 1]), ([0, 2, 3], [0, 3, 4]), ([2, 0, 3], [2, 3, 4]),
            ([2, 3, 0], [2, 0, 2]), ([3, 5, 4], [3, 4, 2])),
    "mv": (([2, 3], [3]), ([1, 4], [4]), ([4, 1], [1]), ([0, 3], [3]), ([3, 0], [0]), ([9, 7], [7])),
    "dot": (([3], [3]), ([1], [1]), ([0], [0]), ([33], [33]), ([5], [5]), ([8], [8])),
    "outer": (([3], [4]), ([1], [1]), ([0], [3]), ([3], [0]), ([1], [5]), ([6], [2]))
}


def layouts(shape):
    """The layouts that a matrix operand can have."""
    x = r(*shape)
    yield "plain", x
    yield "stepped", stepped(x)
    if len(shape) > 1:
        yield "turned", turned(x)
        yield "expanded", r(*((1, ) + tuple(shape[1:]))).expand(shape)
        yield "offset", r(*(n + 1 for n in shape))[tuple(slice(1, None) for _ in shape)]


def linalg():
    for a, b in MATMUL:
        pick("matmul", r(*a), r(*b), variant="ranks")
        if 0 not in a + b:
            pick("matmul",
                 turned(r(*a)) if len(a) > 1 else stepped(r(*a)),
                 turned(r(*b)) if len(b) > 1 else stepped(r(*b)), variant="ranks strided")
            pick("matmul", r(*a, dtype=torch.float64), r(*b, dtype=torch.float64), variant="ranks f64")
    pick("matmul", r(2, 1, 1, 3, 4), r(1, 2, 1, 4, 2), variant="five dims")
    for name, shapes in FIXED.items():
        for a, b in shapes:
            pick(name, r(*a), r(*b), variant="sizes")
            pick(name, r(*a, dtype=torch.float64), r(*b, dtype=torch.float64), variant="sizes f64")
        a, b = shapes[0]
        for form_a, x in layouts(a):
            for form_b, y in layouts(b):
                pick(name, x, y, variant=form_a + " " + form_b)
        for dtype in FLOATS[2:]:
            pick(name, values(*a, dtype=dtype), values(*b, dtype=dtype), variant="dtype")
        for dtype in INTS:
            maybe(name, values(*a, dtype=dtype), values(*b, dtype=dtype), variant="dtype")
    for name in ("matmul", "mm"):
        pick(name, torch.tensor([[NAN, 1.0], [INF, 2.0]]), torch.tensor([[1.0, 0.0], [2.0, 3.0]]),
             variant="special")
        pick(name, r(70, 3), r(3, 2), variant="tall")
        pick(name, r(3, 150), r(150, 2), variant="long")
        pick(name, r(33, 17), r(17, 19), variant="odd")
    pick("dot", t(NAN, 1.0), t(0.0, 2.0), variant="special")
    for dtype in INTS:
        maybe("matmul", values(2, 3, dtype=dtype), values(3, 2, dtype=dtype), variant="dtype")
    adding()
    linear()


def adding():
    for name, lead in (("addmm", ()), ("baddbmm", (2, ))):
        a, b = r(*lead, 3, 5), r(*lead, 5, 4)
        for x in (r(*lead, 3, 4), r(4), r(3, 1), r(1), r(), turned(r(*lead, 3, 4))):
            pick(name, x, a, b, variant="broadcast")
        for beta, alpha in ((1, 1), (0.5, 2.0), (0, 1), (1, 0), (0, 0), (-1, 0.25), (2, -3)):
            if beta or name == "addmm":
                pick(name, r(*lead, 3, 4), turned(a), turned(b), beta=beta, alpha=alpha, variant="factors")
        if name == "addmm":
            pick(name, torch.full((3, 4), NAN), a, b, beta=0, variant="beta 0 hides nan", grad=False)
        pick(name, r(*lead, 3, 4), r(*lead, 3, 0), r(*lead, 0, 4), variant="empty")
        pick(name, r(*lead, 0, 4), r(*lead, 0, 5), b, variant="empty")
        for dtype in FLOATS[1:]:
            pick(name, values(*lead, 3, 4, dtype=dtype), a.to(dtype), b.to(dtype), variant="dtype")
        pick(name, ints(*lead, 3, 4), ints(*lead, 3, 5), ints(*lead, 5, 4), beta=2, alpha=3, variant="dtype")


def linear():
    for shape in ([3], [2, 3], [2, 4, 3], [2, 1, 2, 3], [0, 3], [1, 3]):
        for bias in (None, r(5)):
            pick("linear", r(*shape), r(5, 3), bias)
            if len(shape) > 1:
                pick("linear", turned(r(*shape)), turned(r(5, 3)), bias, variant="turned")
    pick("linear", r(2, 3), r(1, 3), r(1), variant="one output")
    pick("linear", r(2, 0), r(4, 0), r(4), variant="no inputs")
    pick("linear", r(10, 20), r(7, 20), r(7), variant="larger")
    pick("linear", r(2, 3), stepped(r(5, 3)), stepped(r(5)), variant="stepped")
    pick("linear", torch.tensor([[NAN, 1.0], [1.0, INF]]), r(3, 2), r(3), variant="special")
    for dtype in FLOATS[1:]:
        pick("linear", values(2, 3, dtype=dtype), values(4, 3, dtype=dtype), values(4, dtype=dtype),
             variant="dtype")
