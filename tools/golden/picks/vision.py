"""Hand-picked cases of ops for images.
SPDX-License-Identifier: MIT"""
import torch

from picks import pick, r, stepped, turned

FLOATS = (torch.float64, torch.float16, torch.bfloat16)


def vision():
    interpolated()
    pooled()
    parts()
    convolved()
    patches()
    sampled()
    deformed()
    normalised()


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


def distinct(*shape):
    """No two are equal, so that the maximum's place is decided."""
    x = torch.arange(torch.Size(shape).numel(), dtype=torch.float32)
    return (x[torch.randperm(x.numel())] / 7 - 5).reshape(shape)


def pooled():
    for d, x in ((1, distinct(2, 3, 9)), (3, distinct(1, 2, 5, 4, 6))):
        name = "pool%dd" % d
        for kernel, stride, padding, ceil in ((2, None, 0, False), (3, 2, 1, False), (3, 2, 1, True), (2, 3, 0, True),
                                              ([2, 1, 3][:d], [1, 2, 1][:d], [1, 0, 1][:d], False)):
            for indices in (False, True):
                pick("max_" + name, x, kernel, stride, padding, 1, ceil, indices)
            for include in (False, True):
                pick("avg_" + name, x, kernel, stride, padding, ceil, include)
            pick("lp_" + name, x.abs(), 2.0, kernel, stride, ceil)
        pick("lp_" + name, x, 3.0, 2, variant="signs")
        pick("max_" + name, x, 2, 1, 0, 2, return_indices=True, variant="dilated")
        for dtype in FLOATS:
            pick("max_" + name, x.to(dtype), 2, variant="dtype")
            pick("avg_" + name, x.to(dtype), 2, variant="dtype")
        for form, y in (("unbatched", x[0]), ("turned", turned(x)), ("stepped", stepped(x)), ("empty batch", x[:0])):
            pick("max_" + name, y, 2, return_indices=True, variant=form)
            pick("avg_" + name, y, 2, variant=form)
    pick("avg_pool3d", distinct(1, 2, 5, 4, 6), 3, 2, 1, divisor_override=5)
    pick("lp_pool2d", r(2, 2, 5, 6).abs() + 0.1, 2.0, 2)
    pick("lp_pool2d", r(2, 2, 5, 6).abs() + 0.1, 1.5, [2, 3], 1, True)
    for d, x in ((1, distinct(2, 3, 8)), (2, distinct(1, 2, 6, 4)), (3, distinct(1, 2, 4, 4, 6))):
        y, where = getattr(torch.nn.functional, "max_pool%dd" % d)(x, 2, return_indices=True)
        pick("max_unpool%dd" % d, y, where, 2)
        pick("max_unpool%dd" % d, y, where, 2, output_size=list(x.shape[2:]))
        pick("max_unpool%dd" % d, y[0], where[0], 2, variant="unbatched")


def parts():
    for d, x in ((1, distinct(2, 3, 7)), (2, distinct(1, 2, 6, 5)), (3, distinct(1, 2, 5, 4, 6))):
        for size in ([1] * d, [2, 3, 4][:d], [7, 5, 8][:d], [-1, 2, 3][:d]):
            if size != [-1]:
                pick("adaptive_max_pool%dd" % d, x, size, return_indices=True)
                pick("adaptive_max_pool%dd" % d, x[0], size, variant="unbatched")
                if d != 2:
                    pick("adaptive_avg_pool%dd" % d, x, size)
                    pick("adaptive_avg_pool%dd" % d, turned(x)[0], size, variant="unbatched")
        for dtype in FLOATS:
            pick("adaptive_max_pool%dd" % d, x.to(dtype), [2] * d, variant="dtype")
            if d != 2:
                pick("adaptive_avg_pool%dd" % d, x.to(dtype), [2] * d, variant="dtype")


def convolved():
    x, w, t = r(2, 4, 5, 4, 6), r(4, 2, 2, 3, 2), r(4, 1, 2, 3, 2)
    for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), (1, 1, 2), ([2, 1, 2], [1, 0, 1], [1, 1, 2])):
        pick("conv3d", x, w, r(4), stride, padding, dilation, 2)
        pick("conv_transpose3d", x[:1, :, :2], t, r(2), stride, padding, 0, 2, dilation)
    for stride, output_padding in ((2, 1), ([3, 2, 2], [2, 0, 1])):
        pick("conv_transpose3d", x[:1, :, :2, :2], t, r(2), stride, 1, output_padding, 2, variant="output padding")
    pick("conv3d", x[0], w, None, groups=2, variant="unbatched")
    pick("conv3d", turned(x), turned(w), groups=2, variant="turned")
    pick("conv3d", x[:0], w, groups=2, variant="empty batch")
    pick("conv_transpose3d", x[0, :, :2, :2], t, None, groups=2, variant="unbatched")
    y, v = r(2, 4, 7), r(4, 3, 3)
    for stride, padding, output_padding, dilation in ((1, 0, 0, 1), (2, 1, 1, 1), (3, 2, 0, 2)):
        pick("conv_transpose1d", y, v, r(3), stride, padding, output_padding, 1, dilation)
    pick("conv_transpose1d", y[0], r(4, 1, 4), groups=4, variant="depthwise")
    for dtype in FLOATS:
        pick("conv_transpose1d", y.to(dtype), v.to(dtype), variant="dtype")
    for dtype in (torch.float64, ):
        pick("conv3d", x.to(dtype), w.to(dtype), groups=2, variant="dtype")
        pick("conv_transpose3d", x[:1, :, :2].to(dtype), t.to(dtype), groups=2, variant="dtype")
    for kernel in (1, 2, 3, 4):
        for dilation in (1, 3):
            pick("conv1d_same", y, r(3, 4, kernel), r(3), dilation)
            pick("conv2d_same", r(1, 2, 5, 6), r(2, 2, kernel, 2), None, dilation)
    pick("conv3d", r(1, 1, 3, 3, 3), r(1, 1, 2, 3, 4), padding="same", variant="same")


def patches():
    x = r(2, 3, 5, 6)
    for kernel, dilation, padding, stride in ((2, 1, 0, 1), ([2, 3], 1, 1, 2), (2, 2, [1, 0], [1, 3]), (1, 1, 0, 1)):
        pick("unfold", x, kernel, dilation, padding, stride)
        y = torch.nn.functional.unfold(x, kernel, dilation, padding, stride)
        pick("fold", y, [5, 6], kernel, dilation, padding, stride)
        pick("fold", y[0], [5, 6], kernel, dilation, padding, stride, variant="unbatched")
    pick("unfold", turned(x), 2, variant="turned")
    for dtype in FLOATS:
        pick("unfold", x.to(dtype), 3, 1, 1, variant="dtype")
    for groups in (1, 2, 3):
        pick("channel_shuffle", r(2, 6, 3, 2), groups)
    pick("channel_shuffle", stepped(r(1, 4, 3)), 2, variant="stepped")


def sampled():
    x, grid = r(2, 2, 4, 5), torch.rand(2, 3, 4, 2) * 3 - 1.5
    y, places = r(1, 2, 3, 4, 3), torch.rand(1, 2, 3, 2, 3) * 3 - 1.5
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                pick("grid_sample", x, grid, mode, padding, align)
                if mode != "bicubic":
                    pick("grid_sample", y, places, mode, padding, align)
    pick("grid_sample", x.to(torch.float64), grid.to(torch.float64), variant="dtype")
    for align in (False, True):
        pick("affine_grid", r(2, 2, 3), [2, 1, 3, 4], align)
        pick("affine_grid", r(1, 3, 4), [1, 1, 2, 1, 3], align)


def deformed():
    """Channels, outputs, groups, offset groups; the last moves are far outside."""
    for c, o, groups, moved in ((2, 3, 1, 1), (4, 6, 2, 1), (4, 4, 1, 2), (6, 6, 3, 2)):
        for stride, padding, dilation in ((1, 0, 1), ([2, 3], [1, 2], [2, 1])):
            x, w = r(1, c, 4, 5), r(o, c // groups, 2, 2)
            out = list(torch.nn.functional.conv2d(x, w, None, stride, padding, dilation, groups).shape[2:])
            offset, mask = r(1, 2 * moved * 4, *out), r(1, moved * 4, *out)
            options = dict(stride=stride, padding=padding, dilation=dilation)
            pick("deform_conv2d", x, offset, w, **options)
            pick("deform_conv2d", x, offset * 2, w, r(o), mask=mask, **options)
    x, w, offset, mask = r(2, 2, 4, 4), r(2, 2, 1, 1), r(2, 2, 4, 4) * 9, r(2, 1, 4, 4)
    pick("deform_conv2d", x, offset, w, mask=mask, variant="far")
    pick("deform_conv2d", turned(x), stepped(offset), turned(w), mask=turned(mask), variant="strided")
    pick("deform_conv2d", x[:0], offset[:0], w, mask=mask[:0], variant="empty batch")
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        pick("deform_conv2d", *[v.to(dtype) for v in (x, offset / 9, w)], mask=mask.to(dtype), variant="dtype")


def normalised():
    for shape in ((2, 3, 5), (2, 3, 4, 2), (1, 3, 2, 3, 2)):
        x = r(*shape)
        pick("instance_norm", x)
        pick("instance_norm", x, None, None, r(3), r(3), eps=0.1)
        pick("instance_norm", x, r(3), r(3).abs(), r(3), r(3), True, 0.3)
        pick("instance_norm", x, r(3), r(3).abs() + 0.5, None, None, False)
        for size in (1, 2, 5):
            pick("local_response_norm", x, size, 0.5, 0.75, 1.5)
        pick("local_response_norm", x, 3)
