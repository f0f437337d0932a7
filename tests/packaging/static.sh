#!/bin/sh
# BUILD_SHARED_LIBS=OFF: libsitu.a alone is built and installed, and used as packaging/install uses libsitu.so. A program
# that is linked with it opens LAPACK as any other; one that is linked with -static says that it cannot.
# SPDX-License-Identifier: MIT
# usage: static.sh CMAKE GENERATOR ROOT C_COMPILER [LAUNCHER]
set -eu
cmake=$1 generator=$2 root=$3 cc=$4 launcher=${5:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

"$cmake" -G "$generator" -S "$root" -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_COMPILER_LAUNCHER="$launcher" \
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DSITU_TESTS=OFF -DSITU_CPU_KERNELS=base -DSITU_OPENCL=OFF \
  -DSITU_CUDA=OFF >"$work/log" 2>&1 && "$cmake" --build "$work/build" -j2 >>"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
grep 'libsitu.a ' "$work/log" || { echo "configure does not say what a static library leaves out" >&2; exit 1; }
! find "$work/build" -name 'libsitu.so*' | grep . || exit 1
"$(dirname "$0")/install.sh" "$cmake" "$generator" "$work/build" "$cc" "$root"

cat >"$work/solve.c" <<'C'
#include <situ/situ.h>
#include <stdio.h>

int main(void) {
  double x = 0;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_error_mode(SITU_ERROR_QUIET);
  if (situ_item(situ_linalg_det(situ_eye(3, 3, NULL)), &x) == SITU_OK) printf("%g\n", x);
  else puts(situ_error_message());
  situ_error_clear();
  return situ_scope_end(&scope) != SITU_OK;
}
C
for static in "" -static; do
  # shellcheck disable=SC2086 # no word, or one
  "$cc" -std=c17 $static "$work/solve.c" -o "$work/solve" -I"$root/include" "$work/build/libsitu.a" -lm -pthread 2>"$work/log" ||
    { cat "$work/log"; exit 1; }
  said=$("$work/solve")
  echo "linked with it${static:+ and $static}: $said"
  case $static,$said in
    ,1 | *"install it (Debian: libopenblas0-serial)"*) ;;
    *) exit 1 ;;
  esac
done
case $said in
  *"linked statically"*) ;;
  *) exit 1 ;;
esac
