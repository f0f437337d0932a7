/* The tape: what is recorded, walked back, refused. */
/* test-environment: SITU_TEST_AS_USED=1 */
/* test-slow: cuda:0/double */
/* test-cost: 400 */
#include "situ/sys/alloc.h"
#include "situ/sys/op.h"
#include "support/test.h"

static situ_tensor *leaf(double value) { return situ_requires_grad_(T64(SITU_SHAPE(2), value, 2 * value), true); }

static void a_simple_chain(void **state) {
  (void)state;
  situ_tensor *x = leaf(3);
  situ_tensor *y = situ_sum(situ_mul(x, situ_mul(x, x)), NULL);
  assert_true(situ_requires_grad(y));
  assert_false(situ_is_leaf(y));
  assert_int_equal(situ_backward(y, NULL), SITU_OK);
  expect_values(situ_grad(x), SITU_SHAPE(2), 27, 108);
}

static void gradients_add_up(void **state) {
  (void)state;
  situ_tensor *x = leaf(1);
  for (int i = 0; i < 3; i++) assert_int_equal(situ_backward(situ_sum(x, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(2), 3, 3);
  assert_int_equal(situ_set_grad(x, NULL), SITU_OK);
  assert_null(situ_grad(x));
}

/* a + b hands one gradient to both: writing to one's must not change the other's. */
static void leaves_do_not_share_gradients(void **state) {
  (void)state;
  situ_tensor *a = leaf(1), *b = leaf(2), *seed = T64(SITU_SHAPE(2), 1, 1);
  assert_int_equal(situ_backward(situ_add(a, b), &(situ_backward_options){ .gradient = seed }), SITU_OK);
  assert_false(situ_shares_storage(situ_grad(a), situ_grad(b)));
  assert_false(situ_shares_storage(situ_grad(a), seed));
  situ_zero_(situ_grad(a));
  expect_exact(situ_grad(b), SITU_SHAPE(2), 1, 1);
}

/* Gradients are there already, and held by others too: wherever memory ends, all of them grow or none does. */
static void gradients_grow_all_or_none(void **state) {
  (void)state;
  situ_tensor *a = leaf(1), *b = leaf(2), *held[2] = { NULL, NULL };
  assert_int_equal(situ_backward(situ_sum(situ_mul(a, b), NULL), NULL), SITU_OK);
  situ_set(&held[0], situ_grad(a));
  situ_set(&held[1], situ_grad(b));
  int points = 0;
  for (uint64_t nth = 1; nth < 200; nth++) {
    situ_tensor *y = situ_sum(situ_mul(a, b), NULL);
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
    situ_fail_allocation(nth, true);
    situ_status status = situ_backward(y, NULL);
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    points++;
    expect_error(SITU_E_NOMEM, "", "");
    assert_ptr_equal(situ_grad(a), held[0]);
    assert_ptr_equal(situ_grad(b), held[1]);
    expect_exact(situ_grad(a), SITU_SHAPE(2), 2, 4);
  }
  assert_true(points > 3);
  expect_exact(situ_grad(a), SITU_SHAPE(2), 4, 8);
  expect_exact(situ_grad(b), SITU_SHAPE(2), 2, 4);
  expect_exact(held[1], SITU_SHAPE(2), 1, 2);
  situ_drop(&held[0]);
  situ_drop(&held[1]);
}

static void a_gradient_must_fit(void **state) {
  (void)state;
  situ_tensor *x = leaf(1), *y = situ_mul_scalar(x, 2);
  assert_int_equal(situ_backward(y, NULL), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "backward", "pass options.gradient");
  assert_int_equal(situ_backward(y, &(situ_backward_options){ .gradient = T64(SITU_SHAPE(3), 1, 1, 1) }), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "backward", "gradient is f64 [3]");
  assert_int_equal(situ_backward(y, &(situ_backward_options){ .gradient = T32(SITU_SHAPE(2), 1, 1) }), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "backward", "gradient is f32");
  situ_tensor *elsewhere = situ_ones(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_F64, .device = situ_dev("meta") });
  assert_int_equal(situ_backward(y, &(situ_backward_options){ .gradient = elsewhere }), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "backward", "meta");
  assert_null(situ_grad(x));
}

static void a_used_graph_is_refused(void **state) {
  (void)state;
  situ_tensor *x = leaf(1), *y = situ_sum(situ_mul(x, x), NULL);
  assert_int_equal(situ_backward(y, &(situ_backward_options){ .retain_graph = true }), SITU_OK);
  assert_int_equal(situ_backward(y, NULL), SITU_OK);
  expect_values(situ_grad(x), SITU_SHAPE(2), 4, 8);
  assert_int_equal(situ_backward(y, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "retain_graph");
  expect_values(situ_grad(x), SITU_SHAPE(2), 4, 8);
}

static void a_changed_value_is_noticed(void **state) {
  (void)state;
  situ_tensor *x = leaf(1), *h = situ_mul_scalar(x, 2), *y = situ_sum(situ_mul(h, h), NULL);
  situ_add_scalar_(h, 1);
  assert_int_equal(situ_backward(y, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "changed in place");
  assert_null(situ_grad(x));
}

static void in_place_rules(void **state) {
  (void)state;
  situ_tensor *x = leaf(1);
  expect_refused(situ_add_scalar_(x, 1), SITU_E_STATE, "add_scalar_", "leaf that requires a gradient");
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_add_scalar_(x, 1));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_tensor *h = situ_mul_scalar(x, 3);
  assert_ptr_equal(situ_mul_scalar_(h, 2), h); /* recorded */
  assert_int_equal(situ_backward(situ_sum(h, NULL), NULL), SITU_OK);
  expect_values(situ_grad(x), SITU_SHAPE(2), 6, 6);
  situ_tensor *wide = situ_expand(T64(SITU_SHAPE(1), 5), SITU_SHAPE(4));
  expect_refused(situ_add_scalar_(wide, 1), SITU_E_ALIAS, "add_scalar_", "share memory");
  situ_tensor *row = T64(SITU_SHAPE(4), 1, 2, 3, 4);
  expect_refused(situ_add_(situ_narrow(row, 0, 1, 3), situ_narrow(row, 0, 0, 3)), SITU_E_ALIAS, "add_", "overlap");
  expect_refused(situ_add_(TI64(SITU_SHAPE(2), 1, 2), T64(SITU_SHAPE(2), 1, 2)), SITU_E_DTYPE, "add_",
                 "cannot be stored");
  expect_refused(situ_add_(T64(SITU_SHAPE(2), 1, 2), T64(SITU_SHAPE(2, 2), 1, 2, 3, 4)), SITU_E_SHAPE, "add_",
                 "does not fit");
}

static void integers_have_no_gradient(void **state) {
  (void)state;
  expect_refused(situ_requires_grad_(TI64(SITU_SHAPE(1), 1), true), SITU_E_DTYPE, "requires_grad_", "i64");
  assert_int_equal(situ_backward(T64(SITU_SHAPE(1), 1), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "does not require");
}

static void no_grad_leaves_no_graph(void **state) {
  (void)state;
  situ_tensor *x = leaf(1);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *y = situ_mul(x, x);
  assert_false(situ_requires_grad(y));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_false(situ_requires_grad(situ_detach(situ_mul(x, x))));
  assert_true(situ_shares_storage(x, situ_detach(x)));
}

static void many_calls_do_not_overflow_the_stack(void **state) {
  (void)state;
  const int calls = test_is_slow() ? 200000 : 1000000; /* a frame for each would overflow 8 MiB */
  situ_tensor *x = situ_requires_grad_(T64(SITU_SCALAR, 1), true), *y = NULL;
  situ_set(&y, x);
  for (int i = 0; i < calls; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_set(&y, situ_neg(y));
    assert_int_equal(situ_scope_end(&s), SITU_OK);
  }
  assert_int_equal(situ_backward(y, NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SCALAR, 1);
  situ_drop(&y);
}

/* ---- hooks, retain_grad, grad ---- */

static situ_tensor *twice(situ_tensor *grad, void *payload) {
  ++*(int *)payload;
  return situ_mul_scalar(grad, 2);
}
static situ_tensor *wrong_shape(situ_tensor *grad, void *payload) {
  (void)payload;
  return situ_sum(grad, NULL);
}

static void hooks(void **state) {
  (void)state;
  int calls = 0;
  situ_tensor *x = leaf(1), *h = situ_mul_scalar(x, 3);
  assert_int_equal(situ_register_hook(h, twice, &calls), SITU_OK);
  assert_int_equal(situ_register_hook(x, twice, &calls), SITU_OK);
  assert_int_equal(situ_retain_grad(h), SITU_OK);
  assert_int_equal(situ_backward(situ_sum(h, NULL), NULL), SITU_OK);
  assert_int_equal(calls, 2);
  expect_exact(situ_grad(h), SITU_SHAPE(2), 2, 2);
  expect_exact(situ_grad(x), SITU_SHAPE(2), 12, 12);
  situ_tensor *plain = situ_detach(x);
  assert_int_equal(situ_retain_grad(plain), SITU_E_STATE);
  expect_error(SITU_E_STATE, "retain_grad", "does not require a gradient");
  assert_int_equal(situ_register_hook(plain, twice, &calls), SITU_E_STATE);
  expect_error(SITU_E_STATE, "register_hook", "does not require a gradient");
  situ_tensor *z = leaf(1);
  assert_int_equal(situ_register_hook(z, wrong_shape, NULL), SITU_OK);
  assert_int_equal(situ_backward(situ_sum(z, NULL), NULL), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "backward", "hook");
  assert_null(situ_grad(z));
}

static void grad_of_chosen_inputs(void **state) {
  (void)state;
  situ_tensor *x = leaf(2), *h = situ_mul(x, x), *unused = leaf(1), *grads[3];
  situ_tensor *inputs[3] = { x, h, unused };
  assert_int_equal(situ_autograd_grad(situ_sum(situ_mul(h, h), NULL), 3, inputs, grads, NULL), SITU_OK);
  expect_values(grads[0], SITU_SHAPE(2), 32, 256);
  expect_values(grads[1], SITU_SHAPE(2), 8, 32);
  assert_null(grads[2]);
  assert_null(situ_grad(x));
}

/* ---- functions of one's own ---- */

static situ_status cube_forward(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  (void)ins, (void)outs, (void)payload;
  out[0] = situ_mul(in[0], situ_mul(in[0], in[0]));
  return out[0] ? SITU_OK : situ_error();
}
static situ_status cube_backward(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                                 situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  (void)ins, (void)out, (void)outs;
  int mode = payload ? *(int *)payload : 0;
  if (mode == 1) return SITU_OK; /* nothing where something is needed */
  if (mode == 2) return (grad_in[0] = situ_sum(grad_out[0], NULL)) ? SITU_OK : situ_error(); /* another shape */
  grad_in[0] = situ_mul(grad_out[0], situ_mul_scalar(situ_mul(in[0], in[0]), 3));
  return grad_in[0] ? SITU_OK : situ_error();
}
static const situ_function cube = { .name = "cube", .forward = cube_forward, .backward = cube_backward };

static situ_tensor *apply_cube(situ_tensor *const *in, void *payload) {
  situ_tensor *out;
  return situ_function_apply(&cube, in, 1, &out, 1, payload) == SITU_OK ? out : NULL;
}

static void own_functions(void **state) {
  (void)state;
  gradcheck(apply_cube, NULL, test_random(SITU_SHAPE(3, 2), -1, 1, true));
  situ_tensor *x = leaf(1);
  for (int mode = 1; mode <= 2; mode++) {
    assert_int_equal(situ_backward(situ_sum(apply_cube(&x, &mode), NULL), NULL), SITU_E_ARG);
    expect_error(SITU_E_ARG, "cube", "backward");
  }
}

static situ_status same_forward(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  (void)ins, (void)outs, (void)payload;
  out[0] = in[0];
  return SITU_OK;
}
static situ_status double_backward(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                                   situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  (void)in, (void)ins, (void)out, (void)outs, (void)payload;
  grad_in[0] = situ_mul_scalar(grad_out[0], 2);
  return grad_in[0] ? SITU_OK : situ_error();
}

static void count_line(const char *message, void *lines) {
  (void)message;
  ++*(int *)lines;
}

static void a_function_that_succeeds_says_nothing(void **state) {
  (void)state;
  int lines = 0;
  situ_tensor *x = leaf(1);
  situ_error_log(count_line, &lines);
  const situ_error_policy before = situ_error_mode(SITU_ERROR_LOG);
  assert_non_null(apply_cube(&x, NULL));
  situ_error_mode(before);
  situ_error_log(NULL, NULL);
  assert_int_equal(lines, 0);
}

/* ---- ops of one's own ---- */

static bool silent_forward(situ_call *call) {
  return situ_launch(call->op->name, call->device,
                     &(situ_work){ .verb = SITU_VERB_FILL, .outs = 1, .out = { situ_desc(call->out[0]) } });
}
static bool silent_backward(situ_grad_call *call) { return (void)call, false; }

/* An op whose backward fails without a reason: it gets one. */
static void a_backward_that_fails_silently_is_an_error(void **state) {
  (void)state;
  static const situ_op silent = { .name = "silent",
                                  .operand = { { "input", SITU_FLOATING } },
                                  .infer = situ_infer_like,
                                  .forward = silent_forward,
                                  .backward = silent_backward };
  situ_tensor *x = leaf(1), *y = situ_op_run(&silent, &x, 1, NULL, NULL);
  assert_non_null(y);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "silent", "backward failed");
  expect_refused(situ_op_run(&silent, &x, 0, NULL, NULL), SITU_E_ARG, "silent", "0 operands");
}

/* A function may return its operand: the result is another handle with a history of its own, as in torch. */
static void a_function_may_return_its_operand(void **state) {
  (void)state;
  static const situ_function same = { .name = "same", .forward = same_forward, .backward = double_backward };
  situ_tensor *x = leaf(1), *y = NULL;
  assert_int_equal(situ_function_apply(&same, &x, 1, &y, 1, NULL), SITU_OK);
  assert_ptr_not_equal(x, y);
  assert_true(situ_shares_storage(x, y));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(2), 2, 2);
}

/* A chain of two recorded calls, once recorded, may not be differentiated twice: there is no double backward. */
static void double_backward_is_refused_clearly(void **state) {
  (void)state;
  situ_tensor *x = leaf(2), *grad;
  assert_int_equal(situ_autograd_grad(situ_sum(situ_mul(x, x), NULL), 1, &x, &grad, NULL), SITU_OK);
  assert_false(situ_requires_grad(grad));
  assert_int_equal(situ_backward(situ_sum(grad, NULL), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "does not require a gradient");
}

static void broadcasting_is_summed_back(void **state) {
  (void)state;
  situ_tensor *a = situ_requires_grad_(T64(SITU_SHAPE(2, 1), 1, 2), true),
              *b = situ_requires_grad_(T32(SITU_SHAPE(3), 1, 2, 3), true);
  assert_int_equal(situ_backward(situ_sum(situ_mul(a, b), NULL), NULL), SITU_OK);
  expect_values(situ_grad(a), SITU_SHAPE(2, 1), 6, 6);
  expect_values(situ_grad(b), SITU_SHAPE(3), 3, 3, 3);
  assert_int_equal(situ_dtype_of(situ_grad(b)), SITU_F32);
}

/* Parts that are taken out of one tensor, some twice: their gradients are added up in one memory. */
static situ_tensor *of_parts(situ_tensor *const *in, void *payload) {
  (void)payload;
  situ_tensor *x = situ_tanh(in[0]), *index = TI64(SITU_SHAPE(3), 2, 0, 2), *part[2];
  if (situ_chunk(x, 2, 1, part, 2) != 2) return NULL;
  situ_tensor *y = situ_mul(part[0], part[1]);
  y = situ_add(y, situ_narrow(x, 1, 1, 2));
  y = situ_add(y, situ_unsqueeze(situ_select(x, 1, 3), 1));
  y = situ_add(y, situ_slice(situ_mul(x, in[0]), 1, 0, 4, 2));
  return situ_add(y, situ_narrow(situ_index_select(in[0], 0, index), 1, 0, 2));
}
static void parts_add_up(void **state) {
  (void)state;
  gradcheck(of_parts, NULL, test_random(SITU_SHAPE(3, 4), -1, 1, true));
}

/* What somebody else holds is not added to: x's first gradient is the very one that the hook has kept. */
static situ_tensor *keep(situ_tensor *grad, void *slot) {
  (void)situ_set(slot, grad);
  return NULL;
}
static void a_gradient_that_is_kept_stays(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(2), 1, 2), true), *kept = NULL;
  situ_tensor *first = situ_select(x, 0, 0), *all = situ_reshape(x, SITU_SHAPE(2, 1)); /* all's gradient comes first */
  assert_int_equal(situ_register_hook(all, keep, &kept), SITU_OK);
  assert_int_equal(situ_backward(situ_sum(situ_add(all, first), NULL), NULL), SITU_OK);
  expect_exact(kept, SITU_SHAPE(2, 1), 1, 1);
  expect_exact(situ_grad(x), SITU_SHAPE(2), 3, 1);
  situ_drop(&kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(parts_add_up),
    TEST(a_gradient_that_is_kept_stays),
    TEST(a_simple_chain),
    TEST(gradients_add_up),
    TEST(leaves_do_not_share_gradients),
    TEST(gradients_grow_all_or_none),
    TEST(a_gradient_must_fit),
    TEST(a_used_graph_is_refused),
    TEST(a_changed_value_is_noticed),
    TEST(in_place_rules),
    TEST(integers_have_no_gradient),
    TEST(no_grad_leaves_no_graph),
    TEST(many_calls_do_not_overflow_the_stack),
    TEST(hooks),
    TEST(grad_of_chosen_inputs),
    TEST(own_functions),
    TEST(a_function_may_return_its_operand),
    TEST(a_function_that_succeeds_says_nothing),
    TEST(a_backward_that_fails_silently_is_an_error),
    TEST(double_backward_is_refused_clearly),
    TEST(broadcasting_is_summed_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
