/* A module that changes after it was wrapped: every kind of change, on one and two ranks, by ddp and each stage of ZeRO,
   beside the same by one process without a wrapper. Either all weights are the same, or a call is refused with the name
   of what has changed.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <math.h>

#include "distributed/comm/comm.h"
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/dist.h"
#include "situ/situ.h"
#include "support/optim.h"

enum { MICRO_BATCHES = 4, ROWS = 4, WIDTH = 8, BEFORE = 2, BEHIND = 3 };

/* Layers 0, 2 and 4 are Linear; 2 is frozen, 4 has weight_norm. */
static situ_nn_module *make_net(void) {
  situ_nn_module *parts[] = { situ_nn_linear(WIDTH, WIDTH, NULL), situ_nn_tanh(), situ_nn_linear(WIDTH, WIDTH, NULL),
                              situ_nn_tanh(), situ_nn_linear(WIDTH, WIDTH, NULL) };
  situ_nn_module *net = situ_nn_sequential_of(5, parts);
  SITU_IGNORE(!situ_nn_requires_grad_(situ_nn_at(net, 2), false) ||
              !situ_nn_utils_weight_norm(situ_nn_at(net, 4), NULL, 0));
  return net;
}

/* ---- changes; what is new has other values on each rank ---- */

typedef bool change_function(situ_nn_module *net);

static bool nothing(situ_nn_module *net) { return net != NULL; }
static bool freeze(situ_nn_module *net) { return situ_nn_requires_grad_(situ_nn_at(net, 0), false) != NULL; }
static bool unfreeze(situ_nn_module *net) { return situ_nn_requires_grad_(situ_nn_at(net, 2), true) != NULL; }
static bool freeze_and_unfreeze(situ_nn_module *net) { return freeze(net) && unfreeze(net); }
static bool replace_tensor(situ_nn_module *net) {
  return situ_nn_add_tensor(situ_nn_at(net, 0), "bias", NULL, situ_rand(SITU_SHAPE(WIDTH), NULL), SITU_NN_PARAMETER);
}
static bool replace_child(situ_nn_module *net) {
  return situ_nn_add_child(net, "0", NULL, situ_nn_linear(WIDTH, WIDTH, NULL)) != NULL;
}
static bool append(situ_nn_module *net) { return situ_nn_append(net, situ_nn_linear(WIDTH, WIDTH, NULL)) != NULL; }
static bool append_buffers(situ_nn_module *net) {
  return situ_nn_append(net, situ_nn_batch_norm1d(WIDTH, NULL)) != NULL;
}
static bool add_unused(situ_nn_module *net) {
  return situ_nn_add_tensor(net, "extra", NULL, situ_rand(SITU_SHAPE(3), NULL), SITU_NN_PARAMETER) != NULL;
}
static bool remove_parameter(situ_nn_module *net) {
  return situ_nn_utils_remove_parametrizations(situ_nn_at(net, 4), "weight", true) != NULL;
}
static bool lora(situ_nn_module *net) {
  const char *const targets[] = { "2" };
  return situ_nn_lora_add(net, targets, 1, OPTIONS_AT(situ_nn_lora, with.r = 2)) == SITU_OK;
}
static bool weight_norm(situ_nn_module *net) { return situ_nn_utils_weight_norm(situ_nn_at(net, 0), NULL, 0) != NULL; }
static bool cast(situ_nn_module *net) { return situ_nn_to_dtype(net, SITU_F64) == SITU_OK; }
static bool move(situ_nn_module *net) { return situ_nn_to(net, situ_dev("sim:0")) == SITU_OK; }
static bool tie(situ_nn_module *net) {
  return situ_nn_add_tensor(net, "0.weight", NULL, situ_nn_get_tensor(net, "2.weight"), SITU_NN_PARAMETER) != NULL;
}

static const struct change {
  const char *name;
  change_function *make;
  const char *named; /* a part of the names that a refusal may give, besides "0."; NULL: it is not refused */
} changes[] = { { "nothing", nothing, NULL },
                { "freeze", freeze, "-" },
                { "unfreeze", unfreeze, "2." },
                { "freeze and unfreeze", freeze_and_unfreeze, "2." },
                { "replace a tensor", replace_tensor, "bias" },
                { "replace a child", replace_child, "0." },
                { "append", append, "5." },
                { "append with buffers", append_buffers, "5." },
                { "add an unused tensor", add_unused, "extra" },
                { "remove a parametrization", remove_parameter, "4." },
                { "LoRA", lora, "2." },
                { "weight_norm", weight_norm, "0." },
                { "cast", cast, "parameter" },
                { "move", move, NULL },
                { "tie", tie, "0." } };

/* ---- training ---- */

typedef enum wrapper { NONE, DDP, ZERO1, ZERO2, ZERO3, WRAPPERS } wrapper;
static const char *const wrapper_names[WRAPPERS] = { "none", "ddp", "stage 1", "stage 2", "stage 3" };

typedef struct trial {
  const struct change *change;
  wrapper wrapper;
  bool anew;     /* optimisers are made anew behind the change */
  bool whole;    /* stage 3: behind situ_dist_zero_unshard */
  bool midway;   /* the change comes in the middle of a step */
  bool one_rank; /* rank 0 alone changes its module */
  bool parts;    /* behind the change the layers are called one by one */
  bool norm;     /* the net ends with a batch norm, which has buffers */
} trial;

typedef struct run {
  const trial *t;
  situ_nn_module *net;
  situ_optim *optim;
  situ_dist_ddp *ddp;
  situ_dist_zero *zero;
} run;

static bool make_optimiser(run *r, situ_comm *comm) {
  const situ_optim_options *o = OPTIM_MOMENTUM(0.5);
  static const char *const units[] = { "4" }; /* its parametrization uses its weight */
  const situ_dist_zero3_options unit = { .units = units, .unit_count = 1 };
  situ_tree *all = situ_nn_parameters(r->net);
  switch (r->t->wrapper) {
  case ZERO1: return (r->zero = situ_dist_zero_new(all, comm, situ_optim_sgd, 0.1, o)) != NULL;
  case ZERO2: return (r->zero = situ_dist_zero2_new(all, r->ddp, situ_optim_sgd, 0.1, o)) != NULL;
  case ZERO3: return (r->zero = situ_dist_zero3_new(all, r->ddp, &unit, situ_optim_sgd, 0.1, o)) != NULL;
  default: return (r->optim = situ_optim_sgd(all, 0.1, o)) != NULL;
  }
}
static void free_optimiser(run *r) {
  if (r->zero) SITU_IGNORE(situ_dist_zero_unshard(r->zero));
  situ_dist_zero_free(r->zero);
  situ_optim_free(r->optim);
  r->zero = NULL;
  r->optim = NULL;
}

static situ_tensor *run_forward(const run *r, situ_tensor *x, bool parts) {
  for (int64_t i = 0; parts && i < situ_nn_len(r->net); i++) x = situ_nn_forward(situ_nn_at(r->net, i), x);
  return parts ? x : situ_nn_forward(r->net, x);
}

static bool micro_batch(const run *r, int64_t number) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_generator g = situ_generator_seeded(1000 + (uint64_t)number);
  const situ_tensor *like = situ_nn_get_tensor(r->net, "4.bias");
  situ_tensor *x = situ_randn(SITU_SHAPE(ROWS, WIDTH), &(situ_options){ .generator = &g });
  x = situ_to(situ_to_dtype(x, situ_dtype_of(like)), situ_device_of(like));
  situ_tensor *loss = situ_mean(situ_square(run_forward(r, x, r->t->parts && number >= BEFORE * MICRO_BATCHES)), NULL);
  if (!r->ddp) loss = situ_div_scalar(loss, MICRO_BATCHES);
  const bool good = situ_backward(loss, NULL) == SITU_OK;
  return situ_scope_end(&s) == SITU_OK && good;
}

/* Ranks are threads, and draw from one generator. */
static pthread_mutex_t drawing = PTHREAD_MUTEX_INITIALIZER;

static bool change_net(run *r, int rank) {
  if (r->t->one_rank && rank) return true;
  if (r->t->whole && r->zero && situ_dist_zero_unshard(r->zero) != SITU_OK) return false;
  pthread_mutex_lock(&drawing);
  situ_manual_seed(50 + (uint64_t)rank);
  const bool good = r->t->change->make(r->net);
  pthread_mutex_unlock(&drawing);
  return good;
}

static bool take_step(run *r, int step, int rank) {
  const int64_t count = r->ddp ? situ_dist_ddp_micro_batches(r->ddp) : MICRO_BATCHES;
  for (int64_t k = 0; k < count; k++) {
    const int64_t number = r->ddp ? situ_dist_ddp_micro_batch(r->ddp) : k;
    if (r->t->midway && step == BEFORE && k == count / 2 && !change_net(r, rank)) return false;
    if (!micro_batch(r, step * MICRO_BATCHES + number)) return false;
  }
  if (r->zero) return situ_dist_zero_step(r->zero) == SITU_OK && situ_dist_zero_zero_grad(r->zero) == SITU_OK;
  return situ_optim_step(r->optim) == SITU_OK && situ_optim_zero_grad(r->optim, true) == SITU_OK;
}

static bool train(run *r, situ_comm *comm, int rank) {
  for (int step = 0; step < BEFORE; step++)
    if (!take_step(r, step, rank)) return false;
  if (!r->t->midway && !change_net(r, rank)) return false;
  if (r->t->anew) {
    free_optimiser(r);
    if (!make_optimiser(r, comm)) return false;
  }
  for (int step = BEFORE; step < BEFORE + BEHIND; step++)
    if (!take_step(r, step, rank)) return false;
  return !r->zero || situ_dist_zero_unshard(r->zero) == SITU_OK;
}

/* All parameters and buffers after it, in f64; buffers of batch norm are averaged by ddp alone. */
typedef struct result {
  double v[1024];
  int64_t count;
} result;
static situ_status add_values(const situ_nn_visit *at, void *payload) {
  result *to = payload;
  test_read(situ_to_dtype(situ_to(situ_detach(at->tensor), situ_dev("cpu")), SITU_F64), to->v + to->count);
  to->count += situ_numel(at->tensor);
  return to->count < 1024 ? SITU_OK : SITU_E_LIMIT;
}

static const trial *trial_now;
static result results[WORLD_MOST];

static void one_rank(world_rank *self) {
  run r = { .t = trial_now };
  pthread_mutex_lock(&drawing);
  situ_manual_seed(7 + (uint64_t)self->rank);
  r.net = make_net();
  pthread_mutex_unlock(&drawing);
  MUST(r.net && (!trial_now->norm || append_buffers(r.net)));
  if (trial_now->wrapper != NONE)
    MUST(r.ddp = situ_dist_ddp_new(r.net, self->comm, &(situ_dist_ddp_options){ .micro_batches = MICRO_BATCHES }));
  MUST(make_optimiser(&r, self->comm) && train(&r, self->comm, self->rank));
  if (r.ddp) MUST(situ_dist_ddp_check(r.ddp) == SITU_OK);
  results[self->rank].count = 0;
  MUST(situ_nn_walk(r.net, SITU_NN_PARAMETER | SITU_NN_VISIT_ONCE, add_values, &results[self->rank]) == SITU_OK);
out:
  if (situ_error() != SITU_OK) situ_comm_abort(self->comm, situ_error_message());
  situ_dist_zero_free(r.zero);
  situ_optim_free(r.optim);
  situ_dist_ddp_free(r.ddp);
  situ_nn_free(r.net);
}

static void run_trial(const trial *t, int size, world_rank *ranks) {
  trial_now = t;
  world_run(situ_comm_sim_new(size, NULL), ranks, size, one_rank, NULL, 20);
}

/* Whether an error names what has changed, or comes from a rank whose own does. */
static bool is_named(const char *message, const struct change *c) {
  return c->named && (strstr(message, c->named) || strstr(message, "0."));
}

static void expect_as_without(const trial *t, int size, const world_rank *reference, const result *want) {
  world_rank ranks[WORLD_MOST];
  char what[160];
  (void)snprintf(what, sizeof what, "%s, %s%s%s%s, %d ranks", t->change->name, wrapper_names[t->wrapper],
                 t->anew ? ", anew" : "", t->whole ? ", whole" : "", t->midway ? ", midway" : "", size);
  run_trial(t, size, ranks);
  for (int r = 0; r < size; r++) {
    if (ranks[r].status != SITU_OK) {
      if (t->wrapper == DDP && t->anew && !t->midway) fail_msg("%s: not taken over: %s", what, ranks[r].message);
      if (!is_named(ranks[r].message, t->change)) fail_msg("%s: refused without a name: %s", what, ranks[r].message);
      continue;
    }
    if (reference->status != SITU_OK) fail_msg("%s: alone it is refused: %s", what, reference->message);
    assert_int_equal(results[r].count, want->count);
    for (int64_t i = 0; i < want->count; i++)
      if (!(fabs(results[r].v[i] - want->v[i]) <= 2e-5 * (1 + fabs(want->v[i]))))
        fail_msg("%s: element %d is %.9g on rank %d, alone %.9g", what, (int)i, results[r].v[i], r, want->v[i]);
  }
}

/* placement: G6, I5 */
static void every_change_of_a_wrapped_module(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  for (size_t c = 0; c < sizeof changes / sizeof *changes; c++)
    for (int how = 0; how < 4; how++) {
      world_rank reference;
      result want;
      trial t = { .change = &changes[c], .anew = how & 1, .midway = how & 2 };
      run_trial(&t, 1, &reference);
      want = results[0];
      for (int w = DDP; w < WRAPPERS; w++)
        for (int size = 1; size <= (t.midway ? 1 : 2); size++) /* ranks have other micro-batches before the middle */
          for (int whole = 0; whole <= (w == ZERO3); whole++) {
            t.wrapper = (wrapper)w;
            t.whole = whole;
            expect_as_without(&t, size, &reference, &want);
          }
    }
}

/* Of all ranks, and of one alone: sums, buffers' values and states go along. */
/* placement: G6, I5 */
static void a_move_in_the_middle_of_a_step(void **state) {
  (void)state;
  world_rank reference;
  const struct change *c = changes;
  while (c->make != move) c++;
  for (int norm = 0; norm < 2; norm++) {
    trial t = { .change = c, .midway = true, .norm = norm };
    run_trial(&t, 1, &reference);
    const result want = results[0];
    for (int w = DDP; w < WRAPPERS; w++)
      for (int alone = 0; alone < 2; alone++) {
        t.wrapper = (wrapper)w;
        t.one_rank = alone;
        expect_as_without(&t, 2, &reference, &want);
      }
  }
}

/* The ranks' modules differ: all of them hear it, with the name or the number that differs. */
static void a_change_of_one_rank_alone(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
    world_rank ranks[WORLD_MOST];
    const trial t = { .change = &changes[c], .wrapper = DDP, .anew = true, .one_rank = true };
    if (!changes[c].named || changes[c].make == freeze) continue; /* the other rank has a gradient */
    run_trial(&t, 2, ranks);
    for (int r = 0; r < 2; r++)
      if (ranks[r].status == SITU_OK) fail_msg("%s on rank 0 alone: rank %d has not heard of it", changes[c].name, r);
  }
}

/* Without a forward of the module itself ddp notices at the end of the backward. */
static void a_change_without_a_forward(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
    world_rank rank;
    const trial t = { .change = &changes[c], .wrapper = DDP, .anew = true, .parts = true };
    const bool same = !changes[c].named || changes[c].make == freeze;
    if (changes[c].make == lora) continue; /* nothing that ddp knows takes part in that backward */
    run_trial(&t, 1, &rank);
    if (same) expect_rank_ok(&rank);
    else if (!strstr(rank.message, "and ddp does not know") || !is_named(rank.message, t.change))
      fail_msg("%s: %s", changes[c].name, rank.message);
  }
}

static void *enter(void *comm) { return situ__alone_begin(&((situ_comm *)comm)->alone, "test", "it"); }

/* Refused without harm: what could not begin has changed nothing, and the communicator goes on. */
static void a_change_that_must_wait(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *comm = situ_comm_sim_rank(world, 0, NULL);
  situ_nn_module *net = make_net();
  situ_tensor *x = situ_ones(SITU_SHAPE(ROWS, WIDTH), NULL);
  situ_dist_ddp *ddp = situ_dist_ddp_new(net, comm, &(situ_dist_ddp_options){ .micro_batches = MICRO_BATCHES });
  assert_true(ddp && append_buffers(net));

  pthread_t thread;
  void *in;
  assert_int_equal(pthread_create(&thread, NULL, enter, comm), 0);
  assert_int_equal(pthread_join(thread, &in), 0);
  expect_refused(situ_nn_forward(net, x), SITU_E_STATE, "nn_forward", "is busy");
  situ__alone_end(&(situ__alone *){ in });
  assert_int_equal(situ_comm_barrier(comm, "behind it"), SITU_OK);

  assert_non_null(situ_nn_forward(net, x)); /* a micro-batch has begun, and knows its buffers */
  assert_true(freeze(net));
  expect_refused(situ_dist_zero2_new(situ_nn_parameters(net), ddp, situ_optim_sgd, 1e-3, NULL), SITU_E_STATE,
                 "dist_zero2_new", "in the middle of a step");
  situ_dist_ddp_free(ddp);
  situ_nn_free(net);
  situ_comm_free(comm);
  situ_comm_sim_free(world);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_change_of_a_wrapped_module), TEST(a_move_in_the_middle_of_a_step),
                                      TEST(a_change_of_one_rank_alone), TEST(a_change_without_a_forward),
                                      TEST(a_change_that_must_wait) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
