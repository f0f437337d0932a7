"""Ops that situ makes of others: rearrangements, contractions, ranges. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch
import torch.nn.functional as F

from table import LIKE, RANDOM, SHAPES, Skip, as_list, both, lists, only, row

# ---- rearrangements ----------------------------------------------------------------------------------
row("swapaxes", "arrange", lambda input, axis0, axis1: torch.swapaxes(input, axis0, axis1), view=True)
row("movedim", "arrange", lambda input, source, destination: torch.movedim(input, source, destination),
    fit=lists(source=1, destination=1), view=True)
row("unflatten", "arrange", lambda input, dim, sizes: torch.unflatten(input, dim, sizes), fit=lists(sizes=1),
    view=True)
row("diagonal", "arrange",
    lambda input, offset=0, dim1=0, dim2=1: torch.diagonal(input, offset=offset, dim1=dim1, dim2=dim2), view=True)
row("diag_embed", "arrange",
    lambda input, offset=0, dim1=-2, dim2=-1: torch.diag_embed(input, offset=offset, dim1=dim1, dim2=dim2))
row("diag", "arrange", lambda input, diagonal=0: torch.diag(input, diagonal))
row("fliplr", "arrange", lambda input: torch.fliplr(input))
row("flipud", "arrange", lambda input: torch.flipud(input))
row("rot90", "arrange", lambda input, k=1, dims=(0, 1): torch.rot90(input, k, dims), fit=lists(dims=1))
row("tile", "arrange", lambda input, dims: torch.tile(input, dims), fit=lists(dims=1))


def fit_interleave(b):
    if isinstance(b["repeats"], torch.Tensor):
        raise Skip("a tensor of repeats")


row("repeat_interleave", "arrange",
    lambda input, repeats, dim=None: torch.repeat_interleave(input, repeats, dim), fit=fit_interleave)
for _n in ("pixel_shuffle", "pixel_unshuffle"):
    _factor = "upscale_factor" if _n == "pixel_shuffle" else "downscale_factor"
    row(_n, "arrange", eval("lambda input, %s: F.%s(input, %s)" % (_factor, _n, _factor), {"F": F}))
for _n in ("hstack", "vstack", "dstack"):
    row(_n, "arrange", lambda tensors, _f=getattr(torch, _n): _f(tensors))
row("block_diag", "arrange", lambda tensors: torch.block_diag(*tensors), opinfo=())
for _n in ("atleast_1d", "atleast_2d", "atleast_3d"):
    row(_n, "arrange", lambda input, _f=getattr(torch, _n): _f(input), opinfo=())
row("meshgrid", "arrange", lambda tensors, indexing="ij": torch.meshgrid(*tensors, indexing=indexing), opinfo=(),
    view=False)


# ---- contractions ------------------------------------------------------------------------------------
def fit_einsum(b):
    if isinstance(b.get("operands"), torch.Tensor):
        b["operands"] = [b["operands"]]


row("einsum", "arrange", lambda operands, equation: torch.einsum(equation, *operands), fit=fit_einsum)


def fit_tensordot(b):
    dims, ndim = b.pop("dims"), b["input"].dim()
    if isinstance(dims, int):
        dims = list(range(ndim - dims, ndim)), list(range(dims))
    b["dims_self"], b["dims_other"] = as_list(dims[0]), as_list(dims[1])


row(
    "tensordot", "arrange", lambda input, other, dims=2, dims_self=None, dims_other=None: torch.tensordot(
        input, other, (dims_self, dims_other)), fit=fit_tensordot)


def fit_kron(b):
    if max(b["input"].dim(), b["other"].dim()) > 4:
        raise Skip("more than 4 dimensions")


row("kron", "arrange", lambda input, other: torch.kron(input, other), fit=fit_kron)
row("trace", "arrange", lambda input: torch.trace(input))

# ---- creation ----------------------------------------------------------------------------------------
NEW = both(lists(shape=1), only(requires_grad=False, device="cpu"))
for _n in ("new_empty", "new_zeros", "new_ones"):
    row(
        _n, "arrange", lambda input, shape, *, dtype=None, device=None, requires_grad=None, _f=_n: getattr(input, _f)
        (shape, dtype=dtype), fit=NEW)
row(
    "new_full", "arrange", lambda input, shape, fill_value, *, dtype=None, device=None, requires_grad=None: input.
    new_full(shape, fill_value, dtype=dtype), fit=NEW)
RANDOM.add("new_empty")


def fit_logspace(b):
    LIKE(b)
    if any(isinstance(b.get(n), torch.Tensor) for n in ("start", "end", "base")):
        raise Skip("tensor bounds")


row(
    "logspace", "arrange",
    lambda start, end, steps, base=10.0, *, dtype=None, device=None, requires_grad=None: torch.logspace(
        start, end, steps, base, dtype=dtype), fit=fit_logspace)
for _n in ("tril_indices", "triu_indices"):
    row(_n, "arrange", lambda row, col, offset=0, *, dtype=None, _f=getattr(torch, _n): _f(
        row, col, offset, dtype=dtype or torch.int64), opinfo=())
