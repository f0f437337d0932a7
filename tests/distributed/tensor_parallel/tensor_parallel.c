/* Tensor parallel training: collectives with a derivative, and layers in parts that compute what whole ones do.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 cuda:0 */
/* test-slow: cuda:0 */
#include <math.h>

#include "situ/parallel.h"

#include "distributed/training.h"
#include "situ/sys/alloc.h"

/* ---- collectives ---- */

static bool reads(situ_tensor *t, double first, double last) {
  double values[64];
  if (!t || situ_numel(t) > 64) return false;
  test_read(t, values);
  return values[0] == first && values[situ_numel(t) - 1] == last;
}

static void run_collectives(world_rank *self) {
  const int r = self->rank, n = self->size;
  const double all = n * (n - 1) / 2.0; /* of the ranks */
  situ_dtype *dtype = self->payload;
  const situ_options at = { .dtype = *dtype, .device = test_device() };
  /* [2, 2 n] of r + 1, whose gradient on this rank is r + 1 as well. */
  situ_tensor *x = situ_requires_grad_(situ_full(SITU_SHAPE(2, 2 * n), r + 1, &at), true);
  situ_tensor *weight = situ_full(SITU_SHAPE(2, 2 * n), r + 1, &at);
  situ_tensor *y = situ_dist_copy_to(x, self->comm, "copy");
  MUST(reads(y, r + 1, r + 1));
  MUST(situ_backward(situ_sum(situ_mul(y, weight), NULL), NULL) == SITU_OK);
  MUST(reads(situ_grad(x), all + n, all + n));
  MUST(situ_set_grad(x, NULL) == SITU_OK);
  y = situ_dist_reduce_from(x, self->comm, "reduce");
  MUST(reads(y, all + n, all + n));
  MUST(situ_backward(situ_sum(situ_mul(y, weight), NULL), NULL) == SITU_OK);
  MUST(reads(situ_grad(x), r + 1, r + 1));
  MUST(situ_set_grad(x, NULL) == SITU_OK);
  y = situ_dist_gather_from(x, -1, self->comm, NULL);
  MUST(situ_size(y, 0) == 2 && situ_size(y, 1) == 2 * n * n && reads(y, 1, n));
  MUST(situ_backward(situ_sum(situ_mul(y, y), NULL), NULL) == SITU_OK);
  MUST(reads(situ_grad(x), 2 * (r + 1), 2 * (r + 1)));
  MUST(situ_set_grad(x, NULL) == SITU_OK);
  y = situ_dist_scatter_to(x, 1, self->comm, NULL);
  MUST(situ_size(y, 0) == 2 && situ_size(y, 1) == 2);
  MUST(situ_backward(situ_sum(situ_mul(y, y), NULL), NULL) == SITU_OK);
  /* Rank k's gradient is at part k, on all ranks. */
  double grad[64];
  test_read(situ_grad(x), grad);
  for (int k = 0; k < n; k++) MUST(grad[2 * k] == 2 * (k + 1));
  /* They have derivatives of their own. */
  situ_tensor *z = situ_requires_grad_(situ_full(SITU_SHAPE(1), 2, &at), true), *first, *second;
  y = situ_square(situ_dist_reduce_from(z, self->comm, "twice"));
  MUST(situ_autograd_grad(situ_sum(y, NULL), 1, &z, &first, &(situ_backward_options){ .create_graph = true }) ==
       SITU_OK);
  MUST(reads(first, 4.0 * n, 4.0 * n));
  MUST(situ_autograd_grad(situ_sum(first, NULL), 1, &z, &second, NULL) == SITU_OK);
  MUST(reads(second, 2.0 * n, 2.0 * n));
  MUST(n == 1 || !situ_dist_scatter_to(situ_ones(SITU_SHAPE(n + 1), &at), 0, self->comm, NULL));
  if (n > 1) MUST(strstr(situ_error_message(), "elements, which") && situ_error() == SITU_E_SHAPE);
  situ_error_clear();
out:;
}

static void collectives_have_derivatives(void **state) {
  (void)state;
  static const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_BF16 };
  for (int k = 0; k < 3; k++)
    for (int size = 1; size <= 4; size++) {
      world_rank ranks[WORLD_MOST];
      situ_dtype dtype = dtypes[k];
      world_run(situ_comm_sim_new(size, NULL), ranks, size, run_collectives, &dtype, 20);
      for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
    }
}

/* ---- a model in parts ---- */

enum { WORDS = 12, WIDTH = 8, HEADS = 4, BATCH = 3, LENGTH = 5 };

static situ_nn_module *make_gpt(void) {
  const situ_nn_transformer_options options = OPTIONS_OF(
      situ_nn_transformer, with.dim_feedforward = 16, with.batch_first = true, with.dropout = 0, with.dtype = SITU_F64);
  return situ_nn_sequential(situ_nn_embedding(WORDS, WIDTH,
                                              OPTIONS_AT(situ_nn_embedding, with.dtype = SITU_F64,
                                                         with.has_padding_idx = true, with.padding_idx = 7)),
                            situ_nn_transformer_encoder_layer(WIDTH, HEADS, &options),
                            situ_nn_linear(WIDTH, WIDTH, &(situ_nn_linear_options){ .dtype = SITU_F64 }),
                            situ_nn_linear(WIDTH, WORDS, &(situ_nn_linear_options){ .dtype = SITU_F64 }));
}
static const situ_dist_parallel gpt_plan[] = {
  { "0", SITU_DIST_ROWWISE, false },         { "*.self_attn", SITU_DIST_HEADWISE, false },
  { "1.linear1", SITU_DIST_COLWISE, false }, { "1.linear2", SITU_DIST_ROWWISE, false },
  { "2", SITU_DIST_ROWWISE, true },          { "3", SITU_DIST_COLWISE, true },
};
enum { GPT_ROWS = 6 };

typedef struct tp_run {
  int steps;
  bool by_columns; /* the embedding */
  double norm;     /* of the first step */
  situ_nn_module *model[WORLD_MOST];
  situ_tree *state;      /* of rank 0 at the end */
  situ_tensor *y;        /* of the first step */
  const situ_tree *load; /* before training; NULL: nothing */
  situ_comm *parts[WORLD_MOST],
      *same[WORLD_MOST]; /* of each rank: with whom it divides a model, who has the same part */
} tp_run;

static void gpt_batch(int number, situ_tensor **x, situ_tensor **y) {
  situ_generator g = situ_generator_seeded(40 + (uint64_t)number);
  *x = situ_to(situ_randint(0, WORDS, SITU_SHAPE(BATCH, LENGTH), &(situ_options){ .generator = &g }), test_device());
  *y = situ_to(situ_randint(0, WORDS, SITU_SHAPE(BATCH * LENGTH), &(situ_options){ .generator = &g }), test_device());
}

static situ_tensor *gpt_loss(situ_nn_module *m, int number, situ_tensor **out) {
  situ_tensor *x, *y;
  gpt_batch(number, &x, &y);
  *out = situ_nn_forward(m, x);
  return situ_cross_entropy(situ_reshape(*out, SITU_SHAPE(BATCH * LENGTH, WORDS)), y, NULL);
}

/* The whole model on one rank. */
static void train_whole(tp_run *run, situ_nn_module *m) {
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(m), 1e-2, NULL);
  situ_tree *parameters = situ_nn_parameters(m);
  for (int i = 0; i < run->steps; i++) {
    situ_tensor *y, *loss = gpt_loss(m, i, &y);
    double norm;
    assert_int_equal(situ_backward(loss, NULL), SITU_OK);
    if (i == 0) run->y = situ_retain(situ_detach(y));
    assert_int_equal(situ_nn_utils_clip_grad_norm_(parameters, 0.5, 2, &norm), SITU_OK);
    if (i == 0) run->norm = norm;
    assert_int_equal(situ_optim_step(optim), SITU_OK);
    assert_int_equal(situ_optim_zero_grad(optim, true), SITU_OK);
  }
  run->state = situ_nn_state_dict(m);
  situ_tree_free(parameters);
  situ_optim_free(optim);
}

static void train_parts(world_rank *self) {
  tp_run *run = self->payload;
  situ_nn_module *m = at_home(run->model[self->rank]);
  situ_optim *optim = NULL;
  situ_dist_parallel plan[GPT_ROWS];
  memcpy(plan, gpt_plan, sizeof plan);
  if (run->by_columns) plan[0] = (situ_dist_parallel){ "0", SITU_DIST_COLWISE, true };
  situ_dist_tp *tp = situ_dist_tp_new(m, self->comm, plan, GPT_ROWS);
  MUST(tp);
  if (run->load) MUST(situ_dist_tp_load_state_dict(tp, run->load, NULL) == SITU_OK);
  optim = situ_optim_adamw(situ_nn_parameters(m), 1e-2, NULL);
  for (int i = 0; i < run->steps; i++) {
    situ_tensor *y, *loss = gpt_loss(m, i, &y);
    double norm;
    MUST(situ_backward(loss, NULL) == SITU_OK);
    if (i == 0 && self->rank == 0) run->y = situ_retain(situ_detach(y));
    MUST(situ_dist_tp_clip_grad_norm_(tp, 0.5, 2, &norm) == SITU_OK);
    if (i == 0 && self->rank == 0) run->norm = norm;
    MUST(situ_optim_step(optim) == SITU_OK && situ_optim_zero_grad(optim, true) == SITU_OK);
  }
  situ_tree *state = situ_dist_tp_state_dict(tp, 0);
  MUST(state);
  if (self->rank == 0) run->state = state;
  else {
    MUST(situ_tree_count(state) == 0);
    situ_tree_free(state);
  }
out:
  situ_optim_free(optim);
  situ_dist_tp_free(tp);
}

static void expect_close_trees(const situ_tree *got, const situ_tree *want, double close) {
  assert_int_equal(situ_tree_count(got), situ_tree_count(want));
  for (int64_t i = 0; i < situ_tree_count(want); i++) {
    assert_string_equal(situ_tree_key(got, i), situ_tree_key(want, i));
    expect_same(situ_to(situ_detach(situ_tree_tensor_at(got, i)), situ_dev("cpu")),
                situ_to(situ_detach(situ_tree_tensor_at(want, i)), situ_dev("cpu")), close, close);
  }
}

static void begin_gpts(tp_run *run, int size) {
  for (int r = 0; r < size; r++) {
    situ_manual_seed(3 + (uint64_t)r);
    run->model[r] = make_gpt();
    assert_int_equal(situ_nn_to(run->model[r], test_device()), SITU_OK);
  }
}
static void end_gpts(tp_run *run, int size) {
  for (int r = 0; r < size; r++) situ_nn_free(run->model[r]);
  situ_tree_free(run->state);
  situ_drop(&run->y);
}

static bool is_divided(const char *name) {
  return !strstr(name, "norm") && !strstr(name, "out_proj.bias") && strcmp(name, "1.linear2.bias") &&
         strcmp(name, "2.bias");
}

/* What is not divided has the same bits on all ranks, without having been sent. */
static void expect_equal_replicas(const tp_run *run, int size) {
  situ_tree *first = situ_nn_parameters(at_home(run->model[0]));
  for (int r = 1; r < size; r++) {
    situ_tree *other = situ_nn_parameters(at_home(run->model[r]));
    for (int64_t i = 0; i < situ_tree_count(first); i++) {
      bool equal;
      situ_tensor *a = situ_detach(situ_tree_tensor_at(first, i)), *b = situ_detach(situ_tree_tensor_at(other, i));
      assert_int_equal(situ_equal(a, b, &equal), SITU_OK);
      if (equal == is_divided(situ_tree_key(first, i))) fail_msg("%s on rank %d", situ_tree_key(first, i), r);
    }
    situ_tree_free(other);
  }
  situ_tree_free(first);
}

static void a_divided_model_trains_as_the_whole(void **state) {
  (void)state;
  tp_run whole = { .steps = 5 };
  begin_gpts(&whole, 1);
  train_whole(&whole, whole.model[0]);
  for (int size = 1; size <= 4; size *= 2)
    for (int by_columns = 0; by_columns < 2; by_columns++) {
      tp_run run = { .steps = 5, .by_columns = by_columns };
      world_rank ranks[WORLD_MOST];
      begin_gpts(&run, size);
      world_run(situ_comm_sim_new(size, &(situ_comm_sim_options){ .seed = 2, .max_delay = 1e-4 }), ranks, size,
                train_parts, &run, 30);
      for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
      expect_same(run.y, whole.y, 1e-12, 1e-12);
      assert_true(fabs(run.norm - whole.norm) < 1e-12 * whole.norm);
      expect_close_trees(run.state, whole.state, 1e-9);
      expect_equal_replicas(&run, size);
      end_gpts(&run, size);
    }
  end_gpts(&whole, 1);
}

/* What one number of ranks has saved another one loads, to the bit. */
static void states_are_those_of_the_whole(void **state) {
  (void)state;
  tp_run whole = { 0 };
  begin_gpts(&whole, 1);
  situ_tree *want = situ_nn_state_dict(whole.model[0]);
  for (int size = 1; size <= 4; size *= 2) {
    tp_run run = { .load = want };
    world_rank ranks[WORLD_MOST];
    begin_gpts(&run, size);
    situ_manual_seed(99);
    situ_nn_free(run.model[0]);
    run.model[0] = make_gpt();
    assert_int_equal(situ_nn_to(run.model[0], test_device()), SITU_OK);
    world_run(situ_comm_sim_new(size, NULL), ranks, size, train_parts, &run, 30);
    for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
    expect_equal_trees(run.state, want, "loaded", size);
    end_gpts(&run, size);
  }
  situ_tree_free(want);
  end_gpts(&whole, 1);
}

/* ---- layers that share a weight ---- */

typedef struct tied {
  situ_nn_module base;
  situ_nn_module *words, *head;
} tied;
static situ_tensor *tied_forward(situ_nn_module *self, situ_tensor *x) {
  tied *m = (tied *)self;
  return situ_nn_forward(m->head, situ_tanh(situ_nn_forward(m->words, x)));
}
static const situ_nn_type tied_type = { .name = "Tied", .size = sizeof(tied), .forward = tied_forward };
static situ_nn_module *make_tied(void) {
  tied *m = situ_nn_alloc(&tied_type);
  situ_nn_child(m, words, situ_nn_embedding(WORDS, 4, NULL));
  situ_nn_child(m, head, situ_nn_linear(4, WORDS, &(situ_nn_linear_options){ .no_bias = true }));
  situ_nn_module *head = m->head;
  situ_nn_add_tensor(head, "weight", (situ_tensor **)(void *)((char *)head + head->slots[0].offset),
                     situ_nn_get_tensor(m->words, "weight"), SITU_NN_PARAMETER);
  return situ_nn_done(m);
}

static void divide_tied(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]);
  const situ_dist_parallel both[] = { { "words", SITU_DIST_ROWWISE, false }, { "head", SITU_DIST_COLWISE, true } },
                           other[] = { { "words", SITU_DIST_COLWISE, true }, { "head", SITU_DIST_COLWISE, true } };
  situ_dist_tp *tp = NULL;
  MUST(!situ_dist_tp_new(m, self->comm, both, 1) && situ_error() == SITU_E_ARG);
  MUST(strstr(situ_error_message(), "head.weight is shared with a layer that the plan divides"));
  situ_error_clear();
  MUST(!situ_dist_tp_new(m, self->comm, other, 2) && situ_error() == SITU_E_ARG);
  MUST(strstr(situ_error_message(), "head.weight is shared with another layer"));
  situ_error_clear();
  MUST((tp = situ_dist_tp_new(m, self->comm, both, 2)));
  MUST(situ_nn_get_tensor(m, "words.weight") == situ_nn_get_tensor(m, "head.weight"));
  MUST(situ_size(situ_nn_get_tensor(m, "head.weight"), 0) == WORDS / 2);
  situ_tensor *x = TEST_TENSOR(SITU_I64, SITU_SHAPE(4), 0, 5, 6, 11);
  MUST(situ_backward(situ_sum(situ_square(situ_nn_forward(m, situ_to(x, test_device()))), NULL), NULL) == SITU_OK);
out:
  situ_dist_tp_free(tp);
}

static void shared_tensors_stay_shared(void **state) {
  (void)state;
  situ_nn_module *m[2];
  world_rank ranks[WORLD_MOST];
  for (int r = 0; r < 2; r++) {
    m[r] = make_tied();
    assert_int_equal(situ_nn_to(m[r], test_device()), SITU_OK);
  }
  situ_nn_module *whole = situ_nn_clone(m[0]);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, divide_tied, m, 20);
  for (int r = 0; r < 2; r++) expect_rank_ok(&ranks[r]);
  situ_tensor *x = situ_to(TEST_TENSOR(SITU_I64, SITU_SHAPE(4), 0, 5, 6, 11), test_device());
  assert_int_equal(situ_backward(situ_sum(situ_square(situ_nn_forward(whole, x)), NULL), NULL), SITU_OK);
  situ_tensor *parts[2] = { situ_detach(situ_grad(situ_nn_get_tensor(m[0], "words.weight"))),
                            situ_detach(situ_grad(situ_nn_get_tensor(at_home(m[1]), "words.weight"))) };
  expect_same(situ_cat(parts, 2, 0), situ_detach(situ_grad(situ_nn_get_tensor(whole, "words.weight"))), 1e-5, 1e-5);
  situ_nn_free(whole);
  for (int r = 0; r < 2; r++) situ_nn_free(m[r]);
}

/* ---- refusals ---- */

static bool refuses(world_rank *self, situ_nn_module *m, situ_dist_parallel row, situ_status status, const char *text) {
  situ_dist_tp *tp = situ_dist_tp_new(m, self->comm, &row, 1);
  const bool good = !tp && situ_error() == status && strstr(situ_error_message(), text);
  if (good) situ_error_clear();
  else if (situ_error() == SITU_OK) (void)situ_comm_refuse(SITU_E_STATE, "not refused", text);
  situ_dist_tp_free(tp);
  return good;
}

static void refuse_plans(world_rank *self) {
  situ_nn_module *m = at_home(((situ_nn_module **)self->payload)[self->rank]);
  const situ_dist_parallel twice[] = { { "0", SITU_DIST_COLWISE, false }, { "*", SITU_DIST_COLWISE, false } };
  situ_dist_ddp *ddp = NULL;
  situ_dist_tp *tp = NULL;
  MUST(refuses(self, m, (situ_dist_parallel){ "7", SITU_DIST_COLWISE, false }, SITU_E_ARG, "'7' names no layer"));
  MUST(refuses(self, m, (situ_dist_parallel){ "0", SITU_DIST_ROWWISE, false }, SITU_E_SHAPE,
               "0.weight: dimension 1 has 3 elements, which 2 ranks do not divide"));
  MUST(refuses(self, m, (situ_dist_parallel){ "1", SITU_DIST_ROWWISE, false }, SITU_E_UNSUPPORTED,
               "1 is a Linear with an activation"));
  MUST(refuses(self, m, (situ_dist_parallel){ "2", SITU_DIST_COLWISE, false }, SITU_E_UNSUPPORTED,
               "2 is a Tanh and not"));
  MUST(refuses(self, m, (situ_dist_parallel){ "0", SITU_DIST_HEADWISE, false }, SITU_E_UNSUPPORTED,
               "0 is a Linear and not a MultiheadAttention"));
  MUST(refuses(self, m, (situ_dist_parallel){ "3", SITU_DIST_COLWISE, false }, SITU_E_UNSUPPORTED,
               "3 is a Embedding with max_norm"));
  MUST(refuses(self, m, (situ_dist_parallel){ "4", SITU_DIST_HEADWISE, false }, SITU_E_SHAPE, "4 has 3 heads"));
  MUST(!situ_dist_tp_new(m, self->comm, twice, 2) && strstr(situ_error_message(), "'0' and '*' both name 0"));
  situ_error_clear();
  MUST((ddp = situ_dist_ddp_new(m, self->comm, NULL))); /* nothing has been divided */
  situ_dist_ddp_free(ddp);
  MUST((tp = situ_dist_tp_new(m, self->comm, twice, 1)));
  MUST(!situ_dist_ddp_new(m, self->comm, NULL) && situ_error() == SITU_E_STATE);
  MUST(strstr(situ_error_message(), "situ_dist_tp_new has divided a model over this communicator"));
  situ_error_clear();
  /* An index of no row is refused by all ranks, which stay together; other devices say so later. */
  situ_nn_module *words = situ_nn_get_submodule(m, "5");
  const situ_dist_parallel rows = { "5", SITU_DIST_ROWWISE, false };
  situ_dist_tp_free(tp);
  MUST((tp = situ_dist_tp_new(m, self->comm, &rows, 1)));
  words = situ_nn_get_submodule(m, "5");
  MUST(test_device().kind != SITU_CPU || !situ_nn_forward(words, TEST_TENSOR(SITU_I64, SITU_SHAPE(2), 1, 4)));
  MUST(test_device().kind != SITU_CPU || situ_error() == SITU_E_INDEX);
  situ_error_clear();
  MUST(situ_nn_forward(words, TEST_TENSOR(SITU_I64, SITU_SHAPE(2), 1, 3)));
out:
  situ_dist_tp_free(tp);
}

static void what_does_not_divide_is_refused(void **state) {
  (void)state;
  situ_nn_module *m[2];
  world_rank ranks[WORLD_MOST];
  const situ_nn_linear_options relu = { .activation = SITU_ACTIVATION_RELU };
  for (int r = 0; r < 2; r++) {
    m[r] = situ_nn_sequential(situ_nn_linear(3, 4, NULL), situ_nn_linear(4, 6, &relu), situ_nn_tanh(),
                              situ_nn_embedding(4, 6, OPTIONS_AT(situ_nn_embedding, with.max_norm = 1)),
                              situ_nn_multihead_attention(6, 3, NULL), situ_nn_embedding(4, 2, NULL));
    assert_int_equal(situ_nn_to(m[r], test_device()), SITU_OK);
  }
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, refuse_plans, m, 20);
  for (int r = 0; r < 2; r++) {
    expect_rank_ok(&ranks[r]);
    situ_nn_free(m[r]);
  }
}

/* Each allocation fails once: the module is whole then, with its own tensors. */
static void a_failed_division_leaves_the_module_whole(void **state) {
  (void)state;
  situ_nn_module *m = make_gpt();
  assert_int_equal(situ_nn_to(m, test_device()), SITU_OK);
  situ_tree *before = situ_nn_state_dict(m);
  situ_tensor *x, *y;
  gpt_batch(0, &x, &y);
  const situ_tensor *want = situ_detach(situ_nn_forward(m, x));
  int points = 0;
  for (uint64_t nth = 1; nth < 3000; nth = (uint64_t)test_next_fault((long)nth)) {
    situ_comm_sim *world = situ_comm_sim_new(1, NULL);
    situ_comm *comm = situ_comm_sim_rank(world, 0, NULL);
    situ_fail_allocation(nth, false);
    situ_dist_tp *tp = situ_dist_tp_new(m, comm, gpt_plan, GPT_ROWS);
    situ_fail_allocation(0, false);
    if (!tp) {
      points++;
      situ_error_clear();
      situ_tree *now = situ_nn_state_dict(m);
      assert_int_equal(situ_tree_count(now), situ_tree_count(before));
      for (int64_t i = 0; i < situ_tree_count(now); i++)
        if (situ_tree_tensor_at(now, i) != situ_tree_tensor_at(before, i))
          fail_msg("allocation %d: %s is another one", (int)nth, situ_tree_key(now, i));
      situ_tree_free(now);
      expect_same(situ_detach(situ_nn_forward(m, x)), (situ_tensor *)(uintptr_t)want, 0, 0);
    }
    situ_dist_tp_free(tp);
    situ_comm_free(comm);
    situ_comm_sim_free(world);
    if (tp) break;
  }
  if (points < (test_is_slow() ? 12 : 60)) fail_msg("%d points", points);
  situ_tree_free(before);
  situ_nn_free(m);
}

static void lose_rank_1(world_rank *self) {
  tp_run *run = self->payload;
  situ_dist_tp *tp = situ_dist_tp_new(at_home(run->model[self->rank]), self->comm, gpt_plan, GPT_ROWS);
  MUST(tp);
  if (self->rank == 1) situ_comm_abort(self->comm, "no memory");
  situ_tensor *y;
  SITU_IGNORE(situ_backward(gpt_loss(run->model[self->rank], 0, &y), NULL));
out:
  situ_dist_tp_free(tp);
}
static void a_lost_rank_is_named(void **state) {
  (void)state;
  tp_run run = { 0 };
  world_rank ranks[WORLD_MOST];
  begin_gpts(&run, 2);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, lose_rank_1, &run, 20);
  assert_int_equal(ranks[0].status, SITU_E_COMM);
  if (!strstr(ranks[0].message, "rank 1 gave up: no memory")) fail_msg("%s", ranks[0].message);
  end_gpts(&run, 2);
}

/* ---- with data parallel training ---- */

/* Ranks 0 and 1, 2 and 3 divide a model; 0 and 2, 1 and 3 have the same part. */
static void train_both_ways(world_rank *self) {
  tp_run *run = self->payload;
  situ_nn_module *m = at_home(run->model[self->rank]);
  situ_dist_tp *tp = situ_dist_tp_new(m, run->parts[self->rank], gpt_plan, GPT_ROWS);
  situ_dist_ddp *ddp = NULL;
  situ_optim *optim = NULL;
  situ_tree *state = NULL;
  MUST(tp);
  ddp = situ_dist_ddp_new(m, run->same[self->rank], NULL);
  MUST(ddp);
  optim = situ_optim_adamw(situ_nn_parameters(m), 1e-2, NULL);
  for (int i = 0; i < run->steps; i++) {
    situ_tensor *y;
    MUST(situ_backward(gpt_loss(m, 2 * i + (int)situ_dist_ddp_micro_batch(ddp), &y), NULL) == SITU_OK);
    MUST(situ_optim_step(optim) == SITU_OK && situ_optim_zero_grad(optim, true) == SITU_OK);
  }
  MUST((state = situ_dist_tp_state_dict(tp, 0)));
  if (self->rank == 0) {
    run->state = state;
    state = NULL;
  }
out:
  situ_tree_free(state);
  situ_optim_free(optim);
  situ_dist_ddp_free(ddp);
  situ_dist_tp_free(tp);
}

static void both_kinds_train_together(void **state) {
  (void)state;
  tp_run run = { .steps = 3 }, whole = { 0 };
  world_rank ranks[WORLD_MOST];
  situ_comm_sim *parts[2], *same[2];
  begin_gpts(&run, 4);
  situ_nn_module *reference = situ_nn_clone(run.model[0]);
  for (int k = 0; k < 2; k++) {
    parts[k] = situ_comm_sim_new(2, NULL);
    same[k] = situ_comm_sim_new(2, NULL);
  }
  for (int r = 0; r < 4; r++) {
    run.parts[r] = situ_comm_sim_rank(parts[r / 2], r % 2, &(situ_comm_options){ .deadline = 30 });
    run.same[r] = situ_comm_sim_rank(same[r % 2], r / 2, &(situ_comm_options){ .deadline = 30 });
  }
  world_run(situ_comm_sim_new(4, NULL), ranks, 4, train_both_ways, &run, 30);
  for (int r = 0; r < 4; r++) {
    expect_rank_ok(&ranks[r]);
    situ_comm_free(run.parts[r]);
    situ_comm_free(run.same[r]);
  }
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(reference), 1e-2, NULL);
  for (int i = 0; i < run.steps; i++) {
    situ_tensor *y, *loss = gpt_loss(reference, 2 * i, &y);
    loss = situ_mul_scalar(situ_add(loss, gpt_loss(reference, 2 * i + 1, &y)), 0.5);
    assert_int_equal(situ_backward(loss, NULL), SITU_OK);
    assert_int_equal(situ_optim_step(optim), SITU_OK);
    assert_int_equal(situ_optim_zero_grad(optim, true), SITU_OK);
  }
  whole.state = situ_nn_state_dict(reference);
  expect_close_trees(run.state, whole.state, 1e-9);
  situ_tree_free(whole.state);
  situ_optim_free(optim);
  situ_nn_free(reference);
  end_gpts(&run, 4);
  for (int k = 0; k < 2; k++) {
    situ_comm_sim_free(parts[k]);
    situ_comm_sim_free(same[k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(collectives_have_derivatives),    TEST(a_divided_model_trains_as_the_whole),
    TEST(states_are_those_of_the_whole),   TEST(shared_tensors_stay_shared),
    TEST(what_does_not_divide_is_refused), TEST(a_lost_rank_is_named),
    TEST(both_kinds_train_together),       TEST(a_failed_division_leaves_the_module_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
