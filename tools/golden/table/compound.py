"""Ops that situ makes of others: draws, repeats, sets, windows, losses of sequences. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch
import torch.nn.functional as F

from table import RANDOM, Skip, row
from table.composed import fit_tensors


def compound(name, call, **rest):
    row(name, "compound", call, **rest)


compound("multinomial", lambda input, num_samples, replacement=False: torch.multinomial(input, num_samples, replacement))
RANDOM.add("multinomial")


# ---- repeats and sets -----------------------------------------------------------------------------------
def fit_repeats(b):
    if not isinstance(b["repeats"], torch.Tensor):
        raise Skip("a number of repeats")


compound("repeat_interleave_tensor", lambda input, repeats, dim=None: torch.repeat_interleave(input, repeats, dim),
         fit=fit_repeats, opinfo=("repeat_interleave", ))


def fit_unique(b):
    if b.get("dim") is None:
        raise Skip("of all elements")
    for name in ("sorted", "return_inverse", "return_counts"):
        b.pop(name, None)


def unique_dim(input, dim=None, *, sorted=True, return_inverse=True, return_counts=True):
    return torch.unique(input, True, True, True, dim)


compound("unique_dim", unique_dim, fit=fit_unique, opinfo=("unique", ), outputs=("output", "inverse", "counts"),
         fixed=("input", ))


# ---- products -------------------------------------------------------------------------------------------
compound("linalg_multi_dot", lambda tensors, *more: torch.linalg.multi_dot(tensors), fit=fit_tensors,
         opinfo=("linalg.multi_dot", ))
compound("linalg_vander", lambda x, *, N=None: torch.linalg.vander(x, N=N), opinfo=("linalg.vander", ))
compound("linalg_householder_product", lambda A, tau: torch.linalg.householder_product(A, tau),
         opinfo=("linalg.householder_product", ))


def linear_activation(input, weight, bias=None, activation="relu"):
    y = F.linear(input, weight, bias)
    return F.gelu(y, approximate="tanh") if activation == "gelu_tanh" else getattr(F, activation)(y)


compound("linear_activation", linear_activation, opinfo=())
compound("bilinear", lambda input1, input2, weight, bias=None: F.bilinear(input1, input2, weight, bias))


# ---- what lies between rows -----------------------------------------------------------------------------
def fit_cov(b):
    if any(b.get(name) is not None for name in ("fweights", "aweights")):
        raise Skip("weights of observations")
    b["correction"] = float(b.get("correction", 1))


def fit_p(b):
    b["p"] = float(b.get("p", 2))


compound("cov", lambda input, *, correction=1.0, fweights=None, aweights=None: torch.cov(input, correction=int(correction)),
         fit=fit_cov)
compound("corrcoef", lambda input: torch.corrcoef(input))
compound("dist", lambda input, other, p=2.0: torch.dist(input, other, p), fit=fit_p)
compound("pdist", lambda input, p=2.0: F.pdist(input, p), fit=fit_p)
compound("combinations", lambda input, r=2, with_replacement=False: torch.combinations(input, r, with_replacement))
compound("equal", lambda input, other: torch.tensor(torch.equal(input, other)))


# ---- pieces and joins -----------------------------------------------------------------------------------
def pieces(name, **rest):
    f = getattr(torch, name)

    def call(input, sections=None, dim=0, *, indices=None):
        by = sections if indices is None else indices
        return f(input, by, dim) if name == "tensor_split" else f(input, by)

    def fit(b):
        by = b.get("sections")
        if isinstance(by, torch.Tensor):
            by = by.tolist()
        if isinstance(by, (list, tuple)):
            b["indices"] = [int(v) for v in by]
            del b["sections"]
        elif by is not None:
            b["sections"] = int(by)

    compound(name, call, fit=fit, **rest)


pieces("tensor_split")
for _n in ("hsplit", "vsplit", "dsplit"):
    pieces(_n, through="tensor_split")
compound("column_stack", lambda tensors: torch.column_stack(tensors))
compound("broadcast_tensors", lambda tensors, *more: torch.broadcast_tensors(*tensors), fit=fit_tensors)
compound("diagflat", lambda input, offset=0: torch.diagflat(input, offset), through="diag")
compound("argwhere", lambda input: torch.argwhere(input), through="nonzero")

# ---- functions of a number; draws -----------------------------------------------------------------------
compound("mvlgamma", lambda input, p: torch.mvlgamma(input, p))
compound("special_ndtr", lambda input: torch.special.ndtr(input), opinfo=("special.ndtr", ))


def fit_rate(b):
    b["lambd"] = float(b.get("lambd", 1))


compound("exponential_", lambda input, lambd=1.0: input.clone().exponential_(lambd), fit=fit_rate, opinfo=("exponential", ),
         inplace=True, no_grad=lambda _: True)
RANDOM.add("exponential_")


# ---- losses; samples are cut to a size that files can have ----------------------------------------------
def cut(t):
    return t[:12, :3] if t.dim() == 3 else t[:3, :6] if t.dim() == 2 else t[:3]


def fit_ctc(b):
    if b["log_probs"].dim() == 3 and not b.pop("whole", False):
        b["input_lengths"] = torch.full((3, ), 12)
        b["target_lengths"] = torch.as_tensor(b["target_lengths"])[:3].clamp(max=5) - torch.tensor([0, 1, 3])


compound("ctc_loss", lambda log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
         zero_infinity=False, whole=False: F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction,
                                                      zero_infinity), fit=fit_ctc, operand=cut,
         opinfo=("nn.functional.ctc_loss", ))
compound("multilabel_margin_loss", lambda input, target, reduction="mean": F.multilabel_margin_loss(
    input, target, reduction=reduction))
