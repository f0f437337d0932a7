/* The ledger over whole networks: what is copied in every step is found and told how to end it; what is right is left
   in peace. (S16: weight.to(device) in a forward hides that the weight is in the wrong place.) */
/* test-devices: sim:0 opencl:0 opencl:1 */
#include <stdio.h>
#include <string.h>

#include "situ/ledger.h"
#include "situ/optim.h"
#include "situ/place.h"
#include "support/modules.h"

enum { STEPS = 20 };

typedef struct hiding {
  situ_nn_module base;
  situ_tensor *weight;
  bool transposed;
} hiding;

static int to_line;
static situ_tensor *hiding_forward(situ_nn_module *self, situ_tensor *x) {
  hiding *m = (hiding *)self;
  if (m->transposed) return situ_matmul(x, situ_to(situ_transpose(m->weight, 0, 1), situ_device_of(x)));
  to_line = __LINE__ + 1;
  return situ_matmul(x, situ_to(m->weight, situ_device_of(x)));
}
static const situ_nn_type hiding_type = { .name = "Hiding", .size = sizeof(hiding), .forward = hiding_forward };

static situ_nn_module *hiding_new(bool transposed) {
  hiding *m = situ_nn_alloc(&hiding_type);
  if (m) m->transposed = transposed;
  situ_nn_param(m, weight, situ_full(SITU_SHAPE(6, 6), 0.1, NULL));
  return situ_nn_done(m);
}

/* A new batch each step, and the loss read: as everybody does. */
static void train(situ_nn_module *net, situ_tensor *x, situ_tensor *target, bool move_batch) {
  situ_optim *o = situ_optim_sgd(situ_nn_parameters(net), 0.01, NULL);
  assert_non_null(o);
  for (int step = 0; step < STEPS; step++) {
    situ_scope s;
    situ_scope_begin(&s);
    double value;
    situ_tensor *batch = x, *wanted = target;
    if (move_batch) {
      batch = situ_to(situ_randn(SITU_SHAPE(4, 6), &(situ_options){ .device = situ_dev("cpu") }), test_device());
      wanted = situ_to(situ_randint(0, 6, SITU_SHAPE(4), &(situ_options){ .device = situ_dev("cpu") }), test_device());
    }
    situ_tensor *loss = situ_cross_entropy(situ_nn_forward(net, batch), wanted, NULL);
    assert_int_equal(situ_optim_zero_grad(o, true), SITU_OK);
    assert_int_equal(situ_backward(loss, NULL), SITU_OK);
    assert_int_equal(situ_optim_clip_grad_norm_(o, 1, 2, NULL), SITU_OK);
    assert_int_equal(situ_optim_step(o), SITU_OK);
    if (move_batch) assert_int_equal(situ_item(loss, &value), SITU_OK);
    assert_int_equal(situ_scope_end(&s), SITU_OK);
  }
  situ_optim_free(o);
}

static void a_weight_copied_in_forward(void **state) {
  (void)state;
  char text[4096], line[64], said[96], device[SITU_DEVICE_NAME_MAX];
  (void)snprintf(said, sizeof said, "parameter 0.weight was copied cpu -> %s 20 times",
                 situ_device_name(test_device(), device));
  for (int transposed = 0; transposed < 2; transposed++) {
    situ_nn_module *net = situ_nn_sequential(hiding_new(transposed), situ_nn_relu(), hiding_new(transposed));
    situ_ledger l;
    situ_ledger_repeat r[4];
    situ_ledger_begin(&l);
    train(net, NULL, NULL, true);
    assert_int_equal(situ_ledger_repeats(&l, 0, r, 4), 2);
    for (int i = 0; i < 2; i++) {
      assert_string_equal(r[i].last.tensor, i ? "2.weight" : "0.weight");
      assert_string_equal(r[i].last.role, "parameter");
      assert_int_equal(r[i].sum.count, STEPS);
      assert_int_equal(r[i].sum.bytes, STEPS * 6 * 6 * 4);
      assert_true(situ_device_equal(r[i].last.from, situ_dev("cpu")) && situ_device_equal(r[i].last.to, test_device()));
    }
    assert_true(situ_ledger_to_string(&l, text, sizeof text) < (int64_t)sizeof text);
    if (!strstr(text, said)) fail_msg("%s", text);
    assert_non_null(strstr(text, "it belongs where it is used (situ_nn_to), or hold on to the copy"));
    (void)snprintf(line, sizeof line, "ledger.c:%d", to_line);
    if (!transposed && strstr(r[0].last.at, "ledger.c:") && !strstr(r[0].last.at, line)) fail_msg("%s", r[0].last.at);
    assert_int_equal(situ_ledger_end(&l), SITU_OK);
    situ_nn_free(net);
  }
}

/* The same module where it belongs: the line copies nothing, and the ledger has batches and losses alone. */
static void moved_it_is_right(void **state) {
  (void)state;
  char text[4096];
  situ_nn_module *net = situ_nn_sequential(hiding_new(false), situ_nn_linear(6, 6, NULL));
  assert_int_equal(situ_nn_to(net, test_device()), SITU_OK);
  situ_ledger l;
  situ_ledger_begin(&l);
  train(net, NULL, NULL, true);
  assert_int_equal(situ_ledger_sum(&l, SITU_HOST_TO_DEVICE).count, 2 * STEPS);
  assert_int_equal(situ_ledger_sum(&l, SITU_DEVICE_TO_HOST).count, STEPS);
  assert_int_equal(situ_ledger_repeats(&l, 2, NULL, 0), 0);
  assert_true(situ_ledger_to_string(&l, text, sizeof text) > 0);
  assert_null(strstr(text, "was copied"));
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ_nn_free(net);
}

static void a_good_loop_copies_nothing(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(6, 8, NULL), situ_nn_relu(), situ_nn_linear(8, 6, NULL));
  assert_int_equal(situ_nn_to(net, test_device()), SITU_OK);
  situ_tensor *x = situ_randn(SITU_SHAPE(4, 6), &(situ_options){ .device = test_device() });
  situ_tensor *target = situ_randint(0, 6, SITU_SHAPE(4), &(situ_options){ .device = test_device() });
  situ_ledger l;
  situ_ledger_begin_none(&l);
  train(net, x, target, false);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ_nn_free(net);
}

/* Saving every epoch reads every parameter, and is no mistake as long as they change. */
static void saving_is_no_repeat(void **state) {
  (void)state;
  static float values[36];
  situ_nn_module *net = hiding_new(false);
  situ_tensor *w = situ_nn_get_tensor(net, "weight");
  assert_int_equal(situ_nn_to(net, test_device()), SITU_OK);
  situ_ledger l;
  situ_ledger_begin(&l);
  for (int epoch = 0; epoch < 10; epoch++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    assert_non_null(situ_mul_scalar_(w, 0.5));
    assert_int_equal(situ_copy_to_host(w, values, sizeof values), SITU_OK);
    assert_int_equal(situ_scope_end(&s), SITU_OK);
  }
  assert_int_equal(situ_ledger_total(&l).count, 10);
  assert_int_equal(situ_ledger_repeats(&l, 0, NULL, 0), 0);
  for (int again = 0; again < 5; again++) assert_int_equal(situ_copy_to_host(w, values, sizeof values), SITU_OK);
  assert_int_equal(situ_ledger_repeats(&l, 0, NULL, 0), 1);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ_nn_free(net);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(a_weight_copied_in_forward), MODULE_TEST(moved_it_is_right),
                                      MODULE_TEST(a_good_loop_copies_nothing), MODULE_TEST(saving_is_no_repeat) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
