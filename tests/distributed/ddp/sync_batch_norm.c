/* SyncBatchNorm: the statistics, gradients and running statistics of one batch norm over the batches of all ranks.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <math.h>

#include "situ/dist.h"
#include "situ/sys/sim.h"

#include "distributed/training.h"

/* Batches that ranks have, in order, are those of one tensor. */
typedef struct batches {
  situ_dtype dtype;
  bool no_affine, no_tracking, images, channels_last, half;
  int64_t rows[WORLD_MOST]; /* of each rank */
  situ_nn_module *norm[WORLD_MOST];
  situ_tensor *x, *weights; /* of the loss, so that no gradient is uniform */
  situ_tensor *y[WORLD_MOST], *dx[WORLD_MOST];
  situ_comm_sim *second;
  uint64_t nth; /* of what a device does, what loses it */
} batches;

enum { CHANNELS = 3 };

static situ_nn_module *make_norm(const batches *b) {
  const situ_nn_batch_norm_options o =
      OPTIONS_OF(situ_nn_batch_norm, with.dtype = b->dtype, with.no_affine = b->no_affine,
                 with.no_track_running_stats = b->no_tracking, with.momentum = 0.3);
  situ_nn_module *m = b->images ? situ_nn_batch_norm2d(CHANNELS, &o) : situ_nn_batch_norm1d(CHANNELS, &o);
  assert_non_null(m);
  assert_int_equal(situ_nn_to(m, test_device()), SITU_OK);
  if (b->no_affine) return m;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_copy_(situ_nn_get_tensor(m, "weight"), T32(SITU_SHAPE(3), 1.5, -0.5, 2)));
  assert_non_null(situ_copy_(situ_nn_get_tensor(m, "bias"), T32(SITU_SHAPE(3), 0.5, 1, -3)));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  return m;
}

static int64_t rows_before(const batches *b, int rank) {
  int64_t rows = 0;
  for (int r = 0; r < rank; r++) rows += b->rows[r];
  return rows;
}

static void normalise_part(world_rank *self) {
  batches *b = self->payload;
  const int r = self->rank;
  MUST(situ_nn_convert_sync_batchnorm(b->norm[r], self->comm) == b->norm[r]);
  situ_tensor *x = situ_clone(situ_narrow(b->x, 0, rows_before(b, r), b->rows[r]));
  if (b->channels_last) x = situ_contiguous_memory_format(x, SITU_CHANNELS_LAST);
  situ_tensor *w = situ_narrow(b->weights, 0, rows_before(b, r), b->rows[r]);
  MUST(situ_requires_grad_(x, true));
  situ_tensor *y = situ_nn_forward(b->norm[r], x);
  MUST(situ_backward(situ_sum(situ_mul(y, w), NULL), NULL) == SITU_OK);
  b->y[r] = situ_retain(situ_detach(y));
  b->dx[r] = situ_retain(situ_grad(x));
out:;
}

static void expect_sum_of_gradients(const batches *b, int size, situ_nn_module *whole, const char *path, double close) {
  situ_tensor *sum = situ_detach(situ_grad(situ_nn_get_tensor(b->norm[0], path)));
  for (int r = 1; r < size; r++) sum = situ_add(sum, situ_detach(situ_grad(situ_nn_get_tensor(b->norm[r], path))));
  expect_same(sum, situ_detach(situ_grad(situ_nn_get_tensor(whole, path))), close, close);
}

static void expect_whole(batches *b, int size, double close) {
  const situ_options at = { .dtype = b->dtype, .device = test_device() };
  const int64_t all = rows_before(b, size);
  const situ_shape shape = b->images ? SITU_SHAPE(all, CHANNELS, 2, 3) : SITU_SHAPE(all, CHANNELS);
  world_rank ranks[WORLD_MOST];
  situ_manual_seed(5);
  /* Far from 0, where the square of a mean would cancel. */
  b->x = situ_add_scalar(situ_mul_scalar(situ_randn(shape, &at), 2), 30);
  b->weights = situ_randn(shape, &at);
  situ_nn_module *whole = make_norm(b);
  for (int r = 0; r < size; r++) b->norm[r] = make_norm(b);
  world_run(situ_comm_sim_new(size, &(situ_comm_sim_options){ .seed = 4, .max_delay = 2e-4 }), ranks, size,
            normalise_part, b, 30);
  situ_tensor *x = situ_requires_grad_(situ_clone(b->x), true), *y = situ_nn_forward(whole, x);
  assert_int_equal(situ_backward(situ_sum(situ_mul(y, b->weights), NULL), NULL), SITU_OK);
  for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
  expect_same(situ_cat(b->y, size, 0), situ_detach(y), close, close);
  expect_same(situ_cat(b->dx, size, 0), situ_detach(situ_grad(x)), close, close);
  if (!b->no_affine) {
    expect_sum_of_gradients(b, size, whole, "weight", 10 * close);
    expect_sum_of_gradients(b, size, whole, "bias", 10 * close);
  }
  for (int r = 0; r < size; r++) {
    if (!b->no_tracking) {
      expect_same(situ_nn_get_tensor(b->norm[r], "running_mean"), situ_nn_get_tensor(whole, "running_mean"), close,
                  close);
      expect_same(situ_nn_get_tensor(b->norm[r], "running_var"), situ_nn_get_tensor(whole, "running_var"), close,
                  close);
      /* The same bits on all ranks. */
      bool equal;
      assert_int_equal(situ_equal(situ_nn_get_tensor(b->norm[r], "running_var"),
                                  situ_nn_get_tensor(b->norm[0], "running_var"), &equal),
                       SITU_OK);
      assert_true(equal);
    }
    situ_drop(&b->y[r]);
    situ_drop(&b->dx[r]);
  }
  for (int r = 0; r < size; r++) situ_nn_free(b->norm[r]);
  situ_nn_free(whole);
}

static void statistics_are_those_of_all_ranks(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) {
    expect_whole(&(batches){ .dtype = SITU_F64, .rows = { 4, 4, 4, 4 } }, size, 1e-11);
    expect_whole(&(batches){ .dtype = SITU_F64, .images = true, .rows = { 2, 3, 1, 5 } }, size, 1e-11);
    expect_whole(&(batches){ .dtype = SITU_F32, .rows = { 8, 8, 8, 8 } }, size, 2e-4);
  }
  expect_whole(&(batches){ .dtype = SITU_F64, .no_affine = true, .no_tracking = true, .rows = { 3, 2, 4 } }, 3, 1e-11);
  expect_whole(&(batches){ .dtype = SITU_F64, .images = true, .channels_last = true, .rows = { 2, 2 } }, 2, 1e-11);
  /* A rank with one value a channel, and one with none. */
  expect_whole(&(batches){ .dtype = SITU_F64, .rows = { 1, 0, 4 } }, 3, 1e-11);
  expect_whole(&(batches){ .dtype = SITU_F64, .rows = { 1, 1 } }, 2, 1e-11);
}

/* ---- training ---- */

static void train_synchronised(world_rank *self) {
  training *t = self->payload;
  situ_nn_module *m = t->model[self->rank];
  situ_comm *own = situ_comm_sim_rank(t->world, self->rank, &(situ_comm_options){ .deadline = 60 });
  MUST(own && situ_nn_convert_sync_batchnorm(m, own));
  train_rank(self);
out:
  situ_comm_free(own);
}

static bool is_taken_away(const char *key) { return !strcmp(key, "0.bias") || !strcmp(key, "1.running_mean"); }

/* One micro-batch a rank: the weights of one rank whose micro-batch is all of them. */
static void training_is_that_of_one_large_batch(void **state) {
  (void)state;
  for (int size = 2; size <= 4; size += 2) {
    bits want = { 0 };
    for (int again = 0; again < 2; again++) {
      training t = { .steps = 6, .micro_batches = size };
      world_rank ranks[WORLD_MOST];
      begin_training(&t, &dist_kinds[1], size);
      situ_nn_module *reference = situ_nn_clone(t.model[0]);
      situ_optim *optim = situ_optim_adamw(situ_nn_parameters(reference), 1e-3, NULL);
      const situ_comm_sim_options slow = { .seed = 7, .max_delay = again ? 3e-4 : 0 };
      t.world = situ_comm_sim_new(size, &slow);
      world_run(situ_comm_sim_new(size, &slow), ranks, size, train_synchronised, &t, 60);
      situ_comm_sim_free(t.world);
      for (int r = 0; r < size; r++) {
        expect_rank_ok(&ranks[r]);
        bits got = bits_of(t.model[r]);
        if (!want.data) want = got;
        else {
          expect_bits(want, got, "synchronised", size);
          free(got.data);
        }
      }
      for (int i = 0; i < t.steps; i++) {
        situ_tensor *x[WORLD_MOST], *y[WORLD_MOST];
        for (int k = 0; k < size; k++) dist_data(t.kind, test_device(), i * size + k, &x[k], &y[k]);
        situ_tensor *out = situ_nn_forward(reference, situ_cat(x, size, 0));
        assert_int_equal(situ_backward(situ_cross_entropy(out, situ_cat(y, size, 0), NULL), NULL), SITU_OK);
        assert_int_equal(situ_optim_step(optim), SITU_OK);
        assert_int_equal(situ_optim_zero_grad(optim, true), SITU_OK);
      }
      situ_tree *a = situ_nn_state_dict(t.model[size - 1]), *b = situ_nn_state_dict(reference);
      for (int64_t i = 0; i < situ_tree_count(b); i++) {
        /* What batch norm takes away has a gradient of 0, of whose rounding AdamW makes whole steps. */
        if (is_taken_away(situ_tree_key(b, i))) continue;
        expect_same(situ_detach(situ_tree_tensor_at(a, i)), situ_detach(situ_tree_tensor_at(b, i)), 1e-4, 1e-5);
      }
      situ_tree_free(a);
      situ_tree_free(b);
      situ_optim_free(optim);
      situ_nn_free(reference);
      end_training(&t, size);
    }
    free(want.data);
  }
}

/* ---- refusals ---- */

/* ddp's communicator is in use while its backward runs. */
static void share_communicator(world_rank *self) {
  training *t = self->payload;
  situ_nn_module *m = t->model[self->rank];
  MUST(situ_nn_convert_sync_batchnorm(m, self->comm));
  train_rank(self);
out:;
}
static void ddps_communicator_is_refused(void **state) {
  (void)state;
  training t = { .steps = 1, .micro_batches = 2 };
  world_rank ranks[WORLD_MOST];
  begin_training(&t, &dist_kinds[1], 2);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, share_communicator, &t, 20);
  for (int r = 0; r < 2; r++) {
    assert_int_not_equal(ranks[r].status, SITU_OK);
    assert_int_equal(t.done[r], 0);
    assert_null(situ_grad(situ_nn_get_tensor(t.model[r], "0.weight")));
  }
  const int first = ranks[0].status == SITU_E_STATE ? 0 : 1;
  if (ranks[first].status != SITU_E_STATE || !strstr(ranks[first].message, "give hooks and layers one of their own"))
    fail_msg("%s", ranks[first].message);
  end_training(&t, 2);
}

/* A rank is lost in forward or in backward: the others name it and the layer, and running statistics stay. */
static void lose_one(world_rank *self) {
  batches *b = self->payload;
  situ_nn_module *m = b->norm[self->rank];
  MUST(situ_nn_convert_sync_batchnorm(m, self->comm));
  situ_tensor *x = situ_requires_grad_(situ_randn(SITU_SHAPE(4, CHANNELS), NULL), true);
  const situ_shape four = SITU_SHAPE(4, CHANNELS);
  situ_tensor *y = b->half ? situ_nn_forward(m, x) : x;
  MUST(y && situ_requires_grad(y) && situ_shape_of(y).dim[0] == four.dim[0]);
  if (self->rank == 1) situ_comm_abort(self->comm, "no memory for the batch");
  if (b->half) MUST(situ_backward(situ_sum(situ_square(y), NULL), NULL) == SITU_OK);
  else MUST(situ_nn_forward(m, x));
out:;
}
static void a_lost_rank_is_named(void **state) {
  (void)state;
  for (int half = 0; half < 2; half++) {
    batches b = { .half = half };
    world_rank ranks[WORLD_MOST];
    for (int r = 0; r < 3; r++) b.norm[r] = situ_nn_sequential(situ_nn_batch_norm1d(CHANNELS, NULL));
    world_run(situ_comm_sim_new(3, NULL), ranks, 3, lose_one, &b, 20);
    for (int r = 0; r < 3; r++) {
      double mean[CHANNELS];
      assert_int_equal(ranks[r].status, SITU_E_COMM);
      if (!strstr(ranks[r].message, "rank 1 gave up: no memory for the batch")) fail_msg("%s", ranks[r].message);
      assert_null(situ_grad(situ_nn_get_tensor(b.norm[r], "0.weight")));
      test_read(situ_nn_get_tensor(b.norm[r], "0.running_mean"), mean);
      assert_true((mean[0] != 0) == (half == 1));
      situ_nn_free(b.norm[r]);
    }
  }
}

/* Rank 1 loses its device in its backward. */
static void fail_in_backward(world_rank *self) {
  batches *b = self->payload;
  situ_nn_module *m = b->norm[self->rank];
  const situ_options here = { .device = situ_dev(self->rank == 1 ? "sim:1" : "cpu") };
  MUST(situ_nn_to(m, here.device) == SITU_OK && situ_nn_convert_sync_batchnorm(m, self->comm));
  situ_tensor *loss = situ_sum(situ_square(situ_nn_forward(m, situ_randn(SITU_SHAPE(4, CHANNELS), &here))), NULL);
  MUST(loss && situ_synchronize(here.device) == SITU_OK);
  if (self->rank == 1) MUST(situ_sim_fail(1, SITU_SIM_LOST, b->nth, true) == SITU_OK);
  MUST(situ_backward(loss, NULL) == SITU_OK);
  MUST(situ_comm_barrier(self->comm, "behind it") == SITU_OK);
out:;
}
/* What fails in the layer's backward is told to the other ranks, from its first work to its last. */
static void a_backward_that_fails_on_one_rank_is_heard(void **state) {
  (void)state;
  int heard = 0;
  assert_int_equal(situ_sim_create(2), SITU_OK);
  for (uint64_t nth = 1;; nth++) {
    batches b = { .nth = nth };
    world_rank ranks[WORLD_MOST];
    for (int r = 0; r < 3; r++) b.norm[r] = situ_nn_batch_norm1d(CHANNELS, NULL);
    world_run(situ_comm_sim_new(3, NULL), ranks, 3, fail_in_backward, &b, 20);
    assert_int_equal(situ_sim_reset(1), SITU_OK);
    for (int r = 0; r < 3; r++) situ_nn_free(b.norm[r]);
    if (ranks[1].status == SITU_OK) break;
    const bool told = strstr(ranks[0].message, "rank 1 gave up: ") != NULL;
    if (heard && !told) fail_msg("work %d: %s: %s", (int)nth, ranks[1].message, ranks[0].message);
    heard += told;
  }
  assert_true(heard > 5);
}

/* Ranks that are in other layers, and a batch without variance. */
static void disagree(world_rank *self) {
  batches *b = self->payload;
  situ_nn_module *m = b->norm[self->rank];
  MUST(situ_nn_convert_sync_batchnorm(m, self->comm));
  MUST(situ_nn_forward(m, situ_randn(SITU_SHAPE(b->rows[self->rank], CHANNELS), NULL)));
out:;
}
static void what_cannot_be_is_refused(void **state) {
  (void)state;
  batches b = { .rows = { 4, 4 } };
  world_rank ranks[WORLD_MOST];
  b.norm[0] = situ_nn_sequential(situ_nn_batch_norm1d(CHANNELS, NULL));
  b.norm[1] = situ_nn_sequential(situ_nn_identity(), situ_nn_batch_norm1d(CHANNELS, NULL));
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, disagree, &b, 20);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks[r].status, SITU_E_COMM);
    if (!strstr(ranks[r].message, "\"batch norm 0\"") || !strstr(ranks[r].message, "\"batch norm 1\""))
      fail_msg("%s", ranks[r].message);
    b.rows[r] = r;
  }
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, disagree, &b, 20);
  situ_nn_free(b.norm[1]);
  b.norm[1] = situ_nn_clone(b.norm[0]);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, disagree, &b, 20);
  for (int r = 0; r < 2; r++) {
    assert_int_not_equal(ranks[r].status, SITU_OK);
    if (!strstr(ranks[r].message, "1 value a channel over all ranks has no variance")) fail_msg("%s", ranks[r].message);
    situ_nn_free(b.norm[r]);
  }
}

static void layers_keep_what_they_have(void **state) {
  (void)state;
  char text[256];
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *comm = situ_comm_sim_rank(world, 0, NULL);
  situ_nn_module *m = dist_cnn(), *plain = situ_nn_clone(m);
  situ_tensor *weight = situ_nn_get_tensor(m, "1.weight");
  assert_ptr_equal(situ_nn_convert_sync_batchnorm(m, comm), m);
  assert_ptr_equal(situ_nn_get_tensor(m, "1.weight"), weight);
  (void)situ_nn_to_string(m, text, sizeof text);
  assert_non_null(
      strstr(text, "(1): SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)"));
  /* One rank: the bits of batch norm, training and not. */
  for (int training = 1; training >= 0; training--) {
    situ_nn_train(m, training);
    situ_nn_train(plain, training);
    situ_tensor *x = situ_randn(SITU_SHAPE(4, 1, 6, 6), NULL);
    bool equal;
    assert_int_equal(situ_equal(situ_nn_forward(m, x), situ_nn_forward(plain, x), &equal), SITU_OK);
    assert_true(equal);
  }
  expect_equal_models(m, plain, "converted", 1);
  situ_nn_module *own = situ_nn_sync_batch_norm(3, comm, OPTIONS_AT(situ_nn_batch_norm, with.no_affine = true));
  assert_non_null(situ_nn_forward(own, situ_randn(SITU_SHAPE(2, 3, 4, 2, 2), NULL)));
  assert_null(situ_nn_forward(own, situ_randn(SITU_SHAPE(3), NULL)));
  expect_error(SITU_E_SHAPE, "nn_forward", "SyncBatchNorm needs 2 to");
  situ_comm_free(comm);
  assert_null(situ_nn_forward(own, situ_randn(SITU_SHAPE(2, 3), NULL)));
  expect_error(SITU_E_ARG, "sync_batch_norm", "comm");
  assert_null(situ_nn_sync_batch_norm(3, NULL, NULL));
  expect_error(SITU_E_ARG, "nn_sync_batch_norm", "comm");
  situ_comm_sim_free(world);
  situ_nn_free(own);
  situ_nn_free(m);
  situ_nn_free(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(statistics_are_those_of_all_ranks),
    TEST(training_is_that_of_one_large_batch),
    TEST(ddps_communicator_is_refused),
    TEST(a_lost_rank_is_named),
    TEST(a_backward_that_fails_on_one_rank_is_heard),
    TEST(what_cannot_be_is_refused),
    TEST(layers_keep_what_they_have),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
