"""Tensors that onnx_written.py and onnx_read.py draw. SPDX-License-Identifier: MIT"""
import random

import torch

REAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, float("inf"), float("-inf"), float("nan"), 1e-30, -1e-10, 1e10, -1e4, 88.5,
        -104.0, 2.0**24 + 2]
INTEGER = {torch.int64: [2**53 + 1, -2**53 - 3, 2**62 + 1, 0, 1, -1, 7], torch.int32: [2**24 + 1, -2**30 + 1, 0, 1, -1, 7],
         torch.int16: [32767, -32768, 0, 1, -1], torch.int8: [127, -128, 0, 1, -1], torch.uint8: [255, 128, 0, 1]}
DTYPES = [torch.float32] * 9 + [torch.float64, torch.int64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
                                torch.bool, torch.float16]
SHAPES = [(), (1,), (5,), (0,), (2, 3), (3, 1), (1, 4), (0, 3), (2, 0), (2, 3, 4), (2, 1, 3), (1, 1, 1), (1, 2, 3, 2)]


def pick(*values):
    return random.choice(values)


def tensor(shape, dtype=torch.float32, plain=False):
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -9, 10, shape).to(dtype)
    t = torch.randn(shape, dtype=torch.float64)
    return (t if plain or random.random() < 0.6 else (t * 2).round() / 2).to(dtype)


class Fixed:
    """A tensor whose values have a meaning, such as indices."""
    def __init__(self, t):
        self.tensor = t


def special(t, finite=False, divides=False):
    if t.numel() == 0 or t.dtype == torch.bool:
        return t.clone()
    real = [v for v in REAL if abs(v) < 1e3] if finite else REAL
    whole = [v for v in INTEGER.get(t.dtype, []) if (v or not divides) and not (finite and abs(v) > 2**40)]
    values = torch.tensor(real if t.dtype.is_floating_point else whole, dtype=None if whole else torch.float64).to(t.dtype)
    out = t.clone().contiguous()
    places = torch.rand(out.shape) < pick(0.1, 0.5, 1.0)
    out[places] = values[torch.randint(0, len(values), (int(places.sum()),))]
    return out


def grown(t, more):
    return torch.cat([t, t[:more]]) if t.shape[0] >= more else torch.cat([t] * (more + 1))


class Drawing:
    def __init__(self, module, inputs, fixed, dynamic, text, loose, makers=(), finite=False, divides=False):
        self.finite, self.divides = finite, divides
        self.module, self.inputs, self.fixed, self.dynamic = module, inputs, fixed, dynamic
        self.text, self.loose, self.makers = text, loose, makers

    def values(self):
        yield self.inputs
        for _ in range(2):
            yield [t if k in self.fixed else special(t, self.finite, k and self.divides) for k, t in enumerate(self.inputs)]
        for maker in self.makers:
            yield maker()
        if self.dynamic and not self.makers:
            yield [grown(t, 1) if d else t for t, d in zip(self.inputs, self.dynamic[0])]
