"""Hand-picked cases of convolutions, pools, norms, softmax, attention and losses.
SPDX-License-Identifier: MIT"""
import torch

from picks import FLOATS, INF, NAN, pick, r, special, stepped, t, turned, values


def nn():
    convolutions()
    pools()
    norms()
    softmaxes()
    dropouts()
    attentions()


def convolutions():
    for stride in (1, 2):
        for padding in (0, 1):
            for dilation in (1, 2):
                options = {"stride": stride, "padding": padding, "dilation": dilation}
                for groups in (1, 2):
                    pick("conv1d", r(2, 4, 8), r(4, 4 // groups, 3), r(4), groups=groups, variant="options",
                         **options)
                    pick("conv2d", r(2, 4, 6, 5), r(2, 4 // groups, 2, 2), r(2), groups=groups,
                         variant="options", **options)
                    pick("conv_transpose2d", r(1, 4, 3, 3), r(4, 2 // groups, 2, 3), r(2), groups=groups,
                         output_padding=1 if stride > 1 or dilation > 1 else 0, variant="options", **options)
    for name, x, w in (("conv1d", r(2, 3, 9), r(4, 3, 3)), ("conv2d", r(2, 3, 5, 6), r(4, 3, 3, 2)),
                       ("conv_transpose2d", r(2, 3, 3, 4), r(3, 4, 3, 2))):
        pick(name, x, w, variant="no bias")
        pick(name, x[0], w, r(4), variant="unbatched")
        pick(name, turned(x), turned(w), stepped(r(4)), variant="strided")
        pick(name, stepped(x), stepped(w), variant="strided")
        pick(name, x.flip(0)[:1].expand(3, *x.shape[1:]), w, variant="expanded")
        pick(name, x[:0], w, r(4), variant="empty batch")
        pick(name, x[:, :1], w[:, :1] if name != "conv_transpose2d" else w[:1], variant="one channel")
        pick(name, x, w[..., :1] if name == "conv1d" else w[..., :1, :1], r(4), variant="1x1")
        for dtype in FLOATS[1:]:
            pick(name, x.to(dtype), w.to(dtype), values(4, dtype=dtype), padding=1, variant="dtype")
        y = x.clone()
        y[0, 0, 1] = NAN
        y[1, 1, 0] = INF
        pick(name, y, w, variant="special")
    pick("conv1d", r(2, 4, 6), r(8, 1, 3), r(8), groups=4, variant="depthwise")
    pick("conv2d", r(2, 3, 5, 5), r(3, 1, 3, 3), r(3), groups=3, padding=1, variant="depthwise")
    pick("conv2d", r(1, 2, 5, 7), r(2, 2, 3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 3),
         variant="uneven")
    pick("conv2d", r(1, 2, 3, 3), r(2, 2, 3, 3), padding=3, stride=4, variant="wide padding")
    pick("conv2d", r(1, 1, 4, 4), r(1, 1, 4, 4), r(1), variant="one position")
    pick("conv2d", r(2, 8, 7, 7), r(5, 8, 3, 3), r(5), padding=1, variant="larger")
    pick("conv2d", r(1, 3, 6, 6), r(4, 3, 3, 3), stride=3, variant="remainder")
    pick("conv1d", r(1, 2, 5), r(3, 2, 5), r(3), padding=4, variant="wide padding")
    pick("conv_transpose2d", r(1, 4, 3, 3), r(4, 1, 2, 2), r(4), groups=4, stride=2, variant="depthwise")
    pick("conv_transpose2d", r(1, 2, 3, 2), r(2, 3, 2, 3), r(3), stride=(2, 3), padding=(1, 0),
         output_padding=(0, 2), dilation=(2, 1), variant="uneven")


def pools():
    x = torch.randperm(2 * 2 * 7 * 6).to(torch.float32).reshape(2, 2, 7, 6) / 9 - 8
    for indices in (False, True):
        for kernel, stride, padding, dilation, ceil in ((2, None, 0, 1, False), (3, 2, 1, 1, False),
                                                        (3, 2, 1, 1, True), ((2, 3), (1, 2), 0, 1, False),
                                                        (2, 2, 0, 2, False), (2, 3, 1, (2, 1), True),
                                                        ((1, 2), 1, (0, 1), 1, False), (7, 1, 3, 1, False)):
            pick("max_pool2d", x, kernel, stride, padding, dilation, ceil, indices)
        pick("max_pool2d", x[0], 2, return_indices=indices, variant="unbatched")
        pick("max_pool2d", turned(x), 2, return_indices=indices, variant="turned")
        pick("max_pool2d", stepped(x), 3, 1, return_indices=indices, variant="stepped")
        pick("max_pool2d", x[:0], 2, return_indices=indices, variant="empty batch")
    y = torch.zeros(1, 1, 4, 4)
    pick("max_pool2d", y, 2, return_indices=True, variant="ties")
    y[0, 0, 0, 1], y[0, 0, 2, 2], y[0, 0, 3, 0] = NAN, -INF, INF
    pick("max_pool2d", y, 2, 1, return_indices=True, variant="special")
    pick("max_pool2d", torch.full((1, 1, 4, 4), -INF), 3, 2, 1, return_indices=True, variant="special")
    for kernel, stride, padding, ceil, count, divisor in ((2, None, 0, False, True,
                                                           None), (3, 2, 1, False, True,
                                                                   None), (3, 2, 1, False, False,
                                                                           None), (3, 2, 1, True, True, None),
                                                          (3, 2, 1, True, False,
                                                           None), ((2, 3), (1, 2), (1, 0), False, True, None),
                                                          (2, 1, 0, False, True, 3), (3, 2, 1, True, True, 2),
                                                          (1, 1, 0, False, True, None)):
        pick("avg_pool2d", x, kernel, stride, padding, ceil, count, divisor)
    pick("avg_pool2d", y, 2, 1, variant="special")
    for size in (1, 2, 3, (7, 6), (3, 4), (10, 9), (None, 2), (1, None)):
        pick("adaptive_avg_pool2d", x, size)
    for name, argument in (("avg_pool2d", 2), ("adaptive_avg_pool2d", 3)):
        pick(name, x[0], argument, variant="unbatched")
        pick(name, turned(x), argument, variant="turned")
        pick(name, stepped(x), argument, variant="stepped")
        pick(name, x[:0], argument, variant="empty batch")
    for dtype in FLOATS[1:]:
        pick("max_pool2d", values(1, 2, 5, 4, dtype=dtype), 2, variant="dtype")
        pick("avg_pool2d", values(1, 2, 5, 4, dtype=dtype), 2, variant="dtype")
        pick("adaptive_avg_pool2d", values(1, 2, 5, 4, dtype=dtype), 3, variant="dtype")


def norms():
    batches = [
        r(4, 3),
        r(2, 3, 4),
        r(2, 3, 2, 3),
        r(2, 3, 2, 1, 2),
        turned(r(2, 3, 2, 3)),
        stepped(r(2, 3, 4))
    ]
    for x in batches + [r(5, 3) + 5]:
        mean, var = r(3), r(3).abs() + 0.5
        for training in (True, False):
            pick("batch_norm", x, mean, var, r(3), r(3), training, variant="affine")
            pick("batch_norm", x, mean, var, None, None, training, variant="plain")
        pick("batch_norm", x, None, None, r(3), r(3), True, variant="no statistics")
        pick("batch_norm", x, mean, var, r(3), None, True, 0.3, 0.01, variant="options")
        # of a single value torch's result is noise: x * rstd - mean * rstd, with an rstd of 316
        pick("group_norm", x, 3 if x.dim() > 2 else 1, r(3), r(3), variant="affine")
        pick("group_norm", x, 1, variant="plain")
    pick("batch_norm", r(0, 3, 2), r(3), r(3).abs(), r(3), r(3), False, variant="empty")
    for groups in (1, 2, 3, 6):
        pick("group_norm", r(2, 6, 4), groups, r(6), r(6), variant="groups")
        pick("group_norm", turned(r(2, 6, 4)), groups, r(6), None, 0.1, variant="strided")
    rows = [(r(3, 5), [5]), (r(2, 3, 4), [4]), (r(2, 3, 4), [3, 4]), (r(2, 3, 4), [2, 3, 4]),
            (turned(r(4, 5)), [5])]
    rows += [(stepped(r(4, 5)), [5]), (r(5), [5]), (r(0, 5), [5]), (r(3, 5) + 5, [5]), (r(2, 65), [65])]
    rows += [(torch.full((2, 4), 3.0), [4]), (r(1, 4).expand(3, 4), [4])]
    for x, shape in rows:
        for name in ("layer_norm", "rms_norm"):
            bias = {"bias": r(*shape)} if name == "layer_norm" else {}
            pick(name, x, shape, variant="plain")
            pick(name, x, shape, r(*shape), variant="affine", **bias)
            pick(name, x, shape, r(*shape), eps=0.1, variant="eps")
    for name in ("layer_norm", "rms_norm"):
        pick(name, torch.tensor([[NAN, 1.0, 2.0], [INF, 1.0, 2.0], [1.0, 2.0, 3.0]]), [3], variant="special")
        for dtype in FLOATS[1:]:
            pick(name, values(3, 5, dtype=dtype), [5], values(5, dtype=dtype), variant="dtype")
    for dtype in FLOATS[1:]:
        pick("group_norm", values(2, 4, 3, dtype=dtype), 2, values(4, dtype=dtype), values(4, dtype=dtype),
             variant="dtype")
    x = r(4, 3, dtype=torch.float64)
    pick("batch_norm", x, x[0], x[1].abs(), x[2], x[3], True, variant="f64")


def softmaxes():
    for name in ("softmax", "log_softmax"):
        x = r(2, 3, 4)
        for form, y in (("plain", x), ("turned", turned(x)), ("stepped", stepped(x)),
                        ("expanded", r(2, 1, 4).expand(2, 3, 4)), ("large", x * 100), ("offset", r(3, 4,
                                                                                                   5)[1:, 1:,
                                                                                                      1:])):
            for dim in (0, 1, -1):
                pick(name, y, dim, variant=form)
        pick(name, r(), 0, variant="scalar")
        pick(name, r(1), 0, variant="one")
        pick(name, r(0, 3), 1, variant="empty")
        pick(name, r(3, 0), 0, variant="empty")
        pick(name, r(2, 65), 1, variant="long")
        pick(name, r(65, 2), 0, variant="tall")
        pick(
            name,
            torch.tensor([[NAN, 1.0, 2.0], [INF, 1.0, 2.0], [-INF, 1.0, 2.0], [-INF, -INF, -INF],
                          [1e4, -1e4, 0.0]]), 1, variant="special")
        for dtype in FLOATS[1:]:
            pick(name, values(3, 5, dtype=dtype), 1, variant="dtype")
            pick(name, values(3, 5, dtype=dtype), 0, variant="dtype")


def dropouts():
    for p, training in ((0.0, True), (0.5, False), (1.0, True), (1.0, False), (0.0, False)):
        pick("dropout", r(3, 4), p, training)
        pick("dropout", turned(r(3, 4)), p, training, variant="turned")
        pick("dropout", r(0, 4), p, training, variant="empty")
        pick("dropout", r(3, dtype=torch.float64), p, training, variant="dtype")


def attentions():
    name = "scaled_dot_product_attention"
    for lead in ([], [2], [2, 2], [1, 3]):
        for length, source, width, out in ((3, 3, 4, 4), (2, 5, 3, 2), (1, 1, 2, 2), (4, 3, 5, 3)):
            q, k, v = r(*lead, length, width), r(*lead, source, width), r(*lead, source, out)
            pick(name, q, k, v, variant="plain")
            if length <= source:
                pick(name, q, k, v, is_causal=True, variant="causal")
            mask = torch.rand(length, source) > 0.3
            mask[:, 0] = True
            pick(name, q, k, v, mask, variant="bool mask")
            pick(name, q, k, v, r(length, source), variant="float mask")
            pick(name, q, k, v, scale=0.25, variant="scale")
    q, k, v = r(2, 2, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 3)
    mask = torch.rand(2, 1, 3, 5) > 0.3
    mask[..., 0] = True
    pick(name, q, k, v, mask, variant="broadcast mask")
    pick(name, q, k, v, torch.where(mask, 0.0, -INF), variant="-inf mask")
    pick(name, q, k, v, mask[0, 0, :1], variant="broadcast mask")
    pick(name, turned(q), turned(k), turned(v), variant="turned")
    pick(name, *(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)), variant="heads last")
    pick(name, stepped(q), stepped(k), stepped(v), mask, variant="stepped")
    pick(name, r(2, 9, 4), r(2, 9, 4), r(2, 9, 4), is_causal=True, variant="longer")
    pick(name, q * 30, k * 30, v, variant="large")
    pick(name, r(0, 3, 4), r(0, 3, 4), r(0, 3, 4), variant="empty")
    for dtype in FLOATS[1:]:
        pick(name, q.to(dtype), k.to(dtype), v.to(dtype), variant="dtype")
        pick(name, q[:, :, :3].to(dtype), k[:, :, :3].to(dtype), v[:, :, :3].to(dtype), is_causal=True,
             variant="dtype")


def loss():
    for reduction in ("mean", "sum", "none"):
        regression(reduction)
        classes(reduction)
        logits(reduction)
    for reduction in ("mean", "sum", "none", "batchmean"):
        divergence(reduction)


def regression(reduction):
    for name, options in (("mse_loss", {}), ("l1_loss", {}), ("smooth_l1_loss", {}),
                          ("smooth_l1_loss", {"beta": 0.3}), ("smooth_l1_loss", {"beta": 2.0})):
        for form, x, y in (("plain", r(3, 4), r(3, 4)), ("turned", turned(r(3, 4)), r(3, 4)),
                           ("stepped", stepped(r(3, 4)), stepped(r(3, 4))), ("scalar", r(), r()),
                           ("empty", r(0, 3), r(0, 3)), ("equal", t(1.0, 2.0), t(1.0, 2.5)),
                           ("special", t(NAN, INF, 1.0, -INF), t(1.0, 1.0, INF,
                                                                 -1.0)), ("f64", r(3, dtype=torch.float64),
                                                                          r(3, dtype=torch.float64))):
            pick(name, x, y, reduction=reduction, variant=form, **options)
        for dtype in FLOATS[2:]:
            pick(name, values(3, 2, dtype=dtype), values(3, 2, dtype=dtype), reduction=reduction,
                 variant="dtype", **options)


def classes(reduction):
    y = torch.tensor([1, 0, 3, 1, 2])
    for form, x, target in (("plain", r(5, 4), y), ("turned", turned(r(5, 4)), y), ("unbatched", r(4),
                                                                                    torch.tensor(2)),
                            ("image", r(2, 3, 2, 2), torch.randint(0, 3,
                                                                   (2, 2, 2))), ("line", r(2, 4, 3),
                                                                                 torch.randint(0, 4, (2, 3))),
                            ("one class", r(3, 1), torch.zeros(3, dtype=torch.int64)), ("strided target",
                                                                                        r(5, 4), stepped(y)),
                            ("large", r(5, 4) * 50, y), ("empty", r(0, 4), y[:0])):
        c = x.shape[1] if x.dim() > 1 else x.shape[0]
        weight = torch.rand(c) + 0.2
        log = torch.log_softmax(x, 1 if x.dim() > 1 else 0)
        log = turned(log) if form == "turned" else log
        for name, v in (("cross_entropy", x), ("nll_loss", log)):
            pick(name, v, target, reduction=reduction, variant=form)
            pick(name, v, target, weight, reduction=reduction, variant=form + " weight", grad=True)
            if form in ("plain", "image", "line", "unbatched"):
                pick(name, v, target, reduction=reduction, ignore_index=1, variant=form + " ignore")
                pick(name, v, target, weight, reduction=reduction, ignore_index=0,
                     variant=form + " weight ignore")
        for smoothing in (0.1, 0.9, 1.0):
            pick("cross_entropy", x, target, reduction=reduction, label_smoothing=smoothing,
                 variant=form + " smooth")
        pick("cross_entropy", x, target, weight, reduction=reduction, label_smoothing=0.2,
             variant=form + " smooth weight")
        if form in ("plain", "image"):
            pick("cross_entropy", x, target, weight, reduction=reduction, label_smoothing=0.2, ignore_index=1,
                 variant=form + " smooth weight ignore")
        if form not in ("empty", "strided target"):
            p = torch.softmax(torch.randn(x.shape), 1 if x.dim() > 1 else 0)
            pick("cross_entropy", x, p, reduction=reduction, variant=form + " probabilities")
            pick("cross_entropy", x, p, weight, reduction=reduction, variant=form + " probabilities weight")
            pick("cross_entropy", x, p, weight, reduction=reduction, label_smoothing=0.3,
                 variant=form + " probabilities smooth")
    ignored = torch.tensor([-100, 1, -100, 0, 2])
    for name in ("cross_entropy", "nll_loss"):
        pick(name, r(5, 4), ignored, reduction=reduction, variant="-100")
        pick(name, r(2, 4), torch.tensor([-100, -100]), reduction=reduction, variant="all ignored")
        pick(name, torch.tensor([[NAN, 1.0], [INF, 1.0], [-INF, 0.0]]), torch.tensor([0, 1, 0]),
             reduction=reduction, variant="special")
        for dtype in FLOATS[1:]:
            pick(name, values(5, 4, dtype=dtype), y, reduction=reduction, variant="dtype")


def logits(reduction):
    name = "binary_cross_entropy_with_logits"
    for form, x, y in (("plain", r(3, 4), torch.rand(3, 4)), ("turned", turned(r(3, 4)), torch.rand(3, 4)),
                       ("scalar", r(), torch.rand(
                           ())), ("empty", r(0, 4), r(0, 4)), ("large", t(100.0, -100.0, 90.0,
                                                                          -90.0), t(1.0, 0.0, 0.0, 1.0)),
                       ("special", t(NAN, INF, -INF), t(1.0, 1.0, 0.0)), ("f64", r(3, dtype=torch.float64),
                                                                          torch.rand(3).double())):
        pick(name, x, y, reduction=reduction, variant=form)
        if form in ("plain", "turned"):
            for w in (torch.rand(3, 4), torch.rand(4), torch.rand(3, 1)):
                pick(name, x, y, w, reduction=reduction, variant=form + " weight")
                pick(name, x, y, reduction=reduction, pos_weight=w * 3, variant=form + " pos_weight")
            pick(name, x, y, torch.rand(4), reduction=reduction, pos_weight=torch.rand(3, 4),
                 variant=form + " both")


def divergence(reduction):
    forms = (("plain", r(3, 4), torch.rand(3, 4)), ("turned", turned(r(3, 4)), torch.rand(3, 4)),
             ("line", r(4), torch.rand(4)), ("empty", r(0, 4), r(0, 4)), ("deep", r(2, 2,
                                                                                    3), torch.rand(2, 2, 3)),
             ("zeros", r(2, 2), t(0.0, 1.0, 0.5, 0.0).reshape(2, 2)), ("f64", r(3, 2, dtype=torch.float64),
                                                                       torch.rand(3, 2).double()))
    for form, x, y in forms:  # torch's gradient for a target of 0 is NaN
        log = y.clamp_min(0.01).log()
        pick("kl_div", x, y, reduction=reduction, variant=form, grad=form != "zeros")
        pick("kl_div", x, log, reduction=reduction, log_target=True, variant=form + " log")
