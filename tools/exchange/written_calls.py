"""What onnx_written.py draws: arguments of the overloads that situ writes as ONNX, by their schemas and by families.
SPDX-License-Identifier: MIT"""
import glob
import os
import random
import re

import torch

from written_programs import PROGRAMS
from written_tensors import DTYPES, SHAPES, Drawing, Fixed, pick, tensor

HERE = os.path.dirname(os.path.abspath(__file__))


def overloads():
    """Those that have a form, and the ones in place of them."""
    names = []
    for path in sorted(glob.glob(os.path.join(HERE, "..", "..", "src", "program", "onnx", "write", "*.c"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for kind, name in re.findall(r'(?<!\w)(SIZED|VARIES|LOGICAL|BOTH|COMPARE)\("([\w.]+)"|', text):
            names += [name + ".Tensor", name + ".Scalar"] if kind in ("BOTH", "COMPARE") else [name] if name else []
        names += re.findall(r'^  \{ "([\w.]+)", \.', text, re.M)
    packets = [name.split(".") for name in names]
    packets = [p for p in packets if hasattr(torch.ops.aten, p[0]) and p[1] in getattr(torch.ops.aten, p[0]).overloads()]
    names = [".".join(p) for p in packets]  # some are situ's own
    names += [f"{packet}_.{overload}" for packet, overload in packets
              if hasattr(torch.ops.aten, packet + "_") and overload in getattr(torch.ops.aten, packet + "_").overloads()]
    return list(dict.fromkeys(names))


def operator(name):
    packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


# ---- by the schema ----

def dims_of(rank):
    return list(range(-rank, rank)) or [0, -1]


def broadcast_to(shape):
    """A shape that broadcasts with it."""
    kept = list(shape)[random.randint(0, len(shape)):] if random.random() < 0.4 else list(shape)
    return tuple(1 if random.random() < 0.25 else s for s in kept)


def by_schema(name):
    op = operator(name)
    shape, dtype = pick(*SHAPES), pick(*DTYPES)
    args, kwargs, first = [], {}, True
    for a in op._schema.arguments:
        kind, rank = str(a.type), len(shape)
        optional = a.has_default_value() and random.random() < 0.4
        if a.name in ("pin_memory", "non_blocking", "implicit", "layout", "memory_format", "generator"):
            continue
        if a.name == "device":
            args.append(torch.device("cpu")) if not a.kwarg_only and not a.has_default_value() else None
            continue
        if optional and a.kwarg_only:
            continue
        if optional:
            value = a.default_value
        elif "Tensor" in kind:
            own = shape if first else broadcast_to(shape)
            other = dtype if first or random.random() < 0.8 else pick(*DTYPES)
            value = tensor(own, other)
            if a.name == "mask" or a.name == "condition":
                value = tensor(own, torch.bool)
            first = False
        elif "number" in kind or "Scalar" in kind and "Type" not in kind:
            value = pick(1, 2, 3, 0.5, -1.5, -2, 0, 0.0, 2.5, 1e3, *([float("inf")] if random.random() < 0.1 else []))
            value = None if "Optional" in kind and random.random() < 0.3 else value
        elif kind == "float" or kind == "Optional[float]":
            value = pick(0.0, 0.5, 1.0, 2.0, -1.0, 3.0, 0.1)
        elif kind == "bool":
            value = random.random() < 0.5
        elif "List[int]" in kind:
            value = random.sample(dims_of(rank), random.randint(0, rank)) if rank else []
            value = [d for k, d in enumerate(value) if (d % max(rank, 1)) not in [e % max(rank, 1) for e in value[:k]]]
        elif "int" in kind and "ScalarType" not in kind and a.name != "dtype":
            value = pick(*dims_of(rank)) if "dim" in a.name or "axis" in a.name else pick(-2, -1, 0, 1, 2, 3)
            value = None if "Optional" in kind and random.random() < 0.3 else value
        elif a.name == "dtype" or "ScalarType" in kind:
            value = pick(torch.float32, torch.float64, torch.int64, torch.int32, torch.bool)
        elif "str" in kind:
            value = pick("none", "tanh", "floor", "trunc")
        else:
            value = a.default_value
        if a.kwarg_only:
            kwargs[a.name] = value
        else:
            args.append(value)
    return args, kwargs


# ---- families: (args, kwargs) ----

def sizes_for(numel):
    if numel == 0:
        return pick([0], [0, 2], [3, 0])
    if numel % 2 == 0:
        return pick([-1], [2, -1], [-1, 2], [2, numel // 2], [numel], [1, -1])
    return pick([-1], [numel], [1, numel], [-1, 1])


def call_view(name):
    x = tensor(pick((4,), (2, 3), (2, 3, 4), (0, 3), ()), pick(*DTYPES))
    return [x, sizes_for(x.numel())], {}


def call_as(name):
    x = tensor((2, 6))
    return [x, tensor(pick((3, 4), (12,), (2, 2, 3)))], {}


def call_unflatten(name):
    return [tensor((2, 6, 3)), pick(1, -2), pick([2, 3], [-1, 2], [6, 1])], {}


def call_expand(name):
    shape = pick((1, 3), (3,), (), (2, 1, 3), (1, 0))
    rank = len(shape)
    sizes = [pick(4, 1, 2, 0)] * pick(0, 1) + [pick(-1, s) if s != 1 else pick(-1, 1, 5, 0) for s in shape]
    return [tensor(shape), sizes if rank or sizes else [2, 3]], {}


def call_expand_as(name):
    return [tensor((1, 3)), tensor(pick((4, 3), (2, 4, 3), (0, 3), (1, 3)))], {}


def call_repeat(name):
    return [tensor(pick((2, 3), (3,), ())), pick([2, 1], [1, 3], [2, 0], [2, 1, 3], [1, 1])], {}


def call_repeat_interleave(name):
    return [tensor(pick((2, 3), (3,), (0, 2))), pick(1, 2, 3, 0), pick(None, 0, -1)], {}


def call_permute(name):
    shape = pick((2, 3), (2, 3, 4), ())
    order = list(range(len(shape)))
    random.shuffle(order)
    return [tensor(shape), [d - pick(0, len(shape)) for d in order]], {}


def call_movedim(name):
    pair = random.sample(range(3), 2)
    if name.endswith("intlist"):
        return [tensor((2, 3, 4)), pair, pick([0, 1], [-1, 0], [2, 1])], {}
    return [tensor((2, 3, 4)), pair[0] - pick(0, 3), pair[1] - pick(0, 3)], {}


def call_slice(name):
    return [tensor((5, 4), pick(*DTYPES)), pick(0, 1, -1), pick(None, 0, 1, -2, -9, 7), pick(None, 2, -1, 9, 0, 2**63 - 1),
            pick(1, 1, 2, 3)], {}


def call_narrow(name):
    start = pick(0, 1, 2, -1, -2, -4)
    return [tensor(pick((4,), (4, 3))), 0, start, random.randint(0, 4 - start % 4)], {}


def call_select(name):
    return [tensor(pick((4,), (4, 5), (2, 5, 4)), pick(*DTYPES)), pick(0, -1), pick(0, 1, -1, 3, -2)], {}


def call_roll(name):
    return [tensor(pick((5,), (3, 4), (0, 2)))] + list(pick(([1], [0]), ([-2], [0]), ([7], [-1]), ([2], []), ([1, -1], [0, -1]),
                                                      ([0], [0]))), {}


def call_as_strided(name):
    return [tensor((3, 4)), *pick(([2, 2], [1, 2]), ([3], [4]), ([2, 3], [0, 1]), ([2, 2], [4, 1]))], {}


def call_cat(name):
    rank, dtypes = pick(1, 2, 3), [pick(*DTYPES) for _ in range(3)]
    dim = pick(*dims_of(rank))
    sizes = [pick(2, 3) for _ in range(rank)]
    out = []
    for k in range(pick(1, 2, 3)):
        own = list(sizes)
        own[dim] = pick(0, 1, 2, 3)
        out.append(tensor(own, dtypes[k] if random.random() < 0.3 else dtypes[0]))
    if random.random() < 0.2:
        out.append(torch.zeros(0, dtype=dtypes[0]))
    return [out, dim], {}


def call_stack(name):
    shape, dtype = pick((), (3,), (2, 3), (0,)), pick(*DTYPES)
    return [[tensor(shape, dtype) for _ in range(pick(1, 2, 3))], pick(*dims_of(len(shape) + 1))], {}


def call_split(name):
    x, dim = tensor(pick((6,), (6, 2), (5, 2))), 0
    if "sizes" in name:
        n = x.shape[0]
        k = random.randint(0, n)
        return [x, [k, n - k], pick(dim, -x.dim())], {}
    if name.startswith("unbind"):
        return [x, pick(*dims_of(x.dim()))], {}
    return [x, pick(1, 2, 3, 4), pick(*dims_of(x.dim()))], {}


def call_triangle(name):
    return [tensor(pick((3, 3), (2, 4), (2, 3, 2), (0, 3), (1, 1)), pick(*DTYPES)), pick(0, 1, -1, 2, -5)], {}


def call_shuffle(name):
    r = pick(1, 2, 3)
    return [tensor((pick(1, 2, 0), 2 * r * r, 2, 3)) if "un" not in name else tensor((2, 1, 2 * r, r)), r], {}


def call_pad(name):
    x = tensor(pick((4,), (2, 4), (1, 2, 4), (1, 2, 4, 5), (0, 3)), pick(torch.float32, torch.float32, torch.int64, torch.bool))
    pads = [pick(0, 1, 2, -1, 3) for _ in range(2 * random.randint(1, x.dim()))]
    if name.startswith("constant"):
        return [x, pads, pick(0, 2.5, 1, -3)], {}
    mode = pick("constant", "constant", "reflect", "replicate", "circular")
    return [x, pads, mode, pick(None, 1.5, 0, 2) if mode == "constant" else None], {}


def call_factory(name):
    value, sizes = pick(0, 1, 2.5, -3, True, 7), pick([], [3], [2, 0], [2, 3])
    dtype = pick(torch.float32, torch.int64, torch.float64, torch.bool, torch.int32)
    options = {"dtype": dtype} if random.random() < 0.7 else {}
    if name.startswith("full_like"):
        return [tensor(pick(*SHAPES), pick(*DTYPES)), value], options
    if name.startswith("new_full"):
        return [tensor((2,), pick(*DTYPES)), sizes, value], options
    if name.startswith("new_"):
        return [tensor((2,), pick(*DTYPES)), sizes], options
    if name.startswith("full"):
        return [sizes, value], options
    if name.startswith("scalar"):
        return [value], options
    return [sizes], options


def call_arange(name):
    numbers = pick((5,), (0,), (2.5,), (-1,) if name == "arange.start" else (3,))
    if name == "arange.start":
        numbers = pick((2, 7), (0.5, 3.0), (5, 5), (-3, 2))
    if name == "arange.start_step":
        numbers = pick((2, 9, 3), (9, 2, -2), (0.0, 1.0, 0.25), (0, 5, 7), (2**53, 2**53 + 4, 1))
    return list(numbers), pick({}, {"dtype": torch.float32}, {"dtype": torch.int64}, {"dtype": torch.float64})


def matrices(*shapes):
    dtype = pick(torch.float32, torch.float32, torch.float64)
    return [tensor(s, dtype) for s in shapes], {}


def call_linear(name):
    lead = pick((), (3,), (2, 3), (0,), (1, 0))
    return matrices(lead + (4,), (5, 4), *([(5,)] if random.random() < 0.7 else []))


def call_products(name):
    k = pick(4, 1, 0)
    if name.startswith("matmul"):
        return matrices(*pick(((k,), (k,)), ((2, k), (k,)), ((k,), (k, 3)), ((2, k), (k, 3)), ((2, 3, k), (k, 2)),
                              ((1, 2, k), (3, k, 2)), ((k,), (2, k, 3))))
    return matrices(*{"mm": ((2, k), (k, 3)), "bmm": ((2, 3, k), (2, k, 2)), "mv": ((2, k), (k,)), "dot": ((k,), (k,))}[
        name.split(".")[0]])


def call_addmm(name):
    batch = (2,) if name.startswith("badd") else ()
    args, _ = matrices(pick(batch + (2, 3), (3,), (1, 3), (2, 1)), batch + (2, 4), batch + (4, 3))
    return args, {"beta": pick(1, 0, 0.5), "alpha": pick(1, 2.0, -1)}


def call_einsum(name):
    equation, *shapes = pick(("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)), ("ii->i", (3, 3)),
                             ("ij->ji", (2, 3)), ("i,j->ij", (2,), (0,)), ("...ij->...i", (2, 3, 2)))
    return [equation, matrices(*shapes)[0]], {}


def spatial_of(name):
    return int(re.search(r"([123])d", name).group(1)) if re.search(r"([123])d", name) else pick(1, 2)


def call_conv(name):
    d, groups = spatial_of(name), pick(1, 1, 2)
    back = "transpose" in name
    kernel = [pick(1, 2, 3) for _ in range(d)]
    lead = () if random.random() < 0.15 and "convolution" not in name else (pick(1, 2, 0) if not back else pick(1, 2),)
    x = tensor(lead + (2 * groups,) + tuple(pick(5, 6, 7) for _ in range(d)))
    weight = tensor((2 * groups, 3, *kernel)) if back else tensor((3 * groups, 2, *kernel))
    bias = tensor((3 * groups,)) if random.random() < 0.6 else None
    each = lambda *v: [pick(*v) for _ in range(d)]  # noqa: E731
    if name.startswith("convolution"):
        turned = random.random() < 0.4
        w = tensor((2 * groups, 3, *kernel)) if turned else weight
        return [x, w, bias, each(1, 2), each(0, 1), each(1, 2), turned, [0] * d, groups], {}
    if "padding" in name:
        same = random.random() < 0.6
        return [x, weight, bias, [1] * d if same else each(1, 2), "same" if same else "valid", each(1, 2), groups], {}
    if back:
        stride = each(1, 2, 3)
        return [x, weight, bias, stride, each(0, 1), [random.randint(0, s - 1) for s in stride], groups, each(1, 2)], {}
    return [x, weight, bias, pick(each(1, 2, 3), [2]), each(0, 1, 2), each(1, 2), groups], {}


def call_pool(name):
    d = spatial_of(name)
    x = tensor(tuple(pick((1, 2), (2,), (2, 1))) + tuple(pick(5, 6, 7) for _ in range(d)))
    kernel = [pick(1, 2, 3) for _ in range(d)]
    stride, padding = pick([], [pick(1, 2, 3) for _ in range(d)]), [random.randint(0, k // 2) for k in kernel]
    if name.startswith("max"):
        return [x, kernel, stride, padding, [pick(1, 1, 2) for _ in range(d)], random.random() < 0.4], {}
    return [x, kernel, stride, padding, random.random() < 0.4, random.random() < 0.5], {}


def call_adaptive(name):
    d = spatial_of(name)
    x = tensor(tuple(pick((1, 2), (2,))) + tuple(pick(1, 4, 5, 6) for _ in range(d)))
    return [x, [pick(1, 1, 2, 3, 6) for _ in range(d)]], {}


def call_attention(name):
    lead, queries, keys = pick((2, 2), (1,), ()), pick(1, 3), pick(1, 4)
    q, k, v = tensor(lead + (queries, 8)), tensor(lead + (keys, 8)), tensor(lead + (keys, pick(8, 4)))
    mask = pick(None, tensor((queries, keys), torch.bool), tensor((queries, keys)), torch.zeros(queries, keys, dtype=torch.bool),
                torch.full((queries, keys), float("-inf")))
    causal = mask is None and random.random() < 0.5
    return [q, k, v, None if mask is None else Fixed(mask), 0.0, causal], {"scale": pick(None, 0.3)}


def call_embedding(name):
    return [tensor((5, 3)), Fixed(torch.randint(0, 5, pick((), (4,), (2, 3), (0,))))], {}


def call_dropout(name):
    return [tensor((2, 3)), 0.5, False], {}


def call_prelu(name):
    shape = pick((), (4,), (2, 3), (2, 3, 4), (0, 3))
    wide = random.random() < 0.5 and len(shape) >= 2
    weight = (shape[1],) if wide else (1,)
    if name.startswith("_"):
        weight = (1, shape[1]) + (1,) * (len(shape) - 2) if wide else (1,) * max(len(shape), 1)
        weight = () if not shape else weight
    return [tensor(shape), Fixed(tensor(weight))], {}


def call_softmax(name):
    x = tensor(pick((), (4,), (2, 3), (0, 3), (2, 0), (2, 3, 2)))
    last = False if name.startswith("_") else pick(None, None, torch.float64)
    return [x, pick(*dims_of(x.dim())), last], {}


def call_upsample(name):
    d = spatial_of(name)
    x = tensor((pick(1, 2), 2) + tuple(pick(1, 2, 4, 5) for _ in range(d)))
    sized = random.random() < 0.6
    size = [pick(1, 1, 2, 3, 7, 8) for _ in range(d)] if sized else None
    scale = None if sized else [pick(2.0, 0.5, 1.5, 3.0, 0.3) for _ in range(d)]
    if "nearest" in name:
        return [x, size, scale], {}
    return [x, size, random.random() < 0.5, scale], {}


def call_batch_norm(name):
    x, c = tensor(pick((2, 3), (2, 3, 4), (1, 3, 2, 2), (0, 3))), 3
    own = lambda: tensor((c,))  # noqa: E731
    weight, bias = (own(), own()) if random.random() < 0.6 else (None, None)
    mean, var = own(), own().abs() + 0.1
    if name.startswith("batch"):
        return [x, weight, bias, mean, Fixed(var), False, 0.1, pick(1e-5, 0.1), True], {}
    if name.endswith("no_stats"):
        return [x, weight, bias, True, 0.1, 1e-5], {}
    return [x, weight, bias, mean, Fixed(var), 0.1, 1e-5], {}


def call_instance_norm(name):
    x = tensor(pick((2, 3, 4), (1, 3, 2, 2), (2, 3, 5)))
    weight, bias = (tensor((3,)), tensor((3,))) if random.random() < 0.6 else (None, None)
    own = random.random() < 0.6
    return [x, weight, bias, None if own else tensor((3,)), None if own else Fixed(tensor((3,)).abs() + 0.1), own, 0.1, 1e-5,
            True], {}


def call_layer_norm(name):
    normalized = pick((4,), (3, 4), (1,))
    x = tensor(pick((2,), (2, 3), (0,), ()) + normalized)
    weight, bias = pick(None, tensor(normalized)), pick(None, tensor(normalized))
    if name.startswith("rms"):
        return [x, list(normalized), weight, pick(None, 1e-6, 0.1)], {}
    return [x, list(normalized), weight, bias, pick(1e-5, 0.1)], {}


def call_group_norm(name):
    x = tensor(pick((2, 4), (2, 4, 3), (1, 4, 2, 2), (0, 4, 3)))
    weight, bias = (tensor((4,)), tensor((4,))) if random.random() < 0.6 else (None, None)
    groups = pick(1, 2, 4)
    if name.startswith("native"):
        rest = x[0, 0].numel() if x.numel() else 3
        return [x, weight, bias, x.shape[0], 4, rest, groups, 1e-5], {}
    return [x, groups, weight, bias, 1e-5, True], {}


def call_weight_norm(name):
    return [tensor((3, 4)), tensor((3, 1)), 0], {}


def call_index(name):
    x = tensor((4, 5, 3), pick(torch.float32, torch.int64))
    where = lambda n, shape: Fixed(torch.randint(-n, n, shape))  # noqa: E731
    shape = pick((2,), (), (2, 3), (0,))
    return [x, pick([where(4, shape)], [None, where(5, shape)], [where(4, shape), where(5, shape)], [None, None, where(3, shape)],
                    [where(4, (2, 1)), where(5, (3,))])], {}


def call_index_put(name):
    args, _ = call_index(name)
    x, indices = args
    picked = [i.tensor if i is not None else None for i in indices]
    value = x[tuple(slice(None) if i is None else i for i in picked)] if picked else x
    gather = random.random() < 0.5
    if not gather:  # of equal places any may win
        n = min(3, x.shape[0])
        indices, value = [Fixed(torch.randperm(4)[:n])], x[:n]
    return [x, indices, pick(tensor(value.shape, x.dtype), tensor((), x.dtype)), gather], {}


def call_index_select(name):
    return [tensor(pick((4,), (4, 3)), pick(*DTYPES)), 0, Fixed(torch.randint(0, 4, pick((3,), (0,), ())))], {}


def call_gather(name):
    x = tensor(pick((4, 3), (3, 3), ()))
    index = torch.randint(0, 3, (2, 3) if x.dim() else ())
    return [x, 0, Fixed(index)], {}


def call_scatter(name):
    x = tensor((4, 3), pick(torch.float32, torch.int64))
    index = torch.stack([torch.randperm(4)[:2] for _ in range(3)], 1)
    return [x, 0, Fixed(index), pick(2.5, 3) if name.endswith("value") else tensor((2, 3), x.dtype)], {}


def call_index_add(name):
    x = tensor((4, 3), pick(torch.float32, torch.int64))
    return [x, 0, Fixed(torch.randint(0, 4, (2,))), tensor((2, 3), x.dtype)], {"alpha": pick(1, 2)}


def call_one_hot(name):
    return [Fixed(torch.randint(0, 4, pick((3,), (), (2, 2)))), 5], {}


def call_topk(name):
    x = tensor(pick((5,), (2, 5)), plain=True)
    return [x, pick(0, 1, 3), pick(-1, x.dim() - 1), random.random() < 0.5, True], {}


def call_sort(name):
    x = tensor(pick((5,), (2, 4), (0,)), plain=True)
    if "stable" in name:
        return [x], {"stable": True, "dim": -1, "descending": random.random() < 0.5}
    return [x, pick(*dims_of(x.dim())), random.random() < 0.5], {}


def call_norm(name):
    x = tensor(pick((), (4,), (2, 3), (0,), (0, 3)))
    p, dims = pick(2, 1, 0, 3, 0.5, float("inf"), float("-inf")), pick(None, [-1], [0])
    if name.startswith("norm."):
        return [x, p, dims or [], random.random() < 0.5], {}
    return [x, p, dims, random.random() < 0.5], {}


def call_variance(name):
    x = tensor(pick((4,), (2, 3), (1,), (0, 3), ()))
    return [x, pick(None, [-1], [0], [])], {"correction": pick(0, 1, 2, None), "keepdim": random.random() < 0.5}


def call_recurrent(name):
    gates, hidden, layers, directions = {"l": 4, "g": 3, "r": 1}[name[0]], 3, pick(1, 2), pick(1, 2)
    batch_first, biases, n = random.random() < 0.5, random.random() < 0.7, pick(1, 2)
    x = tensor((n, 4, 5) if batch_first else (4, n, 5))
    h = tensor((layers * directions, n, hidden))
    params = []
    for layer in range(layers):
        for _ in range(directions):
            width = 5 if layer == 0 else hidden * directions
            shapes = [(gates * hidden, width), (gates * hidden, hidden)] + [(gates * hidden,)] * (2 * biases)
            params += [tensor(s) / 2 for s in shapes]
    state = [h, tensor(h.shape)] if gates == 4 else h
    return [x, state, params, biases, layers, 0.0, False, directions == 2, batch_first], {}


FAMILIES = [
    (r"(view|_unsafe_view|reshape)\.default", call_view), (r"(view_as|reshape_as)\.", call_as), (r"unflatten", call_unflatten),
    (r"expand\.", call_expand), (r"expand_as", call_expand_as), (r"repeat\.", call_repeat),
    (r"repeat_interleave", call_repeat_interleave), (r"permute", call_permute), (r"movedim", call_movedim),
    (r"slice\.", call_slice), (r"narrow", call_narrow), (r"select\.int", call_select), (r"roll", call_roll),
    (r"as_strided", call_as_strided), (r"(cat|concat)\.", call_cat), (r"stack", call_stack),
    (r"(split|split_with_sizes|chunk|unbind)\.", call_split), (r"tri[lu]", call_triangle), (r"pixel_", call_shuffle),
    (r"(pad|constant_pad_nd)\.", call_pad),
    (r"(zeros|ones|empty|full|new_zeros|new_ones|new_empty|new_full|scalar_tensor|full_like)\.", call_factory),
    (r"arange", call_arange), (r"linear\.", call_linear), (r"(mm|bmm|mv|dot|matmul)\.", call_products),
    (r"(addmm|baddbmm)_?\.", call_addmm), (r"einsum", call_einsum), (r"conv", call_conv), (r"(max|avg)_pool", call_pool),
    (r"_?adaptive", call_adaptive), (r"scaled_dot", call_attention), (r"embedding", call_embedding),
    (r"dropout", call_dropout), (r"(prelu|_prelu_kernel)\.", call_prelu), (r"_?(log_)?softmax", call_softmax),
    (r"upsample", call_upsample), (r"(batch_norm|_native_batch_norm)", call_batch_norm), (r"instance_norm", call_instance_norm),
    (r"(layer_norm|native_layer_norm|rms_norm)", call_layer_norm), (r"(native_)?group_norm", call_group_norm),
    (r"_weight_norm", call_weight_norm), (r"index\.", call_index), (r"index_put", call_index_put),
    (r"index_select", call_index_select), (r"gather", call_gather), (r"scatter", call_scatter), (r"index_add", call_index_add),
    (r"one_hot", call_one_hot), (r"topk", call_topk), (r"(sort|argsort)\.", call_sort),
    (r"(norm|linalg_vector_norm)\.", call_norm), (r"(var|std)\.", call_variance), (r"(lstm|gru|rnn_\w+)\.", call_recurrent),
]

# What is exact where its operands are: no sums.
EXACT = re.compile(r"softmax|norm|conv|pool|linear|m[mv]\.|dot|einsum|attention|lstm|gru|rnn|upsample|sum|mean|var|std|logsumexp|"
                   r"prod|index_add|scatter_add|lerp|addc|erfc|softplus|log_sigmoid|mish|silu|gelu|selu|elu|celu|logit|atan2|"
                   r"remainder|fmod|floor|matmul|bmm|sin|cos|tan|index_put|diff|tanh|sigmoid|asinh|acosh|atanh|hardswish")


DIVIDES = r"div|floor_divide|fmod|remainder"  # by 0 there is no whole number
# Kernels that sum what they multiply by 0, or compare windows, have their own ideas of NaN and infinities; numbers that a
# dtype does not hold are cast in any way.
FINITE = re.compile(r"type_as|_?log_softmax|a?max|a?min|arg|sum|prod|norm|linalg_vector|conv|max_pool|avg_pool|linear|m[mv]\.|dot|einsum|matmul|bmm|addmm|baddbmm|scaled_dot|upsample|"
                    r"batch_norm|_native|instance|layer_norm|native_|group|rms|_weight_norm|lstm|gru|rnn")


def draw_program(name, module):
    fn, maker, state = PROGRAMS[name]()
    inputs = maker(4)
    dynamic = [{d: torch.export.Dim.AUTO for d, (s, other) in enumerate(zip(a.shape, b.shape)) if s != other}
               for a, b in zip(inputs, maker(5))]
    m = module(fn, state)
    return Drawing(m, inputs, set(), (tuple(dynamic),) if not state else None, "", 1,
                   () if state else [lambda: maker(7), lambda: maker(2), lambda: maker(3)], "attention" in name)


def draw(name, module):
    if name in PROGRAMS:
        return draw_program(name, module)
    plain = re.sub(r"_\.", ".", name)
    family = next((fn for pattern, fn in FAMILIES if re.match(pattern, plain)), by_schema)
    args, kwargs = family(plain if family is not by_schema else name)
    inputs, fixed = [], set()

    def take(value):
        if isinstance(value, Fixed):
            fixed.add(len(inputs))
            value = value.tensor
        if isinstance(value, torch.Tensor):
            inputs.append(value)
            return lambda tensors, k=len(inputs) - 1: tensors[k]
        if isinstance(value, list):
            items = [take(v) for v in value]
            return lambda tensors: [item(tensors) for item in items]
        return lambda tensors: value

    if re.match(DIVIDES, plain):
        args = args[:1] + [a.masked_fill(a == 0, 1) if isinstance(a, torch.Tensor) and not a.is_floating_point() else a
                           for a in args[1:]]
    plan, named, op = [take(a) for a in args], {k: take(v) for k, v in kwargs.items()}, operator(name)
    in_place = op._schema.is_mutable
    text = ", ".join(f"{a.dtype} {list(a.shape)}" if isinstance(a, torch.Tensor) else str(a)
                     for a in (v.tensor if isinstance(v, Fixed) else v for v in args)).replace("torch.", "")
    if not inputs:
        inputs.append(torch.zeros(2))

    def fn(*tensors):
        if in_place:
            tensors = (tensors[0].clone(), *tensors[1:])
        return op(*[a(tensors) for a in plan], **{k: v(tensors) for k, v in named.items()})

    dynamic = None
    first = inputs[0]
    if random.random() < 0.3 and first.dim() and first.shape[0] > 1:
        n = torch.export.Dim("n", min=2)
        dynamic = (tuple({0: n} if t.dim() == first.dim() and t.shape[0] == first.shape[0] else {} for t in inputs),)
    return Drawing(module(fn, {}), inputs, fixed, dynamic, f"({text} {kwargs or ''})", 30 if plain.startswith("gru") else 1 if EXACT.search(plain) else 0,
                   finite=bool(FINITE.match(plain)) or any(t in str(kwargs) + text for t in ("int", "bool") if "to" in plain or "dtype" in kwargs),
                   divides=bool(re.match(DIVIDES, plain)))
