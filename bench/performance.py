#!/usr/bin/env python3
"""Rewrites the part of docs/performance.md between the two marks of a processor from what a run of the benchmarks on it has
printed; adds that part at the end, if the processor is new.

usage: bench/performance.py LOG         bench/run.sh without names leaves LOG beside the programs
       bench/performance.py --machine   prints the line of JSON that tells of this machine, with which a LOG begins
SPDX-License-Identifier: MIT
"""
import datetime
import importlib.metadata
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import textwrap

GOALS = {
    "H1": "small work beside libtorch",
    "H2": "single ops",
    "H3": "products in f32, and f64",
    "H4": "products in bf16 and f16",
    "H5": "attention",
    "H6": "training steps",
    "H7": "inference beside onnxruntime",
    "H8": "replays beside calls",
    "H9": "fused AdamW",
    "H10": "modules cast and copied",
    "H11": "files",
    "H12": "cost of a parameter, 20,000 beside 100",
    "H13": "from the start of a process to a result",
    "H14": "two threads and a busy neighbour",
    "H15": "two threads beside one",
}
FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16")
BEGIN, END = "<!-- made by bench/performance.py on {} -->", "<!-- end of what is made -->"


def machine():
    """What lscpu says, versions of the peers, and the load that other programs are."""
    said = dict(line.split(":", 1) for line in subprocess.run(["lscpu"], capture_output=True, text=True).stdout.splitlines()
                if ":" in line)
    said = {key.strip(): value.strip() for key, value in said.items()}
    versions = {}
    for name in ("torch", "onnxruntime", "safetensors"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return {"machine": {"cpu": said.get("Model name", "?"), "cores": os.cpu_count(),
                        "caches": {level: said[f"{level} cache"] for level in ("L1d", "L2", "L3") if f"{level} cache" in said},
                        "flags": [flag for flag in FLAGS if flag in said.get("Flags", "").split()],
                        "kernel": os.uname().release, "load": os.getloadavg()[0], "versions": versions,
                        "date": datetime.date.today().isoformat()}}


def met(line):
    return line["ratio"] <= line["must"] if line.get("at_most") else line["ratio"] >= line["must"]


def number(value):
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def seen(line):
    """The figure, bold where the goal is missed, the quartiles of the rounds, and whether too few of them were quiet."""
    spread = f" [{number(line['low'])} to {number(line['high'])}]" if "low" in line else ""
    busy = ", disturbed" if line.get("disturbed") else ""
    return (number(line["ratio"]) if met(line) else f"**{number(line['ratio'])}**") + spread + busy


def must(line):
    return f"at {'most' if line.get('at_most') else 'least'} {line['must']:g}"


def distance(line):
    """Above 1: missed, and by which factor."""
    ratio = max(line["ratio"], 1e-9)
    return ratio / line["must"] if line.get("at_most") else line["must"] / ratio


def mean(lines, at_most):
    """The geometric mean of the lines of one direction: of a ratio that must be large and one that must be small it says
    nothing. A ratio of 0 (no memory at all) has no logarithm, and is counted."""
    of = [line["ratio"] for line in lines if bool(line.get("at_most")) == at_most]
    above = [math.log(ratio) for ratio in of if ratio >= 0.005]
    zeros = f"{len(of) - len(above)} at 0" if len(of) > len(above) else ""
    return ", ".join(filter(None, (number(math.exp(statistics.mean(above))) if above else "", zeros)))


def summary(lines):
    yield "| goal | what | must | lines, of them met | mean of \"at least\" | mean of \"at most\" | farthest from its goal |"
    yield "|---|---|---|---|---|---|---|"
    for goal, what in GOALS.items():
        of = [line for line in lines if line["goal"] == goal]
        if not of:
            yield f"| {goal} | {what} | | not measured | | | |"
            continue
        least = sorted({must(line) for line in of})
        last = max(of, key=distance)
        cells = (goal, what, "; ".join(least), f"{len(of)}, {sum(map(met, of))}", mean(of, False), mean(of, True),
                 f"{last['what']}: {seen(last)}")
        yield "| " + "".join(f"{cell} | " if cell else "| " for cell in cells).rstrip()


def tables(log):
    said = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    about = next((line["machine"] for line in said if "machine" in line), None)
    lines = list({(line["goal"], line["what"]): line for line in said if line.get("goal") in GOALS}.values())
    # Virtual machines hide models, so the last of the flags tells processors of one name apart.
    yield BEGIN.format(f"{about['cpu']} with {about['flags'][-1]}" if about and about["flags"] else "?")
    yield ""
    if about:
        yield from textwrap.wrap(f"Run of {about['date']}: {about['cpu']}, {about['cores']} cores, caches "
               + ", ".join(f"{level} {size}" for level, size in about["caches"].items())
               + f"; {', '.join(about['flags'])}; Linux {about['kernel']}; "
               + ", ".join(f"{name} {version}" for name, version in about["versions"].items())
               + f". Load when it began: {about['load']:.1f}"
               + (", so the machine was **busy**." if about["load"] > 0.5 else "."), 120)
    counted = [line for line in said if "rounds" in line]
    if counted:
        rounds, quiet = (sum(line[key] for line in counted) for key in ("rounds", "quiet"))
        yield ""
        yield f"Of {rounds} rounds the cores were quiet in {quiet}, which count. Lines that had too few of these are disturbed."
    yield ""
    yield from summary(lines)
    yield ""
    ops = sorted((line for line in lines if line["goal"] == "H2"), key=lambda line: line["ratio"])
    if ops:
        yield (f"Of the {len(ops)} single ops (H2) {sum(line['ratio'] < 1 for line in ops)} are below 1.0 and "
               f"{sum(line['ratio'] < 0.9 for line in ops)} below 0.9. The ten worst:")
        yield ""
        yield "| job | PyTorch's time / situ's |"
        yield "|---|---|"
        for line in ops[:10]:
            yield f"| {line['what']} | {seen(line)} |"
        yield ""
    yield "All lines of the other goals, with the quartiles of their rounds:"
    yield ""
    yield "| goal | what | must | seen |"
    yield "|---|---|---|---|"
    for line in sorted(lines, key=lambda line: int(line["goal"][1:])):
        if line["goal"] != "H2":
            busy = f", threads waited for {100 * line['waited']:.0f} %" if line.get("waited", 0) > 0.05 else ""
            yield f"| {line['goal']} | {line['what']} | {must(line)} | {seen(line)}{busy} |"
    yield ""
    yield END


if len(sys.argv) != 2:
    sys.exit(__doc__)
if sys.argv[1] == "--machine":
    print(json.dumps(machine()), flush=True)
    sys.exit()
page = pathlib.Path(__file__).resolve().parent.parent / "docs" / "performance.md"
made = list(tables(pathlib.Path(sys.argv[1]).read_text()))
before, begin, rest = page.read_text().partition(made[0])
_, end, after = rest.partition(END)
if begin and not end:
    sys.exit(f"{page} lacks the mark behind the tables of {made[0]}")
page.write_text(before + ("" if begin else "\n") + "\n".join(made) + (after or "\n"))
