/* Inside of stage 3: units, which have their parameters whole while they compute.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_SHARDS_H
#define SITU_DIST_SHARDS_H

#include "zero.h"

/* In place of a unit's number. OFTEN_OTHER: another one came than was gathered ahead, so that is not done again. */
enum { NONE_NEXT = -1, OFTEN_OTHER = -2 };

/* A module whose parameters are gathered as one. */
typedef struct situ__zero_unit {
  situ_dist_zero *zero;
  situ_nn_module *module;
  char path[256];
  bool whole;             /* with all modules below it */
  bool runs;              /* in its forward */
  int64_t before, behind; /* handles of the hooks; -1: none */
  int64_t first, end;     /* of its items in `uses` */
  int next[2];            /* in forward, in backward: the unit that came next; NONE_NEXT; OFTEN_OTHER */
  uint64_t seen[2];       /* the last pass that it was in */
} situ__zero_unit;

/* Who needs a bucket's parameters whole. */
typedef struct situ__zero_holder {
  int forward;              /* units in their forward */
  bool backward;            /* a unit in its backward */
  bool program;             /* situ_dist_zero_unshard */
  int64_t told;             /* in this backward: parameters whose gradients are complete */
  uint64_t seen;            /* the last visit */
  situ_comm_request *ahead; /* of the unit that comes next: its parameters are on their way */
} situ__zero_holder;

struct situ__zero_shards {
  situ__zero_shards *next; /* of all that live */
  uintptr_t id;            /* of the first unit: what hooks in a graph know of it, which may live longer */
  situ__zero_unit *units;
  int unit_count;
  int64_t unit_capacity;
  int64_t *uses; /* items of ddp, by unit */
  int64_t use_count, use_capacity;
  situ__zero_holder *holders; /* one for each bucket of ddp */
  int64_t *parameters;        /* per item: its number in the optimiser, if it is in parts; -1: it is whole */
  uint32_t *versions;         /* per item: when it was gathered */
  situ_dist_zero **marks;     /* per item: what its hook gets, the address of its element; NULL: it has none */
  uint64_t visit;
  bool queued;      /* in a pass: its end has been asked for */
  int last[2];      /* in forward, in backward: the unit that computes; NONE_NEXT */
  uint64_t pass[2]; /* the number of forwards and of backwards */
  int ahead;        /* the unit that is gathered while another one computes; NONE_NEXT */
  int *guess;       /* why: the `next` of the unit before it */
  int64_t behind;   /* handle of the hook behind the module's forward; -1: none */
};

/* ---- gathering (gather.c) ---- */

/* Begins to gather a bucket's parameters. Until it ends, writes to this rank's parts of them are refused: another rank
   cannot know in time that it must not use what it has been sent. NULL after recording an error, which the other ranks
   hear. */
situ_comm_request *situ__zero_begin_gather(const char *op, const situ_dist_zero *z, const situ__dist_bucket *b);
/* Waits until all ranks have begun it. Returns false after recording an error. */
bool situ__zero_await_gather(const char *op, const situ_dist_zero *z, situ_comm_request *r);
/* They get memory and values; *r has ended. Returns false after recording an error, which the other ranks hear. */
bool situ__zero_end_gather(const char *op, const situ_dist_zero *z, const situ__dist_bucket *b, situ_comm_request **r);
/* Ends a gather whose values are not used. Returns false after recording an error. */
bool situ__zero_drop_gather(const char *op, const situ_dist_zero *z, const situ__dist_bucket *b, situ_comm_request **r);

#endif
