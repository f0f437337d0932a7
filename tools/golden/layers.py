"""Golden cases of the nn layers: constructor arguments, torch's state_dict, input, output, gradients.
SPDX-License-Identifier: MIT

op is "nn.<class in lower case>"; the attributes are the constructor's arguments and `training`; an input is an
argument of the call, or state.<name> of the state_dict before it; outputs are the results and state.<name> of
each buffer after the call; gradients are those of the inputs and of state.<parameter>."""
import torch
from torch import nn

import gold
from picks import ints, r, t, turned

_made = []


MADE = {}  # in place of torch.nn's


def layer(kind, call, training=True, variant="", **arguments):
    """Builds the layer with random parameters, calls it and keeps everything."""
    module = (MADE.get(kind) or getattr(nn, kind))(**arguments)
    if kind.startswith("Lazy"):
        module(*call.values())
    call = {name: value for name, value in call.items() if value is not None}
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn_like(p) * 0.5)
        for name, b in module.named_buffers():
            b.copy_(torch.rand_like(b) + 0.5) if b.is_floating_point() else b.fill_(3)
    module.train(training)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    leaves = {
        name: value.clone().requires_grad_() if value.is_floating_point() and "mask" not in name else value
        for name, value in call.items() if isinstance(value, torch.Tensor)
    }
    result = module(**{**call, **leaves})
    results = [y for y in (result if isinstance(result, tuple) else (result, )) if y is not None]
    names = ["output", "weights"][:len(results)]
    seeds = [torch.randn(y.shape) if i == 0 and y.requires_grad else None for i, y in enumerate(results)]
    grads = []
    if seeds[0] is not None:
        results[0].backward(seeds[0])
        grads = [(n, x.grad) for n, x in leaves.items() if x.grad is not None]
        grads += [("state." + n, p.grad) for n, p in module.named_parameters() if p.grad is not None]
    inputs = [(n, x.detach()) for n, x in leaves.items()] + [("state." + n, v) for n, v in before.items()]
    stated = list(arguments.items())
    stated += [("call." + n, v) for n, v in call.items() if not isinstance(v, torch.Tensor)]
    attrs = [(n, v) if v is not None else ("cumulative", True) for n, v in stated]
    attrs = [(n, float(v) if n in ("p", "eps", "momentum", "dropout") else v) for n, v in attrs]
    outputs = [(n, y.detach(), s) for n, y, s in zip(names, results, seeds)]
    outputs += [("state." + n, b.clone(), None) for n, b in module.named_buffers()]
    _made.append(
        gold.Case("nn." + kind.lower(), variant, inputs, attrs + [("training", training)], outputs, grads))


def plain_layers():
    for bias in (True, False):
        for shape in ((3, ), (2, 3), (2, 4, 3)):
            layer("Linear", {"input": r(*shape)}, in_features=3, out_features=5, bias=bias)
        layer("Bilinear", {"input1": r(2, 3), "input2": r(2, 4)}, in1_features=3, in2_features=4, out_features=5, bias=bias)
        layer("Conv1d", {"input": r(2, 4, 7)}, in_channels=4, out_channels=6, kernel_size=3, stride=2,
              padding=1, groups=2, bias=bias)
        layer("Conv1d", {"input": r(4, 7)}, in_channels=4, out_channels=2, kernel_size=2, dilation=2,
              bias=bias)
        layer("Conv2d", {"input": r(2, 4, 6, 5)}, in_channels=4, out_channels=6, kernel_size=[3, 2],
              stride=[2, 1], padding=[1, 0], bias=bias)
        layer("Conv2d", {"input": r(1, 4, 6, 5)}, in_channels=4, out_channels=4, kernel_size=3, padding=1,
              groups=4, dilation=2, bias=bias)
        layer("ConvTranspose2d", {"input": r(2, 4, 3, 3)}, in_channels=4, out_channels=2, kernel_size=[3, 2],
              stride=2, padding=1, output_padding=1, groups=2, bias=bias)
        layer("ConvTranspose2d", {"input": r(1, 2, 3, 3)}, in_channels=2, out_channels=3, kernel_size=2,
              dilation=2, bias=bias)
    layer("Embedding", {"input": torch.tensor([[1, 0], [4, 1]])}, num_embeddings=5, embedding_dim=3)
    layer("Embedding", {"input": torch.tensor([1, 0, 2, 2])}, num_embeddings=5, embedding_dim=3,
          padding_idx=2)
    layer("LazyLinear", {"input": r(2, 3)}, out_features=4)
    layer("LazyLinear", {"input": r(2, 2, 3)}, out_features=2, bias=False)
    for kind in ("ReLU", "Sigmoid", "Tanh", "SiLU", "GELU"):
        layer(kind, {"input": r(3, 4)})
    layer("GELU", {"input": r(3, 4)}, approximate="tanh")
    layer("LeakyReLU", {"input": r(3, 4)})
    layer("LeakyReLU", {"input": r(3, 4)}, negative_slope=0.2)
    layer("ELU", {"input": r(3, 4)})
    layer("ELU", {"input": r(3, 4)}, alpha=0.5)
    layer("Softplus", {"input": r(3, 4)})
    layer("Softplus", {"input": r(3, 4)}, beta=2.0, threshold=1.0)
    layer("Hardtanh", {"input": r(3, 4)})
    layer("Hardtanh", {"input": r(3, 4)}, min_val=-0.5, max_val=0.25)
    for kind in ("Softmax", "LogSoftmax"):
        layer(kind, {"input": r(3, 4)}, dim=1)
        layer(kind, {"input": r(3, 4)}, dim=0)
    layer("Identity", {"input": r(3, 4)})
    for training in (True, False):
        layer("Dropout", {"input": r(3, 4)}, training, p=0.0 if training else 0.5)
    layer("Flatten", {"input": r(2, 3, 4)})
    layer("Flatten", {"input": r(2, 3, 4)}, start_dim=0, end_dim=1)
    layer("MaxPool2d", {"input": r(2, 3, 7, 6)}, kernel_size=2)
    layer("MaxPool2d", {"input": r(2, 3, 7, 6)}, kernel_size=3, stride=2, padding=1, ceil_mode=True)
    layer("AvgPool2d", {"input": r(2, 3, 7, 6)}, kernel_size=2)
    layer("AvgPool2d", {"input": r(2, 3, 7, 6)}, kernel_size=3, stride=2, padding=1, count_include_pad=False)
    layer("AdaptiveAvgPool2d", {"input": r(2, 3, 7, 6)}, output_size=[3, 2])
    layer("AdaptiveAvgPool2d", {"input": r(2, 3, 7, 6)}, output_size=1)


def norm_layers():
    for training in (True, False):
        for arguments in ({}, {"affine": False}, {"momentum": 0.3,
                                                  "eps": 0.01}, {"track_running_stats": False}):
            layer("BatchNorm1d", {"input": r(4, 3)}, training, num_features=3, **arguments)
            layer("BatchNorm1d", {"input": r(2, 3, 4)}, training, num_features=3, **arguments)
            layer("BatchNorm2d", {"input": r(2, 3, 4, 2)}, training, num_features=3, **arguments)
        layer("BatchNorm1d", {"input": r(4, 3)}, training, num_features=3, momentum=None,
              variant="cumulative average")
    for shape in ([4], [3, 4]):
        for affine in (True, False):
            layer("LayerNorm", {"input": r(2, 3, 4)}, normalized_shape=shape, elementwise_affine=affine)
            layer("RMSNorm", {"x": r(2, 3, 4)}, normalized_shape=shape, elementwise_affine=affine)
    layer("LayerNorm", {"input": r(2, 4)}, normalized_shape=[4], eps=0.1)
    layer("RMSNorm", {"x": r(2, 4)}, normalized_shape=[4], eps=0.1)
    layer("GroupNorm", {"input": r(2, 6, 4)}, num_groups=3, num_channels=6)
    layer("GroupNorm", {"input": r(2, 6, 4)}, num_groups=2, num_channels=6, affine=False)
    layer("GroupNorm", {"input": r(2, 6, 2, 2)}, num_groups=1, num_channels=6, eps=0.1)


def attention_layers():
    for batch_first in (False, True):
        for bias in (True, False):
            q = r(2, 3, 8)
            layer("MultiheadAttention", {"query": q, "key": q, "value": q}, embed_dim=8, num_heads=2,
                  bias=bias, batch_first=batch_first)
            layer("MultiheadAttention",
                  {"query": r(2, 3, 8), "key": r(2, 3, 8), "value": r(2, 3, 8), "need_weights": False},
                  embed_dim=8, num_heads=4, bias=bias, batch_first=batch_first)
        mask = torch.ones(3, 3, dtype=torch.bool).triu(1)  # here True means: do not look
        sizes = (2, 3, 8) if batch_first else (3, 2, 8)
        for form in (mask, torch.zeros(3, 3).masked_fill(mask, -torch.inf)):
            layer("MultiheadAttention",
                  {"query": r(*sizes), "key": r(*sizes), "value": r(*sizes), "attn_mask": form}, embed_dim=8,
                  num_heads=2, batch_first=batch_first, variant="mask")
        padding = torch.tensor([[False, False, True], [False, False, False]])
        layer("MultiheadAttention",
              {"query": r(*sizes), "key": r(*sizes), "value": r(*sizes), "key_padding_mask": padding},
              embed_dim=8, num_heads=2, batch_first=batch_first, variant="padding")
        for activation in ("relu", "gelu"):
            for norm_first in (False, True):
                layer("TransformerEncoderLayer", {"src": r(*sizes)}, d_model=8, nhead=2, dim_feedforward=12,
                      dropout=0.0, activation=activation, batch_first=batch_first, norm_first=norm_first)
        layer("TransformerEncoderLayer",
              {"src": r(*sizes), "src_mask": torch.zeros(3, 3).masked_fill(mask, -torch.inf)}, d_model=8,
              nhead=2, dim_feedforward=12, dropout=0.0, batch_first=batch_first, variant="mask")
        layer("TransformerEncoderLayer", {"src": r(*sizes)}, False, d_model=8, nhead=2, dim_feedforward=12,
              dropout=0.1, batch_first=batch_first, layer_norm_eps=0.01, variant="eval")


def loss_layers():
    for reduction in ("mean", "sum", "none"):
        for kind in ("MSELoss", "L1Loss", "SmoothL1Loss"):
            layer(kind, {"input": r(3, 4), "target": r(3, 4)}, reduction=reduction)
        layer("HuberLoss", {"input": r(3, 4), "target": r(3, 4)}, reduction=reduction, delta=0.7)
        layer("BCELoss", {"input": torch.rand(3, 4), "target": torch.rand(3, 4)}, reduction=reduction)
        layer("BCEWithLogitsLoss", {"input": r(3, 4), "target": torch.rand(3, 4)}, reduction=reduction)
        layer("KLDivLoss", {"input": r(3, 4).log_softmax(1), "target": r(3, 4).softmax(1)},
              reduction=reduction)
        layer("NLLLoss", {"input": r(3, 4).log_softmax(1), "target": ints(3, lo=0, hi=4)},
              reduction=reduction)
        layer("CrossEntropyLoss", {"input": r(3, 4), "target": ints(3, lo=0, hi=4)}, reduction=reduction)
        layer("CrossEntropyLoss", {"input": r(3, 4), "target": ints(3, lo=0, hi=4)}, reduction=reduction,
              label_smoothing=0.1)
    layer("KLDivLoss", {"input": r(3, 4).log_softmax(1), "target": r(3, 4).log_softmax(1)},
          reduction="batchmean", log_target=True)
    layer("SmoothL1Loss", {"input": r(3, 4), "target": r(3, 4)}, beta=0.5)
    layer("CrossEntropyLoss", {"input": r(3, 4), "target": t(1, 0, 3, dtype=torch.int64)}, ignore_index=0)


def collect(seed, *makers):
    _made.clear()
    torch.manual_seed(seed)
    for make in makers:
        make()
    return list(_made)


def all_cases():
    return collect(4242, plain_layers, norm_layers, attention_layers, loss_layers)
