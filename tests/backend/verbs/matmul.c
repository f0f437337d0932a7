/* Matrix products against plain loops in f64: shapes, strides, dtypes, batches, nothing at all.
   SPDX-License-Identifier: MIT */
/* test-options: -O3 */
/* test-devices: cpu opencl:0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/gemm/algorithm.h"
#include "base/pool.h"
#include "device/launch/launch.h"
#include "support/test.h"
#include "support/verbs/views.h"

/* A whole number from -4 to 4 for dtypes that hold no others (0 to 4 for u8), else one in [-1, 1). */
static void fill(test_view *v, uint64_t seed) {
  if (situ_dtype_is_floating((situ_dtype)v->d.dtype)) view_random(v, seed, -1, 1);
  else view_random(v, seed, v->d.dtype == SITU_U8 ? 0 : -4, 5);
}

/* y as wide as its sizes say, by broadcasting v's dimensions of size 1. */
static void expand(test_view *v, const situ_view_desc *to) {
  for (int d = 0; d < to->ndim; d++) {
    if (v->d.size[d] == 1 && to->size[d] != 1) v->d.stride[d] = 0, v->d.contiguous = false;
    v->d.size[d] = to->size[d];
  }
  v->d.numel = to->numel;
}

static situ_status run(const test_view *a, const test_view *b, const test_view *bias, test_view *y, double alpha,
                       double beta) {
  const situ_work work = { .verb = SITU_VERB_MATMUL,
                           .compute = (situ_dtype)y->d.dtype,
                           .ins = 3,
                           .outs = 1,
                           .in = { &a->d, &b->d, bias ? &bias->d : NULL },
                           .out = { &y->d },
                           .scalar = { alpha, beta } };
  return view_run(SITU_VERB_MATMUL, &work);
}

/* A whole number as its dtype holds it. */
static double wrapped(int dtype, double value) {
  const int64_t whole = (int64_t)value;
  switch (dtype) {
  case SITU_U8: return (uint8_t)whole;
  case SITU_I8: return (int8_t)whole;
  case SITU_I16: return (int16_t)whole;
  case SITU_I32: return (int32_t)whole;
  default: return value;
  }
}

/* Rows of the cpu's table that ran: a bit for each. */
static uint32_t rows_seen;

static void compare(const test_view *y, int64_t k, const double *want, const double *allowed) {
  for (int64_t at = 0; at < y->d.numel; at++) {
    const double got = view_get(y, at);
    if (isnan(want[at]) ? !isnan(got) : !(fabs(got - want[at]) <= allowed[at]))
      fail_msg("%s [.., %lld, %lld], sums of %lld: element %lld is %.17g, want %.17g, allowed error %g",
               situ_dtype_name((situ_dtype)y->d.dtype), (long long)y->d.size[y->d.ndim - 2],
               (long long)y->d.size[y->d.ndim - 1], (long long)k, (long long)at, got, want[at], allowed[at]);
  }
}

/* The sum of each element's products, and behind them the sums of their sizes; rows of b are gone through side by side.
   The caller frees them. */
static double *products_of(const test_view *a, const test_view *b, const test_view *y) {
  const int64_t m = y->d.size[y->d.ndim - 2], n = y->d.size[y->d.ndim - 1], k = a->d.size[a->d.ndim - 1];
  double *as = view_values(a), *bs = view_values(b);
  double *sums = calloc((size_t)y->d.numel * 2 + 1, sizeof *sums);
  assert_non_null(sums);
  for (int64_t row = 0; n && row < y->d.numel / n; row++)
    for (int64_t q = 0; q < k; q++) {
      const double factor = as[row * k + q], *of_b = bs + (row / m * k + q) * n;
      double *sum = sums + row * n, *size = sum + y->d.numel;
      for (int64_t j = 0; j < n; j++) sum[j] += factor * of_b[j], size[j] += fabs(factor * of_b[j]);
    }
  free(as), free(bs);
  return sums;
}

/* As it is chosen, and on the cpu by each algorithm that suits. The rounding of a sum of k products grows like sqrt(k)
   of the size of its terms. */
static void check_products(const double *sum, const test_view *a, const test_view *b, const test_view *bias,
                           test_view *y, double alpha, double beta) {
  const int64_t k = a->d.size[a->d.ndim - 1];
  const double unit_of_compute = view_unit(y->d.dtype == SITU_F64 ? SITU_F64 : SITU_F32);
  const bool whole = !situ_dtype_is_floating((situ_dtype)y->d.dtype);
  double *want = view_values(y), *allowed = view_values(y);
  for (int64_t at = 0; at < y->d.numel; at++) {
    const double extra = bias && beta != 0 ? beta * view_get(bias, at) : 0;
    want[at] = wrapped(y->d.dtype, alpha * sum[at] + extra);
    allowed[at] =
        whole ? 0
              : view_unit(y->d.dtype) * fabs(want[at]) * 1.01 +
                    unit_of_compute * (4 + sqrt((double)k)) * (fabs(alpha) * sum[at + y->d.numel] + fabs(extra));
  }
  for (int row = SITU__CHOICE_FREE; row < 0 || situ__matmul_choice.name_of(row); row++) {
    if (row >= 0 && !view_forces(situ__matmul_rows[row]->least)) continue;
    situ__choice_force(&situ__matmul_choice, row);
    fill(y, 3); /* what was there must not shine through */
    const situ_status status = run(a, b, bias, y, alpha, beta);
    if (row >= 0 && status == SITU_E_UNSUPPORTED) {
      situ_error_clear();
      continue;
    }
    assert_int_equal(status, SITU_OK);
    compare(y, k, want, allowed);
    if (row >= 0) rows_seen |= UINT32_C(1) << row;
  }
  situ__choice_force(&situ__matmul_choice, SITU__CHOICE_FREE);
  free(want), free(allowed);
}

static void check(const test_view *a, const test_view *b, const test_view *bias, test_view *y, double alpha,
                  double beta) {
  double *sum = products_of(a, b, y);
  check_products(sum, a, b, bias, y, alpha, beta);
  free(sum);
}

static void check_2d(situ_dtype dtype, int64_t m, int64_t n, int64_t k, view_layout la, view_layout lb,
                     view_layout ly) {
  test_view *a = view_new(dtype, SITU_SHAPE(m, k), la), *b = view_new(dtype, SITU_SHAPE(k, n), lb);
  test_view *y = view_new(dtype, SITU_SHAPE(m, n), ly), *bias = view_new(dtype, SITU_SHAPE(1, n), la);
  fill(a, (uint64_t)(m * 31 + n * 7 + k)), fill(b, (uint64_t)(m + n + k)), fill(bias, (uint64_t)n);
  expand(bias, &y->d);
  double *sum = products_of(a, b, y);
  check_products(sum, a, b, NULL, y, 1, 0);
  check_products(sum, a, b, bias, y, 1, 1);
  check_products(sum, a, b, bias, y, 2, -3);
  free(sum);
  view_free(a), view_free(b), view_free(y), view_free(bias);
}

/* Around every boundary inside: vectors of 4, 8 and 16, tiles of 6 and 12 rows, panels, slivers. */
static void small_shapes_in_every_layout(void **state) {
  (void)state;
  const int64_t sizes[] = { 1, 2, 3, 5, 7, 8, 12, 13, 16, 17, 33, 65 };
  const size_t count = sizeof sizes / sizeof *sizes;
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < count; j++)
      for (size_t q = 0; q < count; q += 1 + (i + j) % 2) {
        const size_t turn = i + j + q;
        if (!test_takes(turn + j, 3) || !test_is_mine(i)) continue;
        check_2d(SITU_F32, sizes[i], sizes[j], sizes[q], turn % 3, turn / 3 % 3, turn / 9 % 3);
        check_2d(SITU_F64, sizes[i], sizes[j], sizes[q], turn % 3, turn / 3 % 3, turn / 9 % 3);
      }
}

static void every_dtype_and_layout(void **state) {
  (void)state;
  const situ_dtype dtypes[] = {
    SITU_U8, SITU_I8, SITU_I16, SITU_I32, SITU_I64, SITU_F16, SITU_BF16, SITU_F32, SITU_F64
  };
  const int64_t shapes[][3] = { { 1, 1, 1 }, { 1, 5, 10 }, { 20, 1, 30 }, { 7, 9, 40 }, { 40, 50, 33 } };
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int layouts = 0; layouts < 27; layouts++)
        if (test_takes(t + s + (size_t)(layouts + layouts / 3 + layouts / 9), 3) && test_is_mine(t))
          check_2d(dtypes[t], shapes[s][0], shapes[s][1], shapes[s][2], layouts % 3, layouts / 3 % 3, layouts / 9);
}

/* Several blocks and tasks in each direction, copied operands, dot products, thin ones. */
static void large_shapes(void **state) {
  (void)state;
  const int64_t shapes[][3] = { { 300, 70, 900 }, { 30, 700, 800 }, { 200, 130, 401 },
                                { 2, 600, 1500 }, { 500, 6, 300 },  { 1, 1500, 700 },
                                { 900, 1, 700 },  { 1, 1, 5000 },   { 260, 530, 60 } };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int layouts = 0; layouts < 4; layouts++) {
      if (!test_takes(s + (size_t)layouts, 4)) continue;
      check_2d(SITU_F32, shapes[s][0], shapes[s][1], shapes[s][2], layouts % 2, layouts / 2, VIEW_ROWS);
      if (s < 4) check_2d(SITU_F64, shapes[s][0], shapes[s][1], shapes[s][2], layouts % 2, layouts / 2, VIEW_COLUMNS);
    }
}

/* Around the tiles, panels and blocks of packed factors; and few rows, whose other factor is packed by each tile. */
static void on_every_instruction_set(void **state) {
  (void)state;
  const situ_dtype dtypes[] = { SITU_BF16, SITU_F16, SITU_F32, SITU_F64 };
  const int64_t shapes[][3] = { { 33, 35, 31 },   { 64, 66, 97 },   { 1, 100, 400 },    { 17, 16, 513 },
                                { 40, 300, 259 }, { 3, 205, 600 },  { 4, 70, 901 },     { 96, 70, 544 },
                                { 20, 600, 700 }, { 300, 70, 600 }, { 150, 257, 1300 }, { 320, 96, 1100 } };
  for (int isa = -1; view_next_isa(&isa);)
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
      for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int layouts = 0; layouts < 27; layouts++) {
          const size_t turn = t + s + (size_t)(isa + layouts + layouts / 3 + layouts / 9);
          if (turn % (s < 8 ? 7 : 29) || (shapes[s][0] > 4 && !test_takes(turn, 2))) continue;
          check_2d(dtypes[t], shapes[s][0], shapes[s][1], shapes[s][2], layouts % 3, layouts / 3 % 3, layouts / 9);
        }
}

/* a^T b of few sums: of many terms, whose parts are added up, and narrow ones, which are computed across. */
static const int64_t gradients[][3] = { { 70, 90, 1024 },  { 200, 10, 300 }, { 130, 33, 1100 }, { 150, 16, 1028 },
                                        { 128, 3, 1027 },  { 64, 65, 1536 }, { 257, 48, 1024 }, { 40, 300, 1200 },
                                        { 1100, 16, 260 }, { 2048, 8, 128 } };

static void gradients_of_small_weights(void **state) {
  (void)state;
  for (int isa = -1; view_next_isa(&isa);)
    for (size_t s = 0; s < sizeof gradients / sizeof *gradients; s++) {
      const int64_t *size = gradients[s];
      const size_t turn = s + (size_t)(isa + 1);
      if (test_takes(turn + 1, 2)) check_2d(SITU_F32, size[0], size[1], size[2], VIEW_COLUMNS, VIEW_ROWS, VIEW_ROWS);
      if (test_takes(turn, 3)) check_2d(SITU_F64, size[0], size[1], size[2], VIEW_COLUMNS, VIEW_ROWS, VIEW_ROWS);
    }
}

/* v without its first rows and columns, and without what is past `rows` and `columns`. */
static test_view part_of(const test_view *v, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  test_view part = *v;
  part.d.storage = &((test_view *)(uintptr_t)v)->storage;
  part.d.offset += row * v->d.stride[0] + column * v->d.stride[1];
  part.d.size[0] = rows, part.d.size[1] = columns;
  part.d.numel = rows * columns;
  part.d.contiguous = false;
  return part;
}

/* An element's bits depend on its row of a and its column of b alone, wherever tiles and blocks are cut. */
static void parts_have_the_bits_of_the_whole(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  const situ_dtype dtypes[] = { SITU_BF16, SITU_F16, SITU_F32, SITU_F64, SITU_BF16 };
  /* Factors that are packed, and rows that are read where they are, whose result is larger than the caches. */
  const int64_t shapes[][3] = { { 600, 300, 530 }, { 1056, 2048, 64 } },
                cuts[][4] = { { 0, 0, 300, 300 }, { 37, 3, 450, 260 }, { 450, 40, 150, 250 } };
  for (int isa = -1; view_next_isa(&isa);)
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
      const int64_t m = shapes[t / 4][0], n = shapes[t / 4][1], k = shapes[t / 4][2];
      test_view *a = view_new(dtypes[t], SITU_SHAPE(m, k), VIEW_ROWS),
                *b = view_new(dtypes[t], SITU_SHAPE(k, n), isa % 2 ? VIEW_ROWS : VIEW_COLUMNS),
                *y = view_new(dtypes[t], SITU_SHAPE(m, n), VIEW_ROWS);
      fill(a, t + 1), fill(b, t + 2);
      assert_int_equal(run(a, b, NULL, y, 1, 0), SITU_OK);
      for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        const int64_t i = cuts[c][0], j = cuts[c][1], rows = cuts[c][2], columns = cuts[c][3];
        const test_view of_a = part_of(a, i, 0, rows, k), of_b = part_of(b, 0, j, k, columns),
                        want = part_of(y, i, j, rows, columns);
        test_view *got = view_new(dtypes[t], SITU_SHAPE(rows, columns), VIEW_ROWS);
        assert_int_equal(run(&of_a, &of_b, NULL, got, 1, 0), SITU_OK);
        for (int64_t e = 0; e < rows * columns; e++)
          if (view_get(&want, e) != view_get(got, e))
            fail_msg("%s, instruction set %d, cut %zu: element %lld is %.17g, %.17g in the whole",
                     situ_dtype_name(dtypes[t]), isa, c, (long long)e, view_get(got, e), view_get(&want, e));
        view_free(got);
      }
      view_free(a), view_free(b), view_free(y);
    }
}

/* Windows of a series: rows are contiguous, and each begins in the one before. */
static void rows_that_overlap(void **state) {
  (void)state;
  const situ_dtype dtypes[] = { SITU_BF16, SITU_F16, SITU_F32, SITU_F64 };
  const int64_t m = 64, n = 64, k = 96, step = 32;
  for (int isa = -1; view_next_isa(&isa);)
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
      test_view *series = view_new(dtypes[t], SITU_SHAPE(1, (m - 1) * step + k), VIEW_ROWS),
                *b = view_new(dtypes[t], SITU_SHAPE(k, n), VIEW_ROWS),
                *y = view_new(dtypes[t], SITU_SHAPE(m, n), VIEW_ROWS);
      fill(series, t + 1), fill(b, t + 2);
      test_view a = part_of(series, 0, 0, m, k);
      a.d.stride[0] = step;
      check(&a, b, NULL, y, 1, 0);
      view_free(series), view_free(b), view_free(y);
    }
}

/* Moves v's elements to the end of a page, behind which no memory is; NULL after the test: unmapped. */
static void *to_end_of_page(test_view *v) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = v->storage.bytes;
  char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(pages, MAP_FAILED);
  assert_true(bytes <= page);
  assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
  memcpy(pages + page - bytes, v->storage.data, bytes);
  v->storage.data = pages + page - bytes;
  return pages;
}

/* Products of few rows read columns that are not a whole vector in place, those of many rows pack them: the bits are
   the same, also of what is added to, and nothing behind b is read. */
static void few_rows_have_the_bits_of_many(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  enum { MANY = 40 };
  for (int isa = -1; view_next_isa(&isa);)
    for (int64_t n = 2; n <= 37; n++)
      for (int wide = 0; wide < 2; wide++) {
        const situ_dtype dtype = wide ? SITU_F64 : SITU_F32;
        const int64_t k = 1 + n % 11;
        test_view *a = view_new(dtype, SITU_SHAPE(MANY, k), VIEW_ROWS),
                  *b = view_new(dtype, SITU_SHAPE(k, n), VIEW_ROWS),
                  *bias = view_new(dtype, SITU_SHAPE(1, n), VIEW_ROWS),
                  *y = view_new(dtype, SITU_SHAPE(MANY, n), VIEW_ROWS);
        fill(a, 1), fill(b, 2), fill(bias, 3);
        expand(bias, &y->d);
        b->storage.bytes = (size_t)(k * n) * (wide ? sizeof(double) : sizeof(float));
        void *own = b->storage.data, *pages = to_end_of_page(b);
        for (int adds = 0; adds < 2; adds++) {
          assert_int_equal(run(a, b, adds ? bias : NULL, y, 1, adds), SITU_OK);
          for (int64_t m = 1; m <= 25; m++) {
            const test_view of_a = part_of(a, MANY - m, 0, m, k), want = part_of(y, MANY - m, 0, m, n);
            test_view *got = view_new(dtype, SITU_SHAPE(m, n), VIEW_ROWS), add = *bias;
            add.d.size[0] = m, add.d.numel = m * n;
            assert_int_equal(run(&of_a, b, adds ? &add : NULL, got, 1, adds), SITU_OK);
            if (!view_same(&want, got))
              fail_msg("instruction set %d, %s, %lld x %lld x %lld, %d: other bits than in %d rows", isa,
                       situ_dtype_name(dtype), (long long)m, (long long)n, (long long)k, adds, MANY);
            view_free(got);
          }
        }
        b->storage.data = own;
        munmap(pages, 2 * (size_t)sysconf(_SC_PAGESIZE));
        view_free(a), view_free(b), view_free(bias), view_free(y);
      }
}

/* Infinities, NaN, the largest and the smallest numbers in one item of a batch, whose other items are plain. */
static void special_item(situ_dtype dtype, int64_t m, int64_t n, int64_t k, int which) {
  static const struct {
    situ_dtype dtype;
    double largest, smallest;
  } ends[] = { { SITU_F16, 65504, 0x1p-24 }, { SITU_BF16, 0x1.fep127, 0x1p-100 }, { SITU_F32, FLT_MAX, 0x1p-149 } };
  const int e = dtype == SITU_F16 ? 0 : dtype == SITU_BF16 ? 1 : 2;
  const double special = (const double[]){ INFINITY, NAN, ends[e].largest, ends[e].smallest }[which];
  test_view *a = view_new(dtype, SITU_SHAPE(3, m, k), VIEW_ROWS),
            *b = view_new(dtype, SITU_SHAPE(3, k, n), VIEW_COLUMNS),
            *y = view_new(dtype, SITU_SHAPE(3, m, n), VIEW_ROWS);
  fill(a, 1), fill(b, 2);
  for (int64_t q = 0; q < k; q++) view_set(a, (m + 7) * k + q, 0);
  view_set(a, (m + 7) * k + 33, special);
  view_set(b, k * n + 33 * n + 5, 0);
  view_set(b, k * n + 33 * n + 6, -0.5);
  view_set(b, k * n + 33 * n + 7, 2);
  assert_int_equal(run(a, b, NULL, y, 1, 0), SITU_OK);
  const int64_t row = (m + 7) * n;
  if (which < 2) assert_true(isnan(view_get(y, row + 5)));
  else assert_true(view_get(y, row + 5) == 0);
  if (which == 0) assert_true(view_get(y, row + 6) == -INFINITY && view_get(y, row + 7) == INFINITY);
  if (which == 1) assert_true(isnan(view_get(y, row + 6)) && isnan(view_get(y, row + 7)));
  if (which == 2) assert_true(view_get(y, row + 6) == -0.5 * special && view_get(y, row + 7) == INFINITY);
  if (which == 3) assert_true(view_get(y, row + 7) == 2 * special);
  for (int64_t at = 0; at < 3 * m * n; at++)
    if (at / n != m + 7) assert_true(isfinite(view_get(y, at)));
  if (which == 3 && dtype == SITU_BF16) check(a, b, NULL, y, 1, 0);
  view_free(a), view_free(b), view_free(y);
}

/* In items of several tiles, of tiles side by side, of one tile. */
static void special_values_in_one_item(void **state) {
  (void)state;
  const situ_dtype dtypes[] = { SITU_F16, SITU_BF16, SITU_F32 };
  const int64_t shapes[][3] = { { 600, 300, 90 }, { 200, 210, 300 }, { 170, 165, 60 } };
  for (int isa = -1; view_next_isa(&isa);)
    for (size_t t = 0; t < 3; t++)
      for (size_t s = 0; s < 3; s++)
        for (int which = 0; which < 4; which++)
          special_item(dtypes[t], shapes[s][0], shapes[s][1], shapes[s][2], which);
}

/* Rows and columns of f32 from 2^-100 up: tiles of bf16 take each as a sum of three, and may lose nothing by it. */
static void sizes_far_apart(void **state) {
  (void)state;
  const int64_t m = 200, n = 190, k = 333;
  for (int isa = -1; view_next_isa(&isa);)
    for (int least = 20; least <= 100; least += 40) {
      test_view *a = view_new(SITU_F32, SITU_SHAPE(m, k), VIEW_ROWS),
                *b = view_new(SITU_F32, SITU_SHAPE(k, n), VIEW_ROWS),
                *y = view_new(SITU_F32, SITU_SHAPE(m, n), VIEW_ROWS);
      fill(a, 1), fill(b, 2);
      for (int64_t e = 0; e < m * k; e++) view_set(a, e, ldexp(view_get(a, e), -(int)(e / k * 7 % least)));
      for (int64_t e = 0; e < k * n; e++) view_set(b, e, ldexp(view_get(b, e), (int)(e % n * 5 % 60) - 30));
      check(a, b, NULL, y, 1, 0);
      view_free(a), view_free(b), view_free(y);
    }
}

/* y = a b by b as the device prepacks it for products of `rows` rows, if it does; `bias` is added. */
static situ_status run_by_prepacked(const test_view *a, const test_view *b, const test_view *bias, int64_t rows,
                                    bool same, test_view *y) {
  const int64_t k = b->d.size[0], n = b->d.size[1];
  test_view *packed = view_new(SITU_U8, SITU_SHAPE(situ_prepack_bytes(k, n)), VIEW_ROWS);
  situ_work lay_out = { SITU_VERB_PREPACK,     .compute = SITU_F32,      .ins = 1, .outs = 1, .in = { &b->d },
                        .out = { &packed->d }, .integer = { rows, same } };
  bool offered;
  assert_int_equal(situ__offers("prepack", test_device(), &lay_out, &offered), SITU_OK);
  situ_status status = offered ? view_run(SITU_VERB_PREPACK, &lay_out) : SITU_OK;
  const situ_work work = { SITU_VERB_MATMUL,
                           .compute = SITU_F32,
                           .ins = 4,
                           .outs = 1,
                           .in = { &a->d, &b->d, bias ? &bias->d : NULL, offered ? &packed->d : NULL },
                           .out = { &y->d },
                           .scalar = { 1, bias ? 1 : 0 } };
  if (status == SITU_OK) status = view_run(SITU_VERB_MATMUL, &work);
  view_free(packed);
  return status;
}

/* A weight that is prepacked gives the bits of one that is packed for each product, and is ignored if it has no parts.
   With `same` it does so for any number of rows, of the product and of those that it was prepacked for. */
static void a_weight_that_is_prepacked(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  const int64_t shapes[][3] = { { 200, 330, 150 }, { 192, 140, 90 }, { 96, 700, 257 }, { 32, 128, 1400 },
                                { 17, 65, 70 },    { 64, 576, 800 }, { 79, 72, 385 },  { 48, 200, 768 } };
  const int64_t rows[] = { 17, 64, 96 };
  for (int isa = -1; view_next_isa(&isa);)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int what = 0; what < 32; what++) {
        const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        const bool same = what >= 8;
        test_view *a = view_new(SITU_F32, SITU_SHAPE(m, k), VIEW_ROWS),
                  *b = view_new(SITU_F32, SITU_SHAPE(k, n), what & 1 ? VIEW_COLUMNS : VIEW_ROWS),
                  *bias = view_new(SITU_F32, SITU_SHAPE(m, n), VIEW_ROWS),
                  *y = view_new(SITU_F32, SITU_SHAPE(m, n), VIEW_ROWS),
                  *want = view_new(SITU_F32, SITU_SHAPE(m, n), VIEW_ROWS);
        fill(a, s + 1), fill(b, s + 2), fill(bias, s + 3);
        if (what & 2) view_set(b, k * n / 2, INFINITY);
        assert_int_equal(run_by_prepacked(a, b, what & 4 ? bias : NULL, same ? rows[what / 8 - 1] : m, same, y),
                         SITU_OK);
        assert_int_equal(run(a, b, what & 4 ? bias : NULL, want, 1, 1), SITU_OK);
        for (int64_t e = 0; e < m * n; e++) {
          const double got = view_get(y, e), other = view_get(want, e);
          /* few rows are not packed for a single product */
          if (isnan(other) ? !isnan(got) : same || m >= 96 ? got != other : !(got == other || fabs(got - other) < 1e-4))
            fail_msg("instruction set %d, shape %zu, %d: element %lld is %.9g, not prepacked %.9g", isa, s, what,
                     (long long)e, got, other);
        }
        view_free(a), view_free(b), view_free(bias), view_free(y), view_free(want);
      }
}

static void batches(void **state) {
  (void)state;
  /* Sizes of a's, b's and the bias's batch; 1 broadcasts. */
  const int64_t batch[][3][2] = { { { 2, 3 }, { 2, 3 }, { 2, 3 } },   { { 2, 3 }, { 1, 1 }, { 1, 1 } },
                                  { { 1, 1 }, { 2, 3 }, { 1, 3 } },   { { 1, 3 }, { 2, 1 }, { 2, 1 } },
                                  { { 20, 3 }, { 20, 1 }, { 1, 3 } }, { { 1, 200 }, { 1, 1 }, { 1, 200 } } };
  const int64_t shapes[][3] = { { 1, 4, 5 }, { 4, 1, 3 }, { 6, 17, 20 }, { 30, 20, 64 } };
  for (size_t c = 0; c < sizeof batch / sizeof *batch; c++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int layouts = 0; layouts < 9; layouts++)
        for (int dtype = SITU_F32; dtype >= SITU_I32; dtype -= SITU_F32 - SITU_I32) {
          if (!test_takes(c + s + (size_t)(layouts + layouts / 3 + dtype), 3)) continue;
          const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
          const int64_t outer = batch[c][0][0] > batch[c][1][0] ? batch[c][0][0] : batch[c][1][0];
          const int64_t inner = batch[c][0][1] > batch[c][1][1] ? batch[c][0][1] : batch[c][1][1];
          test_view *a = view_new((situ_dtype)dtype, SITU_SHAPE(batch[c][0][0], batch[c][0][1], m, k), layouts % 3);
          test_view *b = view_new((situ_dtype)dtype, SITU_SHAPE(batch[c][1][0], batch[c][1][1], k, n), layouts / 3);
          test_view *bias = view_new((situ_dtype)dtype, SITU_SHAPE(batch[c][2][0], batch[c][2][1], 1, n), VIEW_ROWS);
          test_view *y = view_new((situ_dtype)dtype, SITU_SHAPE(outer, inner, m, n), (layouts + 1) % 3);
          fill(a, c + 1), fill(b, s + 7), fill(bias, 5);
          expand(bias, &y->d);
          situ_view_desc as = y->d, bs = y->d;
          as.size[3] = k, bs.size[2] = k;
          as.numel = outer * inner * m * k, bs.numel = outer * inner * k * n;
          expand(a, &as), expand(b, &bs);
          check(a, b, NULL, y, 1, 0);
          check(a, b, bias, y, 1, 2);
          view_free(a), view_free(b), view_free(bias), view_free(y);
        }
}

static void nothing_to_add_up(void **state) {
  (void)state;
  for (int dtype = SITU_U8; dtype < SITU_DTYPES; dtype++)
    check_2d((situ_dtype)dtype, 3, 4, 0, VIEW_ROWS, VIEW_ROWS, VIEW_ROWS);
  check_2d(SITU_F32, 300, 400, 0, VIEW_ROWS, VIEW_COLUMNS, VIEW_COLUMNS);
}

/* NaN and infinities go where arithmetic takes them; a bias times 0 is not looked at. */
static void special_values(void **state) {
  (void)state;
  const int64_t shapes[][3] = { { 4, 5, 6 }, { 1, 20, 300 }, { 70, 80, 90 } };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
    test_view *a = view_new(SITU_F32, SITU_SHAPE(m, k), VIEW_ROWS),
              *b = view_new(SITU_F32, SITU_SHAPE(k, n), VIEW_COLUMNS);
    test_view *bias = view_new(SITU_F32, SITU_SHAPE(m, n), VIEW_ROWS),
              *y = view_new(SITU_F32, SITU_SHAPE(m, n), VIEW_ROWS);
    fill(a, 1), fill(b, 2);
    for (int64_t i = 0; i < m * n; i++) view_set(bias, i, NAN), view_set(y, i, NAN);
    check(a, b, bias, y, 1, 0);
    view_set(a, k - 1, NAN);
    assert_int_equal(run(a, b, NULL, y, 1, 0), SITU_OK);
    for (int64_t i = 0; i < m * n; i++) assert_int_equal(isnan(view_get(y, i)), i < n);
    view_set(a, k - 1, INFINITY);
    view_set(b, (k - 1) * n, 0);
    assert_int_equal(run(a, b, NULL, y, 1, 0), SITU_OK);
    for (int64_t j = 0; j < n; j++) assert_true(j == 0 ? isnan(view_get(y, j)) : isinf(view_get(y, j)));
    view_free(a), view_free(b), view_free(bias), view_free(y);
  }
}

static void whole_numbers_wrap(void **state) {
  (void)state;
  test_view *a = view_new(SITU_I64, SITU_SHAPE(1, 2), VIEW_ROWS), *b = view_new(SITU_I64, SITU_SHAPE(2, 1), VIEW_ROWS);
  test_view *y = view_new(SITU_I64, SITU_SHAPE(1, 1), VIEW_ROWS);
  int64_t *x = a->storage.data, *w = b->storage.data;
  x[0] = INT64_MAX / 3, x[1] = 2, w[0] = 3, w[1] = 1;
  assert_int_equal(run(a, b, NULL, y, 1, 0), SITU_OK);
  assert_int_equal(*(int64_t *)y->storage.data, INT64_MIN + (INT64_MAX / 3 * 3 - INT64_MAX + 2 - 1));
  view_free(a), view_free(b), view_free(y);
  test_view *c = view_new(SITU_U8, SITU_SHAPE(1, 1), VIEW_ROWS), *d = view_new(SITU_U8, SITU_SHAPE(1, 1), VIEW_ROWS);
  view_set(c, 0, 200);
  assert_int_equal(run(c, c, NULL, d, 1, 0), SITU_OK);
  assert_int_equal((int)view_get(d, 0), 200 * 200 % 256);
  view_free(c), view_free(d);
}

/* By the cpu; whoever calls another device's has asked before. */
static void bool_is_refused(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  test_view *a = view_new(SITU_BOOL, SITU_SHAPE(2, 2), VIEW_ROWS),
            *y = view_new(SITU_BOOL, SITU_SHAPE(2, 2), VIEW_ROWS);
  assert_int_equal(run(a, a, NULL, y, 1, 0), SITU_E_UNSUPPORTED);
  view_free(a), view_free(y);
}

static void same_bits(situ_dtype dtype, const int64_t *size, int64_t count, view_layout la, view_layout lb) {
  const int64_t m = size[0], n = size[1], k = size[2];
  test_view *a = view_new(dtype, SITU_SHAPE(count, m, k), la), *b = view_new(dtype, SITU_SHAPE(count, k, n), lb);
  test_view *one = view_new(dtype, SITU_SHAPE(count, m, n), VIEW_ROWS);
  test_view *many = view_new(dtype, SITU_SHAPE(count, m, n), VIEW_ROWS);
  fill(a, (uint64_t)m), fill(b, (uint64_t)dtype);
  situ__pool_set_threads(1);
  assert_int_equal(run(a, b, NULL, one, 1, 0), SITU_OK);
  for (int threads = 2; threads <= test_most_threads(); threads += 1 + (threads > 3)) {
    situ__pool_set_threads(threads);
    assert_int_equal(run(a, b, NULL, many, 1, 0), SITU_OK);
    if (!view_same(one, many))
      fail_msg("%s, %lld items [%lld, %lld] of %lld: bits differ on %d threads", situ_dtype_name(dtype),
               (long long)count, (long long)m, (long long)n, (long long)k, threads);
  }
  view_free(a), view_free(b), view_free(one), view_free(many);
}

static void same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  const int before = situ__pool_threads();
  const int64_t shapes[][4] = { { 400, 300, 200, 1 }, { 64, 128, 784, 1 },  { 1, 2000, 1000, 1 }, { 40, 50, 60, 50 },
                                { 1024, 10, 300, 1 }, { 530, 700, 800, 1 }, { 320, 96, 1100, 1 } };
  const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_BF16, SITU_F16, SITU_I32 };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
      for (int layout = VIEW_ROWS; layout <= VIEW_COLUMNS; layout++)
        if (test_takes_threads(s + t + (size_t)layout))
          same_bits(dtypes[t], shapes[s], shapes[s][3], VIEW_ROWS, layout);
  for (size_t s = 0; s < sizeof gradients / sizeof *gradients; s++)
    for (int wide = 0; wide < 2; wide++)
      if (test_takes_threads(s + (size_t)wide))
        same_bits(wide ? SITU_F64 : SITU_F32, gradients[s], 1, VIEW_COLUMNS, VIEW_ROWS);
  situ__pool_set_threads(before);
}

/* After all other cases: a row that no product of them suits was not tested. */
static void every_algorithm_ran(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  for (int row = 0; situ__matmul_choice.name_of(row); row++)
    if (situ__matmul_rows[row]->least <= (situ__isa)view_best_isa() && !(rows_seen >> row & 1))
      fail_msg("no product suits %s", situ__matmul_rows[row]->name);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(small_shapes_in_every_layout),
    cmocka_unit_test(every_dtype_and_layout),
    cmocka_unit_test(large_shapes),
    cmocka_unit_test(on_every_instruction_set),
    cmocka_unit_test(gradients_of_small_weights),
    cmocka_unit_test(parts_have_the_bits_of_the_whole),
    cmocka_unit_test(rows_that_overlap),
    cmocka_unit_test(few_rows_have_the_bits_of_many),
    cmocka_unit_test(special_values_in_one_item),
    cmocka_unit_test(sizes_far_apart),
    cmocka_unit_test(a_weight_that_is_prepacked),
    cmocka_unit_test(batches),
    cmocka_unit_test(nothing_to_add_up),
    cmocka_unit_test(special_values),
    cmocka_unit_test(whole_numbers_wrap),
    cmocka_unit_test(bool_is_refused),
    cmocka_unit_test(same_bits_for_any_number_of_threads),
    cmocka_unit_test(every_algorithm_ran),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
