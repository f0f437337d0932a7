/* A snapshot of several ranks: each rank's entries travel as records and one text, and all ranks join them.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/text.h"
#include "comm.h"
#include "situ/dist.h"

/* An entry whose texts are offsets. Sent as bytes: all ranks run one build on one architecture. */
typedef struct record {
  situ_place_entry entry;
  int64_t path, type, tied, part; /* of texts; -1: none */
} record;

/* What a rank sends: records, then texts. */
typedef struct parcel {
  int64_t records, bytes; /* bytes: of the texts */
} parcel;

static size_t size_of(const parcel *p) { return (size_t)p->records * sizeof(record) + (size_t)p->bytes; }

static int64_t keep(situ__text *text, const char *from) {
  const int64_t at = (int64_t)text->length;
  situ__text_append(text, from, strlen(from) + 1);
  return at;
}

/* The path of a rank's tensor among those of all: "rank 1.fc.weight". */
static int64_t keep_path(situ__text *text, int rank, const char *path) {
  const int64_t at = (int64_t)text->length;
  situ__text_add(text, "rank %d%s%s", rank, *path ? "." : "", path);
  situ__text_append(text, "", 1);
  return at;
}

/* Packs a snapshot; the caller frees what it returns. NULL after recording an error. */
static char *pack(const char *op, const situ_snapshot *s, int rank, parcel *p) {
  situ__text text = { 0 };
  const int64_t count = situ_snapshot_count(s);
  record *list = situ__calloc((size_t)count + 1, sizeof *list);
  for (int64_t i = 0; list && i < count; i++) {
    const situ_place_entry *e = situ_snapshot_at(s, i);
    list[i] = (record){ .entry = *e,
                        .path = keep_path(&text, rank, e->path),
                        .type = keep(&text, e->type),
                        .tied = e->tied && e->role != SITU_PLACE_MODULE ? keep_path(&text, rank, e->tied) : -1,
                        .part = e->part ? keep(&text, e->part) : -1 };
    list[i].entry.rank = rank;
  }
  *p = (parcel){ count, (int64_t)text.length };
  char *out = list && !text.failed ? situ__alloc(size_of(p) + 1) : NULL;
  if (out) {
    memcpy(out, list, (size_t)p->records * sizeof *list);
    if (text.length) memcpy(out + (size_t)p->records * sizeof *list, text.data, text.length);
  } else {
    situ__no_memory(op, size_of(p));
  }
  situ__free(list);
  situ__text_free(&text);
  return out;
}

/* Joins the ranks' parcels, which are `row` bytes apart. */
static situ_snapshot *join(const char *op, const situ_comm *c, const parcel *parcels, const char *all, size_t row) {
  int64_t count = 1;
  char title[32];
  for (int r = 0; r < c->size; r++) count += parcels[r].records;
  situ_place_entry *entries = situ__calloc((size_t)count, sizeof *entries), *to = entries;
  if (!entries) return situ__no_memory(op, (size_t)count * sizeof *entries), NULL;
  (void)snprintf(title, sizeof title, "%d rank%s", c->size, c->size == 1 ? "" : "s");
  *to++ = (situ_place_entry){ .path = "", .role = SITU_PLACE_MODULE, .type = title };
  for (int r = 0; r < c->size; r++) {
    const char *from = all + (size_t)r * row, *text = from + (size_t)parcels[r].records * sizeof(record);
    for (int64_t i = 0; i < parcels[r].records; i++) {
      record one;
      memcpy(&one, from + (size_t)i * sizeof one, sizeof one);
      *to = one.entry;
      to->path = text + one.path;
      to->type = text + one.type;
      to->part = one.part < 0 ? NULL : text + one.part;
      to++->tied = one.tied < 0 ? NULL : text + one.tied;
    }
  }
  situ_snapshot *s = situ_snapshot_of(entries, count);
  situ__free(entries);
  return s;
}

/* Parcels differ in size: all travel in rows as long as the longest. parcels: of all ranks. */
static situ_snapshot *exchange(const char *op, situ_comm *c, const char *mine, const parcel *own, parcel *parcels) {
  size_t row = 0;
  if (!situ__comm_gather(op, c, op, 0, own, parcels, sizeof *own)) return NULL;
  for (int r = 0; r < c->size; r++)
    if (size_of(&parcels[r]) > row) row = size_of(&parcels[r]);
  char *padded = situ__calloc(row + 1, 1), *all = situ__alloc((size_t)c->size * row + 1);
  if (!padded || !all) situ__no_memory(op, (size_t)c->size * row);
  else memcpy(padded, mine, size_of(own));
  const bool ready = situ__comm_all_ready(op, c, padded && all ? NULL : situ_error_message(), SITU_E_COMM);
  situ_snapshot *s = ready && situ__comm_gather(op, c, op, 0, padded, all, row) ? join(op, c, parcels, all, row) : NULL;
  situ__free(padded);
  situ__free(all);
  return s;
}

situ_snapshot *situ_dist_snapshot(situ_nn_module *m, situ_comm *comm) {
  static const char op[] = "dist_snapshot";
  if (!situ__comm_given(op, comm)) return NULL;
  situ_snapshot *own = situ_place_snapshot(m);
  parcel p = { 0 }, *parcels = own ? situ__calloc((size_t)comm->size, sizeof *parcels) : NULL;
  if (own && !parcels) situ__no_memory(op, (size_t)comm->size * sizeof *parcels);
  char *mine = parcels ? pack(op, own, comm->rank, &p) : NULL;
  const bool ready = situ__comm_all_ready(op, comm, mine ? NULL : situ_error_message(), SITU_E_COMM);
  situ_snapshot *s = ready ? exchange(op, comm, mine, &p, parcels) : NULL;
  situ__free(mine);
  situ__free(parcels);
  situ_snapshot_free(own);
  return s;
}
