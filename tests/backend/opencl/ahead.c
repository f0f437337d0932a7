/* test-devices: opencl:0 only */
/* test-links: situ_test_shim */
/* Weights of an offloaded module are copied beside the work of the layer before: with kernels that stand still, the
   copies for the next layer arrive; those for the one after it need memory that the first is computing with.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <unistd.h>

#include "support/opencl/shim.h"
#include "support/pairs.h"

enum { WIDTH = 256, BYTES = WIDTH * WIDTH * sizeof(float) };

static situ_nn_module *four_layers(void) {
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(WIDTH, WIDTH, NULL));
  for (int i = 1; i < 4; i++) m = situ_nn_append(situ_nn_append(m, situ_nn_tanh()), situ_nn_linear(WIDTH, WIDTH, NULL));
  return m;
}

/* Waits until so many copies are there, and some time for one that should not be. */
static int arrived(int want) {
  for (int i = 0; i < 2000 && shim_arrived(BYTES) < want; i++) (void)usleep(5000);
  (void)usleep(50000);
  return shim_arrived(BYTES);
}

static situ_tensor *loss_of(situ_nn_module *m, situ_tensor *x) {
  return situ_mean(situ_square(situ_nn_forward(m, x)), NULL);
}

static void expect_same_gradients(situ_nn_module *a, situ_nn_module *b) {
  situ_tree *x = situ_nn_parameters(a), *y = situ_nn_parameters(b);
  for (int64_t i = 0; i < situ_tree_count(x); i++)
    assert_true(test_same_bits(situ_grad(situ_tree_tensor_at(x, i)),
                               situ_to(situ_grad(situ_tree_tensor_at(y, i)), situ_dev("cpu"))));
  situ_tree_free(x);
  situ_tree_free(y);
}

static void the_next_weights_come_while_a_layer_computes(void **state) {
  (void)state;
  situ_nn_module *m = four_layers(), *twin = situ_nn_clone(m);
  situ_tensor *x = situ_randn(SITU_SHAPE(64, WIDTH), &(situ_options){ .device = there() });
  expect_ok(situ_nn_offload(m, there()));
  expect_ok(situ_nn_to(twin, there()));
  expect_ok(situ_backward(loss_of(twin, x), NULL));
  for (int turn = 0; turn < 2; turn++) { /* at first kernels are compiled and tried */
    situ_nn_zero_grad(m);
    expect_ok(situ_synchronize(there()));
    if (turn) shim_hold();
    situ_tensor *l = loss_of(m, x);
    int came = turn ? arrived(2) : 2;
    shim_let_go();
    assert_int_equal(came, 2);
    expect_ok(situ_synchronize(there()));
    if (turn) shim_hold();
    expect_ok(situ_backward(l, NULL)); /* nothing waits, also not for gradients */
    came = turn ? arrived(1) : 1;
    shim_let_go();
    assert_true(came >= 1); /* a second one may get the memory of a gradient that is computed */
  }
  expect_same_gradients(m, twin);
  situ_nn_free(m);
  situ_nn_free(twin);
}

int main(void) {
  const struct CMUnitTest tests[] = { PAIR_TEST(the_next_weights_come_while_a_layer_computes) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
