"""Reductions by index, and parts and elements written into a copy. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch

from table import Skip, fit_index, row


def fit_scatter(b):
    fit_index(b)
    if b["input"].dtype == torch.bool:
        raise Skip("bool")
    if any(n > m for n, m in zip(b["index"].shape, b["src"].shape)):
        raise Skip("an index larger than src")


def fit_rows(b):
    if b["index"].dim() != 1 or b["input"].dim() == 0:
        raise Skip("0-dim")
    if b["input"].dtype == torch.bool:
        raise Skip("bool")


def smaller_src(tensors):
    """torch has src's gradient only where index has its shape."""
    return len(tensors) > 2 and tensors[1].shape != tensors[2].shape


row("scatter_reduce", "scatters",
    lambda input, dim, index, src, reduce, *, include_self=True: torch.scatter_reduce(
        input, dim, index, src, reduce, include_self=include_self), fit=fit_scatter, no_grad=smaller_src)
row("scatter_reduce_", "scatters",
    lambda input, dim, index, src, reduce, *, include_self=True: input.scatter_reduce_(
        dim, index, src, reduce, include_self=include_self), opinfo=(), inplace=True)
row("index_reduce", "scatters",
    lambda input, dim, index, source, reduce, *, include_self=True: torch.index_reduce(
        input, dim, index, source, reduce, include_self=include_self), fit=fit_rows)
row("index_reduce_", "scatters",
    lambda input, dim, index, source, reduce, *, include_self=True: input.index_reduce_(
        dim, index, source, reduce, include_self=include_self), opinfo=(), inplace=True)

row("take", "scatters", lambda input, index: torch.take(input, index))
row("put", "scatters", lambda input, index, source, accumulate=False: torch.put(input, index, source, accumulate))
row("put_", "scatters", lambda input, index, source, accumulate=False: input.put_(index, source, accumulate),
    opinfo=(), inplace=True)
row("masked_scatter", "scatters", lambda input, mask, source: torch.masked_scatter(input, mask, source))
row("masked_scatter_", "scatters", lambda input, mask, source: input.masked_scatter_(mask, source), opinfo=(),
    inplace=True)


def fit_slice(b):
    for name, missing in (("start", 0), ("end", 2**63 - 1)):
        if b.get(name) is None:
            b[name] = missing


row("slice_scatter", "scatters", lambda input, src, dim=0, start=None, end=None, step=1: torch.slice_scatter(
    input, src, dim, start, end, step), fit=fit_slice, opinfo=())  # all samples have 8,000 elements
row("select_scatter", "scatters", lambda input, src, dim, index: torch.select_scatter(input, src, dim, index))
row("diagonal_scatter", "scatters", lambda input, src, offset=0, dim1=0, dim2=1: torch.diagonal_scatter(
    input, src, offset, dim1, dim2))
