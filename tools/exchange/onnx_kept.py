#!/usr/bin/env python3
"""Writes the ONNX models whose reading once was wrong, with onnxruntime's results, for tests/program/onnx/nodes.
SPDX-License-Identifier: MIT

  python3 tools/exchange/onnx_kept.py DIRECTORY

What tools/exchange/onnx_read.py finds is added here, as small as it can be."""
import os
import sys

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file

F, I = np.float32, np.int64
NAN, INF = np.nan, np.inf
U8, I8 = np.uint8, np.int8
TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64, "int32": TensorProto.INT32,
         "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "bool": TensorProto.BOOL}


def node(op, inputs, *outputs, **attributes):
    return helper.make_node(op, inputs, outputs or ["y"], **attributes)


def single(op, *inputs, outputs=("y",), **attributes):
    """One node; inputs are given when it runs."""
    names = [f"i{k}" if value is not None else "" for k, value in enumerate(inputs)]
    return [node(op, names, *outputs, **attributes)], {n: v for n, v in zip(names, inputs) if n}, {}


def old(opset, op, *inputs, want=None, **attributes):
    """A node of an older opset. want: what onnxruntime, which begins with opset 7, does not compute."""
    return single(op, *inputs, **attributes) + (opset, want)


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


def conditions():
    """If on a value, whose branches have weights of their own and an If on a size."""
    weights = {"w": ramp(2, 2), "v": ramp(2, 2) + 1}

    def branch(nodes):
        return helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info("r", 1, None)])

    outer = numpy_helper.from_array(np.array(3, I), "three")
    inner = {"then_branch": branch([node("MatMul", ["x", "v"], "r")]), "else_branch": branch([node("Neg", ["x"], "r")])}
    sized = branch([node("Size", ["x"], "n"), node("Less", ["three", "n"], "c2"), node("If", ["c2"], "r", **inner)])
    nodes = [node("ReduceSum", ["x"], "s", keepdims=0), node("Greater", ["s", "zero"], "c"),
             node("If", ["c"], "z", then_branch=branch([node("MatMul", ["x", "w"], "r")]), else_branch=sized),
             node("Relu", ["z"])]
    sets = [{"x": x} for x in (-ramp(2, 2) - 2, ramp(2, 2) + 2, ramp(1, 2), -ramp(2, 2) - 3, ramp(2, 2) + 1)]
    return nodes, sets, weights | {"zero": np.array(0, F), "three": numpy_helper.to_array(outer)}


def recurrent_branch():
    """If sum(x) > 0: LSTM of x, else -x."""
    def branch(made):
        return helper.make_graph([made], "b", [], [helper.make_tensor_value_info("r", 1, None)])
    nodes = [node("ReduceSum", ["x"], "s", keepdims=0), node("Greater", ["s", "zero"], "c"),
             node("If", ["c"], then_branch=branch(node("LSTM", ["x", "w", "r0"], "r", hidden_size=2)),
                  else_branch=branch(node("Neg", ["x"], "r")))]
    return nodes, [{"x": x} for x in (-ramp(3, 1, 2) - 2, ramp(3, 1, 2) + 2)], {
        "w": ramp(1, 8, 2), "r0": ramp(1, 8, 2), "zero": np.array(0, F)}


def looped(text, sets, constants=None):
    """Nodes in ONNX's text; an input NONE is absent."""
    nodes = list(onnx.parser.parse_graph(f"g (float x) => (float y) {{ {text} }}").node)
    for made in nodes:
        made.input[:] = ["" if name == "NONE" else name for name in made.input]
    return nodes, sets, constants or {}


def loops():
    """Loop and Scan; cases that look at one thing each."""
    x, w, yes = ramp(2) + 2, ramp(2, 2) / 4, np.array(True)
    count = [{"n": np.array(k, I), "x": x} for k in (3, 0, 1)]
    yield "loop_that_swaps", looped(
        "a, b, s = Loop <body = g (int64 i, bool c, float[2] p, float[2] q) => (bool d, float[2] q, float[2] r, float[2] t) {"
        " d = Identity (c) r = Mul (p, w) t = Add (p, q) }> (n, yes, x, one)", count, {"yes": yes, "one": x * 0 + 1, "w": x})
    yield "loop_until", looped(
        "y = Loop <body = g (int64 i, bool c, float[2] p) => (bool d, float[2] q) {"
        " q = MatMul (p, w) s = ReduceSum <keepdims = 0> (q) d = Less (s, most) }> (NONE, yes, x)",
        [{"x": x}, {"x": x * 100}], {"yes": yes, "w": np.array([[1, 0.5], [0.25, 2]], F), "most": np.array(99, F)})
    yield "loop_with_a_false_condition", looped(
        "y, z = Loop <body = g (int64 i, bool c, float[2] p) => (bool d, float[2] q, float[2,0] e) {"
        " d = Identity (c) q = Neg (p) e = Expand (no, to) }> (n, c, x)",
        [{"n": np.array(5, I), "c": np.array(False), "x": x}, {"n": np.array(1, I), "c": yes, "x": x}],
        {"to": np.array([2, 0]), "no": np.zeros((2, 0), F)})
    yield "loop_that_grows", looped(
        "y = Loop <body = g (int64 i, bool c, float[n] p) => (bool c, float[m] q) {"
        " f = Cast <to = 1> (i) u = Unsqueeze (f, zero) q = Concat <axis = 0> (p, u) }> (n, yes, x)", count, {"yes": yes, "zero": np.array([0])})
    yield "loop_of_vectors", looped(
        "y, s = Loop <body = g (int64[1] i, bool[1] c, float[n] p) => (bool[1] c, float[m] q, int64[1] j) {"
        " f = Cast <to = 1> (i) q = Add (p, f) j = Identity (i) }> (n, yes, x)", count[:1], {"yes": np.array([True])})
    yield "loops_in_loops", looped(
        "y, s = Loop <body = g (int64 i, bool c, float[2] p) => (bool c, float[2] r, float[2] t) {"
        " r, t2 = Loop <body = h (int64 j, bool c2, float[2] q) => (bool c2, float[2] q2, float[2] u) {"
        "   k = Add (i, j) f = Cast <to = 1> (k) u = Mul (f, x) q2 = Add (q, u) }> (i, yes, p)"
        " t = ReduceSum <keepdims = 0> (t2, zero) }> (n, yes, x)", count, {"yes": yes, "zero": np.array([0])})
    yield "loop_with_branches", looped(
        "y, s = Loop <body = g (int64 i, bool c, float[2] p) => (bool c, float[2] r, float[2] r) {"
        " k = Mod (i, two) o = Cast <to = 9> (k) z = Equal (k, zero)"
        " r = If <then_branch = t () => (float[2] a) { e = Less (i, two) m = Neg (p)"
        "     a = If <then_branch = v () => (float[2] a2) { a2 = Mul (m, w) }, else_branch = v2 () => (float[2] a3) { a3 = Mul (p, w) }> (e) },"
        "   else_branch = u () => (float[2] b) {"
        "     b = Loop <body = h (int64 j, bool c2, float[2] q) => (bool c2, float[2] q2) { q2 = Add (q, w) }> (i, yes, p) }> (z)"
        " }> (n, yes, x)", [{"n": np.array(5, I), "x": x}], {"yes": yes, "zero": np.array(0), "two": np.array(2), "w": x})
    yield "loops_that_are_traced", looped(
        "y, s = Loop <body = g (int64 i, bool c, float[2] p) => (bool d, float[2] r, float[2] r2) {"
        " d = Identity (c) f = Cast <to = 1> (i) o = Mul (x, f) t = ReduceSum <keepdims = 0> (p) b = Less (t, most)"
        " r = If <then_branch = v () => (float[2] a) { a0 = Add (p, w) a = ScatterElements (a0, at, up) }, else_branch = u () => (float[2] e) {"
        "   e, e2 = Scan <num_scan_inputs = 1, body = h (float[2] q, float[2] q2, float[2] z) => (float[2] q3, float[2] q4) {"
        "     q3 = Sub (q, z) q4 = Mul (q2, w) }> (p, o, m) }> (b) r2 = Neg (r) }> (five, yes, x)",
        [{"x": x}, {"x": -x}], {"yes": yes, "five": np.array(5), "most": np.array(2, F), "w": w[0] * 8, "m": ramp(3, 2),
                                "at": np.array([1]), "up": np.array([0.5], F)})
    yield "scan_along_other_axes", looped(
        "a, b, s, t = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [1, 0],"
        " scan_output_axes = [1, -1], scan_output_directions = [0, 1],"
        " body = g (float[2] p, float q, float[2] e, float[2] f) => (float[2] p2, float q2, float[2] u, float[2] v) {"
        " u = Add (p, e) v = Mul (e, f) p2 = Add (u, w) q2 = Add (q, half) }> (x, half, m, o)",
        [{"x": x, "m": ramp(2, 3), "o": ramp(3, 2) * 2}, {"x": x, "m": ramp(2, 1), "o": ramp(1, 2)}], {"w": x, "half": np.array(0.5, F)})
    yield "scan_of_layers", looped(
        "h, y = Scan <num_scan_inputs = 1, body = g (float[1,2] p, float[1,2] e) => (float[1,2] q, float[1,2] o) {"
        " a = Gemm (e, w, v) b = MatMul (p, w) c = Add (a, b) q = Tanh (c) o = Neg (q) }> (first, x)",
        [{"x": ramp(3, 1, 2)}, {"x": ramp(1, 1, 2)}], {"first": ramp(1, 2), "w": w, "v": ramp(2)})


def dynamic_lstm():
    """Weights of 8 bits for an input of 2 and a state of 3, in two directions."""
    def whole(*shape):
        return ((np.arange(np.prod(shape)) * 37) % 255 - 127).reshape(shape).astype(I8)
    scale, zero = np.array([0.01, 0.02], F), np.array([0, 3], I8)
    names = ["x", "w", "r", "b", "", "", "", "", "s", "z", "s", "z"]
    made = [node("DynamicQuantizeLSTM", names, "y", "h", domain="com.microsoft", hidden_size=3, direction="bidirectional")]
    return made, {"x": ramp(4, 1, 2)}, {"w": whole(2, 2, 12), "r": whole(2, 3, 12), "b": ramp(2, 24) / 8, "s": scale, "z": zero}


def qlinear(op, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, *more, **attributes):
    return single(op, a, np.array(a_scale, F), np.array(a_zero, a.dtype), b, np.array(b_scale, F), np.array(b_zero, b.dtype), np.array(y_scale, F),
                  np.array(y_zero, a.dtype), *more, **attributes)


def trees(op, kind, targets, **attributes):
    """Two trees: x[1] <= 0.5 ? (x[0] <= -0.5 ? a : b) : c, and x[2] <= 1 ? d : e."""
    leaf = {"treeids": [0, 0, 0, 1, 1], "nodeids": [2, 3, 4, 1, 2], "ids": targets}
    nodes = {"treeids": [0] * 5 + [1] * 3, "nodeids": [0, 1, 2, 3, 4, 0, 1, 2], "featureids": [1, 0, 0, 0, 0, 2, 0, 0],
             "values": [0.5, -0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], "truenodeids": [1, 2, 0, 0, 0, 1, 0, 0],
             "falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0], "missing_value_tracks_true": [1] + [0] * 7,
             "modes": ["BRANCH_LEQ"] * 2 + ["LEAF"] * 3 + ["BRANCH_LEQ"] + ["LEAF"] * 2}
    attributes |= {f"nodes_{k}": v for k, v in nodes.items()} | {f"{kind}_{k}": v for k, v in leaf.items()}
    x = np.array([[0, 0, 0], [-1, 0.5, 2], [1, 1, 1], [3, NAN, 4], [NAN, 0, NAN]], F)
    results = ("y", "p") if kind == "class" else ("y",)
    return single(op, x, domain="ai.onnx.ml", outputs=results, **attributes)


def trees_of_leaves():
    def tensor(*values, dtype=F):
        return numpy_helper.from_array(np.array(values, dtype))
    return single("TreeEnsemble", np.array([[0, 2], [1.5, 1], [NAN, 0]], F), domain="ai.onnx.ml", n_targets=2, tree_roots=[0, 2],
                  nodes_featureids=[0, 1, 1], nodes_splits=tensor(1, 0.5, 1), nodes_modes=tensor(1, 1, 1, dtype=U8),
                  nodes_truenodeids=[1, 0, 2], nodes_trueleafs=[0, 1, 1], nodes_falsenodeids=[2, 1, 3], nodes_falseleafs=[1, 1, 1],
                  nodes_missing_value_tracks_true=[1, 0, 0], leaf_targetids=[0, 1, 0, 1], leaf_weights=tensor(1, 2, 4, 8))


def computed_statistics():
    make = [node("ConstantOfShape", ["c"], n, value=numpy_helper.from_array(np.array([v], F))) for n, v in
            (("s", 2), ("b", 1), ("m", 0.5), ("v", 4))]
    return [node("Shape", ["x"], "c", start=1, end=2)] + make + [
        node("BatchNormalization", ["x", "s", "b", "m", "v"])], {"x": ramp(2, 3, 2)}, {}


def mel_of_a_spectrum():
    constants = {n: np.array(v) for n, v in zip("nlrab", (12, 16, 8000, F(0), F(1000)))}
    return [node("MelWeightMatrix", list("nlrab"), "m"), node("MatMul", ["x", "m"])], {"x": ramp(2, 9)}, constants


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
    yield "mel_weights", single("MelWeightMatrix", *map(np.array, (10, 32, 16000, F(20), F(8000))), output_datatype=11)
    yield "mel_weights_of_constants", mel_of_a_spectrum()
    yield "gate_of_a_number", gated(ramp(1, 1, 4, 4), np.array(2, F), pads=[1, 1, 1, 1])
    yield "gate_of_a_vector", gated(ramp(1, 1, 4, 4), np.array([2], F), pads=[1, 1, 1, 1])
    yield "gate_of_channels", gated(ramp(1, 2, 4, 4), ramp(2, 1, 1), pads=[1, 1, 1, 1])
    yield "gate_of_one_pixel", gated(ramp(1, 1, 6, 6), ramp(1, 1, 1, 1), auto_pad="SAME_UPPER", strides=[2, 2])
    yield "if_with_names_of_its_own", branches()
    yield "if_on_values", conditions()
    yield "if_around_lstm", recurrent_branch()
    yield from loops()
    yield "dynamic_quantize", single("DynamicQuantizeLinear", ramp(3, 5), outputs=("y", "s", "z"))
    yield "dynamic_quantize_of_zeros", single("DynamicQuantizeLinear", np.zeros(3, F), outputs=("y", "s", "z"))
    bytes_ = (np.arange(12) * 23 % 256).astype(U8)
    signed = (np.arange(12) * 37 % 255 - 127).astype(I8)
    yield "matmul_integer", single("MatMulInteger", bytes_.reshape(3, 4), signed.reshape(4, 3), np.array(7, U8),
                                   np.array([1, -2, 3], I8))
    yield "conv_integer", single("ConvInteger", np.tile(bytes_, 3).reshape(1, 1, 6, 6), np.tile(signed, 2)[:18].reshape(2, 1, 3, 3),
                                 np.array(5, U8), np.array(-4, I8), pads=[1, 0, 1, 2], strides=[2, 1])
    grid = np.arange(256).astype(U8)
    yield "qlinear_matmul", qlinear("QLinearMatMul", bytes_.reshape(3, 4), 0.02, 7, signed.reshape(4, 3), [0.01, 0.5, 0.3], [1, -2, 3], 0.7, 120)
    yield "qlinear_matmul_of_signed_ones", qlinear("QLinearMatMul", signed.reshape(1, 3, 4), 0.02, -7, np.tile(signed, 2).reshape(2, 4, 3), 0.04, 9,
                                                   0.3, -20)
    yield "qlinear_conv", qlinear("QLinearConv", np.tile(bytes_, 6).reshape(1, 2, 6, 6), 0.02, 5, np.tile(signed, 3).reshape(2, 2, 3, 3), [0.05, 0.01],
                                  [0, 0], 1.7, 99, np.array([1500, -700], np.int32), pads=[1, 0, 1, 2], strides=[2, 1])
    yield "qlinear_conv_in_groups", qlinear("QLinearConv", np.tile(bytes_, 3).reshape(2, 2, 3, 3), 0.02, 131, np.tile(bytes_, 3).reshape(4, 1, 3, 3), 0.05,
                                            128, 0.9, 3, group=2, auto_pad="SAME_UPPER")
    yield "qlinear_add", qlinear("QLinearAdd", grid[:, None], 0.0625, 3, grid[None, ::5], 0.25, 77, 0.5, 31, domain="com.microsoft")
    yield "qlinear_add_of_signed_ones", qlinear("QLinearAdd", grid.view(I8), 0.037, -3, grid[:1].view(I8), 0.011, 7, 0.031, 1, domain="com.microsoft")
    yield "qlinear_add_of_one_to_many", qlinear("QLinearAdd", np.array([202], U8), 0.0719120129942894, 213, np.array([119, 120], U8),
                                                0.08914467692375183, 123, 0.010022801347076893, 201, domain="com.microsoft")
    yield "qlinear_scale_of_0", qlinear("QLinearMatMul", grid[:4].reshape(2, 2), 0.5, 1, np.array([[1], [-2]], I8), 0.5, 0, 0.0, 9) + (
        20, np.array([[0], [0]], U8))
    yield "dynamic_lstm", dynamic_lstm()
    yield "scaler", single("Scaler", ramp(2, 3), domain="ai.onnx.ml", offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, -1.0])
    weights, signed = [0.25, 0.5, 0.125, 0.25, 0.375], [-1.0, 0.5, 2.0, -0.25, 1.5]
    yield "trees", trees_of_leaves()
    yield "tree_regressor", trees("TreeEnsembleRegressor", "target", [0, 0, 0, 1, 1], target_weights=weights, n_targets=2,
                                  base_values=[1.0, 2.0], aggregate_function="AVERAGE")
    yield "tree_classifier_of_two", trees("TreeEnsembleClassifier", "class", [0] * 5, class_weights=weights,
                                          classlabels_int64s=[7, 9])
    yield "tree_classifier_of_two_signs", trees("TreeEnsembleClassifier", "class", [0] * 5, class_weights=signed,
                                                classlabels_int64s=[0, 1], post_transform="LOGISTIC", base_values=[0.125])
    yield "tree_classifier_of_three", trees("TreeEnsembleClassifier", "class", [0, 1, 2, 1, 0], class_weights=signed,
                                            classlabels_int64s=[3, 4, 8], post_transform="SOFTMAX", base_values=[0.5, 0.0, 0.25])
    x, b = ramp(2, 3, 2), ramp(3) + 2
    for op, fn in (("Add", np.add), ("Div", np.divide), ("Mul", np.multiply), ("Pow", None)):
        other = b[:, None] if fn else np.full((3, 1), 2, F)
        yield f"{op.lower()}_aligned_6", old(6, op, x, other[:, 0], axis=1, broadcast=1, want=(fn or np.power)(x, other))
    yield "less_aligned_6", old(6, "Less", x, b[:2], broadcast=1, want=x < b[:2])
    yield "prelu_6", old(6, "PRelu", x, b, want=np.where(x < 0, x * b[:, None], x))
    yield "dropout_6", old(6, "Dropout", x, is_test=1, ratio=0.25, want=x)
    yield "batch_norm_6", old(6, "BatchNormalization", x, ramp(3, 2), ramp(3, 2), ramp(3, 2), ramp(3, 2) + 2, is_test=1, spatial=0,
                              want=((x - ramp(3, 2)) / np.sqrt(ramp(3, 2) + F(2 + 1e-5)) * ramp(3, 2) + ramp(3, 2)).astype(F))
    yield "clip_6", old(10, "Clip", x, max=0.5)
    yield "softmax_1", old(12, "Softmax", x)
    yield "softmax_1_of_the_last_axis", old(11, "Softmax", x, axis=-1)
    yield "log_softmax_1", old(8, "LogSoftmax", x, axis=0)
    yield "hardmax_1", old(11, "Hardmax", x)
    yield "pad_2", old(10, "Pad", x, pads=[0, 1, 0, 0, 0, 2], value=2.5)
    yield "upsample_7", old(8, "Upsample", ramp(1, 1, 2, 3), scales=[1.0, 1.0, 2.0, 1.5])
    yield "upsample_9_linear", old(9, "Upsample", ramp(1, 1, 2, 3), np.array([1, 1, 2, 3], F), mode="linear")
    yield "resize_10_to_fewer", old(10, "Resize", ramp(1, 1, 5, 7), np.array([1, 1, 0.6, 0.5], F))
    yield "resize_11_tensorflow", old(11, "Resize", ramp(1, 1, 2, 3), np.zeros(0, F), np.array([1, 1, 2, 2.6], F),
                                      coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor")
    yield "topk_1", old(9, "TopK", x, k=2, axis=1, outputs=("y", "i"))
    yield "scatter_9", old(9, "Scatter", ramp(3, 3), np.array([[0, 2, 1]]), ramp(1, 3) + 9)
    yield "slice_1", old(9, "Slice", x, starts=[1, -1], ends=[3, 9], axes=[1, 2])
    yield "split_2", old(11, "Split", x, split=[1, 2], axis=1, outputs=("y", "z"))
    yield "reduce_1", old(11, "ReduceSum", x, axes=[0, -1], keepdims=0)
    yield "squeeze_1", old(11, "Squeeze", ramp(1, 3, 1), axes=[-1])
    yield "unsqueeze_1", old(9, "Unsqueeze", ramp(2, 3), axes=[0, 3])
    yield "dropout_7_with_its_mask", old(11, "Dropout", x, ratio=0.25, outputs=("y", "m"))
    yield "batch_norm_7", old(8, "BatchNormalization", x, b, b, b, b + 2, epsilon=0.125)
    yield "result_without_dimensions", single("Neg", x)
    yield "inputs_of_unknown_sizes", ([node("Concat", ["x", "z"], axis=0)], {"x": ramp(2), "z": ramp(3)}, {})


def write(directory, name, nodes, sets, constants, opset=20, want=None):
    sets = sets if isinstance(sets, list) else [sets]
    dims = ["?"] if name == "inputs_of_unknown_sizes" else None
    given = [helper.make_tensor_value_info(n, TYPES[v.dtype.name], dims) for n, v in sets[0].items()]
    results = [o for n in nodes[-1:] for o in n.output]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info(r) for r in results],
                              [numpy_helper.from_array(v, n) for n, v in constants.items()])
    domains = {n.domain: 5 if n.op_type == "TreeEnsemble" else 1 for n in nodes if n.domain}
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)] + [
        helper.make_opsetid(d, version) for d, version in domains.items()])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = want is None and onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    tensors = {}
    for k, inputs in enumerate(sets):
        out = [np.asarray(o) for o in (session.run(None, inputs) if session else [want])]
        tensors |= {f"in.{k}.{n}": torch.tensor(v) for n, v in inputs.items()}
        tensors |= {f"out.{k}.{i}": torch.tensor(o) for i, o in enumerate(out)}
    for i, o in enumerate(out):
        shape = [] if name == "result_without_dimensions" else None
        model.graph.output[i].CopyFrom(helper.make_tensor_value_info(results[i], TYPES[o.dtype.name], shape))
    with open(os.path.join(directory, f"kept_{name}.onnx"), "wb") as file:
        file.write(model.SerializeToString())
    save_file(tensors, os.path.join(directory, f"kept_{name}.safetensors"))


def main(directory):
    for name, case in cases():
        try:
            write(directory, name, *case)
        except Exception as problem:  # noqa: BLE001
            print(f"{name}: {problem}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
