# Training steps of bench/support/steps.c beside PyTorch's at its best, taking turns: processor time on one thread, the
# clock on two, where only rounds count in which no thread waited long for a core. H6 and H9.
# Beside torch.compile too (one thread), where it can: it needs a C++ compiler.
# Usage: steps.py LIBSITU.SO [--eager] [NAME...]     (NAME: only these jobs; --eager: without torch.compile)
# SPDX-License-Identifier: MIT
import functools
import sys
import time

import torch
import torch.nn.functional as F
from support.gpt2 import GPT2
from support.turns import Server, in_turn, say, waited
from torch import nn

torch.manual_seed(1)
asked = [word for word in sys.argv[2:] if word != "--eager"]


def mlp():
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


class Residual(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True),
                                   nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.across = nn.Identity() if into == out else nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False),
                                                                      nn.BatchNorm2d(out))

    def forward(self, x):
        return F.relu_(self.inner(x) + self.across(x))


def resnet18():
    widths = ((64, 64), (64, 128), (128, 256), (256, 512))
    blocks = [Residual(i, o, s) for a, b in widths for i, o, s in ((a, b, 1 if a == b else 2), (b, b, 1))]
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Hidden(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


def tensors(count, size):
    """Parameters that only the optimiser sees, with gradients."""
    net = nn.ParameterList(torch.randn(size) for _ in range(count))
    for p in net:
        p.grad = torch.randn(size)
    return net


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, fused=True)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=5e-4, fused=True)


# What bench/support/steps.c has: model, optimiser, input's shape, symbols, targets, clipping; the goal and its least ratio.
jobs = {
    "mlp": (mlp, adamw, (64, 784), 0, 64, False, "H6", 2.0),
    "lenet": (lenet, sgd, (64, 1, 28, 28), 0, 64, False, "H6", 2.5),
    "char_gpt": (lambda: GPT2(96, 64, 64, 4, 2), adamw, (16, 64), 96, 16 * 64, True, "H6", 1.3),
    "gpt256": (lambda: GPT2(512, 128, 256, 8, 4), adamw, (8, 128), 512, 8 * 128, True, "H6", 1.3),
    "resnet18": (resnet18, sgd, (32, 3, 32, 32), 0, 32, False, "H6", 1.4),
    "lstm": (lambda: Hidden(128, 256, batch_first=True), adamw, (32, 64, 128), 0, 0, False, "H6", 1.5),
    "lstm_small": (lambda: Hidden(1, 32, batch_first=True), adamw, (64, 40, 1), 0, 0, False, "H6", 1.5),
    "adamw_16": (lambda: tensors(100, 16), adamw, None, 0, 0, False, "H9", 60),
    "adamw_818k": (lambda: tensors(52, 15736), adamw, None, 0, 0, False, "H9", 1.6),
}


class Training:
    def __init__(self, name, channels_last, compiled):
        model, optim, shape, symbols, targets, self.clip = jobs[name][:6]
        self.net = model()
        self.run = self.net
        self.optim = optim(self.net.parameters())
        if shape is None:
            return
        self.input = torch.randint(0, symbols, shape) if symbols else torch.randn(shape)
        self.target = torch.randint(0, symbols or 10, (targets,)) if targets else torch.randn_like(self.net(self.input))
        if channels_last:
            self.net, self.input = (t.to(memory_format=torch.channels_last) for t in (self.net, self.input))
        if compiled:
            self.run = torch.compile(self.net)

    def step(self):
        if hasattr(self, "input"):
            self.optim.zero_grad(set_to_none=True)
            y = self.run(self.input)
            loss = F.cross_entropy(y.flatten(0, -2), self.target) if self.target.dim() == 1 else F.mse_loss(y, self.target)
            loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.net.parameters(), 1, foreach=True)
        self.optim.step()

    def measure(self, steps):
        """A step's processor seconds, seconds on the clock, and the share of these that threads waited for a core."""
        before = waited()  # reads files, which is not part of a step
        begin, used = time.perf_counter(), time.process_time()
        for _ in range(steps):
            self.step()
        spent, taken = time.process_time() - used, time.perf_counter() - begin
        return spent / steps, taken / steps, (waited() - before) / taken


def best(name, compiled):
    """PyTorch's faster layout of images."""
    both = [Training(name, last, compiled) for last in ((False, True) if name in ("lenet", "resnet18") else (False,))]
    for t in both:
        t.measure(2)
    return min(both, key=lambda t: min(t.measure(2)[0] for _ in range(3)))


def compare(name, threads, theirs, must, peer):
    torch.set_num_threads(threads)
    sides = (lambda steps: situ.ask(name, threads, steps)), theirs.measure
    # Each side runs for 30 ms, of which the caches that the other one has filled take a small part.
    ours, theirs = (functools.partial(side, max(1, int(0.03 / min(side(3)[1] for _ in range(2))))) for side in sides)
    rounds = in_turn(ours, theirs, 21, 6, 5, threads)
    # Waiting is what a busy machine adds to the clock: the quieter half of the rounds, on two threads.
    by_wait = sorted(rounds, key=lambda pair: max(pair[0][2], pair[1][2]))
    kept = rounds if threads == 1 else by_wait[:max(5, len(rounds) // 2)]
    say(jobs[name][6], f"{name} step, {threads}T" + (", compiled" if peer == "compile" else ""),
        [(a[threads - 1], b[threads - 1]) for a, b in kept], must, peer,
        **({} if threads == 1 else {"waited": round(max(kept[-1][0][2], kept[-1][1][2]), 4)}))


situ = Server(sys.argv[1], "steps")
for name in asked or jobs:
    torch.set_num_threads(1)
    theirs = best(name, False)
    for threads in (1, 2) if jobs[name][6] == "H6" else (1,):
        compare(name, threads, theirs, jobs[name][7], "torch")
for name in asked or jobs:
    if jobs[name][6] == "H6" and "--eager" not in sys.argv:
        torch.set_num_threads(1)
        try:
            compare(name, 1, best(name, True), 1, "compile")
        except Exception as error:  # inductor's, of many kinds
            print(f"{name}: SKIPPED: {str(error).splitlines()[0]}")
situ.end()
