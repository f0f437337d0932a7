/* Inside of an optimiser that is divided among ranks: its parameters in parts.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_ZERO_H
#define SITU_DIST_ZERO_H

#include "distributed/ddp/ddp.h"
#include "situ/sys/trainer.h"

/* Elements [from, from + count) of a parameter, which one rank owns. */
typedef struct situ__zero_part {
  int64_t parameter, from, count;
  int group, rank;
  int64_t own;         /* its number among the parts of its rank, which is that in its optimiser */
  int64_t item;        /* stage 2: the parameter's index among the items of ddp */
  situ_tensor *values; /* a view of the parameter's memory; owned. Stage 3: this rank's own alone, others NULL */
} situ__zero_part;

typedef struct situ__zero_shards situ__zero_shards; /* shards.c */

struct situ_dist_zero {
  uint32_t head;
  situ_comm *comm;
  bool parts_gradients;      /* stage 2 */
  situ_dist_ddp *ddp;        /* stage 2: what averages the gradients; NULL: it has been freed */
  situ__zero_shards *shards; /* stage 3: parameters in parts; NULL: they are whole */
  situ_tree *parameters;     /* a flat dict */
  situ_optim *optim;         /* over this rank's parts */
  situ__zero_part *parts;    /* in the order of parameters */
  int64_t part_count, part_capacity;
  int64_t *group_ends; /* of each parameter group, the number of the parameter behind its last one */
  int group_count;
};

static inline bool situ__zero_given(const char *op, const situ_dist_zero *z) {
  return situ__valid(op, "zero", z, SITU__A_ZERO);
}
/* Elements [from, from + count) of t, in its memory if it is contiguous. NULL after recording an error. */
situ_tensor *situ__zero_elements(situ_tensor *t, int64_t from, int64_t count);

enum { SITU__ZERO_NAME = 192 };
/* "0.weight[0:48]" */
const char *situ__zero_part_name(const situ_dist_zero *z, const situ__zero_part *p, char name[SITU__ZERO_NAME]);
/* Adds a part. Returns false after recording an error. */
bool situ__zero_add_part(situ_dist_zero *z, situ__zero_part part);
int64_t situ__zero_count_parts(const situ_dist_zero *z, int rank);
/* Whether a parameter has a gradient, whole or in parts: the same on all ranks. */
bool situ__zero_has_gradient(const situ_dist_zero *z, int64_t parameter);

bool situ__zero_set_gradients(const situ_dist_zero *z, bool on);
/* All gradients that this rank has, whole and in parts: at most situ__zero_gradients; NULL where there is none. */
situ_tensor *situ__zero_gradient_at(const void *zero, int64_t i);
static inline int64_t situ__zero_gradients(const situ_dist_zero *z) {
  return situ_tree_count(z->parameters) + z->part_count;
}
/* situ_dist_zero_step with gradients that are multiplied by grad_scale first. */
situ_status situ__zero_step(const situ_dist_zero *z, double grad_scale);

/* Behind a step of stages 1 and 2: all ranks get the elements that others have stepped (exchange.c). Returns false
   after recording an error. */
bool situ__zero_exchange(const situ_dist_zero *z);

/* ---- gradients in parts: stage 2 (zero/parts.c) ---- */

/* Divides the parameters from number `first` on, a new group, as ddp divides their gradients. On error, which it
   records before it returns false, call situ__zero_undo_divide. */
/* Whether ddp can keep gradients in parts for an optimiser that is about to be made. Returns false after recording. */
bool situ__zero_can_join(const char *op, const situ_dist_ddp *d);
/* The optimiser is about to be freed: gradients are whole again. */
void situ__zero_forget_parts(situ_dist_zero *z);
void situ__zero_drop_gradients(const situ_dist_zero *z);
/* The index of a parameter's item; -1: it is not ddp's. */
int64_t situ__zero_find_item(situ_dist_ddp *d, const situ_tensor *parameter);
/* Whether ddp can give parts of the gradients of a new group, in stage 2. Returns false after recording an error. */
bool situ__zero_knows(const char *op, const situ_dist_zero *z, const situ_tree *group);
/* Whether ranks own parts of it: in stage 2 not of one that does not require a gradient. */
bool situ__zero_is_divided(const situ_dist_zero *z, const situ_tensor *parameter);
bool situ__zero_divide_buckets(const char *op, situ_dist_zero *z, int64_t first);
void situ__zero_undo_divide(const situ_dist_zero *z);

/* ---- parameters in parts: stage 3 (shards.c) ---- */

/* Divides ddp's module into units, before its first group. Returns false after recording an error. */
bool situ__zero_begin_shards(const char *op, situ_dist_zero *z, const situ_dist_zero3_options *options);
/* The same units as another optimiser has. */
bool situ__zero_begin_shards_like(const char *op, situ_dist_zero *z, const situ_dist_zero *like);
/* Whether the parameters of a group can be in parts. Returns false after recording an error. */
bool situ__zero_can_shard(const char *op, const situ_dist_zero *z, const situ_tree *group);
/* Behind the division of a group: has hooks and memory ready. Returns false after recording an error. */
bool situ__zero_prepare_shards(const char *op, situ_dist_zero *z);
/* Frees what this rank does not own of all parameters, and writes back what the program has changed of them. writes:
   the parts will be written, so that what is on its way is dropped; all ranks call it. Returns false after recording an
   error. */
bool situ__zero_scatter(const char *op, const situ_dist_zero *z, bool writes);
/* What an optimiser over parts is for a dry run (twin.c). */
extern const situ_trainer situ__zero_trainer;
/* Adds the parts of a group, and no optimiser for them (zero.c). Returns false after recording an error. */
bool situ__zero_add_twins(const char *op, situ_dist_zero *z, const situ_tree *group);
/* This rank's parts from number `first` on, under names that say which elements they are. NULL after recording. */
situ_tree *situ__zero_own_parts(const situ_dist_zero *z, int64_t first);
void situ__zero_free(situ_dist_zero *z);

/* The parameters have other values. */
void situ__zero_note_step(const situ_dist_zero *z);
/* Hooks end; parameters stay as they are. */
void situ__zero_end_shards(situ_dist_zero *z);

/* ---- state (state.c) ---- */

/* Whether a state of this name is one number for all elements of a parameter. */
bool situ__zero_is_number(const char *name);
/* The parameter groups of an optimiser over whole parameters, as a list; own: the state of this rank's optimiser. NULL
   after recording an error. */
situ_tree *situ__zero_groups(const situ_dist_zero *z, const situ_tree *own);
/* Returns the state of a part as a dict; NULL after recording an error. */
typedef situ_tree *(*situ__zero_reader)(const situ_dist_zero *z, const situ__zero_part *part, const void *payload);
/* The state dict of this rank's optimiser: `groups` is a flat dict with the groups of a whole optimiser, and `read`
   gives the state of each of its parts. NULL after recording an error. */
situ_tree *situ__zero_own_state(const situ_dist_zero *z, const situ_tree *groups, situ__zero_reader read,
                                const void *payload);
/* Returns false after recording an error if a state called `name` cannot be that of p's parameter. */
bool situ__zero_fits(const char *op, const situ_dist_zero *z, const situ__zero_part *p, const char *name,
                     situ_shape shape);

#endif
