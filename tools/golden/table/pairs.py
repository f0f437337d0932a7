"""Elementary functions of two tensors. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch

from table import HALVES, Skip, has_nan, row
from table.elementary import tensors

INTEGER = "bitwise_left_shift bitwise_right_shift gcd lcm".split()
REAL = "atan2 hypot copysign xlogy logaddexp logaddexp2".split()
IN_PLACE = INTEGER + "atan2 hypot copysign nextafter xlogy".split()


def fit(b):
    tensors(b)
    if not isinstance(b["input"], torch.Tensor):
        raise Skip("a number as input")
    if b["input"].dtype == b["other"].dtype == torch.bool:
        raise Skip("bool")


def fit_next(b):
    fit(b)
    if torch.result_type(b["input"], b["other"]) in HALVES:
        raise Skip("16 bits")


for _n in INTEGER + REAL:
    row(_n, "pairs", lambda input, other, _f=getattr(torch, _n): _f(input, other), fit=fit, no_grad=has_nan)
row("special_xlog1py", "pairs", lambda input, other: torch.special.xlog1py(input, other), fit=fit,
    opinfo=("special.xlog1py", ))
row("nextafter", "pairs", lambda input, other: torch.nextafter(input, other), fit=fit_next, no_grad=lambda _: True)
for _n in IN_PLACE:
    row(_n + "_", "pairs", lambda input, other, _f=_n + "_": getattr(input, _f)(other), opinfo=(), inplace=True,
        no_grad=lambda _, _n=_n: _n == "nextafter")
row("signbit", "pairs", lambda input: torch.signbit(input))
