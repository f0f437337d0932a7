"""Ops that situ makes of others: draws, repeats, sets, windows, losses of sequences. Made from PyTorch 2.15.
SPDX-License-Identifier: MIT"""
import torch

from table import RANDOM, row


def compound(name, call, **rest):
    row(name, "compound", call, **rest)


compound("multinomial", lambda input, num_samples, replacement=False: torch.multinomial(input, num_samples, replacement))
RANDOM.add("multinomial")
