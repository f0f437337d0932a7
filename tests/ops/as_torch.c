/* Values, gradients and refusals where situ differed from PyTorch 2.15; each expectation was computed there.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "support/test.h"

#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })
#define T(dtype, shape, ...) test_tensor(dtype, shape, (const double[]){ __VA_ARGS__ })

/* ---- losses ---- */

static void bce_is_smooth_at_0(void **state) {
  (void)state;
  for (int narrow = 0; narrow < 2; narrow++) {
    situ_tensor *x = situ_zeros(SITU_SHAPE(3), HERE(.requires_grad = true, .dtype = narrow ? SITU_BF16 : SITU_F32));
    situ_tensor *y = T(narrow ? SITU_BF16 : SITU_F32, SITU_SHAPE(3), 0, 1, 0.5);
    situ_tensor *loss = situ_binary_cross_entropy_with_logits(x, y, NULL, NULL, SITU_REDUCTION_SUM);
    assert_int_equal(situ_backward(loss, NULL), SITU_OK);
    expect_exact(situ_grad(x), SITU_SHAPE(3), 0.5, -0.5, 0);
  }
  /* The size of what is lost shows in f64: log(1 + e^-45), and the tail of a wrong certainty. */
  situ_tensor *far = T64(SITU_SHAPE(3), 45, -45, -1000), *y = T64(SITU_SHAPE(3), 1, 1, 1);
  test_close_(situ_binary_cross_entropy_with_logits(far, y, NULL, NULL, SITU_REDUCTION_NONE), SITU_SHAPE(3),
              (double[]){ 2.8625185805493937e-20, 45, 1000 }, 1e-15, 0, __FILE__, __LINE__);
}

static void a_wrong_factor_gives_no_loss(void **state) {
  (void)state;
  const char *op = "binary_cross_entropy_with_logits";
  situ_tensor *x = T32(SITU_SHAPE(2), 0.5, 0.5), *y = T32(SITU_SHAPE(2), 0, 0), *three = T32(SITU_SHAPE(3), 5, 5, 5);
  situ_tensor *larger = situ_ones(SITU_SHAPE(3, 2), HERE(0));
  for (int reduction = SITU_REDUCTION_MEAN; reduction <= SITU_REDUCTION_NONE; reduction++) {
    expect_refused(situ_binary_cross_entropy_with_logits(x, y, NULL, three, reduction), SITU_E_SHAPE, op,
                   "pos_weight is [3]");
    expect_refused(situ_binary_cross_entropy_with_logits(x, y, three, NULL, reduction), SITU_E_SHAPE, op,
                   ": weight is [3]");
    expect_refused(situ_binary_cross_entropy_with_logits(x, y, NULL, larger, reduction), SITU_E_SHAPE, op,
                   "pos_weight is [3, 2]");
    expect_refused(situ_binary_cross_entropy_with_logits(x, y, larger, NULL, reduction), SITU_E_SHAPE, op,
                   ": weight is [3, 2]");
  }
}

static void class_indices_of_u8(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 0, 0, 1), *t = TI64(SITU_SHAPE(2), 2, 0);
  situ_tensor *bytes = situ_to_dtype(t, SITU_U8);
  expect_same(situ_cross_entropy(x, bytes, NULL), situ_cross_entropy(x, t, NULL), 0, 0);
  expect_same(situ_nll_loss(x, bytes, NULL), situ_nll_loss(x, t, NULL), 0, 0);
}

/* ---- numbers of the host ---- */

static void a_weight_keeps_its_value(void **state) {
  (void)state;
  static const struct {
    situ_dtype dtype;
    double weight, want;
  } rows[] = { { SITU_BF16, 0.999, 0.00099945068359375 },
               { SITU_F16, 0.9999, 0.00010001659393310547 },
               { SITU_F32, 0.9999, 0.000100016593933105 } };
  for (int k = 0; k < 3; k++) {
    situ_tensor *a = T(rows[k].dtype, SITU_SHAPE(1), 1), *b = T(rows[k].dtype, SITU_SHAPE(1), 0);
    expect_close(situ_lerp_scalar(a, b, rows[k].weight), SITU_SHAPE(1), 1e-9, 0, rows[k].want);
    assert_int_equal(situ_dtype_of(situ_lerp_scalar(a, b, rows[k].weight)), rows[k].dtype);
    situ_tensor *leaf = situ_requires_grad_(T(rows[k].dtype, SITU_SHAPE(1), 1), true);
    assert_int_equal(situ_backward(situ_sum(situ_lerp_scalar(leaf, b, 0.25), NULL), NULL), SITU_OK);
    expect_exact(situ_grad(leaf), SITU_SHAPE(1), 0.75);
    assert_ptr_equal(situ_lerp_scalar_(a, b, rows[k].weight), a);
    expect_close(a, SITU_SHAPE(1), 1e-9, 0, rows[k].want);
  }
  situ_tensor *whole = TI64(SITU_SHAPE(1), 1);
  expect_refused(situ_lerp_scalar(whole, whole, 0.5), SITU_E_DTYPE, "lerp_scalar", "input is i64");
}

static void the_least_whole_number_is_one(void **state) {
  (void)state;
  situ_tensor *zero = TI64(SITU_SHAPE(1), 0), *sum = situ_add_scalar(zero, -0x1p63),
              *difference = situ_sub_scalar(zero, -0x1p63);
  assert_int_equal(situ_dtype_of(sum), SITU_I64);
  assert_int_equal(situ_dtype_of(difference), SITU_I64);
  int64_t value = 0;
  assert_int_equal(situ_item_i64(sum, &value), SITU_OK);
  assert_true(value == INT64_MIN);
  assert_int_equal(situ_item_i64(difference, &value), SITU_OK);
  assert_true(value == INT64_MIN); /* 2^63 wraps */
  assert_int_equal(situ_dtype_of(situ_add_scalar(zero, 0x1p63)), SITU_F32);
}

static void constants_that_do_not_fit(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2), 1, 2), *mask = TBOOL(SITU_SHAPE(2), 1, 0);
  expect_refused(situ_pad(x, SITU_SHAPE(1, 1), SITU_PAD_CONSTANT, 1e40), SITU_E_ARG, "pad",
                 "1e+40 does not fit into f32");
  expect_refused(situ_masked_fill(x, mask, -1e40), SITU_E_ARG, "masked_fill", "-1e+40 does not fit into f32");
  expect_refused(situ_fill_(x, 1e40), SITU_E_ARG, "fill_", "1e+40");
  expect_exact(x, SITU_SHAPE(2), 1, 2);
  expect_exact(situ_pad(x, SITU_SHAPE(1, 0), SITU_PAD_CONSTANT, INFINITY), SITU_SHAPE(3), INFINITY, 1, 2);
  expect_exact(situ_full(SITU_SHAPE(1), -255, HERE(.dtype = SITU_U8)), SITU_SHAPE(1), 1);
  expect_refused(situ_full(SITU_SHAPE(1), -1.5, HERE(.dtype = SITU_U8)), SITU_E_ARG, "full", "u8");
  expect_refused(situ_full(SITU_SHAPE(1), -129, HERE(.dtype = SITU_I8)), SITU_E_ARG, "full", "i8");
}

static void whole_numbers_are_read_or_refused(void **state) {
  (void)state;
  static const double bad[] = { NAN, INFINITY, -INFINITY, 1e30, -1e30, 0x1p63 };
  int64_t value = 7;
  for (int k = 0; k < 6; k++) {
    assert_int_equal(situ_item_i64(T32(SITU_SHAPE(1), bad[k]), &value), SITU_E_OVERFLOW);
    expect_error(SITU_E_OVERFLOW, "item_i64", "situ_item");
    assert_true(value == 7);
  }
  assert_int_equal(situ_item_i64(T32(SITU_SHAPE(1), -2.75), &value), SITU_OK);
  assert_true(value == -2); /* as int() does */
}

static void random_numbers_that_do_not_fit(void **state) {
  (void)state;
  static const struct {
    situ_dtype dtype;
    int64_t low, high;
    bool fits;
  } rows[] = { { SITU_U8, 0, 256, true },
               { SITU_U8, 0, 257, false },
               { SITU_U8, -1, 3, false },
               { SITU_I8, -128, 128, true },
               { SITU_I8, -129, 128, false },
               { SITU_BOOL, 0, 2, true },
               { SITU_BOOL, 0, 3, false },
               { SITU_F16, 0, 65505, true },
               { SITU_F16, 0, 65506, false },
               { SITU_BF16, 0, 300, true },
               { SITU_I32, 0, 1LL << 31, true },
               { SITU_I32, 0, (1LL << 31) + 1, false },
               { SITU_I64, INT64_MIN, INT64_MAX, true } };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    situ_tensor *x = situ_randint(rows[k].low, rows[k].high, SITU_SHAPE(8), HERE(.dtype = rows[k].dtype));
    if (!x != !rows[k].fits) fail_msg("row %zu: %s", k, situ_error_message());
    if (!x) expect_error(SITU_E_ARG, "randint", "does not fit into");
  }
  expect_refused(situ_randperm(257, HERE(.dtype = SITU_U8)), SITU_E_ARG, "randperm", "u8");
  expect_refused(situ_randperm(2050, HERE(.dtype = SITU_F16)), SITU_E_ARG, "randperm", "f16");
  assert_non_null(situ_randperm(2049, HERE(.dtype = SITU_F16)));
  situ_tensor *half = situ_zeros(SITU_SHAPE(2), HERE(.dtype = SITU_F16));
  expect_refused(situ_uniform_(half, 0, 1e6, NULL), SITU_E_ARG, "uniform_", "1e+06 does not fit into f16");
  expect_exact(half, SITU_SHAPE(2), 0, 0);
}

static void probabilities_outside_0_to_1(void **state) {
  (void)state;
  static const double bad[] = { 2, -0.5, NAN, INFINITY };
  static const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_BF16 };
  for (int k = 0; k < 4; k++)
    for (int d = 0; d < 3; d++) {
      double values[5000], sum;
      for (int i = 0; i < 5000; i++) values[i] = i == 4321 ? bad[k] : (i % 3) / 2.0;
      situ_tensor *y = situ_bernoulli(test_tensor(dtypes[d], SITU_SHAPE(5000), values), NULL);
      assert_true(!y || situ_item(situ_sum(y, NULL), &sum) != SITU_OK); /* a queue tells of it when it is waited for */
      expect_error(SITU_E_ARG, "", "the probability of element 4321 is not in 0..1");
    }
  expect_exact(situ_bernoulli(T32(SITU_SHAPE(2), -0.0, 0), NULL), SITU_SHAPE(2), 0, 0);
}

/* ---- element-wise ---- */

static void clamp_at_its_bounds(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(5), -1, 0, 0.5, 1, 2), true);
  assert_int_equal(situ_backward(situ_sum(situ_clamp(x, 0, 1), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(5), 0, 0, 1, 0, 0);
  situ_tensor *open = situ_requires_grad_(T32(SITU_SHAPE(3), -INFINITY, 0, INFINITY), true);
  assert_int_equal(situ_backward(situ_sum(situ_clamp(open, -INFINITY, 1), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(open), SITU_SHAPE(3), 1, 1, 0);
  expect_exact(situ_clamp(x, NAN, 1), SITU_SHAPE(5), NAN, NAN, NAN, NAN, NAN);
  situ_tensor *whole = situ_clamp(TI64(SITU_SHAPE(2), -3, 2), 0, NAN);
  assert_int_equal(situ_dtype_of(whole), SITU_F32);
  expect_exact(whole, SITU_SHAPE(2), NAN, NAN);
}

static void linspace_of_whole_numbers(void **state) {
  (void)state;
  expect_exact(situ_linspace(0.5, 9.7, 5, HERE(.dtype = SITU_I64)), SITU_SHAPE(5), 0, 2, 4, 6, 9);
  expect_exact(situ_slice(situ_linspace(4.3, -3, 50, HERE(.dtype = SITU_I64)), 0, 0, 6, 1), SITU_SHAPE(6), 4, 3, 3, 3,
               3, 3);
  expect_exact(situ_linspace(-1, 9.7, 5, HERE(.dtype = SITU_U8)), SITU_SHAPE(5), 255, 193, 132, 70, 9);
  expect_refused(situ_linspace(0, 1, 3, HERE(.dtype = SITU_BOOL)), SITU_E_DTYPE, "linspace", "bool");
  expect_refused(situ_arange(0, 2, 1, HERE(.dtype = SITU_BOOL)), SITU_E_DTYPE, "arange", "bool");
  expect_refused(situ_arange(0, -1, 2, HERE(0)), SITU_E_ARG, "arange", "leads away");
  expect_refused(situ_arange(0, -0.5, 2, HERE(0)), SITU_E_ARG, "arange", "leads away");
  assert_int_equal(situ_numel(situ_arange(0, 0, 2, HERE(0))), 0);
}

/* Where an element of the padded line comes from; -1: nowhere. */
static int64_t source_of(situ_pad_mode mode, int64_t size, int64_t before, int64_t after, int64_t i) {
  const int64_t at = i - before, first = before < 0 ? -before : 0, kept = size - first + (after < 0 ? after : 0);
  switch (mode) {
  case SITU_PAD_REFLECT: return at < 0 ? -at : at < size ? at : 2 * (size - 1) - at;
  case SITU_PAD_REPLICATE: return at < 0 ? 0 : at < size ? at : size - 1;
  case SITU_PAD_CIRCULAR: return first + (i - (before > 0 ? before : 0) + kept) % kept;
  default: return at < first || at >= first + kept ? -1 : at;
  }
}

/* Every pair of borders of every short line: the elements of torch 2.15, or refused where torch has none for it, or (borders
   that reach further than what was cropped) reads others. */
static void every_border(void **state) {
  (void)state;
  for (int mode = SITU_PAD_CONSTANT; mode <= SITU_PAD_CIRCULAR; mode++) {
    int made = 0;
    for (int64_t size = 1; size <= 6; size++) {
      situ_tensor *x = situ_reshape(situ_arange(0, (double)size, 1, HERE(.dtype = SITU_F64)), SITU_SHAPE(1, size));
      for (int64_t before = -size; before <= 7; before++)
        for (int64_t after = -size; after <= 7; after++) {
          situ_tensor *y = situ_pad(x, SITU_DIMS(before, after), (situ_pad_mode)mode, -1);
          situ_error_clear();
          if (!y) continue;
          double got[32];
          test_read(y, got);
          made++;
          for (int64_t i = 0; i < size + before + after; i++) {
            const int64_t want = source_of((situ_pad_mode)mode, size, before, after, i);
            if (got[i] != (double)want)
              fail_msg("mode %d, %d elements, borders %d and %d: element %d is %g, must be %d", mode, (int)size,
                       (int)before, (int)after, (int)i, got[i], (int)want);
          }
        }
    }
    assert_true(made > 200);
  }
}

/* More places than windows, of a kernel of one element; a window that is larger than the line, with ceil_mode. */
static void windows_and_places(void **state) {
  (void)state;
  for (int f64 = 0; f64 < 2; f64++) {
    const situ_dtype dtype = f64 ? SITU_F64 : SITU_F32;
    situ_tensor *x = situ_reshape(situ_arange(1, 5, 1, HERE(.dtype = dtype)), SITU_SHAPE(1, 1, 2, 2));
    situ_tensor *one = situ_ones(SITU_SHAPE(1, 1, 1, 1), HERE(.dtype = dtype));
    const situ_conv_options more = { .output_padding = SITU_DIMS(1, 1), .dilation = SITU_DIMS(2) };
    situ_requires_grad_(x, true);
    situ_tensor *y = situ_conv_transpose2d(x, one, NULL, &more);
    expect_exact(y, SITU_SHAPE(1, 1, 3, 3), 1, 2, 0, 3, 4, 0, 0, 0, 0);
    situ_tensor *up = situ_reshape(situ_arange(1, 10, 1, HERE(.dtype = dtype)), SITU_SHAPE(1, 1, 3, 3));
    assert_int_equal(situ_backward(y, &(situ_backward_options){ .gradient = up }), SITU_OK);
    expect_exact(situ_grad(x), SITU_SHAPE(1, 1, 2, 2), 1, 2, 4, 5);
    const situ_pool_options large = { .kernel = SITU_DIMS(3), .stride = SITU_DIMS(2), .ceil_mode = true };
    expect_exact(situ_max_pool2d(situ_detach(x), &large, NULL), SITU_SHAPE(1, 1, 1, 1), 4);
    expect_exact(situ_avg_pool2d(situ_detach(x), &large), SITU_SHAPE(1, 1, 1, 1), 2.5);
  }
  const situ_pool_options large = { .kernel = SITU_DIMS(3), .stride = SITU_DIMS(2) };
  expect_refused(situ_max_pool2d(T32(SITU_SHAPE(1, 2, 2), 1, 2, 3, 4), &large, NULL), SITU_E_SHAPE, "max_pool2d",
                 "covers 3");
}

static void borders_that_crop(void **state) {
  (void)state;
  situ_tensor *x = situ_reshape(situ_arange(0, 6, 1, HERE(.dtype = SITU_F32)), SITU_SHAPE(1, 6));
  expect_exact(situ_pad(x, SITU_DIMS(-4, 3), SITU_PAD_REFLECT, 0), SITU_SHAPE(1, 5), 4, 5, 4, 3, 2);
  expect_exact(situ_pad(x, SITU_DIMS(-4, 5), SITU_PAD_REFLECT, 0), SITU_SHAPE(1, 7), 4, 5, 4, 3, 2, 1, 0);
  expect_exact(situ_pad(x, SITU_DIMS(-4, 3), SITU_PAD_REPLICATE, 0), SITU_SHAPE(1, 5), 4, 5, 5, 5, 5);
  expect_exact(situ_pad(x, SITU_DIMS(-1, 2), SITU_PAD_CIRCULAR, 0), SITU_SHAPE(1, 7), 1, 2, 3, 4, 5, 1, 2);
  expect_exact(situ_pad(x, SITU_DIMS(-1, -2), SITU_PAD_CIRCULAR, 0), SITU_SHAPE(1, 3), 1, 2, 3);
  situ_tensor *leaf = situ_requires_grad_(T32(SITU_SHAPE(1, 3), 1, 2, 3), true);
  assert_int_equal(situ_backward(situ_sum(situ_pad(leaf, SITU_DIMS(-1, 2), SITU_PAD_REFLECT, 0), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(leaf), SITU_SHAPE(1, 3), 1, 2, 1);
  situ_tensor *cropped = situ_requires_grad_(T32(SITU_SHAPE(3), 1, 2, 3), true);
  situ_tensor *padded = situ_pad(cropped, SITU_DIMS(-1, 2), SITU_PAD_CONSTANT, 7);
  expect_exact(padded, SITU_SHAPE(4), 2, 3, 7, 7);
  assert_int_equal(situ_backward(situ_sum(padded, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(cropped), SITU_SHAPE(3), 0, 1, 1);
}

/* ---- reductions, norms ---- */

static void std_of_large_and_small(void **state) {
  (void)state;
  expect_close(situ_std(T32(SITU_SHAPE(3), 1e20, 2e20, -1e20), 1, NULL), SITU_SCALAR, 1e-6, 0, 1.5275252316519468e20);
  expect_close(situ_std(T32(SITU_SHAPE(3), 1e-30, 2e-30, -1e-30), 1, NULL), SITU_SCALAR, 1e-6, 0,
               1.5275252316519468e-30);
  expect_close(situ_std(T32(SITU_SHAPE(2, 2), 1e20, 3e20, 5, 5), 1, &(situ_reduce_options){ .dim = SITU_DIMS(1) }),
               SITU_SHAPE(2), 1e-6, 0, 1.4142135623730951e20, 0);
  expect_close(situ_std(T32(SITU_SHAPE(2, 2), 1e20, 5, 3e20, 5), 1, &(situ_reduce_options){ .dim = SITU_DIMS(0) }),
               SITU_SHAPE(2), 1e-6, 0, 1.4142135623730951e20, 0);
  expect_exact(situ_std(T32(SITU_SHAPE(1), 1), 1, NULL), SITU_SCALAR, NAN);
  expect_exact(situ_std(T32(SITU_SHAPE(2), 1, INFINITY), 1, NULL), SITU_SCALAR, NAN);
  expect_exact(situ_var(T32(SITU_SHAPE(3), 1e20, 2e20, -1e20), 1, NULL), SITU_SCALAR, INFINITY);
}

static void norms_of_16_bits(void **state) {
  (void)state;
  const double want[2][2] = { { 0.263427734375, 0.52685546875 }, { 0.263671875, 0.52734375 } };
  for (int k = 0; k < 2; k++) {
    situ_tensor *x = T(k ? SITU_BF16 : SITU_F16, SITU_SHAPE(1, 2), 1e-4, 2e-4);
    expect_close(situ_rms_norm(x, SITU_SHAPE(2), NULL, SITU_NONE), SITU_SHAPE(1, 2), 1e-3, 0, want[k][0], want[k][1]);
  }
  /* Rounded once: as f32 rounds to 16 bits at the end. */
  for (int k = 0; k < 2; k++) {
    const situ_dtype dtype = k ? SITU_BF16 : SITU_F16;
    situ_tensor *x = situ_to_dtype(test_random(SITU_SHAPE(2, 4, 8), -2, 2, false), dtype),
                *wide = situ_to_dtype(x, SITU_F32);
    situ_tensor *w = situ_to_dtype(test_random(SITU_SHAPE(4), 0.5, 2, false), dtype),
                *b = situ_to_dtype(test_random(SITU_SHAPE(4), -1, 1, false), dtype);
    situ_tensor *exact = situ_group_norm(wide, 2, situ_to_dtype(w, SITU_F32), situ_to_dtype(b, SITU_F32), 1e-5);
    expect_same(situ_group_norm(x, 2, w, b, 1e-5), situ_to_dtype(exact, dtype), 0, 0);
  }
  expect_refused(situ_group_norm(situ_zeros(SITU_SHAPE(2, 4, 0), HERE(0)), 2, NULL, NULL, 1e-5), SITU_E_SHAPE,
                 "group_norm", "no values");
  expect_refused(situ_group_norm(situ_zeros(SITU_SHAPE(1, 2, 1), HERE(0)), 2, NULL, NULL, 1e-5), SITU_E_SHAPE,
                 "group_norm", "one value");
  expect_refused(situ_group_norm(situ_zeros(SITU_SHAPE(1, 0, 1), HERE(0)), 2, NULL, NULL, 1e-5), SITU_E_SHAPE,
                 "group_norm", "no values");
  assert_int_equal(situ_numel(situ_group_norm(situ_zeros(SITU_SHAPE(0, 4, 3), HERE(0)), 2, NULL, NULL, 1e-5)), 0);
  assert_int_equal(situ_numel(situ_group_norm(situ_zeros(SITU_SHAPE(0, 4), HERE(0)), 4, NULL, NULL, 1e-5)), 0);
}

/* ---- indices, shapes, products ---- */

static void indices_of_a_scalar(void **state) {
  (void)state;
  situ_tensor *x = situ_full(SITU_SCALAR, 7, HERE(0)), *none = situ_zeros(SITU_SHAPE(0), HERE(.dtype = SITU_I64));
  situ_tensor *three = TI64(SITU_SHAPE(3), 0, 0, 0), *one = TI64(SITU_SHAPE(1), 0), *scalar = TI64(SITU_SCALAR, 0);
  expect_refused(situ_index_select(x, 0, three), SITU_E_SHAPE, "index_select", "3 elements");
  expect_refused(situ_index_select(x, 0, none), SITU_E_SHAPE, "index_select", "0 elements");
  expect_exact(situ_index_select(x, 0, one), SITU_SCALAR, 7);
  expect_exact(situ_index_select(x, 0, scalar), SITU_SCALAR, 7);
  expect_exact(situ_gather(x, 0, three), SITU_SHAPE(3), 7, 7, 7);
  situ_tensor *row = situ_requires_grad_(T32(SITU_SHAPE(2), -3, 2), true),
              *picked = situ_gather(row, 0, TI64(SITU_SCALAR, 1));
  expect_exact(picked, SITU_SCALAR, 2);
  assert_int_equal(situ_backward(picked, NULL), SITU_OK);
  expect_exact(situ_grad(row), SITU_SHAPE(2), 0, 1);
  situ_tensor *src = situ_requires_grad_(T32(SITU_SCALAR, 5), true);
  assert_int_equal(situ_backward(situ_scatter(x, 0, one, src), NULL), SITU_OK);
  expect_exact(situ_grad(src), SITU_SCALAR, 1);
}

static void an_empty_index_places_nothing(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(1, 4), HERE(.requires_grad = true)),
              *src = situ_ones(SITU_SHAPE(7, 2), HERE(.requires_grad = true));
  situ_tensor *none = situ_zeros(SITU_SHAPE(0, 4), HERE(.dtype = SITU_I64));
  assert_int_equal(situ_backward(situ_sum(situ_scatter_add(x, 1, none, src), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(1, 4), 1, 1, 1, 1);
  expect_same(situ_grad(src), situ_zeros(SITU_SHAPE(7, 2), HERE(0)), 0, 0);
}

static void sizes_that_overflow(void **state) {
  (void)state;
  situ_tensor *none = situ_zeros(SITU_SHAPE(0), HERE(0)), *x = situ_zeros(SITU_SHAPE(4, 3), HERE(0));
  expect_refused(situ_reshape(none, SITU_SHAPE(2, 2147483647, 64, 0, 2147483647)), SITU_E_OVERFLOW, "reshape", "2^63");
  expect_refused(situ_view(none, SITU_SHAPE(INT64_MAX, 0, 2)), SITU_E_OVERFLOW, "view", "2^63");
  assert_int_equal(situ_numel(situ_reshape(none, SITU_SHAPE(1LL << 40, 0, 1 << 22))), 0);
  expect_refused(situ_repeat(x, SITU_SHAPE(1LL << 62, 1)), SITU_E_OVERFLOW, "repeat", "");
  expect_refused(situ_repeat(x, SITU_SHAPE((1LL << 62) + 1, 1)), SITU_E_OVERFLOW, "repeat", "");
  situ_tensor *part[16];
  assert_int_equal(situ_chunk(situ_zeros(SITU_SHAPE(12), HERE(0)), 1LL << 62, 0, part, 16), 12);
  situ_tensor *one = situ_slice(situ_ones(SITU_SHAPE(5, 3), HERE(0)), 0, 0, INT64_MAX, INT64_MAX - 1);
  expect_exact(one, SITU_SHAPE(1, 3), 1, 1, 1);
  situ_tensor *image = situ_ones(SITU_SHAPE(1, 1, 3, 3), HERE(0)), *kernel = situ_ones(SITU_SHAPE(1, 1, 2, 2), HERE(0));
  expect_refused(situ_conv2d(image, kernel, NULL, &(situ_conv_options){ .stride = SITU_DIMS(1LL << 62) }),
                 SITU_E_OVERFLOW, "conv2d", "stride");
  expect_refused(
      situ_max_pool2d(image, &(situ_pool_options){ .kernel = SITU_DIMS(2), .stride = SITU_DIMS(1LL << 62) }, NULL),
      SITU_E_OVERFLOW, "max_pool2d", "stride");
  expect_refused(situ_roll(situ_full(SITU_SCALAR, 3, HERE(0)), SITU_SHAPE(1), SITU_DIMS(0)), SITU_E_ARG, "roll",
                 "0-dim");
  expect_exact(situ_roll(situ_full(SITU_SCALAR, 3, HERE(0)), SITU_SHAPE(1), SITU_SCALAR), SITU_SCALAR, 3);
}

static void a_vector_as_weight(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *w = situ_requires_grad_(T32(SITU_SHAPE(3), 1, 0, 2), true);
  expect_exact(situ_linear(x, w, NULL), SITU_SHAPE(2), 7, 16);
  expect_exact(situ_linear(T32(SITU_SHAPE(3), 1, 1, 1), w, NULL), SITU_SCALAR, 3);
  assert_int_equal(situ_backward(situ_sum(situ_linear(x, w, NULL), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(w), SITU_SHAPE(3), 5, 7, 9);
  expect_refused(situ_linear(x, w, T32(SITU_SHAPE(1), 1)), SITU_E_SHAPE, "linear", "bias");
}

static void a_huge_expanded_tensor_is_printed(void **state) {
  (void)state;
  char text[256];
  situ_tensor *x = situ_expand(situ_scalar_tensor(1, NULL), SITU_SHAPE(1 << 20, 1 << 20, 1 << 20));
  assert_true(situ_to_string(x, text, sizeof text) > 100);
  text[42] = 0;
  assert_string_equal(text, "tensor([[[1., 1., 1.,  ..., 1., 1., 1.],\n ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(bce_is_smooth_at_0),
    TEST(a_wrong_factor_gives_no_loss),
    TEST(class_indices_of_u8),
    TEST(a_weight_keeps_its_value),
    TEST(the_least_whole_number_is_one),
    TEST(constants_that_do_not_fit),
    TEST(whole_numbers_are_read_or_refused),
    TEST(random_numbers_that_do_not_fit),
    TEST(probabilities_outside_0_to_1),
    TEST(clamp_at_its_bounds),
    TEST(linspace_of_whole_numbers),
    TEST(every_border),
    TEST(windows_and_places),
    TEST(borders_that_crop),
    TEST(std_of_large_and_small),
    TEST(norms_of_16_bits),
    TEST(indices_of_a_scalar),
    TEST(an_empty_index_places_nothing),
    TEST(sizes_that_overflow),
    TEST(a_vector_as_weight),
    TEST(a_huge_expanded_tensor_is_printed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
