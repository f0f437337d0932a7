#!/usr/bin/env python3
"""Draws calls of every ATen overload that situ writes as ONNX, and compares what onnxruntime computes of the file with
the program that it was written from.
SPDX-License-Identifier: MIT

  python3 tools/exchange/onnx_written.py LIBSITU.SO [--count N] [--seed S] [--only view.default,add.Tensor] [--list]
      [--keep DIR]

The overloads are read from src/program/onnx/write/*.c, and their arguments drawn by their schema or by
written_calls.py: an overload for which nothing can be drawn is an error. A call is exported by torch.export, with free
sizes where it takes them, written, and run at two sizes, with ordinary numbers, with NaN, infinities, zeros and large
ones, and with large whole numbers. Either all agree, in dtype, shape and value, or the file is refused. --keep: what
differs, as .pt2 and .onnx. Needs torch 2.15, onnxruntime and numpy from PyPI."""
import argparse
import collections
import ctypes as C
import os
import random
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import drawn  # noqa: E402
from drawn import Refused, call, here, there  # noqa: E402

import written_calls  # noqa: E402

drawn.DTYPES.update({torch.int8: 3, torch.int16: 4, torch.int32: 5})
OF = {number: dtype for dtype, number in drawn.DTYPES.items()}


class Module(torch.nn.Module):
    """fn of the inputs; `state`: its buffers."""
    def __init__(self, fn, state):
        super().__init__()
        self.fn = fn
        for name, value in state.items():
            self.register_buffer(name, value)

    def forward(self, *inputs):
        return self.fn(self, *inputs) if self._buffers else self.fn(*inputs)


# ---- situ ----

def bind(library):
    drawn.lib = C.CDLL(os.path.abspath(library))
    drawn.lib.situ_error_mode(1)  # SITU_ERROR_QUIET
    drawn.dtype = torch.float32
    drawn.lib.situ_tree_count.restype = C.c_int64


def message():
    text = C.cast(drawn.lib.situ_error_message, C.CFUNCTYPE(C.c_char_p))().decode()
    drawn.lib.situ_error_clear()
    return text


def load(path):
    return call("nn_eval", call("export_load", path.encode(), None))


def compute(module, inputs):
    """The results of a module, as arrays."""
    lib, tree = drawn.lib, call("tree_list")
    for value in inputs:
        tree = call("tree_append", tree, call("tree_tensor", there(value)))
    out = call("nn_call", module, tree)
    count = lib.situ_tree_count(out)
    leaves = [call("tree_value", out)] if lib.situ_tree_kind_of(out) == 1 else [
        call("tree_tensor_at", out, C.c_int64(i)) for i in range(count)]
    got = [here(leaf, OF[lib.situ_dtype_of(leaf)]) for leaf in leaves]
    lib.situ_tree_free(out)
    lib.situ_tree_free(tree)
    return got


# ---- one call ----

def as_array(t):
    return t.detach().cpu().contiguous().numpy()


def differs(got, want, loose):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}"
    if not want.is_floating_point():
        return "" if torch.equal(got, want) else f"{got.flatten()[:8].tolist()}, not {want.flatten()[:8].tolist()}"
    half = want.dtype in (torch.float16, torch.bfloat16)
    finite = want[want.isfinite()].abs().double()
    scale = finite.max().item() if finite.numel() else 0
    loose = 1 if half else loose
    rtol = 2e-3 if half else 1e-5 if want.dtype == torch.float32 else 1e-9
    if torch.allclose(got.double(), want.double(), rtol=rtol, atol=loose * rtol * min(scale, 1e6), equal_nan=True):
        return ""
    bad = ~torch.isclose(got.double(), want.double(), rtol=rtol, atol=loose * rtol * min(scale, 1e6), equal_nan=True)
    return f"{got[bad].flatten()[:4].tolist()}, not {want[bad].flatten()[:4].tolist()}"


class Case:
    def __init__(self, name, work):
        self.name, self.work = name, work
        self.seen = collections.Counter()
        self.why = ""

    def verdict(self, kind, why=""):
        self.why = why
        return kind

    def run(self, drawing):
        try:
            with torch.no_grad():
                drawing.module(*[t.clone() for t in drawing.inputs])
                program = torch.export.export(drawing.module.eval(), tuple(drawing.inputs), strict=False,
                                              dynamic_shapes=drawing.dynamic)
            torch.export.save(program, f"{self.work}/call.pt2")
        except Exception as problem:  # noqa: BLE001  torch refuses the draw
            return self.verdict("not exported", repr(problem)[:200])
        scope = (C.c_char * 64)()
        drawn.lib.situ_scope_begin(scope)
        try:
            return self.compare(drawing, program)
        finally:
            drawn.lib.situ_scope_end(scope)
            drawn.lib.situ_error_clear()

    def compare(self, drawing, program):
        try:
            m = load(f"{self.work}/call.pt2")
        except Refused as problem:
            return self.verdict("not read", str(problem))
        if drawn.lib.situ_onnx_export(m, f"{self.work}/call.onnx".encode(), None):
            return self.verdict("refused", message())
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(f"{self.work}/call.onnx", options, ["CPUExecutionProvider"])
        except Exception as problem:  # noqa: BLE001
            lacking = "NOT_IMPLEMENTED" in str(problem) or "NOT IMPLEMENTED" in str(problem)
            session = None
            if not lacking:
                return self.verdict("DIFFERS", f"onnxruntime: {problem}")
        again = None if session else load(f"{self.work}/call.onnx")
        verdict = "agrees" if session else "no kernel"
        for inputs in drawing.values():
            try:
                want = compute(m, inputs)
            except Refused as problem:
                message()
                return self.verdict("not run", str(problem))
            wide = inputs if all(t.dtype != torch.bfloat16 for t in inputs) else None
            if session and wide is None:
                continue
            try:
                got = compute(again, inputs) if again else [
                    torch.from_numpy(np.asarray(r)) for r in
                    session.run(None, {i.name: as_array(t) for i, t in zip(session.get_inputs(), inputs)})]
            except Exception as problem:  # noqa: BLE001
                return self.verdict("DIFFERS", f"does not run at {[list(t.shape) for t in inputs]}: {problem}")
            if len(got) != len(want):
                return self.verdict("DIFFERS", f"{len(got)} results, not {len(want)}")
            for k, (g, w) in enumerate(zip(got, want)):
                what = differs(g, w, drawing.loose)
                if what:
                    given = [t.flatten()[:8].tolist() for t in inputs]
                    return self.verdict("DIFFERS", f"result {k} is {what} of {[list(t.shape) for t in inputs]} {given}")
        return verdict


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--count", type=int, default=6, help="calls of each overload")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true", help="print what is refused, too")
    parser.add_argument("--keep", default="")
    options = parser.parse_args()
    bind(options.library)
    total, bad = collections.Counter(), 0
    names = written_calls.overloads() + list(written_calls.PROGRAMS)
    with tempfile.TemporaryDirectory() as work:
        for name in [n for n in names if not options.only or n in options.only.split(",")]:
            random.seed(f"{name} {options.seed}")
            torch.manual_seed(options.seed)
            seen, case = collections.Counter(), Case(name, work)
            for number in range(8 * options.count):
                if sum(seen.values()) - seen["not exported"] >= options.count:
                    break
                drawing = written_calls.draw(name, Module)
                kind = case.run(drawing)
                seen[kind] += 1
                loud = kind in ("DIFFERS",) or (options.list and kind not in ("agrees", "not exported"))
                if loud:
                    print(f"{name} {drawing.text}: {kind}: {' '.join(case.why.split())[:900]}", flush=True)
                if kind == "DIFFERS" and options.keep:
                    for end in ("pt2", "onnx"):
                        os.system(f"cp {work}/call.{end} {options.keep}/{name.replace('.', '_')}_{number}.{end}")
            if sum(seen.values()) == seen["not exported"]:
                print(f"{name}: nothing was drawn: {case.why}")
                seen["nothing drawn"] = 1
            total += seen
            bad += seen["DIFFERS"] + seen["nothing drawn"]
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(total.items())))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
