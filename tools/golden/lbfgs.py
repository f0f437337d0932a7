"""Golden cases of LBFGS: f64 runs of closures that tests/golden/optim/lbfgs.c has too.
SPDX-License-Identifier: MIT

optim.lbfgs: inputs param.I (before the first step), and x and y of the problem; outputs param.I (a row a step, after it)
and the losses that the steps return. Attributes: problem, steps, and the constructor's arguments."""
import torch

import gold

# Line searches on rough functions amplify rounding: the cases are such that PyTorch's own results do not change by 1e-9 if
# a start changes by one rounding.


def rosenbrock(p, x, y):
    z = torch.cat(p)
    return (100 * (z[1:] - z[:-1]**2)**2 + (1 - z[:-1])**2).sum()


def bowl(p, x, y):
    """Ill-conditioned; the second parameter takes no part."""
    return (y * (p[0] - x)**2).sum()


def network(p, x, y):
    hidden = torch.tanh(x @ p[0].T + p[1])
    return ((hidden @ p[2].T + p[3] - y)**2).mean()


def regression(p, x, y):
    """maximize: the log-likelihood of logistic regression, with a prior."""
    return -torch.nn.functional.softplus(-y * (x @ p[0])).sum() - (p[0]**2).sum() / 8


def waves(p, x, y):
    """Many minima, so that line searches meet each case."""
    return (torch.cos(4 * p[0]) + p[0]**2 / 8).sum() + (torch.sin(p[1]) * p[0].sum()).sum()


def kinks(p, x, y):
    return (y * ((p[0] - x).square() + 0.01).sqrt()).sum()


def barrier(p, x, y):
    """NaN where a parameter is negative."""
    return (p[0].square() - torch.log(p[0] + 2)).sum()


PROBLEMS = {
    "rosenbrock": (rosenbrock, ((3, ), (2, )), None, None),
    "bowl": (bowl, ((6, ), (2, )), (6, ), (6, )),
    "network": (network, ((8, 2), (8, ), (1, 8), (1, )), (12, 2), (12, 1)),
    "regression": (regression, ((3, ), ), (20, 3), (20, )),
    "waves": (waves, ((4, ), (2, )), None, None),
    "kinks": (kinks, ((3, ), ), (3, ), (3, )),
    "barrier": (barrier, ((3, ), ), None, None),
}


def case(problem, steps, seed=None, **arguments):
    loss_of, shapes, *data = PROBLEMS[problem]
    if seed is not None:
        torch.manual_seed(seed)
    params = [0.5 * torch.randn(*shape, dtype=torch.float64) for shape in shapes]
    x, y = (shape and torch.randn(*shape, dtype=torch.float64) for shape in data)
    if problem == "kinks":
        y = y.abs() + 0.1
    if problem == "bowl":
        y = torch.tensor([1e-3, 1e-2, 0.1, 1, 10, 50], dtype=torch.float64)
    leaves = [p.clone().requires_grad_() for p in params]
    optim = torch.optim.LBFGS(leaves, **arguments)
    history, losses = [[] for _ in params], []

    def closure():
        optim.zero_grad()
        loss = loss_of(leaves, x, y)
        loss.backward()
        return loss

    for _ in range(steps):
        losses.append(optim.step(closure).detach())
        for rows, leaf in zip(history, leaves):
            rows.append(leaf.detach().clone())
    inputs = [("param.%d" % i, p) for i, p in enumerate(params)]
    inputs += [(name, t) for name, t in (("x", x), ("y", y)) if t is not None]
    outputs = [("param.%d" % i, torch.stack(rows), None) for i, rows in enumerate(history)]
    outputs.append(("loss", torch.stack(losses), None))
    return gold.Case("optim.lbfgs", problem, inputs,
                     [("problem", problem), ("steps", steps), *arguments.items()], outputs, [])


def zero_cases():
    """Options of 0."""
    torch.manual_seed(1988)
    wolfe = {"line_search_fn": "strong_wolfe"}
    return [
        case("bowl", 3, lr=0.0, max_iter=3),
        *[case("bowl", 3, max_iter=2, **{name: 0.0}, **wolfe) for name in ("tolerance_grad", "tolerance_change")],
        case("network", 2, max_iter=0),
        case("network", 4, lr=0.1, max_iter=5, max_eval=0),  # with a line search PyTorch fails
    ]


def all_cases():
    torch.manual_seed(1987)
    wolfe = {"line_search_fn": "strong_wolfe"}
    single = {"max_iter": 1, "max_eval": 20, **wolfe}
    return [
        case("rosenbrock", 60, **single),
        case("rosenbrock", 60, lr=0.05, max_iter=1),
        case("rosenbrock", 4, lr=0.1, **wolfe),
        case("rosenbrock", 10, max_iter=6, history_size=3, **wolfe),
        case("bowl", 30, max_iter=2, max_eval=5, **wolfe),
        case("bowl", 2, lr=0.5),
        case("bowl", 3, tolerance_grad=0.3, **wolfe),
        case("bowl", 3, tolerance_change=0.05, **wolfe),
        case("network", 60, **single),
        case("network", 16, lr=0.2, max_iter=4),
        case("network", 5, max_iter=10, max_eval=3, **wolfe),
        case("network", 60, max_iter=1, lr=0.1, history_size=2),
        case("regression", 12, max_iter=3, maximize=True, **wolfe),
        case("regression", 12, max_iter=3, maximize=True, lr=0.3),
        case("bowl", 2, lr=1e-4, tolerance_change=1e-3),
        *[case("waves", 4, max_iter=2, lr=lr, max_eval=evals, **wolfe) for lr in (0.02, 1, 4)
          for evals in (2, 3, 4, 5, 8, 25)],
        *[case("waves", 1, max_iter=2, lr=30, max_eval=evals, **wolfe) for evals in (3, 4, 5, 7, 9)],
        # A loss that rises within Armijo's bound, and brackets whose second end is the lower one.
        *[case("waves", 1, seed=seed, max_iter=1, lr=lr, max_eval=evals, **wolfe)
          for seed, lr, evals in ((257, 8, 25), (356, 30, 5), (998, 4, 5))],
        *[case("kinks", 4, max_iter=3, lr=lr, max_eval=evals, **wolfe) for lr in (0.3, 20) for evals in (4, 8, 40)],
        case("kinks", 6, max_iter=3, tolerance_change=0.01, max_eval=40, **wolfe),
        *[case("barrier", 4, max_iter=3, lr=lr, max_eval=12, **wolfe) for lr in (1, 20)],
    ]
