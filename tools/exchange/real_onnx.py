#!/usr/bin/env python3
"""Runs .onnx files that packages ship by situ and by onnxruntime, on drawn inputs, and compares the results.
SPDX-License-Identifier: MIT

  python3 tools/exchange/real_onnx.py LIBSITU.SO DIRECTORY [--only WORD] [--list] [--written | --traced]

real_onnx.txt has the files: a package and its version, the licence, the file's path in the wheel, and of inputs that the
file leaves open their sizes ("ids=1x12"), for whole numbers with a bound ("ids=1x12<50") or the value ("rate=:=16000").
It was chosen before situ read any of them: packages of OCR, speech, keywords, detection, text and tables, at most three
files of each, none over 62 MB, no two with the same bytes. pip downloads the wheels into DIRECTORY, once. Results of
f32 agree within 1e-4 of the largest or 2e-7 (onnxruntime's sigmoid near 0), of f16 within 1/400, and those of files with
quantised values within 1/20: a last bit decides how a number is rounded to 8 bits, and layers follow. --list: each
file. --written: each is written as ONNX again, and onnxruntime's results are the same bits. --traced: each is traced at
the inputs' sizes, written to a .pt2 archive, read, and written as ONNX, which onnxruntime runs. Needs pip, onnx, onnxruntime and torch."""
import argparse
import collections
import glob
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx
import onnxruntime
import torch

import onnx_written

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import drawn  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
          "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(bool)": np.bool_}
SECONDS = 120


def wheel_of(package, directory):
    name, version = package.split("==")
    pattern = f"{directory}/{re.sub('[-_.]', '[-_.]', name)}-{version}-*.whl"
    found = [w for w in glob.glob(f"{directory}/*.whl") if re.match(re.sub("[*]", ".*", pattern), w, re.I)]
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "-d", directory,
                        package], check=True)
        return wheel_of(package, directory)
    return found[0]


def unpack(package, path, directory, work):
    """The file and what lies beside it under its name, such as external data."""
    with zipfile.ZipFile(wheel_of(package, directory)) as wheel:
        for name in wheel.namelist():
            if name.startswith(path):
                wheel.extract(name, work)
    return f"{work}/{path}"


def draw(value, hint):
    sizes, least_sign, number = re.match(r"([\dx:]*)([<=]?)(.*)", hint or "").groups()
    shape = [int(s) for s in sizes.split("x")] if sizes not in ("", ":") else [
        s if isinstance(s, int) and s > 0 else 1 if k == 0 else 8 for k, s in enumerate(value.shape)]
    dtype = DTYPES[value.type]
    if least_sign == "=":
        return np.full(shape, float(number), dtype)
    if dtype == np.bool_:
        return np.random.rand(*shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        return np.random.randint(0, int(number or 2), shape).astype(dtype)
    return np.asarray(np.random.randn(*shape)).astype(dtype)


def compare(got, want, quantised):
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for g, w in zip(got, want):
        w = torch.from_numpy(np.ascontiguousarray(w).reshape(np.shape(w)))
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"{g.dtype} {list(g.shape)}, not {w.dtype} {list(w.shape)}"
        if not w.is_floating_point():
            if not torch.equal(g, w):
                return f"{(g != w).sum().item()} of {w.numel()} whole numbers are others"
            continue
        share = 0.05 if quantised else 1e-4 if w.dtype == torch.float32 else 2.5e-3
        g, w = g.double(), w.double()
        most = w[w.isfinite()].abs().max().item() if w.isfinite().any() else 0
        if not torch.allclose(g, w, rtol=0, atol=max(most * share, 2e-7), equal_nan=True):
            return f"differs by {(g - w).abs().max().item():.1e}, and the largest value is {most:.1e}"
    return ""


def written(module, inputs, work, traced):
    """The path of the ONNX model that the module is written to, by way of a .pt2 archive if `traced`."""
    path = f"{work}/again.onnx"
    if traced:
        tree = drawn.call("tree_list")
        for value in inputs:
            tree = drawn.call("tree_append", tree, drawn.call("tree_tensor", drawn.there(torch.from_numpy(value))))
        program = drawn.call("export", module, tree)
        if drawn.lib.situ_export_save(program, f"{work}/again.pt2".encode()):
            raise drawn.Refused(onnx_written.message())
        module = onnx_written.load(f"{work}/again.pt2")
    if drawn.lib.situ_onnx_export(module, path.encode(), None):
        raise drawn.Refused(onnx_written.message())
    return path


def run(session, inputs):
    return session.run(None, {i.name: v for i, v in zip(session.get_inputs(), inputs)})


def check(row, library, directory, mode, results):
    package, _, path, *hints = row
    hints = dict(h.split("=", 1) for h in hints)
    with tempfile.TemporaryDirectory() as work:
        file = unpack(package, path, directory, work)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])
        inputs = [draw(i, hints.get(i.name)) for i in session.get_inputs()]
        want = run(session, inputs)
        onnx_written.bind(library)
        drawn.DTYPES.setdefault(torch.int32, 5)
        quantised = any("Quantize" in n.op_type for n in onnx.load(file, load_external_data=False).graph.node)
        try:
            module = onnx_written.load(file)
        except drawn.Refused:
            results.put(("refused", onnx_written.message()))
            return
        try:
            if mode:
                session = onnxruntime.InferenceSession(written(module, inputs, work, mode == "traced"), options, ["CPUExecutionProvider"])
                got = [torch.from_numpy(np.ascontiguousarray(v).reshape(np.shape(v))) for v in run(session, inputs)]
            else:
                got = onnx_written.compute(module, [torch.from_numpy(v) for v in inputs])
        except Exception as problem:  # noqa: BLE001
            results.put(("is not written" if mode else "does not run", str(problem) or onnx_written.message()))
            return
        bits = [g.numpy().tobytes() for g in got] == [np.ascontiguousarray(v).tobytes() for v in want]
        why = "" if bits else "has other bits" if mode == "written" else compare(got, want, quantised)
        results.put(("differs", why) if why else ("agrees", ""))


def verdict(row, library, directory, mode):
    """In a process of its own, since a file may end it."""
    results = multiprocessing.Queue()
    process = multiprocessing.Process(target=check, args=(row, library, directory, mode, results))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        return "does not run", f"takes more than {SECONDS} s"
    return results.get(timeout=1) if process.exitcode == 0 else ("does not run", f"ends with {process.exitcode}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("directory")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--written", dest="mode", action="store_const", const="written", default="")
    parser.add_argument("--traced", dest="mode", action="store_const", const="traced")
    options = parser.parse_args()
    np.random.seed(1)
    total = collections.Counter()
    with open(f"{HERE}/real_onnx.txt", encoding="utf-8") as file:
        rows = [line.split() for line in file if options.only in line]
    for row in rows:
        kind, why = verdict(row, options.library, options.directory, options.mode)
        total[kind] += 1
        if kind != "agrees" or options.list:
            print(f"{row[0]} {row[2]}: {kind}: {' '.join(why.split())[:400]}", flush=True)
    print(f"{len(rows)} files:", ", ".join(f"{count} {kind}" for kind, count in sorted(total.items())))


if __name__ == "__main__":
    main()
