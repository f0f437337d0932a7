#!/usr/bin/env python3
"""Trains small networks in torch and keeps where they start, their data and their losses: what situ must follow.
SPDX-License-Identifier: MIT

  /usr/bin/python3 tools/golden/parity.py      writes tests/golden/data/parity_*.safetensors

A file has init.<state_dict name>, data.x, data.y, and losses [60] (f32). Step s takes the
`batch` rows from (s * batch) % rows on. The recipe is in the code below and, in short, in the file's metadata."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import safetensors  # noqa: E402

STEPS = 60


class Transformer(nn.Module):
    """Embeddings of token and position, two encoder layers under a causal mask, a norm, a linear head."""
    def __init__(self, vocabulary=24, length=10, width=16):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        length = x.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)  # true: do not look
        h = self.token(x) + self.position(torch.arange(length))
        for layer in self.layers:
            h = layer(h, mask)
        return self.head(self.norm(h)).flatten(0, 1)


def mlp():
    return nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                         nn.Linear(32, 4))


def vectors():
    x = torch.randn(64, 8)
    return x, (x @ torch.randn(8, 3) + 0.3 * torch.randn(64, 3)).argmax(1)


def pictures():
    y = torch.randint(0, 4, (48, ))
    return torch.randn(48, 1, 8, 8) + torch.randn(4, 1, 8, 8)[y], y


def sentences():
    """Counting modulo 24 in steps of 1 to 3: the next token follows from two."""
    start, step = torch.randint(0, 24, (48, 1)), torch.randint(1, 4, (48, 1))
    text = (start + step * torch.arange(11)) % 24
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def train(model, x, y, batch, optimiser, schedule=None, clip=None, autocast=False):
    """60 steps; the losses before each."""
    losses = []
    for step in range(STEPS):
        at = step * batch % x.shape[0]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(x[at:at + batch]), y[at:at + batch].flatten())
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        if schedule:
            schedule.step()
    return torch.tensor(losses, dtype=torch.float64)


RUNS = {
    "mlp_sgd": (mlp, vectors, 16, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
                False, "SGD lr=0.05 momentum=0.9 weight_decay=1e-3, batch 16"),
    "mlp_adam": (mlp, vectors, 16, lambda p: torch.optim.Adam(p, lr=0.01), False, "Adam lr=0.01, batch 16"),
    "mlp_autocast": (mlp, vectors, 16, lambda p: torch.optim.Adam(p, lr=0.01), False,
                     "Adam lr=0.01, batch 16, autocast to bf16"),
    "cnn_adamw": (cnn, pictures, 12, lambda p: torch.optim.AdamW(p, lr=0.003, weight_decay=0.01), False,
                  "AdamW lr=0.003 weight_decay=0.01, batch 12"),
    "transformer_adam": (
        Transformer, sentences, 8, lambda p: torch.optim.Adam(p, lr=0.003), True,
        "Adam lr=0.003, CosineAnnealingLR T_max=60 eta_min=1e-4, clip_grad_norm_ 1.0, batch 8"),
}


def run(name, out):
    torch.manual_seed(31)
    build, data, batch, optimiser, scheduled, recipe = RUNS[name]
    model, (x, y) = build(), data()
    start = {n: v.clone() for n, v in model.state_dict().items()}
    kept = {"init." + n: v for n, v in start.items()}
    losses = {}
    for dtype in (torch.float64,
                  torch.float32):  # the f64 run shows how far rounding alone leads the losses apart
        model = build().to(dtype)
        model.load_state_dict(start)
        optim = optimiser(model.parameters())
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optim, STEPS, 1e-4) if scheduled else None
        losses[dtype] = train(model,
                              x.to(dtype) if x.is_floating_point() else x, y, batch, optim, schedule,
                              1.0 if scheduled else None, autocast=name.endswith("autocast") and dtype == torch.float32)
    apart = ((losses[torch.float32] - losses[torch.float64]) / losses[torch.float64]).abs().max().item()
    kept.update({"data.x": x, "data.y": y, "losses": losses[torch.float32].float()})
    path = os.path.join(out, "parity_%s.safetensors" % name)
    safetensors.write(path, kept, {"recipe": recipe, "loss": "cross_entropy", "batch": batch, "steps": STEPS})
    print("%-17s %6d bytes, loss %.4f to %.4f, f32 and f64 at most %.1e apart" %
          (name, os.path.getsize(path), losses[torch.float32][0], losses[torch.float32][-1], apart))


def main():
    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    for name in RUNS:
        run(name, os.path.join(here, "..", "..", "tests", "golden", "data"))


if __name__ == "__main__":
    main()
