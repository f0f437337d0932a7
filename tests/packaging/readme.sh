#!/bin/sh
# Does what README.md says, in its order: its commands, its program and its error are taken from README.md itself, and what they
# print is compared with what it says. With SITU_TEST_ALL all of it, in a copy of the tree that holds no build; else what
# follows the build, with the one that is tested. Needs neither network nor root.
# SPDX-License-Identifier: MIT
# usage: readme.sh CMAKE SOURCE_DIRECTORY BUILD_DIRECTORY C_COMPILER
set -eu
command -v pkg-config >/dev/null || { echo "SKIPPED: there is no pkg-config"; exit 77; }
cmake=$1 source=$2 build=$3 cc=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
readme=$source/README.md
HOME=$work/home
CC=$cc
SITU_RUN_INSTALL=0
export HOME CC SITU_RUN_INSTALL
mkdir "$HOME"

# block LANGUAGE N: the N-th block of that language
block() { awk -v fence="\`\`\`$1" -v n="$2" '$0 == "```" { on = 0 } on { print } $0 == fence { on = ++seen == n }' "$readme"; }
# says TEXT: README.md has these words, over however many lines
says() { tr '\n' ' ' <"$readme" | grep -qF -- "$1" || { echo "README.md does not say: $1" >&2; exit 1; }; }
try() { "$@" >"$work/log" 2>&1 || { tail -n 60 "$work/log" >&2; echo "failed: $*" >&2; exit 1; }; }
has() { grep -qF -- "$1" "$2" || { cat "$2" >&2; echo "this should be there: $1" >&2; exit 1; }; }

block sh 1 >"$work/front.sh"
[ "$(awk '{ print $1 }' "$work/front.sh" | tr '\n' ' ')" = 'git ./run ./run ./run ' ] || { cat "$work/front.sh" >&2; exit 1; }
if [ -n "${SITU_TEST_ALL:-}" ]; then
  mkdir "$work/situ"
  (cd "$source" && tar -cf - --exclude=./build --exclude=./carried --exclude=./.git .) | tar -xf - -C "$work/situ"
  cd "$work/situ"
  build=build/release
  # Each ./run, but for the tests, of which this is one. Elsewhere: kernels for every architecture of NVIDIA's take half an
  # hour; README.md says how to leave them out.
  grep -E '^\./run (demo|install)' "$work/front.sh" >"$work/start.sh"
  try sh -eu "$work/start.sh"
  has 'and one mistake on purpose' "$work/log"
  says '`--device opencl:0` does it all on an OpenCL device'
  if [ -e /etc/OpenCL/vendors/pocl.icd ]; then
    try ./run demo --device opencl:0
    has 'and one mistake on purpose: the network is on opencl:0' "$work/log"
  fi
  says '`-DSITU_CUDA=OFF` leaves'
  block sh 3 | sed 's/-DSITU_TESTS=OFF/& -DSITU_CUDA=OFF/; s|\$HOME/.local|$HOME/elsewhere|' >"$work/elsewhere.sh"
  try sh -eu "$work/elsewhere.sh"
  [ -f "$HOME/elsewhere/include/situ/situ.h" ]
else
  try "$cmake" --install "$build" --prefix "$HOME/.local"
fi

# Two programs, each built by the command that follows it.
lib=$(dirname "$(find "$HOME/.local" -name libsitu.so)")
mkdir "$work/mine"
block sh 2 | sed "s|\$HOME/.local/lib|$lib|g" >"$work/programs.sh"
block sh 4 >>"$work/programs.sh"
says 'A first program, `first.c`:'
block c 1 >"$work/mine/first.c"
says 'A complete program, `xor.c`:'
block c 2 >"$work/mine/xor.c"
(cd "$work/mine" && sh -eu "$work/programs.sh") >"$work/out" 2>&1 || { cat "$work/out" >&2; exit 1; }
has '2., 2., 2.' "$work/out"
first=$(sed -n 's/^step   0  loss //p' "$work/out") last=$(sed -n 's/^step 100  loss //p' "$work/out")
[ "$(grep -c '^step .* loss ' "$work/out")" -eq 5 ] || { cat "$work/out" >&2; exit 1; }
answers=$(tail -n 1 "$work/out")
says "five losses that fall from $first to $last, and the answers \`$answers\`"

{
  printf 'cmake_minimum_required(VERSION 3.16)\nproject(mine C)\nadd_executable(my_program xor.c)\n'
  block cmake 1
} >"$work/mine/CMakeLists.txt"
has find_package "$work/mine/CMakeLists.txt"
try "$cmake" -S "$work/mine" -B "$work/mine/build" -DCMAKE_PREFIX_PATH="$HOME/.local"
try "$cmake" --build "$work/mine/build"
try "$work/mine/build/my_program"

# The demo's mistake, which README.md shows first. Files are named without directories: the demo runs elsewhere.
if [ -n "${SITU_TEST_ALL:-}" ]; then demo=$PWD/$build/demo/situ-demo; else demo=$build/demo/situ-demo; fi
mkdir -p "$work/mine/build/demo"
(cd "$work/mine" && "$demo" --epochs 1) 2>&1 | sed 's|[^ ]*/demo/||g' >"$work/out"
awk '/^device mismatch in conv2d/ { on = 1 } $0 == "```" { on = 0 } on' "$readme" | sed 's|demo/||g' >"$work/error"
[ "$(wc -l <"$work/error")" -ge 6 ]
while IFS= read -r line; do has "$line" "$work/out"; done <"$work/error"

# The error, word for word, which names lines of source.
if [ -n "${SITU_TEST_ALL:-}" ]; then
  try ./run demo --epochs 1 # what the start has turned off stays so in its own directory
  try "$cmake" --build "$build" --target example_05_own_module
fi
says 'SITU_SIM=2 build/release/examples/05_own_module'
[ -n "${SITU_TEST_ALL:-}" ] || cd "$source" # files are named from here
# ccache may have the compiler write ../../examples
SITU_SIM=2 "$build/examples/05_own_module" 2>&1 | sed 's|[^ ]*/examples/|examples/|' >"$work/out"
awk '/word for word:$/ { on = 1; next } on && $0 == "```text" { open = 1; next } $0 == "```" { if (open) exit } open' "$readme" >"$work/error"
[ -s "$work/error" ]
while IFS= read -r line; do has "$line" "$work/out"; done <"$work/error"
