/* The gradient scaler: what it multiplies and divides, which steps it leaves out, how the scale changes, what is refused.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "situ/amp.h"
#include "situ/ledger.h"
#include "situ/sys/alloc.h"
#include "support/optim.h"
#include "support/test.h"

static situ_tensor *leaf(double a, double b) { return situ_requires_grad_(T32(SITU_SHAPE(2), a, b), true); }
static void give(situ_tensor *p, double a, double b) {
  assert_int_equal(situ_set_grad(p, test_tensor(situ_dtype_of(p), SITU_SHAPE(2), (const double[]){ a, b })), SITU_OK);
}
static situ_optim *sgd(situ_tensor *p, double lr) {
  situ_optim *o = situ_optim_sgd(situ_tree_put(situ_tree_dict(), "p", situ_tree_tensor(p)), lr, NULL);
  assert_non_null(o);
  return o;
}
static situ_grad_scaler *scaler(double scale) {
  situ_grad_scaler *s = optim_scaler(scale, 2);
  assert_non_null(s);
  assert_non_null(situ_grad_scaler_scale(s, T32(SITU_SHAPE(1), 1))); /* gradients are given below, scaled */
  return s;
}
static void is_step(situ_grad_scaler *s, situ_optim *o, bool want) {
  bool stepped = !want;
  if (situ_grad_scaler_step(s, o, &stepped) != SITU_OK) fail_msg("%s", situ_error_message());
  assert_int_equal(stepped, want);
}
static void update(situ_grad_scaler *s, double want) {
  assert_int_equal(situ_grad_scaler_update(s, 0), SITU_OK);
  assert_true(situ_grad_scaler_get_scale(s) == want);
}

static void defaults_are_torchs(void **state) {
  (void)state;
  situ_grad_scaler *s = situ_grad_scaler_new(NULL);
  assert_true(situ_grad_scaler_get_scale(s) == 65536 && situ_grad_scaler_is_enabled(s));
  situ_tree *dict = situ_grad_scaler_state_dict(s);
  static const struct {
    const char *key;
    double value;
  } row[] = { { "scale", 65536 },
              { "growth_factor", 2 },
              { "backoff_factor", 0.5 },
              { "growth_interval", 2000 },
              { "_growth_tracker", 0 } };
  assert_int_equal(situ_tree_count(dict), 5);
  for (int i = 0; i < 5; i++) {
    double value = NAN;
    assert_int_equal(situ_item(situ_tree_get(dict, row[i].key), &value), SITU_OK);
    assert_true(value == row[i].value);
  }
  situ_tree_free(dict);
  situ_grad_scaler_free(s);
  situ_grad_scaler_free(NULL);
}

static void a_loss_is_scaled_and_gradients_come_back(void **state) {
  (void)state;
  situ_grad_scaler *s = scaler(1024);
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = sgd(p, 0.5);
  situ_tensor *half = situ_to_dtype(situ_sum(p, NULL), SITU_F16), *loss = situ_grad_scaler_scale(s, half);
  assert_int_equal(situ_dtype_of(loss), SITU_F32); /* 3 * 65536 would be no f16 */
  assert_int_equal(situ_backward(loss, NULL), SITU_OK);
  expect_exact(situ_grad(p), SITU_SHAPE(2), 1024, 1024);
  is_step(s, o, true); /* divides on the way */
  expect_exact(situ_detach(p), SITU_SHAPE(2), 0.5, 1.5);
  expect_exact(situ_grad(p), SITU_SHAPE(2), 1024, 1024);
  update(s, 1024);
  assert_int_equal(situ_grad_scaler_unscale_(s, o), SITU_OK); /* to clip them, say */
  expect_exact(situ_grad(p), SITU_SHAPE(2), 1, 1);
  is_step(s, o, true); /* does not divide again */
  expect_exact(situ_detach(p), SITU_SHAPE(2), 0, 1);
  update(s, 2048);
  assert_null(situ_grad_scaler_scale(s, NULL));
  situ_error_clear();
  situ_optim_free(o);
  situ_grad_scaler_free(s);
}

static void infinite_gradients_leave_a_step_out(void **state) {
  (void)state;
  static const double bad[] = { INFINITY, -INFINITY, NAN };
  for (int i = 0; i < 6; i++) {
    situ_grad_scaler *s = scaler(8);
    situ_tensor *p = leaf(1, 2);
    situ_optim *o = sgd(p, 0.5);
    give(p, 8, bad[i % 3]);
    if (i >= 3) assert_int_equal(situ_grad_scaler_unscale_(s, o), SITU_OK);
    is_step(s, o, false);
    expect_exact(situ_detach(p), SITU_SHAPE(2), 1, 2);
    update(s, 4);
    give(p, 4, 4);
    is_step(s, o, true);
    update(s, 4);
    expect_exact(situ_detach(p), SITU_SHAPE(2), 0.5, 1.5);
    give(p, 4, bad[i % 3]); /* counting good steps begins again */
    is_step(s, o, false);
    update(s, 2);
    for (int good = 0; good < 2; good++) {
      give(p, 2, 2);
      is_step(s, o, true);
      update(s, good ? 4 : 2);
    }
    situ_optim_free(o);
    situ_grad_scaler_free(s);
  }
}

/* One optimiser may step while another's step is left out; one bad gradient shrinks the scale. */
static void optimisers_are_looked_at_each_for_itself(void **state) {
  (void)state;
  situ_grad_scaler *s = scaler(8);
  situ_tensor *a = leaf(1, 2), *b = leaf(1, 2);
  situ_optim *one = sgd(a, 1), *two = sgd(b, 1);
  give(a, 8, 8);
  give(b, 8, INFINITY);
  is_step(s, one, true);
  is_step(s, two, false);
  situ_optim_free(two); /* the scaler holds it until the update */
  update(s, 4);
  expect_exact(situ_detach(a), SITU_SHAPE(2), 0, 1);
  situ_optim_free(one);
  situ_grad_scaler_free(s);
}

static void many_optimisers_have_one_scaler(void **state) {
  (void)state;
  enum { MANY = 70 };
  situ_grad_scaler *s = scaler(8);
  situ_tensor *p[MANY];
  situ_optim *o[MANY];
  for (int k = 0; k < MANY; k++) {
    p[k] = leaf(1, 2);
    o[k] = sgd(p[k], 1);
    give(p[k], 8, k % 3 ? 8 : INFINITY);
    assert_int_equal(situ_grad_scaler_unscale_(s, o[k]), SITU_OK);
  }
  for (int k = 0; k < MANY; k++) is_step(s, o[k], k % 3);
  update(s, 4);
  for (int k = 0; k < MANY; k++) {
    expect_exact(situ_detach(p[k]), SITU_SHAPE(2), k % 3 ? 0 : 1, k % 3 ? 1 : 2);
    situ_optim_free(o[k]);
  }
  situ_grad_scaler_free(s);
}

/* f64 parameters, and a device of their own for some: one value is read from each device. */
static void one_value_is_read_from_each_device(void **state) {
  (void)state;
  situ_grad_scaler *s = scaler(2);
  situ_tree *list = situ_tree_list();
  situ_tensor *p[6];
  for (int i = 0; i < 6; i++) {
    const situ_options where = { .device = i < 4 ? test_device() : situ_dev("sim:1"),
                                 .dtype = i == 5 ? SITU_F16 : SITU_F32 };
    p[i] = situ_requires_grad_(situ_ones(SITU_SHAPE(2), &where), true);
    assert_int_equal(situ_set_grad(p[i], situ_ones(SITU_SHAPE(2), &where)), SITU_OK);
    list = situ_tree_append(list, situ_tree_tensor(p[i]));
  }
  situ_optim *o = situ_optim_sgd(list, 2, NULL);
  situ_ledger l;
  situ_ledger_begin(&l);
  is_step(s, o, true);
  const situ_transfers reads = situ_ledger_sum(&l, SITU_DEVICE_TO_HOST);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  assert_int_equal(reads.count, test_device().kind == SITU_CPU ? 1 : 2);
  expect_exact(situ_detach(p[0]), SITU_SHAPE(2), 0, 0);
  assert_int_equal(situ_grad_scaler_update(s, 0), SITU_OK);
  situ_optim_free(o);
  situ_grad_scaler_free(s);
}

/* Gradients of the loss itself would be divided by 65536. A state that is loaded scales no loss either. */
static void a_loss_must_be_scaled(void **state) {
  (void)state;
  situ_grad_scaler *s = situ_grad_scaler_new(NULL);
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = sgd(p, 1);
  situ_tree *saved = situ_grad_scaler_state_dict(s);
  give(p, 65536, 131072);
  for (int loaded = 0; loaded < 2; loaded++) {
    bool stepped = true;
    assert_int_equal(situ_grad_scaler_step(s, o, &stepped), SITU_E_STATE);
    expect_error(SITU_E_STATE, "grad_scaler_step", "would divide gradients by 65536");
    assert_false(stepped);
    assert_int_equal(situ_grad_scaler_unscale_(s, o), SITU_E_STATE);
    expect_error(SITU_E_STATE, "grad_scaler_unscale_", "situ_grad_scaler_scale(scaler, loss)");
    assert_int_equal(situ_grad_scaler_update(s, 0), SITU_E_STATE);
    expect_error(SITU_E_STATE, "grad_scaler_update", "no gradients were looked at");
    expect_values(situ_detach(p), SITU_SHAPE(2), 1, 2);
    expect_values(situ_grad(p), SITU_SHAPE(2), 65536, 131072);
    assert_int_equal(situ_grad_scaler_load_state_dict(s, saved), SITU_OK);
  }
  assert_non_null(situ_grad_scaler_scale(s, T32(SITU_SHAPE(1), 1)));
  is_step(s, o, true);
  expect_values(situ_detach(p), SITU_SHAPE(2), 0, 0);
  situ_tree_free(saved);
  situ_optim_free(o);
  situ_grad_scaler_free(s);
}

static void order_matters(void **state) {
  (void)state;
  situ_grad_scaler *s = scaler(2);
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = sgd(p, 1);
  assert_int_equal(situ_grad_scaler_update(s, 0), SITU_E_STATE);
  expect_error(SITU_E_STATE, "grad_scaler_update", "no gradients were looked at");
  assert_int_equal(situ_grad_scaler_step(s, o, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "grad_scaler_step", "call backward first");
  give(p, 2, 2);
  assert_int_equal(situ_grad_scaler_unscale_(s, o), SITU_OK);
  assert_int_equal(situ_grad_scaler_unscale_(s, o), SITU_E_STATE);
  expect_error(SITU_E_STATE, "grad_scaler_unscale_", "divided already");
  expect_exact(situ_grad(p), SITU_SHAPE(2), 1, 1);
  is_step(s, o, true);
  assert_int_equal(situ_grad_scaler_step(s, o, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "grad_scaler_step", "stepped already");
  assert_int_equal(situ_grad_scaler_unscale_(s, o), SITU_E_STATE);
  expect_error(SITU_E_STATE, "grad_scaler_unscale_", "it has stepped");
  expect_exact(situ_detach(p), SITU_SHAPE(2), 0, 1);
  assert_int_equal(situ_grad_scaler_update(s, 16), SITU_OK);
  assert_true(situ_grad_scaler_get_scale(s) == 16);
  assert_int_equal(situ_grad_scaler_update(s, -1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "grad_scaler_update", "positive");
  assert_int_equal(situ_grad_scaler_update(s, INFINITY), SITU_E_ARG);
  expect_error(SITU_E_ARG, "grad_scaler_update", "finite");
  assert_int_equal(situ_grad_scaler_step(NULL, o, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "grad_scaler_step", "scaler");
  assert_int_equal(situ_grad_scaler_step(s, NULL, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "grad_scaler_step", "optimiser");
  situ_optim_free(o);
  situ_grad_scaler_free(s);
  situ_grad_scaler_options made;
  const struct {
    double *field;
    double value;
  } wrong[] = { { &made.init_scale, -1 },    { &made.init_scale, 0 },       { &made.init_scale, INFINITY },
                { &made.growth_factor, 1 },  { &made.growth_factor, 0 },    { &made.backoff_factor, 1 },
                { &made.backoff_factor, 0 }, { &made.backoff_factor, -0.5 } };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    made = situ_grad_scaler_defaults();
    *wrong[i].field = wrong[i].value;
    expect_refused(situ_grad_scaler_new(&made), SITU_E_ARG, "grad_scaler_new", "");
  }
  made = situ_grad_scaler_defaults();
  made.growth_interval = -3;
  expect_refused(situ_grad_scaler_new(&made), SITU_E_ARG, "grad_scaler_new", "growth_interval");
}

/* In f16, 1 / 65536 of a gradient is mostly 0: the step divides in f32, and unscale_ says that it cannot. */
static void f16_gradients_are_divided_by_the_step(void **state) {
  (void)state;
  situ_grad_scaler *s = scaler(65536);
  situ_tensor *p = situ_requires_grad_(test_tensor(SITU_F16, SITU_SHAPE(2), (const double[]){ 1, 2 }), true);
  situ_optim *o = sgd(p, 65536);
  give(p, 0.25, 0.5);
  assert_int_equal(situ_grad_scaler_unscale_(s, o), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "grad_scaler_unscale_", "f16");
  is_step(s, o, true);
  expect_exact(situ_detach(p), SITU_SHAPE(2), 0.75, 1.5);
  situ_optim_free(o);
  situ_grad_scaler_free(s);
}

static void it_is_saved_and_loaded(void **state) {
  (void)state;
  situ_grad_scaler *s = scaler(8), *other = scaler(1);
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = sgd(p, 1);
  give(p, 8, 8);
  is_step(s, o, true);
  update(s, 8); /* one good step of two */
  situ_tree *dict = situ_grad_scaler_state_dict(s);
  assert_int_equal(situ_grad_scaler_load_state_dict(other, dict), SITU_OK);
  give(p, 8, 8);
  is_step(other, o, true);
  update(other, 16); /* the second */
  situ_tree *broken = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(dict); i++) {
    const char *key = situ_tree_key(dict, i);
    situ_tensor *value = strcmp(key, "scale") ? situ_tree_get(dict, key) : TI64(SITU_SCALAR, -1);
    broken = situ_tree_put(broken, key, situ_tree_tensor(value));
  }
  assert_int_equal(situ_grad_scaler_load_state_dict(other, broken), SITU_E_ARG);
  expect_error(SITU_E_ARG, "grad_scaler_load_state_dict", "positive");
  situ_tree *empty = situ_tree_dict();
  assert_int_equal(situ_grad_scaler_load_state_dict(other, empty), SITU_E_ARG);
  expect_error(SITU_E_ARG, "load_state_dict", "scale");
  assert_true(situ_grad_scaler_get_scale(other) == 16);
  situ_tree_free(empty);
  situ_tree_free(broken);
  situ_tree_free(dict);
  situ_optim_free(o);
  situ_grad_scaler_free(s);
  situ_grad_scaler_free(other);
}

/* torch's growth_interval 0: a good step never completes it. */
static void an_interval_of_0_never_grows(void **state) {
  (void)state;
  situ_grad_scaler *s = optim_scaler(8, 0);
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = sgd(p, 0.5);
  assert_non_null(situ_grad_scaler_scale(s, T32(SITU_SHAPE(1), 1)));
  for (int i = 0; i < 6; i++) {
    give(p, 1, i == 3 ? INFINITY : 1);
    is_step(s, o, i != 3);
    update(s, i < 3 ? 8 : 4);
  }
  situ_tree *saved = situ_grad_scaler_state_dict(s);
  assert_int_equal(situ_grad_scaler_load_state_dict(s, saved), SITU_OK);
  situ_tree_free(saved);
  situ_optim_free(o);
  situ_grad_scaler_free(s);
}

static void disabled_it_is_not_there(void **state) {
  (void)state;
  situ_grad_scaler_options options = situ_grad_scaler_defaults();
  options.disabled = true;
  situ_grad_scaler *s = situ_grad_scaler_new(&options);
  situ_tensor *p = leaf(1, 2), *loss = situ_sum(p, NULL);
  situ_optim *o = sgd(p, 1);
  assert_ptr_equal(situ_grad_scaler_scale(s, loss), loss);
  give(p, 1, INFINITY);
  assert_int_equal(situ_grad_scaler_unscale_(s, o), SITU_OK);
  is_step(s, o, true);
  assert_int_equal(situ_grad_scaler_update(s, 0), SITU_OK);
  assert_true(situ_grad_scaler_get_scale(s) == 1 && !situ_grad_scaler_is_enabled(s));
  situ_tree *dict = situ_grad_scaler_state_dict(s);
  assert_int_equal(situ_tree_count(dict), 0);
  situ_tree_free(dict);
  situ_optim_free(o);
  situ_grad_scaler_free(s);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  situ_grad_scaler *s = scaler(2);
  situ_tensor *p = leaf(1, 2);
  situ_optim *o = sgd(p, 1);
  give(p, 2, 2);
  int failed = 0;
  for (uint64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    const situ_status status = situ_grad_scaler_step(s, o, NULL);
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    failed++;
    assert_int_equal(status, SITU_E_NOMEM);
    situ_error_clear();
    expect_exact(situ_detach(p), SITU_SHAPE(2), 1, 2);
  }
  assert_true(failed > 0);
  expect_exact(situ_detach(p), SITU_SHAPE(2), 0, 1);
  situ_optim_free(o);
  situ_grad_scaler_free(s);
}

/* An optimiser that another thread is using: here in the closure of its step. */
typedef struct meeting {
  situ_grad_scaler *s;
  situ_optim *o;
  situ_tensor *p;
  situ_status elsewhere;
} meeting;

static void *unscale_elsewhere(void *payload) {
  meeting *m = payload;
  situ_error_mode(SITU_ERROR_QUIET);
  m->elsewhere = situ_grad_scaler_unscale_(m->s, m->o);
  situ_error_clear();
  return NULL;
}
static situ_tensor *meet_in_closure(void *payload) {
  meeting *m = payload;
  pthread_t thread;
  situ_tensor *loss = situ_sum(situ_square(m->p), NULL);
  if (situ_backward(loss, NULL) != SITU_OK) return NULL;
  assert_int_equal(pthread_create(&thread, NULL, unscale_elsewhere, m), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  return loss;
}

static void an_optimiser_in_use_is_refused(void **state) {
  (void)state;
  meeting m = { .s = scaler(2), .p = leaf(1, 2) };
  m.o = situ_optim_lbfgs(situ_tree_put(situ_tree_dict(), "p", situ_tree_tensor(m.p)), 1,
                         OPTIM_OPTIONS(situ_optim_lbfgs, { SITU_OPTIM_MAX_ITER, 1 }));
  assert_int_equal(situ_optim_step_closure(m.o, meet_in_closure, &m, NULL), SITU_OK);
  assert_int_equal(m.elsewhere, SITU_E_STATE);
  situ_tensor *had = situ_clone(situ_grad(m.p));
  (void)unscale_elsewhere(&m);
  assert_int_equal(m.elsewhere, SITU_OK);
  expect_same(situ_grad(m.p), situ_mul_scalar(had, 0.5), 0, 0);
  situ_optim_free(m.o);
  situ_grad_scaler_free(m.s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(defaults_are_torchs),
    TEST(a_loss_is_scaled_and_gradients_come_back),
    TEST(infinite_gradients_leave_a_step_out),
    TEST(optimisers_are_looked_at_each_for_itself),
    TEST(many_optimisers_have_one_scaler),
    TEST(one_value_is_read_from_each_device),
    TEST(a_loss_must_be_scaled),
    TEST(order_matters),
    TEST(f16_gradients_are_divided_by_the_step),
    TEST(it_is_saved_and_loaded),
    TEST(an_interval_of_0_never_grows),
    TEST(disabled_it_is_not_there),
    TEST(every_allocation_may_fail),
    TEST(an_optimiser_in_use_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
