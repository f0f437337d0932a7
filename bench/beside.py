# The served jobs of two builds of situ, taking turns on one thread: the time of the second / that of the first, medians
# of quiet rounds with their quartiles. Lines whose lower quartile is above 1 are measured again, twice: what is slower
# each time is listed last.
# Usage: beside.py BEFORE/libsitu.so NOW/libsitu.so [NAME...]     (NAME: parts of the jobs' names)
# SPDX-License-Identifier: MIT
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch"))
from support.turns import Server, geometric_mean, in_turn  # noqa: E402

before, now = sys.argv[1:3]
VARIANTS = [((1 << 20, "f32", 0), "-"), ((1 << 20, "f32", 1), "b"), ((1 << 12, "f32", 0), "s"), ((1 << 12, "f32", 1), "sb"),
            ((64, "f32", 0), "s"), ((1 << 20, "bf16", 0), "h"), ((1 << 20, "f16", 0), "h")]
STEPS = {"mlp": 100, "lenet": 20, "char_gpt": 4, "gpt256": 1, "resnet18": 1, "lstm": 1, "lstm_small": 20, "adamw_16": 100,
         "adamw_818k": 10}


def jobs():
    """(program, words) of each job."""
    program = os.path.join(os.path.dirname(before), "bench", "ops")
    for line in subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout.splitlines():
        name, has = line.split()
        for variant, letters in VARIANTS:
            if set(letters) <= set(has):
                yield "ops", (name, *variant)
    for n in (64, 128, 256, 512, 1024):
        for dtype in ("f32", "f64", "bf16", "f16"):
            for kind in ("NN", "NT", "TN") if dtype != "f64" else ("NN",):
                yield "matmul", (dtype, n, n, n, kind)
    for shape in ((32, 1024, 256), (64, 784, 256), (128, 768, 768), (1024, 64, 256)):
        yield "matmul", ("f32", *shape, "LB")
    for kind in ("plain", "causal", "mask", "dropout", "gqa"):
        for backward in (0, 1):
            yield "attention", (2, 12, 512, 64, kind, backward)
    for name, steps in STEPS.items():
        yield "steps", (name, 1, steps)
    for job in ("save", "write", "read", "map"):
        yield "io", (job,)


with tempfile.TemporaryDirectory() as scratch:
    servers = {}

    def side(library, program):
        if (library, program) not in servers:
            words = ["serve", os.path.join(scratch, f"{len(servers)}.safetensors")] if program == "io" else []
            servers[library, program] = Server(library, program, *words)
        return servers[library, program]

    def compare(program, words):
        """The ratio's median and quartiles."""
        b, n = side(before, program), side(now, program)
        pairs = in_turn(lambda: b.ask(*words)[0], lambda: n.ask(*words)[0], 15, 1.0, 7)
        ratios = sorted(y / x for x, y in pairs)
        low, middle, high = (ratios[k * (len(ratios) - 1) // 4] for k in (1, 2, 3))
        print(f"{program} {' '.join(map(str, words)):40s} {middle:6.3f} [{low:.3f} to {high:.3f}]", flush=True)
        return low, middle

    everything = [job for job in jobs() if not sys.argv[3:] or any(w in f"{job[0]} {' '.join(map(str, job[1]))}" for w in sys.argv[3:])]
    seen = {job: compare(*job) for job in everything}
    slower = [job for job in everything if seen[job][0] > 1]
    for _ in range(2):
        print(f"{len(slower)} of {len(everything)} again:")
        slower = [job for job in slower if compare(*job)[0] > 1]
    print(f"{len(seen)} jobs, geometric mean {geometric_mean([middle for _, middle in seen.values()]):.3f}; slower each time: {len(slower)}")
    for program, words in slower:
        print(f"  {program} {' '.join(map(str, words))}")
    for server in servers.values():
        server.end()
