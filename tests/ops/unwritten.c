/* Values that were never written are not read: by no op, on no device; and whatever is right to do with memory that holds
   none is done.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "situ/nn.h"
#include "situ/optim.h"
#include "support/modules.h"
#include "support/optim.h"

static situ_tensor *blank(situ_shape shape) {
  return situ_empty(shape, &(situ_options){ .dtype = SITU_F32, .device = test_device() });
}
static situ_tensor *ones(situ_shape shape) {
  return situ_ones(shape, &(situ_options){ .dtype = SITU_F32, .device = test_device() });
}
#define X blank(SITU_SHAPE(2, 2))
#define W ones(SITU_SHAPE(2, 2))

/* Each op that reads names what it cannot read. */
static void ops_refuse(void **state) {
  (void)state;
  situ_tensor *x = situ_set_name(X, "state"), *w = W, *place = TI64(SITU_SHAPE(2), 0, 1);
  const char *says = "`state` ([2, 2] f32) holds no value yet: nothing was written since it was made";
  expect_refused(situ_neg(x), SITU_E_STATE, "neg", says);
  expect_refused(situ_add(w, x), SITU_E_STATE, "add", says);
  expect_refused(situ_add(x, w), SITU_E_STATE, "add", says);
  expect_refused(situ_mm(w, x), SITU_E_STATE, "mm", says);
  expect_refused(situ_linear(w, x, NULL), SITU_E_STATE, "linear", says);
  expect_refused(situ_sum(x, NULL), SITU_E_STATE, "sum", says);
  expect_refused(situ_softmax(x, 1), SITU_E_STATE, "softmax", says);
  expect_refused(situ_clone(x), SITU_E_STATE, "clone", says);
  expect_refused(situ_to_dtype(x, SITU_F64), SITU_E_STATE, "to_dtype", says);
  expect_refused(situ_to(x, situ_dev("sim:1")), SITU_E_STATE, "to", says);
  expect_refused(situ_index_select(x, 0, place), SITU_E_STATE, "index_select", says);
  expect_refused(situ_cat((situ_tensor *[]){ w, x }, 2, 0), SITU_E_STATE, "cat", says);
  expect_refused(situ_where(situ_gt_scalar(w, 0), w, x), SITU_E_STATE, "where", says);
  expect_refused(situ_sort(x, 0, false, NULL), SITU_E_STATE, "sort", says);
  expect_refused(situ_copy_(w, x), SITU_E_STATE, "copy_", says);
  /* Through a view, and where what is read is also written. */
  expect_refused(situ_neg(situ_select(x, 0, 1)), SITU_E_STATE, "neg", "holds no value yet");
  expect_refused(situ_add_(x, w), SITU_E_STATE, "", says);
  expect_refused(situ_mul_scalar_(x, 2), SITU_E_STATE, "", says);
  expect_refused(situ_index_add_(x, 0, place, w, 1), SITU_E_STATE, "", says);
  expect_refused(situ_scatter_add_(x, 0, situ_zeros_like(w, &(situ_options){ .dtype = SITU_I64 }), w), SITU_E_STATE, "",
                 says);
}

static void running_statistics_refuse(void **state) {
  (void)state;
  situ_tensor *mean = situ_set_name(blank(SITU_SHAPE(2)), "running_mean"), *var = ones(SITU_SHAPE(2));
  situ_batch_norm_options o = OPTIONS_OF(situ_batch_norm, with.training = true);
  expect_refused(situ_batch_norm(W, mean, var, NULL, NULL, &o), SITU_E_STATE, "batch_norm", "`running_mean` ([2] f32)");
}

static void an_optimiser_refuses(void **state) {
  (void)state;
  situ_tensor *w = situ_set_name(blank(SITU_SHAPE(2)), "w");
  situ_requires_grad_(w, true);
  assert_int_equal(situ_set_grad(w, ones(SITU_SHAPE(2))), SITU_OK);
  situ_tree *list = situ_tree_append(situ_tree_list(), situ_tree_tensor(w));
  situ_optim *sgd = situ_optim_sgd(list, 0.1, NULL);
  assert_non_null(sgd);
  assert_int_equal(situ_optim_step(sgd), SITU_E_STATE);
  expect_error(SITU_E_STATE, "", "`w` ([2] f32) holds no value yet");
  situ_optim_free(sgd);
}

/* An unnamed one is told by its shape, and by where it was made. */
static void the_place_is_named(void **state) {
  (void)state;
  assert_null(situ_neg(X));
  const char *text = situ_error_message();
  assert_non_null(strstr(text, "a tensor ([2, 2] f32) holds no value yet"));
  assert_non_null(strstr(text, " at "));
  situ_error_clear();
}

/* Writing, wholly or in part, through views or not, is what such memory is for. */
static void writing_is_right(void **state) {
  (void)state;
  expect_exact(situ_fill_(X, 3), SITU_SHAPE(2, 2), 3, 3, 3, 3);
  expect_exact(situ_copy_(X, W), SITU_SHAPE(2, 2), 1, 1, 1, 1);
  assert_non_null(situ_uniform_(X, 0, 1, NULL));
  assert_non_null(situ_bernoulli_(X, 0.5, NULL));
  situ_tensor *x = X, *place = situ_zeros_like(W, &(situ_options){ .dtype = SITU_I64 });
  assert_non_null(situ_scatter_(x, 0, place, W));
  x = X;
  assert_non_null(situ_fill_(situ_select(x, 0, 0), 1));
  assert_non_null(situ_fill_(situ_select(x, 0, 1), 2));
  expect_exact(x, SITU_SHAPE(2, 2), 1, 1, 2, 2);
  x = X;
  const float host[] = { 1, 2, 3, 4 };
  assert_int_equal(situ_copy_from_host(x, host, sizeof host), SITU_OK);
  expect_exact(situ_neg(x), SITU_SHAPE(2, 2), -1, -2, -3, -4);
}

/* Nothing is no value to read: shapes, views, moves of nothing. */
static void of_nothing_there_is_nothing_to_read(void **state) {
  (void)state;
  situ_tensor *none = blank(SITU_SHAPE(0, 2)), *w = blank(SITU_SHAPE(2, 0));
  assert_non_null(situ_neg(none));
  expect_exact(situ_mm(w, none), SITU_SHAPE(2, 2), 0, 0, 0, 0);
  expect_exact(situ_sum(none, NULL), SITU_SCALAR, 0);
  assert_non_null(situ_to(none, situ_dev("sim:1")));
  assert_non_null(situ_cat((situ_tensor *[]){ none, W }, 2, 0));
  assert_non_null(situ_zeros_like(X, NULL));
  assert_non_null(situ_to(X, situ_dev("meta"))); /* where no values go */
  assert_non_null(situ_reshape(X, SITU_SHAPE(4)));
}

/* A training step of layers that keep all sorts of memory: nothing right is refused. */
static void training_reads_only_what_is_there(void **state) {
  (void)state;
  situ_nn_module *net =
      situ_nn_sequential(situ_nn_conv2d(1, 2, SITU_SHAPE(3, 3), &(situ_nn_conv_options){ HERE }),
                         situ_nn_batch_norm2d(2, OPTIONS_AT(situ_nn_batch_norm, with HERE)), situ_nn_relu(),
                         situ_nn_max_pool2d(SITU_SHAPE(2, 2), NULL), situ_nn_flatten(1, -1),
                         situ_nn_linear(2 * 3 * 3, 4, &(situ_nn_linear_options){ HERE }),
                         situ_nn_layer_norm(SITU_SHAPE(4), OPTIONS_AT(situ_nn_norm, with HERE)), situ_nn_dropout(0.5));
  static const optim_change adamw[] = { { SITU_OPTIM_AMSGRAD, 1 }, { 0 } },
                            sgd[] = { { SITU_OPTIM_MOMENTUM, 0.9 }, { SITU_OPTIM_NESTEROV, 1 }, { 0 } },
                            rmsprop[] = { { SITU_OPTIM_MOMENTUM, 0.9 }, { SITU_OPTIM_CENTERED, 1 }, { 0 } };
  situ_optim *list[] = { optim_make(situ_optim_adamw, situ_nn_parameters(net), 1e-3, adamw),
                         optim_make(situ_optim_sgd, situ_nn_parameters(net), 0.1, sgd),
                         optim_make(situ_optim_rmsprop, situ_nn_parameters(net), 1e-2, rmsprop) };
  for (int k = 0; k < 6; k++) {
    situ_tensor *y = situ_nn_forward(net, situ_randn(SITU_SHAPE(3, 1, 8, 8), &(situ_options){ HERE }));
    assert_int_equal(situ_backward(situ_cross_entropy(y, TI64(SITU_SHAPE(3), 0, 1, 3), NULL), NULL), SITU_OK);
    assert_int_equal(situ_optim_step(list[k % 3]), SITU_OK);
    situ_nn_zero_grad(net);
  }
  for (int k = 0; k < 3; k++) situ_optim_free(list[k]);
  situ_nn_free(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(ops_refuse),
    MODULE_TEST(running_statistics_refuse),
    MODULE_TEST(an_optimiser_refuses),
    MODULE_TEST(the_place_is_named),
    MODULE_TEST(writing_is_right),
    MODULE_TEST(of_nothing_there_is_nothing_to_read),
    MODULE_TEST(training_reads_only_what_is_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
