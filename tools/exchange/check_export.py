#!/usr/bin/env python3
"""Runs .pt2 files that situ_export_save wrote in PyTorch, and compares the results.

    SITU_EXPORT_DIR=DIR test_program_export    # leaves DIR/NAME.pt2 and DIR/NAME.safetensors
    SITU_EXPORT_DIR=DIR test_program_export_dynamic    # ... and DIR/NAME.0.safetensors and others, at other sizes
    python3 check_export.py DIR

Needs torch 2.15, numpy and safetensors from PyPI. Prints a line for each file; its status is 1 if one differs.
"""

import glob
import os
import sys

import torch
from safetensors.torch import load_file


def first_of(result):
    while isinstance(result, (list, tuple)):
        result = result[0]
    return result


def difference(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        raise ValueError(f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}")
    if not want.is_floating_point():
        return float((got != want).sum())
    scale = want.abs().max().clamp(min=1e-30)
    return float((got - want).abs().max() / scale)


def values_of(path):
    return glob.glob(path[:-4] + ".safetensors") + glob.glob(path[:-4] + ".[0-9].safetensors")


def run(module, values):
    inputs = [values[name] for name in sorted(values) if name.startswith("in")]
    with torch.no_grad():
        return difference(first_of(module(*inputs)), values["out"])


def main(directory):
    bad = 0
    paths = sorted(glob.glob(os.path.join(directory, "*.pt2")))
    for path in paths:
        try:
            module = torch.export.load(path).module()
            worst = max(run(module, load_file(values)) for values in values_of(path))
            bad += worst > 1e-5
            print(f"{os.path.basename(path):28} {worst:.1e}")
        except Exception as error:  # each kind is a finding: say which, and go on
            bad += 1
            print(f"{os.path.basename(path):28} {type(error).__name__}: {str(error).splitlines()[0][:300]}")
    print(f"{len(paths)} files, {bad} differ")
    return bad != 0 or not paths


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
