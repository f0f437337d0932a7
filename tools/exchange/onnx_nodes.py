"""Writes ONNX's own node tests (package onnx) for tests/program/onnx/nodes.c: NAME.onnx, and NAME.safetensors with in.0.*
and out.0.*. Those that have no tensors of dtypes that safetensors knows get the model only, whose loading must be refused.

  onnx_nodes.py DIRECTORY        all
  onnx_nodes.py --only a,b DIR   some
  onnx_nodes.py --sets DIR       the models of opset 6 to 12 that the package stores: simple, pytorch-converted,
                                 pytorch-operator, and light, of which onnxruntime computes the results
SPDX-License-Identifier: MIT"""
import argparse
import collections
import glob
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
# Dtypes that situ does not have, as the wider one that a program has their values in.
WIDE = {"uint16": "int32", "uint32": "int64", "int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8",
        "float8_e4m3fn": "float32", "float8_e4m3fnuz": "float32", "float8_e5m2": "float32", "float8_e5m2fnuz": "float32",
        "float4_e2m1fn": "float32", "float8_e8m0fnu": "float32", "uint64": "int64"}
LEAST_OPSET = 6


def to_torch(value):
    """A tensor of an array, whose dtype torch may lack; None for other dtypes."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, (int, float, bool)):
        value = np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)) or str(value.dtype) not in KNOWN | set(WIDE):
        return None
    value = value.astype(WIDE.get(str(value.dtype), value.dtype))
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
        constant = {t.name for t in case.model.graph.initializer}
        names = [value.name for value in case.model.graph.input if value.name not in constant]
        outputs = [item for value in outputs for item in (value if isinstance(value, list) else [value])]
        for prefix, values, keys in (("in", inputs, names), ("out", outputs, range(len(outputs)))):
            for key, value in zip(keys, values):
                tensor = to_torch(value)
                if tensor is None:
                    return None
                tensors[f"{prefix}.{k}.{str(key).replace('.', '_')}"] = tensor
    return tensors


Case = collections.namedtuple("Case", "name model data_sets")


def read_values(folder, what):
    paths = sorted(glob.glob(f"{folder}/{what}_*.pb"), key=lambda path: int(path.rsplit("_", 1)[1][:-3]))
    return [onnx.load_tensor(path) for path in paths]


def stored_cases():
    import onnxruntime
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    for path in sorted(glob.glob(f"{data}/simple/*/model.onnx") + glob.glob(f"{data}/pytorch-*/*/model.onnx")):
        sets = []
        for folder in sorted(glob.glob(f"{os.path.dirname(path)}/test_data_set_*")):
            try:
                sets.append((read_values(folder, "input"), read_values(folder, "output")))
            except Exception:  # noqa: BLE001: not a tensor
                sets.append(([None], []))
        yield Case(os.path.basename(os.path.dirname(path)), onnx.load(path), sets)
    for path in sorted(glob.glob(f"{data}/light/*.onnx")):
        session = onnxruntime.InferenceSession(path, None, ["CPUExecutionProvider"])
        given = {i.name: np.random.rand(*i.shape).astype(np.float32) for i in session.get_inputs()}
        model = onnx.load(path)
        constant = {t.name for t in model.graph.initializer}
        inputs = [given[i.name] for i in model.graph.input if i.name not in constant]
        yield Case(os.path.basename(path)[:-5], model, [(inputs, session.run(None, given))])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--sets", action="store_true")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("directory", nargs="?", default=os.path.join(here, "..", "..", "tests", "program", "onnx", "nodes"))
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    os.makedirs(options.directory, exist_ok=True)
    warnings.simplefilter("ignore")
    written = 0
    for case in stored_cases() if options.sets else node_cases.collect_testcases(None) + (
            [] if only else model_cases.collect_testcases()):
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
