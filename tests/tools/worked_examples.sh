#!/bin/sh
# The worked examples of docs/add-an-op.md and docs/add-a-pass.md, in a copy of the tree: the diffs that the tree has are
# taken back, the others are applied, and that builds and passes, so no part of a change is missing. The other way round it
# must be the tree again.
# SPDX-License-Identifier: MIT
# With a compiler and a build's generated headers, most sources are only read by the compiler, which takes seconds.
# usage: worked_examples.sh CMAKE SOURCE_DIRECTORY [COMPILER GENERATED]
set -eu
command -v patch >/dev/null || { echo "SKIPPED: there is no patch"; exit 77; }
cmake=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
tree=$work/situ
mkdir "$tree"
(cd "$source" && tar -cf - --exclude=./build --exclude=./carried --exclude=./.git .) | tar -xf - -C "$tree"
cd "$tree"

# N.diff for each diff of the documents, and N.there, with the names of its new files, for one that the tree has.
awk -v to="$work" '
  /^```diff$/ {
    file = to "/" ++n ".diff"
    if (sub(/^<!-- in the tree(, with)?/, "", before) && sub(/ -->$/, "", before)) print before > (to "/" n ".there")
    next
  }
  /^```$/ { file = "" }
  file { print > file }
  { before = $0 }' docs/add-an-op.md docs/add-a-pass.md

try() { "$@" >"$work/log" 2>&1 || { tail -n 60 "$work/log" >&2; echo "failed: $*" >&2; exit 1; }; }
# turn HAVE LACK: the options of patch for a diff that the tree has, and for one that it lacks
turn() {
  for diff in "$work"/*.diff; do
    if [ -e "${diff%.diff}.there" ]; then option=$1; else option=$2; fi
    try patch -p1 --fuzz=0 --no-backup-if-mismatch --force "$option" -i "$diff"
  done
}

# Codes that have come or gone change the interface's number.
number() {
  command -v python3 >/dev/null || return 0
  ! tools/check_abi >/dev/null || { echo "tools/check_abi does not see that codes changed" >&2; exit 1; }
  try tools/check_abi --write
}

turn --reverse --forward
number
for file in $(cat "$work"/*.there); do rm "$file"; done
# What else has come to call cumprod compiles with a sum in its place.
users=$(grep -rlw situ_cumprod src tests)
sed -i 's/\<situ_cumprod\>/situ_cumsum/g' $users
tools/format $users || [ $? -eq 77 ] # the shorter name moves what follows it
well_formed() { tools/format --check "$@" || [ $? -eq 77 ]; }
: >"$work/passed"
if [ $# -gt 2 ]; then
  find src/ops src/program src/backend/cpu src/backend/lower src/backend/meta src/backend/sim -name '*.c' ! -path '*/isa*/*' |
    try xargs -P "$(nproc)" -n 16 "$3" -std=c17 -fsyntax-only -DSITU_BUILDING -D_GNU_SOURCE= -Iinclude -Isrc "-I$4"
  touched=$(sed -n 's|^+++ \(b/\)*\([^ \t]*\.[ch]\).*|\2|p' "$work"/*.diff | sort -u)
  # shellcheck disable=SC2086 # file names
  try well_formed $(ls -d $users $touched 2>/dev/null)
else
  # With every backend that this machine can build.
  try "$cmake" --preset release -DSITU_TESTS_TOGETHER=ON -DSITU_WERROR=ON -DSITU_BENCH=OFF -DSITU_CUDA_ARCHITECTURES=90 \
    '-DSITU_CUDA_FLAGS=--Ofast-compile=mid;--compress-mode=speed'
  try "$cmake" --build --preset release --parallel "$(nproc)" # without a number make starts all jobs at once
  # The ops' own tests, and those that walk all ops, on every device.
  own='ops/(unary/unary|reduce/order)|golden/(unary|reduce)|backend/verbs/(order|math)'
  all='ops/parity|autograd/twice|func/vmap|golden/(accepts|autocast)|dispatch/check|headers/|fuzz/ops|backend/opencl/kernels'
  try ctest --test-dir build/release -LE '^slow$' --parallel 2 --output-on-failure -R "^($own|$all|tools/format)"
  echo ", $(sed -n "s/.* out of //p" "$work/log") tests" >"$work/passed"
fi

turn --forward --reverse
number
for file in $(cat "$work"/*.there) $users; do cp "$source/$file" "$file"; done
rm -rf build
diff -r -x build -x carried -x .git "$source" "$tree"
echo "$(ls "$work"/*.diff | wc -l) diffs$(cat "$work/passed")"
