/* The state of one backward pass. All of it belongs to the pass and none to the graph, so passes can nest (a
   hook that calls backward), run at once on several threads, and fail without side effects.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_PASS_H
#define SITU_AUTOGRAD_PASS_H

#include "autograd/tape.h"
#include "base/busy.h"
#include "base/map.h"

/* The gradient that a node or a leaf has accumulated so far. */
typedef struct situ__slot {
  const void *key;     /* a node or a leaf; NULL: empty slot */
  situ_tensor *grad;   /* of a leaf, or of a node's only result; owned, may be NULL */
  situ_tensor **grads; /* one per result of a node with several results; owned */
} situ__slot;

/* A .grad that the pass adds to after it has succeeded. */
typedef struct situ__sink {
  situ_tensor *leaf;   /* owned; its gradient is in its slot; or */
  situ__meta *meta;    /* of a non-leaf that retains its gradient; owned */
  situ_tensor *grad;   /* the gradient to add; owned; of a leaf: NULL until it is complete */
  bool told;           /* the ready hooks of the leaf have run */
  bool taken;          /* one of them has taken the gradient */
  situ_tensor *before; /* in situ__sum_captured: a copy of the .grad of before; owned; NULL: nothing is added to it */
} situ__sink;

enum { SITU__FEW_SLOTS_LOG2 = 4, SITU__FEW_NODES = 16, SITU__FEW_SINKS = 8 };

struct situ__pass {
  const char *op;
  void *site; /* call site of the public call, used for all tensors made during the pass */
  bool retain_graph;
  bool create_graph;         /* the pass runs in a recording scope */
  struct situ__asked *asked; /* NULL: all leaves */
  situ__node **made;         /* nodes that a backward added to the graph (recompute.c); owned */
  size_t made_count;
  int64_t made_capacity;
  situ__slot *slot; /* open addressing, 2^bits slots */
  unsigned bits;
  size_t used;
  situ__node **heap; /* max-heap by sequence of the nodes reached but not run */
  size_t count, capacity;
  situ__sink *sink; /* in the order in which the pass reached them */
  size_t sinks, sink_capacity;
  bool watched;         /* a leaf with ready hooks was reached */
  bool searched;        /* `uses` is filled */
  situ__map uses;       /* leaves.c: the nodes that remained when it was filled, and each leaf's earliest use by them */
  size_t open;          /* leaves before this sink have been told */
  bool may_take, takes; /* while the ready hooks of a leaf run: its gradient can be taken; a hook has taken it */
  struct situ__callback *callbacks; /* that hooks have queued; owned */
  /* Inline space, so that small graphs do not allocate. */
  situ__slot few_slots[1 << SITU__FEW_SLOTS_LOG2];
  situ__node *few_nodes[SITU__FEW_NODES];
  situ__sink few_sinks[SITU__FEW_SINKS];
};

void situ__pass_begin(situ__pass *p, const char *op, bool retain_graph);
/* Releases everything that the pass still owns. */
void situ__pass_end(situ__pass *p);

/* Adds grad, whose reference it takes over, to the gradient of a node's result, or of a leaf. Returns false after
   recording an error. */
bool situ__pass_add_node(situ__pass *p, situ__node *n, int result, situ_tensor *grad);
bool situ__pass_add_leaf(situ__pass *p, situ_tensor *leaf, situ_tensor *grad);
/* Returns the slot entry with the gradient of a leaf that was reached. */
situ_tensor **situ__pass_leaf(situ__pass *p, const situ_tensor *leaf);
/* Remembers to add grad (borrowed) to the .grad of a non-leaf. Returns false after recording an error. */
bool situ__pass_keep(situ__pass *p, situ__meta *meta, situ_tensor *grad);

/* Goes on with t's history, which a node's backward has just recorded, and its gradient grad. Returns false after
   recording an error. */
bool situ__pass_follow(situ__pass *p, situ_tensor *t, situ_tensor *grad);

/* ---- gradients (backward.c) ---- */

/* Gradients of one value must have one device and one dtype. Returns false after recording an error. */
bool situ__takes_gradient(const char *op, const situ_tensor *at, const char *what, const situ_tensor *grad);
/* Runs hooks on *grad, which the caller owns. Returns false after recording an error. */
bool situ__run_hooks(const char *op, const situ__meta *m, situ_tensor **grad);
/* Returns a gradient that a leaf may keep: in its own memory, without gaps, in the leaf's order of strides. leaf NULL:
   in any order. Takes over the reference. NULL after recording an error. */
situ_tensor *situ__owned_copy(const char *op, situ_tensor *grad, const situ_tensor *leaf, bool recorded);

/* sum = a + b, of one dtype, sizes and device; sum may be one of them. Returns false after recording an error. */
bool situ__add_gradients(const char *op, const situ_tensor *a, const situ_tensor *b, situ_tensor *sum);
/* While a graph is captured (captured.c): adds the gradients of the pass to those of before, in the memory of these. On
   error no gradient has changed. Returns false after recording it. */
bool situ__sum_captured(situ__pass *p);

/* ---- leaves (leaves.c); the functions return false after recording an error ---- */

/* Behind each node: completes the gradients of leaves with ready hooks to which no remaining node adds, and runs these
   hooks. */
bool situ__leaves_advance(situ__pass *p);
/* When all nodes have run: completes all gradients, and adds them to .grad unless the pass was asked for some. */
bool situ__leaves_finish(situ__pass *p);
/* When .grad has changed: runs the hooks after accumulation. */
bool situ__leaves_told(situ__pass *p);
/* At the end of a pass, also of one that has failed: runs what hooks have queued. */
bool situ__leaves_callbacks(situ__pass *p);

/* Visits the marks (base/busy.h) of tensors that other threads must not change: the values that a node has saved,
   while its backward runs; the leaves of a pass, while they get their gradients. */
bool situ__node_marks(const void *node, situ__mark_visitor *visit);
bool situ__pass_marks(const void *pass, situ__mark_visitor *visit);

/* Returns the node with the highest sequence that was reached but not run; NULL if none is left. */
situ__node *situ__pass_next(const situ__pass *p);
/* Removes n; moves its gradients, with their references, to grad[n->outs]. */
void situ__pass_take(situ__pass *p, situ__node *n, situ_tensor **grad);

#endif
