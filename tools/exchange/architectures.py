#!/usr/bin/env python3
"""Exports architectures of packages of PyPI by torch.export, and has situ run and train each as torch does.
SPDX-License-Identifier: MIT

  python3 tools/exchange/architectures.py TEST [--only TEXT] [--part 1/2] [--list FILE] [--models] [--keep DIR]

TEST is the test program of tests/program/models.c. The list, architectures.txt, has a line for each architecture:

  NAME INPUTS EXPRESSION     PACKAGE.WORD, keyword arguments without spaces, what makes the module

f(2,3) is a random tensor of that shape, i(9,2,3) one of whole numbers below 9, and b is the batch size. Its head says
which packages it needs. --models adds those of models.py and more_models.py. Parameters that a package does not set, or
sets to zero, are drawn. Each module is exported as it is and in core ATen (run_decompositions), compared at two batch
sizes, and trained for 20 steps (generate.py). Prints how far each came, a table of how many were exported, load, agree
and train, of each package and of all, as docs/bring-a-model.md has it, then the refusals by cause. --part 1/2 takes
every second line, so that two processes share the list; --keep leaves what does not agree in DIR."""
import argparse
import collections
import functools
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import generate  # noqa: E402
import models  # noqa: E402
import more_models  # noqa: E402
from thin import thin  # noqa: E402

SECONDS = 150
STAGES = ("exported", "loads", "agrees", "trains")


class Fixed(torch.nn.Module):
    """A module that is called with further arguments, or by another method; its result is a plain tree."""

    def __init__(self, net, method="__call__", **given):
        super().__init__()
        self.net, self.method, self.given = net, method, given

    def forward(self, **inputs):
        out = getattr(self.net, self.method)(**inputs, **self.given)
        return tuple(out.values()) if hasattr(out, "values") and not isinstance(out, torch.Tensor) else out


def whole(below, *shape):
    return torch.randint(0, below, shape)


def make(inputs, expression):
    """The row of one line, as models.py has them."""
    head = re.match(r"(?:Fixed\()?([a-z_][\w.]*)\.", expression)[1].split(".")
    for k in range(len(head)):
        try:
            importlib.import_module(".".join(head[:k + 1]))
        except ImportError:
            break
    scope = {head[0]: sys.modules[head[0]], "Fixed": Fixed, "torch": torch, "f": torch.randn, "i": whole}
    torch.use_deterministic_algorithms(True, warn_only=True)  # what a package does not initialise becomes NaN
    net = eval(expression, scope)
    torch.use_deterministic_algorithms(False)
    with torch.no_grad():
        for p in net.parameters():
            if p.isnan().any() or not p.any():  # zeros, as those of a last layer, would hide what is before them
                p.normal_(std=0.02)
    return net, lambda b: eval(f"dict({inputs})", dict(scope, b=b))


def read_list(path):
    """Lines; one that begins with a space continues the one before."""
    with open(path) as file:
        text = re.sub(r"\n +", " ", re.sub(r"^#.*\n", "", file.read(), flags=re.M))
    return {line.split()[0]: functools.partial(make, *line.split(None, 2)[1:]) for line in text.splitlines() if line}


def export(name, directory):
    """Writes NAME and core-NAME; returns what torch refuses."""
    tensors = generate.generate(name, directory, fewer=3)
    save_file(tensors, f"{directory}/{name}.safetensors")
    try:
        core = torch.export.load(f"{directory}/{name}.pt2").run_decompositions()
        thin(core)
        torch.export.save(core, f"{directory}/core-{name}.pt2")
        given = {key.removeprefix("train."): value for key, value in tensors.items() if key.startswith("train.")}
        # run_decompositions drops detach, and so core ATen has gradients of its own
        tensors["losses"] = generate.losses(core.module(), given, tensors["rate"].item())
        save_file(tensors, f"{directory}/core-{name}.safetensors")
    except Exception as problem:  # noqa: BLE001
        if os.path.exists(f"{directory}/core-{name}.pt2"):  # torch itself does not run it
            os.remove(f"{directory}/core-{name}.pt2")
        return f"core: {problem}"
    return None


def causes_of(message):
    """What a refusal lacks, without what differs from file to file."""
    names = re.findall(r"^ +([a-z_]\w*(?:\.\w+)+)", message, re.M)
    lacks = re.search(r"this library lacks: ([^\n]*)", message)
    text = re.sub(r"\S*/\S+\.pt2: ", "", message.strip())
    return set(names) or ({n.split()[0] for n in lacks[1].split(", ")} if lacks else {re.sub(r"\d+", "N", text)[:120]})


def check(test, directory):
    """For each file of the directory: how far it came (of STAGES), and the message."""
    done = subprocess.run([test], capture_output=True, text=True, env=dict(os.environ, SITU_TEST_EXCHANGE=directory))
    blocks = re.split(r"^(\S+)\.pt2 +(\S+) +(\S+)  losses +(\S+)  ", done.stdout + done.stderr, flags=re.M)[1:]
    for name, first, second, losses, rest in zip(*[iter(blocks)] * 5):
        rest = rest.split("\n[")[0].removeprefix("DIFFERS").strip()
        agrees = max(float(first), float(second)) <= 1e-5
        stage = 3 if agrees and (float(losses) <= 1e-4 or "nearer to f64" in rest) else 2 if agrees else 1 if float(first) < 1e9 else 0
        yield name, stage, rest or f"{first} {second} losses {losses}"


def stop(*_):
    raise TimeoutError(f"not exported in {SECONDS} s of a processor")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("test")
    parser.add_argument("--list", default=os.path.join(here, "architectures.txt"))
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--keep")
    options = parser.parse_args()
    rows = read_list(options.list)
    models.ROWS.update(rows)
    part, parts = map(int, options.part.split("/"))
    names = [n for n in [*rows, *(models.LISTED + more_models.MORE if options.models else [])] if options.only in n]
    signal.signal(signal.SIGPROF, stop)
    torch.set_num_threads(1)
    counts = collections.defaultdict(collections.Counter)
    causes = collections.Counter()
    for name in names[part - 1::parts]:
        generate.RATES.setdefault(name, 3e-4)
        came = {False: ["tried"], True: []}  # as exported, in core ATen
        with tempfile.TemporaryDirectory() as work:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                problem = export(name, work)
            except Exception as error:  # noqa: BLE001
                problem = f"{type(error).__name__}: {error}"
            signal.setitimer(signal.ITIMER_PROF, 0)
            if problem:
                print(f"{name}: torch: {problem.strip()[:300]!r}", flush=True)
            if os.path.exists(f"{work}/{name}.safetensors"):
                for core, reached in came.items():
                    if os.path.exists(f"{work}/{core * generate.CORE}{name}.pt2"):
                        reached.append("exported")
                for file, stage, message in check(options.test, work):
                    came[file.startswith(generate.CORE)] += STAGES[1:stage + 1]
                    causes.update(causes_of(message) if stage == 0 else ())
                    if stage < 3:
                        print(f"{file}: {message[:2000]}", flush=True)
                    if options.keep and stage < 3:
                        for end in (".pt2", ".safetensors"):
                            shutil.copy(f"{work}/{file}{end}", options.keep)
        print(f"{name}: {came[False][-1]}, core ATen: {(came[True] or ['none'])[-1]}", flush=True)
        for of in (name.split(".")[0] if name in rows else "models.py", "all"):
            counts[of].update([*came[False], *(f"core {stage}" for stage in came[True])])
    few = [of for of, count in counts.items() if count["tried"] < 10 and of != "all"]
    for of in few if len(few) > 1 else ():
        counts[f"{len(few)} others"].update(counts.pop(of))
    columns = ("tried", *STAGES, *(f"core {stage}" for stage in STAGES))
    print("| of |", " | ".join(columns), "|\n|---" + "|---" * len(columns) + "|")
    for of, count in sorted(counts.items(), key=lambda row: (row[0] == "all", -row[1]["tried"], row[0])):
        print(f"| {of} |", " | ".join(str(count[c]) for c in columns), "|")
    for what, count in causes.most_common():
        print(f"{count:4}  {what}")
    return any(counts["all"][f"{core}trains"] < counts["all"][f"{core}exported"] for core in ("", "core "))


if __name__ == "__main__":
    sys.exit(main())
