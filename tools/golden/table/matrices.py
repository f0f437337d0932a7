"""Norms, products and factorizations of matrices, some of which situ leaves to LAPACK. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch

from table import Skip, as_list, both, lists, only, row

REALS = (torch.float32, torch.float64)
L = torch.linalg


def matrices(name, call, opinfo=None, **rest):
    row(name, "matrices", call, dtypes=REALS, opinfo=(name.replace("linalg_", "linalg."), ) if opinfo is None else opinfo,
        **rest)


# ---- norms; a word stands for each matrix norm ---------------------------------------------------------
def word_of(order):
    return order if isinstance(order, str) else "%g" % order


def order_of(word):
    return word if word in ("fro", "nuc") else float(word)


def fit_matrix_norm(b):
    b["ord"], b["dim"] = word_of(b.get("ord", "fro")), as_list(b.get("dim", (-2, -1)))


def fit_norm(b):
    """Of vectors, unless two dimensions or two listed ones meet an order that is not the vectors'."""
    order, dim = b.pop("ord", None), b.get("dim")
    dims = [dim] if isinstance(dim, int) else dim
    pair = len(dims) == 2 if dims is not None else b["A"].dim() == 2
    if order is not None and pair:
        b["matrix"] = word_of(order)
    elif order is not None:
        b["ord"] = float(order)
    if dims is not None:
        b["dim"] = as_list(dims)


def norm(A, ord=None, dim=None, keepdim=False, *, matrix=None, dtype=None):
    return L.norm(A, order_of(matrix) if matrix else ord, dim, keepdim, dtype=dtype)


matrices("linalg_matrix_norm", lambda A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None: L.matrix_norm(
    A, order_of(ord), dim, keepdim, dtype=dtype), fit=fit_matrix_norm)
matrices("linalg_norm", norm, fit=fit_norm, through="linalg_matrix_norm")


# ---- LU -------------------------------------------------------------------------------------------------
def fit_pivot(b):
    if not b.pop("pivot", True):
        raise Skip("without row swaps")


def factor(A, pivot=True, get_infos=False, *, check_errors=False):
    return tuple(L.lu_factor(A))


matrices("linalg_lu_factor", factor, fit=fit_pivot, outputs=("LU", "pivots"))
matrices("linalg_lu_factor_ex", factor, fit=both(fit_pivot, only(check_errors=False)), outputs=("LU", "pivots"),
         through="linalg_lu_factor")
matrices("linalg_lu", lambda A, *, pivot=True: tuple(L.lu(A)), fit=fit_pivot, outputs=("P", "L", "U"))
matrices("lu", factor, fit=both(fit_pivot, only(get_infos=False)), outputs=("LU", "pivots"), opinfo=("lu", ),
         through="linalg_lu_factor")
matrices("linalg_lu_solve", lambda LU, pivots, B, *, left=True, adjoint=False: L.lu_solve(
    LU, pivots, B, left=left, adjoint=adjoint))
matrices("lu_solve", lambda B, LU, pivots: torch.lu_solve(B, LU, pivots), opinfo=("lu_solve", ),
         through="linalg_lu_solve")


# ---- systems of tensors ---------------------------------------------------------------------------------
matrices("linalg_tensorsolve", lambda A, B, dims=None: L.tensorsolve(A, B, dims), fit=lists(dims=1))
matrices("linalg_tensorinv", lambda A, ind=2: L.tensorinv(A, ind))
