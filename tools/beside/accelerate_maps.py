#!/usr/bin/env python3
"""Compares maps over devices by accelerate's infer_auto_device_map and by situ_place_fit: which run within the limits.
SPDX-License-Identifier: MIT

  python3 tools/beside/accelerate_maps.py BUILD [--cc cc]

BUILD is a build directory with libsitu. Each model is exported and run on three simulated devices whose memory is a
share of what the model needs on one; inputs are on the first. Needs torch and accelerate."""
import argparse
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)  # there are no such devices here

import torch  # noqa: E402
from accelerate import infer_auto_device_map  # noqa: E402
from torch import nn  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


class Language(nn.Module):
    """Tied weights of the first and the last layer."""
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(2000, 64)
        self.layers = nn.Sequential(*(Residual(64) for _ in range(6)))
        self.head = nn.Linear(64, 2000, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.layers(self.embed(x)))


def chain(width, count):
    return nn.Sequential(*(layer for _ in range(count) for layer in (nn.Linear(width, width), nn.ReLU())))


def convolutions():
    sizes = [3, 16, 32, 32, 64, 64]
    return nn.Sequential(*(layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU())),
                         nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 100))


def encoders():
    return nn.Sequential(*(nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, dropout=0) for _ in range(6)))


MODELS = {
    "12 layers, 16 rows": lambda: (chain(256, 12), torch.zeros(16, 256)),
    "12 layers, 2048 rows": lambda: (chain(256, 12), torch.zeros(2048, 256)),
    "CNN, 8 images": lambda: (convolutions(), torch.zeros(8, 3, 32, 32)),
    "8 residuals, 512 rows": lambda: (nn.Sequential(*(Residual(128) for _ in range(8))), torch.zeros(512, 128)),
    "6 encoder layers": lambda: (encoders(), torch.zeros(8, 64, 64)),
    "tied language model": lambda: (Language(), torch.zeros(4, 32, dtype=torch.int64)),
}
SHARES = (0.6, 0.75, 0.9)
WHOLE = ["Residual", "TransformerEncoderLayer"]


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode == 0, done.stdout.strip()


def accelerates(model, limit):
    """Its map in situ's words; None if a part is left over."""
    found = infer_auto_device_map(model, max_memory={0: limit, 1: limit, 2: limit}, no_split_module_classes=WHOLE)
    if any(not isinstance(device, int) for device in found.values()):
        return None
    return ",".join(f"{path or '*'}=sim:{device}" for path, device in found.items())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--cc", default="cc")
    options = parser.parse_args()
    counts = {"accelerate": [0, 0, 0], "situ": [0, 0, 0]}
    with tempfile.TemporaryDirectory() as work:
        program = f"{work}/run_map"
        subprocess.run([options.cc, "-std=c17", "-O1", "-o", program, str(HERE / "run_map.c"),
                        f"-I{HERE.parents[1] / 'include'}", f"-L{options.build}", "-lsitu",
                        f"-Wl,-rpath,{os.path.abspath(options.build)}"], check=True)
        for name, make in MODELS.items():
            torch.manual_seed(1)
            model, x = make()
            model.eval()
            path = f"{work}/model.pt2"
            torch.export.save(torch.export.export(model, (x,)), path)
            good, text = run(program, path, 0)
            if not good:
                sys.exit(f"{name}: {text}")
            alone = int(text.split()[0])
            for share in SHARES:
                limit = int(alone * share)
                good, text = run(program, path, limit)
                maps = {"accelerate": accelerates(model, limit), "situ": text.split(" ", 2)[2] if good else None}
                words = []
                for who, found in maps.items():
                    fits, why = run(program, path, limit, found) if found else (False, "")
                    counts[who][0 if fits else 1 if found else 2] += 1
                    words.append(f"{who}: {'fits' if fits else 'exceeds the limit' if found else 'no map'}")
                    if found and not fits and "memory" not in why and "are free" not in why:
                        words.append(why)
                print(f"{name}, {share:.0%} of {alone} B: {'; '.join(words)}", flush=True)
    for who, (fits, exceeds, none) in counts.items():
        print(f"{who}: {fits} maps fit, {exceeds} exceed the limit when run, {none} limits without a map")


if __name__ == "__main__":
    main()
