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
row("pixel_shuffle", "arrange", lambda input, upscale_factor: F.pixel_shuffle(input, upscale_factor))
row("pixel_unshuffle", "arrange", lambda input, downscale_factor: F.pixel_unshuffle(input, downscale_factor))
for _n in ("hstack", "vstack", "dstack"):
    row(_n, "arrange", lambda tensors, _f=getattr(torch, _n): _f(tensors))


def fit_tensors(b):
    """One list, where torch also takes tensors one by one."""
    more = b.pop("more", ())
    b["tensors"] = list(b["tensors"]) + list(more) if isinstance(b["tensors"], (list, tuple)) else [b["tensors"], *more]


row("block_diag", "arrange", lambda tensors, *more: torch.block_diag(*tensors), fit=fit_tensors)


def fit_one(b):
    if not isinstance(b["input"], torch.Tensor):
        raise Skip("several tensors")


for _n in ("atleast_1d", "atleast_2d", "atleast_3d"):
    row(_n, "arrange", lambda input, _f=getattr(torch, _n): _f(input), fit=fit_one)
row("meshgrid", "arrange", lambda tensors, *more, indexing="ij": torch.meshgrid(*tensors, indexing=indexing),
    fit=fit_tensors, view=False)


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
    row(_n, "arrange", lambda row, col, offset=0, *, dtype=None, device=None, _f=getattr(torch, _n): _f(
        row, col, offset, dtype=dtype or torch.int64), fit=LIKE)

# ---- losses ------------------------------------------------------------------------------------------
row("huber_loss", "criterion", lambda input, target, delta=1.0, *, reduction="mean": F.huber_loss(
    input, target, delta=delta, reduction=reduction))
row("soft_margin_loss", "criterion", lambda input, target, *, reduction="mean": F.soft_margin_loss(
    input, target, reduction=reduction), fixed=("target", ))
row("binary_cross_entropy", "criterion", lambda input, target, weight=None, *, reduction="mean": F.binary_cross_entropy(
    input, target, weight, reduction=reduction), fixed=("weight", ))
row(
    "poisson_nll_loss", "criterion",
    lambda input, target, log_input=True, full=False, eps=1e-8, *, reduction="mean": F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=reduction))


def fit_gaussian(b):
    if not isinstance(b["var"], torch.Tensor):
        raise Skip("a number as var")


row(
    "gaussian_nll_loss", "criterion",
    lambda input, target, var, full=False, eps=1e-6, *, reduction="mean": F.gaussian_nll_loss(
        input, target, var, full, eps, reduction=reduction), fit=fit_gaussian)
row("hinge_embedding_loss", "criterion", lambda input, target, margin=1.0, *, reduction="mean": F.
    hinge_embedding_loss(input, target, margin, reduction=reduction))
for _n in ("margin_ranking_loss", "cosine_embedding_loss"):
    row(_n, "criterion", lambda input1, input2, target, margin=0.0, *, reduction="mean", _f=getattr(F, _n): _f(
        input1, input2, target, margin, reduction=reduction))
row("multilabel_soft_margin_loss", "criterion", lambda input, target, weight=None, *, reduction="mean": F.
    multilabel_soft_margin_loss(input, target, weight, reduction=reduction), fixed=("weight", ))


def fit_triplet(b):
    if "distance_function" in b:
        raise Skip("a function of distance")


row(
    "triplet_margin_loss", "criterion",
    lambda anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, *, reduction="mean": F.
    triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=reduction), fit=fit_triplet)
row(
    "multi_margin_loss", "criterion",
    lambda input, target, p=1, margin=1.0, weight=None, *, reduction="mean": F.multi_margin_loss(
        input, target, p, margin, weight, reduction=reduction), fit=fit_triplet, fixed=("weight", ))

# ---- distances ---------------------------------------------------------------------------------------
row("normalize", "criterion", lambda input, p=2.0, dim=1, eps=1e-12: F.normalize(input, p, dim, eps))
row("cosine_similarity", "criterion", lambda x1, x2, dim=1, eps=1e-8: F.cosine_similarity(x1, x2, dim, eps))
row("pairwise_distance", "criterion",
    lambda x1, x2, p=2.0, eps=1e-6, keepdim=False: F.pairwise_distance(x1, x2, p, eps, keepdim))
