/* Copies between two CUDA devices. The driver reports whether they can access each other's memory, but on some machines
   it is wrong (virtual machines and some chip sets lose or garble such writes): it is trusted only after a known
   pattern arrived.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cuda/cuda.h"

static const char *const copying = "copy";

typedef enum route { UNKNOWN, DIRECT, STAGED } route;
static route routes[SITU__CUDA_DEVICES][SITU__CUDA_DEVICES]; /* [to][from] */
static pthread_mutex_t trying = PTHREAD_MUTEX_INITIALIZER;   /* held during a test; the table is read without it */

/* ---- copying -------------------------------------------------------------------------------- */

/* Makes later ops of either device wait for the other's earlier ops. Holds one lock at a time, to avoid deadlock; if
   another thread has recorded the event again meanwhile, this only waits for more. */
static situ_status wait_for(int index, const void *data, size_t bytes, cudaEvent_t *event, const cudaEvent_t *other) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, copying, &status);
  if (!d) return status;
  const char *call = "cudaStreamWaitEvent";
  cudaError_t error = other ? situ__cuda.StreamWaitEvent(d->stream, *other, 0) : cudaSuccess;
  if (other && error == cudaSuccess) {
    situ__cuda_used(d, data, bytes);
    situ__cuda_queued(d, copying);
  }
  if (error == cudaSuccess && event) {
    call = "cudaEventRecord";
    error = situ__cuda.EventRecord(d->here, d->stream);
    *event = d->here;
  }
  return situ__cuda_leave(d, error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, copying, call, error));
}

/* Queued copies that the source's device does not wait for: its memory must not be reused meanwhile. */
static void let_pass(int index) {
  situ__cuda_device *d = situ__cuda_enter_open(index);
  if (!d) return;
  cudaError_t error = situ__cuda.StreamSynchronize(d->stream);
  if (error != cudaSuccess) situ__cuda_lose(d, "cudaStreamSynchronize", error);
  (void)situ__cuda_leave(d, SITU_OK);
}

static situ_status direct(int to, char *dst, int from, const char *src, size_t bytes) {
  cudaEvent_t ready, done;
  situ_status status = wait_for(from, src, bytes, &ready, NULL);
  if (status == SITU_OK) status = wait_for(to, dst, bytes, NULL, &ready);
  if (status != SITU_OK) return status;
  situ__cuda_device *d = situ__cuda_enter(to, copying, &status);
  if (!d) return status;
  const int other = situ__cuda_entered(from)->ordinal;
  const bool same = d->ordinal == other;
  situ__cuda_used(d, dst, bytes);
  cudaError_t error = same ? situ__cuda.MemcpyAsync(dst, src, bytes, cudaMemcpyDefault, d->stream)
                           : situ__cuda.MemcpyPeerAsync(dst, d->ordinal, src, other, bytes, d->stream);
  if (error == cudaSuccess) situ__cuda_queued(d, copying);
  const char *call = same ? "cudaMemcpyAsync" : "cudaMemcpyPeerAsync";
  status = error == cudaSuccess ? situ__cuda_step(d, copying) : situ__cuda_fail(d, copying, call, error);
  (void)situ__cuda_leave(d, status);
  if (status == SITU_OK) status = wait_for(to, dst, bytes, &done, NULL);
  if (status == SITU_OK) status = wait_for(from, src, bytes, NULL, &done);
  if (status != SITU_OK) let_pass(to);
  return status;
}

static situ_status staged(int to, char *dst, int from, const char *src, size_t bytes) {
  char *stage = situ__host->alloc(SITU__CUDA_CHUNK);
  if (!stage) return situ__host->fail(SITU_E_NOMEM, copying, "no memory for %d bytes on the host", SITU__CUDA_CHUNK);
  situ_status status = SITU_OK;
  for (size_t done = 0; status == SITU_OK && done < bytes;) {
    size_t part = bytes - done < SITU__CUDA_CHUNK ? bytes - done : SITU__CUDA_CHUNK;
    status = situ__cuda_copy_out(from, src, done, stage, part);
    if (status == SITU_OK) status = situ__cuda_copy_in(to, dst, done, stage, part);
    done += part;
  }
  situ__host->free(stage);
  return status;
}

/* ---- choosing the route --------------------------------------------------------------------- */

/* Lets CUDA's device `user` access owner's memory. */
static cudaError_t allow(const situ__cuda_device *owner, int user) {
  if (!owner->pool) {
    cudaError_t error = situ__cuda.SetDevice(user);
    if (error == cudaSuccess) error = situ__cuda.DeviceEnablePeerAccess(owner->ordinal, 0);
    (void)situ__cuda.GetLastError();
    (void)situ__cuda.SetDevice(owner->ordinal);
    return error == cudaErrorPeerAccessAlreadyEnabled ? cudaSuccess : error;
  }
  const struct cudaMemAccessDesc access = { .location = { .type = cudaMemLocationTypeDevice, .id = user },
                                            .flags = cudaMemAccessFlagsProtReadWrite };
  return situ__cuda.MemPoolSetAccess(owner->pool, &access, 1);
}

/* Sets *may if both may access the other's memory; that they may not is not an error. */
static situ_status connected(int to, int from, bool *may) {
  const int end[] = { to, from };
  *may = true;
  for (int k = 0; k < 2 && *may; k++) {
    int can = 0;
    situ_status status;
    situ__cuda_device *owner = situ__cuda_enter(end[k], copying, &status);
    if (!owner) return status;
    const int user = situ__cuda_entered(end[1 - k])->ordinal;
    cudaError_t error = situ__cuda.DeviceCanAccessPeer(&can, user, owner->ordinal);
    if (error == cudaSuccess && can) error = allow(owner, user);
    if (error != cudaSuccess) (void)situ__cuda.GetLastError();
    (void)situ__cuda_leave(owner, SITU_OK);
    *may = error == cudaSuccess && can;
  }
  return SITU_OK;
}

enum { PATTERN = 64 << 10 };

/* Checks whether a pattern arrives. Sets *arrived only if both devices answered. */
static situ_status pattern_arrives(int to, void *dst, int from, void *src, unsigned char *pattern, bool *arrived) {
  unsigned char *seen = pattern + PATTERN;
  for (int k = 0; k < PATTERN; k++) pattern[k] = (unsigned char)(k * 31 + k / 251 + 7);
  memset(seen, 0, PATTERN);
  situ_status status = situ__cuda_copy_in(to, dst, 0, seen, PATTERN);
  if (status == SITU_OK) status = situ__cuda_copy_in(from, src, 0, pattern, PATTERN);
  if (status == SITU_OK) status = direct(to, dst, from, src, PATTERN);
  if (status == SITU_OK) status = situ__cuda_copy_out(to, dst, 0, seen, PATTERN);
  *arrived = status == SITU_OK && memcmp(pattern, seen, PATTERN) == 0;
  return status;
}

/* Allocates memory for the test. If memory is not available, *data stays NULL, which is not an error. */
static situ_status take_test_memory(int index, void **data) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, copying, &status);
  if (!d) return status;
  cudaError_t error = situ__cuda_take(d, PATTERN, data);
  if (error == cudaErrorMemoryAllocation) (void)situ__cuda.GetLastError();
  else if (error != cudaSuccess) status = situ__cuda_fail(d, copying, "allocating", error);
  return situ__cuda_leave(d, status);
}

/* Tests the route between two devices. If memory for the test is not available, this copy is staged and the next one
   tests again. */
static situ_status test_route(int to, int from, route *found) {
  bool may, arrived = false;
  *found = STAGED;
  situ_status status = connected(to, from, &may);
  if (status != SITU_OK || !may) return status;
  void *dst = NULL, *src = NULL;
  unsigned char *pattern = situ__host->alloc(2 * PATTERN);
  status = take_test_memory(to, &dst);
  if (status == SITU_OK) status = take_test_memory(from, &src);
  if (status == SITU_OK && dst && src && pattern) {
    status = pattern_arrives(to, dst, from, src, pattern, &arrived);
    *found = arrived ? DIRECT : STAGED;
  } else {
    *found = UNKNOWN;
  }
  if (dst) situ__cuda_free(to, dst, PATTERN);
  if (src) situ__cuda_free(from, src, PATTERN);
  situ__host->free(pattern);
  return status;
}

void situ__cuda_forget_routes(int index) {
  for (int k = 0; k < SITU__CUDA_DEVICES; k++) {
    __atomic_store_n(&routes[index][k], UNKNOWN, __ATOMIC_RELEASE);
    __atomic_store_n(&routes[k][index], UNKNOWN, __ATOMIC_RELEASE);
  }
}

/* Two streams of one device need no route. */
static situ_status route_of(int to, int from, route *way) {
  *way = __atomic_load_n(&routes[to][from], __ATOMIC_ACQUIRE);
  if (situ__cuda_entered(to)->ordinal == situ__cuda_entered(from)->ordinal) *way = DIRECT;
  if (*way != UNKNOWN) return SITU_OK;
  pthread_mutex_lock(&trying);
  situ_status status = SITU_OK;
  *way = routes[to][from];
  if (*way == UNKNOWN) {
    status = test_route(to, from, way);
    if (status == SITU_OK) __atomic_store_n(&routes[to][from], *way, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&trying);
  return status;
}

static situ_status within(int index, char *dst, const char *src, size_t bytes) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, copying, &status);
  if (!d) return status;
  situ__cuda_used(d, dst, bytes);
  situ__cuda_used(d, src, bytes);
  cudaError_t error = situ__cuda.MemcpyAsync(dst, src, bytes, cudaMemcpyDefault, d->stream);
  if (error == cudaSuccess) situ__cuda_queued(d, copying);
  return situ__cuda_leave(d, error == cudaSuccess ? situ__cuda_step(d, copying)
                                                  : situ__cuda_fail(d, copying, "cudaMemcpyAsync", error));
}

situ_status situ__cuda_copy_peer(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at,
                                 size_t bytes) {
  char *into = (char *)dst + dst_at;
  const char *out = (const char *)src + src_at;
  if (to == from) return within(to, into, out, bytes);
  route way;
  situ_status status = route_of(to, from, &way);
  if (status != SITU_OK) return status;
  return way == DIRECT ? direct(to, into, from, out, bytes) : staged(to, into, from, out, bytes);
}
