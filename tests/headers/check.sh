#!/bin/sh
# Compiles every public header on its own, twice in one file, as the given language standard, with warnings as errors.
# SPDX-License-Identifier: MIT
# usage: check.sh STANDARD INCLUDE_DIRECTORY COMPILER...
set -eu
std=$1 include=$2
shift 2
case $std in
  c++*) language=c++ strict=-Wold-style-cast ;;
  *)    language=c strict=-Wstrict-prototypes ;;
esac

count=0 bad=0
# situ/mpi.h includes the user's mpi.h: tests/distributed/mpi.sh compiles it with each MPI.
for header in $(cd "$include" && find situ -name '*.h' ! -path situ/mpi.h | sort); do
  count=$((count + 1))
  # shellcheck disable=SC2086 # $strict is one option or none
  printf '#include <%s>\n#include <%s>\nint situ_header_test;\n' "$header" "$header" |
    "$@" -x "$language" -std="$std" -pedantic -Wall -Wextra -Werror $strict -fsyntax-only -I "$include" - || {
      echo "$header does not compile alone as $std" >&2
      bad=$((bad + 1))
    }
done
# What macros and templates of theirs make in the program that uses them.
# shellcheck disable=SC2086
printf '#include <situ/situ.h>\nsitu_shape f(situ_shape *n) { *n = SITU_SCALAR; return n->ndim ? SITU_DIMS(1) : SITU_SHAPE(2, 3); }\n' |
  "$@" -x "$language" -std="$std" -pedantic -Wall -Wextra -Werror ${strict#-Wstrict-prototypes} -fsyntax-only -I "$include" - || bad=$((bad + 1))
echo "$count headers as $std, $bad bad"
[ "$count" -gt 0 ] && [ "$bad" -eq 0 ]
