#!/usr/bin/env python3
"""Draws modules, exports them by PyTorch with free sizes, and has situ compute what PyTorch computes.
SPDX-License-Identifier: MIT

  python3 tools/exchange/drawn_programs.py TEST [--count N] [--seed S] [--keep DIR] [--show]
  python3 tools/exchange/drawn_programs.py TEST --kinds     the expressions of program_kinds.py

TEST is the test program of tests/program/pt2/drawn.c. Each module is some statements of drawn_pieces.py: arithmetic of all
dtypes with promotion, sizes that are computed with, layers, writes in place and through views, buffers, in one of seven
under a default dtype of f64. Values, dtypes, buffers, inputs after the call and gradients are compared at three sizes,
in the third with infinities, NaN and zeros of both signs among the inputs. Prints how many agree, are refused (by
message), and DIFFER, whose files are left in --keep; the status is 1 if one differs.

  python3 tools/exchange/drawn_programs.py --files NUMBER,NUMBER DIR             writes these programs
  python3 tools/exchange/drawn_programs.py --files --kinds 1+2+3,4 DIR          the same, of several expressions each

  python3 tools/exchange/drawn_programs.py --onnx SITU DIR [--show]

The latter but one write files as tests/program/pt2/drawn has them. The last has the program SITU convert each .pt2 file
of DIR to ONNX, compares what onnxruntime computes of it at all sizes, and prints how many agree, are refused (by cause:
each call that lacks a form, in how many programs, and in how many it alone does) and DIFFER."""
import argparse
import collections
import copy
import logging
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "golden")]
sys.dont_write_bytecode = True
warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils import _pytree  # noqa: E402

import drawn_pieces  # noqa: E402
import program_kinds  # noqa: E402
import safetensors  # noqa: E402, tools/golden/safetensors.py
from thin import thin, thin_archive  # noqa: E402

logging.disable(logging.CRITICAL)
torch.set_num_threads(1)
SIZES = ((4, 3), (5, 2), (3, 6))  # n and m of the three calls
KINDS = [(text, "float32") for text in program_kinds.NUMBERS + program_kinds.CONVERTED]
KINDS += [(text, "float64") for text in program_kinds.CONVERTED]
KINDS += [(text, "float32") for text in program_kinds.SIZED]
SPECIAL = (float("inf"), float("-inf"), float("nan"), 0.0, -0.0)


class Source:
    """A module while it is drawn: its statements, run for the first sizes so that dtypes and shapes are known."""

    def __init__(self, real, free):
        self.real, self.free = real, free
        self.n, self.m = SIZES[0]
        self.lines, self.layers, self.names, self.mutated, self.count = [], [], [], set(), 0
        self.module = Drawn([])
        self.env = dict(torch=torch, F=F, nn=nn, self=self.module, n=self.n, m=self.m)
        self.env.update(zip("xib", make_inputs(self, 0)))
        self.names = ["x", "i", "b"]

    def value(self, name):
        return self.env[name]

    def dtype(self, name):
        return str(self.value(name).dtype)[6:]

    def rank(self, name):
        return self.value(name).dim()

    def size(self, name, d):
        return self.value(name).shape[d] if self.rank(name) else 1

    def is_free(self, name, d):
        return self.size(name, d) in (self.n, 2 * self.n) or (self.free and self.size(name, d) == self.m)

    def choose(self, test):
        fitting = [name for name in self.names if test(self.value(name))]
        # later ones more often, so that statements follow on each other
        return random.choice(fitting[-3:] if random.random() < 0.5 else fitting) if fitting else None

    def any(self):
        return self.choose(lambda v: True)

    def floating(self):
        return self.choose(lambda v: v.is_floating_point()) or "x"

    def whole(self):
        return self.choose(lambda v: not v.is_floating_point() and v.dtype != torch.bool) or "i"

    def bools(self):
        self.last = self.choose(lambda v: v.dtype == torch.bool) or "b"
        return self.last

    def bools_like(self):
        return f"~{self.last}"

    def with_dim(self):
        name = self.choose(lambda v: v.dim() > 0) or "x"
        return name, random.randrange(self.rank(name))

    def pair(self):
        a = self.any()
        shape = self.value(a).shape
        same = [b for b in self.names if self.value(b).shape == shape or not self.rank(b)]
        return a, random.choice(same)

    def mask_of(self, name):
        masks = [b for b in self.names if self.value(b).dtype == torch.bool and self.value(b).shape == self.value(name).shape]
        return random.choice(masks) if masks else f"({name} > 0)"

    def new(self):
        self.count += 1
        return f"t{self.count}"

    def layer(self, text):
        self.layers.append(text)
        setattr(self.module, f"l{len(self.layers)}", eval(text).eval())
        return f"l{len(self.layers)}"

    def add(self):
        piece = random.choice(drawn_pieces.PIECES)
        kept = len(self.layers), set(self.mutated)
        text = piece(self)
        if text is None:
            return
        lines = text if isinstance(text, list) else [f"{self.new()} = {text}"]
        name = lines[-1].split(" = ")[0]
        trial = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in self.env.items()}
        try:
            for line in lines:
                exec(line, trial)
            good = isinstance(trial[name], torch.Tensor) and trial[name].numel() < 600 and trial[name].dim() < 6
        except Exception:  # noqa: BLE001
            good = False
        if not good:
            del self.layers[kept[0]:]
            self.mutated = kept[1]
            return
        self.env = trial
        self.lines += lines
        self.names.append(name)


class Drawn(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("flags", torch.tensor([True, False]))
        for k, text in enumerate(layers):
            setattr(self, f"l{k + 1}", eval(text))


def make_inputs(source, k):
    n, m = SIZES[k]
    m = m if source.free else SIZES[0][1]
    real = getattr(torch, source.real)
    x = torch.randn(n, m, 4, dtype=real) if source.deep else torch.randn(n, m, dtype=real)
    x = (x * 2).round() / 2 if source.round else x
    i = torch.randint(0 if source.integer == torch.uint8 else -3, 6, (n, m), dtype=source.integer)
    if k == 2:
        flat = x.view(-1)
        for at in range(0, flat.numel(), 3):
            flat[at] = random.choice(SPECIAL)
    return x, i, torch.rand(n, m) > 0.4


def draw(number):
    random.seed(number)
    torch.manual_seed(number)
    real = "float64" if random.random() < 0.15 else "float32"
    torch.set_default_dtype(getattr(torch, real))
    Source.deep, Source.round = random.random() < 0.4, random.random() < 0.3
    Source.integer = random.choice((torch.int64, torch.int64, torch.int32, torch.uint8))
    s = Source(real, random.random() < 0.5)
    wanted = random.randint(3, 10)
    for _ in range(8 * wanted):
        if len(s.names) - 3 < wanted:
            s.add()
    names = s.names[3:] or ["x"]
    results = list(dict.fromkeys(random.sample(names, min(len(names), random.randint(1, 3))) + names[-1:]))
    sizes = f"n, m = x.shape[0], {'x.shape[1]' if s.free else SIZES[0][1]}"
    body = "\n".join("    " + line for line in [sizes] + s.lines)
    text = f"def forward(self, x, i, b):\n{body}\n    return {', '.join(results)},\n"
    scope = dict(torch=torch, F=F, nn=nn)
    exec(text, scope)
    kind = type("Drawn", (Drawn,), {"forward": scope["forward"]})
    torch.manual_seed(number)
    return s, text, kind(s.layers).eval()


def expressions(*numbers):
    """The same for expressions of program_kinds.py: at first under a default of f32, then of f64."""
    real = KINDS[numbers[0]][1]
    torch.manual_seed(numbers[0])
    torch.set_default_dtype(getattr(torch, real))
    Source.deep, Source.round, Source.integer = False, False, torch.int64
    lines = ["n, m = x.shape[0], 3"]
    for k, number in enumerate(numbers):
        statements = KINDS[number][0].split("; ")
        lines += statements[:-1] + [f"r{k} = {statements[-1]}"]
    text = "def forward(self, x, i, b):\n    " + "\n    ".join(lines + ["return " + "".join(f"r{k}, " for k in range(len(numbers)))])
    scope = dict(torch=torch, F=F, nn=nn, math=math)
    exec(text, scope)
    return Source(real, False), text, type("Drawn", (Drawn,), {"forward": scope["forward"]})([]).eval()


def tensors_of(out):
    return [v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in _pytree.tree_leaves(out)]


def same(a, b):
    return all(x.dtype == y.dtype and x.shape == y.shape and torch.allclose(x.double(), y.double(), 1e-3, 1e-3, True) for x, y in zip(a, b))


def call(module, given, gradients):
    """Results, inputs after the call, buffers after it, gradients of inputs and parameters."""
    module = copy.deepcopy(module)
    given = [t.clone() for t in given]
    for t, wants in zip(given, gradients):
        t.requires_grad_(wants)
    out = tensors_of(module(*given))
    values = {f"out.{k}": t.detach().clone() for k, t in enumerate(out)}
    values.update({f"after.{k}": t.detach().clone() for k, t in enumerate(given)})
    values.update({f"buffer.{name}": t.detach().clone() for name, t in module.named_buffers()})
    loss = [t.square().mean() for t in out if t.requires_grad and t.numel()]
    if any(gradients) and loss:
        sum(loss).backward()
        values.update({f"grad.{k}": t.grad for k, t in enumerate(given) if t.grad is not None})
        values.update({f"weight.{name}": p.grad for name, p in module.named_parameters() if p.grad is not None})
    return out, values


def write(number, path, show=False, make=draw):
    """Writes program and values; returns the text of the module, None if torch does not take it."""
    numbers = [int(n) for n in str(number).split("+")]
    source, text, module = make(*numbers)
    try:
        if show:
            print(text, source.layers)
        free = {0: torch.export.Dim.AUTO, **({1: torch.export.Dim.AUTO} if source.free else {})}
        given = make_inputs(source, 0)
        program = torch.export.export(copy.deepcopy(module), given, dynamic_shapes=(free, free, free), strict=False)
        again = program.module()
        values = {}
        exact = source.real == "float64" and not re.search("float|half", text)
        least = 3e-2 if "bfloat16" in text else 4e-3 if re.search("float16|half", text) else 1e-9 if exact else 3e-5
        values["tolerance"] = torch.tensor(least)
        for k in range(len(SIZES)):
            given = make_inputs(source, k)
            gradients = [k < 2 and "x" not in source.mutated and bool(k == 0 or numbers[0] % 2), False, False]
            try:
                theirs = tensors_of(copy.deepcopy(again)(*[t.clone() for t in given]))
                out, found = call(module, given, gradients)
            except Exception as problem:  # noqa: BLE001
                if show:
                    print("size", k, repr(problem)[:300])
                continue
            if k < 2 and not same(out, theirs):
                return None  # torch is not of one mind
            values.update({f"in.{k}.{j}": t for j, t in enumerate(given)})
            if gradients[0]:
                values[f"asks.{k}.0"] = torch.tensor(True)
            values.update({f"{name.split('.')[0]}.{k}.{name.split('.', 1)[1]}": t.contiguous().clone() for name, t in found.items()})
        thin(program)
        torch.export.save(program, path + ".pt2")
        thin_archive(path + ".pt2")
        safetensors.write(path + ".safetensors", values)
    except Exception as problem:  # noqa: BLE001
        if show:
            print(repr(problem)[:600])
        return None
    finally:
        torch.set_default_dtype(torch.float32)
    return text


def run(test, directory):
    """A line "NAME: agrees", "NAME: refused: why" or "NAME: DIFFERS: where" for each program."""
    done = subprocess.run([test], capture_output=True, text=True, env=dict(os.environ, SITU_TEST_DRAWN=directory))
    found = dict(re.findall(r"^([dk]\d+): (.*)$", done.stdout + done.stderr, re.M))
    for name in {f.split(".")[0] for f in os.listdir(directory)} - set(found):
        found[name] = f"DIFFERS: the test stopped with {done.returncode}"
    return found


def reason_of(what):
    """A message without what differs from program to program."""
    lacks = re.search(r"this library lacks: ([^,\n]*)", what)
    return f"lacks {lacks[1]}" if lacks else re.sub(r"\d+", "N", re.sub(r"refused: |/\S*/[dk]\d+\.pt2: ", "", what))[:90]


def cast_halves(path):
    """Results of bfloat16, which numpy lacks, become f32."""
    import onnx  # noqa: PLC0415

    model = onnx.load(path)
    for out in model.graph.output:
        if out.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16:
            out.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            model.graph.node.append(onnx.helper.make_node("Cast", [out.name], [out.name + " as f32"], to=onnx.TensorProto.FLOAT))
            out.name += " as f32"
    onnx.save(model, path)


def check_onnx(situ, path, show):
    """"agrees", "DIFFERS: where", or the causes of a refusal."""
    import onnxruntime  # noqa: PLC0415

    values = safetensors.read(path[:-4] + ".safetensors")
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run([situ, "convert", path, work + "/m.onnx"], capture_output=True, text=True)
        if done.returncode:
            if show:
                print(os.path.basename(path), done.stderr)
            lines = re.findall(r"^  \S+: (\S+\.\S+) ([^\n]*)$", done.stderr, re.M)
            return {f"{name} {why}" for name, why in lines} or {re.sub(r"\d+", "N", done.stderr.strip())[:150]}
        cast_halves(work + "/m.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(work + "/m.onnx", options, ["CPUExecutionProvider"])
        except Exception as problem:  # noqa: BLE001
            return f"DIFFERS: onnxruntime: {str(problem)[:200]}"
    for k in range(len(SIZES)):
        want = [values[f"out.{k}.{j}"] for j in range(64) if f"out.{k}.{j}" in values]
        given = {i.name: values[f"in.{k}.{'xib'.index(i.name)}"].numpy() for i in session.get_inputs()} if want else {}
        try:
            got = session.run(None, given) if want else []
        except Exception as problem:  # noqa: BLE001
            return f"DIFFERS: onnxruntime at size {k}: {str(problem)[:200]}"
        for j, (g, w) in enumerate(zip(got, want)):
            least = max(3e-5, values["tolerance"].item(), {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(w.dtype, 0))
            w = w.float() if w.dtype == torch.bfloat16 else w
            g = torch.from_numpy(g)
            if g.dtype != w.dtype or g.shape != w.shape:
                return f"DIFFERS: result {j} at size {k}: {g.dtype} {list(g.shape)}, not {w.dtype} {list(w.shape)}"
            g, real, w = g.double(), w.is_floating_point(), w.double()
            scale = w.nan_to_num(0, 0, 0).abs().max().clamp(min=1).item() if w.numel() else 1
            if not torch.allclose(g, w, 0, least * scale if real else 0, True):
                return f"DIFFERS: result {j} at size {k}: {g.flatten()[:8].tolist()}, not {w.flatten()[:8].tolist()}"
    return "agrees"


def check_all_onnx(situ, directory, show):
    classes, causes, alone = collections.Counter(), collections.Counter(), collections.Counter()
    for path in sorted(f"{directory}/{f}" for f in os.listdir(directory) if f.endswith(".safetensors")):
        what = check_onnx(situ, path[:-12] + ".pt2", show)
        kind = "refused" if isinstance(what, set) else what.split(":")[0]
        classes[kind] += 1
        if kind == "DIFFERS":
            print(f"{os.path.basename(path)}: {what}", flush=True)
        if kind == "refused":
            causes.update(what)
            alone.update(what if len(what) == 1 else ())
    print(f"{sum(classes.values())} programs:", dict(classes))
    for what, count in causes.most_common():
        print(f"{count:4} {alone[what]:4}  {what}")
    return classes["DIFFERS"] > 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("test")
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--onnx", action="store_true")
    options = parser.parse_args()
    make, name_of = (expressions, "k{}") if options.kinds else (draw, "d{}")
    if options.onnx:
        return check_all_onnx(options.test, options.directory, options.show)
    if options.files:
        for number in options.test.split(","):
            path = os.path.join(options.directory, name_of.format(number.split("+")[0]))
            print(write(number, path, options.show, make))
        return 0
    last = len(KINDS) if options.kinds else sys.maxsize
    if options.kinds:
        options.count = last
    classes, refused, tried = collections.Counter(), collections.Counter(), 0
    at = options.seed
    while tried < options.count and at < last:
        with tempfile.TemporaryDirectory() as work:
            texts = {}
            while len(texts) < min(50, options.count - tried) and at < last:
                text = write(at, f"{work}/{name_of.format(at)}", options.show, make)
                if text:
                    texts[name_of.format(at)] = text
                at += 1
            tried += len(texts)
            for name, what in sorted(run(options.test, work).items()):
                kind = what.split(":")[0]
                classes[kind] += 1
                if kind == "refused":
                    refused[reason_of(what)] += 1
                if kind == "DIFFERS":
                    print(f"{name}: {what}\n{texts.get(name)}", flush=True)
                    for end in (".pt2", ".safetensors"):
                        if options.keep and os.path.exists(f"{work}/{name}{end}"):
                            os.makedirs(options.keep, exist_ok=True)
                            os.replace(f"{work}/{name}{end}", f"{options.keep}/{name}{end}")
        print(f"{tried} programs of {at - options.seed} drawn:", dict(classes), flush=True)
    for what, count in refused.most_common():
        print(f"{100 * count / tried:5.1f} %  {what}")
    return classes["DIFFERS"] > 0


if __name__ == "__main__":
    sys.exit(main())
