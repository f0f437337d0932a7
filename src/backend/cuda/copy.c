/* Copies between the host and CUDA devices, in the order of each device's stream.
   
   The driver copies from and to pinned memory only. A copy of pageable memory is staged through our pinned memory in
   pieces: while one is in flight, the next is filled or emptied. A copy in that fits into the stage returns without
   waiting.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cuda/cuda.h"

static const char *const copying = "copy";

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Several threads fill a stage, as one is slower than the bus. */
typedef struct bytes_to_copy {
  char *to;
  const char *from;
} bytes_to_copy;

static void copy_some(int64_t begin, int64_t end, void *payload) {
  const bytes_to_copy *c = payload;
  memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static void copy_bytes(char *to, const char *from, size_t bytes) {
  enum { GRAIN = 512 << 10 };
  situ__host->parallel((int64_t)bytes, GRAIN, copy_some, &(bytes_to_copy){ to, from });
}

/* ---- staging -------------------------------------------------------------------------------- */

static void close_stage(situ__cuda_stage *s) {
  for (int k = 0; k < SITU__CUDA_CHUNKS; k++)
    if (s->passed[k]) (void)situ__cuda.EventDestroy(s->passed[k]);
  if (s->memory) (void)situ__cuda.FreeHost(s->memory);
  *s = (situ__cuda_stage){ 0 };
}

void situ__cuda_close_stages(situ__cuda_device *d) {
  close_stage(&d->small);
  close_stage(&d->large);
  close_stage(&d->out);
}

static situ_status open_stage(situ__cuda_device *d, situ__cuda_stage *s, int chunks) {
  if (s->memory) return SITU_OK;
  const char *call = "cudaHostAlloc";
  cudaError_t error =
      situ__cuda.HostAlloc((void **)&s->memory, (size_t)SITU__CUDA_CHUNK * (size_t)chunks, cudaHostAllocPortable);
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

static char *chunk_of(const situ__cuda_stage *s, int chunk) { return s->memory + (size_t)chunk * SITU__CUDA_CHUNK; }

/* Ends the current chunk: it may be reused once its copies are complete. */
static situ_status finish_chunk(situ__cuda_device *d, situ__cuda_stage *s, cudaStream_t stream) {
  cudaError_t error = situ__cuda.EventRecord(s->passed[s->chunk], stream);
  if (error != cudaSuccess) return situ__cuda_fail(d, copying, "cudaEventRecord", error);
  s->chunk = (s->chunk + 1) % SITU__CUDA_CHUNKS;
  s->filled = 0;
  return SITU_OK;
}

/* Reserves a piece of at most one chunk. With small pieces a chunk is reused thousands of calls later, when its copies
   are long complete. */
static situ_status reserve_piece(situ__cuda_device *d, situ__cuda_stage *s, size_t bytes, char **piece) {
  enum { ALIGN = 64 };
  situ_status status = SITU_OK;
  if (bytes > SITU__CUDA_CHUNK - s->filled) status = finish_chunk(d, s, d->stream);
  if (status != SITU_OK) return status;
  cudaError_t error = s->filled ? cudaSuccess : situ__cuda.EventSynchronize(s->passed[s->chunk]);
  if (error != cudaSuccess) return situ__cuda_give_up(d, copying, "cudaEventSynchronize", error);
  *piece = chunk_of(s, s->chunk) + s->filled;
  s->filled += (bytes + ALIGN - 1) / ALIGN * ALIGN;
  return SITU_OK;
}

/* Memory is pageable if CUDA does not know it. */
static situ_status is_pinned(situ__cuda_device *d, const void *host, bool *pinned) {
  struct cudaPointerAttributes about = { .type = cudaMemoryTypeUnregistered };
  cudaError_t error = situ__cuda.PointerGetAttributes(&about, host);
  *pinned = about.type != cudaMemoryTypeUnregistered;
  return error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, copying, "cudaPointerGetAttributes", error);
}

static situ_status queue_copy(situ__cuda_device *d, cudaStream_t stream, void *to, const void *from, size_t bytes,
                              enum cudaMemcpyKind kind) {
  if (d->adopted) kind = cudaMemcpyDefault; /* the program's memory may be the host's */
  cudaError_t error = situ__cuda.MemcpyAsync(to, from, bytes, kind, stream);
  return error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, copying, "cudaMemcpyAsync", error);
}

/* ---- host to device ------------------------------------------------------------------------- */

/* Large copies have their own stage: in the stage of small copies, waiting for a free chunk would wait for the ops
   between them. */
static situ_status staged_in(situ__cuda_device *d, cudaStream_t stream, char *to, const char *host, size_t bytes) {
  const bool large = bytes > SITU__CUDA_CHUNK;
  situ__cuda_stage *s = large ? &d->large : &d->small;
  situ_status status = open_stage(d, s, SITU__CUDA_CHUNKS);
  for (size_t done = 0; status == SITU_OK && done < bytes;) {
    size_t part = least(bytes - done, SITU__CUDA_CHUNK);
    char *piece = NULL;
    status = reserve_piece(d, s, part, &piece);
    if (status != SITU_OK) break;
    copy_bytes(piece, host + done, part);
    status = queue_copy(d, stream, to + done, piece, part, cudaMemcpyHostToDevice);
    if (status == SITU_OK && large) status = finish_chunk(d, s, stream);
    done += part;
  }
  return status;
}

/* Waits, so that the caller may reuse its memory. Errors of earlier kernels are reported by later reads. */
static situ_status direct_in(situ__cuda_device *d, cudaStream_t stream, char *to, const char *host, size_t bytes) {
  situ_status status = queue_copy(d, stream, to, host, bytes, cudaMemcpyHostToDevice);
  if (status != SITU_OK) return status;
  cudaError_t error = situ__cuda.StreamSynchronize(stream);
  return error == cudaSuccess ? SITU_OK : situ__cuda_give_up(d, copying, "cudaStreamSynchronize", error);
}

/* A small copy is queued in order, as an op. A large one need not wait for ops that do not use its memory. */
static situ_status copy_in(situ__cuda_device *d, void *data, size_t at, const char *host, size_t bytes) {
  bool pinned = false;
  char *to = (char *)data + at;
  situ__cuda_way way = { d->stream, d->queued };
  situ_status status = SITU_OK;
  cudaError_t error = cudaSuccess;
  if (bytes > SITU__CUDA_CHUNK) {
    status = is_pinned(d, host, &pinned);
    if (status == SITU_OK) error = situ__cuda_aside(d, d->order.in, data, &way);
    if (error != cudaSuccess) status = situ__cuda_fail(d, copying, "cudaStreamWaitEvent", error);
  }
  if (status == SITU_OK)
    status = pinned ? direct_in(d, way.stream, to, host, bytes) : staged_in(d, way.stream, to, host, bytes);
  /* Also after a copy that failed half-way: ops must not use the memory while the first half is still being written. */
  error = situ__cuda_join(d, &way);
  if (error != cudaSuccess && status == SITU_OK) status = situ__cuda_give_up(d, copying, "waiting for a copy", error);
  situ__cuda_used(d, to, bytes);
  situ__cuda_queued(d, copying);
  return status;
}

situ_status situ__cuda_copy_in(int index, void *data, size_t at, const void *host, size_t bytes) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, copying, &status);
  if (!d) return status;
  status = copy_in(d, data, at, host, bytes);
  if (status == SITU_OK) status = situ__cuda_step(d, copying);
  return situ__cuda_leave(d, status);
}

/* ---- device to host ------------------------------------------------------------------------- */

/* Queues a piece's copy into its chunk, then an event. */
static situ_status fetch(situ__cuda_device *d, cudaStream_t stream, int chunk, const char *from, size_t bytes) {
  situ_status status = queue_copy(d, stream, chunk_of(&d->out, chunk), from, bytes, cudaMemcpyDeviceToHost);
  if (status != SITU_OK) return status;
  cudaError_t error = situ__cuda.EventRecord(d->out.passed[chunk], stream);
  return error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, copying, "cudaEventRecord", error);
}

/* Writes the host's memory only after all earlier ops were checked for errors. */
static situ_status staged_out(situ__cuda_device *d, const situ__cuda_way *way, const char *from, char *host,
                              size_t bytes) {
  situ_status status = open_stage(d, &d->out, 2);
  if (status == SITU_OK) status = fetch(d, way->stream, 0, from, least(bytes, SITU__CUDA_CHUNK));
  int chunk = 0;
  for (size_t done = 0; status == SITU_OK && done < bytes; chunk ^= 1) {
    size_t part = least(bytes - done, SITU__CUDA_CHUNK), next = done + part;
    if (next < bytes) status = fetch(d, way->stream, chunk ^ 1, from + next, least(bytes - next, SITU__CUDA_CHUNK));
    if (status != SITU_OK) break;
    cudaError_t error = situ__cuda.EventSynchronize(d->out.passed[chunk]);
    if (error != cudaSuccess) return situ__cuda_give_up(d, copying, "cudaEventSynchronize", error);
    if (done == 0) status = situ__cuda_check(d, copying, way->behind);
    if (status == SITU_OK) copy_bytes(host + done, chunk_of(&d->out, chunk), part);
    done = next;
  }
  return status;
}

static situ_status direct_out(situ__cuda_device *d, const situ__cuda_way *way, const char *from, char *host,
                              size_t bytes) {
  situ_status status = d->unchecked ? situ__cuda_wait(d, copying) : SITU_OK;
  if (status == SITU_OK) status = queue_copy(d, way->stream, host, from, bytes, cudaMemcpyDeviceToHost);
  if (status != SITU_OK) return status;
  cudaError_t error = situ__cuda.StreamSynchronize(way->stream);
  return error == cudaSuccess ? situ__cuda_check(d, copying, way->behind)
                              : situ__cuda_give_up(d, copying, "cudaStreamSynchronize", error);
}

situ_status situ__cuda_copy_out(int index, const void *data, size_t at, void *host, size_t bytes) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, copying, &status);
  if (!d) return status;
  bool pinned = false;
  const char *from = (const char *)data + at;
  situ__cuda_way way;
  cudaError_t error = situ__cuda_aside(d, d->order.out, data, &way);
  if (error != cudaSuccess) return situ__cuda_leave(d, situ__cuda_fail(d, copying, "cudaStreamWaitEvent", error));
  if (bytes > SITU__CUDA_CHUNK) status = is_pinned(d, host, &pinned);
  if (status == SITU_OK)
    status = pinned ? direct_out(d, &way, from, host, bytes) : staged_out(d, &way, from, host, bytes);
  return situ__cuda_leave(d, status);
}

situ_status situ__cuda_synchronize(int index) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, "synchronize", &status);
  return d ? situ__cuda_leave(d, situ__cuda_wait(d, "synchronize")) : status;
}
