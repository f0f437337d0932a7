"""Ops for images: resampling, pooling in one and three dimensions, patches, grids. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch
import torch.nn.functional as F

from table import Skip, as_list, row


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
