/* Operands whose dtype differs from a kernel's compute type.
   SPDX-License-Identifier: MIT */
#include "operand.h"

#include "base/pool.h"
#include "base/size.h"
#include "device/device.h"

static const situ_device cpu = { .kind = SITU_CPU };
enum { GRAIN = 16 * SITU__BLOCK };

situ_dtype situ__cpu_compute_dtype(situ_dtype dtype) {
  static const situ_dtype of[] = { [SITU__F32] = SITU_F32, [SITU__F64] = SITU_F64, [SITU__I64] = SITU_I64 };
  return of[situ__cpu_compute(dtype)];
}

/* Sets o->copy: view's sizes in row-major order, but 1 for broadcast dimensions; allocates its memory. */
static situ_status make_copy(situ__cpu_operand *o, const char *op, const situ_view_desc *view, situ_dtype dtype,
                             bool merge_repeats) {
  o->copy = *view;
  o->copy.dtype = (uint8_t)dtype;
  o->copy.offset = 0;
  o->copy.numel = 1;
  o->copy.contiguous = true;
  for (int d = view->ndim - 1; d >= 0; d--) {
    const bool repeats = merge_repeats && view->stride[d] == 0;
    o->copy.stride[d] = repeats ? 0 : o->copy.numel;
    if (repeats) o->copy.contiguous = o->copy.contiguous && view->size[d] == 1;
    else o->copy.numel *= view->size[d];
  }
  o->storage = (situ_storage){ .bytes = (size_t)o->copy.numel * situ__dtype_size(dtype), .device = cpu };
  o->copy.storage = &o->storage;
  o->view = &o->copy;
  return situ__memory_alloc(op, cpu, o->storage.bytes, &o->storage.data);
}

static void load_range(int64_t begin, int64_t end, void *payload) {
  const situ__cpu_operand *o = payload;
  const situ__compute compute = situ__cpu_compute((situ_dtype)o->copy.dtype);
  situ_view_desc from = *o->original;
  for (int d = 0; d < from.ndim; d++)
    if (o->copy.stride[d] == 0) from.size[d] = 1;
  situ__cpu_load(&from, begin, end - begin, compute,
                 (char *)o->storage.data + (size_t)begin * situ__compute_size(compute));
}

static void store_range(int64_t begin, int64_t end, void *payload) {
  const situ__cpu_operand *o = payload;
  const situ__compute compute = situ__cpu_compute((situ_dtype)o->copy.dtype);
  situ__cpu_store(o->original, begin, end - begin, compute,
                  (const char *)o->storage.data + (size_t)begin * situ__compute_size(compute));
}

situ_status situ__operand_in(situ__cpu_operand *o, const char *op, const situ_view_desc *view, situ_dtype dtype) {
  o->view = o->original = view;
  o->storage.data = NULL;
  if (!view || view->dtype == dtype) return SITU_OK;
  const situ_status status = make_copy(o, op, view, dtype, true);
  if (status == SITU_OK && o->copy.numel > 0) situ__parallel(o->copy.numel, GRAIN, load_range, o);
  return status;
}

situ_status situ__operand_out(situ__cpu_operand *o, const char *op, const situ_view_desc *view, situ_dtype dtype,
                              bool direct) {
  o->view = o->original = view;
  o->storage.data = NULL;
  if (view->dtype == dtype && direct) return SITU_OK;
  return make_copy(o, op, view, dtype, false);
}

void situ__operand_write(const situ__cpu_operand *o) {
  if (o->storage.data) situ__parallel(o->copy.numel, GRAIN, store_range, (void *)(uintptr_t)o);
}

void situ__operand_close(situ__cpu_operand *o) {
  if (o->storage.data) situ__memory_free(cpu, o->storage.data, o->storage.bytes);
  o->storage.data = NULL;
}
