/* Inside of a distributed module: its tensors in buckets, and the sums of a step.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_DDP_H
#define SITU_DIST_DDP_H

#include "distributed/comm/comm.h"
#include "distributed/comm/tree.h"
#include "situ/dist.h"
#include "situ/ops.h"

/* A parameter or a buffer. */
typedef struct situ__dist_item {
  situ_dist_ddp *ddp;
  situ_tensor *tensor; /* owned */
  const char *name;    /* of ddp->names */
  bool is_buffer;
  bool is_new;           /* ddp had no such tensor before: it gets the values of rank 0 */
  bool in_bucket;        /* parameters that require a gradient, and floating buffers */
  bool prior;            /* a parameter that had a gradient when this one arrived */
  bool prior_in_parts;   /* the ranks have it in parts */
  bool used;             /* in this step: it has got a gradient, or its values have changed */
  int group;             /* of the optimiser that keeps its gradient in parts; -1: none */
  int unit;              /* of the optimiser that keeps its values in parts: a bucket has those of one */
  int64_t bucket;        /* its index; -1: none */
  int64_t offset, numel; /* in its bucket */
  situ_dtype dtype;      /* both as they were when it was put there */
  situ_device device;
  situ_tensor *arrived;  /* in the backward that ends this rank's part of a step: its gradient; owned */
  situ_tensor *before;   /* of a buffer: the values at the start of the step; owned */
  situ_tensor *after;    /* of a buffer that is not averaged: those after the first micro-batch; owned */
  situ_tensor *gradient; /* at the end of a step: the average, what becomes .grad or the buffer; owned */
  uint32_t version;      /* of a buffer, when the micro-batch began */
} situ__dist_item;

/* A bucket's sum over the micro-batches [lo, hi). */
typedef struct situ__dist_node {
  int64_t lo, hi;
  situ_tensor *sum; /* owned */
} situ__dist_node;

/* Tensors that are summed together: of one dtype, device and group, and of one kind. */
typedef struct situ__dist_bucket {
  int64_t *items; /* indices */
  int64_t count, capacity, numel;
  int64_t arrived;        /* number of items that have `arrived` */
  situ_dtype dtype, wire; /* of the tensors; of the sums and of what ranks exchange */
  bool of_buffers;
  int group, unit;
  int64_t previous;       /* the number behind that of the bucket before it of its unit; 0: there is none */
  int64_t before;         /* elements of its group in the buckets before it */
  situ_tensor *share;     /* of a bucket in parts, at the end of a step: this rank's part of the average; owned */
  situ__dist_node *nodes; /* of this rank's micro-batches so far, in order */
  int64_t node_count, node_capacity;
} situ__dist_bucket;

typedef struct situ__dist_exchange situ__dist_exchange; /* reduce.c */

/* What an optimiser that keeps gradients in parts does in a step of ddp; it gives ddp this table (zero/parts.c). */
typedef struct situ__dist_parts {
  /* Gives this rank's optimiser its parts of the averages. Returns false after recording an error. */
  bool (*prepare)(const situ_dist_zero *z);
  /* All ranks have the averages: parameters that no rank has used have no gradient. Returns false after recording an
     error. */
  bool (*commit)(const situ_dist_zero *z);
  void (*drop)(const situ_dist_zero *z);
  void (*forget)(situ_dist_zero *z); /* ddp is about to be freed */
} situ__dist_parts;

struct situ_dist_ddp {
  uint32_t head;
  situ_nn_module *module;
  situ_comm *comm;
  situ_dist_ddp_options options;
  situ_tree *names; /* the module's parameters and buffers, whose keys the items point to */
  situ_tree *buffer_names;
  situ__dist_item *items; /* parameters in backward order, then buffers */
  int64_t item_count, parameter_count;
  int64_t found; /* the item that the last search for a parameter found (zero/parts.c) */
  situ__dist_bucket *buckets;
  int64_t bucket_count, bucket_capacity;
  situ_dist_zero *zero;          /* keeps gradients in parts; NULL: none does */
  const situ__dist_parts *parts; /* its table */
  int parted_groups;             /* the first so many groups of it */
  int64_t total, first, count;   /* micro-batches of a step, and those of this rank */
  int64_t position;              /* how many of these have ended */
  int64_t step;
  int64_t pre_hook;
  uint64_t seen;                 /* a hash of what the items depend on, of the module as it was looked at last */
  bool lockstep;                 /* parameters are gathered meanwhile: the order of all calls is that of the graph */
  bool no_sync, unsynced;        /* unsynced: some .grad holds gradients of passes without synchronisation */
  bool begun;                    /* a forward of the next micro-batch has begun */
  bool queued;                   /* in a pass: its end has been asked for */
  bool overlaps;                 /* in a pass: buckets are exchanged as they fill */
  uint64_t errors;               /* of this thread, when the first gradient of a pass was complete */
  situ__dist_exchange *exchange; /* of this step; NULL: it has not begun */
};

/* ---- the module's tensors (items.c) ---- */

/* Lists the module's parameters and buffers. Returns false after recording an error. */
bool situ__dist_list_items(const char *op, situ_dist_ddp *d);
/* Removes the hooks of the items, and frees them and their buckets. */
void situ__dist_free_items(situ_dist_ddp *d);
/* Before a forward, and before an optimiser divides the gradients: if the module has other parameters or buffers than
   ddp knows, ddp takes them over, a collective call; in the middle of a step, and of gradients in parts, it refuses. A
   move of whole buckets is neither.
   exact: a parameter that is frozen counts, too. Returns false after recording an error. */
bool situ__dist_keep_up(const char *op, situ_dist_ddp *d, bool exact);
/* Behind a backward without such a forward: returns false after recording the name of a change. */
bool situ__dist_is_known(const char *op, situ_dist_ddp *d);
/* Whether hooks must do nothing: in a dry run only those of a twin work. */
static inline bool situ__dist_stands_by(const situ_comm *c) { return situ_is_dry() && !c->rehearses; }
/* A hook on forward of what is bound to a module; of a twin, one that a dry run calls (ddp.c). */
situ_status situ__dist_hook(const situ_comm *c, situ_nn_module *m, bool before, situ_nn_hook hook, void *payload,
                            int64_t *handle);
/* Gives the items their hooks (ddp.c). Returns false after recording an error. */
bool situ__dist_watch(const situ_dist_ddp *d);

/* ---- buckets (bucket.c) ---- */

/* Assigns the items to buckets. On error nothing has changed. Returns false after recording an error. */
bool situ__dist_fill_buckets(const char *op, situ_dist_ddp *d);
void situ__dist_free_buckets(situ_dist_ddp *d);
/* For messages: "0.weight", or "0.weight and 3 more". */
void situ__dist_name_bucket(const situ_dist_ddp *d, const situ__dist_bucket *b, char name[SITU__COMM_NAME]);
/* Whether each rank keeps its share of the averages alone. */
static inline bool situ__dist_in_parts(const situ_dist_ddp *d, const situ__dist_bucket *b) {
  return b->group >= 0 && b->group < d->parted_groups;
}
/* The first element of a rank's share of a bucket; that of rank `size` is the number of elements. */
int64_t situ__dist_share_begin(const situ_dist_ddp *d, const situ__dist_bucket *b, int rank);
/* Adds this micro-batch to the bucket's nodes. Returns false after recording an error. */
bool situ__dist_add_leaf(const char *op, const situ_dist_ddp *d, situ__dist_bucket *b);
/* The last two nodes become one. Returns false after recording an error. */
bool situ__dist_join_last(const situ_dist_ddp *d, situ__dist_bucket *b);
void situ__dist_drop_nodes(situ__dist_bucket *b);

/* ---- the exchange of a step's buckets (reduce.c) ---- */

/* While the last backward runs: begins all that can begin now, without waiting. Returns false after recording an
   error. */
bool situ__dist_advance(const char *op, situ_dist_ddp *d);
/* Number of buckets whose exchange has begun. */
int64_t situ__dist_begun(const situ_dist_ddp *d);
/* Waits until all ranks have the averages. Returns false after recording an error. */
bool situ__dist_reduce(const char *op, situ_dist_ddp *d);
/* Afterwards: the average over all micro-batches of an item that has a bucket, in memory of its own; not in parts. */
situ_tensor *situ__dist_mean(const situ_dist_ddp *d, const situ__dist_item *item);
/* Afterwards: this rank's shares of the buckets in parts. Returns false after recording an error. */
bool situ__dist_take_shares(situ_dist_ddp *d);
/* Ends it: all its calls have ended, or the communicator has failed. */
void situ__dist_end_exchange(situ_dist_ddp *d);
/* This rank cannot go on: calls on their way end, and the others hear why. While another thread is in a call of the
   communicator it does nothing but record that: the others wait until their deadline. */
void situ__dist_give_up(const situ_dist_ddp *d);
/* Exchanges which items were used; `used` becomes true where it is on any rank. When it returns true, all ranks have
   come this far. */
bool situ__dist_agree(const char *op, situ_dist_ddp *d);

/* ---- gradient scalers (scaler.c) ---- */

/* Whether all ranks could look at their gradients (good), whether those are finite, and whether one has scaled a
   loss. */
situ_status situ__dist_agree_finite(situ_comm *comm, bool good, bool *finite, bool *scaled);

/* ---- the start (start.c) ---- */

uint64_t situ__dist_hash(const void *data, size_t bytes);
/* Compares names, dtypes and shapes across ranks. Returns false after recording an error. */
bool situ__dist_compare_layout(const char *op, situ_dist_ddp *d);
/* The same for values. */
bool situ__dist_compare_values(const char *op, situ_dist_ddp *d);
/* Gives all ranks rank 0's values of what is new. */
bool situ__dist_broadcast(const char *op, situ_dist_ddp *d);
/* Both for a module without gradients over ranks: what situ_dist_ddp_new does at the start (ddp.c). */
bool situ__dist_equalise(situ_nn_module *module, situ_comm *comm);

#endif
