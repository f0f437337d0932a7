/* The gradient scaler over ranks: what one rank's gradients have of Inf or NaN, all ranks see.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <math.h>

#include "distributed/training.h"
#include "situ/amp.h"
#include "situ/parallel.h"
#include "support/optim.h"

enum { STEPS = 8, STAGES = 4 };

/* What each rank's scaler did. */
typedef struct scaled {
  training t;
  int stage;     /* below STAGES; 0: every rank has an optimiser of all parameters; else the stage of ZeRO */
  bool unscales; /* and clips, before each step */
  bool stepped[WORLD_MOST][STEPS];
  double scale[WORLD_MOST][STEPS]; /* behind the step */
} scaled;

/* Of steps 2 and 5 one micro-batch, the last and the first one, overflows in f16: on one rank, if there are several. */
static double size_of_data(int64_t step, int64_t micro_batch) {
  return (step == 2 && micro_batch == MICRO_BATCHES - 1) || (step == 5 && micro_batch == 0) ? 1e6 : 1;
}

static situ_tensor *loss_in_f16(situ_nn_module *m, situ_tensor *x, situ_tensor *y) {
  situ_setting before;
  const situ_autocast_options options = { .dtype = SITU_F16 };
  if (situ_autocast_begin(&before, test_device(), &options) != SITU_OK) return NULL;
  situ_tensor *loss = situ_cross_entropy(situ_nn_forward(m, x), y, NULL);
  situ_autocast_end(&before);
  return loss;
}

static situ_status step_by(const scaled *all, situ_optim *optim, situ_dist_zero *zero, situ_grad_scaler *scaler,
                           bool *stepped) {
  if (all->unscales) {
    SITU_TRY(zero ? situ_dist_zero_unscale_(zero, scaler) : situ_grad_scaler_unscale_(scaler, optim));
    if (zero) SITU_TRY(situ_dist_zero_clip_grad_norm_(zero, 0.5, 2, NULL));
  }
  SITU_TRY(zero ? situ_dist_zero_scaler_step(zero, scaler, stepped) : situ_grad_scaler_step(scaler, optim, stepped));
  SITU_TRY(situ_grad_scaler_update(scaler, 0));
  return zero ? situ_dist_zero_zero_grad(zero) : situ_optim_zero_grad(optim, true);
}

static situ_status scaled_step(scaled *all, const world_rank *self, situ_dist_ddp *ddp, situ_dist_zero *zero,
                               situ_grad_scaler *scaler) {
  training *t = &all->t;
  const int r = self->rank;
  const int64_t step = situ_dist_ddp_step(ddp);
  for (int64_t k = situ_dist_ddp_micro_batches(ddp); k > 0; k--) {
    const int64_t number = situ_dist_ddp_micro_batch(ddp);
    situ_tensor *x, *y;
    dist_data(t->kind, test_device(), step * MICRO_BATCHES + number, &x, &y);
    situ_tensor *loss = loss_in_f16(t->model[r], situ_mul_scalar(x, size_of_data(step, number)), y);
    SITU_TRY(situ_backward(situ_grad_scaler_scale(scaler, loss), NULL));
  }
  SITU_TRY(step_by(all, t->optim[r], zero, scaler, &all->stepped[r][step]));
  all->scale[r][step] = situ_grad_scaler_get_scale(scaler);
  return SITU_OK;
}

static situ_dist_zero *zero_of(const scaled *all, const world_rank *self, situ_dist_ddp *ddp) {
  situ_tree *parameters = situ_nn_parameters(all->t.model[self->rank]);
  return all->stage == 3   ? situ_dist_zero3_new(parameters, ddp, NULL, situ_optim_adamw, 1e-3, NULL)
         : all->stage == 2 ? situ_dist_zero2_new(parameters, ddp, situ_optim_adamw, 1e-3, NULL)
                           : situ_dist_zero_new(parameters, self->comm, situ_optim_adamw, 1e-3, NULL);
}

static void train_scaled(world_rank *self) {
  scaled *all = self->payload;
  situ_grad_scaler *scaler = optim_scaler(1024, 2);
  situ_dist_ddp *ddp = situ_dist_ddp_new(all->t.model[self->rank], self->comm, &all->t.options);
  situ_dist_zero *zero = NULL;
  MUST(scaler && ddp && (!all->stage || (zero = zero_of(all, self, ddp))));
  for (int i = 0; i < STEPS; i++) MUST(scaled_step(all, self, ddp, zero, scaler) == SITU_OK);
  if (zero) MUST(situ_dist_zero_unshard(zero) == SITU_OK);
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
  situ_grad_scaler_free(scaler);
}

/* All ranks leave out the same steps and have the same scale: those of one rank, and of torch's rule. */
static void expect_agreement(const scaled *all, int size) {
  static const bool stepped[STEPS] = { true, true, false, true, true, false, true, true };
  static const double scale[STEPS] = { 1024, 2048, 1024, 1024, 2048, 1024, 1024, 2048 };
  for (int r = 0; r < size; r++)
    for (int i = 0; i < STEPS; i++)
      if (all->stepped[r][i] != stepped[i] || all->scale[r][i] != scale[i])
        fail_msg("%s, rank %d of %d: step %d %s, scale %g", all->t.kind->name, r, size, i,
                 all->stepped[r][i] ? "made" : "left out", all->scale[r][i]);
}

/* Weights have the same bits on 1, 2 and 4 ranks; of all `stages`. */
static void expect_same_steps(bool unscales, int first_stage) {
  for (size_t k = 0; k < DIST_KINDS;
       k += 2) { /* batch norm would keep the overflow in its statistics, as torch's does */
    bits want = { 0 };
    for (int i = 0; i < 3 * (STAGES - first_stage); i++) {
      const int size = 1 << i % 3;
      scaled all = { .t = { .options = { .bucket_bytes = 600 } }, .stage = first_stage + i / 3, .unscales = unscales };
      world_rank ranks[WORLD_MOST];
      begin_training(&all.t, &dist_kinds[k], size);
      world_run(situ_comm_sim_new(size, NULL), ranks, size, train_scaled, &all, 60);
      for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
      expect_agreement(&all, size);
      for (int r = 0; r < size; r++) {
        bits got = bits_of(all.t.model[r]);
        if (!want.data) want = got;
        else {
          expect_bits(want, got, dist_kinds[k].name, size);
          free(got.data);
        }
      }
      end_training(&all.t, size);
    }
    free(want.data);
  }
}

static void an_overflow_on_one_rank_is_seen_by_all(void **state) {
  (void)state;
  expect_same_steps(false, 0);
}
static void gradients_are_divided_before_they_are_clipped(void **state) {
  (void)state;
  expect_same_steps(true, 1);
}

/* ---- an Inf that one rank alone has; without gradients ---- */

/* Only one element of one rank's part is infinite: in stage 2 no other rank has it. */
static void one_infinite_element(world_rank *self) {
  situ_nn_module *m = ((situ_nn_module **)self->payload)[self->rank];
  situ_grad_scaler *scaler = optim_scaler(8, 2000);
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, NULL);
  situ_dist_zero *zero = ddp ? situ_dist_zero2_new(situ_nn_parameters(m), ddp, situ_optim_sgd, 1e-3, NULL) : NULL;
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 6), &(situ_options){ .device = test_device() });
  bool stepped = true;
  MUST(zero && scaler);
  MUST(situ_dist_zero_scaler_step(zero, scaler, &stepped) == SITU_E_STATE && !stepped);
  MUST(strstr(situ_error_message(), "no parameter of the optimiser has a gradient"));
  situ_error_clear();
  MUST(situ_dist_zero_unscale_(zero, scaler) == SITU_E_STATE);
  situ_error_clear();
  MUST(situ_backward(situ_grad_scaler_scale(scaler, situ_sum(situ_nn_forward(m, x), NULL)), NULL) == SITU_OK);
  if (self->rank == 1)
    MUST(situ_fill_(situ_narrow(situ_grad(situ_optim_param(situ_dist_zero_optim(zero), 0, NULL)), 0, 0, 1), INFINITY));
  MUST(situ_dist_zero_unscale_(zero, scaler) == SITU_OK);
  MUST(situ_dist_zero_unscale_(zero, scaler) == SITU_E_STATE && strstr(situ_error_message(), "divided already"));
  situ_error_clear();
  MUST(situ_dist_zero_scaler_step(zero, scaler, &stepped) == SITU_OK && !stepped);
  MUST(situ_grad_scaler_update(scaler, 0) == SITU_OK && situ_grad_scaler_get_scale(scaler) == 4);
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
  situ_grad_scaler_free(scaler);
}
static void an_infinite_element_of_one_part(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  situ_nn_module *m[4];
  for (int r = 0; r < 4; r++) {
    situ_manual_seed(3);
    m[r] = dist_mlp();
    assert_int_equal(situ_nn_to(m[r], test_device()), SITU_OK);
  }
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, one_infinite_element, m, 20);
  for (int r = 0; r < 3; r++) {
    expect_rank_ok(&ranks[r]);
    expect_equal_models(m[r], m[3], "left out", 3);
  }
  for (int r = 0; r < 4; r++) situ_nn_free(m[r]);
}

/* Ranks with gradients of their own, as of parts of a layer: rank 1 has an Inf in step 1. As in a pipeline only one rank
   has a loss to scale; without that, all refuse. */
static void step_apart(world_rank *self) {
  situ_grad_scaler *scaler = optim_scaler(8, 2000);
  situ_nn_module *m = situ_nn_linear(2, 1, &(situ_nn_linear_options){ .device = test_device() });
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(m), 0.1, NULL);
  bool stepped = true;
  MUST(scaler && optim);
  MUST(situ_backward(situ_sum(situ_nn_forward(m, T32(SITU_SHAPE(1, 2), 1, 1)), NULL), NULL) == SITU_OK);
  MUST(situ_dist_scaler_step(optim, self->comm, scaler, &stepped) == SITU_E_STATE && !stepped);
  MUST(strstr(situ_error_message(), "has scaled no loss"));
  situ_error_clear();
  MUST(situ_optim_zero_grad(optim, true) == SITU_OK);
  for (int step = 0; step < 3; step++)
    for (int unscales = 0; unscales < 2; unscales++) {
      const double size = step == 1 && self->rank == 1 ? (double)INFINITY : 1.0 + self->rank;
      double before[2], after[2];
      test_read(situ_detach(situ_nn_get_tensor(m, "weight")), before);
      situ_tensor *loss = situ_sum(situ_nn_forward(m, T32(SITU_SHAPE(1, 2), size, 1)), NULL);
      loss =
          self->rank ? situ_mul_scalar(loss, situ_grad_scaler_get_scale(scaler)) : situ_grad_scaler_scale(scaler, loss);
      MUST(situ_backward(loss, NULL) == SITU_OK);
      if (unscales) MUST(situ_dist_scaler_unscale_(optim, self->comm, scaler) == SITU_OK);
      MUST(situ_dist_scaler_step(optim, self->comm, scaler, &stepped) == SITU_OK);
      MUST(situ_grad_scaler_update(scaler, 0) == SITU_OK && situ_optim_zero_grad(optim, true) == SITU_OK);
      test_read(situ_detach(situ_nn_get_tensor(m, "weight")), after);
      MUST(stepped == (step != 1) && (before[0] != after[0]) == stepped);
      if (stepped) MUST(fabs(before[0] - after[0] - 0.1 * (1 + self->rank)) < 1e-6);
      MUST(situ_grad_scaler_get_scale(scaler) == (step < 1 ? 8 : step > 1 || unscales ? 2 : 4));
    }
out:
  situ_optim_free(optim);
  situ_nn_free(m);
  situ_grad_scaler_free(scaler);
}
static void ranks_with_different_gradients_agree(void **state) {
  (void)state;
  for (int size = 2; size <= 3; size++) {
    world_rank ranks[WORLD_MOST];
    world_run(situ_comm_sim_new(size, NULL), ranks, size, step_apart, NULL, 20);
    for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(an_overflow_on_one_rank_is_seen_by_all),
    TEST(gradients_are_divided_before_they_are_clipped),
    TEST(an_infinite_element_of_one_part),
    TEST(ranks_with_different_gradients_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
