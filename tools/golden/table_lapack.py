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
