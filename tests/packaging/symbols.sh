#!/bin/sh
# What the shared library needs: the C library, and nothing else (libdl and libpthread are parts of it since glibc 2.34). And
# what it exports: names that start with situ_ and, of the internal ones (situ__), only those that a public
# header names, because a macro there calls them.
# SPDX-License-Identifier: MIT
# usage: symbols.sh LIBRARY INCLUDE_DIRECTORY
set -eu
library=$1 include=$2

bad=0
for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
  case $needed in
    libc.* | libm.so* | libmvec.so* | libpthread.so* | libdl.so* | ld-linux* | ld-musl*) ;;
    *) echo "needs $needed: nothing but the C library is linked" >&2; bad=1 ;;
  esac
done

# Not nm: the linker keeps a few local and hidden names in the table too, which nobody can bind to.
names=$(readelf --dyn-syms -W "$library" |
  awk '$5 ~ /GLOBAL|WEAK|UNIQUE/ && $6 ~ /DEFAULT|PROTECTED/ && $7 != "UND" { sub(/@.*/, "", $8); print $8 }' | sort -u)
[ -n "$names" ] || { echo "$library exports nothing" >&2; exit 1; }

for name in $(printf '%s\n' "$names" | grep -v '^situ_[a-z0-9]' || true); do
  case $name in
    situ__*) grep -rqw "$name" "$include" && continue ;;
  esac
  echo "exported, but not public: $name" >&2
  bad=1
done
printf '%s\n' "$names" | wc -l | sed 's/$/ symbols exported/'
exit $bad
