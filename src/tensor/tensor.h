/* Floor 2: what a tensor is made of, and the scopes that own tensors.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TENSOR_TENSOR_H
#define SITU_TENSOR_TENSOR_H

#include <string.h>

#include "base/handle.h"
#include "base/thread.h"
#include "device/device.h"
#include "situ/sys/op.h"

struct situ__node; /* floor 3: the record of the call that made a tensor */
struct situ__meta; /* floor 3: gradient and hooks */

struct situ_tensor {  /* what is asked most often first, side by side */
  uint32_t head;      /* SITU__LIVE(SITU__A_TENSOR) */
  uint8_t role;       /* a situ_role */
  bool requires_grad; /* a leaf whose gradient is wanted, or the result of a recorded call */
  bool first_order; /* a gradient, or computed from one where gradients are recorded: its own derivative is not known */
  uint8_t
      view_kind; /* of a view: a situ__view_kind (autograd/view.h); of a base: not 0 if it has views above SITU__VIEW_ONE_OF */
  uint32_t rebased; /* of a base: how often its history was replaced by in-place writes; of a view: the same number of
                                        its base, when the view's own history was recorded */
  int32_t node_result;     /* which result of node this is */
  int64_t refs;            /* counted atomically; of a freed one: the device that it was on */
  struct situ__node *node; /* NULL for a leaf */
  struct situ__meta *meta; /* NULL until there is a gradient or a hook */
  situ_tensor *base;       /* of a differentiable view: the tensor on whose memory it looks, itself not a view; owned */
  situ_view_desc view;
  void *created_at;                       /* return address of the call that made it */
  char *name;                             /* NULL: none */
  situ_tensor *next_handle, *prev_handle; /* all that look at one storage: see situ__handles_begin */
};

/* Is this a live tensor? NULL is not one. */
static inline bool situ__alive(const situ_tensor *t) { return t && t->head == SITU__LIVE(SITU__A_TENSOR); }
/* situ_desc of an operand that was checked; NULL of NULL. */
static inline const situ_view_desc *situ__desc(const situ_tensor *t) { return t ? &t->view : NULL; }
/* Checks a handle that must be given; false: recorded (NULL after an error: nothing new). */
static inline bool situ__need(const char *op, const char *operand, const situ_tensor *t) {
  return situ__valid(op, operand, t, SITU__A_TENSOR);
}

/* ---- making (tensor.c) ---- the result has one reference, which is the innermost scope's */
/* A tensor with a storage of its own, row-major. */
situ_tensor *situ__tensor_new(const char *op, const situ_shape *shape, situ_dtype dtype, situ_device device);
/* A tensor with a storage of its own, on v's device and of its sizes; v has no gaps. */
situ_tensor *situ__tensor_like(const char *op, const situ_view_desc *v, situ_dtype dtype);
/* A tensor on view->storage, which gets one more owner. */
situ_tensor *situ__tensor_view(const char *op, const situ_view_desc *view);
/* The same, but owned by the caller alone: no scope. `site`: what its created_at is. */
situ_tensor *situ__tensor_alias(const char *op, const situ_view_desc *view, void *site);
/* Fills size, stride, numel, contiguous of a row-major view; the caller sets storage, offset, dtype. */
bool situ__desc_rows(const char *op, const situ_shape *shape, situ_view_desc *view);
/* The first of the tensors that look at a storage, then each one's next_handle. The list stands still until
   situ__handles_end: no tensor of that storage may be made or released in between. */
situ_tensor *situ__handles_begin(situ_storage *storage);
void situ__handles_end(situ_storage *storage);
/* Does every element of v lie inside its storage, and no two at one place? */
bool situ__desc_overlaps(const situ_view_desc *v);

/* What this floor asks of autograd; src/wiring.c fills it in. */
typedef struct situ__tensor_upcalls {
  /* Frees t's node, gradient and hooks, and its reference to its base. */
  void (*release_history)(situ_tensor *t);
  situ_tensor *(*set_requires_grad)(situ_tensor *t, bool value); /* as situ_requires_grad_ */
} situ__tensor_upcalls;
extern const situ__tensor_upcalls situ__tensor_up;
/* For the floor below (device.h, fail.h). */
void situ__describe_storage(situ_storage *storage, situ__described *to);
uint8_t situ__storage_subject(situ_storage *storage, char *name, size_t size);
void situ__describe_dead_tensor(const void *handle, char *buffer, size_t size);

/* ---- scopes (scope.c) ---- */
/* Gives the reference of a new tensor to the innermost scope; on failure releases it: NULL, recorded. Outside any scope
   the reference is the program's. */
situ_tensor *situ__scope_own(const char *op, situ_tensor *t);
extern SITU__THREAD_LOCAL bool situ__grad_off; /* the innermost scope records no gradients */
static inline bool situ__recording(void) { return !situ__grad_off; }

/* ---- shapes (shape.c) ---- */
static inline situ_shape situ__shape(const situ_view_desc *v) {
  situ_shape s;
  s.ndim = v->ndim;
  memcpy(s.dim, v->size, sizeof s.dim); /* all of it: two moves are faster than a loop over ndim */
  return s;
}
static inline bool situ__same_sizes(const situ_view_desc *a, const situ_view_desc *b) {
  if (a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->size[d] != b->size[d]) return false;
  return true;
}
/* Do two views of one storage show the same elements in the same order? */
static inline bool situ__same_place(const situ_view_desc *a, const situ_view_desc *b) {
  if (a->offset != b->offset || !situ__same_sizes(a, b)) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->size[d] > 1 && a->stride[d] != b->stride[d]) return false;
  return true;
}
/* First and last element of v in its storage; false: v is empty. */
static inline bool situ__desc_range(const situ_view_desc *v, int64_t *first, int64_t *last) {
  *first = *last = v->offset;
  for (int d = 0; d < v->ndim; d++) *(v->stride[d] < 0 ? first : last) += (v->size[d] - 1) * v->stride[d];
  return v->numel > 0;
}

#endif
