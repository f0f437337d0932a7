/* Maps CUDA errors to statuses, names the op that failed, and decides when a device is lost.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"

/* The failed op may be any that was queued since the device was last known to be good. */
static int name_ops(const situ__cuda_device *d, char *out, size_t size) {
  uint64_t open = d->queued - d->good;
  if (open == 0) return snprintf(out, size, "; nothing was queued");
  if (open == 1)
    return snprintf(out, size, "; in op %llu: %s", (unsigned long long)d->queued,
                    d->recent[d->good % SITU__CUDA_RECENT]);
  int used = snprintf(out, size, "; in one of the ops %llu to %llu, queued since the last good synchronisation:",
                      (unsigned long long)d->good + 1, (unsigned long long)d->queued);
  uint64_t first = open > SITU__CUDA_RECENT ? d->queued - SITU__CUDA_RECENT : d->good;
  for (uint64_t k = first; k < d->queued && used > 0 && (size_t)used < size; k++)
    used += snprintf(out + used, size - (size_t)used, "%s %s", k == first ? first > d->good ? " ..." : "" : ",",
                     d->recent[k % SITU__CUDA_RECENT]);
  return used + snprintf(out + used, (size_t)used < size ? size - (size_t)used : 0, " (SITU_SYNC=1 tells which)");
}

void situ__cuda_lose(situ__cuda_device *d, const char *call, cudaError_t error) {
  (void)situ__cuda.GetLastError(); /* clears it, so that the program's own calls do not get it */
  if (d->lost) return;
  d->lost = true;
  int used = snprintf(d->cause, sizeof d->cause, "%s: %s (%s, %d)", call, situ__cuda.GetErrorString(error),
                      situ__cuda.GetErrorName(error), (int)error);
  if (used > 0 && (size_t)used < sizeof d->cause && d->open)
    (void)name_ops(d, d->cause + used, sizeof d->cause - (size_t)used);
}

situ_status situ__cuda_lost(const situ__cuda_device *d, const char *op) {
  return situ__host->fail(SITU_E_LOST, op, "cuda:%d is lost: %s", d->target.index, d->cause);
}

situ_status situ__cuda_give_up(situ__cuda_device *d, const char *op, const char *call, cudaError_t error) {
  situ__cuda_lose(d, call, error);
  return situ__cuda_lost(d, op);
}

/* Errors of calls that were refused before anything was done, which leave the device as it was. All others lose the
   device. */
static situ_status harmless(cudaError_t error) {
  switch (error) {
  case cudaErrorMemoryAllocation: return SITU_E_NOMEM;
  case cudaErrorInvalidDeviceFunction:
  case cudaErrorNoKernelImageForDevice:
  case cudaErrorInvalidKernelImage:
  case cudaErrorUnsupportedPtxVersion:
  case cudaErrorInvalidPtx:
  case cudaErrorSymbolNotFound:
  case cudaErrorLaunchOutOfResources:
  case cudaErrorInvalidConfiguration:
  case cudaErrorStreamCaptureUnsupported: /* a graph that cannot be captured: none of it has run */
  case cudaErrorStreamCaptureInvalidated: return SITU_E_UNSUPPORTED;
  default: return SITU_E_LOST;
  }
}

situ_status situ__cuda_fail(situ__cuda_device *d, const char *op, const char *call, cudaError_t error) {
  situ_status status = harmless(error);
  if (status == SITU_E_LOST || d->lost) return situ__cuda_give_up(d, op, call, error);
  (void)situ__cuda.GetLastError();
  return situ__host->fail(status, op, "cuda:%d: %s: %s (%s, %d)", d->target.index, call,
                          situ__cuda.GetErrorString(error), situ__cuda.GetErrorName(error), (int)error);
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* A fault may still be being written while later ops run: it is read when they are complete. */
situ_status situ__cuda_check(situ__cuda_device *d, const char *op, uint64_t done) {
  if (done > d->good) d->good = done;
  if (!d->unchecked) return SITU_OK;
  const bool all = d->good == d->queued;
  if (!__atomic_load_n(&d->fault->raised, __ATOMIC_RELAXED)) {
    d->unchecked = !all;
    return SITU_OK;
  }
  if (!all) return situ__cuda_wait(d, op);
  const fault seen = *d->fault;
  d->unchecked = false;
  *d->fault = (fault){ 0 };
  return situ__lower_tell("cuda", d->target.index, &seen);
}

situ_status situ__cuda_wait(situ__cuda_device *d, const char *op) {
  cudaError_t error = situ__cuda.StreamSynchronize(d->stream);
  return error == cudaSuccess ? situ__cuda_check(d, op, d->queued)
                              : situ__cuda_give_up(d, op, "cudaStreamSynchronize", error);
}

static bool each_step;
static void read_setting(void) {
  const char *text = secure_getenv("SITU_SYNC");
  each_step = text && strcmp(text, "1") == 0;
}

situ_status situ__cuda_step(situ__cuda_device *d, const char *op) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, read_setting);
  return each_step && !d->captures ? situ__cuda_wait(d, op) : SITU_OK;
}
