/* Verbs where a gpu takes several elements in one access: element by element with lengths around that, operands that lie askew,
   rows with gaps, rows and columns that are repeated; and sums over rows. Whole numbers, so that every dtype is exact; and what lies around is left alone.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu opencl:0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "situ/error.h"
#include "support/test.h"
#include "support/verbs/views.h"

static const int64_t lengths[] = { 1,  2,  3,  4,  5,   6,   7,   8,   9,    10,   11,   12,   13,  14,
                                   15, 16, 17, 31, 255, 256, 257, 511, 1023, 1024, 1025, 8191, 8193 };
enum { LENGTHS = sizeof lengths / sizeof *lengths, MOST = 8193, EDGE = 16 };
static const situ_dtype dtypes[] = { SITU_U8, SITU_I64, SITU_BF16, SITU_F32, SITU_F64 };
enum { KINDS = sizeof dtypes / sizeof *dtypes };
/* OpenCL, in CI, is a processor: one dtype shows that what it shares with a gpu is not broken for it. */
static bool left_out(situ_dtype dtype) { return test_device().kind == SITU_OPENCL && dtype != SITU_F32; }

/* `numel` elements of v from `offset` on. */
static test_view part(test_view *v, int64_t offset, int64_t numel) {
  test_view p = *v;
  p.d.storage = &v->storage;
  p.d.offset = offset;
  p.d.numel = p.d.size[0] = numel;
  p.d.stride[0] = p.d.ndim = 1;
  p.d.contiguous = true;
  return p;
}

static void expect(double got, double want, const char *what, situ_dtype dtype, int64_t i) {
  if (got != want && !(isnan(got) && isnan(want)))
    fail_msg("%s of %s: element %lld is %g, not %g", what, situ_dtype_name(dtype), (long long)i, got, want);
}

/* What is around elements [from, to) of v is still 77. */
static void expect_alone(const test_view *v, int64_t from, int64_t to, const char *what) {
  for (int64_t i = 0; i < v->d.numel; i++)
    if (i < from || i >= to) expect(view_get(v, i), 77, what, (situ_dtype)v->d.dtype, i);
}
static void all_77(test_view *v) {
  for (int64_t i = 0; i < v->d.numel; i++) view_set(v, i, 77);
}

static void run(situ_verb verb, int op, situ_dtype compute, int ins, const test_view *const *in, const test_view *y) {
  situ_work work = { .op = op, .compute = compute, .ins = ins, .outs = 1, .out = { &y->d } };
  for (int k = 0; k < ins; k++) work.in[k] = &in[k]->d;
  assert_int_equal(view_run(verb, &work), SITU_OK);
}

/* y, a and b begin at these offsets. */
static void lines(situ_dtype dtype, const int *offset) {
  test_view *y = view_new(dtype, SITU_SHAPE(MOST + EDGE), VIEW_ROWS),
            *a = view_new(dtype, SITU_SHAPE(MOST + EDGE), VIEW_ROWS),
            *b = view_new(dtype, SITU_SHAPE(MOST + EDGE), VIEW_ROWS),
            *test = view_new(SITU_BOOL, SITU_SHAPE(MOST + EDGE), VIEW_ROWS);
  view_random(a, 1, 0, 50);
  view_random(b, 2, 0, 50);
  for (int64_t i = 0; i < a->d.numel; i++) {
    view_set(a, i, floor(view_get(a, i)));
    view_set(b, i, floor(view_get(b, i)));
  }
  for (int l = 0; l < LENGTHS; l++) {
    const int64_t n = lengths[l];
    const test_view to = part(y, offset[0], n), p = part(a, offset[1], n), q = part(b, offset[2], n),
                    told = part(test, offset[0], n), *in[] = { &p, &q, &p };
    all_77(y);
    run(SITU_VERB_BINARY, SITU_BINARY_add, dtype, 2, in, &to);
    for (int64_t i = 0; i < n; i++) expect(view_get(&to, i), view_get(&p, i) + view_get(&q, i), "sum", dtype, i);
    expect_alone(y, offset[0], offset[0] + n, "around a sum");
    run(SITU_VERB_BINARY, SITU_BINARY_lt, dtype, 2, in, &told);
    for (int64_t i = 0; i < n; i++) expect(view_get(&told, i), view_get(&p, i) < view_get(&q, i), "test", dtype, i);
    const test_view *choice[] = { &told, &p, &q };
    run(SITU_VERB_TERNARY, SITU_TERNARY_WHERE, dtype, 3, choice, &to);
    for (int64_t i = 0; i < n; i++)
      expect(view_get(&to, i), fmin(view_get(&p, i), view_get(&q, i)), "choice", dtype, i);
    all_77(y);
    run(SITU_VERB_COPY, 0, dtype, 1, in, &to);
    for (int64_t i = 0; i < n; i++) expect(view_get(&to, i), view_get(&p, i), "copy", dtype, i);
    expect_alone(y, offset[0], offset[0] + n, "around a copy");
    run(SITU_VERB_UNARY, SITU_UNARY_square, dtype, 1, (const test_view *[]){ &to }, &to);
    for (int64_t i = 0; i < n; i++) {
      const double x = view_get(&p, i), square = dtype == SITU_U8 ? fmod(x * x, 256) : x * x;
      if (dtype != SITU_BF16) expect(view_get(&to, i), square, "square in place", dtype, i);
    }
    all_77(y);
    situ_work fill = { .outs = 1, .out = { &to.d }, .scalar = { 3 }, .integer = { 3 } };
    assert_int_equal(view_run(SITU_VERB_FILL, &fill), SITU_OK);
    for (int64_t i = 0; i < n; i++) expect(view_get(&to, i), 3, "fill", dtype, i);
    expect_alone(y, offset[0], offset[0] + n, "around a fill");
  }
  view_free(y), view_free(a), view_free(b), view_free(test);
}

static void lengths_and_offsets(void **state) {
  (void)state;
  const int offset[][3] = { { 0, 0, 0 }, { 1, 1, 1 }, { 3, 3, 3 }, { 7, 7, 7 }, { 0, 1, 0 },
                            { 0, 2, 3 }, { 5, 0, 0 }, { 2, 2, 1 }, { 4, 0, 6 } };
  for (int k = 0; k < KINDS; k++)
    for (size_t o = 0; !left_out(dtypes[k]) && o < sizeof offset / sizeof *offset; o++) lines(dtypes[k], offset[o]);
}

/* A cast that counts what it makes infinite, once each. */
static void casts_count(void **state) {
  (void)state;
  test_view *x = view_new(SITU_F32, SITU_SHAPE(MOST + EDGE), VIEW_ROWS),
            *y = view_new(SITU_F16, SITU_SHAPE(MOST + EDGE), VIEW_ROWS),
            *lost = view_new(SITU_I64, SITU_SHAPE(1), VIEW_ROWS);
  for (int l = 0; l < LENGTHS; l++)
    for (int offset = 0; offset < 4; offset++) {
      const int64_t n = lengths[l];
      const test_view from = part(x, offset, n), to = part(y, 3, n);
      int64_t too_large = 0;
      for (int64_t i = 0; i < x->d.numel; i++) view_set(x, i, i % 3 ? (double)(i % 2048) : 1e6);
      for (int64_t i = 0; i < n; i++) too_large += view_get(&from, i) == 1e6;
      view_set(lost, 0, 0);
      situ_work work = { .ins = 1, .outs = 2, .in = { &from.d }, .out = { &to.d, &lost->d } };
      assert_int_equal(view_run(SITU_VERB_COPY, &work), SITU_OK);
      for (int64_t i = 0; i < n; i++) {
        const double v = view_get(&from, i);
        expect(view_get(&to, i), v == 1e6 ? INFINITY : v, "cast", SITU_F16, i);
      }
      expect(view_get(lost, 0), (double)too_large, "count", SITU_I64, 0);
    }
  view_free(x), view_free(y), view_free(lost);
}

/* sum[r][c] of operands with these steps; y has rows of `row`. */
static void rows_of(situ_dtype dtype, int64_t rows, int64_t columns, const int64_t (*step)[2]) {
  enum { ROOM = 40 * 40 };
  test_view *v[3], at[3];
  for (int k = 0; k < 3; k++) {
    v[k] = view_new(dtype, SITU_SHAPE(ROOM), VIEW_ROWS);
    for (int64_t i = 0; i < ROOM; i++) view_set(v[k], i, k ? (double)((7 * i + k) % 60) : 77);
    at[k] = part(v[k], k == 1 ? 8 : 0, rows * columns);
    at[k].d.ndim = 2;
    at[k].d.size[0] = rows, at[k].d.size[1] = columns;
    at[k].d.stride[0] = step[k][0], at[k].d.stride[1] = step[k][1];
    at[k].d.contiguous = step[k][1] == 1 && step[k][0] == columns;
  }
  run(SITU_VERB_BINARY, SITU_BINARY_add, dtype, 2, (const test_view *[]){ &at[1], &at[2] }, &at[0]);
  double sum = 77.0 * (double)(ROOM - rows * columns), found = 0;
  for (int64_t i = 0; i < rows * columns; i++) {
    const double want = view_get(&at[1], i) + view_get(&at[2], i);
    expect(view_get(&at[0], i), want, "sum of rows", dtype, i);
    sum += want;
  }
  for (int64_t i = 0; i < ROOM; i++) found += view_get(v[0], i);
  expect(found, sum, "all that is there", dtype, -1);
  for (int k = 0; k < 3; k++) view_free(v[k]);
}

static void rows_with_gaps(void **state) {
  (void)state;
  const int64_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33 };
  for (int k = 0; k < KINDS; k++)
    for (size_t c = 0; !left_out(dtypes[k]) && c < sizeof sizes / sizeof *sizes; c++)
      for (int64_t rows = 1; rows <= 5; rows += 2) {
        const int64_t n = sizes[c];
        rows_of(dtypes[k], rows, n, (const int64_t[][2]){ { n, 1 }, { n, 1 }, { 0, 1 } });
        rows_of(dtypes[k], rows, n, (const int64_t[][2]){ { n, 1 }, { n, 1 }, { 1, 0 } });
        rows_of(dtypes[k], rows, n, (const int64_t[][2]){ { 40, 1 }, { 40, 1 }, { 40, 1 } });
        rows_of(dtypes[k], rows, n, (const int64_t[][2]){ { 40, 1 }, { n + 1, 1 }, { 0, 0 } });
        rows_of(dtypes[k], rows, n, (const int64_t[][2]){ { n, 1 }, { 1, rows }, { 40, 1 } });
        rows_of(dtypes[k], rows, n, (const int64_t[][2]){ { 1, rows }, { n, 1 }, { 1, rows } });
        rows_of(dtypes[k], rows, n, (const int64_t[][2]){ { 100, 3 }, { 2 * n, 2 }, { 0, 1 } });
      }
}

/* Sums and means over rows, which a gpu takes in slices of rows: whole numbers, so that every order is exact. */
static void sums_of_columns(situ_dtype dtype, int64_t rows, int64_t columns, int64_t offset) {
  const int64_t gap = offset % 3;
  test_view *x = view_new(dtype, SITU_SHAPE(rows * (columns + gap) + offset), VIEW_ROWS),
            *y = view_new(dtype, SITU_SHAPE(columns + 8), VIEW_ROWS);
  for (int64_t i = 0; i < x->d.numel; i++) view_set(x, i, (double)((i * 7) % 3 - 1));
  test_view from = part(x, offset, rows * columns), to = part(y, offset, columns);
  from.d.ndim = to.d.ndim = 2;
  from.d.size[0] = rows, from.d.size[1] = columns;
  from.d.stride[0] = columns + gap, from.d.stride[1] = 1;
  from.d.contiguous = gap == 0;
  to.d.size[0] = 1, to.d.size[1] = columns;
  to.d.stride[0] = columns, to.d.stride[1] = 1;
  for (int mean = 0; mean < 2; mean++) {
    all_77(y);
    situ_work work = { .op = mean ? SITU_REDUCE_MEAN : SITU_REDUCE_SUM,
                       .ins = 1,
                       .outs = 1,
                       .in = { &from.d },
                       .out = { &to.d },
                       .compute = dtype };
    assert_int_equal(view_run(SITU_VERB_REDUCE, &work), SITU_OK);
    for (int64_t c = 0; c < columns; c++) {
      double sum = 0;
      for (int64_t r = 0; r < rows; r++) sum += view_get(&from, r * columns + c);
      const double want = mean ? sum / (double)rows : sum, got = view_get(&to, c);
      if (!(fabs(got - want) <= (mean || dtype == SITU_BF16 ? 0x1p-8 * fabs(want) : 0)))
        fail_msg("%s of %lld rows: column %lld is %g, not %g", situ_dtype_name(dtype), (long long)rows, (long long)c,
                 got, want);
    }
    expect_alone(y, offset, offset + columns, "around sums");
  }
  view_free(x), view_free(y);
}

static void columns_of_any_size(void **state) {
  (void)state;
  const int64_t sizes[][2] = { { 31, 3 },   { 32, 1 },   { 33, 2 },    { 64, 5 },    { 129, 8 },
                               { 127, 17 }, { 300, 33 }, { 128, 130 }, { 129, 129 }, { 260, 264 },
                               { 1000, 7 }, { 5000, 3 }, { 70000, 2 } };
  for (int k = 2; k < KINDS; k++)
    for (size_t s = 0; !left_out(dtypes[k]) && s < sizeof sizes / sizeof *sizes; s++)
      for (int64_t offset = 0; offset < 5; offset++)
        if (sizes[s][0] < 5000 || offset == 0) sums_of_columns(dtypes[k], sizes[s][0], sizes[s][1], offset);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(lengths_and_offsets),
    cmocka_unit_test(casts_count),
    cmocka_unit_test(rows_with_gaps),
    cmocka_unit_test(columns_of_any_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
