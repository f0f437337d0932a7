"""What draw.py draws: calls of libsitu.so by ctypes, and families of calls with random sizes and options.
SPDX-License-Identifier: MIT"""
import ctypes as C
import random
import sys

import torch
import torch.nn.functional as F

lib = None
dtype = torch.float64  # of what is drawn
device = (1, 0)  # of situ's tensors: kind and index
DTYPES = {torch.bool: 1, torch.uint8: 2, torch.int64: 6, torch.float16: 7, torch.bfloat16: 8, torch.float32: 9,
          torch.float64: 10}


class Shape(C.Structure):
    _fields_ = [("ndim", C.c_int), ("dim", C.c_int64 * 8)]


class Options(C.Structure):
    _fields_ = [("dtype", C.c_int), ("device", C.c_uint16 * 2), ("requires_grad", C.c_bool), ("generator", C.c_void_p),
                ("memory_format", C.c_int)]


def struct(*fields):
    return type("Struct", (C.Structure,), {"_fields_": list(fields)})


def sized(*fields):
    """Makes structs of options that begin with their size."""
    kind = struct(("size", C.c_size_t), *fields)
    return lambda *values: kind(C.sizeof(kind), *values)


P, I64, F64, BOOL, INT = C.c_void_p, C.c_int64, C.c_double, C.c_bool, C.c_int
Pool = struct(("kernel", Shape), ("stride", Shape), ("padding", Shape), ("dilation", Shape), ("ceil_mode", BOOL),
              ("exclude_pad", BOOL), ("divisor_override", I64))
Conv = struct(("stride", Shape), ("padding", Shape), ("dilation", Shape), ("groups", I64), ("output_padding", Shape),
              ("same", BOOL), ("activation", INT))
Interpolate = struct(("size", Shape), ("scale_factor", F64 * 3), ("mode", INT), ("align_corners", BOOL),
                     ("recompute", BOOL), ("antialias", BOOL))
Grid = struct(("mode", INT), ("padding", INT), ("align_corners", BOOL))
Unfold = struct(("dilation", Shape), ("padding", Shape), ("stride", Shape))
Reduce = struct(("dim", Shape), ("keepdim", BOOL), ("dtype", INT))
CrossEntropy = struct(("weight", P), ("has_ignore", BOOL), ("ignore_index", I64), ("reduction", INT), ("smoothing", F64))
Bag = sized(("offsets", P), ("weights", P), ("mode", INT), ("last", BOOL), ("has_padding", BOOL), ("padding", I64),
             ("max_norm", F64), ("norm_type", F64), ("by_freq", BOOL))
Triplet = sized(("margin", F64), ("p", F64), ("eps", F64), ("swap", BOOL), ("reduction", INT))
MultiMargin = sized(("p", F64), ("margin", F64), ("weight", P), ("reduction", INT))
NONE = -sys.float_info.max
Backward = struct(("gradient", P), ("retain", BOOL), ("create", BOOL))
REDUCTIONS = ["mean", "sum", "none"]


def shape(*dims):
    return Shape(len(dims), (I64 * 8)(*dims))


def by(value):
    return C.byref(value)


class Refused(Exception):
    pass


def call(name, *args):
    """A call that gives a tensor. ctypes passes ints as int: sizes are I64(...)."""
    fn = getattr(lib, "situ_" + name)
    fn.restype = P
    got = fn(*args)
    if not got:
        raise Refused(C.cast(lib.situ_error_message, C.CFUNCTYPE(C.c_char_p))().decode())
    return P(got)


def there(t, gradient=False):
    t = t.detach().contiguous()
    o = Options(dtype=DTYPES[t.dtype], device=device, requires_grad=gradient)
    return call("from_host", P(t.data_ptr()), C.c_size_t(t.numel() * t.element_size()), shape(*t.shape), by(o))


def here(handle, dtype):
    lib.situ_numel.restype, lib.situ_size.restype = I64, I64
    sizes = [lib.situ_size(handle, k) for k in range(lib.situ_dim(handle))]
    out = torch.empty(sizes, dtype=dtype)
    if lib.situ_dtype_of(handle) != DTYPES[dtype]:
        raise Refused(f"another dtype than {dtype}")
    if lib.situ_copy_to_host(handle, P(out.data_ptr()), C.c_size_t(out.numel() * out.element_size())):
        raise Refused("copy")
    return out


# ---- families: each draws (inputs, of torch, of situ); inputs that are floating get gradients ----

FAMILIES = {}


def family(fn):
    FAMILIES[fn.__name__] = fn
    return fn


def pick(*values):
    return random.choice(values)


def real(*sizes):
    """Values among which some are equal, and some 0."""
    t = torch.randn(sizes, dtype=dtype)
    return (t * 2).round() / 2 if random.random() < 0.4 else t


def pool_options(dims, most):
    k = [pick(1, 2, 3) for _ in range(dims)]
    o = dict(kernel_size=k, stride=[pick(1, 2, 3) for _ in range(dims)], padding=[pick(0, x // 2) for x in k],
             ceil_mode=pick(False, True))
    s = Pool(kernel=shape(*k), stride=shape(*o["stride"]), padding=shape(*o["padding"]), ceil_mode=o["ceil_mode"])
    if most:
        # torch 2.15 may take a dilated window that sees padding alone, and then writes to a wild index.
        o["dilation"] = [1 if o["ceil_mode"] or p else pick(1, 1, 2) for p in o["padding"]]
        s.dilation = shape(*o["dilation"])
    return o, s


def sizes(dims, least=1, most=7):
    return [random.randint(least, most) for _ in range(dims)]


@family
def max_pool():
    d = pick(1, 2, 3)
    o, s = pool_options(d, True)
    x = real(*sizes(pick(1, 2), 1, 3), *sizes(d))
    return [x], lambda x: getattr(F, f"max_pool{d}d")(x, **o), lambda x: call(f"max_pool{d}d", x, by(s), None)


@family
def max_pool_indices():
    d = pick(1, 2, 3)
    o, s = pool_options(d, True)
    x = real(*sizes(2, 1, 3), *sizes(d))

    def ours(x):
        at = P()
        call(f"max_pool{d}d", x, by(s), by(at))
        return at
    return [x], lambda x: getattr(F, f"max_pool{d}d")(x, return_indices=True, **o)[1], ours


@family
def avg_pool():
    d = pick(1, 2, 3)
    o, s = pool_options(d, False)
    o["count_include_pad"] = pick(True, False)
    s.exclude_pad = not o["count_include_pad"]
    if d > 1 and random.random() < 0.3:
        o["divisor_override"] = s.divisor_override = pick(1, 3, -2)
    x = real(*sizes(pick(1, 2), 1, 3), *sizes(d))
    return [x], lambda x: getattr(F, f"avg_pool{d}d")(x, **o), lambda x: call(f"avg_pool{d}d", x, by(s))


@family
def adaptive_pool():
    d, kind = pick(1, 2, 3), pick("max", "avg")
    out = sizes(d, 1, 9)
    x = real(*sizes(pick(1, 2), 1, 3), *sizes(d))
    more = [None] if kind == "max" else []
    given = I64(out[0]) if d == 1 else shape(*out)
    return ([x], lambda x: getattr(F, f"adaptive_{kind}_pool{d}d")(x, out if d > 1 else out[0]),
            lambda x: call(f"adaptive_{kind}_pool{d}d", x, given, *more))


@family
def lp_pool():
    d, p = pick(1, 2), pick(1.0, 2.0, 3.0)
    k, st, ceil = sizes(d, 1, 3), sizes(d, 1, 3), pick(False, True)
    x = real(2, 2, *sizes(d, 3, 7)).abs() + 0.1
    return ([x], lambda x: getattr(F, f"lp_pool{d}d")(x, p, k if d > 1 else k[0], st if d > 1 else st[0], ceil),
            lambda x: call(f"lp_pool{d}d", x, F64(p), shape(*k), shape(*st), BOOL(ceil)))


@family
def conv():
    d, groups, many = pick(1, 2, 3), pick(1, 1, 2, 3), random.random() < 0.2  # kernels of their own
    c, o = groups * (pick(16, 32, 48) if many else pick(1, 2)), groups * (pick(16, 33, 64) if many else pick(1, 2))
    k, st, pad, dil = sizes(d, 1, 3), sizes(d, 1, 3), sizes(d, 0, 3), sizes(d, 1, 2)
    if many and pick(True, False):
        k, st, dil = [3] * d, [1] * d, [1] * d
    s = Conv(stride=shape(*st), padding=shape(*pad), dilation=shape(*dil), groups=groups)
    x, w, b = real(pick(1, 2), c, *sizes(d, 1, 16 if many else 7)), real(o, c // groups, *k), real(o)
    return ([x, w, b], lambda x, w, b: getattr(F, f"conv{d}d")(x, w, b, st, pad, dil, groups),
            lambda x, w, b: call(f"conv{d}d", x, w, b, by(s)))


@family
def conv_transpose():
    d, groups, many = pick(1, 2, 3), pick(1, 1, 2), random.random() < 0.2
    c, o = groups * (pick(16, 48) if many else pick(1, 2)), pick(16, 33) if many else pick(1, 2)
    k, st, pad, dil = sizes(d, 1, 3), sizes(d, 1, 3), sizes(d, 0, 2), sizes(d, 1, 2)
    more = [random.randint(0, max(a, b) - 1) for a, b in zip(st, dil)]
    s = Conv(stride=shape(*st), padding=shape(*pad), dilation=shape(*dil), groups=groups, output_padding=shape(*more))
    x, w, b = real(pick(1, 2), c, *sizes(d, 1, 5)), real(c, o, *k), real(o * groups)
    return ([x, w, b], lambda x, w, b: getattr(F, f"conv_transpose{d}d")(x, w, b, st, pad, more, groups, dil),
            lambda x, w, b: call(f"conv_transpose{d}d", x, w, b, by(s)))


@family
def interpolate():
    d = pick(1, 2, 3)
    modes = {"nearest": 0, "area": 5, "nearest-exact": 6}
    modes.update({1: {"linear": 1}, 2: {"bilinear": 2, "bicubic": 3}, 3: {"trilinear": 4}}[d])
    mode = pick(*modes)
    s, o = Interpolate(mode=modes[mode]), dict(mode=mode)
    if random.random() < 0.6:
        o["size"] = sizes(d, 1, 9)
        s.size = shape(*o["size"])
    else:
        o["scale_factor"] = [pick(0.5, 1.5, 2.0, 0.7, 1.0, 3.3) for _ in range(d)]
        s.scale_factor = (F64 * 3)(*o["scale_factor"])
        o["recompute_scale_factor"] = s.recompute = pick(True, False)
    if "linear" in mode or mode == "bicubic":
        o["align_corners"] = s.align_corners = pick(True, False)
        if mode in ("bilinear", "bicubic"):
            # torch 2.15 gives all rows of a result one column wide the first one's values.
            o["antialias"] = s.antialias = pick(True, False) and "size" in o and o["size"][1] > 1
    x = real(pick(1, 2), pick(1, 2), *sizes(d))
    return [x], lambda x: F.interpolate(x, **o), lambda x: call("interpolate", x, by(s))


@family
def grid_sample():
    d, align = pick(2, 3), pick(True, False)
    modes, pads = ["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"]
    m, p = random.randrange(3 if d == 2 else 2), random.randrange(3)
    x, grid = real(2, 2, *sizes(d, 1, 5)), torch.rand(2, *sizes(d, 1, 4), d, dtype=dtype) * 4 - 2
    s = Grid(m, p, align)
    return ([x, grid], lambda x, g: F.grid_sample(x, g, modes[m], pads[p], align),
            lambda x, g: call("grid_sample", x, g, by(s)))


@family
def affine_grid():
    d, align = pick(2, 3), pick(True, False)
    size = [2, 1, *sizes(d, 1, 4)]
    return ([real(2, d, d + 1)], lambda t: F.affine_grid(t, size, align),
            lambda t: call("affine_grid", t, shape(*size), BOOL(align)))


@family
def unfold():
    k, dil, pad, st = sizes(2, 1, 3), sizes(2, 1, 2), sizes(2, 0, 2), sizes(2, 1, 3)
    s = Unfold(shape(*dil), shape(*pad), shape(*st))
    return ([real(pick(1, 2), 2, *sizes(2))], lambda x: F.unfold(x, k, dil, pad, st),
            lambda x: call("unfold", x, shape(*k), by(s)))


@family
def fold():
    k, dil, pad, st, out = sizes(2, 1, 3), sizes(2, 1, 2), sizes(2, 0, 2), sizes(2, 1, 3), sizes(2, 1, 7)
    places = [(o + 2 * p - e * (n - 1) - 1) // t + 1 for o, p, e, n, t in zip(out, pad, dil, k, st)]
    s = Unfold(shape(*dil), shape(*pad), shape(*st))
    x = real(2, 2 * k[0] * k[1], max(0, places[0]) * max(0, places[1]))
    return ([x], lambda x: F.fold(x, out, k, dil, pad, st), lambda x: call("fold", x, shape(*out), shape(*k), by(s)))


@family
def pad():
    modes = ["constant", "reflect", "replicate", "circular"]
    m, dims = random.randrange(4), pick(1, 2)
    list_ = [random.randint(-2, 3) for _ in range(2 * dims)]
    x = real(2, 2, *sizes(dims, 1, 6))
    return ([x], lambda x: F.pad(x, list_, modes[m], **({"value": 1.5} if m == 0 else {})),
            lambda x: call("pad", x, shape(*list_), m, F64(1.5)))


@family
def local_response_norm():
    n, a, b, k = pick(1, 2, 3, 5), pick(1e-4, 0.5), pick(0.75, 1.0), pick(1.0, 2.0)
    return ([real(2, *sizes(pick(2, 3), 1, 5))], lambda x: F.local_response_norm(x, n, a, b, k),
            lambda x: call("local_response_norm", x, I64(n), F64(a), F64(b), F64(k)))


def line():
    x = real(*sizes(pick(1, 2, 3), 1, 6))
    if random.random() < 0.2:
        x.view(-1)[random.randrange(x.numel())] = float("nan")
    return x, random.randrange(-x.dim(), x.dim())


@family
def along():
    x, d = line()
    name = pick("cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax")
    return [x], lambda x: getattr(torch, name)(x, d), lambda x: call(name, x, d)


@family
def picked():
    """Values and indices of order statistics."""
    x, d = line()
    name, keep, want = pick("kthvalue", "median", "nanmedian", "min", "max", "cummax", "cummin"), pick(True, False), pick(0, 1)
    k = random.randint(1, x.shape[d])

    def theirs(x):
        if name == "kthvalue":
            return torch.kthvalue(x, k, d, keep)[want]
        return getattr(torch, name)(x, d)[want] if name.startswith("cum") else getattr(torch, name)(x, d, keep)[want]

    def ours(x):
        at = P()
        args = {"kthvalue": [I64(k), d, BOOL(keep)]}.get(name, [d] if name.startswith("cum") else [d, BOOL(keep)])
        y = call(name if name == "kthvalue" or name.startswith("cum") else name + "_dim", x, *args, by(at))
        return at if want else y
    return [x], theirs, ours


@family
def reduce():
    x, d = line()
    name, keep = pick("sum", "mean", "amax", "amin", "logsumexp", "nansum", "nanmean", "prod"), pick(True, False)
    dims = [d] if name == "prod" else random.sample(range(x.dim()), random.randint(1, x.dim()))
    o = Reduce(dim=shape(*dims), keepdim=keep)
    return ([x], lambda x: getattr(torch, name)(x, d if name == "prod" else dims, keepdim=keep),
            lambda x: call(name, x, by(o)))


@family
def spread():
    x, d = line()
    name, keep, c = pick("var", "std"), pick(True, False), pick(0.0, 1.0, 2.0)
    dims = random.sample(range(x.dim()), random.randint(1, x.dim()))
    o = Reduce(dim=shape(*dims), keepdim=keep)
    return ([x], lambda x: getattr(torch, name)(x, dims, correction=c, keepdim=keep),
            lambda x: call(name, x, F64(c), by(o)))


@family
def norm():
    x, d = line()
    p, keep = pick(0.0, 1.0, 2.0, 3.0, float("inf"), float("-inf"), 0.5, -1.0), pick(True, False)
    dims = random.sample(range(x.dim()), random.randint(1, x.dim()))
    o = Reduce(dim=shape(*dims), keepdim=keep)
    return ([x], lambda x: torch.linalg.vector_norm(x, p, dims, keep), lambda x: call("norm", x, F64(p), by(o)))


@family
def quantile():
    x, d = line()
    ways = ["linear", "lower", "higher", "midpoint", "nearest"]
    name, w, keep, q = pick("quantile", "nanquantile"), random.randrange(5), pick(True, False), pick(0.0, 0.25, 0.5, 0.37, 1.0)
    o = Reduce(dim=shape(d), keepdim=keep)
    return ([x], lambda x: getattr(torch, name)(x, q, d, keep, interpolation=ways[w]),
            lambda x: call(name, x, F64(q), by(o), w))


@family
def sorted_():
    x, d = line()
    down, want, k = pick(True, False), pick(0, 1), random.randint(0, x.shape[d])
    top = random.random() < 0.4 and want == 0

    def ours(x):
        at = P()
        y = call("topk", x, I64(k), d, BOOL(down), by(at)) if top else call("sort", x, d, BOOL(down), by(at))
        return at if want else y
    return ([x], lambda x: (torch.topk(x, k, d, down) if top else torch.sort(x, dim=d, descending=down, stable=True))[want], ours)


@family
def searchsorted():
    n, right = random.randint(0, 6), pick(True, False)
    s, v = real(n).sort()[0], real(*sizes(2, 1, 4))
    return ([s, v], lambda s, v: torch.searchsorted(s, v, right=right), lambda s, v: call("searchsorted", s, v, BOOL(right)))


@family
def histc():
    x, bins, low = real(random.randint(1, 30)), random.randint(1, 9), pick(0.0, -1.0, 0.5)
    high = low + pick(0.0, 1.0, 2.5)
    return ([x], lambda x: torch.histc(x, bins, low, high), lambda x: call("histc", x, I64(bins), F64(low), F64(high)))


@family
def moved():
    x, d = line()
    name = pick("roll", "flip", "rot90", "diff", "repeat", "tile", "trace_like")
    shift, k = random.randint(-9, 9), random.randint(-5, 5)
    times = sizes(x.dim() + pick(0, 1), 0, 3)
    if name == "roll":
        return [x], lambda x: torch.roll(x, shift, d), lambda x: call("roll", x, shape(shift), shape(d))
    if name == "rot90" and x.dim() > 1:
        return [x], lambda x: torch.rot90(x, k, (0, 1)), lambda x: call("rot90", x, I64(k), shape(0, 1))
    if name == "diff":
        return [x], lambda x: torch.diff(x, abs(k), d), lambda x: call("diff", x, I64(abs(k)), d)
    if name == "repeat":
        return [x], lambda x: x.repeat(times), lambda x: call("repeat", x, shape(*times))
    if name == "tile":
        return [x], lambda x: torch.tile(x, times), lambda x: call("tile", x, shape(*times))
    return [x], lambda x: torch.flip(x, (d,)), lambda x: call("flip", x, shape(d))


@family
def triangles():
    x = real(*sizes(pick(2, 3), 1, 5))
    k, name = random.randint(-6, 6), pick("tril", "triu", "diagonal")
    if name == "diagonal":
        a, b = random.sample(range(x.dim()), 2)
        return [x], lambda x: torch.diagonal(x, k, a, b), lambda x: call("diagonal", x, I64(k), a, b)
    return [x], lambda x: getattr(torch, name)(x, k), lambda x: call(name, x, I64(k))


@family
def diag_embed():
    x, k = real(*sizes(pick(1, 2), 1, 4)), random.randint(-3, 3)
    a, b = random.sample(range(x.dim() + 1), 2)
    return [x], lambda x: torch.diag_embed(x, k, a, b), lambda x: call("diag_embed", x, I64(k), a, b)


@family
def cross_entropy():
    n, c, r, smooth = random.randint(1, 4), random.randint(1, 5), random.randrange(3), pick(0.0, 0.0, 0.1, 1.0)
    rest = sizes(pick(0, 1, 2), 1, 3)
    ignore, w = pick(-100, 0, c - 1), pick(None, torch.rand(c, dtype=dtype))
    likely = random.random() < 0.25
    x = real(n, c, *rest)
    y = torch.softmax(real(n, c, *rest), 1) if likely else torch.randint(0, c, (n, *rest))
    nll = not likely and not smooth and pick(True, False)

    def ours(x, y):
        o = CrossEntropy(there(w) if w is not None else None, ignore != -100, 0 if ignore == -100 else ignore, r, smooth)
        return call("nll_loss" if nll else "cross_entropy", x, y, by(o))
    more = dict(weight=w, reduction=REDUCTIONS[r], ignore_index=-100 if likely else ignore)
    if likely:
        ignore = -100
    return ([x, y], lambda x, y: F.nll_loss(x, y, **more) if nll else F.cross_entropy(x, y, label_smoothing=smooth, **more),
            ours)


@family
def pair_loss():
    r = random.randrange(3)
    kinds = {
        "mse_loss": ([], {}), "l1_loss": ([], {}),
        "smooth_l1_loss": ([pick(0.5, 1.0, 0.0)], "beta"), "huber_loss": ([pick(0.5, 1.0)], "delta"),
        "soft_margin_loss": ([], {}), "hinge_embedding_loss": ([pick(0.5, 1.0)], "margin"),
    }
    name = pick(*kinds)
    args, key = kinds[name]
    x, y = real(*sizes(2, 1, 4)), None
    y = torch.randint(0, 2, x.shape).to(dtype) * 2 - 1 if "margin" in name or "hinge" in name else real(*x.shape)
    given = {key: args[0]} if args else {}
    return ([x, y], lambda x, y: getattr(F, name)(x, y, reduction=REDUCTIONS[r], **given),
            lambda x, y: call(name, x, y, *[F64(a) for a in args], r))


@family
def rows_loss():
    n, c, r = random.randint(1, 4), random.randint(1, 5), random.randrange(3)
    if pick(True, False):
        o = Triplet(pick(0.5, 1.0), pick(1.0, 2.0, 3.0), pick(1e-6, 0.0), pick(True, False), r)
        return ([real(n, c), real(n, c), real(n, c)],
                lambda a, b, d: F.triplet_margin_loss(a, b, d, o.margin, o.p, o.eps, o.swap, reduction=REDUCTIONS[r]),
                lambda a, b, d: call("triplet_margin_loss", a, b, d, by(o)))
    p, margin, w = pick(1, 2), pick(0.5, 1.0, 0.0), pick(None, torch.rand(c, dtype=dtype))

    def ours(x, y):
        o = MultiMargin(p, margin, there(w) if w is not None else None, r)
        return call("multi_margin_loss", x, y, by(o))
    return ([real(n, c), torch.randint(0, c, (n,))],
            lambda x, y: F.multi_margin_loss(x, y, p, margin, w, reduction=REDUCTIONS[r]), ours)


@family
def embedding_bag():
    v, n, mode = random.randint(1, 5), random.randint(0, 7), random.randrange(3)
    names = ["mean", "sum", "max"]
    index, last = torch.randint(0, v, (n,)), pick(True, False)
    bags = random.randint(1, 4)
    offsets = torch.tensor(sorted([0] + [random.randint(0, n) for _ in range(bags - 1)]) + ([n] if last else []))
    padding = pick(None, None, 0, -1, v - 1)
    weights = real(n) if mode == 1 and pick(True, False) else None
    w = real(v, 3)

    def ours(w, *more):
        s = Bag(there(offsets), more[0] if more else None, mode, last, padding is not None, padding or 0, NONE, 2, False)
        return call("embedding_bag", there(index), w, by(s))
    inputs = [w] if weights is None else [w, weights]
    return (inputs, lambda w, *more: F.embedding_bag(index, w, offsets, mode=names[mode], include_last_offset=last,
                                                     padding_idx=padding, per_sample_weights=more[0] if more else None),
            ours)


@family
def scatter_reduce():
    x, d = line()
    ways = ["sum", "prod", "mean", "amax", "amin"]
    w, self_ = random.randrange(5), pick(True, False)
    src = real(*x.shape)
    index = torch.randint(0, x.shape[d], x.shape)
    return ([x, src], lambda x, s: torch.scatter_reduce(x, d, index, s, ways[w], include_self=self_),
            lambda x, s: call("scatter_reduce", x, d, there(index), s, w, BOOL(self_)))


@family
def distances():
    p = pick(0.0, 1.0, 2.0, 3.0, 0.5)  # of the largest of equal differences torch gives each the whole gradient
    m = random.randint(1, 4)
    return ([real(random.randint(1, 4), m), real(random.randint(1, 4), m)], lambda a, b: torch.cdist(a, b, p),
            lambda a, b: call("cdist", a, b, F64(p)))


@family
def renorm():
    x, d = line()
    p, most = pick(1.0, 2.0, 0.5, float("inf")), pick(0.51, 1.03, 3.07)
    return [x], lambda x: torch.renorm(x, p, d, most), lambda x: call("renorm", x, F64(p), d, F64(most))


@family
def whole_numbers():
    names = ["remainder", "fmod", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm"]
    name = pick(*names)
    a, b = torch.randint(-40, 40, (9,)), torch.randint(-9, 70, (9,))
    b[b == 0] = 1
    if "shift" in name:
        b = b.clamp(0, 63)
    return [a, b], lambda a, b: getattr(torch, name)(a, b), lambda a, b: call(name, a, b)


@family
def real_numbers():
    names = ["remainder", "fmod", "atan2", "copysign", "nextafter", "hypot", "fmax", "fmin", "maximum", "xlogy",
             "logaddexp", "logaddexp2", "pow", "float_power", "heaviside"]
    name = pick(*names)
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 0.5, -2.5, 3.0],
                           dtype=dtype)
    a, b = special[torch.randint(0, 10, (12,))], special[torch.randint(0, 10, (12,))]
    return [a, b], lambda a, b: getattr(torch, name)(a, b), lambda a, b: call(name, a, b)
