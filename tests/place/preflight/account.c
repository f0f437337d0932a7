/* The predicted peak of a run is what it needs: models, run and trained on sim:0, against the smallest budget with which the
   same run succeeds. SITU_TABLE=1 prints the table. */
/* test-devices: sim:0 */
#include <stdlib.h>

#include "device/block_cache.h"
#include "place/preflight/runs.h"
#include "situ/export.h"
#include "support/pairs.h"

/* The smallest budget is the most that is out: one byte less is refused. */
static uint64_t smallest_budget(situ_nn_module *m, const situ_tree *in, const struct mode *mode, const goal *g) {
  const situ__block_cache *cache = situ__block_cache_of(there());
  expect_ok(situ_empty_cache(there()));
  expect_ok(real_run(m, in, mode, g));
  const uint64_t most = cache->highest > cache->before ? cache->highest : cache->before;
  for (uint64_t less = 0; less < 2; less++) {
    expect_ok(situ_empty_cache(there()));
    expect_ok(situ_sim_budget(there().index, most - less));
    assert_int_equal(real_run(m, in, mode, g), less ? SITU_E_NOMEM : SITU_OK);
    situ_error_clear();
    situ_nn_zero_grad(m);
  }
  expect_ok(situ_sim_reset(there().index));
  return most;
}

/* map: by which the module comes; NULL: it is there, or will be made there. */
static uint64_t predicted_by(const char *map, situ_nn_module *m, const situ_tree *in, const struct mode *mode, goal *g,
                             int64_t *mistakes) {
  situ_scope scope;
  situ_place_report r;
  situ_optim *o = mode->make ? mode->make(situ_nn_parameters(m)) : NULL;
  if (o) situ_scope_begin(&scope);
  else situ_scope_begin_no_grad(&scope);
  const situ_place_check_options options = { .device = map ? (situ_device){ 0 } : there(),
                                             .map = map,
                                             .optims = &o,
                                             .optim_count = o != NULL,
                                             .loss = g->loss == SUM ? NULL : own_loss,
                                             .payload = g };
  expect_ok(situ_place_check(m, in, &options, &r));
  assert_true(r.finished);
  assert_int_equal(r.load_count, 1);
  const uint64_t peak = r.loads[0].peak;
  if (mistakes) *mistakes = r.mistakes;
  situ_place_report_free(&r);
  expect_ok(situ_scope_end(&scope));
  situ_optim_free(o);
  return peak;
}

static uint64_t predicted(situ_nn_module *m, const situ_tree *in, const struct mode *mode, goal *g, int64_t *mistakes) {
  return predicted_by(NULL, m, in, mode, g, mistakes);
}

/* Without SITU_TEST_ALL a model is run, and trained by one of the optimisers. */
static bool is_in_turn(const struct kind *k, const struct mode *mode) {
  return !mode->make || (k - kinds) % (MODES - 1) + 1 == mode - modes || getenv("SITU_TEST_ALL");
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void the_peak_is_the_smallest_budget(void **state) {
  (void)state;
  double ratio[KINDS * MODES];
  int count = 0;
  const bool table = getenv("SITU_TABLE") != NULL;
  if (table) print_message("%-22s %-10s %10s %10s  ratio\n", "", "", "predicted", "needed");
  for (const struct kind *k = kinds; k < kinds + KINDS; k++) {
    for (const struct mode *mode = modes; mode < modes + MODES; mode++) {
      if (!is_in_turn(k, mode)) continue;
      situ_scope scope;
      situ_scope_begin(&scope);
      situ_nn_module *m = k->make();
      expect_ok(situ_nn_to(m, there()));
      if (!mode->make) situ_nn_eval(m);
      situ_tree *in = SITU_TREE(input_of(k));
      goal g = { k->loss, k->tokens && mode->make ? input_of(k) : NULL };
      const uint64_t need = smallest_budget(m, in, mode, &g), guess = predicted(m, in, mode, &g, NULL);
      ratio[count] = (double)guess / (double)need;
      if (table)
        print_message("%-22s %-10s %10llu %10llu  %.4f\n", k->name, mode->name, (unsigned long long)guess,
                      (unsigned long long)need, ratio[count]);
      count++;
      situ_tree_free(in);
      situ_nn_free(m);
      expect_ok(situ_scope_end(&scope));
    }
  }
  qsort(ratio, (size_t)count, sizeof *ratio, by_size);
  if (table) print_message("from %.4f to %.4f, in the middle %.4f\n", ratio[0], ratio[count - 1], ratio[count / 2]);
  assert_true(ratio[0] >= 1);
  assert_true(ratio[count - 1] <= 1.05);
  assert_true(ratio[count / 2] <= 1.02);
}

typedef enum way { MADE, LOADED, MOVED, WAYS } way;

static situ_nn_module *made_on(const char *device, const struct kind *k, const struct mode *mode) {
  const situ_device before = situ_get_default_device();
  expect_ok(situ_set_default_device(situ_dev(device)));
  situ_nn_module *m = k->make();
  expect_ok(situ_set_default_device(before));
  return mode->make ? m : situ_nn_eval(m);
}

/* A model that was made on the device by its recipe, loaded there, or moved there from the host. */
static situ_nn_module *brought(way by, const struct kind *k, const struct mode *mode) {
  situ_nn_module *m = made_on(by == MOVED ? "cpu" : "meta", k, mode);
  if (by != LOADED) {
    expect_ok(situ_nn_to(m, there()));
    return m;
  }
  situ_nn_module *other = made_on("cpu", k, mode);
  situ_tree *state = situ_nn_state_dict(other);
  expect_ok(situ_nn_load_state_dict(m, state, &(situ_nn_load_options){ .device = there() }));
  situ_tree_free(state);
  situ_nn_free(other);
  return m;
}

/* The report of a model without memory, for each way in which it can get some. */
static void expect_known(const struct kind *k, const struct mode *mode) {
  const situ__block_cache *cache = situ__block_cache_of(there());
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *in = SITU_TREE(input_of(k));
  goal g = { k->loss, k->tokens && mode->make ? input_of(k) : NULL };
  situ_nn_module *seen = made_on("meta", k, mode);
  const uint64_t there_at_once = predicted(seen, in, mode, &g, NULL),
                 by_a_move = predicted_by("*=sim:0", seen, in, mode, &g, NULL);
  situ_nn_free(seen);
  for (way by = MADE; by < WAYS; by++) {
    situ_nn_module *m = brought(by, k, mode);
    expect_ok(situ_empty_cache(there()));
    expect_ok(real_run(m, in, mode, &g));
    const uint64_t most = cache->highest > cache->before ? cache->highest : cache->before,
                   said = by == MOVED ? by_a_move : there_at_once;
    if (said < most || (double)said > 1.05 * (double)most)
      fail_msg("%s, %s, way %d: %llu of %llu B", k->name, mode->name, (int)by, (unsigned long long)said,
               (unsigned long long)most);
    situ_nn_free(m);
  }
  situ_tree_free(in);
  expect_ok(situ_scope_end(&scope));
}

/* placement: K5 */
static void a_model_on_meta_is_known_however_it_gets_memory(void **state) {
  (void)state;
  for (const struct kind *k = kinds; k < kinds + KINDS; k++)
    for (const struct mode *mode = modes; mode < modes + MODES; mode++)
      if (is_in_turn(k, mode)) expect_known(k, mode);
}

/* A map that matches nothing, and one for which there is no memory, are mistakes of the program. */
static void a_map_that_cannot_be_is_found(void **state) {
  (void)state;
  static const situ_place_problem problem[] = { SITU_PLACE_OTHER, SITU_PLACE_MEMORY };
  static const char *const map[] = { "nothing=sim:0", "*=sim:0" }, *const words[] = { "matches no", "are free" };
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = mlp();
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(64, 256), NULL));
  expect_ok(situ_sim_budget(there().index, 1000));
  for (int i = 0; i < 2; i++) {
    situ_place_report r;
    expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .map = map[i] }, &r));
    assert_int_equal(r.mistakes, 1);
    assert_int_equal(r.findings[0].problem, problem[i]);
    if (!strstr(r.findings[0].text, words[i])) fail_msg("%s", r.findings[0].text);
    situ_place_report_free(&r);
  }
  expect_ok(situ_sim_reset(there().index));
  situ_tree_free(in);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

/* Of every optimiser, on matrices, which Muon wants. */
#define OF(name) \
  static situ_optim *name(situ_tree *p) { return situ_optim_##name(p, .001, NULL); }
OF(adamw)
OF(adagrad)
OF(adadelta)
OF(adamax)
OF(nadam)
OF(radam)
OF(rprop)
OF(asgd)
OF(lion)
OF(adafactor)
OF(muon)
#undef OF
static situ_optim *master(situ_tree *p) {
  situ_optim_options o = situ_optim_adam_defaults();
  o.master_weights = true;
  return situ_optim_adam(p, .001, &o);
}
static void all_optimisers_are_counted(void **state) {
  (void)state;
  const struct mode all[] = { { "AdamW", adamw },   { "Adagrad", adagrad },     { "Adadelta", adadelta },
                              { "Adamax", adamax }, { "NAdam", nadam },         { "RAdam", radam },
                              { "Rprop", rprop },   { "ASGD", asgd },           { "Lion", lion },
                              { "Muon", muon },     { "Adafactor", adafactor }, { "Adam with f32 copies", master } };
  const situ_nn_linear_options plain = { .no_bias = true };
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_nn_module *m = SEQ(situ_nn_linear(64, 100, &plain), situ_nn_relu(), situ_nn_linear(100, 30, &plain));
    const situ_options o = { .device = there(), .dtype = all[k].make == master ? SITU_BF16 : SITU_F32 };
    expect_ok(situ_nn_to_with(m, &(situ_nn_to_options){ .device = o.device, .dtype = o.dtype }));
    situ_tree *in = SITU_TREE(situ_randn(SITU_SHAPE(16, 64), &o));
    goal g = { SUM, NULL };
    const uint64_t need = smallest_budget(m, in, &all[k], &g);
    if (predicted(m, in, &all[k], &g, NULL) != need) fail_msg("%s", all[k].name);
    situ_tree_free(in);
    situ_nn_free(m);
    expect_ok(situ_scope_end(&scope));
  }
}

typedef struct spread {
  situ_nn_module base;
  situ_nn_module *first, *last;
} spread;
static situ_tensor *spread_forward(situ_nn_module *self, situ_tensor *x) {
  spread *m = (spread *)self;
  return situ_nn_forward(m->last, situ_to(situ_nn_forward(m->first, x), test_device_at(1)));
}
static const situ_nn_type spread_type = { .name = "Spread", .size = sizeof(spread), .forward = spread_forward };

static void both_devices_of_a_spread_model_are_counted(void **state) {
  (void)state;
  for (const struct mode *mode = modes + 1; mode < modes + MODES; mode++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    spread *m = situ_nn_alloc(&spread_type);
    situ_nn_child(m, first, SEQ(LIN(100, 200), situ_nn_relu(), LIN(200, 150)));
    situ_nn_child(m, last, SEQ(situ_nn_layer_norm(SITU_SHAPE(150), NULL), LIN(150, 60), situ_nn_tanh(), LIN(60, 20)));
    assert_non_null(situ_nn_done(m));
    for (int i = 0; i < 2; i++) expect_ok(situ_nn_to(i ? m->last : m->first, test_device_at(i)));
    situ_tree *in = SITU_TREE(situ_randn(SITU_SHAPE(64, 100), &(situ_options){ .device = there() }));
    goal g = { SUM, NULL };
    for (int i = 0; i < 2; i++) expect_ok(situ_empty_cache(test_device_at(i)));
    expect_ok(real_run(&m->base, in, mode, &g));
    situ_optim *o = mode->make(situ_nn_parameters(&m->base));
    situ_place_report r;
    expect_ok(situ_place_check(&m->base, in, &(situ_place_check_options){ .optims = &o, .optim_count = 1 }, &r));
    assert_int_equal(r.load_count, 2);
    for (int i = 0; i < 2; i++) {
      const situ__block_cache *cache = situ__block_cache_of(r.loads[i].device);
      assert_int_equal(r.loads[i].peak, cache->highest > cache->before ? cache->highest : cache->before);
    }
    situ_place_report_free(&r);
    situ_optim_free(o);
    situ_tree_free(in);
    situ_nn_free(&m->base);
    expect_ok(situ_scope_end(&scope));
  }
}

/* Inputs of a program, of 0; sizes that it leaves open are 3. */
static situ_tree *zeros_for(const situ_nn_module *program, situ_device device) {
  situ_tree *in = situ_tree_list();
  situ_export_input x;
  for (int64_t i = 0; situ_export_input_at(program, i, &x); i++) {
    situ_shape shape = { .ndim = x.ndim };
    for (int d = 0; d < x.ndim; d++) shape.dim[d] = x.size[d].size >= 0 ? x.size[d].size : 3;
    in = situ_tree_append(in,
                          situ_tree_tensor(situ_zeros(shape, &(situ_options){ .dtype = x.dtype, .device = device })));
  }
  return in;
}

/* As `situ plan` does: the weights are not read. */
static void a_program_is_known_before_it_is_loaded(void **state) {
  (void)state;
  static const char *const files[] = { "mlp.pt2",       "cnn.pt2",        "lstm.pt2",        "gru.pt2", "tiny-bert.pt2",
                                       "tiny-gpt2.pt2", "tiny-llama.pt2", "tiny-resnet.pt2", "mlp.onnx" };
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
    char path[4096];
    situ_scope scope;
    situ_scope_begin(&scope);
    (void)snprintf(path, sizeof path, "%s/program/data/%s", getenv("SITU_TEST_ROOT"), files[k]);
    situ_nn_module *seen =
        situ_nn_eval(situ_export_load(path, &(situ_load_options){ .device = situ_dev("meta"), .map = true }));
    situ_tree *shapes = zeros_for(seen, situ_dev("meta")), *in = zeros_for(seen, there());
    goal g = { SUM, NULL };
    for (int moved = 0; moved < 2; moved++) {
      const situ_device first = moved ? situ_dev("cpu") : there();
      situ_nn_module *m = situ_nn_eval(situ_export_load(path, &(situ_load_options){ .device = first }));
      expect_ok(situ_nn_to(m, there()));
      const uint64_t need = smallest_budget(m, in, &modes[0], &g),
                     guess = predicted_by(moved ? "*=sim:0" : NULL, seen, shapes, &modes[0], &g, NULL);
      if (guess < need || (double)guess > 1.05 * (double)need)
        fail_msg("%s, %d: %g", files[k], moved, (double)guess / (double)need);
      situ_nn_free(m);
    }
    situ_tree_free(shapes);
    situ_tree_free(in);
    situ_nn_free(seen);
    expect_ok(situ_scope_end(&scope));
  }
}

/* A device of the predicted peak is enough, of a byte less is not; also beside tensors of others, and for a run whose states
   and gradients are there already. */
static void a_run_that_fits_is_told_from_one_that_does_not(void **state) {
  (void)state;
  const struct mode *mode = &modes[3];
  const struct kind *k = &kinds[0];
  goal g = { SUM, NULL };
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = k->make();
  expect_ok(situ_nn_to(m, there()));
  situ_tree *in = SITU_TREE(input_of(k));
  for (int others = 0; others < 2; others++) {
    if (others) assert_non_null(situ_zeros(SITU_SHAPE(100000), &(situ_options){ .device = there() }));
    const uint64_t peak = predicted(m, in, mode, &g, NULL) + (others ? situ__memory_block(400000) : 0);
    for (uint64_t less = 0; less < 2; less++) {
      int64_t mistakes;
      expect_ok(situ_sim_budget(there().index, peak - less));
      (void)predicted(m, in, mode, &g, &mistakes);
      assert_int_equal(mistakes, less);
    }
    expect_ok(situ_sim_reset(there().index));
  }
  situ_tree_free(in);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

/* Where it is full, and what is largest there. */
static void a_full_device_is_described(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = mlp();
  expect_ok(situ_nn_to(m, there()));
  situ_tree *in = SITU_TREE(input_of(&kinds[0]));
  situ_place_report r;
  for (int training = 0; training < 2; training++) {
    expect_ok(situ_sim_budget(there().index, training ? 5000000 : 1950000));
    situ_optim *o = training ? adam(situ_nn_parameters(m)) : NULL;
    expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .optims = &o, .optim_count = training }, &r));
    assert_int_equal(r.mistakes, 1);
    const char *wanted = training
                             ? "\nit is full behind forward; largest then: tensor (1.0 MiB), gradient (1.0 MiB)"
                             : "\nit is full in 2; largest then: 2.weight (1.0 MiB), 0.weight (512.0 KiB), made in 2 "
                               "(128.0 KiB)";
    const char *moment = training ? "0.weight.exp_avg (512.0 KiB)" : "";
    if (!strstr(r.findings[0].text, wanted) || !strstr(r.findings[0].text, moment)) fail_msg("%s", r.findings[0].text);
    situ_place_report_free(&r);
    situ_optim_free(o);
  }
  expect_ok(situ_sim_reset(there().index));
  situ_tree_free(in);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

/* What exists of a run is not needed once more: states between steps, and gradients too between batches that add up. */
static void a_run_in_the_middle_of_training_fits_where_it_runs(void **state) {
  (void)state;
  for (int batches = 0; batches < 2; batches++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_nn_module *m = mlp();
    expect_ok(situ_nn_to(m, there()));
    situ_tree *in = SITU_TREE(input_of(&kinds[0]));
    situ_optim *o = adam(situ_nn_parameters(m));
    const goal g = { SUM, NULL };
    expect_ok(step(m, in, o, &g));
    situ_scope own;
    situ_scope_begin(&own);
    if (batches) expect_ok(situ_backward(situ_sum(situ_nn_forward(m, situ_tree_tensor_at(in, 0)), NULL), NULL));
    expect_ok(situ_scope_end(&own));
    const uint64_t need = predicted(m, in, &modes[3], &(goal){ SUM, NULL }, NULL);
    for (uint64_t less = 0; less < 2; less++) {
      situ_place_report r;
      expect_ok(situ_sim_budget(there().index, need - less));
      expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .optims = &o, .optim_count = 1 }, &r));
      assert_int_equal(r.mistakes, less);
      assert_int_equal(r.loads[0].peak, need);
      situ_place_report_free(&r);
    }
    expect_ok(situ_empty_cache(there()));
    expect_ok(situ_sim_budget(there().index, need));
    expect_ok(step(m, in, o, &g));
    const situ__block_cache *cache = situ__block_cache_of(there());
    assert_int_equal(cache->highest > cache->before ? cache->highest : cache->before, need);
    expect_ok(situ_sim_reset(there().index));
    situ_tree_free(in);
    situ_optim_free(o);
    situ_nn_free(m);
    expect_ok(situ_scope_end(&scope));
  }
}

static void a_wrong_loss_is_found(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = words();
  expect_ok(situ_nn_to(m, there()));
  situ_tree *in = SITU_TREE(situ_zeros(SITU_SHAPE(6, 30), &(situ_options){ .dtype = SITU_I64, .device = there() }));
  goal g = { ENTROPY, situ_zeros(SITU_SHAPE(6, 30), &(situ_options){ .dtype = SITU_I64, .device = here() }) };
  situ_place_report r;
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .loss = own_loss, .payload = &g }, &r));
  assert_int_equal(r.mistakes, 1);
  assert_int_equal(r.findings[0].problem, SITU_PLACE_DEVICE);
  assert_string_equal(r.findings[0].op, "cross_entropy");
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

static void a_peak_without_steps_is_said(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = tiny();
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 16), NULL));
  situ_optim *o = situ_optim_lbfgs(situ_nn_parameters(m), 1, NULL);
  situ_place_report r;
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .optims = &o, .optim_count = 1 }, &r));
  assert_int_equal(r.mistakes, 0);
  assert_int_equal(r.finding_count, 1);
  assert_int_equal(r.findings[0].problem, SITU_PLACE_MEMORY);
  assert_non_null(strstr(r.findings[0].text, "the peak is without steps of optimisers"));
  situ_place_report_free(&r);
  situ_optim_free(o);
  situ_tree_free(in);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

static void optimisers_are_checked(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = tiny();
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 16), NULL));
  situ_optim *none = NULL;
  assert_int_equal(situ_place_check(m, in, &(situ_place_check_options){ .optim_count = 1 }, NULL), SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(situ_place_check(m, in, &(situ_place_check_options){ .optims = &none, .optim_count = 1 }, NULL),
                   SITU_E_ARG);
  situ_error_clear();
  situ_tree_free(in);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(the_peak_is_the_smallest_budget),
    PAIR_TEST(a_model_on_meta_is_known_however_it_gets_memory),
    PAIR_TEST(a_map_that_cannot_be_is_found),
    PAIR_TEST(all_optimisers_are_counted),
    PAIR_TEST(both_devices_of_a_spread_model_are_counted),
    PAIR_TEST(a_program_is_known_before_it_is_loaded),
    PAIR_TEST(a_run_that_fits_is_told_from_one_that_does_not),
    PAIR_TEST(a_full_device_is_described),
    PAIR_TEST(a_run_in_the_middle_of_training_fits_where_it_runs),
    PAIR_TEST(a_wrong_loss_is_found),
    PAIR_TEST(a_peak_without_steps_is_said),
    PAIR_TEST(optimisers_are_checked),
  };
  return cmocka_run_group_tests_name("place/preflight/account", tests, NULL, NULL);
}
