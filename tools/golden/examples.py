"""The losses of examples/ by PyTorch, from the weights that the example itself starts from.
SPDX-License-Identifier: MIT

usage: examples.py BUILD     (BUILD/examples has the programs; writes tests/golden/data/examples/*.txt)"""
import csv
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
GPL = "/usr/share/common-licenses/GPL-3"


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 32, batch_first=True), nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def forecast():
    rows = list(csv.reader(open(ROOT / "examples/data/sunspots.csv")))[1:]
    spots = torch.tensor([float(r[1]) for r in rows]) / 100
    windows = spots.unfold(0, 40, 1).unsqueeze(-1)
    x, y = windows[:218], windows[1:219]
    return Forecaster(), lambda net, step: F.mse_loss(net(x), y), torch.optim.Adam, 1e-2, 100, 50


class UNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding="same"), nn.GroupNorm(4, o), nn.SiLU(),
                                 nn.Conv2d(o, o, 3, padding="same"), nn.GroupNorm(4, o), nn.SiLU())

        self.down1, self.down2, self.middle = block(1, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.up2, self.up1, self.head = block(6 * w, 2 * w), block(3 * w, w), nn.Conv2d(w, 1, 1)

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        low = self.middle(F.max_pool2d(two, 2))
        up = self.up2(torch.cat([F.interpolate(low, scale_factor=2), two], 1))
        return self.head(self.up1(torch.cat([F.interpolate(up, scale_factor=2), one], 1)))


def unet():
    sharp = (read(ROOT / "demo/data/digits.safetensors")["images"].float() / 16).unsqueeze(1)

    def loss(net, step):
        batch = sharp[step * 50 % 1500:][:50]
        blurred = F.interpolate(F.avg_pool2d(batch, 2), scale_factor=2, mode="bicubic")
        return F.mse_loss(blurred + net(blurred), batch)

    return UNet(), loss, torch.optim.Adam, 2e-3, 40, 20


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(64), nn.RMSNorm(64)
        for name, i, o in (("q", 64, 64), ("k", 64, 32), ("v", 64, 32), ("o", 64, 64), ("gate", 64, 160),
                           ("up", 64, 160), ("down", 160, 64)):
            self.add_module(name + "_proj", nn.Linear(i, o, bias=False))

    def forward(self, x, cos, sin):
        def heads(t, n):
            return t.unflatten(2, (n, 16)).transpose(1, 2)

        def rotate(t):
            return t * cos + torch.cat([-t[..., 8:], t[..., :8]], -1) * sin

        h = self.norm1(x)
        h = F.scaled_dot_product_attention(rotate(heads(self.q_proj(h), 4)), rotate(heads(self.k_proj(h), 2)),
                                           heads(self.v_proj(h), 2), is_causal=True, enable_gqa=True)
        x = x + self.o_proj(h.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Llama(nn.Module):
    def __init__(self, symbols):
        super().__init__()
        self.tokens, self.layers = nn.Embedding(symbols, 64), nn.ModuleList([Layer(), Layer()])
        self.norm, self.head = nn.RMSNorm(64), nn.Linear(64, symbols, bias=False)

    def forward(self, ids):
        angle = torch.outer(torch.arange(ids.shape[1]).float(), torch.exp(torch.arange(8) * (-2 * math.log(1e4) / 16)))
        angle = torch.cat([angle, angle], 1)
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x, angle.cos(), angle.sin())
        return self.head(self.norm(x))


def llama():
    text = pathlib.Path(GPL).read_bytes()
    number = {c: i for i, c in enumerate(dict.fromkeys(text))}
    ids = torch.tensor([number[c] for c in text])

    def loss(net, step):
        start = step * 16 % (len(ids) // 64 - 17) * 64
        return F.cross_entropy(net(ids[start:start + 1024].reshape(16, 64)).flatten(0, 1), ids[start + 1:start + 1025])

    return Llama(len(number)), loss, torch.optim.AdamW, 3e-3, 40, 20


def main():
    torch.set_num_threads(1)
    target = ROOT / "tests/golden/data/examples"
    target.mkdir(exist_ok=True)
    for name, arguments, make in (("09_lstm_forecast", [], forecast), ("10_unet", [], unet), ("11_llama", [GPL], llama)):
        with tempfile.TemporaryDirectory() as work:
            start = f"{work}/start.safetensors"
            net, loss_of, optimiser, lr, steps, every = make()
            program = pathlib.Path(sys.argv[1]).resolve() / "examples" / name
            subprocess.run([program, *arguments, *(["0"] if arguments else []), "--start", start], check=True,
                           capture_output=True)
            net.load_state_dict(read(start))
        optim, lines = optimiser(net.parameters(), lr=lr), []
        for step in range(steps + 1):
            optim.zero_grad()
            loss = loss_of(net, step)
            loss.backward()
            optim.step()
            if step % every == 0:
                lines.append(f"step {step}  loss {loss.item():.6f}\n")
        (target / f"{name}.txt").write_text("".join(lines))
        print(name, "".join(lines), sep="\n")


main()
