# Files of bench/io.c beside raw writes, torch.save and safetensors.torch, taking turns. Processor time of one thread with
# the files in the page cache, medians. H11.
# Usage: io.py LIBSITU.SO
# SPDX-License-Identifier: MIT
import os
import shutil
import sys
import tempfile
import time

import torch
from safetensors.torch import load_file
from support.turns import Server, in_turn, say

torch.set_num_threads(1)
tensors = {f"layer.{k}.weight": torch.randn(1024, 1024) for k in range(64)}


def timed(call):
    begin = time.process_time()
    call()
    return time.process_time() - begin


# In memory, where there is room: a disk that is behind makes both sides wait.
memory = "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 2 << 30 else None
with tempfile.TemporaryDirectory(dir=memory) as directory:
    path, theirs = os.path.join(directory, "situ.safetensors"), os.path.join(directory, "torch.pt")
    situ = Server(sys.argv[1], "io", "serve", path)

    def save():
        if os.path.exists(theirs):
            os.unlink(theirs)  # as situ's, which writes a new file
        torch.save(tensors, theirs)

    def read():
        return {name: t.clone() for name, t in load_file(path).items()}

    def touch():
        return sum(t.view(-1)[::1024].sum() for t in load_file(path).values())

    def ask(job):
        return lambda: situ.ask(job)[0]

    say("H11", "save of 256 MiB, beside raw writes", in_turn(ask("save"), ask("write"), 15, 10), 0.8, "write")
    say("H11", "save, beside torch.save", in_turn(ask("save"), lambda: timed(save), 15, 10), 1.2)
    say("H11", "read, beside safetensors.torch and a copy", in_turn(ask("read"), lambda: timed(read), 15, 10), 1, "safetensors")
    say("H11", "map and touch, beside safetensors.torch", in_turn(ask("map"), lambda: timed(touch), 15, 10), 1, "safetensors")
    situ.end()
