/* gradcheck and gradgradcheck: right gradients pass, wrong ones are named. */
#include "situ/func.h"
#include "support/test.h"

static situ_tensor *leaf(int64_t n, int64_t m) { return test_random(SITU_SHAPE(n, m), 0.2, 1, true); }

static situ_tensor *smooth(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_softmax(situ_mul(situ_exp(in[0]), situ_matmul(in[0], in[1])), -1);
}

/* y = x^3, whose backward is wrong for one element; or right at first, but with a constant where its own derivative is
   asked for. */
static situ_status cube(situ_tensor *const *in, int count_in, situ_tensor **out, int count_out, void *payload) {
  (void)count_in, (void)count_out, (void)payload;
  out[0] = situ_pow_scalar(in[0], 3);
  return out[0] ? SITU_OK : situ_error();
}
static situ_status cube_back(situ_tensor *const *in, int count_in, situ_tensor *const *out, int count_out,
                             situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  (void)count_in, (void)out, (void)count_out;
  situ_tensor *slope = situ_mul_scalar(situ_square(in[0]), 3);
  if (*(int *)payload == 1) {
    slope = situ_clone(slope);
    if (!situ_mul_scalar_(situ_narrow(situ_select(slope, 0, 1), 0, 2, 1), 1.5)) return situ_error();
  }
  if (*(int *)payload == 2) slope = situ_detach(slope);
  grad_in[0] = situ_mul(grad_out[0], slope);
  return grad_in[0] ? SITU_OK : situ_error();
}
static situ_tensor *cubed(situ_tensor *const *in, int count, void *payload) {
  static const situ_function f = { .name = "cube", .forward = cube, .backward = cube_back };
  situ_tensor *y;
  (void)count;
  return situ_function_apply(&f, in, 1, &y, 1, payload) == SITU_OK ? y : NULL;
}

static void right_gradients_pass(void **state) {
  (void)state;
  situ_tensor *in[2] = { leaf(2, 3), leaf(3, 3) };
  int fault = 0;
  const situ_gradcheck_options both = OPTIONS_OF(situ_gradcheck, with.check_forward_ad = true);
  assert_int_equal(situ_autograd_gradcheck(smooth, NULL, 2, in, &both), SITU_OK);
  assert_int_equal(situ_autograd_gradgradcheck(smooth, NULL, 2, in, NULL), SITU_OK);
  assert_int_equal(situ_autograd_gradcheck(cubed, &fault, 1, in, NULL), SITU_OK);
  assert_int_equal(situ_autograd_gradgradcheck(cubed, &fault, 1, in, NULL), SITU_OK);
  assert_null(situ_grad(in[0]));
}

static void wrong_gradients_are_named(void **state) {
  (void)state;
  situ_tensor *x = leaf(2, 3), *narrow = situ_requires_grad_(situ_to_dtype(situ_detach(leaf(2, 3)), SITU_F32), true);
  int fault = 1;
  assert_non_null(situ_set_name(x, "x"));
  assert_int_equal(situ_autograd_gradcheck(cubed, &fault, 1, &x, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "autograd_gradcheck", "inputs[0], x at [1, 2] is");
  fault = 2;
  assert_int_equal(situ_autograd_gradcheck(cubed, &fault, 1, &x, NULL), SITU_OK);
  assert_int_equal(situ_autograd_gradgradcheck(cubed, &fault, 1, &x, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "autograd_gradgradcheck", "by backward");
  assert_int_equal(situ_autograd_gradcheck(smooth, NULL, 1, &narrow, NULL), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "autograd_gradcheck", "must be f64");
  x = situ_detach(x);
  assert_int_equal(situ_autograd_gradcheck(cubed, &fault, 1, &x, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "autograd_gradcheck", "no input requires a gradient");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(right_gradients_pass), TEST(wrong_gradients_are_named) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
