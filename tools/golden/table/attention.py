"""Attention with heads that share a key. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch.nn.functional as F

from table import Skip, row


def fit_attention(b):
    if b.get("dropout_p"):
        raise Skip("random")
    b.pop("dropout_p", None)
    for name in ("is_causal", "enable_gqa"):
        if not b.get(name):
            b.pop(name, None)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                                          enable_gqa=enable_gqa)


row("attention", "attention", attention, fit=fit_attention, opinfo=("nn.functional.scaled_dot_product_attention", ))
