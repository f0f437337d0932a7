"""Hand-picked cases of ops for images.
SPDX-License-Identifier: MIT"""
import torch

from picks import pick, r, stepped, turned

FLOATS = (torch.float64, torch.float16, torch.bfloat16)


def vision():
    interpolated()


def undecided(mode, shape, factor):
    """torch takes a dimension of unchanged size as unchanged, whatever the factor: in nearest's and bicubic's backward,
    and in one of nearest's forward passes. situ computes what the factor says, as torch's CUDA kernels."""
    sizes = zip(shape[2:], factor if isinstance(factor, list) else [factor] * 3)
    return mode in ("nearest", "bicubic") and any(int(s * f) == s and f != 1 for s, f in sizes)


def interpolated():
    for mode, shape in (("linear", (2, 3, 7)), ("bilinear", (1, 2, 6, 5)), ("bicubic", (1, 2, 6, 5)),
                        ("trilinear", (1, 1, 4, 3, 5)), ("nearest", (1, 2, 6, 5)), ("nearest-exact", (1, 2, 6, 5)),
                        ("area", (1, 2, 6, 5)), ("nearest", (1, 1, 4, 3, 5)), ("nearest-exact", (1, 2, 7)),
                        ("area", (1, 1, 4, 3, 5))):
        spatial = len(shape) - 2
        x = r(*shape)
        aligns = (False, True) if "linear" in mode or "cubic" in mode else (None, )
        for align in aligns:
            for size in (1, 3, list(range(7, 7 + spatial))):
                pick("interpolate", x, size, mode=mode, align_corners=align, variant="size")
            for factor in (2.0, 0.37, 1.3, 1.05, [0.7, 2.6, 1.4][:spatial]):
                for recompute in (None, True) if factor in (0.37, 1.3) else (None, ):
                    if recompute or not undecided(mode, shape, factor):
                        pick("interpolate", x, None, factor, mode=mode, align_corners=align,
                             recompute_scale_factor=recompute, variant="factor")
        for dtype in FLOATS:
            pick("interpolate", x.to(dtype), 8, mode=mode, variant="dtype")
        pick("interpolate", turned(x), 8, mode=mode, variant="turned")
        pick("interpolate", stepped(x), 4, mode=mode, variant="stepped")
        pick("interpolate", x[:0], 4, mode=mode, variant="empty batch")
        pick("interpolate", x, list(shape[2:]), mode=mode, variant="same")
    for mode in ("bilinear", "bicubic"):
        x = r(1, 2, 9, 7)
        for align in (False, True):
            for size in (1, 4, [3, 14]):
                pick("interpolate", x, size, mode=mode, align_corners=align, antialias=True, variant="antialias")
            for factor in (0.4, 2.3):
                pick("interpolate", x, None, factor, mode=mode, align_corners=align, antialias=True, variant="antialias")
