# Moving modules beside Python's torch, in one interleaved run: .to(float16) of a model of 1,000 small parameters, and of one
# of 256 MB. Wall time, medians; both sides with the threads that they take by themselves.
# Usage: move.py LIBSITU.SO
# SPDX-License-Identifier: MIT
import ctypes
import json
import statistics
import sys
import time

import torch

situ = ctypes.CDLL(sys.argv[1])
for name in ("situ_nn_module_list_of", "situ_nn_linear", "situ_nn_embedding", "situ_nn_append"):
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


def our_time(make):
    model = make()
    begin = time.perf_counter()
    status = situ.situ_nn_to_dtype(model, F16)
    seconds = time.perf_counter() - begin
    if status:
        sys.exit(situ.situ_error_message().decode())
    situ.situ_nn_free(model)
    return seconds


def their_time(make):
    model = make()
    begin = time.perf_counter()
    model.to(torch.float16)
    return time.perf_counter() - begin


def measure(what, must, ours, theirs, rounds):
    times = []
    for k in range(rounds + 2):
        both = our_time(ours), their_time(theirs)
        if k >= 2:  # the first ones warm up
            times.append(both)
    ratio = statistics.median(b / a for a, b in times)
    mine, other = (statistics.median(t[k] for t in times) for k in (0, 1))
    print(f"{what:44s} situ {1e6 * mine:10.1f} us   torch {1e6 * other:10.1f} us   {ratio:7.1f}x   (must {must}x)")
    print(json.dumps({"what": what, "situ_us": 1e6 * mine, "torch_us": 1e6 * other, "ratio": ratio, "must": must, "torch": torch.__version__}))


measure("1,000 small parameters, .to(float16)", 100, our_small, their_small, 31)
measure("one parameter of 256 MB, .to(float16)", 2.5, our_large, their_large, 9)
