/* Reading and writing by a list of index tensors, index_copy and index_fill.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <string.h>

#define LIST(...) (situ_tensor *[]){ __VA_ARGS__ }, (int)(sizeof((situ_tensor *[]){ __VA_ARGS__ }) / sizeof(void *))
#define G(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static situ_tensor *numbers(int64_t a, int64_t b, int64_t c) {
  return situ_reshape(
      situ_arange(0, (double)(a * b * c), 1, &(situ_options){ .dtype = SITU_F32, .device = test_device() }),
      SITU_SHAPE(a, b, c));
}

/* At once on the host, named; on a device by its position, mostly when it is waited for. */
static void expect_index(situ_tensor *result, const char *here) {
  const bool late = result != NULL;
  const situ_status status = late ? situ_synchronize(test_device()) : situ_error();
  assert_int_equal(status, SITU_E_INDEX);
  const char *part = test_device().kind == SITU_CPU ? here : "index ";
  if (!strstr(situ_error_message(), part)) fail_msg("'%s' is not in: %s", part, situ_error_message());
  situ_error_clear();
}

static void reading(void **state) {
  (void)state;
  situ_tensor *x = numbers(2, 3, 4), *i = TI64(SITU_SHAPE(2), 1, -2), *j = TI64(SITU_SHAPE(2), -1, 0);
  expect_exact(situ_index(x, LIST(TI64(SITU_SHAPE(1), -1), i, j)), SITU_SHAPE(2), 19, 16);
  expect_exact(situ_index(x, LIST(NULL, i, j)), SITU_SHAPE(2, 2), 7, 4, 19, 16);
  expect_exact(situ_index(x, LIST(TI64(SITU_SHAPE(2), 0, 1), NULL, j)), SITU_SHAPE(2, 3), 3, 7, 11, 12, 16, 20);
  expect_exact(situ_index(x, LIST(NULL, TI64(SITU_SCALAR, 2), TI64(SITU_SHAPE(2, 1), 0, 3))), SITU_SHAPE(2, 2, 1), 8,
               11, 20, 23);
  expect_exact(situ_index(situ_permute(x, SITU_DIMS(2, 0, 1)), LIST(j, TI64(SITU_SCALAR, 1))), SITU_SHAPE(2, 3), 15, 19,
               23, 12, 16, 20);
  situ_tensor *deep = situ_reshape(T32(SITU_SHAPE(2), 5, 6), SITU_SHAPE(1, 1, 1, 1, 1, 1, 1, 2));
  deep = situ_index(deep, LIST(NULL, NULL, NULL, NULL, NULL, NULL, NULL, TI64(SITU_SHAPE(2), 1, 0)));
  expect_exact(situ_flatten(deep, 0, -1), SITU_SHAPE(2), 6, 5);
  situ_tensor *small = test_tensor(SITU_I32, SITU_SHAPE(2), (double[]){ 1, 0 });
  expect_exact(situ_index(x, LIST(small, small, small)), SITU_SHAPE(2), 17, 0);
  situ_tensor *none = situ_zeros(SITU_SHAPE(0), &(situ_options){ .dtype = SITU_I64, .device = test_device() });
  assert_int_equal(situ_numel(situ_index(x, LIST(NULL, none))), 0);
}

static void masks(void **state) {
  (void)state;
  situ_tensor *x = numbers(2, 3, 2), *rows = TBOOL(SITU_SHAPE(3), 1, 0, 1),
              *all = TBOOL(SITU_SHAPE(2, 3), 0, 1, 0, 1, 0, 0);
  expect_exact(situ_index(x, LIST(all)), SITU_SHAPE(2, 2), 2, 3, 6, 7);
  expect_exact(situ_index(x, LIST(NULL, rows, TI64(SITU_SHAPE(2), 0, 1))), SITU_SHAPE(2, 2), 0, 5, 6, 11);
  expect_exact(situ_index(x, LIST(all, TI64(SITU_SCALAR, 1))), SITU_SHAPE(2), 3, 7);
  expect_refused(situ_index(x, LIST(rows)), SITU_E_SHAPE, "index", "indices[0]");
  expect_refused(situ_index(x, LIST(NULL, NULL, all)), SITU_E_ARG, "index", "4 dimensions");
  expect_refused(situ_index(x, LIST(TBOOL(SITU_SCALAR, 1))), SITU_E_SHAPE, "index", "0-dim mask");
}

static void writing(void **state) {
  (void)state;
  situ_tensor *x = numbers(1, 2, 3), *i = TI64(SITU_SHAPE(3), 0, 1, 0), *j = TI64(SITU_SHAPE(3), 2, -3, 2);
  situ_tensor *m = situ_select(x, 0, 0), *v = T32(SITU_SHAPE(3), 10, 20, 30);
  expect_exact(situ_index_put(m, LIST(i, j), v, false), SITU_SHAPE(2, 3), 0, 1, 30, 20, 4, 5);
  expect_exact(situ_index_put(m, LIST(i, j), v, true), SITU_SHAPE(2, 3), 0, 1, 42, 23, 4, 5);
  expect_exact(situ_index_put(x, LIST(TI64(SITU_SCALAR, 0), NULL, TI64(SITU_SHAPE(1), 1)), T32(SITU_SCALAR, 9), false),
               SITU_SHAPE(1, 2, 3), 0, 9, 2, 3, 9, 5);
  expect_exact(situ_index_put_(situ_clone(m), LIST(NULL, j), T32(SITU_SHAPE(2, 1), 1, 2), true), SITU_SHAPE(2, 3), 1, 1,
               4, 5, 4, 9);
  situ_tensor *turned = situ_transpose(situ_clone(m), 0, 1); /* its two dimensions merge only in a copy */
  assert_ptr_equal(situ_index_put_(turned, LIST(j, i), v, true), turned);
  expect_exact(turned, SITU_SHAPE(3, 2), 0, 23, 1, 4, 42, 5);
  expect_exact(
      situ_index_put_(situ_clone(m), LIST(TBOOL(SITU_SHAPE(2, 3), 1, 0, 0, 0, 1, 1)), T32(SITU_SCALAR, -1), false),
      SITU_SHAPE(2, 3), -1, 1, 2, 3, -1, -1);
  expect_refused(situ_index_put(m, LIST(i), T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), false), SITU_E_SHAPE, "index_put",
                 "[2, 3]");
  expect_refused(situ_index_put(m, LIST(TI64(SITU_SHAPE(1), 9)), T32(SITU_SHAPE(2), 1, 2), false), SITU_E_SHAPE,
                 "index_put", "[2]"); /* shapes come before values, on every device */
  expect_refused(situ_index_put(m, LIST(i, j), T64(SITU_SHAPE(3), 1, 2, 3), false), SITU_E_DTYPE, "index_put",
                 "values");
}

/* The same with indices below 0, of which others are made, and without. */
static void an_index_that_is_written(void **state) {
  (void)state;
  situ_tensor *values = TI64(SITU_SHAPE(3), 5, 6, 7);
  for (int below = 0; below < 2; below++) {
    situ_tensor *x = TI64(SITU_SHAPE(3), 1, below ? -3 : 0, 2);
    assert_ptr_equal(x, situ_index_put_(x, LIST(x), values, false));
    expect_exact(x, SITU_SHAPE(3), 6, 5, 7);
  }
}

static void along_a_dimension(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *at = TI64(SITU_SHAPE(2), 2, 0);
  expect_exact(situ_index_copy(x, 1, at, T32(SITU_SHAPE(2, 2), 10, 20, 30, 40)), SITU_SHAPE(2, 3), 20, 2, 10, 40, 5,
               30);
  expect_exact(situ_index_fill(x, -1, at, 7), SITU_SHAPE(2, 3), 7, 2, 7, 7, 5, 7);
  expect_exact(situ_index_fill(x, 0, TI64(SITU_SCALAR, 1), 7), SITU_SHAPE(2, 3), 1, 2, 3, 7, 7, 7);
  assert_ptr_equal(situ_index_fill_(x, 1, at, 0), x);
  expect_exact(x, SITU_SHAPE(2, 3), 0, 2, 0, 0, 5, 0);
  assert_ptr_equal(situ_index_copy_(x, 0, TI64(SITU_SHAPE(2), 1, 1), T32(SITU_SHAPE(2, 3), 1, 1, 1, 3, 4, 5)), x);
  expect_exact(x, SITU_SHAPE(2, 3), 0, 2, 0, 3, 4, 5);
}

typedef struct list {
  situ_tensor *at[3];
  int count;
  bool accumulate;
} list;
static situ_tensor *do_index(situ_tensor *const *in, void *p) {
  return situ_index(in[0], ((list *)p)->at, ((list *)p)->count);
}
static situ_tensor *do_put(situ_tensor *const *in, void *p) {
  return situ_index_put(in[0], ((list *)p)->at, ((list *)p)->count, in[1], ((list *)p)->accumulate);
}
static situ_tensor *do_put_(situ_tensor *const *in, void *p) {
  return situ_index_put_(situ_clone(in[0]), ((list *)p)->at, ((list *)p)->count, in[1], ((list *)p)->accumulate);
}
static situ_tensor *do_put_turned(situ_tensor *const *in, void *p) {
  situ_tensor *x = situ_transpose(situ_clone(in[0]), 0, 1);
  return situ_index_put_(x, ((list *)p)->at, ((list *)p)->count, in[1], ((list *)p)->accumulate);
}
static situ_tensor *do_copy(situ_tensor *const *in, void *p) {
  return situ_index_copy(in[0], 1, ((list *)p)->at[0], in[1]);
}
static situ_tensor *do_fill(situ_tensor *const *in, void *p) {
  return situ_index_fill(in[0], 0, ((list *)p)->at[0], 2);
}

static void gradients(void **state) {
  (void)state;
  situ_tensor *i = TI64(SITU_SHAPE(3), 1, 0, -1), *j = TI64(SITU_SHAPE(3), 2, 2, 0);
  list both = { { NULL, i, j }, 3, true }, apart = { { i, NULL, j }, 3, false }, rows = { { i }, 1, true };
  list mask = { { NULL, TBOOL(SITU_SHAPE(2), 1, 0) }, 2, false };
  gradcheck(do_index, &both, G(2, 2, 3));
  gradcheck(do_index, &apart, G(2, 2, 3));
  gradcheck(do_index, &rows, G(2, 3));
  gradcheck(do_index, &mask, G(3, 2));
  gradcheck(do_put, &both, G(2, 2, 3), G(2, 3));
  list distinct = { { TI64(SITU_SHAPE(2), 1, 0), NULL, TI64(SITU_SHAPE(2), 2, 0) }, 3, false };
  gradcheck(do_put, &distinct, G(2, 2, 3), G(2, 2));
  gradcheck(do_put, &distinct, G(2, 2, 3), G(1));
  gradcheck(do_put_, &both, G(2, 2, 3), G(3));
  gradcheck(do_put_, &distinct, G(2, 2, 3), G(2, 2));
  list pair = { { j, i }, 2, true };
  gradcheck(do_put_turned, &pair, G(2, 3), G(3));
  list two = { { TI64(SITU_SHAPE(2), 2, 0) }, 1, false };
  gradcheck(do_copy, &two, G(2, 3), G(2, 2));
  gradcheck(do_fill, &two, G(3, 2));
}

static void bad_indices(void **state) {
  (void)state;
  situ_tensor *x = numbers(2, 3, 4), *zero = TI64(SITU_SHAPE(2), 0, 0);
  expect_index(situ_index(x, LIST(NULL, TI64(SITU_SHAPE(2), 0, 3))), "indices[1] has index 3, which is outside -3..2");
  expect_index(situ_index(x, LIST(TI64(SITU_SHAPE(2), -3, 0))), "indices[0] has index -3");
  /* the flat index of these would be in range */
  expect_index(situ_index(x, LIST(zero, TI64(SITU_SHAPE(2), 0, 3))), "indices[1] has index 3");
  expect_index(situ_index(x, LIST(TI64(SITU_SHAPE(2), 1, 1), TI64(SITU_SHAPE(2), -4, 0))), "dimension 1");
  expect_index(situ_index(x, LIST(zero, NULL, TI64(SITU_SHAPE(1), 1e17))), "index 100000000000000000");
  situ_tensor *kept = situ_clone(x);
  expect_index(situ_index_put_(x, LIST(zero, TI64(SITU_SHAPE(2), 0, 3)), T32(SITU_SCALAR, 1), true), "indices[1]");
  expect_same(x, kept, 0, 0);
  expect_refused(situ_index(situ_zeros(SITU_SHAPE(0, 2), &(situ_options){ .device = test_device() }), LIST(zero)),
                 SITU_E_INDEX, "index", "0");
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = numbers(2, 3, 4), *i = TI64(SITU_SHAPE(2), 0, 1), *j = TI64(SITU_SHAPE(3), 0, 1, 1);
  expect_refused(situ_index(x, LIST(i, j)), SITU_E_SHAPE, "index", "[3]");
  expect_refused(situ_index(x, LIST(NULL, NULL)), SITU_E_ARG, "index", "NULL");
  expect_refused(situ_index(x, LIST(i, i, i, i)), SITU_E_ARG, "index", "4 dimensions");
  expect_refused(situ_index(x, LIST(T32(SITU_SHAPE(2), 0, 1))), SITU_E_DTYPE, "index", "indices[0] is f32");
  expect_refused(situ_index(x, NULL, 1), SITU_E_ARG, "index", "indices");
  expect_refused(situ_index(x, &i, 0), SITU_E_ARG, "index", "0 index tensors");
  expect_refused(situ_index(NULL, LIST(i)), SITU_E_ARG, "index", "input");
  expect_refused(situ_index_copy(x, 1, i, x), SITU_E_SHAPE, "index_copy", "source");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(reading),           TEST(masks),
                                      TEST(writing),           TEST(an_index_that_is_written),
                                      TEST(along_a_dimension), TEST(gradients),
                                      TEST(bad_indices),       TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
