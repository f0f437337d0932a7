"""Hand-picked cases of ops that situ makes of others.
SPDX-License-Identifier: MIT"""
import torch

from picks import FLOATS, ints, pick, r, stepped, t, turned


def compound():
    for dtype in FLOATS:
        pick("multinomial", r(3, 4, dtype=dtype, lo=0, hi=1), 5, True)
    pick("multinomial", r(4, lo=0, hi=1), 3)
    pick("multinomial", r(0, 4), 3)
    whole = lambda *data: torch.tensor(data)
    for dim in (0, 1, -1):
        pick("repeat_interleave_tensor", turned(r(3, 3)), whole(2, 0, 3), dim)
    pick("repeat_interleave_tensor", r(2, 2), whole(1, 0, 2, 1))
    pick("repeat_interleave_tensor", r(2, 2), torch.tensor([3], dtype=torch.int32), 1)
    pick("repeat_interleave_tensor", r(0, 2), ints(0), 0)
    rows = t([1., 2., 1.], [0., 5., 9.], [1., 2., 1.], [1., 0., 7.], [0., 5., 9.])
    for dim in (0, 1):
        pick("unique_dim", stepped(rows), dim)
        pick("unique_dim", ints(2, 6, 2, lo=0, hi=2), dim)
    for sizes in ((3, 4, 2), (3, 9, 1, 5), (2, 3, 4, 5, 6)):
        pick("linalg_multi_dot", [turned(r(a, b)) for a, b in zip(sizes, sizes[1:])])
    pick("linalg_multi_dot", [r(4), r(4, 3), r(3)], variant="vectors")
    pick("linalg_multi_dot", [ints(3, 2), ints(2, 4)], variant="whole")
    for n in (None, 2, 5):
        pick("linalg_vander", turned(r(2, 3)), N=n)
        pick("linalg_vander", ints(3), N=n)
    for shape, k in (((4, 3), 3), ((2, 5, 3), 2), ((3, 3), 0)):
        pick("linalg_householder_product", turned(r(*shape)), r(*shape[:-2], k))
    between()
    losses()


def between():
    for dtype in FLOATS[:2]:
        pick("cov", turned(r(3, 5, dtype=dtype)), correction=0)
        pick("corrcoef", turned(r(3, 5, dtype=dtype)))
        for p in (0.0, 1.0, 2.0, 3.5, float("inf")):
            pick("pdist", turned(r(4, 3, dtype=dtype)), p)
            if p:
                pick("dist", r(4, 1, dtype=dtype), turned(r(4, 3, dtype=dtype)), p)
    pick("cov", r(6))
    pick("cov", ints(2, 4), variant="whole")
    for repeats in (False, True):
        for count in (1, 2, 3):
            pick("combinations", stepped(r(4)), count, repeats)
    pick("equal", r(2, 3), r(2, 3))
    pick("equal", torch.ones(2, 3), turned(torch.ones(2, 3)))
    pick("equal", torch.ones(2, 1), torch.ones(2))
    for n in (1, 3, 5, 9):
        pick("tensor_split", r(7, 2), n, 0)
    for places in ([1, 3], [3, 1], [-2], [0, 99], []):
        pick("tensor_split", turned(r(2, 5)), indices=places, dim=1)
    pick("column_stack", [r(3), turned(r(3, 2)), r(3)])
    pick("column_stack", [r(), r()], variant="scalars")
    pick("broadcast_tensors", [r(3), r(2, 1), r()])
    pick("bilinear", turned(r(4, 3)), r(4, 2), r(5, 3, 2), r(5))
    pick("bilinear", r(2, 2, 3), r(2, 2, 2), turned(r(5, 3, 2)))
    for activation in ("relu", "gelu_tanh", "gelu", "silu"):
        for dtype in FLOATS:
            pick("linear_activation", r(2, 3, 8, dtype=dtype), r(5, 8, dtype=dtype), r(5, dtype=dtype), activation)
        pick("linear_activation", turned(r(4, 8)), r(5, 8), None, activation)
    for p in (1, 2, 5):
        pick("mvlgamma", r(2, 3, lo=2.5, hi=6), p)
    pick("special_ndtr", r(9) * 4)
    for dtype in FLOATS:
        pick("exponential_", r(5, dtype=dtype), 2.0)


def losses():
    scores = lambda *shape, dtype=torch.float32: torch.log_softmax(r(*shape, dtype=dtype), -1)
    targets = torch.tensor([[1, 1, 2, 0], [2, 3, 0, 0], [1, 2, 3, 2]])
    for reduction in ("none", "mean", "sum"):
        for dtype in (torch.float32, torch.float64):
            pick("ctc_loss", scores(9, 3, 4, dtype=dtype), targets, torch.tensor([9, 5, 8]), torch.tensor([3, 2, 4]),
                 reduction=reduction, whole=True)
    pick("ctc_loss", scores(9, 3, 4), torch.tensor([1, 1, 2, 2, 3, 1, 2, 3, 2]), torch.tensor([9, 5, 8]),
         torch.tensor([3, 2, 4]), whole=True, variant="in a row")
    pick("ctc_loss", scores(7, 5), torch.tensor([0, 2, 0]), torch.tensor(6), torch.tensor(3), blank=4, variant="one")
    pick("ctc_loss", scores(4, 2, 3), torch.tensor([[1, 1, 2], [1, 2, 1]]), torch.tensor([3, 4]), torch.tensor([3, 0]),
         zero_infinity=True, reduction="none", whole=True, variant="too long")
    pick("ctc_loss", scores(3, 1, 3), torch.tensor([[1, 1]]), torch.tensor([2]), torch.tensor([2]), reduction="none",
         whole=True, variant="infinite", grad=False)
    for reduction in ("none", "mean", "sum"):
        pick("multilabel_margin_loss", turned(r(3, 4)), torch.tensor([[0, 2, -1, 1], [-1, 0, 1, 2], [3, 1, 0, 2]]),
             reduction=reduction)
    pick("multilabel_margin_loss", r(4), torch.tensor([2, 2, -1, 0]))
