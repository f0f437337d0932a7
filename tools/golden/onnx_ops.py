#!/usr/bin/env python3
"""Compares the table of docs/onnx.md with the operators of the onnx package and with situ's headers, and counts.
usage: tools/golden/onnx_ops.py     (needs onnx)
SPDX-License-Identifier: MIT"""
import pathlib
import re
import sys

import onnx.defs

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain and not schema.deprecated}
    expressed, _, rest = (ROOT / "docs/onnx.md").read_text().partition("## Not expressed")
    calls = {}
    for name, text in re.findall(r"^\| ([A-Z]\w*) \| (.*) \|$", expressed, re.M):
        if name in calls:
            sys.exit(f"{name} has two rows")
        calls[name] = re.findall(r"situ_\w+", text)
    missing = re.findall(r"\b[A-Z]\w+", " ".join(re.findall(r"^\| .* \| (.*) \|$", rest, re.M)))
    headers = "".join(path.read_text() for path in (ROOT / "include").rglob("*.h"))
    wrong = [f"{name}: not an operator" for name in {*calls, *missing} - names]
    wrong += [f"{name}: not in the table" for name in names - set(calls) - set(missing)]
    wrong += [f"{name}: in both tables" for name in set(calls) & set(missing)]
    wrong += [f"{name}: no function {call}" for name, those in calls.items() for call in those
              if not re.search(rf"\b{call}\(", headers)]
    wrong += [f"{name}: no calls" for name, those in calls.items() if not those]
    print(f"{len(names)} operators, {len(calls)} expressed")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
