"""contrib/python/situ.py with numpy and, where it is there, torch: no copy, and nothing is left alive.
SPDX-License-Identifier: MIT"""
import gc
import re
import sys

import numpy

import situ


def refused(work, text):
    try:
        work()
    except (situ.Error, BufferError) as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError("not refused: " + text)


def of_numpy():
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3).T
    x = situ.from_dlpack(array)
    y = situ.call("add", x, x)
    back = numpy.from_dlpack(y)
    del y
    assert (back == 2 * array).all() and back.strides == (4, 12), back
    same = numpy.from_dlpack(x)
    array[1, 1] = 40
    assert same[1, 1] == 40 and same.ctypes.data == array.ctypes.data
    del array
    gc.collect()
    assert repr(x).startswith("tensor([["), x
    assert same[2, 1] == 5
    for dtype in "bool uint8 int8 int16 int32 int64 float16 float32 float64".split():
        values = numpy.ones((2, 0, 3) if dtype == "int8" else (), dtype)
        assert (numpy.from_dlpack(situ.from_dlpack(values)) == values).all(), dtype
    values = numpy.ones(3, numpy.float32)
    values.flags.writeable = False
    fixed = situ.from_dlpack(values)
    refused(lambda: situ.call("add_", fixed, fixed), "is read-only memory")
    assert not numpy.from_dlpack(fixed).flags.writeable
    refused(lambda: situ.from_dlpack(numpy.ones(2, numpy.complex64)), "complex of 64 bits")
    refused(lambda: situ.from_dlpack(numpy.ones(4)[::-1]), "is negative")
    x.__dlpack__(max_version=(1, 0))  # taken by no one
    x.__dlpack__()


def of_torch(torch):
    a = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    x = situ.from_dlpack(a[:, 1:])
    b = torch.from_dlpack(x)
    assert b.data_ptr() == a.data_ptr() + 2 and b.stride() == (3, 1), b
    situ.call("mul_", x, x)
    assert a.tolist() == [[0, 1, 4], [3, 16, 25]], a
    torch.from_dlpack(situ.call("relu", situ.from_dlpack(torch.randn(3)))).add_(1)
    assert torch.from_dlpack(situ.from_dlpack(torch.tensor([True, False]))).dtype == torch.bool


def of_gpu(torch):
    """In order with torch's own work, in torch's stream."""
    stream = torch.cuda.current_stream().cuda_stream
    gpu = situ.adopt_cuda(stream)
    a = torch.arange(3.0, device="cuda")
    x = situ.from_dlpack(a, gpu)
    situ.call("mul_", x, x)
    b = torch.from_dlpack(situ.call("add", x, x))
    assert a.tolist() == [0, 1, 4] and b.tolist() == [0, 2, 8] and b.device == a.device, (a, b)
    refused(lambda: situ.from_dlpack(a), "use situ_from_dlpack_on")
    refused(lambda: situ.abandon(gpu), "live on cuda:")
    del x, b
    gc.collect()
    situ.abandon(gpu)


def of_document(path, torch):
    """Runs the examples of docs/in-place-host.md."""
    blocks = re.findall(r"^```python\n(.*?)^```", open(path).read(), re.M | re.S)
    assert len(blocks) == 2, path
    for block in blocks:
        if torch or "torch" not in block:
            exec(block, {})


before = situ.lib.situ_live_tensors()
of_numpy()
of_document(sys.argv[1], "torch" in sys.argv)
with_torch = "without torch"
if "torch" in sys.argv:
    import torch

    of_torch(torch)
    with_torch = "torch " + torch.__version__ + (", on a GPU" if torch.cuda.is_available() else ", SKIPPED: no GPU")
    if torch.cuda.is_available():
        of_gpu(torch)
gc.collect()
assert situ.lib.situ_live_tensors() == before, situ.lib.situ_live_tensors() - before
print("numpy", numpy.__version__ + ",", with_torch)
