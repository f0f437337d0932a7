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
  int rank;
  int64_t own;         /* its number among the parts of its rank, which is that in its optimiser */
  situ_tensor *values; /* a view of the parameter's memory; owned */
} situ__zero_part;

struct situ_dist_zero {
  uint32_t head;
  situ_comm *comm;
  situ_tree *parameters; /* a flat dict */
  situ_optim *optim;     /* over this rank's parts */
  situ__zero_part *parts;
  int64_t part_count;
};

static inline bool situ__zero_given(const char *op, const situ_dist_zero *z) {
  return situ__valid(op, "zero", z, SITU__A_ZERO);
}
/* Elements [from, from + count) of t, in its memory if it is contiguous. NULL after recording an error. */
situ_tensor *situ__zero_elements(situ_tensor *t, int64_t from, int64_t count);

#endif
