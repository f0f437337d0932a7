#!/bin/sh
# All node tests of package onnx, and its stored models of older opsets: onnx_nodes.sh ROOT TEST, where TEST is the
# program of tests/program/onnx/nodes.c.
# Skipped where there is no Python with onnx, onnxruntime, torch and safetensors.
# SPDX-License-Identifier: MIT
set -eu
root=$1 test=$2
for python in "$root/build/torch/bin/python" /usr/bin/python3 python3 none; do
  "$python" -c 'import onnx, onnxruntime, safetensors, torch' 2>/dev/null && break
done
[ "$python" != none ] || { echo "SKIPPED: no python3 with onnx, onnxruntime, safetensors and torch"; exit 77; }
rm -rf nodes
"$python" "$root/tools/exchange/onnx_nodes.py" "$PWD/nodes"
"$python" "$root/tools/exchange/onnx_nodes.py" --sets "$PWD/nodes"
SITU_TEST_ONNX_NODES=$PWD/nodes "$test"
rm -rf nodes
