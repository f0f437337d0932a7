"""More families for draw.py: norms, activations, attention, transforms, contractions, optimisers, schedules.
SPDX-License-Identifier: MIT"""
import ctypes as C
import random
import warnings

import torch
import torch.nn.functional as F

import drawn
from drawn import BOOL, F64, I64, INT, NONE, P, Refused, by, call, family, pick, real, shape, sizes, struct, there
from drawn import Shape, sized

warnings.simplefilter("ignore")
Fft = struct(("n", I64), ("dim", Shape), ("norm", INT))
Fftn = struct(("s", Shape), ("dim", Shape), ("norm", INT))
Stft = struct(("hop", I64), ("win", I64), ("no_center", BOOL), ("pad", INT), ("normalized", BOOL), ("two_sided", BOOL),
              ("length", I64))
BatchNorm = sized(("training", BOOL), ("momentum", F64), ("eps", F64))
Attention = sized(("mask", P), ("causal", BOOL), ("dropout", F64), ("scale", F64), ("gqa", BOOL))
NORMS = ["backward", "forward", "ortho"]


@family
def norms():
    eps, affine = pick(1e-5, 0.1, 0.0), pick(True, False)
    groups = pick(1, 2, 3)
    c = groups * pick(1, 2)
    x = real(random.randint(2, 3), c, *sizes(pick(1, 2), 2, 4))
    kind = pick("layer_norm", "group_norm", "rms_norm", "batch_norm")
    tail = list(x.shape[pick(1, 2):])
    own = tail if kind in ("layer_norm", "rms_norm") else [c]
    w = [real(*own), real(*own)] if affine else []
    if kind == "rms_norm":
        w = w[:1]
    given = (lambda w: (list(w) + [None, None])[:2])
    if kind == "layer_norm":
        return ([x, *w], lambda x, *w: F.layer_norm(x, tail, *given(w), eps),
                lambda x, *w: call(kind, x, shape(*tail), *given(w), F64(eps)))
    if kind == "rms_norm":
        return ([x, *w], lambda x, *w: F.rms_norm(x, tail, given(w)[0], eps),
                lambda x, *w: call(kind, x, shape(*tail), given(w)[0], F64(eps)))
    if kind == "group_norm":
        return ([x, *w], lambda x, *w: F.group_norm(x, groups, *given(w), eps),
                lambda x, *w: call(kind, x, I64(groups), *given(w), F64(eps)))
    training = eps != 0 and pick(True, False)  # torch refuses to train with 0
    momentum = pick(0.3, 0.0)
    mean, var = real(c), real(c).abs() + 0.5
    o = BatchNorm(training, momentum, eps)
    return ([x, *w], lambda x, *w: F.batch_norm(x, mean.clone(), var.clone(), *given(w), training, momentum, eps),
            lambda x, *w: call(kind, x, there(mean), there(var), *given(w), by(o)))


@family
def activations():
    a, b = pick(0.0, 0.1, 0.5, 1.0, -0.3), pick(0.5, 1.0, 2.0)
    table = {
        "leaky_relu": ((F64(a),), (a,)), "elu": ((F64(b),), (b,)), "celu": ((F64(b),), (b,)),
        "softshrink": ((F64(b),), (b,)), "hardshrink": ((F64(b),), (b,)),
        "threshold": ((F64(a), F64(b)), (a, b)), "softplus": ((F64(b), F64(3.0)), (b, 3.0)),
        "hardtanh": ((F64(-b), F64(abs(a))), (-b, abs(a))), "gelu": ((pick(0, 1),), None),
        "hardswish": ((), ()), "hardsigmoid": ((), ()), "mish": ((), ()), "relu6": ((), ()), "selu": ((), ()),
        "softsign": ((), ()), "tanhshrink": ((), ()), "silu": ((), ()), "logsigmoid": ((), ()),
    }
    name = pick(*table)
    ours, theirs = table[name]
    x = real(*sizes(2, 1, 5)) * pick(1, 5, 30)
    if name == "gelu":
        return ([x], lambda x: F.gelu(x, approximate=["none", "tanh"][ours[0]]), lambda x: call(name, x, *ours))
    return ([x], lambda x: getattr(F, name)(x, *theirs), lambda x: call(name, x, *ours))


@family
def attention():
    b, groups = random.randint(1, 2), pick(1, 2)
    e, v = (pick(random.randint(1, 9), random.randint(10, 50), 32, 48, 64, 128) for _ in range(2))  # whole tiles among them
    heads = groups * pick(1, 2, 3)
    l, s = pick(random.randint(1, 40), random.randint(60, 140)), pick(random.randint(1, 40), random.randint(60, 600))
    kind = pick("none", "causal", "choice", "added")
    scale = pick(None, 0.5, 2.0, *[0.0] * (kind != "causal"))  # torch: -inf times 0
    mask = None
    if kind == "choice":
        mask = torch.rand(l, s) > 0.3
        mask[:, 0] = True  # torch gives NaN to a query without a key
    if kind == "added":
        mask = real(pick(1, heads), l, s)

    def ours(q, k, v):
        m = there(mask) if mask is not None else None
        o = Attention(m, kind == "causal", 0, NONE if scale is None else scale, heads != groups)
        return call("scaled_dot_product_attention", q, k, v, by(o))
    return ([real(b, heads, l, e), real(b, groups, s, e), real(b, groups, s, v)],
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask, 0.0, kind == "causal", scale=scale,
                                                           enable_gqa=heads != groups), ours)


def as_real(t):
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


@family
def transforms():
    """One transform along one dimension, and several."""
    name, norm = pick("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), random.randrange(3)
    complex_in = name in ("fft", "ifft", "irfft", "hfft")
    dims, many = sizes(pick(1, 2, 3), 1, 9), pick(False, True)
    x = real(*dims, 2) if complex_in else real(*dims)
    taken = (lambda x: torch.view_as_complex(x.contiguous())) if complex_in else (lambda x: x)
    d = random.randrange(-len(dims), len(dims))
    if not many:
        n = pick(0, random.randint(1, 11))
        o = Fft(n, shape(d), norm)
        return ([x], lambda x: as_real(getattr(torch.fft, name)(taken(x), n or None, d, NORMS[norm])),
                lambda x: call("fft_" + name, x, by(o)))
    list_ = random.sample(range(len(dims)), random.randint(1, len(dims)))
    lengths = [pick(-1, random.randint(1, 8)) for _ in list_]
    o = Fftn(shape(*lengths), shape(*list_), norm)
    return ([x], lambda x: as_real(getattr(torch.fft, name + "n")(taken(x), lengths, list_, NORMS[norm])),
            lambda x: call("fft_" + name + "n", x, by(o)))


@family
def stft():
    n = random.randint(2, 12)
    hop, win, pads = random.randint(1, n), random.randint(1, n), ["reflect", "constant", "replicate", "circular"]
    centred, p, normal, one = pick(True, False), random.randrange(4), pick(True, False), pick(True, False)
    x, w = real(*pick([], [2]), random.randint(n, 40)), real(win)
    o = Stft(hop, win, not centred, p, normal, not one, 0)
    return ([x, w], lambda x, w: as_real(torch.stft(x, n, hop, win, w, centred, pads[p], normal, one, return_complex=True)),
            lambda x, w: call("stft", x, w, I64(n), by(o)))


@family
def einsum():
    size = {c: random.randint(1, 3) for c in "abcde"}
    parts = ["".join(random.choice("abcde") for _ in range(random.randint(1, 3))) for _ in range(random.randint(1, 3))]
    letters = sorted(set("".join(parts)))
    equation = ",".join(parts)
    if pick(True, False):
        equation += "->" + "".join(random.sample(letters, random.randint(0, len(letters))))
    x = [real(*[size[c] for c in part]) for part in parts]
    return (x, lambda *x: torch.einsum(equation, *x),
            lambda *x: call("einsum", equation.encode(), (P * len(x))(*[h.value for h in x]), len(x)))


@family
def slices():
    x = real(*sizes(pick(1, 2), 1, 6))
    d = random.randrange(x.dim())
    a, b, step = random.randint(-8, 8), random.randint(-8, 8), random.randint(1, 4)
    at = [slice(None)] * x.dim()
    at[d] = slice(a, b, step)
    src = real(*x[tuple(at)].shape)
    if pick(True, False):
        return [x], lambda x: x[tuple(at)], lambda x: call("slice", x, d, I64(a), I64(b), I64(step))
    return ([x, src], lambda x, s: torch.slice_scatter(x, s, d, a, b, step),
            lambda x, s: call("slice_scatter", x, s, d, I64(a), I64(b), I64(step)))


@family
def indices():
    """Lists of index tensors, masks and nothing, in any order."""
    x = real(*sizes(3, 1, 4))
    rows = pick([], [2], [2, 1], [1, 3])
    list_, d = [], 0
    while d < 3 and len(list_) < 3:
        kind = pick("none", "index", "mask")
        if kind == "mask" and not any(i is not None for i in list_):
            list_.append(torch.rand(x.shape[d]) > 0.4)
        elif kind == "index":
            list_.append(torch.randint(-x.shape[d], x.shape[d], rows))
        else:
            list_.append(None)
        d += 1
    if any(i is not None and i.dtype == torch.bool for i in list_):
        list_ = [i if i is None or i.dtype == torch.bool else None for i in list_]
    if all(i is None for i in list_):
        list_[0] = torch.tensor([0])
    at = tuple(slice(None) if i is None else i for i in list_)
    ours = lambda: (P * 3)(*[None if i is None else there(i).value for i in list_])  # noqa: E731
    if pick(True, False):
        return [x], lambda x: x[at], lambda x: call("index", x, ours(), len(list_))
    values = real(*x[at].shape)
    return ([x, values], lambda x, v: torch.ops.aten.index_put(x, list_, v, True),
            lambda x, v: call("index_put", x, ours(), len(list_), v, BOOL(True)))


# ---- optimisers: five steps with given gradients ----

FIELDS = ["lr", "weight_decay", "momentum", "dampening", "beta1", "beta2", "alpha", "eps", "nesterov", "amsgrad",
          "centered", "maximize", "master_weights", "rho", "lr_decay", "initial_accumulator_value",
          "momentum_decay", "decoupled_weight_decay", "etaminus", "etaplus", "step_size_min", "step_size_max", "lambd",
          "t0", "eps1", "beta2_decay", "d", "ns_a", "ns_b", "ns_c", "ns_steps", "adjust_lr_fn", "max_iter", "max_eval",
          "tolerance_grad", "tolerance_change", "history_size", "line_search_fn"]
FLAGS = {"nesterov", "amsgrad", "centered", "maximize", "master_weights", "decoupled_weight_decay"}
Hyper = struct(("size", C.c_size_t), ("of", C.c_char_p), *[(f, BOOL if f in FLAGS else F64) for f in FIELDS])
OPTIMISERS = {
    "SGD": dict(momentum=[0.0, 0.9], dampening=[0.0, 0.3], nesterov=[False, True]),
    "Adam": dict(betas=[(0.9, 0.999), (0.5, 0.7), (0.0, 0.0)], eps=[1e-8, 0.1], amsgrad=[False, True]),
    "AdamW": dict(betas=[(0.9, 0.999), (0.5, 0.7)], eps=[1e-8, 0.1], amsgrad=[False, True]),
    "RMSprop": dict(alpha=[0.99, 0.5], eps=[1e-8, 0.1], momentum=[0.0, 0.9], centered=[False, True]),
    "Adagrad": dict(lr_decay=[0.0, 0.1], initial_accumulator_value=[0.0, 0.2], eps=[1e-10, 0.1]),
    "Adadelta": dict(rho=[0.9, 0.5, 0.0], eps=[1e-6, 0.1]),
    "Adamax": dict(betas=[(0.9, 0.999), (0.5, 0.7)], eps=[1e-8, 0.1]),
    "NAdam": dict(betas=[(0.9, 0.999), (0.5, 0.7)], eps=[1e-8, 0.1], momentum_decay=[4e-3, 0.1, 0.0],
                  decoupled_weight_decay=[False, True]),
    "RAdam": dict(betas=[(0.9, 0.999), (0.5, 0.7)], eps=[1e-8, 0.1], decoupled_weight_decay=[False, True]),
    "Rprop": dict(etas=[(0.5, 1.2), (0.3, 1.5)], step_sizes=[(1e-6, 50.0), (0.02, 0.1)]),
    "ASGD": dict(lambd=[1e-4, 0.1, 0.0], alpha=[0.75, 0.5, 0.0], t0=[1e6, 2.0, 0.0]),
    "Adafactor": dict(beta2_decay=[-0.8, -0.5], d=[1.0, 1.5]),
}
PAIRS = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")}


def hyper(kind, given):
    """The defaults, which only the header has, are those of an optimiser that is made without options."""
    plain = handle("optim_" + kind.lower(), leaf(there(torch.zeros(2, 2), True)), F64(given["lr"]), None)
    o = Hyper(C.sizeof(Hyper))
    if drawn.lib.situ_optim_get_options(plain, 0, by(o)):
        raise Refused("options: " + C.cast(drawn.lib.situ_error_message, C.CFUNCTYPE(C.c_char_p))().decode())
    drawn.lib.situ_optim_free(plain)
    for key, value in given.items():
        for name, one in zip(PAIRS.get(key, (key,)), value if key in PAIRS else (value,)):
            setattr(o, name, one)
    return o


def handle(name, *args):
    fn = getattr(drawn.lib, "situ_" + name)
    fn.restype = P
    got = fn(*args)
    if not got:
        raise Refused(C.cast(drawn.lib.situ_error_message, C.CFUNCTYPE(C.c_char_p))().decode())
    return P(got)


def leaf(parameter):
    return handle("tree_put", handle("tree_dict"), b"w", handle("tree_tensor", parameter))


def optimiser_of(kind, parameter, given):
    options = hyper(kind, given)
    return handle("optim_" + kind.lower(), leaf(parameter), F64(given["lr"]), by(options))


def stepped(kind, given, start, gradients):
    def theirs():
        p = torch.nn.Parameter(start.clone())
        optimiser = getattr(torch.optim, kind)([p], **given)
        for g in gradients:
            p.grad = g.clone()
            optimiser.step()
        return p.detach()

    def ours():
        p = there(start, True)
        optimiser = optimiser_of(kind, p, given)
        try:
            for g in gradients:
                if drawn.lib.situ_set_grad(p, there(g)) or drawn.lib.situ_optim_step(optimiser):
                    raise Refused("step: " + C.cast(drawn.lib.situ_error_message, C.CFUNCTYPE(C.c_char_p))().decode())
            return p
        finally:
            drawn.lib.situ_optim_free(optimiser)
    return [], theirs, ours


@family
def optimisers():
    kind = pick(*OPTIMISERS)
    given = {key: pick(*values) for key, values in OPTIMISERS[kind].items() if random.random() < 0.7}
    given["lr"] = pick(0.1, 0.01)
    if kind != "Rprop":
        given["weight_decay"] = pick(0.0, 0.1)
    if random.random() < 0.3:
        given["maximize"] = True
    where = sizes(pick(1, 2), 1, 4)
    return stepped(kind, given, real(*where), [real(*where) for _ in range(5)])


# ---- schedules: the rates of twelve steps ----

OneCycle = struct(("size", C.c_size_t), ("pct_start", F64), ("linear", BOOL), ("keep", BOOL),
                  ("base_momentum", F64), ("max_momentum", F64), ("div", F64), ("final", F64), ("three", BOOL))
Cyclic = struct(("size", C.c_size_t), ("up", I64), ("down", F64), ("mode", INT), ("gamma", F64),
                ("scale_fn", P), ("payload", P), ("iterations", BOOL), ("keep", BOOL), ("base_momentum", F64),
                ("max_momentum", F64))


def schedule():
    """(torch's class, its arguments, situ's name, its arguments)"""
    n, g, stop = random.randint(1, 6), pick(0.1, 0.5, 0.9), pick(0.0, 0.01)
    milestones = sorted(random.randint(0, 9) for _ in range(random.randint(0, 4)))
    mode = random.randrange(3)
    down = random.randint(0, 5)
    return pick(
        ("StepLR", (n, g), "step_lr", (I64(n), F64(g))),
        ("CosineAnnealingLR", (n, stop), "cosine_annealing_lr", (I64(n), F64(stop))),
        ("MultiStepLR", (milestones, g), "multi_step_lr",
         ((I64 * len(milestones))(*milestones), I64(len(milestones)), F64(g))),
        ("ConstantLR", (g, n), "constant_lr", (F64(g), I64(n))),
        ("LinearLR", (g, 1 - g, n), "linear_lr", (F64(g), F64(1 - g), I64(n))),
        ("ExponentialLR", (g,), "exponential_lr", (F64(g),)),
        ("PolynomialLR", (n, 1 + g), "polynomial_lr", (I64(n), F64(1 + g))),
        ("CosineAnnealingWarmRestarts", (n, pick(1, 2), stop), "cosine_annealing_warm_restarts", None),
        ("OneCycleLR", dict(max_lr=g, total_steps=14, pct_start=pick(0.0, 0.2, 0.5), anneal_strategy=pick("cos", "linear"),
                            three_phase=pick(True, False), cycle_momentum=False, div_factor=pick(5.0, 25.0)),
         "one_cycle_lr", None),
        ("CyclicLR", dict(base_lr=0.01, max_lr=g, step_size_up=n, step_size_down=down, gamma=0.9, cycle_momentum=False,
                          mode=["triangular", "triangular2", "exp_range"][mode]),
         "cyclic_lr", (F64(0.01), F64(g), by(Cyclic(C.sizeof(Cyclic), n, down, mode, 0.9, None, None, False, True, 0, 0)))))


@family
def schedules():
    name, theirs_args, own, ours_args = schedule()
    if name == "CosineAnnealingWarmRestarts":
        ours_args = (I64(theirs_args[0]), I64(theirs_args[1]), F64(theirs_args[2]))
    if name == "OneCycleLR":
        a = theirs_args
        ours_args = (F64(a["max_lr"]), I64(a["total_steps"]),
                     by(OneCycle(C.sizeof(OneCycle), a["pct_start"], a["anneal_strategy"] == "linear", True, 0, 0,
                                 a["div_factor"], 1e4, a["three_phase"])))

    def theirs():
        optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        made = getattr(torch.optim.lr_scheduler, name)
        s = made(optimiser, **theirs_args) if isinstance(theirs_args, dict) else made(optimiser, *theirs_args)
        rates = [optimiser.param_groups[0]["lr"]]
        for _ in range(12):
            optimiser.step()
            s.step()
            rates.append(float(optimiser.param_groups[0]["lr"]))
        return torch.tensor(rates, dtype=torch.float64)

    def ours():
        optimiser = optimiser_of("SGD", there(torch.zeros(1, dtype=torch.float64), True), {"lr": 0.1})
        drawn.lib.situ_optim_get.restype = F64
        s = handle("lr_scheduler_" + own, optimiser, *ours_args)
        rates = [drawn.lib.situ_optim_get(optimiser, 0, 0)]
        for _ in range(12):
            if drawn.lib.situ_lr_scheduler_step(s):
                raise Refused("step")
            rates.append(drawn.lib.situ_optim_get(optimiser, 0, 0))
        drawn.lib.situ_lr_scheduler_free(s)
        drawn.lib.situ_optim_free(optimiser)
        return there(torch.tensor(rates, dtype=torch.float64))
    return [], theirs, ours
