/* Quantised weights: the gguf package's values bit for bit, linear and embedding, and that no op takes blocks for numbers.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/gguf.h"
#include "support/test.h"
#include "support/verbs/views.h"

static const char *const types[] = { "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL" };
enum { TYPES = sizeof types / sizeof *types };

/* tests/io/gguf/blocks.gguf, which tools/exchange/files/gguf_cases.py writes: with it lie the package's values. */
static situ_gguf *open_cases(void) {
  char file[1024];
  const char *root = getenv("SITU_TEST_ROOT");
  snprintf(file, sizeof file, "%s/io/gguf/blocks.gguf", root ? root : ".");
  situ_gguf *f = situ_gguf_open(file, &(situ_load_options){ .device = test_device() });
  assert_non_null(f);
  return f;
}

static situ_tensor *load(const char *name, const char *more) {
  char full[64];
  situ_gguf *f = open_cases();
  snprintf(full, sizeof full, "%s%s", name, more);
  situ_tensor *t = situ_gguf_load(f, full);
  situ_gguf_close(f);
  assert_non_null(t);
  return t;
}

static void expect_bits(situ_tensor *a, situ_tensor *b) {
  const size_t bytes = (size_t)situ_numel(a) * situ_dtype_size(situ_dtype_of(a));
  unsigned char *x = malloc(bytes), *y = malloc(bytes);
  assert_int_equal(situ_copy_to_host(a, x, bytes), SITU_OK);
  assert_int_equal(situ_copy_to_host(b, y, bytes), SITU_OK);
  assert_memory_equal(x, y, bytes);
  free(x);
  free(y);
}

static void values(void **state) {
  (void)state;
  for (int k = 0; k < TYPES; k++) {
    situ_tensor *w = load(types[k], "");
    assert_string_equal(situ_block_name(situ_block_type_of(w)), types[k]);
    assert_int_equal(situ_block_shape(w).dim[1], 256);
    expect_bits(situ_dequantize(w), load(types[k], ".values"));
  }
  expect_bits(situ_dequantize(load("Q8_0", ".quantized")), load("Q8_0", ".quantized.values"));
  expect_bits(situ_dequantize(load("Q4_0", ".quantized")), load("Q4_0", ".quantized.values"));
  const situ_shape experts = situ_shape_of(situ_dequantize(load("experts", "")));
  assert_true(experts.ndim == 3 && experts.dim[0] == 2 && experts.dim[1] == 2 && experts.dim[2] == 32);
}

/* Inputs of few rows, for which there is a kernel, and of many, for which there is none. */
static void linear(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SHAPE(256), SITU_SHAPE(1, 256), SITU_SHAPE(2, 3, 256), SITU_SHAPE(40, 256),
                                SITU_SHAPE(0, 256) };
  const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_F16, SITU_BF16 };
  for (int k = 0; k < TYPES; k++)
    for (int s = 0; s < 5; s++)
      for (int d = 0; d < 4; d++) {
        const double near = dtypes[d] == SITU_BF16  ? 1.6e-2
                            : dtypes[d] == SITU_F16 ? 2e-3
                            : dtypes[d] == SITU_F64 ? 1e-12
                                                    : 1e-5;
        situ_tensor *x = situ_to_dtype(test_random(shapes[s], -1, 1, false), dtypes[d]),
                    *b = situ_to_dtype(test_random(SITU_SHAPE(6), -1, 1, false), dtypes[d]), *w = load(types[k], "");
        const situ_dtype wide = dtypes[d] == SITU_F64 ? SITU_F64 : SITU_F32;
        situ_tensor *numbers = situ_to_dtype(situ_dequantize(w), wide), *wide_x = situ_to_dtype(x, wide);

        const double scale = 200; /* sums of 256 products cancel: errors are relative to the largest terms */
        expect_same(situ_block_linear(x, w, NULL), situ_to_dtype(situ_linear(wide_x, numbers, NULL), dtypes[d]), near,
                    near * scale);
        expect_same(situ_block_linear(x, w, b),
                    situ_to_dtype(situ_linear(wide_x, numbers, situ_to_dtype(b, wide)), dtypes[d]), near, near * scale);
      }
}

static situ_tensor *product(situ_tensor *const *in, void *payload) { return situ_block_linear(in[0], payload, in[1]); }

static void gradients(void **state) {
  (void)state;
  situ_tensor *w = load("Q4_0", ".quantized");
  gradcheck(product, w, test_random(SITU_SHAPE(2, 3, 64), -1, 1, true), test_random(SITU_SHAPE(2), -1, 1, true));
  situ_tensor *x = test_random(SITU_SHAPE(64), -1, 1, true);
  situ_tensor *y = situ_block_linear(x, w, NULL);
  assert_false(situ_requires_grad(w));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_same(situ_grad(x),
              situ_sum(situ_to_dtype(situ_dequantize(w), SITU_F64), &(situ_reduce_options){ .dim = SITU_DIMS(0) }),
              1e-12, 1e-12);
}

static void embedding(void **state) {
  (void)state;
  situ_tensor *index = TI64(SITU_SHAPE(2, 2), 5, 0, 3, 5);
  for (int k = 0; k < TYPES; k++)
    expect_bits(situ_block_embedding(index, load(types[k], "")),
                situ_embedding(index, load(types[k], ".values"), NULL));
  if (test_device().kind != SITU_CPU) return; /* others report it when they are waited for */
  expect_refused(situ_block_embedding(TI64(SITU_SHAPE(1), 6), load("Q8_0", "")), SITU_E_INDEX, "block_embedding", "6");
}

/* Blocks of random bytes whose f16 scales are below 1. */
static situ_tensor *random_blocks(situ_block_type type, int64_t rows, int64_t columns) {
  const int64_t bytes = rows * (columns / situ_block_elements(type)) * situ_block_bytes(type);
  unsigned char *data = malloc((size_t)bytes);
  const int size = (int)situ_block_bytes(type), scale = type == SITU_BLOCK_Q6_K ? 208 : 0;
  uint32_t word = (uint32_t)columns;
  for (int64_t i = 0; i < bytes; i++) {
    word = word * 1664525 + 1013904223;
    data[i] = (unsigned char)(word >> 24);
    const int at = (int)(i % size) - scale;
    const bool minima =
        type == SITU_BLOCK_Q4_K || type == SITU_BLOCK_Q5_K || type == SITU_BLOCK_Q4_1 || type == SITU_BLOCK_Q5_1;
    if (at == 1 || (at == 3 && minima)) data[i] = data[i] % 16 + 0x28;
  }
  situ_tensor *w = situ_blocks_from_host(data, (size_t)bytes, &SITU_SHAPE(rows, columns), type,
                                         &(situ_options){ .device = test_device() });
  free(data);
  assert_non_null(w);
  return w;
}

/* The largest of x[32]. */
static double largest(const float *x) {
  double most = 0;
  for (int k = 0; k < 32; k++) most = fmax(most, fabs(x[k]));
  return most;
}

/* Errors of linear in f32 beside f64: the largest of all rows, in 2^-24 of what it would be if each element of x were as
   large as the largest of its 32, which share a step where x is multiplied in digits. factor: of x. */
static double worst_error(situ_block_type type, int64_t columns, double factor, bool far) {
  enum { ROWS = 40, MOST = 1024 };
  float numbers[ROWS * MOST], x[MOST], y[ROWS];
  situ_tensor *w = random_blocks(type, ROWS, columns), *input = test_random(SITU_SHAPE(1, columns), -1, 1, false);
  input = situ_to_dtype(situ_mul_scalar(input, factor), SITU_F32);
  if (far) assert_non_null(situ_mul_scalar_(situ_narrow(input, 1, columns / 2, 1), 1000));
  const size_t row = (size_t)columns * sizeof(float);
  assert_int_equal(situ_copy_to_host(situ_dequantize(w), numbers, ROWS * row), SITU_OK);
  assert_int_equal(situ_copy_to_host(input, x, row), SITU_OK);
  assert_int_equal(situ_copy_to_host(situ_block_linear(input, w, NULL), y, sizeof y), SITU_OK);
  double worst = 0;
  for (int r = 0; r < ROWS; r++) {
    double exact = 0, size = 0;
    for (int64_t k = 0; k < columns; k++) {
      const double term = (double)numbers[r * columns + k] * x[k];
      exact += term, size += fabs((double)numbers[r * columns + k]) * largest(x + k / 32 * 32);
    }
    worst = fmax(worst, fabs(y[r] - exact) / size * 0x1p24);
  }
  return worst;
}

/* Rows of any number of blocks; numbers that digits of bytes cannot hold, and one that is far larger than the others. */
static void exact_to_rounding(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) return;
  const int64_t columns[] = { 32, 64, 96, 160, 256, 512, 1024 };
  const double factors[] = { 1, 1e-25, 1e25 };
  for (int type = SITU_BLOCK_Q8_0; type < SITU_BLOCK_TYPES; type++)
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
      for (int k = 0; k < 3; k++)
        for (int far = 0; far < 2; far++) {
          if (columns[c] % situ_block_elements(type)) continue;
          const double error = worst_error(type, columns[c], factors[k], far);
          if (!(error < 3))
            fail_msg("%s, %lld columns, times %g: %g", situ_block_name(type), (long long)columns[c], factors[k], error);
        }
}

/* Infinity and NaN in x make the results that they make with the values. */
static void not_finite(void **state) {
  (void)state;
  const float special[] = { INFINITY, -INFINITY, NAN };
  for (int type = SITU_BLOCK_Q8_0; type < SITU_BLOCK_TYPES; type++)
    for (int k = 0; k < 3; k++) {
      situ_tensor *w = random_blocks(type, 8, 512),
                  *x = situ_to_dtype(test_random(SITU_SHAPE(2, 512), 0.5, 1, false), SITU_F32);
      assert_non_null(situ_fill_(situ_narrow(situ_narrow(x, 0, 1, 1), 1, 300, 1), special[k]));
      float y[16], z[16];
      assert_int_equal(situ_copy_to_host(situ_block_linear(x, w, NULL), y, sizeof y), SITU_OK);
      assert_int_equal(situ_copy_to_host(situ_linear(x, situ_dequantize(w), NULL), z, sizeof z), SITU_OK);
      for (int i = 0; i < 16; i++) assert_true(isfinite(y[i]) == (i < 8) && isfinite(z[i]) == (i < 8));
    }
}

static void every_instruction_set(void **state) {
  for (int isa = -1; view_next_isa(&isa);) {
    values(state);
    linear(state);
    embedding(state);
    exact_to_rounding(state);
    not_finite(state);
  }
}

/* What copies blocks copies their type; rows can be selected. */
static void copies(void **state) {
  (void)state;
  situ_tensor *w = load("Q5_K", ""), *numbers = load("Q5_K", ".values"), *index = TI64(SITU_SHAPE(3), 4, 0, 4);
  expect_bits(situ_dequantize(situ_clone(w)), numbers);
  expect_bits(situ_dequantize(situ_to(situ_to(w, situ_dev("sim:1")), test_device())), numbers);
  expect_bits(situ_dequantize(situ_index_select(w, 0, index)), situ_index_select(numbers, 0, index));
  situ_tensor *other =
      situ_blocks_from_host(NULL, 0, &SITU_SHAPE(6, 256), SITU_BLOCK_Q5_K, &(situ_options){ .device = test_device() });
  expect_bits(situ_dequantize(situ_copy_(other, w)), numbers);
  char text[128];
  assert_true(situ_to_string(w, text, sizeof text) > 0);
  assert_non_null(strstr(text, "Q5_K"));
}

/* Q4_0 and Q4_K have rows of the same bytes. */
static void refusals(void **state) {
  (void)state;
  situ_tensor *w = load("Q4_K", ""), *small = load("Q4_0", ""), *x = test_random(SITU_SHAPE(1, 256), -1, 1, false);
  situ_tensor *bytes = situ_zeros(SITU_SHAPE(6, 144), &(situ_options){ .dtype = SITU_U8, .device = test_device() });
  const char *blocks = "Q4_K blocks";
  expect_refused(situ_copy_(w, small), SITU_E_DTYPE, "copy_", "Q4_0");
  expect_refused(situ_copy_(w, bytes), SITU_E_DTYPE, "copy_", "numbers");
  expect_refused(situ_copy_(bytes, w), SITU_E_DTYPE, "copy_", "Q4_K");
  expect_refused(situ_add(w, w), SITU_E_DTYPE, "add", blocks);
  expect_refused(situ_mul(bytes, w), SITU_E_DTYPE, "mul", blocks);
  expect_refused(situ_to_dtype(w, SITU_F32), SITU_E_DTYPE, "to_dtype", blocks);
  expect_refused(situ_view(w, SITU_SHAPE(-1)), SITU_E_DTYPE, "view", blocks);
  expect_refused(situ_transpose(w, 0, 1), SITU_E_DTYPE, "permute", blocks);
  expect_refused(situ_narrow(w, 1, 0, 10), SITU_E_DTYPE, "narrow", blocks);
  expect_refused(situ_sum(w, NULL), SITU_E_DTYPE, "sum", blocks);
  expect_refused(situ_cat((situ_tensor *[]){ bytes, w }, 2, 0), SITU_E_DTYPE, "cat", blocks);
  expect_refused(situ_zero_(w), SITU_E_DTYPE, "", blocks);
  expect_refused(situ_linear(x, w, NULL), SITU_E_DTYPE, "linear", "");
  expect_refused(situ_embedding(TI64(SITU_SHAPE(1), 0), w, NULL), SITU_E_DTYPE, "embedding", blocks);
  expect_refused(situ_index_select(w, 1, TI64(SITU_SHAPE(1), 0)), SITU_E_DTYPE, "index_select", "whole rows");
  expect_refused(situ_dequantize(bytes), SITU_E_DTYPE, "dequantize", "holds numbers");
  expect_refused(situ_block_linear(situ_to_dtype(x, SITU_F32), bytes, NULL), SITU_E_DTYPE, "block_linear", "numbers");
  expect_refused(situ_block_linear(T32(SITU_SHAPE(1, 3), 1, 2, 3), w, NULL), SITU_E_SHAPE, "block_linear", "256");
  expect_refused(situ_block_linear(TI64(SITU_SHAPE(1), 0), w, NULL), SITU_E_DTYPE, "block_linear", "");
  expect_refused(situ_block_linear(x, w, T64(SITU_SHAPE(1), 0)), SITU_E_SHAPE, "block_linear", "bias");
  expect_refused(situ_block_linear(x, load("experts", ""), NULL), SITU_E_SHAPE, "block_linear", "3 dimensions");
  expect_refused(situ_blocks_from_host(NULL, 0, &SITU_SHAPE(2, 33), SITU_BLOCK_Q8_0, NULL), SITU_E_SHAPE,
                 "blocks_from_host", "32");
  expect_refused(situ_blocks_from_host(NULL, 0, &SITU_SHAPE(2, 32), SITU_BLOCK_NONE, NULL), SITU_E_ARG,
                 "blocks_from_host", "");
  assert_int_not_equal(situ_set_block_type(x, SITU_BLOCK_Q8_0), SITU_OK);
  expect_error(SITU_E_SHAPE, "set_block_type", "u8");
  assert_int_not_equal(situ_set_block_type(w, SITU_BLOCK_Q4_0), SITU_OK);
  expect_error(SITU_E_STATE, "set_block_type", "Q4_K");
  assert_int_not_equal(situ_set_block_type(situ_narrow(bytes, 0, 1, 2), SITU_BLOCK_Q4_0), SITU_OK);
  expect_error(SITU_E_ALIAS, "set_block_type", "clone");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_instruction_set), TEST(gradients), TEST(copies), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
