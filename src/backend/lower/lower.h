/* Verbs as kernels: what the backends whose kernels are texts (src/kernels/{flat,group}) have in common. A verb becomes calls
   of kernels here, once for all of them; a backend brings memory, a queue, and the way from a variant to a kernel.
   SPDX-License-Identifier: MIT */
#ifndef SITU_KERNELS_LOWER_H
#define SITU_KERNELS_LOWER_H

#include "base/dtype.h"
#include "kernels/params.h"
#include "situ/sys/module.h"

/* ---- kernels -------------------------------------------------------------------------------- */
/* The kernel texts, one kernel each: src/kernels/{flat,group}/<name>.h. */
/* clang-format off */
#define SITU__TEXTS(ROW)                                                                         \
  ROW(elementwise)                                                                               \
  ROW(fill)                                                                                      \
  ROW(range)                                                                                     \
  ROW(random)                                                                                    \
  ROW(triangle) ROW(index) ROW(arg_reduce) ROW(scan) ROW(sort) ROW(nonzero) ROW(nll) ROW(unfold) \
      ROW(pool) ROW(optimizer) ROW(reduce) ROW(softmax) ROW(columns) ROW(norm) ROW(batch_norm) ROW(matmul)
/* clang-format on */

typedef enum situ__text {
#define ROW(name) SITU__TEXT_##name,
  SITU__TEXTS(ROW)
#undef ROW
      SITU__TEXT_COUNT
} situ__text;

enum { SITU__CALL_DTYPES = 6, SITU__CALL_BUFFERS = 12, SITU__CALL_BLOCKS = 4, SITU__CALL_NAME = 96 };

/* What makes one kernel different from another. Cleared first: it is compared as bytes. */
typedef struct situ__variant {
  uint8_t text, op, compute;        /* compute: a situ_dtype; the lane follows from it */
  uint8_t dtype[SITU__CALL_DTYPES]; /* D0, D1, ... in the text; 0: not defined */
  uint8_t family;                   /* elementwise: whose row op is, as tables have the same numbers */
  uint8_t pad[2];
  uint32_t flags; /* FLAGS in the text */
} situ__variant;

typedef struct situ__call {
  situ__variant variant;
  const char *name; /* NAME in the text: a row of its table */
  const char *op;   /* what errors are of */
  int buffers, blocks;
  void *buffer[SITU__CALL_BUFFERS]; /* memory of the backend's; NULL is a NULL pointer to the kernel */
  struct {
    const void *data;
    size_t bytes;
  } block[SITU__CALL_BLOCKS];
  union {
    float f32[4];
    double f64[4];
    int64_t i64[4];
  } scalar;             /* what situ__lower_scalars points to */
  void *const *touched; /* further memory that it reads or writes, whose addresses are in a block */
  int touches;
  bool alone;  /* groups of one work-item */
  bool checks; /* may write to the device's fault, which is then its last argument */
} situ__call;

/* ---- what a backend brings ------------------------------------------------------------------ */
/* The first member of its device. */
typedef struct situ__target {
  int index;
  bool cpu, fp64;
  bool addresses; /* a buffer is its address, and not known to be aligned; else it is aligned for everything */
  bool warps;     /* lanes hand each other values, WARP at a time */
  size_t group;   /* work-items of a group */
  /* NULL, or a library's matrix products: true if this one was queued, or failed with *status; false: it is to be made here.
     batch: offsets and steps of y, a, b and bias (in[2], if scalar[1] is not 0); the device is entered. */
  bool (*product)(struct situ__target *target, const situ_work *work, const walk *batch, const products *s,
                  situ_status *status);
  /* NULL, or a library's convolutions, in the same way. */
  bool (*convolve)(struct situ__target *target, const situ_work *work, situ_status *status);
} situ__target;

/* What the library handed to the module (host.c). */
extern const situ_host *situ__host;
/* Device `index`, opened and locked; NULL: *status says why not, and it is recorded. */
situ__target *situ__target_enter(int index, const char *op, situ_status *status);
/* Unlocks; returns status. */
situ_status situ__target_leave(situ__target *target, situ_status status);
/* What is known of it before it is entered. */
const situ__target *situ__target_of(int index);
/* Queues `groups` groups of the device's size (call->alone: of one). Arguments are buffers, blocks, and the fault where the call checks. */
situ_status situ__target_launch(situ__target *target, const situ__call *call, int64_t groups);
/* Scratch for work that is queued before it is released. NULL: recorded. */
void *situ__target_scratch(situ__target *target, const char *op, size_t bytes);
/* NULL is ignored. The device may be entered or not. */
void situ__target_release(int index, void *scratch);
/* Queues zeros. */
situ_status situ__target_clear(situ__target *target, const char *op, void *scratch, size_t bytes);

/* ---- made kernels (table.c) ------------------------------------------------------------------ */
typedef struct situ__made {
  situ__variant variant;
  void *kernel; /* the backend's; NULL: a free slot */
} situ__made;
/* Cleared first; guarded by its device's lock. */
typedef struct situ__table {
  situ__made *made;
  size_t slots, count;
} situ__table;
/* NULL: it was not made yet. */
void *situ__table_find(const situ__table *table, const situ__variant *variant);
/* One that is not there yet. False: no memory. */
bool situ__table_add(situ__table *table, const situ__variant *variant, void *kernel);

/* ---- faults (fault.c) ------------------------------------------------------------------------ */
/* Records what a kernel met on device `kind`:`index`; returns its status. */
situ_status situ__lower_tell(const char *kind, int index, const fault *seen);

/* ---- calls (call.c) ------------------------------------------------------------------------- */
/* Adds an operand: its buffer. */
static inline void situ__lower_buffer(situ__call *call, const situ_view_desc *view) {
  call->buffer[call->buffers++] = view ? view->storage->data : NULL;
}
static inline void situ__lower_block(situ__call *call, const void *data, size_t bytes) {
  call->block[call->blocks].data = data;
  call->block[call->blocks++].bytes = bytes;
}
/* Adds four scalars in the lane of variant.compute; call must stay where it is. */
void situ__lower_scalars(situ__call *call, const double *from);
/* The name of its kernel among all: what cmake/kernels.cmake calls it. */
void situ__lower_name(const situ__call *call, char name[SITU__CALL_NAME]);
/* Queues as many work-items; the device is entered. */
situ_status situ__lower_items(situ__target *target, const situ__call *call, int64_t items);
/* The same on device `index`, which is entered meanwhile. */
situ_status situ__lower_run(int index, const situ__call *call, int64_t items);
/* For texts whose kernel is FLAT: items of about `size` elements. */
situ_status situ__lower_run_flat(int index, situ__call *call, int64_t items, int64_t size);
/* For texts whose operands are walked over together: in shares by a processor, in packs by a gpu. dense: none has gaps. */
situ_status situ__lower_run_walk(int index, situ__call *call, const walk *w, bool dense, int count,
                                 const situ_view_desc *const *views);
/* One line a group, or where lines are many or short one line a work-item (FLAG_SERIAL is set then). beside: lines lie beside
   each other, and a processor may take some at a time (FLAG_BESIDE). */
situ_status situ__lower_run_lines(int index, situ__call *call, int64_t count, int64_t length, bool beside);
/* Where a device's lanes hand each other values: the kernel for rows of `size` elements without gaps (row.h), whose operands are
   views[], of one dtype (NULL: not there) from `vectors` on of any and a row long. Sets FLAG_ROW and what else is of it, and the
   layout, which is the call's next block. False: the device has no such lanes. */
bool situ__lower_rows(int index, situ__call *call, int64_t size, row_layout *layout, int count, int vectors,
                      const situ_view_desc *const *views);
/* Queues that kernel for so many rows. */
situ_status situ__lower_run_rows(int index, const situ__call *call, int64_t rows);
/* Where a gpu does it (columns.h): sums over the rows of x, into y; op 1 and 2: a norm's gradients of weight and bias, into y and
   y2, either of which may be NULL. n: sizes, the step between rows, and what the sums are divided by. */
bool situ__lower_columns(int index, int op, column_sums n, const situ_view_desc *x, const situ_view_desc *g,
                         const situ_view_desc *mean, const situ_view_desc *rstd, const situ_view_desc *y,
                         const situ_view_desc *y2, situ_status *status);
/* situ__target_scratch on device `index`, which is entered meanwhile. */
void *situ__lower_scratch(int index, const char *op, size_t bytes);

/* ---- views (walk.c) ------------------------------------------------------------------------- */
/* The walk over operands of one shape, as few dimensions as they allow; true: all are without gaps. */
bool situ__lower_walk(walk *to, int count, const situ_view_desc *const *views);
/* Adds a dimension, outermost first; one that continues the last is merged with it. */
void situ__lower_walk_add(walk *to, int count, int64_t size, const int64_t *strides);
/* What quotient() divides by size with; 0: it is too large. */
int64_t situ__lower_magic(int64_t size);
/* How many elements a pack of these operands has, as pack.h has it; and how a gpu goes through their walk. */
int64_t situ__lower_pack(int count, const situ_view_desc *const *views);
/* Elements that the view's first one lies behind a place where packs begin. */
int64_t situ__lower_skew(const situ__target *target, const situ_view_desc *view, int64_t pack);
packs situ__lower_packs(const situ__target *target, const walk *w, int64_t pack, int count,
                        const situ_view_desc *const *views);
/* Sizes around one dimension of operands without gaps, and where those begin (NULL: 0). */
lines situ__lower_lines(const situ_view_desc *of, int64_t dim, int count, const situ_view_desc *const *views);
/* The geometry of windows over the planes of large, an element of small for each (pool.c). */
windows situ__lower_windows(const situ_window *w, const situ_view_desc *large, const situ_view_desc *small);
/* A gapless view of scratch. */
situ_view_desc situ__lower_scratch_view(situ_storage *storage, void *memory, situ_dtype dtype, int64_t numel);
/* A tensor of its own, in scratch (storage->data, to be released), for elements of dtype for all that v has: those that are
   broadcast count once (elementwise.c). And the same with v's values. */
situ_status situ__lower_stand_in(int index, const situ_view_desc *v, situ_dtype dtype, situ_view_desc *to,
                                 situ_storage *storage);
situ_status situ__lower_cast(int index, const situ_view_desc *v, situ_dtype dtype, situ_view_desc *to,
                             situ_storage *storage);
/* A whole dtype whose elements are as large. */
situ_dtype situ__lower_whole(int dtype);
situ_dtype situ__lower_lane_dtype(situ_dtype dtype);
static inline int64_t situ__lower_offset(const situ_view_desc *view) { return view ? view->offset : 0; }

typedef enum situ__lane { SITU__LANE_F32, SITU__LANE_F64, SITU__LANE_I64 } situ__lane;
situ__lane situ__lower_lane_of(situ_dtype dtype);
static inline size_t situ__lower_size(int dtype) { return situ__dtypes[dtype].size; }

/* ---- verbs, each in the file of its family -------------------------------------------------- */
situ_status situ__lower_copy(int index, const situ_work *work);
situ_status situ__lower_fill(int index, const situ_work *work);
situ_status situ__lower_range(int index, const situ_work *work);
situ_status situ__lower_random(int index, const situ_work *work);
situ_status situ__lower_triangle(int index, const situ_work *work);
situ_status situ__lower_unary(int index, const situ_work *work);
situ_status situ__lower_unary_grad(int index, const situ_work *work);
situ_status situ__lower_binary(int index, const situ_work *work);
situ_status situ__lower_ternary(int index, const situ_work *work);
situ_status situ__lower_reduce(int index, const situ_work *work);
situ_status situ__lower_arg_reduce(int index, const situ_work *work);
situ_status situ__lower_scan(int index, const situ_work *work);
situ_status situ__lower_sort(int index, const situ_work *work);
situ_status situ__lower_gather(int index, const situ_work *work);
situ_status situ__lower_scatter(int index, const situ_work *work);
situ_status situ__lower_nonzero(int index, const situ_work *work);
situ_status situ__lower_matmul(int index, const situ_work *work);
/* `together` products of a and b that follow each other in the first dimension are added up in one item of y's; more than one only
   on a processor. */
situ_status situ__lower_matmul_sums(int index, const situ_work *work, int64_t together);
situ_status situ__lower_conv(int index, const situ_work *work);
situ_status situ__lower_pool(int index, const situ_work *work);
situ_status situ__lower_softmax(int index, const situ_work *work);
situ_status situ__lower_norm(int index, const situ_work *work);
situ_status situ__lower_batch_norm(int index, const situ_work *work);
situ_status situ__lower_nll(int index, const situ_work *work);
situ_status situ__lower_optimizer(int index, const situ_work *work);

/* The verbs that become kernels, and what the slots of such a backend are filled with. */
/* clang-format off */
#define SITU__LOWERED_VERBS(ROW)\
  ROW(COPY, copy) ROW(FILL, fill) ROW(RANGE, range) ROW(RANDOM, random) ROW(TRIANGLE, triangle)   \
  ROW(UNARY, unary) ROW(UNARY_GRAD, unary_grad) ROW(BINARY, binary) ROW(TERNARY, ternary)         \
  ROW(REDUCE, reduce) ROW(ARG_REDUCE, arg_reduce) ROW(SCAN, scan) ROW(SORT, sort)                 \
  ROW(GATHER, gather) ROW(SCATTER, scatter) ROW(NONZERO, nonzero) ROW(MATMUL, matmul)             \
  ROW(CONV, conv) ROW(POOL, pool) ROW(SOFTMAX, softmax) ROW(NORM, norm)                           \
  ROW(BATCH_NORM, batch_norm) ROW(NLL, nll) ROW(OPTIMIZER, optimizer)
/* clang-format on */
#define SITU__LOWERED_SLOT(verb, name) [SITU_VERB_##verb] = situ__lower_##name,
#define SITU__LOWERED SITU__LOWERED_VERBS(SITU__LOWERED_SLOT)

#endif
