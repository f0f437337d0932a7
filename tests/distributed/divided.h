/* Training over ranks with an optimiser that is divided among them, and the same by one optimiser in one process.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_DIST_DIVIDED_H
#define SITU_TEST_DIST_DIVIDED_H

#include "distributed/models.h"
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/dist.h"
#include "situ/situ.h"
#include "support/optim.h"

enum { MICRO_BATCHES = 4 };

typedef struct divided {
  const dist_kind *kind;
  situ_dist_make_optim make;
  double lr;
  const optim_change *change;
  bool groups; /* vectors are a group of their own, with other options */
  bool parts;  /* each rank keeps its parts of the gradients: stage 2 */
  bool shards; /* and of the parameters: stage 3 */
  situ_dist_zero3_options units;
  double max_norm; /* gradients are clipped; 0: they are not */
  situ_dist_ddp_options ddp;
  int from, to;     /* steps */
  situ_tree *begin; /* the state to begin with; NULL: none */
  int keeper;       /* the rank that gets the state at the end */
  situ_tree *end;   /* that state */
  situ_nn_module *model[WORLD_MOST];
  int64_t bytes[WORLD_MOST]; /* of state */
  double norm[WORLD_MOST];   /* of the last step */
} divided;

static inline int64_t bytes_of_state(const situ_optim *o) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < situ_optim_count(o); i++)
    for (int k = 0; k < SITU_OPTIM_STATES; k++) {
      situ_tensor *t = situ_optim_state(o, i, k, NULL);
      if (t) bytes += situ_numel(t) * (int64_t)situ_dtype_size(situ_dtype_of(t));
    }
  return bytes;
}

static inline situ_status run_steps(divided *t, int rank, situ_dist_ddp *ddp, situ_dist_zero *zero) {
  if (t->begin) SITU_TRY(situ_dist_zero_load_state_dict(zero, t->begin));
  for (int step = t->from; step < t->to; step++) {
    for (int64_t k = 0; k < situ_dist_ddp_micro_batches(ddp); k++)
      SITU_TRY(dist_micro_batch(t->kind, t->model[rank], test_device(),
                                step * MICRO_BATCHES + situ_dist_ddp_micro_batch(ddp)));
    if (t->max_norm > 0) SITU_TRY(situ_dist_zero_clip_grad_norm_(zero, t->max_norm, 2, &t->norm[rank]));
    SITU_TRY(situ_dist_zero_step(zero));
    SITU_TRY(situ_dist_zero_zero_grad(zero));
  }
  return SITU_OK;
}

static inline situ_dist_zero *zero_of(const divided *t, situ_nn_module *model, situ_comm *comm, situ_dist_ddp *ddp) {
  situ_tree *first = t->groups ? dist_group(model, false) : situ_nn_parameters(model);
  const situ_optim_options options = optim_options(t->make, t->change);
  situ_dist_zero *zero = t->shards  ? situ_dist_zero3_new(first, ddp, &t->units, t->make, t->lr, &options)
                         : t->parts ? situ_dist_zero2_new(first, ddp, t->make, t->lr, &options)
                                    : situ_dist_zero_new(first, comm, t->make, t->lr, &options);
  if (!zero || !t->groups) return zero;
  const situ_optim_options vectors = dist_vectors(situ_dist_zero_optim(zero));
  if (situ_dist_zero_add_param_group(zero, dist_group(model, true), &vectors) == SITU_OK) return zero;
  situ_dist_zero_free(zero);
  return NULL;
}

static inline void train_rank(world_rank *self) {
  divided *t = self->payload;
  situ_nn_module *model = at_home(t->model[self->rank]);
  situ_dist_ddp_options options = t->ddp;
  options.micro_batches = MICRO_BATCHES;
  situ_dist_ddp *ddp = situ_dist_ddp_new(model, self->comm, &options);
  situ_dist_zero *zero = ddp ? zero_of(t, model, self->comm, ddp) : NULL;
  if (zero && run_steps(t, self->rank, ddp, zero) == SITU_OK) {
    t->bytes[self->rank] = bytes_of_state(situ_dist_zero_optim(zero));
    situ_tree *state = situ_dist_zero_state_dict(zero, t->keeper);
    if (self->rank == t->keeper) t->end = state;
    else situ_tree_free(state);
    SITU_IGNORE(situ_dist_zero_unshard(zero));
  }
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}

static inline situ_nn_module *model_of(const dist_kind *kind) {
  situ_manual_seed(77);
  situ_nn_module *m = kind->make();
  assert_int_equal(situ_nn_to(m, test_device()), SITU_OK);
  return m;
}

/* The same training by one optimiser in one process. */
static inline situ_nn_module *train_alone(divided *t, situ_tree **state, int64_t *bytes) {
  situ_nn_module *model = model_of(t->kind);
  situ_tree *first = t->groups ? dist_group(model, false) : situ_nn_parameters(model);
  situ_optim *optim = optim_make(t->make, first, t->lr, t->change);
  const situ_optim_options vectors = dist_vectors(optim);
  if (t->groups) assert_int_equal(situ_optim_add_param_group(optim, dist_group(model, true), &vectors), SITU_OK);
  /* One rank's sums of micro-batches are those of any number of ranks: tests/distributed/ddp/ddp.c. */
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *comm = situ_comm_sim_rank(world, 0, NULL);
  situ_comm_sim_free(world);
  situ_dist_ddp_options options = t->ddp;
  options.micro_batches = MICRO_BATCHES;
  situ_dist_ddp *ddp = situ_dist_ddp_new(model, comm, &options);
  assert_non_null(ddp);
  for (int step = t->from; step < t->to; step++) {
    for (int64_t k = 0; k < MICRO_BATCHES; k++)
      assert_int_equal(dist_micro_batch(t->kind, model, test_device(), step * MICRO_BATCHES + k), SITU_OK);
    assert_int_equal(situ_optim_step(optim), SITU_OK);
    assert_int_equal(situ_optim_zero_grad(optim, true), SITU_OK);
  }
  *bytes = bytes_of_state(optim);
  situ_tree *own = situ_optim_state_dict(optim);
  *state = situ_tree_flatten(own);
  situ_tree_free(own);
  situ_dist_ddp_free(ddp);
  situ_comm_free(comm);
  situ_optim_free(optim);
  return model;
}

static inline void run_world(divided *t, int size) {
  world_rank ranks[WORLD_MOST];
  world_run(situ_comm_sim_new(size, NULL), ranks, size, train_rank, t, 60);
  for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
  assert_non_null(t->end);
}

#endif
