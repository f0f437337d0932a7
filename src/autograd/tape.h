/* Floor 3: the tape. A node records one call; it knows function pointers, no ops.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_TAPE_H
#define SITU_AUTOGRAD_TAPE_H

#include "tensor/tensor.h"

typedef struct situ__node situ__node;

/* Where the gradient of an operand goes, and what backward may ask of the operand. */
typedef struct situ__operand {
  situ__node  *node;      /* the call that made it, owned; or */
  situ_tensor *leaf;      /* the leaf that collects it, owned; both NULL: not wanted */
  int32_t      result;    /* which result of node */
  uint32_t     version;   /* of the saved value, when it was saved */
  situ_tensor *saved;     /* owned; NULL: not saved */
  situ_dtype   dtype;
  situ_device  device;    /* of the saved value, when it was saved */
  situ_shape   shape;
} situ__operand;

typedef struct situ__result {
  situ_tensor      *grad;     /* collects during backward */
  struct situ__meta *meta;    /* hooks and retained gradient of a tensor that is no leaf; shared with it */
  situ_tensor      *saved;
  uint32_t          version;
  situ_device       device;   /* where the result was made: backward runs there */
} situ__result;

/* Fills dx[i] (owned by the innermost scope) where wants[i]; returns false after recording an error. */
typedef bool (*situ__backward_fn)(situ__node *node, situ_tensor *const *grad, const bool *wants, situ_tensor **dx);

struct situ__node {
  int64_t           refs;       /* counted atomically */
  uint64_t          sequence;   /* later calls have larger ones: descending order is a valid order back */
  const char       *name;       /* static text */
  situ__backward_fn backward;   /* NULL: this call cannot be differentiated */
  const void       *owner;      /* for backward: the op, or the user's function */
  void             *params;     /* for backward; inside the node, or owned by release */
  void            (*release)(void *params);
  situ__node       *next;       /* chain of nodes to be freed */
  situ_device       device;
  size_t            size;       /* of the allocation: operands, results and params follow the node */
  int               ins, outs;
  bool              freed;      /* a backward has used up what was saved */
  bool              queued;     /* during backward: waits in the heap */
  situ__operand    *in;
  situ__result     *out;
};

typedef struct situ__hook {
  situ_grad_hook     fn;
  void              *payload;
  struct situ__hook *next;
} situ__hook;

/* Gradient and hooks of a tensor; shared with the node for a tensor that is no leaf. */
typedef struct situ__meta {
  int64_t      refs;
  situ_tensor *grad;      /* owned */
  situ_tensor *pending;   /* during backward: what this pass adds; owned */
  situ__hook  *hooks;     /* in the order of their registration */
  bool         retain;    /* keep the gradient although no leaf */
} situ__meta;

/* What is to be recorded: filled by the caller, copied by the tape. */
typedef struct situ__record {
  const char          *name;
  situ__backward_fn    backward;
  const void          *owner;
  const void          *params;
  size_t               params_size;     /* copied into the node; 0: params is kept as it is, and released */
  void               (*release)(void *params);
  situ_tensor *const  *in, *const *out;
  int                  ins, outs;
  unsigned             save;            /* SITU_SAVE, SITU_SAVE_OUT */
  situ_tensor         *before;          /* in place: a copy of what in[0] was, where it is to be saved; else NULL */
} situ__record;

/* Does recording make sense: a gradient is wanted by an operand, and this scope records? */
bool situ__tape_wanted(situ_tensor *const *in, int ins);
/* Records; the results now require a gradient. False: out of memory, recorded; the results have no history then. */
bool situ__tape_record(const situ__record *record);

void situ__node_release(situ__node *node);
/* Drops saved values (after a backward that does not retain the graph). */
void situ__node_clear(situ__node *node);
/* The gradient of n's operand i that was collected so far, if it may be written to; NULL: none, or not. */
situ_tensor *situ__collected(const situ__node *n, int i);
/* t's meta, made if need be; NULL: out of memory, recorded under op. */
situ__meta *situ__meta_of(const char *op, situ_tensor *t);
void situ__meta_release(situ__meta *meta);

/* *slot += grad: takes over the reference to grad. In place only where nobody else can see *slot's memory. */
bool situ__accumulate(const char *op, situ_tensor **slot, situ_tensor *grad);

#endif
