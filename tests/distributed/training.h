/* Training of a small model on every rank of a world, and its bits afterwards.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_DIST_TRAINING_H
#define SITU_TEST_DIST_TRAINING_H

#include <stdlib.h>

#include "distributed/models.h"
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/dist.h"

enum { MICRO_BATCHES = 4 };

typedef struct training {
  const dist_kind *kind;
  int steps;
  int64_t micro_batches;
  situ_dist_ddp_options options;
  situ_nn_module *model[WORLD_MOST];
  situ_optim *optim[WORLD_MOST];
  int done[WORLD_MOST]; /* steps that each rank has finished */
  situ_comm_sim *world; /* a second one, for layers */
} training;

static inline situ_status train_step(const training *t, situ_nn_module *model, situ_optim *optim, situ_dist_ddp *ddp) {
  for (int64_t k = 0; k < situ_dist_ddp_micro_batches(ddp); k++) {
    const int64_t number = situ_dist_ddp_step(ddp) * t->micro_batches + situ_dist_ddp_micro_batch(ddp);
    SITU_TRY(dist_micro_batch(t->kind, model, test_device(), number));
  }
  SITU_TRY(situ_optim_step(optim));
  return situ_optim_zero_grad(optim, true);
}

static inline void train_rank(world_rank *self) {
  training *t = self->payload;
  situ_dist_ddp *ddp = situ_dist_ddp_new(at_home(t->model[self->rank]), self->comm, &t->options);
  for (int i = 0; ddp && i < t->steps; i++) {
    if (train_step(t, t->model[self->rank], t->optim[self->rank], ddp) != SITU_OK) break;
    t->done[self->rank]++;
  }
  situ_dist_ddp_free(ddp);
}

/* Rank 0's model is the same in every world; the others begin with other values. */
static inline void begin_training(training *t, const dist_kind *kind, int size) {
  t->kind = kind;
  if (!t->micro_batches) t->micro_batches = MICRO_BATCHES;
  t->options.micro_batches = t->micro_batches;
  for (int r = 0; r < size; r++) {
    situ_manual_seed(77 + (uint64_t)r);
    t->model[r] = kind->make();
    t->done[r] = 0;
    assert_int_equal(situ_nn_to(t->model[r], test_device()), SITU_OK);
    t->optim[r] = situ_optim_adamw(situ_nn_parameters(t->model[r]), 1e-3, NULL);
    assert_non_null(t->optim[r]);
  }
}

static inline void end_training(training *t, int size) {
  for (int r = 0; r < size; r++) {
    situ_optim_free(t->optim[r]);
    situ_nn_free(t->model[r]);
  }
}

/* All parameters and buffers as bytes. */
typedef struct bits {
  unsigned char *data;
  size_t size;
} bits;
static inline situ_status add_bits(const situ_nn_visit *at, void *payload) {
  bits *b = payload;
  const size_t more = (size_t)situ_numel(at->tensor) * situ_dtype_size(situ_dtype_of(at->tensor));
  b->data = realloc(b->data, b->size + more + 1);
  assert_non_null(b->data);
  b->size += more;
  return situ_copy_to_host(at->tensor, b->data + b->size - more, more);
}
static inline bits bits_of(situ_nn_module *m) {
  bits b = { 0 };
  assert_int_equal(situ_nn_walk(m, SITU_NN_VISIT_TENSORS, add_bits, &b), SITU_OK);
  return b;
}
static inline void expect_bits(bits a, bits b, const char *what, int size) {
  assert_int_equal(a.size, b.size);
  if (memcmp(a.data, b.data, a.size) != 0) fail_msg("%s: %d ranks: other bits", what, size);
}

#endif
