"""Writes ONNX's own node tests (package onnx) for tests/program/onnx/nodes.c: NAME.onnx, and NAME.safetensors with in.0.*
and out.0.*. Those that have no tensors of dtypes that safetensors knows get the model only, whose loading must be refused.

  onnx_nodes.py DIRECTORY        all
  onnx_nodes.py --only a,b DIR   some
SPDX-License-Identifier: MIT"""
import argparse
import os
import warnings

import numpy as np
import onnx
import onnx.version_converter
import torch
from onnx import numpy_helper
import onnx.backend.test.case.model as model_cases
import onnx.backend.test.case.node as node_cases
from safetensors.torch import save_file

KNOWN = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16"}
LEAST_OPSET = 13


def to_torch(value):
    """A tensor of an array, which may be bfloat16; None for other dtypes."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, (int, float, bool)):
        value = np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)) or str(value.dtype) not in KNOWN:
        return None
    value = np.array(value, order="C")
    if str(value.dtype) == "bfloat16":
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)


def modern(model):
    """The model in an opset that situ reads: some tests have that of the operator's first version."""
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), LEAST_OPSET)
    if version >= LEAST_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, LEAST_OPSET)
    except Exception:  # noqa: BLE001
        return model


def tensors_of(case):
    """The data sets, or None if a value is not a tensor of a dtype that safetensors and situ know."""
    tensors = {}
    for k, (inputs, outputs) in enumerate(case.data_sets):
        names = [value.name for value in case.model.graph.input]
        for prefix, values, keys in (("in", inputs, names), ("out", outputs, range(len(outputs)))):
            for key, value in zip(keys, values):
                tensor = to_torch(value)
                if tensor is None:
                    return None
                tensors[f"{prefix}.{k}.{str(key).replace('.', '_')}"] = tensor
    return tensors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("directory", nargs="?", default=os.path.join(here, "..", "..", "tests", "program", "nodes"))
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    os.makedirs(options.directory, exist_ok=True)
    warnings.simplefilter("ignore")
    written = 0
    for case in node_cases.collect_testcases(None) + model_cases.collect_testcases() if not only else \
            node_cases.collect_testcases(None):
        if case.model is None or not case.data_sets or (only and case.name not in only):
            continue
        base = os.path.join(options.directory, case.name)
        with open(base + ".onnx", "wb") as file:
            file.write(modern(case.model).SerializeToString())
        tensors = tensors_of(case)
        if tensors is not None:
            save_file(tensors, base + ".safetensors")
        written += 1
    print(written, "tests")


if __name__ == "__main__":
    main()
