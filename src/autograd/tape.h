/* Floor 3: the tape. A node records one call; it knows function pointers, no ops.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_TAPE_H
#define SITU_AUTOGRAD_TAPE_H

#include "tensor/tensor.h"

typedef struct situ__node situ__node;
typedef struct situ__pass situ__pass; /* pass.h */

/* Where the gradient of an operand goes, and what backward may ask of the operand. */
typedef struct situ__operand {
  situ__node *node;   /* the call that made it, owned; or */
  situ_tensor *leaf;  /* the leaf that collects it, owned; both NULL: not wanted */
  int32_t result;     /* which result of node */
  uint32_t version;   /* of the saved value, when it was saved */
  situ_tensor *saved; /* owned, unless it is the leaf itself; NULL: not saved */
  situ_dtype dtype;
  situ_device device; /* of the saved value, when it was saved */
  situ_shape shape;
} situ__operand;

typedef struct situ__result {
  struct situ__meta *meta; /* hooks and retained gradient of a non-leaf; shared with it */
  situ_tensor *saved;
  uint32_t version;
  situ_device device; /* where the result was made: backward runs there */
} situ__result;

/* Fills dx[i] (owned by the innermost scope) where wants[i]; returns false after recording an error. */
typedef bool (*situ__backward_fn)(situ__pass *pass, const situ__node *node, situ_tensor *const *grad, const bool *wants,
                                  situ_tensor **dx);

/* situ__node.state; above 0: that many passes, which all retain the graph, run the call's backward. */
enum { SITU__NODE_IDLE = 0, SITU__NODE_TAKEN = -1, SITU__NODE_FREED = -2 };

struct situ__node {
  int64_t refs;      /* counted atomically */
  uint64_t sequence; /* larger than those of the calls that it uses, and than earlier ones of its thread: descending
                                   order is a valid order back */
  const char *name;  /* static text */
  situ__backward_fn backward; /* NULL: this call cannot be differentiated */
  const void *owner;          /* for backward: the op, or the user's function */
  void *params;               /* for backward; inside the node, or owned by release */
  void (*release)(void *params);
  situ__node *next; /* chain of nodes to be freed */
  situ_device device;
  size_t size; /* of the allocation: operands, results and params follow the node */
  int ins, outs;
  int32_t state; /* guards what is saved: changed atomically */
  bool saves;    /* something was saved */
  situ__operand *in;
  situ__result *out;
};

typedef struct situ__hook {
  situ_grad_hook fn;
  void *payload;
  struct situ__hook *next;
} situ__hook;

/* Gradient and hooks of a tensor; shared with the node for a non-leaf. */
typedef struct situ__meta {
  int64_t refs;      /* counted atomically */
  situ_tensor *grad; /* owned */
  situ__hook *hooks; /* in the order of their registration */
  bool retain;       /* keep the gradient of a non-leaf */
} situ__meta;

/* What is to be recorded: filled by the caller, copied by the tape. */
typedef struct situ__record {
  const char *name;
  situ__backward_fn backward;
  const void *owner;
  const void *params;
  size_t params_size; /* copied into the node; 0: params is kept as it is, and released */
  void (*release)(void *params);
  situ_tensor *const *in, *const *out;
  int ins, outs;
  unsigned save;       /* SITU_SAVE, SITU_SAVE_OUT */
  situ_tensor *before; /* in place: a copy of what in[0] was, where its memory is to be saved; else NULL */
} situ__record;

/* What the operands ask of a call, where this scope records; else nothing. */
enum {
  SITU__TAPE_WANTED = 1, /* one requires a gradient: the call is to be recorded */
  SITU__TAPE_FIRST_ORDER =
      2,               /* one is a gradient, or computed from one: so is the result, and a recorded call is refused */
  SITU__TAPE_STALE = 4 /* one is a view whose base was written in place since */
};
unsigned situ__tape_asks(situ_tensor *const *in, int ins);
/* Refuses a recorded call of op with such an operand; always false. */
bool situ__tape_refuse_first_order(const char *op, situ_tensor *const *in, int ins);
/* Recording is in two steps, so that it cannot fail once values have changed: all that takes memory, before the op runs (NULL:
   recorded; the caller still owns params); then what cannot fail, after it. The results then require a gradient. */
situ__node *situ__tape_prepare(const situ__record *record);
void situ__tape_attach(situ__node *node, situ_tensor *const *out);
/* The node of a call that failed. The caller still owns params. */
void situ__tape_cancel(situ__node *node);
/* Operand i comes from result k of n, which may not be attached yet. */
void situ__tape_connect(situ__node *node, int i, situ__node *n, int k);

void situ__node_release(situ__node *node);
/* Drops saved values (after a backward that does not retain the graph). */
void situ__node_clear(situ__node *node);
/* What this pass has collected so far for n's operand i, if it may be written to; NULL: nothing, or it may not. */
situ_tensor *situ__collected(situ__pass *pass, const situ__node *n, int i);
/* t's meta, made if need be; NULL: out of memory, recorded under op. Several passes may ask for one leaf's at once. */
situ__meta *situ__meta_of(const char *op, situ_tensor *t);
static inline situ__meta *situ__meta_now(const situ_tensor *t) { return __atomic_load_n(&t->meta, __ATOMIC_ACQUIRE); }
void situ__meta_release(situ__meta *meta);

/* What this floor asks of those above it; src/wiring.c fills it in. */
typedef struct situ__autograd_upcalls {
  /* Records a mismatch with the table of its operands, as situ_fail_blamed does. */
  situ_status (*blame)(situ_status status, const char *op, const situ_blamed *list, int count, const char *text);
  /* The node of "view, seen as a view of its base", and of "base, with the part that view shows replaced by it". Nothing is
     attached. Return NULL after recording an error. */
  situ__node *(*node_of_view)(situ_tensor *view);
  situ__node *(*node_of_part)(situ_tensor *view);
} situ__autograd_upcalls;
extern const situ__autograd_upcalls situ__autograd_up;
/* For the floor below (tensor.h). */
void situ__release_history(situ_tensor *t);

/* Is t's memory seen through this one handle only, so that its owner may write to it? */
bool situ__exclusive(const situ_tensor *t);
/* *slot += grad: takes over the reference to grad. In place only if *slot is exclusive. */
bool situ__accumulate(const char *op, situ_tensor **slot, situ_tensor *grad);

#endif
