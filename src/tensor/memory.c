/* Tensors on the program's device memory, and the memory of tensors for the program.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "situ/sys/plain.h"
#include "tensor/tensor.h"

static situ_status refuse_device(const char *op, situ_device device) {
  char name[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_DEVICE, op, "%s takes no memory of the program%s", situ_device_name(device, name),
                    device.kind == SITU_CPU ? "; use situ_from_blob for host memory"
                                            : " by a handle; state an adopted device in options");
}

/* The bytes from the beginning of the memory to the end of the view; sets the view's offset. */
static bool place_view(const char *op, const situ_memory *m, situ_view_desc *v, size_t *bytes) {
  const size_t item = situ_dtype_size((situ_dtype)v->dtype);
  if (m->offset % item)
    return situ__fail(SITU_E_ARG, op, "offset %zu is not a multiple of the %zu bytes of %s", m->offset, item,
                      situ_dtype_name((situ_dtype)v->dtype)),
           false;
  if (m->offset > INT64_MAX - *bytes)
    return situ__fail(SITU_E_OVERFLOW, op, "offset %zu reaches beyond 2^63 bytes", m->offset), false;
  if (*bytes) *bytes += m->offset;
  v->offset = (int64_t)(m->offset / item);
  return true;
}

/* Borrows the memory: sets v->storage. On failure release was called. */
static bool borrow(const char *op, situ_device device, const situ_memory *m, size_t bytes, situ_view_desc *v) {
  const situ_backend *backend = situ__backend(device);
  const size_t item = situ_dtype_size((situ_dtype)v->dtype);
  const uint64_t before = situ__error_count();
  void *data = NULL;
  bool read_only = m->read_only;
  const situ_status status = bytes ? backend->borrow(device.index, m->handle, bytes, &data, &read_only) : SITU_OK;
  if (status != SITU_OK) {
    (void)situ__device_failed(op, device, status, before, "borrowing memory");
    if (m->release) m->release(m->payload);
    return false;
  }
  v->storage = situ__storage_foreign(op, device, data, bytes, m->release, m->payload);
  if (!v->storage) return false;
  if (read_only) v->storage->flags |= SITU_STORAGE_READ_ONLY;
  if (!backend->addressable || (uintptr_t)data % item == 0) return true;
  situ__storage_release(v->storage);
  return situ__fail(SITU_E_ARG, op, "address %p is not a multiple of the %zu bytes of %s", m->handle, item,
                    situ_dtype_name((situ_dtype)v->dtype)),
         false;
}

/* What can be said before the memory is looked at. */
static bool check_memory(const char *op, const situ_memory *m, const situ_shape *shape, const situ_options *options,
                         situ_device *device, situ_view_desc *v, size_t *bytes) {
  if (situ__is_dry()) return situ__dry_blind(op), false;
  if (!situ__device_resolve(op, options ? options->device : (situ_device){ 0 }, device)) return false;
  if (!situ__backend(*device)->borrow) return refuse_device(op, *device), false;
  if (situ__device_usable(op, *device) != SITU_OK) return false;
  if (!situ__foreign_view(op, shape, m->strides, options, v, bytes) || !place_view(op, m, v, bytes)) return false;
  return m->handle || situ__given(op, "memory->handle", m->handle);
}

situ_tensor *situ_from_memory(const situ_memory *memory, situ_shape shape, const situ_options *options) {
  const char *op = "from_memory";
  situ_view_desc v;
  size_t bytes = 0;
  situ_device device;
  if (!memory) return situ__null(op, "memory"), NULL;
  if (!check_memory(op, memory, &shape, options, &device, &v, &bytes)) {
    if (memory->release) memory->release(memory->payload);
    return NULL;
  }
  return borrow(op, device, memory, bytes, &v) ? situ__foreign_tensor(op, &v, options) : NULL;
}

situ_status situ_memory_of(situ_tensor *t, void **handle, size_t *offset) {
  const char *op = "memory_of";
  char name[SITU_DEVICE_NAME_MAX];
  if (!situ__need(op, "input", t)) return situ_error();
  if (!handle) return situ__null(op, "handle");
  if (!offset) return situ__null(op, "offset");
  if (situ__is_dry()) return situ__dry_blind(op);
  situ_storage *s = t->view.storage;
  if (!situ__backend(s->device)->borrow)
    return situ__fail(SITU_E_DEVICE, op, "memory of %s has no handle for the program%s",
                      situ_device_name(s->device, name), s->device.kind == SITU_CPU ? "; use situ_data_ptr" : "");
  if (s->flags & SITU__STORAGE_NOWHERE) return situ__refuse_sample(op, s);
  if (s->flags & (SITU_STORAGE_HELD_READ | SITU_STORAGE_SENT)) return situ__refuse_held(op, s);
  /* As for situ_data_ptr: the program may write from now on. */
  situ__fill(s);
  (void)__atomic_or_fetch(&s->flags, SITU_STORAGE_EXPOSED, __ATOMIC_RELAXED);
  *handle = s->data;
  *offset = (size_t)t->view.offset * situ_dtype_size((situ_dtype)t->view.dtype);
  return SITU_OK;
}
