#!/usr/bin/env python3
"""Exports models by PyTorch, with inputs, outputs and the losses of a training, for tests/program.
SPDX-License-Identifier: MIT

  pip install 'torch==2.15.*' transformers torchvision safetensors
  python3 tools/exchange/generate.py               the committed files: tests/program/data
  python3 tools/exchange/generate.py --all DIR     all models of models.py
  python3 tools/exchange/generate.py --more DIR    those of more_models.py
  python3 tools/exchange/generate.py --only bert,gpt2 DIR
  python3 tools/exchange/generate.py --all --core DIR     the same after run_decompositions(), as core-NAME
  python3 tools/exchange/generate.py --onnx [--all DIR]   NAME.onnx, beside the NAME.safetensors of the above (needs
                                                          onnx and onnxscript)

  python3 tools/exchange/generate.py --old        models by an earlier torch ('torch==2.6.*', 2.9, 2.12), as
                                                  torch2.6-NAME

NAME.pt2 is the exported program; NAME.safetensors has in.K.NAME and out.K.N of shape K (two batch sizes, if the model
allows), and the losses of 20 steps of SGD at `rate` on train.NAME: the sum of the mean squares of all floating
outputs."""
import argparse
import copy
import os
import sys
import time
import traceback
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
warnings.simplefilter("ignore")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch.utils import _pytree  # noqa: E402

import models  # noqa: E402
import more_models  # noqa: E402
from thin import thin, thin_archive  # noqa: E402

STEPS = 20
CORE = "core-"
OLD = "torch" + ".".join(torch.__version__.split(".")[:2]) + "-"
# Where a larger rate makes the losses jump, differences of rounding grow with them.
RATES = {"tv.fcn_resnet50": 1e-6, "tv.resnet18": 3e-5}


def leaves(out):
    """The tensors of a result, in the order of torch.export."""
    flat = []
    for leaf in _pytree.tree_leaves(out):
        if isinstance(leaf, torch.Tensor):
            flat.append(leaf)
    return flat


def export(net, given, batches):
    """With a free batch size, if the model allows that."""
    one = {k: {0: torch.export.Dim.AUTO} for k in given}
    try:
        return torch.export.export(net, (), given, dynamic_shapes=one, strict=False), batches
    except Exception as problem:  # noqa: BLE001
        print("    static:", str(problem).splitlines()[0][:150])
        return torch.export.export(net, (), given, strict=False), batches[:1] * 2


def losses(net, given, rate):
    net.requires_grad_(True)
    optim = torch.optim.SGD(net.parameters(), lr=rate)
    values = []
    for _ in range(STEPS):
        optim.zero_grad()
        loss = sum(o.square().mean() for o in leaves(net(**given)) if o.is_floating_point() and o.requires_grad)
        loss.backward()
        optim.step()
        values.append(loss.detach())
    return torch.stack(values)


def generate(name, directory, fewer=1):
    """Writes NAME.pt2 and returns the tensors of NAME.safetensors. Where losses jump, differences of rounding grow with
    them: up to `fewer` rates are tried, each a thirtieth of the one before."""
    torch.manual_seed(0)
    model = name.removeprefix(CORE).removeprefix(OLD)
    net, inputs = models.ROWS[model]()
    net = net.eval()
    program, batches = export(net, inputs(2), [2, 3])
    if name.startswith(CORE):
        program = program.run_decompositions()
    thin(program)
    path = os.path.join(directory, name + ".pt2")
    torch.export.save(program, path)
    if model in ("flow", "branches", "calls"):  # many nodes repeat where they come from
        thin_archive(path)
    tensors = {}
    for k, batch in enumerate(batches):
        given = inputs(batch)
        with torch.no_grad():
            out = leaves(net(**given))
        tensors.update({f"in.{k}.{key}": value for key, value in given.items()})
        tensors.update({f"out.{k}.{n}": value.contiguous().clone() for n, value in enumerate(out)})
    given = inputs(batches[0])
    tensors.update({f"train.{key}": value for key, value in given.items()})
    rate = RATES.get(model, 0.0003 if model.startswith("tv.") else 0.01)
    weights = copy.deepcopy(net.state_dict())
    for k in range(fewer):
        if k:
            net.load_state_dict(weights)
        tensors["rate"] = torch.tensor(rate / 30**k, dtype=torch.float64)
        tensors["losses"] = losses(net, given, rate / 30**k)
        if (tensors["losses"].diff() <= tensors["losses"][:-1] * 0.01).all():
            break
    torch.manual_seed(0)
    return tensors


def generate_onnx(name, directory):
    """The model of generate(name), whose weights the same seed gives, by torch's ONNX exporter."""
    import onnx
    torch.manual_seed(0)
    net, inputs = models.ROWS[name]()
    net = net.eval()
    given = inputs(2)
    free = {k: {0: torch.export.Dim.DYNAMIC} for k in given}
    try:
        program = torch.onnx.export(net, (), kwargs=given, dynamo=True, dynamic_shapes=free, verbose=False)
    except Exception as problem:  # noqa: BLE001
        print("    static:", str(problem).splitlines()[0][:150])
        program = torch.onnx.export(net, (), kwargs=given, dynamo=True, verbose=False)
    path = os.path.join(directory, name + ".onnx")
    program.save(path, external_data=False)
    model = onnx.load(path)
    del model.graph.value_info[:]
    del model.metadata_props[:]
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--old", action="store_true")
    parser.add_argument("--only", default="")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("directory", nargs="?", default=os.path.join(here, "..", "..", "tests", "program", "data"))
    options = parser.parse_args()
    names = options.only.split(",") if options.only else more_models.MORE if options.more else models.LISTED if options.all else models.COMMITTED_ONNX if options.onnx else models.COMMITTED
    core = names if options.core else [] if options.all or options.more or options.only or options.onnx else models.COMMITTED_CORE
    names = ([] if options.core else names) + [CORE + name for name in core]
    if options.old:
        names = [OLD + name for name in models.COMMITTED_OLD]
    os.makedirs(options.directory, exist_ok=True)
    failed = 0
    for name in names:
        start = time.time()
        try:
            if options.onnx:
                generate_onnx(name, options.directory)
            else:
                save_file(generate(name, options.directory), os.path.join(options.directory, name + ".safetensors"))
            print(f"{name}: {time.time() - start:.1f} s", flush=True)
        except Exception:  # noqa: BLE001
            failed += 1
            print(f"{name}: FAILED\n", traceback.format_exc()[-900:], flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
