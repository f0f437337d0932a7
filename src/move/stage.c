/* Allocates and fills the new memory of a move. Large storages move one by one; small ones with the same destination
   share an allocation and one transfer.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "move/move.h"

/* Alignment of small storages in shared memory: a cache line, or the strictest alignment of any device; 0 if they are
   unpacked into their own memory afterwards: their element sizes. */
static size_t alignment(situ_device to) { return !situ__backend(to)->addressable ? 0 : to.kind == SITU_CPU ? 64 : 256; }
static int64_t count_values(const situ_move_unit *u) { return (int64_t)(u->bytes >> situ__move_shift(u->from_dtype)); }

/* `count` elements of a storage from element `first` on, as a 1-d view. */
static situ_view_desc row_view(situ_storage *s, unsigned dtype, int64_t first, int64_t count) {
  return (situ_view_desc){ .storage = s,
                           .offset = first,
                           .dtype = (uint8_t)dtype,
                           .ndim = 1,
                           .contiguous = true,
                           .numel = count,
                           .size = { count },
                           .stride = { 1 } };
}

/* Temporary memory on a device that may be full, for moves that can work without it. Returns NULL without recording
   an error. */
static situ_storage *allocate_spare(const situ_move_plan *m, situ_device device, size_t bytes) {
  situ__errors own;
  situ__errors_aside(&own);
  situ_storage *s = situ__storage_new(m->op, device, bytes);
  SITU_IGNORE(situ__errors_back(&own, NULL, 0));
  return s;
}

/* ---- values lost in a cast ---- */

/* Counters of lost values, one per unit, on the devices that cast; read after staging. */
typedef struct counts {
  situ_storage *list[8];
  int devices;
} counts;

/* Returns true if finite values of one floating dtype can overflow in the other. */
static bool narrows(unsigned from, unsigned to) {
  return situ__dtype_is_floating((situ_dtype)from) && situ__dtypes[to].largest < situ__dtypes[from].largest;
}

static situ_storage *counts_on(const counts *c, situ_device device) {
  for (int i = 0; i < c->devices; i++)
    if (situ__move_same(c->list[i]->device, device)) return c->list[i];
  return NULL;
}

/* Allocates zeroed counters on the device if it has memory and there are not too many such devices. Returns false
   after recording an error. */
static bool make_counts(const situ_move_plan *m, counts *c, situ_device device) {
  if (counts_on(c, device) || c->devices == (int)(sizeof c->list / sizeof *c->list)) return true;
  situ_storage *s = allocate_spare(m, device, (size_t)m->count * sizeof(int64_t));
  if (!s) return true;
  c->list[c->devices++] = s;
  const situ_view_desc all = row_view(s, SITU_I64, 0, m->count);
  const situ_work zero = { SITU_VERB_FILL, .outs = 1, .out = { &all } };
  return situ__run(m->op, device, &zero) == SITU_OK;
}

static bool read_counts(situ_move_plan *m, counts *c) {
  if (situ__is_dry()) return true;
  size_t bytes = (size_t)m->count * sizeof(int64_t);
  int64_t *found = c->devices ? situ__alloc(bytes) : NULL;
  if (c->devices && !found) return situ__no_memory(m->op, bytes), false;
  bool good = true;
  for (int k = 0; k < c->devices && good; k++) {
    good = situ__copy_to_host(m->op, c->list[k], 0, found, bytes, SITU__COPY_INTERNAL) == SITU_OK;
    for (int64_t i = 0; good && i < m->count; i++) {
      if (!found[i]) continue;
      m->unit[i].values_lost += found[i];
      m->lossy = true;
    }
  }
  situ__free(found);
  return good;
}

/* ---- casts ---- */

/* The dtypes that the device computes with. It may ask the system, so a batch asks once. */
static uint32_t dtypes_of(situ_device device) {
  situ_device_properties has;
  if (situ_device_info(device, &has) != SITU_OK) return 0;
  return has.dtypes ? has.dtypes : UINT32_MAX;
}
static bool has_both(uint32_t dtypes, const situ_move_unit *u) {
  return dtypes >> u->from_dtype & dtypes >> u->to_dtype & 1;
}
static bool can_compute(situ_device device, const situ_move_unit *u) { return has_both(dtypes_of(device), u); }

static SITU_COLD bool no_memory_to_cast(const situ_move_plan *m, situ_device device) {
  char name[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_NOMEM, m->op, "no memory on %s for what a cast needs beside its result; nothing was moved",
                    situ_device_name(device, name)),
         false;
}

/* Computes y[y_first..] = cast(x[x_first..]) on the device of both. */
static bool cast_values(const situ_move_plan *m, counts *c, const situ_move_unit *u, situ_storage *y, int64_t y_first,
                        situ_storage *x, int64_t x_first, int64_t count) {
  situ_view_desc in = row_view(x, u->from_dtype, x_first, count), out = row_view(y, u->to_dtype, y_first, count), lost;
  situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &in }, .out = { &out } };
  if (narrows(u->from_dtype, u->to_dtype) && y->device.kind != SITU_META) {
    if (!make_counts(m, c, y->device)) return false;
    situ_storage *s = counts_on(c, y->device);
    if (!s) return no_memory_to_cast(m, y->device);
    lost = row_view(s, SITU_I64, u - m->unit, 1);
    work.out[work.outs++] = &lost;
  }
  return situ__run(m->op, y->device, &work) == SITU_OK;
}

/* How to cast to another device in pieces: `where` is the device that casts, at the source, at the target, or the
   host. Operands that are not there pass through buffers on it. */
typedef struct route {
  situ_device where;
  situ_storage *in, *out; /* buffers; NULL: read, or write, the storage itself */
  int64_t most;           /* elements per piece */
} route;

static void close_route(route *w) {
  situ__storage_release(w->in);
  situ__storage_release(w->out);
}

/* *open: the device can cast and has the memory. Returns false after recording an error. */
static bool open_route(const situ_move_plan *m, counts *c, const situ_move_unit *u, situ_device where, route *w,
                       bool *open) {
  const size_t from = situ__move_size(u->from_dtype), to = situ__move_size(u->to_dtype);
  const bool first = !situ__move_same(where, u->from), last = !situ__move_same(where, u->to);
  *open = false;
  *w = (route){ .where = where,
                .most = (int64_t)(SITU__MOVE_STAGE / (first && last ? (from > to ? from : to)
                                                      : first       ? from
                                                                    : to)) };
  if (w->most > count_values(u)) w->most = count_values(u);
  if (!can_compute(where, u)) return true;
  if (narrows(u->from_dtype, u->to_dtype)) {
    if (!make_counts(m, c, where)) return false;
    if (!counts_on(c, where)) return true;
  }
  if (first) w->in = allocate_spare(m, where, (size_t)w->most * from);
  if (last) w->out = allocate_spare(m, where, (size_t)w->most * to);
  *open = (w->in || !first) && (w->out || !last);
  if (!*open) close_route(w);
  return true;
}

static bool cast_pieces(const situ_move_plan *m, counts *c, const situ_move_unit *u, const route *w) {
  const int64_t n = count_values(u);
  const size_t from = situ__move_size(u->from_dtype), to = situ__move_size(u->to_dtype);
  bool good = true;
  for (int64_t done = 0; good && done < n; done += w->most) {
    const int64_t count = n - done < w->most ? n - done : w->most;
    if (w->in)
      good =
          situ__copy_storage(m->op, w->in, 0, u->storage, (size_t)done * from, (size_t)count * from, m->why) == SITU_OK;
    good = good && cast_values(m, c, u, w->out ? w->out : u->destination, w->out ? 0 : done, w->in ? w->in : u->storage,
                               w->in ? 0 : done, count);
    if (w->out && good)
      good = situ__copy_storage(m->op, u->destination, (size_t)done * to, w->out, 0, (size_t)count * to, m->why) ==
             SITU_OK;
  }
  return good;
}

/* Casts on the side where fewer bytes are transferred, or else where it is possible. */
static bool cast_across(const situ_move_plan *m, counts *c, const situ_move_unit *u) {
  const bool early = situ__move_size(u->to_dtype) <= situ__move_size(u->from_dtype);
  const situ_device where[] = { early ? u->from : u->to, early ? u->to : u->from, { SITU_CPU, 0 } };
  for (int k = 0; k < 3; k++) {
    route w;
    bool open;
    if (k == 2 && (situ__move_same(where[2], u->from) || situ__move_same(where[2], u->to))) break;
    if (!open_route(m, c, u, where[k], &w, &open)) return false;
    if (!open) continue;
    bool good = cast_pieces(m, c, u, &w);
    close_route(&w);
    return good;
  }
  return no_memory_to_cast(m, where[0]);
}

/* ---- a single storage ---- */

/* From meta: replays the recorded work on the target device. */
static bool materialise(const situ_move_plan *m, counts *c, const situ_move_unit *u) {
  if (!situ__move_casts(u)) return situ__recipe_replay(m->op, u->storage, u->destination);
  situ_storage *made = situ__storage_new(m->op, u->to, (size_t)u->bytes);
  bool good = made && situ__recipe_replay(m->op, u->storage, made) &&
              cast_values(m, c, u, u->destination, 0, made, 0, count_values(u));
  situ__storage_release(made);
  return good;
}

/* Zeros where the storage holds no values: what is there would count as lost. */
static bool clear_gaps(const situ_move_plan *m, const situ_move_unit *u) {
  situ_storage *s = u->storage;
  const int shift = situ__move_shift(u->from_dtype);
  const uint32_t version = s->version;
  bool good = true;
  for (int64_t from = 0, past; good && situ__find_gap(s, &from, &past); from = past) {
    const int64_t first = (from - 1 + (INT64_C(1) << shift)) >> shift, count = (past >> shift) - first;
    const situ_view_desc gap = row_view(s, u->from_dtype, first, count);
    const situ_work zero = { SITU_VERB_FILL, .outs = 1, .out = { &gap } };
    good = count <= 0 || situ__run(m->op, u->from, &zero) == SITU_OK;
  }
  __atomic_store_n(&s->version, version, __ATOMIC_RELAXED); /* no value has changed */
  return good;
}

static bool stage_alone(const situ_move_plan *m, counts *c, situ_move_unit *u) {
  u->destination = m->file && u->to.kind == SITU_CPU ? situ__backing_storage(m->op, m->file, (size_t)u->bytes_after)
                                                     : situ__storage_new(m->op, u->to, (size_t)u->bytes_after);
  if (!u->destination) return false;
  if (!situ__move_has_values(u->storage) || (u->to.kind == SITU_META && u->from.kind != SITU_META)) return true;
  if (u->from.kind == SITU_META && u->to.kind != SITU_META) return materialise(m, c, u);
  if (!situ__move_casts(u))
    return situ__copy_storage(m->op, u->destination, 0, u->storage, 0, (size_t)u->bytes, m->why) == SITU_OK;
  const bool partly = situ__move_reads_parts(u->storage), here = situ__move_same(u->from, u->to);
  const bool good =
      (!partly || !narrows(u->from_dtype, u->to_dtype) || clear_gaps(m, u)) &&
      (here ? cast_values(m, c, u, u->destination, 0, u->storage, 0, count_values(u)) : cast_across(m, c, u));
  situ__move_read_parts(u->storage, partly);
  return good;
}

/* ---- small storages together ---- */

static bool travels_with(const situ_move_unit *u, situ_device from, situ_device to) {
  return u->moves && !u->destination && u->from.kind != SITU_META && u->bytes <= SITU__MOVE_SMALL &&
         u->bytes_after <= SITU__MOVE_SMALL && situ__move_has_values(u->storage) && !u->storage->written &&
         situ__move_same(u->from, from) && situ__move_same(u->to, to);
}

/* The device may lack the dtype. */
static bool copy_bytes(const situ_move_plan *m, situ_storage *whole, const situ_pack_item *item, int64_t bytes) {
  const situ_view_desc in = row_view(item->storage, SITU_U8, 0, bytes),
                       out = row_view(whole, SITU_U8, (int64_t)item->at, bytes);
  const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &in }, .out = { &out } };
  return situ__run(m->op, whole->device, &work) == SITU_OK;
}

/* Fills `whole` with the batch, cast if needed, on the device that holds both. */
static bool pack_batch(const situ_move_plan *m, counts *c, situ_storage *whole, size_t bytes,
                       const situ_pack_item *item, int64_t count, bool narrow) {
  situ_view_desc out = row_view(whole, SITU_U8, 0, (int64_t)bytes), lost;
  if (situ__has_verb(whole->device, SITU_VERB_PACK)) {
    situ_work work = { SITU_VERB_PACK, .outs = 1, .out = { &out }, .pack = item, .pack_count = count };
    if (narrow) { /* counters exist: see stage_batch */
      lost = row_view(counts_on(c, whole->device), SITU_I64, 0, m->count);
      work.out[work.outs++] = &lost;
    }
    return situ__run(m->op, whole->device, &work) == SITU_OK;
  }
  for (int64_t i = 0; i < count; i++) {
    if (i + SITU__MOVE_AHEAD < count) __builtin_prefetch(item[i + SITU__MOVE_AHEAD].storage->data);
    const situ_move_unit *u = &m->unit[item[i].count];
    const int64_t at = (int64_t)(item[i].at / situ_dtype_size(item[i].as));
    const bool good = situ__move_casts(u) ? cast_values(m, c, u, whole, at, item[i].storage, 0, item[i].numel)
                                          : copy_bytes(m, whole, &item[i], (int64_t)u->bytes);
    if (!good) return false;
  }
  return true;
}

/* Packs the batch into the buffer on the source device and transfers it as one piece. */
static bool send_batch(const situ_move_plan *m, counts *c, situ_storage *buffer, situ_storage *memory, size_t bytes,
                       const situ_pack_item *item, int64_t count, bool narrow) {
  return pack_batch(m, c, buffer, bytes, item, count, narrow) &&
         (buffer == memory || situ__copy_storage(m->op, memory, 0, buffer, 0, bytes, m->why) == SITU_OK);
}

/* Makes each unit's storage a part of the batch's memory. */
static bool share_batch(situ_move_plan *m, situ_storage *memory, const situ_pack_item *item, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    situ_move_unit *u = &m->unit[item[k].count];
    u->destination = memory;
    u->at = item[k].at;
    u->shared = true;
  }
  (void)__atomic_add_fetch(&memory->refs, count, __ATOMIC_RELAXED); /* one per unit */
  return true;
}

/* For devices without shared memory: each unit gets its own memory, and its part of the batch is copied there. */
static bool unpack_batch(situ_move_plan *m, situ_storage *memory, size_t bytes, situ_pack_item *item, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    situ_move_unit *u = &m->unit[item[k].count];
    u->destination = situ__storage_new(m->op, u->to, (size_t)u->bytes_after);
    if (!u->destination) return false;
    item[k].storage = u->destination;
    item[k].dtype = item[k].as;
  }
  situ_view_desc whole = row_view(memory, SITU_U8, 0, (int64_t)bytes);
  const situ_work work = { SITU_VERB_PACK, .op = 1, .outs = 1, .out = { &whole }, .pack = item, .pack_count = count };
  if (situ__run(m->op, memory->device, &work) != SITU_OK) return false;
  for (int64_t k = 0; k < count; k++) situ__storage_wrote(item[k].storage);
  return true;
}

/* Stages one buffer of small storages with the same source and target, starting at unit `first`. */
static bool stage_batch(situ_move_plan *m, counts *c, int64_t first, situ_pack_item *item) {
  const situ_device from = m->unit[first].from, to = m->unit[first].to;
  size_t bytes = 0;
  int64_t count = 0;
  bool narrow = false;
  const uint32_t dtypes = dtypes_of(from);
  const size_t aligned = alignment(to);
  for (int64_t i = first; i < m->count && bytes <= SITU__MOVE_STAGE - SITU__MOVE_SMALL && count < SITU__MOVE_MANY;
       i++) {
    const situ_move_unit *u = &m->unit[i];
    if (i + SITU__MOVE_AHEAD < m->count) __builtin_prefetch(u[SITU__MOVE_AHEAD].storage);
    if (!travels_with(u, from, to) || (situ__move_casts(u) && !has_both(dtypes, u))) continue;
    const size_t step = aligned ? aligned : situ__move_size(u->to_dtype), at = (bytes + step - 1) & ~(step - 1);
    item[count++] = (situ_pack_item){ .storage = u->storage,
                                      .numel = count_values(u),
                                      .at = at,
                                      .dtype = (situ_dtype)u->from_dtype,
                                      .as = (situ_dtype)u->to_dtype,
                                      .count = i };
    narrow = narrow || narrows(u->from_dtype, u->to_dtype);
    bytes = at + (((size_t)u->bytes_after + step - 1) & ~(step - 1));
  }
  if (count < 2) return stage_alone(m, c, &m->unit[first]);
  if (narrow && !make_counts(m, c, from)) return false;
  situ_storage *memory = narrow && !counts_on(c, from) ? NULL : allocate_spare(m, to, bytes);
  situ_storage *buffer = memory && !situ__move_same(from, to) ? allocate_spare(m, from, bytes) : memory;
  bool good = true;
  if (!buffer) { /* a device is full: move them one by one */
    situ__storage_release(memory);
    for (int64_t k = 0; k < count && good; k++) good = stage_alone(m, c, &m->unit[item[k].count]);
    return good;
  }
  good = send_batch(m, c, buffer, memory, bytes, item, count, narrow);
  if (buffer != memory) situ__storage_release(buffer);
  good = good && (situ__backend(to)->addressable ? share_batch(m, memory, item, count)
                                                 : unpack_batch(m, memory, bytes, item, count));
  situ__storage_release(memory);
  return good;
}

/* Returns true if the storage can and should be moved in a batch. */
static bool is_batched(const situ_move_unit *u) {
  if (situ__verifies()) return false; /* an error names the storage */
  const bool unpacks = situ__has_verb(u->to, SITU_VERB_PACK) && !situ__move_same(u->from, u->to);
  return u->to.kind != SITU_META && (situ__backend(u->to)->addressable || unpacks) && travels_with(u, u->from, u->to) &&
         (!situ__move_casts(u) || can_compute(u->from, u));
}

bool situ__move_stage(situ_move_plan *m) {
  const size_t items = m->count < SITU__MOVE_MANY ? (size_t)m->count : SITU__MOVE_MANY;
  situ_pack_item *item = situ__alloc(items * sizeof *item + 1);
  if (!item) return situ__no_memory(m->op, items * sizeof *item), false;
  counts c = { .devices = 0 };
  m->staged = true;
  bool good = true;
  for (int64_t i = 0; good && i < m->count; i++) {
    situ_move_unit *u = &m->unit[i];
    if (!u->moves || u->destination || u->storage->flags & SITU_STORAGE_AWAY) continue;
    good = !m->settle && is_batched(u) ? stage_batch(m, &c, i, item) : stage_alone(m, &c, u);
  }
  good = good && read_counts(m, &c);
  for (int k = 0; k < c.devices; k++) situ__storage_release(c.list[k]);
  situ__free(item);
  return good;
}
