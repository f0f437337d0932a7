/* Running statistics computed anew: torch 2.15's update_bn.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "situ/data.h"
#include "situ/sys/alloc.h"
#include "support/modules.h"

static situ_nn_module *model(void) {
  return situ_nn_sequential(situ_nn_batch_norm1d(2, OPTIONS_AT(situ_nn_batch_norm, with.momentum = 0.3, with HERE)),
                            situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE }),
                            situ_nn_batch_norm1d(2, OPTIONS_AT(situ_nn_batch_norm, with HERE)));
}

/* Three batches of two rows; the labels are not read. */
static situ_dataset *rows(void) {
  const situ_options cpu = { .device = situ_dev("cpu") };
  static const float x[6][2] = { { 1, 2 }, { 3, 6 }, { 0, 1 }, { 2, 3 }, { 5, 5 }, { 1, 7 } }, y[6] = { 0 };
  return situ_tensor_dataset(
      SITU_TREE(situ_from_host(x, sizeof x, SITU_SHAPE(6, 2), &cpu), situ_from_host(y, sizeof y, SITU_SHAPE(6), &cpu)));
}

/* Means of the batches' means, 2, 1, 3 and 4, 2, 6, and of their variances, 2, 2, 8 and 8, 2, 2. */
static void equal_averages(void **state) {
  (void)state;
  situ_dataset *data = rows();
  situ_data_loader *loader = situ_data_loader_new(data, &(situ_data_loader_options){ .batch_size = 2 });
  situ_nn_module *m = situ_nn_eval(model());
  for (int again = 0; again < 2; again++) {
    assert_int_equal(situ_optim_update_bn(loader, m, test_device()), SITU_OK);
    expect_values(situ_nn_get_tensor(m, "0.running_mean"), SITU_SHAPE(2), 2, 4);
    expect_values(situ_nn_get_tensor(m, "0.running_var"), SITU_SHAPE(2), 4, 4);
    expect_exact(situ_nn_get_tensor(m, "2.num_batches_tracked"), SITU_SCALAR, 3);
    assert_false(m->training);
  }
  situ_nn_train(m, true); /* the momentum is what it was */
  assert_non_null(situ_nn_forward(m, T32(SITU_SHAPE(2, 2), 2, 4, 2, 4)));
  expect_values(situ_nn_get_tensor(m, "0.running_var"), SITU_SHAPE(2), 2.8, 2.8);
  situ_nn_free(m);
  situ_data_loader_free(loader);
  situ_dataset_free(data);
}

static void nothing_to_do(void **state) {
  (void)state;
  situ_dataset *data = rows();
  situ_data_loader *loader = situ_data_loader_new(data, NULL);
  situ_nn_module *m = situ_nn_linear(3, 2, NULL); /* is not called */
  assert_int_equal(situ_optim_update_bn(loader, m, (situ_device){ 0 }), SITU_OK);
  situ_nn_free(m);
  situ_data_loader_free(loader);
  situ_dataset_free(data);
}

/* The second batch has one row, which a batch norm in training refuses. */
static void a_failure_changes_nothing(void **state) {
  (void)state;
  situ_dataset *data = rows();
  situ_data_loader *loader = situ_data_loader_new(data, &(situ_data_loader_options){ .batch_size = 5 });
  situ_nn_module *m = model();
  assert_non_null(situ_nn_forward(m, T32(SITU_SHAPE(2, 2), 1, 2, 3, 4)));
  situ_tensor *mean = situ_clone(situ_nn_get_tensor(m, "2.running_mean"));
  assert_true(situ_optim_update_bn(loader, m, test_device()) != SITU_OK);
  situ_error_clear();
  expect_same(situ_nn_get_tensor(m, "2.running_mean"), mean, 0, 0);
  expect_exact(situ_nn_get_tensor(m, "0.num_batches_tracked"), SITU_SCALAR, 1);
  assert_true(m->training);
  situ_nn_free(m);
  situ_data_loader_free(loader);
  situ_dataset_free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(equal_averages), MODULE_TEST(nothing_to_do),
                                      MODULE_TEST(a_failure_changes_nothing) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
