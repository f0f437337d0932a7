/* Inside of an optimiser that is divided among ranks: its parameters in parts.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_ZERO_H
#define SITU_DIST_ZERO_H

#include "distributed/ddp/ddp.h"
#include "situ/sys/trainer.h"

/* Elements [from, from + count) of a parameter, which one rank owns. */
typedef struct situ__zero_part {
  int64_t parameter, from, count;
  int group;
  situ_tensor
      *values; /* owned: a view of the parameter's memory, in stage 3 memory of its own. NULL: of another rank */
} situ__zero_part;

/* Bytes that a call of an exchange brings: they bound its memory, and each call costs headers. */
enum { SITU__ZERO_PIECE = 25 << 20 };

/* Elements of parameters, one behind the other, that are dealt out to all ranks: a bucket of ddp, or as much. */
typedef struct situ__zero_deal {
  int group;
  int64_t before, count; /* elements of the group in the deals before it; its own */
  int64_t first, last;   /* parameters: the others are each `next` of the one before */
} situ__zero_deal;

/* Where a parameter lies. */
typedef struct situ__zero_place {
  int64_t deal, offset; /* -1: it is whole on each rank */
  int64_t next;         /* the parameter behind it in its deal; -1: none */
  int64_t part;         /* this rank's part of it; -1: it has none */
  int64_t item;         /* stage 2: its index among the items of ddp */
} situ__zero_place;

typedef struct situ__zero_shards situ__zero_shards; /* shards.c */

struct situ_dist_zero {
  uint32_t head;
  situ_comm *comm;
  bool parts_gradients;      /* stage 2 */
  situ_dist_ddp *ddp;        /* stage 2: what averages the gradients; NULL: it has been freed */
  situ__zero_shards *shards; /* stage 3: parameters in parts; NULL: they are whole */
  situ_tree *parameters;     /* a flat dict */
  situ_optim *optim;         /* over this rank's parts */
  situ__zero_part *parts;    /* this rank's, in the order of parameters: one of each at most */
  int64_t part_count, part_capacity;
  situ__zero_deal *deals;
  int64_t deal_count, deal_capacity;
  situ__zero_place *places; /* of each parameter */
  int64_t place_capacity;
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

/* ---- which rank has which elements (deal.c) ---- */

/* Places the parameters from number `first` on, a new group, in deals of this optimiser's own, or as in another one,
   which may be NULL. Returns false after recording an error, as all that follow. */
bool situ__zero_deal_out(situ_dist_zero *z, int64_t first, const situ_dist_zero *like);
/* The parameter is the next one of deal number `deal`: of the last one, or of a new one. */
bool situ__zero_place_in(situ_dist_zero *z, int64_t parameter, int64_t deal);
/* This rank's parts of the parameters from number `first` on, which have their places. */
bool situ__zero_make_parts(situ_dist_zero *z, int64_t first);
/* A rank's part of a parameter, of which count is 0 if it has none. */
situ__zero_part situ__zero_part_of(const situ_dist_zero *z, int64_t parameter, int rank);
/* The rank that owns the first element of a parameter that is divided. Those of the elements behind it follow. */
int situ__zero_first_rank(const situ_dist_zero *z, int64_t parameter);
/* This rank's own; NULL: it has none. */
static inline situ__zero_part *situ__zero_own_part(const situ_dist_zero *z, int64_t parameter) {
  const int64_t k = z->places[parameter].part;
  return k < 0 ? NULL : &z->parts[k];
}

/* What ranks send of elements [begin, end) of a deal: of its share of these each rank sends at most `count` elements
   from number `from` on. They begin at element `at` of what the rank sends, of which there are `block`. */
typedef struct situ__zero_slice {
  int64_t begin, end, from, count, at, block;
} situ__zero_slice;
/* Sends this rank's elements of a parameter in a slice. */
bool situ__zero_put_slice(const situ_dist_zero *z, int64_t parameter, const situ__zero_slice *s, situ_comm_request *r);
/* Writes those that have arrived into `whole`, with as few kernels as can be; but not those of rank `except`. */
bool situ__zero_write_slice(const situ_dist_zero *z, int64_t parameter, situ_tensor *whole, const situ__zero_slice *s,
                            const situ_comm_request *r, int except);

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
/* Adds the next group of another optimiser, with these parameters, and no optimiser for its parts (zero.c). Returns
   false after recording an error. */
bool situ__zero_add_twins(const char *op, situ_dist_zero *z, const situ_tree *group, const situ_dist_zero *like);
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
