"""Hand-picked cases of reductions, scans and sorting.
SPDX-License-Identifier: MIT"""
import torch

from picks import ALL, FLOATS, INF, INTS, NAN, ints, maybe, pick, r, special, stepped, t, turned, values

MANY = "sum mean amin amax norm logsumexp var std".split()  # several dimensions at once
SINGLE = "prod argmin argmax all any min max".split()  # one, or all
EMPTY_OK = "sum mean prod norm all any var std logsumexp".split()


def forms():
    """Tensors of all layouts; the values have no ties."""
    x = torch.randperm(24).to(torch.float32).reshape(2, 3, 4) / 7 - 1.6
    return (("plain", x), ("turned", turned(x)), ("stepped", stepped(x)), ("permuted", x.permute(2, 0, 1)),
            ("offset", x[1:, 1:, 1:]), ("row", x[:1, :1]), ("one", x[:1, :1, :1]))


def several(name):
    for form, x in forms():
        for dim in (0, -1, [0, 2], [1, 0], [0, 1, 2]):
            for keepdim in (False, True):
                if form in ("plain", "turned") or (keepdim is False and dim in (0, -1)):
                    pick(name, x, dim=dim, keepdim=keepdim, variant=form)


def reduce():
    for name in MANY + SINGLE:
        several(name) if name in MANY else None
        everything = {"dim": [0, 1, 2]} if name == "logsumexp" else {}
        for form, x in forms():
            one = name in ("var", "std") and x.numel() == 1  # torch's backward breaks on its shape
            pick(name, x, variant="all " + form, grad=not one, **everything)
            if name in SINGLE:
                for dim in (0, 1, -1):
                    pick(name, x, dim=dim, keepdim=dim == 1, variant=form)
        scalar = {"dim": 0} if name == "logsumexp" else {}
        spread = name in ("var", "std")  # of one value: torch's gradient is an arbitrary infinity
        pick(name, r(), variant="scalar", grad=not spread, **scalar)
        maybe(name, r(), dim=0, variant="scalar dim", grad=not spread)
        maybe(name, r(), dim=-1, keepdim=True, variant="scalar dim", grad=not spread)
        if name in EMPTY_OK:
            pick(name, r(0), variant="empty", **scalar)
            pick(name, r(2, 0), dim=1, variant="empty")
            pick(name, r(2, 0, 3), dim=1, keepdim=True, variant="empty")
        pick(name, r(0, 3), dim=1, variant="nothing left")
        pick(name, r(3, 0, 2), dim=0, variant="nothing left")
        whole = {"dim": 0} if name == "logsumexp" else {}
        for row in ([NAN, 1.0, 2.0], [1.0, NAN, INF], [INF, -INF, 1.0], [INF, 1.0,
                                                                         2.0], [-INF, -INF,
                                                                                -INF], [-0.0, 0.0, -0.0]):
            pick(name, t(*row), variant="special", grad=name not in ("norm", "std", "var", "prod"), **whole)
        pick(name, torch.stack([t(1.0, NAN, 3.0), t(4.0, 5.0, NAN),
                                t(1.0, 2.0, 3.0)]), dim=1, variant="special rows", grad=name
             not in ("norm", "std", "var", "prod"))
        for dtype in FLOATS[1:]:
            pick(name, values(3, 5, dtype=dtype), dim=1, variant="dtype")
            pick(name, values(3, 5, dtype=dtype), variant="dtype all",
                 **({"dim": [0, 1]} if everything else {}))
        for dtype in INTS + (torch.bool, ):
            distinct = torch.randperm(12).reshape(3, 4).to(dtype) if dtype != torch.bool else values(
                3, 4, dtype=dtype)
            if name in ("mean", "norm", "var", "std",
                        "logsumexp") or dtype == torch.bool and name.startswith("arg"):
                continue
            maybe(name, distinct, dim=1, variant="dtype")
            maybe(name, distinct, variant="dtype all")
        pick(name, r(2, 1, 2, 1, 2, 1, 2, 1), dim=2, variant="eight")
        pick(name, r(3, 40), dim=1, variant="long")
        pick(name, r(40, 3), dim=0, variant="tall")
        pick(name, r(1, 5).expand(3, 5), dim=0, variant="expanded", grad=name not in ("amin", "amax"))
    ties()
    options()
    order()


def ties():
    x = t(2.0, 3.0, 3.0, 1.0, 1.0, 3.0)
    for name in ("amin", "amax", "min", "max", "argmin", "argmax"):
        pick(name, x, variant="ties")
        pick(name, x, dim=0, variant="ties")
        pick(name, x.reshape(2, 3), dim=0, variant="ties")
    for name in ("min", "max", "argmin", "argmax"):
        pick(name, t(1.0, NAN, 3.0, NAN), dim=0, variant="nan first")


def options():
    for dtype in (torch.float64, torch.float32, torch.int64, torch.float16):
        for source in (torch.float32, torch.int32, torch.bool):
            for name in ("sum", "prod"):
                maybe(name, values(2, 3, dtype=source), dtype=dtype, variant="dtype option", grad=False)
        if dtype.is_floating_point:
            pick("mean", ints(2, 3), dtype=dtype, variant="dtype option", grad=False)
    pick("sum", r(2, 3), dtype=torch.float64, variant="dtype option")
    pick("sum", r(2, 3), dim=1, dtype=torch.float64, variant="dtype option")
    for correction in (0, 1, 2):
        for name in ("var", "std"):
            pick(name, r(3, 5), dim=1, correction=correction, variant="correction")
            pick(name, r(3, 5), dim=[0, 1], correction=correction, keepdim=True, variant="correction")
            pick(name, r(3, 5, dtype=torch.float64), dim=0, correction=correction, variant="correction")
    pick("var", r(1), variant="one element", grad=False)
    pick("std", r(1), variant="one element", grad=False)
    pick("var", r(5) + 100, variant="far from 0")
    pick("var", r(5, dtype=torch.float64) + 1e6, variant="far from 0")
    for p in (0, 0.5, 1, 1.5, 2, 3, INF, -INF, -1):
        for dim in (None, 0, [0, 1]):
            pick("norm", r(3, 4), p, dim, variant="p")
        pick("norm", turned(r(3, 4, dtype=torch.float64)), p, 1, True, variant="p")
    pick("norm", torch.zeros(3), 2, variant="zeros")
    pick("norm", t(3e38, 3e38), 2, variant="overflows", grad=False)
    for scale in (1.0, 1e3, -1e3):
        pick("logsumexp", r(3, 4) * scale, dim=1, variant="scale")
    pick("prod", t(0.0, 2.0, 3.0), variant="one zero")
    pick("prod", t(0.0, 2.0, 0.0), variant="two zeros")
    pick("prod", torch.tensor([[0.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0, 0.0, 3.0]]), dim=1, variant="zeros")


def order():
    for form, x in forms():
        for dim in (0, 1, -1):
            pick("cumsum", x, dim, variant=form)
            for descending in (False, True):
                pick("sort", x, dim, descending, variant=form)
                pick("argsort", x, dim, descending, variant=form)
            for largest in (False, True):
                pick("topk", x, 1, dim, largest, variant=form)
                pick("topk", x, min(2, x.shape[dim]), dim, largest, variant=form)
                pick("topk", x, x.shape[dim], dim, largest, variant=form)
        pick("topk", x, 0, -1, variant=form)
    ties = t(2.0, 1.0, 2.0, 1.0, 3.0, 1.0)
    nans = t(2.0, NAN, -1.0, INF, -INF, 0.5)
    for descending in (False, True):
        pick("sort", ties, 0, descending, variant="ties")
        pick("argsort", ties, 0, descending, variant="ties")
        pick("sort", nans, 0, descending, variant="nan")
        pick("argsort", nans, 0, descending, variant="nan")
        pick("topk", nans, 3, 0, not descending, variant="nan")
        for dtype in ALL:
            x = torch.randperm(6).to(dtype) if dtype != torch.bool else values(6, dtype=dtype)
            maybe("sort", x, 0, descending, variant="dtype")
            if dtype != torch.bool:
                maybe("topk", x, 3, 0, not descending, variant="dtype")
    for name, args in (("sort", ()), ("argsort", ()), ("cumsum", (0, )), ("topk", (1, 0))):
        pick(name, r(), *args, variant="scalar")
        pick(name, r(1), *args, variant="one")
    for name, args in (("sort", (1, )), ("argsort", (1, )), ("cumsum", (1, )), ("topk", (0, 1))):
        pick(name, r(3, 0), *args, variant="empty")
        pick(name, r(0, 3), *args, variant="empty")
    pick("cumsum", t(1.0, NAN, 2.0, INF, -INF), 0, variant="special")
    pick("cumsum", r(2, 70), 1, variant="long")
    pick("sort", r(2, 70), 1, variant="long")
    for dtype in FLOATS[1:] + INTS + (torch.bool, ):
        pick("cumsum", values(3, 4, dtype=dtype), 1, variant="dtype")


def scan():
    for form, x in forms():
        for dim in (0, 1, -1):
            pick("cumprod", x, dim, variant=form)
    pick("cumprod", r(), 0, variant="scalar")
    pick("cumprod", r(3, 0), 1, variant="empty")
    pick("cumprod", r(0, 3), 1, variant="empty")
    pick("cumprod", t(1.0, NAN, 2.0, INF, -INF), 0, variant="special")
    pick("cumprod", r(2, 70), 1, variant="long")
    for zeros in ((0, ), (2, ), (4, ), (1, 3), (0, 4), (1, 2, 3)):
        x = r(5, 2)
        x[list(zeros), 0] = 0
        pick("cumprod", x, 0, variant="zeros")
        pick("cumprod", x.t(), 1, variant="zeros")
    for dtype in FLOATS[1:] + INTS + (torch.bool, ):
        pick("cumprod", values(3, 4, dtype=dtype), 1, variant="dtype")
