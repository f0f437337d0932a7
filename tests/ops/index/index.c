/* Picking, placing, masks, embedding and one_hot through the API. Indices are untrusted: a bad one is an error, on devices
   that queue their work at the next synchronisation.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>
#include <string.h>

static situ_options here(void) { return (situ_options){ .device = test_device() }; }

/* The call is refused for its index, at once or when the device is waited for. */
static void expect_index(situ_tensor *result, const char *part) {
  situ_status status = result ? situ_synchronize(test_device()) : situ_error();
  assert_int_equal(status, SITU_E_INDEX);
  if (!strstr(situ_error_message(), part)) fail_msg("'%s' is not in: %s", part, situ_error_message());
  situ_error_clear();
}

static void picking(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
  expect_exact(situ_index_select(x, 1, TI64(SITU_SHAPE(4), 2, 0, 0, 1)), SITU_SHAPE(2, 4), 3, 1, 1, 2, 6, 4, 4, 5);
  expect_exact(situ_index_select(x, 0, test_tensor(SITU_I32, SITU_SHAPE(1), (double[]){ 1 })), SITU_SHAPE(1, 3), 4, 5,
               6);
  expect_exact(situ_index_select(situ_transpose(x, 0, 1), 0, TI64(SITU_SHAPE(2), 2, 1)), SITU_SHAPE(2, 2), 3, 6, 2, 5);
  expect_exact(situ_gather(x, 1, TI64(SITU_SHAPE(2, 2), 0, 2, 1, 1)), SITU_SHAPE(2, 2), 1, 3, 5, 5);
  expect_exact(situ_gather(x, 0, TI64(SITU_SHAPE(1, 3), 1, 0, 1)), SITU_SHAPE(1, 3), 4, 2, 6);
  expect_exact(situ_take_along_dim(x, TI64(SITU_SHAPE(1, 2), 2, 0), 1), SITU_SHAPE(2, 2), 3, 1, 6, 4);
  expect_exact(situ_gather(T32(SITU_SCALAR, 7), 0, TI64(SITU_SCALAR, 0)), SITU_SCALAR, 7);
  situ_options whole = here();
  whole.dtype = SITU_I64;
  assert_int_equal(situ_numel(situ_index_select(x, 1, situ_zeros(SITU_SHAPE(0), &whole))), 0);
}

static void placing(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 0, 0, 0, 1, 1, 1), *src = T32(SITU_SHAPE(2, 3), 10, 20, 30, 40, 50, 60);
  situ_tensor *at = TI64(SITU_SHAPE(2, 2), 2, 2, 0, 1);
  expect_exact(situ_scatter(x, 1, at, src), SITU_SHAPE(2, 3), 0, 0, 20, 40, 50, 1);
  expect_exact(situ_scatter_add(x, 1, at, src), SITU_SHAPE(2, 3), 0, 0, 30, 41, 51, 1);
  expect_exact(situ_scatter_value(x, 0, TI64(SITU_SHAPE(1, 3), 1, 0, 1), 9), SITU_SHAPE(2, 3), 0, 9, 0, 9, 1, 9);
  expect_exact(situ_index_add(x, 0, TI64(SITU_SHAPE(2), 1, 1), src, 2), SITU_SHAPE(2, 3), 0, 0, 0, 101, 141, 181);
  expect_exact(x, SITU_SHAPE(2, 3), 0, 0, 0, 1, 1, 1);
  situ_tensor *turned = situ_transpose(situ_clone(x), 0, 1);
  assert_non_null(situ_index_add_(turned, 1, TI64(SITU_SHAPE(1), 0), T32(SITU_SHAPE(3, 1), 1, 2, 3), 1));
  expect_exact(turned, SITU_SHAPE(3, 2), 1, 1, 2, 1, 3, 1);
  assert_non_null(situ_scatter_(turned, 0, TI64(SITU_SHAPE(1, 2), 2, 0), T32(SITU_SHAPE(1, 2), 8, 9)));
  expect_exact(turned, SITU_SHAPE(3, 2), 1, 9, 2, 1, 8, 1);
}

static void masks(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, NAN, 4, 0, 6), *rows = TBOOL(SITU_SHAPE(2, 1), 0, 1),
              *mask = TBOOL(SITU_SHAPE(2, 3), 1, 0, 1, 0, 0, 1);
  expect_exact(situ_masked_fill(x, rows, -1), SITU_SHAPE(2, 3), 1, 2, NAN, -1, -1, -1);
  expect_exact(situ_masked_select(x, mask), SITU_SHAPE(3), 1, NAN, 6);
  expect_exact(situ_masked_select(x, rows), SITU_SHAPE(3), 4, 0, 6);
  expect_exact(situ_nonzero(x), SITU_SHAPE(5, 2), 0, 0, 0, 1, 0, 2, 1, 0, 1, 2);
  expect_exact(situ_nonzero(situ_transpose(mask, 0, 1)), SITU_SHAPE(3, 2), 0, 0, 2, 0, 2, 1);
  assert_int_equal(situ_size(situ_nonzero(T32(SITU_SCALAR, 3)), 0), 1);
  assert_int_equal(situ_size(situ_nonzero(situ_zeros(SITU_SHAPE(4, 2), &(situ_options){ .device = test_device() })), 0),
                   0);
  assert_int_equal(situ_numel(situ_masked_select(x, situ_logical_and(mask, situ_logical_not(mask)))), 0);
}

static void words(void **state) {
  (void)state;
  situ_tensor *weight = situ_requires_grad_(T32(SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6), true),
              *index = TI64(SITU_SHAPE(2, 2), 2, 0, 0, 1);
  situ_tensor *y =
      situ_embedding(index, weight, OPTIONS_AT(situ_embedding, with.has_padding_idx = true, with.padding_idx = 1));
  expect_exact(y, SITU_SHAPE(2, 2, 2), 5, 6, 1, 2, 1, 2, 3, 4);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_exact(situ_grad(weight), SITU_SHAPE(3, 2), 2, 2, 0, 0, 1, 1);
  expect_exact(situ_embedding(TI64(SITU_SCALAR, 1), weight, NULL), SITU_SHAPE(2), 3, 4);
  expect_exact(situ_one_hot(TI64(SITU_SHAPE(3), 1, 0, 2), 4), SITU_SHAPE(3, 4), 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0);
  expect_exact(situ_one_hot(TI64(SITU_SCALAR, 1), -1), SITU_SHAPE(2), 0, 1);
}

typedef struct picks {
  situ_tensor *index;
  int dim;
  double alpha;
} picks;
static situ_tensor *do_select(situ_tensor *const *in, void *p) {
  return situ_index_select(in[0], ((picks *)p)->dim, ((picks *)p)->index);
}
static situ_tensor *do_gather(situ_tensor *const *in, void *p) {
  return situ_gather(in[0], ((picks *)p)->dim, ((picks *)p)->index);
}
static situ_tensor *do_take(situ_tensor *const *in, void *p) {
  return situ_take_along_dim(in[0], ((picks *)p)->index, ((picks *)p)->dim);
}
static situ_tensor *do_scatter(situ_tensor *const *in, void *p) {
  return situ_scatter(in[0], ((picks *)p)->dim, ((picks *)p)->index, in[1]);
}
static situ_tensor *do_scatter_add(situ_tensor *const *in, void *p) {
  return situ_scatter_add(in[0], ((picks *)p)->dim, ((picks *)p)->index, in[1]);
}
static situ_tensor *do_index_add(situ_tensor *const *in, void *p) {
  return situ_index_add(in[0], ((picks *)p)->dim, ((picks *)p)->index, in[1], ((picks *)p)->alpha);
}
static situ_tensor *do_embedding(situ_tensor *const *in, void *p) {
  return situ_embedding(((picks *)p)->index, in[0], NULL);
}
static situ_tensor *do_fill(situ_tensor *const *in, void *p) { return situ_masked_fill(in[0], ((picks *)p)->index, 3); }
static situ_tensor *do_masked(situ_tensor *const *in, void *p) {
  return situ_masked_select(in[0], ((picks *)p)->index);
}

#define G(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static void gradients(void **state) {
  (void)state;
  picks three = { TI64(SITU_SHAPE(3), 1, 0, 1), 0, 2.5 }, last = { TI64(SITU_SHAPE(3), 1, 0, 1), -1, 2.5 };
  picks square = { TI64(SITU_SHAPE(2, 2), 1, 0, 0, 1), 0, 1 }, across = { TI64(SITU_SHAPE(2, 2), 1, 0, 0, 1), 1, 1 },
        repeated = { TI64(SITU_SHAPE(2, 2), 1, 1, 1, 0), 1, 1 };
  picks cube = { TI64(SITU_SHAPE(1, 2, 2), 1, 0, 0, 1), 1, 1 };
  gradcheck(do_select, &three, G(2));
  gradcheck(do_select, &three, G(4, 3));
  gradcheck(do_select, &last, G(4, 3));
  gradcheck(do_select, &last, G(2, 1, 2));
  gradcheck(do_gather, &square, G(2, 3));
  gradcheck(do_gather, &repeated, G(4, 2));
  gradcheck(do_gather, &cube, G(2, 3, 2));
  gradcheck(do_take, &across, G(2, 3));
  gradcheck(do_scatter, &square, G(2, 3), G(2, 2));
  gradcheck(do_scatter, &across, G(3, 2), G(2, 3));
  gradcheck(do_scatter_add, &repeated, G(3, 2), G(2, 3));
  gradcheck(do_scatter_add, &square, G(2, 2), G(4, 2));
  gradcheck(do_scatter_add, &cube, G(2, 2, 2), G(1, 3, 2));
  gradcheck(do_index_add, &three, G(2), G(3));
  gradcheck(do_index_add, &three, G(4, 2), G(3, 2));
  gradcheck(do_index_add, &last, G(2, 3, 2), G(2, 3, 3));
  gradcheck(do_embedding, &square, G(3, 2));
  gradcheck(do_embedding, &three, G(2, 4));
  picks row = { TBOOL(SITU_SHAPE(1, 3), 1, 0, 1), 0, 0 }, all = { TBOOL(SITU_SHAPE(2, 3), 1, 0, 1, 0, 0, 1), 0, 0 };
  gradcheck(do_fill, &row, G(2, 3));
  gradcheck(do_fill, &all, G(3));
  gradcheck(do_masked, &all, G(2, 3));
  gradcheck(do_masked, &row, G(4, 3));
}

/* Rows 55 to 59 and 12 of the bad inputs. */
static void bad_indices(void **state) {
  (void)state;
  const double bad[] = { -1, 3, 1e17, -9007199254740992.0 };
  const char *const text[] = { "index -1", "index 3 ", "index 100000000000000000", "index -9007199254740992" };
  for (int i = 0; i < 4; i++) {
    situ_tensor *x = test_random(SITU_SHAPE(3, 3), -1, 1, false), *one = TI64(SITU_SHAPE(2), 0, bad[i]),
                *two = TI64(SITU_SHAPE(1, 2), 0, bad[i]);
    expect_index(situ_index_select(x, 0, one), text[i]);
    expect_index(situ_index_select(x, 1, one), text[i]);
    expect_index(situ_gather(x, 0, two), text[i]);
    expect_index(situ_embedding(one, x, NULL), text[i]);
    expect_index(situ_scatter(x, 0, two, test_random(SITU_SHAPE(1, 2), 0, 1, false)), text[i]);
    expect_index(situ_scatter_add(x, 1, two, test_random(SITU_SHAPE(1, 2), 0, 1, false)), text[i]);
    expect_index(situ_index_add(x, 0, one, test_random(SITU_SHAPE(2, 3), 0, 1, false), 1), text[i]);
    expect_index(situ_one_hot(one, 3), text[i]);
    situ_tensor *kept = situ_clone(x);
    expect_index(situ_scatter_(x, 0, two, test_random(SITU_SHAPE(1, 2), 5, 6, false)), text[i]);
    expect_same(x, kept, 0, 0);
  }
  /* Far behind good ones: a new result may have been begun, x may not. */
  situ_tensor *many = situ_zeros(SITU_SHAPE(40000), &(situ_options){ .device = test_device(), .dtype = SITU_I64 }),
              *x = test_random(SITU_SHAPE(3), 0, 1, false), *src = test_random(SITU_SHAPE(40000), 1, 2, false),
              *kept = situ_clone(x);
  (void)situ_fill_(situ_select(many, 0, 39998), 3);
  expect_index(situ_scatter_add(x, 0, many, src), "index 3 at [39998]");
  expect_index(situ_index_add(x, 0, many, src, 1), "index 3 at [39998]");
  expect_index(situ_scatter_add_(x, 0, many, src), "index 3 at [39998]");
  expect_index(situ_index_add_(x, 0, many, src, 1), "index 3 at [39998]");
  expect_same(x, kept, 0, 0);
}

/* Rows 58, 61 and 62, and shapes. */
static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *at = TI64(SITU_SHAPE(2), 0, 1),
              *flat = T32(SITU_SHAPE(2), 0, 1);
  situ_tensor *small = test_tensor(SITU_I8, SITU_SHAPE(2), (double[]){ 0, 1 });
  expect_refused(situ_index_select(x, 0, flat), SITU_E_DTYPE, "index_select", "index");
  expect_refused(situ_embedding(small, x, NULL), SITU_E_DTYPE, "embedding", "i8");
  expect_refused(situ_gather(x, 0, situ_unsqueeze(flat, 0)), SITU_E_DTYPE, "gather", "index");
  expect_refused(situ_one_hot(flat, 3), SITU_E_DTYPE, "one_hot", "f32");
  expect_refused(situ_gather(x, 0, at), SITU_E_SHAPE, "gather", "[2]");
  expect_refused(situ_gather(x, 0, TI64(SITU_SHAPE(1, 4), 0, 0, 0, 0)), SITU_E_SHAPE, "gather", "[1, 4]");
  expect_refused(situ_scatter(x, 0, TI64(SITU_SHAPE(2, 2), 0, 0, 0, 0), T32(SITU_SHAPE(1, 2), 1, 2)), SITU_E_SHAPE,
                 "scatter", "src");
  expect_refused(situ_scatter(x, 0, TI64(SITU_SHAPE(1, 1), 0), T64(SITU_SHAPE(1, 1), 1)), SITU_E_DTYPE, "scatter",
                 "src");
  expect_refused(situ_index_add(x, 0, at, T32(SITU_SHAPE(2, 2), 1, 2, 3, 4), 1), SITU_E_SHAPE, "index_add", "[2, 2]");
  situ_tensor *whole = TI64(SITU_SHAPE(2), 1, 2);
  expect_exact(situ_index_add(whole, 0, at, whole, 0.5), SITU_SHAPE(2), 1, 2); /* as torch truncates */
  expect_refused(situ_index_add_(whole, 0, at, whole, INFINITY), SITU_E_ARG, "index_add_", "alpha is inf");
  expect_refused(situ_index_select(x, 0, TI64(SITU_SHAPE(1, 1), 0)), SITU_E_SHAPE, "index_select", "index");
  expect_refused(situ_index_select(x, 2, at), SITU_E_ARG, "index_select", "2");
  expect_refused(situ_embedding(at, flat, NULL), SITU_E_SHAPE, "embedding", "weight");
  expect_refused(situ_embedding(at, x, OPTIONS_AT(situ_embedding, with.has_padding_idx = true, with.padding_idx = 2)),
                 SITU_E_ARG, "embedding", "padding_idx");
  expect_refused(situ_masked_fill(x, TI64(SITU_SHAPE(3), 0, 1, 0), 0), SITU_E_DTYPE, "masked_fill", "mask");
  expect_refused(situ_masked_select(x, TBOOL(SITU_SHAPE(2), 0, 1)), SITU_E_SHAPE, "masked_select", "[2]");
  expect_refused(situ_take_along_dim(x, at, 0), SITU_E_SHAPE, "take_along_dim", "dimensions");
  expect_refused(situ_nonzero(NULL), SITU_E_ARG, "nonzero", "NULL");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(picking),   TEST(placing),     TEST(masks),   TEST(words),
                                      TEST(gradients), TEST(bad_indices), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
