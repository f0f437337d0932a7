/* For those who compute batch norm's statistics over more than one process.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_BATCH_NORM_H
#define SITU_SYS_BATCH_NORM_H

#include "../nn.h"

SITU_BEGIN

/** What a batch norm layer asks for in training mode. */
typedef struct situ_nn_normalise_call {
  situ_tensor *input;                      /**< [N, C, ...] */
  situ_tensor *running_mean, *running_var; /**< [C], to be updated in place; NULL: not tracked */
  situ_tensor *weight, *bias;              /**< [C]; NULL: no affine part */
  double momentum, eps;
} situ_nn_normalise_call;
/** Returns the result of situ_batch_norm in training mode, with statistics of its own; NULL after recording an error.
    Must refuse a second thread that trains the same layer. */
typedef situ_tensor *(*situ_nn_normaliser)(const situ_nn_normalise_call *call, void *payload);

/** Turns a batch norm layer into a SyncBatchNorm on [N, C, ...], which normalises by this function while it trains and
    keeps its parameters, buffers and options. payload is borrowed. Returns false if m is not a batch norm, or after
    recording an error. */
SITU_API bool situ_nn_batch_norm_through(situ_nn_module *m, situ_nn_normaliser normalise, void *payload);

SITU_END
#endif
