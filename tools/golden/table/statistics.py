"""Searching, counting, ranks and statistics. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch

from table import Skip, both, fit_var, lists, only, row


def plain(*names):
    """A fit that refuses what situ does not offer: options, and tensors where it takes numbers."""
    def fit(b):
        for name in names:
            if b.get(name) is not None:
                raise Skip(name + " is not offered")
            b.pop(name, None)

    return fit


# ---- ranks: of equal elements torch may name any, so its indices are compared only where it states them ----
row("kthvalue", "statistics", lambda input, k, dim=-1, keepdim=False: torch.kthvalue(input, k, dim, keepdim)[0])
for _n in ("median", "nanmedian"):
    row(_n, "statistics", lambda input, dim=None, keepdim=False, _f=getattr(torch, _n): _f(input) if dim is None else
        _f(input, dim, keepdim)[0])
row("mode", "statistics", lambda input, dim=-1, keepdim=False: torch.mode(input, dim, keepdim)[0])
row("cummax", "statistics", lambda input, dim: tuple(torch.cummax(input, dim)))
row("cummin", "statistics", lambda input, dim: tuple(torch.cummin(input, dim)))
row("msort", "statistics", lambda input: torch.msort(input))


def fit_quantile(b):
    if isinstance(b["q"], torch.Tensor):
        if b["q"].dim():
            raise Skip("several quantiles at once")
        b["q"] = float(b["q"])


for _n in ("quantile", "nanquantile"):
    row(_n, "statistics", lambda input, q, dim=None, keepdim=False, interpolation="linear", _f=getattr(torch, _n): _f(
        input, q, dim, keepdim, interpolation=interpolation), fit=fit_quantile)

# ---- reductions --------------------------------------------------------------------------------------
row("count_nonzero", "statistics", lambda input, dim=None: torch.count_nonzero(input, dim), fit=lists(dim=1))
row("sum_to_size", "statistics", lambda input, size: input.sum_to_size(size), fit=lists(size=1))
for _n in ("nansum", "nanmean"):
    row(_n, "statistics", lambda input, dim=None, keepdim=False, *, dtype=None, _f=getattr(torch, _n): _f(
        input, dim, keepdim, dtype=dtype), fit=lists(dim=1))
row("aminmax", "statistics", lambda input, *, dim=None, keepdim=False: tuple(torch.aminmax(input, dim=dim,
                                                                                        keepdim=keepdim)))
for _n in ("var_mean", "std_mean"):
    row(_n, "statistics", lambda input, dim=None, unbiased=None, *, correction=None, keepdim=False, _f=getattr(
        torch, _n): tuple(_f(input, dim, correction=1 if correction is None else correction, keepdim=keepdim)),
        fit=fit_var)
row("diff", "statistics", lambda input, n=1, dim=-1, prepend=None, append=None: torch.diff(input, n, dim),
    fit=plain("prepend", "append"))


def fit_cdist(b):
    b.pop("compute_mode", None)
    b["p"] = float(b.get("p", 2))


row("cdist", "statistics", lambda x1, x2, p=2.0, compute_mode=None: torch.cdist(
    x1, x2, p, "donot_use_mm_for_euclid_dist"), fit=fit_cdist)
row("renorm", "statistics", lambda input, p, dim, maxnorm: torch.renorm(input, p, dim, maxnorm))

# ---- searching and counting --------------------------------------------------------------------------
def fit_search(b):
    plain("sorter")(b)
    if not isinstance(b.get("values", b.get("input")), torch.Tensor):
        raise Skip("a number to search for")
    only(out_int32=False)(b)
    if "side" in b:
        b["right"] = b.pop("side") == "right"


row(
    "searchsorted", "statistics",
    lambda sorted_sequence, values, right=False, *, out_int32=None, side=None, sorter=None: torch.searchsorted(
        sorted_sequence, values, right=right), fit=fit_search)
row("bucketize", "statistics", lambda input, boundaries, right=False, *, out_int32=None: torch.bucketize(
    input, boundaries, right=right), fit=fit_search)


def fit_isin(b):
    only(assume_unique=False)(b)
    if not all(isinstance(b[n], torch.Tensor) for n in ("elements", "test_elements")):
        raise Skip("a number as operand")


row("isin", "statistics", lambda elements, test_elements, invert=False, *, assume_unique=None: torch.isin(
    elements, test_elements, invert=invert), fit=fit_isin)


def fit_unique(b):
    """situ_unique is always sorted, and gives all results that are asked for."""
    plain("dim")(b)
    for name in ("sorted", "return_inverse", "return_counts"):
        b.pop(name, None)


row(
    "unique", "statistics", lambda input, sorted=True, return_inverse=True, return_counts=True, dim=None: torch.unique(
        input, return_inverse=True, return_counts=True), fit=fit_unique, no_grad=lambda _: True)
row(
    "unique_consecutive", "statistics",
    lambda input, return_inverse=True, return_counts=True, dim=None: torch.unique_consecutive(
        input, return_inverse=True, return_counts=True), fit=fit_unique, no_grad=lambda _: True)
row("bincount", "statistics", lambda input, weights=None, minlength=0: torch.bincount(input, weights, minlength))


def fit_range(b):
    b["min"], b["max"] = float(b.get("min", 0)), float(b.get("max", 0))


row("histc", "statistics", lambda input, bins=100, min=0, max=0: torch.histc(input, bins, min, max), fit=fit_range)
