#!/usr/bin/env python3
"""Strides of results and gradients of PyTorch 2.15 for operands in several orders of strides: writes
tests/golden/data/strides.txt, which tests/ops/strides.c reads. A line: op, layout, sizes, strides of the result, and
strides of the gradient of the operand ("-": no gradient). Sizes above 1 everywhere, where strides are not ambiguous.
usage: python3 tools/golden/strides.py
SPDX-License-Identifier: MIT"""
import pathlib

import torch
import torch.nn.functional as F

ONE = torch.ones


def layouts():
    torch.manual_seed(0)
    rows = torch.randn(2, 6, 8, 10)
    last = rows.to(memory_format=torch.channels_last)
    yield "rows", rows
    yield "last", last
    yield "turned", torch.randn(10, 8, 6, 2).permute(3, 2, 1, 0)
    yield "part", last[:, :, 1:7, 2:8]
    yield "steps", torch.randn(2, 6, 8, 20)[..., ::2]
    yield "mixed", torch.randn(6, 2, 10, 8).permute(1, 0, 3, 2)


WEIGHT = ONE(4, 6, 3, 3)
LAST_WEIGHT = WEIGHT.to(memory_format=torch.channels_last)
UP = ONE(6, 4, 3, 3)


def rows_like(x):
    return ONE(x.shape)


OPS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "exp": torch.exp,
    "neg": torch.neg,
    "clamp": lambda x: x.clamp(-1, 1),
    "add_scalar": lambda x: x + 2,
    "gt_scalar": lambda x: x > 0,
    "to_f64": lambda x: x.double(),
    "clone": torch.clone,
    "contiguous": lambda x: x.contiguous(),
    "to_last": lambda x: x.to(memory_format=torch.channels_last),
    "contiguous_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "zeros_like": lambda x: torch.zeros_like(x),
    "rand_like": lambda x: torch.rand_like(x),
    "rows_like": lambda x: torch.zeros_like(x, memory_format=torch.contiguous_format),
    "add_self": lambda x: x + x,
    "add_rows": lambda x: x + rows_like(x),
    "rows_add": lambda x: rows_like(x) + x,
    "mul_bias": lambda x: x * ONE(6, 1, 1),
    "bias_mul": lambda x: ONE(6, 1, 1) * x,
    "add_row": lambda x: x + ONE(x.shape[3]),
    "where": lambda x: torch.where(x > 0, x, x * 0.5),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "lerp": lambda x: torch.lerp(x, rows_like(x), 0.25),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "dropout": lambda x: F.dropout(x, 0.5),
    "flip": lambda x: x.flip(1),
    "softmax": lambda x: F.softmax(x, 1),
    "cat": lambda x: torch.cat([x, x], 1),
    "cat_rows": lambda x: torch.cat([x, rows_like(x)], 1),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
    "conv2d": lambda x: F.conv2d(x, WEIGHT),
    "conv2d_1x1": lambda x: F.conv2d(x, ONE(4, 6, 1, 1)),
    "conv2d_depthwise": lambda x: F.conv2d(x, ONE(6, 1, 3, 3), groups=6),
    "conv2d_f64": lambda x: F.conv2d(x.double(), WEIGHT.double()),
    "conv2d_last": lambda x: F.conv2d(x, LAST_WEIGHT),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, UP),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm_eval": lambda x: F.batch_norm(x, torch.zeros(6), ONE(6)),
    "group_norm": lambda x: F.group_norm(x, 3),
    "nearest": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
}


def text(numbers):
    return ",".join(str(n) for n in numbers)


def main():
    path = pathlib.Path(__file__).parents[2] / "tests/golden/data/strides.txt"
    with path.open("w") as out:
        for name, op in OPS.items():
            for layout, x in layouts():
                leaf = x.detach().requires_grad_()
                y = op(leaf)
                grad = "-"
                if y.requires_grad:
                    y.backward(torch.ones_like(y))
                    grad = text(leaf.grad.stride())
                out.write(f"{name} {layout} {text(y.shape)} {text(y.stride())} {grad}\n")


if __name__ == "__main__":
    main()
