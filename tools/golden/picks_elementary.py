"""Hand-picked cases of activations and elementary functions.
SPDX-License-Identifier: MIT"""
import torch

from picks import FLOATS, INF, SIGNED_ZERO, maybe, pick, r, special, stepped, t, turned, values

SHAPES = ((), (0, 3), (1, ), (3, 4), (2, 1, 5))


def elementary():
    activations()
    gates()


def forms(name, *numbers, lo=None, hi=None, grad=True):
    """Shapes, strides, dtypes; special values forward only: torch's gradients there hang on its vector loops."""
    for shape in SHAPES:
        pick(name, r(*shape, lo=lo, hi=hi), *numbers, variant="shape", grad=grad)
    x = r(3, 4, lo=lo, hi=hi)
    pick(name, turned(x), *numbers, variant="turned", grad=grad)
    pick(name, stepped(x), *numbers, variant="stepped", grad=grad)
    for dtype in FLOATS:
        pick(name, r(2, 9, dtype=dtype, lo=lo, hi=hi), *numbers, variant="dtype", grad=grad)
        pick(name, special(dtype), *numbers, variant="special", grad=False)


def activations():
    plain = "hardswish hardsigmoid relu6 mish selu logsigmoid softsign tanhshrink quick_gelu"
    for name in plain.split() + ["mish_", "hardswish_", "hardsigmoid_", "relu6_", "selu_"]:
        forms(name)
        pick(name, t(-7.0, -3.0, -2.9, -0.5, 0.5, 2.9, 3.0, 6.5, 20.0, 90.0, -90.0), variant="edge")
    for alpha in (1.0, 0.5, -2.0, 3.7):
        forms("celu", alpha)
    forms("celu_", 1.5)
    forms("hardtanh_", -0.5, 0.7)
    for lambd in (0.5, 0.0, 1.25):
        forms("softshrink", lambd)
        forms("hardshrink", lambd)
        for name in ("softshrink", "hardshrink"):
            pick(name, t(-lambd, lambd, 0.0, 1.5, -1.5), lambd, variant="edge")
    for name in ("threshold", "threshold_"):
        for limit, value in ((0.0, 0.0), (0.5, 7.0), (-1.0, -4.0)):
            forms(name, limit, value)
        for dtype in (torch.int32, torch.uint8):
            maybe(name, values(3, 4, dtype=dtype), 1.0, 3.0, variant="whole")


def gates():
    for dtype in FLOATS:
        pick("glu", r(3, 4, dtype=dtype), variant="dtype")
        pick("prelu", r(2, 3, 4, dtype=dtype), r(3, dtype=dtype), variant="dtype")
        pick("prelu", special(dtype), t(0.25, dtype=dtype), variant="special", grad=False)
    for shape, dim in (((4, 2), 0), ((3, 0), 1), ((2, 6, 3), 1), ((8, ), -1)):
        pick("glu", r(*shape), dim, variant="dim")
    pick("glu", turned(r(3, 4)), variant="turned")
    for shape, count in (((3, 4), 4), ((3, 4), 1), ((5, ), 1), ((), 1), ((0, 3), 3), ((2, 3, 2, 2), 3)):
        pick("prelu", r(*shape), r(count), variant="shape")
    pick("prelu", stepped(r(3, 4)), stepped(r(4)), variant="stepped")
    pick("prelu", t(0.0, -0.0, INF, 2.0, -1.0), t(0.25), variant="edge", flags=SIGNED_ZERO)
