/* Shared by the files of src/data.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DATA_DATA_H
#define SITU_DATA_DATA_H

#include "base/handle.h"
#include "situ/data.h"

static inline bool situ__dataset_given(const char *op, const situ_dataset *dataset) {
  return situ__valid(op, "dataset", dataset, SITU__A_DATASET);
}

/* Returns 0..count-1 in an order drawn from generator (NULL: the default one), in a block that the caller frees
   (situ__free). NULL after recording an error. */
int64_t *situ__random_order(const char *op, int64_t count, situ_generator *generator);

#endif
