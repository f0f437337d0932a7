/* The cuda backend's own header: its devices, their memory, and the one way to a kernel.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CUDA_H
#define SITU_BACKEND_CUDA_H

#include <pthread.h>

#include "backend/cuda/table.h"
#include "backend/lower/lower.h"

enum {
  SITU__CUDA_DEVICES = 64,
  SITU__CUDA_CHUNK = 4 << 20, /* bytes of a piece of a staged copy */
  SITU__CUDA_CHUNKS = 4,
  SITU__CUDA_GRANULE = 64 << 10, /* bytes of memory whose last use is one number */
  SITU__CUDA_GRANULES = 16384,   /* that are told apart: of one gibibyte; others share a number with one of these */
  SITU__CUDA_MARKERS = 8,
  SITU__CUDA_STEP = 32, /* ops between two markers */
  SITU__CUDA_RECENT = 8 /* names of ops that are remembered */
};

/* Pinned memory that copies pass through, used round and round (copy.c). */
typedef struct situ__cuda_stage {
  char *memory;                          /* NULL: not needed yet */
  cudaEvent_t passed[SITU__CUDA_CHUNKS]; /* recorded behind the last copy of each chunk */
  int chunk;                             /* that is being filled */
  size_t filled;                         /* bytes of it */
} situ__cuda_stage;

/* Memory that the driver gave out. */
typedef struct situ__cuda_block {
  char *data;
  size_t bytes;
} situ__cuda_block;

/* What copies that go aside have to wait for (order.c). */
typedef struct situ__cuda_order {
  cudaStream_t in, out;
  cudaEvent_t arrived;                    /* behind the last copy in that went aside */
  cudaEvent_t marker[SITU__CUDA_MARKERS]; /* each recorded behind an op; UINT64_MAX: not recorded */
  uint64_t behind[SITU__CUDA_MARKERS];
  int next;
  uint64_t used[SITU__CUDA_GRANULES]; /* the last op, by its number */
  uint64_t graph;                     /* the last replay of a graph, which may use any memory */
  situ__cuda_block *block;
  size_t count, capacity;
} situ__cuda_order;

typedef struct situ__cuda_device {
  situ__target target;
  situ_device_properties properties;
  bool pools;           /* stream-ordered allocation is there */
  pthread_mutex_t lock; /* over all that follows; recursive, as scratch is let go of inside and outside */
  bool open;
  cudaStream_t stream;                /* all kernels, and all small copies: what the order of calls is */
  cudaMemPool_t pool;                 /* NULL: cudaMalloc */
  cudaEvent_t here;                   /* recorded for other devices to wait for */
  fault *fault;                       /* in pinned memory: kernels write to it, and the host reads it without a copy */
  bool unchecked;                     /* a kernel that may have written to it is queued */
  situ__cuda_stage small, large, out; /* copies in that are one op among others; those that may go aside; copies out */
  situ__cuda_order order;
  situ__table kernels;
  struct situ__lt *lt;                   /* NULL: there was no product yet (matmul.c) */
  struct situ__dnn *dnn;                 /* NULL: there was no convolution yet (conv.c) */
  bool captures;                         /* what is queued goes into a graph (graph.c), not to the device */
  const char *recent[SITU__CUDA_RECENT]; /* ops that were queued last, by their number */
  uint64_t queued, good;                 /* how many were queued, and how many of them are known to be done well */
  bool lost;
  char cause[512]; /* the first; of every later error as well */
} situ__cuda_device;

/* ---- devices (device.c) --------------------------------------------------------------------- */
int situ__cuda_count(const char **reason);
situ_status situ__cuda_info(int index, situ_device_properties *out);
/* Opened, locked and current in this thread; NULL: *status says why not, and it is recorded. */
situ__cuda_device *situ__cuda_enter(int index, const char *op, situ_status *status);
/* The one that this thread has entered, and not left yet. */
situ__cuda_device *situ__cuda_entered(int index);
/* Like situ__cuda_enter, for who must not fail: NULL where the device is lost or was never opened, and nothing is recorded. */
situ__cuda_device *situ__cuda_enter_open(int index);
situ_status situ__cuda_leave(situ__cuda_device *device, situ_status status);

/* Why it is lost; NULL: it is not. */
const char *situ__cuda_why_lost(int index);
/* What situ_device_status tells from now on, beside what devices there are. */
void situ__cuda_note(const char *note);

/* Records a marker behind what is queued (order.c). */
void situ__cuda_mark(situ__cuda_device *device);

/* ---- failures (fail.c) ---------------------------------------------------------------------- */
/* Records what a failed call of CUDA's means; returns its status. */
situ_status situ__cuda_fail(situ__cuda_device *device, const char *op, const char *call, cudaError_t error);
/* The same of a call that waits: whatever it says, what is queued may still be using memory, so the device is lost. */
situ_status situ__cuda_give_up(situ__cuda_device *device, const char *op, const char *call, cudaError_t error);
/* Records nothing, for who must not fail: the next to enter is told. */
void situ__cuda_lose(situ__cuda_device *device, const char *call, cudaError_t error);
/* A device that is lost, as an error of op. */
situ_status situ__cuda_lost(const situ__cuda_device *device, const char *op);
/* op was queued. */
static inline void situ__cuda_queued(situ__cuda_device *d, const char *op) {
  if (d->captures) return;
  d->recent[d->queued++ % SITU__CUDA_RECENT] = op;
  if (d->queued % SITU__CUDA_STEP == 0) situ__cuda_mark(d);
}
/* Ops up to number `done` went well: what is left is to tell of an index or a divisor that one could not use. */
situ_status situ__cuda_check(situ__cuda_device *device, const char *op, uint64_t done);
/* Waits for the stream, and checks. */
situ_status situ__cuda_wait(situ__cuda_device *device, const char *op);
/* With SITU_SYNC=1 the same, behind each op; else nothing, and nothing where ops go into a graph. */
situ_status situ__cuda_step(situ__cuda_device *device, const char *op);

/* ---- order (order.c) ------------------------------------------------------------------------- */
cudaError_t situ__cuda_open_order(situ__cuda_device *device);
void situ__cuda_close_order(situ__cuda_device *device);
/* False: no memory. */
bool situ__cuda_add_block(situ__cuda_device *device, void *data, size_t bytes);
void situ__cuda_remove_block(situ__cuda_device *device, const void *data);
/* The op that is queued next uses this memory. */
void situ__cuda_used(situ__cuda_device *device, const void *data, size_t bytes);
/* The stream that a copy goes through, and the op that it waits for. */
typedef struct situ__cuda_way {
  cudaStream_t stream;
  uint64_t behind;
} situ__cuda_way;
/* The way for a copy of this memory: `side`, which waits for the last op that used it; or, where that is too recent for a
   marker, behind everything. */
cudaError_t situ__cuda_aside(situ__cuda_device *device, cudaStream_t side, const void *data, situ__cuda_way *way);
/* What is queued from now on waits for what went this way; where that cannot be arranged, it is waited for. */
cudaError_t situ__cuda_join(situ__cuda_device *device, const situ__cuda_way *way);

/* ---- memory (memory.c) ---------------------------------------------------------------------- */
situ_status situ__cuda_alloc(int index, size_t bytes, void **data);
/* A block of a device that was entered; cudaErrorMemoryAllocation: there is none, also after trimming. */
cudaError_t situ__cuda_take(situ__cuda_device *device, size_t bytes, void **data);
void situ__cuda_free(int index, void *data, size_t bytes);
/* situ__target_scratch, which records nothing. */
cudaError_t situ__cuda_scratch(situ__cuda_device *device, size_t bytes, void **data);
void situ__cuda_trim(int index);

/* ---- copies (copy.c, peer.c) ---------------------------------------------------------------- */
situ_status situ__cuda_copy_in(int index, void *data, size_t at, const void *host, size_t bytes);
situ_status situ__cuda_copy_out(int index, const void *data, size_t at, void *host, size_t bytes);
situ_status situ__cuda_copy_peer(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at,
                                 size_t bytes);
situ_status situ__cuda_synchronize(int index);

/* ---- graphs (graph.c) ------------------------------------------------------------------------ */
situ_status situ__cuda_graph_begin(int index);
situ_status situ__cuda_graph_end(int index, bool keep, void **graph);
situ_status situ__cuda_graph_launch(int index, void *graph);
void situ__cuda_graph_free(int index, void *graph);

/* ---- matrix products (matmul.c) -------------------------------------------------------------- */
bool situ__cuda_product(situ__target *target, const situ_work *work, const walk *batch, const products *s,
                        situ_status *status);

/* ---- linear layers (linear.c), fused attention (attention.c) --------------------------------- */
situ_status situ__cuda_offers_linear(int index, const situ_work *work);
situ_status situ__cuda_linear(int index, const situ_work *work);
/* Of builds with cuDNN's headers (SITU_CUDNN). */
situ_status situ__cuda_offers_attention(int index, const situ_work *work);
situ_status situ__cuda_attention(int index, const situ_work *work);

/* ---- convolution (conv.c) -------------------------------------------------------------------- */
/* Of builds with cuDNN's headers (SITU_CUDNN). */
bool situ__cuda_convolve(situ__target *target, const situ_work *work, situ_status *status);

/* ---- kernels (kernels.c) -------------------------------------------------------------------- */
/* All kernels of a text, compiled, as cudaLibraryLoadData takes them. */
const void *situ__cuda_kernels(situ__text text);

#endif
