/* The simulated communicator's world: what its ranks have begun, and the schedule of its failures.
   SPDX-License-Identifier: MIT */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"

/* splitmix64: Steele, Lea and Flood, OOPSLA 2014. */
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

double situ__comm_sim_delay(const situ_comm_sim *w, int rank, int64_t number) {
  const uint64_t bits = mix(w->options.seed + 0x9E3779B97F4A7C15u * (uint64_t)(number * SITU_COMM_SIM_MAX + rank + 1));
  return w->options.max_delay * (double)(bits >> 11) * 0x1p-53;
}

static size_t bytes_of(int size) { return sizeof(situ_comm_sim) + (size_t)size * sizeof(situ__sim_rank); }

static bool is_world(const char *op, const situ_comm_sim *w) { return situ__valid(op, "world", w, SITU__A_COMM_WORLD); }

situ_comm_sim *situ_comm_sim_new(int size, const situ_comm_sim_options *options) {
  static const char op[] = "comm_sim_new";
  const double delay = options ? options->max_delay : 0;
  if (size < 1 || size > SITU_COMM_SIM_MAX || !(delay >= 0 && delay <= 3600))
    return situ__fail(SITU_E_ARG, op, "size %d, max_delay %g s: 1..%d ranks, at most an hour", size, delay,
                      SITU_COMM_SIM_MAX),
           NULL;
  situ_comm_sim *w = situ__handle_new(SITU__A_COMM_WORLD, bytes_of(size));
  if (!w) return situ__no_memory(op, bytes_of(size)), NULL;
  situ__mutex_init(&w->lock);
  w->refs = 1;
  w->size = size;
  if (options) w->options = *options;
  return w;
}

void situ__comm_sim_free_meeting(situ__sim_meeting *m) {
  situ__free(m->values);
  situ__free(m);
}

static void free_world(situ_comm_sim *w) {
  for (int r = 0; r < w->size; r++)
    for (situ__sim_message *m = w->rank[r].inbox, *next; m; m = next) {
      next = m->next;
      situ__free(m);
    }
  while (w->meetings) {
    situ__sim_meeting *next = w->meetings->next;
    situ__comm_sim_free_meeting(w->meetings);
    w->meetings = next;
  }
  situ__mutex_destroy(&w->lock);
  situ__handle_free(w, bytes_of(w->size), NULL);
}

void situ__comm_sim_release(situ_comm_sim *w) {
  situ__mutex_lock(&w->lock);
  const bool last = --w->refs == 0;
  situ__mutex_unlock(&w->lock);
  if (last) free_world(w);
}

void situ_comm_sim_free(situ_comm_sim *world) {
  if (!world || !is_world("comm_sim_free", world)) return;
  situ__mutex_lock(&world->lock);
  const bool used = world->refs > 1;
  situ__mutex_unlock(&world->lock);
  if (used) situ__handle_close(world);
  situ__comm_sim_release(world);
}

static bool is_rank(const char *op, const situ_comm_sim *w, int rank) {
  if (rank >= 0 && rank < w->size) return true;
  return situ__fail(SITU_E_ARG, op, "rank %d: the world has %d ranks", rank, w->size), false;
}

situ_status situ_comm_sim_fail(situ_comm_sim *world, int rank, situ_comm_sim_fault fault, int64_t nth) {
  static const char op[] = "comm_sim_fail";
  if (!is_world(op, world) || !is_rank(op, world, rank)) return situ_error();
  if ((unsigned)fault >= SITU_COMM_SIM_FAULTS || nth < 1)
    return situ__fail(SITU_E_ARG, op, "fault %d of transfer %" PRId64 " from now: at least 1", (int)fault, nth);
  situ__mutex_lock(&world->lock);
  world->rank[rank].fault = fault;
  world->rank[rank].fault_at = nth > INT64_MAX - world->rank[rank].begun ? 0 : world->rank[rank].begun + nth;
  situ__mutex_unlock(&world->lock);
  return SITU_OK;
}

/* What the world knows of a rank now. Its counts are -1 after an error, which it records. */
static situ__sim_rank look_at(const char *op, situ_comm_sim *w, int rank) {
  if (!is_world(op, w) || !is_rank(op, w, rank)) return (situ__sim_rank){ .begun = -1, .messages = -1, .bytes = -1 };
  situ__mutex_lock(&w->lock);
  const situ__sim_rank now = w->rank[rank];
  situ__mutex_unlock(&w->lock);
  return now;
}

int64_t situ_comm_sim_transfers(situ_comm_sim *world, int rank) {
  return look_at("comm_sim_transfers", world, rank).begun;
}
int64_t situ_comm_sim_messages(situ_comm_sim *world, int rank) {
  return look_at("comm_sim_messages", world, rank).messages;
}
int64_t situ_comm_sim_bytes(situ_comm_sim *world, int rank) { return look_at("comm_sim_bytes", world, rank).bytes; }

situ_comm *situ_comm_sim_rank(situ_comm_sim *world, int rank, const situ_comm_options *options) {
  static const char op[] = "comm_sim_rank";
  if (!is_world(op, world) || !is_rank(op, world, rank)) return NULL;
  situ__sim_end *end = situ__calloc(1, sizeof *end);
  if (!end) return situ__no_memory(op, sizeof *end), NULL;
  *end = (situ__sim_end){ world, rank };
  situ__mutex_lock(&world->lock);
  const bool taken = world->rank[rank].state != SITU__SIM_ABSENT;
  if (!taken) {
    world->rank[rank].state = SITU__SIM_HERE;
    world->refs++;
  }
  situ__mutex_unlock(&world->lock);
  if (!taken) return situ_comm_new(&situ__comm_sim_engine, end, rank, world->size, options);
  situ__free(end);
  return situ__fail(SITU_E_STATE, op, "rank %d has, or had, a communicator: make another world", rank), NULL;
}
