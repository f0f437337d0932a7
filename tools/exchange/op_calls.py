#!/usr/bin/env python3
"""Exports samples of PyTorch's database of ops by torch.export, runs each by `situ run`, and compares the results.
SPDX-License-Identifier: MIT

  python3 tools/exchange/op_calls.py SITU [--samples N] [--only add,cat] [--list] [--expect N]

SITU is the command-line program. Every op whose samples torch exports is in one of four classes: it agrees (values
within torch.testing's tolerances, and dtypes), it DIFFERS, it is refused when it is loaded (what is missing is
printed with --list), or fails when it runs. With --expect the exit status says whether at least N ops agree and none
differs."""
import argparse
import collections
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree  # noqa: E402

logging.disable(logging.CRITICAL)

# What draws numbers has other ones; these leave memory as it is, or give a choice of several that are right. Batch
# norm follows the module's mode, which is eval here; polygamma near its poles is whatever rounding makes of it.
UNCOMPARED = re.compile(r"empty|normal|uniform|bernoulli|multinomial|rand|dropout|exponential|geometric|cauchy|rrelu|"
                        r"resize_|svd|linalg\.(eig|qr|householder|lu|ldl)|pca_lowrank|^lu|"
                        r"geqrf|ormqr|argsort|^sort$|batch_norm|"
                        r"polygamma")
# Sums of large powers that cancel: elements of up to 1e5 beside those of 0.1.
LOOSER = {"matrix_exp": dict(rtol=1e-5, atol=1e-2)}


class Call(torch.nn.Module):
    """A call of an op whose tensors are the inputs."""
    def __init__(self, op, spec, leaves):
        super().__init__()
        self.op, self.spec, self.kept = op, spec, leaves

    def forward(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.kept]
        args, kwargs = _pytree.tree_unflatten(leaves, self.spec)
        return self.op(*args, **kwargs)


def samples(op, count):
    dtype = torch.float32 if torch.float32 in op.dtypes else torch.int64
    every = list(op.sample_inputs("cpu", dtype, requires_grad=False)) if dtype in op.dtypes else []
    every = [s for s in every if not s.kwargs.get("dropout_p")]  # draws other numbers
    return every[::max(1, len(every) // count)][:count]


def run(situ, op, sample, work):
    """One of agrees, DIFFERS, refused, fails, and why; None: torch does not export it."""
    leaves, spec = _pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
    tensors = tuple(leaf.detach().clone() for leaf in leaves if isinstance(leaf, torch.Tensor))
    try:
        call = Call(op.op, spec, leaves)
        torch.manual_seed(0)
        wanted = _pytree.tree_leaves(call(*(t.clone() for t in tensors)))
        program = torch.export.export(call, tensors, strict=False)
        torch.export.save(program, f"{work}/call.pt2")
    except Exception:  # noqa: BLE001
        return None
    names = program.graph_signature.user_inputs
    arguments = []
    for name, tensor in zip(names, tensors):
        if tensor.is_complex() or tensor.dtype == torch.bfloat16:
            return None
        np.save(f"{work}/{name}.npy", tensor.numpy(force=True))
        arguments += ["--input", f"{name}={work}/{name}.npy"]
    for old in os.listdir(f"{work}/out"):
        os.remove(f"{work}/out/{old}")
    done = subprocess.run([situ, "run", f"{work}/call.pt2", "--output", f"{work}/out", "--json", *arguments],
                          capture_output=True, text=True, timeout=60)
    if done.returncode:
        return ("refused" if "lacks" in done.stderr else "fails"), done.stderr.strip()[-300:]
    wanted = [w for w in wanted if isinstance(w, torch.Tensor)]
    files = re.findall(r'"file": "([^"]+)"', done.stdout)
    if UNCOMPARED.search(op.name):
        return "agrees", ""
    try:
        for want, file in zip(wanted, files):
            torch.testing.assert_close(torch.from_numpy(np.load(file)), want, equal_nan=True, **LOOSER.get(op.name, {}))
    except AssertionError as problem:
        return "DIFFERS", str(problem)[:300]
    return "agrees", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("situ")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--expect", type=int)
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    classes = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as work:
        os.mkdir(f"{work}/out")
        for op in op_db:
            if only and op.name not in only:
                continue
            try:
                seen = [r for r in (run(options.situ, op, s, work) for s in samples(op, options.samples)) if r]
            except Exception as problem:  # noqa: BLE001
                seen = [("fails", repr(problem)[:200])]
            for kind in ("DIFFERS", "refused", "fails", "agrees"):
                why = [text for one, text in seen if one == kind]
                if why:
                    classes[kind].append(op.name)
                    if options.list and kind != "agrees":
                        print(f"{op.name}: {kind}: {' '.join(why[0].split())}", flush=True)
                    break
    for op in classes["DIFFERS"]:
        classes["agrees"] = [name for name in classes["agrees"] if name != op]
    for kind, names in sorted(classes.items()):
        classes[kind] = names = sorted(set(names))
        print(f"{kind}: {len(names)}", "" if kind == "agrees" else " ".join(names))
    if options.expect is not None:
        return len(classes["agrees"]) < options.expect or bool(classes["DIFFERS"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
