#!/bin/sh
# Installs the build into a directory that it was not configured for, moves it, and uses it from there as strangers would:
# through pkg-config, through find_package, and as the program.
# SPDX-License-Identifier: MIT
# usage: install.sh CMAKE GENERATOR BUILD_DIRECTORY C_COMPILER SOURCE_DIRECTORY
set -eu
cmake=$1 generator=$2 build=$3 cc=$4 source=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first" "$work/moved"
prefix=$work/moved
lib=$(dirname "$(find "$prefix" -name libsitu.so -o -name libsitu.a)")

if grep -rl "$work/first" "$prefix/include" "$lib/pkgconfig" "$lib/cmake"; then
  echo "the files above name the directory of the installation: they would break when it moves" >&2
  exit 1
fi
[ ! -e "$lib/libsitu.so" ] || readelf -d "$lib/libsitu.so" | grep -q 'SONAME.*\[libsitu\.so\.0\]' || { echo "wrong soname" >&2; exit 1; }

cmp -s "$(find "$prefix/share/doc" -name LICENSE)" "$source/LICENSE" || { echo "LICENSE is not installed" >&2; exit 1; }

mkdir "$work/consumer"
cat >"$work/consumer/main.c" <<'C'
#include <situ/situ.h>
#include <stdio.h>

int main(void) {
  situ_scope scope;
  situ_scope_begin(&scope);
  double sum = 0;
  if (situ_item(situ_sum(situ_ones(SITU_SHAPE(2, 3), NULL), NULL), &sum) != SITU_OK || sum != 6) return 1;
  puts(situ_version());
  return situ_scope_end(&scope) != SITU_OK;
}
C
cat >"$work/consumer/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(consumer C)
find_package(situ 0.1 REQUIRED)
add_executable(consumer main.c)
target_link_libraries(consumer situ::situ)
CMAKE

expect() { # expect WHAT VERSION: both ways in must reach the same library
  [ "$2" = "$version" ] || { echo "$1 printed '$2', not '$version'" >&2; exit 1; }
  echo "$1: ok"
}
version=$(sed -n 's/.*define SITU_VERSION_STRING "\(.*\)".*/\1/p' "$prefix/include/situ/api.h")

"$cmake" -G "$generator" -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
  >"$work/cmake.log" 2>&1 && "$cmake" --build "$work/consumer/build" >>"$work/cmake.log" 2>&1 ||
  { cat "$work/cmake.log"; exit 1; }
expect find_package "$("$work/consumer/build/consumer")"

# As a subproject of a host that joins its sources into few: situ's stay apart.
mkdir "$work/host"
printf 'cmake_minimum_required(VERSION 3.20)\nproject(host C)\nset(CMAKE_UNITY_BUILD ON)\nadd_subdirectory(%s situ EXCLUDE_FROM_ALL)\n' \
  "$source" >"$work/host/CMakeLists.txt"
"$cmake" -G "$generator" -S "$work/host" -B "$work/host/build" -DCMAKE_C_COMPILER="$cc" -DSITU_CUDA=OFF >"$work/cmake.log" 2>&1 ||
  { cat "$work/cmake.log"; exit 1; }
grep -q 'src/base/alloc.c' "$work/host/build/compile_commands.json"
if grep -q 'unity_0' "$work/host/build/compile_commands.json"; then
  echo "CMAKE_UNITY_BUILD joins situ's sources" >&2
  exit 1
fi
echo "unity build: ok"

if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=$lib/pkgconfig
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046 # flags are words
  "$cc" -std=c17 "$work/consumer/main.c" -o "$work/consumer/plain" $(pkg-config --cflags --libs situ)
  expect pkg-config "$(LD_LIBRARY_PATH=$lib "$work/consumer/plain")"

  # Every example by the command in its comment, or in that of the header which all include.
  cd "$source"
  for example in examples/*.c examples/mpi/*.c; do
    name=${example##*/} name=${name%.c}
    case $example in examples/mpi/*) said=$example from=${name} compiler=mpicc ;; *) said=examples/device.h from=01_tensor compiler=cc ;; esac
    command -v $compiler >/dev/null || continue
    command=$(sed -n "s|^ *\($compiler .*pkg-config.*\)|\1|p" "$said" | sed "s| &&.*||; s|$from\.c|$name.c|; s|-o [^ ]*|-o $work/$name|")
    [ -n "$command" ] || { echo "$said does not say how $example is compiled" >&2; exit 1; }
    sh -eu -c "$command" || { echo "failed: $command" >&2; exit 1; }
  done
  LD_LIBRARY_PATH=$lib "$work/01_tensor" >/dev/null
  mkdir "$work/run" && ln -s "$source/examples" "$work/run/" # it writes a file where it runs
  (cd "$work/run" && LD_LIBRARY_PATH=$lib "$work/14_finetune_pt2" >/dev/null)
  echo "examples: ok"
fi

if [ -x "$prefix/bin/situ" ]; then
  case $("$prefix/bin/situ" version) in
    *"$version"*) echo "the program: ok" ;;
    *) echo "$prefix/bin/situ version does not name $version" >&2; exit 1 ;;
  esac
fi
