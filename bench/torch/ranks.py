# Data parallel training: steps of examples/06_char_gpt.c on one rank, on two ranks over MPI, and of the same model on
# two processes of PyTorch's DistributedDataParallel over gloo; one thread each, taking turns. Medians of rounds. Then
# two ranks with gradients in parts, with parameters in parts, and with layers in parts, beside one rank. Then a barrier
# and all-reduces beside MPI's own, with each MPI that is installed.
# Usage: ranks.py LIBSITU.SO [ROUNDS [STEPS]]
#        ranks.py --collectives LIBSITU.SO [PROCESSES...]    those alone, on 2, 4, 8 and 16 processes unless told
# SPDX-License-Identifier: MIT
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONTEXT, WIDTH, HEADS, LAYERS, BATCH, WARM = 64, 64, 4, 2, 16, 5
TEXT = "/usr/share/common-licenses/GPL-3"


def torch_worker(rank, size, steps, meeting):
    """One process of DistributedDataParallel; rank 0 prints what bench/ranks/gpt.c prints."""
    import torch
    from torch import nn

    class CharGPT(nn.Module):
        def __init__(self, symbols):
            super().__init__()
            self.tokens = nn.Embedding(symbols, WIDTH)
            self.positions = nn.Embedding(CONTEXT, WIDTH)
            self.blocks = nn.ModuleList(
                nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
                for _ in range(LAYERS))
            self.norm = nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, symbols)
            self.mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x, src_mask=self.mask, is_causal=True)
            return self.head(self.norm(x))

    torch.set_num_threads(1)
    torch.manual_seed(6 + rank)
    torch.distributed.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=size)
    with open(TEXT) as file:
        letters = file.read()
    number = {c: i for i, c in enumerate(dict.fromkeys(letters))}
    everything = torch.tensor([number[c] for c in letters])
    gpt = nn.parallel.DistributedDataParallel(CharGPT(len(number)))
    optim = torch.optim.AdamW(gpt.parameters(), lr=3e-3, weight_decay=1e-2)
    offsets = torch.arange(CONTEXT + 1)
    clock, processor = [], []
    for i in range(-WARM, steps):
        begin, used = time.perf_counter(), time.process_time()
        passage = everything[torch.randint(0, len(everything) - CONTEXT - 1, (BATCH // size, 1)) + offsets]
        optim.zero_grad()
        scores = gpt(passage[:, :CONTEXT])
        nn.functional.cross_entropy(scores.flatten(0, 1), passage[:, 1:].reshape(-1)).backward()
        nn.utils.clip_grad_norm_(gpt.parameters(), 1)
        optim.step()
        if i >= 0:
            clock.append(time.perf_counter() - begin)
            processor.append(time.process_time() - used)
    if rank == 0:
        print(statistics.median(clock), statistics.median(processor))
    torch.distributed.destroy_process_group()


def run_torch(steps, work, number):
    command = [sys.executable, os.path.abspath(__file__), "--worker", str(steps), f"{work}/meeting.{number}"]
    ranks = [subprocess.Popen(command + [str(r)], stdout=subprocess.PIPE, text=True) for r in range(2)]
    said = [r.communicate()[0] for r in ranks]
    return [float(x) for x in said[0].split()]


def run_situ(mpirun, program, ranks, steps, *more):
    said = subprocess.run([mpirun, "-n", str(ranks), program, str(steps), *more], check=True, text=True,
                          stdout=subprocess.PIPE, env=environment()).stdout
    return [float(x) for x in said.split()]


def environment():
    """This one, with what demo/ranks/environment.sh says."""
    said = subprocess.run([". demo/ranks/environment.sh && env"], shell=True, cwd=root, check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line) | {"SITU_NUM_THREADS": "1"}


def find_mpi():
    for flavour in ("", ".openmpi", ".mpich"):
        if shutil.which("mpicc" + flavour) and shutil.which("mpirun" + flavour):
            return "mpicc" + flavour, "mpirun" + flavour
    sys.exit("SKIPPED: no mpicc and mpirun (Debian: openmpi-bin libopenmpi-dev, or mpich libmpich-dev)")


def collectives(library, processes):
    """Where ranks share cores, and wait by giving them up, figures are the scheduler's: two ranks alone are judged."""
    at = os.path.dirname(library)
    for flavour in ("openmpi", "mpich"):
        if not shutil.which(f"mpicc.{flavour}"):
            continue
        with tempfile.TemporaryDirectory() as work:
            program = f"{work}/collectives"
            subprocess.run([f"mpicc.{flavour}", "-std=c17", "-O2", "-D_GNU_SOURCE", "-I", f"{root}/include",
                            f"{root}/bench/ranks/collectives.c", "-o", program, "-L", at, f"-Wl,-rpath,{at}", "-lsitu",
                            "-lm"], check=True)
            for ranks in processes:
                env = environment()
                if ranks <= (os.cpu_count() or 1):
                    for name in ("OMPI_MCA_mpi_yield_when_idle", "MPIR_CVAR_POLLS_BEFORE_YIELD",
                                 "OMPI_MCA_btl_vader_single_copy_mechanism"):
                        del env[name]
                said = subprocess.run([f"mpirun.{flavour}", "-n", str(ranks), program, "15" if ranks == 2 else "3"],
                                      check=True, text=True, stdout=subprocess.PIPE, env=env).stdout
                for line in said.splitlines():
                    tell_collective(flavour, ranks, *line.split())


def tell_collective(flavour, ranks, what, size, *us):
    """A line for people, and one for programs; musts are of two ranks, and of 1 MB."""
    mpi, engine, *apart = (float(x) for x in us)
    musts = {"barrier 0": (3,), "all_reduce 1048576": (1.1, 1.5)} if ranks == 2 else {}
    pairs = [("in the engine's order" if apart else "", engine, mpi)]
    if apart:
        pairs.append(("with the same bits", apart[1], min(mpi, apart[0])))
    for (order, ours, theirs), must in zip(pairs, musts.get(f"{what} {size}", ()) or (None,) * len(pairs)):
        said = "" if must is None else f"  must <= {must} {'met' if ours <= must * theirs else 'NOT MET'}"
        print(f"{flavour:8} {ranks:2} ranks  {what} {size:>8} {order:21}  {ours:10.2f} us, MPI's {theirs:10.2f} us "
              f"({ours / theirs:.2f} of it){said}")
        print(json.dumps({"name": f"{flavour} {what} {size} {order}".strip(), "ranks": ranks, "ours": ours,
                          "theirs": theirs, "must": must}))


def main():
    library = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    mpicc, mpirun = find_mpi()
    divided = ("zero2", "zero3", "layers")
    seen = {"plain": [], "ranks": [], "torch": []} | {how: [] for how in divided}
    with tempfile.TemporaryDirectory() as work:
        program, at = work + "/gpt", os.path.dirname(library)
        subprocess.run([mpicc, "-std=c17", "-O2", "-D_GNU_SOURCE", "-Dmain=main_of_the_example",
                        "-I", f"{root}/include", "-include", f"{root}/examples/06_char_gpt.c", f"{root}/bench/ranks/gpt.c", "-o", program,
                        "-L", at, f"-Wl,-rpath,{at}", "-lsitu", "-lm"], check=True)
        for i in range(rounds):
            seen["plain"].append(run_situ(mpirun, program, 1, steps, "plain"))
            seen["ranks"].append(run_situ(mpirun, program, 2, steps))
            seen["torch"].append(run_torch(steps, work, i))
            for how in divided:
                seen[how].append(run_situ(mpirun, program, 2, steps, how))
    for k, what in enumerate(("clock", "processor")):
        one, two, theirs = (statistics.median(r[k] for r in seen[who]) for who in ("plain", "ranks", "torch"))
        print(f"{what:9}  1 rank {1e3 * one:6.2f} ms, 2 ranks {1e3 * two:6.2f} ms ({two / one:.2f} of it), "
              f"PyTorch's DDP {1e3 * theirs:6.2f} ms ({two / theirs:.2f} of it)")
        for how in divided:
            took = statistics.median(r[k] for r in seen[how])
            print(f"{what:9}  2 ranks, {how:6} {1e3 * took:6.2f} ms ({took / one:.2f} of 1 rank)")
        print(json.dumps({"name": f"ranks {what}", "one": one, "two": two, "torch": theirs}))
    collectives(library, [2])


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        torch_worker(int(sys.argv[4]), 2, int(sys.argv[2]), sys.argv[3])
    elif sys.argv[1] == "--collectives":
        collectives(os.path.abspath(sys.argv[2]), [int(x) for x in sys.argv[3:]] or [2, 4, 8, 16])
    else:
        main()
