#!/bin/sh
# Runs benchmarks that were built: bench/run.sh DIRECTORY [NAME...]. Without names: those of the goals, whose lines also go
# to DIRECTORY/performance.log, of which bench/performance.py makes docs/performance.md. Ratios only mean something: both
# sides of each are measured in one interleaved run, medians of many rounds. Lines that begin with { are the same figures
# as JSON.
# SPDX-License-Identifier: MIT
set -u
dir=$1
here=$(dirname "$0")
shift
goals="goals ops matmul attention steps programs graph move io scale start threads"

python= # one with torch: that of ./run bench --peers; Debian's python3 has it where python3-torch is installed
for candidate in "${SITU_PEERS:-/usr/bin/python3}" /usr/bin/python3 python3; do
  "$candidate" -c 'import torch' 2>/dev/null && python=$candidate && break
done
PYTHONDONTWRITEBYTECODE=1
# What torch.compile made stays, so that a second run measures at once.
TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$dir/inductor}
export PYTHONDONTWRITEBYTECODE TORCHINDUCTOR_CACHE_DIR

# run_one NAME: a script beside PyTorch starts the program of its name, so that alone is not run then.
run_one() {
  printf '== %s\n' "$1"
  if [ -f "$here/torch/$1.py" ]; then
    if [ "$python" ]; then "$python" "$here/torch/$1.py" "$dir/../libsitu.so"
    else echo "SKIPPED: no python3 with torch (./run bench --peers gets it)"; fi
  elif [ -x "$dir/$1" ]; then "$dir/$1"
  elif [ -x "$dir/torch/$1" ]; then "$dir/torch/$1"
  else echo "SKIPPED: $1 was not built (comparisons need a C++ compiler and libtorch: g++ libtorch-dev)"; fi
}

run_all() {
  for name in "$@"; do run_one "$name" || { echo "bench: $name failed"; echo "$name" >>"$dir/failed"; }; done
}

rm -f "$dir/failed"
if [ $# -gt 0 ]; then
  run_all "$@"
else
  # shellcheck disable=SC2086 # names are words
  { "${python:-python3}" "$here/performance.py" --machine; run_all $goals; } 2>&1 | tee "$dir/performance.log"
  echo "bench: python3 bench/performance.py $dir/performance.log rewrites docs/performance.md"
fi
[ ! -e "$dir/failed" ] || { echo "bench: failed: $(tr '\n' ' ' <"$dir/failed")" >&2; exit 1; }
