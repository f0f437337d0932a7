#!/usr/bin/env python3
"""Asks torch 2.15 which values of its arguments each function takes, and the sizes of what it gives: what situ's must be.
SPDX-License-Identifier: MIT

  python3 tools/golden/accepts_values.py > tests/golden/data/accepts_values.txt

A line is a call and, for each of VALUES in the place of v, the sizes of its result ("1x2x4"; "." of 0 dimensions). "-": torch
refuses the call."""
import sys
import warnings

sys.dont_write_bytecode = True

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

warnings.simplefilter("ignore")

VALUES = (-2, -1, 0, 1, 2, 3, 5)


def ones(*shape):
    return torch.ones(shape)


def whole(*shape):
    return torch.zeros(shape, dtype=torch.int64)


L, P, V = ones(1, 2, 8), ones(1, 2, 8, 8), ones(1, 2, 8, 8, 8)
A, B = ones(3, 4), ones(4)

CALLS = {
    **{"max_pool%dd_%s" % (n, k): lambda v, f=getattr(F, "max_pool%dd" % n), x=x, k=k: f(x, **{"kernel_size": 4, k: v})
       for n, x in ((1, L), (2, P), (3, V)) for k in ("kernel_size", "stride", "padding", "dilation")},
    **{"avg_pool%dd_%s" % (n, k): lambda v, f=getattr(F, "avg_pool%dd" % n), x=x, k=k: f(x, **{"kernel_size": 4, k: v})
       for n, x in ((1, L), (2, P), (3, V)) for k in ("kernel_size", "stride", "padding")},
    **{"adaptive_%s_pool%dd" % (m, n): lambda v, f=getattr(F, "adaptive_%s_pool%dd" % (m, n)), x=x: f(x, v)
       for m in ("avg", "max") for n, x in ((1, L), (2, P), (3, V))},
    **{"max_unpool%dd_%s" % (n, k): lambda v, f=getattr(F, "max_unpool%dd" % n), s=s, k=k: f(
        ones(*s), whole(*s), **{"kernel_size": 2, k: v})
       for n, s in ((1, (1, 1, 3)), (2, (1, 1, 3, 3)), (3, (1, 1, 3, 3, 3))) for k in ("kernel_size", "stride", "padding")},
    **{"lp_pool%dd_stride" % n: lambda v, f=getattr(F, "lp_pool%dd" % n), x=x: f(x, 2, 4, v) for n, x in ((1, L), (2, P), (3, V))},
    **{"max_pool%dd_channels" % n: lambda v, f=getattr(F, "max_pool%dd" % n), n=n: f(ones(1, v, *(4, ) * n), 2) for n in (1, 2, 3)},
    **{"avg_pool%dd_channels" % n: lambda v, f=getattr(F, "avg_pool%dd" % n), n=n: f(ones(1, v, *(4, ) * n), 2) for n in (1, 2, 3)},
    **{"conv2d_" + k: lambda v, k=k: F.conv2d(P, ones(2, 2, 3, 3), **{k: v}) for k in ("stride", "padding", "dilation")},
    **{"unfold_" + k: lambda v, k=k: F.unfold(P, **{"kernel_size": 2, k: v}) for k in ("kernel_size", "stride", "padding", "dilation")},
    "triplet_margin_loss_margin": lambda v: F.triplet_margin_loss(A, A, A, margin=v),
    "margin_ranking_loss_margin": lambda v: F.margin_ranking_loss(B, B, B, margin=v),
    "cosine_embedding_loss_margin": lambda v: F.cosine_embedding_loss(A, A, ones(3), margin=v),
    "hinge_embedding_loss_margin": lambda v: F.hinge_embedding_loss(A, A, margin=v),
    "huber_loss_delta": lambda v: F.huber_loss(A, A, delta=v),
    "smooth_l1_loss_beta": lambda v: F.smooth_l1_loss(A, A, beta=v),
    "glu_dim": lambda v: F.glu(P, v),
    "softmax_dim": lambda v: torch.softmax(A, v), "cumsum_dim": lambda v: torch.cumsum(A, v), "topk_k": lambda v: torch.topk(A, v)[0],
    "unsqueeze_dim": lambda v: torch.unsqueeze(A, v), "narrow_start": lambda v: torch.narrow(A, 1, v, 2),
    "narrow_length": lambda v: torch.narrow(A, 1, 1, v), "select_index": lambda v: torch.select(A, 1, v),
    "one_hot_classes": lambda v: F.one_hot(whole(3), v),
    "diagonal_offset": lambda v: torch.diagonal(A, v), "tril_offset": lambda v: torch.tril(A, v),
    "dropout_p": lambda v: F.dropout(A, v), "pixel_shuffle_factor": lambda v: F.pixel_shuffle(ones(1, 36, 2, 2), v),
    "pixel_unshuffle_factor": lambda v: F.pixel_unshuffle(ones(1, 1, 30, 30), v),
    "interpolate_size": lambda v: F.interpolate(P, v), "repeat_interleave": lambda v: torch.repeat_interleave(A, v, 1),
    "matrix_power": lambda v: torch.linalg.matrix_power(torch.eye(2), v), "polygamma_n": lambda v: torch.polygamma(v, A),
    "eye_n": lambda v: torch.eye(v), "linspace_steps": lambda v: torch.linspace(0, 1, v), "randperm_n": lambda v: torch.randperm(v),
    "hann_window_n": lambda v: torch.hann_window(v), "group_norm_groups": lambda v: F.group_norm(ones(1, 30, 2), v),
    "channel_shuffle_groups": lambda v: F.channel_shuffle(ones(1, 30, 2, 2), v),
    "pad_before": lambda v: F.pad(A, (v, 1)), "pad_reflect": lambda v: F.pad(A, (v, 1), mode="reflect"),
    "multinomial_samples": lambda v: torch.multinomial(A, v),
}


def sizes_of(call):
    try:
        return "x".join(map(str, call().shape)) or "."
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, ZeroDivisionError, OverflowError):
        return "-"


def main():
    print("# call: the sizes of its result for v = %s; -: refused" % " ".join(map(str, VALUES)))
    print("# Made by tools/golden/accepts_values.py, with torch %s." % torch.__version__.split("+")[0])
    for name, call in CALLS.items():
        print("%s: %s" % (name, " ".join(sizes_of(lambda v=v: call(v)) for v in VALUES)))


if __name__ == "__main__":
    main()
