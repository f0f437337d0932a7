/* Copies from and to the host that do not wait, and pinned memory of the host. The driver copies pageable memory only
   while the caller waits, so the bytes of a copy lie in pinned memory of ours until it is complete.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cuda/cuda.h"

static const char *const copying = "copy";

/* One copy, and the pinned memory that it leaves to the next one. */
struct situ__cuda_flight {
  situ__cuda_flight *next;
  char *memory;
  size_t bytes;
  cudaEvent_t done;
  bool held;       /* its values were not taken yet */
  char *host;      /* where they are to go; NULL: they are there already */
  size_t fetched;  /* their bytes */
  uint64_t behind; /* the last op before the copy */
};

static void free_memory(situ__cuda_flight *f) {
  if (f->memory) (void)situ__cuda.FreeHost(f->memory);
  f->memory = NULL;
  f->bytes = 0;
}

void situ__cuda_close_flights(situ__cuda_device *d) {
  while (d->flights) {
    situ__cuda_flight *f = d->flights;
    d->flights = f->next;
    free_memory(f);
    (void)situ__cuda.EventDestroy(f->done);
    situ__host->free(f);
  }
}

static bool is_done(const situ__cuda_flight *f) {
  const bool done = situ__cuda.EventQuery(f->done) == cudaSuccess;
  if (!done) (void)situ__cuda.GetLastError();
  return done;
}

static situ__cuda_flight *make_flight(situ__cuda_device *d, situ_status *status) {
  situ__cuda_flight *f = situ__host->alloc(sizeof *f);
  *status = SITU_E_NOMEM;
  if (!f) return NULL;
  *f = (situ__cuda_flight){ .next = d->flights };
  const cudaError_t error = situ__cuda.EventCreateWithFlags(&f->done, cudaEventDisableTiming);
  if (error == cudaSuccess) return d->flights = f;
  *status = situ__cuda_fail(d, copying, "cudaEventCreateWithFlags", error);
  return situ__host->free(f), NULL;
}

/* One that no copy uses, with so many bytes of memory; NULL with *status. */
static situ__cuda_flight *take_flight(situ__cuda_device *d, size_t bytes, situ_status *status) {
  situ__cuda_flight *f = d->flights;
  while (f && (f->held || !is_done(f))) f = f->next;
  if (!f && !(f = make_flight(d, status))) return NULL;
  *status = SITU_OK;
  if (f->bytes >= bytes) return f;
  free_memory(f);
  const cudaError_t error = situ__cuda.HostAlloc((void **)&f->memory, bytes, cudaHostAllocPortable);
  if (error == cudaSuccess) return f->bytes = bytes, f;
  f->memory = NULL;
  return *status = situ__cuda_fail(d, copying, "cudaHostAlloc", error), NULL;
}

/* Queues a copy with its event behind all that is queued. */
static situ_status depart(situ__cuda_device *d, situ__cuda_flight *f, void *to, const void *from, size_t bytes) {
  const char *call = "cudaMemcpyAsync";
  cudaError_t error = situ__cuda.MemcpyAsync(to, from, bytes, cudaMemcpyDefault, d->stream);
  if (error == cudaSuccess) {
    situ__cuda_queued(d, copying);
    call = "cudaEventRecord";
    error = situ__cuda.EventRecord(f->done, d->stream);
  }
  return error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, copying, call, error);
}

situ_status situ__cuda_send(int index, void *data, size_t at, const void *host, size_t bytes) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, copying, &status);
  if (!d) return status;
  situ__cuda_flight *f = take_flight(d, bytes, &status);
  if (!f) return situ__cuda_leave(d, status);
  memcpy(f->memory, host, bytes);
  situ__cuda_used(d, (char *)data + at, bytes);
  return situ__cuda_leave(d, depart(d, f, (char *)data + at, f->memory, bytes));
}

situ_status situ__cuda_fetch(int index, const void *data, size_t at, void *host, size_t bytes, void **ticket) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, copying, &status);
  if (!d) return status;
  struct cudaPointerAttributes about = { .type = cudaMemoryTypeUnregistered };
  if (situ__cuda.PointerGetAttributes(&about, host) != cudaSuccess) (void)situ__cuda.GetLastError();
  const bool pinned = about.type != cudaMemoryTypeUnregistered;
  situ__cuda_flight *f = take_flight(d, pinned ? 0 : bytes, &status);
  if (!f) return situ__cuda_leave(d, status);
  f->behind = d->queued;
  f->host = pinned ? NULL : host;
  f->fetched = bytes;
  situ__cuda_used(d, (const char *)data + at, bytes);
  status = depart(d, f, pinned ? host : f->memory, (const char *)data + at, bytes);
  f->held = status == SITU_OK;
  *ticket = f;
  return situ__cuda_leave(d, status);
}

bool situ__cuda_fetched(int index, const void *ticket) {
  situ__cuda_device *d = situ__cuda_enter_open(index);
  const bool done = d && is_done(ticket);
  if (d) (void)situ__cuda_leave(d, SITU_OK);
  return done;
}

situ_status situ__cuda_fetch_end(int index, void *ticket, bool wait) {
  situ__cuda_flight *f = ticket;
  situ_status status = SITU_OK;
  situ__cuda_device *d = wait ? situ__cuda_enter(index, copying, &status) : situ__cuda_enter_to_close(index);
  if (!d) {
    d = situ__cuda_enter_to_close(index);
    f->held = false;
    return situ__cuda_leave(d, status);
  }
  const cudaError_t error = wait ? situ__cuda.EventSynchronize(f->done) : cudaSuccess;
  if (error != cudaSuccess) status = situ__cuda_give_up(d, copying, "cudaEventSynchronize", error);
  else if (wait) status = situ__cuda_check(d, copying, f->behind);
  if (wait && status == SITU_OK && f->host) memcpy(f->host, f->memory, f->fetched);
  f->held = false;
  return situ__cuda_leave(d, status);
}

/* ---- pinned memory: for all devices of CUDA ---------------------------------------------------- */

situ_status situ__cuda_pin(int index, size_t bytes, void **host, void **handle) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, "pin_memory", &status);
  if (!d) return status;
  *handle = NULL;
  const cudaError_t error = situ__cuda.HostAlloc(host, bytes, cudaHostAllocPortable);
  return situ__cuda_leave(d, error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, "pin_memory", "cudaHostAlloc", error));
}

/* No copy uses it any more: those from it are from a copy of its bytes, and one to it keeps the tensor. */
void situ__cuda_unpin(int index, void *host, void *handle) {
  (void)handle;
  situ__cuda_device *d = situ__cuda_enter_to_close(index);
  if (situ__cuda.FreeHost(host) != cudaSuccess) (void)situ__cuda.GetLastError();
  (void)situ__cuda_leave(d, SITU_OK);
}
