"""Hand-picked cases of activations and elementary functions.
SPDX-License-Identifier: MIT"""
import torch

from picks import FLOATS, INF, NAN, SIGNED_ZERO, maybe, pick, r, special, stepped, t, turned, values
from table.elementary import IN_PLACE, PLAIN

SHAPES = ((), (0, 3), (1, ), (3, 4), (2, 1, 5))


def elementary():
    activations()
    gates()
    functions()
    composed()


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


def functions():
    inside = {"asin": (-0.99, 0.99), "acos": (-0.99, 0.99), "atanh": (-0.99, 0.99), "erfinv": (-0.99, 0.99),
              "acosh": (1.01, 9), "log10": (0.1, 9), "lgamma": (0.1, 9), "digamma": (0.1, 9), "logit": (0.01, 0.99)}
    for name in PLAIN + [n + "_" for n in IN_PLACE]:
        low, high = inside.get(name.rstrip("_"), (-3, 3))
        forms(name, lo=low, hi=high, grad=True)
    for name, at in (("lgamma", t(-0.5, -2.25, -20.5, 1.0, 2.0, 1.461632, 3e-20, 50.0, 1e10)),
                     ("digamma", t(-0.5, -2.25, -20.5, 1.0, 2.0, 3e-10, 50.0, 1e10)),
                     ("erfinv", t(-0.85, 0.86, 0.999, -0.99, 1e-20, 0.25)), ("i0", t(-30.0, 24.0, 26.0, 80.0, 1e-9)),
                     ("erfc", t(9.0, 10.0, -9.0, 0.47, 3.0)), ("sinc", t(1e-20, 0.25, -0.5, 33.3, 1e-3)),
                     ("tan", t(1.5, -1.57, 100.0)), ("exp2", t(-149.0, -126.5, 127.9, 3.0, 0.1))):
        pick(name, at, variant="edge")
        pick(name, at.double(), variant="edge")
    forms("special_entr", lo=0.01, hi=9)
    pick("special_entr", t(0.0, -0.0, 1.0, 0.36787944, 1e-30, 1e-42, 1e30, -1.0), variant="edge", grad=False)
    for n in (0, 1, 2, 3, 6):
        for at in (t(0.1, 0.5, 1.0, 2.0, 9.9, 10.0, 40.0, 1000.0), t(0.2, 0.7, 3.0)[:, None]):
            pick("polygamma", at, n, variant="positive")
            pick("polygamma", at.double(), n, variant="positive")
    pick("polygamma", t(-0.5, -1.25, -7.75), 1, variant="negative")
    pick("polygamma", t(2, 5, dtype=torch.int32), 1, variant="whole")
    for eps in (0.1, 0.5, 1e-6):
        forms("logit", eps, lo=0.01, hi=0.99, grad=True)
    for dtype in FLOATS[:2]:
        pick("logit", t(0.0, 1.0, 0.25, 0.5, 1.5, -0.5, dtype=dtype), variant="edge", grad=False)


def composed():
    odd = t(NAN, INF, -INF, 0.0, -0.0, 1.0, NAN, 2.0, INF), t(1.0, INF, 3.0, -0.0, 0.0, 1.0, NAN, NAN, NAN)
    for name in ("frac", "deg2rad", "rad2deg", "isfinite", "isposinf", "isneginf"):
        forms(name)
    for decimals in (0, 1, 3, -1):
        for dtype in FLOATS:
            pick("round_decimals", r(3, 4, dtype=dtype, lo=-50, hi=50), decimals=decimals, variant="dtype")
    for name in ("fmax", "fmin"):
        pick(name, *odd, variant="special", grad=False)
        pick(name, t(1.0, 2.0, 3.0, NAN, 4.0), t(1.0, 3.0, 2.0, 1.0, NAN), variant="edge")
        pick(name, r(3, 1), r(4), variant="broadcast")
        pick(name, turned(r(3, 4)), stepped(r(3, 4)), variant="strided")
        for dtype in FLOATS + (torch.int32, torch.bool):
            pick(name, values(3, 4, dtype=dtype), values(4, dtype=dtype), variant="dtype")
    for dtype in FLOATS + (torch.int32, torch.uint8):
        x, low, high = (values(3, 4, dtype=dtype) for _ in range(3))
        for bounds in ({"min": low, "max": high}, {"min": low}, {"max": high[0]}):
            pick("clamp_tensor", x, variant="dtype", **bounds)
    pick("clamp_tensor", t(0.0, 1.0, 2.0, 3.0, 1.0), t(1.0, 1.0, 1.0, 1.0, 3.0), t(2.0, 2.0, 2.0, 2.0, 2.0), variant="edge")
    pick("clamp_tensor", t(NAN, 1.0, INF), t(1.0, NAN, 1.0), t(2.0, 2.0, INF), variant="special", grad=False)
    for dtype in FLOATS + (torch.int64, torch.bool):
        pick("heaviside", values(3, 4, dtype=dtype), values(4, dtype=dtype), variant="dtype", grad=False)
    pick("heaviside", special(), t(0.5), variant="special", grad=False)
    pick("ldexp", r(3, 4), torch.tensor([3, -2, 0, 7]), variant="whole")
    pick("float_power", torch.tensor([3, -2, 0, 7]), r(4), variant="whole")
