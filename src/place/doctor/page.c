/* The report as text for a terminal.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "place/doctor/doctor.h"
#include "place/draw/snapshot.h"

const char *situ__doctor_title(situ__doctor_kind kind) {
  static const char *const title[SITU__DOCTOR_KINDS] = {
    [SITU__DOCTOR_WRONG] = "wrong calls, found before anything was computed",
    [SITU__DOCTOR_FAILED] = "calls that failed",
    [SITU__DOCTOR_PARTS] = "parts: registration, devices, optimisers",
    [SITU__DOCTOR_HIDDEN] = "hidden copies",
    [SITU__DOCTOR_AGAIN] = "the same values, copied again",
    [SITU__DOCTOR_UNUSED] = "memory never used",
  };
  return title[kind];
}

int64_t situ__doctor_mistakes(void) {
  int64_t count = 0;
  for (int64_t i = 0; i < situ__doctor_now.findings; i++)
    count += situ__doctor_now.finding[i].looks > 1 && !situ__doctor_now.finding[i].note;
  return count;
}

/* Lines, each behind `indent`, as text for a terminal. */
static void put_lines(situ__text *t, const char *indent, const char *lines) {
  char line[1024];
  while (*lines) {
    const size_t length = strcspn(lines, "\n");
    (void)snprintf(line, sizeof line, "%.*s", (int)length, lines);
    if (length) situ__text_add(t, "%s", indent);
    situ__place_clean(t, line);
    situ__text_append(t, "\n", 1);
    lines += length + (lines[length] != 0);
  }
}

static void put_kind(situ__text *t, situ__doctor_kind kind, int64_t *number) {
  const situ__doctor *d = &situ__doctor_now;
  bool begun = false;
  for (int64_t i = 0; i < d->findings; i++) {
    const situ__doctor_finding *f = &d->finding[i];
    if (f->kind != kind || f->looks < 2) continue;
    if (!begun) situ__text_add(t, "\n%s\n", situ__doctor_title(kind));
    begun = true;
    char head[32], blank[32];
    const int width = snprintf(head, sizeof head, f->note ? "  note: " : "%3" PRId64 ". ", *number + 1);
    *number += !f->note;
    (void)snprintf(blank, sizeof blank, "%*s", width, "");
    situ__text_add(t, "%s", head);
    situ__text lines = { 0 };
    put_lines(&lines, blank, f->text);
    if (lines.data) situ__text_add(t, "%s", lines.data + width);
    situ__text_free(&lines);
    if (*f->fix && !strstr(f->text, f->fix)) {
      situ__text_add(t, "%swrite\n", blank);
      (void)snprintf(blank, sizeof blank, "%*s", width + 2, "");
      put_lines(t, blank, f->fix);
    }
  }
}

static void put_roots(situ__text *t) {
  const situ__doctor *d = &situ__doctor_now;
  for (int i = 0; i < d->roots; i++) {
    const situ__doctor_root *r = &d->root[i];
    if (r->mend.data) {
      situ__text_add(t, "\nwhat to write instead, for all wrong calls together\n");
      put_lines(t, "  ", r->mend.data);
    }
    situ__text_add(t, "\nmodel %d of %d, called %" PRId64 " time%s\n", i + 1, d->roots, r->calls,
                   r->calls == 1 ? "" : "s");
    put_lines(t, "  ", r->tree.data ? r->tree.data : "");
  }
  if (d->other_calls) situ__text_add(t, "\n%" PRId64 " calls of other models were not looked at\n", d->other_calls);
}

static void put_memory(situ__text *t) {
  const situ__doctor *d = &situ__doctor_now;
  char name[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
  situ__text_add(t, "\nmemory in use, at most (sampled each %.0f ms)\n", 1e3 * d->period);
  for (int i = 0; i < d->devices; i++)
    situ__text_add(t, "  %-8s %10s\n", situ_device_name(d->memory[i].device, name),
                   situ__bytes_text(d->memory[i].peak, bytes));
}

enum { ROWS = 12 };

static void put_copies(situ__text *t, const situ__doctor_copies *c) {
  char from[SITU_DEVICE_NAME_MAX], to[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
  situ__text_add(t, "\ncopies between memories: %" PRIu64 ", %s; waits for a device: %" PRIu64 "\n", c->total.count,
                 situ__bytes_text(c->total.bytes, bytes), c->waits);
  for (int64_t i = 0; i < c->groups && i < ROWS; i++) {
    const situ_transfer *last = c->group[i].last;
    situ__text_add(t, "  %6" PRIu64 " x %10s  %s -> %s  %s%s", c->group[i].sum.count,
                   situ__bytes_text(c->group[i].sum.bytes, bytes), situ_device_name(last->from, from),
                   situ_device_name(last->to, to), last->role, *last->tensor ? " " : "");
    situ__place_clean(t, last->tensor);
    situ__text_add(t, "  by %s (%s)%s%s\n", last->op, last->reason, *last->at ? " at " : "", last->at);
  }
  if (c->groups > ROWS) situ__text_add(t, "  and %" PRId64 " other kinds\n", c->groups - ROWS);
  if (c->count && (uint64_t)c->count < c->total.count)
    situ__text_add(t, "  (of the newest %" PRId64 "; no more are kept)\n", c->count);
}

void situ__doctor_page(situ__text *t, const situ__doctor_copies *copies, const situ__doctor_end *end) {
  const situ__doctor *d = &situ__doctor_now;
  const int64_t mistakes = situ__doctor_mistakes();
  int64_t number = 0;
  situ__text_add(t, "written %s, covers %.2f s: %" PRId64 " finding%s\n", end->how, end->seconds, mistakes,
                 mistakes == 1 ? "" : "s");
  if (d->forked)
    situ__text_add(t, "this process was forked by one that is watched: its copies and its memory are not recorded\n");
  if (d->forks)
    situ__text_add(t, "%d process%s forked: those that end by exit have written pages of their own\n", d->forks,
                   d->forks == 1 ? " was" : "es were");
  for (int kind = 0; kind < SITU__DOCTOR_KINDS; kind++) put_kind(t, (situ__doctor_kind)kind, &number);
  put_roots(t);
  if (d->forked) return;
  put_memory(t);
  put_copies(t, copies);
}
