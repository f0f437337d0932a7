/* The tensor struct, and the scopes that own tensors.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TENSOR_TENSOR_H
#define SITU_TENSOR_TENSOR_H

#include <string.h>

#include "base/block.h"
#include "base/handle.h"
#include "base/thread.h"
#include "device/device.h"
#include "device/view.h"
#include "situ/sys/plain.h"
#include "situ/sys/tensor.h"

struct situ__node; /* floor 3: the autograd node that produced a tensor */
struct situ__meta; /* floor 3: gradient and hooks */

struct situ_tensor {   /* the hottest fields first, up to the view's dtype on one cache line */
  uint32_t head;       /* SITU__LIVE(SITU__A_TENSOR) */
  uint8_t role;        /* a situ_role */
  bool requires_grad;  /* a leaf that requires a gradient, or the result of a recorded call */
  bool first_order;    /* a gradient, or computed from one with recording on: its own derivative is unknown */
  uint8_t view_kind;   /* a view's situ__view_kind (autograd/view.h); of a base: has views above SITU__VIEW_ONE_OF */
  uint32_t rebased;    /* of a base: in-place writes that replaced its history; of a view: that count at recording */
  int32_t node_result; /* index of this tensor among node's results; of a lease, which has no node: its situ__lease */
  int64_t refs;        /* atomic; of a freed tensor: its device */
  struct situ__node *node; /* NULL for a leaf */
  struct situ__meta *meta; /* NULL without a gradient or hook */
  situ_view_desc view;
  void *created_at;  /* return address of the call that made it */
  char *name;        /* a shared text (base/alloc.h); NULL: unnamed */
  situ_tensor *base; /* of a differentiable view: owns the tensor whose memory it shares, itself not a view */
  situ_tensor *next_handle, *prev_handle; /* list of the tensors on one storage: see situ__handles_begin */
};

/* Returns true for a live tensor, false for NULL. */
static inline bool situ__alive(const situ_tensor *t) { return t && t->head == SITU__LIVE(SITU__A_TENSOR); }
/* situ_desc of an operand that was checked; NULL for NULL. */
static inline const situ_view_desc *situ__desc(const situ_tensor *t) { return t ? &t->view : NULL; }
/* Checks a required operand. Returns false after recording an error (for NULL after an error: that error). */
static inline bool situ__need(const char *op, const char *operand, const situ_tensor *t) {
  return situ__valid(op, operand, t, SITU__A_TENSOR);
}

/* Returns false after recording an error if the array of a call's results overlaps that of its operands; names: of
   both. */
bool situ__apart(const char *op, const char *names, situ_tensor *const *in, int ins, situ_tensor *const *out, int outs);

/* ---- creating tensors (tensor.c): the innermost scope owns the result's single reference ---- */
/* A row-major tensor with its own storage. */
situ_tensor *situ__tensor_new(const char *op, const situ_shape *shape, situ_dtype dtype, situ_device device);
/* The same in host memory that `device` copies directly, or in ordinary memory where it has none; at: the device that
   the caller has stated, which must be cpu or none (pin.c). */
situ_tensor *situ__tensor_pinned(const char *op, const situ_shape *shape, situ_dtype dtype, situ_device at,
                                 situ_device device);
/* A tensor with its own storage, with v's device, sizes and strides; v must be dense. */
situ_tensor *situ__tensor_like(const char *op, const situ_view_desc *v, situ_dtype dtype);
/* The same, but the caller owns the reference instead of a scope. */
situ_tensor *situ__tensor_apart(const char *op, const situ_view_desc *v, situ_dtype dtype);
/* A tensor with its own storage, with the sizes and strides of `layout`, which is dense but for expanded dimensions;
   its storage is not read. */
situ_tensor *situ__tensor_strided(const char *op, const situ_view_desc *layout, situ_dtype dtype, situ_device device);
/* A tensor on view->storage, of which it becomes an owner. */
situ_tensor *situ__tensor_view(const char *op, const situ_view_desc *view);
/* The same, but the caller owns the reference instead of a scope. `site`: value of created_at. */
situ_tensor *situ__tensor_alias(const char *op, const situ_view_desc *view, void *site);
/* A view of the program's memory (host.c): its dtype, sizes and strides, with offset 0 and without a storage, and the
   bytes from its first element to its last. Returns false after recording an error. */
bool situ__foreign_view(const char *op, const situ_shape *shape, const int64_t *strides, const situ_options *options,
                        situ_view_desc *view, size_t *bytes);
/* The tensor of such a view, which takes over the reference to its storage; NULL for a NULL storage. */
situ_tensor *situ__foreign_tensor(const char *op, const situ_view_desc *view, const situ_options *options);
/* Fills size, stride, numel and contiguous of a row-major view; the caller sets storage, offset and dtype. */
bool situ__desc_rows(const char *op, const situ_shape *shape, situ_view_desc *view);
/* Locks the list of tensors on a storage and returns the first; follow next_handle. Until situ__handles_end the list
   does not change: tensors of that storage must not be made or released in between. */
situ_tensor *situ__handles_begin(situ_storage *storage);
void situ__handles_end(situ_storage *storage);
/* Returns true if two elements of v may share memory. */
bool situ__desc_overlaps(const situ_view_desc *v);

/* ---- memory that others use too (host.c, lease.c, map.c) ---- */
/* Returns false after recording that t has no values to read. */
bool situ__check_written(const char *op, const situ_tensor *t);
/* Returns false after recording that autograd would not see that the host writes t. */
bool situ__may_write(const char *op, const situ_tensor *t);
/* Address of the first element, NULL without elements. Returns false after recording that the host cannot have it. */
bool situ__host_address(const char *op, const situ_tensor *t, void **first);
/* The host may write the values from now on, uncounted. */
void situ__expose(situ_storage *storage);
/* Bits of a lease's node_result, which is negative. */
typedef enum situ__lease {
  SITU__LEASE_EXPORT = INT32_MIN,
  SITU__LEASE_HOST = INT32_MIN | 1,
  SITU__LEASE_WRITES = INT32_MIN | 2, /* its end counts as a write */
  SITU__LEASE_SCOPED = INT32_MIN | 4  /* a scope owns it */
} situ__lease;
static inline bool situ__is_lease(const situ_tensor *t) { return t->node_result < 0; }
/* Keeps the memory of t's storage where it is until the caller, or the scope that it gives it to, releases the result.
   Returns NULL after recording an error. */
situ_tensor *situ__lease_new(const char *op, const situ_tensor *t, int32_t kind);
/* For situ_release, with the lock of the storage's handles: this lease has gone from them. */
void situ__lease_ended(const situ_tensor *lease);
/* Maps t's memory for a lease of t; returns the address of the first element, NULL after recording an error. */
void *situ__map_lease(const char *op, situ_tensor *t, situ_tensor *lease, bool write);
/* For situ_data_release, while the lease is held: an error if what the host has written must not be copied now. */
situ_status situ__map_may_end(const char *op, const situ_tensor *t);
/* For situ_release, before the lease goes: what the host has written is on the device. Records errors. */
void situ__map_ended(const situ_tensor *lease);
/* Records which line has leased a storage whose memory was to change. */
situ_status situ__refuse_leased(const char *op, situ_storage *storage) SITU_COLD;
static inline bool situ__is_leased(const situ_storage *storage) {
  return situ__storage_flags(storage) & SITU_STORAGE_LEASED;
}

/* What this floor needs from autograd; src/wiring.c fills it in. */
typedef struct situ__tensor_upcalls {
  /* Frees t's node, gradient and hooks, and its reference to its base. */
  void (*release_history)(situ_tensor *t);
  situ_tensor *(*set_requires_grad)(situ_tensor *t, bool value); /* as situ_requires_grad_ */
} situ__tensor_upcalls;
extern const situ__tensor_upcalls situ__tensor_up;
/* Upcalls of the floors below (device.h, fail.h). */
void situ__describe_storage(situ_storage *storage, situ__described *to);
uint8_t situ__storage_subject(situ_storage *storage, char *name, size_t size);
void situ__describe_dead_tensor(const void *handle, char *buffer, size_t size);
bool situ__error_in_scope(void);

/* Counts so many draws from a generator (NULL: the default one), and returns its state before (generator.c). */
situ_generator situ__generator_advance(situ_generator *generator, uint64_t draws);

/* ---- scopes (scope.c) ---- */
/* Gives the reference of a new tensor to the innermost scope; outside all scopes the program owns it. On failure
   releases t and returns NULL after recording an error. */
situ_tensor *situ__scope_own(const char *op, situ_tensor *t);
extern SITU__THREAD_LOCAL bool situ__grad_off; /* the innermost scope records no gradients */
bool situ__scope_is_any(void);                 /* this thread has an open scope */
/* Takes the newest tensor for which `is` returns true out of the open scope of this thread that owns it; NULL: none. */
situ_tensor *situ__scope_take(const situ_tensor *t, bool (*is)(const situ_tensor *owned, const situ_tensor *t));
/* situ_scope_begin, with recording on or off whatever the enclosing scope does. */
void situ__scope_begin_as(situ_scope *scope, bool records);
static inline bool situ__recording(void) { return !situ__grad_off; }
/* In situ_func_jvp, on this thread: calls look for operands with a tangent; INSIDE a call that will compute tangents,
   those of which it is made do not. TRACED, by situ_export: no tangents. In the odd ones no call may take the shortest
   way. */
typedef enum situ__forward {
  SITU__FORWARD_OFF,
  SITU__FORWARD_ON,
  SITU__FORWARD_INSIDE,
  SITU__FORWARD_TRACED
} situ__forward;
extern SITU__THREAD_LOCAL uint8_t situ__forward_mode;

/* In situ_func_vmap, on this thread: the innermost one (ops/samples.h); else NULL. */
extern SITU__THREAD_LOCAL struct situ__samples *situ__sampling;
static inline bool situ__is_sample(const situ_tensor *t) { return t && t->view.storage->flags & SITU_STORAGE_SAMPLE; }

/* Whether what a derivative by t needs must be kept. */
static inline bool situ__keeps(const situ_tensor *t) {
  const bool tangents = situ__forward_mode == SITU__FORWARD_ON || situ__forward_mode == SITU__FORWARD_INSIDE;
  return tangents || (t && t->requires_grad && situ__recording());
}

/* The type of the quantised blocks that a view's storage holds; SITU_BLOCK_NONE: numbers. */
static inline situ_block_type situ__blocks_of(const situ_view_desc *v) {
  if (v->dtype != SITU_U8) return SITU_BLOCK_NONE;
  const uint32_t flags = situ__storage_flags(v->storage);
  return (situ_block_type)((flags & SITU_STORAGE_BLOCKS) >> 8);
}

/* ---- orders of strides (format.c) ---- */
/* Checks a format, and that a tensor of this rank can have it. Returns false after recording an error. */
bool situ__format_check(const char *op, situ_memory_format format, int ndim);
/* Whether v is dense in a format; PRESERVE and DEFAULT count as contiguous. */
bool situ__is_format(const situ_view_desc *v, situ_memory_format format);
/* The format that v's strides are nearest to, by torch's rule (suggest_memory_format): gaps do not matter. */
situ_memory_format situ__suggest_format(const situ_view_desc *v);
/* Sets v's strides, numel and contiguous by its sizes and a format; row-major if the format is for another rank.
   Returns false, without recording an error, if they do not fit in 63 bits. */
bool situ__format_strides(situ_view_desc *v, situ_memory_format format);
/* Whether no two elements of v share memory, and all of them lie without gaps (torch's non-overlapping and dense). */
bool situ__is_dense(const situ_view_desc *v);
/* Whether elements are repeated along a dimension of stride 0; and the elements that exist, each once. */
bool situ__is_expanded(const situ_view_desc *v);
situ_view_desc situ__unexpanded(const situ_view_desc *v);
/* Sets the strides, numel and contiguous of the result of an element-wise op with these operands (NULL: absent), which
   broadcast to to->size: torch's order. Returns false, without recording an error, if they do not fit in 63 bits. */
bool situ__order_strides(situ_view_desc *to, const situ_view_desc *const *views, int count);
/* Whether the elements of two dense views of equal sizes lie in the same order. */
static inline bool situ__same_order(const situ_view_desc *a, const situ_view_desc *b) {
  if (a->contiguous && b->contiguous) return true;
  for (int d = 0; d < a->ndim; d++)
    if (a->size[d] > 1 && a->stride[d] != b->stride[d]) return false;
  return situ__is_dense(a);
}

/* ---- shapes (shape.c) ---- */
static inline situ_shape situ__shape(const situ_view_desc *v) {
  const int64_t *n = v->size;
  return (situ_shape){ .ndim = v->ndim, .dim = { n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7] } };
}

#endif
