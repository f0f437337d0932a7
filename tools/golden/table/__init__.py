"""The ops: situ's name, torch's signature, and what of it situ's C API can say.
SPDX-License-Identifier: MIT

A row's lambda is the signature that samples are bound to, by name, and the call. `fit` rewrites the bound
arguments into situ's words (lists for sizes, correction for unbiased) or raises Skip with the reason."""
import dataclasses
import math
import typing

import torch
import torch.nn.functional as F


class Skip(Exception):
    """The sample says something that situ's C API has no word for."""


@dataclasses.dataclass
class Row:
    name: str
    family: str
    call: typing.Callable
    fit: typing.Callable = None
    opinfo: tuple = None  # names in op_db; None: guess from the name
    outputs: tuple = ("output", )
    view: bool = False  # the output shares the input's storage: its strides are checked too
    inplace: bool = False
    dtypes: typing.Any = True  # also take samples of dtypes other than f32; or of which dtypes
    operand: typing.Callable = None  # what becomes of each tensor of a sample
    fixed: tuple = ()  # inputs that have no gradient
    no_grad: typing.Callable = None  # of the tensors: is torch's gradient wrong or undecided there?
    native: bool = False  # 16-bit cases run in 16 bits: the result depends on the dtype's range
    order: tuple = ()  # op_db's argument order, where it differs
    through: str = ""  # the function of situ, where its name is another


HALVES = (torch.float16, torch.bfloat16)
ROWS = {}


def row(name, family, call, **rest):
    assert name not in ROWS, name
    ROWS[name] = Row(name, family, call, **rest)


def as_list(value, count=1):
    return [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)] * count


def lists(**counts):
    """A fit that turns these arguments into int lists of `count` values."""
    def fit(b):
        for name, count in counts.items():
            if b.get(name) is not None:
                b[name] = as_list(b[name], count)

    return fit


def only(**allowed):
    """A fit that drops arguments which have the one value that situ knows."""
    def fit(b):
        for name, value in allowed.items():
            if name in b and b.pop(name) != value:
                raise Skip(name + " is not offered")

    return fit


def both(*fits):
    def fit(b):
        for f in fits:
            f(b)

    return fit


def integer_scalar(*names):
    """situ's scalars are doubles: 2.0 cannot be told from 2, so only where both give the same dtype."""
    def fit(b):
        for name in names:
            value = b.get(name)
            if isinstance(value, bool):
                raise Skip("bool scalar")
            if isinstance(value, float) and math.isfinite(value) and value == int(value):
                if not any(isinstance(t, torch.Tensor) and t.is_floating_point() for t in b.values()):
                    raise Skip("whole float scalar with an integer tensor")

    return fit


# ---- make --------------------------------------------------------------------------------------------
SHAPES = both(lists(size=1), only(requires_grad=False, device="cpu"))
for _n in ("empty", "zeros", "ones"):
    row(
        _n, "make", lambda size, *, dtype=None, device=None, requires_grad=None, _f=getattr(torch, _n): _f(
            size, dtype=dtype), fit=SHAPES, dtypes=False)
row("full", "make", lambda size, fill_value, *, dtype=None: torch.full(size, fill_value, dtype=dtype),
    fit=lists(size=1), opinfo=())
row("rand", "make", lambda size, *, dtype=None: torch.rand(size, dtype=dtype), fit=SHAPES, opinfo=())
row("randn", "make",
    lambda size, *, dtype=None, device=None, requires_grad=None: torch.randn(size, dtype=dtype), fit=SHAPES,
    dtypes=False)
row("randint", "make", lambda low, high, size, *, dtype=None: torch.randint(low, high, size, dtype=dtype),
    fit=lists(size=1), opinfo=())
row("randperm", "make", lambda n, *, dtype=torch.int64: torch.randperm(n, dtype=dtype), opinfo=())
row("bernoulli", "make", lambda input: torch.bernoulli(input), opinfo=())


def fit_arange(b):
    only(device="cpu", requires_grad=False)(b)
    if "dtype" not in b and any(
            isinstance(b.get(n), float) and b[n] == int(b[n]) for n in ("start", "end", "step")):
        raise Skip("whole float scalar")
    if b.get("dtype") == torch.int64 and any(
            b.get(n, 0) != int(b.get(n, 0)) for n in ("start", "end", "step")):
        raise Skip("torch truncates fractional bounds for i64, and for i64 alone")


def arange(start, end=None, step=1, *, dtype=None, device=None, requires_grad=None):
    return torch.arange(0, start, step, dtype=dtype) if end is None else torch.arange(
        start, end, step, dtype=dtype)


row("arange", "make", arange, fit=fit_arange)


def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=None):
    """torch 1.13 rounds the step to 16 bits first; one rounding of the values is what is wanted."""
    return torch.linspace(start, end, steps, dtype=None if dtype in HALVES else dtype).to(dtype
                                                                                          or torch.float32)


def fit_linspace(b):
    only(device="cpu", requires_grad=False)(b)
    if "dtype" in b and not b["dtype"].is_floating_point:
        raise Skip("torch 1.13 takes whole steps for whole dtypes")


row("linspace", "make", linspace, fit=fit_linspace)
row(
    "eye", "make",
    lambda n, m=None, *, dtype=None, device=None, requires_grad=None: torch.eye(n, dtype=dtype)
    if m is None else torch.eye(n, m, dtype=dtype), fit=only(device="cpu", requires_grad=False))
LIKE = only(device="cpu", requires_grad=False)
for _n in ("empty_like", "zeros_like", "ones_like", "rand_like", "randn_like"):
    row(
        _n, "make", lambda input, *, dtype=None, device=None, requires_grad=None, _f=getattr(torch, _n): _f(
            input, dtype=dtype), fit=LIKE)
row(
    "full_like", "make",
    lambda input, fill_value, *, dtype=None, device=None, requires_grad=None: torch.full_like(
        input, fill_value, dtype=dtype), fit=LIKE)


def randint_like(input, low, high=None, *, dtype=None, device=None, requires_grad=None):
    low, high = (0, low) if high is None else (low, high)
    return torch.randint_like(input, low, high, dtype=dtype)


row("randint_like", "make", randint_like, fit=LIKE)
row("fill_", "make", lambda input, value: input.fill_(value), opinfo=(), inplace=True)
row("zero_", "make", lambda input: input.zero_(), opinfo=(), inplace=True)
row("tril", "make", lambda input, diagonal=0: torch.tril(input, diagonal))
row("triu", "make", lambda input, diagonal=0: torch.triu(input, diagonal))
RANDOM = {
    "empty", "empty_like", "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"
}

# ---- unary -------------------------------------------------------------------------------------------
UNARY = (
    "neg abs sign exp expm1 log log1p log2 sqrt rsqrt square reciprocal sin cos tanh sigmoid relu silu erf "
    "floor ceil trunc isnan isinf logical_not bitwise_not").split()
UNARY_IN_PLACE = ("neg abs exp log sqrt rsqrt square reciprocal sin cos tanh sigmoid relu floor ceil round "
                  "trunc").split()
for _n in UNARY:
    row(_n, "unary", lambda input, _f=getattr(torch, _n, None) or getattr(F, _n): _f(input))
row("round", "unary", lambda input, *, decimals=None: torch.round(input), fit=only(decimals=0))
row("leaky_relu", "unary", lambda input, negative_slope=0.01: F.leaky_relu(input, negative_slope))


def has_nan(tensors):
    """Here torch's vector loop and the loop's tail give different gradients."""
    return any(bool(torch.isnan(t).any()) for t in tensors)


row("elu", "unary", lambda input, alpha=1.0: F.elu(input, alpha), no_grad=has_nan)
row("gelu", "unary", lambda input, *, approximate="none": F.gelu(input, approximate=approximate))
row("softplus", "unary", lambda input, beta=1, threshold=20: F.softplus(input, beta, threshold))
row("hardtanh", "unary", lambda input, min_val=-1.0, max_val=1.0: F.hardtanh(input, min_val, max_val),
    no_grad=has_nan)


def fit_clamp(b):
    if any(isinstance(b.get(n), torch.Tensor) for n in ("min", "max")):
        raise Skip("tensor bounds")
    integer_scalar("min", "max")(b)


row("clamp", "unary", lambda input, min=None, max=None: torch.clamp(input, min, max), fit=fit_clamp)
row("nan_to_num", "unary",
    lambda input, nan=0.0, posinf=None, neginf=None: torch.nan_to_num(input, nan, posinf, neginf),
    native=True)
for _n in UNARY_IN_PLACE:
    row(_n + "_", "unary", lambda input, _f=_n + "_": getattr(input, _f)(), opinfo=(_n, ), inplace=True,
        dtypes=False)
row("clamp_", "unary", lambda input, min=None, max=None: input.clamp_(min, max), fit=fit_clamp,
    opinfo=("clamp", ), inplace=True, dtypes=False)

# ---- binary ------------------------------------------------------------------------------------------
OTHER = integer_scalar("other")
for _n in "mul fmod remainder maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor".split():
    row(_n, "binary", lambda input, other, _f=getattr(torch, _n): _f(input, other), fit=OTHER)
for _n in "bitwise_and bitwise_or bitwise_xor".split():
    row(_n, "binary", lambda input, other, _f=getattr(torch, _n): _f(input, other))
for _n in ("add", "sub"):
    row(_n, "binary", lambda input, other, *, alpha=1, _f=getattr(torch, _n): _f(input, other, alpha=alpha),
        fit=both(OTHER, integer_scalar("alpha")))
row("rsub", "binary", lambda input, other: torch.rsub(input, other), fit=OTHER, opinfo=())
row("div", "binary",
    lambda input, other, *, rounding_mode=None: torch.div(input, other, rounding_mode=rounding_mode),
    fit=OTHER)
row("floor_divide", "binary", lambda input, other: torch.floor_divide(input, other), fit=OTHER,
    fixed=("input", "other"))
row("pow", "binary", lambda input, exponent: torch.pow(input, exponent),
    fit=integer_scalar("exponent", "input"))
row("where", "binary", lambda self, condition, other: torch.where(condition, self, other))


def fit_lerp(b):
    """situ holds a number's weight in the tensors' dtype, as torch's own 16-bit kernels do."""
    if isinstance(b["weight"], float):
        b["weight"] = torch.tensor(b["weight"], dtype=b["input"].dtype).item()


row("lerp", "binary", lambda input, end, weight: torch.lerp(input, end, weight), fit=fit_lerp)
for _n in ("addcmul", "addcdiv"):
    row(
        _n, "binary", lambda input, tensor1, tensor2, *, value=1, _f=getattr(torch, _n): _f(
            input, tensor1, tensor2, value=value), fit=integer_scalar("value"))
    row(
        _n + "_", "binary", lambda input, tensor1, tensor2, *, value=1, _f=_n + "_": getattr(input, _f)
        (tensor1, tensor2, value=value), opinfo=(_n, ), inplace=True, dtypes=False)
for _n in ("mul", "div"):
    row(_n + "_", "binary", lambda input, other, _f=_n + "_": getattr(input, _f)(other), fit=OTHER,
        opinfo=(_n, ), inplace=True, dtypes=False)
row("pow_", "binary", lambda input, exponent: input.pow_(exponent), fit=integer_scalar("exponent"),
    opinfo=("pow", ), inplace=True, dtypes=False)
for _n in ("add", "sub"):
    row(_n + "_", "binary", lambda input, other, *, alpha=1, _f=_n + "_": getattr(input, _f)
        (other, alpha=alpha), fit=both(OTHER,
                                       integer_scalar("alpha")), opinfo=(_n, ), inplace=True, dtypes=False)


def fit_lerp_(b):
    if isinstance(b["weight"], torch.Tensor):
        raise Skip("no in-place form with a tensor of weights")


row("lerp_", "binary", lambda input, end, weight: input.lerp_(end, weight), fit=fit_lerp_, opinfo=("lerp", ),
    inplace=True, dtypes=False)


# ---- reduce ------------------------------------------------------------------------------------------
def given(**kwargs):
    return {k: v for k, v in kwargs.items() if v is not None}


DIM = lists(dim=1)
for _n in ("sum", "mean"):
    row(
        _n, "reduce",
        lambda input, dim=None, keepdim=False, *, dtype=None, _f=getattr(torch, _n): _f(input, dtype=dtype)
        if dim is None else _f(input, dim, keepdim, dtype=dtype), fit=DIM)
row(
    "prod", "reduce", lambda input, dim=None, keepdim=False, *, dtype=None: torch.prod(input, dtype=dtype)
    if dim is None else torch.prod(input, dim, keepdim, dtype=dtype))


def fit_var(b):
    DIM(b)
    unbiased = b.pop("unbiased", None)
    if isinstance(b.get("dim"), bool):
        raise Skip("overload")
    if unbiased is not None:
        b["correction"] = int(unbiased)


for _n in ("var", "std"):
    row(
        _n, "reduce", lambda input, dim=None, unbiased=None, keepdim=False, *, correction=None, _f=getattr(
            torch, _n): _f(input, dim, correction=1
                           if correction is None else correction, keepdim=keepdim), fit=fit_var)
for _n in ("amin", "amax"):
    row(_n, "reduce", lambda input, dim=(), keepdim=False, _f=getattr(torch, _n): _f(input, dim, keepdim),
        fit=DIM)
for _n in ("min", "max"):

    def _extreme(input, dim=None, keepdim=False, _f=getattr(torch, _n)):
        return _f(input) if dim is None else tuple(_f(input, dim, keepdim))

    def _no_tensor(b):
        if isinstance(b.get("dim"), torch.Tensor):
            raise Skip("two tensors: maximum and minimum")

    row(_n, "reduce", _extreme, fit=_no_tensor, outputs=("output", "indices"))
for _n in ("argmin", "argmax", "all", "any"):
    row(
        _n, "reduce", lambda input, dim=None, keepdim=False, _f=getattr(torch, _n): _f(input)
        if dim is None else _f(input, dim, keepdim))


def fit_norm(b):
    p = b.get("p")
    if p == "nuc":
        raise Skip("nuclear norm")
    b["p"] = 2.0 if p in (None, "fro") else float(p)
    DIM(b)


row(
    "norm", "reduce", lambda input, p=2.0, dim=None, keepdim=False, dtype=None: torch.norm(
        input, p, **given(dim=dim, keepdim=keepdim or None, dtype=dtype)), fit=fit_norm)
row("logsumexp", "reduce", lambda input, dim, keepdim=False: torch.logsumexp(input, dim, keepdim), fit=DIM)
row("cumsum", "reduce", lambda input, dim, *, dtype=None: torch.cumsum(input, dim),
    fit=lambda b: only(dtype=b["input"].dtype)(b))
row("cumprod", "scan", lambda input, dim, *, dtype=None: torch.cumprod(input, dim),
    fit=lambda b: only(dtype=b["input"].dtype)(b))
row(
    "sort", "reduce", lambda input, dim=-1, descending=False, *, stable=None: tuple(
        torch.sort(input, stable=True, dim=dim, descending=descending)), outputs=("output", "indices"),
    fit=lambda b: b.pop("stable", None))
row("argsort", "reduce",
    lambda input, dim=-1, descending=False: torch.sort(input, stable=True, dim=dim, descending=descending)[1])


def fit_topk(b):
    only(sorted=True)(b)
    if b["input"].unique().numel() < b["input"].numel():
        raise Skip("ties: torch takes any of the equal ones")


row("topk", "reduce",
    lambda input, k, dim=-1, largest=True, sorted=None: tuple(torch.topk(input, k, dim, largest)),
    fit=fit_topk, outputs=("output", "indices"))

# ---- shape -------------------------------------------------------------------------------------------
row("reshape", "shape", lambda input, shape: torch.reshape(input, shape), fit=lists(shape=1))
row("view", "shape", lambda input, shape: input.view(shape), fit=lists(shape=1), view=True)
row("flatten", "shape", lambda input, start_dim=0, end_dim=-1: torch.flatten(input, start_dim, end_dim))
row("squeeze", "shape", lambda input, dim=None: torch.squeeze(input)
    if dim is None else torch.squeeze(input, dim), view=True)
row("unsqueeze", "shape", lambda input, dim: torch.unsqueeze(input, dim), view=True)
row("permute", "shape", lambda input, dims: torch.permute(input, dims), fit=lists(dims=1), view=True)
row("transpose", "shape", lambda input, dim0, dim1: torch.transpose(input, dim0, dim1), view=True)
row("expand", "shape", lambda input, shape: input.expand(shape), fit=lists(shape=1), view=True)


def fit_narrow(b):
    if isinstance(b["start"], torch.Tensor):
        raise Skip("tensor start")


row("narrow", "shape", lambda input, dim, start, length: torch.narrow(input, dim, start, length),
    fit=fit_narrow, view=True)
row("select", "shape", lambda input, dim, index: torch.select(input, dim, index), view=True)


def slice_(input, dim=0, start=None, end=None, step=1):
    where = [slice(None)] * input.dim()
    where[dim] = slice(start, end, step)
    return input[tuple(where)]


row("slice", "shape", slice_, view=True)
row("as_strided", "shape",
    lambda input, size, stride, storage_offset=0: torch.as_strided(input, size, stride, storage_offset),
    fit=lists(size=1, stride=1), view=True)


def fit_split(b):
    if isinstance(b["split_size_or_sections"], (list, tuple)):
        b["split_size_or_sections"] = as_list(b["split_size_or_sections"])


row("split", "shape",
    lambda input, split_size_or_sections, dim=0: torch.split(input, split_size_or_sections, dim),
    fit=fit_split, view=True)
row("chunk", "shape", lambda input, chunks, dim=0: torch.chunk(input, chunks, dim), view=True)
row("unbind", "shape", lambda input, dim=0: torch.unbind(input, dim), view=True)
row("cat", "shape", lambda tensors, dim=0: torch.cat(tensors, dim))
row("stack", "shape", lambda tensors, dim=0: torch.stack(tensors, dim))
row("flip", "shape", lambda input, dims: torch.flip(input, dims), fit=lists(dims=1))
row("roll", "shape", lambda input, shifts, dims=(): torch.roll(input, shifts, dims),
    fit=lists(shifts=1, dims=1))
row("repeat", "shape", lambda input, repeats: input.repeat(repeats), fit=lists(repeats=1))


def fit_pad(b):
    lists(pad=1)(b)
    if b.get("mode", "constant") != "constant" and min(b["pad"]) < 0:
        raise Skip("a negative border other than of a constant")


row(
    "pad", "shape", lambda input, pad, mode="constant", value=None: F.pad(input, pad, mode)
    if value is None else F.pad(input, pad, mode, value), fit=fit_pad)
row("contiguous", "shape", lambda input: input.contiguous())
row("clone", "shape", lambda input: input.clone())
row("copy_", "shape", lambda input, src: input.copy_(src), opinfo=(), inplace=True)
row("to", "shape", lambda input, dtype: input.to(dtype), opinfo=())

# ---- index -------------------------------------------------------------------------------------------
row("index_select", "index", lambda input, dim, index: torch.index_select(input, dim, index))


def fit_index(b):
    index = b.get("index", b.get("indices"))
    if index.dtype not in (torch.int64, torch.int32):
        raise Skip("an empty index of another dtype")
    if index.dim() != b["input"].dim():
        raise Skip("a scalar taken for a vector")


row("gather", "index", lambda input, dim, index: torch.gather(input, dim, index), fit=fit_index)


def fit_take(b):
    fit_index(b)
    if b.get("dim") is None:
        raise Skip("flattened: dim not given")


row("take_along_dim", "index", lambda input, indices, dim=None: torch.take_along_dim(input, indices, dim),
    fit=fit_take)


def scatter(input, dim, index, src=None, value=None, *, reduce=None):
    return torch.scatter(input, dim, index, src) if value is None else torch.scatter(input, dim, index, value)


def fit_scatter(b):
    fit_index(b)
    if "reduce" in b:
        raise Skip("reduce is not offered")
    if "src" in b and not isinstance(b["src"], torch.Tensor):
        b["value"] = b.pop("src")


row("scatter", "index", scatter, fit=fit_scatter)
row("scatter_add", "index", lambda input, dim, index, src: torch.scatter_add(input, dim, index, src),
    fit=fit_index)
row("index_add", "index",
    lambda input, dim, index, source, *, alpha=1: torch.index_add(input, dim, index, source, alpha=alpha),
    fit=integer_scalar("alpha"))
row("scatter_", "index", lambda input, dim, index, src: input.scatter_(dim, index, src), fit=fit_scatter,
    opinfo=(), inplace=True)
row("scatter_add_", "index", lambda input, dim, index, src: input.scatter_add_(dim, index, src),
    opinfo=("scatter_add", ), fit=fit_index, inplace=True, dtypes=False)
row("index_add_", "index",
    lambda input, dim, index, source, *, alpha=1: input.index_add_(dim, index, source, alpha=alpha),
    opinfo=("index_add", ), inplace=True, dtypes=False)


def fit_masked_fill(b):
    if isinstance(b["value"], torch.Tensor):
        raise Skip("tensor value")
    if b["mask"].dim() > b["input"].dim():
        raise Skip("mask larger than the input: situ says broadcastable to x")


row("masked_fill", "index", lambda input, mask, value: torch.masked_fill(input, mask, value),
    fit=fit_masked_fill)
row("masked_fill_", "index", lambda input, mask, value: input.masked_fill_(mask, value), fit=fit_masked_fill,
    opinfo=("masked_fill", ), inplace=True, dtypes=False)


def is_strided(tensors):
    """Here torch 1.13 puts the gradient in the wrong places."""
    return not tensors[0].is_contiguous()


row("masked_select", "index", lambda input, mask: torch.masked_select(input, mask), no_grad=is_strided)
row("nonzero", "index", lambda input, *, as_tuple=None: torch.nonzero(input), fit=only(as_tuple=False))


def fit_embedding(b):
    for name in ("max_norm", "norm_type", "scale_grad_by_freq", "sparse"):
        if b.get(name):
            raise Skip(name + " is not offered")
        b.pop(name, None)
    if b.get("padding_idx", 0) < 0:
        b["padding_idx"] += b["weight"].shape[0]


row(
    "embedding", "index", lambda input, weight, padding_idx=None, *, max_norm=None, norm_type=2.0,
    scale_grad_by_freq=False, sparse=False: F.embedding(input, weight, padding_idx), fit=fit_embedding,
    order=(1, 0))


def fit_one_hot(b):
    if b.get("num_classes") == -1:
        del b["num_classes"]


row("one_hot", "index", lambda input, num_classes=-1: F.one_hot(input, num_classes), fit=fit_one_hot)

# ---- linear algebra ----------------------------------------------------------------------------------
for _n in ("matmul", "mm", "bmm", "mv", "dot", "outer"):
    row(_n, "linalg", lambda input, other, _f=getattr(torch, _n): _f(input, other))


def fit_baddbmm(b):
    if b.get("beta") == 0:
        raise Skip("torch 1.13 reads memory that nobody wrote")


for _n in ("addmm", "baddbmm"):
    row(
        _n, "linalg", lambda input, mat1, mat2, *, beta=1, alpha=1, _f=getattr(torch, _n): _f(
            input, mat1, mat2, beta=beta, alpha=alpha), fit=fit_baddbmm if _n == "baddbmm" else None)
row("linear", "linalg", lambda input, weight, bias=None: F.linear(input, weight, bias))
