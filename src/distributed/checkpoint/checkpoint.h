/* Inside of sharded checkpoints: the state of a training run in pieces, and back.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_CHECKPOINT_H
#define SITU_DIST_CHECKPOINT_H

#include "base/map.h"
#include "distributed/ddp/ddp.h"
#include "set.h"
#include "distributed/zero/zero.h"
#include "situ/random.h"
#include "situ/sys/load.h"

/* The pieces that this rank writes, as a flat dict under their names in the file; *layout: a hash of the names, dtypes
   and shapes of what all ranks have alike. NULL after recording an error. */
situ_tree *situ__dist_own_pieces(const char *op, const situ_comm *comm, const situ_dist_checkpoint *c,
                                 uint64_t *layout);

/* The place of each parameter in parts (one of z->places), by its storage. Returns false after recording an error. */
bool situ__dist_map_parts(const char *op, const situ_dist_zero *z, situ__map *places);

/* Values for this rank's elements of a parameter in parts; or that the parameter is on meta, and will be with them. */
typedef struct situ__dist_shard {
  int64_t parameter;
  situ_tensor *values; /* owned; NULL: of the parameter */
  bool taken;          /* the part was on meta, and has their memory already */
} situ__dist_shard;

/* A state that was read, checked and copied, and is not in use yet. */
typedef struct situ__dist_loading {
  situ_device home; /* of what is on meta */
  situ__dist_shard *shards;
  int64_t shard_count, shard_capacity;
  situ_tree *model; /* of parameters in parts their shapes, on meta */
  situ_optim_loading *optimizer;
  situ_lr_scheduler_loading *scheduler;
  situ_generator by_default, generator;
  int64_t epoch, step, ddp_step;
} situ__dist_loading;

/* Reads what `c` asks for; changes nothing. Returns false after recording an error. In both cases the caller ends
   it. */
bool situ__dist_load_prepare(situ__dist_loading *l, const situ__set *set, const situ_comm *comm,
                             const situ_dist_checkpoint *c);
/* Moves parameters in parts that are on meta to where their parts will be, without memory (shards.c). When that cannot
   fail any more `rest` loads all else; if it returns false nothing has moved. Returns false after recording an
   error. */
bool situ__dist_bring_wholes(const situ__dist_loading *l, const situ_dist_zero *z, bool (*rest)(void *payload),
                             void *payload);
/* Parameters in parts take their values, when all else of the model has. Returns false after recording an error. */
bool situ__dist_commit_shards(const situ__dist_loading *l, const situ_dist_zero *z);
/* Frees them; those that were not committed are as before. */
void situ__dist_end_shards(situ__dist_loading *l, const situ_dist_zero *z, bool commit);
/* The section "model." of a set: parameters in parts are read into l->shards. NULL after recording an error. */
situ_tree *situ__dist_read_model(situ__dist_loading *l, const situ__set *set, const situ_dist_checkpoint *c);
/* With `commit`, which the caller has loaded the model for, all other objects take the state. Cannot fail. */
void situ__dist_load_end(situ__dist_loading *l, situ_dist_checkpoint *c, bool commit);

#endif
