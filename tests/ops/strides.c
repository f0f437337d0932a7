/* Strides of results and of gradients beside PyTorch 2.15's (tools/golden/strides.py), memory formats, and training with
   parameters that are channels_last.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu meta sim:0 opencl:0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/ledger.h"
#include "situ/sys/op.h"
#include "situ/sys/sim.h"
#include "support/optim.h"
#include "support/test.h"

#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })
#define LAST HERE(.memory_format = SITU_CHANNELS_LAST)

static bool has_values(void) { return test_device().kind != SITU_META; }

/* ---- strides of results ---- */

static situ_tensor *rows_like(situ_tensor *x) { return situ_ones(situ_shape_of(x), HERE(0)); }
static situ_tensor *bias(void) { return situ_ones(SITU_SHAPE(6, 1, 1), HERE(0)); }
static situ_tensor *weight(const situ_options *o) { return situ_ones(SITU_SHAPE(4, 6, 3, 3), o); }
static situ_tensor *conv(situ_tensor *x, situ_tensor *w, int64_t groups) {
  return situ_conv2d(x, w, NULL, &(situ_conv_options){ .groups = groups });
}
static situ_tensor *twice(situ_tensor *x, situ_interpolate_mode mode) {
  return situ_interpolate(x, &(situ_interpolate_options){ .scale_factor = { 2, 2 }, .mode = mode });
}
static situ_tensor *joined(situ_tensor *x, situ_tensor *y) { return situ_cat((situ_tensor *[]){ x, y }, 2, 1); }
static const situ_pool_options two = { .kernel = { 1, { 2 } } };

#define OP(id, expression) \
  static situ_tensor *run_##id(situ_tensor *x) { return expression; }
#define OPS(_)                                                                                                   \
  _(relu, situ_relu(x))                                                                                          \
  _(gelu, situ_gelu(x, SITU_GELU_NONE))                                                                          \
  _(exp, situ_exp(x))                                                                                            \
  _(neg, situ_neg(x))                                                                                            \
  _(clamp, situ_clamp(x, -1, 1))                                                                                 \
  _(add_scalar, situ_add_scalar(x, 2))                                                                           \
  _(gt_scalar, situ_gt_scalar(x, 0))                                                                             \
  _(to_f64, situ_to_dtype(x, SITU_F64))                                                                          \
  _(clone, situ_clone(x))                                                                                        \
  _(contiguous, situ_contiguous(x))                                                                              \
  _(to_last, situ_to_memory_format(x, SITU_CHANNELS_LAST))                                                       \
  _(contiguous_last, situ_contiguous_memory_format(x, SITU_CHANNELS_LAST))                                       \
  _(zeros_like, situ_zeros_like(x, NULL))                                                                        \
  _(rand_like, situ_rand_like(x, NULL))                                                                          \
  _(rows_like, situ_zeros_like(x, HERE(.memory_format = SITU_CONTIGUOUS_FORMAT)))                                \
  _(add_self, situ_add(x, x))                                                                                    \
  _(add_rows, situ_add(x, rows_like(x)))                                                                         \
  _(rows_add, situ_add(rows_like(x), x))                                                                         \
  _(mul_bias, situ_mul(x, bias()))                                                                               \
  _(bias_mul, situ_mul(bias(), x))                                                                               \
  _(add_row, situ_add(x, situ_ones(SITU_SHAPE(situ_size(x, 3)), HERE(0))))                                       \
  _(where, situ_where(situ_gt_scalar(x, 0), x, situ_mul_scalar(x, 0.5)))                                         \
  _(addcmul, situ_addcmul(x, x, x, 1))                                                                           \
  _(lerp, situ_lerp_scalar(x, rows_like(x), 0.25))                                                               \
  _(masked_fill, situ_masked_fill(x, situ_gt_scalar(x, 0), 1))                                                   \
  _(dropout, situ_dropout(x, 0.5, true, NULL))                                                                   \
  _(flip, situ_flip(x, SITU_DIMS(1)))                                                                            \
  _(softmax, situ_softmax(x, 1))                                                                                 \
  _(cat, joined(x, x))                                                                                           \
  _(cat_rows, joined(x, rows_like(x)))                                                                           \
  _(pad, situ_pad(x, SITU_SHAPE(1, 1, 1, 1), SITU_PAD_CONSTANT, 0))                                              \
  _(conv2d, conv(x, weight(HERE(0)), 1))                                                                         \
  _(conv2d_1x1, conv(x, situ_ones(SITU_SHAPE(4, 6, 1, 1), HERE(0)), 1))                                          \
  _(conv2d_depthwise, conv(x, situ_ones(SITU_SHAPE(6, 1, 3, 3), HERE(0)), 6))                                    \
  _(conv2d_f64, conv(situ_to_dtype(x, SITU_F64), weight(HERE(.dtype = SITU_F64)), 1))                            \
  _(conv2d_last, conv(x, weight(LAST), 1))                                                                       \
  _(conv_transpose2d, situ_conv_transpose2d(x, situ_ones(SITU_SHAPE(6, 4, 3, 3), HERE(0)), NULL, NULL))          \
  _(max_pool2d, situ_max_pool2d(x, &two, NULL))                                                                  \
  _(avg_pool2d, situ_avg_pool2d(x, &two))                                                                        \
  _(adaptive_avg_pool2d, situ_adaptive_avg_pool2d(x, SITU_SHAPE(2)))                                             \
  _(batch_norm, situ_batch_norm(x, NULL, NULL, NULL, NULL, OPTIONS_AT(situ_batch_norm, with.training = true)))   \
  _(batch_norm_eval,                                                                                             \
    situ_batch_norm(x, situ_zeros(SITU_SHAPE(6), HERE(0)), situ_ones(SITU_SHAPE(6), HERE(0)), NULL, NULL, NULL)) \
  _(group_norm, situ_group_norm(x, 3, NULL, NULL, 1e-5))                                                         \
  _(nearest, twice(x, SITU_INTERPOLATE_NEAREST))                                                                 \
  _(bilinear, twice(x, SITU_INTERPOLATE_BILINEAR))
OPS(OP)

static const struct op_row {
  const char *name;
  situ_tensor *(*run)(situ_tensor *x);
} rows[] = {
#define ROW(id, expression) { #id, run_##id },
  OPS(ROW)
};
enum { COUNT = sizeof rows / sizeof *rows };

/* The same layouts as in strides.py. */
static situ_tensor *operand(const char *layout) {
  situ_manual_seed(1);
  situ_tensor *x = situ_randn(SITU_SHAPE(2, 6, 8, 10), HERE(0));
  if (!strcmp(layout, "rows")) return x;
  if (!strcmp(layout, "last")) return situ_to_memory_format(x, SITU_CHANNELS_LAST);
  if (!strcmp(layout, "part")) {
    x = situ_to_memory_format(x, SITU_CHANNELS_LAST);
    return situ_narrow(situ_narrow(x, 2, 1, 6), 3, 2, 6);
  }
  if (!strcmp(layout, "turned"))
    return situ_permute(situ_randn(SITU_SHAPE(10, 8, 6, 2), HERE(0)), SITU_DIMS(3, 2, 1, 0));
  if (!strcmp(layout, "mixed"))
    return situ_permute(situ_randn(SITU_SHAPE(6, 2, 10, 8), HERE(0)), SITU_DIMS(1, 0, 3, 2));
  assert_string_equal(layout, "steps");
  return situ_slice(situ_randn(SITU_SHAPE(2, 6, 8, 20), HERE(0)), 3, 0, INT64_MAX, 2);
}

static const char *strides_of(situ_tensor *t, char *text) {
  char *at = text;
  *at = 0;
  for (int d = 0; d < situ_dim(t); d++) at += sprintf(at, "%s%lld", d ? "," : "", (long long)situ_stride(t, d));
  return text;
}

static int check_row(const char *name, const char *layout, const char *want, const char *want_grad) {
  int at = 0;
  char got[160], got_grad[160] = "-";
  while (at < COUNT && strcmp(rows[at].name, name) != 0) at++;
  if (at == COUNT) return print_error("no row of %s\n", name), 1;
  situ_tensor *x = situ_requires_grad_(situ_detach(operand(layout)), true), *y = rows[at].run(x);
  if (!y) return print_error("%s %s: %s\n", name, layout, situ_error_message()), situ_error_clear(), 1;
  strides_of(y, got);
  if (situ_requires_grad(y) && strcmp(want_grad, "-") != 0) {
    const situ_status status = situ_backward(y, &(situ_backward_options){ .gradient = situ_ones_like(y, NULL) });
    if (status != SITU_OK) return print_error("%s %s: %s\n", name, layout, situ_error_message()), situ_error_clear(), 1;
    strides_of(situ_grad(x), got_grad);
  }
  if (!strcmp(got, want) && !strcmp(got_grad, want_grad)) return 0;
  return print_error("%s %s: strides %s, gradient %s; torch has %s, %s\n", name, layout, got, got_grad, want,
                     want_grad),
         1;
}

static void strides_are_torchs(void **state) {
  (void)state;
  char path[512], line[256], name[64], layout[16], sizes[64], want[64], grad[64];
  const char *root = getenv("SITU_TEST_ROOT");
  (void)snprintf(path, sizeof path, "%s/golden/data/strides.txt", root ? root : "tests");
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  int lines = 0, failed = 0;
  for (; fgets(line, sizeof line, f); lines++) {
    assert_int_equal(sscanf(line, "%63s %15s %63s %63s %63s", name, layout, sizes, want, grad), 5);
    situ_scope s;
    situ_scope_begin(&s);
    failed += check_row(name, layout, want, grad);
    assert_int_equal(situ_scope_end(&s), SITU_OK);
  }
  (void)fclose(f);
  assert_int_equal(failed, 0);
  assert_int_equal(lines, COUNT * 6);
}

/* ---- memory formats ---- */

static bool fill(situ_call *c) {
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ .verb = SITU_VERB_FILL, .outs = 1, .out = { situ_desc(c->out[0]) } });
}
/* An op of a program's own may have more operands than any of the library's: then results are contiguous. */
static void many_operands_have_no_order(void **state) {
  (void)state;
  enum { MANY = 100 };
  static const situ_op op = { .name = "of_many",
                              .operand = { { "tensors", SITU_SAME } },
                              .flags = SITU_OP_VARIADIC | SITU_OP_NO_GRAD,
                              .infer = situ_infer_broadcast,
                              .forward = fill };
  situ_tensor *in[MANY];
  for (int i = 0; i < MANY; i++) in[i] = situ_transpose(situ_ones(SITU_SHAPE(3, 2), HERE(0)), 0, 1);
  assert_false(situ_is_contiguous(situ_op_run(&op, in, 2, NULL, NULL)));
  assert_true(situ_is_contiguous(situ_op_run(&op, in, MANY, NULL, NULL)));
}

static void formats_of_new_tensors(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(2, 3, 4, 5), LAST);
  assert_int_equal(situ_stride(x, 1), 1);
  assert_int_equal(situ_stride(x, 3), 3);
  assert_true(situ_is_contiguous_memory_format(x, SITU_CHANNELS_LAST));
  assert_false(situ_is_contiguous(x));
  assert_false(situ_is_contiguous_memory_format(x, SITU_CHANNELS_LAST_3D));
  situ_tensor *deep = situ_ones(SITU_SHAPE(2, 3, 4, 5, 6), HERE(.memory_format = SITU_CHANNELS_LAST_3D));
  assert_int_equal(situ_stride(deep, 4), 3);
  assert_true(situ_is_contiguous_memory_format(situ_relu(deep), SITU_CHANNELS_LAST_3D));
  assert_ptr_equal(situ_to_memory_format(x, SITU_CHANNELS_LAST), x);
  assert_ptr_equal(situ_to_memory_format(deep, SITU_CHANNELS_LAST_3D), deep);
  assert_ptr_equal(situ_to_memory_format(x, SITU_PRESERVE_FORMAT), x);
  assert_true(situ_is_contiguous(situ_clone_memory_format(x, SITU_CONTIGUOUS_FORMAT)));
  assert_true(situ_is_contiguous(situ_to_memory_format(x, SITU_CONTIGUOUS_FORMAT)));
  /* Channels that share memory lie in none, as in torch. */
  situ_tensor *shared = situ_expand(situ_empty(SITU_SHAPE(2, 1, 4, 5), HERE(0)), SITU_SHAPE(2, 3, 4, 5));
  assert_int_equal(situ_stride(situ_empty_like(shared, NULL), 1), 20);
  if (has_values()) {
    shared = situ_expand(situ_ones(SITU_SHAPE(2, 1, 4, 5), HERE(0)), SITU_SHAPE(2, 3, 4, 5));
    assert_int_equal(situ_stride(situ_to_memory_format(shared, SITU_CHANNELS_LAST), 1), 1);
  }
  /* One channel, and one pixel, lie in both formats. */
  assert_true(situ_is_contiguous_memory_format(situ_empty(SITU_SHAPE(2, 1, 4, 5), HERE(0)), SITU_CHANNELS_LAST));
  assert_true(situ_is_contiguous(situ_empty(SITU_SHAPE(2, 3, 1, 1), LAST)));
}

static void wrong_formats_are_refused(void **state) {
  (void)state;
  situ_tensor *x = situ_empty(SITU_SHAPE(2, 3), HERE(0)), *image = situ_empty(SITU_SHAPE(1, 2, 3, 4), HERE(0));
  expect_refused(situ_empty(SITU_SHAPE(2, 3), LAST), SITU_E_SHAPE, "empty", "channels_last is for 4 dimensions");
  expect_refused(situ_empty(SITU_SHAPE(2, 3), HERE(.memory_format = SITU_PRESERVE_FORMAT)), SITU_E_ARG, "empty",
                 "preserve");
  expect_refused(situ_to_memory_format(x, SITU_CHANNELS_LAST), SITU_E_SHAPE, "to_memory_format", "has 2");
  expect_refused(situ_clone_memory_format(image, SITU_CHANNELS_LAST_3D), SITU_E_SHAPE, "clone_memory_format",
                 "channels_last_3d is for 5");
  expect_refused(situ_clone_memory_format(image, (situ_memory_format)9), SITU_E_ARG, "clone_memory_format", "9");
  expect_refused(situ_contiguous_memory_format(image, SITU_PRESERVE_FORMAT), SITU_E_ARG, "contiguous_memory_format",
                 "preserve");
  assert_false(situ_is_contiguous_memory_format(image, SITU_PRESERVE_FORMAT));
  expect_error(SITU_E_ARG, "is_contiguous_memory_format", "2 is not");
}

static void random_numbers_do_not_depend_on_strides(void **state) {
  (void)state;
  if (!has_values()) return;
  situ_tensor *rows_ = situ_zeros(SITU_SHAPE(2, 3, 4, 5), HERE(0)),
              *last = situ_to_memory_format(rows_, SITU_CHANNELS_LAST), *made[2][3];
  for (int k = 0; k < 2; k++) {
    situ_tensor *x = k ? last : rows_;
    situ_manual_seed(5);
    made[k][0] = situ_randn_like(x, NULL);
    made[k][1] = situ_dropout(situ_add_scalar(x, 1), 0.5, true, NULL);
    made[k][2] = situ_randint_like(x, 0, 100, NULL);
  }
  for (int i = 0; i < 3; i++) {
    assert_true(situ_is_contiguous_memory_format(made[1][i], SITU_CHANNELS_LAST));
    expect_same(made[1][i], made[0][i], 0, 0);
  }
  situ_tensor *all = situ_zeros(SITU_SHAPE(6, 5), HERE(0)), *part = situ_narrow(all, 1, 1, 2);
  situ_manual_seed(5);
  situ_tensor *want = situ_rand(SITU_SHAPE(6, 2), HERE(0));
  situ_manual_seed(5);
  assert_non_null(situ_uniform_(part, 0, 1, NULL));
  expect_same(part, want, 0, 0);
  expect_same(situ_narrow(all, 1, 3, 2), situ_zeros(SITU_SHAPE(6, 2), HERE(0)), 0, 0);
}

/* ---- other devices, files of a sort, writes in place ---- */

/* placement: M6 */
static void strides_move_along(void **state) {
  (void)state;
  if (!has_values()) return;
  situ_tensor *x = situ_randn(SITU_SHAPE(2, 3, 4, 5), LAST), *there = situ_to(x, situ_dev("cpu")),
              *part = situ_to(situ_narrow(x, 2, 1, 2), situ_dev("sim:1")), *back = situ_to(there, test_device());
  assert_true(situ_is_contiguous_memory_format(there, SITU_CHANNELS_LAST));
  assert_true(situ_is_contiguous_memory_format(part, SITU_CHANNELS_LAST));
  expect_same(back, x, 0, 0);
  expect_same(situ_to(part, test_device()), situ_narrow(x, 2, 1, 2), 0, 0);
}

/* The elements that exist are copied, once. */
/* placement: M6 */
static void expanded_dimensions_stay(void **state) {
  (void)state;
  if (!has_values()) return;
  assert_int_equal(situ_sim_create(2), SITU_OK);
  const situ_device other = situ_dev("sim:1");
  situ_tensor *row = situ_randn(SITU_SHAPE(4), HERE(0)), *x = situ_expand(row, SITU_SHAPE(3, 4));
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  situ_tensor *y = situ_to(x, other), *turned = situ_to(situ_transpose(x, 0, 1), other);
  const situ_transfers all = situ_ledger_total(&ledger);
  assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
  assert_true(all.count == 2 && all.bytes == 2 * 16);
  assert_true(situ_stride(y, 0) == 0 && situ_stride(y, 1) == 1);
  assert_true(situ_stride(turned, 0) == 1 && situ_stride(turned, 1) == 0);
  expect_same(situ_to(y, test_device()), x, 0, 0);
  expect_same(situ_to(turned, test_device()), situ_transpose(x, 0, 1), 0, 0);
  expect_refused(situ_add_scalar_(y, 1), SITU_E_ALIAS, "add_scalar_", "expanded");
  assert_non_null(situ_add_scalar_(situ_contiguous(y), 1));
  /* a part with gaps below it, and in another order */
  situ_tensor *part =
      situ_expand(situ_narrow(situ_randn(SITU_SHAPE(2, 1, 5, 6), LAST), 2, 1, 3), SITU_SHAPE(2, 7, 3, 6));
  y = situ_to(part, other);
  assert_int_equal(situ_stride(y, 1), 0);
  expect_same(situ_to(y, test_device()), part, 0, 0);
  /* gradients are those of each element, as of torch's copy */
  situ_requires_grad_(row, true);
  x = situ_expand(row, SITU_SHAPE(3, 4));
  assert_int_equal(situ_retain_grad(x), SITU_OK);
  situ_tensor *weight_ =
      situ_reshape(situ_arange(0, 12, 1, &(situ_options){ .dtype = SITU_F32, .device = other }), SITU_SHAPE(3, 4));
  assert_int_equal(situ_backward(situ_sum(situ_mul(situ_to(x, other), weight_), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
  expect_exact(situ_grad(row), SITU_SHAPE(4), 12, 15, 18, 21);
}

static void recipes_of_meta_keep_values(void **state) {
  (void)state;
  situ_device meta = situ_dev("meta");
  situ_tensor *x = situ_arange(0, 24, 1, &(situ_options){ .dtype = SITU_F32, .device = meta });
  x = situ_to_memory_format(situ_reshape(x, SITU_SHAPE(1, 2, 3, 4)), SITU_CHANNELS_LAST);
  situ_tensor *y = situ_to(situ_max_pool2d(situ_add_scalar(x, 1), &two, NULL), situ_dev("cpu"));
  expect_exact(y, SITU_SHAPE(1, 2, 1, 2), 6, 8, 18, 20);
  assert_int_equal(situ_stride(y, 1), 1);
}

static void writes_in_place_keep_the_order(void **state) {
  (void)state;
  if (!has_values()) return;
  situ_tensor *x = situ_randn(SITU_SHAPE(2, 3, 4, 5), LAST), *rows_ = situ_contiguous(x);
  assert_ptr_equal(situ_add_(x, rows_), x);
  assert_int_equal(situ_stride(x, 1), 1);
  expect_same(x, situ_mul_scalar(rows_, 2), 0, 0);
  situ_tensor *leaf = situ_requires_grad_(situ_clone(x), true), *y = situ_mul_scalar(leaf, 1);
  assert_non_null(situ_mul_(situ_select(y, 1, 1), situ_full(SITU_SCALAR, 3, HERE(0))));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  assert_int_equal(situ_stride(situ_grad(leaf), 1), 1);
  situ_tensor *want = situ_ones_like(rows_, NULL);
  assert_non_null(situ_fill_(situ_select(want, 1, 1), 3));
  expect_same(situ_grad(leaf), want, 0, 0);
}

/* ---- modules ---- */

static situ_nn_module *small_cnn(void) {
  situ_manual_seed(7);
  situ_nn_module *m = situ_nn_sequential(
      situ_nn_conv2d(3, 8, SITU_SHAPE(3), &(situ_nn_conv_options){ .padding = SITU_SHAPE(1) }),
      situ_nn_batch_norm2d(8, NULL), situ_nn_relu(), situ_nn_max_pool2d(SITU_SHAPE(2), NULL),
      situ_nn_conv2d(8, 16, SITU_SHAPE(3), NULL), situ_nn_relu(), situ_nn_adaptive_avg_pool2d(SITU_SHAPE(2)));
  assert_non_null(m);
  assert_int_equal(situ_nn_to(m, test_device()), SITU_OK);
  return m;
}

/* Three steps of a rule; the last output, whose tensor the caller's scope owns. */
static situ_tensor *trained(situ_nn_module *m, situ_optim *o, situ_tensor *x) {
  situ_tensor *y = NULL;
  for (int step = 0; step < 3; step++) {
    y = situ_nn_forward(m, x);
    assert_non_null(y);
    assert_int_equal(situ_optim_zero_grad(o, true), SITU_OK);
    assert_int_equal(situ_backward(situ_mean(situ_square(y), NULL), NULL), SITU_OK);
    assert_int_equal(situ_optim_step(o), SITU_OK);
  }
  return y;
}

/* By another order of sums, values differ in their last bits; a step of Adam makes much of gradients near 0. */
/* placement: M5 */
static void training_gives_the_same(void **state) {
  (void)state;
  if (!has_values()) return;
  situ_tensor *x = situ_randn(SITU_SHAPE(4, 3, 12, 12), HERE(0)), *y[3];
  for (int k = 0; k < 3; k++) { /* row-major; channels last; changed after the first steps */
    situ_nn_module *m = small_cnn();
    situ_optim *o = situ_optim_sgd(situ_nn_parameters(m), 0.05, OPTIM_MOMENTUM(0.9));
    if (k == 1) assert_int_equal(situ_nn_to_memory_format(m, SITU_CHANNELS_LAST), SITU_OK);
    y[k] = trained(m, o, x);
    assert_int_equal(situ_is_contiguous(y[k]), k != 1);
    if (k == 2) assert_int_equal(situ_nn_to_memory_format(m, SITU_CHANNELS_LAST), SITU_OK);
    situ_tensor *weight_ = situ_nn_get_tensor(m, "4.weight");
    assert_non_null(weight_);
    assert_int_equal(situ_is_contiguous(weight_), k == 0);
    assert_int_equal(situ_is_contiguous(situ_grad(weight_)), k == 0);
    y[k] = trained(m, o, x);
    situ_optim_free(o);
    situ_nn_free(m);
  }
  for (int k = 1; k < 3; k++) {
    assert_true(situ_is_contiguous_memory_format(y[k], SITU_CHANNELS_LAST));
    expect_same(y[k], y[0], 1e-4, 1e-5);
  }
}

/* placement: M5 */
static void no_format_changes_nothing(void **state) {
  (void)state;
  situ_nn_module *m = small_cnn();
  situ_tensor *weight_ = situ_nn_get_tensor(m, "4.weight");
  assert_int_equal(situ_nn_to_memory_format(m, SITU_CHANNELS_LAST), SITU_OK);
  assert_int_equal(situ_nn_to_memory_format(m, SITU_PRESERVE_FORMAT), SITU_OK);
  assert_int_equal(situ_nn_to_memory_format(m, SITU_MEMORY_FORMAT_DEFAULT), SITU_OK);
  assert_true(situ_is_contiguous_memory_format(weight_, SITU_CHANNELS_LAST));
  assert_int_equal(situ_nn_to_memory_format(m, SITU_CONTIGUOUS_FORMAT), SITU_OK);
  assert_true(situ_is_contiguous(weight_));
  situ_nn_free(m);
}

/* Work that fails in a device's queue is known before the old memory is given back. */
static void a_late_failure_keeps_the_format(void **state) {
  (void)state;
  if (test_device().kind != SITU_SIM) return;
  situ_nn_module *m = small_cnn();
  assert_int_equal(situ_sim_fail(test_device().index, SITU_SIM_LATE, 1, false), SITU_OK);
  assert_int_not_equal(situ_nn_to_memory_format(m, SITU_CHANNELS_LAST), SITU_OK);
  situ_error_clear();
  assert_int_equal(situ_sim_reset(test_device().index), SITU_OK);
  assert_true(situ_is_contiguous(situ_nn_get_tensor(m, "0.weight")));
  situ_nn_free(m);
}

static void a_viewed_parameter_keeps_its_format(void **state) {
  (void)state;
  situ_nn_module *m = small_cnn();
  situ_tensor *view = situ_select(situ_nn_get_tensor(m, "0.weight"), 0, 0);
  assert_non_null(view);
  assert_int_equal(situ_nn_to_memory_format(m, SITU_CHANNELS_LAST), SITU_E_ALIAS);
  expect_error(SITU_E_ALIAS, "nn_to_memory_format", "0.weight has views");
  assert_true(situ_is_contiguous(situ_nn_get_tensor(m, "4.weight")));
  assert_int_equal(situ_nn_to_memory_format(m, SITU_PRESERVE_FORMAT), SITU_OK);
  assert_int_equal(situ_nn_to_memory_format(m, (situ_memory_format)9), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_to_memory_format", "9 is not a memory format");
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(strides_are_torchs),
                                      TEST(many_operands_have_no_order),
                                      TEST(formats_of_new_tensors),
                                      TEST(wrong_formats_are_refused),
                                      TEST(random_numbers_do_not_depend_on_strides),
                                      TEST(strides_move_along),
                                      TEST(expanded_dimensions_stay),
                                      TEST(expanded_dimensions_stay),
                                      TEST(recipes_of_meta_keep_values),
                                      TEST(writes_in_place_keep_the_order),
                                      TEST(training_gives_the_same),
                                      TEST(no_format_changes_nothing),
                                      TEST(a_late_failure_keeps_the_format),
                                      TEST(a_viewed_parameter_keeps_its_format) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
