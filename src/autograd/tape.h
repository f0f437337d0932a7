/* The tape. A node records one call; it knows function pointers instead of ops.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_TAPE_H
#define SITU_AUTOGRAD_TAPE_H

#include "situ/autograd.h"
#include "situ/sys/explain.h"
#include "tensor/tensor.h"

typedef struct situ__node situ__node;
typedef struct situ__pass situ__pass; /* pass.h */

/* Where the gradient of an operand goes, and what is saved of it. */
typedef struct situ__operand {
  situ__node *node;   /* the node that produced it, owned; or */
  situ_tensor *leaf;  /* the leaf that accumulates it, owned; both NULL: no gradient needed */
  int32_t result;     /* index among node's results */
  uint32_t version;   /* version of the saved value when it was saved */
  situ_tensor *saved; /* owned, unless it is the leaf itself; NULL: not saved */
  situ_device device; /* device of the saved value when it was saved */
} situ__operand;

typedef struct situ__result {
  struct situ__meta *meta; /* hooks and retained gradient of a non-leaf; shared with it */
  situ_tensor *saved;
  uint32_t version;
  situ_device device; /* of the result: backward runs there */
} situ__result;

/* Sets dx[i] (owned by the innermost scope) where wants[i]. In a recording scope (create_graph) by recorded calls.
   Returns false after recording an error. */
typedef bool (*situ__backward_fn)(situ__pass *pass, const situ__node *node, situ_tensor *const *grad, const bool *wants,
                                  situ_tensor **dx);

/* Values of situ__node.state; above 0: number of passes, all retaining the graph, that run the node's backward. */
enum { SITU__NODE_IDLE = 0, SITU__NODE_TAKEN = -1, SITU__NODE_FREED = -2 };

struct situ__node {
  int64_t refs;      /* atomic */
  uint64_t sequence; /* larger than its inputs' and earlier ones of its thread, so backward runs in descending order */
  const char *name;  /* static text */
  situ__backward_fn backward; /* NULL: not differentiable */
  const void *owner;          /* for backward: the op, or the user's function */
  void *params;               /* for backward; inside the node, or freed by release */
  void (*release)(void *params);
  struct situ__origin_of_call *origin; /* while anomalies are detected: where it was recorded; owned */
  situ__node *next;                    /* list of nodes to free */
  situ_device device;
  size_t size; /* of the allocation: what the pointers below point to, and params, follow the node */
  int ins, outs;
  int32_t state;   /* guards the saved values; atomic */
  bool saves;      /* at least one value was saved */
  uint16_t module; /* while a profile is recorded: where it was recorded (situ__profile_module); else 0 */
  situ__operand *in;
  situ__result *out;
  situ_shape *shape; /* of the operands, with dtype: backward gets these arrays as they are */
  situ_dtype *dtype;
};

typedef struct situ__hook {
  union {
    situ_grad_hook fn;                    /* in the list `hooks` */
    situ_post_accumulate_grad_hook after; /* in the list `after` */
    situ_grad_ready_hook ready;           /* in the list `ready` */
  };
  void *payload;
  struct situ__hook *next;
} situ__hook;

/* Gradient and hooks of a tensor; shared with the node for a non-leaf. */
typedef struct situ__meta {
  int64_t refs;           /* atomic */
  situ_tensor *grad;      /* owned */
  situ_tensor *tangent;   /* owned; in forward mode: the derivative along a direction */
  situ__hook *hooks;      /* in the order of their registration */
  situ__hook *after;      /* of leaves: called when .grad has changed */
  situ__hook *ready;      /* of leaves: called when the gradient is final */
  struct situ_part *part; /* what this rank has of the tensor; owned; NULL: all */
  bool retain;            /* keep the gradient of a non-leaf (retain_grad) */
  bool in_parts;          /* the gradient is divided among ranks; grad is NULL */
} situ__meta;

/* What to record: filled by the caller, copied by the tape. */
typedef struct situ__record {
  const char *name;
  situ__backward_fn backward;
  const void *owner;
  const void *params;
  size_t params_size; /* copied into the node; 0: the node takes over the pointer, and calls release */
  void (*release)(void *params);
  situ_tensor *const *in, *const *out;
  int ins, outs;
  unsigned save;       /* SITU_SAVE, SITU_SAVE_OUT */
  situ_tensor *before; /* in place: a copy of in[0]'s earlier values if they must be saved; else NULL */
} situ__record;

/* What the operands require of a call in a recording scope; 0 otherwise. */
enum {
  SITU__TAPE_WANTED = 1,      /* one requires a gradient: record the call */
  SITU__TAPE_FIRST_ORDER = 2, /* one is a gradient, or computed from one: so is the result, and recording is an error */
  SITU__TAPE_STALE = 4        /* one is a view whose base was written in place since */
};
unsigned situ__tape_asks(situ_tensor *const *in, int ins);
/* Records an error for a recorded call of op with such an operand. Returns false. */
bool situ__tape_refuse_first_order(const char *op, situ_tensor *const *in, int ins);
/* Recording has two steps, so that it cannot fail after values have changed. prepare allocates, before the op runs
   (NULL after recording an error; the caller still owns params); attach runs after it, and makes the results require a
   gradient. It returns false only where a hook for saved tensors has recorded an error; the results are attached. */
/* The highest number of a node that this thread has recorded or used. */
uint64_t situ__tape_now(void);
/* Has this thread's next nodes get higher numbers than n. */
void situ__tape_follow(const situ__node *n);
situ__node *situ__tape_prepare(const situ__record *record);
bool situ__tape_attach(situ__node *node, situ_tensor *const *out);
/* Frees the node of a call that failed. The caller still owns params. */
void situ__tape_cancel(situ__node *node);
/* Makes result k of n, which may not be attached yet, the source of operand i. */
void situ__tape_connect(situ__node *node, int i, situ__node *n, int k);

/* The saved values of a node for its backward: in a recording scope with the history that they had, so that the
   gradient of the gradient reaches it. NULL if nothing was saved; *good turns false after recording an error. The scope
   owns what is not the node's. */
situ_tensor *situ__saved_operand(const situ__node *node, int i, bool *good);
situ_tensor *situ__saved_result(const situ__node *node, int k, bool *good);
/* Returns a handle on t's values that is the result of a recorded call of its own, so that a gradient can be asked for
   it, and not for what shares t's history; the scope owns it. NULL after recording an error. */
situ_tensor *situ__tape_stand_in(situ_tensor *t);

void situ__node_release(situ__node *node);
/* Frees saved values, after a backward that does not retain the graph. */
void situ__node_clear(situ__node *node);
/* Returns the gradient that this pass has accumulated for n's operand i, if it may be written to; else NULL. */
situ_tensor *situ__collected(situ__pass *pass, const situ__node *n, int i);
/* Returns t's meta, created if needed; NULL after recording SITU_E_NOMEM under op. Thread-safe, for passes that reach
   one leaf. */
situ__meta *situ__meta_of(const char *op, situ_tensor *t);
static inline situ__meta *situ__meta_now(const situ_tensor *t) { return __atomic_load_n(&t->meta, __ATOMIC_ACQUIRE); }
/* For a gradient that is about to be replaced or released: who else has it may move it. NULL is fine. */
void situ__gradient_left(situ_tensor *grad);
void situ__meta_release(situ__meta *meta);
/* Returns true if `given`, the call's argument `name`, can be a gradient of t; false after recording an error with a
   table of both. */
bool situ__gradient_fits(const char *op, const char *name, const situ_tensor *given, const situ_tensor *t);

/* What this floor needs from those above it; src/wiring.c fills it in. */
typedef struct situ__autograd_upcalls {
  /* Records a mismatch with a table of its operands, as situ_fail_blamed does. */
  situ_status (*blame)(situ_status status, const char *op, const situ_blamed *list, int count, const char *text);
  /* The nodes of "view, as a view of its base", and of "base, with the part that view shows replaced by it"; the caller
     attaches them. Return NULL after recording an error. */
  situ__node *(*node_of_view)(situ_tensor *view);
  situ__node *(*node_of_part)(situ_tensor *view);
  /* Recorded calls, for gradients that are differentiated again. */
  situ_tensor *(*add)(situ_tensor *a, situ_tensor *b);
  situ_tensor *(*clone)(situ_tensor *t, situ_memory_format format);
  /* Writes whether an element of t is NaN to *found. Returns false after recording an error. */
  bool (*has_nan)(situ_tensor *t, bool *found);
  /* Writes the path of the module that this thread runs; "" for none. */
  void (*module_path)(char *buffer, size_t size);
  /* Writes the path of a parameter or buffer in its module; "" for others. */
  void (*tensor_path)(const situ_tensor *t, char *buffer, size_t size);
} situ__autograd_upcalls;
extern const situ__autograd_upcalls situ__autograd_up;
/* An upcall of the floor below (tensor.h). */
void situ__release_history(situ_tensor *t);

/* Returns true if t is the only handle on its memory, so that its owner may write to it. */
bool situ__exclusive(const situ_tensor *t);
/* *slot += grad. Takes over the reference to grad. In place only if *slot is exclusive; in a recording scope by a
   recorded call. Returns false after recording an error. */
bool situ__accumulate(const char *op, situ_tensor **slot, situ_tensor *grad);

#endif
