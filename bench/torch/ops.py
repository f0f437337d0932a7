# The jobs of bench/ops.c beside those of bench/torch/ops.cc, PyTorch's C++ interface, taking turns on one thread.
# Processor time, medians: PyTorch's / situ's. H2: their geometric mean, and those below 1.
# Usage: ops.py LIBSITU.SO [NAME...]     (the programs are looked for beside the library; NAME: only these jobs)
# SPDX-License-Identifier: MIT
import os
import subprocess
import sys

from support.turns import Server, geometric_mean, in_turn, say

ROUNDS, SECONDS = 15, 1.0  # of a job, at most
program = os.path.join(os.path.dirname(sys.argv[1]), "bench", "ops")
listed = [line.split() for line in subprocess.run([program, "list"], capture_output=True, text=True).stdout.splitlines()]
if not os.path.exists(os.path.join(os.path.dirname(program), "torch", "ops")):
    print("SKIPPED: there was no libtorch when this was built")
    sys.exit()
situ, torch = Server(sys.argv[1], "ops"), Server(sys.argv[1], "torch/ops")

# Elements of a line, dtype, with backward; and the letter of jobs that have the variant beside the first.
variants = [((1 << 20, "f32", 0), "-"), ((1 << 20, "f32", 1), "b"), ((1 << 12, "f32", 0), "s"), ((1 << 12, "f32", 1), "sb"),
            ((1 << 20, "bf16", 0), "h"), ((1 << 20, "f16", 0), "h")]


def named(job, size, dtype, backward):
    return job + (" 4Ki" if size == 1 << 12 else "") + (f" {dtype}" if dtype != "f32" else "") + (" f+b" if backward else "")


ratios = {}
for variant, letters in variants:
    for job, has in listed:
        if set(letters) <= set(has) and (job in sys.argv[2:] or not sys.argv[2:]):
            pairs = in_turn(lambda: situ.ask(job, *variant)[0], lambda: torch.ask(job, *variant)[0], ROUNDS, SECONDS)
            ratios[named(job, *variant)] = say("H2", named(job, *variant), pairs, 1)
worst = sorted(ratios, key=ratios.get)[:10]
print(f"{len(ratios)} jobs: geometric mean {geometric_mean(ratios.values()):.2f}x (must 2), "
      f"{sum(r < 1 for r in ratios.values())} below 1.0 (must 0), the worst: "
      + ", ".join(f"{name} {ratios[name]:.2f}" for name in worst))
situ.end()
torch.end()
