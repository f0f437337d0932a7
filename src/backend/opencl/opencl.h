/* The opencl backend's own header: its devices, and the one way to a kernel.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_OPENCL_H
#define SITU_BACKEND_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>

#include "kernels/params.h"
#include "situ/sys/module.h"

extern const situ_host *situ__cl_host;

/* ---- devices (device.c) --------------------------------------------------------------------- */
typedef struct situ__cl_kernel situ__cl_kernel;

typedef struct situ__cl_device {
  int index;
  cl_platform_id platform;
  cl_device_id id;
  bool cpu, fp64, exact_division;
  size_t group;          /* work-items of a group */
  uint64_t budget, used; /* bytes; the driver may promise more than it has */
  uint64_t largest;      /* of one allocation */
  pthread_mutex_t lock;  /* over all that follows, and over every call that queues */
  bool open;
  cl_context context;
  cl_command_queue queue;
  cl_mem fault;   /* a situ__cl_fault that kernels write to */
  bool unchecked; /* a kernel that may have written to it is queued */
  situ__cl_kernel **kernels;
  size_t kernel_slots, kernel_count;
  char *build; /* what identifies compiled programs: driver, device, options */
} situ__cl_device;

/* How many devices there are, and why. */
int situ__cl_count(const char **reason);
/* Device `index`, opened and locked; NULL: *status says why not, and it is recorded. */
situ__cl_device *situ__cl_enter(int index, const char *op, situ_status *status);
/* Unlocks; returns status. */
situ_status situ__cl_leave(situ__cl_device *device, situ_status status);
situ_status situ__cl_info(int index, situ_device_properties *out);
/* Records what a failed call of OpenCL's means. */
situ_status situ__cl_fail(const situ__cl_device *device, const char *op, const char *call,
                          cl_int error);

/* ---- memory (memory.c) ---------------------------------------------------------------------- */
situ_status situ__cl_alloc(int index, size_t bytes, void **data);
void situ__cl_free(int index, void *data, size_t bytes);
situ_status situ__cl_copy_in(int index, void *data, size_t at, const void *host, size_t bytes);
situ_status situ__cl_copy_out(int index, const void *data, size_t at, void *host, size_t bytes);
situ_status situ__cl_copy_peer(int to, void *dst, size_t dst_at, int from, const void *src,
                               size_t src_at, size_t bytes);
situ_status situ__cl_synchronize(int index);
/* Scratch for one piece of work; freed by the driver once the queue has passed it. NULL: recorded. */
cl_mem situ__cl_scratch(situ__cl_device *device, const char *op, size_t bytes);

/* ---- kernels (program.c) -------------------------------------------------------------------- */
/* The kernel texts, each a program with one kernel: src/kernels/{flat,group}/<name>.h. */
#define SITU__CL_TEXTS(ROW)                                                                     \
  ROW(elementwise)                                                                              \
  ROW(fill) ROW(range) ROW(random) ROW(triangle) ROW(index) ROW(arg_reduce) ROW(scan) ROW(sort) \
      ROW(nonzero) ROW(nll) ROW(unfold) ROW(pool) ROW(optimizer) ROW(reduce) ROW(softmax)       \
          ROW(norm) ROW(batch_norm) ROW(matmul)

typedef enum situ__cl_text {
#define ROW(name) SITU__CL_##name,
  SITU__CL_TEXTS(ROW)
#undef ROW
      SITU__CL_TEXT_COUNT
} situ__cl_text;

enum { SITU__CL_DTYPES = 6, SITU__CL_BUFFERS = 12, SITU__CL_BLOCKS = 4 };

/* What makes one kernel different from another. Cleared first: it is compared as bytes. */
typedef struct situ__cl_variant {
  uint8_t text, op, compute;      /* compute: a situ_dtype; the lane follows from it */
  uint8_t dtype[SITU__CL_DTYPES]; /* D0, D1, ... in the text; 0: not defined */
  uint8_t pad[3];
  uint32_t flags; /* FLAGS in the text */
} situ__cl_variant;

typedef struct situ__cl_call {
  situ__cl_variant variant;
  const char *name; /* NAME in the text: a row of its table */
  const char *op;   /* what errors are of */
  int buffers, blocks;
  cl_mem buffer[SITU__CL_BUFFERS];
  struct {
    const void *data;
    size_t bytes;
  } block[SITU__CL_BLOCKS];
  union {
    float f32[4];
    double f64[4];
    int64_t i64[4];
  } scalar;    /* what situ__cl_scalars points to */
  bool alone;  /* groups of one work-item */
  bool checks; /* may write to the fault buffer, which is then its last argument */
} situ__cl_call;

/* The text, with all that it includes. */
const char *situ__cl_text_of(situ__cl_text text);
/* Queues it: `items` work-items, or `groups` groups of the device's size. The lock is held. */
situ_status situ__cl_items(situ__cl_device *device, const situ__cl_call *call, int64_t items);
situ_status situ__cl_groups(situ__cl_device *device, const situ__cl_call *call, int64_t groups);
/* The same on device `index`, which is locked meanwhile. */
situ_status situ__cl_run(int index, const situ__cl_call *call, int64_t items);
/* For texts whose kernel is FLAT. */
situ_status situ__cl_run_flat(int index, situ__cl_call *call, int64_t items);
situ_status situ__cl_run_groups(int index, const situ__cl_call *call, int64_t groups);

/* Adds an operand: its buffer. NULL is a NULL pointer to the kernel. */
static inline void situ__cl_buffer(situ__cl_call *call, const situ_view_desc *view) {
  call->buffer[call->buffers++] = view ? view->storage->data : NULL;
}
static inline void situ__cl_block(situ__cl_call *call, const void *data, size_t bytes) {
  call->block[call->blocks].data = data;
  call->block[call->blocks++].bytes = bytes;
}
/* Adds four scalars in the lane of variant.compute; call must stay where it is. */
void situ__cl_scalars(situ__cl_call *call, const double *from);
/* One line a group, or where lines are many or short one line a work-item (FLAG_SERIAL is set then). */
situ_status situ__cl_run_lines(int index, situ__cl_call *call, int64_t count, int64_t length);

/* ---- compiled programs on disk (disk.c) ----------------------------------------------------- */
/* The program that was stored under key; NULL: there is none. Freed by the host's free. */
unsigned char *situ__cl_disk_read(const char *key, size_t *bytes);
/* Best effort: another process may read it at once, and a failure is harmless. */
void situ__cl_disk_write(const char *key, const unsigned char *binary, size_t bytes);

/* ---- views (walk.c) ------------------------------------------------------------------------- */
/* The walk over operands of one shape, as few dimensions as they allow; true: all are without gaps. */
bool situ__cl_walk(walk *to, int count, const situ_view_desc *const *views);
/* Adds a dimension, outermost first; one that continues the last is merged with it. */
void situ__cl_walk_add(walk *to, int count, int64_t size, const int64_t *strides);
/* Sizes around one dimension of operands without gaps, and where those begin (NULL: 0). */
lines situ__cl_lines(const situ_view_desc *of, int64_t dim, int count,
                     const situ_view_desc *const *views);
/* A gapless view of scratch. */
/* The geometry of windows over the planes of large, an element of small for each; pool.c. */
windows situ__cl_windows(const situ_window *w, const situ_view_desc *large,
                         const situ_view_desc *small);
situ_view_desc situ__cl_scratch_view(situ_storage *storage, cl_mem memory, situ_dtype dtype,
                                     int64_t numel);
/* A whole dtype whose elements are as large. */
situ_dtype situ__cl_whole(int dtype);
situ_dtype situ__cl_lane_dtype(situ_dtype dtype);
static inline int64_t situ__cl_offset(const situ_view_desc *view) {
  return view ? view->offset : 0;
}

typedef enum situ__cl_lane { SITU__CL_F32, SITU__CL_F64, SITU__CL_I64 } situ__cl_lane;
situ__cl_lane situ__cl_lane_of(situ_dtype dtype);
size_t situ__cl_size(int dtype);

/* ---- verbs, each in the file of its family -------------------------------------------------- */
situ_status situ__cl_copy(int index, const situ_work *work);
situ_status situ__cl_fill(int index, const situ_work *work);
situ_status situ__cl_range(int index, const situ_work *work);
situ_status situ__cl_random(int index, const situ_work *work);
situ_status situ__cl_triangle(int index, const situ_work *work);
situ_status situ__cl_unary(int index, const situ_work *work);
situ_status situ__cl_unary_grad(int index, const situ_work *work);
situ_status situ__cl_binary(int index, const situ_work *work);
situ_status situ__cl_ternary(int index, const situ_work *work);
situ_status situ__cl_reduce(int index, const situ_work *work);
situ_status situ__cl_arg_reduce(int index, const situ_work *work);
situ_status situ__cl_scan(int index, const situ_work *work);
situ_status situ__cl_sort(int index, const situ_work *work);
situ_status situ__cl_gather(int index, const situ_work *work);
situ_status situ__cl_scatter(int index, const situ_work *work);
situ_status situ__cl_nonzero(int index, const situ_work *work);
situ_status situ__cl_matmul(int index, const situ_work *work);
situ_status situ__cl_conv(int index, const situ_work *work);
situ_status situ__cl_pool(int index, const situ_work *work);
situ_status situ__cl_softmax(int index, const situ_work *work);
situ_status situ__cl_norm(int index, const situ_work *work);
situ_status situ__cl_batch_norm(int index, const situ_work *work);
situ_status situ__cl_nll(int index, const situ_work *work);
situ_status situ__cl_optimizer(int index, const situ_work *work);

#endif
