/* Bad inputs, rows 55 to 62 (and 49's targets in nn.c): the contents of an index tensor are untrusted, on every device. (Rows
   60 and 61, segments and searchsorted, are not offered.)
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "support/late.h"

#define HERE(...) (&(situ_options){ .device = test_device(), __VA_ARGS__ })

static const int64_t outside[] = { 3, -1, INT64_MIN, INT64_MAX, 100000000000000000, 4294967296 };
#define EACH_OUTSIDE(i) for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)

static situ_tensor *table(void) { return T32(SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6); }

/* [0, bad]: one good index before the bad one. */
static situ_tensor *spoiled(int64_t bad, situ_shape shape) {
  const int64_t values[2] = { 0, bad };
  return situ_from_host(values, sizeof values, shape, HERE(.dtype = SITU_I64));
}

static const char *text_of(int64_t bad) {
  static char text[64];
  (void)snprintf(text, sizeof text, "index %lld at [", (long long)bad);
  return text;
}

static void row_55_embedding(void **state) {
  (void)state;
  situ_tensor *weight = table();
  EACH_OUTSIDE(i) {
    expect_refused_late(situ_embedding(spoiled(outside[i], SITU_SHAPE(2)), weight, NULL), SITU_E_INDEX, "",
                        text_of(outside[i]));
    expect_refused_late(situ_embedding(spoiled(outside[i], SITU_SHAPE(1, 2)), weight, NULL), SITU_E_INDEX, "",
                        "outside 0..2");
  }
  situ_tensor *good = TI64(SITU_SHAPE(2), 2, 0);
  expect_refused(situ_embedding(good, T32(SITU_SHAPE(3), 1, 2, 3), NULL), SITU_E_SHAPE, "embedding",
                 "weight has 1 dimensions, must be [vocabulary, width]");
  expect_refused(
      situ_embedding(good, weight, OPTIONS_AT(situ_embedding, with.has_padding_idx = true, with.padding_idx = 3)),
      SITU_E_ARG, "embedding", "padding_idx 3");
  expect_refused(
      situ_embedding(good, weight, OPTIONS_AT(situ_embedding, with.has_padding_idx = true, with.padding_idx = -4)),
      SITU_E_ARG, "embedding", "padding_idx -4");
  expect_refused(situ_embedding(good, weight,
                                OPTIONS_AT(situ_embedding, with.has_padding_idx = true, with.padding_idx = INT64_MIN)),
                 SITU_E_ARG, "embedding", "padding_idx");
  expect_exact(situ_embedding(good, weight, NULL), SITU_SHAPE(2, 2), 5, 6, 1,
               2); /* a refused call leaves nothing behind */
}

static void row_56_embedding_bag(void **state) {
  (void)state;
  static const struct {
    double offsets[3];
    const char *text;
  } bad[] = { { { 0, 9, 4 }, "index 9" },
              { { 0, 3, 2 }, "index -1" },
              { { 1, 2, 3 }, "index -1" },
              { { 0, -1, 2 }, "index -1" },
              { { 0, 1, 5 }, "index 5" } };
  situ_tensor *x = TI64(SITU_SHAPE(4), 0, 1, 2, 0), *weight = table();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (int mode = 0; mode <= SITU_EMBEDDING_BAG_MAX; mode++) {
      const situ_embedding_bag_options o =
          OPTIONS_OF(situ_embedding_bag, with.offsets = test_tensor(SITU_I64, SITU_SHAPE(3), bad[i].offsets),
                     with.mode = (situ_embedding_bag_mode)mode);
      expect_refused_late(situ_embedding_bag(x, weight, &o), SITU_E_INDEX, "", bad[i].text);
    }
  const situ_embedding_bag_options none = OPTIONS_OF(situ_embedding_bag, with.offsets = TI64(SITU_SHAPE(2), 0, 0));
  expect_exact(situ_embedding_bag(situ_zeros(SITU_SHAPE(0), HERE(.dtype = SITU_I64)), weight, &none), SITU_SHAPE(2, 2),
               0, 0, 0, 0);
  EACH_OUTSIDE(i)
    expect_refused_late(situ_embedding_bag(spoiled(outside[i], SITU_SHAPE(1, 2)), weight, NULL), SITU_E_INDEX, "",
                        text_of(outside[i]));
}

static void row_57_embedding_without_rows(void **state) {
  (void)state;
  situ_tensor *empty = situ_requires_grad_(situ_zeros(SITU_SHAPE(0, 4), HERE(0)), true);
  expect_refused_late(situ_embedding(TI64(SITU_SHAPE(1), 0), empty, NULL), SITU_E_INDEX, "", "index 0");
  expect_refused_late(
      situ_embedding(spoiled(100000000000000000, SITU_SHAPE(2)), situ_requires_grad_(table(), true), NULL),
      SITU_E_INDEX, "", "100000000000000000");
  situ_tensor *none = situ_embedding(situ_zeros(SITU_SHAPE(0), HERE(.dtype = SITU_I64)), empty, NULL);
  assert_int_equal(situ_backward(situ_sum(none, NULL), NULL), SITU_OK);
  assert_int_equal(situ_numel(situ_grad(empty)), 0);
}

static void row_58_and_59_values(void **state) {
  (void)state;
  situ_tensor *x = table(), *src = T32(SITU_SHAPE(2, 2), 7, 7, 7, 7), *one = T32(SITU_SHAPE(2, 1), 7, 7);
  EACH_OUTSIDE(i) {
    situ_tensor *flat = spoiled(outside[i], SITU_SHAPE(2)), *column = spoiled(outside[i], SITU_SHAPE(2, 1));
    const char *text = text_of(outside[i]);
    expect_refused_late(situ_index_select(x, 0, flat), SITU_E_INDEX, "", text);
    expect_refused_late(situ_index_select(x, -1, flat), SITU_E_INDEX, "", text);
    expect_refused_late(situ_gather(x, 0, column), SITU_E_INDEX, "", text);
    expect_refused_late(situ_take_along_dim(x, column, 0), SITU_E_INDEX, "", "index ");
    expect_refused_late(situ_scatter(x, 0, column, one), SITU_E_INDEX, "", text);
    expect_refused_late(situ_scatter_value(x, 0, column, 9), SITU_E_INDEX, "", text);
    expect_refused_late(situ_scatter_add(x, 0, column, one), SITU_E_INDEX, "", text);
    expect_refused_late(situ_index_add(x, 0, flat, src, 1), SITU_E_INDEX, "", text);
    expect_refused_late(situ_scatter_(x, 0, column, one), SITU_E_INDEX, "", text);
    expect_refused_late(situ_scatter_add_(x, 0, column, one), SITU_E_INDEX, "", text);
    expect_refused_late(situ_index_add_(x, 0, flat, src, 1), SITU_E_INDEX, "", text);
    expect_exact(x, SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
  }
  situ_tensor *none = situ_zeros(SITU_SHAPE(0, 2), HERE(0));
  expect_refused(situ_scatter(none, 0, TI64(SITU_SHAPE(1, 2), 0, 0), T32(SITU_SHAPE(1, 2), 1, 1)), SITU_E_INDEX,
                 "scatter", "dimension 0 of input has size 0");
  expect_refused(situ_index_add_(none, 0, TI64(SITU_SHAPE(1), 0), T32(SITU_SHAPE(1, 2), 1, 1), 1), SITU_E_INDEX,
                 "index_add_", "size 0");
  expect_refused_late(situ_index_select(none, 0, TI64(SITU_SHAPE(1), 0)), SITU_E_INDEX, "", "index 0 at [0]");
}

static void row_58_shapes(void **state) {
  (void)state;
  situ_tensor *x = table(), *flat = TI64(SITU_SHAPE(2), 0, 1), *wide = TI64(SITU_SHAPE(1, 3), 0, 1, 2),
              *two = TI64(SITU_SHAPE(2, 1), 0, 1);
  situ_tensor *src = T32(SITU_SHAPE(1, 1), 7);
  expect_refused(situ_gather(x, 0, flat), SITU_E_SHAPE, "gather", "index [2] does not fit input [3, 2]: same rank");
  expect_refused(situ_gather(x, 0, wide), SITU_E_SHAPE, "gather", "index [1, 3] does not fit input [3, 2]");
  expect_refused(situ_gather(x, 2, two), SITU_E_ARG, "gather", "dimension 2");
  expect_refused(situ_scatter(x, 0, two, src), SITU_E_SHAPE, "scatter", "index [2, 1] does not fit src [1, 1]");
  expect_refused(situ_scatter_add(x, 0, flat, src), SITU_E_SHAPE, "scatter_add", "index [2]");
  expect_refused(situ_scatter_add_(x, 0, two, src), SITU_E_SHAPE, "scatter_add_", "does not fit src");
  expect_refused(situ_scatter(x, 0, TI64(SITU_SHAPE(1, 1), 0), T64(SITU_SHAPE(1, 1), 7)), SITU_E_DTYPE, "scatter",
                 "f64");
  expect_refused(situ_index_select(x, 0, two), SITU_E_SHAPE, "index_select", "index has 2 dimensions, must have 1");
  expect_refused(situ_index_add(x, 0, two, x, 1), SITU_E_SHAPE, "index_add", "index has 2 dimensions");
  expect_refused(situ_index_add(x, 0, flat, x, 1), SITU_E_SHAPE, "index_add",
                 "source [3, 2] does not fit input [3, 2] with 2 indices");
  expect_refused(situ_take_along_dim(x, flat, 0), SITU_E_SHAPE, "take_along_dim", "input has 2 dimensions, index 1");
  expect_refused(situ_take_along_dim(x, TI64(SITU_SHAPE(1, 3), 0, 0, 0), 0), SITU_E_SHAPE, "take_along_dim",
                 "broadcast");
  expect_refused(situ_masked_fill(x, TBOOL(SITU_SHAPE(3), 1, 0, 1), 0), SITU_E_SHAPE, "masked_fill", "broadcast");
  expect_refused(situ_masked_fill(x, x, 0), SITU_E_DTYPE, "masked_fill", "bool");
  expect_refused(situ_masked_select(x, x), SITU_E_DTYPE, "masked_select", "mask is f32, must be bool");
  expect_exact(x, SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
}

static void row_62_dtype_of_an_index(void **state) {
  (void)state;
  situ_tensor *x = table(), *src = T32(SITU_SHAPE(1, 2), 1, 1), *rows = T32(SITU_SHAPE(1, 2), 1, 1);
  const situ_dtype wrong[] = { SITU_F32, SITU_F64, SITU_F16, SITU_U8, SITU_I8, SITU_I16, SITU_BOOL };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    situ_tensor *flat = test_tensor(wrong[i], SITU_SHAPE(1), (double[]){ 0 }),
                *square = test_tensor(wrong[i], SITU_SHAPE(1, 2), (double[]){ 0, 0 });
    expect_refused(situ_embedding(flat, x, NULL), SITU_E_DTYPE, "embedding", "must be i64 or i32");
    expect_refused(situ_index_select(x, 0, flat), SITU_E_DTYPE, "index_select", "must be i64 or i32");
    expect_refused(situ_gather(x, 0, square), SITU_E_DTYPE, "gather", situ_dtype_name(wrong[i]));
    expect_refused(situ_scatter(x, 0, square, src), SITU_E_DTYPE, "scatter", "index is");
    expect_refused(situ_scatter_add_(x, 0, square, src), SITU_E_DTYPE, "scatter_add_", "index is");
    expect_refused(situ_index_add(x, 0, flat, rows, 1), SITU_E_DTYPE, "index_add", "index is");
    expect_refused(situ_take_along_dim(x, square, 0), SITU_E_DTYPE, "", "index is");
    expect_refused(situ_one_hot(flat, 3), SITU_E_DTYPE, "one_hot", "must be i64 or i32");
  }
  expect_exact(x, SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(row_55_embedding),     TEST(row_56_embedding_bag), TEST(row_57_embedding_without_rows),
    TEST(row_58_and_59_values), TEST(row_58_shapes),        TEST(row_62_dtype_of_an_index),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
