"""Ops for images: resampling, pooling in one and three dimensions, patches, grids. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch
import torch.nn.functional as F

from table import Skip, as_list, both, lists, row
from table.nn import fit_batch_norm, fit_conv


def fit_interpolate(b):
    spatial = b["input"].dim() - 2
    factor = b.pop("scale_factor", None)
    if b["input"].dtype == torch.uint8:
        raise Skip("u8")
    if b.get("size") is not None:
        b["size"] = as_list(b["size"], spatial)
    if factor is not None:
        factors = factor if isinstance(factor, (list, tuple)) else [factor] * spatial
        b.update({"scale%d" % d: float(f) for d, f in enumerate(factors)})
    if b.get("align_corners") is None:
        b.pop("align_corners", None)


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False, *, scale0=None, scale1=None, scale2=None):
    factors = [s for s in (scale0, scale1, scale2) if s is not None]
    return F.interpolate(input, size, factors or None, mode, align_corners, recompute_scale_factor, antialias)


row("interpolate", "vision", interpolate, fit=fit_interpolate)


# ---- pooling -----------------------------------------------------------------------------------------
def fit_pool(spatial):
    def fit(b):
        for name in ("kernel_size", "stride", "padding", "dilation"):
            if b.get(name) in ((), []):
                del b[name]
            if b.get(name) is not None:
                b[name] = as_list(b[name], spatial)
                b[name] *= spatial if len(b[name]) == 1 else 1

    return fit


def floating(b):
    if not b["input"].is_floating_point():
        raise Skip("two divisions of whole numbers")


def max_pool(spatial):
    f = getattr(F, "max_pool%dd" % spatial)
    return lambda input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False: f(
        input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


for _d in (1, 3):
    row("max_pool%dd" % _d, "vision", max_pool(_d), fit=fit_pool(_d), outputs=("output", "indices"))
row("avg_pool1d", "vision", lambda input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True:
    F.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad), fit=fit_pool(1))
row("avg_pool3d", "vision", lambda input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None: F.avg_pool3d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override), fit=both(
            fit_pool(3), floating))


def fit_size(spatial):
    def fit(b):
        size = b["output_size"]
        size = list(size) if isinstance(size, (tuple, list)) else [size] * spatial
        b["output_size"] = [-1 if v is None else v for v in size]

    return fit


def adaptive(f):
    return lambda input, output_size: f(input, [None if v == -1 else v for v in output_size])


def adaptive_max(f):
    return lambda input, output_size, return_indices=False: f(
        input, [None if v == -1 else v for v in output_size], return_indices)


for _d in (1, 3):
    row("adaptive_avg_pool%dd" % _d, "vision", adaptive(getattr(F, "adaptive_avg_pool%dd" % _d)), fit=fit_size(_d))
for _d in (1, 2, 3):
    row("adaptive_max_pool%dd" % _d, "vision", adaptive_max(getattr(F, "adaptive_max_pool%dd" % _d)), fit=fit_size(_d),
        outputs=("output", "indices"))


def lp_pool(f):
    def call(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        one = f is F.lp_pool1d  # takes no list
        return f(input, norm_type, kernel_size[0] if one else kernel_size, stride[0] if one and stride else stride, ceil_mode)

    return call


def fit_unpool(spatial):
    def fit(b):
        fit_pool(spatial)(b)
        if b.get("output_size") is not None:
            b["output_size"] = as_list(b["output_size"])[-spatial:]

    return fit


def max_unpool(f):
    return lambda input, indices, kernel_size, stride=None, padding=0, output_size=None: f(
        input, indices, kernel_size, stride, padding, output_size)


for _d in (1, 2, 3):
    row("lp_pool%dd" % _d, "vision", lp_pool(getattr(F, "lp_pool%dd" % _d)), fit=fit_pool(_d), opinfo=())
    row("max_unpool%dd" % _d, "vision", max_unpool(getattr(F, "max_unpool%dd" % _d)), fit=fit_unpool(_d))


# ---- convolution -------------------------------------------------------------------------------------
def fit_same(spatial):
    """padding="same" is a flag of its own."""
    def fit(b):
        if b.get("padding") == "same":
            del b["padding"]
            b["same"] = True
        fit_conv(spatial)(b)

    return fit


row("conv3d", "vision", lambda input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, same=False:
    F.conv3d(input, weight, bias, stride, "same" if same else padding, dilation, groups), fit=fit_same(3))
for _d in (1, 2):
    row("conv%dd_same" % _d, "vision", lambda input, weight, bias=None, dilation=1, groups=1, *, _f=getattr(
        F, "conv%dd" % _d): _f(input, weight, bias, 1, "same", dilation, groups), opinfo=(), fit=fit_conv(_d))
for _d in (1, 3):
    row("conv_transpose%dd" % _d, "vision", lambda input, weight, bias=None, stride=1, padding=0, output_padding=0,
        groups=1, dilation=1, *, _f=getattr(F, "conv_transpose%dd" % _d): _f(
            input, weight, bias, stride, padding, output_padding, groups, dilation), fit=fit_conv(_d))


# ---- patches, grids, norms ---------------------------------------------------------------------------
PAIRS = lists(kernel_size=2, dilation=2, padding=2, stride=2, output_size=2)
row("unfold", "vision", lambda input, kernel_size, dilation=1, padding=0, stride=1: F.unfold(
    input, kernel_size, dilation, padding, stride), fit=PAIRS, opinfo=("nn.functional.unfold", ))
row("fold", "vision", lambda input, output_size, kernel_size, dilation=1, padding=0, stride=1: F.fold(
    input, output_size, kernel_size, dilation, padding, stride), fit=PAIRS)
row("grid_sample", "vision", lambda input, grid, mode="bilinear", padding_mode="zeros", align_corners=False:
    F.grid_sample(input, grid, mode, padding_mode, align_corners))


def deform_conv2d(input, offset, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), mask=None):
    from torchvision.ops import deform_conv2d as call  # the only one that is not torch's
    return call(input, offset, weight, bias, tuple(stride), tuple(padding), tuple(dilation), mask)


row("deform_conv2d", "vision", deform_conv2d, fit=lists(stride=2, padding=2, dilation=2), opinfo=())
row("affine_grid", "vision", lambda theta, size, align_corners=False: F.affine_grid(theta, size, align_corners),
    fit=lists(size=1))
row("channel_shuffle", "vision", lambda input, groups: F.channel_shuffle(input, groups))


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    """The running statistics are outputs too: what they are after the call."""
    mean, var = (None if r is None else r.detach().clone() for r in (running_mean, running_var))
    y = F.instance_norm(input, mean, var, weight, bias, use_input_stats, momentum, eps)
    return (y, ) + tuple(r for r in (mean, var) if r is not None)


def fit_instance_norm(b):
    fit_batch_norm(b)
    if not b.get("use_input_stats", True) and b.get("running_mean") is None:
        raise Skip("no statistics")


row("instance_norm", "vision", instance_norm, fit=fit_instance_norm, outputs=("output", "running_mean", "running_var"))
row("local_response_norm", "vision", lambda input, size, alpha=1e-4, beta=0.75, k=1.0: F.local_response_norm(
    input, size, alpha, beta, k), fit=floating)
