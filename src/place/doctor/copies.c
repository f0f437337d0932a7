/* The ledger in groups, and what is wrong in it.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "place/doctor/doctor.h"

typedef struct situ__doctor_group group;

enum { GROUPS = 256, REPEATS = 64 };

static bool is_alike(const situ_transfer *a, const situ_transfer *b) {
  return situ_device_equal(a->from, b->from) && situ_device_equal(a->to, b->to) && strcmp(a->at, b->at) == 0 &&
         strcmp(a->op, b->op) == 0 && strcmp(a->reason, b->reason) == 0 && strcmp(a->tensor, b->tensor) == 0;
}

static void add_to_group(situ__doctor_copies *c, const situ_transfer *t) {
  int64_t i = 0;
  while (i < c->groups && !is_alike(c->group[i].last, t)) i++;
  if (i == GROUPS) return;
  if (i == c->groups) c->group[c->groups++].sum = (situ_transfers){ 0 };
  c->group[i].last = t;
  c->group[i].sum.count++;
  c->group[i].sum.bytes += t->bytes;
}

static int largest_first(const void *a, const void *b) {
  const group *x = a, *y = b;
  if (x->sum.bytes != y->sum.bytes) return x->sum.bytes > y->sum.bytes ? -1 : 1;
  return (x->last > y->last) - (x->last < y->last);
}

/* The lint has read parameters to compare them. */
static bool is_ours(const situ_transfer *t) {
  const situ__doctor *d = &situ__doctor_now;
  const double at = d->ledger_began + t->seconds;
  bool found = false;
  for (int i = 0; i < d->lint_count; i++) found |= at >= d->lints[i].from && at <= d->lints[i].to;
  return found && strcmp(t->op, "copy_to_host") == 0;
}

void situ__doctor_copies_of(const situ_ledger *ledger, situ__doctor_copies *c) {
  *c = (situ__doctor_copies){ 0 };
  if (!ledger) return;
  const int64_t count = situ_ledger_transfers(ledger, NULL, 0);
  c->total = situ_ledger_total(ledger);
  c->waits = situ_ledger_waits(ledger);
  c->list = count > 0 ? situ__alloc_uncounted((size_t)count * sizeof *c->list) : NULL;
  c->group = c->list ? situ__alloc_uncounted(GROUPS * sizeof *c->group) : NULL;
  if (!c->group || situ_ledger_transfers(ledger, c->list, count) < count) return;
  for (int64_t i = 0; i < count; i++) {
    if (is_ours(&c->list[i])) {
      c->total.count--;
      c->total.bytes -= c->list[i].bytes;
      continue;
    }
    c->list[c->count] = c->list[i];
    situ__doctor_know(c->list[i].from);
    situ__doctor_know(c->list[i].to);
    add_to_group(c, &c->list[c->count++]);
  }
  qsort(c->group, (size_t)c->groups, sizeof *c->group, largest_first);
}

void situ__doctor_copies_free(situ__doctor_copies *c) {
  situ__free(c->list);
  situ__free(c->group);
}

/* ---- findings ---- */

static void drop_old(void) {
  situ__doctor *d = &situ__doctor_now;
  int64_t kept = 0;
  for (int64_t i = 0; i < d->findings; i++) {
    if (!d->finding[i].of_ledger) {
      d->finding[kept++] = d->finding[i];
      continue;
    }
    situ__free(d->finding[i].text);
    situ__free(d->finding[i].fix);
  }
  d->findings = kept;
}

static void add(situ__doctor_kind kind, const situ_transfer *t, situ_transfers sum, const char *fix) {
  situ__doctor *d = &situ__doctor_now;
  const int64_t before = d->findings;
  char text[600], from[SITU_DEVICE_NAME_MAX], to[SITU_DEVICE_NAME_MAX], bytes[SITU__BYTES_TEXT];
  (void)snprintf(text, sizeof text, "%s%s%s: %s -> %s, %" PRIu64 " time%s, %s, by %s (%s)%s%s", t->role,
                 *t->tensor ? " " : "", t->tensor, situ_device_name(t->from, from), situ_device_name(t->to, to),
                 sum.count, sum.count == 1 ? "" : "s", situ__bytes_text(sum.bytes, bytes), t->op, t->reason,
                 *t->at ? "\n  at " : "", t->at);
  situ__doctor_add(kind, false, text, fix);
  if (d->findings > before) d->finding[before].of_ledger = true;
}

void situ__doctor_judge_copies(const situ_ledger *ledger, const situ__doctor_copies *c) {
  drop_old();
  for (int64_t i = 0; i < c->groups; i++) {
    const situ_transfer *t = c->group[i].last;
    char fix[240], to[SITU_DEVICE_NAME_MAX];
    if (strcmp(t->reason, "policy") != 0) continue;
    (void)snprintf(fix, sizeof fix, "%s = situ_to(%s, situ_dev(\"%s\"));   /* once, where it is made */",
                   *t->tensor ? t->tensor : "x", *t->tensor ? t->tensor : "x", situ_device_name(t->to, to));
    add(SITU__DOCTOR_HIDDEN, t, c->group[i].sum, fix);
  }
  situ_ledger_repeat *again = ledger ? situ__alloc_uncounted(REPEATS * sizeof *again) : NULL;
  const int64_t count = again ? situ_ledger_repeats(ledger, 0, again, REPEATS) : 0;
  for (int64_t i = 0; i < count && i < REPEATS; i++) {
    if (is_ours(&again[i].last)) continue;
    const bool part = strcmp(again[i].last.role, "parameter") == 0 || strcmp(again[i].last.role, "buffer") == 0;
    add(SITU__DOCTOR_AGAIN, &again[i].last, again[i].sum,
        part && strcmp(again[i].last.reason, "read") != 0
            ? "move it to where it is used (situ_nn_to), or hold on to the copy"
            : "hold on to the copy: it did not change in between");
  }
  situ__free(again);
}
