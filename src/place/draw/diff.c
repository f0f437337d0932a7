/* Differences between two snapshots.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "place/draw/snapshot.h"

/* The tensors of a snapshot, sorted by path. */
typedef struct order {
  const situ_place_entry **entry;
  int64_t count;
} order;

static int by_path(const void *a, const void *b) {
  return strcmp((*(const situ_place_entry *const *)a)->path, (*(const situ_place_entry *const *)b)->path);
}

static bool sort(const char *op, const situ_snapshot *s, order *out) {
  size_t bytes = ((size_t)s->count + 1) * sizeof(void *);
  *out = (order){ .entry = situ__alloc(bytes) };
  if (!out->entry) return situ__no_memory(op, bytes), false;
  for (int64_t i = 0; i < s->count; i++)
    if (s->node[i].device >= 0) out->entry[out->count++] = &s->node[i].entry;
  qsort(out->entry, (size_t)out->count, sizeof *out->entry, by_path);
  return true;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* "tied to a.weight", "tied to nothing" */
static void add_tie(situ__text *text, const char *tied) {
  situ__text_add(text, "tied to ");
  if (tied) situ__place_clean(text, tied);
  else situ__text_add(text, "nothing");
}

/* "cpu f32 [64, 784] parameter" */
static void add_facts(situ__text *text, const situ_place_entry *e) {
  char device[SITU_DEVICE_NAME_MAX], shape[SITU__PLACE_SHAPE];
  situ__text_add(text, "%s ", situ_device_name(e->device, device));
  situ__place_clean(text, e->type);
  situ__text_add(text, " %s %s", situ__place_shape(e, shape), situ__place_role(e->role));
  if (!e->tied) return;
  situ__text_add(text, ", ");
  add_tie(text, e->tied);
}

/* "cpu -> sim:0, f32 -> f16". Returns false, having added nothing, if they are equal. */
static bool add_changes(situ__text *text, const situ_place_entry *a, const situ_place_entry *b) {
  char x[SITU__PLACE_SHAPE], y[SITU__PLACE_SHAPE];
  const char *comma = "";
  if (a->rank != b->rank) {
    situ__text_add(text, "rank %d -> rank %d", a->rank, b->rank);
    comma = ", ";
  }
  if (!situ_device_equal(a->device, b->device)) {
    situ__text_add(text, "%s%s -> %s", comma, situ_device_name(a->device, x), situ_device_name(b->device, y));
    situ__place_why(text, " (", b, ")");
    comma = ", ";
  }
  if (strcmp(a->type, b->type) != 0) {
    situ__text_add(text, "%s", comma);
    situ__place_clean(text, a->type);
    situ__text_add(text, " -> ");
    situ__place_clean(text, b->type);
    comma = ", ";
  }
  if (strcmp(situ__place_shape(a, x), situ__place_shape(b, y)) != 0) {
    situ__text_add(text, "%s%s -> %s", comma, x, y);
    comma = ", ";
  }
  if (a->role != b->role) {
    situ__text_add(text, "%s%s -> %s", comma, situ__place_role(a->role), situ__place_role(b->role));
    comma = ", ";
  }
  if ((a->tied == NULL) != (b->tied == NULL) || (a->tied && strcmp(a->tied, b->tied) != 0)) {
    situ__text_add(text, "%s", comma);
    add_tie(text, a->tied);
    situ__text_add(text, " -> ");
    add_tie(text, b->tied);
    comma = ", ";
  }
  return *comma;
}

/* A line about a tensor that is in one of the snapshots (the other is NULL) or in both. Returns false, having added
   nothing, if it is equal. */
static bool add_line(situ__text *text, const situ_place_entry *a, const situ_place_entry *b) {
  size_t before = text->length;
  situ__place_clean(text, a ? a->path : b->path);
  situ__text_add(text, ": ");
  bool differs = true;
  if (!a || !b) {
    situ__text_add(text, a ? "removed (" : "added (");
    add_facts(text, a ? a : b);
    situ__text_add(text, ")");
  } else {
    differs = add_changes(text, a, b);
  }
  situ__text_add(text, "\n");
  if (!differs && text->data) text->data[text->length = before] = 0;
  return differs;
}

/* ---- two snapshots --------------------------------------------------------------------------- */

static int64_t compare(const order *a, const order *b, int64_t most, situ__text *text) {
  int64_t differences = 0;
  for (int64_t i = 0, k = 0; i < a->count || k < b->count;) {
    int which = i == a->count ? 1 : k == b->count ? -1 : by_path(&a->entry[i], &b->entry[k]);
    size_t before = text->length;
    if (add_line(text, which <= 0 ? a->entry[i] : NULL, which >= 0 ? b->entry[k] : NULL) && ++differences > most &&
        text->data)
      text->data[text->length = before] = 0;
    i += which <= 0;
    k += which >= 0;
  }
  if (differences > most) situ__text_add(text, "and %" PRId64 " more\n", differences - most);
  return differences;
}

int64_t situ__place_compare(const char *op, const situ_snapshot *before, const situ_snapshot *after, int64_t most,
                            situ__text *text) {
  order a, b = { 0 };
  int64_t differences = -1;
  if (sort(op, before, &a) && sort(op, after, &b)) differences = compare(&a, &b, most, text);
  situ__free(a.entry);
  situ__free(b.entry);
  if (differences < 0 || !text->failed) return differences;
  return situ__no_memory(op, text->capacity), -1;
}

int64_t situ_place_diff(const situ_snapshot *before, const situ_snapshot *after, char *buffer, size_t size) {
  static const char op[] = "place_diff";
  situ__text text = { 0 };
  if (!situ__valid(op, "before", before, SITU__A_SNAPSHOT) || !situ__valid(op, "after", after, SITU__A_SNAPSHOT) ||
      (size && !situ__given(op, "buffer", buffer)))
    return -1;
  if (situ__place_compare(op, before, after, INT64_MAX, &text) < 0) {
    situ__text_free(&text);
    return -1;
  }
  return situ__text_deliver(op, &text, buffer, size);
}
