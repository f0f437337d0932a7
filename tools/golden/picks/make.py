"""Hand-picked cases of factories.
SPDX-License-Identifier: MIT"""
import torch

from picks import ALL, FLOATS, INTS, NAN, INF, ints, pick, r, special, t, turned, values


def make():
    sizes = ([], [0], [1], [3], [2, 3], [2, 0, 3], [2, 1, 2, 1, 2, 1, 2, 1])
    for name in ("zeros", "ones", "empty", "rand", "randn"):
        for size in sizes:
            pick(name, size, variant="size")
        for dtype in FLOATS if name.startswith("rand") else ALL:
            pick(name, [2, 2], dtype=dtype, variant="dtype")
    for size in sizes:
        pick("full", size, 2.5, dtype=torch.float32, variant="size")
        pick("randint", 0, 10, size, variant="size")
    for dtype in ALL:
        pick("full", [3], 1, dtype=dtype, variant="dtype")
        pick("randint", 0, 2, [3], dtype=dtype, variant="dtype") if dtype != torch.bool else None
        pick("fill_", values(2, 3, dtype=dtype), 1, variant="dtype")
        pick("zero_", values(2, 3, dtype=dtype), variant="dtype")
        pick("full_like", values(2, 3, dtype=dtype), 1, variant="dtype")
        pick("zeros_like", values(2, 3, dtype=dtype), variant="dtype")
        pick("ones_like", values(2, 3, dtype=dtype), variant="dtype")
        pick("empty_like", values(2, 3, dtype=dtype), variant="dtype")
    for value in (NAN, INF, -INF, -0.0, 1e300):
        pick("full", [3], value, dtype=torch.float64, variant="special", flags=2)
        pick("fill_", r(2, 2, dtype=torch.float64), value, variant="special", flags=2)
    pick("full", [2], 3.75, dtype=torch.int64, variant="truncated")
    pick("full", [2], -3.75, dtype=torch.int32, variant="truncated")
    for x in (turned(r(3, 4)), r(2, 6)[:, ::2], r(0, 3), r()):
        pick("fill_", x, 1.5, grad=False, variant="strided")
        pick("zero_", x, grad=False, variant="strided")
        pick("fill_", x, 1.5, variant="grad")
        pick("zero_", x, variant="grad")
    for n in (0, 1, 7):
        pick("randperm", n)
    for dtype in (torch.float32, torch.int32, torch.int64):
        pick("randperm", 5, dtype=dtype, variant="dtype")
    for p in (0.0, 1.0):
        for dtype in FLOATS:
            pick("bernoulli", torch.full((2, 3), p, dtype=dtype), variant="certain", grad=False)
    pick("bernoulli", r(0, 2, lo=0, hi=1), variant="empty", grad=False)
    for args in ((5, ), (0, ), (2, 7), (7, 2, -2), (7, 2, -1), (0.5, 3), (0, 1, 0.1), (1, 2, 0.25), (3, 3),
                 (-2.5, 2.5, 0.5)):
        pick("arange", *args, variant="given")
        for dtype in (torch.float64, torch.float16, torch.bfloat16):
            pick("arange", *args, dtype=dtype, variant="dtype")
    for dtype in (torch.int32, torch.uint8, torch.int64, torch.float32):
        pick("arange", 1, 9, 2, dtype=dtype, variant="dtype")
    for args in ((0, 1, 5), (0, 1, 1), (0, 1, 0), (-1.5, 2.25, 7), (3, -3, 4), (0, 10, 11), (1e8, 2e8, 3)):
        for dtype in FLOATS if args[0] < 1e6 else FLOATS[:2]:
            pick("linspace", *args, dtype=dtype)
    for args in ((3, ), (0, ), (2, 4), (4, 2), (1, 1), (3, 0)):
        for dtype in (torch.float32, torch.int64, torch.bool):
            pick("eye", *args, dtype=dtype)
    for name in ("tril", "triu"):
        for k in (-9, -2, -1, 0, 1, 2, 9):
            pick(name, r(3, 4), k, variant="diagonal")
            pick(name, turned(r(2, 4, 3)), k, variant="batch")
        for dtype in ALL:
            pick(name, values(3, 3, dtype=dtype), variant="dtype")
        pick(name, r(0, 3), variant="empty")
        pick(name, r(2, 0, 3), variant="empty")
        pick(name, special().reshape(5, 5), variant="special")
    for name in ("rand_like", "randn_like"):
        pick(name, turned(r(3, 2)), variant="strided")
        pick(name, r(), variant="scalar")
    pick("randint_like", ints(2, 3), 0, 9)
    pick("randint_like", t(1.0, 2.0), 0, 9)
