/* Reports of the ledger: lists for programs, text, JSON, and which copies are repeated.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "device/device.h"
#include "device/ledger/ledger.h"
#include "situ/sys/tensor.h"

enum { AGAIN = 4, ROWS = 16 };

static const char *const ways[SITU_DIRECTIONS] = { "host -> device", "device -> host", "device -> device" };

static const char *reason_of(const situ__transfer *t) {
  static const char *const text[] = {
    [SITU__COPY_USER] = "asked for",    [SITU__COPY_READ] = "read",     [SITU__COPY_MOVE] = "move",
    [SITU__COPY_INTERNAL] = "internal", [SITU__COPY_POLICY] = "policy", [SITU__COPY_OFFLOAD] = "offload",
    [SITU__COPY_IMAGE] = "image",       [SITU__COPY_INPUT] = "input",   [SITU__COPY_FALLBACK] = "fallback"
  };
  return text[t->reason];
}

static void describe_transfer(const situ_ledger *l, const situ__transfer *t, situ_transfer *out) {
  *out = (situ_transfer){ .from = t->from,
                          .to = t->to,
                          .bytes = t->bytes,
                          .op = t->op,
                          .reason = reason_of(t),
                          .role = situ_role_name((situ_role)t->role),
                          .storage = t->serial,
                          .version = t->version,
                          .seconds = t->time - l->began };
  memcpy(out->tensor, t->tensor, sizeof out->tensor);
  memcpy(out->module, t->module, sizeof out->module);
  (void)situ__site_text(t->site, out->at, sizeof out->at);
}

/* A query: a ledger and its recorded transfers. */
typedef struct look {
  const char *op;
  const situ_ledger *ledger;
  situ__transfer *list;
  int64_t count;
} look;

/* Returns false after recording an error. out_missing: the caller's buffer is NULL. */
static bool look_at(look *k, const char *op, const situ_ledger *l, bool out_missing) {
  *k = (look){ .op = op, .ledger = l };
  if (!situ__ledger_usable(op, l)) return false;
  if (out_missing) return situ__null(op, "out"), false;
  return situ__ledger_entries(op, l, &k->list, &k->count);
}

int64_t situ_ledger_transfers(const situ_ledger *ledger, situ_transfer *out, int64_t capacity) {
  look k;
  if (!look_at(&k, "ledger_transfers", ledger, capacity > 0 && !out)) return -1;
  int64_t first = capacity <= 0 ? k.count : k.count > capacity ? k.count - capacity : 0;
  for (int64_t i = first; i < k.count; i++) describe_transfer(ledger, &k.list[i], &out[i - first]);
  situ__free(k.list);
  return k.count;
}

/* ---- groups of equal transfers ---- */

typedef struct group {
  const situ__transfer *last;
  situ_transfers sum;
} group;

typedef int (*comparison)(const situ__transfer *a, const situ__transfer *b);

#define BY(what)                                               \
  do {                                                         \
    if (a->what != b->what) return a->what < b->what ? -1 : 1; \
  } while (0)

static int by_place(const situ__transfer *a, const situ__transfer *b) {
  BY(site);
  BY(from.kind);
  BY(from.index);
  BY(to.kind);
  BY(to.index);
  return 0;
}

/* What a person calls the same copy, although each batch has its own storage. */
static int by_kind(const situ__transfer *a, const situ__transfer *b) {
  int order = by_place(a, b);
  if (order) return order;
  BY(op);
  BY(reason);
  BY(role);
  const int names = strcmp(a->tensor, b->tensor);
  return names ? names : strcmp(a->module, b->module);
}

/* Returns true if the transfer's tensor should live where it is copied to, even if it changes: parameters and buffers
   of a module. Not if it is read back: saving it every epoch is done because it changed. */
static bool belongs(const situ__transfer *t) {
  return (t->role == SITU_ROLE_PARAMETER || t->role == SITU_ROLE_BUFFER) && t->reason != SITU__COPY_READ;
}

/* The same storage, and unless it belongs there, the same part of it with the same version. */
static int by_storage(const situ__transfer *a, const situ__transfer *b) {
  int order = by_place(a, b);
  if (order) return order;
  BY(serial);
  bool always = belongs(a);
  if (always != belongs(b)) return always ? -1 : 1;
  if (always) return 0;
  BY(version);
  BY(at);
  BY(bytes);
  return 0;
}
#undef BY

/* qsort takes no payload; equal transfers stay in the order of time. */
static int sort_kind(const void *a, const void *b) {
  const situ__transfer *x = *(const situ__transfer *const *)a;
  const situ__transfer *y = *(const situ__transfer *const *)b;
  int order = by_kind(x, y);
  return order ? order : x < y ? -1 : x > y;
}
static int sort_storage(const void *a, const void *b) {
  const situ__transfer *x = *(const situ__transfer *const *)a;
  const situ__transfer *y = *(const situ__transfer *const *)b;
  int order = by_storage(x, y);
  return order ? order : x < y ? -1 : x > y;
}
static int largest_first(const void *a, const void *b) {
  const group *x = a, *y = b;
  if (x->sum.bytes != y->sum.bytes) return x->sum.bytes > y->sum.bytes ? -1 : 1;
  return x->last < y->last ? -1 : x->last > y->last;
}

/* A pass over a data set copies the same parts again in each epoch, but many different ones: a repeat is one of few
   things that one line copies. Drops the groups, all of one line, that are not repeats. */
static int64_t drop_streams(group *groups, int64_t count, uint64_t threshold) {
  int64_t kept = 0;
  for (int64_t i = 0; i < count; i++) {
    uint64_t times = groups[i].sum.count;
    bool one_of_few = belongs(groups[i].last) || 2 * times >= (uint64_t)count;
    if (times >= threshold && one_of_few) groups[kept++] = groups[i];
  }
  return kept;
}

/* Sets *out, which the caller frees, to all kinds, or to the repeats of at least `threshold` times, largest first.
   Returns their number, negative after recording SITU_E_NOMEM. */
static int64_t gather_groups(const look *k, bool storages, uint64_t threshold, group **out) {
  int64_t kept = 0, found = 0;
  *out = NULL;
  if (!k->count) return 0;
  const situ__transfer **order = situ__alloc_uncounted((size_t)k->count * sizeof *order);
  group *groups = situ__alloc_uncounted((size_t)k->count * sizeof *groups);
  if (!order || !groups) {
    situ__free(order);
    situ__free(groups);
    return situ__no_memory(k->op, (size_t)k->count * sizeof *groups), -1;
  }
  for (int64_t i = 0; i < k->count; i++)
    if (!storages || (!k->list[i].written && k->list[i].reason != SITU__COPY_OFFLOAD)) order[kept++] = &k->list[i];
  qsort(order, (size_t)kept, sizeof *order, storages ? sort_storage : sort_kind);
  comparison alike = storages ? by_storage : by_kind;
  int64_t line = 0; /* first group of the current line of code */
  for (int64_t i = 0; i < kept;) {
    group g = { 0 };
    if (storages && i && by_place(order[i - 1], order[i]) != 0) {
      found = line + drop_streams(&groups[line], found - line, threshold);
      line = found;
    }
    for (int64_t first = i; i < kept && alike(order[first], order[i]) == 0; i++) {
      g.last = order[i];
      g.sum.count++;
      g.sum.bytes += order[i]->bytes;
    }
    groups[found++] = g;
  }
  if (storages) found = line + drop_streams(&groups[line], found - line, threshold);
  situ__free(order);
  qsort(groups, (size_t)found, sizeof *groups, largest_first);
  *out = groups;
  return found;
}

int64_t situ_ledger_repeats(const situ_ledger *ledger, int64_t threshold, situ_ledger_repeat *out, int64_t capacity) {
  look k;
  if (!look_at(&k, "ledger_repeats", ledger, capacity > 0 && !out)) return -1;
  group *groups;
  int64_t found = gather_groups(&k, true, threshold > 0 ? (uint64_t)threshold : AGAIN, &groups);
  for (int64_t i = 0; i < found && i < capacity; i++) {
    describe_transfer(ledger, groups[i].last, &out[i].last);
    out[i].sum = groups[i].sum;
  }
  situ__free(groups);
  situ__free(k.list);
  return found;
}

/* ---- text ---- */

static void add_way(situ__text *text, const situ__transfer *t) {
  char from[SITU_DEVICE_NAME_MAX], to[SITU_DEVICE_NAME_MAX];
  situ__text_add(text, "%s -> %s", situ_device_name(t->from, from), situ_device_name(t->to, to));
}

static void add_row(situ__text *text, const group *g) {
  char size[SITU__BYTES_TEXT], at[160];
  const situ__transfer *t = g->last;
  situ__text_add(text, "\n  %6" PRIu64 " x  %9s  ", g->sum.count, situ__bytes_text(g->sum.bytes, size));
  add_way(text, t);
  situ__text_add(text, "  %s%s%s  by %s (%s)", situ_role_name((situ_role)t->role), *t->tensor ? " " : "", t->tensor,
                 t->op, reason_of(t));
  if (*t->module) situ__text_add(text, "  in %s", t->module);
  if (*situ__site_text(t->site, at, sizeof at)) situ__text_add(text, "  at %s", at);
}

/* Adds one row per kind, largest first. */
static void add_rows(situ__text *text, const look *k) {
  group *groups;
  int64_t found = gather_groups(k, false, 0, &groups);
  if (found < 0) text->failed = true;
  for (int64_t i = 0; i < found && i < ROWS; i++) add_row(text, &groups[i]);
  if (found > ROWS) situ__text_add(text, "\n  and %" PRId64 " other kinds", found - ROWS);
  situ__free(groups);
}

static void add_advice(situ__text *text, const group *g) {
  char at[160];
  const situ__transfer *t = g->last;
  situ__text_add(text, "\n%s%s%s was copied ", situ_role_name((situ_role)t->role), *t->tensor ? " " : "", t->tensor);
  add_way(text, t);
  situ__text_add(text, " %" PRIu64 " times", g->sum.count);
  if (*situ__site_text(t->site, at, sizeof at)) situ__text_add(text, " at %s", at);
  situ__text_add(text, "%s",
                 belongs(t) ? ": it belongs where it is used (situ_nn_to), or hold on to the copy"
                            : ": it did not change in between, so hold on to the copy");
}

static void add_all(situ__text *text, const look *k) {
  char size[SITU__BYTES_TEXT];
  situ_transfers total = situ_ledger_total(k->ledger);
  situ__text_add(text, "%" PRIu64 " transfer%s, %s", total.count, total.count == 1 ? "" : "s",
                 situ__bytes_text(total.bytes, size));
  for (int way = 0; way < SITU_DIRECTIONS; way++) {
    situ_transfers sum = situ_ledger_sum(k->ledger, (situ_direction)way);
    if (sum.count)
      situ__text_add(text, "; %s %" PRIu64 " (%s)", ways[way], sum.count, situ__bytes_text(sum.bytes, size));
  }
  add_rows(text, k);
  group *groups;
  int64_t found = gather_groups(k, true, AGAIN, &groups);
  for (int64_t i = 0; i < found && i < ROWS; i++) add_advice(text, &groups[i]);
  if (found > ROWS) situ__text_add(text, "\nand %" PRId64 " more were copied again and again", found - ROWS);
  situ__free(groups);
}

static void add_last_wait(situ__text *text, const situ_ledger *l) {
  char name[SITU_DEVICE_NAME_MAX], at[160];
  const situ__wait wait = situ__ledger_last_wait(l);
  situ__text_add(text, "\n  waited for %s in %s", situ_device_name(wait.device, name), wait.op);
  if (*situ__site_text(wait.site, at, sizeof at)) situ__text_add(text, "  at %s", at);
}

static void drop_allowed(look *k) {
  int64_t kept = 0;
  for (int64_t i = 0; i < k->count; i++)
    if (k->list[i].reason != SITU__COPY_IMAGE && !(k->ledger->allow_offload && k->list[i].reason == SITU__COPY_OFFLOAD))
      k->list[kept++] = k->list[i];
  k->count = kept;
}

situ_status situ__ledger_refuse(const situ_ledger *l) {
  look k = { .op = "ledger_end", .ledger = l };
  situ__text text = { 0 };
  const uint64_t count = situ_ledger_total(l).count - situ__ledger_allowed(l),
                 waits = l->allow_waits ? 0 : situ_ledger_waits(l);
  if (count) situ__text_add(&text, "%" PRIu64 " transfer%s%s", count, count == 1 ? "" : "s", waits ? " and " : "");
  if (waits) situ__text_add(&text, "%" PRIu64 " wait%s", waits, waits == 1 ? "" : "s");
  situ__text_add(&text, " in a scope that allows none:");
  if (situ__ledger_entries(k.op, l, &k.list, &k.count)) drop_allowed(&k), add_rows(&text, &k);
  if (waits) add_last_wait(&text, l);
  situ_status status = situ__fail(SITU_E_STATE, k.op, "%s", text.data ? text.data : "out of memory");
  situ__text_free(&text);
  situ__free(k.list);
  return status;
}

int64_t situ_ledger_to_string(const situ_ledger *ledger, char *buffer, size_t size) {
  look k;
  if (!look_at(&k, "ledger_to_string", ledger, size && !buffer)) return -1;
  situ__text text = { 0 };
  add_all(&text, &k);
  situ__free(k.list);
  return situ__text_deliver(k.op, &text, buffer, size);
}

void situ_ledger_print(const situ_ledger *ledger) {
  look k;
  if (!look_at(&k, "ledger_print", ledger, false)) return;
  situ__text text = { 0 };
  add_all(&text, &k);
  if (text.data) (void)puts(text.data);
  situ__text_free(&text);
  situ__free(k.list);
}

/* ---- JSON ---- */

static void json_string(situ__text *text, const char *key, const char *value) {
  situ__text_add(text, "\"%s\": ", key);
  situ__text_json_string(text, value);
  situ__text_add(text, ", ");
}

/* Adds the members of a transfer, without braces. */
static void json_transfer(situ__text *text, const situ_ledger *l, const situ__transfer *t) {
  char name[SITU_DEVICE_NAME_MAX];
  situ_transfer d;
  describe_transfer(l, t, &d);
  json_string(text, "from", situ_device_name(d.from, name));
  json_string(text, "to", situ_device_name(d.to, name));
  situ__text_add(text, "\"bytes\": %" PRIu64 ", ", d.bytes);
  json_string(text, "op", d.op);
  json_string(text, "reason", d.reason);
  json_string(text, "role", d.role);
  json_string(text, "tensor", d.tensor);
  json_string(text, "module", d.module);
  situ__text_add(text, "\"storage\": %" PRIu64 ", \"version\": %" PRIu32 ", \"seconds\": %.6f, ", d.storage, d.version,
                 d.seconds);
  situ__text_add(text, "\"at\": ");
  situ__text_json_string(text, d.at);
}

int64_t situ_ledger_json(const situ_ledger *ledger, char *buffer, size_t size) {
  static const char *const key[SITU_DIRECTIONS] = { "host_to_device", "device_to_host", "device_to_device" };
  look k;
  if (!look_at(&k, "ledger_json", ledger, size && !buffer)) return -1;
  situ_transfers total = situ_ledger_total(ledger);
  situ__text text = { 0 };
  situ__text_add(&text, "{\"count\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"directions\": {", total.count, total.bytes);
  for (int way = 0; way < SITU_DIRECTIONS; way++) {
    situ_transfers sum = situ_ledger_sum(ledger, (situ_direction)way);
    situ__text_add(&text, "%s\"%s\": {\"count\": %" PRIu64 ", \"bytes\": %" PRIu64 "}", way ? ", " : "", key[way],
                   sum.count, sum.bytes);
  }
  situ__text_add(&text, "}, \"repeats\": [");
  group *groups;
  int64_t found = gather_groups(&k, true, AGAIN, &groups);
  if (found < 0) text.failed = true;
  for (int64_t i = 0; i < found; i++) {
    situ__text_add(&text, "%s{\"times\": %" PRIu64 ", ", i ? ", " : "", groups[i].sum.count);
    json_transfer(&text, ledger, groups[i].last);
    situ__text_add(&text, "}");
  }
  situ__free(groups);
  situ__text_add(&text, "], \"transfers\": [");
  for (int64_t i = 0; i < k.count; i++) {
    situ__text_add(&text, i ? ", {" : "{");
    json_transfer(&text, ledger, &k.list[i]);
    situ__text_add(&text, "}");
  }
  situ__text_add(&text, "]}");
  situ__free(k.list);
  return situ__text_deliver(k.op, &text, buffer, size);
}
