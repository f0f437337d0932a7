#!/bin/sh
# Is docs/pytorch-myths.md true? Its code must be that of the tests, and what "situ prints" must be what they print.
#   <!-- code: document_000.c example 1 -->      the lines from that heading to the end of the example
#   <!-- prints: document_000 example_1 -->      what that test prints on cpu and sim:0
# Line numbers and fields' places in structs may differ. With --update the document is rewritten.
# SPDX-License-Identifier: MIT
# usage: myths.sh DOCUMENT SOURCES PROGRAMS [--update]
set -eu
document=$1 sources=$2 programs=$3 update=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The test's code as a user would write it: without the frame that makes it a test.
code() {
  awk -v heading="/* ---- $2" '
    index($0, heading) == 1 { on = 1; blank = 1; next }
    !on { next }
    /^  \/\* end \*\/$/ || /^\/\* ---- / { exit }
    /^static void example_[a-z0-9_]*\(void \*\*state\) \{$/ { body = 1; next }
    body && /^  \(void\)state;$/ { next }
    { if (body) sub(/^  /, "") }
    $0 == "" { blank++; next }
    { if (blank && printed) print ""; blank = 0; printed = 1; print }' "$sources/$1"
}

prints() {
  [ -f "$work/$1" ] || SITU_SIM=2 SITU_TEST_DEVICE=sim:0 "$programs/test_seeds_$1" >"$work/$1" 2>/dev/null
  awk -v begin="[ RUN      ] $2" -v end="[       OK ] $2" '$0 == end { exit } on { print } $0 == begin { on = 1 }' "$work/$1" |
    sed 's|[^ ]*/\(document_[0-9]*\.c\)|\1|g; s| *$||'
}

# old: where we are: 1 behind a directive, where its block may begin; 2 in that block.
old=0
while IFS= read -r line; do
  case $old$line in
    1'```'*) old=2; continue ;;
    2'```') old=0; continue ;;
    2*) continue ;;
  esac
  old=0
  printf '%s\n' "$line"
  what=${line#<!-- *: } what=${what% -->}
  case $line in
    '<!-- code: '*)   printf '```c\n%s\n```\n' "$(code "${what%% *}" "${what#* }")"; old=1 ;;
    '<!-- prints: '*) printf '```text\n%s\n```\n' "$(prints "${what%% *}" "${what#* }")"; old=1 ;;
  esac
done <"$document" >"$work/new"

if [ "$update" = --update ]; then
  cat "$work/new" >"$document"
  exit
fi
plain() { sed 's/\(document_[0-9]*\.c\):[0-9]*/\1/g; s/at byte [0-9]*/at byte/g' "$1"; }
plain "$document" >"$work/a"
plain "$work/new" >"$work/b"
diff "$work/a" "$work/b" || {
  echo "$document is not what the tests show; tests/seeds/myths.sh ... --update rewrites it" >&2
  exit 1
}
# Each claim has a test of the name that stands beside it, and each such test stands beside a claim.
sed -n 's/^static void claim_\(00[0-9a-zA-Z_]*\)(void.*/\1/p' "$sources"/document_*.c | sort >"$work/tests"
grep -o '`00[0-2]_[0-9a-zA-Z_]*`' "$document" | tr -d '`' | sort -u >"$work/named"
diff "$work/tests" "$work/named" || {
  echo "the claims of $document and the tests of $sources differ" >&2
  exit 1
}
echo "$(wc -l <"$work/tests") claims, $(grep -c '^<!-- ' "$document") blocks of $document are as shown"
