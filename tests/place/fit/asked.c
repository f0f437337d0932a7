/* What a map is asked for: parts that stay whole, the host as the last device, models on meta, more layers than units; what
   is said of a model that does not fit; seconds. */
/* test-devices: sim:0 */
#include "base/clock.h"
#include "place/preflight/models.h"
#include "situ/optim.h"
#include "situ/policy.h"
#include "support/pairs.h"

static situ_device sim(int index) { return (situ_device){ SITU_SIM, (uint16_t)index }; }

static situ_tree *input(int64_t rows, int64_t columns, situ_device device) {
  return SITU_TREE(situ_randn(SITU_SHAPE(rows, columns), &(situ_options){ .device = device }));
}

static situ_place_layout fitted(situ_nn_module *m, const situ_tree *in, const situ_place_limit *limits, int64_t count,
                                const situ_place_fit_options *options) {
  situ_place_layout l;
  expect_ok(situ_place_fit(m, in, limits, count, options, &l));
  return l;
}

static uint64_t peak_on(const situ_place_layout *l, situ_device device) {
  for (int64_t i = 0; i < l->check.load_count; i++)
    if (situ_device_equal(l->check.loads[i].device, device)) return l->check.loads[i].peak;
  return 0;
}

static void free_all(situ_nn_module *m, situ_tree *in, situ_place_layout *l) {
  situ_place_layout_free(l);
  situ_tree_free(in);
  situ_nn_free(m);
}

/* By its path, or all of a type; tensors that share memory are one without being asked. */
static void what_is_to_stay_whole_does(void **state) {
  (void)state;
  static const char *const whole[] = { "1", "Sequential" };
  for (int k = 0; k < 3; k++) {
    situ_nn_module *m = situ_nn_eval(SEQ(LIN(32, 64), SEQ(LIN(64, 64), LIN(64, 64)), LIN(64, 8)));
    situ_tree *in = input(2, 32, sim(0));
    const situ_place_fit_options o = { .whole = &whole[k == 2], .whole_count = k > 0 };
    const situ_place_limit limits[] = { { sim(0), 33000 }, { sim(1), 40000 } };
    situ_place_layout l;
    const situ_status status = situ_place_fit(m, in, limits, 2, &o, &l);
    if (k == 0) assert_string_equal(l.map, "0=sim:0, 1.0=sim:0, 1.1=sim:1, 2=sim:1");
    if (k == 1) assert_string_equal(l.map, "0=sim:0, 1=sim:1, 2=sim:1");
    if (k == 2) {
      assert_int_equal(status, SITU_E_NOMEM); /* the whole model is one */
      assert_non_null(strstr(situ_error_message(), "a part that stays whole has"));
      situ_error_clear();
    }
    free_all(m, in, &l);
  }
}

/* The input is on the host, which is listed last: it takes what the others do not have. */
static void the_host_takes_the_rest(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_eval(mlp());
  situ_tree *in = input(4, 256, situ_dev("cpu"));
  const situ_place_limit limits[] = { { sim(0), 600000 }, { situ_dev("cpu"), 0 } };
  situ_place_layout l = fitted(m, in, limits, 2, NULL);
  assert_string_equal(l.map, "*=cpu"); /* nothing is copied */
  situ_place_layout_free(&l);
  const situ_place_limit small[] = { { sim(0), 600000 }, { situ_dev("cpu"), 1500000 } };
  l = fitted(m, in, small, 2, NULL);
  assert_string_equal(l.map, "0=sim:0, 2=cpu, 4=cpu");
  assert_int_equal(l.bytes, 4 * 256 * 4 + 4 * 512 * 4);
  assert_true(peak_on(&l, sim(0)) <= 600000 && peak_on(&l, situ_dev("cpu")) <= 1500000);
  free_all(m, in, &l);
}

/* A model that has no memory yet is fitted as the one that it will be. */
static void a_model_on_meta_is_fitted(void **state) {
  (void)state;
  const situ_place_limit limits[] = { { sim(0), 1000000 }, { sim(1), 1500000 } };
  situ_place_layout l[2];
  for (int meta = 0; meta < 2; meta++) {
    situ_nn_module *m = situ_nn_eval(mlp());
    situ_tree *in = input(4, 256, meta ? situ_dev("meta") : sim(0));
    if (meta) expect_ok(situ_nn_to(m, situ_dev("meta")));
    l[meta] = fitted(m, in, limits, 2, NULL);
    situ_tree_free(in);
    situ_nn_free(m);
  }
  assert_string_equal(l[0].map, l[1].map);
  for (int i = 0; i < 2; i++) assert_int_equal(peak_on(&l[0], sim(i)), peak_on(&l[1], sim(i)));
  for (int i = 0; i < 2; i++) situ_place_layout_free(&l[i]);
}

/* Layers are joined to at most 64 parts; what is found copies one activation. */
static void many_layers_are_joined(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_eval(SEQ(LIN(32, 32)));
  for (int i = 1; i < 300; i++) assert_non_null(situ_nn_append(m, LIN(32, 32)));
  situ_tree *in = input(8, 32, sim(0));
  const situ_place_limit limits[] = { { sim(0), 900000 }, { sim(1), 900000 } };
  situ_place_layout l = fitted(m, in, limits, 2, NULL);
  assert_int_equal(l.bytes, 8 * 32 * 4);
  assert_true(peak_on(&l, sim(0)) <= 900000 && peak_on(&l, sim(1)) <= 900000);
  expect_ok(situ_nn_to_map(m, l.map));
  free_all(m, in, &l);
}

/* States and gradients that exist move along, and are counted. */
static void a_model_in_training_is_fitted(void **state) {
  (void)state;
  situ_nn_module *m = mlp();
  situ_tree *in = input(16, 256, situ_dev("cpu"));
  situ_optim *o = situ_optim_adam(situ_nn_parameters(m), .001, NULL);
  const situ_place_fit_options training = { .run = { .optims = &o, .optim_count = 1 } };
  situ_setting before;
  uint64_t peak[2][2];
  for (int step = 0; step < 2; step++) {
    const situ_place_limit limits[] = { { sim(0), 5000000 }, { sim(1), 3500000 } };
    situ_place_layout l = fitted(m, in, limits, 2, &training);
    for (int i = 0; i < 2; i++) peak[step][i] = peak_on(&l, sim(i));
    situ_place_layout_free(&l);
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY,
                                              .device_to_host = SITU_POLICY_COPY,
                                              .device_to_device = SITU_POLICY_COPY });
    expect_ok(situ_backward(situ_sum(situ_nn_forward(m, situ_tree_tensor_at(in, 0)), NULL), NULL));
    expect_ok(situ_optim_step(o));
    expect_ok(situ_optim_zero_grad(o, true));
    situ_policy_end(&before);
    expect_ok(situ_scope_end(&scope));
  }
  assert_memory_equal(peak[0], peak[1], sizeof peak[0]);
  situ_optim_free(o);
  situ_tree_free(in);
  situ_nn_free(m);
}

static void expect_refusal(situ_nn_module *m, const situ_tree *in, const situ_place_limit *limits, int64_t count,
                           const situ_place_fit_options *options, situ_status status, const char *words) {
  situ_place_layout l;
  assert_int_equal(situ_place_fit(m, in, limits, count, options, &l), status);
  if (!strstr(situ_error_message(), words)) fail_msg("%s", situ_error_message());
  assert_null(l.map);
  situ_error_clear();
}

static void a_refusal_says_what_lacks(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_eval(mlp());
  situ_tree *in = input(4, 256, sim(0)), *wrong = input(4, 255, sim(0));
  const situ_place_limit limits[] = { { sim(0), 600000 }, { sim(1), 1000000 } },
                         twice[] = { { sim(0), 0 }, { sim(0), 0 } }, meta = { situ_dev("meta"), 0 },
                         wide[] = { { sim(0), 1000000 }, { sim(1), 1000000 } },
                         near[] = { { sim(0), 1060000 }, { sim(1), 600000 } };
  const char *const none[] = { "layers" };
  expect_refusal(
      m, in, limits, 1, NULL, SITU_E_NOMEM,
      "parameters and buffers have 1597480 B, the devices 600000 B: 997480 B are lacking\n  largest: 2.weight "
      "(1.0 MiB), 0.weight (512.0 KiB), 4.weight (20.0 KiB)");
  expect_refusal(m, in, wide, 2, NULL, SITU_E_NOMEM,
                 "a part that stays whole has 1050624 B, no device more than 1000000 B: 50624 B are lacking");
  expect_refusal(m, in, near, 2, NULL, SITU_E_NOMEM, "the nearest lacks ");
  expect_refusal(m, in, near, 2, NULL, SITU_E_NOMEM, "it is full in 2; largest then: 2.weight (1.0 MiB)");
  expect_refusal(m, in, twice, 2, NULL, SITU_E_ARG, "sim:0 again");
  expect_refusal(m, in, &meta, 1, NULL, SITU_E_ARG, "limits[0].device is meta");
  expect_refusal(m, in, limits, 0, NULL, SITU_E_ARG, "give 1 to 64 devices");
  expect_refusal(m, in, limits, 2, &(situ_place_fit_options){ .run.map = "*=sim:0" }, SITU_E_ARG, "options.run.map");
  expect_refusal(m, in, limits, 2, &(situ_place_fit_options){ .whole = none, .whole_count = 1 }, SITU_E_ARG,
                 "\"layers\" is neither");
  expect_refusal(m, wrong, limits, 2, NULL, SITU_E_STATE, "255");
  situ_tree_free(wrong);
  situ_tree_free(in);
  situ_nn_free(m);
}

/* Without memory of the host it is an error, and nothing has changed. */
static void a_failed_allocation_is_an_error(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_eval(SEQ(LIN(32, 64), situ_nn_relu(), LIN(64, 64)));
  situ_tree *in = input(2, 32, sim(0));
  const situ_place_limit limits[] = { { sim(0), 14000 }, { sim(1), 20000 } };
  situ_status status = SITU_E_NOMEM;
  int failed = 0;
  for (uint64_t n = 1; status != SITU_OK; n += 1 + n / 16, failed++) {
    situ_place_layout l;
    situ_fail_allocation(n, false);
    status = situ_place_fit(m, in, limits, 2, NULL, &l);
    situ_fail_allocation(0, false);
    if (status != SITU_OK) assert_int_equal(status, SITU_E_NOMEM);
    else assert_string_equal(l.map, "0=sim:0, 2=sim:1");
    situ_error_clear();
    situ_place_layout_free(&l);
  }
  assert_true(failed > 20);
  expect_on(situ_nn_get_tensor(m, "2.weight"), situ_dev("cpu"));
  situ_tree_free(in);
  situ_nn_free(m);
}

/* ---- seconds ---- */

/* placement: F10 */
static void seconds_are_measured_once(void **state) {
  (void)state;
  situ_nn_module *small = LIN(16, 16), *large = LIN(1024, 2048);
  situ_ledger ledger;
  double few = -1, many = -1, again = -1, none = -1, back = -1;
  const situ_nn_to_options there = { .device = sim(0) }, stays = { .device = situ_dev("cpu") };
  expect_ok(situ_place_plan_seconds(small, &there, &few));
  expect_ok(situ_place_plan_seconds(large, &there, &many));
  situ_ledger_begin_none(&ledger);
  expect_ok(situ_place_plan_seconds(large, &there, &again));
  expect_ok(situ_place_plan_seconds(large, &stays, &none));
  expect_ok(situ_ledger_end(&ledger));
  assert_true(few > 0 && many > few && many == again && none == 0);
  expect_on(situ_nn_get_tensor(large, "weight"), situ_dev("cpu"));
  expect_ok(situ_nn_to(large, sim(0)));
  expect_ok(situ_place_plan_seconds(large, &stays, &back));
  assert_true(back > 0);
  situ_tree *in = input(2, 1024, situ_dev("cpu"));
  const situ_place_limit limit = { sim(0), 0 };
  situ_place_layout l = fitted(large, in, &limit, 1, NULL);
  double seconds = -1;
  expect_ok(situ_place_layout_seconds(&l, &seconds));
  assert_true(l.bytes == 2 * 1024 * 4 && seconds > 0 && seconds < many);
  situ_nn_free(small);
  free_all(large, in, &l);
}

/* The estimate of a large copy is of the time that it takes. Other work on the machine may delay either. */
static void the_estimate_is_near(void **state) {
  (void)state;
  situ_nn_module *m = LIN(2048, 4096);
  double best = 1e9, said = -1;
  expect_ok(situ_place_plan_seconds(m, &(situ_nn_to_options){ .device = sim(1) }, &said));
  for (int i = 0; i < 5; i++) {
    const double before = situ__seconds();
    expect_ok(situ_nn_to(m, sim(1)));
    const double took = situ__seconds() - before;
    if (took < best) best = took;
    expect_ok(situ_nn_to(m, situ_dev("cpu")));
  }
  print_message("a move of 32 MiB: %.4f s, estimated %.4f s\n", best, said);
  assert_true(said < 50 * best && best < 50 * said);
  situ_nn_free(m);
}

static int begin(void **state) {
  const int failed = pair_begin(state);
  return failed | (situ_sim_create(2) != SITU_OK);
}
#define FIT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, pair_end)

int main(void) {
  const struct CMUnitTest tests[] = {
    FIT_TEST(what_is_to_stay_whole_does),      FIT_TEST(the_host_takes_the_rest),
    FIT_TEST(a_model_on_meta_is_fitted),       FIT_TEST(many_layers_are_joined),
    FIT_TEST(a_model_in_training_is_fitted),   FIT_TEST(a_refusal_says_what_lacks),
    FIT_TEST(seconds_are_measured_once),       FIT_TEST(the_estimate_is_near),
    FIT_TEST(a_failed_allocation_is_an_error),
  };
  return cmocka_run_group_tests_name("place/fit/asked", tests, NULL, NULL);
}
