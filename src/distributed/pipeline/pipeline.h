/* Inside of a pipeline: micro-batches on their way through this rank's stage.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_PIPELINE_H
#define SITU_DIST_PIPELINE_H

#include "distributed/comm/comm.h"
#include "situ/parallel.h"

/* One micro-batch in this stage. Tensors are owned, from its forward to its backward. */
typedef struct situ__pipe_batch {
  situ_tensor *input, *output;           /* output of the last stage: the loss */
  situ_comm_request *arriving, *leaving; /* the activation */
  situ_comm_request *gradient_arriving;
} situ__pipe_batch;

/* What arrives from, or leaves for, a neighbour, all of one kind in a step. */
typedef struct situ__pipe_kind {
  situ_dtype dtype; /* 0: not known yet */
  situ_shape shape;
} situ__pipe_kind;

struct situ_dist_pipeline {
  uint32_t head;
  situ_nn_module *module;
  situ_comm *comm;
  situ_dist_pipeline_options options;
  int64_t count; /* micro-batches of a step */
  int64_t step;
  /* of the step that runs: */
  situ__pipe_batch *batches;
  situ_comm_request *gradient_leaving; /* NULL but while this rank waits for it */
  situ__pipe_kind before, behind;      /* activations between this stage and its neighbours */
  int64_t expected;                    /* micro-batches whose activation has been asked for */
  situ_tensor *inputs, *targets;       /* of all; borrowed */
  bool trains;
  double loss;              /* last stage: the sum so far */
  situ_tree *buffers, *was; /* the stage's buffers, and their values before the step */
};

static inline bool situ__pipe_is_first(const situ_dist_pipeline *p) { return p->comm->rank == 0; }
static inline bool situ__pipe_is_last(const situ_dist_pipeline *p) { return p->comm->rank == p->comm->size - 1; }
/* Forwards of stage `rank` before its first backward. */
static inline int64_t situ__pipe_warmup(const situ_dist_pipeline *p, int rank) {
  return p->comm->size - rank < p->count ? p->comm->size - rank : p->count;
}

/* ---- transfers (move.c): all return false, or NULL, after recording an error ---- */

/* The activation of a micro-batch, as a leaf. */
situ_tensor *situ__pipe_take_activation(situ_dist_pipeline *p, int64_t k);
bool situ__pipe_send_activation(situ_dist_pipeline *p, int64_t k, situ_tensor *y);
/* The gradient of what this stage has sent. */
situ_tensor *situ__pipe_take_gradient(situ_dist_pipeline *p, int64_t k);
bool situ__pipe_send_gradient(situ_dist_pipeline *p, int64_t k, situ_tensor *grad);
/* Waits for what this rank has sent. */
bool situ__pipe_finish_sends(situ_dist_pipeline *p);
void situ__pipe_close_all(situ_dist_pipeline *p);

#endif
