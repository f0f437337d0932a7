/* Convolutions through the API: values, gradients, refusals.
   SPDX-License-Identifier: MIT */
#include "situ/device.h"
#include "situ/sys/alloc.h"
#include "situ/sys/plain.h"
#include "support/test.h"

static void values(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(1, 1, 3, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9), *w = T32(SITU_SHAPE(1, 1, 2, 2), 1, 0, 0, 1),
              *b = T32(SITU_SHAPE(1), 100);
  expect_exact(situ_conv2d(x, w, NULL, NULL), SITU_SHAPE(1, 1, 2, 2), 6, 8, 12, 14);
  expect_exact(situ_conv2d(x, w, b, NULL), SITU_SHAPE(1, 1, 2, 2), 106, 108, 112, 114);
  expect_exact(situ_conv2d(situ_select(x, 0, 0), w, b, NULL), SITU_SHAPE(1, 2, 2), 106, 108, 112, 114);
  expect_exact(situ_conv2d(x, w, NULL, &(situ_conv_options){ .padding = SITU_DIMS(1), .stride = SITU_DIMS(2) }),
               SITU_SHAPE(1, 1, 2, 2), 1, 3, 7, 14);
  expect_exact(situ_conv2d(x, w, NULL, &(situ_conv_options){ .dilation = SITU_DIMS(2, 1) }), SITU_SHAPE(1, 1, 1, 2), 9,
               11);
  situ_tensor *line = T32(SITU_SHAPE(1, 2, 4), 1, 2, 3, 4, 10, 20, 30, 40), *k = T32(SITU_SHAPE(1, 2, 2), 1, 1, 0, 1);
  expect_exact(situ_conv1d(line, k, NULL, NULL), SITU_SHAPE(1, 1, 3), 23, 35, 47);
  expect_exact(situ_conv1d(situ_select(line, 0, 0), k, NULL, &(situ_conv_options){ .stride = SITU_DIMS(2) }),
               SITU_SHAPE(1, 2), 23, 47);
  expect_exact(situ_conv1d(line, T32(SITU_SHAPE(2, 1, 1), 2, 3), NULL, &(situ_conv_options){ .groups = 2 }),
               SITU_SHAPE(1, 2, 4), 2, 4, 6, 8, 30, 60, 90, 120);
  expect_exact(situ_conv_transpose2d(x, w, b, NULL), SITU_SHAPE(1, 1, 4, 4), 101, 102, 103, 100, 104, 106, 108, 103,
               107, 112, 114, 106, 100, 107, 108, 109);
  expect_exact(situ_conv_transpose2d(T32(SITU_SHAPE(1, 1, 1, 2), 1, 2), w, NULL,
                                     &(situ_conv_options){ .stride = SITU_DIMS(2), .output_padding = SITU_DIMS(1, 0) }),
               SITU_SHAPE(1, 1, 3, 4), 1, 0, 2, 0, 0, 1, 0, 2, 0, 0, 0, 0);
}

static void a_view_and_an_empty_batch(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(1, 1, 2, 3), 1, 4, 7, 2, 5, 8), *w = T32(SITU_SHAPE(1, 1, 2, 2), 1, 0, 0, 1);
  expect_exact(situ_conv2d(situ_transpose(x, 2, 3), w, NULL, NULL), SITU_SHAPE(1, 1, 2, 1), 6, 12);
  situ_tensor *none =
      situ_zeros(SITU_SHAPE(0, 1, 3, 3), &(situ_options){ .device = test_device(), .requires_grad = true });
  situ_requires_grad_(w, true);
  situ_tensor *y = situ_conv2d(none, w, NULL, NULL);
  assert_int_equal(situ_numel(y), 0);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(w), SITU_SHAPE(1, 1, 2, 2), 0, 0, 0, 0);
  assert_int_equal(situ_set_grad(w, NULL), SITU_OK);
}

static situ_tensor *f_conv1d(situ_tensor *const *in, void *o) { return situ_conv1d(in[0], in[1], in[2], o); }
static situ_tensor *f_conv2d(situ_tensor *const *in, void *o) { return situ_conv2d(in[0], in[1], in[2], o); }
static situ_tensor *f_bare(situ_tensor *const *in, void *o) { return situ_conv2d(in[0], in[1], NULL, o); }
static situ_tensor *f_transposed(situ_tensor *const *in, void *o) {
  return situ_conv_transpose2d(in[0], in[1], in[2], o);
}

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static void gradients(void **state) {
  (void)state;
  situ_conv_options plain = { 0 }, padded = { .padding = SITU_DIMS(1, 2) },
                    strided = { .stride = SITU_DIMS(2), .padding = SITU_DIMS(1) };
  situ_conv_options dilated = { .dilation = SITU_DIMS(2), .padding = SITU_DIMS(1) }, grouped = { .groups = 2 },
                    out = { .stride = SITU_DIMS(2), .output_padding = SITU_DIMS(1) };
  situ_conv_options all = { .stride = SITU_DIMS(2), .padding = SITU_DIMS(1), .groups = 2 };
  gradcheck(f_conv2d, &plain, R(2, 2, 4, 5), R(3, 2, 2, 3), R(3));
  gradcheck(f_conv2d, &plain, R(2, 4, 4), R(2, 2, 2, 2), R(2));
  gradcheck(f_conv2d, &padded, R(1, 2, 3, 3), R(2, 2, 3, 3), R(2));
  gradcheck(f_conv2d, &strided, R(2, 1, 5, 6), R(2, 1, 3, 2), R(2));
  gradcheck(f_conv2d, &dilated, R(1, 2, 5, 5), R(1, 2, 2, 2), R(1));
  gradcheck(f_conv2d, &grouped, R(2, 4, 3, 3), R(6, 2, 2, 2), R(6));
  gradcheck(f_bare, &plain, R(2, 3, 3, 2), R(4, 3, 1, 1));
  gradcheck(f_conv1d, &plain, R(2, 2, 6), R(3, 2, 3), R(3));
  gradcheck(f_conv1d, &all, R(2, 5), R(4, 1, 2), R(4));
  gradcheck(f_transposed, &plain, R(2, 2, 3, 3), R(2, 3, 2, 2), R(3));
  gradcheck(f_transposed, &strided, R(1, 2, 3, 3), R(2, 1, 3, 3), R(1));
  gradcheck(f_transposed, &out, R(1, 2, 2, 3), R(2, 2, 2, 2), R(2));
  gradcheck(f_transposed, &grouped, R(1, 4, 2, 2), R(4, 1, 2, 2), R(2));
  gradcheck(f_transposed, &dilated, R(2, 2, 3), R(2, 1, 2, 2), R(1));
}

static void refusals(void **state) {
  (void)state;
  const situ_options here = { .device = test_device() };
  situ_tensor *x = situ_zeros(SITU_SHAPE(1, 4, 5, 5), &here), *w = situ_zeros(SITU_SHAPE(2, 4, 3, 3), &here);
#define REFUSED(code, text, ...) \
  expect_refused(situ_conv2d(x, w, NULL, &(situ_conv_options){ __VA_ARGS__ }), code, "conv2d", text)
  REFUSED(SITU_E_ARG, "stride", .stride = SITU_DIMS(0));
  REFUSED(SITU_E_ARG, "stride", .stride = SITU_DIMS(1, -2));
  REFUSED(SITU_E_ARG, "values", .stride = SITU_DIMS(1, 1, 1));
  REFUSED(SITU_E_ARG, "dilation", .dilation = SITU_DIMS(0));
  REFUSED(SITU_E_ARG, "padding", .padding = SITU_DIMS(-1));
  REFUSED(SITU_E_ARG, "groups", .groups = -1);
  REFUSED(SITU_E_ARG, "groups", .groups = 3);
  REFUSED(SITU_E_SHAPE, "channels", .groups = 2);
  REFUSED(SITU_E_SHAPE, "covers", .dilation = SITU_DIMS(4));
  REFUSED(SITU_E_OVERFLOW, "63 bits", .padding = SITU_DIMS(INT64_MAX / 2 + 1));
  expect_refused(situ_conv2d(x, situ_zeros(SITU_SHAPE(2, 3, 3, 3), &here), NULL, NULL), SITU_E_SHAPE, "conv2d",
                 "channels");
  expect_refused(situ_conv2d(x, situ_zeros(SITU_SHAPE(2, 4, 0, 3), &here), NULL, NULL), SITU_E_SHAPE, "conv2d",
                 "weight");
  expect_refused(situ_conv2d(x, situ_zeros(SITU_SHAPE(2, 4, 6, 6), &here), NULL, NULL), SITU_E_SHAPE, "conv2d",
                 "covers");
  expect_refused(situ_conv2d(situ_zeros(SITU_SHAPE(5, 5), &here), w, NULL, NULL), SITU_E_SHAPE, "conv2d", "input");
  expect_refused(situ_conv2d(x, w, situ_zeros(SITU_SHAPE(3), &here), NULL), SITU_E_SHAPE, "conv2d", "bias");
  expect_refused(situ_conv1d(x, w, NULL, NULL), SITU_E_SHAPE, "conv1d", "input");
  expect_refused(
      situ_conv2d(x, situ_zeros(SITU_SHAPE(2, 4, 3, 3), &(situ_options){ .dtype = SITU_F64, .device = test_device() }),
                  NULL, NULL),
      SITU_E_DTYPE, "conv2d", "f64");
  expect_refused(
      situ_conv2d(x, situ_zeros(SITU_SHAPE(9, 9), &(situ_options){ .dtype = SITU_F64, .device = situ_dev("meta") }),
                  NULL, NULL),
      SITU_E_DEVICE, "conv2d", "meta");
  situ_tensor *t = situ_zeros(SITU_SHAPE(4, 2, 3, 3), &here);
  expect_refused(situ_conv_transpose2d(x, t, NULL, &(situ_conv_options){ .output_padding = SITU_DIMS(1) }), SITU_E_ARG,
                 "conv_transpose2d", "output_padding");
  expect_refused(situ_conv_transpose2d(x, t, NULL, &(situ_conv_options){ .padding = SITU_DIMS(5) }), SITU_E_SHAPE,
                 "conv_transpose2d", "size");
  expect_refused(situ_conv_transpose2d(x, w, NULL, NULL), SITU_E_SHAPE, "conv_transpose2d", "channels");
}

/* The same bits as the function of the result, whichever way the device convolves; a NaN stays. */
static void activations_in_the_same_pass(void **state) {
  static const struct {
    int64_t images, in, out, size, kernel, stride, padding, groups;
  } shape[] = { { 2, 1, 16, 28, 3, 1, 1, 1 },  { 1, 16, 13, 9, 3, 1, 1, 1 }, { 1, 70, 8, 7, 3, 1, 0, 1 },
                { 1, 5, 3, 6, 3, 1, 1, 1 },    { 1, 8, 24, 12, 3, 2, 1, 1 }, { 1, 4, 20, 5, 1, 1, 0, 1 },
                { 3, 64, 64, 12, 3, 1, 1, 1 }, { 4, 8, 8, 14, 5, 2, 2, 1 },  { 2, 8, 8, 21, 5, 1, 2, 8 },
                { 2, 72, 96, 21, 1, 1, 0, 1 }, { 1, 8, 100, 60, 1, 1, 0, 1 } };
  static const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_F16, SITU_BF16, SITU_I64 };
  (void)state;
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
      for (int way = 0; way < 2 * SITU_ACTIVATION_SILU; way++) {
        const bool last = way % 2;
        const situ_activation activation = (situ_activation)(way / 2 + 1);
        if (dtypes[k] == SITU_I64 && activation != SITU_ACTIVATION_RELU) break;
        if (!test_takes(i + k + (size_t)way, 4)) continue;
        situ_scope scope;
        situ_scope_begin_no_grad(&scope);
        const double range = dtypes[k] == SITU_I64 ? 5 : 1;
        situ_tensor *x =
            test_random(SITU_SHAPE(shape[i].images, shape[i].in, shape[i].size, shape[i].size), -range, range, false);
        situ_tensor *w =
            test_random(SITU_SHAPE(shape[i].out, shape[i].in / shape[i].groups, shape[i].kernel, shape[i].kernel),
                        -range, range, false);
        situ_tensor *b = test_random(SITU_SHAPE(shape[i].out), -range, range, false);
        x = situ_to_dtype(x, dtypes[k]), w = situ_to_dtype(w, dtypes[k]), b = situ_to_dtype(b, dtypes[k]);
        if (last) x = situ_contiguous_memory_format(x, SITU_CHANNELS_LAST);
        situ_conv_options o = { .stride = SITU_DIMS(shape[i].stride),
                                .padding = SITU_DIMS(shape[i].padding),
                                .groups = shape[i].groups };
        situ_tensor *bias = i % 2 ? b : NULL, *want = test_activated(situ_conv2d(x, w, bias, &o), activation);
        o.activation = activation;
        situ_tensor *got = situ_conv2d(x, w, bias, &o);
        bool same = false, stays = dtypes[k] == SITU_I64;
        assert_int_equal(situ_equal(got, want, &same), SITU_OK);
        if (!stays) {
          situ_tensor *nan = situ_full_like(got, NAN, NULL), *from = situ_full_like(x, NAN, NULL);
          assert_int_equal(situ_allclose(situ_conv2d(from, w, bias, &o), nan, 0, 0, true, &stays), SITU_OK);
        }
        if (!same || !stays)
          fail_msg("shape %zu of %s, activation %d, last %d", i, situ_dtype_name(dtypes[k]), (int)activation, last);
        assert_int_equal(situ_scope_end(&scope), SITU_OK);
      }
}

/* With gradients on, relu is an op of its own. */
static void relu_with_gradients(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(1, 1, 1, 3), -1, 2, 3), *w = T32(SITU_SHAPE(1, 1, 1, 1), 1);
  situ_requires_grad_(x, true);
  situ_tensor *y = situ_conv2d(x, w, NULL, &(situ_conv_options){ .activation = SITU_ACTIVATION_RELU });
  expect_exact(y, SITU_SHAPE(1, 1, 1, 3), 0, 2, 3);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(1, 1, 1, 3), 0, 1, 1);
  expect_refused(situ_conv_transpose2d(x, w, NULL, &(situ_conv_options){ .activation = SITU_ACTIVATION_RELU }),
                 SITU_E_ARG, "conv_transpose2d", "activation");
  expect_refused(situ_conv2d(x, w, NULL, &(situ_conv_options){ .activation = (situ_activation)99 }), SITU_E_ARG,
                 "conv2d", "activation is 99");
}

static situ_tensor *maxima_of(situ_tensor *y) {
  return situ_max_pool2d(y, &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL);
}

/* The same bits as max pooling of the result, signs of zeros and NaN included, whether the device can or not. */
static void maxima_in_the_same_pass(void **state) {
  static const struct {
    int64_t images, in, out, size, kernel, padding, dilation, groups;
  } shape[] = { { 2, 1, 16, 28, 3, 1, 1, 1 },   { 3, 16, 32, 14, 3, 1, 1, 1 }, { 1, 6, 48, 11, 5, 2, 1, 1 },
                { 1, 3, 64, 70, 3, 0, 1, 1 },   { 2, 8, 96, 9, 3, 2, 2, 2 },   { 1, 2, 16, 4, 3, 0, 1, 1 },
                { 5, 1, 16, 37, 9, 4, 1, 1 },   { 1, 4, 20, 8, 3, 1, 1, 1 },   { 2, 40, 32, 10, 3, 1, 1, 1 },
                { 1, 31, 160, 200, 3, 1, 1, 1 } };
  static const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_BF16, SITU_I64 };
  (void)state;
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes * 4; k++) {
      if (!test_takes(i + k, 3)) continue;
      situ_scope scope;
      situ_scope_begin_no_grad(&scope);
      const situ_dtype dtype = dtypes[k / 4];
      const bool relu = k % 2, last = k / 2 % 2;
      if (shape[i].size > 100 && (dtype != SITU_F32 || test_device().kind != SITU_CPU)) break; /* the cpu's bands */
      const double range = dtype == SITU_I64 ? 5 : 1;
      situ_tensor *x =
          test_random(SITU_SHAPE(shape[i].images, shape[i].in, shape[i].size, shape[i].size), -range, range, false);
      situ_tensor *w =
          test_random(SITU_SHAPE(shape[i].out, shape[i].in / shape[i].groups, shape[i].kernel, shape[i].kernel), -range,
                      range, false);
      situ_tensor *b = test_random(SITU_SHAPE(shape[i].out), -range, range, false);
      x = situ_to_dtype(x, dtype), w = situ_to_dtype(w, dtype), b = situ_to_dtype(b, dtype);
      situ_tensor *plain = x; /* the result is row-major, and so are its sums */
      if (last) x = situ_contiguous_memory_format(x, SITU_CHANNELS_LAST);
      const situ_conv_options o = { .padding = SITU_DIMS(shape[i].padding),
                                    .dilation = SITU_DIMS(shape[i].dilation),
                                    .groups = shape[i].groups,
                                    .activation = relu ? SITU_ACTIVATION_RELU : SITU_ACTIVATION_NONE };
      situ_tensor *bias = i % 2 ? b : NULL;
      if (!test_same_bits(situ_conv2d_by(x, w, bias, &o, NULL, true), maxima_of(situ_conv2d(plain, w, bias, &o))))
        fail_msg("shape %zu of %s, relu %d, last %d", i, situ_dtype_name(dtype), relu, last);
      if (dtype == SITU_F32) { /* products below the least number are zeros of either sign; a row of NaN */
        situ_tensor *from = situ_mul_scalar(plain, 1e-30), *tap = situ_zeros_like(w, NULL);
        situ_fill_(situ_select(situ_select(situ_flatten(from, 0, 1), 0, 0), 0, 3), NAN);
        situ_fill_(situ_select(situ_select(tap, 2, shape[i].kernel - 1), 2, shape[i].kernel - 1), 1e-30);
        if (!test_same_bits(situ_conv2d_by(from, tap, NULL, &o, NULL, true),
                            maxima_of(situ_conv2d(from, tap, NULL, &o))))
          fail_msg("shape %zu, zeros and NaN, relu %d", i, relu);
      }
      assert_int_equal(situ_scope_end(&scope), SITU_OK);
    }
}

/* One image without a dimension for it, gradients, and results that are too small. */
static void maxima_elsewhere(void **state) {
  situ_tensor *x = T32(SITU_SHAPE(1, 2, 3), -1, 2, 3, 4, -5, 6), *w = T32(SITU_SHAPE(1, 1, 1, 1), -1);
  const situ_conv_options o = { .activation = SITU_ACTIVATION_RELU };
  situ_scope scope;
  (void)state;
  situ_scope_begin_no_grad(&scope);
  expect_exact(situ_conv2d_by(x, w, NULL, &o, NULL, true), SITU_SHAPE(1, 1, 1), 5);
  expect_refused(situ_conv2d_by(situ_slice(x, 1, 0, 1, 1), w, NULL, &o, NULL, true), SITU_E_SHAPE, "conv2d", "2 x 2");
  expect_refused(situ_conv2d(situ_to_dtype(x, SITU_I64), situ_to_dtype(w, SITU_I64), NULL,
                             &(situ_conv_options){ .activation = SITU_ACTIVATION_SILU }),
                 SITU_E_DTYPE, "conv2d", "floating");
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  situ_requires_grad_(x, true);
  situ_tensor *y = situ_conv2d_by(x, w, NULL, &o, NULL, true);
  expect_exact(y, SITU_SHAPE(1, 1, 1), 5);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(1, 2, 3), 0, 0, 0, 0, -1, 0);
}

/* A weight that was laid out gives the same bits, whatever is in it. */
static void weights_laid_out_before(void **state) {
  static const struct {
    int64_t images, in, out, size, kernel, stride, padding;
  } shape[] = { { 2, 128, 40, 14, 3, 1, 1 }, { 3, 32, 33, 15, 5, 1, 1 }, { 1, 64, 32, 21, 3, 2, 1 },
                { 5, 64, 72, 19, 1, 2, 0 },  { 1, 96, 64, 11, 7, 1, 3 }, { 1, 5, 3, 6, 3, 1, 1 },
                { 2, 80, 100, 7, 1, 1, 0 },  { 2, 384, 100, 7, 1, 1, 0 } };
  static const double scale[] = { 1, 0x1p-115, INFINITY };
  (void)state;
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
    for (size_t k = 0; k < sizeof scale / sizeof *scale; k++) {
      situ_scope scope;
      situ_scope_begin_no_grad(&scope);
      situ_tensor *packed, *x = test_random_f32(SITU_SHAPE(shape[i].images, shape[i].in, shape[i].size, shape[i].size));
      situ_tensor *w = test_random_f32(SITU_SHAPE(shape[i].out, shape[i].in, shape[i].kernel, shape[i].kernel));
      w = situ_mul_scalar(w, scale[k]);
      const situ_conv_options o = { .stride = SITU_DIMS(shape[i].stride), .padding = SITU_DIMS(shape[i].padding) };
      assert_true(situ_conv2d_lay_out(w, &o, &packed));
      if (!test_same_bits(situ_conv2d_by(x, w, NULL, &o, packed, false), situ_conv2d(x, w, NULL, &o)))
        fail_msg("shape %zu, weights times %g", i, scale[k]);
      assert_int_equal(situ_scope_end(&scope), SITU_OK);
    }
}

/* Without memory for what an algorithm needs beside its operands there is an error, and nothing is lost. */
static void memory_ends(void **state) {
  situ_tensor *x = test_random_f32(SITU_SHAPE(2, 32, 12, 12)), *w = test_random_f32(SITU_SHAPE(32, 32, 5, 5));
  situ_tensor *want = situ_conv2d(x, w, NULL, NULL), *got = NULL;
  (void)state;
  for (uint64_t nth = 1; !got; nth++) {
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
    situ_fail_allocation(nth, true);
    got = situ_conv2d(x, w, NULL, NULL);
    situ_fail_allocation(0, false);
    if (!got) expect_error(SITU_E_NOMEM, "", "");
    assert_true(nth < 1000);
  }
  assert_true(test_same_bits(got, want));
}

/* What was made of other values is used where ops compute values alone, and nowhere else. */
static void laid_out_weights_and_gradients(void **state) {
  situ_tensor *packed, *x = test_random_f32(SITU_SHAPE(2, 32, 12, 12)), *w = test_random_f32(SITU_SHAPE(32, 32, 5, 5)),
                       *other = situ_mul_scalar(w, 2);
  situ_scope scope;
  (void)state;
  assert_true(situ_conv2d_lay_out(w, NULL, &packed));
  situ_requires_grad_(other, true);
  situ_tensor *y = situ_conv2d_by(x, other, NULL, NULL, packed, false);
  assert_true(test_same_bits(y, situ_conv2d(x, other, NULL, NULL)));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  assert_non_null(situ_grad(other));
  situ_scope_begin_no_grad(&scope);
  y = situ_conv2d_by(x, other, NULL, NULL, packed, false);
  assert_true(test_same_bits(y, situ_conv2d(x, packed ? w : other, NULL, NULL)));
  expect_refused(situ_conv2d_by(x, w, NULL, NULL, x, false), SITU_E_ARG, "conv2d_by", "packed");
  expect_refused(situ_conv2d_by(x, NULL, NULL, NULL, x, false), SITU_E_ARG, "conv2d_by", "weight");
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values),
                                      TEST(a_view_and_an_empty_batch),
                                      TEST(gradients),
                                      TEST(refusals),
                                      TEST(activations_in_the_same_pass),
                                      TEST(relu_with_gradients),
                                      TEST(maxima_in_the_same_pass),
                                      TEST(maxima_elsewhere),
                                      TEST(weights_laid_out_before),
                                      TEST(laid_out_weights_and_gradients),
                                      TEST(memory_ends) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
