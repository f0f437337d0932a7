/* Ranks on paper that run one function, and models of the size of a Transformer's.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_DIST_PAPER_H
#define SITU_TEST_DIST_PAPER_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "distributed/must.h"
#include "situ/nccl.h"
#include "situ/optim.h"
#include "support/paper/paper.h"
#include "support/test.h"

/* Layers of six factors each, between two more; as many products as in a Transformer of that width, without attention. */
typedef struct paper_model {
  int layers;
  int64_t width, inner, words, tokens;
} paper_model;

static const paper_model paper_large = { 32, 4096, 16512, 32000, 2048 };
static const paper_costs costs = { .latency = 2e-6, .bandwidth = 25e9, .launch = 4e-6, .memory = 2e12, .flops = 3e14 };

static inline situ_nn_module *paper_linear(int64_t in, int64_t out) {
  return situ_nn_linear(in, out, &(situ_nn_linear_options){ .no_bias = true, .dtype = SITU_BF16 });
}

static inline situ_nn_module *paper_layer(situ_nn_module *net, const paper_model *m) {
  for (int i = 0; i < 4; i++) net = situ_nn_append(net, paper_linear(m->width, m->width));
  net = situ_nn_append(net, paper_linear(m->width, m->inner));
  return situ_nn_append(net, paper_linear(m->inner, m->width));
}

static inline situ_tensor *paper_zeros(int64_t rows, int64_t columns) {
  return situ_zeros(SITU_SHAPE(rows, columns), &(situ_options){ .dtype = SITU_BF16 });
}

/* A communicator whose device memory goes from device to device. NULL after recording an error. */
static inline situ_comm *paper_comm_of(int id, int rank, int size, int node_size) {
  situ_comm *comm = situ_comm_new(&paper_network, paper_join(id, rank, size), rank, size,
                                  &(situ_comm_options){ .deadline = 1e6, .node_size = node_size });
  situ_set_default_device(situ_dev("cuda:0"));
  if (!comm || situ_comm_use_nccl(comm, situ_dev("cuda:0")) == SITU_OK) return comm;
  situ_comm_free(comm);
  return NULL;
}

static inline situ_comm *paper_comm(int id, int rank, int size) { return paper_comm_of(id, rank, size, 0); }

static inline paper_count difference(paper_count a, const paper_count *b) {
  a.headers -= b->headers, a.header_bytes -= b->header_bytes, a.values -= b->values, a.value_bytes -= b->value_bytes;
  a.calls -= b->calls, a.call_bytes -= b->call_bytes, a.kernels -= b->kernels;
  a.edge_bytes -= b->edge_bytes, a.time -= b->time, a.computing -= b->computing, a.transferring -= b->transferring;
  return a;
}

typedef struct paper_thread {
  pthread_t thread;
  paper_world *world;
  int rank;
  void (*train)(int rank, void *payload);
  void *payload;
  char failed[512];
} paper_thread;

static inline void *paper_run(void *of) {
  paper_thread *self = of;
  situ_scope s;
  paper_enter(self->world, self->rank);
  situ_error_mode(SITU_ERROR_QUIET);
  situ_scope_begin(&s);
  self->train(self->rank, self->payload);
  if (situ_error() != SITU_OK) (void)snprintf(self->failed, sizeof self->failed, "%s", situ_error_message());
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
  paper_leave();
  return NULL;
}

static inline void paper_ranks_at(const paper_costs *with, int size, void (*train)(int rank, void *payload),
                                  void *payload) {
  paper_thread *ranks = calloc((size_t)size, sizeof *ranks);
  paper_world *world = paper_world_new(size, with);
  pthread_attr_t small_stack;
  pthread_attr_init(&small_stack);
  pthread_attr_setstacksize(&small_stack, 1 << 20);
  for (int r = 0; r < size; r++) {
    ranks[r] = (paper_thread){ .world = world, .rank = r, .train = train, .payload = payload };
    if (pthread_create(&ranks[r].thread, &small_stack, paper_run, &ranks[r])) fail_msg("no thread for rank %d", r);
  }
  pthread_attr_destroy(&small_stack);
  for (int r = 0; r < size; r++) pthread_join(ranks[r].thread, NULL);
  for (int r = 0; r < size; r++)
    if (*ranks[r].failed) fail_msg("rank %d of %d: %s", r, size, ranks[r].failed);
  paper_world_free(world);
  free(ranks);
}

static inline void paper_ranks(int size, void (*train)(int rank, void *payload), void *payload) {
  paper_ranks_at(&costs, size, train, payload);
}

static inline int rounds_of(int size) {
  int rounds = 0;
  while (1 << rounds < size) rounds++;
  return rounds;
}

#endif
