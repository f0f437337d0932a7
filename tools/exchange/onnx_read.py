#!/usr/bin/env python3
"""Changes the inputs of ONNX's own node tests, and compares what situ and onnxruntime compute.
SPDX-License-Identifier: MIT

  python3 tools/exchange/onnx_read.py LIBSITU.SO [--count N] [--seed S] [--only Resize,Pad] [--list] [--keep DIR]

Each test of package onnx whose operators situ reads runs without its declared sizes, N times: with NaN, infinities and
large numbers among its values, with whole numbers that a double or a float does not hold, and with a size of its inputs
as 0, 1 or one less. Range, Pad, Resize and others whose operands the host reads have cases of their own. What both
compute agrees in dtype, shape and value; what situ refuses is counted, and printed with --list. --keep: each that
differs as NAME.onnx and NAME.safetensors, for tests/program/onnx/nodes. Needs onnx, onnxruntime, torch and safetensors."""
import argparse
import collections
import concurrent.futures.process
import ctypes as C
import glob
import multiprocessing
import os
import random
import re
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.backend.test.case.node as node_cases  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import onnx_nodes  # noqa: E402
import written_tensors  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import drawn  # noqa: E402
from drawn import Refused  # noqa: E402
from onnx_written import bind, compute, differs, load, message  # noqa: E402

# Operators whose kernels have their own ideas of NaN and infinities, as in written_calls.FINITE.
FINITE = {"MaxPool", "AveragePool", "LpPool", "Conv", "ConvTranspose", "DeformConv", "MatMul", "Gemm", "Einsum", "LSTM", "GRU",
          "RNN", "Attention", "BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
          "RMSNormalization", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "TopK", "GridSample", "RoiAlign", "DFT", "STFT",
          "Det", "LpNormalization", "MeanVarianceNormalization", "LRN", "NonMaxSuppression", "Unique", "Hardmax", "Cast",
          "CastLike", "QuantizeLinear", "DequantizeLinear", "Clip", "Shrink", "ReduceSum", "ReduceProd", "ReduceSumSquare",
          "GlobalAveragePool", "GlobalMaxPool", "MaxUnpool", "AffineGrid", "SoftmaxCrossEntropyLoss", "RotaryEmbedding",
          "NegativeLogLikelihoodLoss", "ReduceLogSumExp", "ReduceL1", "ReduceL2", "ReduceMean", "ReduceLogSum", "CumSum",
          "CumProd", "Col2Im", "SwiGLU", "Resize", "ScatterND", "ScatterElements", "ThresholdedRelu"}
# Their results are others each time, or are made of one size of the first input.
SKIPPED = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"}
HOST = {}  # of each operator: names of the inputs that the host reads


def read_rows():
    """Operators that situ reads, from its table of rows."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in glob.glob(os.path.join(here, "..", "..", "src", "program", "onnx", "read", "ops*.c")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for macro, name in re.findall(r'\b(UNARY|UNARY_SHAPES|PAIR|PAIR_SHAPES|VARIADIC|WITH_ALPHA|REDUCE|ALONG)\("(\w+)"', text):
            HOST.setdefault(name, {1} if macro == "REDUCE" else set())
        macros = dict(re.findall(r'#define (\w+) ((?:"[^\n]*\n?)+)', text))
        for name, rest in re.findall(r'^  \{ "(\w+)",(.*?)\.(?:run|unary|binary|scalar) =', text, re.S | re.M):
            for macro, value in macros.items():
                rest = re.sub(rf"\b{macro}\b", lambda _, v=value: v.strip(), rest)
            kinds = re.match(r'\s*((?:"[^"]*"\s*)+)', rest)
            words = "".join(re.findall(r'"([^"]*)"', kinds.group(1))).split(",") if kinds else []
            HOST.setdefault(name, set()).update(k for k, word in enumerate(words) if word.strip().startswith("h"))


def without_sizes(model):
    model = onnx_nodes.modern(model)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for value in list(copy.graph.input) + list(copy.graph.output):
        value.type.tensor_type.ClearField("shape")
    return copy


# ---- changes of the inputs ----

def special(t, finite):
    if finite and t.dtype.is_floating_point:  # sums of large terms are what rounding makes of them
        return written_tensors.special(t.float(), finite).clamp(-8, 8).to(t.dtype)
    if t.dtype in (torch.float16, torch.bfloat16):
        return written_tensors.special(t.float(), finite).to(t.dtype)
    return written_tensors.special(t, finite)


def cut(tensors, host):
    """With one size of the operands another one."""
    sizes = [s for k, t in enumerate(tensors) if k not in host for s in t.shape]
    if not sizes:
        return tensors
    old = random.choice(sizes)
    new = random.choice([0, 1, max(old - 1, 0)])
    return [t if k in host else t[tuple(slice(0, new) if s == old else slice(None) for s in t.shape)].contiguous()
            for k, t in enumerate(tensors)]


def changed(tensors, op):
    host = HOST.get(op, set())
    tensors = list(tensors)
    if random.random() < 0.6:
        tensors = cut(tensors, host)
    if random.random() < 0.6:
        indices = re.match(r"Gather|Scatter|OneHot|TensorScatter|NegativeLog|SoftmaxCross|Attention|Rotary|MaxUnpool|Reverse|"
                           r"RoiAlign|LSTM|GRU|RNN", op)
        tensors = [t if k in host or (k > 0 and indices and not t.dtype.is_floating_point) or t.dtype == torch.bool or
                   (op == "OneHot" and k == 0) or (op in ("Div", "Mod") and k == 1 and not t.dtype.is_floating_point)
                   else special(t, op in FINITE) for k, t in enumerate(tensors)]
    return tensors


# ---- cases of their own: (op, inputs by name, attributes, opset) ----

def whole(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


def scalar(value, dtype=torch.int64):
    return torch.tensor(value, dtype=dtype)


def own_case():
    pick = random.choice
    kind = pick(["Range", "Pad", "Resize", "ConstantOfShape", "ReduceMax", "ReduceMin", "InstanceNormalization", "CumSum", "Clip",
                 "Trilu", "ScatterND", "ReduceMean", "Resize", "Range"])
    large = pick([0, 2**53 + 1, 2**60, -2**61 - 3, 2**31 - 5])
    if kind == "Range":
        dtype = pick([torch.int64, torch.int32, torch.int16, torch.float32, torch.float64])
        if dtype.is_floating_point:
            start, step, count = pick([0.0, -1.5, 3.0]), pick([0.25, -0.5, 1.0, 2.5]), pick([0, 1, 4])
            return kind, [scalar(start, dtype), scalar(start + step * count, dtype), scalar(step, dtype)], {}
        large = large if dtype == torch.int64 else pick([0, 32000 if dtype == torch.int16 else 2**24 + 1])
        step, count = pick([1, 2, -3, 7]), pick([0, 1, 4])
        return kind, [scalar(large, dtype), scalar(large + step * count + pick([0, step // abs(step)]), dtype),
                      scalar(step, dtype)], {}
    if kind == "Pad":
        dtype = pick([torch.int64, torch.int32, torch.float32, torch.float64])
        x = special(written_tensors.tensor(pick([(3,), (2, 3), (0, 2), (1, 2, 3)]), dtype), False)
        mode = pick(["constant", "constant", "edge", "reflect", "wrap"])
        pads = [pick([0, 1, 2, -1]) for _ in range(2 * x.dim())]
        value = scalar(large if dtype == torch.int64 else 2**24 + 1, dtype)
        return kind, [x, whole(*pads), value], {"mode": mode}
    if kind == "Resize":
        dtype = pick([torch.float32, torch.float32, torch.float32, torch.int32, torch.uint8])
        # Sums of weighted whole numbers that are whole are cut to one less by its f32.
        shape = (pick([1, 1, 2]), pick([1, 2]), pick([1, 2, 4, 5]), pick([1, 2, 3]))
        mode = pick(["nearest", "nearest", "linear", "cubic"]) if dtype.is_floating_point else "nearest"
        x = written_tensors.tensor(shape, dtype)
        x = special(x, False) if mode == "nearest" or dtype.is_floating_point else x
        places = pick(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"])
        attributes = {"mode": mode, "coordinate_transformation_mode": places}
        if mode == "nearest":
            attributes["nearest_mode"] = pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        if mode == "cubic":
            x, attributes["exclude_outside"] = written_tensors.tensor(shape), pick([0, 1])
        if random.random() < 0.5:
            return kind, [x, None, None, whole(shape[0], shape[1], pick([1, 2, 3, 7]), pick([1, 2, 5, 6]))], attributes
        scales = torch.tensor([1, 1, pick([1, 2, 0.5, 1.5, 3, 0.4]), pick([1, 2, 0.5, 1.7])], dtype=torch.float32)
        return kind, [x, None, scales], attributes
    if kind == "ConstantOfShape":
        dtype = pick([torch.int64, torch.float32, torch.bool])
        value = torch.tensor([large if dtype == torch.int64 else 1]).to(dtype)
        return kind, [whole(*pick([[2, 3], [0], [1]]))], {"value": onnx.numpy_helper.from_array(value.numpy())}
    if kind in ("ReduceMax", "ReduceMin", "ReduceMean"):
        dtype = pick([torch.float32, torch.int64, torch.int32, torch.uint8])
        x = special(written_tensors.tensor(pick([(0, 3), (3, 0), (2, 3), (2, 0, 3)]), dtype), True)
        axes = pick([[0], [1], [0, 1], [-1]])
        return kind, [x, whole(*axes)], {"keepdims": pick([0, 1])}
    if kind == "InstanceNormalization":
        x = written_tensors.tensor((pick([1, 2, 0]), 2, pick([1, 1, 3]), pick([1, 2])))
        return kind, [x, written_tensors.tensor((2,)), written_tensors.tensor((2,))], {}
    if kind == "CumSum":
        x = special(written_tensors.tensor(pick([(3,), (0,), (2, 3)]), torch.int64), False)
        return kind, [x, scalar(0)], {"exclusive": pick([0, 1]), "reverse": pick([0, 1])}
    if kind == "Clip":
        x = special(written_tensors.tensor(pick([(3,), (0,), (2, 3)]), torch.int64), False)
        return kind, [x, scalar(2**53 - 3), scalar(2**53 + 1)], {}
    if kind == "Trilu":
        return kind, [special(written_tensors.tensor(pick([(3, 3), (0, 2), (2, 1, 3)])), False), scalar(pick([-2, 0, 1, 5]))], {
            "upper": pick([0, 1])}
    x = special(written_tensors.tensor((4, 2), torch.int64), False)
    return kind, [x, whole(1, -2).reshape(2, 1), special(written_tensors.tensor((2, 2), torch.int64), False)], {}


def own_model():
    op, inputs, attributes = own_case()
    names = ["" if t is None else f"i{k}" for k, t in enumerate(inputs)]
    given = [t for t in inputs if t is not None]
    types = {t.dtype: helper.np_dtype_to_tensor_dtype(t.numpy().dtype) for t in given}
    out = types[given[0].dtype]
    if op == "ConstantOfShape":
        out = attributes["value"].data_type
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)], "g",
        [helper.make_tensor_value_info(n, types[t.dtype], None) for n, t in zip([n for n in names if n], given)],
        [helper.make_tensor_value_info("y", out, None)])
    return op, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), given


# ---- comparison ----

def is_its_own(node, inputs):
    """What onnxruntime computes otherwise than ONNX's own tests and text."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type in ("ReduceMean", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "MeanVarianceNormalization"):
        return any(s < 2 for s in inputs[0].shape)  # of nothing it gives 0
    if node.op_type == "InstanceNormalization":  # the mean of one pixel is another number for it
        return inputs[0][0, 0].numel() < 2 if inputs[0].numel() else False
    if node.op_type == "Resize":  # by scales it has the rounded size; weighted infinities are NaN for it
        if attributes.get("coordinate_transformation_mode") == b"half_pixel_symmetric":
            return True  # its f32 floors 2 to 1
        if attributes.get("coordinate_transformation_mode") == b"tf_crop_and_resize" and "axes" in attributes:
            return True
        return attributes.get("coordinate_transformation_mode") == b"align_corners" and len(node.input) < 4 or (
            attributes.get("mode", b"nearest") != b"nearest" and not inputs[0].isfinite().all())
    if node.op_type == "MaxUnpool":  # with output_shape it counts the places in that
        return len(node.input) > 2
    return node.op_type == "Pow" and not inputs[0].dtype.is_floating_point or (
        node.op_type == "Attention" and "qk_matmul_output_mode" in attributes)

def run_there(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return session.run(None, {i.name: t for i, t in zip(session.get_inputs(), inputs)})


class Runtime:
    """onnxruntime in a process of its own, since some empty operands abort it."""
    pool = None

    def run(self, path, inputs):
        if not self.pool:
            self.pool = concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork"))
        try:
            return self.pool.submit(run_there, path, inputs).result()
        except concurrent.futures.process.BrokenProcessPool:
            self.pool = None
            raise


RUNTIME = Runtime()


def both(model, inputs, work, loose):
    """The verdict, why, and onnxruntime's results."""
    path = f"{work}/node.onnx"
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
    try:
        want = RUNTIME.run(path, [t.numpy() for t in inputs])
        want = [torch.from_numpy(np.ascontiguousarray(w).reshape(np.shape(w))) for w in want]
    except Exception as problem:  # noqa: BLE001
        return "only situ", str(problem), []
    scope = (C.c_char * 64)()
    drawn.lib.situ_scope_begin(scope)
    try:
        got = compute(load(path), inputs)
    except Refused as problem:
        return "refused", str(problem) or message(), want
    finally:
        drawn.lib.situ_scope_end(scope)
        drawn.lib.situ_error_clear()
    if is_its_own(model.graph.node[0], inputs):
        return "only situ", "", want
    for g, w in zip(got, want):
        why = differs(g, w, loose)
        if why:
            return "DIFFERS", f"{why} of {[t.flatten()[:8].tolist() for t in inputs]} {[list(t.shape) for t in inputs]}", want
    return "agrees", "", want


def keep(directory, name, model, inputs, want):
    with open(f"{directory}/{name}.onnx", "wb") as file:
        file.write(model.SerializeToString())
    tensors = {f"in.0.{i.name}".replace("/", "_"): t.clone() for i, t in zip(model.graph.input, inputs)}
    tensors.update({f"out.0.{k}": w.clone() for k, w in enumerate(want)})
    save_file(tensors, f"{directory}/{name}.safetensors")


def cases(only):
    for case in node_cases.collect_testcases(None):
        ops = {n.op_type for n in case.model.graph.node} if case.model else set()
        if not ops or not ops <= set(HOST) or ops & SKIPPED or (only and not ops & only):
            continue
        tensors = [onnx_nodes.to_torch(v) for v in case.data_sets[0][0]] if case.data_sets else [None]
        if all(t is not None and t.dtype != torch.bfloat16 for t in tensors):
            op = case.model.graph.node[0].op_type if len(case.model.graph.node) == 1 else ""
            if op or "expanded" not in case.name:
                yield case.name, op, without_sizes(case.model), tensors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--count", type=int, default=3, help="changes of each test")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true", help="print what is refused, too")
    parser.add_argument("--keep", default="")
    options = parser.parse_args()
    bind(options.library)
    read_rows()
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    only = set(filter(None, options.only.split(",")))
    total = collections.Counter()

    def check(name, op, model, inputs, work):
        kind, why, want = both(model, inputs, work, 1 if op in FINITE or not op else 0.01)
        total[kind] += 1
        if kind == "DIFFERS" or (options.list and kind == "refused"):
            said = " ".join(str(helper.get_attribute_value(a)) for n in model.graph.node for a in n.attribute)
            print(f"{name} {op} {said[:200]}: {kind}: {' '.join(why.split())[:500]}", flush=True)
        if kind == "DIFFERS" and options.keep:
            keep(options.keep, f"drawn_{name}_{total[kind]}", model, inputs, want)

    with tempfile.TemporaryDirectory() as work:
        for number in range(100 * options.count):
            op, model, inputs = own_model()
            if not only or op in only:
                check(f"own_{number}", op, model, inputs, work)
        for name, op, model, tensors in cases(only):
            for _ in range(options.count):
                check(name, op, model, changed(tensors, op), work)
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(total.items())))
    return total["DIFFERS"] != 0


if __name__ == "__main__":
    sys.exit(main())
