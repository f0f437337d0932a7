/* Packs many small storages into one buffer, or unpacks them. Copies within the device are queued without waiting,
   while each transfer from the host would be waited for.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

static const char *const packing = "pack";

static situ_status copy(int index, cl_mem to, size_t to_at, cl_mem from, size_t from_at, size_t bytes) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, packing, &status);
  if (!d) return status;
  cl_int error = clEnqueueCopyBuffer(d->queue, from, to, from_at, to_at, bytes, 0, NULL, NULL);
  situ__cl_used(d, 2, (void *const[]){ from, to });
  return situ__cl_leave(d,
                        error == CL_SUCCESS ? SITU_OK : situ__cl_fail(d, packing, "clEnqueueCopyBuffer", error, false));
}

static situ_view_desc row(situ_storage *storage, situ_dtype dtype, size_t at, int64_t numel) {
  return (situ_view_desc){ .storage = storage,
                           .dtype = (uint8_t)dtype,
                           .ndim = 1,
                           .contiguous = true,
                           .offset = (int64_t)(at / situ__lower_size(dtype)),
                           .numel = numel,
                           .size = { numel },
                           .stride = { 1 } };
}

static situ_status cast(int index, const situ_work *work, const situ_pack_item *item) {
  const situ_view_desc x = row(item->storage, item->dtype, 0, item->numel),
                       y = row(work->out[0]->storage, item->as, item->at, item->numel);
  situ_work one = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &x }, .out = { &y } };
  situ_view_desc lost;
  if (work->outs > 1) {
    lost = *work->out[1];
    lost.offset += item->count;
    one.out[one.outs++] = &lost;
  }
  return situ__cl_copy(index, &one);
}

situ_status situ__cl_pack(int index, const situ_work *work) {
  const bool back = work->op == 1;
  cl_mem full = work->out[0]->storage->data;
  situ_status status = SITU_OK;
  for (int64_t i = 0; status == SITU_OK && i < work->pack_count; i++) {
    const situ_pack_item *item = &work->pack[i];
    const size_t bytes = (size_t)item->numel * situ__lower_size(item->as);
    if (item->dtype != item->as) status = cast(index, work, item);
    else if (back) status = copy(index, item->storage->data, 0, full, item->at, bytes);
    else status = copy(index, full, item->at, item->storage->data, 0, bytes);
  }
  return status;
}
