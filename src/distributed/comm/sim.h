/* Inside of a simulated communicator.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_SIM_H
#define SITU_DIST_SIM_H

#include "base/mutex.h"
#include "situ/sys/comm_sim.h"

/* A message on its way, with its bytes. */
typedef struct situ__sim_message {
  struct situ__sim_message *next;
  int from, tag;
  bool lost;
  double ready; /* the time of its arrival */
  size_t bytes;
  _Alignas(16) unsigned char data[];
} situ__sim_message;

/* A collective: the ranks that have begun it, with their memory. */
typedef struct situ__sim_meeting {
  struct situ__sim_meeting *next;
  int64_t number;
  int come, left; /* ranks that have begun it; that have ended it or given it up */
  bool broken;    /* a rank has given it up, or its part was lost: it never ends */
  bool done;
  void *values; /* of a broadcast, once its root has come: a copy, because each rank ends it without the others */
  double ready;
  struct situ__sim_part {
    bool here;
    situ_comm_transfer transfer;
  } part[]; /* of each rank of the world */
} situ__sim_meeting;

/* A transfer that a rank has begun. */
typedef struct situ__sim_transfer {
  struct situ__sim_transfer *next; /* of the rank's receives, in the order in which they began */
  situ_comm_transfer what;
  situ__sim_meeting *meeting; /* of a collective, else NULL */
  bool lost;                  /* it never ends */
} situ__sim_transfer;

typedef enum situ__sim_state {
  SITU__SIM_ABSENT = 0, /* its communicator has not been made */
  SITU__SIM_HERE,
  SITU__SIM_STOPPED,
  SITU__SIM_DEAD,
  SITU__SIM_LEFT /* its communicator has been freed */
} situ__sim_state;

/* A rank, as the world knows it. */
typedef struct situ__sim_rank {
  situ__sim_state state;
  int64_t begun, messages, collectives; /* transfers so far; those that it sent to one rank; calls of all ranks */
  int64_t bytes;                        /* of values, for collectives */
  situ_comm_sim_fault fault;
  int64_t fault_at; /* the transfer that fails; 0: none */
  situ__sim_transfer *receives;
  situ__sim_message *inbox; /* messages for it, in the order in which they were sent */
} situ__sim_rank;

struct situ_comm_sim {
  uint32_t head;
  int32_t refs;     /* the program's, and one for each communicator */
  situ__mutex lock; /* guards all that follows, and the memory of collectives */
  int size;
  situ_comm_sim_options options;
  situ__sim_meeting *meetings;
  situ__sim_rank rank[];
};

/* A rank's end of the world: the engine's state. */
typedef struct situ__sim_end {
  situ_comm_sim *world;
  int rank;
} situ__sim_end;

extern const situ_comm_engine situ__comm_sim_engine;
/* Seconds by which a transfer is delayed: the same for the same seed, rank and number. */
double situ__comm_sim_delay(const situ_comm_sim *w, int rank, int64_t number);
void situ__comm_sim_release(situ_comm_sim *w);
void situ__comm_sim_free_meeting(situ__sim_meeting *m);
/* Moves the values of a collective but broadcast between the ranks' memories, once all have come. */
void situ__comm_sim_move(const situ__sim_meeting *m, int size);

#endif
