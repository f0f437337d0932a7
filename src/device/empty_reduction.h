/* The results of reductions over no elements, for all backends.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_EMPTY_REDUCTION_H
#define SITU_DEVICE_EMPTY_REDUCTION_H

#include <math.h>

#include "situ/sys/backend.h"

static inline double situ__empty_reduction(const situ_work *work) {
  switch ((situ_reduce)work->op) {
  case SITU_REDUCE_PROD:
  case SITU_REDUCE_ALL: return 1;
  case SITU_REDUCE_MEAN:
  case SITU_REDUCE_MEAN_SQUARE:
  case SITU_REDUCE_VAR:
  case SITU_REDUCE_STD: return NAN;
  case SITU_REDUCE_LOGSUMEXP: return -INFINITY;
  case SITU_REDUCE_NORM: return work->scalar[0] < 0 ? INFINITY : 0;
  default: return 0;
  }
}

#endif
