#!/bin/sh
# Compiles dropped.c, which must warn on each line that says so, of the function that it names, and on no other; and kept.c,
# which must not warn at all.
# placement: A9
# SPDX-License-Identifier: MIT
# usage: check.sh INCLUDE_DIRECTORY COMPILER
set -eu
include=$1 compiler=$2
cd "$(dirname "$0")"
command -v "$compiler" >/dev/null || { echo "no $compiler here"; exit 77; }

compile() { LC_ALL=C "$compiler" -std=c17 -pedantic -Wall -Wextra -S -o /dev/null -I "$include" "$1" 2>&1 || echo "$1: error: not compiled"; }

# Compilers name the function in the warning or in the line of source below it: so what counts is all text up to the next one.
compile dropped.c | awk '
  FNR == NR { if (match($0, /\/\* warns: [a-z0-9_]+/)) wanted[FNR] = substr($0, RSTART + 10, RLENGTH - 10); next }
  /(warning|error): / {
    split($0, part, ":")
    line = part[2]
    if (/: warning: ignoring return value/ && line in wanted) { warned[line] = 1; found++ }
    else { print; bad++ }
  }
  line in wanted && index($0, wanted[line] "(") + index($0, wanted[line] "\x27") + index($0, wanted[line] "\xe2\x80\x99") { named[line] = 1 }
  END {
    for (line in wanted) {
      all++
      if (!(line in warned) || !(line in named)) { print "dropped.c:" line ": no warning about " wanted[line]; bad++ }
    }
    print all " results dropped, " found + 0 " warnings"
    exit bad > 0 || all == 0
  }' dropped.c -

said=$(compile kept.c)
[ -z "$said" ] || { echo "$said"; exit 1; }
