"""Hand-picked cases of element-wise ops.
SPDX-License-Identifier: MIT"""
import torch

from picks import (ALL, FLOATS, INF, INTS, NAN, SIGNED_ZERO, ints, maybe, pick, r, special, stepped, t,
                   turned, values)
from table import UNARY, UNARY_IN_PLACE

POSITIVE = ("log", "log2", "sqrt", "rsqrt")
COMPARE = "eq ne lt le gt ge".split()
LOGICAL = "logical_and logical_or logical_xor".split()
BITS = "bitwise_and bitwise_or bitwise_xor".split()
ARITHMETIC = "add sub mul div pow fmod remainder maximum minimum".split()


def one(name, x, **kwargs):
    """One unary op over the forms that a tensor comes in."""
    x = x.abs() + 0.1 if name in POSITIVE or name == "log1p" else x
    for form, y in (("plain", x), ("turned", turned(x)), ("stepped", stepped(x)), ("flipped", x.t()),
                    ("expanded", x[:1].expand(3, x.shape[1])), ("offset", x[1:, 1:]), ("scalar", x[0, 0]),
                    ("empty", x[:0]), ("batch", x.reshape(1, 2, 1, -1))):
        pick(name, y, variant=form, **kwargs)


def edges(name, dtype=torch.float32):
    """special() without what torch's vector library gets wrong: its f32 log1p of 3e38 is inf, where 88.6 is right."""
    x = special(dtype)
    return x[x != t(3e38, dtype=torch.float64).to(dtype)] if name == "log1p" else x


def unary():
    for name in UNARY + ["round", "leaky_relu", "elu", "gelu", "softplus", "hardtanh", "nan_to_num"]:
        if name == "bitwise_not":
            continue
        one(name, r(4, 5) * 2)
        # torch's elu and gelu give 0 for -0 in some of its builds and -0 in others
        signed = 0 if name in ("isnan", "isinf", "logical_not", "elu", "gelu") else SIGNED_ZERO
        pick(name, edges(name), variant="special", flags=signed)
        for dtype in FLOATS[1:]:
            pick(name, edges(name, dtype), variant="special")
            x = r(3, 4, dtype=dtype) * 2
            pick(name, x.abs() + 0.5 if name in POSITIVE + ("log1p", ) else x, variant="dtype")
        for dtype in INTS + (torch.bool, ):
            maybe(name, values(3, 4, dtype=dtype), variant="dtype")
    for dtype in INTS + (torch.bool, ):
        pick("bitwise_not", values(3, 4, dtype=dtype), variant="dtype")
    pick("bitwise_not", turned(ints(3, 4)), variant="turned")
    for name in ("abs", "neg", "sign"):
        pick(name, t(-128, 127, 0, -1, dtype=torch.int8), variant="edge")
    for dtype in FLOATS:
        pick("round", t(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 2.5000002, dtype=dtype), variant="half")
    for slope in (0.0, 0.2, -0.5):
        pick("leaky_relu", special(), slope, variant="slope")
        pick("leaky_relu", r(3, 4), slope, variant="slope")
    for alpha in (0.5, 2.0):
        pick("elu", special(), alpha, variant="alpha")
        pick("elu", r(3, 4), alpha, variant="alpha")
    for approximate in ("none", "tanh"):
        pick("gelu", special(), approximate=approximate, variant="special")
        for dtype in FLOATS:
            pick("gelu", r(3, 4, dtype=dtype) * 3, approximate=approximate, variant="dtype")
    for beta, threshold in ((2.0, 20.0), (0.5, 1.0), (1.0, 2.0), (-1.0, 20.0)):
        pick("softplus", special(), beta, threshold, variant="options")
        pick("softplus", r(3, 4) * 5, beta, threshold, variant="options")
    for low, high in ((-1.0, 1.0), (-2.0, 0.5), (0.0, 6.0)):
        pick("hardtanh", r(4, 4) * 3, low, high, variant="bounds")
        pick("hardtanh", t(low, high, INF, -INF), low, high, variant="edge")
    clamps()
    for kwargs in ({"nan": 1.5}, {"posinf": 7.0}, {"neginf": -7.0},
                   {"nan": -1.0, "posinf": 2.0, "neginf": 3.0}):
        pick("nan_to_num", special(), variant="options", **kwargs)
        pick("nan_to_num", special(torch.float64), variant="options", **kwargs)
    for name in UNARY_IN_PLACE:
        one(name + "_", r(4, 5) * 2) if name not in POSITIVE else one(name + "_", r(4, 5).abs() + 0.1)
        pick(name + "_", turned(r(4, 5).abs() + 0.1), grad=False, variant="nograd")
        pick(name + "_", stepped(r(4, 5, dtype=torch.float64).abs() + 0.1), grad=False, variant="nograd")
        pick(name + "_", special(), grad=False, variant="special")


def clamps():
    for name in ("clamp", "clamp_"):
        for low, high in ((-0.5, 0.5), (None, 0.25), (0.25, None), (0.5, -0.5), (0.0, INF)):
            pick(name, r(3, 4), low, high, variant="bounds")
            pick(name, special(), low, high, variant="special")
            pick(name, turned(r(3, 4)), low, high, variant="turned")
            pick(name, r(3, 4, dtype=torch.float64), low, high, variant="dtype")
        pick(name, t(-0.5, 0.5, 0.0), -0.5, 0.5, variant="edge")
        for dtype in INTS:
            pick(name, values(3, 4, dtype=dtype), -2 if dtype != torch.uint8 else 1, 3, variant="dtype")
        for dtype in FLOATS[2:]:
            pick(name, r(3, 4, dtype=dtype), -0.5, 0.5, variant="dtype")
        pick(name, r(0, 3), -1.0, 1.0, variant="empty")
    pick("clamp", ints(3, 4), 0.5, 2.5, variant="float bounds")


def pairs(positive=False):
    """Pairs of operands in the forms that broadcasting and strides allow."""
    def v(*shape):
        return r(*shape).abs() + 0.3 if positive else r(*shape)

    return (("same", v(3, 4), v(3, 4)), ("row", v(3, 4), v(4)), ("column", v(3, 4), v(3, 1)),
            ("outer", v(3, 1), v(1, 4)), ("left", v(4), v(3,
                                                          4)), ("scalars", v(), v()), ("scalar", v(3,
                                                                                                   4), v()),
            ("left scalar", v(), v(3, 4)), ("deep", v(2, 1, 3,
                                                      1), v(4, 1, 2)), ("turned", turned(v(3, 4)), v(3, 4)),
            ("both turned", turned(v(3, 4)), turned(v(3, 4))), ("stepped", stepped(v(3, 4)),
                                                                v(3, 4)), ("expanded", v(1, 4).expand(3, 4),
                                                                           v(3, 4)), ("empty", v(0, 3), v(3)),
            ("empty broadcast", v(1, 3), v(0, 1)), ("one", v(1), v(1,
                                                                   1)), ("eight", v(2, 1, 2, 1, 2, 1, 2,
                                                                                    1), v(2, 1, 2)))


def grid(left, right, dtype):
    """Every left value with every right one."""
    a, b = torch.tensor(left, dtype=dtype), torch.tensor(right, dtype=dtype)
    return a.repeat_interleave(len(b)), b.repeat(len(a))


def binary():
    for name in ARITHMETIC + COMPARE + LOGICAL:
        for form, a, b in pairs(positive=name == "pow"):
            pick(name, a, b, variant=form)
        for dtype in FLOATS[:2]:
            edge = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -3.0]
            pick(name, *grid(edge, edge, dtype), variant="special", grad=name
                 not in ("pow", "fmod", "remainder"))
        for dtype in FLOATS[2:]:
            pick(name, *(x.abs() + 0.5 for x in (r(3, 4, dtype=dtype), r(4, dtype=dtype))), variant="dtype")
        for dtype in INTS:
            a, b = values(3, 4, dtype=dtype), values(3, 4, dtype=dtype)
            if name in ("div", "fmod", "remainder"):
                b[b == 0] = 3
            pick(name, a.abs() if name == "pow" else a, b.abs() if name == "pow" else b, variant="dtype")
        if name in ("add", "mul", "maximum", "minimum", "div") + tuple(COMPARE + LOGICAL):
            pick(name, values(3, 4, dtype=torch.bool), values(4, dtype=torch.bool), variant="dtype")
    for name in BITS:
        for dtype in INTS + (torch.bool, ):
            pick(name, values(3, 4, dtype=dtype), values(4, dtype=dtype), variant="dtype")
        pick(name, turned(ints(3, 4)), ints(3, 1), variant="turned")
        pick(name, ints(0, 4), ints(4), variant="empty")
        pick(name, ints(), ints(2, 2), variant="scalar")
    ties()
    promotion()
    scalars()
    rounding()
    ternary()
    in_place()


def ties():
    x = t(1.0, 2.0, 3.0, NAN, 1.0)
    y = t(1.0, 3.0, 2.0, 1.0, NAN)
    for name in ("maximum", "minimum"):
        pick(name, x, y, variant="ties")


def promotion():
    """Every pair of dtypes, also with 0-dim operands, which count for less."""
    for name in ("add", "div", "eq", "maximum", "pow", "logical_xor"):
        for a in ALL:
            for b in ALL:
                x, y = torch.tensor([1, 2, 3]).to(a), torch.tensor([1, 1, 2]).to(b)
                if name == "pow" and torch.bool in (a, b) and a == b:
                    continue
                pick(name, x, y, variant="promote", grad=False)
                if name in ("add", "pow"):
                    pick(name, x, y[1], variant="promote 0-dim", grad=False)
                    pick(name, x[1], y, variant="promote 0-dim", grad=False)
    for a, b in ((torch.float16, torch.float32), (torch.float32, torch.float64),
                 (torch.bfloat16, torch.float16), (torch.int64, torch.float32), (torch.float32, torch.int8)):
        for name in ("add", "mul", "div"):
            pick(name, values(3, 2, dtype=a), values(2, dtype=b).abs() + 1, variant="promote grad")
    for a in (torch.float32, torch.float64, torch.int64, torch.float16):
        for b in (torch.float32, torch.float64, torch.int32):
            pick("where", values(2, 3, dtype=a),
                 torch.rand(2, 3) > 0.5, values(3, dtype=b), variant="promote", grad=False)


def scalars():
    for name in "add sub rsub mul div fmod remainder".split() + COMPARE:
        for value in (2, -3, 0.5, -1.25) + ((0, INF, NAN) if name not in ("fmod", "remainder", "div") else
                                            (INF, )):
            pick(name, r(2, 3), value, variant="scalar")
        pick(name, turned(r(3, 4)), 2, variant="scalar turned")
        pick(name, r(0, 4), 2, variant="scalar empty")
        pick(name, special(), 2.5, variant="scalar special")
        for dtype in ALL[1:]:
            if name in ("sub", "rsub", "fmod", "remainder") and dtype == torch.bool:
                continue
            pick(name, values(2, 3, dtype=dtype), 2, variant="scalar dtype")
            pick(name, values(2, 3, dtype=dtype), 1.5, variant="scalar dtype")
    for value in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 2.75):
        pick("pow", r(2, 3).abs() + 0.2, value, variant="scalar")
        pick("pow", r(2, 3, dtype=torch.float64).abs() + 0.2, value, variant="scalar")
        pick("pow", t(0.0, -0.0, 1.0, -1.0, -2.0, INF, -INF, NAN), value, variant="scalar special",
             grad=False)
        if value >= 0 and value == int(value):
            pick("pow", ints(2, 3), value, variant="scalar dtype")
    pick("pow", t(0.0, 1.0, 2.0), 2, variant="scalar zero base")
    pick("pow", t(0.0, 1.0, 2.0), 0, variant="scalar zero exponent")
    for base in (2, 0.5, 3.5, 1, 0):
        pick("pow", base, r(2, 3).abs() + 0.1, variant="base")
        pick("pow", base, r(2, 3, dtype=torch.float64).abs() + 0.1, variant="base")
    pick("pow", 2, ints(2, 3, lo=0), variant="base")
    pick("pow", t(0.0, 0.0, 2.0), t(0.0, 2.0, 3.0), variant="zero base")
    for value in (-1.25, 2.5, 3, -2):
        pick("remainder", t(5.0, -5.0, 5.5, -5.5, 0.0, -0.0, INF, NAN), value, variant="sign", grad=False)
        pick("fmod", t(5.0, -5.0, 5.5, -5.5, 0.0, -0.0, INF, NAN), value, variant="sign", grad=False)
    for value in (3, -3):
        for dtype in INTS[:4]:
            pick("remainder", torch.arange(-6, 7).to(dtype), value, variant="sign")
            pick("fmod", torch.arange(-6, 7).to(dtype), value, variant="sign")


def rounding():
    x, y = t(5.0, -5.0, 5.5, -5.5, 0.0, 1.0, -1.0, 7.0), t(2.0, 2.0, -2.0, -2.0, 3.0, 0.0, 0.0, INF)
    for mode in ("trunc", "floor"):
        pick("div", x, y, rounding_mode=mode, variant="edge", grad=False)
        pick("div", r(3, 4) * 5, r(4).abs() + 0.5, rounding_mode=mode, variant="broadcast")
        for dtype in INTS:
            a, b = values(3, 4, dtype=dtype), values(4, dtype=dtype)
            b[b == 0] = 2
            pick("div", a, b, rounding_mode=mode, variant="dtype")
        pick("div",
             r(3, dtype=torch.float64) * 9, r(3, dtype=torch.float64), rounding_mode=mode, variant="dtype")
    pick("floor_divide", x, y, variant="edge", grad=False)
    for dtype in INTS + FLOATS[:2]:
        a, b = values(3, 4, dtype=dtype), values(4, dtype=dtype)
        b[b == 0] = 2
        pick("floor_divide", a, b, variant="dtype", grad=False)
    for alpha in (2, -0.5, 0):
        for name in ("add", "sub"):
            pick(name, r(3, 4), r(4), alpha=alpha, variant="alpha")
            pick(name, turned(r(3, 4)), r(3, 1), alpha=alpha, variant="alpha")
            if alpha == int(alpha):
                pick(name, ints(3, 4), ints(4), alpha=int(alpha), variant="alpha")


def ternary():
    c = torch.rand(3, 4) > 0.5
    for form, a, b in pairs()[:13]:
        pick("where", a, torch.rand(torch.broadcast_shapes(a.shape, b.shape)) > 0.5, b, variant=form)
    pick("where", r(), c, r(), variant="scalars")
    pick("where", r(4), torch.tensor(True), r(3, 1), variant="scalar condition")
    pick("where", special()[:24].reshape(6, 4), torch.rand(6, 1) > 0.5, r(4), variant="special")
    pick("where", ints(3, 4), turned(c), ints(4), variant="turned")
    for dtype in ALL:
        pick("where", values(3, 4, dtype=dtype), c, values(4, dtype=dtype), variant="dtype")
    for weight in (0.0, 0.3, 0.5, 0.7, 1.0, 1.5, -0.5):
        pick("lerp", r(3, 4), r(4), weight, variant="scalar")
        pick("lerp", r(3, 4), r(3, 4), torch.full((3, 4), weight), variant="tensor")
        pick("lerp_", r(3, 4), r(4), weight, variant="scalar")
    pick("lerp", r(3, 1), r(1, 4), r(2, 1, 1), variant="broadcast")
    pick("lerp", turned(r(3, 4)), stepped(r(3, 4)), r(4), variant="strided")
    pick("lerp", r(0, 4), r(4), 0.5, variant="empty")
    pick("lerp", r(3, dtype=torch.float64), r(3, dtype=torch.float64), 0.25, variant="dtype")
    for name in ("addcmul", "addcdiv"):
        for value in (1, 0.5, -2.0, 0):
            pick(name, r(3, 4), r(3, 4), r(3, 4).abs() + 0.5, value=value, variant="value")
            pick(name + "_", r(3, 4), r(3, 1), r(4).abs() + 0.5, value=value, variant="value")
        pick(name, r(4), r(3, 1), r(2, 1, 4).abs() + 0.5, variant="broadcast")
        pick(name, r(), r(), r(), variant="scalars")
        pick(name, turned(r(3, 4)), stepped(r(3, 4)), turned(r(3, 4)).abs() + 0.5, variant="strided")
        pick(name, r(0, 4), r(4), r(1), variant="empty")
        pick(name, t(NAN, 1.0, INF), t(1.0, INF, 1.0), t(1.0, 0.0, 1.0), variant="special")
        for dtype in FLOATS[1:]:
            pick(name, values(3, dtype=dtype), values(3, dtype=dtype),
                 values(3, dtype=dtype).abs() + 0.5, value=0.5, variant="dtype")
    pick("addcmul", ints(3), ints(3), ints(3), value=2, variant="dtype")


def in_place():
    for name in ("add_", "sub_", "mul_", "div_", "pow_"):
        for form, a, b in pairs(positive=name == "pow_"):
            if torch.broadcast_shapes(a.shape, b.shape) == a.shape:
                pick(name, a, b, variant=form)
        for value in (2, 0.5, 3):
            pick(name, r(3, 4).abs() + 0.5, value, variant="scalar")
        pick(name, turned(r(3, 4)).abs() + 0.5, r(4).abs(), grad=False, variant="nograd turned")
        pick(name, stepped(r(3, 4).abs()), r(3, 1).abs(), grad=False, variant="nograd stepped")
        pick(name, r(3, dtype=torch.float64).abs(), r(3, dtype=torch.float64), variant="dtype")
        pick(name, r(3).abs(), ints(3), grad=False, variant="promote")
        if name != "div_":
            pick(name, ints(3, lo=1), ints(3, lo=1), variant="dtype")
    for name in ("add_", "sub_"):
        pick(name, r(3, 4), r(4), alpha=0.5, variant="alpha")
        pick(name, ints(3, 4), ints(4), alpha=3, variant="alpha")
