"""More families for draw.py: work whose kernels are chosen by its size and layout, from one element to some hundred
thousand: products, convolutions, pooling, recurrent layers, normalisation, reductions, broadcasting.
SPDX-License-Identifier: MIT"""
import math
import random

import torch
import torch.nn.functional as F

from drawn import BOOL, F64, I64, INT, P, Conv, Pool, Reduce, by, call, family, pick, real, shape, struct
from drawn.training import BatchNorm

Recurrent = struct(("reverse", BOOL), ("relu", BOOL), ("c_n", P))
MOST = 1 << 24  # multiplications of one product


def size(most, least=1):
    """As often from 10 to 20 as from 100 to 200; often beside a whole number of vectors or tiles."""
    n = round(math.exp(random.uniform(math.log(least), math.log(most))))
    if random.random() < 0.4:
        n = round(n / 16) * 16 + pick(0, 0, 0, -1, 1)
    return min(max(n, least), most)


def bounded(most, *limits):
    """Sizes up to the limits, whose product is at most `most`."""
    while True:
        found = [size(limit) for limit in limits]
        if math.prod(found) <= most:
            return found


def laid(*dims):
    """A tensor of these sizes, and what gives it from one that lies another way: as it is, its last two dimensions
    exchanged, or a part of wider rows."""
    way = pick("plain", "plain", "turned", "part")
    if way == "turned":
        a, b = len(dims) - 2, len(dims) - 1
        return (real(*dims[:-2], dims[b], dims[a]), lambda t: t.transpose(a, b),
                lambda h: call("transpose", h, INT(a), INT(b)))
    if way == "part":
        last, start = len(dims) - 1, pick(1, 16)
        return (real(*dims[:-1], dims[-1] + start + 3), lambda t: t.narrow(last, start, dims[-1]),
                lambda h: call("narrow", h, INT(last), I64(start), I64(dims[-1])))
    return real(*dims), lambda t: t, lambda h: h


@family
def products():
    m, n, k = bounded(MOST, 800, 800, 800)
    kind = pick("matmul", "matmul", "linear", "bmm")
    many = [pick(2, 3, 8)] if kind == "bmm" and m * n * k < MOST / 8 else []
    a, of_a, own_a = laid(*many, m, k)
    b, of_b, own_b = laid(*many, *((n, k) if kind == "linear" else (k, n)))
    if kind == "linear":
        bias = [real(n)] if pick(True, False) else []
        return ([a, b, *bias], lambda a, b, *bias: F.linear(of_a(a), of_b(b), *bias),
                lambda a, b, *bias: call("linear", own_a(a), own_b(b), *(bias or [None])))
    return [a, b], lambda a, b: of_a(a) @ of_b(b), lambda a, b: call("matmul", own_a(a), own_b(b))


@family
def convolutions():
    kernel, stride, dilation = pick(1, 1, 3, 3, 3, 5, 7), pick(1, 1, 1, 2, 3), pick(1, 1, 1, 2)
    padding, few = pick(0, kernel // 2 * dilation, random.randint(0, kernel - 1)), pick(True, False)
    while True:
        batch, c, o = size(40), size(4 if few else 130), size(130)
        h, w = size(60, kernel * dilation), size(60, kernel * dilation)
        kind = pick("plain", "plain", "depthwise", "groups")
        groups = {"plain": 1, "depthwise": c, "groups": pick(2, 3, 4)}[kind]
        if kind == "depthwise":
            o = c * pick(1, 1, 2)
        if kind == "groups":
            c, o = groups * max(1, c // groups), groups * max(1, o // groups)
        if batch * c // groups * o * h * w * kernel * kernel <= 4 * MOST:
            break
    s = Conv(stride=shape(stride, stride), padding=shape(padding, padding), dilation=shape(dilation, dilation), groups=groups)
    bias = [real(o)] if pick(True, False) else []
    return ([real(batch, c, h, w), real(o, c // groups, kernel, kernel), *bias],
            lambda x, w, *b: F.conv2d(x, w, *(b or [None]), stride, padding, dilation, groups),
            lambda x, w, *b: call("conv2d", x, w, *(b or [None]), by(s)))


@family
def pools():
    kernel = pick(2, 2, 3)
    stride, padding = pick(kernel, 1, 2), pick(0, kernel // 2)
    batch, c, h, w = bounded(1 << 18, 20, 40, 80, 80)
    h, w = max(h, kernel), max(w, kernel)
    s = Pool(kernel=shape(kernel, kernel), stride=shape(stride, stride), padding=shape(padding, padding))
    name = pick("max_pool2d", "avg_pool2d")
    more = [None] if name == "max_pool2d" else []
    return ([real(batch, c, h, w)], lambda x: getattr(F, name)(x, kernel, stride, padding), lambda x: call(name, x, by(s), *more))


def step(kind, gates, h, c, weight, bias):
    """One step of a recurrent layer, as situ/ops/nn.h has it: h and c after it."""
    own = h @ weight.t()
    if kind == "rnn":
        return (gates + own).tanh(), c
    if kind == "lstm":
        i, f, g, o = (gates + own).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    (r, z, n), (r2, z2, n2) = gates.chunk(3, 1), (own if bias is None else own + bias).chunk(3, 1)
    z = (z + z2).sigmoid()
    return (1 - z) * (n + (r + r2).sigmoid() * n2).tanh() + z * h, c


@family
def recurrent():
    kind, reverse = pick("rnn", "lstm", "gru"), pick(False, True)
    parts = {"rnn": 1, "lstm": 4, "gru": 3}[kind]
    steps, batch, hidden = bounded(1 << 15, 20, 80, 300)
    o = Recurrent(reverse=reverse)
    bias = [real(parts * hidden)] if kind == "gru" and pick(True, False) else []
    cell = [real(batch, hidden)] if kind == "lstm" else []

    def theirs(gates, weight, h, *rest):
        c, b = (rest[0], None) if cell else (None, rest[0] if rest else None)
        rows = [None] * steps
        for t in reversed(range(steps)) if reverse else range(steps):
            rows[t] = h, c = step(kind, gates[t], h, c, weight, b)
        return torch.stack([h for h, c in rows])

    def ours(gates, weight, h, *rest):
        if kind == "rnn":
            return call("rnn_layer", gates, weight, h, by(o))
        if kind == "lstm":
            return call("lstm_layer", gates, weight, None, h, rest[0], by(o))
        return call("gru_layer", gates, weight, rest[0] if rest else None, h, by(o))
    return ([real(steps, batch, parts * hidden), real(parts * hidden, hidden) / hidden**0.5, real(batch, hidden), *cell,
             *bias], theirs, ours)


@family
def normalised():
    kind = pick("softmax", "log_softmax", "layer_norm", "group_norm", "batch_norm")
    dims = bounded(1 << 18, *([3000] * 3)[:pick(2, 3)])
    if kind in ("softmax", "log_softmax"):
        d = random.randrange(len(dims))
        return [real(*dims)], lambda x: getattr(F, kind)(x, d), lambda x: call(kind, x, INT(d))
    if kind == "layer_norm":
        own = dims[-1:]
        return ([real(*dims), real(*own), real(*own)], lambda x, w, b: F.layer_norm(x, own, w, b),
                lambda x, w, b: call(kind, x, shape(*own), w, b, F64(1e-5)))
    groups = pick(1, 2, 4) if kind == "group_norm" else 1
    dims[0], dims[1] = dims[0] + 1, -(-dims[1] // groups) * groups  # torch wants more than one value for a channel
    weights = [real(dims[1]), real(dims[1])]
    if kind == "group_norm":
        return ([real(*dims), *weights], lambda x, w, b: F.group_norm(x, groups, w, b),
                lambda x, w, b: call(kind, x, I64(groups), w, b, F64(1e-5)))
    o = BatchNorm(True, 0.1, 1e-5)
    return ([real(*dims), *weights], lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
            lambda x, w, b: call(kind, x, None, None, w, b, by(o)))


@family
def reductions():
    dims = bounded(1 << 18, *([3000] * 4)[:pick(1, 2, 3, 4)])
    x, of_x, own_x = laid(*dims) if len(dims) > 1 else (real(*dims), lambda t: t, lambda h: h)
    over, keep = random.sample(range(len(dims)), random.randint(1, len(dims))), pick(False, True)
    name = pick("sum", "mean", "sum", "amax", "amin")
    o = Reduce(shape(*over), keep, 0)
    return [x], lambda x: getattr(of_x(x), name)(over, keep), lambda x: call(name, own_x(x), by(o))


@family
def broadcast():
    """Two operands, each broadcast along some dimensions and laid its own way."""
    dims = bounded(1 << 17, *([2000] * 3)[:pick(2, 3)])
    a, of_a, own_a = laid(*[d if random.random() < 0.8 else 1 for d in dims])
    b, of_b, own_b = laid(*[d if random.random() < 0.6 else 1 for d in dims])
    name = pick("add", "mul", "sub", "maximum", "hypot")
    return ([a, b], lambda a, b: getattr(torch, name)(of_a(a), of_b(b)), lambda a, b: call(name, own_a(a), own_b(b)))
