"""Factorizations, systems of equations, inverses and determinants. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch

from table import Skip, row

REALS = (torch.float32, torch.float64)
L = torch.linalg


def lapack(name, call, opinfo=None, fit=None, **rest):
    row(name, "lapack", call, fit=fit, opinfo=(name.replace("linalg_", "linalg."), ) if opinfo is None else opinfo,
        dtypes=REALS, **rest)


def unchecked(b):
    """The functions that end in _ex: without checking, a matrix that is not as it must be is no error."""
    b.pop("check_errors", None)


def solve(A, B, *, left=True):
    return L.solve(A, B, left=left)


lapack("linalg_cholesky", lambda input, *, upper=False: L.cholesky(input, upper=upper))
lapack("linalg_cholesky_ex", lambda input, *, upper=False: L.cholesky_ex(input, upper=upper)[0], fit=unchecked,
       through="linalg_cholesky")
lapack("linalg_solve", solve)
lapack("linalg_solve_ex", solve, fit=unchecked, through="linalg_solve")
lapack("linalg_solve_triangular", lambda A, B, *, upper, left=True, unitriangular=False: L.solve_triangular(
    A, B, upper=upper, left=left, unitriangular=unitriangular))
lapack("linalg_inv", lambda A: L.inv(A))
lapack("linalg_inv_ex", lambda A: L.inv_ex(A)[0], fit=unchecked, through="linalg_inv")
lapack("linalg_det", lambda A: L.det(A), no_grad=lambda tensors: bool((L.lu_factor_ex(tensors[0])[0].diagonal(0, -2, -1) == 0).any()))
lapack("linalg_slogdet", lambda A: tuple(L.slogdet(A)), outputs=("sign", "logabsdet"))


# ---- QR, singular values, eigenvalues: vectors are unique up to their sign, so that they are compared without ---------
def svd(A, *, full_matrices=True, driver=None):
    U, S, Vh = L.svd(A, full_matrices=full_matrices)
    k = S.shape[-1]
    return U[..., :k].abs(), S, Vh[..., :k, :].abs()


def eigh(A, UPLO="L"):
    w, v = L.eigh(A, UPLO)
    return w, v.abs()


def no_driver(b):
    b.pop("driver", None)



def qr(A, mode="reduced"):
    if mode == "r" or (mode == "complete" and A.shape[-2] > A.shape[-1]):
        A = A.detach()  # no gradient, in torch neither
    return tuple(L.qr(A, mode))


lapack("linalg_qr", qr)
lapack("linalg_svd", svd, fit=no_driver, outputs=("U", "S", "Vh"))
lapack("linalg_svdvals", lambda A, *, driver=None: L.svdvals(A), fit=no_driver)
lapack("linalg_eigh", eigh)
lapack("linalg_eigvalsh", lambda A, UPLO="L": L.eigvalsh(A, UPLO))


# ---- what singular values decide ----------------------------------------------------------------------
def fit_tolerance(b):
    if not b.get("hermitian", True):
        del b["hermitian"]
    if b.pop("rcond", None) is not None or b.pop("tol", None) is not None:
        raise Skip("an older name of the tolerance")
    for name in ("atol", "rtol"):
        if isinstance(b.get(name), torch.Tensor):
            raise Skip("a tolerance for each matrix")
        if b.get(name) is None:
            b.pop(name, None)
        else:
            b[name] = float(b[name])


def fit_lstsq(b):
    b.pop("driver", None)
    if b.get("rcond") is None:
        b.pop("rcond", None)


def lstsq(A, B, rcond=None):
    x, _, rank, _ = L.lstsq(A, B, rcond=rcond, driver="gelsy")
    return x, rank


lapack("linalg_pinv", lambda A, *, atol=None, rtol=None, hermitian=False, rcond=None: L.pinv(
    A, atol=atol, rtol=rtol, hermitian=hermitian),
       fit=fit_tolerance)
lapack("linalg_matrix_rank", lambda A, *, atol=None, rtol=None, hermitian=False, tol=None: L.matrix_rank(
    A, atol=atol, rtol=rtol, hermitian=hermitian), fit=fit_tolerance)
lapack("linalg_lstsq", lstsq, fit=fit_lstsq, outputs=("solution", "rank"))



# ---- LDL: torch has no gradient, and for real matrices hermitian changes nothing -----------------------
def unconjugated(b):
    b.pop("hermitian", None)
    b.pop("check_errors", None)


def no_gradient(tensors):
    return True


lapack("linalg_ldl_factor", lambda A, *, hermitian=False: tuple(L.ldl_factor(A)), fit=unconjugated, outputs=("LD", "pivots"),
       no_grad=no_gradient)
lapack("linalg_ldl_factor_ex", lambda A, *, hermitian=False, check_errors=False: tuple(
    L.ldl_factor_ex(A)), fit=unconjugated, outputs=("LD", "pivots", "info"),
       no_grad=no_gradient)
lapack("linalg_ldl_solve", lambda LD, pivots, B, *, hermitian=False: L.ldl_solve(LD, pivots, B), fit=unconjugated, no_grad=no_gradient)

# ---- functions of a matrix; torch gives also what is not read of L a gradient: it is not compared ----
lapack("linalg_matrix_exp", lambda A: L.matrix_exp(A), opinfo=("matrix_exp", "linalg.matrix_exp"))
lapack("linalg_matrix_power", lambda A, n: L.matrix_power(A, n))
lapack("cholesky_solve", lambda B, L, upper=False: torch.cholesky_solve(B, L, upper), opinfo=("cholesky_solve", ),
       fixed=("L", ))
lapack("cholesky_inverse", lambda L, upper=False: torch.cholesky_inverse(L, upper), opinfo=("cholesky_inverse", ),
       no_grad=lambda tensors: True)
lapack("logdet", lambda A: torch.logdet(A), opinfo=("logdet", ))
lapack("pinverse", lambda A, rcond=1e-15: torch.pinverse(A, rcond), opinfo=("pinverse", ), through="linalg_pinv")
