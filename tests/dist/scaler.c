/* The gradient scaler over ranks: what one rank's gradients have of Inf or NaN, all ranks see.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include "dist/training.h"
#include "situ/amp.h"

enum { STEPS = 8 };

/* What each rank's scaler did. */
typedef struct scaled {
  training t;
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

static situ_status scaled_step(scaled *all, const world_rank *self, situ_dist_ddp *ddp, situ_grad_scaler *scaler) {
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
  SITU_TRY(situ_grad_scaler_step(scaler, t->optim[r], &all->stepped[r][step]));
  SITU_TRY(situ_grad_scaler_update(scaler, 0));
  all->scale[r][step] = situ_grad_scaler_get_scale(scaler);
  return situ_optim_zero_grad(t->optim[r], true);
}

static void train_scaled(world_rank *self) {
  scaled *all = self->payload;
  situ_grad_scaler *scaler =
      situ_grad_scaler_new(&(situ_grad_scaler_options){ .init_scale = 1024, .growth_interval = 2 });
  situ_dist_ddp *ddp = situ_dist_ddp_new(all->t.model[self->rank], self->comm, &all->t.options);
  for (int i = 0; i < STEPS; i++) MUST(scaler && ddp && scaled_step(all, self, ddp, scaler) == SITU_OK);
out:
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

static void an_overflow_on_one_rank_is_seen_by_all(void **state) {
  (void)state;
  for (size_t k = 0; k < DIST_KINDS;
       k += 2) { /* batch norm would keep the overflow in its statistics, as torch's does */
    bits want = { 0 };
    for (int size = 1; size <= 4; size *= 2) {
      scaled all = { .t = { .options = { .bucket_bytes = 600 } } };
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

int main(void) {
  const struct CMUnitTest tests[] = { TEST(an_overflow_on_one_rank_is_seen_by_all) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
