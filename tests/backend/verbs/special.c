/* Element-wise functions where they are delicate: NaN, infinities, signed zeros, whole numbers at their ends, gradients,
   many threads. What is expected is what PyTorch gives.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/cpu/common/cpu.h"
#include "base/pool.h"
#include "situ/error.h"
#include "support/verbs/views.h"

#define INF INFINITY
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define NAME(name) #name,
static const char *const unary_name[] = { SITU_UNARY_NAMES(NAME) };
static const char *const binary_name[] = { SITU_BINARY_NAMES(NAME) };
#undef NAME

/* The same number, sign of zero included; NaN is NaN. */
static bool same(double a, double b) { return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b); }

static test_view *values(situ_dtype dtype, int n, const double *from) {
  test_view *v = view_new(dtype, SITU_SHAPE(n), VIEW_ROWS);
  for (int i = 0; i < n; i++) view_set(v, i, from[i]);
  return v;
}

/* ---- floats ---- */

static void one_unary(int op, const double *p, int n, const double *x, const double *want) {
  for (int dtype = SITU_F16; dtype <= SITU_F64; dtype++) {
    bool test =
        op == SITU_UNARY_isnan || op == SITU_UNARY_isinf || op == SITU_UNARY_logical_not || op >= SITU_UNARY_eq_scalar;
    test_view *in = values((situ_dtype)dtype, n, x),
              *out = view_new(test ? SITU_BOOL : (situ_dtype)dtype, SITU_SHAPE(n), VIEW_ROWS);
    situ_work work = {
      .op = op, .compute = (situ_dtype)dtype, .ins = 1, .outs = 1, .in = { &in->d }, .out = { &out->d }
    };
    if (p) memcpy(work.scalar, p, sizeof work.scalar);
    assert_int_equal(situ__cpu_unary(0, &work), SITU_OK);
    for (int i = 0; i < n; i++)
      if (!same(view_get(out, i), want[i]))
        fail_msg("%s of %s %g is %g, want %g", unary_name[op], situ_dtype_name((situ_dtype)dtype), x[i],
                 view_get(out, i), want[i]);
    view_free(in);
    view_free(out);
  }
}
#define UNARY(op, p, ...) one_unary(SITU_UNARY_##op, p, COUNT(x), x, (const double[]){ __VA_ARGS__ })

static void special_values_of_one(void **state) {
  (void)state;
  const double x[] = { NAN, INF, -INF, -0.0, 0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3, -3 };
  const double limits[4] = { -1, 1 }, turned[4] = { 1, -1 }, nan_limit[4] = { NAN, INF }, by_2[4] = { 2 },
               replaced[4] = { 7, 8, 9 };
  UNARY(sign, NULL, 0, 1, -1, 0, 0, 1, 1, 1, -1, -1, 1, -1);
  UNARY(abs, NULL, NAN, INF, INF, 0, 0, 0.5, 1.5, 2.5, 0.5, 1.5, 3, 3);
  UNARY(relu, NULL, NAN, INF, 0, -0.0, 0, 0.5, 1.5, 2.5, 0, 0, 3, 0);
  UNARY(floor, NULL, NAN, INF, -INF, -0.0, 0, 0, 1, 2, -1, -2, 3, -3);
  UNARY(ceil, NULL, NAN, INF, -INF, -0.0, 0, 1, 2, 3, -0.0, -1, 3, -3);
  UNARY(round, NULL, NAN, INF, -INF, -0.0, 0, 0, 2, 2, -0.0, -2, 3, -3);
  UNARY(trunc, NULL, NAN, INF, -INF, -0.0, 0, 0, 1, 2, -0.0, -1, 3, -3);
  UNARY(hardtanh, limits, NAN, 1, -1, -0.0, 0, 0.5, 1, 1, -0.5, -1, 1, -1);
  UNARY(clamp, limits, NAN, 1, -1, -0.0, 0, 0.5, 1, 1, -0.5, -1, 1, -1);
  UNARY(clamp, turned, NAN, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  UNARY(clamp, nan_limit, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN);
  UNARY(nan_to_num, replaced, 7, 8, 9, -0.0, 0, 0.5, 1.5, 2.5, -0.5, -1.5, 3, -3);
  UNARY(isnan, NULL, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  UNARY(isinf, NULL, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  UNARY(logical_not, NULL, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0);
  UNARY(remainder_scalar, by_2, NAN, NAN, NAN, -0.0, 0, 0.5, 1.5, 0.5, 1.5, 0.5, 1, 1);
  UNARY(fmod_scalar, by_2, NAN, NAN, NAN, -0.0, 0, 0.5, 1.5, 0.5, -0.5, -1.5, 1, -1);
}

/* The functions of the library at the ends of their domains. */
static void special_values_of_the_library(void **state) {
  (void)state;
  const double x[] = { NAN, INF, -INF, -0.0, 0.0, -2 }, z[] = { NAN, INF, -INF, -0.0, 0.0 };
  UNARY(sqrt, NULL, NAN, INF, NAN, -0.0, 0, NAN);
  UNARY(rsqrt, NULL, NAN, 0, NAN, -INF, INF, NAN);
  UNARY(reciprocal, NULL, NAN, 0, -0.0, -INF, INF, -0.5);
  UNARY(log, NULL, NAN, INF, NAN, -INF, -INF, NAN);
  UNARY(log1p, NULL, NAN, INF, NAN, -0.0, 0, NAN);
  UNARY(log2, NULL, NAN, INF, NAN, -INF, -INF, NAN);
#undef UNARY
#define UNARY(op, p, ...) one_unary(SITU_UNARY_##op, p, COUNT(z), z, (const double[]){ __VA_ARGS__ })
  const double beta_threshold[4] = { 1, 20 }, one[4] = { 1, 1, 1 };
  UNARY(exp, NULL, NAN, INF, 0, 1, 1);
  UNARY(expm1, NULL, NAN, INF, -1, -0.0, 0);
  UNARY(sin, NULL, NAN, NAN, NAN, -0.0, 0);
  UNARY(cos, NULL, NAN, NAN, NAN, 1, 1);
  UNARY(tanh, NULL, NAN, 1, -1, -0.0, 0);
  UNARY(erf, NULL, NAN, 1, -1, -0.0, 0);
  UNARY(tan, NULL, NAN, NAN, NAN, -0.0, 0);
  UNARY(asin, NULL, NAN, NAN, NAN, -0.0, 0);
  UNARY(sinh, NULL, NAN, INF, -INF, -0.0, 0);
  UNARY(cosh, NULL, NAN, INF, INF, 1, 1);
  UNARY(asinh, NULL, NAN, INF, -INF, -0.0, 0);
  UNARY(acosh, NULL, NAN, INF, NAN, NAN, NAN);
  UNARY(atanh, NULL, NAN, NAN, NAN, -0.0, 0);
  UNARY(exp2, NULL, NAN, INF, 0, 1, 1);
  UNARY(log10, NULL, NAN, INF, NAN, -INF, -INF);
  UNARY(erfc, NULL, NAN, 0, 2, 1, 1);
  UNARY(erfinv, NULL, NAN, NAN, NAN, -0.0, 0);
  UNARY(lgamma, NULL, NAN, INF, INF, INF, INF);
  UNARY(polygamma, NULL, NAN, INF, NAN, INF, -INF);
  UNARY(polygamma, one, NAN, 0, NAN, INF, INF);
  UNARY(i0, NULL, NAN, NAN, NAN, 1, 1);
  UNARY(special_entr, NULL, NAN, -INF, -INF, 0, 0);
  UNARY(sinc, NULL, NAN, NAN, NAN, 1, 1);
  UNARY(sigmoid, NULL, NAN, 1, 0, 0.5, 0.5);
  UNARY(silu, NULL, NAN, INF, NAN, -0.0, 0);
  UNARY(gelu, NULL, NAN, INF, NAN, -0.0, 0);
  UNARY(gelu_tanh, NULL, NAN, INF, NAN, -0.0, 0);
  UNARY(quick_gelu, NULL, NAN, INF, NAN, -0.0, 0);
  UNARY(mish, NULL, NAN, INF, NAN, -0.0, 0);
  UNARY(hardswish, NULL, NAN, INF, NAN, -0.0, 0);
  UNARY(hardsigmoid, NULL, NAN, 1, 0, 0.5, 0.5);
  UNARY(softsign, NULL, NAN, NAN, NAN, -0.0, 0);
  UNARY(tanhshrink, NULL, NAN, INF, -INF, 0, 0);
  UNARY(softshrink, one, NAN, INF, -INF, -0.0, 0);
  UNARY(hardshrink, one, NAN, INF, -INF, 0, 0);
  UNARY(elu, one, NAN, INF, -1, -0.0, 0);
  UNARY(leaky_relu, one, NAN, INF, -INF, -0.0, 0);
  test_view *v = view_new(SITU_F32, SITU_SHAPE(1), VIEW_ROWS);
  situ_work work = {
    .op = SITU_UNARY_softplus, .compute = SITU_F32, .ins = 1, .outs = 1, .in = { &v->d }, .out = { &v->d }
  };
  memcpy(work.scalar, beta_threshold, sizeof work.scalar);
  const double from[] = { INF, -INF, 21, 1e30 }, to[] = { INF, 0, 21, 1e30f };
  for (int i = 0; i < 4; i++) {
    view_set(v, 0, from[i]);
    assert_int_equal(situ__cpu_unary(0, &work), SITU_OK);
    assert_true(same(view_get(v, 0), to[i]));
  }
  view_free(v);
}

static void one_binary(int op, situ_dtype dtype, bool test, int n, const double *a, const double *b,
                       const double *want) {
  test_view *x = values(dtype, n, a), *y = values(dtype, n, b),
            *out = view_new(test ? SITU_BOOL : dtype, SITU_SHAPE(n), VIEW_ROWS);
  situ_work work = { .op = op, .compute = dtype, .ins = 2, .outs = 1, .in = { &x->d, &y->d }, .out = { &out->d } };
  assert_int_equal(situ__cpu_binary(0, &work), SITU_OK);
  for (int i = 0; i < n; i++)
    if (!same(view_get(out, i), want[i]))
      fail_msg("%s of %s %g, %g is %g, want %g", binary_name[op], situ_dtype_name(dtype), a[i], b[i], view_get(out, i),
               want[i]);
  view_free(x);
  view_free(y);
  view_free(out);
}
static void each_float(int op, bool test, int n, const double *a, const double *b, const double *want) {
  for (int dtype = SITU_F16; dtype <= SITU_F64; dtype++) one_binary(op, (situ_dtype)dtype, test, n, a, b, want);
}
#define BINARY(op, test, ...) each_float(SITU_BINARY_##op, test, COUNT(a), a, b, (const double[]){ __VA_ARGS__ })

static void special_values_of_two(void **state) {
  (void)state;
  {
    const double a[] = { -0.0, 0.0, NAN, 1, INF, -INF }, b[] = { 0.0, -0.0, 1, NAN, 1, 1 };
    BINARY(maximum, false, -0.0, 0, NAN, NAN, INF, 1);
    BINARY(minimum, false, -0.0, 0, NAN, NAN, 1, -INF);
    BINARY(eq, true, 1, 1, 0, 0, 0, 0);
    BINARY(ne, true, 0, 0, 1, 1, 1, 1);
    BINARY(lt, true, 0, 0, 0, 0, 0, 1);
    BINARY(le, true, 1, 1, 0, 0, 0, 1);
    BINARY(gt, true, 0, 0, 0, 0, 1, 0);
    BINARY(ge, true, 1, 1, 0, 0, 1, 0);
    BINARY(logical_and, true, 0, 0, 1, 1, 1, 1);
    BINARY(logical_xor, true, 0, 0, 0, 0, 0, 0);
  }
  const double a[] = { 7, -7, 7, -7, 7, -7, 0, INF, 5, -5, 0, -0.0, NAN },
               b[] = { 3, 3, -3, -3, 0, 0, 0, 3, INF, INF, 5, 5, 2 };
  BINARY(fmod, false, 1, -1, 1, -1, NAN, NAN, NAN, NAN, 5, -5, 0, -0.0, NAN);
  BINARY(remainder, false, 1, 2, -2, -1, NAN, NAN, NAN, NAN, 5, INF, 0, -0.0, NAN);
  BINARY(div_trunc, false, 2, -2, -2, 2, INF, -INF, NAN, INF, 0, -0.0, 0, -0.0, NAN);
  BINARY(div_floor, false, 2, -3, -3, 2, INF, -INF, NAN, NAN, 0, -1, 0, -0.0, NAN);
}

static void special_values_of_functions(void **state) {
  (void)state;
  const double a[] = { 0, -0.0, INF, INF, -INF, 0, NAN, 1 }, b[] = { -0.0, 0, INF, -INF, -INF, NAN, INF, 0 };
  BINARY(copysign, false, -0.0, 0, INF, -INF, -INF, 0, NAN, 1);
  BINARY(hypot, false, 0, 0, INF, INF, INF, NAN, INF, 1);
  BINARY(xlogy, false, 0, 0, INF, NAN, NAN, NAN, NAN, -INF);
  const double c[] = { -INF, INF, INF, 1000, NAN }, d[] = { -INF, INF, -INF, -1000, 1 };
  each_float(SITU_BINARY_logaddexp, false, COUNT(c), c, d, (const double[]){ -INF, INF, INF, 1000, NAN });
  each_float(SITU_BINARY_logaddexp2, false, COUNT(c), c, d, (const double[]){ -INF, INF, INF, 1000, NAN });
}

/* ---- whole numbers ---- */

static void whole_numbers(void **state) {
  (void)state;
  const double a[] = { 7, -7, 7, -7, 0 }, b[] = { 3, 3, -3, -3, 5 };
  const double base[] = { 2, -1, 1, -1, 0, 3, -2, 2 }, exponent[] = { -1, -1, -3, -2, 3, 0, 3, 10 };
  for (int dtype = SITU_I8; dtype <= SITU_I64; dtype++) {
    situ_dtype t = (situ_dtype)dtype;
    one_binary(SITU_BINARY_fmod, t, false, 5, a, b, (const double[]){ 1, -1, 1, -1, 0 });
    one_binary(SITU_BINARY_remainder, t, false, 5, a, b, (const double[]){ 1, 2, -2, -1, 0 });
    one_binary(SITU_BINARY_div_floor, t, false, 5, a, b, (const double[]){ 2, -3, -3, 2, 0 });
    one_binary(SITU_BINARY_div_trunc, t, false, 5, a, b, (const double[]){ 2, -2, -2, 2, 0 });
    one_binary(SITU_BINARY_pow, t, false, 8, base, exponent,
               (const double[]){ 0, -1, 1, 1, 0, 1, -8, t == SITU_I8 ? 0 : 1024 });
    /* The least number has no positive: it wraps, and traps nowhere. */
    const double least = t == SITU_I8    ? INT8_MIN
                         : t == SITU_I16 ? INT16_MIN
                         : t == SITU_I32 ? INT32_MIN
                                         : (double)INT64_MIN;
    one_binary(SITU_BINARY_div_trunc, t, false, 1, &least, (const double[]){ -1 }, &least);
    one_binary(SITU_BINARY_div_floor, t, false, 1, &least, (const double[]){ -1 }, &least);
    one_binary(SITU_BINARY_remainder, t, false, 1, &least, (const double[]){ -1 }, (const double[]){ 0 });
    one_binary(SITU_BINARY_fmod, t, false, 1, &least, (const double[]){ -1 }, (const double[]){ 0 });
    one_binary(SITU_BINARY_add, t, false, 1, &least, &least, (const double[]){ 0 });
    one_binary(SITU_BINARY_mul, t, false, 1, &least, (const double[]){ -1 }, &least);
    one_binary(SITU_BINARY_gcd, t, false, 1, &least, &least, &least);
    one_binary(SITU_BINARY_lcm, t, false, 1, &least, (const double[]){ -1 }, &least);
    const double shifted[] = { 5, -5, 5, -5, 0 }, by[] = { 1, 1, 64, -1, 3 };
    one_binary(SITU_BINARY_bitwise_left_shift, t, false, 5, shifted, by, (const double[]){ 10, -10, 0, 0, 0 });
    one_binary(SITU_BINARY_bitwise_right_shift, t, false, 5, shifted, by, (const double[]){ 2, -3, 0, -1, 0 });
  }
}

static void division_by_zero_is_refused(void **state) {
  (void)state;
  const int ops[] = { SITU_BINARY_div_trunc, SITU_BINARY_div_floor, SITU_BINARY_fmod, SITU_BINARY_remainder };
  situ_error_mode(SITU_ERROR_QUIET);
  for (int dtype = SITU_U8; dtype <= SITU_I64; dtype++)
    for (int k = 0; k < 4; k++)
      for (int layout = 0; layout < VIEW_LAYOUTS; layout++) {
        test_view *a = view_new((situ_dtype)dtype, SITU_SHAPE(40, 60), (view_layout)layout);
        test_view *b = view_new((situ_dtype)dtype, SITU_SHAPE(40, 60), (view_layout)layout);
        test_view *y = view_new((situ_dtype)dtype, SITU_SHAPE(40, 60), VIEW_ROWS);
        view_random(a, 1, 1, 9);
        view_random(b, 2, 1, 9);
        view_random(y, 3, 1, 9);
        view_set(b, 2399, 0); /* the last of all */
        double before = view_get(y, 0);
        situ_work work = {
          .op = ops[k], .compute = (situ_dtype)dtype, .ins = 2, .outs = 1, .in = { &a->d, &b->d }, .out = { &y->d }
        };
        assert_int_equal(situ__cpu_binary(0, &work), SITU_E_ARG);
        assert_non_null(strstr(situ_error_message(), "division by zero"));
        assert_true(view_get(y, 0) == before);
        situ_error_clear();
        view_set(b, 2399, 1);
        assert_int_equal(situ__cpu_binary(0, &work), SITU_OK);
        if (k >= 2) {
          work.op = k == 2 ? SITU_UNARY_fmod_scalar : SITU_UNARY_remainder_scalar;
          work.ins = 1;
          assert_int_equal(situ__cpu_unary(0, &work), SITU_E_ARG);
          situ_error_clear();
        }
        view_free(a);
        view_free(b);
        view_free(y);
      }
}

/* ---- gradients ---- */

/* Against the function itself, by central differences in f64, away from its kinks. */
static void gradients_follow_the_functions(void **state) {
  (void)state;
  enum { N = 40 };
  const double step = 1e-6;
  for (int op = 0; op < SITU_UNARIES; op++) {
    const double p[4] = { op == SITU_UNARY_polygamma ? 2 : 0.75, 2.25, -3 };
    test_view *x = view_new(SITU_F64, SITU_SHAPE(N), VIEW_ROWS), *y = view_new(SITU_F64, SITU_SHAPE(N), VIEW_ROWS);
    test_view *up = view_new(SITU_F64, SITU_SHAPE(N), VIEW_ROWS), *down = view_new(SITU_F64, SITU_SHAPE(N), VIEW_ROWS);
    test_view *g = view_new(SITU_F64, SITU_SHAPE(N), VIEW_GAPS), *dx = view_new(SITU_F64, SITU_SHAPE(N), VIEW_GAPS);
    bool positive = op == SITU_UNARY_log || op == SITU_UNARY_log2 || op == SITU_UNARY_sqrt || op == SITU_UNARY_rsqrt ||
                    op == SITU_UNARY_pow_scalar;
    positive |= op == SITU_UNARY_log10 || op == SITU_UNARY_lgamma || op == SITU_UNARY_polygamma;
    bool small = op == SITU_UNARY_log1p;
    const bool unit = op == SITU_UNARY_tan || op == SITU_UNARY_asin || op == SITU_UNARY_acos ||
                      op == SITU_UNARY_atanh || op == SITU_UNARY_erfinv;
    const double from_1 = op == SITU_UNARY_acosh ? 1 : 0;
    for (int i = 0; i < N; i++)
      view_set(x, i,
               unit ? -0.97 + 0.04 * i
                    : from_1 +
                          (positive || from_1 > 0 ? 0.21
                           : small                ? -0.79
                                                  : -3.97) +
                          0.2 * i);
    view_random(g, 1, -2, 2);
    test_view *const from[3] = { x, up, down }, *const to[3] = { y, up, down };
    situ_status status = SITU_OK;
    for (int k = 0; k < 3 && status == SITU_OK; k++) {
      for (int i = 0; k && i < N; i++) view_set(from[k], i, view_get(x, i) + (k == 1 ? step : -step));
      situ_work work = {
        .op = op, .compute = SITU_F64, .ins = 1, .outs = 1, .in = { &from[k]->d }, .out = { &to[k]->d }
      };
      memcpy(work.scalar, p, sizeof p);
      bool test = op == SITU_UNARY_isnan || op == SITU_UNARY_isinf || op == SITU_UNARY_logical_not ||
                  op >= SITU_UNARY_eq_scalar;
      status = test ? SITU_E_UNSUPPORTED : situ__cpu_unary(0, &work);
    }
    situ_work work = {
      .op = op, .compute = SITU_F64, .ins = 3, .outs = 1, .in = { &x->d, &y->d, &g->d }, .out = { &dx->d }
    };
    memcpy(work.scalar, p, sizeof p);
    if (status != SITU_OK) assert_int_equal(situ__cpu_unary_grad(0, &work), SITU_E_UNSUPPORTED);
    else assert_int_equal(situ__cpu_unary_grad(0, &work), SITU_OK);
    for (int i = 0; status == SITU_OK && i < N; i++) {
      double want = view_get(g, i) * (view_get(up, i) - view_get(down, i)) / (2 * step), got = view_get(dx, i);
      if (fabs(got - want) > 1e-5 + 1e-6 * fabs(want))
        fail_msg("gradient of %s at %g: %.12g, want %.12g", unary_name[op], view_get(x, i), got, want);
    }
    test_view *all[] = { x, y, up, down, g, dx };
    for (int k = 0; k < 6; k++) view_free(all[k]);
  }
}

/* At kinks and at NaN, as PyTorch has it. */
static void gradients_at_special_values(void **state) {
  (void)state;
  const double x[] = { NAN, -2, -1, -0.0, 0, 0.5, 1, 2, INF, -INF }, limits[4] = { -1, 1 }, slope[4] = { 0.125 },
               one[4] = { 1 };
  static const struct {
    int op;
    double want[10];
  } rows[] = {
    { SITU_UNARY_relu, { 1, 0, 0, 0, 0, 1, 1, 1, 1, 0 } },
    { SITU_UNARY_abs, { 0, -1, -1, 0, 0, 1, 1, 1, 1, -1 } },
    { SITU_UNARY_clamp, { 0, 0, 0, 1, 1, 1, 0, 0, 0, 0 } },
    { SITU_UNARY_hardtanh, { 1, 0, 0, 1, 1, 1, 0, 0, 0, 0 } },
    { SITU_UNARY_hardswish, { NAN, -1.0 / 6, 1.0 / 6, 0.5, 0.5, 2.0 / 3, 5.0 / 6, 7.0 / 6, 1, 0 } },
    { SITU_UNARY_hardsigmoid, { 0, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 1.0 / 6, 0, 0 } },
    { SITU_UNARY_softshrink, { 1, 1, 0, 0, 0, 0, 0, 1, 1, 1 } },
    { SITU_UNARY_hardshrink, { 1, 1, 0, 0, 0, 0, 0, 1, 1, 1 } },
    { SITU_UNARY_leaky_relu, { 0.125, 0.125, 0.125, 0.125, 0.125, 1, 1, 1, 1, 0.125 } },
    { SITU_UNARY_nan_to_num, { 0, 1, 1, 1, 1, 1, 1, 1, 0, 0 } },
    { SITU_UNARY_square, { NAN, -4, -2, -0.0, 0, 1, 2, 4, INF, -INF } },
    { SITU_UNARY_sign, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } },
    { SITU_UNARY_sigmoid, { NAN, 0.104993585, 0.196611933, 0.25, 0.25, 0.235003712, 0.196611933, 0.104993585, 0, 0 } },
  };
  for (int r = 0; r < COUNT(rows); r++) {
    test_view *in = values(SITU_F32, 10, x), *y = values(SITU_F32, 10, x),
              *g = values(SITU_F32, 10, (const double[]){ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 });
    situ_work work = { .op = rows[r].op, .compute = SITU_F32, .ins = 1, .outs = 1, .in = { &in->d }, .out = { &y->d } };
    const bool shrinks = rows[r].op == SITU_UNARY_softshrink || rows[r].op == SITU_UNARY_hardshrink;
    memcpy(work.scalar, rows[r].op == SITU_UNARY_leaky_relu ? slope : shrinks ? one : limits, sizeof limits);
    assert_int_equal(situ__cpu_unary(0, &work), SITU_OK);
    work.ins = 3;
    work.in[1] = &y->d;
    work.in[2] = &g->d;
    work.out[0] = &g->d; /* in place */
    assert_int_equal(situ__cpu_unary_grad(0, &work), SITU_OK);
    for (int i = 0; i < 10; i++) {
      double want = rows[r].want[i], got = view_get(g, i);
      if (!(isnan(want) ? isnan(got) : got == want || fabs(got - want) < 1e-7))
        fail_msg("gradient of %s at %g: %g, want %g", unary_name[rows[r].op], x[i], got, want);
    }
    view_free(in);
    view_free(y);
    view_free(g);
  }
}

static void a_gradient_says_what_it_lacks(void **state) {
  (void)state;
  situ_error_mode(SITU_ERROR_QUIET);
  test_view *v = view_new(SITU_F32, SITU_SHAPE(4), VIEW_ROWS);
  const int ops[] = { SITU_UNARY_sin, SITU_UNARY_exp, SITU_UNARY_neg };
  for (int k = 0; k < 3; k++)
    for (int has = 0; has < 4; has++) {
      situ_work work = { .op = ops[k],
                         .compute = SITU_F32,
                         .ins = 3,
                         .outs = 1,
                         .out = { &v->d },
                         .in = { has & 1 ? &v->d : NULL, has & 2 ? &v->d : NULL, &v->d } };
      bool good = k == 2 || (k == 0 ? has & 1 : has & 2);
      assert_int_equal(situ__cpu_unary_grad(0, &work), good ? SITU_OK : SITU_E_ARG);
      situ_error_clear();
    }
  view_free(v);
}

/* ---- threads ---- */

static void results_do_not_depend_on_threads(void **state) {
  (void)state;
  const situ_shape shape = SITU_SHAPE(331, 517);
  const situ_dtype types[] = { SITU_F32, SITU_F64, SITU_BF16, SITU_I32 };
  int before = situ__pool_threads();
  for (int t = 0; t < 4; t++)
    for (int layout = 0; layout < VIEW_LAYOUTS; layout++) {
      test_view *a = view_new(types[t], shape, (view_layout)layout), *b = view_new(types[t], shape, VIEW_ROWS);
      test_view *y[3];
      view_random(a, 1, 0.5, 9);
      view_random(b, 2, 0.5, 4);
      for (int k = 0; k < 3; k++) {
        assert_true(situ__pool_set_threads(k == 0 ? 1 : k == 1 ? 2 : 5));
        y[k] = view_new(types[t], shape, VIEW_COLUMNS);
        situ_work work = {
          .op = SITU_BINARY_pow, .compute = types[t], .ins = 2, .outs = 1, .in = { &a->d, &b->d }, .out = { &y[k]->d }
        };
        assert_int_equal(situ__cpu_binary(0, &work), SITU_OK);
        if (situ_dtype_is_floating(types[t])) {
          work.op = SITU_UNARY_tanh;
          work.ins = 1;
          work.in[0] = &y[k]->d;
          assert_int_equal(situ__cpu_unary(0, &work), SITU_OK);
        }
        assert_true(view_same(y[0], y[k]));
      }
      for (int64_t i = 0; i < a->d.numel; i += 997) {
        double want = pow(view_get(a, i), view_get(b, i)), got = view_get(y[0], i);
        if (situ_dtype_is_floating(types[t])) want = tanh(want);
        if (fabs(got - want) > 1e-2 * want) fail_msg("element %d: %g, want %g", (int)i, got, want);
      }
      for (int k = 0; k < 3; k++) view_free(y[k]);
      view_free(a);
      view_free(b);
    }
  assert_true(situ__pool_set_threads(before));
}

/* Large enough for results that go past the caches, and for operands that lie across the result. */
static void large_operands(void **state) {
  (void)state;
  const situ_dtype types[] = { SITU_F32, SITU_I64, SITU_F16 };
  for (int t = 0; t < 3; t++) {
    const situ_shape shape = SITU_SHAPE(2900, t == 1 ? 1500 : 2901);
    test_view *a = view_new(types[t], shape, VIEW_COLUMNS), *b = view_new(types[t], shape, VIEW_ROWS);
    test_view *y = view_new(types[t], shape, VIEW_ROWS);
    const int64_t n = a->d.numel;
    for (int64_t i = 0; i < n; i++) {
      view_set(a, i, (double)(i % 1021));
      view_set(b, i, (double)(i % 509));
    }
    situ_work work = {
      .op = SITU_BINARY_sub, .compute = types[t], .ins = 2, .outs = 1, .in = { &a->d, &b->d }, .out = { &y->d }
    };
    assert_int_equal(situ__cpu_binary(0, &work), SITU_OK);
    for (int64_t i = 0; i < n; i++) assert_true(view_get(y, i) == (double)(i % 1021 - i % 509));
    /* One that does not begin at a cache line. */
    situ_view_desc shifted = y->d, from = b->d;
    shifted.ndim = from.ndim = 1;
    shifted.size[0] = from.size[0] = shifted.numel = from.numel = n - 3;
    shifted.stride[0] = from.stride[0] = 1;
    shifted.offset = 3;
    work = (situ_work){
      .op = SITU_UNARY_neg, .compute = types[t], .ins = 1, .outs = 1, .in = { &from }, .out = { &shifted }
    };
    assert_int_equal(situ__cpu_unary(0, &work), SITU_OK);
    for (int64_t i = 3; i < n; i++) assert_true(view_get(y, i) == -(double)((i - 3) % 509));
    assert_true(view_get(y, 2) == 0);
    work = (situ_work){ .ins = 1, .outs = 1, .in = { &from }, .out = { &shifted } };
    assert_int_equal(situ__cpu_copy(0, &work), SITU_OK);
    for (int64_t i = 3; i < n; i++) assert_true(view_get(y, i) == (double)((i - 3) % 509));
    view_free(a);
    view_free(b);
    view_free(y);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(special_values_of_one),
    cmocka_unit_test(special_values_of_the_library),
    cmocka_unit_test(special_values_of_two),
    cmocka_unit_test(special_values_of_functions),
    cmocka_unit_test(whole_numbers),
    cmocka_unit_test(division_by_zero_is_refused),
    cmocka_unit_test(gradients_follow_the_functions),
    cmocka_unit_test(gradients_at_special_values),
    cmocka_unit_test(a_gradient_says_what_it_lacks),
    cmocka_unit_test(results_do_not_depend_on_threads),
    cmocka_unit_test(large_operands),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
