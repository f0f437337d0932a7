/* What a profile tells: its events, sums by op or module, and a table of them.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/format.h"
#include "device/device.h"
#include "device/profile/profile.h"

const char *situ__event_verb(const situ__event *e) {
  return e->verb == SITU__EVENT_TRANSFER ? "transfer"
         : e->verb == SITU__EVENT_REPLAY ? "replay"
                                         : situ__verb_name((situ_verb)e->verb);
}

int64_t situ_profile_events(const situ_profile *profile, situ_profile_event *out, int64_t capacity) {
  const char *op = "profile_events";
  if (!situ__profile_given(op, profile)) return -1;
  if (capacity > 0 && !out) return situ__null(op, "out"), -1;
  for (int64_t i = 0; i < profile->count && i < capacity; i++) {
    const situ__event *e = &profile->event[i];
    out[i] = (situ_profile_event){ .name = situ__profile_text(e->name),
                                   .module = situ__profile_text(e->module),
                                   .verb = situ__event_verb(e),
                                   .algorithm = e->algorithm,
                                   .device = e->device,
                                   .from = e->from,
                                   .begin = e->begin,
                                   .seconds = situ__event_seconds(e),
                                   .bytes = e->bytes,
                                   .used = e->used,
                                   .operations = e->operations };
  }
  return profile->count;
}

double situ_profile_seconds(const situ_profile *profile) {
  return situ__profile_given("profile_seconds", profile) ? profile->ended - profile->began : (double)NAN;
}

/* ---- sums ---- */

enum { BY_ROW = SITU_PROFILE_KEYS }; /* the table's own key: name and algorithm */

static uint16_t key_of(const situ__event *e, situ_profile_key key) {
  const uint16_t of[] = {
    [SITU_PROFILE_NAME] = e->name, [SITU_PROFILE_MODULE] = e->module, [SITU_PROFILE_VERB] = e->verb, [BY_ROW] = e->row
  };
  return of[key];
}

static const char *key_text(const situ__event *e, situ_profile_key key) {
  return key == SITU_PROFILE_VERB ? situ__event_verb(e) : situ__profile_text(key_of(e, key));
}

static int most_first(const void *a, const void *b) {
  const situ_profile_row *x = a, *y = b;
  if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
  return strcmp(x->key, y->key);
}

/* Sets *out, which the caller frees, to all rows. Returns their number; negative after recording SITU_E_NOMEM. */
static int64_t sum_up(const char *op, const situ_profile *p, situ_profile_key key, situ_profile_row **out) {
  enum { NUMBERS = 1 << 16 };
  const size_t bytes = NUMBERS * sizeof(int64_t);
  int64_t *row_of = situ__calloc(NUMBERS, sizeof *row_of), count = 0; /* its row's number and 1 */
  situ_profile_row *rows = situ__alloc((size_t)(p->count + 1) * sizeof *rows);
  *out = rows;
  if (!row_of || !rows) {
    situ__free(row_of);
    situ__free(rows);
    return situ__no_memory(op, bytes + (size_t)p->count * sizeof *rows), -1;
  }
  for (int64_t i = 0; i < p->count; i++) {
    const situ__event *e = &p->event[i];
    int64_t *at = &row_of[key_of(e, key)];
    if (!*at) {
      rows[count] = (situ_profile_row){ .key = key_text(e, key) };
      *at = ++count;
    }
    situ_profile_row *row = &rows[*at - 1];
    row->count++;
    row->seconds += situ__event_seconds(e);
    row->bytes += e->bytes;
    row->operations += e->operations;
  }
  situ__free(row_of);
  qsort(rows, (size_t)count, sizeof *rows, most_first);
  return count;
}

int64_t situ_profile_key_averages(const situ_profile *profile, situ_profile_key key, situ_profile_row *out,
                                  int64_t capacity) {
  const char *op = "profile_key_averages";
  if (!situ__profile_given(op, profile)) return -1;
  if ((unsigned)key >= SITU_PROFILE_KEYS) return situ__fail(SITU_E_ARG, op, "%d is not a key", (int)key), -1;
  if (capacity > 0 && !out) return situ__null(op, "out"), -1;
  situ_profile_row *rows;
  const int64_t count = sum_up(op, profile, key, &rows);
  if (count > 0 && capacity > 0) memcpy(out, rows, (size_t)(count < capacity ? count : capacity) * sizeof *rows);
  if (count >= 0) situ__free(rows);
  return count;
}

/* ---- the table ---- */

enum { TIME_TEXT = 16 };
static const char *time_text(double seconds, char out[TIME_TEXT]) {
  static const struct {
    double of;
    const char *name;
  } units[] = { { 1, "s" }, { 1e-3, "ms" }, { 1e-6, "us" } };
  size_t k = 0;
  while (k < 2 && seconds < units[k].of) k++;
  (void)situ__format(out, TIME_TEXT, "%.3g %s", seconds / units[k].of, units[k].name);
  return out;
}

static double rate(double amount, double seconds) { return seconds > 0 ? 1e-9 * amount / seconds : 0; }

static void add_row(situ__text *text, const situ_profile_row *row, double whole) {
  char time[TIME_TEXT], each[TIME_TEXT];
  situ__text_add(text, "\n%9s %5.1f %% %8" PRId64 " %9s %8.2f %9.2f  %s", time_text(row->seconds, time),
                 whole > 0 ? 100 * row->seconds / whole : 0, row->count,
                 time_text(row->seconds / (double)row->count, each), rate((double)row->bytes, row->seconds),
                 rate(row->operations, row->seconds), *row->key ? row->key : "(none)");
}

static void add_table(const char *op, situ__text *text, const situ_profile *p, situ_profile_key key, const char *head) {
  enum { SHOWN = 24 };
  situ_profile_row *rows;
  const int64_t count = sum_up(op, p, key, &rows);
  if (count < 0) {
    text->failed = true;
    return;
  }
  situ__text_add(text, "\n\n%9s %7s %8s %9s %8s %9s  %s", "time", "of all", "times", "each", "GB/s", "GFLOP/s", head);
  for (int64_t i = 0; i < count && i < SHOWN; i++) add_row(text, &rows[i], p->ended - p->began);
  if (count > SHOWN) situ__text_add(text, "\nand %" PRId64 " more", count - SHOWN);
  situ__free(rows);
}

static void add_all(const char *op, situ__text *text, const situ_profile *p) {
  char whole[TIME_TEXT], inside[TIME_TEXT];
  double seconds = 0;
  for (int64_t i = 0; i < p->count; i++) seconds += situ__event_seconds(&p->event[i]);
  const double all = p->ended - p->began;
  situ__text_add(text, "%s, of which %s (%.0f %%) in %" PRId64 " launches and copies%s", time_text(all, whole),
                 time_text(seconds, inside), all > 0 ? 100 * seconds / all : 0, p->count,
                 p->queued ? ", as queued" : "");
  if (!p->count) return;
  add_table(op, text, p, (situ_profile_key)BY_ROW, "op");
  add_table(op, text, p, SITU_PROFILE_MODULE, "module");
}

int64_t situ_profile_to_string(const situ_profile *profile, char *buffer, size_t size) {
  const char *op = "profile_to_string";
  if (!situ__profile_given(op, profile)) return -1;
  if (size && !buffer) return situ__null(op, "buffer"), -1;
  situ__text text = { 0 };
  add_all(op, &text, profile);
  return situ__text_deliver(op, &text, buffer, size);
}

void situ_profile_print(const situ_profile *profile) {
  const char *op = "profile_print";
  if (!situ__profile_given(op, profile)) return;
  situ__text text = { 0 };
  add_all(op, &text, profile);
  if (text.failed) situ__no_memory(op, text.capacity);
  else (void)puts(text.data);
  situ__text_free(&text);
}
