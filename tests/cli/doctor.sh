#!/bin/sh
# situ doctor finds each planted mistake, and none in programs without one: those planted without, and examples. Its pages
# are well-formed. It says when a program is linked statically, crashes, is killed or forks.
# SPDX-License-Identifier: MIT
# usage: doctor.sh SITU PLANTED PLANTED_STATIC EXAMPLES
set -eu
situ=$1 planted=$2 static=$3 examples=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"
bad=0
complain() {
  echo "$1"
  cat said
  bad=$((bad + 1))
}

"$planted" >cases
while IFS='	' read -r name words; do
  status=0
  "$situ" doctor --html page.html "$planted" "$name" >said 2>&1 || status=$?
  if [ "$words" = - ]; then
    [ $status = 0 ] && grep -q ': 0 findings$' said || complain "found in $name, where there is nothing:"
  else
    grep -qF -- "$words" said || complain "missed in $name, \"$words\":"
  fi
  cp page.html "page-$name.html"
done <cases
echo "$(grep -vc '	-$' cases) mistakes planted, $(grep -c '	-$' cases) programs without"

for example in 02_autograd 03_mlp 08_placement 13_forces; do
  for device in cpu sim:0; do
    "$situ" doctor --html "page-$example.html" "$examples/$example" --device $device >said 2>&1 || complain "found in $example:"
  done
done

# A finding leaves its mark on the exit status, a crash on the page; a forked child has a page of its own.
! "$situ" doctor --html page.html "$planted" 000-3 >said 2>&1 || complain 'status 0 in spite of a finding'
grep -q 'was ended by signal 11' page-crash.html || complain 'the page does not tell of the crash'
ls page.*.html >/dev/null 2>&1 || complain 'no page of the forked child'
! "$situ" doctor "$static" 000-3 >said 2>&1 || complain 'status 0 of a program without a report'
grep -q 'linked with a static libsitu' said || complain 'the static program is not told of'
! "$situ" doctor ./not-there >said 2>&1 || complain 'status 0 of a program that is not there'
grep -q 'cannot run ./not-there: No such file' said || complain 'a program that is not there'
! "$situ" doctor >said 2>&1 || complain 'status 0 without a program'
"$situ" doctor --html page.html sh -c 'exit 0' >said 2>&1 || grep -q 'does not use situ' said || complain 'sh uses situ'

if command -v python3 >/dev/null; then
  cat >check.py <<'P'
import html.parser, sys
VOID = {"meta", "link", "br", "hr", "img", "rect", "path", "circle", "line", "polygon", "polyline"}
class Page(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs):
        if tag not in VOID or self.get_starttag_text().endswith("/>"): self.open.append(tag)
        if self.get_starttag_text().endswith("/>"): self.open.pop()
        assert tag != "script" and not any(k in ("src", "href") for k, _ in attrs), tag
        ids = [v for k, v in attrs if k == "id"]
        assert not set(ids) & self.ids, ids
        self.ids |= set(ids)
    def handle_startendtag(self, tag, attrs): pass
    def handle_endtag(self, tag):
        if tag in VOID and (not self.open or self.open[-1] != tag): return
        assert self.open and self.open[-1] == tag, (tag, self.open, self.getpos())
        self.open.pop()
for path in sys.argv[1:]:
    page = Page()
    page.open, page.ids = [], set()
    page.feed(open(path, encoding="utf-8").read())
    page.close()
    assert not page.open, (path, page.open)
    assert "end" in page.ids, path
P
  python3 check.py page-*.html >said 2>&1 || complain 'a page is not well-formed:'
else
  echo 'SKIPPED in part: no python3, which reads the pages'
fi
exit $((bad > 0))
