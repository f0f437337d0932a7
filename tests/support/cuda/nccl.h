/* The double of NCCL, among its files.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CUDA_NCCL_H
#define SITU_CUDA_NCCL_H

#include "support/cuda/double.h"

enum { RANKS = 8, PARTS = 2 * RANKS };
typedef enum result {
  SUCCESS,
  UNHANDLED_CUDA_ERROR,
  SYSTEM_ERROR,
  INTERNAL_ERROR,
  INVALID_ARGUMENT,
  INVALID_USAGE,
  REMOTE_ERROR,
  IN_PROGRESS
} result;
typedef enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECEIVE } kind;

typedef struct unique_id {
  char bytes[128];
} unique_id;
typedef struct config {
  size_t size;
  unsigned magic, version;
  int blocking, clusters;
} config;

/* One rank's part in a transfer. */
typedef struct part {
  kind kind;
  const char *send;
  char *receive;
  size_t count;
  int type, op, peer;
  bool here, done;
} part;

/* What is enqueued at once: one collective, or a group of sends and receives. */
typedef struct set {
  struct set *next; /* of the rank */
  struct rank *rank;
  long number; /* of its collectives; 0: sends and receives */
  int count;
  bool hangs;
  part part[PARTS];
} set;

typedef struct world {
  struct world *next;
  unique_id id;
  int size, joined;
  bool twice; /* two ranks have one device */
  struct rank *rank[RANKS];
} world;

/* A communicator. They are kept for ever, since queued tasks know them. */
typedef struct rank {
  struct rank *next;
  world *world;
  int number, device;
  bool aborted, finalized;
  result broken;
  long collectives;
  set *sets, *enqueuing; /* all that have not ended; the one that waits to be enqueued */
  int polls;
  cudaStream_t stream; /* of that one */
} rank;

/* The rank's stream has come to a set (payload: its address): whether all of it has ended, with the others' parts. */
bool nccl_is_over(const void *payload);
/* It has ended. */
void nccl_leave(const void *payload);
void nccl_mistake(const char *what);

#endif
