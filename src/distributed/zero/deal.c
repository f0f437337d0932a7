/* Which rank has which elements of parameters: those of a deal are dealt out to all ranks, one share behind the other.
   So what all ranks send of a parameter comes at equal distances, and few kernels write it.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/size.h"
#include "zero.h"
#include "situ/sys/shape.h"

static const char op[] = "dist_zero_new";

/* ---- dividing ---- */

bool situ__zero_place_in(situ_dist_zero *z, int64_t parameter, int64_t deal) {
  situ__zero_place *at = &z->places[parameter];
  if (deal == z->deal_count) {
    if (!situ__grow(op, &z->deals, &z->deal_capacity, sizeof *z->deals, deal + 1)) return false;
    const situ__zero_deal *last = deal ? &z->deals[deal - 1] : NULL;
    const bool same = last && last->group == z->group_count;
    z->deals[z->deal_count++] = (situ__zero_deal){
      .group = z->group_count, .before = same ? last->before + last->count : 0, .first = parameter, .last = -1
    };
  }
  situ__zero_deal *d = &z->deals[deal];
  at->deal = deal;
  at->offset = d->count;
  if (d->last >= 0) z->places[d->last].next = parameter;
  d->last = parameter;
  d->count += situ_numel(situ_tree_tensor_at(z->parameters, parameter));
  return true;
}

/* Whether the last deal goes on: it is at most as large as a piece of the exchange, so that each of its parameters is
   in few pieces. It depends on what all ranks have alike (same_parameters in zero.c). */
static bool has_space(const situ_dist_zero *z, const situ_tensor *t) {
  const situ__zero_deal *d = z->deal_count ? &z->deals[z->deal_count - 1] : NULL;
  if (!d || d->group != z->group_count) return false;
  const situ_tensor *first = situ_tree_tensor_at(z->parameters, d->first);
  const int64_t size = (int64_t)situ_dtype_size(situ_dtype_of(t));
  return situ_dtype_of(first) == situ_dtype_of(t) && situ_requires_grad(first) == situ_requires_grad(t) &&
         (d->count + situ_numel(t)) * size <= SITU__ZERO_PIECE;
}

bool situ__zero_deal_out(situ_dist_zero *z, int64_t first, const situ_dist_zero *like) {
  for (int64_t i = first; i < situ_tree_count(z->parameters); i++) {
    const situ_tensor *t = situ_tree_tensor_at(z->parameters, i);
    z->places[i] = (situ__zero_place){ .deal = -1, .next = -1, .part = -1, .item = -1 };
    const int64_t deal = like ? like->places[i].deal : z->deal_count - has_space(z, t);
    if (situ_numel(t) && !situ__zero_place_in(z, i, deal)) return false;
  }
  return true;
}

static int64_t share_begin(const situ_dist_zero *z, const situ__zero_deal *d, int rank) {
  return situ__dist_dealt(d->before, d->count, rank, z->comm->size);
}

situ__zero_part situ__zero_part_of(const situ_dist_zero *z, int64_t parameter, int rank) {
  const situ__zero_place *at = &z->places[parameter];
  situ__zero_part part = { .parameter = parameter };
  if (at->deal < 0) return part;
  const situ__zero_deal *d = &z->deals[at->deal];
  const int64_t end = at->offset + situ_numel(situ_tree_tensor_at(z->parameters, parameter)),
                from = situ__max_i64(share_begin(z, d, rank), at->offset),
                to = situ__min_i64(share_begin(z, d, rank + 1), end);
  part.group = d->group;
  part.from = from - at->offset;
  part.count = situ__max_i64(to - from, 0);
  return part;
}

int situ__zero_first_rank(const situ_dist_zero *z, int64_t parameter) {
  const situ__zero_place *at = &z->places[parameter];
  int low = 0, high = z->comm->size; /* of those that begin behind the element, and that do not */
  while (high - low > 1) {
    const int mid = low + (high - low) / 2;
    if (share_begin(z, &z->deals[at->deal], mid) <= at->offset) low = mid;
    else high = mid;
  }
  return low;
}

/* In stage 3 a part has memory of its own. */
static bool make_part(situ_dist_zero *z, situ__zero_part part) {
  if (!situ__grow(op, &z->parts, &z->part_capacity, sizeof *z->parts, z->part_count + 1)) return false;
  part.values = situ__zero_elements(situ_tree_tensor_at(z->parameters, part.parameter), part.from, part.count);
  if (z->shards && part.values) part.values = situ_clone(part.values);
  if (!situ_retain(part.values)) return false;
  z->places[part.parameter].part = z->part_count;
  z->parts[z->part_count++] = part;
  return true;
}

bool situ__zero_make_parts(situ_dist_zero *z, int64_t first) {
  bool good = true;
  for (int64_t i = first; good && i < situ_tree_count(z->parameters); i++) {
    const situ__zero_part part = situ__zero_part_of(z, i, z->comm->rank);
    good = !part.count || make_part(z, part);
  }
  return good;
}

/* ---- what ranks send ---- */

/* Elements of a parameter in what a rank sends. */
typedef struct row {
  int64_t from, count; /* of the parameter; count 0: there are none */
  int64_t at;          /* in what all ranks send */
} row;

static row row_of(const situ_dist_zero *z, int64_t parameter, const situ__zero_slice *s, int rank) {
  const situ__zero_place *place = &z->places[parameter];
  const situ__zero_deal *d = &z->deals[place->deal];
  const int64_t numel = situ_numel(situ_tree_tensor_at(z->parameters, parameter)),
                sent = situ__max_i64(share_begin(z, d, rank), s->begin) + s->from,
                end = situ__min_i64(situ__min_i64(share_begin(z, d, rank + 1), s->end), sent + s->count),
                from = situ__max_i64(sent, place->offset), to = situ__min_i64(end, place->offset + numel);
  return (row){ from - place->offset, situ__max_i64(to - from, 0), rank * s->block + s->at + from - sent };
}

bool situ__zero_put_slice(const situ_dist_zero *z, int64_t parameter, const situ__zero_slice *s, situ_comm_request *r) {
  const situ__zero_part *p = situ__zero_own_part(z, parameter);
  const int rank = z->comm->rank;
  const row own = p ? row_of(z, parameter, s, rank) : (row){ 0 };
  if (!own.count) return true;
  situ_tensor *t = own.count == p->count ? p->values : situ_narrow(p->values, 0, own.from - p->from, own.count);
  return t && situ__comm_put(r, own.at - rank * s->block, t);
}

/* Rows that are as long, and lie at equal distances in the parameter and in what has arrived. */
typedef struct rows {
  row first, last;
  int64_t count;
} rows;

static bool continues(const rows *w, const row *next) {
  if (!w->count || next->count != w->first.count) return false;
  return w->count == 1 || ((next->from - w->last.from) * (w->count - 1) == w->last.from - w->first.from &&
                           (next->at - w->last.at) * (w->count - 1) == w->last.at - w->first.at);
}

static bool write_rows(const rows *w, situ_tensor *whole, const situ_comm_request *r) {
  if (!w->count) return true;
  const int64_t steps = situ__max_i64(w->count - 1, 1), stride = (w->last.from - w->first.from) / steps;
  situ_tensor *to = situ_as_strided(whole, SITU_SHAPE(w->count, w->first.count), SITU_SHAPE(stride, 1),
                                    situ_storage_offset(whole) + w->first.from);
  return situ__comm_write_rows(r, w->first.at, (w->last.at - w->first.at) / steps, to);
}

bool situ__zero_write_slice(const situ_dist_zero *z, int64_t parameter, situ_tensor *whole, const situ__zero_slice *s,
                            const situ_comm_request *r, int except) {
  const situ__zero_place *place = &z->places[parameter];
  const situ__zero_deal *d = &z->deals[place->deal];
  const int64_t end = place->offset + situ_numel(whole);
  rows w = { .count = 0 };
  whole = situ_detach(whole);
  for (int rank = situ__zero_first_rank(z, parameter); rank < z->comm->size && share_begin(z, d, rank) < end; rank++) {
    const row next = row_of(z, parameter, s, rank);
    if (!next.count || rank == except) continue;
    if (!continues(&w, &next)) {
      if (!write_rows(&w, whole, r)) return false;
      w = (rows){ .first = next };
    }
    w.last = next;
    w.count++;
  }
  return write_rows(&w, whole, r);
}
