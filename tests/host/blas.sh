#!/bin/sh
# A program that has a LAPACK of its own, with integers of 32 or 64 bits, in each order of linking and of use, and however
# it opens the libraries: what it computes, and what situ computes, is as if each were alone. Then libraries that situ must
# refuse. The program's LAPACK is a double (blas/double.c) and, where there are such, OpenBLAS with 64-bit integers (in the
# directory $SITU_TEST_BLAS64, or that of Debian's libopenblas64-serial-dev) and MKL's (in $SITU_TEST_MKL).
# SPDX-License-Identifier: MIT
# usage: blas.sh LIBSITU ROOT C_COMPILER
set -eu
library=$1 root=$2 cc=$3
here=$root/tests/host/blas
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"
LD_LIBRARY_PATH=$work:$(dirname "$library")
export LD_LIBRARY_PATH
unset SITU_LAPACK

compile() { "$cc" -std=gnu17 -D_GNU_SOURCE -O1 -w "$@"; }

failed=0 passed=0
run() { # run WHAT COMMAND...: 0 is right, 77 no LAPACK
  what=$1
  shift
  status=0
  "$@" >said 2>&1 || status=$?
  case $status in
    0) passed=$((passed + 1)) ;;
    77) echo "SKIPPED: situ finds no LAPACK here"; cat said; exit 77 ;;
    *) echo "$what: status $status"; head -n 3 said; failed=$((failed + 1)) ;;
  esac
}

programs() { # programs NAME FLAGS...: libphys.so with these, and four programs
  name=$1
  shift
  compile -fPIC -shared "$here/phys.c" -o libphys.so "$@"
  situ="-I$root/include $library"
  # shellcheck disable=SC2086 # flags are words
  {
    compile "$here/program.c" -o situ_first $situ -L. -lphys "$@" -lm
    compile "$here/program.c" -o phys_first -L. -lphys "$@" $situ -lm
    compile -DOPENS_PHYS "$here/program.c" -o opens_phys $situ -lm
    compile -DOPENS_SITU "$here/program.c" -o opens_situ "-I$root/include" -L. -lphys "$@" -lm
    compile -DOPENS_PHYS -DOPENS_SITU "$here/program.c" -o opens_both "-I$root/include" -lm
  }
  for begins in situ phys; do
    run "$name, situ linked first, $begins begins" ./situ_first $begins linked linked
    run "$name, situ linked last, $begins begins" ./phys_first $begins linked linked
    for how in local global deep; do
      run "$name, opened $how, $begins begins" ./opens_phys $begins $how linked
      run "$name, situ opened $how, $begins begins" ./opens_situ $begins linked $how
      run "$name, both opened $how, $begins begins" ./opens_both $begins $how $how
    done
  done
}

for bits in 32 64; do
  compile "-DINT=int${bits}_t" -fPIC -shared "$here/double.c" -o libdouble$bits.so
done
for bits in 32 64; do
  programs "a double of $bits bits" "-DINT=int${bits}_t" -DCOUNTED -L. -ldouble$bits
done

# What cannot be told apart is refused, and never wrong: the program has an allocator of its own, so that libraries look into
# the program first.
compile -fPIC -shared "$here/malloc.c" -o libmalloc.so
refused() { # refused WORDS COMMAND...
  words=$1
  shift
  if "$@" >said 2>&1 || ! grep -q "$words" said; then
    echo "not refused with \"$words\": $*"; cat said; failed=$((failed + 1))
  else
    passed=$((passed + 1))
  fi
}
refused "would call .* of .*libdouble64.so instead of its own" env LD_PRELOAD=./libmalloc.so ./situ_first phys linked linked
refused "would call .* of .*libdouble64.so instead of its own" env LD_PRELOAD="./libdouble64.so libopenblas.so.0 liblapack.so.3" \
  ./opens_phys phys local linked
run "an allocator, nothing else" env LD_PRELOAD=./libmalloc.so ./opens_phys situ local linked
refused "its integers have 64 bits" env SITU_LAPACK=./libdouble64.so ./opens_phys phys local linked
refused "it solves a known system wrongly" env SITU_LAPACK=./libdouble32.so ./opens_phys phys local linked
refused "libopenblas0-serial), or name its file by SITU_LAPACK; .*nowhere.so" env SITU_LAPACK=/nowhere.so ./opens_phys phys local linked
refused "it has no strsm_" env SITU_LAPACK=libm.so.6 ./opens_phys phys local linked

# A negative answer of any function is an error of the op.
compile -DLIBRARY -fPIC -shared "$here/negative.c" -o libnegative.so
compile "$here/negative.c" -o negative "-I$root/include" "$library"
run "a LAPACK that refuses" env SITU_LAPACK=./libnegative.so ./negative

blas64=${SITU_TEST_BLAS64:-$(dirname "$("$cc" -print-file-name=openblas64-serial/libopenblas64.so)")}
if [ -e "$blas64/libopenblas64.so" ]; then
  LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$blas64
  programs "OpenBLAS of 64 bits" -DINT=int64_t "-L$blas64" -lopenblas64
  refused "its integers have 64 bits" env "SITU_LAPACK=$blas64/libopenblas64.so.0" ./opens_phys phys local linked
else
  echo "SKIPPED in part: no libopenblas64.so (Debian: libopenblas64-serial-dev)"
fi
mkl=${SITU_TEST_MKL:-}
if [ -e "$mkl/libmkl_intel_ilp64.so.3" ]; then
  LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$mkl
  programs "MKL of 64 bits" -DINT=int64_t "$mkl/libmkl_intel_ilp64.so.3" "$mkl/libmkl_sequential.so.3" "$mkl/libmkl_core.so.3"
else
  echo "SKIPPED in part: \$SITU_TEST_MKL names no directory of MKL (PyPI: mkl)"
fi

echo "$passed right, $failed wrong"
exit $((failed > 0))
