"""Hand-picked cases of losses and distances that situ makes of other ops.
SPDX-License-Identifier: MIT"""
import torch

from picks import FLOATS, maybe, pick, r, stepped, t, turned, values

SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0])


def criterion():
    distances()
    for reduction in ("none", "mean", "sum"):
        pairs(reduction)
        likelihoods(reduction)
        margins(reduction)


def pairs(reduction):
    for form, x, y in (("plain", r(3, 4), r(3, 4)), ("turned", turned(r(3, 4)), r(3, 4)), ("broadcast", r(3, 1), r(4)),
                       ("scalar", r(), r()), ("empty", r(0, 2), r(0, 2)), ("far", t(1e30, -200.0, 0.1), t(0.0, 5.0, 0.2))):
        for delta in (1.0, 0.5, 3.0):
            pick("huber_loss", x, y, delta, reduction=reduction, variant=form)
        if x.shape == y.shape:
            sign = torch.where(y > 0, 1.0, -1.0)
            pick("soft_margin_loss", x.clamp(-80, 80), sign, reduction=reduction, variant=form)
            pick("hinge_embedding_loss", x, sign, reduction=reduction, variant=form)
            pick("hinge_embedding_loss", x, sign, 0.3, reduction=reduction, variant=form)
            pick("margin_ranking_loss", x, y + 0.01, sign, 0.2, reduction=reduction, variant=form)


def likelihoods(reduction):
    p = torch.tensor([[0.0, 1.0, 0.5, 1e-30], [1.0, 0.0, 0.999, 0.1]])
    y = torch.tensor([[0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.3, 0.5]])
    inside = torch.rand(3, 4) * 0.9 + 0.05
    pick("binary_cross_entropy", p, y, reduction=reduction, variant="edges", grad=False)
    pick("binary_cross_entropy", inside, torch.rand(3, 4), reduction=reduction)
    pick("binary_cross_entropy", turned(inside), stepped(torch.rand(3, 4)), reduction=reduction, variant="strided")
    pick("binary_cross_entropy", torch.rand(0, 2), torch.rand(0, 2), reduction=reduction, variant="empty")
    for w in (torch.rand(3, 4), torch.rand(4), torch.rand(3, 1)):
        pick("binary_cross_entropy", inside, torch.rand(3, 4), w, reduction=reduction, variant="weight")
    counts = torch.tensor([0.0, 1.0, 2.0, 7.0])
    for log_input in (True, False):
        for full in (False, True):
            pick("poisson_nll_loss", torch.rand(3, 4) + 0.1, counts, log_input, full, reduction=reduction,
                 grad=not full)  # torch's gradient for a count of 0 is NaN
    for shape in ((3, 4), (3, 1), (3, )):
        var = torch.rand(shape) + 0.1
        pick("gaussian_nll_loss", r(3, 4), r(3, 4), var, reduction=reduction)
        pick("gaussian_nll_loss", r(3, 4), r(3, 4), var, True, 0.4, reduction=reduction, variant="full")
    pick("gaussian_nll_loss", r(4), r(4), t(0.0, 1e-8, 1.0, 1e20), reduction=reduction, variant="small")


def margins(reduction):
    a, b, c = r(4, 3), r(4, 3), r(4, 3)
    for margin in (0.0, 0.2, -0.3):
        pick("cosine_embedding_loss", a, b, SIGNS, margin, reduction=reduction)
    pick("cosine_embedding_loss", r(3), r(3), t(1.0)[0], reduction=reduction, variant="unbatched")
    pick("cosine_embedding_loss", turned(a), stepped(b), SIGNS, reduction=reduction, variant="strided")
    for p in (1.0, 2.0, 3.0):
        pick("triplet_margin_loss", a, b, c, 1.5, p, reduction=reduction)
    pick("triplet_margin_loss", a, b, c, swap=True, reduction=reduction, variant="swap")
    pick("triplet_margin_loss", r(3), r(3), r(3), reduction=reduction, variant="unbatched")
    pick("triplet_margin_loss", turned(a), stepped(b), c, reduction=reduction, variant="strided")
    labels = torch.tensor([0, 2, 1, 2])
    for p in (1, 2):
        pick("multi_margin_loss", a, labels, p, reduction=reduction)
        pick("multi_margin_loss", a, labels, p, 0.5, torch.rand(3), reduction=reduction, variant="weight")
    pick("multi_margin_loss", r(3), torch.tensor(1), reduction=reduction, variant="unbatched")
    pick("multi_margin_loss", turned(a), labels, reduction=reduction, variant="turned")
    many = (torch.rand(4, 3) > 0.5).float()
    pick("multilabel_soft_margin_loss", a, many, reduction=reduction)
    pick("multilabel_soft_margin_loss", a, many, torch.rand(3), reduction=reduction, variant="weight")
    pick("multilabel_soft_margin_loss", turned(a), many, reduction=reduction, variant="turned")


def distances():
    x = r(3, 4)
    zero = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    for p in (1.0, 2.0, 3.0, 0.5, float("inf")):
        pick("normalize", x, p, -1)
        pick("pairwise_distance", x, r(3, 4), p)
    for dim in (0, 1, -1):
        pick("normalize", turned(r(3, 4)), dim=dim, variant="turned")
        pick("cosine_similarity", r(3, 4), stepped(r(3, 4)), dim)
    pick("normalize", zero, variant="zero")
    pick("normalize", x, eps=10.0, variant="eps")
    pick("cosine_similarity", zero, r(2, 2), variant="zero", grad=False)
    pick("cosine_similarity", r(3, 1, 4), r(2, 4), -1, variant="broadcast")
    pick("cosine_similarity", r(4), r(4), 0, variant="1-d")
    pick("pairwise_distance", x, r(4), variant="broadcast")
    pick("pairwise_distance", x, r(3, 4), keepdim=True, variant="keepdim")
    pick("pairwise_distance", r(4), r(4), variant="1-d")
    for dtype in FLOATS[1:]:
        maybe("normalize", values(3, 4, dtype=dtype), variant="dtype")
        maybe("cosine_similarity", values(3, 4, dtype=dtype), values(3, 4, dtype=dtype), variant="dtype")
        maybe("pairwise_distance", values(3, 4, dtype=dtype), values(3, 4, dtype=dtype), variant="dtype")
