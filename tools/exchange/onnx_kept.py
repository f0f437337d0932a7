#!/usr/bin/env python3
"""Writes the ONNX models whose reading once was wrong, with onnxruntime's results, for tests/program/onnx/nodes.
SPDX-License-Identifier: MIT

  python3 tools/exchange/onnx_kept.py DIRECTORY

What tools/exchange/onnx_read.py finds is added here, as small as it can be."""
import os
import sys

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file

F, I = np.float32, np.int64
NAN, INF = np.nan, np.inf
TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64, "int32": TensorProto.INT32,
         "uint8": TensorProto.UINT8, "bool": TensorProto.BOOL}


def node(op, inputs, output="y", **attributes):
    return helper.make_node(op, inputs, [output], **attributes)


def single(op, *inputs, **attributes):
    """One node; inputs are given when it runs."""
    names = [f"i{k}" if value is not None else "" for k, value in enumerate(inputs)]
    return [node(op, names, **attributes)], {n: v for n, v in zip(names, inputs) if n}, {}


def ramp(*shape):
    return (np.arange(np.prod(shape)).reshape(shape) / 4 - 1).astype(F)


def gated(gate, factor, **attributes):
    """Conv of what a sigmoid of `gate` gates, and a constant factor."""
    weight = ramp(2, max(gate.shape[1], factor.shape[0] if factor.ndim == 3 else 1), 3, 3)
    return [node("Sigmoid", ["v"], "s"), node("Mul", ["s", "c"], "m"), node("Conv", ["m", "w"], **attributes)], {"v": gate}, {
        "c": factor, "w": weight}


def nms(classes):
    return single("NonMaxSuppression", np.array([[[0, 0, 1, 1]]], F), np.full((1, classes, 1), 0.5, F), np.array([1]),
                  np.array([0.5], F))


def branches():
    """Two Ifs whose branches use the same names."""
    def branch(op, result):
        k = numpy_helper.from_array(np.array([2, 3], F)[:1] if op == "Mul" else np.array([3], F), "k")
        return helper.make_graph([node(op, ["x", "k"], "r")], "b", [], [helper.make_tensor_value_info("r", 1, None)], [k])

    yes = {"then_branch": branch("Mul", "r"), "else_branch": branch("Sub", "r")}
    other = {"then_branch": branch("Sub", "r"), "else_branch": branch("Add", "r")}
    return [node("If", ["t"], "a", **yes), node("If", ["f"], "b", **other), node("Add", ["a", "b"])], {
        "x": np.array([0, 1.5], F)}, {"t": np.array(True), "f": np.array(False)}


def computed_statistics():
    make = [node("ConstantOfShape", ["c"], n, value=numpy_helper.from_array(np.array([v], F))) for n, v in
            (("s", 2), ("b", 1), ("m", 0.5), ("v", 4))]
    return [node("Shape", ["x"], "c", start=1, end=2)] + make + [
        node("BatchNormalization", ["x", "s", "b", "m", "v"])], {"x": ramp(2, 3, 2)}, {}


def cases():
    big = 2**53 + 1
    yield "range_of_large_integers", single("Range", np.array(2**60), np.array(2**60 + 3), np.array(1))
    yield "range_down_of_large_integers", single("Range", np.array(big), np.array(big - 7), np.array(-3))
    yield "range_of_nothing", single("Range", np.array(3), np.array(3), np.array(-1))
    yield "pad_with_a_large_integer", single("Pad", np.array([[1, -big]]), np.array([1, 0, 0, 2]), np.array(big))
    yield "sign_of_nan", single("Sign", np.array([NAN, -0.0, -INF, 2], F))
    yield "sign_of_large_integers", single("Sign", np.array([-big, 0, 1]))
    yield "nms_of_1024_classes", nms(1024)
    yield "nms_of_1025_classes", nms(1025)
    scales = np.array([1, 1, 2, 2], F)
    yield "resize_nearest_of_nan", single("Resize", np.array([[[[1, NAN], [INF, 3]]]], F), None, scales)
    yield "resize_nearest_of_large_integers", single("Resize", np.array([[[[2**24 + 1, 3], [-2**30 + 1, 5]]]], np.int32), None,
                                                     scales)
    yield "resize_of_an_empty_batch", single("Resize", np.zeros((0, 1, 2, 2), F), None, scales)
    yield "resize_linear_of_an_empty_batch", single("Resize", np.zeros((0, 1, 2, 2), F), None, None, np.array([0, 1, 3, 5]),
                                                    mode="linear", coordinate_transformation_mode="asymmetric")
    yield "resize_to_nothing", single("Resize", ramp(1, 1, 2, 2), None, np.array([1, 1, 0.4, 1], F))
    yield "resize_linear_of_equal_integers", single("Resize", np.full((1, 1, 1, 7), 3, np.int32), None, None,
                                                    np.array([1, 1, 1, 10]), mode="linear")
    yield "resize_linear_by_columns", single("Resize", ramp(1, 1, 1, 4), None, None, np.array([1, 1, 1, 7]), mode="linear",
                                             coordinate_transformation_mode="asymmetric")
    for op in ("ReduceMax", "ReduceMin"):
        yield f"{op.lower()}_over_an_empty_batch", single(op, np.zeros((0, 3), F), np.array([1]), keepdims=0)
        yield f"{op.lower()}_of_an_empty_batch_of_integers", single(op, np.zeros((0, 3), I), np.array([1]))
    yield "instance_norm_of_one_pixel", single("InstanceNormalization", ramp(1, 2, 1, 1), ramp(2), ramp(2) + 2)
    yield "batch_norm_by_computed_statistics", computed_statistics()
    yield "gate_of_a_number", gated(ramp(1, 1, 4, 4), np.array(2, F), pads=[1, 1, 1, 1])
    yield "gate_of_a_vector", gated(ramp(1, 1, 4, 4), np.array([2], F), pads=[1, 1, 1, 1])
    yield "gate_of_channels", gated(ramp(1, 2, 4, 4), ramp(2, 1, 1), pads=[1, 1, 1, 1])
    yield "gate_of_one_pixel", gated(ramp(1, 1, 6, 6), ramp(1, 1, 1, 1), auto_pad="SAME_UPPER", strides=[2, 2])
    yield "if_with_names_of_its_own", branches()
    yield "inputs_of_unknown_sizes", ([node("Concat", ["x", "z"], axis=0)], {"x": ramp(2), "z": ramp(3)}, {})


def write(directory, name, nodes, inputs, constants):
    dims = ["?"] if name == "inputs_of_unknown_sizes" else None
    given = [helper.make_tensor_value_info(n, TYPES[v.dtype.name], dims) for n, v in inputs.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(v, n) for n, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    out = np.asarray(session.run(None, inputs)[0])
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TYPES[out.dtype.name], None))
    with open(os.path.join(directory, f"kept_{name}.onnx"), "wb") as file:
        file.write(model.SerializeToString())
    tensors = {f"in.0.{n}": torch.tensor(v) for n, v in inputs.items()}
    save_file(tensors | {"out.0.0": torch.tensor(out)}, os.path.join(directory, f"kept_{name}.safetensors"))


def main(directory):
    for name, (nodes, inputs, constants) in cases():
        try:
            write(directory, name, nodes, inputs, constants)
        except Exception as problem:  # noqa: BLE001
            print(f"{name}: {problem}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
