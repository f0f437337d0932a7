#!/bin/sh
# Runs the benchmarks that were built: bench/run.sh DIRECTORY [NAME...]. Ratios only mean something: both sides of each are
# measured in one interleaved run, medians of many rounds. Lines that begin with { are the same figures as JSON.
# SPDX-License-Identifier: MIT
set -eu
dir=$1
here=$(dirname "$0")
shift
found=0
# wanted NAME: is it asked for, or everything?
asked=" $* "
wanted() { [ "$asked" = "  " ] || case $asked in *" $1 "*) ;; *) return 1 ;; esac; }
for program in "$dir"/torch/* "$dir"/*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  name=$(basename "$program")
  wanted "$name" || continue
  found=1
  printf '== %s\n' "$name"
  "$program"
done
# Those beside Python's torch: that of ./run bench --peers; Debian's python3 has one where python3-torch is installed.
for script in "$here"/torch/*.py; do
  name=$(basename "$script" .py)
  wanted "$name" || continue
  found=1
  printf '== %s\n' "$name"
  for python in "${SITU_PEERS:-/usr/bin/python3}" /usr/bin/python3 python3; do
    "$python" -c 'import torch' 2>/dev/null && break
    python=
  done
  if [ "$python" ]; then "$python" "$script" "$dir/../libsitu.so"
  else echo "SKIPPED: no python3 with torch (Debian: python3-torch)"; fi
done
[ $found -eq 1 ] || { echo "bench: nothing to run; comparisons need a C++ compiler and libtorch (Debian: g++ libtorch-dev)" >&2; exit 1; }
