# What the scripts beside PyTorch share: a program of situ's as a server, both sides in turn, and lines that say what was
# seen. A line of a goal is JSON: goal, what, ratio (a median), low and high (its quartiles), must, and other figures.
# Rounds count in which the core was quiet: shared machines have cores whose other hyperthread belongs to another program.
# SPDX-License-Identifier: MIT
import atexit
import contextlib
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
    started = []  # their process ids

    def __init__(self, library, name, *arguments):
        path = os.path.join(os.path.dirname(library), "bench", name)
        self.name = name
        self.process = subprocess.Popen([path, *(arguments or ["serve"])], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        Server.started.append(self.process.pid)

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
        Server.started.remove(self.process.pid)


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


QUIET = 1.25  # of the least time of slowness(), up to which a core counts as quiet; a busy hyperthread takes 1.5
PATIENCE = 10  # seconds of a line, for which quiet rounds are waited for
CORES = sorted(os.sched_getaffinity(0))
least_time = math.inf
counted = {"rounds": 0, "quiet": 0}
last = {"disturbed": False}  # of the rounds that say() tells of next, too few were quiet
atexit.register(lambda: print(json.dumps(counted), flush=True))


def slowness():
    """Time of some Python on this core / the least that was seen: what shares the core's units, caches and clock adds to
    it, hyperthreads of other machines among them, which no count of processes shows."""
    global least_time
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(3000):
            pass
        times.append(time.perf_counter() - begin)
    least_time = min(least_time, *times)
    return min(times) / least_time


def run_on(cores):
    """Moves the threads of both sides to these cores."""
    for process in ["self", *Server.started]:
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.sched_setaffinity(int(thread), cores)


def look():
    """The slowness of each core."""
    seen = {}
    for core in CORES:
        run_on({core})
        seen[core] = slowness()
    return seen


def quieter_core():
    seen = look()
    return min(seen, key=seen.get)


def slowness_of(threads):
    """With one thread of the core it is on, else of the slowest one, and all are theirs again."""
    if threads == 1:
        return slowness()
    worst = max(look().values())
    run_on(CORES)
    return worst


def wait_for_quiet(threads, end):
    """Waits until the cores are quiet, with one thread the one it is on then, or until the time `end`. Returns their
    slowness. A busy moment is not spent on a round that would not count."""
    slow = slowness_of(threads)
    while slow > QUIET and time.monotonic() < end:
        if threads == 1:
            run_on({quieter_core()})
        slow = slowness_of(threads)
    return slow


for _ in range(100):  # until both cores were probably seen when they were quiet
    quieter_core()


def in_turn(ours, theirs, rounds=21, most=1.5, least=7, threads=1):
    """Pairs (ours(), theirs()): of `rounds` quiet rounds, or of as many as `most` seconds allow, but `least`. Where a
    machine is too busy for that, the `least` quietest ones. The first round warms up. One thread: both on one core."""
    run_on({quieter_core()} if threads == 1 else CORES)
    ours(), theirs()
    seen, quiet, begin = [], 0, time.monotonic()
    end = begin + max(3 * most, PATIENCE)
    while quiet < rounds:
        before = wait_for_quiet(threads, end)
        pair = ours(), theirs()
        seen.append((max(before, slowness_of(threads)), pair))
        quiet = sum(slow <= QUIET for slow, _ in seen)
        if len(seen) >= least and time.monotonic() > (begin + most if quiet >= least else end):
            break
    counted["rounds"] += len(seen)
    counted["quiet"] += quiet
    last["disturbed"] = quiet < least
    seen.sort(key=lambda round: round[0])
    return [pair for _, pair in seen[:max(least, quiet)]]


def say(goal, what, pairs, must, peer="torch", at_most=False, **more):
    """Prints a table's line and JSON of these pairs of seconds; ratio: the peer's time / situ's, or, for at_most, the
    other way around. Returns the ratio."""
    ratios = sorted(a / b if at_most else b / a for a, b in pairs)
    ratio = statistics.median(ratios)
    mine, other = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
    print(f"{goal:4s} {what:42s} situ {1e6 * mine:12.2f} us   {peer} {1e6 * other:12.2f} us   {ratio:7.2f}x   "
          f"must {'<=' if at_most else '>='} {must:g}")
    low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]
    if last["disturbed"]:
        more["disturbed"] = True
    print(json.dumps({"goal": goal, "what": what, "ratio": round(ratio, 4), "low": round(low, 4), "high": round(high, 4),
                      "must": must, "at_most": at_most, "situ_s": mine, "peer": peer, "peer_s": other, **more}), flush=True)
    return ratio


def geometric_mean(ratios):
    return math.exp(statistics.mean(map(math.log, ratios)))
