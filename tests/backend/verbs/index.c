/* Picking and placing by index on the cpu: against plain loops, and with indices that must be refused.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu opencl:0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/cpu/common/cpu.h"
#include "base/pool.h"
#include "support/test.h"
#include "support/verbs/views.h"

/* Coordinates of element i in row-major order, and back. */
static void coordinates(const test_view *v, int64_t i, int64_t *c) {
  for (int d = v->d.ndim - 1; d >= 0; i /= v->d.size[d--]) c[d] = i % v->d.size[d];
}
static int64_t number(const test_view *v, const int64_t *c) {
  int64_t i = 0;
  for (int d = 0; d < v->d.ndim; d++) i = i * v->d.size[d] + c[d];
  return i;
}

static situ_status gather(int mode, int dim, test_view *x, test_view *index, test_view *y) {
  situ_work work = { .verb = SITU_VERB_GATHER,
                     .op = mode,
                     .ins = 2,
                     .outs = 1,
                     .in = { &x->d, &index->d },
                     .out = { &y->d },
                     .integer = { dim } };
  return view_run(SITU_VERB_GATHER, &work);
}
static situ_status scatter(int mode, int dim, test_view *index, test_view *src, test_view *y, double alpha) {
  situ_work work = { .verb = SITU_VERB_SCATTER,
                     .op = mode,
                     .ins = 2,
                     .outs = 1,
                     .in = { &index->d, &src->d },
                     .out = { &y->d },
                     .integer = { dim },
                     .scalar = { alpha } };
  return view_run(SITU_VERB_SCATTER, &work);
}

static const situ_shape shapes[] = {
  { 1, { 9 } }, { 2, { 7, 5 } }, { 3, { 3, 4, 6 } }, { 4, { 5, 3, 2, 700 } }, { 2, { 40, 3000 } }
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Gathers rows and elements for one dtype, layout and index dtype. */
static void check_gather(situ_dtype dtype, situ_dtype index_dtype, view_layout layout, situ_shape shape) {
  test_view *x = view_new(dtype, shape, layout);
  view_random(x, 3, dtype == SITU_U8 || dtype == SITU_BOOL ? 0 : -50, 50);
  for (int dim = 0; dim < shape.ndim; dim++) {
    int64_t c[SITU_MAX_DIMS];
    test_view *index = view_new(index_dtype, SITU_SHAPE(11), layout);
    view_random(index, 5, 0, (double)shape.dim[dim]);
    situ_shape out = shape;
    out.dim[dim] = 11;
    test_view *y = view_new(dtype, out, layout);
    assert_int_equal(gather(SITU_INDEX_ROWS, dim, x, index, y), SITU_OK);
    for (int64_t i = 0; i < y->d.numel; i++) {
      coordinates(y, i, c);
      c[dim] = (int64_t)view_get(index, c[dim]);
      assert_true(view_get(y, i) == view_get(x, number(x, c)));
    }
    view_free(index), view_free(y);

    for (int d = 0; d < out.ndim; d++)
      out.dim[d] = d == dim ? 6 : (shape.dim[d] + 1) / 2; /* smaller than x, or longer along dim */
    index = view_new(index_dtype, out, layout);
    view_random(index, 6, 0, (double)shape.dim[dim]);
    y = view_new(dtype, out, layout);
    assert_int_equal(gather(SITU_INDEX_ELEMENTS, dim, x, index, y), SITU_OK);
    for (int64_t i = 0; i < y->d.numel; i++) {
      coordinates(y, i, c);
      c[dim] = (int64_t)view_get(index, i);
      assert_true(view_get(y, i) == view_get(x, number(x, c)));
    }
    view_free(index), view_free(y);
  }
  view_free(x);
}

static void gathers(void **state) {
  (void)state;
  for (int s = 0; s < SHAPES; s++)
    for (int layout = 0; layout < VIEW_LAYOUTS; layout++)
      for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++)
        if (test_takes((size_t)(s + layout + dtype), 3))
          check_gather((situ_dtype)dtype, dtype % 2 ? SITU_I64 : SITU_I32, (view_layout)layout, shapes[s]);
}

/* Scatters rows or elements, written or added, and compares with doing so one element after the other. */
static void check_scatter(int mode, situ_dtype dtype, view_layout layout, situ_shape shape, int dim) {
  bool elements = mode & SITU_INDEX_ELEMENTS, add = mode & SITU_INDEX_ADD;
  double alpha = add && !elements ? 2 : 1, low = dtype == SITU_U8 || dtype == SITU_BOOL ? 0 : -4;
  situ_shape part = shape;
  part.dim[dim] = 13;
  test_view *y = view_new(dtype, shape, layout), *src = view_new(dtype, part, layout);
  if (elements)
    for (int d = 0; d < part.ndim; d++)
      part.dim[d] = d == dim ? 9 : (shape.dim[d] + 1) / 2; /* names only a part of src */
  test_view *index = view_new(SITU_I64, elements ? part : SITU_SHAPE(13), layout);
  view_random(index, 5, 0, (double)shape.dim[dim]);
  view_random(y, 7, low, 4);
  view_random(src, 8, low, 4);
  if (situ_dtype_is_floating(dtype)) /* small whole numbers: sums are exact in every dtype and order */
    for (int64_t i = 0; i < src->d.numel; i++) view_set(src, i, trunc(view_get(src, i)));

  double *want = malloc(sizeof(double) * (size_t)y->d.numel);
  for (int64_t i = 0; i < y->d.numel; i++) {
    view_set(y, i, trunc(view_get(y, i)));
    want[i] = view_get(y, i);
  }
  for (int64_t i = 0; i < (elements ? index : src)->d.numel; i++) {
    int64_t c[SITU_MAX_DIMS], from;
    coordinates(elements ? index : src, i, c);
    from = number(src, c);
    c[dim] = (int64_t)view_get(index, elements ? i : c[dim]);
    int64_t to = number(y, c);
    want[to] = add ? want[to] + alpha * view_get(src, from) : view_get(src, from);
  }
  assert_int_equal(scatter(mode, dim, index, src, y, alpha), SITU_OK);
  for (int64_t i = 0; i < y->d.numel; i++)
    if (view_get(y, i) != (dtype == SITU_BOOL ? want[i] != 0 : want[i]))
      fail_msg("mode %d of %s, dim %d, layout %d: element %lld is %g, want %g", mode, situ_dtype_name(dtype), dim,
               (int)layout, (long long)i, view_get(y, i), want[i]);
  free(want);
  view_free(y), view_free(src), view_free(index);
}

static void scatters(void **state) {
  (void)state;
  const int modes[] = { SITU_INDEX_ROWS, SITU_INDEX_ELEMENTS, SITU_INDEX_ROWS | SITU_INDEX_ADD,
                        SITU_INDEX_ELEMENTS | SITU_INDEX_ADD };
  for (int s = 0; s < SHAPES; s++)
    for (int layout = 0; layout < VIEW_LAYOUTS; layout++)
      for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++)
        for (int dim = 0; dim < shapes[s].ndim; dim++)
          for (int m = 0; m < 4; m++) {
            if (dtype <= SITU_U8 && modes[m] & SITU_INDEX_ADD) continue; /* sums would wrap */
            if (!test_takes((size_t)(s + layout + dtype + dim + m), 4)) continue;
            check_scatter(modes[m], (situ_dtype)dtype, (view_layout)layout, shapes[s], dim);
          }
}

/* A gradient of an embedding: many rows for few places, same bits for any number of threads. */
static void adding_is_deterministic(void **state) {
  (void)state;
  int before = situ__pool_threads();
  test_view *index = view_new(SITU_I64, SITU_SHAPE(5000), VIEW_ROWS),
            *src = view_new(SITU_F32, SITU_SHAPE(5000, 600), VIEW_ROWS);
  view_random(index, 1, 0, 10);
  view_random(src, 2, -1, 1);
  test_view *one = view_new(SITU_F32, SITU_SHAPE(10, 600), VIEW_ROWS),
            *many = view_new(SITU_F32, SITU_SHAPE(10, 600), VIEW_ROWS);
  situ__pool_set_threads(1);
  assert_int_equal(scatter(SITU_INDEX_ROWS | SITU_INDEX_ADD, 0, index, src, one, 1), SITU_OK);
  for (int threads = 2; threads <= test_most_threads(); threads += 3) {
    situ__pool_set_threads(threads);
    memset(many->storage.data, 0, many->storage.bytes);
    assert_int_equal(scatter(SITU_INDEX_ROWS | SITU_INDEX_ADD, 0, index, src, many, 1), SITU_OK);
    assert_true(view_same(one, many));
  }
  situ__pool_set_threads(before);
  view_free(index), view_free(src), view_free(one), view_free(many);
}

/* One bad index, wherever it is: nothing is read there, and a scatter has written nothing at all. */
static void bad_indices_are_refused(void **state) {
  (void)state;
  const int64_t bad[] = { -1, 7, INT64_MIN, INT64_MAX, 100000000000000000 };
  for (int b = 0; b < 5; b++)
    for (int64_t at = 0; at < 40000; at = at * 3 + 1) {
      test_view *x = view_new(SITU_F32, SITU_SHAPE(7), VIEW_ROWS),
                *index = view_new(SITU_I64, SITU_SHAPE(40000), VIEW_ROWS),
                *y = view_new(SITU_F32, SITU_SHAPE(40000), VIEW_ROWS);
      ((int64_t *)index->storage.data)[at] = bad[b];
      for (int mode = 0; mode < 2; mode++) {
        assert_int_equal(gather(mode, 0, x, index, y), SITU_E_INDEX);
        char number_text[32], place[32];
        (void)snprintf(number_text, sizeof number_text, "index %lld ", (long long)bad[b]);
        (void)snprintf(place, sizeof place, "[%lld]", (long long)at);
        assert_non_null(strstr(situ_error_message(), number_text));
        assert_non_null(strstr(situ_error_message(), place));
        assert_non_null(strstr(situ_error_message(), "0..6"));
        situ_error_clear();
      }
      view_set(x, 3, 99);
      for (int mode = 0; mode < 4; mode++) {
        assert_int_equal(scatter(mode, 0, index, y, x, 1), SITU_E_INDEX);
        situ_error_clear();
      }
      for (int64_t i = 0; i < 7; i++) assert_true(view_get(x, i) == (i == 3 ? 99 : 0));
      view_free(x), view_free(index), view_free(y);
    }
}

static void nothing_to_pick_from(void **state) {
  (void)state;
  test_view *x = view_new(SITU_F32, SITU_SHAPE(0, 3), VIEW_ROWS), *index = view_new(SITU_I64, SITU_SHAPE(2), VIEW_ROWS),
            *y = view_new(SITU_F32, SITU_SHAPE(2, 3), VIEW_ROWS);
  assert_int_equal(gather(SITU_INDEX_ROWS, 0, x, index, y), SITU_E_INDEX);
  situ_error_clear();
  test_view *none = view_new(SITU_I64, SITU_SHAPE(0), VIEW_ROWS),
            *src = view_new(SITU_F32, SITU_SHAPE(0, 3), VIEW_ROWS);
  view_set(y, 1, 5);
  assert_int_equal(scatter(SITU_INDEX_ROWS, 0, none, src, y, 1), SITU_OK);
  assert_true(view_get(y, 1) == 5);
  test_view *scalar = view_new(SITU_F32, SITU_SCALAR, VIEW_ROWS), *zero = view_new(SITU_I64, SITU_SCALAR, VIEW_ROWS),
            *out = view_new(SITU_F32, SITU_SCALAR, VIEW_ROWS);
  view_set(scalar, 0, 8);
  assert_int_equal(gather(SITU_INDEX_ELEMENTS, 0, scalar, zero, out), SITU_OK);
  assert_true(view_get(out, 0) == 8);
  assert_int_equal(scatter(SITU_INDEX_ELEMENTS | SITU_INDEX_ADD, 0, zero, scalar, out, 1), SITU_OK);
  assert_true(view_get(out, 0) == 16);
  view_free(x), view_free(index), view_free(y), view_free(none), view_free(src), view_free(scalar), view_free(zero),
      view_free(out);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(gathers),
    cmocka_unit_test(scatters),
    cmocka_unit_test(adding_is_deterministic),
    cmocka_unit_test(bad_indices_are_refused),
    cmocka_unit_test(nothing_to_pick_from),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
