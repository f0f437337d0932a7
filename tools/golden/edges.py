"""Losses, norms and distances at the edges: zeros, ties, tiny, huge and infinite elements, with their gradients and the
gradients of these. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT

A case of edges has more outputs than its op: second.<input> is the gradient of the sum of all gradients, each element
times direction(), by that input; second.output that by the incoming gradient. Ops that PyTorch differentiates once do
not have them.

Left out, each with a program in tests/ops/apart.c and a row in docs/numerics.md, are elements where PyTorch is not right
(APART below), and derivatives of losses that are NaN. Norms and what is made of them have second derivatives of milder
numbers: PyTorch's formulas overflow where squares do."""
import itertools
import math

import torch

import cases
import gold
from table import ROWS

INF = math.inf
TYPES = (torch.float32, torch.float64)
# What single elements may be: [tiny] stands for a number whose square is 0, [huge] for one whose square is infinite.
EDGES = (0.0, 1.0, -1.0, "tiny", "-tiny", "huge", "-huge", INF, -INF)
POSITIVE = (0.0, "tiny", 0.5, 1.0, "huge", INF)
SIZE = {torch.float32: (1e-30, 1e30), torch.float64: (1e-200, 1e200)}
MILD = {torch.float32: (1e-2, 1e2), torch.float64: (1e-4, 1e4)}


def number(value, dtype, mild=False):
    tiny, huge = (MILD if mild else SIZE)[dtype]
    return {"tiny": tiny, "-tiny": -tiny, "huge": huge, "-huge": -huge}.get(value, value)


def tensor(values, dtype, mild=False):
    return torch.tensor([number(v, dtype, mild) for v in values], dtype=dtype)


def pairs(first, second, dtype):
    """All pairs of two lists, as two vectors."""
    both = list(itertools.product(first, second))
    return tensor([a for a, _ in both], dtype), tensor([b for _, b in both], dtype)


def rows(dtype, *lines, mild=False):
    return torch.stack([tensor(line, dtype, mild) for line in lines])


def direction(t):
    return (1.0 + torch.arange(t.numel()) % 3).reshape(t.shape).to(t.dtype)


def seed(t):
    return (1.0 + torch.arange(t.numel()) % 2 / 2).reshape(t.shape).to(t.dtype)


def second(row, bound, tensors, fixed):
    """The second derivatives by name; nothing where PyTorch has none."""
    leaves = [cases.leaf(t, n not in fixed) for n, t in tensors]
    y = row.call(**cases.rebuild(bound, leaves))
    up = seed(y).requires_grad_()
    by = [(n, l) for (n, _), l in zip(tensors, leaves) if l.requires_grad]
    try:
        first = torch.autograd.grad(y, [l for _, l in by], up, create_graph=True)
        total = sum((g * direction(g)).sum() for g in first)
        found = torch.autograd.grad(total, [l for _, l in by] + [up], allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return []
    names = [n for n, _ in by] + ["output"]
    like = [l for _, l in by] + [up]
    return [("second." + n, torch.zeros_like(l) if g is None else g.detach(), None)
            for n, l, g in zip(names, like, found)]


def edge(name, *args, variant="", fixed=(), twice=True, **kwargs):
    """The case, with second derivatives if `twice`."""
    row = ROWS[name]
    bound = cases.bind(row, args, kwargs)
    tensors, attrs = cases.flatten(bound)
    fixed = tuple(row.fixed) + tuple(fixed)
    leaves = [cases.leaf(t, n not in fixed) for n, t in tensors]
    y = row.call(**cases.rebuild(bound, leaves))
    targets = [i for i, l in enumerate(leaves) if l.requires_grad]
    found = torch.autograd.grad(y, [leaves[i] for i in targets], seed(y), allow_unused=True)
    grads = [(tensors[i][0], (torch.zeros_like(leaves[i]) if g is None else g).detach())
             for i, g in zip(targets, found)]
    outputs = [("output", y.detach(), seed(y))] + (second(row, bound, tensors, fixed) if twice else [])
    return gold.Case(name, ("edge/" + variant).rstrip("/"), [(n, t.detach()) for n, t in tensors], attrs, outputs,
                     grads)


def samples(name, *args, variant="", twice=True, **kwargs):
    """The outputs of all samples; and the derivatives of those whose loss is a number, or infinite."""
    first = edge(name, *args, variant=variant, twice=False, **kwargs)
    y = first.outputs[0][1]
    yield gold.Case(name, first.variant, first.inputs, first.attrs, [("output", y, None)], [])
    kept = [a[~y.isnan()] if isinstance(a, torch.Tensor) and a.shape[:1] == y.shape else a for a in args]
    yield edge(name, *kept, variant=(variant + "/derivatives").lstrip("/"), twice=twice, **kwargs)


# ---- the families -------------------------------------------------------------------------------------
def loss():
    for dtype in TYPES:
        x, y = pairs(EDGES, EDGES, dtype)
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss"):
            yield edge(name, x, y, reduction="none")
            yield edge(name, x[:60:7], y[:60:7], reduction="mean")
        yield edge("smooth_l1_loss", x, y, beta=0.0, reduction="none")
        x, y = pairs(EDGES, (0.0, 0.5, 1.0, "tiny"), dtype)
        yield edge("binary_cross_entropy_with_logits", x, y, reduction="none")
        x, y = pairs((0.0, -1.0, "tiny", "-tiny", "-huge", -INF), POSITIVE, dtype)
        yield edge("kl_div", x, y, reduction="none")
        yield edge("kl_div", x[:9], y[:9], reduction="batchmean")
        x, y = pairs((0.0, -1.0, "-huge", -INF), (0.0, -1.0, "-tiny", "-huge", -INF), dtype)
        yield edge("kl_div", x, y, reduction="none", log_target=True)
        x = rows(dtype, (0, 0, 0), (1, 1, -1), (-INF, 0, 1), (0, 1, -INF), ("huge", 0, "-huge"), (0, "huge", 1),
                 ("tiny", 0, "-tiny"), (INF, 0, 1), (0, INF, 1), (-INF, -INF, -INF))
        labels = torch.arange(10) % 2
        weight = tensor((1.0, 0.0, 2.0), dtype)
        for name in ("cross_entropy", "nll_loss"):
            yield edge(name, x, labels, reduction="none", fixed=("weight", ))
            yield edge(name, x, labels, weight, reduction="none", variant="weight", fixed=("weight", ))
            yield edge(name, x[:7], labels[:7], reduction="mean", fixed=("weight", ))
        yield edge("cross_entropy", x, labels, label_smoothing=0.1, reduction="none", variant="smooth")
        p = rows(dtype, (0, 1, 0), (0.5, 0.5, 0))
        yield edge("cross_entropy", x[:2], p, reduction="none", variant="probabilities")


def criterion():
    for dtype in TYPES:
        yield from elements(dtype)
        yield from angles(dtype)
        yield from margins(dtype)


def elements(dtype):
    """Losses of single elements."""
    x, y = pairs(EDGES, EDGES, dtype)
    for delta in (1.0, 3.0):
        yield edge("huber_loss", x, y, delta, reduction="none")
    x, sign = pairs(EDGES + (2.0, ), (1.0, -1.0), dtype)
    yield edge("hinge_embedding_loss", x, sign, reduction="none", fixed=("target", ))
    small = x * sign > -80  # APART: exp(-target input) overflows, and makes the gradient NaN
    yield edge("soft_margin_loss", x[small], sign[small], reduction="none", fixed=("target", ))
    x, y = pairs(EDGES, (0.0, 1.0, "tiny", "huge", INF), dtype)
    for margin, side in itertools.product((0.0, 1.0), (1.0, -1.0)):
        yield from samples("margin_ranking_loss", x, y, torch.full_like(x, side), margin, reduction="none",
                           fixed=("target", ))
    x, y = pairs((0.0, "tiny", 0.5, 1.0), (0.0, "tiny", 0.5, 1.0), dtype)
    yield edge("binary_cross_entropy", x, y, reduction="none")
    x, y = pairs((0.0, "tiny", 1.0, -1.0, 80.0), (0.0, "tiny", 0.5, 1.0, 2.0, "huge"), dtype)
    for log_input, full in itertools.product((True, False), (True, False)):
        keep = slice(None) if log_input else x >= 0
        yield edge("poisson_nll_loss", x[keep], y[keep], log_input, full, reduction="none")
    x, var = pairs(EDGES, POSITIVE, dtype)
    for full in (False, True):
        yield edge("gaussian_nll_loss", x, torch.zeros_like(x), var, full, reduction="none")


LINES = ((0, 0), (0, 1), (1, 1), (-1, 1), (3, -4), ("tiny", 0), ("tiny", "-tiny"), ("tiny", 1), ("huge", 0), ("huge", 1),
         ("huge", "huge"), (INF, 0), (INF, 1), (INF, INF), (-INF, INF))


def lines(dtype, mild=False, but=()):
    """Rows of two: zeros, ties, signs, tiny, huge and infinite elements."""
    return rows(dtype, *[line for line in LINES if line not in but], mild=mild)


def norms(name, dtype, *args, but=(), others=lambda x: (), **kwargs):
    """Rows with their first gradients, and mild ones with the second, which are NaN in PyTorch for rows of zeros."""
    for mild in (False, True):
        x = lines(dtype, mild, but + (((0, 0), ) if mild else ()))
        yield from samples(name, x, *others(x), *args, twice=mild, variant="mild" if mild else "", **kwargs)


def angles(dtype):
    for p in (0.5, 1.0, 1.5, 2.0, 3.0, INF):
        yield from norms("normalize", dtype, p, -1)
        yield from norms("pairwise_distance", dtype, p, 0.0, others=lambda x: (torch.zeros_like(x), ))
        yield from norms("pairwise_distance", dtype, p, others=lambda x: (x.flip(0), ))
    yield from norms("cosine_similarity", dtype, -1, others=lambda x: (x.flip(1), ))
    yield from norms("cosine_similarity", dtype, -1, others=lambda x: (torch.ones_like(x), ))
    for margin, side in itertools.product((0.0, 0.5), (1.0, -1.0)):
        yield from norms("cosine_embedding_loss", dtype, margin, reduction="none", fixed=("target", ),
                         others=lambda x: (x.flip(1), torch.full((len(x), ), side, dtype=dtype)))


# APART: PyTorch leaves out terms that are NaN, and rounds margin - x[y] first, which loses one margin or the other.
UNEQUAL = (("tiny", 1), ("huge", "huge"), (INF, INF), (-INF, INF))


def margins(dtype):
    for p in (1.0, 2.0, 3.0):
        yield from norms("triplet_margin_loss", dtype, 1.0, p, reduction="none",
                         others=lambda x: (x.flip(1), torch.zeros_like(x)))
        yield from norms("triplet_margin_loss", dtype, 1.0, p, reduction="none", others=lambda x: (x, x))
    yield from norms("triplet_margin_loss", dtype, 1.0, swap=True, reduction="none",
                     others=lambda x: (x.flip(1), torch.ones_like(x)))
    x = lines(dtype, but=UNEQUAL)
    labels = torch.arange(len(x)) % 2
    for p in (1, 2):
        yield from samples("multi_margin_loss", x, labels, p, reduction="none")
    x = lines(dtype)
    labels = torch.arange(len(x)) % 2
    yield from samples("multilabel_soft_margin_loss", x, (labels[:, None] == torch.arange(2)).to(dtype),
                       reduction="none", fixed=("target", ))


POWERS = (0.25, 0.5, 0.9, 1.0, 1.5, 2.0, 3.0, 4.0, INF)


def reduce():
    for dtype in TYPES:
        for p in POWERS + (0.0, -INF):
            yield from norms("norm", dtype, p, [-1])
            yield edge("norm", lines(dtype)[:8], p, variant="whole", twice=False)
        yield edge("norm", lines(dtype, True)[2:5], -1.0, [-1], variant="negative")


def statistics():
    for dtype in TYPES:
        for p in POWERS:
            # APART: with p infinite, PyTorch's cdist gives each of several largest elements the whole gradient
            but = ((1, 1), (-1, 1), ("tiny", "-tiny"), ("huge", "huge")) + LINES[11:] if p == INF else (
                (INF, 0), ) if p < 1 else ()  # where its norm's gradient is NaN, and its cdist's is 0
            zero = torch.zeros(1, 2, dtype=dtype)
            yield edge("cdist", lines(dtype, but=but), zero, p, twice=False)
            alike = tuple(line for line in LINES if 0 in line or INF in line)  # as are those of the second
            yield edge("cdist", lines(dtype, True, but + alike), zero, p, variant="mild")
            one = tensor((0, 1, -1, "tiny", "huge"), dtype)[:, None]
            yield edge("cdist", one, one, p, variant="one", twice=False)
        for p in (0.5, 1.0, 2.0, 3.0):
            # on the edge of maxnorm, where rounding decides
            x = lines(dtype, True, LINES[:1] + LINES[5:8] + LINES[11:])
            yield edge("renorm", x, p, 0, 1.0)


def compound():
    for dtype in TYPES:
        for p in POWERS:
            for x in lines(dtype):
                yield edge("dist", x, torch.zeros_like(x), p, twice=False)
            for x in lines(dtype, True)[1:11]:
                yield edge("dist", x, torch.zeros_like(x), p, variant="mild")
            if p != INF:  # APART: as cdist
                yield edge("pdist", lines(dtype)[:11], p, twice=False)
        x = lines(dtype, but=UNEQUAL)
        labels = torch.arange(2 * len(x)).reshape(len(x), 2) % 3 % 2
        yield from samples("multilabel_margin_loss", x, labels, "none")
        yield from sequences(dtype)


def sequences(dtype):
    """Batches in which some samples have no alignment: three labels in two steps, a label twice in two."""
    steps = torch.log_softmax(torch.arange(24, dtype=dtype).reshape(3, 2, 4) % 5, 2)
    blocked = steps.clone()
    blocked[1, 0] = -INF
    for target in ([[1, 2, 3], [1, 2, 3]], [[1, 1, 2], [1, 2, 3]], [[1, 2, 0], [0, 0, 0]]):
        for lengths in ([2, 3], [1, 2], [3, 3]):
            for zero_infinity in (False, True):
                for reduction in ("none", "mean"):
                    size = torch.tensor([sum(1 for v in line if v) for line in target])
                    yield edge("ctc_loss", steps, torch.tensor(target), torch.tensor(lengths), size, 0, reduction,
                               zero_infinity, True)
    yield edge("ctc_loss", blocked, torch.tensor([[1, 2], [1, 2]]), torch.tensor([3, 3]), torch.tensor([2, 2]), 0,
               "none", False, True, variant="blocked")


def matrices():
    for dtype in TYPES:
        x = lines(dtype)
        for first in range(14):
            for order in ("fro", 1.0, -1.0, INF, -INF):
                yield edge("linalg_matrix_norm", x[first:first + 2], order)


FAMILIES = (loss, criterion, reduce, statistics, compound, matrices)
