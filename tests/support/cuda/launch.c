/* The double's kernels: the very texts that nvcc compiles, compiled for the host (emulate.h).
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "support/cuda/double.h"
#include "support/cuda/emulate.h"

enum { KERNELS = 8192, ARGUMENTS = 32 };

struct CUlib_st {
  int kernels;
};
struct CUkern_st {
  char name[128];
  int parameters;
  size_t size[ARGUMENTS];
};

CUDA_DOUBLE_API cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code, enum cudaJitOption *options,
                                                void **values, unsigned count, enum cudaLibraryOption *more,
                                                void **more_values, unsigned more_count) {
  BEGIN("cudaLibraryLoadData");
  (void)options, (void)values, (void)count, (void)more, (void)more_values, (void)more_count;
  struct CUlib_st *library = code ? calloc(1, sizeof *library) : NULL;
  if (!library) return double_end(cudaErrorInvalidKernelImage);
  cuda_double_state()->libraries++;
  *out = (cudaLibrary_t)library;
  return double_end(cudaSuccess);
}

/* Kernels live as long as their library, which is to the end. */
CUDA_DOUBLE_API cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t library, const char *name) {
  BEGIN("cudaLibraryGetKernel");
  static struct CUkern_st *known[KERNELS];
  int *count = &((struct CUlib_st *)library)->kernels;
  for (int k = 0; k < *count; k++) {
    if (strcmp(known[k]->name, name) != 0) continue;
    *out = (cudaKernel_t)known[k];
    return double_end(cudaSuccess);
  }
  struct CUkern_st *kernel = *count < KERNELS ? calloc(1, sizeof *kernel) : NULL;
  if (!kernel) return double_end(cudaErrorMemoryAllocation);
  strncpy(kernel->name, name, sizeof kernel->name - 1);
  kernel->parameters = situ_emulate_parameters(name, kernel->size);
  if (kernel->parameters < 0) {
    free(kernel);
    return double_end(cudaErrorSymbolNotFound);
  }
  known[(*count)++] = kernel;
  *out = (cudaKernel_t)kernel;
  return double_end(cudaSuccess);
}

bool double_run_kernel(const double_task *task) {
  return situ_emulate(task->kernel, task->groups, task->lanes, (void **)(uintptr_t)task->argument);
}

/* What the arguments point to is the caller's again at return: it is copied behind the task. */
static cudaError_t queue(const struct CUkern_st *kernel, unsigned groups, unsigned lanes, void **arguments,
                         cudaStream_t stream) {
  size_t more = 0;
  for (int k = 0; k < kernel->parameters; k++) more += (kernel->size[k] + 15) / 16 * 16;
  double_task *task = double_queue(stream, DOUBLE_KERNEL, more);
  if (!task) return cudaErrorMemoryAllocation;
  char *at = (char *)(task + 1);
  for (int k = 0; k < kernel->parameters; k++) {
    task->argument[k] = memcpy(at, arguments[k], kernel->size[k]);
    at += (kernel->size[k] + 15) / 16 * 16;
  }
  task->kernel = kernel->name;
  task->groups = groups;
  task->lanes = lanes;
  return cudaSuccess;
}

CUDA_DOUBLE_API cudaError_t cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block,
                                             void **arguments, size_t shared, cudaStream_t stream) {
  BEGIN("cudaLaunchKernel");
  const struct CUkern_st *kernel = function;
  (void)shared;
  if (double_stream_device(stream) != double_device()) return double_end(cudaErrorInvalidResourceHandle);
  if (grid.x == 0 || grid.y != 1 || grid.z != 1 || block.x == 0 || block.x > 1024 || block.y != 1 || block.z != 1)
    return double_end(cudaErrorInvalidConfiguration);
  cuda_double_state()->kernels++;
  return double_end(queue(kernel, grid.x, block.x, arguments, stream));
}
