"""Hand-picked cases of norms, products and factorizations of matrices.
SPDX-License-Identifier: MIT"""
import torch

from picks import pick, r, stepped, turned

NORMS = ("fro", "nuc", 2, -2, 1, -1, float("inf"), -float("inf"))


def matrices():
    for order in NORMS:
        for dim in ((-2, -1), (0, 2), (2, 0)):
            pick("linalg_matrix_norm", r(2, 3, 4), order, dim, True)
            pick("linalg_matrix_norm", turned(r(2, 4, 3)), order, dim)
        pick("linalg_matrix_norm", r(3, 4), order, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64):
        for m, n in ((4, 4), (5, 3), (3, 5)):
            for how in (turned, stepped):
                a = how(r(2, m, n, dtype=dtype))
                pick("linalg_lu_factor", a)
                pick("linalg_lu", a)
        for left in (True, False):
            for adjoint in (True, False):
                lu, pivots = torch.linalg.lu_factor(r(2, 4, 4, dtype=dtype))
                b = turned(r(2, 4, 3, dtype=dtype) if left else r(2, 3, 4, dtype=dtype))
                pick("linalg_lu_solve", lu, pivots, b, left=left, adjoint=adjoint)
    lu, pivots = torch.linalg.lu_factor(r(2, 1, 3, 3))
    pick("linalg_lu_solve", lu, pivots, r(3, 3, 2), variant="broadcast")
    pick("linalg_tensorsolve", r(2, 3, 6), r(2, 3))
    pick("linalg_tensorsolve", r(6, 2, 3), r(2, 3), [0], variant="dims")
    pick("linalg_tensorinv", r(4, 6, 8, 3))
    pick("linalg_tensorinv", turned(r(6, 2, 3)), 1)
