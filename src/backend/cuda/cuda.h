/* Internal header of the cuda backend: its devices, their memory, and kernel launches.
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
  SITU__CUDA_GRANULE = 64 << 10, /* granularity in bytes at which last uses of memory are tracked */
  SITU__CUDA_GRANULES = 16384,   /* entries of that table: one GiB of distinct addresses; others share entries */
  SITU__CUDA_MARKERS = 8,
  SITU__CUDA_STEP = 32, /* ops between two markers */
  SITU__CUDA_RECENT = 8 /* names of recent ops that are remembered */
};

/* Pinned memory for staged copies, used as a ring of chunks (copy.c). */
typedef struct situ__cuda_stage {
  char *memory;                          /* NULL: not allocated yet */
  cudaEvent_t passed[SITU__CUDA_CHUNKS]; /* recorded after the last copy of each chunk */
  int chunk;                             /* the chunk that is being filled */
  size_t filled;                         /* its bytes in use */
} situ__cuda_stage;

/* Memory that the driver allocated. */
typedef struct situ__cuda_block {
  char *data;
  size_t bytes;
} situ__cuda_block;

/* What copies on side streams have to wait for (order.c). */
typedef struct situ__cuda_order {
  cudaStream_t in, out;
  cudaEvent_t arrived;                    /* recorded after the last host-to-device copy on a side stream */
  cudaEvent_t marker[SITU__CUDA_MARKERS]; /* each recorded after op number behind[k]; UINT64_MAX: not recorded */
  uint64_t behind[SITU__CUDA_MARKERS];
  int next;
  uint64_t used[SITU__CUDA_GRANULES]; /* number of the last op that used each granule */
  uint64_t graph;                     /* the last launch of a graph, which may use any memory */
  situ__cuda_block *block;
  size_t count, capacity;
} situ__cuda_order;

/* A copy that does not wait (later.c). */
typedef struct situ__cuda_flight situ__cuda_flight;

typedef struct situ__cuda_device {
  situ__target target;
  situ_device_properties properties;
  int ordinal;          /* CUDA's number of it */
  bool pools;           /* stream-ordered allocation is supported */
  pthread_mutex_t lock; /* guards all members below; recursive, as scratch is released inside and outside */
  bool open;
  bool adopted;         /* the stream is the only one, and the program's */
  bool opened;          /* or situ's own, of situ_device_open_queue */
  situ_foreign program; /* its allocator, if it has one */
  int depth, before;    /* entries of the thread that has it, whose current device was `before` */
  cudaStream_t stream;  /* all kernels and all small copies, in the order of the calls */
  cudaMemPool_t pool;   /* NULL: uses cudaMalloc */
  cudaEvent_t here;     /* recorded for other devices to wait for */
  fault *fault;         /* in pinned memory: kernels write to it, and the host reads it without a copy */
  bool unchecked;       /* a kernel that may have written to it is queued */
  /* host-to-device copies in stream order; those on a side stream; device-to-host copies */
  situ__cuda_stage small, large, out;
  situ__cuda_flight *flights;
  situ__cuda_order order;
  situ__table kernels;
  struct situ__lt *lt;                   /* NULL: no product was computed yet (matmul.c) */
  struct situ__dnn *dnn;                 /* NULL: no convolution was computed yet (conv.c) */
  bool captures;                         /* ops are captured into a graph (graph.c), not run */
  const char *recent[SITU__CUDA_RECENT]; /* the last queued ops, by number modulo its size */
  /* number of ops that were queued, and how many of them are known to be complete without an error */
  uint64_t queued, good;
  bool lost;
  char cause[512]; /* the first error; all later errors quote it */
} situ__cuda_device;

static inline char *situ__cuda_address(const situ_view_desc *v) {
  return (char *)v->storage->data + v->offset * (int64_t)situ__lower_size(v->dtype);
}

/* ---- devices (device.c) --------------------------------------------------------------------- */
int situ__cuda_count(const char **reason);
situ_status situ__cuda_info(int index, situ_device_properties *out);
/* Number of CUDA's devices, which situ found. */
int situ__cuda_ordinals(void);
/* Counts adopted devices until there are at least this many. */
void situ__cuda_grow(int count);
/* Sets the properties of a device; does not initialise it. */
cudaError_t situ__cuda_query(situ__cuda_device *device, int ordinal);
/* Opens and locks the device and makes it current in this thread, until situ__cuda_leave. Returns NULL after recording
   an error, with its status in *status. */
situ__cuda_device *situ__cuda_enter(int index, const char *op, situ_status *status);
/* The device that this thread has entered and not left. */
situ__cuda_device *situ__cuda_entered(int index);
/* Like situ__cuda_enter, for callers that must not fail: returns NULL without an error if the device is lost or was
   never opened. */
situ__cuda_device *situ__cuda_enter_open(int index);
situ_status situ__cuda_leave(situ__cuda_device *device, situ_status status);
/* Opens and enters a device of the program; NULL after recording an error. */
situ__cuda_device *situ__cuda_adopting(int index, const char *op, int ordinal, const situ_foreign *foreign,
                                       situ_status *status);
/* Locks the device without checks, as a lost one can still be given back. */
situ__cuda_device *situ__cuda_enter_to_close(int index);
/* Releases all that opening made. The device is entered. */
void situ__cuda_close(situ__cuda_device *device);

/* Why the device is lost; NULL: it is not. */
const char *situ__cuda_why_lost(int index);
/* Adds a note to what situ_device_status reports besides the list of devices. */
void situ__cuda_note(const char *note);

/* Records a marker after the ops that are queued (order.c). */
void situ__cuda_mark(situ__cuda_device *device);

/* ---- failures (fail.c) ---------------------------------------------------------------------- */
/* Records the error of a failed CUDA call; returns its status. */
situ_status situ__cuda_fail(situ__cuda_device *device, const char *op, const char *call, cudaError_t error);
/* The same for a call that waits: queued work may still be using memory, so the device is lost whatever the error. */
situ_status situ__cuda_give_up(situ__cuda_device *device, const char *op, const char *call, cudaError_t error);
/* Marks the device as lost without recording an error, for callers that must not fail; the next situ__cuda_enter
   reports it. */
void situ__cuda_lose(situ__cuda_device *device, const char *call, cudaError_t error);
/* Records that the device is lost, as an error of op; returns its status. */
situ_status situ__cuda_lost(const situ__cuda_device *device, const char *op);
/* Counts op as queued. */
static inline void situ__cuda_queued(situ__cuda_device *d, const char *op) {
  if (d->captures) return;
  d->recent[d->queued++ % SITU__CUDA_RECENT] = op;
  if (d->queued % SITU__CUDA_STEP == 0) situ__cuda_mark(d);
}
/* Ops up to number `done` completed: reports an index or a divisor that a kernel among them found invalid. */
situ_status situ__cuda_check(situ__cuda_device *device, const char *op, uint64_t done);
/* Waits for the stream, and checks. */
situ_status situ__cuda_wait(situ__cuda_device *device, const char *op);
/* With SITU_SYNC=1 waits and checks after each op; else does nothing. Does nothing during graph capture. */
situ_status situ__cuda_step(situ__cuda_device *device, const char *op);

/* ---- order (order.c) ------------------------------------------------------------------------- */
cudaError_t situ__cuda_open_order(situ__cuda_device *device);
void situ__cuda_close_order(situ__cuda_device *device);
/* Returns false when out of memory. */
bool situ__cuda_add_block(situ__cuda_device *device, void *data, size_t bytes);
void situ__cuda_remove_block(situ__cuda_device *device, const void *data);
/* Notes that the next op to be queued uses this memory. */
void situ__cuda_used(situ__cuda_device *device, const void *data, size_t bytes);
/* The stream for a copy, and the number of the op that it waits for. */
typedef struct situ__cuda_way {
  cudaStream_t stream;
  uint64_t behind;
} situ__cuda_way;
/* Chooses the stream for a copy of this memory: `side`, which waits for the last op that used it; or the device's
   stream, if that op is too recent for a marker. */
cudaError_t situ__cuda_aside(situ__cuda_device *device, cudaStream_t side, const void *data, situ__cuda_way *way);
/* Makes later ops wait for a copy that went this way; if that fails, the host waits for it. */
cudaError_t situ__cuda_join(situ__cuda_device *device, const situ__cuda_way *way);

/* ---- memory (memory.c) ---------------------------------------------------------------------- */
situ_status situ__cuda_alloc(int index, size_t bytes, void **data);
/* Allocates from a device that was entered. Returns cudaErrorMemoryAllocation if memory is not available, even after
   trimming. */
cudaError_t situ__cuda_take(situ__cuda_device *device, size_t bytes, void **data);
void situ__cuda_free(int index, void *data, size_t bytes);
/* situ__cuda_target_scratch without recording an error. */
cudaError_t situ__cuda_scratch(situ__cuda_device *device, size_t bytes, void **data);
void situ__cuda_trim(int index);

/* ---- devices and memory of the program (adopt.c) --------------------------------------------- */
situ_status situ__cuda_adopt(int index, const situ_foreign *foreign);
situ_status situ__cuda_abandon(int index);
situ_status situ__cuda_borrow(int index, void *handle, size_t bytes, void **data, bool *read_only);
void situ__cuda_give_back(int index, void *data);
situ_status situ__cuda_wait_event(int index, void *event);
situ_status situ__cuda_record_event(int index, void **event);
situ_status situ__cuda_query_event(int index, void *event, bool *done);
situ_status situ__cuda_release_event(int index, void *event);
situ_status situ__cuda_open_queue(int from, int index);
situ_status situ__cuda_share(int index, void *queue, int *number);

/* ---- slots of its table of targets (memory.c, launch.c) -------------------------------------- */
void *situ__cuda_target_scratch(situ__target *target, const char *op, size_t bytes);
void situ__cuda_target_release(int index, void *scratch);
situ_status situ__cuda_target_clear(situ__target *target, const char *op, void *scratch, size_t bytes);
situ_status situ__cuda_target_launch(situ__target *target, const situ__call *call, int64_t groups);

/* ---- copies (copy.c, peer.c) ---------------------------------------------------------------- */
situ_status situ__cuda_copy_in(int index, void *data, size_t at, const void *host, size_t bytes);
situ_status situ__cuda_copy_out(int index, const void *data, size_t at, void *host, size_t bytes);
/* The same without waiting, and pinned memory (later.c). */
void situ__cuda_close_flights(situ__cuda_device *device); /* which are complete */
situ_status situ__cuda_send(int index, void *data, size_t at, const void *host, size_t bytes);
situ_status situ__cuda_fetch(int index, const void *data, size_t at, void *host, size_t bytes, void **ticket);
bool situ__cuda_fetched(int index, const void *ticket);
situ_status situ__cuda_fetch_end(int index, void *ticket, bool wait);
situ_status situ__cuda_pin(int index, size_t bytes, void **host, void **handle);
void situ__cuda_unpin(int index, void *host, void *handle);
situ_status situ__cuda_copy_peer(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at,
                                 size_t bytes);
situ_status situ__cuda_synchronize(int index);
/* Frees the pinned memory of staged copies, which are complete. */
void situ__cuda_close_stages(situ__cuda_device *device);
/* Forgets how copies to and from the device went: it is another one now. */
void situ__cuda_forget_routes(int index);

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
/* Exists only in builds with cuDNN's headers (SITU_CUDNN). */
bool situ__cuda_attend(situ__target *target, const situ_work *work, situ_status *status);

/* ---- convolution (conv.c) -------------------------------------------------------------------- */
/* Frees what cuBLASLt and cuDNN made for the device, which is entered; the latter only in builds with its headers. */
void situ__lt_close(situ__cuda_device *device);
void situ__dnn_close(situ__cuda_device *device);
/* Exists only in builds with cuDNN's headers (SITU_CUDNN). */
bool situ__cuda_convolve(situ__target *target, const situ_work *work, situ_status *status);

/* ---- kernels (kernels.c) -------------------------------------------------------------------- */
/* All compiled kernels of a source, as an image for cudaLibraryLoadData. */
const void *situ__cuda_kernels(situ__kernel_text text);

#endif
