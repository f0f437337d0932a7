/* Parameters in parts: the bits of one optimiser, what a rank has of them, what is refused while they are in parts. */
/* test-devices: cpu sim:0 cuda:0 */
/* test-slow: cuda:0 */
#include <stdlib.h>

#include "distributed/divided.h"
#include "situ/sys/alloc.h"
#include "situ/sys/sim.h"
#include "support/optim.h"

/* ---- bits ---- */

typedef struct rule {
  const char *name;
  situ_dist_make_optim make;
  double lr;
  optim_change change[OPTIM_CHANGES];
  bool groups;
  int units; /* of `of_kind` */
  int64_t bucket_bytes;
} rule;
static const rule rules[] = { { "SGD", situ_optim_sgd, 0.1, { { SITU_OPTIM_MOMENTUM, 0.9 } }, false, 0, 0 },
                              { "AdamW", situ_optim_adamw, 0.01, { { 0 } }, false, 0, 300 },
                              { "AdamW of two groups", situ_optim_adamw, 0.01, { { 0 } }, true, 1, 0 },
                              { "Adam, one unit", situ_optim_adam, 0.01, { { 0 } }, false, 2, 600 } };
static const char *const first_child[] = { "0" }, *const all_of_it[] = { "" };
static const situ_dist_zero3_options of_kind[] = { { 0 }, { first_child, 1 }, { all_of_it, 1 } };

/* Every rank has the bits of one optimiser; one rank has the state of all. */
static void the_bits_of_one_optimiser(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof rules / sizeof *rules * DIST_KINDS; k++) {
    const rule *r = &rules[k / DIST_KINDS];
    for (int size = 1; size <= 4; size *= 2) {
      divided t = { .kind = &dist_kinds[k % DIST_KINDS],
                    .make = r->make,
                    .lr = r->lr,
                    .change = r->change,
                    .groups = r->groups,
                    .shards = true,
                    .units = of_kind[r->units],
                    .ddp = { .bucket_bytes = r->bucket_bytes },
                    .to = 6,
                    .keeper = size - 1 };
      situ_tree *want;
      int64_t bytes;
      situ_nn_module *alone = train_alone(&t, &want, &bytes);
      for (int i = 0; i < size; i++) t.model[i] = model_of(t.kind);
      run_world(&t, size);
      situ_tree *got = situ_tree_flatten(t.end);
      expect_equal_trees(got, want, r->name, size);
      for (int i = 0; i < size; i++) {
        expect_equal_models(t.model[i], alone, r->name, size);
        situ_nn_free(t.model[i]);
      }
      situ_tree_free(got);
      situ_tree_free(want);
      situ_tree_free(t.end);
      situ_nn_free(alone);
    }
  }
}

static situ_nn_module *make_deep(void) {
  const situ_nn_transformer_options options =
      OPTIONS_OF(situ_nn_transformer, with.dim_feedforward = 16, with.batch_first = true, with.dropout = 0);
  situ_nn_module *layer = situ_nn_transformer_encoder_layer(8, 2, &options);
  return situ_nn_sequential(situ_nn_transformer_encoder(layer, 3, NULL), situ_nn_flatten(1, -1),
                            situ_nn_linear(40, 3, NULL));
}
static situ_nn_module *make_frozen(void) {
  situ_nn_module *m = dist_mlp();
  SITU_IGNORE(!situ_requires_grad_(situ_nn_get_tensor(m, "0.weight"), false));
  return m;
}
static situ_nn_module *make_tied(void) {
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(6, 6, NULL), situ_nn_tanh(), situ_nn_linear(6, 6, NULL),
                                         situ_nn_tanh(), situ_nn_linear(6, 3, NULL));
  situ_nn_add_tensor(situ_nn_get_submodule(m, "2"), "weight", NULL, situ_nn_get_tensor(m, "0.weight"),
                     SITU_NN_PARAMETER);
  return m;
}
static const dist_kind others[] = { { "layers as units", make_deep, { 3, { DIST_BATCH, 5, 8 } } },
                                    { "a frozen weight", make_frozen, { 2, { DIST_BATCH, 6 } } },
                                    { "a weight of two units", make_tied, { 2, { DIST_BATCH, 6 } } } };

/* Layers of a transformer as units; a parameter without a gradient, which stays whole; one that two units have. */
static void units_of_layers_and_frozen_and_tied_parameters(void **state) {
  (void)state;
  static const char *const layers[] = { "0.layers.*" };
  for (size_t k = 0; k < sizeof others / sizeof *others; k++)
    for (int size = 1; size <= 4; size *= 2) {
      divided t = { .kind = &others[k], .make = situ_optim_adamw, .lr = 0.01, .shards = true, .to = 4 };
      if (k == 0) t.units = (situ_dist_zero3_options){ layers, 1 };
      situ_tree *state_of_all;
      int64_t bytes;
      situ_nn_module *alone = train_alone(&t, &state_of_all, &bytes);
      for (int i = 0; i < size; i++) t.model[i] = model_of(t.kind);
      run_world(&t, size);
      for (int i = 0; i < size; i++) {
        expect_equal_models(t.model[i], alone, t.kind->name, size);
        situ_nn_free(t.model[i]);
      }
      situ_tree_free(state_of_all);
      situ_tree_free(t.end);
      situ_nn_free(alone);
    }
}

/* Clipped training is that of stage 2, whose norm does not depend on the division. */
static void clipping(void **state) {
  (void)state;
  situ_nn_module *first = NULL;
  double norm = 0;
  for (int i = 0; i < 4; i++) {
    const int size = i ? 1 << (i - 1) : 2;
    divided t = {
      .kind = &dist_kinds[2], .make = situ_optim_sgd, .lr = 0.1, .parts = !i, .shards = i > 0, .max_norm = 0.3, .to = 4
    };
    for (int r = 0; r < size; r++) t.model[r] = model_of(t.kind);
    run_world(&t, size);
    if (!first) first = t.model[0], norm = t.norm[0];
    for (int r = 0; r < size; r++) {
      expect_equal_models(t.model[r], first, "clipped", size);
      if (t.norm[r] != norm) fail_msg("norm %.17g on %d ranks, must be %.17g", t.norm[r], size, norm);
      if (t.model[r] != first) situ_nn_free(t.model[r]);
    }
    situ_tree_free(t.end);
  }
  situ_nn_free(first);
}

/* ---- what is refused ---- */

typedef struct model_of_rank {
  situ_nn_module *model[WORLD_MOST];
} model_of_rank;

static void run_two_ranks(void (*run)(world_rank *)) {
  model_of_rank t;
  world_rank ranks[WORLD_MOST];
  for (int r = 0; r < 2; r++) t.model[r] = model_of(&dist_kinds[0]);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, run, &t, 20);
  for (int r = 0; r < 2; r++) {
    expect_rank_ok(&ranks[r]);
    situ_nn_free(t.model[r]);
  }
}

static bool is_refused(bool failed, const char *says) {
  const bool good = failed && situ_error() == SITU_E_STATE && strstr(situ_error_message(), says);
  if (good) situ_error_clear();
  return good;
}

static situ_tensor *copy_leaf(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_clone(situ_detach(t));
}

/* Reads, writes and moves name the parameter and say what to do. What is written while it is whole is kept. */
static void use_parts(world_rank *self) {
  static const char says[] = "0.weight` ([16, 6] f32) has no memory now: its values are in parts on the ranks";
  situ_nn_module *m = at_home(((model_of_rank *)self->payload)->model[self->rank]);
  situ_dist_zero *zero = NULL;
  situ_tree *whole = NULL;
  float values[16 * 6], after[16 * 6];
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &(situ_dist_ddp_options){ .micro_batches = MICRO_BATCHES });
  situ_tensor *w = situ_nn_get_tensor(m, "0.weight"), *x;
  situ_tree *state = situ_nn_state_dict(m);
  whole = situ_tree_map(state, copy_leaf, NULL);
  situ_tree_free(state);
  MUST(ddp && whole && situ_copy_to_host(w, values, sizeof values) == SITU_OK);
  MUST((zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_sgd, 1e-3, NULL)));
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  x = situ_ones(SITU_SHAPE(2, 6), &(situ_options){ .device = test_device() });
  MUST(is_refused(situ_copy_to_host(w, after, sizeof after) != SITU_OK, says));
  MUST(is_refused(!situ_linear(x, w, NULL), says));
  MUST(is_refused(!situ_add_scalar(w, 1), says));
  MUST(is_refused(!situ_fill_(w, 1), says));
  MUST(is_refused(situ_copy_from_host(w, values, sizeof values) != SITU_OK, says));
  MUST(is_refused(situ_nn_to(m, situ_dev("meta")) != SITU_OK, "has no memory"));
  MUST(is_refused(situ_nn_to_dtype(m, SITU_F16) != SITU_OK, "has no memory"));
  MUST(is_refused(situ_dist_ddp_check(ddp) != SITU_OK, "has no memory"));
  MUST(is_refused(situ_nn_load_state_dict(m, whole, NULL) != SITU_OK, "has no memory"));
  MUST(situ_dim(w) == 2 && situ_size(w, 0) == 16 && situ_device_equal(situ_device_of(w), test_device()));
  MUST(situ_nn_forward(m, x));
  MUST(is_refused(!situ_neg(w), says));
  MUST(situ_dist_zero_unshard(zero) == SITU_OK && situ_copy_to_host(w, after, sizeof after) == SITU_OK);
  MUST(memcmp(values, after, sizeof values) == 0);
  MUST(situ_mul_scalar_(w, 3) && situ_dist_zero_reshard(zero) == SITU_OK);
  MUST(is_refused(!situ_neg(w), says));
  MUST(situ_dist_zero_unshard(zero) == SITU_OK && situ_copy_to_host(w, after, sizeof after) == SITU_OK);
  for (int i = 0; i < 16 * 6; i++) MUST(after[i] == 3 * values[i]);
  MUST(situ_scope_end(&s) == SITU_OK);
out:
  situ_tree_free(whole);
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}

static void a_parameter_in_parts_is_refused_by_name(void **state) {
  (void)state;
  run_two_ranks(use_parts);
}

/* A graph that outlives the optimiser is refused. */
static void make_wrongly(world_rank *self) {
  situ_nn_module *m = at_home(((model_of_rank *)self->payload)->model[self->rank]);
  static const char *const nothing[] = { "layers.*" };
  situ_dist_zero *zero = NULL;
  situ_tensor *y;
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &(situ_dist_ddp_options){ .micro_batches = 3 });
  MUST(ddp && !situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_sgd, 1e-3, NULL));
  MUST(situ_error() == SITU_E_ARG && strstr(situ_error_message(), "3 micro-batches"));
  situ_error_clear();
  situ_dist_ddp_free(ddp);
  MUST((ddp = situ_dist_ddp_new(m, self->comm, &(situ_dist_ddp_options){ .check_every = 2 })));
  MUST(!situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_sgd, 1e-3, NULL));
  MUST(situ_error() == SITU_E_UNSUPPORTED && strstr(situ_error_message(), "check_every"));
  situ_error_clear();
  situ_dist_ddp_free(ddp);
  MUST((ddp = situ_dist_ddp_new(m, self->comm, NULL)));
  MUST(!situ_dist_zero3_new(situ_nn_parameters(m), ddp, &(situ_dist_zero3_options){ nothing, 1 }, situ_optim_sgd, 1e-3,
                            NULL));
  MUST(situ_error() == SITU_E_ARG && strstr(situ_error_message(), "'layers.*' names no module"));
  situ_error_clear();
  MUST((zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_sgd, 1e-3, NULL)));
  y = situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 6), &(situ_options){ .device = test_device() }));
  MUST(y);
  situ_dist_zero_free(zero);
  zero = NULL;
  MUST(is_refused(situ_backward(situ_sum(y, NULL), NULL) != SITU_OK, "has no memory now"));
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}

/* A step changes parameters, in parts, too: what a graph has saved of them before is refused. */
static void step_between(world_rank *self) {
  situ_nn_module *m = at_home(((model_of_rank *)self->payload)->model[self->rank]);
  situ_dist_zero *zero = NULL;
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 6), &(situ_options){ .device = test_device() }), *kept;
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, NULL);
  MUST(ddp && (zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_sgd, 1e-3, NULL)));
  MUST((kept = situ_nn_forward(m, x)));
  MUST(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL) == SITU_OK);
  MUST(situ_dist_zero_step(zero) == SITU_OK && situ_dist_zero_zero_grad(zero) == SITU_OK);
  MUST(is_refused(situ_backward(situ_sum(kept, NULL), NULL) != SITU_OK, "was changed in place since"));
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}

static void a_graph_from_before_a_step_is_refused(void **state) {
  (void)state;
  run_two_ranks(step_between);
}

typedef struct attempt {
  situ_nn_module *model;
  uint64_t nth;
  bool made;
} attempt;
static void begin_without_memory(world_rank *self) {
  attempt *a = self->payload;
  situ_dist_zero *zero = NULL;
  situ_dist_ddp *ddp = situ_dist_ddp_new(a->model, self->comm, NULL);
  MUST(ddp && situ_empty_cache(test_device()) == SITU_OK);
  situ_fail_allocation(a->nth, false);
  zero = situ_dist_zero3_new(situ_nn_parameters(a->model), ddp, NULL, situ_optim_sgd, 1e-3, NULL);
  situ_fail_allocation(0, false);
  a->made = zero != NULL;
  MUST(situ_error() == (zero ? SITU_OK : SITU_E_NOMEM));
  situ_error_clear();
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}

/* Wherever memory ends, there is an error, and no optimiser. */
static void memory_ends_while_it_is_made(void **state) {
  (void)state;
  attempt a = { .nth = 0 };
  world_rank self;
  while (!a.made) {
    a = (attempt){ .model = model_of(&dist_kinds[0]), .nth = a.nth + 1 };
    world_run(situ_comm_sim_new(1, NULL), &self, 1, begin_without_memory, &a, 20);
    expect_rank_ok(&self);
    situ_nn_free(a.model);
  }
  assert_true(a.nth > 50);
}

static void what_cannot_be_in_parts(void **state) {
  (void)state;
  run_two_ranks(make_wrongly);
}

/* ---- memory ---- */

enum { RANKS = 4, WIDTH = 100, LAYERS = 8 };

typedef struct counts {
  int64_t parts[RANKS], most[RANKS]; /* bytes of the model between steps; the most at once in a step */
} counts;

static int64_t bytes_used(int rank) {
  situ_device_properties p;
  const situ_device device = { SITU_SIM, (uint16_t)rank };
  if (situ_synchronize(device) != SITU_OK || situ_device_info(device, &p) != SITU_OK) return -1;
  return (int64_t)p.memory_used;
}

typedef struct watch {
  int rank;
  int64_t most;
} watch;
static void look_at_memory(watch *w) {
  const int64_t now = bytes_used(w->rank);
  if (now > w->most) w->most = now;
}
static situ_status look_in_forward(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output;
  look_at_memory(payload);
  return SITU_OK;
}
static situ_tensor *look_in_backward(situ_tensor *grad, void *payload) {
  look_at_memory(payload);
  return grad;
}

/* Each Linear is a unit. Memory is looked at where a unit is whole: behind its forward, and when a gradient arrives. */
static void count_bytes(world_rank *self) {
  counts *t = self->payload;
  const int r = self->rank;
  const situ_device device = { SITU_SIM, (uint16_t)r };
  watch w = { .rank = r };
  situ_dist_ddp *ddp = NULL;
  situ_dist_zero *zero = NULL;
  situ_manual_seed(7);
  const int64_t begin = bytes_used(r);
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(WIDTH, WIDTH, NULL));
  for (int i = 1; i < LAYERS; i++) m = situ_nn_append(m, situ_nn_linear(WIDTH, WIDTH, NULL));
  MUST(situ_nn_to(m, device) == SITU_OK);
  MUST((ddp = situ_dist_ddp_new(m, self->comm, NULL)));
  for (int i = 0; i < LAYERS; i++) {
    char path[16];
    (void)snprintf(path, sizeof path, "%d", i);
    situ_nn_module *layer = situ_nn_get_submodule(m, path);
    MUST(situ_nn_register_forward_hook(layer, look_in_forward, &w, NULL) == SITU_OK);
    MUST(situ_register_hook(situ_nn_get_tensor(layer, "weight"), look_in_backward, &w) == SITU_OK);
  }
  MUST((zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_sgd, 1e-3, NULL)));
  t->parts[r] = bytes_used(r) - begin;
  for (int step = 0; step < 2; step++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *x = situ_ones(SITU_SHAPE(1, WIDTH), &(situ_options){ .device = device });
    const bool good = situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL) == SITU_OK;
    MUST(situ_scope_end(&s) == SITU_OK && good);
    MUST(situ_dist_zero_step(zero) == SITU_OK && situ_dist_zero_zero_grad(zero) == SITU_OK);
    MUST(bytes_used(r) - begin == t->parts[r]);
  }
  t->most[r] = w.most - begin;
out:
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
  situ_nn_free(m);
}

/* A rank has 1 / R of the parameters to an element of each, and in a step 1 / R of the gradients and two units more:
   the values of one, and its gradients. */
static void a_rank_has_its_part_and_one_unit(void **state) {
  (void)state;
  counts t = { 0 };
  world_rank ranks[WORLD_MOST];
  assert_int_equal(situ_sim_create(RANKS), SITU_OK);
  world_run(situ_comm_sim_new(RANKS, NULL), ranks, RANKS, count_bytes, &t, 60);
  const int64_t unit = 4 * WIDTH * (WIDTH + 1), model = LAYERS * unit;
  int64_t all = 0;
  for (int r = 0; r < RANKS; r++) {
    expect_rank_ok(&ranks[r]);
    all += t.parts[r];
    print_message("rank %d: %lld bytes of %lld, at most %lld in a step\n", r, (long long)t.parts[r], (long long)model,
                  (long long)t.most[r]);
    assert_true(t.parts[r] <= model / RANKS + 4);
    assert_true(t.most[r] > t.parts[r] + unit - 1);
    assert_true(t.most[r] <= 2 * t.parts[r] + 2 * unit);
  }
  assert_int_equal(all, model);
}

/* ---- failures ---- */

enum { STEPS = 3 };

typedef struct losing {
  const dist_kind *kind;
  situ_comm_sim_fault fault;
  int rank, size, steps;
  int64_t nth;         /* of its transfers; 0: none is lost */
  uint64_t allocation; /* in place of a rank: one that fails; 0: none */
  situ_nn_module *model[WORLD_MOST];
  situ_tree *parts[WORLD_MOST]; /* this rank's, after the last step that it has finished */
  int done[WORLD_MOST];
} losing;

static void lose_a_rank(world_rank *self) {
  losing *t = self->payload;
  situ_nn_module *m = at_home(t->model[self->rank]);
  situ_dist_zero *zero = NULL;
  const situ_dist_ddp_options options = { .micro_batches = MICRO_BATCHES, .bucket_bytes = 300 };
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &options);
  MUST(ddp && (zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_sgd, 0.1, NULL)));
  MUST(situ_comm_barrier(self->comm, "step 0 begins") == SITU_OK);
  if (self->rank == t->rank && t->nth) MUST(situ_comm_sim_fail(self->world, self->rank, t->fault, t->nth) == SITU_OK);
  if (self->rank == t->rank && t->allocation) situ_fail_allocation(t->allocation, false);
  for (int step = 0; step < t->steps; step++) {
    for (int64_t k = 0; k < situ_dist_ddp_micro_batches(ddp); k++)
      MUST(dist_micro_batch(t->kind, m, test_device(), step * MICRO_BATCHES + situ_dist_ddp_micro_batch(ddp)) ==
           SITU_OK);
    MUST(situ_dist_zero_step(zero) == SITU_OK && situ_dist_zero_zero_grad(zero) == SITU_OK);
    t->done[self->rank]++;
  }
out:
  if (zero) {
    const situ_optim *o = situ_dist_zero_optim(zero);
    t->parts[self->rank] = situ_tree_dict();
    for (int64_t i = 0; o && i < situ_optim_count(o); i++) {
      const char *name;
      situ_tensor *p = situ_optim_param(o, i, &name);
      t->parts[self->rank] = situ_tree_put(t->parts[self->rank], name, situ_tree_tensor(p));
    }
  }
  situ_dist_zero_free(zero);
  situ_dist_ddp_free(ddp);
}

static void run_losing(losing *t, world_rank *ranks) {
  for (int r = 0; r < t->size; r++) {
    t->model[r] = model_of(t->kind);
    t->parts[r] = NULL;
    t->done[r] = 0;
  }
  world_run(situ_comm_sim_new(t->size, NULL), ranks, t->size, lose_a_rank, t, t->fault == SITU_COMM_SIM_DIE ? 20 : 0.3);
  situ_fail_allocation(0, false);
}
static void end_losing(losing *t) {
  for (int r = 0; r < t->size; r++) {
    situ_tree_free(t->parts[r]);
    situ_nn_free(t->model[r]);
  }
}

/* A rank's parts are those of a training without losses that ends after the steps that it has finished. */
static void expect_parts(const losing *t, int rank) {
  losing want = { .kind = t->kind, .size = t->size, .steps = t->done[rank] };
  world_rank ranks[WORLD_MOST];
  run_losing(&want, ranks);
  for (int r = 0; r < t->size; r++) expect_rank_ok(&ranks[r]);
  expect_equal_trees(t->parts[rank], want.parts[rank], "parts of a lost step", t->size);
  end_losing(&want);
}

/* Wherever a rank is lost, the others end in time, name the step, and have the parts of a step that they finished. */
static void a_lost_rank_leaves_parts_as_before_the_step(void **state) {
  (void)state;
  int ended = 0;
  for (int drill = 0; drill < 24; drill++) {
    losing t = { .kind = &dist_kinds[drill % 2 ? 2 : 0],
                 .fault = drill % 4 == 3 ? SITU_COMM_SIM_STOP : SITU_COMM_SIM_DIE };
    world_rank ranks[WORLD_MOST];
    t.size = drill % 3 ? 2 : 4;
    t.steps = STEPS;
    t.rank = drill % t.size;
    t.nth = 1 + drill * 37 % 400;
    run_losing(&t, ranks);
    for (int r = 0; r < t.size; r++) {
      if (r == t.rank || ranks[r].status == SITU_OK) continue;
      ended++;
      if ((ranks[r].status != SITU_E_COMM && ranks[r].status != SITU_E_TIMEOUT) || !strstr(ranks[r].message, "step"))
        fail_msg("drill %d, rank %d: %s", drill, r, ranks[r].message);
      assert_true(t.done[r] < STEPS && t.parts[r]);
      expect_parts(&t, r);
    }
    end_losing(&t);
  }
  assert_true(ended >= 20);
}

/* Wherever memory ends, all ranks end, none with parts of half a step. */
static void a_rank_without_memory_leaves_parts_as_before_the_step(void **state) {
  (void)state;
  int ended = 0;
  for (int drill = 0; drill < 30; drill++) {
    losing t = { .kind = &dist_kinds[drill % 2 ? 2 : 0], .size = drill % 3 ? 2 : 4, .steps = STEPS };
    world_rank ranks[WORLD_MOST];
    t.rank = drill % t.size;
    t.allocation = 1 + (uint64_t)drill * 67 % 1500;
    run_losing(&t, ranks);
    for (int r = 0; r < t.size; r++) {
      if (ranks[r].status == SITU_OK) continue;
      ended++;
      if (ranks[r].status != SITU_E_COMM && ranks[r].status != SITU_E_NOMEM)
        fail_msg("drill %d, rank %d: %s", drill, r, ranks[r].message);
      if (t.parts[r]) expect_parts(&t, r);
    }
    end_losing(&t);
  }
  assert_true(ended >= 30);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(the_bits_of_one_optimiser),
    TEST(units_of_layers_and_frozen_and_tied_parameters),
    TEST(clipping),
    TEST(a_parameter_in_parts_is_refused_by_name),
    TEST(what_cannot_be_in_parts),
    TEST(memory_ends_while_it_is_made),
    TEST(a_graph_from_before_a_step_is_refused),
    TEST(a_rank_has_its_part_and_one_unit),
    TEST(a_lost_rank_leaves_parts_as_before_the_step),
    TEST(a_rank_without_memory_leaves_parts_as_before_the_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
