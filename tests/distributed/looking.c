/* Looking changes nothing: in the middle of a step, every call that only looks at a module leaves all that can be asked
   of it as it was, and the training the bits of one without the look, whatever the ranks do with the module.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include "distributed/looks.h"

#include "distributed/must.h"
#include "distributed/training.h"
#include "support/api/api.h"
#include "support/optim.h"

enum { STEPS = 2, WIDE = 16, ROWS = 4 };

typedef enum wrapper {
  BARE,
  DDP,
  ZERO1,
  ZERO2,
  ZERO3,
  TENSOR_PARALLEL,
  ATTENTION_PARALLEL,
  SYNC_BN,
  PIPELINE,
  WRAPPERS
} wrapper;
static const char *const wrapper_names[] = { "no wrapper", "ddp",           "ZeRO-1",        "ZeRO-2",    "ZeRO-3",
                                             "a tp",       "a tp of heads", "SyncBatchNorm", "a pipeline" };

/* Trainings of all ranks. */
typedef struct watch {
  wrapper kind;
  int keeper;
  uint64_t seed;        /* of ddp */
  const look_row *look; /* NULL: none */
  int only;             /* the rank that looks; -1: all do */
  situ_comm_sim *second;
  situ_nn_module *model[WORLD_MOST];
  char problem[WORLD_MOST][640];
  int64_t taken[WORLD_MOST], refused[WORLD_MOST];
} watch;

/* What a rank has. */
typedef struct training_rank {
  watch *w;
  world_rank *self;
  scene scene;
  watched watched;
  situ_comm *other; /* a second communicator, for layers */
  situ_dist_zero *zero;
  situ_dist_tp *tp;
  situ_dist_pipeline *pipeline;
  int64_t number; /* micro-batches so far */
  bool in_look;
} training_rank;

/* ---- models and wrappers ---- */

/* On one rank draws come in one order. */
static situ_nn_module *make_model(const watch *w, int rank, int size) {
  situ_nn_module *keeper = make_keeper(w->keeper), *m;
  if (w->kind == ATTENTION_PARALLEL) {
    const situ_nn_transformer_options o =
        OPTIONS_OF(situ_nn_transformer, with.dim_feedforward = 16, with.batch_first = true, with.dropout = 0);
    return situ_nn_sequential(situ_nn_transformer_encoder_layer(8, size > 2 ? 4 : 2, &o), keeper,
                              situ_nn_flatten(1, -1), situ_nn_linear(40, 3, NULL));
  }
  if (w->kind == PIPELINE && rank)
    return situ_nn_sequential(keeper, situ_nn_tanh(), situ_nn_linear(WIDE, rank == size - 1 ? 3 : WIDE, NULL));
  m = situ_nn_sequential(situ_nn_linear(6, WIDE, NULL), situ_nn_batch_norm1d(WIDE, NULL), keeper,
                         size == 1 ? situ_nn_dropout(0.5) : situ_nn_identity());
  return w->kind == PIPELINE && size > 1 ? m : situ_nn_append(m, situ_nn_linear(WIDE, 3, NULL));
}

static bool is_zero(wrapper kind) { return kind == ZERO1 || kind == ZERO2 || kind == ZERO3; }

static bool divide(training_rank *t) {
  static const situ_dist_parallel layers[] = { { "0", SITU_DIST_COLWISE, true }, { "4", SITU_DIST_ROWWISE, true } };
  static const situ_dist_parallel heads[] = { { "0.self_attn", SITU_DIST_HEADWISE, false } };
  if (t->w->kind == TENSOR_PARALLEL) t->tp = situ_dist_tp_new(t->scene.model, t->self->comm, layers, 2);
  else t->tp = situ_dist_tp_new(t->scene.model, t->self->comm, heads, 1);
  return t->tp;
}

static bool wrap(training_rank *t) {
  const situ_optim_options *momentum = OPTIM_MOMENTUM(0.9);
  const wrapper kind = t->w->kind;
  situ_nn_module *m = t->scene.model;
  if (kind == SYNC_BN && !situ_nn_convert_sync_batchnorm(m, t->other)) return false;
  if (kind == TENSOR_PARALLEL || kind == ATTENTION_PARALLEL) {
    if (!divide(t)) return false;
  } else if (kind != BARE && kind != PIPELINE) {
    const situ_dist_ddp_options o = { .micro_batches = t->self->size > 2 ? 8 : MICRO_BATCHES, .seed = t->w->seed };
    if (!(t->watched.ddp = situ_dist_ddp_new(m, t->self->comm, &o))) return false;
  }
  if (is_zero(kind)) {
    situ_tree *parameters = situ_nn_parameters(m);
    t->zero = kind == ZERO1   ? situ_dist_zero_new(parameters, t->self->comm, situ_optim_sgd, 0.1, momentum)
              : kind == ZERO2 ? situ_dist_zero2_new(parameters, t->watched.ddp, situ_optim_sgd, 0.1, momentum)
                              : situ_dist_zero3_new(parameters, t->watched.ddp, NULL, situ_optim_sgd, 0.1, momentum);
    t->watched.optim = t->zero ? situ_dist_zero_optim(t->zero) : NULL;
  } else {
    t->watched.optim = situ_optim_sgd(situ_nn_parameters(m), 0.1, momentum);
  }
  t->scene.optim = t->watched.optim;
  return t->watched.optim;
}

static void unwrap(training_rank *t) {
  if (t->zero) SITU_IGNORE(situ_dist_zero_unshard(t->zero));
  if (t->zero) situ_dist_zero_free(t->zero);
  else situ_optim_free(t->watched.optim);
  situ_dist_ddp_free(t->watched.ddp);
  situ_dist_tp_free(t->tp);
  situ_dist_pipeline_free(t->pipeline);
}

/* ---- looks ---- */

static void note(training_rank *t, const char *when, const char *what) {
  char *problem = t->w->problem[t->self->rank];
  if (!*problem) (void)snprintf(problem, sizeof t->w->problem[0], "%s, %s: %s", t->w->look->calls, when, what);
}

/* What is in parts, and a type without .copy, cannot be copied. */
static bool may_refuse(const training_rank *t) {
  return t->w->look->run == look_clone && (t->w->kind == ZERO3 || t->w->keeper == KEEPER_ALONE);
}

/* A part of a divided layer computes with those of the other ranks, in a copy too. */
static bool is_collective(const watch *w) {
  const bool divided = w->kind == TENSOR_PARALLEL || w->kind == ATTENTION_PARALLEL || w->kind == SYNC_BN;
  return w->look->collective || (w->look->run == look_clone && divided);
}

static void take_look(training_rank *t, const char *when) {
  const look_row *look = t->w->look;
  if (!look || t->in_look || (t->w->only >= 0 && t->w->only != t->self->rank)) return; /* hooks run in a check, too */
  t->in_look = true;
  const bool quiet = is_collective(t->w);
  char *before = describe(&t->watched, quiet), difference[480];
  if (!before) note(t, when, situ_error_message());
  else if (look->run(&t->scene) == SITU_OK) t->w->taken[t->self->rank]++;
  else if (may_refuse(t)) t->w->refused[t->self->rank]++;
  else note(t, when, situ_error_message());
  situ_error_clear();
  char *after = before ? describe(&t->watched, quiet) : NULL;
  if (before && !after) note(t, when, situ_error_message());
  if (after && strcmp(before, after) != 0) {
    first_difference(before, after, difference, sizeof difference);
    note(t, when, difference);
  }
  situ_error_clear();
  free(before);
  free(after);
  t->in_look = false;
}

/* The program's own hook. */
static situ_status look_in_forward(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output;
  take_look(payload, "in forward");
  return SITU_OK;
}

/* ---- training ---- */

static situ_shape input_shape(const watch *w, int rank) {
  if (w->kind == ATTENTION_PARALLEL) return SITU_SHAPE(ROWS, 5, 8);
  return SITU_SHAPE(ROWS, w->kind == PIPELINE && rank ? WIDE : 6);
}

static situ_tensor *data(situ_shape shape, int64_t number) {
  situ_generator g = situ_generator_seeded(900 + (uint64_t)number);
  return situ_to(situ_randn(shape, &(situ_options){ .generator = &g }), test_device());
}

static situ_tensor *mean_square(situ_tensor *output, situ_tensor *target, void *payload) {
  (void)target, (void)payload;
  return situ_mean(situ_square(output), NULL);
}

static situ_status run_micro_batch(training_rank *t) {
  situ_scope s;
  situ_scope_begin(&s);
  take_look(t, "before forward");
  /* Not looked at by support/checked.h: a look in its hook may be refused. */
  situ_tensor *y = (situ_nn_forward)(t->scene.model, data(input_shape(t->w, 0), t->number * 2 + t->self->rank));
  if (y) take_look(t, "before backward");
  const situ_status status = situ_backward(mean_square(y, NULL, NULL), NULL);
  if (status == SITU_OK) take_look(t, "behind backward");
  t->number++;
  const situ_status ended = situ_scope_end(&s);
  return status == SITU_OK ? ended : status;
}

static situ_status run_step(training_rank *t) {
  const int64_t count = t->watched.ddp ? situ_dist_ddp_micro_batches(t->watched.ddp) : 2;
  if (t->pipeline) {
    situ_tensor *x = t->self->rank ? NULL : data(SITU_SHAPE(ROWS * MICRO_BATCHES, 6), t->number++);
    SITU_TRY((situ_dist_pipeline_step)(t->pipeline, x, NULL, NULL));
  }
  for (int64_t k = 0; k < count && !t->pipeline; k++) SITU_TRY(run_micro_batch(t));
  take_look(t, "before the step");
  SITU_TRY(t->zero ? situ_dist_zero_step(t->zero) : situ_optim_step(t->watched.optim));
  take_look(t, "behind the step");
  return t->zero ? situ_dist_zero_zero_grad(t->zero) : situ_optim_zero_grad(t->watched.optim, true);
}

static void run_training(world_rank *self) {
  watch *w = self->payload;
  training_rank t = { .w = w, .self = self };
  t.scene = (scene){ .model = w->model[self->rank], .comm = self->comm, .keeper = w->keeper };
  (void)snprintf(t.scene.file, sizeof t.scene.file, "look_%d", self->rank);
  t.watched = (watched){ .model = t.scene.model, .world = self->world, .rank = self->rank };
  t.other = situ_comm_sim_rank(w->second, self->rank, NULL);
  t.scene.inputs = SITU_TREE(data(input_shape(w, self->rank), 1 << 20));
  int64_t hook;
  MUST(t.other && t.scene.inputs && wrap(&t));
  MUST(situ_nn_register_forward_hook(t.scene.model, look_in_forward, &t, &hook) == SITU_OK);
  if (w->kind == PIPELINE)
    MUST(t.pipeline = situ_dist_pipeline_new(
             t.scene.model, self->comm,
             &(situ_dist_pipeline_options){ .micro_batches = MICRO_BATCHES, .loss = mean_square }));
  for (int i = 0; i < STEPS; i++) MUST(run_step(&t) == SITU_OK);
  situ_nn_remove_hook(t.scene.model, hook);
out:
  unwrap(&t);
  situ_tree_free(t.scene.inputs);
  situ_comm_free(t.other);
  (void)remove(t.scene.file);
}

/* Trains, and writes the bits of all ranks. */
static void train(watch *w, int size, bits *end) {
  world_rank ranks[WORLD_MOST];
  char what[128];
  for (int r = 0; r < size; r++) {
    situ_manual_seed(40);
    assert_non_null(w->model[r] = make_model(w, r, size));
    assert_int_equal(situ_nn_to(w->model[r], test_device()), SITU_OK);
  }
  situ_manual_seed(41);
  w->second = situ_comm_sim_new(size, NULL);
  world_run(situ_comm_sim_new(size, NULL), ranks, size, run_training, w, 20);
  situ_comm_sim_free(w->second);
  (void)snprintf(what, sizeof what, "%s, keeper %d, %d ranks", wrapper_names[w->kind], w->keeper, size);
  for (int r = 0; r < size; r++) {
    if (*w->problem[r]) fail_msg("%s: rank %d: %s", what, r, w->problem[r]);
    if (ranks[r].status != SITU_OK) fail_msg("%s, %s: %s", what, w->look ? w->look->calls : "", ranks[r].message);
    end[r] = bits_of(w->model[r]);
    SITU_IGNORE(situ_nn_apply(w->model[r], empty_keeper, NULL));
    situ_nn_free(w->model[r]);
  }
}

/* All kinds of keepers have all looks that run them, by two ranks on the cpu; else one kind of three, and each second
   look where they are slow, but with SITU_TEST_ALL. */
static bool is_in_turn(wrapper kind, int size, int look, int keeper) {
  const int turn = look + (int)kind;
  if (size == 2 && looks[look].runs && test_device().kind == SITU_CPU) return true;
  return (turn % KEEPERS == keeper && test_takes((size_t)(turn / KEEPERS), 2)) || getenv("SITU_TEST_ALL");
}

/* Every look at the wrapper. */
static void look_at(wrapper kind, int size, uint64_t seed) {
  for (int keeper = 0; keeper < KEEPERS; keeper++) {
    bits want[WORLD_MOST] = { { 0 } }, got[WORLD_MOST] = { { 0 } };
    watch plain = { .kind = kind, .keeper = keeper, .seed = seed };
    train(&plain, size, want);
    for (int i = 0; i < LOOKS; i++) {
      watch w = { .kind = kind, .keeper = keeper, .seed = seed, .look = &looks[i] };
      if (!is_in_turn(kind, size, i, keeper)) continue;
      if (kind == PIPELINE && looks[i].collective && size > 1) continue; /* stages run their hooks at other times */
      w.only = is_collective(&w) ? -1 : (i + keeper) % (size + 1) - 1;
      train(&w, size, got);
      for (int r = 0; r < size; r++) {
        if (!(w.taken[r] + w.refused[r]) && (w.only < 0 || w.only == r))
          fail_msg("%s: %s looked at nothing", wrapper_names[kind], looks[i].calls);
        expect_bits(got[r], want[r], looks[i].calls, size);
        free(got[r].data);
      }
    }
    for (int r = 0; r < size; r++) free(want[r].data);
  }
}

/* placement: D10, J9 */
static void looks_of_one_rank(void **state) {
  (void)state;
  for (wrapper kind = 0; kind < WRAPPERS; kind++) look_at(kind, 1, 0);
  look_at(DDP, 1, 5);
}

/* placement: D10, J9 */
static void looks_of_two_ranks(void **state) {
  (void)state;
  for (wrapper kind = 0; kind < WRAPPERS; kind++) look_at(kind, 2, 0);
}

/* placement: D10, J9 */
static void looks_of_four_ranks(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU && !getenv("SITU_TEST_ALL")) skip(); /* two ranks look there */
  for (wrapper kind = DDP; kind < WRAPPERS; kind++) look_at(kind, 4, 0);
}

/* ---- no look is missing ---- */

/* Whether the function is one of situ/place.h or situ/dist/place.h, by its name or by what it takes or returns. */
static bool is_of_placement(const api_function *f) {
  static const char *const begins[] = { "situ_place_", "situ_snapshot_", "situ_lint_", "situ_to_would_" };
  static const char *const types[] = { "situ_place_", "situ_snapshot", "situ_nn_to_options" };
  bool is = strcmp(f->name, "situ_explain") == 0 || strcmp(f->name, "situ_explain_to_string") == 0;
  for (size_t k = 0; k < sizeof begins / sizeof *begins; k++)
    is = is || strncmp(f->name, begins[k], strlen(begins[k])) == 0;
  for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
    is = is || strstr(f->returns, types[k]);
    for (int i = 0; i < f->count; i++) is = is || strstr(f->parameter[i].type, types[k]);
  }
  return is && strcmp(f->name, "situ_nn_to_with") != 0 && strcmp(f->name, "situ_dist_to") != 0; /* they move */
}

static bool is_among(const char *calls, const char *name) {
  const char *at = strstr(calls, name);
  const size_t length = strlen(name);
  while (at && at[length] && at[length] != ' ') at = strstr(at + 1, name);
  return at;
}

/* placement: J9 */
static void every_look_is_tried(void **state) {
  (void)state;
  const api_function *f;
  const size_t count = api_functions_list(&f);
  int found = 0;
  for (size_t i = 0; i < count; i++) {
    bool tried = false;
    if (!is_of_placement(&f[i])) continue;
    for (int k = 0; k < LOOKS; k++) tried = tried || is_among(looks[k].calls, f[i].name);
    if (!tried) fail_msg("%s is not among the looks of tests/distributed/looks.h", f[i].name);
    found++;
  }
  assert_true(found >= 40);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(looks_of_one_rank), TEST(looks_of_two_ranks), TEST(looks_of_four_ranks),
                                      TEST(every_look_is_tried) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
