# Modules moved to f16 and copied beside Python's torch, taking turns: a model of 1,000 small parameters, and one of
# 256 MiB. Wall time, medians; both sides with the threads that they take by themselves. H10.
# Usage: move.py LIBSITU.SO
# SPDX-License-Identifier: MIT
import copy
import ctypes
import sys
import time

import torch
from support.turns import in_turn, say

situ = ctypes.CDLL(sys.argv[1])
for name in ("situ_nn_module_list_of", "situ_nn_linear", "situ_nn_embedding", "situ_nn_append", "situ_nn_clone"):
    getattr(situ, name).restype = ctypes.c_void_p
situ.situ_error_message.restype = ctypes.c_char_p
F16 = 7  # situ_dtype


def pointer(value):
    if not value:
        sys.exit(situ.situ_error_message().decode())
    return ctypes.c_void_p(value)


def our_layer(n):
    return pointer(situ.situ_nn_linear(ctypes.c_int64(n), ctypes.c_int64(n), None))


def our_small():
    model = pointer(situ.situ_nn_module_list_of(ctypes.c_int64(0), None))
    for _ in range(500):
        pointer(situ.situ_nn_append(model, our_layer(8)))
    return model


def our_large():
    return pointer(situ.situ_nn_embedding(ctypes.c_int64(8192), ctypes.c_int64(8192), None))


def their_small():
    return torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(500))


def their_large():
    return torch.nn.Embedding(8192, 8192)


def our_cast(make):
    model = make()
    begin = time.perf_counter()
    status = situ.situ_nn_to_dtype(model, F16)
    seconds = time.perf_counter() - begin
    if status:
        sys.exit(situ.situ_error_message().decode())
    situ.situ_nn_free(model)
    return seconds


def their_cast(make):
    model = make()
    begin = time.perf_counter()
    model.to(torch.float16)
    return time.perf_counter() - begin


def our_copy(model):
    """With the freeing of the copy, as theirs."""
    begin = time.perf_counter()
    situ.situ_nn_free(pointer(situ.situ_nn_clone(model)))
    return time.perf_counter() - begin


def their_copy(model):
    begin = time.perf_counter()
    copy.deepcopy(model)
    return time.perf_counter() - begin


sizes = (("1,000 small parameters", our_small, their_small, 55, 80, 31), ("256 MiB", our_large, their_large, 3, 5, 9))
for what, ours, theirs, cast, clone, rounds in sizes:
    say("H10", f"{what}, .to(float16)", in_turn(lambda: our_cast(ours), lambda: their_cast(theirs), rounds, 20), cast)
    models = ours(), theirs()
    say("H10", f"{what}, copied", in_turn(lambda: our_copy(models[0]), lambda: their_copy(models[1]), rounds, 20), clone)
    situ.situ_nn_free(models[0])
