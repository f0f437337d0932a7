/* The report as one HTML page: no scripts, nothing from elsewhere, for light and dark screens.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "place/doctor/doctor.h"
#include "place/draw/picture.h"

static const char style[] =
    ":root{color-scheme:light dark;--ground:#fff;--text:#1c2630;--mute:#55616d;--line:#d5dbe1;--card:#f6f8fa;"
    "--bad:#a3341f;--good:#2c6a35;--mark:#2f6fae}\n"
    "@media (prefers-color-scheme:dark){:root{--ground:#12161b;--text:#e8edf2;--mute:#aab4be;--line:#39424c;"
    "--card:#1b2026;--bad:#f0917f;--good:#8fce95;--mark:#7db4e6}}\n"
    "body{margin:0 auto;max-width:1200px;padding:24px;background:var(--ground);color:var(--text);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif}\n"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 8px}p{margin:4px 0}.m{color:var(--mute);"
    "fill:var(--mute)}.bad{color:var(--bad)}.good{color:var(--good)}\n"
    ".card{border:1px solid var(--line);border-left:4px solid var(--bad);border-radius:4px;background:var(--card);"
    "padding:8px 14px;margin:8px 0}.note{border-left-color:var(--line)}\n"
    "pre{margin:4px 0;white-space:pre;overflow-x:auto;font:13px/1.45 ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,"
    "monospace}.card pre{white-space:pre-wrap}.fix{border-top:1px solid var(--line);margin-top:8px;padding-top:6px}\n"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid "
    "var(--line);vertical-align:top}td.n,th.n{text-align:right;white-space:nowrap}\n"
    "svg{max-width:100%;height:auto}.time text{fill:var(--text);font-size:13px}.time .m{fill:var(--mute)}"
    ".time .b{font-weight:600}.end{text-anchor:end}.time path{fill:none;stroke:var(--mark);stroke-width:1}"
    ".time path[class^=t]{fill:var(--mark);fill-opacity:.3}.time .rule{stroke:var(--line)}"
    ".time .move{stroke:var(--mute)}.time .copy{stroke:var(--bad)}\n";

static void put_element(situ__text *t, const char *open, const char *text, const char *close) {
  situ__text_add(t, "%s", open);
  while (*text) { /* put_xml takes a line */
    char line[1024];
    const size_t length = strcspn(text, "\n");
    const size_t kept = length < sizeof line ? length : sizeof line - 1;
    memcpy(line, text, kept);
    line[kept] = 0;
    situ__put_xml(t, line);
    if (text[length]) situ__text_append(t, "\n", 1);
    text += length + (text[length] != 0);
  }
  situ__text_add(t, "%s\n", close);
}

static void put_kind(situ__text *t, situ__doctor_kind kind) {
  const situ__doctor *d = &situ__doctor_now;
  bool begun = false;
  for (int64_t i = 0; i < d->findings; i++) {
    const situ__doctor_finding *f = &d->finding[i];
    if (f->kind != kind || f->looks < 2) continue;
    if (!begun) put_element(t, "<h2>", situ__doctor_title(kind), "</h2>");
    begun = true;
    put_element(t, f->note ? "<div class=\"card note\"><pre>" : "<div class=\"card\"><pre>", f->text, "</pre>");
    if (*f->fix && !strstr(f->text, f->fix)) put_element(t, "<pre class=\"fix\">", f->fix, "</pre>");
    situ__text_add(t, "</div>\n");
  }
}

static void put_cell(situ__text *t, const char *text) {
  situ__text_add(t, "<td>");
  situ__put_xml(t, text);
  situ__text_add(t, "</td>");
}

enum { ROWS = 100 };

static void put_copies(situ__text *t, const situ__doctor_copies *c) {
  char name[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
  situ__text_add(t,
                 "<h2>Copies between memories</h2>\n<p class=\"m\">%" PRIu64 " copies, %s; %" PRIu64
                 " waits for a device</p>\n",
                 c->total.count, situ__bytes_text(c->total.bytes, bytes), c->waits);
  if (!c->groups) return;
  situ__text_add(t, "<table><tr><th class=\"n\">times</th><th class=\"n\">bytes</th><th>from</th><th>to</th>"
                    "<th>tensor</th><th>call</th><th>why</th><th>line</th></tr>\n");
  for (int64_t i = 0; i < c->groups && i < ROWS; i++) {
    const situ_transfer *last = c->group[i].last;
    situ__text_add(t, "<tr><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%s</td>", c->group[i].sum.count,
                   situ__bytes_text(c->group[i].sum.bytes, bytes));
    put_cell(t, situ_device_name(last->from, name));
    put_cell(t, situ_device_name(last->to, name));
    put_cell(t, *last->tensor ? last->tensor : last->role);
    put_cell(t, last->op);
    put_cell(t, last->reason);
    put_cell(t, last->at);
    situ__text_add(t, "</tr>\n");
  }
  situ__text_add(t, "</table>\n");
}

static void put_roots(situ__text *t) {
  const situ__doctor *d = &situ__doctor_now;
  for (int i = 0; i < d->roots; i++) {
    const situ__doctor_root *r = &d->root[i];
    situ__text_add(t, "<h2>Model %d of %d</h2>\n<p class=\"m\">called %" PRId64 " times</p>\n", i + 1, d->roots,
                   r->calls);
    if (r->mend.data)
      put_element(t, "<div class=\"card\"><p>What to write instead, for all wrong calls together</p><pre>",
                  r->mend.data, "</pre></div>");
    if (r->map.data && !r->map.failed) situ__text_append(t, r->map.data, r->map.length);
    if (r->tree.data) put_element(t, "<pre>", r->tree.data, "</pre>");
  }
}

void situ__doctor_html(situ__text *t, const situ__doctor_copies *copies, const situ__doctor_end *end) {
  const situ__doctor *d = &situ__doctor_now;
  const int64_t mistakes = situ__doctor_mistakes();
  situ__text_add(t,
                 "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                 "content=\"width=device-width\"><title>situ doctor</title>\n<style>\n%s</style></head><body>\n"
                 "<h1>situ doctor</h1>\n<p id=\"end\">The program has not ended.</p>\n",
                 style);
  situ__text_add(t, "<p class=\"%s\">%" PRId64 " finding%s</p>\n<p class=\"m\">written %s; covers %.2f s%s</p>\n",
                 mistakes ? "bad" : "good", mistakes, mistakes == 1 ? "" : "s", end->how, end->seconds,
                 d->forked ? "; forked by a watched process: neither copies nor memory over time are recorded" : "");
  for (int kind = 0; kind < SITU__DOCTOR_KINDS; kind++) put_kind(t, (situ__doctor_kind)kind);
  put_roots(t);
  if (!d->forked) {
    situ__text_add(t, "<h2>Memory and copies over time</h2>\n");
    situ__doctor_timeline(t, copies, end->seconds);
    put_copies(t, copies);
  }
  situ__text_add(t, "</body></html>\n");
}
