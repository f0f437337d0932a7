/* What the files of the recurrent layers share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_RECURRENT_H
#define SITU_NN_RECURRENT_H

#include "packed.h"

/* One direction of one layer; index: of its parameters and states. */
typedef struct situ__direction {
  const situ_nn_module *layer;
  int64_t index;
  bool reverse;
} situ__direction;

/* y: the output. h, c: the states before, then those after; c is NULL but for an LSTM. */
typedef struct situ__recurrent_steps {
  situ_tensor *y, *h, *c;
} situ__recurrent_steps;

/* gates: [L, N, ..] (recurrent.c). */
bool situ__recurrent_run(const situ__direction *d, situ_tensor *gates, situ__recurrent_steps *s);
/* gates: [elements, ..] (recurrent_packed.c). */
bool situ__recurrent_run_packed(const situ__direction *d, situ_tensor *gates, const situ__packing *packing,
                                situ__recurrent_steps *s);

#endif
