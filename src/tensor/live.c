/* Tells whether an arbitrary pointer is a live tensor, and lists all of them.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/peek.h"
#include "base/slab.h"
#include "device/device.h"
#include "situ/live.h"
#include "situ/sys/tensor.h"
#include "tensor/tensor.h"

/* A list of all tensors would slow down creating one, the hottest operation of the library. Instead, a tensor refers
   to its storage, and the storage lists its handles: a pointer is a live tensor exactly if the storage that it refers
   to lists it. A byte copy of a tensor, or a freed one, is not in the list. */
bool situ_is_tensor(const void *pointer) {
  situ_tensor t;
  situ_storage storage;
  if (!pointer || (uintptr_t)pointer % _Alignof(situ_tensor) != 0) return false;
  if (!situ__peek(pointer, &t, sizeof t) || !situ__alive(&t)) return false;
  if (!situ__peek(t.view.storage, &storage, sizeof storage)) return false;
  /* Each handle holds a reference, so a valid list is not longer than refs. */
  const situ_tensor *handle = storage.handles;
  for (int64_t i = 0; i < storage.refs && handle; i++) {
    if (handle == pointer) return true;
    if (!situ__peek(handle, &t, sizeof t) || !situ__alive(&t)) return false;
    handle = t.next_handle;
  }
  return false;
}

const char *situ_created_at(const situ_tensor *t, char *buffer, size_t size) {
  if (!situ__given("created_at", "buffer", buffer)) return "";
  return situ__site_text(t && situ__need("created_at", "input", t) ? t->created_at : NULL, buffer, size);
}

/* ---- all of them: the places of the allocator that look like tensors, each of which is then tried ---- */

typedef struct roll {
  const situ_tensor **list;
  int64_t count, capacity;
} roll;

/* Memory in a thread's free list is poisoned. */
static __attribute__((no_sanitize("address", "thread"))) uint32_t head_at(const void *object) {
  return *(const volatile uint32_t *)object;
}

static void call_roll(void *object, void *payload) {
  roll *r = payload;
  if (head_at(object) != SITU__LIVE(SITU__A_TENSOR)) return;
  if (r->count < r->capacity) r->list[r->count] = object;
  r->count++;
}

static void put_name(const situ_tensor *t, const situ_storage *s, situ_live *to) {
  if (s->slots) { /* a module's: its path */
    to->role = situ_role_name((situ_role)situ__storage_subject(t->view.storage, to->name, sizeof to->name));
    return;
  }
  for (size_t most = t->name ? sizeof to->name - 1 : 0; most; most /= 4)
    if (situ__peek(t->name, to->name, most)) return;
}

/* Fills *to of the oldest tensor of a storage, without a lock: another thread may free it. Returns false for others. */
static bool describe(const situ_tensor *pointer, situ_device device, situ_live *to) {
  situ_tensor t;
  situ_storage s;
  if (!situ_is_tensor(pointer) || !situ__peek(pointer, &t, sizeof t) || t.next_handle ||
      !situ__peek(t.view.storage, &s, sizeof s))
    return false;
  if (device.kind != SITU_DEVICE_DEFAULT && !situ_device_equal(device, s.device)) return false;
  *to = (situ_live){ .device = s.device,
                     .bytes = s.bytes,
                     .tensors = 0,
                     .dtype = (situ_dtype)t.view.dtype,
                     .shape = { .ndim = t.view.ndim },
                     .role = situ_role_name((situ_role)t.role),
                     .storage = s.serial,
                     .written = situ__holds_some(&s) };
  for (int d = 0; d < t.view.ndim && d < SITU_MAX_DIMS; d++) to->shape.dim[d] = t.view.size[d];
  for (const situ_tensor *handle = s.handles; handle; handle = t.next_handle) {
    to->tensors++;
    if (!situ__peek(handle, &t, sizeof t)) break;
  }
  if (situ__peek(pointer, &t, sizeof t)) put_name(&t, &s, to);
  (void)situ__site_text(t.created_at, to->created, sizeof to->created);
  return true;
}

static int largest_first(const void *a, const void *b) {
  const situ_live *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

/* All that there are, unordered. Returns their number; negative when memory runs out. */
static int64_t list_all(situ_device device, situ_live **out) {
  const size_t place = (SITU__TENSOR_SIZE + SITU__SLAB_STEP - 1) / SITU__SLAB_STEP * SITU__SLAB_STEP;
  roll r = { .count = 0 };
  situ__slab_each(place, call_roll, &r);
  r.capacity = r.count;
  r.list = situ__alloc_uncounted(((size_t)r.capacity + 1) * sizeof *r.list);
  *out = r.list ? situ__alloc_uncounted(((size_t)r.capacity + 1) * sizeof **out) : NULL;
  if (!*out) return situ__free(r.list), -1;
  r.count = 0;
  situ__slab_each(place, call_roll, &r);
  int64_t found = 0;
  for (int64_t i = 0; i < r.count && i < r.capacity; i++) found += describe(r.list[i], device, &(*out)[found]);
  situ__free(r.list);
  return found;
}

int64_t situ_live_list(situ_device device, situ_live *out, int64_t capacity) {
  static const char op[] = "live_list";
  situ_live *all;
  if (capacity > 0 && !out) return situ__null(op, "out"), -1;
  if (device.kind >= SITU_DEVICE_KINDS) return situ__fail(SITU_E_ARG, op, "this is not a device"), -1;
  const int64_t count = list_all(device, &all);
  if (count < 0) return situ__no_memory(op, sizeof *all), -1;
  qsort(all, (size_t)count, sizeof *all, largest_first);
  for (int64_t i = 0; i < count && i < capacity; i++) out[i] = all[i];
  situ__free(all);
  return count;
}
