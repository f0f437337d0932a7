"""Golden cases of recurrent layers and cells, as those of layers.py: hx are the inputs h and c, and the results h_n
and c_n, each with a gradient of its own.
SPDX-License-Identifier: MIT"""
import torch
from torch import nn

import gold
from picks import r


def case(kind, x, hx=(), variant="", training=True, seeded=True, **arguments):
    module = getattr(nn, kind)(**arguments).train(training)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn_like(p) * 0.5)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    leaves = {n: v.clone().requires_grad_() for n, v in zip(("input", "h", "c"), (x, *hx))}
    given = tuple(v for n, v in leaves.items() if n != "input")
    result = module(leaves["input"], *([given if "LSTM" in kind else given[0]] if given else []))
    if kind.endswith("Cell"):
        result = (result[0], result) if isinstance(result, tuple) else (result, result)
    y, states = result
    results = [y, *(states if isinstance(states, tuple) else (states, ))]
    seeds = [torch.randn_like(v) if i == 0 or seeded else None for i, v in enumerate(results)]
    torch.autograd.backward([v for v, s in zip(results, seeds) if s is not None], [s for s in seeds if s is not None])
    grads = [(n, v.grad) for n, v in leaves.items()] + [("state." + n, p.grad) for n, p in module.named_parameters()]
    inputs = [(n, v.detach()) for n, v in leaves.items()] + [("state." + n, v) for n, v in state.items()]
    attrs = [(n, float(v) if n == "dropout" else v) for n, v in arguments.items()] + [("training", training)]
    outputs = [(n, v.detach(), s) for n, v, s in zip(("output", "h_n", "c_n"), results, seeds)]
    return gold.Case("nn." + kind.lower(), variant, inputs, attrs, outputs, grads)


def packed(kind, lengths, x, hx=(), enforce_sorted=False, total=0, value=0.0, **arguments):
    """Packs padded input, calls the layer and pads its output; the results and gradients of case()."""
    module = getattr(nn, kind)(**arguments)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn_like(p) * 0.5)
    state = {name: p.detach().clone() for name, p in module.named_parameters()}
    leaves = {n: v.clone().requires_grad_() for n, v in zip(("input", "h", "c"), (x, *hx))}
    given = tuple(v for n, v in leaves.items() if n != "input")
    batch_first = arguments.get("batch_first", False)
    sequence = nn.utils.rnn.pack_padded_sequence(leaves["input"], torch.tensor(lengths), batch_first, enforce_sorted)
    y, after = module(sequence, *([given if kind == "LSTM" else given[0]] if given else []))
    y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first, value, total or None)
    results = [y, *(after if isinstance(after, tuple) else (after, ))]
    seeds = [torch.randn_like(v) for v in results]
    torch.autograd.backward(results, seeds)
    grads = [(n, v.grad) for n, v in leaves.items()] + [("state." + n, p.grad) for n, p in module.named_parameters()]
    inputs = [(n, v.detach()) for n, v in leaves.items()] + [("state." + n, v) for n, v in state.items()]
    attrs = list(arguments.items()) + [("lengths", lengths), ("enforce_sorted", enforce_sorted),
                                       ("total_length", total), ("padding_value", value)]
    outputs = [(n, v.detach(), s) for n, v, s in zip(("output", "h_n", "c_n"), results, seeds)]
    return gold.Case("nn." + kind.lower(), "packed", inputs, attrs, outputs, grads)


def packed_cases(kind):
    size = {"input_size": 3, "hidden_size": 4}
    yield packed(kind, (5, 3, 3, 1), r(5, 4, 3), enforce_sorted=True, **size)
    yield packed(kind, (2, 5, 1, 5), r(5, 4, 3), states(kind, 2, 4, 4, 4), bidirectional=True, **size)
    yield packed(kind, (1, 4, 2), r(3, 6, 3), num_layers=2, bidirectional=True, batch_first=True, total=6, value=-1.5,
                 **size)
    yield packed(kind, (3, ), r(4, 1, 3), bias=False, bidirectional=True, **size)
    yield packed(kind, (2, 2, 2), r(2, 3, 3), states(kind, 1, 3, 4, 4), **size)


def states(kind, count, batch, width, hidden):
    sizes = (count, ) if batch is None else (count, batch)
    return (r(*sizes, width), r(*sizes, hidden)) if kind == "LSTM" else (r(*sizes, width), )


def layers(kind):
    size = {"input_size": 3, "hidden_size": 4}
    yield case(kind, r(5, 2, 3), **size)
    yield case(kind, r(5, 2, 3), seeded=False, variant="output only", **size)
    yield case(kind, r(5, 2, 3), bias=False, **size)
    yield case(kind, r(1, 1, 3), states(kind, 1, 1, 4, 4), **size)
    yield case(kind, r(2, 5, 3), states(kind, 1, 2, 4, 4), batch_first=True, **size)
    yield case(kind, r(5, 3), variant="no batch", **size)
    yield case(kind, r(5, 3), states(kind, 2, None, 4, 4), bidirectional=True, variant="no batch", **size)
    yield case(kind, r(5, 2, 3), states(kind, 4, 2, 4, 4), num_layers=2, bidirectional=True, **size)
    yield case(kind, r(2, 4, 3), num_layers=3, batch_first=True, dropout=0.5, training=False, **size)
    yield case(kind, r(4, 17, 3), input_size=3, hidden_size=17, variant="wide")


def all_cases():
    torch.manual_seed(1997)
    cases = []
    for kind in ("RNN", "LSTM", "GRU"):
        cases += layers(kind)
    for hx in ((), states("GRU", 2, 2, 4, 4)):
        cases.append(case("RNN", r(5, 2, 3), hx, input_size=3, hidden_size=4, nonlinearity="relu", bidirectional=True))
    for x, batch in ((r(5, 2, 3), 2), (r(5, 3), None)):
        cases.append(
            case("LSTM", x, states("LSTM", 2, batch, 2, 4), input_size=3, hidden_size=4, proj_size=2,
                 bidirectional=True, variant="projection"))
    cases.append(
        case("LSTM", r(5, 2, 3), num_layers=2, input_size=3, hidden_size=4, proj_size=2, bias=False,
             variant="projection"))
    for kind in ("RNN", "LSTM", "GRU"):
        for more in ({}, {"bias": False}):
            for sizes in ((2, ), ()):
                hx = tuple(r(*sizes, 4) for _ in range(2 if kind == "LSTM" else 1))
                cases.append(case(kind + "Cell", r(*sizes, 3), hx, input_size=3, hidden_size=4, **more))
        cases.append(case(kind + "Cell", r(2, 3), input_size=3, hidden_size=4))
    cases.append(case("RNNCell", r(2, 3), input_size=3, hidden_size=4, nonlinearity="relu"))
    for kind in ("RNN", "LSTM", "GRU"):
        cases += packed_cases(kind)
    cases.append(
        packed("LSTM", (1, 3), r(3, 2, 3), states("LSTM", 2, 2, 2, 4), input_size=3, hidden_size=4, proj_size=2,
               bidirectional=True))
    return cases
