#!/usr/bin/env python3
"""Checks ONNX models that situ_onnx_export wrote, and compares what onnxruntime computes with situ's results.

    SITU_EXPORT_DIR=DIR test_program_export    # leaves DIR/NAME.onnx and DIR/NAME.safetensors
    SITU_EXPORT_DIR=DIR test_program_export_dynamic    # ... and DIR/NAME.0.safetensors and others, at other sizes
    python3 check_onnx.py DIR
    SITU_EXPORT_DIR=DIR test_program_onnx_written    # models of the programs that PyTorch exported
    python3 check_onnx.py DIR tests/program/data tests/program/onnx/written    # two sizes of each, PyTorch's results

Needs onnx, onnxruntime, numpy and safetensors from PyPI. Prints a line for each file; its status is 1 if one differs.
"""

import glob
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import load_file


def difference(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        raise ValueError(f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}")
    if want.dtype.kind != "f":
        return float((got != want).sum())
    scale = max(float(np.abs(want).max(initial=0)), 1e-30)
    return float(np.abs(got - want).max(initial=0) / scale)


def open_session(path):
    """What computes the model, and its inputs: onnxruntime, or ONNX's own evaluator where that lacks a kernel (Erf in f64)."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return session, [i.name for i in session.get_inputs()]
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        session = ReferenceEvaluator(path)
        return session, session.input_names


def run(path, values):
    onnx.checker.check_model(path, full_check=True)
    session, names = open_session(path)
    if "out" in values:
        inputs = [values[name] for name in sorted(values) if name.startswith("in")]
        return difference(session.run(None, dict(zip(names, inputs, strict=True)))[0], values["out"])
    worst = 0.0
    for shape in (0, 1):
        results = session.run(None, {name: values[f"in.{shape}.{name}"] for name in names})
        for number, result in enumerate(results):
            worst = max(worst, difference(result, values[f"out.{shape}.{number}"]))
    return worst


def main(directory, *beside):
    bad = 0
    paths = sorted(glob.glob(os.path.join(directory, "*.onnx")))
    for path in paths:
        name = os.path.basename(path)[:-5]
        try:
            stems = [os.path.join(folder, name) for folder in beside or [directory]]
            values = [one for stem in stems for end in ("", ".[0-9]") for one in glob.glob(stem + end + ".safetensors")]
            worst = max(run(path, load_file(one)) for one in values)
            bad += not worst <= 1e-5
            print(f"{os.path.basename(path):28} {worst:.1e}")
        except Exception as error:  # each kind is a finding: say which, and go on
            bad += 1
            print(f"{os.path.basename(path):28} {type(error).__name__}: {str(error).strip().splitlines()[0][:300]}")
    print(f"{len(paths)} files, {bad} differ")
    return bad != 0 or not paths


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
