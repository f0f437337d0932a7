/* Bad inputs, rows 47, 48 and 63 to 70: gradients, graphs, functions of one's own, optimiser steps.
   SPDX-License-Identifier: MIT */
#include "situ/optim.h"
#include "support/late.h"

static situ_tensor *leaf(void) { return situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true); }

#define refuse_status(call, code, op, part) \
  do {                                      \
    assert_int_equal(call, code);           \
    expect_error(code, op, part);           \
  } while (0)
#define BACK(y, g) situ_backward(y, &(situ_backward_options){ .gradient = g })

static void rows_48_and_63_gradients_given(void **state) {
  (void)state;
  situ_tensor *x = leaf(), *y = situ_mul(x, x),
              *away = situ_ones(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_F64, .device = situ_dev("sim:1") });
  refuse_status(situ_backward(y, NULL), SITU_E_SHAPE, "backward",
                "shape [2]: only one element has a gradient of 1; pass options.gradient");
  refuse_status(BACK(y, T64(SITU_SHAPE(3), 1, 1, 1)), SITU_E_SHAPE, "backward",
                "gradient is f64 [3], the tensor f64 [2]");
  refuse_status(BACK(y, T64(SITU_SCALAR, 1)), SITU_E_SHAPE, "backward", "gradient is f64 []");
  refuse_status(BACK(y, T32(SITU_SHAPE(2), 1, 1)), SITU_E_DTYPE, "backward", "gradient is f32");
  refuse_status(BACK(y, away), SITU_E_DEVICE, "backward", "gradient is on sim:1");
  refuse_status(situ_backward(NULL, NULL), SITU_E_ARG, "backward", "NULL");
  refuse_status(situ_backward(situ_detach(y), NULL), SITU_E_STATE, "backward", "does not require a gradient");
  situ_tensor *grads[1] = { x };
  refuse_status(situ_autograd_grad(y, 0, &x, grads, NULL), SITU_E_ARG, "", "no inputs");
  refuse_status(situ_autograd_grad(situ_sum(y, NULL), 1, &away, grads, NULL), SITU_E_STATE, "",
                "inputs[0] does not require a gradient");
  refuse_status(situ_set_grad(x, T64(SITU_SHAPE(3), 1, 1, 1)), SITU_E_SHAPE, "set_grad",
                "grad is f64 [3], the tensor f64 [2]");
  refuse_status(situ_set_grad(x, T32(SITU_SHAPE(2), 1, 1)), SITU_E_DTYPE, "set_grad", "grad is f32");
  refuse_status(situ_set_grad(x, away), SITU_E_DEVICE, "set_grad", "sim:1");
  assert_null(situ_grad(x));
  assert_int_equal(BACK(y, T64(SITU_SHAPE(2), 1, 1)), SITU_OK); /* the graph has survived all that */
  expect_exact(situ_grad(x), SITU_SHAPE(2), 2, 4);
}

static situ_tensor *shorter(situ_tensor *grad, void *payload) { return (void)payload, situ_narrow(grad, 0, 0, 1); }

static void row_47_a_hook_that_spoils_a_gradient(void **state) {
  (void)state;
  situ_tensor *x = leaf(), *y = situ_mul_scalar(x, 2);
  assert_int_equal(situ_register_hook(y, shorter, NULL), SITU_OK);
  refuse_status(situ_backward(situ_sum(y, NULL), NULL), SITU_E_SHAPE, "",
                "a hook returned a gradient of another shape");
  refuse_status(situ_register_hook(y, NULL, NULL), SITU_E_ARG, "register_hook", "NULL");
  refuse_status(situ_register_hook(situ_detach(y), shorter, NULL), SITU_E_STATE, "register_hook",
                "does not require a gradient");
  assert_null(situ_grad(x));
}

static void rows_64_to_67_graphs(void **state) {
  (void)state;
  situ_tensor *x = leaf(), *y = situ_sum(situ_mul(x, x), NULL);
  assert_int_equal(situ_backward(y, NULL), SITU_OK);
  refuse_status(situ_backward(y, NULL), SITU_E_STATE, "backward", "already used by a backward");
  expect_exact(situ_grad(x), SITU_SHAPE(2), 2, 4);

  situ_tensor *z = leaf(), *h = situ_mul_scalar(z, 2), *square = situ_sum(situ_mul(h, h), NULL);
  assert_non_null(situ_add_scalar_(h, 1));
  refuse_status(situ_backward(square, NULL), SITU_E_STATE, "backward", "changed in place since");
  assert_null(situ_grad(z));

  expect_refused(situ_add_scalar_(x, 1), SITU_E_STATE, "add_scalar_", "leaf that requires a gradient");
  expect_refused(situ_zero_(x), SITU_E_STATE, "zero_", "leaf");
  refuse_status(situ_copy_from_host(x, (double[2]){ 9, 9 }, 16), SITU_E_STATE, "copy_from_host", "leaf");
  expect_exact(x, SITU_SHAPE(2), 1, 2);

  const situ_dtype whole[] = { SITU_BOOL, SITU_U8, SITU_I8, SITU_I16, SITU_I32, SITU_I64 };
  for (int i = 0; i < 6; i++) {
    expect_refused(situ_requires_grad_(test_tensor(whole[i], SITU_SHAPE(1), (double[]){ 1 }), true), SITU_E_DTYPE,
                   "requires_grad_", situ_dtype_name(whole[i]));
    expect_refused(
        situ_zeros(SITU_SHAPE(1), &(situ_options){ .dtype = whole[i], .device = test_device(), .requires_grad = true }),
        SITU_E_DTYPE, "", "gradient");
  }
  expect_refused(situ_requires_grad_(situ_mul_scalar(x, 2), false), SITU_E_STATE, "requires_grad_", "only a leaf");
  refuse_status(situ_retain_grad(situ_detach(x)), SITU_E_STATE, "retain_grad", "does not require");
}

/* ---- row 68: functions of one's own ---- */

typedef enum fault { FINE, NO_GRADIENT, SHORT_GRADIENT, OTHER_DTYPE, DEAD_GRADIENT, NO_RESULT, FAILS } fault;
static int released;

static situ_status double_it(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  (void)ins, (void)outs;
  fault f = *(fault *)payload;
  if (f == FAILS) return SITU_E_LIMIT;
  if (f != NO_RESULT) out[0] = situ_mul_scalar(in[0], 2);
  return SITU_OK;
}
static situ_status double_back(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                               situ_tensor *const *grad, situ_tensor **dx, void *payload) {
  (void)in, (void)ins, (void)out, (void)outs;
  static uint64_t dead[64];
  switch (*(fault *)payload) {
  case NO_GRADIENT: break;
  case SHORT_GRADIENT: dx[0] = situ_narrow(grad[0], 0, 0, 1); break;
  case OTHER_DTYPE: dx[0] = situ_to_dtype(grad[0], SITU_F32); break;
  case DEAD_GRADIENT: dx[0] = (situ_tensor *)(void *)dead; break;
  default: dx[0] = situ_mul_scalar(grad[0], 2);
  }
  return SITU_OK;
}
static void count_release(void *payload) { (void)payload, released++; }

static void row_68_functions(void **state) {
  (void)state;
  static const situ_function f = {
    .name = "double_it", .forward = double_it, .backward = double_back, .release = count_release
  };
  static const struct {
    fault f;
    const char *part;
  } rows[] = { { NO_GRADIENT, "left no gradient for operand 0" },
               { SHORT_GRADIENT, "backward returned f64 [1] as the gradient of operand 0, which is f64 [2]" },
               { OTHER_DTYPE, "returned f32 [2]" },
               { DEAD_GRADIENT, "grad_in is not a tensor" } };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fault kind = rows[i].f;
    situ_tensor *x = leaf(), *y = NULL;
    assert_int_equal(situ_function_apply(&f, &x, 1, &y, 1, &kind), SITU_OK);
    refuse_status(situ_backward(situ_sum(y, NULL), NULL), SITU_E_ARG, "", rows[i].part);
    assert_null(situ_grad(x));
  }
  situ_tensor *x = leaf(), *y = x;
  released = 0;
  refuse_status(situ_function_apply(&f, &x, 1, &y, 1, &(fault){ NO_RESULT }), SITU_E_ARG, "double_it",
                "`result` is NULL");
  assert_null(y);
  refuse_status(situ_function_apply(&f, &x, 1, &y, 1, &(fault){ FAILS }), SITU_E_LIMIT, "double_it", "forward failed");
  refuse_status(situ_function_apply(&f, &x, 0, &y, 1, &(fault){ FINE }), SITU_E_ARG, "double_it",
                "operands and results");
  refuse_status(situ_function_apply(&f, (situ_tensor *[]){ NULL }, 1, &y, 1, &(fault){ FINE }), SITU_E_ARG, "double_it",
                "NULL");
  refuse_status(situ_function_apply(&f, &x, 1, &y, 0, &(fault){ FINE }), SITU_E_ARG, "double_it",
                "operands and results");
  refuse_status(situ_function_apply(&f, NULL, 1, &y, 1, &(fault){ FINE }), SITU_E_ARG, "double_it",
                "operands and results");
  refuse_status(situ_function_apply(&f, &x, 1, NULL, 1, &(fault){ FINE }), SITU_E_ARG, "double_it",
                "operands and results");
  assert_int_equal(released, 7); /* once each, refused or not */
  refuse_status(situ_function_apply(NULL, &x, 1, &y, 1, NULL), SITU_E_ARG, "function_apply", "needs a forward");
}

/* A chain of 10^6 calls is freed without a backward, and without recursion (with one: tests/autograd/tape.c). */
static void row_69_a_long_graph(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T64(SITU_SCALAR, 1), true), *y = NULL;
  assert_true(situ_set(&y, x));
  for (int i = 0; i < 1000000; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    assert_true(situ_set(&y, situ_detach(y) ? situ_view(y, SITU_SCALAR) : NULL));
    assert_int_equal(situ_scope_end(&s), SITU_OK);
  }
  situ_drop(&y);
}

static void row_70_steps(void **state) {
  (void)state;
  situ_tensor *a = leaf(), *b = leaf();
  situ_optim *o = situ_optim_sgd(SITU_TREE(a, b), 0.5, NULL);
  assert_non_null(o);
  assert_int_equal(situ_set_grad(a, T64(SITU_SHAPE(2), 1, 1)), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_OK); /* documented: without a gradient, a parameter is skipped */
  expect_exact(a, SITU_SHAPE(2), 0.5, 1.5);
  expect_exact(b, SITU_SHAPE(2), 1, 2);
  refuse_status(situ_set_grad(a, T64(SITU_SHAPE(1), 1)), SITU_E_SHAPE, "set_grad", "grad is f64 [1]");
  refuse_status(situ_optim_step(NULL), SITU_E_ARG, "optim_step", "NULL");
  situ_optim_free(o);
  situ_tensor *held = NULL;
  situ_scope s;
  situ_scope_begin(&s);
  assert_true(situ_set(&held, leaf()));
  o = situ_optim_sgd(SITU_TREE(held), 1e-3, NULL);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_drop(&held); /* only the optimiser is left */
  refuse_status(situ_optim_step(o), SITU_E_STATE, "optim_step", "only the optimiser holds it");
  situ_optim_free(o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(rows_48_and_63_gradients_given),
    TEST(row_47_a_hook_that_spoils_a_gradient),
    TEST(rows_64_to_67_graphs),
    TEST(row_68_functions),
    TEST(row_69_a_long_graph),
    TEST(row_70_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
