"""Golden cases of schedules beside each other: every two in a SequentialLR, and each with a parameter group that is added
after it. tests/golden/optim/schedules.c has the same KINDS.
SPDX-License-Identifier: MIT

scheduler.sequence: attributes first and second; outputs lr and momentum, f64, in force in each of 10 steps.
scheduler.late: attribute kind; output lr, f64: rows of both groups, up to the step that PyTorch refuses."""
import torch
from torch.optim import lr_scheduler as lr
from torch.optim.swa_utils import SWALR

import gold

STEPS, MILESTONE, ADDED = 10, 4, 2
KINDS = {
    "step": lambda o: lr.StepLR(o, 2, 0.5), "multi_step": lambda o: lr.MultiStepLR(o, [0, 3], 0.5),
    "constant": lambda o: lr.ConstantLR(o, 0.25, 3), "linear": lambda o: lr.LinearLR(o, 0.1, 0.9, 4),
    "exponential": lambda o: lr.ExponentialLR(o, 0.8), "polynomial": lambda o: lr.PolynomialLR(o, 6, 2.0),
    "lambda": lambda o: lr.LambdaLR(o, lambda epoch: 1 / (2 + epoch)),
    "multiplicative": lambda o: lr.MultiplicativeLR(o, lambda epoch: 1 / (2 + epoch)),
    "cosine": lambda o: lr.CosineAnnealingLR(o, 5, 0.01), "restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 3, 2),
    "one_cycle": lambda o: lr.OneCycleLR(o, 0.4, 12, three_phase=True),
    "cyclic": lambda o: lr.CyclicLR(o, 0.01, 0.3, 3), "swalr": lambda o: SWALR(o, 0.05, 3),
    "swalr_at_once": lambda o: SWALR(o, 0.05, 0), "plateau": lambda o: lr.ReduceLROnPlateau(o, factor=0.5, patience=0),
    "chain": lambda o: lr.ChainedScheduler([lr.ExponentialLR(o, 0.8), lr.StepLR(o, 2, 0.5)]),
    "sequence": lambda o: lr.SequentialLR(o, [lr.StepLR(o, 1, 0.5), lr.ExponentialLR(o, 0.8)], [5])
}
ALONE = ("plateau", "chain", "sequence")  # PyTorch has no sequences of these
# In PyTorch this CyclicLR overwrites the max_momentum that OneCycleLR keeps in the group.
COLLIDING = ("one_cycle", "cyclic")


def sgd():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.2, momentum=0.9)


def sequence(first, second):
    optim = sgd()
    schedule = lr.SequentialLR(optim, [KINDS[first](optim), KINDS[second](optim)], [MILESTONE])
    rates, momenta = [], []
    for _ in range(STEPS):
        rates.append(optim.param_groups[0]["lr"])
        momenta.append(optim.param_groups[0]["momentum"])
        optim.step()
        schedule.step()
    outputs = [(name, torch.tensor(list_, dtype=torch.float64), None) for name, list_ in (("lr", rates), ("momentum", momenta))]
    return gold.Case("scheduler.sequence", "", [], [("first", first), ("second", second)], outputs, [])


def late(kind):
    optim = sgd()
    schedule = KINDS[kind](optim)
    rows = []
    for step in range(STEPS):
        if step == ADDED:
            optim.add_param_group({"params": [torch.zeros(1, requires_grad=True)], "lr": 0.1})
        rows.append([optim.param_groups[0]["lr"], optim.param_groups[-1]["lr"]])
        optim.step()
        try:
            schedule.step(*([1.0] if kind == "plateau" else []))
        except (KeyError, ValueError):
            break
    return gold.Case("scheduler.late", "", [], [("kind", kind)], [("lr", torch.tensor(rows, dtype=torch.float64), None)], [])


def all_cases():
    parts = [kind for kind in KINDS if kind not in ALONE]
    return [sequence(a, b) for a in parts for b in parts if (a, b) != COLLIDING] + [late(kind) for kind in KINDS]
