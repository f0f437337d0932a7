/* Data parallel training: the same bits for any number of ranks, refusals, and what a lost rank leaves behind.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 cuda:0 */
#include "situ/dist.h"

#include "distributed/training.h"

static void the_number_of_ranks_does_not_change_a_bit(void **state) {
  (void)state;
  for (size_t k = 0; k < DIST_KINDS; k++) {
    bits want = { 0 };
    for (int size = 1; size <= 4; size *= 2) {
      training t = { .steps = test_is_slow() ? 6 : 200, .options = { .bucket_bytes = 600, .check_every = 50 } };
      world_rank ranks[WORLD_MOST];
      begin_training(&t, &dist_kinds[k], size);
      bits before = bits_of(t.model[0]);
      world_run(situ_comm_sim_new(size, NULL), ranks, size, train_rank, &t, 60);
      for (int r = 0; r < size; r++) {
        expect_rank_ok(&ranks[r]);
        bits got = bits_of(t.model[r]);
        if (!want.data) want = got;
        else {
          expect_bits(want, got, dist_kinds[k].name, size);
          free(got.data);
        }
      }
      assert_true(memcmp(want.data, before.data, want.size) != 0);
      free(before.data);
      end_training(&t, size);
    }
    free(want.data);
  }
}

/* Micro-batches that do not divide evenly: ranks have different numbers of nodes; buckets of one element and of all. */
static void uneven_micro_batches(void **state) {
  (void)state;
  for (int64_t total = 3; total <= 7; total += 2) {
    bits want = { 0 };
    for (int size = 1; size <= 3; size++) {
      training t = { .steps = 5, .micro_batches = total, .options = { .bucket_bytes = size == 2 ? 1 : 0 } };
      world_rank ranks[WORLD_MOST];
      begin_training(&t, &dist_kinds[1], size);
      world_run(situ_comm_sim_new(size, &(situ_comm_sim_options){ .seed = 3, .max_delay = 2e-4 }), ranks, size,
                train_rank, &t, 60);
      for (int r = 0; r < size; r++) {
        expect_rank_ok(&ranks[r]);
        bits got = bits_of(t.model[r]);
        if (!want.data) want = got;
        else {
          expect_bits(want, got, "uneven", size);
          free(got.data);
        }
      }
      end_training(&t, size);
    }
    free(want.data);
  }
}

/* The average of the gradients is that of one backward over all samples, as in torch. */
static void averages_are_those_of_one_large_batch(void **state) {
  (void)state;
  training t = { .steps = 1 };
  world_rank ranks[WORLD_MOST];
  begin_training(&t, &dist_kinds[0], 2);
  situ_nn_module *reference = situ_nn_clone(t.model[0]);
  situ_tensor *x[MICRO_BATCHES], *y[MICRO_BATCHES];
  for (int i = 0; i < MICRO_BATCHES; i++) dist_data(t.kind, test_device(), i, &x[i], &y[i]);
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(reference), 1e-3, NULL);
  situ_tensor *loss = situ_cross_entropy(situ_nn_forward(reference, situ_cat(x, MICRO_BATCHES, 0)),
                                         situ_cat(y, MICRO_BATCHES, 0), NULL);
  assert_int_equal(situ_backward(loss, NULL), SITU_OK);
  assert_int_equal(situ_optim_step(optim), SITU_OK);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, train_rank, &t, 60);
  expect_rank_ok(&ranks[1]);
  situ_tree *want = situ_nn_parameters(reference), *got = situ_nn_parameters(t.model[1]);
  for (int64_t i = 0; i < situ_tree_count(want); i++)
    expect_same(situ_detach(situ_tree_tensor_at(got, i)), situ_detach(situ_tree_tensor_at(want, i)), 1e-4, 1e-5);
  situ_tree_free(want);
  situ_tree_free(got);
  situ_optim_free(optim);
  situ_nn_free(reference);
  end_training(&t, 2);
}

/* In the engine's own order the sums are the same up to rounding, and all ranks still have the same bits. */
static void the_engines_order_is_close(void **state) {
  (void)state;
  training t = { .steps = 3 }, fast = { .steps = 3, .options = { .fast = true } };
  world_rank ranks[WORLD_MOST];
  begin_training(&t, &dist_kinds[1], 3);
  begin_training(&fast, &dist_kinds[1], 3);
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, train_rank, &t, 60);
  expect_rank_ok(&ranks[0]);
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, train_rank, &fast, 60);
  for (int r = 0; r < 3; r++) expect_rank_ok(&ranks[r]);
  situ_tree *want = situ_nn_parameters(t.model[0]), *got = situ_nn_parameters(fast.model[0]);
  for (int64_t i = 0; i < situ_tree_count(want); i++)
    expect_same(situ_detach(situ_tree_tensor_at(got, i)), situ_detach(situ_tree_tensor_at(want, i)), 1e-3, 1e-3);
  situ_tree_free(want);
  situ_tree_free(got);
  bits first = bits_of(fast.model[0]), last = bits_of(fast.model[2]);
  expect_bits(first, last, "fast", 3);
  free(first.data);
  free(last.data);
  end_training(&t, 3);
  end_training(&fast, 3);
}

/* ---- parameters that are not used, no_sync ---- */

typedef struct two_heads {
  situ_nn_module base;
  situ_nn_module *a, *b, *never;
  bool use_b;
} two_heads;
static situ_tensor *one_head(situ_nn_module *self, situ_tensor *x) {
  two_heads *m = (two_heads *)self;
  return situ_nn_forward(m->use_b ? m->b : m->a, x);
}
static const situ_nn_type two_heads_type = { .name = "TwoHeads", .size = sizeof(two_heads), .forward = one_head };
static situ_nn_module *make_two_heads(void) {
  two_heads *m = situ_nn_alloc(&two_heads_type);
  situ_nn_child(m, a, situ_nn_linear(2, 1, NULL));
  situ_nn_child(m, b, situ_nn_linear(2, 1, NULL));
  situ_nn_child(m, never, situ_nn_linear(2, 1, NULL));
  return situ_nn_done(m);
}

static bool weight_grad_is(situ_nn_module *m, const char *path, double first) {
  double got[2];
  situ_tensor *g = situ_grad(situ_nn_get_tensor(m, path));
  if (!g) return false;
  test_read(g, got);
  return got[0] == first;
}

static void use_one_head(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]);
  ((two_heads *)m)->use_b = self->rank == 1;
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, NULL);
  MUST(ddp);
  situ_tensor *x = T32(SITU_SHAPE(1, 2), 2.0 + 2 * self->rank, 1);
  MUST(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL) == SITU_OK);
  /* Half of each: the other rank's gradient is 0. */
  MUST(weight_grad_is(m, "a.weight", 1) && weight_grad_is(m, "b.weight", 2));
  MUST(!situ_grad(situ_nn_get_tensor(m, "never.weight")));
  situ_nn_zero_grad(m);
  /* Without synchronisation gradients add up on the rank; the next backward takes them along. */
  MUST(situ_dist_ddp_no_sync(ddp, true) == SITU_OK);
  MUST(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL) == SITU_OK);
  MUST(weight_grad_is(m, self->rank ? "b.weight" : "a.weight", 2.0 + 2 * self->rank));
  MUST(situ_dist_ddp_no_sync(ddp, false) == SITU_OK);
  MUST(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL) == SITU_OK);
  MUST(weight_grad_is(m, "a.weight", 2) && weight_grad_is(m, "b.weight", 4));
  /* And a gradient that is left is refused, with its name. */
  MUST(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL) == SITU_E_STATE);
  MUST(strstr(situ_error_message(), self->rank ? "b." : "a.") &&
       strstr(situ_error_message(), "had a gradient already"));
  situ_error_clear(); /* else this rank would tell the other one, which may not have come as far */
out:
  situ_dist_ddp_free(ddp);
}

static void unused_parameters_and_no_sync(void **state) {
  (void)state;
  situ_nn_module *m[2];
  for (int r = 0; r < 2; r++) {
    m[r] = make_two_heads();
    assert_int_equal(situ_nn_to(m[r], test_device()), SITU_OK);
  }
  world_rank ranks[WORLD_MOST];
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, use_one_head, m, 20);
  for (int r = 0; r < 2; r++) {
    expect_rank_ok(&ranks[r]);
    /* The hooks are gone. */
    situ_nn_zero_grad(at_home(m[r]));
    situ_tensor *x = T32(SITU_SHAPE(1, 2), 8, 1);
    assert_int_equal(situ_backward(situ_sum(situ_nn_forward(m[r], x), NULL), NULL), SITU_OK);
    assert_true(weight_grad_is(m[r], r ? "b.weight" : "a.weight", 8));
    situ_nn_free(m[r]);
  }
}

/* ---- several dtypes ---- */

static situ_tensor *both_heads(situ_nn_module *self, situ_tensor *x) {
  two_heads *m = (two_heads *)self;
  return situ_add(situ_nn_forward(m->a, x), situ_nn_forward(m->b, situ_to_dtype(x, SITU_F64)));
}
static const situ_nn_type two_dtypes_type = { .name = "TwoDtypes", .size = sizeof(two_heads), .forward = both_heads };

/* Gradients that another dtype would round, next to each other in the order of buckets. */
static void use_two_dtypes(world_rank *self) {
  two_heads *m = situ_nn_alloc(&two_dtypes_type);
  situ_nn_child(m, a, situ_nn_linear(2, 1, NULL));
  situ_nn_child(m, b, situ_nn_linear(2, 1, &(situ_nn_linear_options){ .dtype = SITU_F64 }));
  situ_nn_module *model = situ_nn_done(m);
  situ_dist_ddp *ddp = situ_dist_ddp_new(at_home(model), self->comm, NULL);
  MUST(ddp);
  situ_tensor *x = T32(SITU_SHAPE(1, 2), 2.0 + 2 * self->rank, 1), *y = situ_nn_forward(model, x);
  MUST(situ_backward(situ_sum(situ_mul_scalar(y, 1 + 0x1p-40), NULL), NULL) == SITU_OK);
  MUST(weight_grad_is(model, "a.weight", 3) && weight_grad_is(model, "b.weight", 3 + 3 * 0x1p-40));
  MUST(situ_dtype_of(situ_grad(situ_nn_get_tensor(model, "a.bias"))) == SITU_F32);
out:
  situ_dist_ddp_free(ddp);
  situ_nn_free(model);
}

static void parameters_of_two_dtypes(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, use_two_dtypes, NULL, 20);
  for (int r = 0; r < 2; r++) expect_rank_ok(&ranks[r]);
}

/* ---- ranks that differ ---- */

static void start_only(world_rank *self) {
  training *t = self->payload;
  situ_dist_ddp_free(situ_dist_ddp_new(at_home(t->model[self->rank]), self->comm, &t->options));
}

static void models_that_differ_are_told_where(void **state) {
  (void)state;
  training t = { 0 };
  world_rank ranks[WORLD_MOST];
  t.model[0] = dist_mlp();
  t.model[1] = situ_nn_sequential(situ_nn_linear(6, 16, NULL), situ_nn_tanh(), situ_nn_linear(16, 4, NULL));
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, start_only, &t, 20);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks[r].status, SITU_E_COMM);
    if (!strstr(ranks[r].message, "rank 0 has parameter 2.bias f32 [3], rank 1 parameter 2.bias f32 [4]"))
      fail_msg("%s", ranks[r].message);
  }
  situ_nn_free(t.model[1]);
  t.model[1] = situ_nn_linear(6, 16, NULL);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, start_only, &t, 20);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks[r].status, SITU_E_COMM);
    if (!strstr(ranks[r].message, "the module has 4 parameters and buffers on rank 0, 2 on rank 1"))
      fail_msg("%s", ranks[r].message);
  }
  situ_nn_free(t.model[1]);
  t.model[1] = dist_mlp();
  t.options.no_broadcast = true;
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, start_only, &t, 20);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks[r].status, SITU_E_COMM);
    assert_non_null(strstr(ranks[r].message, "the values of parameter 2.bias differ between rank 0 and rank 1"));
  }
  situ_nn_free(t.model[0]);
  situ_nn_free(t.model[1]);
}

/* Rank 1's weights change behind the library's back in the middle of training. */
static void diverge(world_rank *self) {
  training *t = self->payload;
  situ_nn_module *m = at_home(t->model[self->rank]);
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &t->options);
  MUST(ddp);
  MUST(train_step(t, m, t->optim[self->rank], ddp) == SITU_OK);
  MUST(situ_dist_ddp_check(ddp) == SITU_OK);
  if (self->rank == 1) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    MUST(situ_mul_scalar_(situ_nn_get_tensor(m, "0.weight"), 1.001));
    MUST(situ_scope_end(&s) == SITU_OK);
  }
  MUST(train_step(t, m, t->optim[self->rank], ddp) == SITU_E_COMM);
out:
  situ_dist_ddp_free(ddp);
}
static void weights_that_diverge_are_found(void **state) {
  (void)state;
  training t = { .options = { .check_every = 2 } };
  world_rank ranks[WORLD_MOST];
  begin_training(&t, &dist_kinds[0], 3);
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, diverge, &t, 20);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(ranks[r].status, SITU_E_COMM);
    if (!strstr(ranks[r].message, "the values of parameter 0.weight differ between rank 0 and rank 1"))
      fail_msg("%s", ranks[r].message);
    assert_null(situ_grad(situ_nn_get_tensor(t.model[r], "0.weight")));
  }
  end_training(&t, 3);
}

/* A forward to evaluate belongs to no micro-batch: it does not begin one at the seed. */
static void evaluation_leaves_the_generator(void **state) {
  (void)state;
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *comm = situ_comm_sim_rank(world, 0, NULL);
  situ_nn_module *m = dist_mlp();
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, comm, &(situ_dist_ddp_options){ .seed = 5 });
  situ_tensor *x = situ_to(situ_zeros(SITU_SHAPE(2, 6), NULL), situ_device_of(situ_nn_get_tensor(m, "0.weight"))),
              *drawn[2];
  for (int k = 0; k < 2; k++) {
    situ_manual_seed(3);
    if (k) assert_non_null(situ_nn_forward(situ_nn_eval(m), x));
    drawn[k] = situ_rand(SITU_SHAPE(4), NULL);
  }
  bool equal = false;
  assert_int_equal(situ_equal(drawn[0], drawn[1], &equal), SITU_OK);
  assert_true(equal);
  situ_dist_ddp_free(ddp);
  situ_nn_free(m);
  situ_comm_free(comm);
  situ_comm_sim_free(world);
}

/* A model on meta gets values later, other ones on each rank: by its next forward all have those of rank 0. */
static void move_from_meta(world_rank *self) {
  training *t = self->payload;
  const int r = self->rank;
  situ_dist_ddp *ddp = NULL;
  situ_tensor *x = situ_ones(SITU_SHAPE(DIST_BATCH, 6), &(situ_options){ .device = test_device() });
  MUST((ddp = situ_dist_ddp_new(t->model[r], self->comm, NULL)));
  MUST(situ_nn_to(t->model[r], test_device()) == SITU_OK && situ_nn_forward(t->model[r], x));
out:
  situ_dist_ddp_free(ddp);
}
static void a_model_on_meta_gets_the_values_of_rank_0(void **state) {
  (void)state;
  training t = { 0 };
  world_rank ranks[WORLD_MOST];
  for (int r = 0; r < 3; r++)
    t.model[r] = situ_nn_linear(6, 3, &(situ_nn_linear_options){ .device = situ_dev("meta") });
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, move_from_meta, &t, 20);
  for (int r = 0; r < 3; r++) {
    expect_rank_ok(&ranks[r]);
    expect_equal_models(t.model[r], t.model[0], "from meta", 3);
  }
  for (int r = 0; r < 3; r++) situ_nn_free(t.model[r]);
}

/* ---- failures ---- */

/* A rank whose memory runs out at the end of a step tells the others why. */
static void fail_on_rank_1(world_rank *self) {
  training *t = self->payload;
  situ_dist_ddp *ddp = situ_dist_ddp_new(at_home(t->model[self->rank]), self->comm, &t->options);
  if (ddp && self->rank == 1) situ_comm_abort(self->comm, "out of memory for the batch");
  if (ddp) SITU_IGNORE(train_step(t, t->model[self->rank], t->optim[self->rank], ddp));
  situ_dist_ddp_free(ddp);
}
static void a_rank_that_gives_up_ends_the_step(void **state) {
  (void)state;
  training t = { 0 };
  world_rank ranks[WORLD_MOST];
  begin_training(&t, &dist_kinds[0], 3);
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, fail_on_rank_1, &t, 20);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(ranks[r].status, SITU_E_COMM);
    assert_non_null(strstr(ranks[r].message, "rank 1 gave up: out of memory for the batch"));
    assert_null(situ_grad(situ_nn_get_tensor(t.model[r], "0.weight")));
  }
  end_training(&t, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(the_number_of_ranks_does_not_change_a_bit),
    TEST(uneven_micro_batches),
    TEST(averages_are_those_of_one_large_batch),
    TEST(the_engines_order_is_close),
    TEST(unused_parameters_and_no_sync),
    TEST(parameters_of_two_dtypes),
    TEST(weights_that_diverge_are_found),
    TEST(models_that_differ_are_told_where),
    TEST(evaluation_leaves_the_generator),
    TEST(a_model_on_meta_gets_the_values_of_rank_0),
    TEST(a_rank_that_gives_up_ends_the_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
