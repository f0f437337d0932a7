/* What the files of the recurrent layers share.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_RECURRENT_H
#define SITU_OPS_RECURRENT_H

#include "ops/ops.h"

enum { GATES, WEIGHT_HH, HX, CX, WEIGHT_HR, BIAS_HH = CX };
/* GATED: the gates after their functions (GRU: i, z, n, and n's part of the product with h). CELLS: c of each step,
   then with a projection h before it. */
enum { Y, C_N, GATED, CELLS, GRU_GATED = C_N };

typedef struct recurrent_params {
  bool reverse, relu;
} recurrent_params;

/* recurrent_recorded.c: the gradients of a layer by recorded calls, and those of gates and cells, which have gradients
   where the layer's are differentiated again. */
bool situ__rnn_recorded(situ_grad_call *g);
bool situ__lstm_recorded(situ_grad_call *g);
bool situ__gru_recorded(situ_grad_call *g);

#endif
