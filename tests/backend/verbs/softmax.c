/* Softmax, its logarithm and their gradients on the cpu against plain loops in f64.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu opencl:0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/cpu/norm/rows.h"
#include "base/pool.h"
#include "support/test.h"
#include "support/verbs/views.h"

static void run(int op, int dim, test_view *a, test_view *b, test_view *y) {
  situ_work work = { .verb = SITU_VERB_SOFTMAX,
                     .op = op,
                     .ins = b ? 2 : 1,
                     .outs = 1,
                     .in = { &a->d, b ? &b->d : NULL },
                     .out = { &y->d },
                     .integer = { dim },
                     .compute = (situ_dtype)y->d.dtype };
  assert_int_equal(view_run(SITU_VERB_SOFTMAX, &work), SITU_OK);
}

/* Where element i of line l along dim is. */
static int64_t at(const test_view *x, int dim, int64_t l, int64_t i) {
  int64_t inner = 1;
  for (int d = dim + 1; d < x->d.ndim; d++) inner *= x->d.size[d];
  return (l / inner * x->d.size[dim] + i) * inner + l % inner;
}

static void near(double got, double want, double allowed, const char *what) {
  if (isnan(want) ? !isnan(got) : !(got == want || fabs(got - want) <= allowed))
    fail_msg("%s: %.17g, want %.17g, allowed error %g", what, got, want, allowed);
}

/* exp is within 4 ULP; sums are trees; x - max, whose size is `span`, is rounded once. */
static void check(int dtype, situ_shape shape, int dim, int64_t askew, double low, double high) {
  test_view *x = view_askew((situ_dtype)dtype, shape, askew), *y = view_askew((situ_dtype)dtype, shape, askew);
  test_view *log_y = view_new((situ_dtype)dtype, shape, VIEW_ROWS),
            *g = view_askew((situ_dtype)dtype, shape, askew == 3 ? 1 : askew);
  test_view *dx = view_new((situ_dtype)dtype, shape, VIEW_ROWS),
            *log_dx = view_new((situ_dtype)dtype, shape, VIEW_ROWS);
  int64_t n = shape.dim[dim], lines = x->d.numel / n;
  view_random(x, 3, low, high);
  view_random(g, 4, -1, 1);
  run(SITU_SOFTMAX, dim, x, NULL, y);
  run(SITU_LOG_SOFTMAX, dim, x, NULL, log_y);
  run(SITU_SOFTMAX_GRAD, dim, y, g, dx);
  run(SITU_LOG_SOFTMAX_GRAD, dim, log_y, g, log_dx);
  double unit_of_compute = dtype == SITU_F64 ? 0x1p-53 : 0x1p-24, out = view_unit(dtype),
         tiny = dtype == SITU_F16 ? 0x1p-24 : 1.7e-38 /* below, exp may be 0 */, span = high - low,
         steps = 12 + 2 * log2((double)n) + span;
  for (int64_t l = 0; l < lines; l++) {
    double max = -INFINITY, sum = 0, gy = 0, size = 0, gs = 0, gsize = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, view_get(x, at(x, dim, l, i)));
    for (int64_t i = 0; i < n; i++) sum += exp(view_get(x, at(x, dim, l, i)) - max);
    for (int64_t i = 0; i < n; i++) {
      double gi = view_get(g, at(x, dim, l, i)), yi = view_get(y, at(x, dim, l, i));
      gy += gi * yi, size += fabs(gi * yi), gs += gi, gsize += fabs(gi);
    }
    for (int64_t i = 0; i < n; i++) {
      int64_t k = at(x, dim, l, i);
      double off = view_get(x, k) - max, want = exp(off) / sum;
      near(view_get(y, k), want, want * (unit_of_compute * steps + out) + tiny, "softmax");
      near(view_get(log_y, k), off - log(sum), unit_of_compute * steps + out * fabs(off - log(sum)) + tiny,
           "log_softmax");
      double yi = view_get(y, k), gi = view_get(g, k), dwant = yi * (gi - gy),
             lwant = gi - exp(view_get(log_y, k)) * gs;
      near(view_get(dx, k), dwant, fabs(yi) * (fabs(gi) + size) * unit_of_compute * steps + out * fabs(dwant) + tiny,
           "softmax gradient");
      near(view_get(log_dx, k), lwant, (fabs(gi) + gsize) * unit_of_compute * steps + out * fabs(lwant) + tiny,
           "log_softmax gradient");
    }
  }
  view_free(x), view_free(y), view_free(log_y), view_free(g), view_free(dx), view_free(log_dx);
}

static void every_dtype_and_dimension(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SHAPE(1),         SITU_SHAPE(5),       SITU_SHAPE(130),
                                SITU_SHAPE(7, 1),      SITU_SHAPE(9, 17),   SITU_SHAPE(3, 300, 5),
                                SITU_SHAPE(2, 3, 700), SITU_SHAPE(4, 5000), SITU_SHAPE(5000, 4) };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int dtype = SITU_F16; dtype < SITU_DTYPES; dtype++)
      for (int dim = 0; dim < shapes[s].ndim; dim++) {
        check(dtype, shapes[s], dim, 0, -4, 4);
        check(dtype, shapes[s], dim, 0, -300, 300);
      }
}

/* Lengths around those at which a gpu changes its way, and rows that do not begin where memory is aligned. */
static void rows_of_any_length(void **state) {
  (void)state;
  const int64_t sizes[] = { 1,   2,    3,    4,    5,    7,    8,    9,    13,   15,   16,
                            17,  31,   32,   33,   127,  128,  129,  255,  256,  257,  511,
                            513, 1017, 1020, 1023, 1024, 1025, 8185, 8191, 8192, 8193, 12289 };
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int dtype = SITU_BF16; dtype < SITU_DTYPES; dtype++)
      for (int64_t askew = 0; askew < (test_device().kind == SITU_CUDA ? 8 : 2); askew += sizes[s] < 1000 ? 1 : 3)
        if (test_device().kind != SITU_OPENCL || dtype == SITU_F32)
          check(dtype, SITU_SHAPE(sizes[s] < 200 ? 11 : 2, sizes[s]), 1, askew, -4, 4);
}

/* Rows as torch has them: -inf is no chance at all; a row of nothing else, NaN or inf make the whole row NaN. */
static void special_rows(void **state) {
  (void)state;
  const int64_t sizes[] = { 3, 20, 200, 3000 };
  for (int s = 0; s < 4; s++)
    for (int dim = 0; dim < 2; dim++)
      for (int dtype = SITU_F16; dtype < SITU_DTYPES; dtype++) {
        int64_t n = sizes[s];
        situ_shape shape = dim ? SITU_SHAPE(5, n) : SITU_SHAPE(n, 5);
        test_view *x = view_new((situ_dtype)dtype, shape, VIEW_ROWS),
                  *y = view_new((situ_dtype)dtype, shape, VIEW_ROWS),
                  *log_y = view_new((situ_dtype)dtype, shape, VIEW_ROWS);
        for (int64_t i = 0; i < n; i++) {
          view_set(x, at(x, dim, 0, i), -INFINITY);
          view_set(x, at(x, dim, 1, i), i == n / 2 ? 0 : -INFINITY);
        }
        view_set(x, at(x, dim, 2, n - 1), NAN);
        view_set(x, at(x, dim, 3, 1), INFINITY);
        run(SITU_SOFTMAX, dim, x, NULL, y);
        run(SITU_LOG_SOFTMAX, dim, x, NULL, log_y);
        for (int64_t i = 0; i < n; i++) {
          for (int line = 0; line < 4; line++) {
            if (line == 1) continue;
            assert_true(isnan(view_get(y, at(x, dim, line, i))));
            assert_true(isnan(view_get(log_y, at(x, dim, line, i))));
          }
          near(view_get(y, at(x, dim, 1, i)), i == n / 2, 0, "only one");
          near(view_get(log_y, at(x, dim, 1, i)), i == n / 2 ? 0 : -INFINITY, 0, "only one");
          near(view_get(y, at(x, dim, 4, i)), 1 / (double)n, view_unit(dtype) * 12 / (double)n, "all the same");
        }
        view_free(x), view_free(y), view_free(log_y);
      }
}

/* Every 61st f32 with a result that is not 0 or infinite, through the kernel of this instruction set. */
static void exp_is_within_one_ulp(void **state) {
  (void)state;
  enum { COUNT = 1000 };
  const float zero = 0, one = 1;
  float x[COUNT], y[COUNT];
  for (int sign = 0; sign < 2; sign++)
    for (uint32_t bits = 0x2f800000u, last = sign ? 0x42ae0000u : 0x42b17217u; bits < last;) {
      int count = 0;
      for (; count < COUNT && bits < last; bits += 61) {
        memcpy(&x[count], &bits, sizeof bits);
        if (sign) x[count] = -x[count];
        count++;
      }
      situ__row_kernels_for(SITU__F32)->exp_affine(false, x, count, &zero, &one, &zero, NULL, y);
      for (int i = 0; i < count; i++) {
        double want = exp((double)x[i]), ulp = ldexp(1, ilogb(want) - 23);
        if (!(fabs((double)y[i] - want) <= ulp))
          fail_msg("exp(%.9g) is %.9g, want %.17g", (double)x[i], (double)y[i], want);
      }
    }
  const float special[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, 100, -100, 3e38f, -3e38f },
              wanted[] = { 1, 1, INFINITY, 0, NAN, INFINITY, 0, INFINITY, 0 };
  situ__row_kernels_for(SITU__F32)->exp_affine(false, special, 9, &zero, &one, &zero, NULL, y);
  for (int i = 0; i < 9; i++) near((double)y[i], (double)wanted[i], 0, "exp");
  /* A NaN may carry any bits; those that select the exponent must not turn it into a number. */
  for (uint32_t payload = 1; payload < 512; payload++) {
    uint32_t bits = 0x7fc00000u | payload;
    memcpy(x, &bits, sizeof bits);
    situ__row_kernels_for(SITU__F32)->exp_affine(false, x, 1, &zero, &one, &zero, NULL, y);
    assert_true(isnan(y[0]));
  }
}

static void same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  int before = situ__pool_threads();
  test_view *x = view_new(SITU_F32, SITU_SHAPE(70, 30, 600), VIEW_ROWS);
  view_random(x, 2, -3, 3);
  for (int dim = 0; dim < 3; dim++) {
    test_view *one = view_new(SITU_F32, SITU_SHAPE(70, 30, 600), VIEW_ROWS),
              *many = view_new(SITU_F32, SITU_SHAPE(70, 30, 600), VIEW_ROWS);
    situ__pool_set_threads(1);
    run(SITU_SOFTMAX, dim, x, NULL, one);
    for (int threads = 2; threads <= test_most_threads(); threads += 3) {
      situ__pool_set_threads(threads);
      run(SITU_SOFTMAX, dim, x, NULL, many);
      assert_true(view_same(one, many));
    }
    view_free(one), view_free(many);
  }
  situ__pool_set_threads(before);
  view_free(x);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_dtype_and_dimension),
    cmocka_unit_test(rows_of_any_length),
    cmocka_unit_test(special_rows),
    cmocka_unit_test(exp_is_within_one_ulp),
    cmocka_unit_test(same_bits_for_any_number_of_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
