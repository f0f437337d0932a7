/* Ranks as threads: a simulated world, and a function that each of its ranks runs.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_WORLD_H
#define SITU_TEST_WORLD_H

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "situ/sys/comm_sim.h"
#include "support/test.h"

/* What a rank saw: its first error, copied. */
typedef struct world_rank {
  situ_comm *comm;
  situ_comm_sim *world;
  int rank, size;
  void (*run)(struct world_rank *self);
  void *payload;
  situ_status status;
  char message[1024];
} world_rank;

enum { WORLD_MOST = 8 };

static void *world_thread(void *argument) {
  world_rank *self = argument;
  situ_scope scope;
  situ_scope_begin(&scope);
  self->run(self);
  self->status = situ_error();
  (void)snprintf(self->message, sizeof self->message, "%s", situ_error_message());
  situ_error_clear();
  situ_comm_free(self->comm);
  SITU_IGNORE(situ_scope_end(&scope));
  return NULL;
}

/* Runs `run` on every rank of the world, and frees the world. */
static void world_run(situ_comm_sim *world, world_rank *ranks, int size, void (*run)(world_rank *), void *payload,
                      double deadline) {
  pthread_t threads[WORLD_MOST];
  assert_non_null(world);
  for (int i = 0; i < size; i++) {
    ranks[i] = (world_rank){ .world = world, .rank = i, .size = size, .run = run, .payload = payload };
    ranks[i].comm = situ_comm_sim_rank(world, i, &(situ_comm_options){ .deadline = deadline });
    assert_non_null(ranks[i].comm);
  }
  for (int i = 0; i < size; i++) assert_int_equal(pthread_create(&threads[i], NULL, world_thread, &ranks[i]), 0);
  for (int i = 0; i < size; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  situ_comm_sim_free(world);
}

static inline void expect_rank_ok(const world_rank *r) {
  if (r->status != SITU_OK) fail_msg("rank %d: %s", r->rank, r->message);
}

#endif
