/* Memory of CUDA devices. The library caches what storages free (src/device/block_cache.c), so this is called for new
   sizes and for scratch. Memory comes from the driver's stream-ordered pool, which splits and merges blocks, reuses a
   freed one only after the work that was queued before, and never waits; cudaFree would wait for the device.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/cuda.h"

static cudaError_t take_block(situ__cuda_device *d, size_t bytes, void **data) {
  if (d->program.alloc) {
    *data = d->program.alloc(d->program.payload, bytes, d->stream);
    return *data ? cudaSuccess : cudaErrorMemoryAllocation;
  }
  return d->pool ? situ__cuda.MallocFromPoolAsync(data, bytes, d->pool, d->stream) : situ__cuda.Malloc(data, bytes);
}

/* When out of memory: waits, as memory that was freed behind queued work is available then, and trims, as cached pieces
   may fragment the memory. */
static cudaError_t take_or_trim(situ__cuda_device *d, size_t bytes, void **data) {
  cudaError_t error = take_block(d, bytes, data);
  if (error != cudaErrorMemoryAllocation || d->captures) return error; /* graph capture cannot wait */
  (void)situ__cuda.GetLastError();
  error = situ__cuda.StreamSynchronize(d->stream);
  if (error == cudaSuccess && d->pool) error = situ__cuda.MemPoolTrimTo(d->pool, 0);
  return error == cudaSuccess ? take_block(d, bytes, data) : error;
}

static void let_go(situ__cuda_device *d, void *data) {
  if (d->program.alloc) {
    d->program.free(d->program.payload, data, d->stream);
    return;
  }
  cudaError_t error = d->pool ? situ__cuda.FreeAsync(data, d->stream) : situ__cuda.Free(data);
  if (error != cudaSuccess) situ__cuda_lose(d, d->pool ? "cudaFreeAsync" : "cudaFree", error);
}

/* A lost device's memory is lost, too, but not what the program's allocator keeps account of. */
static void let_go_lost(int index, void *data) {
  situ__cuda_device *d = situ__cuda_enter_to_close(index);
  if (d->program.alloc) let_go(d, data);
  (void)situ__cuda_leave(d, SITU_OK);
}

cudaError_t situ__cuda_take(situ__cuda_device *d, size_t bytes, void **data) {
  cudaError_t error = take_or_trim(d, bytes, data);
  if (error != cudaSuccess || situ__cuda_add_block(d, *data, bytes)) return error;
  let_go(d, *data);
  *data = NULL;
  return cudaErrorMemoryAllocation;
}

/* Does not record an error when out of memory: the library empties its cache and retries, and knows the sizes. */
situ_status situ__cuda_alloc(int index, size_t bytes, void **data) {
  situ_status status;
  *data = NULL;
  situ__cuda_device *d = situ__cuda_enter(index, "alloc", &status);
  if (!d) return status;
  cudaError_t error = situ__cuda_take(d, bytes, data);
  if (error == cudaErrorMemoryAllocation) {
    (void)situ__cuda.GetLastError();
    status = SITU_E_NOMEM;
  } else if (error != cudaSuccess) {
    status = situ__cuda_fail(d, "alloc", "allocating", error);
  }
  if (status != SITU_OK) *data = NULL;
  return situ__cuda_leave(d, status);
}

void situ__cuda_free(int index, void *data, size_t bytes) {
  (void)bytes;
  situ__cuda_device *d = situ__cuda_enter_open(index);
  if (!d) {
    let_go_lost(index, data);
    return;
  }
  situ__cuda_remove_block(d, data);
  let_go(d, data);
  (void)situ__cuda_leave(d, SITU_OK);
}

/* Memory that was freed behind queued work can be returned once that work is complete. */
void situ__cuda_trim(int index) {
  situ__cuda_device *d = situ__cuda_enter_open(index);
  if (!d) return;
  const char *call = "cudaStreamSynchronize";
  cudaError_t error = situ__cuda.StreamSynchronize(d->stream);
  if (error == cudaSuccess && d->pool) {
    call = "cudaMemPoolTrimTo";
    error = situ__cuda.MemPoolTrimTo(d->pool, 0);
  }
  if (error != cudaSuccess) situ__cuda_lose(d, call, error);
  (void)situ__cuda_leave(d, SITU_OK);
}

cudaError_t situ__cuda_scratch(situ__cuda_device *d, size_t bytes, void **data) {
  *data = NULL;
  cudaError_t error = take_or_trim(d, bytes ? bytes : 1, data);
  if (error == cudaErrorMemoryAllocation) (void)situ__cuda.GetLastError();
  return error;
}

void *situ__cuda_target_scratch(situ__target *target, const char *op, size_t bytes) {
  situ__cuda_device *d = (situ__cuda_device *)target;
  void *data;
  const cudaError_t error = situ__cuda_scratch(d, bytes, &data);
  if (error == cudaSuccess) return data;
  if (error == cudaErrorMemoryAllocation)
    (void)situ__host->fail(SITU_E_NOMEM, op, "no memory for %zu bytes of scratch on cuda:%d", bytes, target->index);
  else (void)situ__cuda_fail(d, op, "allocating scratch", error);
  return NULL;
}

void situ__cuda_target_release(int index, void *scratch) {
  situ__cuda_device *d = scratch ? situ__cuda_enter_open(index) : NULL;
  if (!d) {
    if (scratch) let_go_lost(index, scratch);
    return;
  }
  let_go(d, scratch);
  (void)situ__cuda_leave(d, SITU_OK);
}

situ_status situ__cuda_target_clear(situ__target *target, const char *op, void *scratch, size_t bytes) {
  situ__cuda_device *d = (situ__cuda_device *)target;
  cudaError_t error = situ__cuda.MemsetAsync(scratch, 0, bytes, d->stream);
  if (error != cudaSuccess) return situ__cuda_fail(d, op, "cudaMemsetAsync", error);
  situ__cuda_queued(d, op);
  return SITU_OK;
}
