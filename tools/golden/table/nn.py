"""The ops that layers and losses are made of: rows of table.ROWS.
SPDX-License-Identifier: MIT"""
import math

import torch
import torch.nn.functional as F

from table import HALVES, Skip, as_list, both, lists, only, row


def not_none(*names):
    def fit(b):
        for name in names:
            if name in b and b[name] is None:
                raise Skip(name + " None")

    return fit


def fit_conv(count):
    def fit(b):
        if b.get("padding") == "same":
            raise Skip("padding='same' is not offered")
        if b.get("padding") == "valid":
            del b["padding"]
        lists(stride=count, padding=count, dilation=count, output_padding=count)(b)

    return fit


def fit_pool(b):
    if b.get("stride") in ((), []):
        del b["stride"]
    for name in ("kernel_size", "stride", "padding", "dilation"):
        if b.get(name) is not None:
            b[name] = as_list(b[name], 2)
            if len(b[name]) == 1:
                b[name] *= 2


row(
    "conv1d", "nn", lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1: F.conv1d(
        input, weight, bias, stride, padding, dilation, groups), fit=fit_conv(1))
row(
    "conv2d", "nn", lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1: F.conv2d(
        input, weight, bias, stride, padding, dilation, groups), fit=fit_conv(2))
row(
    "conv_transpose2d", "nn", lambda input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=
    1, dilation=1: F.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation),
    fit=fit_conv(2))


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


row("max_pool2d", "nn", max_pool2d, fit=fit_pool, outputs=("output", "indices"))
row(
    "avg_pool2d", "nn", lambda input, kernel_size, stride=None, padding=0,
    ceil_mode=False, count_include_pad=True, divisor_override=None: F.avg_pool2d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override), fit=fit_pool)


def fit_adaptive(b):
    size = b["output_size"]
    b["output_size"] = [-1 if v is None else v for v in (size if isinstance(size, tuple) else (size, size))]


row("adaptive_avg_pool2d", "nn",
    lambda input, output_size: F.adaptive_avg_pool2d(input, [None if v == -1 else v for v in output_size]),
    fit=fit_adaptive)


def batch_norm(input, running_mean=None, running_var=None, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5):
    """The running statistics are outputs too: what they are after the call."""
    mean, var = (None if r is None else r.detach().clone() for r in (running_mean, running_var))
    y = F.batch_norm(input, mean, var, weight, bias, training, momentum, eps)
    return (y, ) + tuple(r for r in (mean, var) if r is not None)


def no_negative_eps(b):
    if b.get("eps", 1.0) < 0:
        raise Skip("negative eps")


EPS = both(not_none("eps", "momentum"), no_negative_eps)


def fit_batch_norm(b):
    EPS(b)
    if b["input"].dim() < 2:
        raise Skip("no channels")
    if not 0 <= b.get("momentum", 0.1) <= 1:
        raise Skip("momentum outside 0..1")
    if not all(b[n].is_contiguous() for n in ("running_mean", "running_var") if n in b):
        raise Skip("running statistics with gaps")


row("batch_norm", "nn", batch_norm, fit=fit_batch_norm, outputs=("output", "running_mean", "running_var"))


def fit_layer_norm(b):
    EPS(b)
    lists(normalized_shape=1)(b)
    if math.prod(b["normalized_shape"]) == 1:
        raise Skip(NOISE)


def fit_group_norm(b):
    EPS(b)
    if b["input"][0:1].numel() == b["num_groups"]:
        raise Skip(NOISE)


NOISE = "normalised over one value, torch's result is noise: x * rstd - mean * rstd, with an rstd of 316"
row(
    "layer_norm", "nn", lambda input, normalized_shape, weight=None, bias=None, eps=1e-5: F.layer_norm(
        input, normalized_shape, weight, bias, eps), fit=fit_layer_norm)
row(
    "group_norm", "nn", lambda input, num_groups, weight=None, bias=None, eps=1e-5: F.group_norm(
        input, num_groups, weight, bias, eps), fit=fit_group_norm)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """torch 2.4's F.rms_norm in its own formula: 1.13 has none."""
    dims = tuple(range(-len(normalized_shape), 0))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    y = input * torch.rsqrt(input.pow(2).mean(dims, keepdim=True) + eps)
    return y if weight is None else y * weight


row("rms_norm", "nn", rms_norm, fit=both(EPS, lists(normalized_shape=1)), opinfo=())


def fit_softmax(b):
    only(dtype=b["input"].dtype)(b)


row("softmax", "nn", lambda input, dim, *, dtype=None: F.softmax(input, dim), fit=fit_softmax)
row("log_softmax", "nn", lambda input, dim, *, dtype=None: F.log_softmax(input, dim), fit=fit_softmax)


def fit_dropout(b):
    if 0 < b.get("p", 0.5) < 1 and b.get("training", True):
        raise Skip("random")
    b.pop("inplace", None)


row("dropout", "nn", lambda input, p=0.5, training=True, inplace=False: F.dropout(input, p, training),
    fit=fit_dropout)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
              need_attn_weights=None):
    """torch 2's scaled_dot_product_attention by its documented formula: 1.13's is private and another."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * scale
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask,
                                    -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return torch.softmax(scores, -1) @ value


def fit_attention(b):
    q, k = b["query"], b["key"]
    if q.dtype in HALVES and q.numel() and (q.float() @ k.float().transpose(-2, -1)).abs().max() > 32:
        raise Skip("16-bit scores so large that their rounding is the result")
    b.pop("need_attn_weights", None)
    if b.get("dropout_p"):
        raise Skip("random")
    if not b.get("is_causal"):
        b.pop("is_causal", None)


row("scaled_dot_product_attention", "nn", attention, fit=fit_attention,
    opinfo=("nn.functional._scaled_dot_product_attention", ))

# ---- losses ------------------------------------------------------------------------------------------
for _n in ("mse_loss", "l1_loss"):
    row(_n, "loss",
        lambda input, target, *, reduction="mean", _f=getattr(F, _n): _f(input, target, reduction=reduction))
row(
    "smooth_l1_loss", "loss", lambda input, target, *, beta=1.0, reduction="mean": F.smooth_l1_loss(
        input, target, beta=beta, reduction=reduction))
row(
    "cross_entropy", "loss", lambda input, target, weight=None, *, ignore_index=-100, reduction="mean",
    label_smoothing=0.0: F.cross_entropy(input, target, weight, ignore_index=ignore_index, reduction=
                                         reduction, label_smoothing=label_smoothing), fixed=("weight", ))
row(
    "nll_loss", "loss", lambda input, target, weight=None, *, ignore_index=-100, reduction="mean": F.nll_loss(
        input, target, weight, ignore_index=ignore_index, reduction=reduction), fixed=("weight", ))
row(
    "binary_cross_entropy_with_logits", "loss",
    lambda input, target, weight=None, *, reduction="mean", pos_weight=None: F.
    binary_cross_entropy_with_logits(input, target, weight, reduction=reduction, pos_weight=pos_weight),
    fixed=("weight", "pos_weight"))
row(
    "kl_div", "loss", lambda input, target, *, reduction="mean", log_target=False: F.kl_div(
        input, target, reduction=reduction, log_target=log_target))
