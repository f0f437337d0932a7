/* Pipelines: the same bits for any number of stages, activations of a few micro-batches, and failures that leave a step
   undone.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include "situ/parallel.h"

#include "distributed/training.h"

enum { BLOCKS = 4, WIDE = 6, ROWS = 12 };

/* Blocks of one model, of which each stage has some. */
typedef struct pipe {
  int steps;
  int64_t micro_batches;
  situ_nn_module *block[BLOCKS]; /* owned by the stages */
  situ_nn_module *stage[WORLD_MOST];
  double loss[WORLD_MOST];
  int done[WORLD_MOST];
  int running[WORLD_MOST], most[WORLD_MOST]; /* micro-batches between forward and backward */
  situ_comm_sim_fault fault;
  int64_t fault_at; /* of rank 1, in step 1; 0: none */
  bool bad_loss, bad_stage;
  int in_step;
  situ_comm *same[WORLD_MOST], *own[WORLD_MOST];
} pipe;

static situ_nn_module *make_block(int b) {
  situ_manual_seed(50 + (uint64_t)b);
  return b < BLOCKS - 1
             ? situ_nn_sequential(situ_nn_linear(WIDE, WIDE, NULL), situ_nn_batch_norm1d(WIDE, NULL), situ_nn_tanh())
             : situ_nn_sequential(situ_nn_linear(WIDE, 3, NULL));
}

static void make_stages(pipe *p, int size) {
  for (int r = 0; r < size; r++) {
    situ_nn_module *m = situ_nn_sequential_of(0, NULL);
    for (int b = BLOCKS * r / size; b < BLOCKS * (r + 1) / size; b++) {
      char name[8];
      (void)snprintf(name, sizeof name, "%d", b);
      p->block[b] = make_block(b);
      assert_int_equal(situ_nn_to(p->block[b], test_device()), SITU_OK);
      m = situ_nn_put(m, name, p->block[b]);
    }
    assert_non_null(p->stage[r] = m);
  }
}

static void make_batch(int step, situ_tensor **x, situ_tensor **y) {
  situ_generator g = situ_generator_seeded(700 + (uint64_t)step);
  *x = situ_to(situ_randn(SITU_SHAPE(ROWS, WIDE), &(situ_options){ .generator = &g }), test_device());
  *y = situ_to(situ_randint(0, 3, SITU_SHAPE(ROWS), &(situ_options){ .generator = &g }), test_device());
}

static situ_tensor *find_loss(situ_tensor *output, situ_tensor *target, void *payload) {
  const pipe *p = payload;
  if (p->bad_loss && p->done[p->in_step] == 1) return NULL;
  return situ_cross_entropy(output, target, NULL);
}

/* ---- training ---- */

typedef struct counts {
  pipe *p;
  int rank;
} counts;
static situ_status count_forward(situ_nn_module *m, situ_tree **in, situ_tree **out, void *payload) {
  const counts *c = payload;
  (void)m, (void)in, (void)out;
  if (++c->p->running[c->rank] > c->p->most[c->rank]) c->p->most[c->rank] = c->p->running[c->rank];
  if (c->p->bad_stage && c->rank == 1 && c->p->done[1] == 1) {
    (void)situ_comm_refuse(SITU_E_STATE, "stage", "it is broken");
    return SITU_E_STATE;
  }
  return SITU_OK;
}
static situ_status count_backward(situ_tensor *leaf, void *payload) {
  const counts *c = payload;
  (void)leaf;
  c->p->running[c->rank]--;
  return SITU_OK;
}

static void train_stage(world_rank *self) {
  pipe *p = self->payload;
  const int r = self->rank;
  counts c = { p, r };
  situ_nn_module *m = p->stage[r];
  const situ_dist_pipeline_options options = { .micro_batches = p->micro_batches, .loss = find_loss, .payload = p };
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  situ_dist_pipeline *pipeline = situ_dist_pipeline_new(m, self->comm, &options);
  situ_tree *parameters = situ_nn_parameters(m);
  situ_tensor *first = situ_tree_tensor_at(parameters, 0);
  MUST(pipeline && optim);
  MUST(situ_nn_register_forward_pre_hook(m, count_forward, &c, NULL) == SITU_OK);
  MUST(situ_register_post_accumulate_grad_hook(first, count_backward, &c) == SITU_OK);
  for (int i = 0; i < p->steps; i++) {
    situ_tensor *x, *y;
    make_batch(i, &x, &y);
    if (p->fault_at && r == 1 && i == 1) MUST(!situ_comm_sim_fail(self->world, 1, p->fault, p->fault_at));
    MUST(situ_dist_pipeline_step(pipeline, r == 0 ? x : NULL, r == self->size - 1 ? y : NULL, &p->loss[r]) == SITU_OK);
    MUST(situ_optim_step(optim) == SITU_OK && situ_optim_zero_grad(optim, true) == SITU_OK);
    p->done[r]++;
    MUST(situ_dist_pipeline_steps(pipeline) == p->done[r]);
  }
out:
  situ_remove_hooks(first, &c);
  situ_tree_free(parameters);
  situ_dist_pipeline_free(pipeline);
  situ_optim_free(optim);
}

/* The same micro-batches one after another, without a pipeline. */
static situ_nn_module *train_alone(pipe *p) {
  make_stages(p, 1);
  situ_nn_module *m = p->stage[0];
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  for (int i = 0; i < p->steps; i++) {
    situ_tensor *x, *y;
    const int64_t rows = ROWS / p->micro_batches;
    make_batch(i, &x, &y);
    for (int64_t k = 0; k < p->micro_batches; k++) {
      situ_tensor *loss = situ_cross_entropy(situ_nn_forward(m, situ_narrow(x, 0, k * rows, rows)),
                                             situ_narrow(y, 0, k * rows, rows), NULL);
      const situ_options like = { .device = test_device() };
      situ_tensor *grad = situ_full(SITU_SCALAR, 1 / (double)p->micro_batches, &like);
      assert_int_equal(situ_backward(loss, &(situ_backward_options){ .gradient = grad }), SITU_OK);
    }
    assert_int_equal(situ_optim_step(optim), SITU_OK);
    assert_int_equal(situ_optim_zero_grad(optim, true), SITU_OK);
  }
  situ_optim_free(optim);
  return m;
}

static void expect_stages(const pipe *p, int size, situ_nn_module *whole) {
  situ_tree *want = situ_nn_state_dict(whole);
  for (int r = 0; r < size; r++) {
    situ_tree *got = situ_nn_state_dict(p->stage[r]);
    for (int64_t i = 0; i < situ_tree_count(got); i++) {
      const char *key = situ_tree_key(got, i);
      situ_tensor *a = situ_detach(situ_tree_tensor_at(got, i)), *b = situ_detach(situ_tree_get(want, key));
      bool equal;
      assert_int_equal(situ_equal(a, b, &equal), SITU_OK);
      if (!equal) fail_msg("%d stages, %d micro-batches: %s has other bits", size, (int)p->micro_batches, key);
    }
    situ_tree_free(got);
  }
  situ_tree_free(want);
}

static void the_number_of_stages_does_not_change_a_bit(void **state) {
  (void)state;
  static const int micro_batches[] = { 1, 2, 3, 6 };
  for (int k = 0; k < 4; k++) {
    pipe alone = { .steps = 6, .micro_batches = micro_batches[k] };
    situ_nn_module *whole = train_alone(&alone);
    double loss = 0;
    for (int size = 1; size <= 4; size++) {
      pipe p = { .steps = 6, .micro_batches = micro_batches[k] };
      world_rank ranks[WORLD_MOST];
      make_stages(&p, size);
      world_run(situ_comm_sim_new(size, &(situ_comm_sim_options){ .seed = 9, .max_delay = 2e-4 }), ranks, size,
                train_stage, &p, 30);
      for (int r = 0; r < size; r++) {
        expect_rank_ok(&ranks[r]);
        const int most = size - r < p.micro_batches ? size - r : (int)p.micro_batches;
        assert_int_equal(p.most[r], most);
        if (size == 1) loss = p.loss[0];
        if (p.loss[r] != loss || !(loss > 0))
          fail_msg("%d stages: rank %d has loss %g, one has %g", size, r, p.loss[r], loss);
      }
      expect_stages(&p, size, whole);
      for (int r = 0; r < size; r++) situ_nn_free(p.stage[r]);
    }
    situ_nn_free(whole);
  }
}

/* ---- forward alone ---- */

static void run_forward(world_rank *self) {
  pipe *p = self->payload;
  const int r = self->rank;
  const situ_dist_pipeline_options options = { .micro_batches = 4, .loss = find_loss, .payload = p };
  situ_nn_eval(p->stage[r]);
  situ_dist_pipeline *pipeline = situ_dist_pipeline_new(p->stage[r], self->comm, &options);
  MUST(pipeline);
  situ_tensor *x, *y, *out;
  make_batch(0, &x, &y);
  for (int i = 0; i < 2; i++) {
    MUST(situ_dist_pipeline_forward(pipeline, r == 0 ? x : NULL, &out) == SITU_OK);
    MUST((out != NULL) == (r == self->size - 1));
  }
  if (out) {
    for (int b = 0; b < BLOCKS; b++) x = situ_nn_forward(p->block[b], x);
    double a[ROWS * 3], b[ROWS * 3];
    test_read(out, a);
    test_read(situ_detach(x), b);
    for (int i = 0; i < ROWS * 3; i++) MUST(a[i] - b[i] < 1e-5 && b[i] - a[i] < 1e-5);
    MUST(!situ_requires_grad(out));
  }
out:
  situ_dist_pipeline_free(pipeline);
}
static void forward_alone_gives_the_result(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++) {
    pipe p = { 0 };
    world_rank ranks[WORLD_MOST];
    make_stages(&p, size);
    for (int r = 0; r < size; r++) situ_nn_eval(p.stage[r]);
    world_run(situ_comm_sim_new(size, NULL), ranks, size, run_forward, &p, 30);
    for (int r = 0; r < size; r++) {
      expect_rank_ok(&ranks[r]);
      situ_nn_free(p.stage[r]);
    }
  }
}

/* ---- failures ---- */

/* A failed second step: every rank has the stage of after the first one, and no gradients. */
static void expect_undone(pipe *p, int size, const char *what) {
  world_rank ranks[WORLD_MOST];
  pipe alone = { .steps = 1, .micro_batches = 4 };
  p->steps = 3;
  p->micro_batches = 4;
  p->in_step = size - 1;
  make_stages(p, size);
  world_run(situ_comm_sim_new(size, NULL), ranks, size, train_stage, p, 1);
  situ_nn_module *whole = train_alone(&alone);
  bool named = false;
  for (int r = 0; r < size; r++) {
    if (p->fault_at && r == 1) continue; /* the lost one */
    if (ranks[r].status == SITU_OK || p->done[r] != 1) fail_msg("%s: rank %d did not fail in step 1", what, r);
    if (!strstr(ranks[r].message, what)) fail_msg("%s: rank %d: %s", what, r, ranks[r].message);
    named = named || strstr(ranks[r].message, "step 1");
  }
  if (!named) fail_msg("%s: no rank names the step: %s", what, ranks[0].message);
  if (!p->fault_at) expect_stages(p, size, whole);
  for (int r = 0; r < size; r++) {
    situ_tree *parameters = situ_nn_parameters(p->stage[r]);
    for (int64_t i = 0; i < situ_tree_count(parameters); i++)
      assert_null(situ_grad(situ_tree_tensor_at(parameters, i)));
    situ_tree_free(parameters);
    situ_nn_free(p->stage[r]);
  }
  situ_nn_free(whole);
}

static void a_failed_step_is_undone(void **state) {
  (void)state;
  expect_undone(&(pipe){ .bad_loss = true }, 3, "the loss function returned NULL");
  expect_undone(&(pipe){ .bad_stage = true }, 3, "it is broken");
  for (int64_t at = 1; at < 20; at += 3) {
    expect_undone(&(pipe){ .fault = SITU_COMM_SIM_DIE, .fault_at = at }, 3, "rank 1");
    if (at < 8) expect_undone(&(pipe){ .fault = SITU_COMM_SIM_STOP, .fault_at = at }, 3, "rank 1");
  }
}

/* ---- refusals ---- */

typedef struct refusal {
  int64_t micro_batches[2];
  bool no_loss, whole_numbers;
  int64_t rows;
  situ_dtype dtype; /* of the second micro-batch; SITU_DTYPE_DEFAULT: that of the first */
  int64_t width;    /* of the second micro-batch; 0: that of the first */
} refusal;

static situ_tensor *count_values(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  return situ_to_dtype(x, SITU_I64);
}
static const situ_nn_type counting_type = { .name = "Counting",
                                            .size = sizeof(situ_nn_module),
                                            .forward = count_values };
/* A stage whose second result is of another kind. */
typedef struct changing {
  situ_nn_module base;
  const refusal *how;
  int calls;
} changing;
static situ_tensor *change(situ_nn_module *self, situ_tensor *x) {
  changing *c = (changing *)self;
  if (!c->calls++) return x;
  if (c->how->width) x = situ_narrow(x, 1, 0, c->how->width);
  return situ_to_dtype(x, c->how->dtype ? c->how->dtype : SITU_F32);
}
static const situ_nn_type changing_type = { .name = "Changing", .size = sizeof(changing), .forward = change };
static situ_tensor *sum_up(situ_tensor *output, situ_tensor *target, void *payload) {
  return target && payload ? NULL : situ_sum(output, NULL);
}

static void refuse_step(world_rank *self) {
  const refusal *f = self->payload;
  const int r = self->rank;
  const situ_dist_pipeline_options options = { .micro_batches = f->micro_batches[r],
                                               .loss = f->no_loss ? NULL : sum_up };
  situ_nn_module *m = NULL;
  if (r == 0 && f->whole_numbers) m = situ_nn_done(situ_nn_alloc(&counting_type));
  else if (r == 0 && (f->dtype || f->width)) {
    changing *c = situ_nn_alloc(&changing_type);
    c->how = f;
    m = situ_nn_done(c);
  } else m = situ_nn_linear(2, 2, NULL);
  situ_dist_pipeline *pipeline = situ_dist_pipeline_new(m, self->comm, &options);
  if (pipeline)
    SITU_IGNORE(situ_dist_pipeline_step(pipeline, r == 0 ? situ_ones(SITU_SHAPE(f->rows, 2), NULL) : NULL, NULL, NULL));
  situ_dist_pipeline_free(pipeline);
  situ_nn_free(m);
}

static void expect_refusal(refusal f, const char *text) {
  world_rank ranks[WORLD_MOST];
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, refuse_step, &f, 10);
  for (int r = 0; r < 2; r++)
    if (ranks[r].status == SITU_OK || !strstr(ranks[r].message, text)) fail_msg("rank %d: %s", r, ranks[r].message);
}

static void what_cannot_be_is_refused_on_all_ranks(void **state) {
  (void)state;
  expect_refusal((refusal){ { 2, 3 }, .rows = 6 }, "options.micro_batches is 3");
  expect_refusal((refusal){ { 2, 2 }, .rows = 5 }, "input has 5 rows, which 2 micro-batches do not divide");
  expect_refusal((refusal){ { 2, 2 }, .rows = 4, .no_loss = true },
                 "rank 1 has the last stage: options.loss is needed");
  expect_refusal((refusal){ { 2, 2 }, .rows = 4, .whole_numbers = true }, "the stage of rank 0 gives i64");
  expect_refusal((refusal){ { -1, -1 }, .rows = 4 }, "micro_batches is -1");
  expect_refusal((refusal){ { 2, 2 }, .rows = 4, .dtype = SITU_F64 },
                 "the stage makes f64 [2, 2] of micro-batch 1, and made f32 [2, 2] of the first");
  expect_refusal((refusal){ { 2, 2 }, .rows = 4, .width = 1 },
                 "the stage makes f32 [2, 1] of micro-batch 1, and made f32 [2, 2] of the first");
}

/* ---- with data parallel training ---- */

/* Ranks 0 and 1, 2 and 3 are pipelines; 0 and 2, 1 and 3 have the same stage. */
static void train_both_ways(world_rank *self) {
  pipe *p = self->payload;
  const int r = self->rank, at = r % 2;
  situ_nn_module *m = p->stage[r];
  const situ_dist_pipeline_options options = { .micro_batches = 2, .loss = sum_up, .no_scale_grads = true };
  situ_dist_pipeline *pipeline = situ_dist_pipeline_new(m, p->own[r], &options);
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, p->same[r], &(situ_dist_ddp_options){ .micro_batches = 4 });
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(m), 0.1, NULL);
  MUST(pipeline && ddp && optim);
  for (int i = 0; i < 3; i++) {
    situ_tensor *x, *y;
    make_batch(i, &x, &y);
    x = situ_narrow(x, 0, r / 2 * ROWS / 2, ROWS / 2);
    MUST(situ_dist_pipeline_step(pipeline, at == 0 ? x : NULL, NULL, NULL) == SITU_OK);
    MUST(situ_optim_step(optim) == SITU_OK && situ_optim_zero_grad(optim, true) == SITU_OK);
  }
out:
  situ_optim_free(optim);
  situ_dist_ddp_free(ddp);
  situ_dist_pipeline_free(pipeline);
}
static void both_kinds_train_together(void **state) {
  (void)state;
  pipe p = { 0 };
  world_rank ranks[WORLD_MOST];
  situ_comm_sim *own[2], *same[2];
  const situ_comm_options patient = { .deadline = 30 };
  situ_nn_module *first = situ_nn_linear(WIDE, WIDE, NULL),
                 *second = situ_nn_sequential(situ_nn_tanh(), situ_nn_linear(WIDE, 3, NULL));
  assert_int_equal(situ_nn_to(first, test_device()), SITU_OK);
  assert_int_equal(situ_nn_to(second, test_device()), SITU_OK);
  for (int k = 0; k < 2; k++) {
    own[k] = situ_comm_sim_new(2, NULL);
    same[k] = situ_comm_sim_new(2, NULL);
  }
  for (int r = 0; r < 4; r++) {
    p.stage[r] = situ_nn_clone(r % 2 ? second : first);
    p.own[r] = situ_comm_sim_rank(own[r / 2], r % 2, &patient);
    p.same[r] = situ_comm_sim_rank(same[r % 2], r / 2, &patient);
  }
  world_run(situ_comm_sim_new(4, NULL), ranks, 4, train_both_ways, &p, 30);
  situ_nn_module *whole = situ_nn_sequential(first, second);
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(whole), 0.1, NULL);
  for (int i = 0; i < 3; i++) {
    situ_tensor *x, *y;
    make_batch(i, &x, &y);
    /* The mean over four micro-batches of a sum over each. */
    situ_tensor *loss = situ_mul_scalar(situ_sum(situ_nn_forward(whole, x), NULL), 0.25);
    assert_int_equal(situ_backward(loss, NULL), SITU_OK);
    assert_int_equal(situ_optim_step(optim), SITU_OK);
    assert_int_equal(situ_optim_zero_grad(optim, true), SITU_OK);
  }
  for (int r = 0; r < 4; r++) {
    expect_rank_ok(&ranks[r]);
    situ_tree *got = situ_nn_parameters(p.stage[r]), *want = situ_nn_parameters(r % 2 ? second : first);
    for (int64_t i = 0; i < situ_tree_count(want); i++)
      expect_same(situ_detach(situ_tree_tensor_at(got, i)), situ_detach(situ_tree_tensor_at(want, i)), 1e-4, 1e-5);
    situ_tree_free(got);
    situ_tree_free(want);
    situ_comm_free(p.own[r]);
    situ_comm_free(p.same[r]);
    situ_nn_free(p.stage[r]);
  }
  for (int k = 0; k < 2; k++) {
    situ_comm_sim_free(own[k]);
    situ_comm_sim_free(same[k]);
  }
  situ_optim_free(optim);
  situ_nn_free(whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(the_number_of_stages_does_not_change_a_bit),
    TEST(forward_alone_gives_the_result),
    TEST(a_failed_step_is_undone),
    TEST(what_cannot_be_is_refused_on_all_ranks),
    TEST(both_kinds_train_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
