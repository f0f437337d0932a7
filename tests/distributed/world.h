/* Ranks as threads: a simulated world, and a function that each of its ranks runs.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_WORLD_H
#define SITU_TEST_WORLD_H

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "situ/nccl.h"
#include "situ/nn.h"
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
  pthread_t thread;
} world_rank;

enum { WORLD_MOST = 256 };

/* On CUDA several ranks have a device each, and NCCL between them, where there are as many. */
static bool world_begin(world_rank *self) {
  if (test_device().kind != SITU_CUDA || self->size < 2 || situ_device_count("cuda") < self->size) return true;
  test_use_device(self->rank);
  return situ_comm_use_nccl(self->comm, test_device()) == SITU_OK;
}

/* A rank's module, on its device, or computing there. */
static inline situ_nn_module *at_home(situ_nn_module *m) {
  if (!situ_nn_offloaded_to(m).kind) SITU_IGNORE(situ_nn_to(m, test_device()));
  return m;
}

static void *world_thread(void *argument) {
  world_rank *self = argument;
  situ_scope scope;
  situ_scope_begin(&scope);
  if (world_begin(self)) self->run(self);
  self->status = situ_error();
  (void)snprintf(self->message, sizeof self->message, "%s", situ_error_message());
  situ_error_clear();
  situ_comm_free(self->comm);
  SITU_IGNORE(situ_scope_end(&scope));
  return NULL;
}

/* Starts `run` on every rank of the world, with communicators of these options. */
static void world_start(situ_comm_sim *world, world_rank *ranks, int size, void (*run)(world_rank *), void *payload,
                        const situ_comm_options *options) {
  assert_non_null(world);
  for (int i = 0; i < size; i++) {
    ranks[i] = (world_rank){ .world = world, .rank = i, .size = size, .run = run, .payload = payload };
    ranks[i].comm = situ_comm_sim_rank(world, i, options);
    assert_non_null(ranks[i].comm);
  }
  for (int i = 0; i < size; i++) assert_int_equal(pthread_create(&ranks[i].thread, NULL, world_thread, &ranks[i]), 0);
}

/* Waits for all ranks, and frees their world. */
static void world_end(world_rank *ranks) {
  situ_comm_sim *world = ranks[0].world;
  for (int i = 0, size = ranks[0].size; i < size; i++) assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
  situ_comm_sim_free(world);
}

static inline void world_run_with(situ_comm_sim *world, world_rank *ranks, int size, void (*run)(world_rank *),
                                  void *payload, const situ_comm_options *options) {
  world_start(world, ranks, size, run, payload, options);
  world_end(ranks);
}

static inline void world_run(situ_comm_sim *world, world_rank *ranks, int size, void (*run)(world_rank *),
                             void *payload, double deadline) {
  world_run_with(world, ranks, size, run, payload, &(situ_comm_options){ .deadline = deadline });
}

static inline void expect_rank_ok(const world_rank *r) {
  if (r->status != SITU_OK) fail_msg("rank %d: %s", r->rank, r->message);
}

/* Both have the same tensors, bit for bit. */
static inline void expect_equal_trees(const situ_tree *got, const situ_tree *want, const char *what, int size) {
  assert_int_equal(situ_tree_count(got), situ_tree_count(want));
  for (int64_t i = 0; i < situ_tree_count(want); i++) {
    const char *key = situ_tree_key(want, i);
    situ_tensor *a = situ_to(situ_detach(situ_tree_get(got, key)), situ_dev("cpu")),
                *b = situ_to(situ_detach(situ_tree_tensor_at(want, i)), situ_dev("cpu"));
    bool equal = false;
    if (situ_equal(a, b, &equal) != SITU_OK || !equal) fail_msg("%s, %d ranks: %s has other bits", what, size, key);
  }
}

static inline void expect_equal_models(situ_nn_module *got, situ_nn_module *want, const char *what, int size) {
  situ_tree *a = situ_nn_state_dict(got), *b = situ_nn_state_dict(want);
  expect_equal_trees(a, b, what, size);
  situ_tree_free(a);
  situ_tree_free(b);
}

#endif
