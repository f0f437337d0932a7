#!/bin/sh
# PyTorch and onnxruntime load what tests/program/export, export_dynamic and onnx/written write, and compute the same.
# SPDX-License-Identifier: MIT
# usage: exchange.sh SOURCE_DIRECTORY DIRECTORY_OF_TEST_PROGRAMS
# SITU_TEST_PYTHON: a Python that has torch 2.15, onnx, onnxruntime and safetensors; by default build/torch/bin/python,
# or python3.
set -eu
python=${SITU_TEST_PYTHON:-$1/build/torch/bin/python}
skip() {
  echo "SKIPPED: $1"
  exit 77
}
[ -x "$python" ] || python=$(command -v "$python" || command -v python3) || skip "there is no python3"
"$python" - 2>/dev/null <<'END' || skip "$python lacks torch 2.15, onnx, onnxruntime or safetensors"
import onnx, onnxruntime, safetensors, sys, torch
sys.exit(not torch.__version__.startswith("2.15."))
END
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/own" "$work/torch"
SITU_EXPORT_DIR=$work/own "$2/test_program_export"
SITU_EXPORT_DIR=$work/own "$2/test_program_export_dynamic"
rm -f range.pt2 multiple.pt2 # the test leaves them where it runs
"$python" "$1/tools/exchange/check_export.py" "$work/own"
"$python" "$1/tools/exchange/check_onnx.py" "$work/own"
SITU_EXPORT_DIR=$work/torch SITU_TEST_ROOT=$1/tests "$2/test_program_onnx_written"
"$python" "$1/tools/exchange/check_onnx.py" "$work/torch" "$1/tests/program/data" "$1/tests/program/onnx/written"
# Calls with random sizes and options.
"$python" "$1/tools/golden/draw.py" "$2/../libsitu.so" --count 60
"$python" "$1/tools/golden/draw.py" "$2/../libsitu.so" --count 60 --dtype f32
for dtype in bf16 f16; do
  "$python" "$1/tools/golden/draw.py" "$2/../libsitu.so" --count 30 --dtype $dtype
done
# Drawn models of If, Loop and Scan, traced and written.
"$python" "$1/tools/exchange/drawn_flow.py" "$2/../libsitu.so" --count 12
# Drawn modules, exported with free sizes.
"$python" "$1/tools/exchange/drawn_programs.py" "$2/test_program_pt2_drawn" --count 60
# At least so many ops of PyTorch's database agree, and none differs.
if [ -x "$2/../cli/situ" ]; then
  "$python" "$1/tools/exchange/op_calls.py" "$2/../cli/situ" --samples 4 --expect 500
fi
