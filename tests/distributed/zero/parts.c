/* Gradients in parts: who has which, what reads whole ones, clipping, and what is refused. Their bits: zero.c. */
/* test-devices: cpu sim:0 cuda:0 */
#include <math.h>
#include <stdlib.h>

#include "distributed/divided.h"
#include "situ/amp.h"
#include "support/optim.h"

/* ---- clipping ---- */

/* The norm of the gradients and the clipped training, by one process of one rank. */
static void the_norm_does_not_depend_on_the_division(void **state) {
  (void)state;
  for (size_t k = 0; k < DIST_KINDS; k++) {
    situ_nn_module *first = NULL;
    double norm = 0;
    for (int i = 0; i < 8; i++) {
      const int size = 1 + i / 2;
      divided t = { .kind = &dist_kinds[k],
                    .make = situ_optim_sgd,
                    .lr = 0.1,
                    .change = (const optim_change[]){ { SITU_OPTIM_MOMENTUM, 0.9 }, { 0 } },
                    .parts = i % 2,
                    .max_norm = 0.3,
                    .ddp = { .bucket_bytes = 400 },
                    .to = 6 };
      for (int r = 0; r < size; r++) t.model[r] = model_of(t.kind);
      run_world(&t, size);
      if (!first) {
        first = t.model[0];
        norm = t.norm[0];
        assert_true(norm > t.max_norm);
      }
      for (int r = 0; r < size; r++) {
        expect_equal_models(t.model[r], first, t.parts ? "clipped in parts" : "clipped", size);
        if (t.norm[r] != norm)
          fail_msg("%s: norm %.17g on %d ranks, %.17g on one", t.kind->name, t.norm[r], size, norm);
        if (t.model[r] != first) situ_nn_free(t.model[r]);
      }
      situ_tree_free(t.end);
    }
    situ_nn_free(first);
  }
}

typedef struct norms {
  situ_dtype dtype;
  double p, got[WORLD_MOST], want, clipped[WORLD_MOST];
  int special; /* 1: one element is infinite; 2: NaN */
} norms;

static situ_tensor *gradient_of(const norms *t) {
  situ_generator g = situ_generator_seeded(5);
  situ_tensor *x = situ_mul_scalar(situ_randn(SITU_SHAPE(5001), &(situ_options){ .generator = &g }), 1e-3);
  if (t->special) SITU_IGNORE(!situ_fill_(situ_narrow(x, 0, 4000, 1), t->special == 1 ? INFINITY : NAN));
  return situ_to(situ_to_dtype(x, t->dtype), test_device());
}
static void norm_on_a_rank(world_rank *self) {
  norms *t = self->payload;
  situ_tensor *p = situ_zeros(SITU_SHAPE(5001),
                              &(situ_options){ .dtype = t->dtype, .device = test_device(), .requires_grad = true });
  situ_dist_zero *zero = situ_dist_zero_new(SITU_TREE(p), self->comm, situ_optim_sgd, 1e-3, NULL);
  if (zero && situ_set_grad(p, gradient_of(t)) == SITU_OK &&
      situ_dist_zero_clip_grad_norm_(zero, 1e-3, t->p, &t->got[self->rank]) == SITU_OK)
    SITU_IGNORE(situ_item(situ_norm(situ_to_dtype(situ_grad(p), SITU_F64), t->p, NULL), &t->clipped[self->rank]));
  situ_dist_zero_free(zero);
}

/* Other norms, dtypes, and elements that are not finite: what situ_nn_utils_clip_grad_norm_ gives, up to rounding. */
static void norms_are_those_of_whole_gradients(void **state) {
  (void)state;
  static const norms cases[] = { { .dtype = SITU_F32, .p = 2 },        { .dtype = SITU_F32, .p = 1 },
                                 { .dtype = SITU_F32, .p = 3.5 },      { .dtype = SITU_F32, .p = INFINITY },
                                 { .dtype = SITU_BF16, .p = 2 },       { .dtype = SITU_F64, .p = 2 },
                                 { SITU_F32, 2, .special = 1 },        { SITU_F32, 2, .special = 2 },
                                 { SITU_F32, INFINITY, .special = 2 }, { SITU_F32, INFINITY, .special = 1 } };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    double before = -1;
    for (int size = 1; size <= 4; size++) {
      norms t = cases[k];
      if (t.dtype == SITU_F64 && test_device().kind == SITU_SIM && size > 1) continue;
      world_rank ranks[WORLD_MOST];
      world_run(situ_comm_sim_new(size, NULL), ranks, size, norm_on_a_rank, &t, 60);
      assert_int_equal(situ_item(situ_norm(situ_to_dtype(gradient_of(&t), SITU_F64), t.p, NULL), &t.want), SITU_OK);
      for (int r = 0; r < size; r++) {
        expect_rank_ok(&ranks[r]);
        if (before == -1) before = t.got[0];
        if (memcmp(&t.got[r], &before, sizeof before) != 0) fail_msg("case %d: norm %g, %g", (int)k, t.got[r], before);
        if (isnan(t.want) ? !isnan(t.got[r]) : isinf(t.want) ? !isinf(t.got[r]) : fabs(t.got[r] / t.want - 1) > 1e-14)
          fail_msg("case %d: norm %.17g, must be %.17g", (int)k, t.got[r], t.want);
        if (!t.special && fabs(t.clipped[r] / fmin(1e-3, t.want) - 1) > (t.dtype == SITU_BF16 ? 4e-3 : 2e-3))
          fail_msg("case %d: clipped to %g", (int)k, t.clipped[r]);
      }
    }
  }
}

/* ---- who has what ---- */

typedef struct two_ranks {
  situ_nn_module *model[WORLD_MOST];
  bool use_b; /* by rank 1 */
} two_ranks;

static situ_status backward_of_ones(situ_nn_module *m, int64_t width) {
  return situ_backward(
      situ_sum(situ_nn_forward(m, situ_ones(SITU_SHAPE(1, width), &(situ_options){ .device = test_device() })), NULL),
      NULL);
}

static bool refused(situ_status status, const char *says) {
  const bool good = status == SITU_E_STATE && strstr(situ_error_message(), says);
  if (good) situ_error_clear();
  return good;
}

/* Whatever needs a whole gradient says that there is none; what drops gradients drops them all. */
static void read_whole_gradients(world_rank *self) {
  situ_nn_module *m = at_home(((two_ranks *)self->payload)->model[self->rank]);
  static const char says[] = "the ranks keep the gradient of ";
  situ_tree *parameters = situ_nn_parameters(m);
  situ_tensor *w = situ_nn_get_tensor(m, "0.weight");
  situ_optim *other = situ_optim_sgd(situ_nn_parameters(m), 1e-3, NULL);
  situ_grad_scaler *scaler = situ_grad_scaler_new(NULL);
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, NULL);
  situ_dist_zero *zero = ddp ? situ_dist_zero2_new(situ_nn_parameters(m), ddp, situ_optim_sgd, 1e-3, NULL) : NULL;
  situ_dist_zero *whole =
      zero ? situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_sgd, 1e-3, NULL) : NULL;
  situ_tensor *mine = whole ? situ_optim_param(situ_dist_zero_optim(zero), 0, NULL) : NULL;
  MUST(mine && scaler && other);
  MUST(!situ_grad(mine));
  MUST(backward_of_ones(m, 6) == SITU_OK);
  MUST(!situ_grad(w) && situ_grad(mine));
  MUST(refused(situ_nn_utils_clip_grad_norm_(parameters, 1, 2, NULL), says));
  MUST(refused(situ_nn_utils_clip_grad_value_(parameters, 1), says));
  MUST(refused(situ_optim_clip_grad_norm_(other, 1, 2, NULL), says));
  MUST(refused(situ_optim_step(other), "the ranks keep the gradient of 0.weight in parts"));
  MUST(refused(situ_grad_scaler_step(scaler, other, NULL), says));
  MUST(refused(situ_grad_scaler_unscale_(scaler, other), says));
  MUST(refused(situ_dist_zero_step(whole), "another optimiser keeps the gradient of 0.weight in parts"));
  MUST(refused(backward_of_ones(m, 6), "had a gradient already"));
  MUST(situ_dist_ddp_no_sync(ddp, true) == SITU_OK);
  MUST(refused(backward_of_ones(m, 6), "had a gradient already"));
  MUST(situ_dist_ddp_no_sync(ddp, false) == SITU_OK);
  MUST(!situ_grad(w) && situ_grad(mine));
  situ_nn_zero_grad(m);
  MUST(situ_optim_step(other) == SITU_OK); /* without gradients it does nothing */
  MUST(situ_dist_zero_step(zero) == SITU_OK && !situ_grad(mine));
  MUST(backward_of_ones(m, 6) == SITU_OK && situ_grad(mine));
  MUST(situ_optim_zero_grad(other, true) == SITU_OK);
  MUST(backward_of_ones(m, 6) == SITU_OK && situ_grad(mine));
  MUST(situ_dist_zero_zero_grad(zero) == SITU_OK && !situ_grad(mine));
  /* A whole gradient that the program sets is used. */
  MUST(situ_set_grad(w, situ_ones_like(situ_detach(w), NULL)) == SITU_OK);
  MUST(situ_dist_zero_step(zero) == SITU_OK && situ_dist_zero_zero_grad(zero) == SITU_OK);
  /* Behind the optimiser ddp gives whole gradients again, and its parts are gone with it. */
  MUST(backward_of_ones(m, 6) == SITU_OK && situ_grad(mine));
  situ_dist_zero_free(zero);
  zero = NULL;
  MUST(backward_of_ones(m, 6) == SITU_OK && situ_grad(w));
  MUST(situ_nn_utils_clip_grad_norm_(parameters, 1, 2, NULL) == SITU_OK);
out:
  situ_dist_zero_free(whole);
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
  situ_grad_scaler_free(scaler);
  situ_optim_free(other);
  situ_tree_free(parameters);
}

static void run_on(int size, situ_nn_module *(*make)(void), void (*run)(world_rank *), world_rank *ranks) {
  two_ranks t = { 0 };
  for (int r = 0; r < size; r++) {
    situ_manual_seed(77);
    t.model[r] = make();
    assert_int_equal(situ_nn_to(t.model[r], test_device()), SITU_OK);
  }
  world_run(situ_comm_sim_new(size, NULL), ranks, size, run, &t, 20);
  for (int r = 1; r < size; r++) expect_equal_models(t.model[r], t.model[0], "all ranks", size);
  for (int r = 0; r < size; r++) situ_nn_free(t.model[r]);
}

static void what_reads_whole_gradients(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  for (int size = 1; size <= 3; size++) {
    run_on(size, dist_mlp, read_whole_gradients, ranks);
    for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
  }
}

/* A frozen layer, one that is not in the optimiser, one that some steps do not use. */
typedef struct heads {
  situ_nn_module base;
  situ_nn_module *a, *b, *frozen, *rest;
  bool use_b;
} heads;
static situ_tensor *run_heads(situ_nn_module *self, situ_tensor *x) {
  heads *m = (heads *)self;
  x = situ_nn_forward(m->rest, situ_nn_forward(m->frozen, x));
  return situ_nn_forward(m->use_b ? m->b : m->a, x);
}
static const situ_nn_type heads_type = { .name = "Heads", .size = sizeof(heads), .forward = run_heads };
static situ_nn_module *make_heads(void) {
  heads *m = situ_nn_alloc(&heads_type);
  situ_nn_child(m, a, situ_nn_linear(4, 5, NULL));
  situ_nn_child(m, b, situ_nn_linear(4, 5, NULL));
  situ_nn_child(m, frozen, situ_nn_requires_grad_(situ_nn_linear(4, 4, NULL), false));
  situ_nn_child(m, rest, situ_nn_linear(4, 4, NULL));
  return situ_nn_done(m);
}
static bool parts_have_gradients(const situ_dist_zero *zero, const char *of, bool wanted) {
  situ_optim *o = situ_dist_zero_optim(zero);
  for (int64_t i = 0; i < situ_optim_count(o); i++) {
    const char *name;
    situ_tensor *p = situ_optim_param(o, i, &name);
    if (strncmp(name, of, strlen(of)) == 0 && (situ_grad(p) != NULL) != wanted) return false;
  }
  return true;
}
static situ_tree *without_rest(situ_nn_module *m) {
  situ_tree *all = situ_nn_parameters(m), *some = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(all); i++)
    if (strncmp(situ_tree_key(all, i), "rest", 4) != 0)
      some = situ_tree_put(some, situ_tree_key(all, i), situ_tree_tensor(situ_tree_tensor_at(all, i)));
  situ_tree_free(all);
  return some;
}
static void use_heads(world_rank *self) {
  situ_nn_module *m = at_home(((two_ranks *)self->payload)->model[self->rank]);
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, NULL);
  situ_dist_zero *zero = ddp ? situ_dist_zero2_new(without_rest(m), ddp, situ_optim_adamw, 1e-3, NULL) : NULL;
  situ_tree *state = NULL;
  MUST(zero);
  for (int step = 0; step < 4; step++) {
    ((heads *)m)->use_b = step % 2;
    MUST(backward_of_ones(m, 4) == SITU_OK);
    MUST(situ_grad(situ_nn_get_tensor(m, "rest.weight")));
    MUST(parts_have_gradients(zero, "a.", step % 2 == 0) && parts_have_gradients(zero, "b.", step % 2 == 1));
    MUST(parts_have_gradients(zero, "frozen.", false));
    MUST(situ_dist_zero_step(zero) == SITU_OK);
    situ_nn_zero_grad(m); /* not the optimiser's: a part that is left over must not be stepped again */
  }
  state = situ_dist_zero_state_dict(zero, 0);
  MUST(state && (self->rank || situ_dist_zero_load_state_dict(zero, state) == SITU_OK));
out:
  situ_tree_free(state);
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}
static void parameters_that_are_not_used_or_not_divided(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  for (int size = 1; size <= 3; size++) {
    run_on(size, make_heads, use_heads, ranks);
    for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
  }
}

/* ---- what is refused ---- */

static void try_what_is_refused(world_rank *self) {
  situ_nn_module *m = at_home(((two_ranks *)self->payload)->model[self->rank]);
  situ_tensor *foreign = situ_zeros(SITU_SHAPE(9), &(situ_options){ .device = test_device(), .requires_grad = true });
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &(situ_dist_ddp_options){ .micro_batches = 2 * self->size });
  situ_dist_zero *zero = NULL;
  MUST(ddp && !situ_dist_zero2_new(SITU_TREE(foreign), ddp, situ_optim_sgd, 1e-3, NULL));
  MUST(situ_error() == SITU_E_ARG && strstr(situ_error_message(), "0 is not a parameter of the module"));
  situ_error_clear();
  MUST(backward_of_ones(m, 6) == SITU_OK);
  MUST(!situ_dist_zero2_new(situ_nn_parameters(m), ddp, situ_optim_sgd, 1e-3, NULL));
  MUST(refused(SITU_E_STATE, "in the middle of a step of ddp: 1 of 2 micro-batches"));
  MUST(backward_of_ones(m, 6) == SITU_OK);
  situ_nn_zero_grad(m);
  MUST(!situ_dist_zero2_new(dist_group(m, false), ddp, situ_optim_muon, 1e-3, NULL));
  MUST(situ_error() == SITU_E_UNSUPPORTED);
  situ_error_clear();
  MUST((zero = situ_dist_zero2_new(dist_group(m, false), ddp, situ_optim_sgd, 1e-3, NULL)));
  MUST(!situ_dist_zero2_new(dist_group(m, true), ddp, situ_optim_sgd, 1e-3, NULL));
  MUST(refused(SITU_E_STATE, "another optimiser keeps gradients of this ddp in parts"));
  MUST(situ_dist_zero_add_param_group(zero, situ_nn_parameters(m), NULL) == SITU_E_ARG);
  situ_error_clear();
  situ_optim_options group = situ_optim_group_options(situ_dist_zero_optim(zero), 0);
  group.lr = -1;
  MUST(situ_dist_zero_add_param_group(zero, dist_group(m, true), &group) == SITU_E_ARG);
  situ_error_clear();
  /* A group that was refused keeps whole gradients. */
  MUST(backward_of_ones(m, 6) == SITU_OK && backward_of_ones(m, 6) == SITU_OK);
  MUST(situ_grad(situ_nn_get_tensor(m, "0.bias")) && !situ_grad(situ_nn_get_tensor(m, "0.weight")));
  MUST(situ_dist_zero_step(zero) == SITU_OK);
  situ_nn_zero_grad(m);
  group.lr = 0.1;
  MUST(situ_dist_zero_add_param_group(zero, dist_group(m, true), &group) == SITU_OK);
  MUST(backward_of_ones(m, 6) == SITU_OK && backward_of_ones(m, 6) == SITU_OK);
  MUST(!situ_grad(situ_nn_get_tensor(m, "0.bias")) && !situ_grad(situ_nn_get_tensor(m, "0.weight")));
  situ_dist_ddp_free(ddp);
  ddp = NULL;
  MUST(situ_dist_zero_step(zero) == SITU_OK); /* the gradients are still there */
  MUST(refused(situ_dist_zero_add_param_group(zero, SITU_TREE(foreign), NULL), "has been freed"));
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}
static void what_cannot_be_kept_in_parts_is_refused(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  for (int size = 1; size <= 3; size++) {
    run_on(size, dist_mlp, try_what_is_refused, ranks);
    for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
  }
}

/* ---- failures ---- */

/* The last rank gives up before its backward: nothing of the step is left on the others, whole or in parts. */
static void give_up(world_rank *self) {
  situ_nn_module *m = at_home(((two_ranks *)self->payload)->model[self->rank]);
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, NULL);
  situ_dist_zero *zero = ddp ? situ_dist_zero2_new(situ_nn_parameters(m), ddp, situ_optim_sgd, 1e-3, NULL) : NULL;
  if (zero && self->rank == self->size - 1) situ_comm_abort(self->comm, "no memory for this batch");
  if (zero && backward_of_ones(m, 6) == SITU_E_COMM && situ_grad(situ_optim_param(situ_dist_zero_optim(zero), 0, NULL)))
    (void)situ_comm_refuse(SITU_E_STATE, "test", "a gradient is left");
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}
static void a_step_that_is_lost_leaves_no_parts(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  run_on(3, dist_mlp, give_up, ranks);
  for (int r = 0; r < 3; r++)
    if (ranks[r].status != SITU_E_COMM || !strstr(ranks[r].message, "rank 2 gave up: no memory for this batch"))
      fail_msg("%s", ranks[r].message);
}

/* In the engine's own order: all ranks agree, and the values are close. */
static void the_engines_order_in_parts_is_close(void **state) {
  (void)state;
  situ_nn_module *want = NULL;
  for (int fast = 0; fast < 2; fast++) {
    divided t = { .kind = &dist_kinds[1], .make = situ_optim_sgd, .lr = 0.1, .parts = true, .to = 4 };
    t.ddp.fast = fast;
    for (int r = 0; r < 3; r++) t.model[r] = model_of(t.kind);
    run_world(&t, 3);
    situ_tree_free(t.end);
    for (int r = 1; r < 3; r++) expect_equal_models(t.model[r], t.model[0], "fast in parts", 3);
    if (!fast) want = situ_nn_clone(t.model[0]);
    situ_tree *a = situ_nn_parameters(t.model[0]), *b = situ_nn_parameters(want);
    for (int64_t i = 0; i < situ_tree_count(a); i++)
      expect_same(situ_detach(situ_tree_tensor_at(a, i)), situ_detach(situ_tree_tensor_at(b, i)), 1e-4, 1e-5);
    situ_tree_free(a);
    situ_tree_free(b);
    for (int r = 0; r < 3; r++) situ_nn_free(t.model[r]);
  }
  situ_nn_free(want);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(the_norm_does_not_depend_on_the_division),
    TEST(norms_are_those_of_whole_gradients),
    TEST(what_reads_whole_gradients),
    TEST(parameters_that_are_not_used_or_not_divided),
    TEST(what_cannot_be_kept_in_parts_is_refused),
    TEST(a_step_that_is_lost_leaves_no_parts),
    TEST(the_engines_order_in_parts_is_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
