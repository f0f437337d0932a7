"""Names of PyTorch's op database whose own family was made from PyTorch 1.13, or for which situ has a function of another
name. The rows are named as in that database, `Tensor.` before those that are taken. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""

import torch
import torch.nn.functional as F

from table import HALVES, LIKE, RANDOM, Skip, as_list, both, has_nan, lists, only, row, integer_scalar
from table.elementary import tensors
from table.nn import EPS
from table.vision import fit_interpolate


def sample(name, call, **rest):
    rest.setdefault("opinfo", (name.split(".")[-1] if name.startswith("Tensor.") else name, ))
    row(name, "samples", call, **rest)


# ---- made -------------------------------------------------------------------------------------------
sample("Tensor.full", lambda size, fill_value, *, dtype=None, device=None: torch.full(size, fill_value, dtype=dtype),
       fit=both(lists(size=1), LIKE))
sample("scalar_tensor", lambda value, *, dtype=None, device=None, requires_grad=None: torch.scalar_tensor(
    value, dtype=dtype), fit=LIKE)


def randint(low, high, size=None, *, dtype=torch.int64, device=None):
    return torch.randint(low, high, size, dtype=dtype)


def fit_randint(b):
    LIKE(b)
    if b.get("size") is None:
        b["low"], b["high"], b["size"] = 0, b["low"], b["high"]
    lists(size=1)(b)


sample("Tensor.randint", randint, fit=fit_randint)
sample("Tensor.bernoulli", lambda input: torch.bernoulli(input), dtypes=False)
sample("Tensor.zero_", lambda input: input.zero_(), inplace=True)


def fit_range(b):
    if any(isinstance(v, torch.Tensor) for k, v in b.items() if k != "input"):
        raise Skip("tensors of parameters")
    b.update({k: float(v) for k, v in b.items() if k != "input"})


sample("uniform_", lambda input, low=0.0, high=1.0: input.clone().uniform_(low, high), fit=fit_range,
       opinfo=("uniform", ), inplace=True, no_grad=lambda _: True)
RANDOM.update(("Tensor.randint", "Tensor.bernoulli", "uniform_"))

# ---- cast --------------------------------------------------------------------------------------------
CASTS = dict(bool=torch.bool, byte=torch.uint8, char=torch.int8, short=torch.int16, int=torch.int32, long=torch.int64,
             half=torch.float16, bfloat16=torch.bfloat16, float=torch.float32, double=torch.float64)


def fit_cast(b):
    if b.pop("memory_format", torch.preserve_format) == torch.channels_last:
        raise Skip("channels_last")
    if "dtype" not in b:
        raise Skip("a device")


def fits(dtype):
    """What a float beyond the range of an integer dtype becomes is undefined."""
    def fit(b):
        fit_cast(b)
        if not dtype.is_floating_point and dtype != torch.bool and b["input"].is_floating_point():
            info = torch.iinfo(dtype)
            if not ((b["input"] > info.min) & (b["input"] < info.max)).all():
                raise Skip("beyond the range")

    return fit


for _n, _dtype in CASTS.items():
    sample(_n, lambda input, dtype=_dtype, memory_format=None: input.to(dtype), native=True, through="to_dtype",
           fit=lambda b, _dtype=_dtype: (b.setdefault("dtype", _dtype), fits(_dtype)(b)))


def fit_to(b):
    b.update({"dtype": v for v in b.pop("how", ()) if isinstance(v, torch.dtype)})
    fit_cast(b)


sample("Tensor.to", lambda input, *how, dtype=None, memory_format=None: input.to(dtype), fit=fit_to, native=True, through="to_dtype")

# ---- views -------------------------------------------------------------------------------------------
sample("split_with_sizes", lambda input, split_sizes, dim=0: torch.split_with_sizes(input, split_sizes, dim),
       fit=lists(split_sizes=1), view=True, through="split_sizes")
sample("broadcast_to", lambda input, size: torch.broadcast_to(input, size), fit=lists(size=1), view=True,
       through="expand")
for _n in ("expand", "reshape", "view"):
    sample(_n + "_as", lambda input, other, _f=_n + "_as": getattr(input, _f)(other), fixed=("other", ),
           view=_n != "reshape", through=_n)
sample("ravel", lambda input: torch.ravel(input), through="reshape")
for _n in ("t", "mT"):
    sample(_n, lambda input, _f=_n: input.t() if _f == "t" else input.mT, view=True, through="transpose")


def fit_pad(b):
    lists(pad=1)(b)
    integer_scalar("value")(b)


sample("constant_pad_nd", lambda input, pad, value=0: torch.constant_pad_nd(input, pad, value), fit=fit_pad,
       through="pad")

# ---- numbers -----------------------------------------------------------------------------------------
sample("true_divide", lambda input, other: torch.true_divide(input, other), fit=tensors, through="div")
sample("sgn", lambda input: torch.sgn(input), through="sign")


def fit_bound(b):
    tensors(b)
    if b["input"].dtype == torch.bool:
        raise Skip("bool")


for _n in ("clamp_min", "clamp_max"):
    sample(_n, lambda input, other, _f=getattr(torch, _n): _f(input, other), fit=fit_bound, no_grad=has_nan, through="clamp_tensor")


def fit_close(b):
    tensors(b)
    b["rtol"], b["atol"] = float(b.get("rtol", 1e-5)), float(b.get("atol", 1e-8))


sample("isclose", lambda input, other, rtol=1e-5, atol=1e-8, equal_nan=False: torch.isclose(
    input, other, rtol, atol, equal_nan), fit=fit_close, native=True)
sample("allclose", lambda input, other, rtol=1e-5, atol=1e-8, equal_nan=False: torch.tensor(
    torch.allclose(input, other, rtol, atol, equal_nan)), fit=fit_close, native=True)
sample("item", lambda input: torch.tensor(float(input.item()), dtype=torch.float64), native=True, no_grad=lambda _: True)


# ---- layers ------------------------------------------------------------------------------------------
sample("nn.functional.rms_norm", lambda input, normalized_shape, weight=None, eps=None: F.rms_norm(
    input, normalized_shape, weight, eps), fit=both(EPS, lists(normalized_shape=1)))


def fit_attention(b):
    q, k = b["query"], b["key"]
    if b.pop("dropout_p", 0):
        raise Skip("random")
    if q.dtype in HALVES and q.numel() and (q.float() @ k.float().transpose(-2, -1)).abs().max() > 32:
        raise Skip("16-bit scores so large that their rounding is the result")
    if b.pop("enable_gqa", False) and q.dim() > 3 and q.shape[-3] != k.shape[-3]:
        raise Skip("groups of queries")
    if not b.get("is_causal"):
        b.pop("is_causal", None)


sample(
    "nn.functional.scaled_dot_product_attention",
    lambda query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False: F.
    scaled_dot_product_attention(query, key, value, attn_mask, 0.0, is_causal, scale=scale), fit=fit_attention)


def fit_upsample(b):
    fit_interpolate(b)
    if b["input"].dtype in (torch.uint8, torch.int64):
        raise Skip("whole numbers")


for _n in ("nearest", "bilinear"):

    def upsample(input, size=None, scale_factor=None, *, scale0=None, scale1=None, scale2=None, mode=_n):
        factors = [s for s in (scale0, scale1, scale2) if s is not None]
        return F.interpolate(input, size, factors or None, mode, True if mode == "bilinear" else None)

    sample("nn.functional.upsample_" + _n, upsample, fit=fit_upsample, through="interpolate")
