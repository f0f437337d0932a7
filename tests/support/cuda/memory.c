/* The double's memory: between guards, counted, and garbage at first.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cuda/double.h"

enum { GUARD = 256, FRESH = 0xA5, GUARDED = 0x5C };

static double_block *blocks;

struct CUmemPoolHandle_st {
  int device;
};

double_block *double_find(const void *data, size_t bytes, bool *bad) {
  const uintptr_t at = (uintptr_t)data;
  for (double_block *b = blocks; b; b = b->next) {
    const uintptr_t begin = (uintptr_t)b->data, end = begin + b->bytes;
    if (at + bytes <= begin - GUARD || at >= end + GUARD) continue;
    *bad = at < begin || at + bytes > end || b->freed;
    return b;
  }
  *bad = false;
  return NULL;
}

static long *counter_of(int device) {
  cuda_double *state = cuda_double_state();
  return device < 0 ? &state->pinned : &state->blocks;
}

static cudaError_t reserve(void **out, size_t bytes, int device) {
  cuda_double *state = cuda_double_state();
  if (device >= 0 && (bytes > state->budget || state->bytes[device] > state->budget - bytes))
    return cudaErrorMemoryAllocation;
  double_block *b = malloc(sizeof *b);
  char *memory = aligned_alloc(GUARD, 2 * GUARD + (bytes + GUARD - 1) / GUARD * GUARD);
  if (!b || !memory) {
    free(b);
    free(memory);
    return cudaErrorMemoryAllocation;
  }
  memset(memory, GUARDED, GUARD);
  if (device >= 0) memset(memory + GUARD, FRESH, bytes);
  memset(memory + GUARD + bytes, GUARDED, GUARD);
  *b = (double_block){ .next = blocks, .data = memory + GUARD, .bytes = bytes, .device = device };
  blocks = b;
  ++*counter_of(device);
  if (device >= 0) state->bytes[device] += bytes;
  *out = b->data;
  return cudaSuccess;
}

/* A kernel that wrote beside its memory ends the test. */
void double_release(double_block *b) {
  for (int k = 0; k < GUARD; k++) {
    if (b->data[-1 - k] == GUARDED && b->data[b->bytes + (size_t)k] == GUARDED) continue;
    (void)fprintf(stderr, "cuda double: written outside of a block of %zu bytes on device %d\n", b->bytes, b->device);
    abort();
  }
  double_block **link = &blocks;
  while (*link != b) link = &(*link)->next;
  *link = b->next;
  --*counter_of(b->device);
  if (b->device >= 0) cuda_double_state()->bytes[b->device] -= b->bytes;
  free(b->data - GUARD);
  free(b);
}

/* The block that begins here; NULL: none, or it was freed already. */
static double_block *block_at(const void *data, bool pinned) {
  bool bad;
  double_block *b = double_find(data, 1, &bad);
  return b && !bad && b->data == data && (b->device < 0) == pinned ? b : NULL;
}

/* ---- of the host ---------------------------------------------------------------------------- */

CUDA_DOUBLE_API cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
  BEGIN("cudaHostAlloc");
  (void)flags;
  return double_end(reserve(out, bytes, -1));
}

CUDA_DOUBLE_API cudaError_t cudaFreeHost(void *data) {
  BEGIN("cudaFreeHost");
  double_block *b = block_at(data, true);
  if (!b) return double_end(cudaErrorInvalidValue);
  for (int k = 0; k < cuda_double_state()->devices; k++) double_run_device(k);
  double_release(b);
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *data) {
  BEGIN("cudaPointerGetAttributes");
  bool bad;
  const double_block *b = double_find(data, 1, &bad);
  *out = (struct cudaPointerAttributes){ .type = !b              ? cudaMemoryTypeUnregistered
                                                 : b->device < 0 ? cudaMemoryTypeHost
                                                                 : cudaMemoryTypeDevice,
                                         .device = b && b->device > 0 ? b->device : 0,
                                         .devicePointer = b ? (void *)(uintptr_t)data : NULL };
  return double_end(cudaSuccess);
}

/* Functions of the driver's. */
static int get_range(uintptr_t *base, size_t *size, uintptr_t pointer) {
  BEGIN("cuMemGetAddressRange");
  bool bad;
  const double_block *b = double_find((const void *)pointer, 1, &bad);
  if (!b || bad) return double_end(cudaErrorInvalidValue);
  *base = (uintptr_t)b->data;
  *size = b->bytes;
  return double_end(cudaSuccess);
}

static int retain_primary(void **context, int device) {
  static char primary[CUDA_DOUBLE_DEVICES];
  BEGIN("cuDevicePrimaryCtxRetain");
  *context = &primary[device];
  return double_end(cudaSuccess);
}

static int release_primary(int device) {
  (void)device;
  BEGIN("cuDevicePrimaryCtxRelease");
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned version,
                                                             unsigned long long flags,
                                                             enum cudaDriverEntryPointQueryResult *result) {
  BEGIN("cudaGetDriverEntryPointByVersion");
  (void)version, (void)flags;
  static const struct {
    const char *symbol;
    void (*function)(void);
  } known[] = { { "cuMemGetAddressRange", (void (*)(void))get_range },
                { "cuDevicePrimaryCtxRetain", (void (*)(void))retain_primary },
                { "cuDevicePrimaryCtxRelease", (void (*)(void))release_primary } };
  *out = NULL;
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    if (strcmp(symbol, known[k].symbol) == 0) memcpy(out, &known[k].function, sizeof *out);
  *result = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return double_end(cudaSuccess);
}

/* ---- of devices ----------------------------------------------------------------------------- */

CUDA_DOUBLE_API cudaError_t cudaMalloc(void **out, size_t bytes) {
  BEGIN("cudaMalloc");
  return double_end(reserve(out, bytes, double_device()));
}

CUDA_DOUBLE_API cudaError_t cudaFree(void *data) {
  BEGIN("cudaFree");
  double_block *b = block_at(data, false);
  if (!b) return double_end(cudaErrorInvalidValue);
  double_run_device(b->device);
  double_release(b);
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const struct cudaMemPoolProps *props) {
  BEGIN("cudaMemPoolCreate");
  if (!cuda_double_state()->pools) return double_end(cudaErrorNotSupported);
  cudaMemPool_t pool = malloc(sizeof *pool);
  if (!pool) return double_end(cudaErrorMemoryAllocation);
  pool->device = props->location.id;
  cuda_double_state()->pools_open++;
  *out = pool;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  BEGIN("cudaMemPoolDestroy");
  cuda_double_state()->pools_open--;
  free(pool);
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr what, void *value) {
  BEGIN("cudaMemPoolSetAttribute");
  (void)pool, (void)what, (void)value;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
  BEGIN("cudaMemPoolTrimTo");
  (void)pool, (void)bytes;
  cuda_double_state()->trims++;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
                                                 size_t count) {
  BEGIN("cudaMemPoolSetAccess");
  (void)access, (void)count;
  bool none = cuda_double_state()->peers == CUDA_DOUBLE_PEERS_NONE;
  return double_end(!pool || none ? cudaErrorInvalidValue : cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  BEGIN("cudaMallocFromPoolAsync");
  if (pool->device != double_stream_device(stream)) return double_end(cudaErrorInvalidValue);
  double_graph *graph = *double_capture(stream);
  if (graph && graph->blocks == sizeof graph->block / sizeof *graph->block)
    return double_end(cudaErrorMemoryAllocation);
  cudaError_t error = reserve(out, bytes, pool->device);
  if (graph && error == cudaSuccess) graph->block[graph->blocks++] = blocks; /* the newest */
  return double_end(error);
}

/* From now on nobody may be given this address to work with; the memory itself goes behind what is queued. */
CUDA_DOUBLE_API cudaError_t cudaFreeAsync(void *data, cudaStream_t stream) {
  BEGIN("cudaFreeAsync");
  double_block *b = block_at(data, false);
  double_graph *graph = *double_capture(stream);
  if (graph) { /* what was allocated in it, and nothing else, is freed in it; it lives as long as the graph */
    bool own = false;
    for (int k = 0; k < graph->blocks; k++) own = own || graph->block[k] == b;
    if (own) b->freed = true;
    graph->spoilt = graph->spoilt || !own;
    return double_end(own ? cudaSuccess : cudaErrorInvalidValue);
  }
  double_task *task = b ? double_queue(stream, DOUBLE_FREE, 0) : NULL;
  if (!task) return double_end(cudaErrorInvalidValue);
  task->block = b;
  b->freed = true;
  return double_end(cudaSuccess);
}
