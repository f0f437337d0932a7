"""Products and running sums that situ makes of others. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch

from table import Skip, lists, row
from table.composed import fit_tensors


def fit_floats(b):
    if not all(t.is_floating_point() for t in b.values() if isinstance(t, torch.Tensor)):
        raise Skip("whole numbers")


def fit_number(b):
    if any(isinstance(b.get(n), (bool, complex)) for n in ("beta", "alpha")) or "out_dtype" in b:
        raise Skip("a factor of another kind")
    if b["input"].dtype == torch.bool:
        raise Skip("bool")


for _n, _first, _second in (("addr", "vec1", "vec2"), ("addmv", "mat", "vec"), ("addbmm", "batch1", "batch2")):
    row(_n, "products", eval("lambda input, %s, %s, *, beta=1, alpha=1, out_dtype=None, _f=torch.%s: _f("
                             "input, %s, %s, beta=beta, alpha=alpha)" % (_first, _second, _n, _first, _second)),
        fit=fit_number)
row("inner", "products", lambda input, other: torch.inner(input, other))
row("linalg_cross", "products", lambda input, other, dim=-1: torch.linalg.cross(input, other, dim=dim),
    opinfo=("linalg.cross", "cross"))
row("linalg_vecdot", "products", lambda x, y, *, dim=-1: torch.linalg.vecdot(x, y, dim=dim), fit=fit_floats,
    opinfo=("linalg.vecdot", ))

row("logcumsumexp", "products", lambda input, dim: torch.logcumsumexp(input, dim))


def area(name):
    f = getattr(torch, name)

    def call(y, x=None, *, dx=1.0, dim=-1):
        return f(y, dx=dx, dim=dim) if x is None else f(y, x, dim=dim)

    return call


def fit_area(b):
    b["dx"] = float(b.get("dx", 1))


row("trapezoid", "products", area("trapezoid"), fit=fit_area, opinfo=("trapezoid", "trapz"))
row("cumulative_trapezoid", "products", area("cumulative_trapezoid"), fit=fit_area)
row("cartesian_prod", "products", lambda tensors, *more: torch.cartesian_prod(*tensors), fit=fit_tensors)


def fit_norm(b):
    b["ord"] = float(b.get("ord", 2))
    lists(dim=1)(b)


row("linalg_vector_norm", "products", lambda x, ord=2, dim=None, keepdim=False, *, dtype=None: torch.linalg.vector_norm(
    x, ord, dim, keepdim, dtype=dtype), fit=fit_norm, opinfo=("linalg.vector_norm", ))
