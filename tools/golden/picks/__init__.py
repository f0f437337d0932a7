"""Hand-picked cases: what OpInfo's samples leave out. This file has the tools; the others of the folder have the cases.
SPDX-License-Identifier: MIT"""
import importlib
import math

import torch

import cases
import gold

INF, NAN = math.inf, math.nan
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
ALL = FLOATS + INTS + (torch.bool, )
SPECIAL = [
    NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1e-30, -1e-30, 1e-40, 3e38, -3e38,
    88.0, -88.0, 104.0, -104.0, 20.5, 16777217.0, 1e4
]
_made = []


def r(*shape, dtype=torch.float32, lo=None, hi=None):
    """Random values: normal, or uniform between lo and hi."""
    if lo is None:
        return torch.randn(shape).to(dtype)
    return (torch.rand(shape) * (hi - lo) + lo).to(dtype)


def ints(*shape, lo=-5, hi=6, dtype=torch.int64):
    """Random whole numbers in [lo, hi), as far as the dtype has them."""
    if dtype in (torch.uint8, torch.bool):
        lo = max(lo, 0)
    return torch.randint(lo, hi, shape).to(dtype)


def values(*shape, dtype=torch.float32):
    """Random values of any dtype."""
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    return r(*shape, dtype=dtype) if dtype.is_floating_point else ints(*shape, dtype=dtype)


def t(*data, dtype=torch.float32):
    return torch.tensor(data, dtype=dtype)


def special(dtype=torch.float32):
    """Values at the edges; beyond f16's range they become infinite."""
    return torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)


def turned(x):
    """x's values in the storage of its transpose."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def stepped(x):
    """x's values as every second element of a wider storage."""
    wide = x.new_full(x.shape[:-1] + (2 * x.shape[-1] + 1, ), 1)
    wide[..., 1::2] = x
    return wide[..., 1::2]


def pick(name, *args, variant="", flags=0, grad=True, **kwargs):
    """Adds a case. The message of what torch refuses names it, for a pick is meant to work."""
    try:
        _made.append(
            cases.make(name, *args, variant=("pick/" + variant).rstrip("/"), picked=True, flags=flags,
                       grad=grad, **kwargs))
    except Exception as reason:
        raise RuntimeError("%s %s %s" % (name, variant, [getattr(a, "shape", a) for a in args])) from reason


def maybe(*args, **kwargs):
    """A case, unless torch has no such kernel: for loops over dtypes."""
    try:
        pick(*args, **kwargs)
    except RuntimeError:
        pass


def family(name):
    """The picked cases of a family; the random numbers do not depend on the other families."""
    _made.clear()
    torch.manual_seed(20240607)
    parts = {
        "make": "make", "unary": "elementwise", "binary": "elementwise", "reduce": "reduce", "scan": "reduce",
        "shape": "shape", "index": "shape", "linalg": "linalg", "nn": "nn", "loss": "nn",
        "arrange": "composed", "criterion": "criterion", "elementary": "elementary", "vision": "vision",
        "indexing": "indexing", "statistics": "statistics", "samples": "samples", "pairs": "pairs",
        "scatters": "scatters", "products": "products", "fft": "fft", "lapack": "lapack",
        "attention": "attention", "matrices": "matrices", "compound": "compound",
        "embeddings": "embeddings"
    }
    getattr(importlib.import_module("picks." + parts[name]), name)()
    return list(_made)


SIGNED_ZERO = gold.SIGNED_ZERO
