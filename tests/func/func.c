/* torch.func: Jacobians from both sides, Hessians, products with them; what forward mode refuses. */
#include "situ/func.h"

#include <math.h>
#include <string.h>

#include "situ/nn.h"
#include "support/test.h"

static situ_tensor *row(double a, double b) { return T64(SITU_SHAPE(2), a, b); }

/* [x y, sin x, y^3] of in[0] = (x, y), times in[1] */
static situ_tensor *three(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  situ_tensor *x = situ_select(in[0], 0, 0), *y = situ_select(in[0], 0, 1);
  situ_tensor *part[3] = { situ_mul(x, y), situ_sin(x), situ_pow_scalar(y, 3) };
  return situ_mul(situ_stack(part, 3, 0), in[1]);
}
/* x^2 y + exp(y) */
static situ_tensor *energy(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  situ_tensor *x = situ_select(in[0], 0, 0), *y = situ_select(in[0], 0, 1);
  return situ_add(situ_mul(situ_square(x), y), situ_exp(y));
}

static void products_from_both_sides(void **state) {
  (void)state;
  situ_tensor *in[2] = { row(0.5, 2), T64(SITU_SCALAR, 2) }, *t[2] = { row(1, -1), NULL }, *along, *grads[2];
  situ_tensor *y = situ_func_jvp(three, NULL, 2, in, t, &along);
  expect_close(y, SITU_SHAPE(3), 1e-12, 0, 2, 2 * sin(0.5), 16);
  expect_close(along, SITU_SHAPE(3), 1e-12, 0, 2 * (2 - 0.5), 2 * cos(0.5), -24);
  assert_false(situ_requires_grad(along));
  y = situ_func_vjp(three, NULL, 2, in, T64(SITU_SHAPE(3), 1, 2, 3), false, grads);
  expect_close(grads[0], SITU_SHAPE(2), 1e-12, 0, 2 * 2 + 4 * cos(0.5), 2 * 0.5 + 6 * 12);
  expect_close(grads[1], SITU_SCALAR, 1e-12, 0, 1 + 2 * sin(0.5) + 24);
  assert_false(situ_requires_grad(y) || situ_requires_grad(grads[0]) || situ_requires_grad(in[0]));
  expect_values(situ_mul(grads[0], situ_requires_grad_(row(1, 1), true)), SITU_SHAPE(2), 7.5103302476, 73);
}

static situ_tensor *squares(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_square(in[0]);
}

static void jacobians(void **state) {
  (void)state;
  for (int dims = 4; dims <= 5; dims++) { /* twice as many in the result, which has room for 8 */
    const situ_shape shape = { .ndim = dims, .dim = { 1, 1, 1, 1, 1 } };
    situ_tensor *deep = situ_reshape(T64(SITU_SHAPE(1), 3), shape), *j = situ_func_jacrev(squares, NULL, 1, &deep, 0);
    if (dims == 4) expect_exact(situ_flatten(j, 0, -1), SITU_SHAPE(1), 6);
    else expect_refused(j, SITU_E_SHAPE, "func_jacrev", "10 dimensions together");
  }
  situ_tensor *in[2] = { row(0.5, 2), T64(SITU_SCALAR, 2) };
  const double want[] = { 4, 1, 2 * cos(0.5), 0, 0, 24 };
  test_close_(situ_func_jacrev(three, NULL, 2, in, 0), SITU_SHAPE(3, 2), want, 1e-12, 0, __FILE__, __LINE__);
  test_close_(situ_func_jacfwd(three, NULL, 2, in, 0), SITU_SHAPE(3, 2), want, 1e-12, 0, __FILE__, __LINE__);
  expect_close(situ_func_jacrev(three, NULL, 2, in, 1), SITU_SHAPE(3), 1e-12, 0, 1, sin(0.5), 8);
  expect_close(situ_func_jacfwd(three, NULL, 2, in, 1), SITU_SHAPE(3), 1e-12, 0, 1, sin(0.5), 8);
}

static void hessians(void **state) {
  (void)state;
  situ_tensor *x = row(3, 0.5), *v = row(1, 2);
  const double e = exp(0.5);
  expect_close(situ_func_hessian(energy, NULL, 1, &x, 0), SITU_SHAPE(2, 2), 1e-12, 0, 1, 6, 6, e);
  expect_close(situ_func_hvp(energy, NULL, 1, &x, 0, v), SITU_SHAPE(2), 1e-12, 0, 1 + 12, 6 + 2 * e);
}

/* A tangent has a history where its primal requires a gradient: d/dx of the derivative along v. */
static void tangents_are_differentiable(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(row(3, 0.5), true), *v = row(1, 2), *along;
  assert_non_null(situ_func_jvp(energy, NULL, 1, &x, &v, &along));
  assert_int_equal(situ_backward(along, NULL), SITU_OK);
  expect_close(situ_grad(x), SITU_SHAPE(2), 1e-12, 0, 1 + 12, 6 + 2 * exp(0.5));
}

static situ_tensor *written(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  situ_tensor *out = situ_zeros(SITU_SHAPE(4), &(situ_options){ .dtype = SITU_F64, .device = situ_device_of(in[0]) });
  situ_tensor *early = situ_narrow(out, 0, 0, 2); /* a view made before the base has a tangent */
  (void)situ_copy_(situ_narrow(out, 0, 1, 2), situ_square(in[0]));
  (void)situ_mul_(early, situ_exp(in[0]));
  (void)situ_fill_(situ_narrow(out, 0, 3, 1), 7);
  (void)situ_tanh_(situ_narrow(out, 0, 2, 2));
  return out;
}
static void writes_in_place(void **state) {
  (void)state;
  situ_tensor *x = row(0.3, -0.7), *v = row(1, 2), *along, *grad;
  situ_tensor *y = situ_func_jvp(written, NULL, 1, &x, &v, &along);
  const double a = 0.3, b = -0.7, second = a * a * exp(b), third = tanh(b * b);
  expect_close(y, SITU_SHAPE(4), 1e-12, 0, 0, second, third, tanh(7));
  expect_close(along, SITU_SHAPE(4), 1e-12, 1e-15, 0, 2 * a * exp(b) + 2 * second, 2 * 2 * b * (1 - third * third), 0);
  assert_non_null(situ_func_vjp(written, NULL, 1, &x, T64(SITU_SHAPE(4), 1, 1, 1, 1), false, &grad));
  expect_close(grad, SITU_SHAPE(2), 1e-12, 0, 2 * a * exp(b), second + 2 * b * (1 - third * third));
}

/* The sign of a number has no tangent, so what it is written to has none either. */
static situ_tensor *signed_ones(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  situ_tensor *sign = situ_ones_like(in[0], NULL);
  return situ_copysign_(sign, in[0]) ? situ_mul(sign, in[0]) : NULL;
}
static void what_is_written_without_a_tangent_has_none(void **state) {
  (void)state;
  situ_tensor *x = row(0.3, -0.7), *v = row(1, 2), *along;
  expect_close(situ_func_jvp(signed_ones, NULL, 1, &x, &v, &along), SITU_SHAPE(2), 1e-12, 0, 0.3, 0.7);
  expect_close(along, SITU_SHAPE(2), 1e-12, 0, 1, -2);
}

static situ_tensor *through_module(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  return situ_nn_forward(payload, in[0]);
}
static void modules(void **state) {
  (void)state;
  const situ_nn_linear_options f64 = { .dtype = SITU_F64, .device = test_device() };
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(3, 8, &f64), situ_nn_tanh(), situ_nn_linear(8, 2, &f64));
  situ_tensor *x = test_random(SITU_SHAPE(3), -1, 1, false);
  situ_tensor *forward = situ_func_jacfwd(through_module, net, 1, &x, 0),
              *backward = situ_func_jacrev(through_module, net, 1, &x, 0);
  expect_same(forward, backward, 1e-12, 1e-14);
  situ_nn_free(net);
}

/* ---- what is refused ---- */

static situ_tensor *asks_for_gradients(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  situ_tensor *x = situ_requires_grad_(situ_clone(in[0]), true), *g;
  return situ_autograd_grad(situ_sum(situ_square(x), NULL), 1, &x, &g, NULL) == SITU_OK ? g : NULL;
}
static situ_tensor *nests(situ_tensor *const *in, int count, void *payload) {
  (void)payload;
  return situ_func_jvp(energy, NULL, count, in, NULL, NULL);
}
static situ_status double_it(situ_tensor *const *in, int count_in, situ_tensor **out, int count_out, void *payload) {
  (void)count_in, (void)count_out, (void)payload;
  out[0] = situ_mul_scalar(in[0], 2);
  return out[0] ? SITU_OK : situ_error();
}
static situ_tensor *custom(situ_tensor *const *in, int count, void *payload) {
  static const situ_function f = { .name = "double_it", .forward = double_it };
  situ_tensor *y;
  (void)count, (void)payload;
  return situ_function_apply(&f, in, 1, &y, 1, NULL) == SITU_OK ? y : NULL;
}
static situ_tensor *nothing(situ_tensor *const *in, int count, void *payload) {
  (void)in, (void)count, (void)payload;
  return NULL;
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = row(1, 2), *whole = TI64(SITU_SHAPE(2), 1, 2), *short_ = T64(SITU_SHAPE(1), 1), *along;
  expect_refused(situ_func_jvp(asks_for_gradients, NULL, 1, &x, &x, &along), SITU_E_UNSUPPORTED, "autograd_grad",
                 "inside situ_func_jvp");
  expect_refused(situ_func_jvp(nests, NULL, 1, &x, &x, &along), SITU_E_UNSUPPORTED, "func_jvp", "tangent of a tangent");
  expect_refused(situ_func_jvp(custom, NULL, 1, &x, &x, &along), SITU_E_UNSUPPORTED, "double_it", "tangent");
  expect_refused(situ_func_jvp(nothing, NULL, 1, &x, &x, &along), SITU_E_STATE, "func_jvp", "no tensor");
  expect_refused(situ_func_jacrev(nothing, NULL, 1, &x, 0), SITU_E_STATE, "func_jacrev", "no tensor");
  expect_refused(situ_func_jvp(energy, NULL, 1, &x, &short_, &along), SITU_E_SHAPE, "func_jvp", "tangents is f64 [1]");
  expect_refused(situ_func_jacrev(energy, NULL, 1, &whole, 0), SITU_E_DTYPE, "func_jacrev", "must be floating");
  expect_refused(situ_func_jacrev(energy, NULL, 1, &x, 1), SITU_E_ARG, "func_jacrev", "argnum is 1");
  expect_refused(situ_func_hvp(three, NULL, 2, (situ_tensor *[]){ x, x }, 0, x), SITU_E_SHAPE, "", "");
  assert_non_null(situ_func_jvp(energy, NULL, 1, &x, &x, &along)); /* nothing of the failures is left */
  expect_close(along, SITU_SCALAR, 1e-12, 0, 2 * 2 + 1 * 2 + 2 * exp(2));
}

/* A Jacobian's directions are an identity matrix, by which the first product does not multiply. */
static situ_tensor *product_by(situ_tensor *const *in, int count, void *weight) {
  (void)count;
  return situ_linear(in[0], weight, NULL);
}
static situ_tensor *product_of_doubled(situ_tensor *const *in, int count, void *weight) {
  (void)count;
  situ_tensor *x = situ_mul_scalar(in[0], 1);
  return situ_linear(situ_mul_scalar_(x, 2), weight, NULL);
}
static situ_tensor *doubled_product(situ_tensor *const *in, int count, void *weight) {
  (void)count;
  return situ_mul_scalar_(situ_linear(in[0], weight, NULL), 2);
}
static void directions_are_not_multiplied_nor_shared(void **state) {
  (void)state;
  situ_tensor *w = T64(SITU_SHAPE(2, 2), 1, 2, 3, INFINITY), *x = T64(SITU_SHAPE(2), 1, 1), *j[2];
  j[0] = situ_func_jacfwd(product_by, w, 1, &x, 0);
  j[1] = situ_func_jacrev(product_by, w, 1, &x, 0);
  for (int k = 0; k < 2; k++) {
    expect_values(j[k], SITU_SHAPE(2, 2), 1, 2, 3, INFINITY); /* 0 times infinity would be NaN */
    assert_false(situ_shares_storage(j[k], w));
  }
  w = T64(SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
  for (int k = 0; k < 2; k++) {
    situ_func f = k ? doubled_product : product_of_doubled;
    expect_values(situ_func_jacfwd(f, w, 1, &x, 0), SITU_SHAPE(3, 2), 2, 4, 6, 8, 10, 12);
    expect_values(situ_func_jacrev(f, w, 1, &x, 0), SITU_SHAPE(3, 2), 2, 4, 6, 8, 10, 12);
  }
  expect_values(w, SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
}

/* Goes on after a call that failed. */
static situ_tensor *careless(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  (void)situ_add(in[0], situ_ones(SITU_SHAPE(7), &(situ_options){ .dtype = SITU_F64, .device = test_device() }));
  return situ_square(in[0]);
}
static void a_failed_call_within_gives_no_result(void **state) {
  (void)state;
  situ_tensor *x = row(0.3, -0.7), *grad = x;
  expect_refused(situ_func_vjp(careless, NULL, 1, &x, row(1, 1), false, &grad), SITU_E_SHAPE, "add", "");
  assert_null(grad);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(products_from_both_sides),
    TEST(jacobians),
    TEST(directions_are_not_multiplied_nor_shared),
    TEST(hessians),
    TEST(tangents_are_differentiable),
    TEST(writes_in_place),
    TEST(what_is_written_without_a_tangent_has_none),
    TEST(modules),
    TEST(refusals),
    TEST(a_failed_call_within_gives_no_result),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
