/* What the files of packed sequences share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_PACKED_INTERNAL_H
#define SITU_NN_PACKED_INTERNAL_H

#include "nn/nn.h"

/* The batch sizes of a packed sequence, on the host. */
typedef struct situ__packing {
  int64_t *batch_sizes; /* by time: at least 1, never increasing; freed by situ__free */
  int64_t steps, total; /* their number, and their sum */
} situ__packing;
static inline int64_t situ__packing_batch(const situ__packing *p) { return p->batch_sizes[0]; }

/* Returns false after recording an error, unless all tensors but the indices are there. */
bool situ__packed_given(const char *op, const situ_nn_packed_sequence *sequence);
/* A dict of the fields that are not NULL, and back; the tensors are borrowed from the tree. */
situ_tree *situ__packed_to_tree(const situ_nn_packed_sequence *sequence);
bool situ__packed_from_tree(const situ_tree *tree, situ_nn_packed_sequence *out);
/* Reads and checks batch_sizes, data and which indices there are; returns false after recording an error as op. */
bool situ__packing_read(const char *op, const situ_nn_packed_sequence *sequence, situ__packing *out);

#endif
