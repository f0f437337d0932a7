/* Autocast: scopes and how they end, casts of parameters that are kept, the way back, what it does nothing to and says so,
   and what is refused. Which op is cast to what: tests/golden/autocast.c.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include <stdio.h>
#include <string.h>

#include "situ/amp.h"
#include "situ/ledger.h"
#include "situ/place.h"
#include "situ/policy.h"
#include "situ/sys/alloc.h"
#include "support/modules.h"

#define BF16 (&(situ_autocast_options){ .dtype = SITU_BF16 })

static situ_tensor *f32(situ_shape shape, double value) {
  return situ_full(shape, value, &(situ_options){ .device = test_device() });
}
static situ_tensor *square(double value) { return f32(SITU_SHAPE(2, 2), value); }
static situ_tensor *parameter(double value) { return situ_requires_grad_(square(value), true); }
static void begin(situ_setting *before, const situ_autocast_options *o) {
  assert_int_equal(situ_autocast_begin(before, test_device(), o), SITU_OK);
}
static void is(const situ_tensor *t, situ_dtype dtype) {
  if (!t) fail_msg("%s", situ_error_message());
  assert_int_equal(situ_dtype_of(t), dtype);
}

/* ---- scopes ---- */

static void scopes_nest_and_end(void **state) {
  (void)state;
  situ_setting outer, inner, off;
  situ_scope s;
  situ_tensor *a = square(1);
  const bool cpu = test_device().kind == SITU_CPU;
  assert_false(situ_is_autocast_enabled(test_device()));
  begin(&outer, NULL);
  assert_int_equal(situ_get_autocast_dtype(test_device()), cpu ? SITU_BF16 : SITU_F16);
  assert_false(situ_is_autocast_enabled(situ_dev("meta")));
  begin(&off, &(situ_autocast_options){ .disabled = true });
  assert_false(situ_is_autocast_enabled(test_device()));
  is(situ_mm(a, a), SITU_F32);
  situ_autocast_end(&off);
  situ_scope_begin(&s);
  begin(&inner, BF16); /* forgotten: it ends with the tensor scope */
  is(situ_mm(a, a), SITU_BF16);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_get_autocast_dtype(test_device()), cpu ? SITU_BF16 : SITU_F16);
  situ_autocast_end(&outer);
  is(situ_mm(a, a), SITU_F32);
  situ_autocast_end(&outer);
  expect_error(SITU_E_STATE, "autocast_end", "not open");
  /* {0} is the default device's kind. */
  assert_int_equal(situ_set_default_device(test_device()), SITU_OK);
  assert_int_equal(situ_autocast_begin(&outer, (situ_device){ 0 }, BF16), SITU_OK);
  is(situ_mm(a, a), SITU_BF16);
  situ_autocast_end(&outer);
  assert_int_equal(situ_set_default_device((situ_device){ 0 }), SITU_OK);
}

static void nonsense_is_refused(void **state) {
  (void)state;
  situ_setting before;
  situ_tensor *a = square(1);
  assert_int_equal(situ_autocast_begin(&before, test_device(), &(situ_autocast_options){ .dtype = SITU_F64 }),
                   SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "autocast_begin", "f64, must be f16 or bf16");
  assert_int_equal(situ_autocast_begin(&before, test_device(), &(situ_autocast_options){ .dtype = (situ_dtype)99 }),
                   SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "autocast_begin", "no dtype");
  assert_int_equal(situ_autocast_begin(&before, (situ_device){ .kind = SITU_DEVICE_KINDS }, NULL), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "autocast_begin", "not a device");
  assert_int_equal(situ_autocast_begin(NULL, test_device(), NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "autocast_begin", "before");
  is(situ_mm(a, a), SITU_F32);
  situ_autocast_end(&before); /* it was never begun */
  expect_error(SITU_E_STATE, "autocast_end", "");
}

static void f64_and_what_is_written_stay(void **state) {
  (void)state;
  situ_setting before;
  situ_tensor *a = situ_to_dtype(square(2), SITU_F64), *b = square(1), *low = situ_to_dtype(square(1), SITU_BF16);
  begin(&before, BF16);
  is(situ_mm(a, a), SITU_F64);
  expect_refused(situ_mm(a, low), SITU_E_DTYPE, "mm", "must be equal");
  assert_ptr_equal(situ_exp_(low), low); /* in place nothing is cast */
  is(low, SITU_BF16);
  /* Running statistics are written where they are, whatever the input is. */
  situ_tensor *x = situ_to_dtype(f32(SITU_SHAPE(4, 2), 3), SITU_BF16), *mean = f32(SITU_SHAPE(2), 0),
              *var = f32(SITU_SHAPE(2), 1);
  is(situ_batch_norm(x, mean, var, f32(SITU_SHAPE(2), 1), f32(SITU_SHAPE(2), 0),
                     OPTIONS_AT(situ_batch_norm, with.training = true)),
     SITU_BF16);
  expect_close(mean, SITU_SHAPE(2), 1e-6, 1e-6, 0.3, 0.3);
  situ_tensor *mean16 = situ_to_dtype(f32(SITU_SHAPE(2), 0), SITU_BF16), *var16 = situ_clone(mean16);
  is(situ_batch_norm(f32(SITU_SHAPE(4, 2), 3), mean16, var16, NULL, NULL,
                     OPTIONS_AT(situ_batch_norm, with.training = true)),
     SITU_F32);
  expect_close(mean16, SITU_SHAPE(2), 1e-2, 1e-2, 0.3, 0.3);
  is(b, SITU_F32);
  situ_autocast_end(&before);
}

/* ---- casts of parameters ---- */

/* Bytes that live on after one more use of w. */
static int64_t bytes_of_use(situ_tensor *x, situ_tensor *w) {
  situ_scope s;
  situ_scope_begin(&s);
  int64_t before = situ_live_bytes();
  situ_tensor *y = situ_mm(x, w);
  is(y, SITU_BF16);
  int64_t after = situ_live_bytes();
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  return after - before;
}

static void a_parameter_is_cast_once(void **state) {
  (void)state;
  situ_setting outer, inner;
  situ_tensor *x = situ_to_dtype(square(1), SITU_BF16), *w = parameter(0.5);
  situ_tensor *other = parameter(0.5);
  const int64_t tensors = situ_live_tensors();
  begin(&outer, BF16);
  const int64_t first = bytes_of_use(x, w), again = bytes_of_use(x, w);
  assert_true(again < first); /* the cast is there already */
  begin(&inner, BF16);
  assert_int_equal(bytes_of_use(x, w), again); /* of the outermost scope */
  situ_autocast_end(&inner);
  assert_int_equal(bytes_of_use(x, w), again);
  situ_clear_autocast_cache();
  assert_int_equal(bytes_of_use(x, w), first);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_true(situ_copy_(w, square(3)) != NULL);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_scope_begin(&s);
  expect_values(situ_to_dtype(situ_mm(x, w), SITU_F32), SITU_SHAPE(2, 2), 6, 6, 6, 6); /* written: cast again */
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  begin(&inner, &(situ_autocast_options){ .dtype = SITU_BF16, .no_cache = true });
  assert_int_equal(bytes_of_use(x, other), again); /* of its cast nothing is kept */
  situ_autocast_end(&inner);
  situ_autocast_end(&outer);
  assert_int_equal(situ_live_tensors(), tensors);
}

static void a_cast_without_a_way_back_is_not_kept_for_one(void **state) {
  (void)state;
  situ_setting before;
  situ_scope s;
  situ_tensor *x = square(1), *w = parameter(0.5);
  begin(&before, BF16);
  situ_scope_begin_no_grad(&s);
  is(situ_mm(x, w), SITU_BF16);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_tensor *y = situ_sum(situ_mm(x, w), NULL);
  situ_autocast_end(&before);
  assert_int_equal(situ_backward(y, NULL), SITU_OK);
  is(situ_grad(w), SITU_F32);
  expect_values(situ_grad(w), SITU_SHAPE(2, 2), 2, 2, 2, 2);
}

static void a_parameter_that_moved_is_cast_again(void **state) {
  (void)state;
  situ_setting before, other;
  situ_nn_module *m = situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE });
  const situ_device there = situ_dev(test_device().kind == SITU_SIM ? "sim:1" : "sim:0");
  begin(&before, BF16);
  assert_int_equal(situ_autocast_begin(&other, there, BF16), SITU_OK);
  is(situ_nn_forward(m, square(1)), SITU_BF16);
  assert_int_equal(situ_nn_to(m, there), SITU_OK);
  is(situ_nn_forward(m, situ_to(square(1), there)), SITU_BF16);
  situ_autocast_end(&before); /* and the forgotten inner one */
  situ_nn_free(m);
}

/* ---- the way back ---- */

static void gradients_have_their_parameters_dtype(void **state) {
  (void)state;
  situ_setting before;
  situ_tensor *x = square(1), *w = parameter(0.5),
              *low = situ_requires_grad_(situ_to_dtype(square(1), SITU_BF16), true);
  begin(&before, BF16);
  situ_tensor *h = situ_mm(x, w), *y = situ_mse_loss(situ_mm(h, low), square(0), SITU_REDUCTION_SUM);
  is(h, SITU_BF16);
  is(y, SITU_F32);
  assert_int_equal(situ_backward(y, NULL), SITU_OK); /* in the scope, and no different */
  is(situ_grad(w), SITU_F32);
  is(situ_grad(low), SITU_BF16);
  expect_values(situ_grad(w), SITU_SHAPE(2, 2), 16, 16, 16, 16);
  /* One cast serves two graphs, and the second is walked after the first. */
  situ_tensor *one = situ_sum(situ_mm(x, w), NULL), *two = situ_sum(situ_mm(x, w), NULL);
  assert_int_equal(situ_set_grad(w, NULL), SITU_OK);
  assert_int_equal(situ_backward(one, NULL), SITU_OK);
  assert_int_equal(situ_backward(two, NULL), SITU_OK);
  expect_values(situ_grad(w), SITU_SHAPE(2, 2), 4, 4, 4, 4);
  assert_true(situ_is_autocast_enabled(test_device()));
  situ_autocast_end(&before);
}

/* ---- devices ---- */

static int lines;
static char last[2048];
static void count_line(const char *message, void *payload) {
  (void)payload;
  lines++;
  snprintf(last, sizeof last, "%s", message);
}

/* S23: a scope for another kind of device does nothing here, which is said. */
static void a_scope_for_another_kind_warns_once(void **state) {
  (void)state;
  situ_setting before, own;
  situ_tensor *a = square(1);
  const char *other = test_device().kind == SITU_CPU ? "cuda" : "cpu";
  lines = 0;
  situ_error_log(count_line, NULL);
  for (int step = 0; step < 3; step++) {
    assert_int_equal(situ_autocast_begin(&before, situ_dev(other), BF16), SITU_OK);
    is(situ_add(a, a), SITU_F32); /* would not be cast there either */
    assert_int_equal(lines, step > 0);
    is(situ_mm(a, a), SITU_F32);
    is(situ_mm(a, a), SITU_F32);
    assert_int_equal(lines, 1);
    situ_autocast_end(&before);
  }
  assert_non_null(strstr(last, other));
  assert_non_null(strstr(last, "does nothing to mm on"));
  assert_int_equal(situ_autocast_begin(&before, situ_dev(other), BF16), SITU_OK); /* another line of code */
  begin(&own, &(situ_autocast_options){ .disabled = true });                      /* meant */
  is(situ_mm(a, a), SITU_F32);
  assert_int_equal(lines, 1);
  situ_autocast_end(&own);
  is(situ_mm(a, a), SITU_F32);
  assert_int_equal(lines, 2);
  situ_autocast_end(&before);
  situ_error_log(NULL, NULL);
}

static void a_mismatch_is_still_one(void **state) {
  (void)state;
  if (test_device().kind == SITU_CPU) return;
  situ_setting before, policy;
  situ_tensor *a = square(1), *b = situ_full(SITU_SHAPE(2, 2), 1, &(situ_options){ .device = situ_dev("cpu") });
  begin(&before, BF16);
  expect_refused(situ_mm(a, b), SITU_E_DEVICE, "mm", "device mismatch");
  expect_refused(situ_mm(a, NULL), SITU_E_ARG, "mm", "NULL");
  situ_policy_begin(&policy, (situ_policy){ .host_to_device = SITU_POLICY_COPY,
                                            .device_to_host = SITU_POLICY_COPY,
                                            .device_to_device = SITU_POLICY_COPY });
  is(situ_mm(a, b), SITU_BF16); /* copied, then cast */
  lines = 0;
  situ_error_log(count_line, NULL);
  is(situ_matmul(situ_select(a, 0, 0), b), SITU_BF16); /* made of other ops, which copy and cast */
  situ_error_log(NULL, NULL);
  assert_int_equal(lines, 0);
  situ_policy_end(&policy);
  situ_autocast_end(&before);
}

static void shapes_are_explained(void **state) {
  (void)state;
  situ_setting before;
  situ_tensor *a = square(1), *b = f32(SITU_SHAPE(3, 2), 1);
  begin(&before, BF16);
  expect_refused(situ_mm(a, b), SITU_E_SHAPE, "mm", "[2, 2] x [3, 2]");
  situ_autocast_end(&before);
}

/* A preflight in a scope: what autocast casts is no mismatch, and nothing is kept of it. */
static void a_preflight_sees_the_casts(void **state) {
  (void)state;
  situ_setting before;
  situ_nn_module *m =
      situ_nn_sequential(situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE }), situ_nn_gelu(SITU_GELU_NONE),
                         situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE }));
  begin(&before, BF16);
  situ_tree *in = situ_tree_tensor(square(1));
  if (situ_place_check(m, in, NULL, NULL) != SITU_OK) fail_msg("%s", situ_error_message());
  situ_tree_free(in);
  situ_autocast_end(&before);
  situ_nn_free(m);
}

/* ---- with memory running out, nothing is left behind ---- */

static void every_allocation_may_fail(void **state) {
  (void)state;
  situ_tensor *x = square(1), *w = parameter(0.5);
  const int64_t tensors = situ_live_tensors();
  int failed = 0;
  for (int nth = 1;; nth++) {
    situ_setting before;
    situ_scope s;
    situ_scope_begin(&s);
    begin(&before, BF16);
    situ_fail_allocation((uint64_t)nth, false);
    situ_tensor *y = situ_mm(x, w);
    const bool fired = situ_allocation_count() >= (uint64_t)nth;
    situ_fail_allocation(0, false);
    situ_autocast_end(&before);
    if (!y) {
      failed++;
      assert_int_equal(situ_error(), SITU_E_NOMEM);
      situ_error_clear();
    }
    SITU_IGNORE(situ_scope_end(&s));
    assert_int_equal(situ_live_tensors(), tensors);
    if (!fired) break;
  }
  assert_true(failed > 0);
}

/* ---- ops that torch 1.13 has not ---- */

static void rms_norm_and_transformers_run(void **state) {
  (void)state;
  situ_setting before;
  begin(&before, BF16);
  situ_tensor *low = situ_to_dtype(square(1), SITU_BF16);
  is(situ_rms_norm(low, SITU_SHAPE(2), f32(SITU_SHAPE(2), 1), SITU_NONE),
     test_device().kind == SITU_CPU ? SITU_BF16 : SITU_F32);
  situ_nn_module *m = situ_nn_transformer_encoder_layer(
      4, 2,
      OPTIONS_AT(situ_nn_transformer, with.dim_feedforward = 8, with.dropout = 0, with.batch_first = true, with HERE));
  situ_tensor *y = situ_nn_forward(m, f32(SITU_SHAPE(2, 3, 4), 0.25));
  if (!y) fail_msg("%s", situ_error_message());
  situ_autocast_end(&before);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(scopes_nest_and_end),
    MODULE_TEST(nonsense_is_refused),
    MODULE_TEST(f64_and_what_is_written_stay),
    MODULE_TEST(a_parameter_is_cast_once),
    MODULE_TEST(a_cast_without_a_way_back_is_not_kept_for_one),
    MODULE_TEST(a_parameter_that_moved_is_cast_again),
    MODULE_TEST(gradients_have_their_parameters_dtype),
    MODULE_TEST(a_scope_for_another_kind_warns_once),
    MODULE_TEST(a_mismatch_is_still_one),
    MODULE_TEST(shapes_are_explained),
    MODULE_TEST(a_preflight_sees_the_casts),
    MODULE_TEST(every_allocation_may_fail),
    MODULE_TEST(rms_norm_and_transformers_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
