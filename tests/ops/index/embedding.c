/* Embeddings whose rows have a largest norm, and bags of embeddings: values, gradients, what a failure leaves, refusals.
   Values beside PyTorch's are in tests/golden/ops/index/embeddings.c.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "situ/sys/alloc.h"
#include "support/late.h"

static situ_tensor *rows_of_norms_5_0_10(void) { return T32(SITU_SHAPE(3, 2), 3, 4, 0, 0, 6, 8); }

static void largest_norm(void **state) {
  (void)state;
  situ_tensor *weight = situ_requires_grad_(rows_of_norms_5_0_10(), true), *at = TI64(SITU_SHAPE(2, 2), 0, 1, 0, 0);
  const situ_embedding_options one = OPTIONS_OF(situ_embedding, with.max_norm = 1);
  situ_tensor *y = situ_embedding(at, weight, &one);
  expect_values(situ_detach(y), SITU_SHAPE(2, 2, 2), 0.6, 0.8, 0, 0, 0.6, 0.8, 0.6, 0.8);
  expect_values(situ_detach(weight), SITU_SHAPE(3, 2), 0.6, 0.8, 0, 0, 6, 8); /* row 2 is not named */
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(weight), SITU_SHAPE(3, 2), 3, 3, 1, 1, 0, 0);
  situ_tensor *largest = rows_of_norms_5_0_10();
  assert_non_null(
      situ_embedding(at, largest, OPTIONS_AT(situ_embedding, with.max_norm = 4, with.norm_type = INFINITY)));
  expect_exact(largest, SITU_SHAPE(3, 2), 3, 4, 0, 0, 6, 8);
  assert_non_null(
      situ_embedding(TI64(SITU_SCALAR, 2), largest, OPTIONS_AT(situ_embedding, with.max_norm = 7, with.norm_type = 1)));
  expect_values(largest, SITU_SHAPE(3, 2), 3, 4, 0, 0, 3, 4);
  const situ_options whole = { .dtype = SITU_I64, .device = test_device() };
  assert_int_equal(situ_numel(situ_embedding(situ_zeros(SITU_SHAPE(0), &whole), largest, &one)), 0);
}

/* Whichever allocation fails, weight is as before. */
static void a_failure_leaves_the_weight(void **state) {
  (void)state;
  situ_tensor *at = TI64(SITU_SHAPE(1, 3), 2, 0, 2);
  for (int bag = 0; bag < 2; bag++) {
    situ_tensor *weight = situ_requires_grad_(rows_of_norms_5_0_10(), true), *before = situ_clone(situ_detach(weight));
    situ_tensor *y = NULL;
    int failures = 0;
    for (uint64_t nth = 1; !y; nth++) {
      situ_scope s;
      situ_scope_begin(&s);
      situ_fail_allocation(nth, false);
      y = bag ? situ_embedding_bag(at, weight, OPTIONS_AT(situ_embedding_bag, with.max_norm = 1))
              : situ_embedding(at, weight, OPTIONS_AT(situ_embedding, with.max_norm = 1));
      situ_fail_allocation(0, false);
      if (!y) {
        situ_error_clear();
        failures++;
        expect_same(situ_detach(weight), before, 0, 0);
      }
      assert_int_equal(situ_scope_end(&s), SITU_OK);
    }
    assert_true(failures > 2);
    expect_values(situ_detach(weight), SITU_SHAPE(3, 2), 0.6, 0.8, 0, 0, 0.6, 0.8);
  }
}

/* ---- gradients ---- */

typedef struct bag {
  situ_tensor *index;
  situ_embedding_bag_options o;
} bag;

static situ_tensor *do_bag(situ_tensor *const *in, void *p) {
  bag *b = p;
  return situ_embedding_bag(b->index, in[0], &b->o);
}
static situ_tensor *do_weighted(situ_tensor *const *in, void *p) {
  bag b = *(bag *)p;
  b.o.per_sample_weights = in[1];
  return situ_embedding_bag(b.index, in[0], &b.o);
}

#define G(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static void gradients(void **state) {
  (void)state;
  situ_tensor *line = TI64(SITU_SHAPE(6), 1, 0, 2, 2, 1, 3), *two = TI64(SITU_SHAPE(2, 3), 1, 0, 2, 2, 1, 3);
  situ_tensor *offsets = TI64(SITU_SHAPE(4), 0, 2, 2, 5);
  for (int mode = 0; mode <= SITU_EMBEDDING_BAG_MAX; mode++)
    for (int padding = 0; padding < 2; padding++) {
      const situ_embedding_bag_options o =
          OPTIONS_OF(situ_embedding_bag, with.mode = (situ_embedding_bag_mode)mode, with.has_padding_idx = padding,
                     with.padding_idx = padding ? 2 : 0);
      bag rows = { two, o }, lines = { line, o }, last = { line, o };
      lines.o.offsets = last.o.offsets = offsets;
      last.o.include_last_offset = true;
      gradcheck(do_bag, &rows, G(4, 3));
      gradcheck(do_bag, &lines, G(4, 3));
      gradcheck(do_bag, &last, G(4, 2));
      if (mode != SITU_EMBEDDING_BAG_SUM) continue;
      gradcheck(do_weighted, &rows, G(4, 3), G(2, 3));
      gradcheck(do_weighted, &lines, G(4, 3), G(6));
    }
}

/* Row 1 is used three times, row 0 once: each has a gradient of 1 for every column. */
static void frequency(void **state) {
  (void)state;
  situ_tensor *weight = situ_requires_grad_(rows_of_norms_5_0_10(), true), *at = TI64(SITU_SHAPE(4), 1, 0, 1, 1);
  situ_tensor *y = situ_embedding(at, weight, OPTIONS_AT(situ_embedding, with.scale_grad_by_freq = true));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_values(situ_grad(weight), SITU_SHAPE(3, 2), 1, 1, 1, 1, 0, 0);
}

/* Of a long line beside plain loops; NaN is the largest. */
static void bags(void **state) {
  (void)state;
  enum { N = 1000, ROWS = 11, BAGS = 7 };
  static double index[N], value[ROWS];
  const double offsets[BAGS] = { 0, 0, 1, 300, 300, 999, 1000 };
  double sum[BAGS] = { 0 }, most[BAGS] = { 0 };
  for (int k = 0; k < ROWS; k++) value[k] = (double)((k * 7) % ROWS) - 5;
  for (int i = 0, b = 0; i < N; i++) {
    while (b + 1 < BAGS && offsets[b + 1] <= i) b++;
    const double x = value[(int)(index[i] = (i * i) % ROWS)];
    most[b] = i == (int)offsets[b] ? x : fmax(most[b], x);
    sum[b] += x;
  }
  situ_embedding_bag_options o =
      OPTIONS_OF(situ_embedding_bag, with.offsets = test_tensor(SITU_I64, SITU_SHAPE(BAGS), offsets),
                 with.mode = SITU_EMBEDDING_BAG_SUM);
  situ_tensor *at = test_tensor(SITU_I64, SITU_SHAPE(N), index),
              *weight = test_tensor(SITU_F32, SITU_SHAPE(ROWS, 1), value);
  expect_same(situ_embedding_bag(at, weight, &o), test_tensor(SITU_F32, SITU_SHAPE(BAGS, 1), sum), 0, 0);
  o.mode = SITU_EMBEDDING_BAG_MAX;
  expect_same(situ_embedding_bag(at, weight, &o), test_tensor(SITU_F32, SITU_SHAPE(BAGS, 1), most), 0, 0);
  o.offsets = TI64(SITU_SHAPE(2), 0, 2);
  expect_exact(situ_embedding_bag(TI64(SITU_SHAPE(3), 0, 1, 0), T32(SITU_SHAPE(2, 2), 1, 5, NAN, 2), &o),
               SITU_SHAPE(2, 2), NAN, 5, 1, 5);
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = TI64(SITU_SHAPE(3), 0, 1, 2), *two = TI64(SITU_SHAPE(1, 2), 0, 1), *w = rows_of_norms_5_0_10();
  situ_tensor *at = TI64(SITU_SHAPE(2), 0, 1), *f = T32(SITU_SHAPE(3), 1, 2, 3);
#define EMBED(...) situ_embedding(x, w, OPTIONS_AT(situ_embedding, __VA_ARGS__))
#define BAG(x, ...) situ_embedding_bag(x, w, OPTIONS_AT(situ_embedding_bag, __VA_ARGS__))
  expect_refused(EMBED(with.max_norm = -1), SITU_E_ARG, "embedding", "max_norm -1");
  expect_refused(EMBED(with.max_norm = NAN), SITU_E_ARG, "embedding", "NaN");
  expect_refused(EMBED(with.max_norm = 1, with.norm_type = NAN), SITU_E_ARG, "embedding", "NaN");
  expect_refused(situ_embedding(x, TI64(SITU_SHAPE(3, 1), 1, 2, 3), OPTIONS_AT(situ_embedding, with.max_norm = 1)),
                 SITU_E_DTYPE, "embedding", "weight");
  expect_refused(situ_embedding_bag(x, w, NULL), SITU_E_ARG, "embedding_bag", "offsets says where");
  expect_refused(BAG(two, with.offsets = at), SITU_E_ARG, "embedding_bag", "offsets must be NULL");
  expect_refused(BAG(two, with.include_last_offset = true), SITU_E_ARG, "embedding_bag", "without offsets");
  expect_refused(BAG(situ_unsqueeze(two, 0), (void)0), SITU_E_SHAPE, "embedding_bag", "1 or 2");
  expect_refused(BAG(x, with.offsets = two), SITU_E_SHAPE, "embedding_bag", "offsets must have 1");
  expect_refused(BAG(x, with.offsets = situ_narrow(at, 0, 0, 0)), SITU_E_SHAPE, "embedding_bag", "no elements");
  expect_refused(BAG(x, with.offsets = at, with.mode = (situ_embedding_bag_mode)3), SITU_E_ARG, "embedding_bag",
                 "mode");
  expect_refused(BAG(x, with.offsets = at, with.mode = SITU_EMBEDDING_BAG_MAX, with.scale_grad_by_freq = true),
                 SITU_E_ARG, "embedding_bag", "maxima");
  expect_refused(BAG(x, with.offsets = at, with.per_sample_weights = f), SITU_E_ARG, "embedding_bag", "sums only");
  expect_refused(BAG(two, with.mode = SITU_EMBEDDING_BAG_SUM, with.per_sample_weights = f), SITU_E_SHAPE,
                 "embedding_bag", "input's shape");
  expect_refused(BAG(two, with.mode = SITU_EMBEDDING_BAG_SUM, with.per_sample_weights = T64(SITU_SHAPE(1, 2), 1, 2)),
                 SITU_E_DTYPE, "embedding_bag", "per_sample_weights");
  expect_refused(BAG(two, with.has_padding_idx = true, with.padding_idx = 3), SITU_E_ARG, "embedding_bag",
                 "padding_idx 3");
  expect_refused(BAG(two, with.has_padding_idx = true, with.padding_idx = -4), SITU_E_ARG, "embedding_bag",
                 "padding_idx -4");
  expect_refused(BAG(f, with.offsets = at), SITU_E_DTYPE, "embedding_bag", "input");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(largest_norm), TEST(a_failure_leaves_the_weight),
                                      TEST(gradients),    TEST(frequency),
                                      TEST(bags),         TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
