/* Copies between the host and CUDA devices, in the order of each device's stream.

   The driver copies from and to pinned memory only. A copy of pageable memory passes through ours in pieces: while one is on
   its way, the next is filled or emptied. A copy in that fits is not waited for at all.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cuda/cuda.h"

static const char *const copying = "copy";

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* ---- staging -------------------------------------------------------------------------------- */

static void close_stage(situ__cuda_stage *s) {
  for (int k = 0; k < SITU__CUDA_CHUNKS; k++)
    if (s->passed[k]) (void)situ__cuda.EventDestroy(s->passed[k]);
  if (s->memory) (void)situ__cuda.FreeHost(s->memory);
  *s = (situ__cuda_stage){ 0 };
}

static situ_status open_stage(situ__cuda_device *d, situ__cuda_stage *s, int chunks) {
  if (s->memory) return SITU_OK;
  const char *call = "cudaHostAlloc";
  cudaError_t error = situ__cuda.HostAlloc(
      (void **)&s->memory, (size_t)SITU__CUDA_CHUNK * (size_t)chunks, cudaHostAllocPortable);
  if (error != cudaSuccess) s->memory = NULL;
  for (int k = 0; error == cudaSuccess && k < chunks; k++) {
    call = "cudaEventCreateWithFlags";
    error = situ__cuda.EventCreateWithFlags(&s->passed[k], cudaEventDisableTiming);
    if (error != cudaSuccess) s->passed[k] = NULL;
  }
  if (error == cudaSuccess) return SITU_OK;
  close_stage(s);
  return situ__cuda_fail(d, copying, call, error);
}

static char *chunk_of(const situ__cuda_stage *s, int chunk) {
  return s->memory + (size_t)chunk * SITU__CUDA_CHUNK;
}

/* Room for a piece of at most a chunk. A chunk is used again once the copies out of it have passed: with small pieces that
   is thousands of calls later, and waits for nobody. */
static situ_status room_in(situ__cuda_device *d, size_t bytes, char **room) {
  enum { ALIGN = 64 };
  situ__cuda_stage *s = &d->in;
  if (bytes > SITU__CUDA_CHUNK - s->filled) {
    cudaError_t error = situ__cuda.EventRecord(s->passed[s->chunk], d->stream);
    const int next = (s->chunk + 1) % SITU__CUDA_CHUNKS;
    if (error == cudaSuccess) error = situ__cuda.EventSynchronize(s->passed[next]);
    if (error != cudaSuccess) return situ__cuda_fail(d, copying, "waiting for a copy", error);
    s->chunk = next;
    s->filled = 0;
  }
  *room = chunk_of(s, s->chunk) + s->filled;
  s->filled += (bytes + ALIGN - 1) / ALIGN * ALIGN;
  return SITU_OK;
}

/* Pageable memory is what CUDA has not been told of. */
static situ_status is_pinned(situ__cuda_device *d, const void *host, bool *pinned) {
  struct cudaPointerAttributes about = { .type = cudaMemoryTypeUnregistered };
  cudaError_t error = situ__cuda.PointerGetAttributes(&about, host);
  *pinned = about.type != cudaMemoryTypeUnregistered;
  return error == cudaSuccess ? SITU_OK
                              : situ__cuda_fail(d, copying, "cudaPointerGetAttributes", error);
}

static situ_status queue(situ__cuda_device *d, void *to, const void *from, size_t bytes,
                         enum cudaMemcpyKind kind) {
  cudaError_t error = situ__cuda.MemcpyAsync(to, from, bytes, kind, d->stream);
  if (error != cudaSuccess) return situ__cuda_fail(d, copying, "cudaMemcpyAsync", error);
  situ__cuda_queued(d, copying);
  return SITU_OK;
}

/* ---- in ------------------------------------------------------------------------------------- */

static situ_status staged_in(situ__cuda_device *d, char *to, const char *host, size_t bytes) {
  situ_status status = open_stage(d, &d->in, SITU__CUDA_CHUNKS);
  for (size_t done = 0; status == SITU_OK && done < bytes;) {
    size_t part = least(bytes - done, SITU__CUDA_CHUNK);
    char *room = NULL;
    status = room_in(d, part, &room);
    if (status != SITU_OK) break;
    memcpy(room, host + done, part);
    status = queue(d, to + done, room, part, cudaMemcpyHostToDevice);
    done += part;
  }
  return status;
}

/* The host may use its memory again at return. What kernels met before is told by who reads. */
static situ_status direct_in(situ__cuda_device *d, char *to, const char *host, size_t bytes) {
  situ_status status = queue(d, to, host, bytes, cudaMemcpyHostToDevice);
  if (status != SITU_OK) return status;
  cudaError_t error = situ__cuda.StreamSynchronize(d->stream);
  return error == cudaSuccess ? SITU_OK
                              : situ__cuda_fail(d, copying, "cudaStreamSynchronize", error);
}

situ_status situ__cuda_copy_in(int index, void *data, size_t at, const void *host, size_t bytes) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, copying, &status);
  if (!d) return status;
  bool pinned = false;
  char *to = (char *)data + at;
  if (bytes > SITU__CUDA_CHUNK) status = is_pinned(d, host, &pinned);
  if (status == SITU_OK && pinned) {
    status = direct_in(d, to, host, bytes);
  } else if (status == SITU_OK) {
    status = staged_in(d, to, host, bytes);
    if (status == SITU_OK) status = situ__cuda_step(d, copying);
  }
  return situ__cuda_leave(d, status);
}

/* ---- out ------------------------------------------------------------------------------------ */

/* Queues a piece into its chunk, and an event behind it. */
static situ_status fetch(situ__cuda_device *d, int chunk, const char *from, size_t bytes) {
  situ_status status = queue(d, chunk_of(&d->out, chunk), from, bytes, cudaMemcpyDeviceToHost);
  if (status != SITU_OK) return status;
  cudaError_t error = situ__cuda.EventRecord(d->out.passed[chunk], d->stream);
  return error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, copying, "cudaEventRecord", error);
}

/* The host's memory is written only once it is known that what was queued before did no harm. */
static situ_status staged_out(situ__cuda_device *d, const char *from, char *host, size_t bytes) {
  situ_status status = open_stage(d, &d->out, 2);
  if (status == SITU_OK) status = fetch(d, 0, from, least(bytes, SITU__CUDA_CHUNK));
  int chunk = 0;
  for (size_t done = 0; status == SITU_OK && done < bytes; chunk ^= 1) {
    size_t part = least(bytes - done, SITU__CUDA_CHUNK), next = done + part;
    if (next < bytes)
      status = fetch(d, chunk ^ 1, from + next, least(bytes - next, SITU__CUDA_CHUNK));
    if (status != SITU_OK) break;
    cudaError_t error = situ__cuda.EventSynchronize(d->out.passed[chunk]);
    if (error != cudaSuccess) return situ__cuda_fail(d, copying, "cudaEventSynchronize", error);
    if (done == 0) status = situ__cuda_check(d);
    if (status == SITU_OK) memcpy(host + done, chunk_of(&d->out, chunk), part);
    done = next;
  }
  if (status == SITU_OK) d->good = d->queued;
  return status;
}

situ_status situ__cuda_copy_out(int index, const void *data, size_t at, void *host, size_t bytes) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, copying, &status);
  if (!d) return status;
  bool pinned = false;
  const char *from = (const char *)data + at;
  if (bytes > SITU__CUDA_CHUNK) status = is_pinned(d, host, &pinned);
  if (status == SITU_OK && pinned) {
    if (d->unchecked) status = situ__cuda_wait(d, copying);
    if (status == SITU_OK) status = queue(d, host, from, bytes, cudaMemcpyDeviceToHost);
    if (status == SITU_OK) status = situ__cuda_wait(d, copying);
  } else if (status == SITU_OK) {
    status = staged_out(d, from, host, bytes);
  }
  return situ__cuda_leave(d, status);
}

situ_status situ__cuda_synchronize(int index) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, "synchronize", &status);
  return d ? situ__cuda_leave(d, situ__cuda_wait(d, "synchronize")) : status;
}
