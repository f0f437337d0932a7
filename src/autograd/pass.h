/* Floor 3: the state of one backward pass. All of it is the pass's own and none of it is in the graph: so passes may nest (a hook
   that calls backward), run at once on several threads, and fail without a trace.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_PASS_H
#define SITU_AUTOGRAD_PASS_H

#include "autograd/tape.h"
#include "base/busy.h"

/* What a call or a leaf has collected so far. */
typedef struct situ__slot {
  const void *key;     /* a node or a leaf; NULL: the slot is empty */
  situ_tensor *grad;   /* of a leaf, or of the only result of a node; owned, may be NULL */
  situ_tensor **grads; /* of each result of a node that has several; owned */
} situ__slot;

/* A .grad that the pass adds to when it has succeeded. */
typedef struct situ__sink {
  situ_tensor *leaf; /* owned; its gradient is in its slot; or */
  situ__meta *meta;  /* of a non-leaf that retains its gradient; owned */
  situ_tensor *grad; /* what is added; owned */
} situ__sink;

enum { SITU__FEW_SLOTS_LOG2 = 4, SITU__FEW_NODES = 16, SITU__FEW_SINKS = 8 };

struct situ__pass {
  const char *op;
  void *site; /* the call that goes backward: of all that is made in it */
  bool retain_graph;
  situ__slot *slot; /* open addressing, 2^bits of them */
  unsigned bits;
  size_t used;
  situ__node **heap; /* reached and not run yet; the largest sequence first */
  size_t count, capacity;
  situ__sink *sink; /* in the order in which they were reached */
  size_t sinks, sink_capacity;
  /* Small graphs need no allocation. */
  situ__slot few_slots[1 << SITU__FEW_SLOTS_LOG2];
  situ__node *few_nodes[SITU__FEW_NODES];
  situ__sink few_sinks[SITU__FEW_SINKS];
};

void situ__pass_begin(situ__pass *p, const char *op, bool retain_graph);
/* Releases all that it still owns. */
void situ__pass_end(situ__pass *p);

/* Adds grad, whose reference it takes over, to what a result of a call, or a leaf, has collected. False: recorded. */
bool situ__pass_add_node(situ__pass *p, situ__node *n, int result, situ_tensor *grad);
bool situ__pass_add_leaf(situ__pass *p, situ_tensor *leaf, situ_tensor *grad);
/* Where the gradient of a leaf that was reached is kept. */
situ_tensor **situ__pass_leaf(situ__pass *p, const situ_tensor *leaf);
/* Notes that grad (not taken over) is to be added to the .grad of a non-leaf. False: recorded. */
bool situ__pass_keep(situ__pass *p, situ__meta *meta, situ_tensor *grad);

/* What other threads must leave alone meanwhile (base/busy.h): the values that a node has saved while its backward runs; the leaves
   of a pass while they get their gradients. */
bool situ__node_marks(const void *node, situ__mark_visitor *visit);
bool situ__pass_marks(const void *pass, situ__mark_visitor *visit);

/* The latest call that was reached and has not run; NULL: none is left. */
situ__node *situ__pass_next(const situ__pass *p);
/* Removes it; its gradients go to grad[n->outs], with their references. */
void situ__pass_take(situ__pass *p, situ__node *n, situ_tensor **grad);

#endif
