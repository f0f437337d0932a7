"""Golden cases of optimisers, schedulers and gradient clipping.
SPDX-License-Identifier: MIT

optim.<name>: inputs param.I and grads.I (a row a step), outputs param.I (a row a step, after it). Attributes are the
constructor's arguments; group.<argument> overrides it for the last parameter, which then has a group of its own.
scheduler.<name>: outputs lr (and momentum), f64, the value in force in each of 30 steps; input metrics, if it takes them."""
import torch

import gold

STEPS = 12
SCHEDULE = 30


# Arguments that are pairs, and the names of their parts.
PAIRS = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max"),
         "eps": ("eps1", "eps"), "ns_coefficients": ("ns_a", "ns_b", "ns_c")}


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al., arXiv:2302.06675: torch does not have it."""
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0, maximize=False):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, mean = -p.grad if group["maximize"] else p.grad, self.state[p].get("exp_avg", torch.zeros_like(p))
                update = (first * mean + (1 - first) * grad).sign()
                p.copy_(p - group["lr"] * (update + group["weight_decay"] * p))
                self.state[p]["exp_avg"] = second * mean + (1 - second) * grad


def optimiser(kind, variant="", skip=None, group=None, shapes=((3, 2), (5, ), (1, )), size=1, **arguments):
    """Runs the optimiser on made-up gradients of this size; `skip` is a step in which the first parameter has none."""
    params = [torch.randn(*shape) for shape in shapes]
    grads = [size * torch.randn(STEPS, *p.shape) for p in params]
    leaves = [p.clone().requires_grad_() for p in params]
    groups = leaves if group is None else [{"params": leaves[:-1]}, {"params": leaves[-1:], **group}]
    optim = (Lion if kind == "Lion" else getattr(torch.optim, kind))(groups, **arguments)
    history = [[] for _ in params]
    for step in range(STEPS):
        for i, leaf in enumerate(leaves):
            leaf.grad = None if i == 0 and step == skip else grads[i][step].clone()
        optim.step()
        for rows, leaf in zip(history, leaves):
            rows.append(leaf.detach().clone())
    attrs = [
        pair for n, a in arguments.items() for pair in (zip(PAIRS[n], map(float, a)) if isinstance(a, tuple) else [(n, a)])
    ]
    attrs += [("group." + n, a)
              for n, a in (group or {}).items()] + ([] if skip is None else [("skip", skip)])
    inputs = [("param.%d" % i, p) for i, p in enumerate(params)] + [("grads.%d" % i, g)
                                                                    for i, g in enumerate(grads)]
    outputs = [("param.%d" % i, torch.stack(rows), None) for i, rows in enumerate(history)]
    return gold.Case("optim." + kind.lower(), variant, inputs, attrs, outputs, [])


def optimisers():
    for more in ({}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.3},
                 {"momentum": 0.9,
                  "nesterov": True}, {"momentum": 0.8, "weight_decay": 0.05, "nesterov": True},
                 {"maximize": True}, {"momentum": 0.9, "maximize": True, "weight_decay": 0.1}):
        yield optimiser("SGD", lr=0.1, **more)
    for kind in ("Adam", "AdamW"):
        for more in ({}, {"betas": (0.8, 0.95)}, {"eps": 1e-3}, {"weight_decay": 0.1}, {"amsgrad": True
                                                                                        }, {"maximize": True},
                     {"amsgrad": True, "weight_decay": 0.2, "betas": (0.5, 0.6),
                      "maximize": True}, {"lr": 0.1}):
            yield optimiser(kind, **more)
    for more in ({}, {"alpha": 0.9}, {"eps": 1e-3}, {"weight_decay": 0.1
                                                     }, {"momentum": 0.9}, {"centered": True}, {"lr": 0.1},
                 {"centered": True, "momentum": 0.5, "weight_decay": 0.1, "alpha": 0.8}):
        yield optimiser("RMSprop", **more)
    for kind, arguments in (("SGD", {"lr": 0.1, "momentum": 0.9}), ("Adam", {"lr": 0.01}),
                            ("AdamW", {"lr": 0.01}), ("RMSprop", {"lr": 0.01})):
        yield optimiser(kind, "a step without a gradient", skip=4, **arguments)
        yield optimiser(kind, "groups", group={"lr": 0.5, "weight_decay": 0.3}, **arguments)


def further_optimisers():
    plain = ({}, {"lr": 0.1}, {"maximize": True})
    decayed = (*plain, {"weight_decay": 0.1})
    betas = (*decayed, {"betas": (0.8, 0.95), "eps": 1e-3}, {"betas": (0.5, 0.6), "weight_decay": 0.2, "maximize": True})
    own = {
        "Adagrad": (*decayed, {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3}),
        "Adadelta": (*decayed, {"rho": 0.5, "eps": 1e-3}),
        "Adamax": betas,
        "NAdam": (*betas, {"momentum_decay": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
        "RAdam": (*betas, {"betas": (0.9, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True}),
        "Rprop": (*plain, {"etas": (0.3, 1.5), "step_sizes": (0.002, 0.03)}),
        "ASGD": (*decayed, {"lambd": 0.1, "alpha": 0.5, "t0": 4.0}),
        "Lion": (*decayed, {"betas": (0.5, 0.6), "weight_decay": 0.2, "maximize": True}),
    }
    for kind, all_of_it in own.items():
        for arguments in all_of_it:
            yield optimiser(kind, **arguments)
        if kind != "ASGD":
            yield optimiser(kind, "a step without a gradient", skip=4)
        yield optimiser(kind, "groups", group={"lr": 0.05})


def composed_optimisers():
    more = ({}, {"lr": 0.1}, {"maximize": True}, {"weight_decay": 0.1}, {"beta2_decay": -0.5, "d": 2.0},
            {"eps": (1e-3, 0.5)})
    for arguments in more:
        yield optimiser("Adafactor", shapes=((3, 2), (5, ), (1, ), (2, 3, 4)), **arguments)
    yield optimiser("Adafactor", "a step without a gradient", skip=4)
    yield optimiser("Adafactor", "groups", group={"lr": 0.05})
    more = ({}, {"lr": 0.02}, {"weight_decay": 0.5}, {"momentum": 0.5, "nesterov": False}, {"ns_steps": 3},
            {"ns_coefficients": (2.0, -1.5, 0.5)}, {"adjust_lr_fn": "match_rms_adamw"},
            {"adjust_lr_fn": "spectral_unclamped"})
    for arguments in more:
        yield optimiser("Muon", shapes=((3, 2), (2, 4), (3, 3)), **arguments)
    yield optimiser("Muon", "groups", shapes=((3, 2), (2, 4)), group={"lr": 0.05})


LAMBDAS = {
    "decay": lambda epoch: 0.9**epoch, "inverse": lambda epoch: 1 / (1 + epoch),
    "warmup": lambda epoch: min(1.0, (epoch + 1) / 10)
}


# SequentialLR and ChainedScheduler by the name of a recipe that tests/golden/optim/optim.c has too: parts and milestones.
RECIPES = {
    "warmup": lambda lr, o: ([lr.ConstantLR(o, 0.1, 4), lr.ExponentialLR(o, 0.9)], [4]),
    "three": lambda lr, o: ([
        lr.LinearLR(o, 0.25, 1.0, 6), lr.CosineAnnealingLR(o, 12), lr.StepLR(o, 3, 0.5)], [6, 18]),
    "cycles": lambda lr, o: ([
        lr.PolynomialLR(o, 8, 2.0), lr.CosineAnnealingWarmRestarts(o, 5), lr.MultiStepLR(o, [2, 5], 0.3)], [9, 20]),
}


def compound(kind, optim, recipe):
    parts, milestones = RECIPES[recipe](torch.optim.lr_scheduler, optim)
    if kind == "ChainedScheduler":
        return torch.optim.lr_scheduler.ChainedScheduler(parts)
    return torch.optim.lr_scheduler.SequentialLR(optim, parts, milestones)


def scheduler(kind, lr=0.1, metrics=None, **arguments):
    """The lr (and for OneCycleLR and CyclicLR the momentum) in force in each step."""
    optim = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr, momentum=0.9)
    made = {"lr_lambda": LAMBDAS[arguments["lr_lambda"]]} if kind == "LambdaLR" else arguments
    if "recipe" in arguments:
        schedule = compound(kind, optim, arguments["recipe"])
    else:
        where = torch.optim.swa_utils if kind == "SWALR" else torch.optim.lr_scheduler
        schedule = getattr(where, kind)(optim, **made)
    rates, momenta = [], []
    for step in range(SCHEDULE):
        rates.append(optim.param_groups[0]["lr"])
        momenta.append(optim.param_groups[0]["momentum"])
        optim.step()
        if step + 1 < SCHEDULE:
            schedule.step(*([] if metrics is None else [metrics[step]]))
    outputs = [("lr", torch.tensor(rates, dtype=torch.float64), None)]
    if kind in ("OneCycleLR", "CyclicLR"):
        outputs.append(("momentum", torch.tensor(momenta, dtype=torch.float64), None))
    inputs = [] if metrics is None else [("metrics", torch.tensor(metrics, dtype=torch.float64))]
    return gold.Case("scheduler." + kind.lower(), "", inputs, [("lr", lr)] + list(arguments.items()), outputs, [])


def decaying_schedulers():
    for milestones, gamma in (([3, 9, 20], 0.1), ([5], 0.5), ([2, 2, 7], 0.9), ([0, 4], 0.5)):
        yield scheduler("MultiStepLR", milestones=milestones, gamma=gamma)
    for factor, total_iters in ((0.5, 4), (0.1, 0), (1.0 / 3, 5), (1.0, 10)):
        yield scheduler("ConstantLR", factor=factor, total_iters=total_iters)
    for start, end, total_iters in ((1.0 / 3, 1.0, 5), (0.1, 0.5, 20), (1.0, 0.0, 29), (1.0, 0.1, 40)):
        yield scheduler("LinearLR", start_factor=start, end_factor=end, total_iters=total_iters)
    for gamma in (0.9, 0.5, 1.1):
        yield scheduler("ExponentialLR", gamma=gamma)
    for total_iters, power in ((5, 1.0), (20, 2.0), (29, 0.5), (60, 0.9)):
        yield scheduler("PolynomialLR", total_iters=total_iters, power=power)
    for arguments in ({"T_0": 7}, {"T_0": 3, "T_mult": 2}, {"T_0": 40}, {"T_0": 1, "T_mult": 3, "eta_min": 0.01}):
        yield scheduler("CosineAnnealingWarmRestarts", **arguments)


def averaging_schedulers():
    for more in ({}, {"anneal_epochs": 4}, {"anneal_epochs": 7, "anneal_strategy": "linear"}, {"anneal_epochs": 0}):
        yield scheduler("SWALR", swa_lr=0.02, **more)


def cyclic_schedulers():
    for more in ({}, {"step_size_down": 3}, {"mode": "triangular2"}, {"mode": "exp_range", "gamma": 0.9},
                 {"cycle_momentum": False}, {"base_momentum": 0.5, "max_momentum": 0.95}):
        yield scheduler("CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=6, **more)


def plateau_schedulers():
    """Metrics that fall, stay, and rise a little."""
    falls = [max(1.0, 3.0 - 0.5 * i) + 0.01 * (i % 3) for i in range(SCHEDULE)]
    for more in ({}, {"patience": 2}, {"patience": 1, "factor": 0.5, "cooldown": 3},
                 {"patience": 0, "factor": 0.5, "min_lr": 0.02}, {"patience": 3, "threshold": 0.3},
                 {"patience": 3, "threshold": 0.4, "threshold_mode": "abs"}, {"patience": 4, "mode": "max"},
                 {"patience": 2, "factor": 0.9, "eps": 0.005}):
        yield scheduler("ReduceLROnPlateau", metrics=falls, **{"patience": 10, **more})


def schedulers():
    for size, gamma in ((1, 0.9), (5, 0.1), (7, 0.5), (100, 0.5)):
        yield scheduler("StepLR", step_size=size, gamma=gamma)
    yield scheduler("StepLR", lr=1.0, step_size=3)
    for T_max in (1, 5, 10, 29, 30, 60):
        yield scheduler("CosineAnnealingLR", T_max=T_max)
        yield scheduler("CosineAnnealingLR", lr=0.5, T_max=T_max, eta_min=0.01)
    for more in ({}, {"pct_start": 0.5}, {"anneal_strategy": "linear"},
                 {"div_factor": 10.0,
                  "final_div_factor": 100.0}, {"three_phase": True}, {"cycle_momentum": False},
                 {"base_momentum": 0.8,
                  "max_momentum": 0.9}, {"three_phase": True, "anneal_strategy": "linear", "pct_start": 0.2}):
        yield scheduler("OneCycleLR", max_lr=0.4, total_steps=SCHEDULE, **more)
    for name in LAMBDAS:
        yield scheduler("LambdaLR", lr_lambda=name)
    yield from decaying_schedulers()
    yield from cyclic_schedulers()
    yield from plateau_schedulers()
    yield from averaging_schedulers()
    for name in RECIPES:
        yield scheduler("SequentialLR", recipe=name)
        yield scheduler("ChainedScheduler", recipe=name)


def clipping():
    for norm_type in (2.0, 1.0, 3.0, float("inf")):
        for max_norm in (0.5, 1.0, 100.0):
            leaves = [torch.zeros(s, requires_grad=True) for s in ((3, 2), (5, ), (1, ), (2, 2))]
            grads = [torch.randn(leaf.shape) for leaf in leaves[:-1]]  # the last has no gradient
            for leaf, grad in zip(leaves, grads):
                leaf.grad = grad.clone()
            total = torch.nn.utils.clip_grad_norm_(leaves, max_norm, norm_type)
            yield gold.Case("nn.utils.clip_grad_norm", "", [("grad.%d" % i, g) for i, g in enumerate(grads)],
                            [("max_norm", max_norm), ("norm_type", norm_type)],
                            [("total_norm", total, None)] + [("grad.%d" % i, leaf.grad, None)
                                                             for i, leaf in enumerate(leaves[:-1])], [])


def clipping_by_value():
    for clip_value in (0.25, 1.0, 0.0, 100.0):
        leaves = [torch.zeros(s, requires_grad=True) for s in ((3, 2), (5, ), (1, ))]
        grads = [torch.randn(leaf.shape) for leaf in leaves]
        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad.clone()
        torch.nn.utils.clip_grad_value_(leaves, clip_value)
        yield gold.Case("nn.utils.clip_grad_value", "", [("grad.%d" % i, g) for i, g in enumerate(grads)],
                        [("clip_value", clip_value)],
                        [("grad.%d" % i, leaf.grad, None) for i, leaf in enumerate(leaves)], [])


# Arguments whose default is another number, as 0; all that PyTorch takes as 0.
BETAS = ({"betas": (0.0, 0.999)}, {"betas": (0.9, 0.0)}, {"betas": (0.0, 0.0)})
ZEROS = {
    "SGD": ({"dampening": 0.0, "momentum": 0.0}, ),
    "Adam": (*BETAS, {"eps": 0.0}),
    "AdamW": (*BETAS, {"eps": 0.0}, {"weight_decay": 0.0}),
    "RMSprop": ({"alpha": 0.0}, {"eps": 0.0}),  # alpha 0 and centered: the root of rounding errors
    "Adagrad": ({"eps": 0.0}, {"initial_accumulator_value": 0.0, "lr_decay": 0.0}),
    "Adadelta": ({"rho": 0.0}, {"eps": 0.0}),
    "Adamax": (*BETAS, {"eps": 0.0}),
    "NAdam": (*BETAS, {"eps": 0.0}, {"momentum_decay": 0.0}),
    "RAdam": (*BETAS, {"eps": 0.0}),
    "Rprop": ({"step_sizes": (0.0, 50.0)}, {"step_sizes": (0.0, 0.0)}),
    "ASGD": ({"lambd": 0.0}, {"alpha": 0.0}, {"t0": 0.0}),
    "Lion": ({"betas": (0.0, 0.99)}, {"betas": (0.9, 0.0)}),
    "Adafactor": ({"beta2_decay": 0.0}, {"eps": (0.0, 1e-3)}, {"eps": (1e-3, 0.0)}, {"eps": (0.0, 0.0)}),
    "Muon": ({"weight_decay": 0.0}, {"momentum": 0.0}, {"nesterov": False}, {"eps": 0.0}, {"ns_steps": 0},
             {"ns_coefficients": (0.0, -4.775, 2.0315)}, {"ns_coefficients": (3.4445, 0.0, 2.0315)},
             {"ns_coefficients": (3.4445, -4.775, 0.0)}),
}


def zero_cases():
    """Options of 0, for a whole optimiser and for a later group, whose first has another value; schedules too."""
    torch.manual_seed(778)
    matrices = {"shapes": ((3, 2), (2, 4))}
    for kind, all_of_it in ZEROS.items():
        for arguments in ({"lr": 0.0}, *all_of_it):
            yield optimiser(kind, "zero", **arguments, **(matrices if kind == "Muon" else {}))
    for kind in ("SGD", "Adam", "AdamW", "RMSprop", "NAdam", "Lion", "Adafactor", "Muon"):
        more = matrices if kind == "Muon" else {}
        yield optimiser(kind, "zero/norms", group={"lr": 0.05, "weight_decay": 0.0}, weight_decay=0.3, **more)
    for more in ({}, {"eps": (0.0, 1e-3)}):  # gradients below the eps of f32
        yield optimiser("Adafactor", "zero/tiny", size=1e-9, **more)
    yield optimiser("SGD", "zero/groups", group={"lr": 0.0, "momentum": 0.0}, lr=0.1, momentum=0.9)
    for more in ({"pct_start": 0.0}, {"pct_start": 0.0, "three_phase": True}, {"base_momentum": 0.0},
                 {"max_momentum": 0.0}):
        yield scheduler("OneCycleLR", max_lr=0.4, total_steps=SCHEDULE, **more)
    yield scheduler("OneCycleLR", max_lr=0.0, total_steps=SCHEDULE)
    for more in ({"step_size_down": 0}, {"mode": "exp_range", "gamma": 0.0}, {"base_momentum": 0.0},
                 {"max_momentum": 0.0}, {"base_lr": 0.0}, {"max_lr": 0.0}):
        yield scheduler("CyclicLR", **{"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 6, **more})
    creeps = [2.0 - 1e-5 * i for i in range(SCHEDULE)]  # an improvement, but for a threshold of 1e-4
    for more in ({"threshold": 0.0}, {"threshold": 0.0, "threshold_mode": "abs"}, {"cooldown": 0}, {"factor": 0.0},
                 {"min_lr": 0.0}, {"eps": 0.0, "factor": 0.9, "lr": 1e-7}, {"factor": 0.9, "lr": 1e-7}):
        yield scheduler("ReduceLROnPlateau", metrics=creeps, **{"patience": 0, **more})


def all_cases():
    torch.manual_seed(777)
    cases = list(optimisers()) + list(schedulers()) + list(clipping()) + list(clipping_by_value())
    return cases + list(further_optimisers()) + list(composed_optimisers())
