/* The exchange of gradients while backward runs: that it begins then, that bits and failures are those without it.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include "distributed/training.h"

/* ---- when it begins ---- */

/* What a rank's hook on the parameter whose gradient is complete last has seen. */
typedef struct watch {
  world_rank *self;
  int64_t before, at_last[MICRO_BATCHES]; /* transfers that the rank had begun, at each micro-batch's backward */
  int count;
} watch;

static situ_tensor *count_transfers(situ_tensor *grad, void *payload) {
  watch *w = payload;
  w->at_last[w->count++] = situ_comm_sim_transfers(w->self->world, w->self->rank) - w->before;
  return grad;
}

static void watch_one_step(world_rank *self) {
  training *t = self->payload;
  situ_nn_module *m = t->model[self->rank];
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &t->options);
  watch w = { .self = self };
  MUST(ddp && situ_register_hook(situ_nn_get_tensor(m, "0.weight"), count_transfers, &w) == SITU_OK);
  w.before = situ_comm_sim_transfers(self->world, self->rank);
  MUST(train_step(t, m, t->optim[self->rank], ddp) == SITU_OK);
  MUST(w.count == MICRO_BATCHES / self->size);
  /* Nothing for the first micro-batches; in the last one at least a header of the first bucket. */
  for (int i = 0; i + 1 < w.count; i++) MUST(w.at_last[i] == 0);
  MUST(self->size == 1 || w.at_last[w.count - 1] > 0);
  situ_remove_hooks(situ_nn_get_tensor(m, "0.weight"), &w);
out:
  situ_dist_ddp_free(ddp);
}

static situ_nn_module *make_wide(void) {
  return situ_nn_sequential(situ_nn_linear(6, 4096, NULL), situ_nn_tanh(), situ_nn_linear(4096, 3, NULL));
}
static const dist_kind wide_kind = { "wide", make_wide, { 2, { DIST_BATCH, 6 } } };

/* With buckets of one tensor, and with those that a model of 160 KiB gets by default. */
static void the_first_bucket_leaves_before_the_last_gradient_is_complete(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) {
    const int size = 1 << i / 2;
    training t = { .options = { .bucket_bytes = i % 2 } };
    world_rank ranks[WORLD_MOST];
    begin_training(&t, i % 2 ? &dist_kinds[0] : &wide_kind, size);
    world_run(situ_comm_sim_new(size, NULL), ranks, size, watch_one_step, &t, 60);
    for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
    end_training(&t, size);
  }
}

/* ---- the same bits ---- */

/* Which layers run, and in which order, depends on the micro-batch: its first element tells. */
typedef struct fickle {
  situ_nn_module base;
  situ_nn_module *never, *c, *a, *b;
} fickle;
static situ_tensor *run_some(situ_nn_module *self, situ_tensor *x) {
  fickle *m = (fickle *)self;
  double first = 0;
  if (situ_item(situ_narrow(situ_reshape(situ_detach(x), SITU_SHAPE(situ_numel(x))), 0, 0, 1), &first) != SITU_OK)
    return NULL;
  if (first > 0.5) return situ_nn_forward(m->a, situ_nn_forward(m->b, x));
  return first > -0.5 ? situ_nn_forward(m->b, situ_nn_forward(m->a, x)) : situ_nn_forward(m->c, x);
}
static const situ_nn_type fickle_type = { .name = "Fickle", .size = sizeof(fickle), .forward = run_some };
static situ_nn_module *make_fickle(void) {
  fickle *m = situ_nn_alloc(&fickle_type);
  situ_nn_child(m, never, situ_nn_linear(6, 6, NULL));
  situ_nn_child(m, c, situ_nn_linear(6, 6, NULL));
  situ_nn_child(m, a, situ_nn_linear(6, 6, NULL));
  situ_nn_child(m, b, situ_nn_linear(6, 6, NULL)); /* its buckets are the first ones */
  return situ_nn_done(m);
}
static const dist_kind fickle_kind = { "fickle", make_fickle, { 2, { DIST_BATCH, 6 } } };

static situ_status double_it(situ_tensor *leaf, void *payload) {
  (void)payload;
  return situ_set_grad(leaf, situ_mul_scalar(situ_grad(leaf), 2));
}
/* A hook that runs when all gradients are in place changes one of them. */
static situ_nn_module *make_doubled(void) {
  situ_nn_module *m = dist_mlp();
  assert_int_equal(situ_register_post_accumulate_grad_hook(situ_nn_get_tensor(m, "2.weight"), double_it, NULL),
                   SITU_OK);
  return m;
}
static const dist_kind doubled_kind = { "doubled", make_doubled, { 2, { DIST_BATCH, 6 } } };

/* Each rank's backward reaches other parameters, in another order than on other ranks. */
static void expect_same_bits(const dist_kind *kind, int64_t bucket_bytes) {
  bits want = { 0 };
  for (int size = 1; size <= 4; size *= 2) {
    training t = { .steps = 12, .micro_batches = 8, .options = { .bucket_bytes = bucket_bytes } };
    world_rank ranks[WORLD_MOST];
    begin_training(&t, kind, size);
    world_run(situ_comm_sim_new(size, &(situ_comm_sim_options){ .seed = 5, .max_delay = 2e-4 }), ranks, size,
              train_rank, &t, 60);
    for (int r = 0; r < size; r++) {
      expect_rank_ok(&ranks[r]);
      bits got = bits_of(t.model[r]);
      if (!want.data) want = got;
      else {
        expect_bits(want, got, kind->name, size);
        free(got.data);
      }
    }
    end_training(&t, size);
  }
  free(want.data);
}
static void ranks_whose_graphs_differ(void **state) {
  (void)state;
  expect_same_bits(&fickle_kind, 1);
  expect_same_bits(&fickle_kind, 200);
}
static void hooks_that_change_a_gradient_last(void **state) {
  (void)state;
  expect_same_bits(&doubled_kind, 1);
}

/* ---- failures ---- */

/* Rank 1's hook fails at this backward of the training. */
typedef struct spoiled {
  training t;
  int at; /* 0: at none */
} spoiled;
typedef struct spoiler {
  int calls, at;
} spoiler;
static situ_tensor *spoil(situ_tensor *grad, void *payload) {
  spoiler *s = payload;
  if (++s->calls == s->at) (void)situ_comm_refuse(SITU_E_NOMEM, "test", "no memory in a hook");
  return grad;
}

/* Two micro-batches a rank and step; tries the first one of a step again. */
static bool spoiled_step(training *t, const world_rank *self, situ_dist_ddp *ddp) {
  for (int k = 0; k < 2; k++) {
    const int64_t number = situ_dist_ddp_step(ddp) * MICRO_BATCHES + situ_dist_ddp_micro_batch(ddp);
    situ_status status = dist_micro_batch(t->kind, t->model[self->rank], test_device(), number);
    if (status != SITU_OK && k == 0) {
      situ_error_clear();
      status = dist_micro_batch(t->kind, t->model[self->rank], test_device(), number);
    }
    if (status != SITU_OK) return false;
  }
  return situ_optim_step(t->optim[self->rank]) == SITU_OK &&
         situ_optim_zero_grad(t->optim[self->rank], true) == SITU_OK;
}
static void train_and_spoil(world_rank *self) {
  spoiled *all = self->payload;
  training *t = &all->t;
  situ_tensor *watched = situ_nn_get_tensor(t->model[self->rank], "0.weight");
  situ_dist_ddp *ddp = situ_dist_ddp_new(t->model[self->rank], self->comm, &t->options);
  spoiler s = { .at = self->rank == 1 ? all->at : 0 };
  MUST(ddp && situ_register_hook(watched, spoil, &s) == SITU_OK);
  while (t->done[self->rank] < t->steps && spoiled_step(t, self, ddp)) t->done[self->rank]++;
out:
  situ_remove_hooks(watched, &s);
  situ_dist_ddp_free(ddp);
}

static bits train_spoiled(spoiled *all, world_rank *ranks, int at, int steps) {
  *all = (spoiled){ .t = { .steps = steps, .options = { .bucket_bytes = 1 } }, .at = at };
  begin_training(&all->t, &dist_kinds[0], 2);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, train_and_spoil, all, 600);
  return bits_of(all->t.model[0]);
}
static void expect_spoiled(bits want, spoiled *all, world_rank *ranks, int at, const char *what) {
  bits got = train_spoiled(all, ranks, at, 3);
  expect_bits(want, got, what, 2);
  free(got.data);
}

static void a_backward_that_fails(void **state) {
  (void)state;
  spoiled all;
  world_rank ranks[WORLD_MOST];
  bits want[2];
  for (int k = 0; k < 2; k++) {
    want[k] = train_spoiled(&all, ranks, 0, k ? 3 : 1);
    end_training(&all.t, 2);
  }
  /* Before the exchange has begun, the rank tries again, and the others hear nothing of it. */
  expect_spoiled(want[1], &all, ranks, 3, "tried again");
  for (int r = 0; r < 2; r++) expect_rank_ok(&ranks[r]);
  end_training(&all.t, 2);
  /* Afterwards the step is lost, and the others hear of it at once: their deadline is ten minutes. */
  expect_spoiled(want[0], &all, ranks, 4, "gave up");
  assert_int_equal(ranks[1].status, SITU_E_NOMEM);
  assert_int_equal(ranks[0].status, SITU_E_COMM);
  if (!strstr(ranks[0].message, "rank 1 gave up at step 1: ") || !strstr(ranks[0].message, "no memory in a hook"))
    fail_msg("%s", ranks[0].message);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(all.t.done[r], 1);
    assert_null(situ_grad(situ_nn_get_tensor(all.t.model[r], "2.weight")));
  }
  end_training(&all.t, 2);
  for (int k = 0; k < 2; k++) free(want[k].data);
}

/* Rank 1's forward of step 1 fails, and the error ends its program. */
static void fail_in_forward(world_rank *self) {
  training *t = self->payload;
  situ_nn_module *m = t->model[self->rank];
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &t->options);
  MUST(ddp && train_step(t, m, t->optim[self->rank], ddp) == SITU_OK);
  if (self->rank == 1) SITU_IGNORE(situ_nn_forward(m, T32(SITU_SHAPE(1, 2), 1, 2)) != NULL);
  else SITU_IGNORE(train_step(t, m, t->optim[self->rank], ddp));
out:
  situ_dist_ddp_free(ddp);
}
static void a_forward_that_fails_is_heard_when_the_program_ends(void **state) {
  (void)state;
  training t = { 0 };
  world_rank ranks[WORLD_MOST];
  begin_training(&t, &dist_kinds[0], 3);
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, fail_in_forward, &t, 600);
  for (int r = 0; r < 3; r++) {
    if (r != 1) assert_int_equal(ranks[r].status, SITU_E_COMM);
    if (!strstr(ranks[r].message, "linear") || (r != 1 && !strstr(ranks[r].message, "rank 1 gave up at step 1: ")))
      fail_msg("%s", ranks[r].message);
  }
  end_training(&t, 3);
}

/* ---- other calls meanwhile ---- */

static situ_tensor *meet(situ_tensor *grad, void *payload) {
  return situ_comm_barrier(payload, "in a hook") == SITU_OK ? grad : NULL;
}
static void meet_in_a_hook(world_rank *self) {
  training *t = self->payload;
  situ_nn_module *m = t->model[self->rank];
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &t->options);
  MUST(ddp && situ_register_hook(situ_nn_get_tensor(m, "0.weight"), meet, self->comm) == SITU_OK);
  SITU_IGNORE(train_step(t, m, t->optim[self->rank], ddp));
out:
  situ_remove_hooks(situ_nn_get_tensor(m, "0.weight"), self->comm);
  situ_dist_ddp_free(ddp);
}
static void calls_of_hooks_are_refused_meanwhile(void **state) {
  (void)state;
  training t = { 0 };
  world_rank ranks[WORLD_MOST];
  begin_training(&t, &dist_kinds[0], 2);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, meet_in_a_hook, &t, 60);
  /* One may hear that the other has given up before its own hook is called. */
  assert_true(ranks[0].status == SITU_E_STATE || ranks[1].status == SITU_E_STATE);
  for (int r = 0; r < 2; r++)
    if (!strstr(ranks[r].message, "a backward exchanges gradients over this communicator"))
      fail_msg("%s", ranks[r].message);
  end_training(&t, 2);
}

/* Two modules over one communicator, whose gradients one backward computes: here, the two layers of a model. */
static void train_in_two(world_rank *self) {
  training *t = self->payload;
  situ_nn_module *m = t->model[self->rank];
  situ_dist_ddp *a = situ_dist_ddp_new(situ_nn_get_submodule(m, "0"), self->comm, &t->options),
                *b = a ? situ_dist_ddp_new(situ_nn_get_submodule(m, "2"), self->comm, &t->options) : NULL;
  for (int i = 0; b && i < t->steps; i++) MUST(train_step(t, m, t->optim[self->rank], a) == SITU_OK);
out:
  situ_dist_ddp_free(a);
  situ_dist_ddp_free(b);
}
static void two_modules_share_a_communicator(void **state) {
  (void)state;
  bits got[2];
  for (int k = 0; k < 2; k++) {
    training t = { .steps = 4, .options = { .bucket_bytes = 1 } };
    world_rank ranks[WORLD_MOST];
    begin_training(&t, &dist_kinds[0], 2);
    world_run(situ_comm_sim_new(2, NULL), ranks, 2, k ? train_in_two : train_rank, &t, 60);
    for (int r = 0; r < 2; r++) expect_rank_ok(&ranks[r]);
    got[k] = bits_of(t.model[1]);
    end_training(&t, 2);
  }
  expect_bits(got[0], got[1], "in two", 2);
  for (int k = 0; k < 2; k++) free(got[k].data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(the_first_bucket_leaves_before_the_last_gradient_is_complete),
    TEST(ranks_whose_graphs_differ),
    TEST(hooks_that_change_a_gradient_last),
    TEST(a_backward_that_fails),
    TEST(a_forward_that_fails_is_heard_when_the_program_ends),
    TEST(calls_of_hooks_are_refused_meanwhile),
    TEST(two_modules_share_a_communicator),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
