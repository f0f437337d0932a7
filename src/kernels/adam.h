/* Adam's bias corrections, computed on the host.
   SPDX-License-Identifier: MIT */
#ifndef SITU_KERNELS_ADAM_H
#define SITU_KERNELS_ADAM_H

#include <math.h>

#include "situ/sys/backend.h"

static inline double situ__adam_step_size(const situ_optimizer_params *o, int64_t step) {
  return o->lr / (1 - pow(o->beta1, (double)step));
}
static inline double situ__adam_correction(const situ_optimizer_params *o, int64_t step) {
  return sqrt(1 - pow(o->beta2, (double)step));
}

#endif
