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
    for dtype in BOTH:
        for how in (lambda x: x, turned, stepped):
            for m, n in ((4, 4), (5, 3), (3, 5)):
                factors(how(r(2, m, n, dtype=dtype)))
    for dtype in BOTH:
        for how in (lambda x: x, turned, stepped):
            for n in (1, 3, 6):
                symmetric(how(r(2, n, n, dtype=dtype)), how(r(2, n, 2, dtype=dtype)))
    x = r(70, 70, dtype=torch.float64)  # in blocks; pivots of both kinds
    pick("linalg_ldl_factor", x + x.mT, variant="blocks")
    pick("linalg_ldl_factor_ex", torch.zeros(2, 3, 3), variant="singular")
    pick("linalg_ldl_factor_ex", torch.zeros(2, 0, 0), variant="empty")
    pick("linalg_matrix_exp", 30 * r(3, 3, dtype=torch.float64, lo=-1, hi=1), variant="squared")
    pick("linalg_matrix_exp", torch.tensor([[0.0, 1.0], [float("nan"), 0.0]]), variant="nan")
    pick("linalg_det", torch.zeros(2, 0, 0), variant="empty")
    pick("linalg_slogdet", torch.zeros(2, 0, 0), variant="empty")


def symmetric(a, b):
    a = a + a.mT
    pick("linalg_ldl_factor", a)
    pick("linalg_ldl_factor_ex", a)
    LD, pivots = torch.linalg.ldl_factor(a)
    pick("linalg_ldl_solve", LD, pivots, b)
    pick("linalg_pinv", a + a.shape[-1] * torch.eye(a.shape[-1], dtype=a.dtype), hermitian=True)
    pick("linalg_pinv", a, rtol=0.5, hermitian=True)
    pick("linalg_matrix_rank", a, atol=1.0, hermitian=True)


def factors(a):
    for mode in ("reduced", "complete", "r"):
        pick("linalg_qr", a, mode=mode)
    pick("linalg_svd", a, full_matrices=False)
    pick("linalg_svd", a, full_matrices=True)
    pick("linalg_svdvals", a)
    pick("linalg_pinv", a)
    pick("linalg_pinv", a, rtol=0.5)
    pick("linalg_matrix_rank", a, atol=1.0)
    b = r(2, a.shape[-2], 2, dtype=a.dtype)
    pick("linalg_lstsq", a, b)
    pick("linalg_lstsq", a, b[..., 0], variant="vectors")
    if a.shape[-1] == a.shape[-2]:
        for uplo in "LU":
            pick("linalg_eigh", a, UPLO=uplo)
            pick("linalg_eigvalsh", a, UPLO=uplo)
        pick("linalg_matrix_exp", a)
        for n in (-2, 0, 1, 5):
            pick("linalg_matrix_power", a, n)
        pick("cholesky_solve", b, a)
        pick("cholesky_inverse", a, upper=True)
        pick("logdet", a @ a.mT)


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
