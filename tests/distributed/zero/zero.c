/* An optimiser whose state is divided among ranks: the bits of one optimiser, for any number of ranks; its share of the
   memory; its state as one dict, which other numbers of ranks load; what it refuses. */
/* test-devices: cpu sim:0 cuda:0 */
/* test-slow: cuda:0 */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "distributed/divided.h"
#include "support/optim.h"

typedef struct rule {
  const char *name;
  situ_dist_make_optim make;
  double lr;
  optim_change change[OPTIM_CHANGES];
  bool groups;
  const dist_kind *kind; /* in buckets of a layer each; NULL: one of dist_kinds */
} rule;

/* Of four ranks the first and the last own an element of the first layer each, and those between them none. */
static situ_nn_module *make_small(void) {
  static const situ_nn_linear_options bare = { .no_bias = true };
  return situ_nn_sequential(situ_nn_linear(2, 1, &bare), situ_nn_linear(1, 3, &bare));
}
static const dist_kind small = { "small", make_small, { 2, { DIST_BATCH, 2 } } };

static const rule rules[] = { { "AdamW", situ_optim_adamw, 0.01, { { 0 } }, false, NULL },
                              { "SGD", situ_optim_sgd, 0.1, { { SITU_OPTIM_MOMENTUM, 0.9 } }, false, NULL },
                              { "NAdam", situ_optim_nadam, 0.01, { { 0 } }, false, NULL },
                              { "Adam", situ_optim_adam, 0.01, { { SITU_OPTIM_AMSGRAD, 1 } }, false, NULL },
                              { "Lion", situ_optim_lion, 0.001, { { 0 } }, false, NULL },
                              { "AdamW of two groups", situ_optim_adamw, 0.01, { { 0 } }, true, NULL },
                              { "Adam of few elements", situ_optim_adam, 0.01, { { 0 } }, false, &small } };

/* Every rank has the bits of one optimiser, its share of the state to an element, and one rank the state of all. */
static void expect_bits_of_one_optimiser(bool parts) {
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
    for (int size = 1; size <= 4; size++) {
      divided t = { .kind = rules[k].kind ? rules[k].kind : &dist_kinds[k % DIST_KINDS],
                    .make = rules[k].make,
                    .lr = rules[k].lr,
                    .change = rules[k].change,
                    .groups = rules[k].groups,
                    .parts = parts,
                    .ddp = { .bucket_bytes = parts * (rules[k].kind ? 1 : 600) },
                    .to = 12,
                    .keeper = size - 1 };
      situ_tree *want;
      int64_t bytes;
      situ_nn_module *alone = train_alone(&t, &want, &bytes);
      for (int r = 0; r < size; r++) t.model[r] = model_of(t.kind);
      run_world(&t, size);
      situ_tree *got = situ_tree_flatten(t.end);
      expect_equal_trees(got, want, rules[k].name, size);
      for (int r = 0; r < size; r++) {
        expect_equal_models(t.model[r], alone, rules[k].name, size);
        if (t.bytes[r] > bytes / size + 4 * 3 * (1 + t.groups))
          fail_msg("%s: %d bytes of state", rules[k].name, (int)t.bytes[r]);
        situ_nn_free(t.model[r]);
      }
      situ_tree_free(got);
      situ_tree_free(want);
      situ_tree_free(t.end);
      situ_nn_free(alone);
    }
  }
}

static void the_bits_of_one_optimiser(void **state) {
  (void)state;
  expect_bits_of_one_optimiser(false);
}
static void the_bits_of_one_optimiser_with_gradients_in_parts(void **state) {
  (void)state;
  expect_bits_of_one_optimiser(true);
}

/* Three ranks train on from the state that four have left, with one and two groups, of stages 1 and 2. */
static void another_number_of_ranks_goes_on(void **state) {
  (void)state;
  for (int groups = 0; groups < 2; groups++) {
    divided t = { .kind = &dist_kinds[0], .make = situ_optim_adamw, .lr = 0.01, .groups = groups, .to = 7 };
    t.parts = groups == 1;
    for (int r = 0; r < 4; r++) t.model[r] = model_of(t.kind);
    run_world(&t, 4);
    for (int r = 0; r < 4; r++)
      if (r >= 3) situ_nn_free(t.model[r]);
    t.begin = t.end;
    t.end = NULL;
    t.from = 7, t.to = 15;
    t.parts = groups == 0;
    run_world(&t, 3);
    divided whole = { .kind = t.kind, .make = t.make, .lr = t.lr, .groups = groups, .to = 15 };
    situ_tree *want;
    int64_t bytes;
    situ_nn_module *alone = train_alone(&whole, &want, &bytes);
    for (int r = 0; r < 3; r++) {
      expect_equal_models(t.model[r], alone, "resumed", 3);
      situ_nn_free(t.model[r]);
    }
    situ_tree *got = situ_tree_flatten(t.end);
    expect_equal_trees(got, want, "resumed", 3);
    situ_tree_free(got);
    situ_tree_free(want);
    situ_tree_free(t.begin);
    situ_tree_free(t.end);
    situ_nn_free(alone);
  }
}

/* ---- what it refuses ---- */

typedef struct refusal {
  situ_dist_make_optim make;
  situ_shape shape[2]; /* of the one parameter, on ranks 0 and 1 */
  bool frozen;         /* on rank 1 */
} refusal;

static void try_to_make(world_rank *self) {
  const refusal *t = self->payload;
  const situ_options options = { .requires_grad = !t->frozen || self->rank == 0 };
  situ_tensor *p = situ_zeros(t->shape[self->rank], &options);
  situ_dist_zero_free(situ_dist_zero_new(SITU_TREE(p), self->comm, t->make, 1e-3, NULL));
}

static void what_cannot_be_divided_is_refused(void **state) {
  (void)state;
  static const struct {
    refusal given;
    situ_status status;
    const char *says;
  } cases[] = {
    { { situ_optim_muon, { { 2, { 4, 4 } }, { 2, { 4, 4 } } }, false },
      SITU_E_UNSUPPORTED,
      "Muon computes an element from" },
    { { situ_optim_adafactor, { { 2, { 4, 4 } }, { 2, { 4, 4 } } }, false }, SITU_E_UNSUPPORTED, "Adafactor computes" },
    { { situ_optim_lbfgs, { { 1, { 4 } }, { 1, { 4 } } }, false }, SITU_E_UNSUPPORTED, "LBFGS computes" },
    { { situ_optim_sgd, { { 1, { 1 } }, { 1, { 1 } } }, false },
      SITU_E_ARG,
      "1 elements, and each of 2 ranks needs one" },
    { { situ_optim_sgd, { { 1, { 4 } }, { 1, { 5 } } }, false }, SITU_E_COMM, "5 elements, rank 0 1 of 4" },
    { { situ_optim_sgd, { { 1, { 4 } }, { 1, { 4 } } }, true }, SITU_E_COMM, "or other ones require a gradient" }
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    world_rank ranks[WORLD_MOST];
    refusal given = cases[k].given;
    world_run(situ_comm_sim_new(2, NULL), ranks, 2, try_to_make, &given, 5);
    assert_int_equal(ranks[1].status, cases[k].status);
    if (!strstr(ranks[1].message, cases[k].says)) fail_msg("%s", ranks[1].message);
  }
}

/* Every parameter gets a gradient of ones. */
static situ_status step_by_ones(situ_nn_module *m, situ_dist_zero *zero) {
  situ_tree *parameters = situ_nn_parameters(m);
  situ_status status = parameters ? SITU_OK : situ_error();
  for (int64_t i = 0; status == SITU_OK && i < situ_tree_count(parameters); i++) {
    situ_tensor *p = situ_tree_tensor_at(parameters, i);
    status = situ_set_grad(p, situ_ones_like(situ_detach(p), NULL));
  }
  situ_tree_free(parameters);
  return status == SITU_OK ? situ_dist_zero_step(zero) : status;
}

/* Rank 1's state is moved away: its step is refused, and the other rank hears why. */
static void lose_state(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]);
  situ_dist_zero *zero = situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_adamw, 1e-3, NULL);
  if (zero && step_by_ones(m, zero) == SITU_OK) {
    situ_tensor *mean = situ_optim_state(situ_dist_zero_optim(zero), 0, 0, NULL);
    if (self->rank == 1 && situ_follow(mean, NULL) == SITU_OK) SITU_IGNORE(situ_to_(mean, situ_dev("sim:1")));
    SITU_IGNORE(step_by_ones(m, zero));
  }
  situ_dist_zero_free(zero);
}
/* Rank 1 casts its model: its elements are no longer those of rank 0. */
static void cast_model(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]);
  situ_dist_zero *zero = situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_sgd, 1e-3, NULL);
  if (zero && self->rank == 1) SITU_IGNORE(situ_nn_to_dtype(m, SITU_F64));
  if (zero) SITU_IGNORE(step_by_ones(m, zero));
  situ_dist_zero_free(zero);
}

static void a_step_that_fails_is_heard(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  for (int cast = 0; cast < 2; cast++) {
    situ_nn_module *model[2] = { dist_mlp(), dist_mlp() };
    world_run(situ_comm_sim_new(2, NULL), ranks, 2, cast ? cast_model : lose_state, model, 5);
    assert_int_equal(ranks[0].status, SITU_E_COMM);
    assert_int_equal(ranks[1].status, cast ? SITU_E_COMM : SITU_E_DEVICE);
    const char *says = cast ? "f64" : "rank 1 gave up";
    if (!strstr(ranks[0].message, says)) fail_msg("%s", ranks[0].message);
    for (int r = 0; r < 2; r++) situ_nn_free(model[r]);
  }
}

/* Parameters of two dtypes, of which the larger takes two calls. Rank 0 has begun both when no other rank has come to
   the exchange. */
static atomic_bool counted;
static void come_late(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]);
  situ_dist_zero *zero =
      situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_sgd, 0.5, OPTIM_MOMENTUM(0.9));
  MUST(zero && situ_comm_barrier(self->comm, "before the step") == SITU_OK);
  while (self->rank == 0 && !counted) (void)sched_yield();
  if (self->rank == 1) {
    const int64_t before = situ_comm_sim_messages(self->world, 0);
    int64_t begun = 0;
    counted = true;
    for (int i = 0; i < 5000 && begun < 2; i++) {
      (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
      begun = situ_comm_sim_messages(self->world, 0) - before;
    }
    MUST(begun == 2); /* a header for each */
  }
  MUST(step_by_ones(m, zero) == SITU_OK);
out:
  situ_dist_zero_free(zero);
}
static void parts_are_sent_without_waiting(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  situ_nn_module *model[2];
  for (int r = 0; r < 2; r++) {
    situ_manual_seed(7);
    model[r] = situ_nn_sequential(situ_nn_linear(2048, 3400, NULL),
                                  situ_nn_linear(5, 7, &(situ_nn_linear_options){ .dtype = SITU_F64 }));
  }
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, come_late, model, 20);
  for (int r = 0; r < 2; r++) expect_rank_ok(&ranks[r]);
  expect_equal_models(model[0], model[1], "one step", 2);
  for (int r = 0; r < 2; r++) situ_nn_free(model[r]);
}

static situ_tensor *step_in_hook(situ_tensor *grad, void *payload) {
  return situ_dist_zero_step(payload) == SITU_OK ? grad : NULL;
}
static void step_meanwhile(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]);
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &(situ_dist_ddp_options){ .bucket_bytes = 1 });
  situ_dist_zero *zero = situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_adamw, 1e-3, NULL);
  situ_tensor *last = situ_nn_get_tensor(m, "0.weight");
  if (ddp && zero && situ_register_hook(last, step_in_hook, zero) == SITU_OK)
    SITU_IGNORE(dist_micro_batch(&dist_kinds[0], m, test_device(), self->rank));
  situ_remove_hooks(last, zero);
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}
/* While ddp exchanges gradients over the communicator, a step is refused before it changes anything. */
static void a_step_in_a_hook_is_refused(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  situ_nn_module *model[3] = { model_of(&dist_kinds[0]), model_of(&dist_kinds[0]), model_of(&dist_kinds[0]) };
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, step_meanwhile, model, 20);
  for (int r = 0; r < 2; r++) {
    if (!strstr(ranks[r].message, "a backward exchanges gradients over this communicator: step behind it"))
      fail_msg("%s", ranks[r].message);
    expect_equal_models(model[r], model[2], "refused", 2);
  }
  for (int r = 0; r < 3; r++) situ_nn_free(model[r]);
}

static void load_what_does_not_fit(world_rank *self) {
  situ_nn_module *m = self->payload;
  situ_optim *other = situ_optim_sgd(SITU_TREE(situ_zeros(SITU_SHAPE(3), NULL)), 1e-3, NULL);
  situ_tree *state = situ_optim_state_dict(other);
  situ_dist_zero *zero = situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_sgd, 1e-3, NULL);
  if (zero) SITU_IGNORE(situ_dist_zero_load_state_dict(zero, state));
  situ_dist_zero_free(zero);
  situ_tree_free(state);
  situ_optim_free(other);
}

/* A state of a parameter that has other elements: of the right groups, with a momentum of 3 elements. */
static void load_other_elements(world_rank *self) {
  situ_nn_module *m = self->payload;
  situ_dist_zero *zero =
      situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_sgd, 0.1, OPTIM_MOMENTUM(0.9));
  situ_tree *state = zero && step_by_ones(m, zero) == SITU_OK ? situ_dist_zero_state_dict(zero, 0) : NULL;
  situ_tree *flat = state ? situ_tree_flatten(state) : NULL, *other = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(flat); i++) {
    const char *key = situ_tree_key(flat, i);
    const bool changed = !strcmp(key, "state.0.momentum_buffer");
    other = situ_tree_put(other, key,
                          situ_tree_tensor(changed ? situ_zeros(SITU_SHAPE(3), NULL) : situ_tree_tensor_at(flat, i)));
  }
  if (flat) SITU_IGNORE(situ_dist_zero_load_state_dict(zero, other));
  situ_tree_free(other);
  situ_tree_free(flat);
  situ_tree_free(state);
  situ_dist_zero_free(zero);
}

static void a_state_of_other_parameters_is_refused(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  situ_nn_module *m = dist_mlp();
  world_run(situ_comm_sim_new(1, NULL), ranks, 1, load_what_does_not_fit, m, 5);
  assert_int_equal(ranks[0].status, SITU_E_ARG);
  assert_non_null(strstr(ranks[0].message, "group 0 has 1 parameters in the state, must have 4"));
  world_run(situ_comm_sim_new(1, NULL), ranks, 1, load_other_elements, m, 5);
  assert_int_equal(ranks[0].status, SITU_E_SHAPE);
  if (!strstr(ranks[0].message, "state.0.momentum_buffer is [3], its parameter 0.weight is ["))
    fail_msg("%s", ranks[0].message);
  situ_nn_free(m);
}

/* A group that is refused leaves the optimiser as it was: all ranks step on. */
static void refuse_groups(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]);
  static const char *const says[] = { "0.weight is in a parameter group already", "1 elements, and each of 2 ranks",
                                      "lr is -1" };
  situ_dist_zero *zero = situ_dist_zero_new(dist_group(m, false), self->comm, situ_optim_sgd, 1e-3, NULL);
  for (int k = 0; k < 3 && zero; k++) {
    situ_tensor *one = situ_zeros(SITU_SHAPE(1), &(situ_options){ .requires_grad = true });
    situ_tree *group = k == 0 ? situ_nn_parameters(m) : k == 1 ? SITU_TREE(one) : dist_group(m, true);
    situ_optim_options options = situ_optim_group_options(situ_dist_zero_optim(zero), 0);
    if (k == 2) options.lr = -1;
    if (situ_dist_zero_add_param_group(zero, group, &options) == SITU_OK || !strstr(situ_error_message(), says[k]))
      return;
    situ_error_clear();
  }
  if (zero && situ_dist_zero_add_param_group(zero, dist_group(m, true), NULL) == SITU_OK)
    SITU_IGNORE(step_by_ones(m, zero));
  situ_tree *state = zero ? situ_dist_zero_state_dict(zero, 0) : NULL;
  situ_dist_zero_free(zero);
  /* A state of two groups is not one of one. */
  if (self->rank == 0 && (zero = situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_sgd, 1e-3, NULL)))
    SITU_IGNORE(situ_dist_zero_load_state_dict(zero, state));
  else if (self->rank == 1) zero = situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_sgd, 1e-3, NULL);
  situ_dist_zero_free(zero);
  situ_tree_free(state);
}

static void groups_that_do_not_fit_are_refused(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  situ_nn_module *model[3];
  for (int i = 0; i < 3; i++) {
    situ_manual_seed(7);
    model[i] = dist_mlp();
  }
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, refuse_groups, model, 5);
  expect_rank_ok(&ranks[1]);
  assert_int_equal(ranks[0].status, SITU_E_ARG);
  assert_non_null(strstr(ranks[0].message, "group 0 has 2 parameters in the state, must have 4"));
  situ_optim *alone = situ_optim_sgd(situ_nn_parameters(model[2]), 1e-3, NULL);
  situ_tree *parameters = situ_nn_parameters(model[2]);
  for (int64_t i = 0; i < situ_tree_count(parameters); i++) {
    situ_tensor *p = situ_tree_tensor_at(parameters, i);
    assert_int_equal(situ_set_grad(p, situ_ones_like(situ_detach(p), NULL)), SITU_OK);
  }
  assert_int_equal(situ_optim_step(alone), SITU_OK);
  situ_tree_free(parameters);
  situ_optim_free(alone);
  for (int r = 0; r < 2; r++) expect_equal_models(model[r], model[2], "after refusals", 2);
  for (int i = 0; i < 3; i++) situ_nn_free(model[i]);
}

/* One layer is cast behind the division, and one parameter has no gradient. */
static void step_what_has_changed(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]);
  situ_dist_zero *zero = situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_sgd, 0.5, NULL);
  MUST(zero && situ_nn_to_dtype(situ_nn_get_submodule(m, "1"), SITU_F64) == SITU_OK);
  situ_tensor *still = situ_nn_get_tensor(m, "2.bias");
  for (int64_t i = 0; i < 6; i++) {
    static const char *const names[] = { "0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias" };
    situ_tensor *p = situ_nn_get_tensor(m, names[i]);
    MUST(p == still || situ_set_grad(p, situ_ones_like(situ_detach(p), NULL)) == SITU_OK);
  }
  MUST(situ_dist_zero_step(zero) == SITU_OK);
out:
  situ_dist_zero_free(zero);
}
static void parameters_that_change_behind_the_division(void **state) {
  (void)state;
  situ_nn_module *alone = NULL;
  for (int size = 1; size <= 4; size++) {
    world_rank ranks[WORLD_MOST];
    situ_nn_module *model[4];
    for (int r = 0; r < size; r++) {
      situ_manual_seed(7);
      model[r] = situ_nn_sequential(situ_nn_linear(5, 7, NULL), situ_nn_linear(7, 3, NULL), situ_nn_linear(3, 2, NULL));
    }
    world_run(situ_comm_sim_new(size, NULL), ranks, size, step_what_has_changed, model, 20);
    for (int r = 0; r < size; r++) {
      expect_rank_ok(&ranks[r]);
      if (size == 1) alone = model[0];
      else expect_equal_models(model[r], alone, "changed", size), situ_nn_free(model[r]);
    }
  }
  situ_nn_free(alone);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(the_bits_of_one_optimiser),          TEST(the_bits_of_one_optimiser_with_gradients_in_parts),
    TEST(another_number_of_ranks_goes_on),    TEST(what_cannot_be_divided_is_refused),
    TEST(a_step_that_fails_is_heard),         TEST(parts_are_sent_without_waiting),
    TEST(a_step_in_a_hook_is_refused),        TEST(a_state_of_other_parameters_is_refused),
    TEST(groups_that_do_not_fit_are_refused), TEST(parameters_that_change_behind_the_division),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
