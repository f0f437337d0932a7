/* Leases of memory of devices (situ_data_map): the host gets what the driver maps, or a copy, and a list says which
   lease has which. A lease with an entry has a base, so that situ_release knows it without a further test.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/mutex.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "tensor/tensor.h"

typedef struct mapping {
  struct mapping *next;
  const situ_tensor *lease;
  situ__mapped memory;
} mapping;

static situ__mutex lock = SITU__MUTEX_INIT; /* guards the list and the flags that follow from it */
static mapping *mappings;

/* The bytes of the storage from the first to the last element; returns the number of elements before the tensor's first
   one. */
static int64_t find_range(const situ_view_desc *v, size_t *at, size_t *bytes) {
  const size_t item = situ_dtype_size((situ_dtype)v->dtype);
  int64_t low = 0, high = 0;
  for (int d = 0; d < v->ndim; d++) *(v->stride[d] < 0 ? &low : &high) += (v->size[d] - 1) * v->stride[d];
  *at = (size_t)(v->offset + low) * item;
  *bytes = (size_t)(high - low + 1) * item;
  return -low;
}

static bool add_mapping(const char *op, mapping *m, situ_storage *s) {
  situ__mutex_lock(&lock);
  const uint32_t held = m->memory.write ? SITU_STORAGE_HELD : SITU_STORAGE_HELD_READ;
  const bool alone = !(s->flags & SITU_STORAGE_HELD) && !(m->memory.write && s->flags & SITU_STORAGE_HELD_READ);
  if (alone) {
    (void)__atomic_or_fetch(&s->flags, held, __ATOMIC_RELAXED);
    m->next = mappings;
    mappings = m;
  }
  situ__mutex_unlock(&lock);
  return alone || (situ__refuse_held(op, s), false);
}

/* Takes the entry of a lease, and its flag unless another lease has it too. */
static mapping *take_mapping(const situ_tensor *lease) {
  situ_storage *s = lease->view.storage;
  situ__mutex_lock(&lock);
  mapping **link = &mappings, *m;
  while (*link && (*link)->lease != lease) link = &(*link)->next;
  if ((m = *link)) *link = m->next;
  const mapping *other = mappings;
  while (other && other->lease->view.storage != s) other = other->next;
  if (m && !other) (void)__atomic_and_fetch(&s->flags, ~(SITU_STORAGE_HELD | SITU_STORAGE_HELD_READ), __ATOMIC_RELAXED);
  situ__mutex_unlock(&lock);
  return m;
}

/* A storage has one mapping that writes, or none. */
situ_status situ__map_may_end(const char *op, const situ_tensor *t) {
  situ_storage *s = t->view.storage;
  if (!(s->flags & SITU_STORAGE_HELD)) return SITU_OK;
  situ__mutex_lock(&lock);
  const mapping *m = mappings;
  while (m && m->lease->view.storage != s) m = m->next;
  const situ__mapped memory = m && situ__same_place(&m->lease->view, &t->view) ? m->memory : (situ__mapped){ 0 };
  situ__mutex_unlock(&lock);
  return memory.write ? situ__may_unmap(op, s, &memory) : SITU_OK;
}

void situ__map_ended(const situ_tensor *lease) {
  mapping *m = take_mapping(lease);
  if (!m) return;
  SITU_IGNORE(situ__unmap_memory("data_release", lease->view.storage, &m->memory));
  situ__free(m);
}

void *situ__map_lease(const char *op, situ_tensor *t, situ_tensor *lease, bool write) {
  mapping *m = situ__alloc(sizeof *m);
  if (!m) return situ__no_memory(op, sizeof *m), NULL;
  *m = (mapping){ .lease = lease, .memory = { .write = write } };
  situ_storage *s = t->view.storage;
  const int64_t before = find_range(&t->view, &m->memory.at, &m->memory.bytes);
  if (situ__map_memory(op, s, &m->memory) != SITU_OK) return situ__free(m), NULL;
  if (!add_mapping(op, m, s)) {
    m->memory.write = false;
    SITU_IGNORE(situ__unmap_memory(op, s, &m->memory));
    return situ__free(m), NULL;
  }
  lease->base = situ_retain(t);
  return (char *)m->memory.host + (size_t)before * situ_dtype_size((situ_dtype)t->view.dtype);
}
