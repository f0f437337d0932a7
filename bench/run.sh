#!/bin/sh
# Runs the benchmarks that were built: bench/run.sh DIRECTORY [NAME...]. Ratios only mean something: both sides of each are
# measured in one interleaved run, medians of many rounds. Lines that begin with { are the same figures as JSON.
# SPDX-License-Identifier: MIT
set -eu
dir=$1
shift
found=0
for program in "$dir"/torch/* "$dir"/*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  name=$(basename "$program")
  [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
  found=1
  printf '== %s\n' "$name"
  "$program"
done
[ $found -eq 1 ] || { echo "bench: nothing to run; comparisons need a C++ compiler and libtorch (Debian: g++ libtorch-dev)" >&2; exit 1; }
