"""Hand-picked cases of shape and index ops.
SPDX-License-Identifier: MIT"""
import torch

from picks import ALL, FLOATS, INF, INTS, NAN, ints, maybe, pick, r, special, stepped, t, turned, values


def every_form(name, *args, **kwargs):
    """A 3-dim case in all layouts and dtypes."""
    x = r(2, 3, 4)
    for form, y in (("plain", x), ("turned", turned(x)), ("stepped", stepped(x)),
                    ("permuted", r(4, 2, 3).permute(1, 2, 0)), ("offset", r(3, 4, 5)[1:, 1:, 1:]),
                    ("expanded", r(2, 1, 4).expand(2, 3, 4))):
        maybe(name, y, *args, variant=form, **kwargs)  # view refuses some of the strides
    for dtype in ALL[1:]:
        pick(name, values(2, 3, 4, dtype=dtype), *args, variant="dtype", **kwargs)


def shape():
    views()
    pieces()
    joins()
    moves()
    conversions()


def views():
    for name in ("reshape", "view"):
        for size in ([24], [4, 6], [-1], [2, -1], [2, 3, 4], [1, 2, 3, 1, 4], [3, 8]):
            every_form(name, size) if size in ([24], [2, -1]) else pick(name, r(2, 3, 4), size)
        pick(name, r(), [1], variant="scalar")
        pick(name, r(1, 1), [], variant="scalar")
        pick(name, r(0, 3), [3, 0], variant="empty")
        pick(name, r(4, 6)[:, ::2], [2, 2, 3], variant="mergeable")
    for start, end in ((0, -1), (1, -1), (0, 1), (1, 1), (-2, -1)):
        every_form("flatten", start, end)
    pick("flatten", r(), variant="scalar")
    pick("flatten", r(2, 0, 3), variant="empty")
    pick("squeeze", r(1, 2, 1, 3, 1), variant="all")
    for dim in (0, 1, 2, -1):
        pick("squeeze", r(1, 2, 1), dim, variant="dim")
        pick("squeeze", turned(r(1, 3, 1)), dim if dim < 2 else 0, variant="turned")
    pick("squeeze", r(), variant="scalar")
    pick("squeeze", r(1, 0), 0, variant="empty")
    for dim in (0, 1, 3, -1, -4):
        every_form("unsqueeze", dim)
    pick("unsqueeze", r(), 0, variant="scalar")
    pick("unsqueeze", r(2, 1, 2, 1, 2, 1, 2), 3, variant="to eight")
    for dims in ([2, 0, 1], [0, 1, 2], [-1, 0, -2], [1, 0, 2]):
        every_form("permute", dims)
    pick("permute", r(), [], variant="scalar")
    pick("permute", r(1, 2, 1, 2, 1, 2, 1, 3), [7, 6, 5, 4, 3, 2, 1, 0], variant="eight")
    for a, b in ((0, 1), (0, -1), (1, 1), (-1, -2)):
        every_form("transpose", a, b)
    pick("transpose", r(0, 3), 0, 1, variant="empty")
    for x, size in ((r(3, 1), [3, 4]), (r(1, 3, 1), [2, 3,
                                                     4]), (r(3), [2, 3]), (r(), [2, 3]), (r(3, 1), [-1, 4]),
                    (r(1, 3), [0, 3]), (r(1), [2, 2, 5]), (turned(r(1, 3)), [2, 3]), (r(2, 1,
                                                                                        1), [2, 2, 2, 3])):
        pick("expand", x, size)
    for dim, start, length in ((0, 0, 1), (1, 1, 2), (2, 0, 4), (-1, 3, 1), (1, 3, 0), (0, 0, 2)):
        every_form("narrow", dim, start, length)
    for dim, index in ((0, 0), (0, 1), (1, -1), (-1, 2), (2, 0)):
        every_form("select", dim, index)
    pick("select", r(3), 0, 1, variant="to scalar")
    for args in ((0, 0, 2), (1, 0, 3, 2), (2, 1, 4, 3), (2, -3, -1), (-1, None, None, 2), (1, 5, 9),
                 (1, 2, 1), (0, None, 1), (2, -100, 100, 3)):
        every_form("slice", *args)
    for size, stride, offset in (([2, 3], [3, 1], 0), ([2, 2], [1, 1], 3), ([3], [0], 5),
                                 ([2, 2, 2], [1, 2, 4], 1), ([], [], 4)):
        pick("as_strided", r(4, 6), size, stride, offset)
    pick("as_strided", r(4, 6)[1:], [2, 2], [6, 1], 7, variant="of a view", grad=False)


def pieces():
    for size in (1, 2, 3, 5, [1, 2], [3], [0, 3], [2, 0, 1]):
        for dim in (1, -2):
            pick("split", r(2, 3, 2), size, dim)
    every_form("split", 2, 1)
    every_form("split", [1, 3], -1)
    for chunks in (1, 2, 3, 4, 5, 9):
        pick("chunk", r(7, 2), chunks)
        pick("chunk", r(2, 6), chunks, 1)
    every_form("chunk", 2, 2)
    for dim in (0, 1, -1):
        every_form("unbind", dim)
    pick("unbind", r(4), variant="to scalars")
    pick("split", r(0, 3), 2, variant="empty")
    pick("chunk", r(3, 0), 2, 0, variant="empty")


def joins():
    for dim in (0, 1, -1):
        pick("cat", [r(2, 3, 2), r(2, 3, 2)], dim)
        pick("stack", [r(2, 3), r(2, 3), r(2, 3)], dim)
        pick("stack", [turned(r(2, 3)), r(2, 3)], dim, variant="turned")
    pick("cat", [r(1, 3), r(2, 3), r(4, 3)], 0, variant="unequal")
    pick("cat", [turned(r(2, 3)), stepped(r(2, 4))], 1, variant="strided")
    pick("cat", [r(2, 3)], 0, variant="one")
    pick("cat", [r(0, 3), r(2, 3)], 0, variant="empty")
    pick("cat", [r(0), r(2, 3)], 0, variant="legacy empty")
    pick("cat", [r(1) for _ in range(12)], 0, variant="many")
    pick("stack", [r(), r(), r()], 0, variant="scalars")
    pick("stack", [r(0, 2), r(0, 2)], 1, variant="empty")
    for dtype in ALL[1:]:
        pick("cat", [values(2, 2, dtype=dtype), values(1, 2, dtype=dtype)], variant="dtype")
        pick("stack", [values(2, dtype=dtype), values(2, dtype=dtype)], variant="dtype")
    for a, b in ((torch.float32, torch.float64), (torch.int32, torch.float32), (torch.bool, torch.int64),
                 (torch.uint8, torch.int8), (torch.float16, torch.bfloat16)):
        pick("cat", [values(2, 2, dtype=a), values(2, 2, dtype=b)], variant="promote", grad=False)


def moves():
    for dims in ([0], [1], [0, 2], [-1], [0, 1, 2], []):
        every_form("flip", dims) if dims in ([0], [0, 2]) else pick("flip", r(2, 3, 4), dims)
    pick("flip", r(), [], variant="scalar")
    pick("flip", r(0, 3), [0, 1], variant="empty")
    for shifts, dims in (([1], [0]), ([-1], [1]), ([5], [2]), ([1, 2], [0, 2]), ([3], []), ([-30], []),
                         ([1, 1], [1, 1])):
        every_form("roll", shifts, dims) if dims in ([], [0, 2]) else pick("roll", r(2, 3, 4), shifts, dims)
    pick("roll", r(0, 3), [1], [1], variant="empty")
    for times in ([2, 1], [1, 1], [3, 2], [2, 1, 2], [0, 1], [1, 0]):
        pick("repeat", r(2, 3), times)
        pick("repeat", turned(r(2, 3)), times, variant="turned")
    pick("repeat", r(), [3], variant="scalar")
    pick("repeat", r(), [], variant="scalar")
    for dtype in ALL[1:]:
        pick("repeat", values(2, 2, dtype=dtype), [2, 2], variant="dtype")
    for pad in ([1, 2], [0, 0], [1, 0, 2, 1], [-1, 1], [-1, -1, 1, 0], [0, 1, 0, 1, 1, 0]):
        pick("pad", r(2, 3, 4), pad)
        pick("pad", turned(r(2, 3, 4)), pad, "constant", 2.5, variant="value")
    every_form("pad", [1, 1, 0, 2])
    for mode in ("reflect", "replicate", "circular"):
        for x, pad in ((r(2, 5), [1, 2]), (r(1, 2, 5), [2, 0]), (r(1, 2, 3, 4), [1, 1, 2, 1]),
                       (turned(r(2, 3, 4)), [1, 2]), (r(1, 1, 3, 3, 4), [1, 1, 1, 0, 2, 1])):
            maybe("pad", x, pad, mode, variant=mode)
        pick("pad", r(2, 3, 4, dtype=torch.float64), [1, 1], mode, variant=mode)
    pick("pad", r(2, 3), [0, 1], "constant", NAN, variant="nan")


def conversions():
    for name in ("contiguous", "clone"):
        every_form(name)
        pick(name, r(), variant="scalar")
        pick(name, r(0, 3), variant="empty")
    source = t(0.0, 1.0, -1.0, 1.75, -1.75, 100.0, 0.1, 2.5)
    for a in ALL:
        for b in ALL:
            if b == torch.uint8 and a not in (torch.uint8, torch.bool):
                pick("to", source.abs().to(a), b, variant="dtype")  # negative floats in u8 are undefined in C
            else:
                pick("to", source.to(a) if a != torch.uint8 else source.abs().to(a), b, variant="dtype")
            pick("copy_", values(2, 3, dtype=b),
                 torch.arange(6).reshape(2, 3).to(a), grad=False, variant="dtype")
    for a in FLOATS:
        for b in FLOATS:
            pick("to", special(a), b, variant="special", grad=False)
        pick("to", special(a), torch.bool, variant="special", grad=False)
    for a in INTS[:4]:
        pick("to", torch.tensor([-1, -128, 127, 300, 70000, -70000]).to(a), torch.uint8, variant="wraps")
        pick("to", torch.tensor([-1, -128, 127, 300, 70000, -70000]).to(a), torch.int8, variant="wraps")
    pick("to", turned(r(3, 4)), torch.float64, variant="turned")
    pick("to", r(0, 4), torch.float64, variant="empty")
    for x, src in ((r(3, 4), r(3, 4)), (r(3, 4), r(4)), (r(3, 4), r()), (r(2, 3, 4), r(3, 1)),
                   (r(0, 3), r(3)), (r(), r()), (r(3, 4), turned(r(3, 4))), (r(3, 4), stepped(r(3, 4)))):
        pick("copy_", x, src)
    pick("copy_", turned(r(3, 4)), r(3, 4), grad=False, variant="nograd turned")
    pick("copy_", stepped(r(3, 4)), r(4), grad=False, variant="nograd stepped")


def index():
    picking()
    placing()
    masks()
    tables()


def picking():
    i = torch.tensor([2, 0, 2, 1])
    for dim in (0, 1, -1):
        every_form("index_select", dim, torch.tensor([1, 0, 1]))
        j = torch.randint(0, 2, (2, 3, 2))
        every_form("gather", dim, j)
        j = torch.randint(0, 2, (2, 3, 4))
        every_form("take_along_dim", j, dim)
    for dtype in (torch.int64, torch.int32):
        pick("index_select", r(3, 4), 0, i.to(dtype), variant="index dtype")
    pick("index_select", r(3, 4), 0, stepped(torch.tensor([2, 0, 1])), variant="strided index")
    pick("index_select", r(3, 4), 1, torch.tensor([], dtype=torch.int64), variant="empty index")
    pick("index_select", r(0, 4), 1, i, variant="empty")
    pick("index_select", r(4), 0, torch.tensor(2), variant="0-dim index", grad=False)
    pick("gather", r(3, 4), 1, turned(torch.randint(0, 4, (3, 2))), variant="strided index")
    pick("gather", r(3, 4), 0, torch.randint(0, 3, (5, 2)), variant="longer")
    pick("gather", r(3, 4), 0, torch.zeros(0, 4, dtype=torch.int64), variant="empty")
    pick("gather", r(4), 0, torch.tensor([3, 3, 0]), variant="1-d")
    pick("gather", r(), 0, torch.tensor(0), variant="scalar")
    pick("take_along_dim", r(3, 1), torch.randint(0, 3, (2, 4)), 0, variant="broadcast")
    pick("take_along_dim", r(3, 4), torch.randint(0, 4, (1, 2)), 1, variant="broadcast")


def placing():
    for dim in (0, 1, -1):
        x, src = r(3, 4), r(2, 3)
        j = torch.stack([torch.randperm(3) for _ in range(2)])  # no two writes to one place
        j = torch.tensor([[0, 1, 2], [1, 2, 0]]) if dim == 0 else j
        for form, y in (("plain", x), ("turned", turned(x)), ("stepped", stepped(x))):
            pick("scatter", y, dim, j, src, variant=form)
            pick("scatter", y, dim, j, value=2.5, variant="value " + form)
            pick("scatter", y, dim, j, turned(r(3, 4)), grad=False, variant="larger src " + form)
            pick("scatter_add", y, dim, j, src, variant=form)
            pick("scatter_add", y, dim, torch.zeros_like(j), src, variant="collisions " + form)
            for name in ("scatter_", "scatter_add_"):
                pick(name, y, dim, j, src, variant=form)
                pick(name, y, dim, j, src, grad=False, variant="nograd " + form)
        for dtype in ALL:
            pick("scatter", values(3, 4, dtype=dtype), dim, j, values(2, 3, dtype=dtype), variant="dtype")
            maybe("scatter_add", values(3, 4, dtype=dtype), dim, j, values(2, 3, dtype=dtype),
                  variant="dtype")
    pick("scatter_add", r(4), 0, torch.tensor([1, 1, 3]), r(3), variant="1-d")
    pick("scatter", r(3, 4), 0, torch.zeros(0, 4, dtype=torch.int64), r(0, 4), variant="empty")
    pick("scatter_add", r(3, 4), 0, torch.zeros(0, 4, dtype=torch.int64), r(0, 4), variant="empty")
    k = torch.tensor([2, 0, 2])
    for alpha in (1, -0.5, 2, 0):
        for name in ("index_add", "index_add_"):
            pick(name, r(4, 3), 0, k, r(3, 3), alpha=alpha)
            pick(name, r(2, 3), 1, k, r(2, 3), alpha=alpha)
            pick(name, turned(r(2, 3, 2)), -2, k, stepped(r(2, 3, 2)), alpha=alpha, variant="strided")
            pick(name, turned(r(2, 3)), 1, k, r(2, 3), alpha=alpha, grad=False, variant="nograd turned")
    for dtype in FLOATS[1:] + INTS:
        pick("index_add", values(4, 3, dtype=dtype), 0, k, values(3, 3, dtype=dtype), variant="dtype")
        pick("index_add", values(4, 3, dtype=dtype), 0, k.to(torch.int32), values(3, 3, dtype=dtype),
             variant="i32 index")
    pick("index_add", r(4, 3), 0, k[:0], r(0, 3), variant="empty")


def masks():
    m = torch.rand(3, 4) > 0.5
    for name in ("masked_fill", "masked_fill_"):
        for value in (0.0, -1.5, -INF, NAN, 2):
            pick(name, r(3, 4), m, value)
        for mask in (m[0], m[:, :1], torch.tensor(True), turned(m), m[:1].expand(3, 4)):
            pick(name, r(3, 4), mask, 1.5, variant="mask")
            pick(name, turned(r(3, 4)), mask, 1.5, variant="turned")
            pick(name, stepped(r(3, 4)), mask, 1.5, grad=False, variant="nograd")
        for dtype in ALL:
            pick(name, values(3, 4, dtype=dtype), m, 1, variant="dtype")
        pick(name, r(0, 4), m[:0], 1.0, variant="empty")
        pick(name, r(), torch.tensor(True), 1.0, variant="scalar")
    for x, mask in ((r(3, 4), m), (turned(r(3, 4)), m), (r(3, 4), turned(m)), (r(3, 4), m[0]), (r(4), m),
                    (r(3, 4), m & False), (r(0, 4), m[:0]), (r(), torch.tensor(True)),
                    (r(), torch.tensor(False)), (special()[:12].reshape(3, 4), m)):
        pick("masked_select", x, mask)
    for dtype in ALL:
        pick("masked_select", values(3, 4, dtype=dtype), m, variant="dtype")
        pick("nonzero", (torch.rand(3, 4) > 0.5).to(dtype), variant="dtype")
    for x in (t(0.0, -0.0, NAN, INF, 1e-40, 1.0), torch.zeros(3, 2), torch.ones(2, 2, 2), torch.tensor(3.0),
              torch.tensor(0.0), r(0, 3), turned((torch.rand(3, 4)
                                                  > 0.5).float()), stepped((torch.rand(3, 4) > 0.5).float())):
        pick("nonzero", x)


def tables():
    for i in (torch.tensor([1, 0, 4,
                            1]), torch.tensor([[1, 2],
                                               [4, 4]]), torch.tensor(3), torch.zeros(0, dtype=torch.int64),
              turned(torch.randint(0, 5, (2, 3))), torch.tensor([1, 3], dtype=torch.int32)):
        for w in (r(5, 3), turned(r(5, 3)), r(5, 1)):
            pick("embedding", i, w)
            pick("embedding", i, w, 1, variant="padding")
    for dtype in FLOATS[1:]:
        pick("embedding", torch.tensor([1, 0, 1]), values(3, 2, dtype=dtype), variant="dtype")
    for i in (torch.tensor([0, 2, 1]), torch.tensor([[0, 1], [3, 2]]), torch.tensor(2),
              torch.tensor([], dtype=torch.int64), turned(torch.randint(0, 4, (2, 3)))):
        pick("one_hot", i, 4)
        pick("one_hot", i) if i.numel() else None
