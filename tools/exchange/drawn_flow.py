#!/usr/bin/env python3
"""Draws ONNX models of If, Loop and Scan inside each other, and compares what becomes of them on the way to .pt2 and back.
SPDX-License-Identifier: MIT

  python3 tools/exchange/drawn_flow.py LIBSITU.SO [--count N] [--seed S] [--keep DIR] [--gradients]

A model has two inputs of (2, 3), one of (4, 2, 3) and a number, by which Loops are counted: it is 3, 0 and -2. Blocks carry
several states, read values of outer graphs, write in place (ScatterElements) and give values of outer graphs or views of
them. Each model is run by onnxruntime and by situ, traced to .pt2, run there by PyTorch and by situ, and written as ONNX
again, for onnxruntime. The gradient of its weight by situ is compared on both ways, and, with --gradients, which takes
minutes, with PyTorch's, where PyTorch has one. Prints how many agree, how many are refused when traced (by message), and which DIFFER: then the status is 1."""
import argparse
import collections
import ctypes as C
import logging
import random
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from onnx import TensorProto as T, helper as H  # noqa: E402

import onnx_written  # noqa: E402

from onnx_written import Refused, call, drawn, there  # noqa: E402

SHAPE, STEPS = (2, 3), 4


class Graph:
    """A graph while it is drawn. `values` of SHAPE, with those of the graphs around it."""
    names = 0

    def __init__(self, r, values, depth):
        self.r, self.values, self.depth, self.nodes = r, list(values), depth, []

    def put(self, op, inputs, outputs=1, **attributes):
        out = [self.name(op) for _ in range(outputs)]
        self.nodes.append(H.make_node(op, inputs, out, **attributes))
        return out[0] if outputs == 1 else out

    def name(self, stem):
        Graph.names += 1
        return f"{stem}_{Graph.names}"

    def constant(self, value, dtype):
        array = np.array(value, {T.FLOAT: np.float32, T.INT64: np.int64, T.BOOL: np.bool_}[dtype])
        return self.put("Constant", [], value=H.make_tensor("c", dtype, array.shape, array.flatten().tolist()))

    def any(self):
        return self.r.choice(self.values[-4:] if self.r.random() < 0.6 else self.values)

    def condition(self):
        return self.put("Greater", [self.put("ReduceMean", [self.any()], keepdims=0), self.constant(0.1, T.FLOAT)])

    def plain(self):
        r, x = self.r, self.any()
        kind = r.randrange(7)
        if kind == 0:
            return self.put("MatMul", [x, "W"])
        if kind == 1:
            index = self.constant([[0, 1, 0]], T.INT64)
            part = self.put("Slice", [self.any(), *(self.constant([v], T.INT64) for v in (0, 1, 0))])
            return self.put("ScatterElements", [x, index, part])
        if kind == 2:
            return self.put("Reshape", [self.put("Transpose", [x], perm=[1, 0]), self.constant(SHAPE, T.INT64)])
        if kind < 5:
            return self.put(r.choice(["Tanh", "Sigmoid", "Sin"]), [x])
        return self.put(r.choice(["Add", "Sub"]), [x, self.put("Tanh", [self.any()])])

    def block(self, gives, extra=()):
        """Draws statements; returns the names of `gives` results, which the graph computes."""
        for _ in range(self.r.randint(1, 3)):
            self.statement()
        self.values += extra
        return [self.put("Identity", [self.any()]) if self.r.random() < 0.3 else self.plain() for _ in range(gives)]

    def inner(self, values):
        return Graph(self.r, self.values + values, self.depth + 1)

    def statement(self):
        draw = self.r.random() if self.depth < 3 else 0
        if draw < 0.4:
            self.values.append(self.plain())
        else:
            (self.branch if draw < 0.6 else self.loop if draw < 0.8 else self.scan)()

    def done(self, name, inputs, outputs):
        return H.make_graph(self.nodes, name, inputs, outputs)

    def branch(self):
        count, sides = self.r.randint(1, 2), []
        for name in ("then", "else"):
            g = self.inner([])
            sides.append(g.done(name, [], [typed(v) for v in g.block(count)]))
        out = self.put("If", [self.condition()], count, then_branch=sides[0], else_branch=sides[1])
        self.values += [out] if count == 1 else out

    def loop(self):
        r, states = self.r, self.r.randint(1, 3)
        kind = r.choice(["fixed", "input", "while", "lists"])
        names = [self.name("state") for _ in range(states)]
        number, on = self.name("number"), self.name("on")
        g = self.inner(names)
        if r.random() < 0.5:
            step = g.put("Cast", [number], to=T.FLOAT)
            g.values.append(g.put("Mul", [g.any(), g.put("Sin", [step])]))
        lists = r.randint(1, 2) if kind == "lists" else 0
        results = g.block(states + lists)
        keeps = g.put("Identity", [on]) if kind in ("fixed", "lists") or r.random() < 0.3 else g.condition()
        inputs = [H.make_tensor_value_info(number, T.INT64, []), H.make_tensor_value_info(on, T.BOOL, [])]
        body = g.done("body", inputs + [typed(v) for v in names],
                      [H.make_tensor_value_info(keeps, T.BOOL, [])] + [typed(v) for v in results])
        trip = "n" if kind == "input" else self.constant(r.choice([3, 0, 2, 5, -1]) if kind != "lists" else r.choice([2, 3]), T.INT64)
        first = "" if r.random() < 0.3 else self.constant(True, T.BOOL) if r.random() < 0.6 else self.condition()
        if kind == "lists" and first:
            first = self.constant(True, T.BOOL)
        out = self.put("Loop", [trip, first, *(self.any() for _ in names)], states + lists, body=body)
        out = [out] if states + lists == 1 else out
        self.values += out[:states] + [self.put("ReduceSum", [v, self.constant([0], T.INT64)], keepdims=0) for v in out[states:]]

    def scan(self):
        r, states, scans, lists = self.r, self.r.randint(0, 2), self.r.randint(1, 2), self.r.randint(0, 2)
        lists = lists or not states
        names, elements = [self.name("state") for _ in range(states)], [self.name("element") for _ in range(scans)]
        g = self.inner(names + elements)
        body = g.done("body", [typed(v) for v in names + elements], [typed(v) for v in g.block(states + lists, elements)])
        axes = [r.choice([0, 0, 1, 2, -1]) for _ in range(scans)]
        seen = [self.put("Tanh", ["s"]) if a == 0 else self.put("Transpose", ["s"], perm=([1, 0, 2] if a == 1 else [1, 2, 0]))
                for a in axes]
        gives = [r.choice([0, 0, 1, -1]) for _ in range(lists)]
        said = dict(scan_output_axes=gives, scan_output_directions=[r.choice([0, 0, 1]) for _ in gives]) if gives else {}
        out = self.put("Scan", [self.any() for _ in names] + seen, states + lists, body=body, num_scan_inputs=scans,
                       scan_input_axes=axes, scan_input_directions=[r.choice([0, 0, 1]) for _ in axes], **said)
        out = [out] if states + lists == 1 else out
        self.values += out[:states]
        for v, a in zip(out[states:], gives):
            at, weights = self.constant([a], T.INT64), self.constant(np.arange(1, STEPS + 1).reshape([STEPS if d == a % 3 else 1 for d in range(3)]).tolist(), T.FLOAT)
            self.values.append(self.put("ReduceSum", [self.put("Mul", [v, weights]), at], keepdims=0))


def typed(name, shape=SHAPE):
    return H.make_tensor_value_info(name, T.FLOAT, shape)


def draw(seed):
    r = random.Random(seed)
    g = Graph(r, ["x", "y"], 0)
    for _ in range(r.randint(1, 2)):
        r.choice([g.branch, g.loop, g.scan])()
    results = g.block(2)
    inputs = [typed("x"), typed("y"), typed("s", (STEPS, *SHAPE)), H.make_tensor_value_info("n", T.INT64, [])]
    weight = H.make_tensor("W", T.FLOAT, (3, 3), np.random.RandomState(seed).randn(9).astype(np.float32))
    graph = H.make_graph(g.nodes, "drawn", inputs, [typed(v) for v in results], [weight])
    return H.make_model(graph, opset_imports=[H.make_opsetid("", 18)], ir_version=9)


def run(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return session.run(None, dict(zip([i.name for i in session.get_inputs()], inputs.values())))


def gradient(module, inputs):
    """Of the sum of the results for W, by situ; None: it has none."""
    tree = call("tree_list")
    for v in inputs.values():
        tree = call("tree_append", tree, call("tree_tensor", there(torch.from_numpy(v))))
    out = call("nn_call", module, tree)
    call("nn_get_tensor", module, b"W")
    total = call("add", call("sum", call("tree_tensor_at", out, C.c_int64(0)), None), call("sum", call("tree_tensor_at", out, C.c_int64(1)), None), None)
    if not drawn.lib.situ_requires_grad(total):
        return None
    if drawn.lib.situ_backward(total, None):
        raise Refused(onnx_written.message())
    grad = call("grad", call("nn_get_tensor", module, b"W"))
    got = drawn.here(grad, torch.float32).numpy().copy()
    drawn.lib.situ_nn_zero_grad(module)
    return got


def worst(got, want):
    return max(float(np.abs(np.asarray(g) - w).max() / max(1, np.abs(w).max())) for g, w in zip(got, want))


def check(model, inputs, work, torch_grad):
    """What differs; "" for nothing. Refused: it is not traced."""
    path = f"{work}/drawn.onnx"
    onnx.save(model, path)
    module = onnx_written.load(path)
    example = [torch.from_numpy(v) for v in inputs[0].values()]
    tree = call("tree_list")
    for v in example:
        tree = call("tree_append", tree, call("tree_tensor", there(v)))
    wanted = [run(path, i) for i in inputs]
    for i, want in zip(inputs, wanted):
        if worst([v.numpy() for v in onnx_written.compute(module, [torch.from_numpy(v) for v in i.values()])], want) > 1e-5:
            return "situ's run"
    program = call("export", module, tree)
    if drawn.lib.situ_export_save(program, f"{work}/drawn.pt2".encode()):
        return f"not saved: {onnx_written.message()}"
    again = onnx_written.load(f"{work}/drawn.pt2")
    for source, name in ((again, "again"), (program, "direct")):
        if drawn.lib.situ_onnx_export(source, f"{work}/{name}.onnx".encode(), None):
            return f"not written ({name}): {onnx_written.message()}"
        onnx.checker.check_model(f"{work}/{name}.onnx", full_check=True)
    torchs = torch.export.load(f"{work}/drawn.pt2").module()
    for i, want in zip(inputs, wanted):
        tensors = [torch.from_numpy(v) for v in i.values()]
        ways = {"situ's run of the trace": onnx_written.compute(program, tensors), "situ's run of the .pt2": onnx_written.compute(again, tensors),
                "onnxruntime's run": run(f"{work}/again.onnx", i), "onnxruntime's run of the trace": run(f"{work}/direct.onnx", i)}
        with torch.no_grad():
            ways["PyTorch's run"] = list(torchs(*tensors).values())
        for way, got in ways.items():
            if worst(got, want) > 1e-5:
                return f"{way} at n={i['n']}: {worst(got, want):.1e}"
    before, after = gradient(module, inputs[0]), gradient(again, inputs[0])
    if (before is None) != (after is None) or (before is not None and worst([after], [before]) > 1e-4):
        return "the gradient"
    if not torch_grad:
        return ""
    try:
        parameters = dict(torchs.named_parameters())
        sum(v.sum() for v in torchs(*example).values()).backward()
        theirs = parameters["W"].grad
    except Exception:  # noqa: BLE001, PyTorch has no gradient of it
        theirs = None
    if theirs is not None and before is not None and worst([theirs.numpy()], [before]) > 1e-4:
        return "PyTorch's gradient"
    return "" if theirs is None else "+"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep")
    parser.add_argument("--gradients", action="store_true")
    options = parser.parse_args()
    onnx_written.bind(options.library)
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    refused, total = collections.Counter(), collections.Counter()
    for seed in range(options.seed, options.seed + options.count):
        random_state = np.random.RandomState(seed)
        fixed = {"x": random_state.randn(*SHAPE), "y": random_state.randn(*SHAPE), "s": random_state.randn(STEPS, *SHAPE)}
        inputs = [{**{k: v.astype(np.float32) for k, v in fixed.items()}, "n": np.array(n, np.int64)} for n in (3, 0, -2)]
        with tempfile.TemporaryDirectory() as work:
            try:
                why = check(draw(seed), inputs, options.keep or work, options.gradients)
                total["differ" if len(why) > 1 else "agree"] += 1
                total["have PyTorch's gradient"] += why == "+"
                if len(why) > 1:
                    print(f"DIFFERS {seed}: {' '.join(why.split())[:500]}", flush=True)
            except Refused as problem:
                text = str(problem) or onnx_written.message()
                onnx_written.message()
                refused[" ".join(text.split())[:300]] += 1
                total["are refused"] += 1
            except Exception as problem:  # noqa: BLE001
                total["differ"] += 1
                print(f"DIFFERS {seed}: {' '.join(str(problem).split())[:700]}", flush=True)
    for text, count in refused.most_common():
        print(f"{count} refused: {text}")
    print(f"{options.count} drawn: " + ", ".join(f"{n} {kind}" for kind, n in sorted(total.items())))
    sys.exit(total["differ"] > 0)


if __name__ == "__main__":
    main()
