"""Makes exported programs smaller.
SPDX-License-Identifier: MIT"""
import json
import re
import zipfile

import torch

# A frame of a stack trace, whose path is of the machine that exports.
FRAME = re.compile(r'File "[^"]*?([^"/]*)"')


def thin(program):
    """Drops what only makes the file larger: outer frames of stack traces, paths, sample inputs."""
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            frames = (node.meta.get("stack_trace") or "").split("  File ")
            node.meta["stack_trace"] = FRAME.sub(r'File "\1"', "  File " + frames[-1]).strip()
    program._example_inputs = None


def thin_graph(graph):
    for node in graph["nodes"]:
        node["metadata"] = {}
        for given in node["inputs"]:
            if "as_graph" in given["arg"]:
                thin_graph(given["arg"]["as_graph"]["graph"])
    for about in graph["tensor_values"].values():
        for key in ("device", "strides", "storage_offset", "layout"):
            about.pop(key)


def thin_archive(path):
    """Drops from a .pt2 archive what situ does not read: where nodes come from, layouts, devices, spaces."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if "sample_inputs" not in name}
    for name in entries:
        if name.endswith("models/model.json"):
            model = json.loads(entries[name])
            thin_graph(model["graph_module"]["graph"])
            entries[name] = json.dumps(model, separators=(",", ":")).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name), data)
