/* Moving storages: tensors are handles, so what moves is the memory behind them, once, with all its handles.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "dispatch/dispatch.h"

/* A storage that moves, and the one that waits for it at the destination. */
typedef struct pair {
  situ_storage *from, *staged;
} pair;

static int by_address(const void *a, const void *b) {
  const situ_storage *x = ((const pair *)a)->from, *y = ((const pair *)b)->from;
  return x < y ? -1 : x > y;
}

/* The distinct storages of the tensors and their gradients that are not there yet; at most 2 * count. */
static int64_t collect(situ_tensor *const *list, int64_t count, situ_device to, pair *out) {
  int64_t found = 0, distinct = 0;
  for (int64_t i = 0; i < count; i++) {
    situ_tensor *both[2] = { list[i], list[i]->meta ? list[i]->meta->grad : NULL };
    for (int k = 0; k < 2; k++)
      if (both[k] && !situ_device_equal(both[k]->view.storage->device, to)) out[found++] = (pair){ both[k]->view.storage, NULL };
  }
  qsort(out, (size_t)found, sizeof *out, by_address);
  for (int64_t i = 0; i < found; i++)
    if (!i || out[i].from != out[i - 1].from) out[distinct++] = out[i];
  return distinct;
}

static bool stage(const char *op, pair *p, situ_device to) {
  p->staged = situ__storage_new(op, to, p->from->bytes);
  if (!p->staged) return false;
  bool empty = p->from->bytes == 0 || p->from->flags & SITU_STORAGE_UNWRITTEN;
  if (empty) return true;
  if (situ__recipe_has(p->from)) return situ__recipe_replay(op, p->from, p->staged);
  if (p->from->device.kind == SITU_META) {
    situ__fail(SITU_E_STATE, op, "a tensor on meta has no values to move; load or initialise it on the other device");
    return false;
  }
  if (to.kind == SITU_META) return true;
  return situ__copy_storage(op, p->staged, 0, p->from, 0, p->from->bytes, SITU__COPY_MOVE) == SITU_OK;
}

/* The two change what they stand for; owners, versions and addresses stay. */
static void exchange(situ_storage *a, situ_storage *b) {
  situ_storage old = *a;
  a->data = b->data;
  a->device = b->device;
  a->recipe = b->recipe;
  a->release = b->release;
  a->payload = b->payload;
  a->flags = b->flags;
  b->data = old.data;
  b->device = old.device;
  b->recipe = old.recipe;
  b->release = old.release;
  b->payload = old.payload;
  b->flags = old.flags;
}

/* Releasing `staged` then frees the old memory. */
static void commit(pair *p, const char *op, void *site) {
  situ_storage *a = p->from, *b = p->staged;
  uint32_t unwritten = a->flags & SITU_STORAGE_UNWRITTEN;
  b->flags = (b->flags & ~(uint32_t)SITU_STORAGE_UNWRITTEN) | unwritten;
  exchange(a, b);
  a->moved_at = site;
  a->moved_by = op;
}

situ_status situ_follow(situ_tensor *t, situ_tensor *leader) {
  const char *op = "follow";
  if (!situ__need(op, "tensor", t) || (leader && !situ__need(op, "leader", leader))) return situ_error();
  situ_storage *to = leader ? leader->view.storage : NULL;
  return t->view.storage == to || situ__follow(op, t->view.storage, to) ? SITU_OK : situ_error();
}

situ_status situ_swap_memory(const char *op, situ_tensor *a, situ_tensor *b) {
  if (!situ__need(op, "first", a) || !situ__need(op, "second", b)) return situ_error();
  situ_storage *x = a->view.storage, *y = b->view.storage;
  if (x->bytes != y->bytes || !situ_device_equal(x->device, y->device))
    return situ__fail(SITU_E_ARG, op, "memory of %zu and %zu bytes, or on two devices, cannot be swapped", x->bytes, y->bytes);
  if (x != y) exchange(x, y);
  return SITU_OK;
}

situ_status situ_move_storages(const char *op, situ_tensor *const *list, int64_t count, situ_device to, uint64_t *bytes) {
  if (!situ__device_resolve(op, to, &to)) return situ_error();
  for (int64_t i = 0; i < count; i++)
    if (!situ__need(op, "tensor", list[i])) return situ_error();
  if (count <= 0) return SITU_OK;
  pair *pairs = situ__calloc(2 * (size_t)count, sizeof *pairs);
  if (!pairs) return situ__no_memory(op, 2 * (size_t)count * sizeof *pairs);
  int64_t distinct = collect(list, count, to, pairs);
  uint64_t total = 0;
  bool good = true;
  for (int64_t i = 0; good && i < distinct; i++) {
    good = stage(op, &pairs[i], to);
    total += pairs[i].from->bytes;
  }
  /* What a queue still holds against us must surface before anything is given up. */
  if (good && distinct && to.kind != SITU_META) good = situ_synchronize(to) == SITU_OK;
  void *site = situ__call_site();
  for (int64_t i = 0; good && i < distinct; i++) commit(&pairs[i], op, site);
  for (int64_t i = 0; i < distinct; i++) situ__storage_release(pairs[i].staged);
  situ__free(pairs);
  if (good && bytes) *bytes = total;
  return good ? SITU_OK : situ_error();
}
