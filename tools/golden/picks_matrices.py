"""Hand-picked cases of norms, products and factorizations of matrices.
SPDX-License-Identifier: MIT"""
import torch

from picks import pick, r, turned

NORMS = ("fro", "nuc", 2, -2, 1, -1, float("inf"), -float("inf"))


def matrices():
    for order in NORMS:
        for dim in ((-2, -1), (0, 2), (2, 0)):
            pick("linalg_matrix_norm", r(2, 3, 4), order, dim, True)
            pick("linalg_matrix_norm", turned(r(2, 4, 3)), order, dim)
        pick("linalg_matrix_norm", r(3, 4), order, dtype=torch.float64)
