"""Ops that situ makes of others: draws, repeats, sets, windows, losses of sequences. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch
import torch.nn.functional as F

from table import RANDOM, Skip, row
from table_composed import fit_tensors


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
