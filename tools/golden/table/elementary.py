"""Activations and elementary functions beyond those of table.py. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch
import torch.nn.functional as F

from table import Skip, has_nan, row


def tensors(b):
    if not isinstance(b.get("other"), torch.Tensor):
        raise Skip("a number as operand")


# ---- elementary ---------------------------------------------------------------------------------------
PLAIN = "tan asin acos atan sinh cosh asinh acosh atanh exp2 log10 erfc erfinv lgamma digamma i0 sinc".split()
IN_PLACE = "tan asin acos atan sinh cosh exp2 log10".split()  # torch lacks the gradients of asinh_, acosh_, atanh_
for _n in PLAIN:
    row(_n, "elementary", lambda input, _f=getattr(torch, _n): _f(input), no_grad=has_nan)
for _n in IN_PLACE:
    row(_n + "_", "elementary", lambda input, _f=_n + "_": getattr(input, _f)(), opinfo=(), inplace=True)
for _n in "frac deg2rad rad2deg isfinite isposinf isneginf".split():
    row(_n, "elementary", lambda input, _f=getattr(torch, _n): _f(input))
row("round_decimals", "elementary", lambda input, *, decimals: torch.round(input, decimals=decimals), opinfo=("round", ))
for _n in ("fmax", "fmin", "float_power", "ldexp"):
    row(_n, "elementary", lambda input, other, _f=getattr(torch, _n): _f(input, other), fit=tensors)
row("heaviside", "elementary", lambda input, values: torch.heaviside(input, values), no_grad=lambda tensors: True)
row("clamp_tensor", "elementary", lambda input, min=None, max=None: torch.clamp(input, min, max), opinfo=())
row("polygamma", "elementary", lambda input, n: torch.polygamma(n, input))
row("special_entr", "elementary", lambda input: torch.special.entr(input), opinfo=("special.entr", ), no_grad=has_nan)
row("logit", "elementary", lambda input, eps=None: torch.logit(input, eps), no_grad=has_nan)

# ---- activations -------------------------------------------------------------------------------------
for _n in "hardswish hardsigmoid relu6 mish selu logsigmoid softsign tanhshrink".split():
    row(_n, "elementary", lambda input, _f=getattr(F, _n): _f(input), no_grad=has_nan)
row("quick_gelu", "elementary", lambda input: input * torch.sigmoid(1.702 * input), opinfo=())
row("celu", "elementary", lambda input, alpha=1.0: F.celu(input, alpha), no_grad=has_nan)
for _n in ("softshrink", "hardshrink"):
    row(_n, "elementary", lambda input, lambd=0.5, _f=getattr(F, _n): _f(input, lambd), no_grad=has_nan)
row("threshold", "elementary", lambda input, threshold, value: F.threshold(input, threshold, value))
row("glu", "elementary", lambda input, dim=-1: F.glu(input, dim))
row("prelu", "elementary", lambda input, weight: F.prelu(input, weight))
for _n in ("selu", "relu6", "mish", "hardswish", "hardsigmoid"):
    row(_n + "_", "elementary", lambda input, _f=getattr(F, _n): _f(input, inplace=True), opinfo=(), inplace=True)
row("celu_", "elementary", lambda input, alpha=1.0: F.celu(input, alpha, inplace=True), opinfo=(), inplace=True)
row("hardtanh_", "elementary", lambda input, min_val, max_val: F.hardtanh_(input, min_val, max_val), opinfo=(),
    inplace=True)
row("threshold_", "elementary", lambda input, threshold, value: F.threshold_(input, threshold, value), opinfo=(),
    inplace=True)
