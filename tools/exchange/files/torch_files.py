#!/usr/bin/env python3
"""Writes files of torch.save for tests/io/torch.c, with the values that the reader must find.
SPDX-License-Identifier: MIT

  pip install 'torch==2.15.*' safetensors
  python3 tools/exchange/files/torch_files.py [DIRECTORY]      by default tests/io/data

NAME.pt is what torch.save wrote (legacy.pt: as before version 1.6; script.pt: torch.jit.save). NAME.safetensors has each of its tensors under its path, contiguous, and each number,
bool and string as the reader gives it: a 0-dim i64, f64 or bool, or UTF-8 bytes."""
import argparse
import collections
import json
import os
import sys
import warnings

import torch
from safetensors.torch import save_file

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
# Torch 2.15 has these too, and situ does not.
OTHERS = ["uint16", "uint32", "uint64", "complex32", "bcomplex32", "complex64", "complex128", "float8_e4m3fn",
          "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"]


def counting(dtype, *shape):
    count = torch.Size(shape).numel()
    values = torch.arange(count, dtype=torch.int64) * 37 % 101 - 50
    return (values % 2 == 1 if dtype == torch.bool else values.to(dtype)).reshape(shape)


def dtypes():
    return {name: counting(getattr(torch, name), 3, 5) for name in DTYPES}


def others():
    """One tensor that can be read beside those that cannot."""
    tensors = {name: torch.zeros(4, dtype=torch.uint8) for name in OTHERS}
    tensors = {name: value.repeat(getattr(torch, name).itemsize).view(getattr(torch, name))
               for name, value in tensors.items()}
    return {"float32": counting(torch.float32, 2, 2), **tensors}


def views():
    base = counting(torch.float32, 4, 6)
    large = counting(torch.float64, 100)
    return {"base": base, "transposed": base.t(), "column": base[:, 2], "row": base[1], "step": base[::2, 1::3],
            "expanded": base[0:1, 0:1].expand(2, 3), "slice": large[90:97:3], "scalar": torch.tensor(2.5),
            "empty": torch.zeros(3, 0, 2), "eight": counting(torch.int16, 1, 2, 1, 2, 1, 2, 1, 2),
            "turned": counting(torch.int32, 3, 4).t(), "channels_last":
            counting(torch.float32, 2, 3, 2, 2).to(memory_format=torch.channels_last)}


def state_dict():
    torch.manual_seed(0)
    net = torch.nn.Sequential(collections.OrderedDict(
        fc1=torch.nn.Linear(4, 8), norm=torch.nn.BatchNorm1d(8), act=torch.nn.Tanh(), fc2=torch.nn.Linear(8, 3)))
    return net.state_dict()


def checkpoint():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    optim = torch.optim.AdamW(net.parameters(), lr=0.01)
    net(torch.ones(4, 3)).sum().backward()
    optim.step()
    return {"model": net.state_dict(), "epoch": 3, "optimizer": optim.state_dict(), "best": -1.5e-300, "done": False,
            "name": "größe", "none": None, "large": -(1 << 62), "byte": 255, "word": 65535, "losses": [0.5, 0.25, 1e300],
            "nested": {"tuple": (1, (2.5, "x", ()), [None, True]), "": [], "empty": {}}, 7: "seven", -1: "minus",
            "parameter": torch.nn.Parameter(torch.ones(2))}


def big_endian():
    """Written as on a big-endian machine: torch swaps the values when it reads them."""
    from unittest import mock
    with mock.patch.object(sys, "byteorder", "big"):
        torch.save({"w": torch.ones(2)}, os.path.join(directory, "big.pt"))
        torch.save({"w": torch.ones(2)}, os.path.join(directory, "big_legacy.pt"), _use_new_zipfile_serialization=False)


def script():
    """Modules in modules, one of them twice, and attributes that are not of the state dict."""
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
            self.again = self.body
            self.sizes = [2, 3]
            self.scale = 0.5
            self.parts = [torch.ones(2)]
            self.register_buffer("mean", counting(torch.float32, 3))

        def forward(self, x):
            return self.again(self.body(x) @ torch.ones(3, 4)) * self.scale + self.mean + self.sizes[0] + self.parts[0][0]

    torch.manual_seed(0)
    net = torch.jit.script(Net())
    torch.jit.save(net, os.path.join(directory, "script.pt"))
    kept = dict(net.state_dict(), sizes=[2, 3], scale=0.5, parts=[torch.ones(2)])
    kept.update({(name + ".training").lstrip("."): True for name, _ in net.named_modules(remove_duplicate=False)})
    save("script", kept)


def shards():
    """As transformers writes pytorch_model.bin.index.json."""
    state = state_dict()
    names = list(state)
    parts = {"shards-1.bin": names[:3], "shards-2.bin": names[3:]}
    for file, part in parts.items():
        torch.save({name: state[name] for name in part}, os.path.join(directory, file))
    with open(os.path.join(directory, "shards.bin.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": 0}, "weight_map": {n: f for f, part in parts.items() for n in part}}, f)


def training():
    """What a training program leaves: of this, weights.safetensors is the state dict."""
    state = checkpoint()
    best = torch.tensor(71.5)
    torch.save({"epoch": 4, "arch": "linear", "best_acc1": best, "state_dict": state["model"], "scheduler": None,
                "optimizer": state["optimizer"], "lr_scheduler": {"last_epoch": 4, "base_lrs": [0.01]},
                "args": argparse.Namespace(lr=0.01, data="here"), "dtype": torch.float32, "ema": {"weight": best}},
               os.path.join(directory, "training.pth.tar"), _use_new_zipfile_serialization=False)
    save("weights", state["model"])


def flatten(value, path, out):
    if isinstance(value, dict):
        for key, item in value.items():
            flatten(item, path + [str(key)], out)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            flatten(item, path + [str(i)], out)
    elif isinstance(value, torch.Tensor):
        out[".".join(path)] = value.detach().contiguous().clone()
    elif isinstance(value, str):
        out[".".join(path)] = torch.tensor(list(value.encode()), dtype=torch.uint8)
    elif value is not None:
        kind = {bool: torch.bool, int: torch.int64, float: torch.float64}[type(value)]
        out[".".join(path)] = torch.tensor(value, dtype=kind)
    return out


def write(name, value, **options):
    torch.save(value, os.path.join(directory, name + ".pt"), **options)
    save(name, value)


def save(name, value):
    found = flatten(value, [], {})
    save_file({k: v for k, v in found.items() if k not in OTHERS}, os.path.join(directory, name + ".safetensors"))


def main():
    write("dtypes", dtypes())
    write("others", others())
    write("views", views())
    write("state", state_dict())
    write("checkpoint", checkpoint())
    for protocol in (3, 4, 5):
        write("protocol%d" % protocol, {"model": state_dict(), "epoch": 3, "t": (1, 2.5, "x" * 300)},
              pickle_protocol=protocol)
    torch.save(counting(torch.float32, 2, 3), os.path.join(directory, "tensor.pt"))
    everything = {"dtypes": dtypes(), "views": views(), "checkpoint": checkpoint()}
    write("legacy", everything, _use_new_zipfile_serialization=False)
    write("legacy4", {"w": torch.ones(2)}, _use_new_zipfile_serialization=False, pickle_protocol=4)
    warnings.simplefilter("ignore") # TorchScript is deprecated
    script()
    shards()
    training()
    big_endian()


here = os.path.dirname(os.path.abspath(__file__))
directory = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..", "..", "tests", "io", "data")
if __name__ == "__main__":
    os.makedirs(directory, exist_ok=True)
    main()
