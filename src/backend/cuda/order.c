/* Order between a device's streams. Kernels and small copies use one stream, in the order of the calls. A large
   host-to-device copy, and any device-to-host copy, need only wait for the last op that may have used its memory. So
   ops are numbered; a table over granules of memory stores the number of the last op that used each; and after every
   few ops an event is recorded, which a copy on a side stream can wait for.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cuda/cuda.h"

/* ---- blocks --------------------------------------------------------------------------------- */

/* Index of the first block after `data`, where a new block is inserted; blocks are sorted by address. */
static size_t place_of(const situ__cuda_order *o, const char *data) {
  size_t low = 0, high = o->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (o->block[middle].data <= data) low = middle + 1;
    else high = middle;
  }
  return low;
}

bool situ__cuda_add_block(situ__cuda_device *d, void *data, size_t bytes) {
  situ__cuda_order *o = &d->order;
  if (o->count == o->capacity) {
    size_t capacity = o->capacity ? 2 * o->capacity : 64;
    situ__cuda_block *more = situ__host->alloc(capacity * sizeof *more);
    if (!more) return false;
    if (o->count) memcpy(more, o->block, o->count * sizeof *more);
    situ__host->free(o->block);
    o->block = more;
    o->capacity = capacity;
  }
  size_t at = place_of(o, data);
  memmove(o->block + at + 1, o->block + at, (o->count - at) * sizeof *o->block);
  o->block[at] = (situ__cuda_block){ data, bytes };
  o->count++;
  situ__cuda_used(d, data, bytes); /* a stream-ordered allocation is valid only after the work queued before it */
  return true;
}

void situ__cuda_remove_block(situ__cuda_device *d, const void *data) {
  situ__cuda_order *o = &d->order;
  size_t at = place_of(o, data) - 1;
  o->count--;
  memmove(o->block + at, o->block + at + 1, (o->count - at) * sizeof *o->block);
}

/* ---- uses ----------------------------------------------------------------------------------- */

void situ__cuda_used(situ__cuda_device *d, const void *data, size_t bytes) {
  const uintptr_t first = (uintptr_t)data / SITU__CUDA_GRANULE,
                  last = ((uintptr_t)data + bytes - 1) / SITU__CUDA_GRANULE;
  for (uintptr_t k = first; k <= last && k - first < SITU__CUDA_GRANULES; k++)
    d->order.used[k % SITU__CUDA_GRANULES] = d->queued + 1;
}

/* The last op that may have used the block that contains data. Looks at the whole block, as kernels only report where
   an operand begins, and a storage may be a part of a block whose other parts were used under other addresses. */
static uint64_t last_use(const situ__cuda_device *d, const void *data) {
  const situ__cuda_order *o = &d->order;
  const situ__cuda_block *b = &o->block[place_of(o, data) - 1];
  const uintptr_t first = (uintptr_t)b->data / SITU__CUDA_GRANULE,
                  last = ((uintptr_t)b->data + b->bytes - 1) / SITU__CUDA_GRANULE;
  uint64_t found = o->graph;
  for (uintptr_t k = first; k <= last && k - first < SITU__CUDA_GRANULES; k++) {
    uint64_t used = o->used[k % SITU__CUDA_GRANULES];
    if (used > found) found = used;
  }
  return found;
}

/* A failure here is harmless, as a copy then waits for more; serious errors recur elsewhere. */
void situ__cuda_mark(situ__cuda_device *d) {
  situ__cuda_order *o = &d->order;
  if (d->adopted) return;
  bool good = situ__cuda.EventRecord(o->marker[o->next], d->stream) == cudaSuccess;
  if (!good) (void)situ__cuda.GetLastError();
  o->behind[o->next] = good ? d->queued : UINT64_MAX;
  o->next = (o->next + 1) % SITU__CUDA_MARKERS;
}

/* ---- side streams --------------------------------------------------------------------------- */

cudaError_t situ__cuda_aside(situ__cuda_device *d, cudaStream_t side, const void *data, situ__cuda_way *way) {
  const situ__cuda_order *o = &d->order;
  *way = (situ__cuda_way){ d->stream, d->queued };
  if (d->adopted) return cudaSuccess; /* the program's own work with it is not known */
  const uint64_t last = last_use(d, data);
  *way = (situ__cuda_way){ side, last };
  if (last <= d->good) return cudaSuccess;
  int found = -1;
  for (int k = 0; k < SITU__CUDA_MARKERS; k++) {
    if (o->behind[k] < last || o->behind[k] == UINT64_MAX) continue;
    if (found < 0 || o->behind[k] < o->behind[found]) found = k;
  }
  if (found >= 0) return situ__cuda.StreamWaitEvent(side, o->marker[found], 0);
  *way = (situ__cuda_way){ d->stream, d->queued };
  return cudaSuccess;
}

cudaError_t situ__cuda_join(situ__cuda_device *d, const situ__cuda_way *way) {
  if (way->stream == d->stream) return cudaSuccess;
  cudaError_t error = situ__cuda.EventRecord(d->order.arrived, way->stream);
  if (error == cudaSuccess) error = situ__cuda.StreamWaitEvent(d->stream, d->order.arrived, 0);
  return error == cudaSuccess ? error : situ__cuda.StreamSynchronize(way->stream);
}

/* ---- opening -------------------------------------------------------------------------------- */

cudaError_t situ__cuda_open_order(situ__cuda_device *d) {
  situ__cuda_order *o = &d->order;
  cudaError_t error = situ__cuda.StreamCreateWithFlags(&o->in, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = situ__cuda.StreamCreateWithFlags(&o->out, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = situ__cuda.EventCreateWithFlags(&o->arrived, cudaEventDisableTiming);
  for (int k = 0; error == cudaSuccess && k < SITU__CUDA_MARKERS; k++) {
    o->behind[k] = UINT64_MAX;
    error = situ__cuda.EventCreateWithFlags(&o->marker[k], cudaEventDisableTiming);
  }
  return error;
}

void situ__cuda_close_order(situ__cuda_device *d) {
  situ__cuda_order *o = &d->order;
  for (int k = 0; k < SITU__CUDA_MARKERS; k++)
    if (o->marker[k]) (void)situ__cuda.EventDestroy(o->marker[k]);
  if (o->arrived) (void)situ__cuda.EventDestroy(o->arrived);
  if (o->out) (void)situ__cuda.StreamDestroy(o->out);
  if (o->in) (void)situ__cuda.StreamDestroy(o->in);
  situ__host->free(o->block);
  *o = (situ__cuda_order){ 0 };
}
