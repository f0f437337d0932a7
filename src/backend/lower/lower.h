/* Lowers verbs to kernel calls, for all backends whose kernels are compiled from the sources in
   src/kernels/{flat,group}. A backend provides memory, a queue, and a compiler from a variant to a kernel.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_LOWER_H
#define SITU_BACKEND_LOWER_H

#include "base/block.h"
#include "base/dtype.h"
#include "kernels/params.h"
#include "situ/sys/module.h"

/* ---- kernels -------------------------------------------------------------------------------- */
/* Kernel sources, one kernel each: src/kernels/{flat,group}/<name>.h. */
/* clang-format off */
#define SITU__TEXTS(ROW)                                                                         \
  ROW(elementwise)                                                                               \
  ROW(fill)                                                                                      \
  ROW(range)                                                                                     \
  ROW(random)                                                                                    \
  ROW(triangle) ROW(index) ROW(arg_reduce) ROW(scan) ROW(sort) ROW(nonzero) ROW(nll) ROW(unfold) \
      ROW(pool) ROW(resample) ROW(fft) ROW(cell) ROW(optimizer) ROW(reduce) ROW(softmax)          \
      ROW(columns) ROW(norm) ROW(batch_norm) ROW(matmul) ROW(attention) ROW(blocks)
/* clang-format on */

typedef enum situ__kernel_text {
#define ROW(name) SITU__TEXT_##name,
  SITU__TEXTS(ROW)
#undef ROW
      SITU__TEXT_COUNT
} situ__kernel_text;

enum { SITU__CALL_DTYPES = 6, SITU__CALL_BUFFERS = 12, SITU__CALL_BLOCKS = 4, SITU__CALL_NAME = 96 };

/* Everything that distinguishes one compiled kernel from another. Zero it first: variants are compared as bytes. */
typedef struct situ__variant {
  uint8_t text, op, compute;        /* compute: a situ_dtype, which determines the compute type */
  uint8_t dtype[SITU__CALL_DTYPES]; /* D0, D1, ... in the source; 0: not defined */
  uint8_t family;                   /* elementwise: the table that op indexes, as the tables use the same numbers */
  uint8_t pad[2];
  uint32_t flags; /* FLAGS in the source */
} situ__variant;

typedef struct situ__call {
  situ__variant variant;
  const char *name; /* NAME in the source: a row of its table */
  const char *op;   /* the op that errors name */
  int buffers, blocks;
  void *buffer[SITU__CALL_BUFFERS]; /* the backend's memory; NULL is a NULL pointer in the kernel */
  struct {
    const void *data;
    size_t bytes;
  } block[SITU__CALL_BLOCKS];
  union {
    float f32[4];
    double f64[4];
    int64_t i64[4];
  } scalar;             /* situ__lower_scalars' block points here */
  void *const *touched; /* further memory that the kernel reads or writes, whose addresses are in a block */
  int touches;
  bool alone;  /* work-groups of one work-item */
  bool checks; /* may write to the device's fault, which is then its last argument */
} situ__call;

/* ---- provided by the backend --------------------------------------------------------------- */
/* Constant properties of a device: the first member of the backend's own struct. */
typedef struct situ__target {
  int index;
  bool cpu, fp64;
  bool addresses; /* buffers are addresses, perhaps unaligned; else handles, aligned for all dtypes */
  bool warps;     /* threads exchange values within warps of WARP */
  size_t group;   /* work-items of a work-group */
} situ__target;
/* The devices that list/ lists kernels for, as their compiler runs ahead of time (CUDA). */
#define SITU__AHEAD_TARGET \
  { .fp64 = true, .addresses = true, .warps = true, .group = 256 }

/* The library's functions for the module (host.c). */
extern const situ_host *situ__host;
/* What a backend's devices can do; each module defines one with designated initialisers. Any thread may call any of
   them. "Entered": between enter and leave, in the same thread. */
typedef struct situ__target_table {
  /* Must be there. Opens and locks device `index`. Returns NULL after recording an error, and then sets *status to
     it. */
  situ__target *(*enter)(int index, const char *op, situ_status *status);
  /* Must be there. Unlocks the device; returns status. */
  situ_status (*leave)(situ__target *target, situ_status status);
  /* Must be there. Properties of device `index`, which need not be entered. */
  const situ__target *(*of)(int index);
  /* Must be there; the device is entered. Queues `groups` work-groups of the device's size (call->alone: of one
     work-item). The kernel's arguments are buffers, blocks, and the fault if call->checks. */
  situ_status (*launch)(situ__target *target, const situ__call *call, int64_t groups);
  /* Must be there; the device is entered. Scratch memory for work that is queued before its release. Returns NULL after
     recording an error. */
  void *(*scratch)(situ__target *target, const char *op, size_t bytes);
  /* Must be there. Releases scratch; the device may be entered or not. NULL is allowed. */
  void (*release)(int index, void *scratch);
  /* Must be there; the device is entered. Queues a fill with zeros. */
  situ_status (*clear)(situ__target *target, const char *op, void *scratch, size_t bytes);
  /* May be NULL; the device is entered. A library's matrix products: returns true if the library queued it or failed
     with *status; false: the caller must launch a kernel. batch: offsets and steps of y, a, b and bias (in[2], if
     scalar[1] is not 0). */
  bool (*product)(situ__target *target, const situ_work *work, const walk *batch, const products *s,
                  situ_status *status);
  /* May be NULL; the device is entered. A library's convolutions, with the same contract. */
  bool (*convolve)(situ__target *target, const situ_work *work, situ_status *status);
  /* May be NULL; the device is entered. A library's attention, with the same contract. */
  bool (*attend)(situ__target *target, const situ_work *work, situ_status *status);
} situ__target_table;
extern const situ__target_table *situ__targets; /* the module's, from its start on */
/* What a module's situ_module_start does: takes the library's functions and the module's table, and checks that the
   versions fit. */
bool situ__lower_start(const situ_host *host, const situ__target_table *targets);

/* ---- compiled kernels (table.c) -------------------------------------------------------------- */
typedef struct situ__made {
  situ__variant variant;
  void *kernel; /* the backend's; NULL: a free slot */
} situ__made;
/* Zero it first. The device's lock guards it. */
typedef struct situ__table {
  situ__made *made;
  size_t slots, count;
} situ__table;
/* Returns NULL if it was not compiled yet. */
void *situ__table_find(const situ__table *table, const situ__variant *variant);
/* Adds a kernel that is not in the table. Returns false when out of memory. */
bool situ__table_add(situ__table *table, const situ__variant *variant, void *kernel);

/* ---- faults (fault.c) ------------------------------------------------------------------------ */
/* Records what a kernel on device `kind`:`index` reported; returns its status. */
situ_status situ__lower_tell(const char *kind, int index, const fault *seen);
/* Writes what a driver says of a chip; of all zeros, nothing. pci: domain, bus, device, function. */
void situ__lower_identify(situ_device_properties *out, const unsigned char uuid[16], const unsigned pci[4]);
/* Raises a number of devices, which other threads read, to at least `to`. */
void situ__lower_grow(int *number, int to);

/* ---- calls (call.c) ------------------------------------------------------------------------- */
/* Adds an operand's buffer; for NULL, a NULL pointer. */
static inline void situ__lower_buffer(situ__call *call, const situ_view_desc *view) {
  call->buffer[call->buffers++] = view ? view->storage->data : NULL;
}
static inline void situ__lower_block(situ__call *call, const void *data, size_t bytes) {
  call->block[call->blocks].data = data;
  call->block[call->blocks++].bytes = bytes;
}
/* Adds four scalars of variant.compute's type. The block points into *call, which must not move. */
void situ__lower_scalars(situ__call *call, const double *from);
/* Unique name of the call's kernel, as cmake/kernels.cmake spells it. */
void situ__lower_name(const situ__call *call, char name[SITU__CALL_NAME]);
/* Queues `items` work-items; the device must be entered. */
situ_status situ__lower_items(situ__target *target, const situ__call *call, int64_t items);
/* Enters device `index` and queues `items` work-items. */
situ_status situ__lower_run(int index, const situ__call *call, int64_t items);
/* For FLAT kernels: work-items of about `size` elements each. */
situ_status situ__lower_run_flat(int index, situ__call *call, int64_t items, int64_t size);
/* For kernels that walk all operands together: a CPU divides the elements into shares, a GPU into packs. dense: all
   operands are without gaps. */
situ_status situ__lower_run_walk(int index, situ__call *call, const walk *w, bool dense, int count,
                                 const situ_view_desc *const *views);
/* One line for each work-group; where lines are many or short, one for each work-item (sets FLAG_SERIAL). beside: lines
   are adjacent, and a CPU may process several at a time (sets FLAG_BESIDE). */
situ_status situ__lower_run_lines(int index, situ__call *call, int64_t count, int64_t length, bool beside);
/* Chooses the kernel for contiguous rows of `size` elements (row.h) on devices with warps. views[] are the operands
   (NULL: absent), of one dtype up to `vectors`; from `vectors` on they are one row long and of any dtype. Sets FLAG_ROW
   and its companions, and fills the layout, which the caller must add as the call's next block. Returns false if the
   device has no warps. */
bool situ__lower_rows(int index, situ__call *call, int64_t size, row_layout *layout, int count, int vectors,
                      const situ_view_desc *const *views);
/* Queues that kernel for `rows` rows. */
situ_status situ__lower_run_rows(int index, const situ__call *call, int64_t rows);
/* Sums the rows of x into y on a GPU (columns.h); op 1 and 2: a norm's gradients of weight and bias, into y and y2,
   either of which may be NULL. n gives sizes, the step between rows, and the divisor of the sums. Returns false on a
   CPU, where nothing is queued; else *status is set. */
bool situ__lower_columns(int index, int op, column_sums n, const situ_view_desc *x, const situ_view_desc *g,
                         const situ_view_desc *mean, const situ_view_desc *rstd, const situ_view_desc *y,
                         const situ_view_desc *y2, situ_status *status);
/* Enters device `index` and calls situ__targets->scratch. */
void *situ__lower_scratch(int index, const char *op, size_t bytes);

/* ---- views (walk.c) ------------------------------------------------------------------------- */
/* Walk over operands of one shape, in as few dimensions as possible. Returns true if all are without gaps. */
bool situ__lower_walk(walk *to, int count, const situ_view_desc *const *views);
/* Adds a dimension, outermost first; merges it with the last one if they are contiguous. */
void situ__lower_walk_add(walk *to, int count, int64_t size, const int64_t *strides);
/* Multiplier for quotient()'s division by size; 0: size is too large. */
int64_t situ__lower_magic(int64_t size);
/* Elements of a pack of these operands (pack.h). */
int64_t situ__lower_pack(int count, const situ_view_desc *const *views);
/* Number of elements from the last pack boundary to the view's first element. */
int64_t situ__lower_skew(const situ__target *target, const situ_view_desc *view, int64_t pack);
packs situ__lower_packs(const situ__target *target, const walk *w, int64_t pack, int count,
                        const situ_view_desc *const *views);
/* Sizes around one dimension of operands without gaps, and the operands' offsets (NULL: 0). */
lines situ__lower_lines(const situ_view_desc *of, int64_t dim, int count, const situ_view_desc *const *views);
/* Geometry of windows over the planes of `large`; `small` has one element for each window (pool.c). */
windows situ__lower_windows(const situ_window *w, const situ_view_desc *large, const situ_view_desc *small);
/* Contiguous view of scratch memory. */
situ_view_desc situ__lower_scratch_view(situ_storage *storage, void *memory, situ_dtype dtype, int64_t numel);
/* stand_in: an uninitialised tensor in scratch (the caller releases storage->data) of v's shape and the given dtype;
   broadcast elements are stored once. cast: the same with v's values (elementwise.c). */
situ_status situ__lower_stand_in(int index, const situ_view_desc *v, situ_dtype dtype, situ_view_desc *to,
                                 situ_storage *storage);
situ_status situ__lower_cast(int index, const situ_view_desc *v, situ_dtype dtype, situ_view_desc *to,
                             situ_storage *storage);
/* Integer dtype of the same element size. */
situ_dtype situ__lower_integer_dtype(int dtype);
situ_dtype situ__lower_compute_dtype(situ_dtype dtype);
static inline int64_t situ__lower_offset(const situ_view_desc *view) { return view ? view->offset : 0; }

typedef enum situ__lower_compute { SITU__COMPUTE_F32, SITU__COMPUTE_F64, SITU__COMPUTE_I64 } situ__lower_compute;
situ__lower_compute situ__lower_compute_of(situ_dtype dtype);
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
/* Adds `together` consecutive products of a and b along the first dimension into one item of y; more than one only on a
   CPU. */
situ_status situ__lower_matmul_sums(int index, const situ_work *work, int64_t together);
situ_status situ__lower_conv(int index, const situ_work *work);
situ_status situ__lower_pool(int index, const situ_work *work);
situ_status situ__lower_resample(int index, const situ_work *work);
situ_status situ__lower_fft(int index, const situ_work *work);
situ_status situ__lower_softmax(int index, const situ_work *work);
situ_status situ__lower_norm(int index, const situ_work *work);
situ_status situ__lower_batch_norm(int index, const situ_work *work);
situ_status situ__lower_nll(int index, const situ_work *work);
situ_status situ__lower_cell(int index, const situ_work *work);
situ_status situ__lower_attention(int index, const situ_work *work);
/* Whether kernels for this attention exist, and are faster than what composes it. */
situ_status situ__lower_offers_attention(int index, const situ_work *work);
/* A backend's `offers`. */
situ_status situ__lower_offers(int index, const situ_work *work);
situ_status situ__lower_optimizer(int index, const situ_work *work);
situ_status situ__lower_blocks(int index, const situ_work *work);

/* All verbs that are lowered to kernels, and the slots of such a backend's verb table. */
/* clang-format off */
#define SITU__LOWERED_VERBS(ROW)\
  ROW(COPY, copy) ROW(FILL, fill) ROW(RANGE, range) ROW(RANDOM, random) ROW(TRIANGLE, triangle)   \
  ROW(UNARY, unary) ROW(UNARY_GRAD, unary_grad) ROW(BINARY, binary) ROW(TERNARY, ternary)         \
  ROW(REDUCE, reduce) ROW(ARG_REDUCE, arg_reduce) ROW(SCAN, scan) ROW(SORT, sort)                 \
  ROW(GATHER, gather) ROW(SCATTER, scatter) ROW(NONZERO, nonzero) ROW(MATMUL, matmul)             \
  ROW(CONV, conv) ROW(POOL, pool) ROW(RESAMPLE, resample) ROW(FFT, fft) ROW(SOFTMAX, softmax)     \
  ROW(NORM, norm) ROW(BATCH_NORM, batch_norm) ROW(NLL, nll) ROW(CELL, cell) ROW(ATTENTION, attention)   \
  ROW(OPTIMIZER, optimizer) ROW(BLOCKS, blocks)
/* clang-format on */
#define SITU__LOWERED_SLOT(verb, name) [SITU_VERB_##verb] = situ__lower_##name,
#define SITU__LOWERED SITU__LOWERED_VERBS(SITU__LOWERED_SLOT)

#endif
