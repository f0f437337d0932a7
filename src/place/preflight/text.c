/* A preflight's report as text, and as JSON.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "place/preflight/check.h"
#include "place/draw/snapshot.h"

const char *situ_place_problem_name(situ_place_problem problem) {
  static const char *const name[SITU_PLACE_PROBLEMS] = {
    [SITU_PLACE_DEVICE] = "device",           [SITU_PLACE_SHAPE] = "shape",   [SITU_PLACE_DTYPE] = "dtype",
    [SITU_PLACE_UNSUPPORTED] = "unsupported", [SITU_PLACE_VALUES] = "values", [SITU_PLACE_MEMORY] = "memory",
    [SITU_PLACE_GRADIENT] = "gradient",       [SITU_PLACE_KEPT] = "kept",     [SITU_PLACE_OTHER] = "other",
  };
  return (unsigned)problem < SITU_PLACE_PROBLEMS ? name[problem] : "?";
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Appends each line, indented. */
static void indented(situ__text *text, const char *lines) {
  while (*lines) {
    size_t length = strcspn(lines, "\n");
    situ__text_add(text, "   ");
    situ__text_append(text, lines, length);
    situ__text_add(text, "\n");
    lines += length + (lines[length] != 0);
  }
}

static void finding(situ__text *text, int64_t number, const situ_place_finding *f) {
  situ__text_add(text, "%" PRId64 ". %s%s", number, f->note ? "note: " : "", situ_place_problem_name(f->problem));
  if (*f->module) situ__text_add(text, " in %s", f->module);
  if (f->backward) situ__text_add(text, ", in backward");
  if (f->count > 1) situ__text_add(text, ", %" PRId64 " times", f->count);
  situ__text_add(text, "\n");
  indented(text, f->text);
  if (*f->site && !strstr(f->text, f->site)) situ__text_add(text, "   at %s\n", f->site);
}

static void edges(situ__text *text, const situ_place_report *r) {
  for (int64_t i = 0; i < r->edge_count; i++) {
    const situ_place_edge *e = &r->edges[i];
    char from[SITU_DEVICE_NAME_MAX], to[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
    situ__text_add(text, "%s  %s (%s) -> %s (%s): %s by %s%s%s", i ? "\n" : "copies\n", *e->from ? e->from : "outside",
                   situ_device_name(e->from_device, from), *e->to ? e->to : "outside",
                   situ_device_name(e->to_device, to), situ__bytes_text(e->bytes, bytes), e->op, *e->site ? " at " : "",
                   e->site);
    if (e->count > 1) situ__text_add(text, ", %" PRId64 " times", e->count);
  }
  if (r->edge_count) situ__text_add(text, "\n");
}

static void exchanges(situ__text *text, const situ_place_report *r) {
  for (int64_t i = 0; i < r->exchange_count; i++) {
    const situ_place_exchange *x = &r->exchanges[i];
    char sent[SITU__BYTES_TEXT], received[SITU__BYTES_TEXT];
    situ__text_add(text, "%s  %s", i ? "\n" : "ranks\n", x->op);
    if (x->peer >= 0) situ__text_add(text, " %d", x->peer);
    situ__text_add(text, " of %s%s%s: %s sent, %s received", x->name, *x->module ? " in " : "", x->module,
                   situ__bytes_text(x->sent, sent), situ__bytes_text(x->received, received));
    if (x->count > 1) situ__text_add(text, ", %" PRId64 " times", x->count);
  }
  if (r->exchange_count) situ__text_add(text, "\n");
}

static void loads(situ__text *text, const situ_place_report *r) {
  if (r->load_count) situ__text_add(text, "devices    kernels  parameters     buffers        peak\n");
  for (int64_t i = 0; i < r->load_count; i++) {
    const situ_place_load *l = &r->loads[i];
    char name[SITU_DEVICE_NAME_MAX], a[SITU__BYTES_TEXT], b[SITU__BYTES_TEXT], c[SITU__BYTES_TEXT];
    situ__text_add(text, "  %-8s %7" PRId64 "  %10s  %10s  %10s\n", situ_device_name(l->device, name), l->launches,
                   situ__bytes_text(l->parameters, a), situ__bytes_text(l->buffers, b), situ__bytes_text(l->peak, c));
  }
}

int64_t situ_place_report_to_string(const situ_place_report *report, char *buffer, size_t size) {
  static const char op[] = "place_report_to_string";
  if (!report) return situ__null(op, "report"), -1;
  const int64_t notes = report->finding_count - report->mistakes;
  situ__text text = { 0 };
  situ__text_add(&text, "preflight: %" PRId64 " mistake%s", report->mistakes, report->mistakes == 1 ? "" : "s");
  if (notes) situ__text_add(&text, ", %" PRId64 " note%s", notes, notes == 1 ? "" : "s");
  situ__text_add(&text, "; forward %s%s\n", report->finished ? "came to its end" : "stopped half-way",
                 report->differentiated ? ", and so did backward" : "");
  for (int64_t i = 0; i < report->finding_count; i++) finding(&text, i + 1, &report->findings[i]);
  edges(&text, report);
  exchanges(&text, report);
  loads(&text, report);
  return situ__text_deliver(op, &text, buffer, size);
}

void situ_place_report_print(const situ_place_report *report) {
  situ__text text = { 0 };
  int64_t length = situ_place_report_to_string(report, NULL, 0);
  for (int64_t i = 0; i < length; i++) situ__text_append(&text, " ", 1);
  if (length > 0 && !text.failed && situ_place_report_to_string(report, text.data, text.length + 1) == length)
    (void)fputs(text.data, stdout);
  situ__text_free(&text);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void pair(situ__text *text, const char *key, const char *value) {
  situ__text_add(text, ", \"%s\": ", key);
  situ__text_json_string(text, value ? value : "");
}

static const char *truth(bool b) { return b ? "true" : "false"; }

static void finding_json(situ__text *text, const situ_place_finding *f) {
  situ__text_add(text, "{\"problem\": \"%s\", \"note\": %s, \"backward\": %s, \"count\": %" PRId64,
                 situ_place_problem_name(f->problem), truth(f->note), truth(f->backward), f->count);
  pair(text, "status", situ_status_name(f->status));
  pair(text, "op", f->op);
  pair(text, "module", f->module);
  pair(text, "tensor", f->tensor);
  pair(text, "text", f->text);
  pair(text, "fix", f->fix);
  pair(text, "site", f->site);
  situ__text_add(text, "}");
}

static void edge_json(situ__text *text, const situ_place_edge *e) {
  char from[SITU_DEVICE_NAME_MAX], to[SITU_DEVICE_NAME_MAX];
  situ__text_add(text, "{\"bytes\": %" PRIu64 ", \"count\": %" PRId64, e->bytes, e->count);
  pair(text, "from", e->from);
  pair(text, "to", e->to);
  pair(text, "from_device", situ_device_name(e->from_device, from));
  pair(text, "to_device", situ_device_name(e->to_device, to));
  pair(text, "op", e->op);
  pair(text, "site", e->site);
  situ__text_add(text, "}");
}

static void exchange_json(situ__text *text, const situ_place_exchange *x) {
  situ__text_add(text, "{\"count\": %" PRId64 ", \"peer\": %d, \"sent\": %" PRIu64 ", \"received\": %" PRIu64, x->count,
                 x->peer, x->sent, x->received);
  pair(text, "op", x->op);
  pair(text, "name", x->name);
  pair(text, "module", x->module);
  situ__text_add(text, "}");
}

int64_t situ_place_report_json(const situ_place_report *report, char *buffer, size_t size) {
  static const char op[] = "place_report_json";
  if (!report) return situ__null(op, "report"), -1;
  situ__text text = { 0 };
  situ__text_add(&text, "{\"finished\": %s, \"differentiated\": %s, \"findings\": [", truth(report->finished),
                 truth(report->differentiated));
  for (int64_t i = 0; i < report->finding_count; i++) {
    situ__text_add(&text, i ? ", " : "");
    finding_json(&text, &report->findings[i]);
  }
  situ__text_add(&text, "], \"edges\": [");
  for (int64_t i = 0; i < report->edge_count; i++) {
    situ__text_add(&text, i ? ", " : "");
    edge_json(&text, &report->edges[i]);
  }
  situ__text_add(&text, "], \"exchanges\": [");
  for (int64_t i = 0; i < report->exchange_count; i++) {
    situ__text_add(&text, i ? ", " : "");
    exchange_json(&text, &report->exchanges[i]);
  }
  situ__text_add(&text, "], \"devices\": [");
  for (int64_t i = 0; i < report->load_count; i++) {
    const situ_place_load *l = &report->loads[i];
    char name[SITU_DEVICE_NAME_MAX];
    situ__text_add(&text,
                   "%s{\"device\": \"%s\", \"launches\": %" PRId64 ", \"parameters\": %" PRIu64
                   ", \"buffers\": %" PRIu64 ", \"peak\": %" PRIu64 "}",
                   i ? ", " : "", situ_device_name(l->device, name), l->launches, l->parameters, l->buffers, l->peak);
  }
  situ__text_add(&text, "]}");
  return situ__text_deliver(op, &text, buffer, size);
}
