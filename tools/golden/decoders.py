"""Golden cases of TransformerDecoderLayer and TransformerDecoder, as those of layers.py.
SPDX-License-Identifier: MIT"""
import torch
from torch import nn

import layers
from picks import r


def decoder(num_layers, norm=False, d_model=4, **arguments):
    layer = nn.TransformerDecoderLayer(d_model, **arguments)
    return nn.TransformerDecoder(layer, num_layers, nn.LayerNorm(d_model) if norm else None)


layers.MADE["TransformerDecoder"] = decoder


def cases():
    def call(kind, batch_first, training=True, variant="", masks=None, sizes=None, **arguments):
        tgt, memory = sizes or (((2, 3, 4), (2, 4, 4)) if batch_first else ((3, 2, 4), (4, 2, 4)))
        arguments = {"dropout": 0.0, **arguments}
        layers.layer(kind, {"tgt": r(*tgt), "memory": r(*memory), **(masks or {})}, training, variant, d_model=4,
                     nhead=2, dim_feedforward=6, batch_first=batch_first, **arguments)

    later = torch.ones(3, 3, dtype=torch.bool).triu(1)
    causal = torch.zeros(3, 3).masked_fill(later, -torch.inf)
    ahead = torch.ones(3, 4, dtype=torch.bool).triu(2)
    short = torch.tensor([[False, False, True], [False, False, False]])
    shorter = torch.tensor([[False, False, False, False], [False, True, True, True]])
    for batch_first in (False, True):
        for kind, more in (("TransformerDecoderLayer", {}), ("TransformerDecoder", {"num_layers": 2, "norm": True})):
            for norm_first in (False, True):
                call(kind, batch_first, norm_first=norm_first, **more)
            for masks in ({"tgt_mask": causal}, {"tgt_mask": later, "memory_mask": ahead},
                          {"tgt_mask": causal, "tgt_is_causal": True},
                          {"tgt_key_padding_mask": short, "memory_key_padding_mask": shorter}):
                call(kind, batch_first, masks=masks, variant="masks", **more)
        call("TransformerDecoderLayer", batch_first, activation="gelu")
        call("TransformerDecoderLayer", batch_first, bias=False)
        call("TransformerDecoderLayer", batch_first, False, "eval", dropout=0.1, layer_norm_eps=0.01)
        call("TransformerDecoder", batch_first, num_layers=3)
    call("TransformerDecoderLayer", False, variant="no batch", sizes=((3, 4), (4, 4)))


def all_cases():
    return layers.collect(2718, cases)
