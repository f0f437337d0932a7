"""The losses of the examples with derivatives in the loss, by PyTorch in f64 from the weights that they start from.
SPDX-License-Identifier: MIT

usage: physics.py BUILD     (BUILD/examples has the programs; writes tests/golden/data/examples/*.txt)"""
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

from safetensors import read

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITHIN = "1e-8"


def network(*widths):
    layers = [part for i, o in zip(widths, widths[1:]) for part in (nn.Linear(i, o, dtype=torch.float64), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def step_closure(optim, loss_of):
    def closure():
        loss = loss_of()
        optim.zero_grad()
        loss.backward()
        return loss

    return optim.step(closure).item()


class Burgers:
    """12_burgers: 170 steps of Adam, then 30 of LBFGS."""
    def __init__(self):
        def fraction(x):
            return x - math.floor(x)

        self.net = network(2, 20, 20, 20, 1)
        inside = [(2 * fraction(0.5 + i * 0.7548776662466927) - 1, fraction(0.5 + i * 0.5698402909980532))
                  for i in range(256)]
        edge = []
        for i in range(96):
            at = (i // 3 + 0.5) * 3 / 96
            edge.append(((2 * at - 1, 0), (-1, at), (1, at))[i % 3])
        value = [-math.sin(math.pi * x) if i % 3 == 0 else 0 for i, (x, _) in enumerate(edge)]
        self.inside, self.edge = (torch.tensor(list(p), dtype=torch.float64) for p in (inside, edge))
        self.value = torch.tensor(value, dtype=torch.float64).unsqueeze(1)

    def loss(self):
        xt = self.inside.detach().requires_grad_()
        u = self.net(xt)
        du, = torch.autograd.grad(u.sum(), xt, create_graph=True)
        u_xx = torch.autograd.grad(du[:, 0:1].sum(), xt, create_graph=True)[0][:, 0:1]
        residual = du[:, 1:2] + u * du[:, 0:1] - 0.01 / math.pi * u_xx
        return residual.square().mean() + F.mse_loss(self.net(self.edge), self.value)

    def losses(self):
        optim = torch.optim.Adam(self.net.parameters(), lr=5e-3)
        for _ in range(170):
            yield step_closure(optim, self.loss)
        optim = torch.optim.LBFGS(self.net.parameters(), max_iter=1, max_eval=10, line_search_fn="strong_wolfe")
        for _ in range(30):
            yield step_closure(optim, self.loss)


class Forces:
    """13_forces: 200 steps of Adam."""
    def __init__(self, side=4, shells=8):
        self.net, self.cutoff, self.atoms = network(shells, 24, 24, 1), 2.2, side**3
        self.shells = torch.linspace(0.8, 2.0, shells, dtype=torch.float64)
        self.frames = [self.frame(side, number) for number in range(4)]

    def frame(self, side, number):
        sites = [(i // side**2, i // side % side, i % side) for i in range(side**3)]
        x = torch.tensor([[1.1 * site[k] + 0.12 * math.sin(1.7 * i + 2.3 * k + 0.9 * number) for k in range(3)]
                          for i, site in enumerate(sites)], dtype=torch.float64)
        first, second = torch.triu_indices(len(sites), len(sites), 1)
        near = (x[first] - x[second]).square().sum(1) < self.cutoff**2
        first, second = first[near], second[near]
        at = x.clone().requires_grad_()
        r = self.distances(at, first, second)
        energy = ((((-2 * (r - 1.1)).exp() - 1).square() - 1) * self.damping(r)).sum()
        return x, first, second, energy.detach(), -torch.autograd.grad(energy, at)[0]

    @staticmethod
    def distances(x, first, second):
        return (x.index_select(0, first) - x.index_select(0, second)).square().sum(1, keepdim=True).sqrt()

    def damping(self, r):
        return 0.5 * ((r * (math.pi / self.cutoff)).cos() + 1)

    def loss(self, frame):
        x, first, second, want, forces = frame
        x = x.detach().requires_grad_()
        r = self.distances(x, first, second)
        g = (-12 * (r - self.shells).square()).exp() * self.damping(r)
        none = torch.zeros(self.atoms, len(self.shells), dtype=torch.float64)
        energy = self.net(none.index_add(0, first, g).index_add(0, second, g)).sum()
        force = -torch.autograd.grad(energy, x, create_graph=True)[0]
        return ((energy - want) / self.atoms).square() + F.mse_loss(force, forces)

    def losses(self):
        optim = torch.optim.Adam(self.net.parameters(), lr=3e-3)
        for step in range(200):
            yield step_closure(optim, lambda: self.loss(self.frames[step % 4]))


def main():
    torch.set_num_threads(1)
    target = ROOT / "tests/golden/data/examples"
    for name, make in (("12_burgers", Burgers), ("13_forces", Forces)):
        example = make()
        with tempfile.TemporaryDirectory() as work:
            start = f"{work}/start.safetensors"
            program = pathlib.Path(sys.argv[1]).resolve() / "examples" / name
            subprocess.run([program, "--start", start], check=True, capture_output=True)
            example.net.load_state_dict(read(start))
        losses = list(example.losses())
        lines = [f"step {i}  loss {loss:.15g}\n" for i, loss in enumerate(losses)
                 if i % 10 == 0 or i + 1 == len(losses)]
        (target / f"{name}.txt").write_text(f"within {WITHIN}\n" + "".join(lines))
        print(name, "".join(lines), sep="\n")


main()
