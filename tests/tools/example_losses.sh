#!/bin/sh
# Runs an example and compares the losses that it prints with PyTorch's from the same weights (tools/golden/examples.py,
# tools/golden/physics.py). They may differ by 1 in 1,000, because rounding grows from step to step; a line "within 1e-8" of
# the golden file says otherwise.
# SPDX-License-Identifier: MIT
# usage: example_losses.sh GOLDEN PROGRAM [ARGUMENT...]
set -eu
golden=$1
shift
said=$(mktemp)
trap 'rm -f "$said"' EXIT
trap 'exit 1' HUP INT TERM
"$@" >"$said" || { status=$?; cat "$said"; exit "$status"; }
cat "$said"
awk '
  BEGIN { within = 1e-3 }
  $1 == "within" && NR == FNR { within = $2 }
  $1 != "step" { next }
  NR == FNR { want[$2] = $4; next }
  !($2 in want) { print "PyTorch has no step " $2; bad = 1; next }
  { off = ($4 - want[$2]) / want[$2]; seen++ }
  off > within || off < -within { print "step " $2 ": " $4 ", but PyTorch has " want[$2]; bad = 1 }
  END { if (seen != length(want)) { print seen + 0 " of PyTorch'"'"'s " length(want) " losses"; bad = 1 }; exit bad }' \
  "$golden" "$said"
