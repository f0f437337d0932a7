#!/usr/bin/env python3
"""Makes the golden values that tests/golden compares situ with, from PyTorch.
SPDX-License-Identifier: MIT

  apt-get install python3-torch python3-numpy
  /usr/bin/python3 tools/golden/generate.py              the committed, thinned set: tests/golden/data/*.gold
  /usr/bin/python3 tools/golden/generate.py --full DIR   every case

The same torch makes the same files: all seeds are fixed."""
import argparse
import collections
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import torch  # noqa: E402

import decoders  # noqa: E402
import edges  # noqa: E402
import gold  # noqa: E402
import layers  # noqa: E402
import lbfgs  # noqa: E402
import opinfo  # noqa: E402
import optimisers  # noqa: E402
import parametrized  # noqa: E402
import picks  # noqa: E402
import recurrent  # noqa: E402
import schedules  # noqa: E402
import table.attention  # noqa: E402,F401  (adds its rows)
import table.compound  # noqa: E402,F401  (adds its rows)
import table.composed  # noqa: E402,F401  (adds its rows)
import table.elementary  # noqa: E402,F401  (adds its rows)
import table.embeddings  # noqa: E402,F401  (adds its rows)
import table.fft  # noqa: E402,F401  (adds its rows)
import table.lapack  # noqa: E402,F401  (adds its rows)
import table.indexing  # noqa: E402,F401  (adds its rows)
import table.matrices  # noqa: E402,F401  (adds its rows)
import table.statistics  # noqa: E402,F401  (adds its rows)
import table.pairs  # noqa: E402,F401  (adds its rows)
import table.products  # noqa: E402,F401  (adds its rows)
import table.samples  # noqa: E402,F401  (adds its rows)
import table.scatters  # noqa: E402,F401  (adds its rows)
import table.nn  # noqa: E402,F401  (adds its rows)
import table.vision  # noqa: E402,F401  (adds its rows)
from table import ROWS  # noqa: E402

FAMILIES = ("make", "unary", "binary", "reduce", "scan", "shape", "index", "linalg", "nn", "loss", "arrange",
            "criterion", "elementary", "vision", "indexing", "statistics", "samples", "pairs", "scatters", "products",
            "fft", "attention", "lapack", "matrices", "compound", "embeddings")
# Beside 6000: what a thinned op may take, hand-picked cases apart.
OP_BYTES = {"samples": 2000, "scatters": 3000, "products": 3000, "matrices": 3000, "compound": 3000}
CASE_BYTES = 4000  # a larger sample is for the full set only
FEWEST = 6


def thin(family, cases):
    """Hand-picked cases, then the smallest of each kind of sample, rarest dtypes last, until the room is used."""
    kept = [c for c in cases if c.picked]
    groups = collections.OrderedDict()
    samples = sorted((c for c in cases if not c.picked), key=gold.Case.weight)
    for case in [c for c in samples if c.weight() <= CASE_BYTES] or samples[:FEWEST // 2]:
        groups.setdefault((case.key(), case.variant.split("/")[0]), []).append(case)
    room = OP_BYTES.get(family, 6000)
    for rank in range(3):
        for group in groups.values():
            if rank < len(group) and (room > group[rank].weight() or len(kept) < FEWEST):
                kept.append(group[rank])
                room -= group[rank].weight()
    return kept


def family_cases(family, full, dropped):
    chosen = collections.defaultdict(list)
    for case in picks.family(family):
        chosen[case.op].append(case)
    for name, row in ROWS.items():
        if row.family == family:
            chosen[name] += list(opinfo.all_cases(row, dropped, full))
    return [case for cases in chosen.values() for case in (cases if full else thin(family, cases))]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", metavar="DIR", help="write every case, not the thinned set")
    parser.add_argument("--only", metavar="FAMILY", help="one file only")
    parser.add_argument("--dropped", action="store_true", help="list why samples were left out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    out = options.full or os.path.join(here, "..", "..", "tests", "golden", "data")
    os.makedirs(out, exist_ok=True)
    makers = {f: lambda dropped, f=f: family_cases(f, options.full, dropped) for f in FAMILIES}
    for family in edges.FAMILIES:
        makers[family.__name__ + "_edges"] = lambda dropped, f=family: list(f())
    makers["layers"] = lambda dropped: layers.all_cases()
    makers["decoder"] = lambda dropped: decoders.all_cases()
    makers["parametrized"] = lambda dropped: parametrized.all_cases()
    makers["recurrent"] = lambda dropped: recurrent.all_cases()
    makers["optim"] = lambda dropped: optimisers.all_cases()
    makers["optim_edges"] = lambda dropped: list(optimisers.zero_cases())
    makers["lbfgs_edges"] = lambda dropped: lbfgs.zero_cases()
    makers["lbfgs"] = lambda dropped: lbfgs.all_cases()
    makers["schedules"] = lambda dropped: schedules.all_cases()
    for family, maker in makers.items():
        if options.only not in (None, family):
            continue
        dropped = collections.Counter()
        cases = maker(dropped)
        path = os.path.join(out, family + ".gold")
        written = gold.write(path, cases)
        ops = collections.Counter(c.op for c in cases)
        print(
            "%-8s %3d ops %6d cases %9d bytes; %d samples left out" %
            (family, len(ops), written, os.path.getsize(path), sum(dropped.values())), flush=True)
        few = [name for name, n in ops.items() if n < FEWEST and family in FAMILIES]
        none = [name for name, r in ROWS.items() if r.family == family and name not in ops]
        if few or none:
            print("         fewer than %d: %s; none: %s" % (FEWEST, " ".join(few), " ".join(none)))
        if options.dropped:
            for reason, n in dropped.most_common():
                print("         %5d %s" % (n, reason))


if __name__ == "__main__":
    main()
