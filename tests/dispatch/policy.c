/* Policies: what becomes of operands on two devices, where the call then takes place, that gradients find home, and
   that no policy outlives its scope; the default device of a scope, and devices that must be stated. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "situ/ledger.h"
#include "situ/nn.h"
#include "situ/policy.h"
#include "situ/sys/alloc.h"
#include "situ/sys/tensor.h"
#include "support/modules.h"

static const situ_policy copy_all = { .host_to_device = SITU_POLICY_COPY,
                                      .device_to_host = SITU_POLICY_COPY,
                                      .device_to_device = SITU_POLICY_COPY };
static const situ_policy warn_all = { .host_to_device = SITU_POLICY_WARN,
                                      .device_to_host = SITU_POLICY_WARN,
                                      .device_to_device = SITU_POLICY_WARN };
static const situ_policy to_device_only = { .host_to_device = SITU_POLICY_COPY };
static const situ_policy all_stated = { .unstated = SITU_UNSTATED_FORBID };

static situ_device sim(void) { return situ_dev("sim:0"); }

static situ_tensor *values(situ_device device, situ_shape shape, double first) {
  int64_t count = 1;
  for (int d = 0; d < shape.ndim; d++) count *= shape.dim[d];
  situ_tensor *t = situ_reshape(
      situ_arange(first, first + (double)count, 1, &(situ_options){ .dtype = SITU_F32, .device = device }), shape);
  assert_non_null(t);
  return t;
}
static situ_tensor *near_(double first) { return values(situ_dev("cpu"), SITU_SHAPE(3), first); }
static situ_tensor *far(double first) { return values(sim(), SITU_SHAPE(3), first); }
static situ_tensor *part(situ_tensor *t, situ_role role) {
  situ_set_role(t, role);
  return t;
}
static void is_on(const situ_tensor *t, const char *device) {
  assert_non_null(t);
  assert_true(situ_device_equal(situ_device_of(t), situ_dev(device)));
}

/* ---- refused, copied, warned of ---- */

/* placement: D14 */
static void explicit_unless_said(void **state) {
  (void)state;
  situ_ledger l;
  situ_policy now = situ_get_policy();
  assert_int_equal(now.host_to_device | now.device_to_host | now.device_to_device | now.unstated, 0);
  situ_tensor *a = near_(0), *b = far(1);
  situ_ledger_begin_none(&l);
  expect_refused(situ_add(a, b), SITU_E_DEVICE, "add", "device mismatch");
  expect_refused(situ_add_(a, b), SITU_E_DEVICE, "", "device mismatch");
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
}

/* placement: D14, I6 */
static void copies_are_in_the_ledger(void **state) {
  (void)state;
  situ_setting before;
  situ_ledger l;
  situ_transfer t[2];
  situ_tensor *a = situ_set_name(near_(0), "batch"), *b = part(far(1), SITU_ROLE_PARAMETER);
  situ_ledger_begin(&l);
  situ_policy_begin(&before, copy_all);
  situ_tensor *y = situ_mul(a, b);
  situ_policy_end(&before);
  assert_int_equal(situ_ledger_transfers(&l, t, 2), 1);
  assert_string_equal(t[0].reason, "policy");
  assert_string_equal(t[0].op, "mul");
  assert_string_equal(t[0].tensor, "batch");
  assert_int_equal(t[0].bytes, 12);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  is_on(y, "sim:0");
  is_on(a, "cpu");
  expect_exact(y, SITU_SHAPE(3), 0, 2, 6);
  expect_refused(situ_mul(a, b), SITU_E_DEVICE, "mul", "device mismatch");
}

/* placement: D15 */
static void each_direction_has_its_own(void **state) {
  (void)state;
  situ_setting before, inner;
  situ_tensor *a = near_(0), *b = far(1), *c = values(situ_dev("sim:1"), SITU_SHAPE(3), 1);
  situ_policy_begin(&before, to_device_only);
  is_on(situ_add(b, a), "sim:0");
  expect_refused(situ_add(a, b), SITU_E_DEVICE, "add", "device mismatch");
  expect_refused(situ_add(b, c), SITU_E_DEVICE, "add", "device mismatch");
  situ_policy_begin(&inner, (situ_policy){ .device_to_device = SITU_POLICY_COPY });
  is_on(situ_add(c, b), "sim:1");
  expect_refused(situ_add(b, a), SITU_E_DEVICE, "add", "device mismatch");
  situ_policy_begin(&inner, (situ_policy){ .device_to_host = SITU_POLICY_COPY });
  is_on(situ_add(a, b), "cpu");
  situ_policy_end(&before);
}

static int logged;
static char last_log[8192];
static void count_logs(const char *message, void *payload) {
  (void)payload;
  logged++;
  (void)snprintf(last_log, sizeof last_log, "%s", message);
}

/* placement: D14 */
static void warned_of_once_for_each_line(void **state) {
  (void)state;
  situ_setting before;
  logged = 0;
  situ_tensor *a = situ_set_name(near_(0), "batch.x"), *b = part(far(1), SITU_ROLE_PARAMETER);
  situ_error_log(count_logs, NULL);
  situ_policy_begin(&before, warn_all);
  for (int i = 0; i < 5; i++) is_on(situ_add(a, b), "sim:0");
  assert_int_equal(logged, 1);
  assert_non_null(strstr(last_log, "device mismatch in add"));
  assert_non_null(strstr(last_log, "batch.x"));
  assert_non_null(strstr(last_log, "copied to sim:0"));
  is_on(situ_sub(a, b), "sim:0");
  assert_int_equal(logged, 2);
  situ_policy_end(&before);
  situ_error_log(NULL, NULL);
  assert_int_equal(situ_error(), SITU_OK);
}

/* ---- where ---- */

static void where_the_call_takes_place(void **state) {
  (void)state;
  situ_setting before;
  situ_policy_begin(&before, copy_all);
  is_on(situ_add(near_(0), far(0)), "cpu");                              /* a tie: the first */
  is_on(situ_add(near_(0), part(far(0), SITU_ROLE_PARAMETER)), "sim:0"); /* a tie: the part of a module */
  is_on(situ_add(far(0), part(near_(0), SITU_ROLE_BUFFER)), "cpu");
  situ_tensor *x = values(situ_dev("cpu"), SITU_SHAPE(2, 3), 0), *w = values(sim(), SITU_SHAPE(4, 3), 0);
  is_on(situ_linear(x, w, values(sim(), SITU_SHAPE(4), 0)), "sim:0"); /* two against one */
  is_on(situ_linear(x, w, values(situ_dev("cpu"), SITU_SHAPE(4), 0)), "cpu");
  is_on(situ_add_(near_(0), part(far(0), SITU_ROLE_PARAMETER)), "cpu"); /* what is written stays */
  situ_tensor *index = situ_arange(0, 2, 1, &(situ_options){ .dtype = SITU_I64 });
  is_on(situ_embedding(index, part(w, SITU_ROLE_PARAMETER), NULL), "sim:0");
  situ_policy_end(&before);
}

/* Running statistics outvote everybody: a copy of them would be updated in vain. */
static void what_is_written_is_never_a_copy(void **state) {
  (void)state;
  situ_setting before;
  const situ_batch_norm_options train = OPTIONS_OF(situ_batch_norm, with.training = true);
  situ_tensor *x = values(situ_dev("cpu"), SITU_SHAPE(4, 3), 0), *w = near_(1), *b = near_(0);
  situ_tensor *mean = far(0), *var = far(1), *near_mean = near_(0), *near_var = near_(1);
  situ_tensor *want = situ_batch_norm(x, near_mean, near_var, w, b, &train);
  situ_policy_begin(&before, copy_all);
  situ_tensor *y = situ_batch_norm(x, mean, var, w, b, &train);
  is_on(y, "sim:0");
  expect_same(situ_to(y, situ_dev("cpu")), want, 1e-5, 1e-6);
  is_on(mean, "sim:0");
  expect_same(situ_to(mean, situ_dev("cpu")), near_mean, 1e-6, 1e-6);
  expect_same(situ_to(var, situ_dev("cpu")), near_var, 1e-6, 1e-6);
  expect_refused(situ_batch_norm(x, mean, near_var, w, b, &train), SITU_E_DEVICE, "batch_norm", "device mismatch");
  situ_policy_end(&before);
}

static void meta_has_nothing_to_copy(void **state) {
  (void)state;
  situ_setting before;
  situ_tensor *m = situ_empty(SITU_SHAPE(3), &(situ_options){ .device = situ_dev("meta") });
  situ_policy_begin(&before, copy_all);
  expect_refused(situ_add(near_(0), m), SITU_E_DEVICE, "add", "device mismatch");
  expect_refused(situ_add(m, near_(0)), SITU_E_DEVICE, "add", "device mismatch");
  situ_policy_end(&before);
}

static void one_copy_of_each_operand(void **state) {
  (void)state;
  situ_setting before;
  situ_ledger l;
  situ_tensor *a = near_(7), *in[5] = { far(0), a, far(1), a, far(2) };
  situ_ledger_begin(&l);
  situ_policy_begin(&before, copy_all);
  situ_tensor *y = situ_cat(in, 5, 0);
  situ_policy_end(&before);
  assert_int_equal(situ_ledger_total(&l).count, 1);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  expect_exact(y, SITU_SHAPE(15), 0, 1, 2, 7, 8, 9, 1, 2, 3, 7, 8, 9, 2, 3, 4);
}

/* What the call is refused for in the end is what it would be refused for on one device. */
static void the_other_rules_still_hold(void **state) {
  (void)state;
  situ_setting before;
  situ_policy_begin(&before, copy_all);
  expect_refused(situ_add(near_(0), values(sim(), SITU_SHAPE(4), 0)), SITU_E_SHAPE, "add", "do not broadcast");
  expect_refused(situ_mm(near_(0), situ_zeros(SITU_SHAPE(3), &(situ_options){ .dtype = SITU_F64, .device = sim() })),
                 SITU_E_DTYPE, "mm", "must be equal");
  expect_refused(situ_add(NULL, far(0)), SITU_E_ARG, "add", "NULL");
  situ_policy_end(&before);
}

/* ---- gradients ---- */

static situ_tensor *leaf(situ_tensor *t) { return situ_requires_grad_(t, true); }

/* placement: G1 */
static void gradients_go_home(void **state) {
  (void)state;
  situ_setting before;
  situ_tensor *x = leaf(near_(1)), *w = part(leaf(far(4)), SITU_ROLE_PARAMETER),
              *z = leaf(values(situ_dev("sim:1"), SITU_SHAPE(3), 1));
  situ_policy_begin(&before, copy_all);
  situ_tensor *y = situ_sum(situ_mul(situ_mul(x, w), z), NULL);
  assert_int_equal(situ_backward(y, NULL), SITU_OK);
  situ_policy_end(&before);
  is_on(situ_grad(x), "cpu");
  is_on(situ_grad(w), "sim:0");
  is_on(situ_grad(z), "sim:1");
  expect_exact(situ_grad(x), SITU_SHAPE(3), 4, 10, 18);
  expect_exact(situ_grad(w), SITU_SHAPE(3), 1, 4, 9);
  expect_exact(situ_grad(z), SITU_SHAPE(3), 4, 10, 18);
}

static situ_tensor *mixed(situ_tensor *const *in, void *payload) {
  (void)payload;
  situ_tensor *hidden = situ_tanh(situ_linear(in[0], in[1], in[2]));
  return situ_mul(hidden, situ_linear(in[0], in[1], NULL));
}

static void against_differences(void **state) {
  (void)state;
  situ_setting before;
  const situ_options there = { .dtype = SITU_F64, .device = sim() };
  situ_tensor *x = test_random(SITU_SHAPE(2, 3), -1, 1, true);
  situ_tensor *w = leaf(situ_mul_scalar(situ_randn(SITU_SHAPE(4, 3), &there), 0.5)),
              *b = leaf(situ_randn(SITU_SHAPE(4), &there));
  w = leaf(situ_detach(w));
  situ_policy_begin(&before, copy_all);
  gradcheck(mixed, NULL, x, w, b);
  situ_policy_end(&before);
}

/* The way back needs no policy: what was copied there is copied back by the same call's record. */
static void backward_after_the_policy(void **state) {
  (void)state;
  situ_setting before;
  situ_tensor *x = leaf(near_(1)), *w = part(leaf(far(4)), SITU_ROLE_PARAMETER);
  situ_policy_begin(&before, copy_all);
  situ_tensor *y = situ_sum(situ_mul(x, w), NULL);
  situ_policy_end(&before);
  assert_int_equal(situ_backward(y, NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(3), 4, 5, 6);
  expect_exact(situ_grad(w), SITU_SHAPE(3), 1, 2, 3);
}

static void nothing_leaks_when_memory_ends(void **state) {
  (void)state;
  situ_setting before;
  situ_tensor *x = leaf(values(situ_dev("cpu"), SITU_SHAPE(2, 3), 0)), *w = leaf(values(sim(), SITU_SHAPE(4, 3), 0)),
              *b = values(sim(), SITU_SHAPE(4), 0);
  x = leaf(situ_detach(x));
  w = leaf(situ_detach(w));
  int points = 0;
  situ_policy_begin(&before, copy_all);
  for (uint64_t nth = 1; nth < 200; nth++) {
    situ_scope s;
    situ_scope_begin(&s);
    int64_t tensors = situ_live_tensors(), bytes = situ_live_bytes();
    situ_fail_allocation(nth, false);
    situ_tensor *y = situ_linear(x, w, b);
    situ_fail_allocation(0, false);
    situ_error_clear();
    if (!y) points++;
    if (!y && (situ_live_tensors() != tensors || situ_live_bytes() != bytes))
      fail_msg("leaked at allocation %d", (int)nth);
    SITU_IGNORE(situ_scope_end(&s));
    if (y) break;
  }
  situ_policy_end(&before);
  assert_true(points > 5);
}

/* ---- no further than its scope ---- */

static bool copies(void) {
  bool allowed = situ_add(near_(0), far(0)) != NULL;
  situ_error_clear();
  return allowed;
}

static void *in_another_thread(void *unused) {
  (void)unused;
  situ_scope s;
  situ_scope_begin(&s);
  bool allowed = copies();
  SITU_IGNORE(situ_scope_end(&s));
  return allowed ? &logged : NULL;
}

static void policies_nest_and_end(void **state) {
  (void)state;
  situ_setting outer, inner, forgotten;
  pthread_t thread;
  void *there;
  situ_policy_begin(&outer, copy_all);
  assert_true(copies());
  assert_int_equal(pthread_create(&thread, NULL, in_another_thread, NULL), 0);
  assert_int_equal(pthread_join(thread, &there), 0);
  assert_null(there);
  situ_policy_begin(&inner, (situ_policy){ 0 });
  assert_false(copies());
  situ_policy_end(&inner);
  assert_true(copies());
  situ_policy_begin(&inner, (situ_policy){ .unstated = 2 });
  expect_error(SITU_E_ARG, "policy_begin", "is not a policy");
  assert_true(copies());
  situ_policy_begin(&forgotten, (situ_policy){ 0 });
  situ_policy_end(&outer);
  assert_false(copies());
  situ_policy_end(&forgotten);
  expect_error(SITU_E_STATE, "policy_end", "not open");
  situ_policy_end(&outer);
  expect_error(SITU_E_STATE, "policy_end", "ended twice");
  situ_policy_begin(NULL, copy_all);
  expect_error(SITU_E_ARG, "policy_begin", "NULL");
}

static void a_scope_takes_it_along(void **state) {
  (void)state;
  situ_setting outer, forgotten;
  situ_scope s;
  situ_scope_begin(&s);
  situ_policy_begin(&forgotten, copy_all);
  assert_int_equal(situ_default_device_begin(&outer, sim()), SITU_OK);
  SITU_IGNORE(situ_scope_end(&s));
  assert_false(copies());
  is_on(situ_zeros(SITU_SHAPE(1), NULL), "cpu");
  situ_policy_begin(&outer, copy_all); /* and one that is older stays */
  situ_scope_begin(&s);
  SITU_IGNORE(situ_scope_end(&s));
  assert_true(copies());
  situ_policy_begin(&forgotten, (situ_policy){ 0 });
  situ_scope_begin(&s);
  situ_policy_end(&forgotten); /* ended inside a scope that is younger: it does not come back with its end */
  SITU_IGNORE(situ_scope_end(&s));
  assert_true(copies());
  situ_policy_end(&outer);
}

typedef struct careless {
  situ_nn_module base;
  situ_tensor *scale;
} careless;
static situ_tensor *careless_forward(situ_nn_module *self, situ_tensor *x) {
  situ_setting forgotten;
  situ_policy_begin(&forgotten, copy_all);
  return situ_mul(x, ((careless *)self)->scale);
}
static const situ_nn_type careless_type = { .name = "Careless", .size = sizeof(careless), .forward = careless_forward };

/* placement: B20 */
static void a_module_takes_it_along(void **state) {
  (void)state;
  careless *m = situ_nn_alloc(&careless_type);
  situ_nn_param(m, scale, far(1));
  situ_nn_module *module = situ_nn_done(m);
  is_on(situ_nn_forward(module, near_(0)), "sim:0");
  assert_false(copies());
  situ_nn_free(module);
}

/* ---- the default device of a scope ---- */

/* placement: A10 */
static void default_devices_nest(void **state) {
  (void)state;
  situ_setting outer, inner, bad;
  assert_int_equal(situ_default_device_begin(&outer, sim()), SITU_OK);
  is_on(situ_zeros(SITU_SHAPE(1), NULL), "sim:0");
  is_on(situ_to(situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = situ_dev("cpu") }), (situ_device){ 0 }), "sim:0");
  assert_int_equal(situ_default_device_begin(&inner, situ_dev("sim:1")), SITU_OK);
  is_on(situ_zeros(SITU_SHAPE(1), NULL), "sim:1");
  is_on(situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = situ_dev("cpu") }), "cpu");
  situ_default_device_end(&inner);
  is_on(situ_zeros(SITU_SHAPE(1), NULL), "sim:0");
  assert_int_equal(situ_set_default_device(situ_dev("sim:1")), SITU_OK); /* until the scope ends */
  is_on(situ_zeros(SITU_SHAPE(1), NULL), "sim:1");
  situ_status status = situ_default_device_begin(&bad, (situ_device){ SITU_SIM, 63 });
  expect_error(status, "default_device_begin", "is not there");
  is_on(situ_zeros(SITU_SHAPE(1), NULL), "sim:1");
  situ_default_device_end(&bad);
  expect_error(SITU_E_STATE, "default_device_end", "never begun");
  situ_default_device_end(&outer);
  is_on(situ_zeros(SITU_SHAPE(1), NULL), "cpu");
  assert_int_equal(situ_default_device_begin(NULL, sim()), SITU_E_ARG);
  expect_error(SITU_E_ARG, "default_device_begin", "NULL");
}

/* ---- devices that must be stated ---- */

typedef struct maker {
  situ_nn_module base;
  situ_tensor *scale;
} maker;
static situ_tensor *maker_forward(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  return situ_add(x, situ_ones(SITU_SHAPE(3), NULL));
}
static const situ_nn_type maker_type = { .name = "Maker", .size = sizeof(maker), .forward = maker_forward };

/* placement: A11 */
static void an_unstated_device(void **state) {
  (void)state;
  situ_setting before, device;
  maker *m = situ_nn_alloc(&maker_type);
  situ_nn_param(m, scale, near_(1));
  situ_nn_module *module = situ_nn_done(m);
  situ_tensor *x = near_(0);
  situ_policy_begin(&before, all_stated);
  expect_refused(situ_zeros(SITU_SHAPE(3), NULL), SITU_E_DEVICE, "zeros",
                 "zeros: no device was stated, and this thread's policy forbids an unstated one");
  expect_refused(situ_randn(SITU_SHAPE(3), NULL), SITU_E_DEVICE, "randn", "no device was stated");
  expect_refused(situ_from_host(&before, 4, SITU_SHAPE(1), NULL), SITU_E_DEVICE, "from_host", "no device was stated");
  expect_refused(situ_nn_linear(2, 2, NULL), SITU_E_DEVICE, "", "no device was stated");
  is_on(situ_zeros(SITU_SHAPE(3), &(situ_options){ .device = situ_dev("cpu") }), "cpu");
  is_on(situ_zeros_like(x, NULL), "cpu");
  is_on(situ_nn_forward(module, x), "cpu"); /* the module's home states it, though it is what is the default anyway */
  assert_int_equal(situ_default_device_begin(&device, situ_dev("cpu")), SITU_OK);
  is_on(situ_zeros(SITU_SHAPE(3), NULL), "cpu");
  situ_default_device_end(&device);
  expect_refused(situ_zeros(SITU_SHAPE(3), NULL), SITU_E_DEVICE, "zeros", "no device was stated");
  situ_policy_end(&before);
  is_on(situ_zeros(SITU_SHAPE(3), NULL), "cpu");
  situ_nn_free(module);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(explicit_unless_said),
    TEST(copies_are_in_the_ledger),
    TEST(each_direction_has_its_own),
    TEST(warned_of_once_for_each_line),
    TEST(where_the_call_takes_place),
    TEST(what_is_written_is_never_a_copy),
    TEST(meta_has_nothing_to_copy),
    TEST(one_copy_of_each_operand),
    TEST(the_other_rules_still_hold),
    TEST(gradients_go_home),
    TEST(against_differences),
    TEST(backward_after_the_policy),
    TEST(nothing_leaks_when_memory_ends),
    TEST(policies_nest_and_end),
    TEST(a_scope_takes_it_along),
    MODULE_TEST(a_module_takes_it_along),
    TEST(default_devices_nest),
    MODULE_TEST(an_unstated_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
