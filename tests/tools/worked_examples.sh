#!/bin/sh
# The worked examples of docs/add-an-op.md, in a copy of the tree: a diff that the tree has already is taken back, and the rest
# builds and passes without it; then every diff is applied, and builds and passes with its tests.
# SPDX-License-Identifier: MIT
# usage: worked_examples.sh CMAKE SOURCE_DIRECTORY
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

# N.diff for each diff of the document, and N.there, with the names of its new files, for one that the tree has.
awk -v to="$work" '
  /^```diff$/ {
    file = to "/" ++n ".diff"
    if (sub(/^<!-- in the tree(, with)?/, "", before) && sub(/ -->$/, "", before)) print before > (to "/" n ".there")
    next
  }
  /^```$/ { file = "" }
  file { print > file }
  { before = $0 }' docs/add-an-op.md

try() { "$@" >"$work/log" 2>&1 || { tail -n 60 "$work/log" >&2; echo "failed: $*" >&2; exit 1; }; }
build_and_test() {
  try "$cmake" --preset minimal -DSITU_TESTS_TOGETHER=ON -DSITU_WERROR=ON -DSITU_BENCH=OFF
  try "$cmake" --build --preset minimal --parallel
  # The ops' own tests, and those that walk all ops.
  try ctest --test-dir build/minimal -R '^(ops|golden|backend|dispatch|headers)/|^tools/format|^fuzz/' -LE '^slow$' \
    --parallel 2 --output-on-failure
  tail -n 5 "$work/log" | grep 'tests passed'
}

for there in "$work"/*.there; do
  [ -e "$there" ] || continue
  try patch -p1 -R --fuzz=0 -i "${there%.there}.diff"
  for file in $(cat "$there"); do rm "$file"; done
done
build_and_test
for diff in "$work"/*.diff; do try patch -p1 --fuzz=0 -i "$diff"; done
for file in $(cat /dev/null "$work"/*.there); do cp "$source/$file" "$file"; done
build_and_test
echo "$(ls "$work"/*.diff | wc -l) worked examples"
