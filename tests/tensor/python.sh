#!/bin/sh
# contrib/python/situ.py: arrays of numpy, and tensors of torch where it is there, in and out without a copy.
# SPDX-License-Identifier: MIT
# usage: python.sh LIBSITU.SO SOURCE_DIRECTORY
# SITU_TEST_PYTHON: a Python that has numpy 2; by default build/torch/bin/python, or python3.
set -eu
python=${SITU_TEST_PYTHON:-$2/build/torch/bin/python}
skip() {
  echo "SKIPPED: $1"
  exit 77
}
[ -x "$python" ] || python=$(command -v "$python" || command -v python3) || skip "there is no python3"
"$python" -c 'import numpy; exit(int(numpy.__version__.split(".")[0]) < 2)' 2>/dev/null || skip "$python lacks numpy 2"
torch=
"$python" -c 'import torch' 2>/dev/null && torch=torch
SITU_LIBRARY=$1 PYTHONPATH=$2/contrib/python "$python" -B "$2/tests/tensor/python.py" "$2/docs/in-place-host.md" $torch
