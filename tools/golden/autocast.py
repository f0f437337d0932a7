#!/usr/bin/env python3
"""Asks torch for the dtype of each op's result, outside of autocast and in it: what situ's must be.
SPDX-License-Identifier: MIT

  /usr/bin/python3 tools/golden/autocast.py      writes tests/golden/data/autocast.txt

Outside and on the CPU torch runs the op (autocast to bf16). What it does on other devices cannot be run here: it is taken
from the lists that torch's own tests of CUDA autocast are made of. "-": torch refuses the call."""
import os
import sys
import types
import unittest
import warnings

_stub = types.ModuleType("expecttest")  # the lists' module asks for it and needs nothing of it
_stub.TestCase, _stub.ACCEPT = unittest.TestCase, False
sys.modules.setdefault("expecttest", _stub)
sys.dont_write_bytecode = True

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.testing._internal.autocast_test_lists import AutocastTestLists  # noqa: E402

warnings.simplefilter("ignore")

# name: operands, call, what it is made of where torch's lists have that instead. f: [2, 2], v: [2], n: [1, 2, 2, 2],
# w: a 1x1 kernel, l: [1, 2, 2], k: a kernel of 1, x: a 1x1x1 kernel, a: [1, 2, 3], g: [1, 2, 2, 2], grid for n, u: [1];
# not floating: i: indices [2], j: indices [2, 2], z: indices [1, 2, 2], b: bool [2, 2]
OPS = {
    "neg": ("f", torch.neg), "abs": ("f", torch.abs), "exp": ("f", torch.exp), "expm1": ("f", torch.expm1),
    "log": ("f", torch.log), "log1p": ("f", torch.log1p), "log2": ("f", torch.log2), "sqrt": ("f", torch.sqrt),
    **{n: ("f", getattr(torch, n)) for n in "log10 tan asin acos atan sinh cosh erfinv erfc lgamma digamma".split()},
    "mish": ("f", F.mish), "hardswish": ("f", F.hardswish),
    "rsqrt": ("f", torch.rsqrt), "square": ("f", torch.square, "pow"), "reciprocal": ("f", torch.reciprocal),
    "sin": ("f", torch.sin), "cos": ("f", torch.cos), "erf": ("f", torch.erf), "tanh": ("f", torch.tanh),
    "sigmoid": ("f", torch.sigmoid), "relu": ("f", F.relu), "leaky_relu": ("f", F.leaky_relu), "elu": ("f", F.elu),
    "gelu": ("f", F.gelu), "silu": ("f", F.silu), "softplus": ("f", F.softplus), "hardtanh": ("f", F.hardtanh),
    "clamp": ("f", lambda x: torch.clamp(x, 0, 1)), "floor": ("f", torch.floor), "round": ("f", torch.round),
    "isnan": ("f", torch.isnan), "add_scalar": ("f", lambda x: x + 1.5), "mul_scalar": ("f", lambda x: x * 1.5),
    "div_scalar": ("f", lambda x: x / 1.5), "pow_scalar": ("f", lambda x: torch.pow(x, 1.5), "pow"),
    "scalar_pow": ("f", lambda x: torch.pow(1.5, x), "pow"), "nan_to_num": ("f", torch.nan_to_num),
    "sum": ("f", torch.sum), "mean": ("f", torch.mean), "prod": ("f", torch.prod), "var": ("f", torch.var),
    "std": ("f", torch.std), "amax": ("f", torch.amax), "norm": ("f", torch.norm),
    "logsumexp": ("f", lambda x: torch.logsumexp(x, 1)), "cumsum": ("f", lambda x: torch.cumsum(x, 0)),
    "cumprod": ("f", lambda x: torch.cumprod(x, 0)),
    "softmax": ("f", lambda x: torch.softmax(x, 1)), "log_softmax": ("f", lambda x: torch.log_softmax(x, 1)),
    "sort": ("f", lambda x: torch.sort(x)[0]), "any": ("f", torch.any), "pad": ("f", lambda x: F.pad(x, (1, 1))),
    "dropout": ("f", lambda x: F.dropout(x, 0.5)), "clone": ("f", torch.clone), "transpose": ("f", torch.t),
    "max_pool2d": ("n", lambda x: F.max_pool2d(x, 2)), "avg_pool2d": ("n", lambda x: F.avg_pool2d(x, 2)),
    "max_pool3d": ("n", lambda x: F.max_pool3d(x, 2)), "avg_pool3d": ("n", lambda x: F.avg_pool3d(x, 2)),
    "max_pool3d_with_indices": ("n", lambda x: F.max_pool3d(x, 2, return_indices=True)[0]),
    "adaptive_avg_pool3d": ("n", lambda x: F.adaptive_avg_pool3d(x, 1)),
    "adaptive_max_pool3d": ("n", lambda x: F.adaptive_max_pool3d(x, 1)),
    "adaptive_max_pool2d": ("n", lambda x: F.adaptive_max_pool2d(x, 1)),
    "lp_pool2d": ("n", lambda x: F.lp_pool2d(x, 2.0, 2), "pow"), "lp_pool3d": ("n", lambda x: F.lp_pool3d(x, 2.0, 2), "pow"),
    "max_unpool1d": ("lz", lambda x, i: F.max_unpool1d(x, i, 2)),
    "local_response_norm": ("n", lambda x: F.local_response_norm(x, 2), "pow"),
    "local_response_norm_lines": ("l", lambda x: F.local_response_norm(x, 2), "pow"),
    "grid_sample": ("ng", F.grid_sample, "grid_sampler"),
    "affine_grid": ("a", lambda x: F.affine_grid(x, [1, 1, 2, 2]), "bmm"),
    "interpolate": ("n", lambda x: F.interpolate(x, 3), "upsample_nearest2d"),
    "add": ("ff", torch.add), "sub": ("ff", torch.sub), "mul": ("ff", torch.mul), "div": ("ff", torch.div),
    "atan2": ("ff", torch.atan2), "hypot": ("ff", torch.hypot), "logaddexp": ("ff", torch.logaddexp),
    "pow": ("ff", torch.pow), "maximum": ("ff", torch.maximum), "eq": ("ff", torch.eq), "lt": ("ff", torch.lt),
    "fmod": ("ff", torch.fmod), "where": ("bff", torch.where), "addcmul": ("fff", torch.addcmul),
    "addcdiv": ("fff", torch.addcdiv), "lerp": ("fff", torch.lerp),
    "matmul": ("ff", torch.matmul), "matmul_vectors": ("vv", torch.matmul, "matmul"), "mm": ("ff", torch.mm),
    "bmm": ("ll", torch.bmm), "mv": ("fv", torch.mv), "dot": ("vv", torch.dot), "outer": ("vv", torch.outer),
    "addmm": ("fff", torch.addmm), "baddbmm": ("lll", torch.baddbmm), "linear": ("ffv", F.linear),
    "conv1d": ("lkv", F.conv1d), "conv2d": ("nwv", F.conv2d), "conv_transpose1d": ("lkv", F.conv_transpose1d),
    "conv_transpose2d": ("nwv", F.conv_transpose2d), "conv3d": ("nxu", F.conv3d),
    "conv_transpose3d": ("nxu", F.conv_transpose3d),
    "attention": ("nnn", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), "matmul"),
    "layer_norm": ("fvv", lambda x, w, b: F.layer_norm(x, (2, ), w, b)),
    "group_norm": ("nvv", lambda x, w, b: F.group_norm(x, 1, w, b)),
    "batch_norm": ("nvvvv", lambda x, m, s, w, b: F.batch_norm(x, m, s, w, b)),
    "mse_loss": ("ff", F.mse_loss), "l1_loss": ("ff", F.l1_loss), "smooth_l1_loss": ("ff", F.smooth_l1_loss),
    "kl_div": ("ff", F.kl_div), "binary_cross_entropy_with_logits": ("ff", F.binary_cross_entropy_with_logits),
    "cross_entropy": ("fi", F.cross_entropy, "nll_loss"), "nll_loss": ("fi", F.nll_loss),
    "cross_entropy_weight": ("fiv", F.cross_entropy, "nll_loss"),
    "cross_entropy_probabilities": ("ff", F.cross_entropy, "log_softmax"),
    "cat": ("ff", lambda *t: torch.cat(t)), "stack": ("ff", lambda *t: torch.stack(t)),
    "scatter_add": ("fjf", lambda x, i, y: torch.scatter_add(x, 0, i, y)),
    "index_select": ("fi", lambda x, i: torch.index_select(x, 0, i)),
    "embedding": ("if", F.embedding),
}
SHAPES = {"f": (2, 2), "v": (2, ), "n": (1, 2, 2, 2), "w": (2, 2, 1, 1), "l": (1, 2, 2), "k": (2, 2, 1),
          "x": (1, 1, 1, 1, 1), "a": (1, 2, 3), "g": (1, 2, 2, 2), "u": (1, )}
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.bool: "bool", torch.int64: "i64"}
LOW = torch.bfloat16


def operand(kind, dtype):
    if kind == "i":
        return torch.zeros(2, dtype=torch.int64)
    if kind == "j":
        return torch.zeros(2, 2, dtype=torch.int64)
    if kind == "z":
        return torch.tensor([[[0, 2], [0, 2]]])
    if kind == "b":
        return torch.ones(2, 2, dtype=torch.bool)
    return (torch.rand(SHAPES[kind]) * 0.5 + 0.25).to(dtype)


def result(call, operands):
    try:
        return NAMES[call(*operands).dtype]
    except RuntimeError:
        return "-"


def lists():
    """The class of each op that torch's CUDA autocast names."""
    torchs, kinds = AutocastTestLists("meta"), {}  # only the names are wanted
    for kind, members in (("low", torchs.torch_fp16 + torchs.nn_fp16), ("f32", torchs.torch_fp32 + torchs.nn_fp32),
                          ("widest", torchs.torch_need_autocast_promote)):
        kinds.update((member[0], kind) for member in members)
    return kinds


def elsewhere(kind, dtypes, outside):
    if kind == "low":
        return NAMES[LOW]
    if kind == "f32":
        return "f32"
    return NAMES[torch.float32 if torch.float32 in dtypes else LOW] if kind == "widest" else outside


def main():
    kinds = lists()
    lines = ["# op, operands, dtypes of the floating ones: result outside of autocast, in it on cpu, in it elsewhere; -: refused",
             "# Made by tools/golden/autocast.py, with torch %s; autocast to bf16." % torch.__version__]
    for name, (letters, call, *made_of) in OPS.items():
        floating = sum(letter not in "ijbz" for letter in letters)
        for case in ("f32", "bf16", "mixed") if floating > 1 else ("f32", "bf16"):
            dtypes = [torch.float32 if case == "f32" else LOW] + [LOW if case == "bf16" else torch.float32] * (floating - 1)
            left = list(dtypes)
            operands = [operand(letter, None if letter in "ijbz" else left.pop(0)) for letter in letters]
            outside = result(call, operands)
            with torch.autocast("cpu", dtype=LOW):
                on_cpu = result(call, operands)
            kind = kinds.get(made_of[0] if made_of else name)
            lines.append("%s %s %s: %s %s %s" % (name, letters, case, outside, on_cpu, elsewhere(kind, dtypes, outside)))
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "data", "autocast.txt")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    print("%d rows" % (len(lines) - 2))


if __name__ == "__main__":
    main()
