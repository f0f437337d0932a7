#!/usr/bin/env python3
"""Counts PyTorch's op database: how many of its names (a name and a variant) have a row of the golden tables, which
compare values with PyTorch; the rest with a word why not.
usage: tools/golden/names.py [--list]     (needs torch; see README.md)
SPDX-License-Identifier: MIT"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import opinfo  # noqa: E402
import generate  # noqa: E402,F401  (imports every table)
from table import ROWS  # noqa: E402

# The first pattern that matches the name.
REASONS = (
    (r"complex|cdouble|cfloat|chalf|^(angle|conj|conj_physical|imag|real|isreal|resolve_.*|view_as_real|vdot|H|mH|polar"
     r"|linalg\.polar|linalg\.eig|linalg\.eigvals)$", "complex"),
    (r"^fft\.|stft|^signal\.", "fft"),
    (r"^linalg\.|cholesky|^(lu|lu_solve|lu_unpack|svd|geqrf|ormqr|pinverse|logdet|triangular_solve|matrix_exp|svd_lowrank"
     r"|pca_lowrank)$", "LAPACK"),
    (r"^special\.|^(igamma|igammac|mvlgamma|frexp)$", "special"),
    (r"^jiterator|^torch\.ops|^_|native_|_copy$|^to_sparse|^sparse|hash_tensor|_backward|^unsafe_|^masked\.", "internal"),
    (r"^(bfloat16|bool|byte|char|double|float|half|int|long|short|positive|ravel|t|T|mT|view_as|expand_as|reshape_as"
     r"|trapz|true_divide|rsub|inner|addr|addmv|addbmm|fill|uniform|normal|sgn|clamp_max|clamp_min)$|^__", "alias"),
)


def reason(name):
    return next((word for pattern, word in REASONS if re.search(pattern, name)), "open")


def main():
    rows = ROWS.values() if isinstance(ROWS, dict) else ROWS
    there = {info.name for row in rows for info in opinfo.infos(row)}
    direct = {info.name for row in rows if not row.through for info in opinfo.infos(row)}
    names = sorted({(info.name, info.variant_test_name) for info in opinfo.op_db})
    missing = [name for name in names if name[0] not in there]
    words = {}
    for name in missing:
        words.setdefault(reason(name[0]), []).append(".".join(filter(None, name)))
    others = sum(name[0] in there - direct for name in names)
    print(f"{len(names)} names, {len(names) - len(missing)} compared, {others} of them with a function of another name")
    for word, those in sorted(words.items(), key=lambda item: -len(item[1])):
        print(f"  {len(those):4} {word}" + (": " + " ".join(those) if "--list" in sys.argv[1:] else ""))


if __name__ == "__main__":
    main()
