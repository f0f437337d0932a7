"""Indexing by lists of tensors, and the ops that place or order values. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch

from table import Skip, row


# ---- lists of index tensors: `at` says which dimension of the list each stands at ----------------------
def key(indices, at):
    places = [slice(None)] * (max(at) + 1)
    for i, where in zip(indices, at):
        places[where] = i
    return tuple(places)


def fit_list(b):
    indices = b["indices"]
    if not all(isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.int32, torch.int64) for i in indices):
        raise Skip("an index that is not a tensor of i64, i32 or bool")
    b["indices"] = list(indices)
    if "at" not in b:
        b["at"] = list(range(len(indices)))
    b["masks"] = float(any(i.dtype == torch.bool for i in indices))


def fit_put(b):
    fit_list(b)
    if b["values"].dtype != b["input"].dtype:
        raise Skip("values of another dtype")


def put(input, indices, values, accumulate=False, at=None, masks=0):
    copy = input.clone()
    places = [None] * (max(at) + 1)
    for i, where in zip(indices, at):
        places[where] = i
    return torch.ops.aten.index_put(copy, places, values, accumulate)


def put_(input, indices, values, accumulate=False, at=None, masks=0):
    places = [None] * (max(at) + 1)
    for i, where in zip(indices, at):
        places[where] = i
    return torch.ops.aten.index_put_(input, places, values, accumulate)


row("index", "indexing", lambda input, indices, at, masks=0: input[key(indices, at)], fit=fit_list, opinfo=())
row("index_put", "indexing", put, fit=fit_put)
row("index_put_", "indexing", put_, fit=fit_put, opinfo=("index_put", ), inplace=True, dtypes=False)

# ---- along one dimension -----------------------------------------------------------------------------
row("index_copy", "indexing", lambda input, dim, index, source: torch.index_copy(input, dim, index, source))
row("index_copy_", "indexing", lambda input, dim, index, source: input.index_copy_(dim, index, source),
    opinfo=("index_copy", ), inplace=True, dtypes=False)


def fit_fill(b):
    if isinstance(b["value"], torch.Tensor):
        raise Skip("tensor value")


row("index_fill", "indexing", lambda input, dim, index, value: torch.index_fill(input, dim, index, value),
    fit=fit_fill)
row("index_fill_", "indexing", lambda input, dim, index, value: input.index_fill_(dim, index, value),
    fit=fit_fill, opinfo=("index_fill", ), inplace=True, dtypes=False)
