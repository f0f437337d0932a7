/* Activation modules: they print as in torch, and call their function.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/modules.h"

static void expect_module(situ_nn_module *m, const char *text, situ_tensor *x, situ_tensor *want) {
  char printed[128];
  situ_nn_to_string(m, printed, sizeof printed);
  assert_string_equal(printed, text);
  expect_same(situ_nn_forward(m, x), want, 0, 0);
  situ_nn_free(m);
}

static void modules_call_their_functions(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 4), -4, -1, -0.25, 0, 0.3, 1, 2.5, 7);
  expect_module(situ_nn_relu6(), "ReLU6()", x, situ_relu6(x));
  expect_module(situ_nn_selu(), "SELU()", x, situ_selu(x));
  expect_module(situ_nn_mish(), "Mish()", x, situ_mish(x));
  expect_module(situ_nn_hardswish(), "Hardswish()", x, situ_hardswish(x));
  expect_module(situ_nn_hardsigmoid(), "Hardsigmoid()", x, situ_hardsigmoid(x));
  expect_module(situ_nn_log_sigmoid(), "LogSigmoid()", x, situ_logsigmoid(x));
  expect_module(situ_nn_softsign(), "Softsign()", x, situ_softsign(x));
  expect_module(situ_nn_tanhshrink(), "Tanhshrink()", x, situ_tanhshrink(x));
  expect_module(situ_nn_quick_gelu(), "QuickGELU()", x, situ_quick_gelu(x));
  expect_module(situ_nn_celu(2), "CELU(alpha=2.0)", x, situ_celu(x, 2));
  expect_module(situ_nn_softshrink(0.5), "Softshrink(0.5)", x, situ_softshrink(x, 0.5));
  expect_module(situ_nn_hardshrink(0.5), "Hardshrink(0.5)", x, situ_hardshrink(x, 0.5));
  expect_module(situ_nn_threshold(0.5, 3), "Threshold(threshold=0.5, value=3.0)", x, situ_threshold(x, 0.5, 3));
  expect_module(situ_nn_glu(-1), "GLU(dim=-1)", x, situ_glu(x, -1));
}

static void prelu_learns(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_prelu(2, 0.25, &(situ_nn_prelu_options){ .device = test_device() });
  situ_tensor *x = T32(SITU_SHAPE(2, 2), 1, -2, -4, -8), *weight = situ_nn_get_tensor(m, "weight");
  char printed[64];
  situ_nn_to_string(m, printed, sizeof printed);
  assert_string_equal(printed, "PReLU(num_parameters=2)");
  expect_exact(weight, SITU_SHAPE(2), 0.25, 0.25);
  situ_tensor *y = situ_nn_forward(m, x);
  expect_exact(y, SITU_SHAPE(2, 2), 1, -0.5, -1, -2);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(weight), SITU_SHAPE(2), -4, -10);
  situ_nn_free(m);
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(1), 1);
  situ_nn_module *m = situ_nn_celu(0);
  expect_refused(situ_nn_forward(m, x), SITU_E_ARG, "celu", "alpha is 0");
  situ_nn_free(m);
  expect_refused(situ_nn_prelu(-1, 0.25, NULL), SITU_E_SHAPE, "", "-1");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(modules_call_their_functions), TEST(prelu_learns), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
