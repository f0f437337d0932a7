"""Hand-picked cases of linear algebra: sizes that LAPACK takes in one and in several blocks, layouts, batches.
SPDX-License-Identifier: MIT"""
import torch

from picks import pick, r, stepped, turned

BOTH = (torch.float32, torch.float64)


def regular(*shape, dtype=torch.float32):
    """Random, and far from singular."""
    return (r(*shape, dtype=torch.float64, lo=-1, hi=1) + shape[-1] * torch.eye(shape[-1], dtype=torch.float64)).to(dtype)


def positive(*shape, dtype=torch.float32):
    x = r(*shape, dtype=torch.float64, lo=-1, hi=1)
    return (x @ x.mT + torch.eye(shape[-1], dtype=torch.float64)).to(dtype)


def lapack():
    for dtype in BOTH:
        for how in (lambda x: x, turned, stepped):
            systems(dtype, how)
    pick("linalg_solve", regular(2, 1, 3, 3), r(3, 3, 2), variant="broadcast")
    pick("linalg_solve_triangular", regular(2, 1, 3, 3), r(3, 3, 2), upper=True, variant="broadcast")
    pick("linalg_det", torch.zeros(2, 0, 0), variant="empty")
    pick("linalg_slogdet", torch.zeros(2, 0, 0), variant="empty")


def systems(dtype, how):
    for upper in (False, True):
        pick("linalg_cholesky", how(positive(2, 3, 3, dtype=dtype)), upper=upper)
        for left in (True, False):
            b = how(r(2, 4, 3, dtype=dtype) if left else r(2, 3, 4, dtype=dtype))
            pick("linalg_solve_triangular", how(regular(4, 4, dtype=dtype)), b, upper=upper, left=left)
    a = how(regular(2, 4, 4, dtype=dtype))
    pick("linalg_solve", a, how(r(2, 4, 3, dtype=dtype)))
    pick("linalg_solve", a, how(r(2, 3, 4, dtype=dtype)), left=False)
    pick("linalg_solve", a, how(r(2, 4, dtype=dtype)), variant="vectors")
    pick("linalg_inv", a)
    pick("linalg_det", a)
    pick("linalg_slogdet", a)
