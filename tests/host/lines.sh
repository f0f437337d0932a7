#!/bin/sh
# An error names its line of source in programs of each compiler and each form of debug information; clang leaves out the
# index of addresses (.debug_aranges).
# SPDX-License-Identifier: MIT
# usage: lines.sh LIBSITU ROOT
set -eu
library=$1 root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"
LD_LIBRARY_PATH=$(dirname "$library")
export LD_LIBRARY_PATH

cat >program.c <<'C'
#include <situ/situ.h>
int other(void);
int main(void) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 3), NULL);
  if (situ_matmul(x, x)) return 1; /* line 7 */
  return other() + (situ_scope_end(&scope) == SITU_OK);
}
C
cat >other.c <<'C'
#include <situ/situ.h>
int other(void) {
  situ_error_clear();
  return situ_reshape(situ_ones(SITU_SHAPE(2), NULL), SITU_SHAPE(5)) != NULL; /* line 4 */
}
C
tried=0
for cc in gcc clang; do
  command -v $cc >/dev/null || { echo "SKIPPED in part: no $cc"; continue; }
  for debug in -g -g1 "-g -gdwarf-4" "-g -O2" "-g -gz"; do
    # shellcheck disable=SC2086 # flags are words
    $cc -std=c17 $debug program.c other.c -o program "-I$root/include" "$library" 2>said || { echo "$cc $debug: does not compile"; continue; }
    ./program >/dev/null 2>said || :
    for line in 'program.c:7 in main' 'other.c:4 in other'; do
      grep -q "at $line" said || { echo "$cc $debug: no \"$line\" in"; cat said; exit 1; }
    done
    tried=$((tried + 1))
  done
done
echo "$tried programs"
[ $tried -gt 0 ] || exit 77
