#!/usr/bin/env python3
"""Quantises models by onnxruntime's quantiser, and compares situ's results with onnxruntime's, bit for bit.
SPDX-License-Identifier: MIT

  python3 tools/exchange/onnx_quantized.py SITU [--keep DIRECTORY] [--only NAME]

SITU is the program `situ`. --keep: writes those that agree and have at most 3,560 bytes, as
tests/program/onnx/quantized has them (made with onnx 1.23 and onnxruntime 1.32)."""
import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import numpy_helper
from onnxruntime import quantization as q

F = np.float32
logging.disable(logging.WARNING)
draw = np.random.default_rng(7)


def weight(*shape):
    return (draw.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(F)


def model(text, size, out, **weights):
    """A graph in ONNX's text of x, of `size` (letters are free), and of weights; it gives y."""
    graph = onnx.parser.parse_graph(f"g (float[{size}] x) => (float[{out}] y) {{ {text} }}")
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


def mlp():
    return model("a = Gemm<transB=1>(x, w, b) c = Relu(a) y = Gemm<transB=1>(c, v, d)", "N,37", "N,10",
                 w=weight(45, 37), b=weight(45), v=weight(10, 45), d=weight(10)), (5, 37)


def products():
    return model("a = MatMul(x, w) c = Relu(a) y = MatMul(c, v)", "N,3,32", "N,3,19", w=weight(32, 40), v=weight(40, 19)), (2, 3, 32)


def cnn():
    return model("a = Conv<pads=[1,1,1,1]>(x, w, b) c = Relu(a) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c)"
                 " d = Conv<strides=[2,2], pads=[0,1,1,0]>(p, v, e) f = Relu(d) g = GlobalAveragePool(f)"
                 " h = Flatten(g) y = Gemm<transB=1>(h, u, t)", "N,3,14,14", "N,5", w=weight(20, 3, 3, 3), b=weight(20),
                 v=weight(34, 20, 3, 3), e=weight(34), u=weight(5, 34), t=weight(5)), (2, 3, 14, 14)


def residual():
    return model("a = Conv<pads=[1,1,1,1]>(x, w) c = Relu(a) d = Conv<pads=[1,1,1,1]>(c, v) s = Add(d, x) f = Relu(s)"
                 " y = Conv(f, u)", "N,8,9,9", "N,6,9,9", w=weight(8, 8, 3, 3), v=weight(8, 8, 3, 3), u=weight(6, 8, 1, 1)), (1, 8, 9, 9)


def depthwise():
    return model("a = Conv<group=40, pads=[1,1,1,1], strides=[2,2]>(x, w, b) c = Relu(a) d = Conv(c, v, e)"
                 " f = Conv<group=2, dilations=[2,2], pads=[2,2,2,2]>(d, u) y = Relu(f)", "N,40,11,11", "N,12,6,6",
                 w=weight(40, 1, 3, 3), b=weight(40), v=weight(16, 40, 1, 1), e=weight(16), u=weight(12, 8, 3, 3)), (2, 40, 11, 11)


def gated():
    return model("a = Conv(x, w) s = Sigmoid(a) m = Mul(a, s) c = Concat<axis=1>(m, x) y = Conv(c, v)", "N,6,5,5",
                 "N,4,5,5", w=weight(6, 6, 1, 1), v=weight(4, 12, 3, 3)[:, :, :1, :1].copy()), (2, 6, 5, 5)


def signal():
    return model("a = Conv<pads=[2,2]>(x, w, b) c = LeakyRelu<alpha=0.1>(a) y = Conv<strides=[3]>(c, v)", "N,5,31",
                 "N,7,10", w=weight(18, 5, 5), b=weight(18), v=weight(7, 18, 3)), (2, 5, 31)


def attention():
    return model("q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) t = Transpose<perm=[0,2,1]>(k)"
                 " s = MatMul(q, t) r = Relu(s) o = MatMul(r, v) y = Add(o, x)", "N,6,16", "N,6,16",
                 wq=weight(16, 16), wk=weight(16, 16), wv=weight(16, 16)), (2, 6, 16)


def lstm():
    w, r = weight(1, 32, 6), weight(1, 32, 8)
    return model("a, h, c = LSTM<hidden_size=8>(x, w, r, b) y = Squeeze(a, one)", "S,2,6", "S,2,8", w=w, r=r,
                 b=weight(1, 64), one=np.array([1])), (7, 2, 6)


class Drawn(q.CalibrationDataReader):
    def __init__(self, shape):
        self.rest = [{"x": draw.standard_normal(shape).astype(F)} for _ in range(8)]

    def get_next(self):
        return self.rest.pop() if self.rest else None


U8, I8 = q.QuantType.QUInt8, q.QuantType.QInt8


def static(form, x, w, channels):
    def run(path, to, shape):
        q.quantize_static(path, to, Drawn(shape), quant_format=form, activation_type=x, weight_type=w, per_channel=channels,
                          extra_options={"ActivationSymmetric": x == I8 and channels})
    return run


def dynamic(w, channels):
    def run(path, to, _):
        q.quantize_dynamic(path, to, weight_type=w, per_channel=channels)
    return run


KINDS = {"qdq_u8": static(q.QuantFormat.QDQ, U8, U8, False), "qdq_u8s8_channel": static(q.QuantFormat.QDQ, U8, I8, True),
         "qdq_s8_channel": static(q.QuantFormat.QDQ, I8, I8, True), "qop_u8": static(q.QuantFormat.QOperator, U8, U8, False),
         "qop_u8s8_channel": static(q.QuantFormat.QOperator, U8, I8, True), "dynamic_u8": dynamic(U8, False),
         "dynamic_s8_channel": dynamic(I8, True)}
MODELS = [mlp, products, cnn, residual, depthwise, gated, signal, attention, lstm]


def run_situ(program, path, x, directory):
    given = os.path.join(directory, "x.npy")
    np.save(given, x)
    done = subprocess.run([program, "run", path, "--input", given, "--output", directory], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[:1]
    return np.load(os.path.join(directory, "y.npy")), None


def keep(directory, name, quantised, x, y):
    onnx.save(quantised, os.path.join(directory, f"{name}.onnx"))
    arrays = {"x": x, "y": y}
    head, at = {}, 0
    for key, value in arrays.items():
        head[key] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(directory, f"{name}.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(v.tobytes() for v in arrays.values()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("situ")
    parser.add_argument("--keep")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    equal = tried = 0
    for make in MODELS:
        for kind, quantise in KINDS.items():
            name = f"{make.__name__}_{kind}"
            if options.only not in name:
                continue
            global draw
            draw = np.random.default_rng(7)
            made, shape = make()
            with tempfile.TemporaryDirectory() as directory:
                path, to = os.path.join(directory, "m.onnx"), os.path.join(directory, "q.onnx")
                onnx.save(made, path)
                quantise(path, to, shape)
                quantised = onnx.load(to)
                if not any(n.op_type in ("QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeLSTM") for n in quantised.graph.node):
                    continue
                x = draw.standard_normal(shape).astype(F)
                y, = onnxruntime.InferenceSession(to).run(None, {"x": x})
                mine, error = run_situ(options.situ, to, x, directory)
                tried += 1
                same = error is None and mine.shape == y.shape and mine.tobytes() == y.tobytes()
                equal += same
                print(name, "equal" if same else error or f"differs by {np.abs(mine - y).max() / np.abs(y).max():.2g} in "
                      f"{(mine != y).sum()} of {y.size}", os.path.getsize(to), flush=True)
                if options.keep and same and os.path.getsize(to) <= 3560 and y.nbytes <= 2600:
                    keep(options.keep, name, quantised, x, y)
    print(f"{equal} of {tried} equal")
    return equal < 20


if __name__ == "__main__":
    sys.exit(main())
