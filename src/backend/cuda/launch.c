/* Kernel launches: loads the compiled kernels once, finds them by their variant, and queues them.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/cuda.h"
#include "backend/cuda/range.h"

/* ---- loading -------------------------------------------------------------------------------- */

/* One library serves all devices: the driver loads a device's code at first use. */
static situ_status load(situ__cuda_device *d, const situ__call *call, cudaLibrary_t *out) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static cudaLibrary_t libraries[SITU__TEXT_COUNT];
  const situ__kernel_text text = (situ__kernel_text)call->variant.text;
  pthread_mutex_lock(&lock);
  cudaLibrary_t *library = &libraries[text];
  cudaError_t error = cudaSuccess;
  if (!*library) error = situ__cuda.LibraryLoadData(library, situ__cuda_kernels(text), NULL, NULL, 0, NULL, NULL, 0);
  if (error != cudaSuccess) *library = NULL;
  *out = *library;
  pthread_mutex_unlock(&lock);
  return error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, call->op, "cudaLibraryLoadData", error);
}

static situ_status find_kernel(situ__cuda_device *d, const situ__call *call, void **out) {
  *out = situ__table_find(&d->kernels, &call->variant);
  if (*out) return SITU_OK;
  cudaLibrary_t library;
  situ_status status = load(d, call, &library);
  if (status != SITU_OK) return status;
  char name[SITU__CALL_NAME];
  situ__lower_name(call, name);
  cudaKernel_t kernel = NULL;
  cudaError_t error = situ__cuda.LibraryGetKernel(&kernel, library, name);
  if (error == cudaErrorSymbolNotFound) {
    (void)situ__cuda.GetLastError();
    return situ__host->fail(SITU_E_UNSUPPORTED, call->op,
                            "this build of situ has no CUDA kernel %s: src/backend/lower/list does "
                            "not ask for it",
                            name);
  }
  if (error != cudaSuccess) return situ__cuda_fail(d, call->op, name, error);
  if (!situ__table_add(&d->kernels, &call->variant, kernel))
    return situ__host->fail(SITU_E_NOMEM, call->op, "no memory for the kernel %s", name);
  *out = kernel;
  return SITU_OK;
}

/* ---- queueing ------------------------------------------------------------------------------- */

enum { GROUPS_MAX = 0x7fffffff, ARGUMENTS = SITU__CALL_BUFFERS + SITU__CALL_BLOCKS + 1 };

situ_status situ__cuda_target_launch(situ__target *target, const situ__call *call, int64_t groups) {
  situ__cuda_device *d = (situ__cuda_device *)target;
  void *kernel;
  situ_status status = find_kernel(d, call, &kernel);
  if (status != SITU_OK) return status;
  if (groups > GROUPS_MAX)
    return situ__host->fail(SITU_E_UNSUPPORTED, call->op,
                            "%lld groups of work-items are more than cuda:%d takes at once", (long long)groups,
                            target->index);
  void *argument[ARGUMENTS]; /* CUDA copies the arguments before it returns */
  int count = 0;
  for (int k = 0; k < call->buffers; k++) {
    argument[count++] = (void *)(uintptr_t)&call->buffer[k];
    situ__cuda_used(d, call->buffer[k], 1);
  }
  for (int k = 0; k < call->touches; k++) situ__cuda_used(d, call->touched[k], 1);
  for (int k = 0; k < call->blocks; k++) argument[count++] = (void *)(uintptr_t)call->block[k].data;
  if (call->checks) argument[count++] = &d->fault;
  const struct dim3 grid = { (unsigned)groups, 1, 1 }, block = { call->alone ? 1 : (unsigned)target->group, 1, 1 };
  situ__cuda_range_begin(call->op);
  cudaError_t error = situ__cuda.LaunchKernel(kernel, grid, block, argument, 0, d->stream);
  situ__cuda_range_end();
  if (error != cudaSuccess) return situ__cuda_fail(d, call->op, "cudaLaunchKernel", error);
  situ__cuda_queued(d, call->op);
  d->unchecked = d->unchecked || call->checks;
  return situ__cuda_step(d, call->op);
}
