/* Work that a device cannot do, done by the cpu: operands are copied to it, and results back. This thread's policy asks
   for it; the ledger has each copy, with the reason "fallback".
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "device/graph/graph.h"
#include "device/launch/checks.h"
#include "device/view.h"

static const situ_device cpu = { SITU_CPU, 0 };

/* The bytes of a storage that the work has views of, and their copy on the host. */
typedef struct range {
  situ_storage *storage, *copy;
  size_t first, past;
  bool written;
} range;

typedef struct fallback {
  const char *op;
  situ__map numbers; /* of storages, from 1 */
  range *range;
  int64_t ranges, views;
  situ_view_desc *view; /* on the host */
  situ_optimizer_item *item;
} fallback;

bool situ__may_fall_back(situ_device device, const situ_work *work) {
  const situ_backend *backend = situ__backend(device);
  return situ_get_policy().fallback && !situ__graph_recording && !backend->host_memory && !work->pack_count &&
         situ__has_verb(cpu, work->verb);
}

/* Adds the bytes of a view. Returns false when memory runs out; `range` has capacity for all views. */
static bool add_view(fallback *f, const situ_view_desc *v, bool written) {
  enum { ALIGNED = 16 }; /* views of other dtypes keep their alignment */
  int64_t number = (int64_t)(uintptr_t)situ__map_get(&f->numbers, v->storage), first, last;
  if (!number) {
    number = ++f->ranges;
    f->range[number - 1] = (range){ .storage = v->storage, .first = SIZE_MAX };
    if (!situ__map_put(&f->numbers, v->storage, (void *)(uintptr_t)number)) return false;
  }
  range *r = &f->range[number - 1];
  r->written |= written;
  if (!situ__desc_range(v, &first, &last)) return true;
  const size_t item = situ__dtype_size((situ_dtype)v->dtype);
  const size_t from = (size_t)first * item / ALIGNED * ALIGNED, past = (size_t)(last + 1) * item;
  if (from < r->first) r->first = from;
  if (past > r->past) r->past = past;
  return true;
}

/* A storage without values has none on the host either. */
static bool copy_in(const fallback *f, range *r) {
  const size_t bytes = r->past > r->first ? r->past - r->first : 0;
  r->copy = situ__storage_new(f->op, cpu, bytes);
  if (!r->copy) return false;
  r->copy->flags |= r->storage->flags & SITU_STORAGE_BLOCKS;
  return !bytes || !situ__holds_some(r->storage) ||
         situ__copy_storage_of(f->op, r->copy, 0, r->storage, r->first, bytes, SITU__COPY_FALLBACK, r->storage,
                               r->first) == SITU_OK;
}

/* All of it counts as written, as behind any launch: who writes a part notes which. */
static bool copy_back(const fallback *f, const range *r) {
  if (!r->written || r->past <= r->first) return true;
  situ__fill(r->storage);
  return situ__copy_storage_of(f->op, r->storage, r->first, r->copy, 0, r->past - r->first, SITU__COPY_FALLBACK,
                               r->storage, r->first) == SITU_OK;
}

/* Returns the next view on the host, of the same elements as v. */
static const situ_view_desc *view_on_host(fallback *f, const situ_view_desc *v) {
  if (!v) return NULL;
  const range *r = &f->range[(uintptr_t)situ__map_get(&f->numbers, v->storage) - 1];
  situ_view_desc *own = &f->view[f->views++];
  *own = *v;
  own->storage = r->copy;
  own->offset = v->numel ? v->offset - (int64_t)(r->first / situ__dtype_size((situ_dtype)v->dtype)) : 0;
  return own;
}

/* Copies what the work reads, and makes it a work of the host. */
static bool bring(fallback *f, const situ_work *work, situ_work *own) {
  bool good = true;
  for (int i = 0; i < work->ins && good; i++) good = !work->in[i] || add_view(f, work->in[i], false);
  for (int i = 0; i < work->outs && good; i++) good = !work->out[i] || add_view(f, work->out[i], true);
  for (int64_t i = 0; i < work->list_count && good; i++)
    for (int k = 0; k < SITU__ITEM_OPERANDS && good; k++) {
      const situ_view_desc *v = situ__item_operand(&work->list[i], k);
      good = !v || add_view(f, v, k != 1);
    }
  if (!good) return situ__no_memory(f->op, sizeof *f), false;
  for (int64_t i = 0; i < f->ranges && good; i++) good = copy_in(f, &f->range[i]);
  if (!good) return false;
  *own = *work;
  own->list = f->item;
  for (int i = 0; i < work->ins; i++) own->in[i] = view_on_host(f, work->in[i]);
  for (int i = 0; i < work->outs; i++) own->out[i] = view_on_host(f, work->out[i]);
  for (int64_t i = 0; i < work->list_count; i++) {
    f->item[i] = work->list[i];
    f->item[i].param = view_on_host(f, work->list[i].param);
    f->item[i].grad = view_on_host(f, work->list[i].grad);
    for (int k = 0; k < 3; k++) f->item[i].state[k] = view_on_host(f, work->list[i].state[k]);
  }
  return true;
}

situ_status situ__fall_back(const char *op, const situ_work *work) {
  fallback f = { .op = op };
  const size_t most = (size_t)(work->ins + work->outs + SITU__ITEM_OPERANDS * work->list_count);
  const size_t bytes = most * (sizeof *f.range + sizeof *f.view) + (size_t)work->list_count * sizeof *f.item;
  situ_work own;
  if (!(f.range = situ__alloc(bytes))) return situ__no_memory(op, bytes);
  f.view = (situ_view_desc *)(f.range + most);
  f.item = (situ_optimizer_item *)(f.view + most);
  bool good = bring(&f, work, &own) && situ__run(op, cpu, &own) == SITU_OK;
  for (int64_t i = 0; i < f.ranges && good; i++) good = copy_back(&f, &f.range[i]);
  for (int64_t i = 0; i < f.ranges; i++)
    if (f.range[i].copy) situ__storage_release(f.range[i].copy);
  situ__map_free(&f.numbers);
  situ__free(f.range);
  return good ? SITU_OK : situ_error();
}
