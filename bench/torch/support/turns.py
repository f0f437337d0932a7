# What the scripts beside PyTorch share: a program of situ's as a server, both sides in turn, and lines that say what was
# seen. A line of a goal is JSON: goal, what, ratio (a median), low and high (its quartiles), must, and other figures.
# SPDX-License-Identifier: MIT
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import time


class Server:
    """`bench/NAME serve` beside the library: a line of words is answered by a line of numbers."""

    def __init__(self, library, name, *arguments):
        path = os.path.join(os.path.dirname(library), "bench", name)
        self.name = name
        self.process = subprocess.Popen([path, *(arguments or ["serve"])], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            sys.exit(f"bench/{self.name}: {words} failed")
        return [float(number) for number in answer]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def waited():
    """Seconds for which threads of this process were ready and had no core (waited_seconds of bench/support)."""
    total = 0
    for path in glob.glob("/proc/self/task/*/schedstat"):
        with open(path) as file:
            total += int(file.read().split()[1])
    return 1e-9 * total


def processor_time(call, calls):
    """Processor seconds of a call."""
    begin = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - begin) / calls


def in_turn(ours, theirs, rounds=21, most=1.5, least=7):
    """Pairs (ours(), theirs()): `rounds` of them, or as many as `most` seconds allow, but `least`. The first warms up."""
    ours(), theirs()
    pairs, begin = [], time.monotonic()
    while len(pairs) < rounds and (len(pairs) < least or time.monotonic() - begin < most):
        pairs.append((ours(), theirs()))
    return pairs


def say(goal, what, pairs, must, peer="torch", at_most=False, **more):
    """Prints a table's line and JSON of these pairs of seconds; ratio: the peer's time / situ's, or, for at_most, the
    other way around. Returns the ratio."""
    ratios = sorted(a / b if at_most else b / a for a, b in pairs)
    ratio = statistics.median(ratios)
    mine, other = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
    print(f"{goal:4s} {what:42s} situ {1e6 * mine:12.2f} us   {peer} {1e6 * other:12.2f} us   {ratio:7.2f}x   "
          f"must {'<=' if at_most else '>='} {must:g}")
    low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]
    print(json.dumps({"goal": goal, "what": what, "ratio": round(ratio, 4), "low": round(low, 4), "high": round(high, 4),
                      "must": must, "at_most": at_most, "situ_s": mine, "peer": peer, "peer_s": other, **more}), flush=True)
    return ratio


def geometric_mean(ratios):
    return math.exp(statistics.mean(map(math.log, ratios)))
