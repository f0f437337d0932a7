/* Kernels of the program run on the device of their operands, whatever device is current, which stays current. */
/* test-devices: cpu sim:0 sim:1 opencl:0 opencl:1 cuda:0 */
#include <pthread.h>

#include "situ/ledger.h"
#include "situ/nn.h"
#include "situ/sys/op.h"
#include "support/modules.h"

static situ_device there(void) { return test_device(); }
static situ_device elsewhere(void) { return situ_dev(there().kind == SITU_CPU ? "sim:0" : "cpu"); }

/* out = a * b, by a kernel. */
static bool multiply(const char *op, situ_device device, situ_tensor *out, situ_tensor *a, situ_tensor *b) {
  const situ_work work = { .verb = SITU_VERB_BINARY,
                           .op = SITU_BINARY_mul,
                           .compute = SITU_F32,
                           .ins = 2,
                           .outs = 1,
                           .in = { situ_desc(a), situ_desc(b) },
                           .out = { situ_desc(out) } };
  return situ_launch(op, device, &work);
}

static bool square_forward(situ_call *c) {
  situ_tensor *scratch = situ_op_new("square_by_hand", c->shape[0], c->dtype[0], c->device);
  return scratch && multiply("square_by_hand", c->device, scratch, c->in[0], c->in[0]) &&
         situ_copy_(c->out[0], scratch);
}

/* 2 x g */
static bool square_backward(situ_grad_call *g) {
  situ_tensor *product = situ_op_new("square_by_hand", g->shape[0], g->dtype[0], g->device);
  if (!product || !multiply("square_by_hand", g->device, product, g->in[0], g->grad[0])) return false;
  return (g->dx[0] = situ_mul_scalar(product, 2)) != NULL;
}

static const situ_op square = { .name = "square_by_hand",
                                .operand = { { "input", SITU_FLOATING } },
                                .flags = SITU_OP_COMPOSED,
                                .save = SITU_SAVE(0),
                                .infer = situ_infer_like,
                                .forward = square_forward,
                                .backward = square_backward };

static void expect_current(situ_device device) { assert_true(situ_device_equal(situ_get_default_device(), device)); }

/* Forward and backward on `there`, without a copy. */
static void run_there(situ_tensor *x) {
  const situ_device current = situ_get_default_device();
  situ_ledger ledger;
  situ_ledger_begin_with(&ledger, &(situ_ledger_options){ .none = true, .allow_waits = true });
  situ_tensor *y = situ_op_run1(&square, x, NULL);
  expect_current(current);
  assert_true(y && situ_device_equal(situ_device_of(y), there()));
  assert_int_equal(situ_backward(y, &(situ_backward_options){ .gradient = situ_ones_like(y, NULL) }), SITU_OK);
  expect_current(current);
  assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
  expect_exact(situ_to(y, situ_dev("cpu")), SITU_SHAPE(3), 1, 4, 9);
  expect_exact(situ_to(situ_grad(x), situ_dev("cpu")), SITU_SHAPE(3), 2, 4, 6);
  assert_int_equal(situ_set_grad(x, NULL), SITU_OK);
}

static situ_tensor *leaf_there(void) {
  return situ_requires_grad_(situ_arange(1, 4, 1, &(situ_options){ .dtype = SITU_F32, .device = there() }), true);
}

static situ_tensor *forward(situ_nn_module *m, situ_tensor *x) {
  assert_true(situ_device_equal(situ_nn_home(m), situ_get_default_device()));
  run_there(x);
  return x;
}
static const situ_nn_type caller_type = { .name = "Caller", .size = sizeof(situ_nn_module), .forward = forward };

/* placement: I9 */
static void own_kernels_run_where_their_operands_are(void **state) {
  (void)state;
  situ_setting before;
  situ_tensor *x = leaf_there();
  run_there(x);
  assert_int_equal(situ_default_device_begin(&before, elsewhere()), SITU_OK);
  run_there(x);
  expect_current(elsewhere());
  situ_default_device_end(&before);
  situ_nn_module *m = situ_nn_done(situ_nn_alloc(&caller_type)); /* the home of a module that runs */
  assert_int_equal(situ_nn_to(m, elsewhere()), SITU_OK);
  assert_non_null(situ_nn_forward(m, x));
  situ_nn_free(m);
}

static void *run_in_thread(void *x) {
  situ_setting before;
  situ_scope scope;
  situ_scope_begin(&scope);
  assert_int_equal(situ_default_device_begin(&before, elsewhere()), SITU_OK);
  run_there(x);
  situ_default_device_end(&before);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  return NULL;
}

/* placement: I9 */
static void each_thread_has_its_own_current_device(void **state) {
  (void)state;
  pthread_t thread;
  const situ_device current = situ_get_default_device();
  situ_tensor *x = leaf_there();
  assert_int_equal(pthread_create(&thread, NULL, run_in_thread, x), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_current(current);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(own_kernels_run_where_their_operands_are),
                                      MODULE_TEST(each_thread_has_its_own_current_device) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
