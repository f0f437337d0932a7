"""Embeddings with limits of their rows' norms, and bags of embeddings. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch
import torch.nn.functional as F

from table import Skip, row


def limited(input, weight, padding_idx=None, *, max_norm=None, norm_type=2.0, scale_grad_by_freq=False):
    """The rows, and the weight, in which rows were scaled."""
    return F.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq), weight.detach().clone()


row("embedding_limited", "embeddings", limited, opinfo=(), outputs=("output", "weight"), through="embedding")


def fit_bag(b):
    if b.pop("sparse", False):
        raise Skip("sparse is not offered")
    if b.get("include_last_offset") and int(b["offsets"][-1]) < b["input"].numel():
        raise Skip("torch leaves some gradients uninitialised")
    if b["weight"].shape[0] and b.get("padding_idx", 0) < 0:
        b["padding_idx"] += b["weight"].shape[0]


def bag(input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
        per_sample_weights=None, include_last_offset=False, padding_idx=None):
    y = F.embedding_bag(input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, False,
                        per_sample_weights, include_last_offset, padding_idx)
    return (y, weight.detach().clone()) if max_norm else y


row("embedding_bag", "embeddings", bag, fit=fit_bag, outputs=("output", "weight"), order=(1, 0))
