/* Inside of a module that is divided among ranks: its layers, and which part of which tensor a rank has.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_TP_H
#define SITU_DIST_TP_H

#include "distributed/comm/comm.h"
#include "situ/parallel.h"

/* A part of a tensor: of `blocks` equal blocks along `dim`, 1 / R of each. */
typedef struct situ__tp_shard {
  situ_tensor *whole; /* while the module is being divided; owned */
  situ_tensor *part;  /* owned */
  int dim, blocks;
} situ__tp_shard;

struct situ_dist_tp {
  uint32_t head;
  situ_comm *comm;
  situ_nn_module *module;
  situ__tp_shard *shards;
  int64_t shard_count, shard_capacity;
};

static inline bool situ__tp_given(const char *op, const situ_dist_tp *tp) {
  return situ__valid(op, "tp", tp, SITU__A_TP);
}
/* The shard whose part t is; NULL: t is whole. */
const situ__tp_shard *situ__tp_find(const situ_dist_tp *tp, const situ_tensor *t);
/* This rank's part of such a tensor, in memory of its own. NULL after recording an error. */
situ_tensor *situ__tp_part_of(const situ_comm *comm, situ_tensor *whole, int dim, int blocks);

/* ---- layers (layers.c) ---- */

/* What a divided Linear or Embedding computes with. */
typedef struct situ__tp_layer {
  situ_comm *comm;
  situ_dist_style style;
  bool replicate;
  situ_tensor *weight, *bias; /* parts; bias NULL: none */
  situ_activation activation;
  situ_embedding_options embedding;
} situ__tp_layer;
/* NULL after recording an error. */
situ_nn_module *situ__tp_linear(const situ__tp_layer *layer);
situ_nn_module *situ__tp_embedding(const situ__tp_layer *layer);
/* Hook of an attention's call: backward adds up the gradients of its inputs over the ranks of the communicator. */
situ_status situ__tp_copy_inputs(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *comm);

#endif
