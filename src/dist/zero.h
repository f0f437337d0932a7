/* Inside of an optimiser that is divided among ranks: its parameters in parts.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_ZERO_H
#define SITU_DIST_ZERO_H

#include "dist/comm.h"
#include "situ/dist.h"
#include "situ/ops.h"

/* Elements [from, from + count) of a parameter, which one rank owns. */
typedef struct situ__zero_part {
  int64_t parameter, from, count;
  int group, rank;
  int64_t own;         /* its number among the parts of its rank, which is that in its optimiser */
  situ_tensor *values; /* a view of the parameter's memory; owned */
} situ__zero_part;

struct situ_dist_zero {
  uint32_t head;
  situ_comm *comm;
  situ_tree *parameters;  /* a flat dict */
  situ_optim *optim;      /* over this rank's parts */
  situ__zero_part *parts; /* in the order of parameters */
  int64_t part_count;
  int64_t *group_ends; /* of each parameter group, the number of the parameter behind its last one */
  int group_count;
};

static inline bool situ__zero_given(const char *op, const situ_dist_zero *z) {
  return situ__valid(op, "zero", z, SITU__A_ZERO);
}
/* Elements [from, from + count) of t, in its memory if it is contiguous. NULL after recording an error. */
situ_tensor *situ__zero_elements(situ_tensor *t, int64_t from, int64_t count);

/* ---- state (zero_state.c) ---- */

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
                     int64_t numel);

#endif
