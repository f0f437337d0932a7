/* create_graph: gradients with a history. What each op's second derivative is, autograd/twice tests. */
#include <stdio.h>

#include "situ/sys/op.h"
#include "support/test.h"

static const situ_backward_options create = { .create_graph = true };

static situ_tensor *leaf(double a, double b) { return situ_requires_grad_(T64(SITU_SHAPE(2), a, b), true); }

static situ_tensor *gradient(situ_tensor *y, situ_tensor *x) {
  situ_tensor *g = NULL;
  if (situ_autograd_grad(y, 1, &x, &g, &create) != SITU_OK) fail_msg("%s", situ_error_message());
  return g;
}

/* L = u^2 + (du/dw)^2 with u = w^2 x: dL/dw = 2 u 2 w x + 2 (2 w x) 2 x. */
static void a_gradient_takes_part_in_a_loss(void **state) {
  (void)state;
  situ_tensor *w = situ_requires_grad_(T64(SITU_SHAPE(1), 2), true), *x = T64(SITU_SHAPE(1), 2);
  situ_tensor *u = situ_mul(situ_square(w), x), *g = gradient(u, w);
  expect_exact(g, SITU_SHAPE(1), 8);
  assert_true(situ_requires_grad(g) && !situ_is_leaf(g));
  assert_int_equal(situ_backward(situ_sum(situ_add(situ_square(u), situ_square(g)), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(w), SITU_SHAPE(1), 2 * 8 * 8 + 2 * 8 * 4);
}

static void derivatives_of_any_order(void **state) {
  (void)state;
  situ_tensor *x = leaf(1, 2), *y = situ_pow_scalar(x, 5);
  const double factor[][2] = { { 5, 80 }, { 20, 160 }, { 60, 240 }, { 120, 240 }, { 120, 120 } };
  for (int k = 0; k < 5; k++) {
    y = gradient(situ_sum(y, NULL), x);
    expect_close(y, SITU_SHAPE(2), 1e-12, 0, factor[k][0], factor[k][1]);
  }
  situ_tensor *t = leaf(0.3, -0.8), *z = situ_tanh(t);
  for (int k = 0; k < 4; k++) z = gradient(situ_sum(z, NULL), t); /* tanh'''' = 8 y (1 - y^2) (2 - 3 y^2) */
  expect_close(z, SITU_SHAPE(2), 1e-10, 0, 3.72248581661372, -2.01109046834781);
}

/* In a no_grad scope, too, as in torch: what create_graph says counts. */
static void the_enclosing_scope_does_not_matter(void **state) {
  (void)state;
  situ_tensor *x = leaf(1, 2), *y = situ_sum(situ_exp(x), NULL), *g, *h;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  g = gradient(y, x);
  assert_true(situ_requires_grad(g));
  assert_non_null(situ_escape(&s, g));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  h = gradient(situ_sum(g, NULL), x);
  expect_values(h, SITU_SHAPE(2), 2.718281828, 7.389056099);
}

static void gradients_of_leaves_have_a_history(void **state) {
  (void)state;
  situ_tensor *x = leaf(1, 2), *y = situ_sum(situ_mul(x, situ_square(x)), NULL), *h;
  assert_int_equal(situ_backward(y, &create), SITU_OK);
  assert_int_equal(situ_backward(y, &create), SITU_OK); /* create_graph retains the graph; gradients add up */
  expect_exact(situ_grad(x), SITU_SHAPE(2), 6, 24);
  h = gradient(situ_sum(situ_grad(x), NULL), x);
  expect_exact(h, SITU_SHAPE(2), 12, 24);
  assert_int_equal(situ_set_grad(x, NULL), SITU_OK); /* a gradient and its leaf own each other until then */
}

static situ_tensor *halve(situ_tensor *grad, void *payload) {
  *(bool *)payload = situ_requires_grad(grad);
  return situ_mul_scalar(grad, 0.5);
}

static void hooks_are_recorded(void **state) {
  (void)state;
  bool had = false;
  situ_tensor *x = leaf(1, 2), *y = situ_square(x);
  assert_int_equal(situ_register_hook(y, halve, &had), SITU_OK);
  situ_tensor *g = gradient(situ_sum(situ_square(y), NULL), x); /* 0.5 * 2 y * 2 x = 2 x^3 */
  assert_true(had);
  expect_exact(g, SITU_SHAPE(2), 2, 16);
  /* the hook halves what passes y here too */
  expect_exact(gradient(situ_sum(g, NULL), x), SITU_SHAPE(2), 4, 16);
}

static void writes_in_place_through_views(void **state) {
  (void)state;
  situ_tensor *x = leaf(2, 3), *out = T64(SITU_SHAPE(4), 0, 0, 0, 0);
  assert_non_null(situ_copy_(situ_narrow(out, 0, 1, 2), situ_square(x)));
  assert_non_null(situ_mul_(situ_narrow(out, 0, 0, 2), T64(SITU_SHAPE(2), 3, 3)));
  situ_tensor *g = gradient(situ_sum(situ_square(out), NULL), x); /* 9 * 4 x^3 and 4 x^3 */
  expect_exact(g, SITU_SHAPE(2), 288, 108);
  expect_exact(gradient(situ_sum(g, NULL), x), SITU_SHAPE(2), 432, 108);
}

/* A constant gradient is a constant, also for the next derivative. */
static situ_tensor *cubes(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_mul(situ_mul(in[0], in[0]), in[0]);
}

/* What is saved of a leaf is a copy without history: in a recomputed stretch of a view, and where the memory that it
   shares is written. */
static void copies_of_leaves_keep_their_history(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(situ_narrow(T64(SITU_SHAPE(4), 0, 1, 2, 3), 0, 1, 2), true);
  situ_tensor *g = gradient(situ_sum(situ_recompute(cubes, NULL, 1, &x), NULL), x);
  expect_exact(g, SITU_SHAPE(2), 3, 12);
  expect_exact(gradient(situ_sum(g, NULL), x), SITU_SHAPE(2), 6, 12);
  situ_tensor *y = situ_mul_scalar(leaf(1, 2), 2), *d = situ_requires_grad_(situ_detach(y), true);
  assert_non_null(situ_mul_(y, d)); /* (2, 4) times d */
  g = gradient(situ_sum(situ_square(y), NULL), d);
  expect_exact(g, SITU_SHAPE(2), 16, 128);
  expect_exact(gradient(situ_sum(g, NULL), d), SITU_SHAPE(2), 8, 32);
}

static void a_linear_function_has_a_constant_gradient(void **state) {
  (void)state;
  situ_tensor *x = leaf(1, 2), *g = gradient(situ_sum(situ_mul_scalar(x, 3), NULL), x);
  assert_false(situ_requires_grad(g));
  assert_int_equal(situ_backward(situ_sum(situ_mul(g, situ_square(x)), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(2), 6, 12);
}

static void a_gradient_without_a_history_is_still_refused(void **state) {
  (void)state;
  situ_tensor *x = leaf(1, 2), *g;
  assert_int_equal(situ_autograd_grad(situ_sum(situ_square(x), NULL), 1, &x, &g, NULL), SITU_OK);
  expect_refused(situ_mul(g, x), SITU_E_UNSUPPORTED, "mul", "create_graph");
}

/* ---- functions and ops of a program ---- */

static situ_status cube(situ_tensor *const *in, int count_in, situ_tensor **out, int count_out, void *payload) {
  (void)count_in, (void)count_out, (void)payload;
  out[0] = situ_mul(in[0], situ_square(in[0]));
  return out[0] ? SITU_OK : situ_error();
}
static situ_status cube_back(situ_tensor *const *in, int count_in, situ_tensor *const *out, int count_out,
                             situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  (void)count_in, (void)out, (void)count_out, (void)payload;
  grad_in[0] = situ_mul(grad_out[0], situ_mul_scalar(situ_square(in[0]), 3));
  return grad_in[0] ? SITU_OK : situ_error();
}
static situ_status raw_back(situ_tensor *const *in, int count_in, situ_tensor *const *out, int count_out,
                            situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  (void)count_in, (void)out, (void)count_out, (void)payload, (void)grad_out;
  double x[2];
  test_read(in[0], x);
  grad_in[0] = test_tensor(SITU_F64, SITU_SHAPE(2), (double[]){ 3 * x[0] * x[0], 3 * x[1] * x[1] });
  return SITU_OK;
}

static void functions_of_recorded_calls(void **state) {
  (void)state;
  static const situ_function f = { .name = "cube", .forward = cube, .backward = cube_back };
  situ_tensor *x = leaf(1, 2), *y;
  assert_int_equal(situ_function_apply(&f, &x, 1, &y, 1, NULL), SITU_OK);
  situ_tensor *g = gradient(situ_sum(y, NULL), x);
  expect_exact(g, SITU_SHAPE(2), 3, 12);
  expect_exact(gradient(situ_sum(g, NULL), x), SITU_SHAPE(2), 6, 12);
}

static void functions_of_other_code_are_refused(void **state) {
  (void)state;
  static const situ_function f = { .name = "raw", .forward = cube, .backward = raw_back };
  situ_tensor *x = leaf(1, 2), *y, *g;
  assert_int_equal(situ_function_apply(&f, &x, 1, &y, 1, NULL), SITU_OK);
  assert_int_equal(situ_autograd_grad(situ_sum(y, NULL), 1, &x, &g, &create), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "raw", "operand 0 was not computed by recorded calls");
  assert_null(g);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK); /* the graph is as it was */
  expect_exact(situ_grad(x), SITU_SHAPE(2), 3, 12);
}

static bool infer_same(situ_call *c) { return situ_infer_like(c); }
static bool copy_forward(situ_call *c) {
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ .verb = SITU_VERB_COPY,
                                   .ins = 1,
                                   .outs = 1,
                                   .in = { situ_desc(c->in[0]) },
                                   .out = { situ_desc(c->out[0]) } });
}
static bool pass_back(situ_grad_call *g) { return (g->dx[0] = g->grad[0]) != NULL; }

static void ops_without_a_recorded_backward_are_refused(void **state) {
  (void)state;
  static const situ_op op = { .name = "once",
                              .operand = { { "input", SITU_FLOATING } },
                              .infer = infer_same,
                              .forward = copy_forward,
                              .backward = pass_back };
  situ_tensor *x = leaf(1, 2), *y = situ_op_run1(&op, x, NULL), *g;
  assert_int_equal(situ_autograd_grad(situ_sum(y, NULL), 1, &x, &g, &create), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "once backward", "create_graph");
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
}

/* A backward that fails without an error of its own, as it may not, has failed in a recorded pass as well. */
static bool give_up(situ_grad_call *g) {
  (void)g;
  return false;
}
static bool record_linear(situ_grad_call *g) { return situ_backward_linear(g, 1); }
static void a_linear_backward_that_fails_is_told(void **state) {
  (void)state;
  static const situ_op op = { .name = "mute",
                              .operand = { { "input", SITU_FLOATING } },
                              .infer = infer_same,
                              .forward = copy_forward,
                              .backward = give_up,
                              .backward_recorded = record_linear };
  situ_tensor *x = leaf(1, 2), *y = situ_op_run1(&op, x, NULL), *g;
  assert_int_equal(situ_autograd_grad(situ_sum(y, NULL), 1, &x, &g, &create), SITU_E_STATE);
  expect_error(SITU_E_STATE, "mute", "backward failed");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_gradient_takes_part_in_a_loss),
    TEST(derivatives_of_any_order),
    TEST(the_enclosing_scope_does_not_matter),
    TEST(gradients_of_leaves_have_a_history),
    TEST(hooks_are_recorded),
    TEST(writes_in_place_through_views),
    TEST(copies_of_leaves_keep_their_history),
    TEST(a_linear_function_has_a_constant_gradient),
    TEST(a_gradient_without_a_history_is_still_refused),
    TEST(functions_of_recorded_calls),
    TEST(functions_of_other_code_are_refused),
    TEST(ops_without_a_recorded_backward_are_refused),
    TEST(a_linear_backward_that_fails_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
