/* Functions of one, two and three tensors against plain C: every dtype, layouts, broadcasting, in place, special values.
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

#define NAME(name) #name,
static const char *const unary_name[] = { SITU_UNARY_NAMES(NAME) };
static const char *const binary_name[] = { SITU_BINARY_NAMES(NAME) };
#undef NAME
static const view_layout layouts[] = { VIEW_ROWS, VIEW_COLUMNS, VIEW_GAPS };

/* ---- plain C ---- */

static double sign(double x) { return (x > 0) - (x < 0); }
static double modulo(double a, double b) {
  double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static double larger(double a, double b) { return isnan(a) || isnan(b) ? NAN : fmax(a, b); }
static double smaller(double a, double b) { return isnan(a) || isnan(b) ? NAN : fmin(a, b); }

/* The largest whole number that divides both; b is not 0. */
static double divisor(double a, double b) {
  double d = fabs(b);
  while (fmod(a, d) != 0 || fmod(b, d) != 0) d--;
  return d;
}

static double binary(int op, double a, double b) {
  switch (op) {
  case SITU_BINARY_add: return a + b;
  case SITU_BINARY_sub: return a - b;
  case SITU_BINARY_mul: return a * b;
  case SITU_BINARY_div: return a / b;
  case SITU_BINARY_div_trunc: return trunc(a / b);
  case SITU_BINARY_div_floor: return floor(a / b);
  case SITU_BINARY_pow: return pow(a, b);
  case SITU_BINARY_fmod: return fmod(a, b);
  case SITU_BINARY_remainder: return modulo(a, b);
  case SITU_BINARY_maximum: return larger(a, b);
  case SITU_BINARY_minimum: return smaller(a, b);
  case SITU_BINARY_eq: return a == b;
  case SITU_BINARY_ne: return a != b;
  case SITU_BINARY_lt: return a < b;
  case SITU_BINARY_le: return a <= b;
  case SITU_BINARY_gt: return a > b;
  case SITU_BINARY_ge: return a >= b;
  case SITU_BINARY_logical_and: return a != 0 && b != 0;
  case SITU_BINARY_logical_or: return a != 0 || b != 0;
  case SITU_BINARY_logical_xor: return (a != 0) != (b != 0);
  case SITU_BINARY_bitwise_and: return (double)((int64_t)a & (int64_t)b);
  case SITU_BINARY_bitwise_or: return (double)((int64_t)a | (int64_t)b);
  case SITU_BINARY_bitwise_xor: return (double)((int64_t)a ^ (int64_t)b);
  case SITU_BINARY_bitwise_left_shift: return a * exp2(b);
  case SITU_BINARY_bitwise_right_shift: return floor(a / exp2(b));
  case SITU_BINARY_gcd: return divisor(a, b);
  case SITU_BINARY_lcm: return fabs(a) / divisor(a, b) * fabs(b);
  case SITU_BINARY_atan2: return atan2(a, b);
  case SITU_BINARY_hypot: return hypot(a, b);
  case SITU_BINARY_copysign: return copysign(a, b);
  case SITU_BINARY_nextafter: return nextafter(a, b);
  case SITU_BINARY_xlogy: return a * log(b);
  case SITU_BINARY_xlog1py: return a * log1p(b);
  case SITU_BINARY_logaddexp: return log(exp(a) + exp(b));
  default: return log2(exp2(a) + exp2(b));
  }
}

static double relu6(double x) { return fmin(fmax(x, 0), 6); }

/* p is { 0.5, 2, -3 }, or { 2, 3, -3 } for whole numbers. */
static double unary(int op, double x, const double *p) {
  switch (op) {
  case SITU_UNARY_neg: return -x;
  case SITU_UNARY_abs: return fabs(x);
  case SITU_UNARY_sign: return sign(x);
  case SITU_UNARY_exp: return exp(x);
  case SITU_UNARY_expm1: return expm1(x);
  case SITU_UNARY_log: return log(x);
  case SITU_UNARY_log1p: return log1p(x);
  case SITU_UNARY_log2: return log2(x);
  case SITU_UNARY_sqrt: return sqrt(x);
  case SITU_UNARY_rsqrt: return 1 / sqrt(x);
  case SITU_UNARY_square: return x * x;
  case SITU_UNARY_reciprocal: return 1 / x;
  case SITU_UNARY_sin: return sin(x);
  case SITU_UNARY_cos: return cos(x);
  case SITU_UNARY_tanh: return tanh(x);
  case SITU_UNARY_sigmoid: return 1 / (1 + exp(-x));
  case SITU_UNARY_relu: return x > 0 ? x : 0;
  case SITU_UNARY_leaky_relu: return x > 0 ? x : p[0] * x;
  case SITU_UNARY_elu: return x > 0 ? x * p[2] : p[0] * expm1(x * p[1]);
  case SITU_UNARY_gelu: return 0.5 * x * (1 + erf(x / sqrt(2)));
  case SITU_UNARY_gelu_tanh: return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
  case SITU_UNARY_silu: return x / (1 + exp(-x));
  case SITU_UNARY_quick_gelu: return x / (1 + exp(-1.702 * x));
  case SITU_UNARY_mish: return x * tanh(log1p(exp(x)));
  case SITU_UNARY_hardswish: return x * relu6(x + 3) / 6;
  case SITU_UNARY_hardsigmoid: return relu6(x + 3) / 6;
  case SITU_UNARY_softsign: return x / (1 + fabs(x));
  case SITU_UNARY_tanhshrink: return x - tanh(x);
  case SITU_UNARY_softshrink: return fabs(x) > p[0] ? x - p[0] * sign(x) : 0;
  case SITU_UNARY_hardshrink: return fabs(x) > p[0] ? x : 0;
  case SITU_UNARY_softplus: return x * p[0] > p[1] ? x : log1p(exp(x * p[0])) / p[0];
  case SITU_UNARY_hardtanh:
  case SITU_UNARY_clamp: return x < p[0] ? p[0] : x > p[1] ? p[1] : x;
  case SITU_UNARY_erf: return erf(x);
  case SITU_UNARY_tan: return tan(x);
  case SITU_UNARY_asin: return asin(x);
  case SITU_UNARY_acos: return acos(x);
  case SITU_UNARY_atan: return atan(x);
  case SITU_UNARY_sinh: return sinh(x);
  case SITU_UNARY_cosh: return cosh(x);
  case SITU_UNARY_asinh: return asinh(x);
  case SITU_UNARY_acosh: return acosh(x);
  case SITU_UNARY_atanh: return atanh(x);
  case SITU_UNARY_exp2: return exp2(x);
  case SITU_UNARY_log10: return log10(x);
  case SITU_UNARY_erfc: return erfc(x);
  case SITU_UNARY_lgamma: return lgamma(x);
  case SITU_UNARY_sinc: return x == 0 ? 1 : sin(acos(-1) * x) / (acos(-1) * x);
  case SITU_UNARY_special_entr: return x < 0 ? -INFINITY : x == 0 ? 0 : -x * log(x);
  case SITU_UNARY_logit: return log(fmin(fmax(x, p[0]), p[1]) / (1 - fmin(fmax(x, p[0]), p[1])));
  case SITU_UNARY_floor: return floor(x);
  case SITU_UNARY_ceil: return ceil(x);
  case SITU_UNARY_round: return rint(x);
  case SITU_UNARY_trunc: return trunc(x);
  case SITU_UNARY_isnan: return isnan(x);
  case SITU_UNARY_isinf: return isinf(x) != 0;
  case SITU_UNARY_logical_not: return x == 0;
  case SITU_UNARY_nan_to_num: return x;
  case SITU_UNARY_bitwise_not: return -x - 1;
  case SITU_UNARY_rsub_scalar: return p[0] - x;
  case SITU_UNARY_scalar_pow: return pow(p[0], x);
  case SITU_UNARY_add_scalar: return x + p[0];
  case SITU_UNARY_mul_scalar: return x * p[0];
  case SITU_UNARY_div_scalar: return x / p[0];
  case SITU_UNARY_pow_scalar: return pow(x, p[0]);
  case SITU_UNARY_fmod_scalar: return fmod(x, p[0]);
  case SITU_UNARY_remainder_scalar: return modulo(x, p[0]);
  default: return binary(op - SITU_UNARY_eq_scalar + SITU_BINARY_eq, x, p[0]);
  }
}

static bool unary_is_test(int op) {
  return op == SITU_UNARY_isnan || op == SITU_UNARY_isinf || op == SITU_UNARY_logical_not || op >= SITU_UNARY_eq_scalar;
}
static bool binary_is_test(int op) { return op >= SITU_BINARY_eq && op <= SITU_BINARY_logical_xor; }

/* Half a unit of the dtype for its rounding, and five of the compute type, at `scale`, for the function (tests/backend/verbs/math.c is
   exact about those). */
static bool close_to(double got, double want, double scale, situ_dtype dtype) {
  static const double unit[SITU_DTYPES] = { [SITU_F16] = 0x1p-11, [SITU_BF16] = 0x1p-8 };
  double unit_of_compute = dtype == SITU_F64 ? DBL_EPSILON : FLT_EPSILON;
  if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
  if (!situ_dtype_is_floating(dtype)) return got == want;
  return fabs(got - want) <=
         1.01 * unit[dtype] * fabs(want) + 5 * unit_of_compute * scale + (dtype == SITU_F16 ? 0x1p-25 : 1e-38);
}

/* Whole numbers are stored wrapped. */
static double wrapped(double value, situ_dtype dtype) {
  int64_t v = situ_dtype_is_floating(dtype) ? 0 : (int64_t)value;
  switch (dtype) {
  case SITU_BOOL: return v != 0;
  case SITU_U8: return (uint8_t)v;
  case SITU_I8: return (int8_t)v;
  case SITU_I16: return (int16_t)v;
  case SITU_I32: return (int32_t)v;
  default: return value;
  }
}

/* ---- one call ---- */

static situ_status call(situ_status (*kernel)(int, const situ_work *), int op, situ_dtype compute, const double *p,
                        const test_view *y, int ins, const test_view *const *x) {
  situ_work work = { .op = op, .compute = compute, .ins = ins, .outs = 1, .out = { &y->d } };
  for (int k = 0; k < ins; k++) work.in[k] = x[k] ? &x[k]->d : NULL;
  for (int k = 0; p && k < 4; k++) work.scalar[k] = p[k];
  return kernel(0, &work);
}
#define IN(...) \
  (const test_view *const[]) { __VA_ARGS__ }

/* A copy of v with other sizes for a dimension it repeats. */
static test_view repeated(const test_view *v, situ_shape shape) {
  test_view r = *v;
  int missing = shape.ndim - v->d.ndim;
  r.d.ndim = (uint8_t)shape.ndim;
  r.d.numel = 1;
  for (int d = 0; d < shape.ndim; d++) {
    bool same = d >= missing && v->d.size[d - missing] == shape.dim[d];
    r.d.size[d] = shape.dim[d];
    r.d.stride[d] = same ? v->d.stride[d - missing] : 0;
    r.d.numel *= shape.dim[d];
  }
  r.d.contiguous = r.d.numel == v->d.numel && v->d.contiguous;
  r.d.storage = (situ_storage *)(uintptr_t)&v->storage;
  return r;
}

static const situ_shape shapes[] = { { 0, { 0 } },     { 1, { 1 } },        { 1, { 7 } },         { 1, { 1030 } },
                                     { 2, { 5, 33 } }, { 3, { 3, 1, 17 } }, { 4, { 2, 3, 4, 5 } } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- values ---- */

static void unary_functions(void **state) {
  (void)state;
  for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++) {
    situ_dtype t = (situ_dtype)dtype;
    bool whole = !situ_dtype_is_floating(t);
    const double p[4] = { whole ? 2 : 0.5, whole ? 3 : 2, -3 };
    for (int s = 0; s < SHAPES; s++)
      for (int l = 0; l < 3; l++)
        for (int op = 0; op < SITU_UNARIES; op++) {
          if (op == SITU_UNARY_erfinv || op == SITU_UNARY_polygamma || op == SITU_UNARY_i0) continue; /* see math.c */
          test_view *x = view_new(t, shapes[s], layouts[l]);
          bool positive = op == SITU_UNARY_log || op == SITU_UNARY_sqrt || op == SITU_UNARY_rsqrt;
          view_random(x, (uint64_t)op + 1, t == SITU_U8 || t == SITU_BOOL || positive ? 0 : -3, 4);
          test_view *y = view_new(unary_is_test(op) ? SITU_BOOL : t, shapes[s], layouts[(l + op) % 3]);
          situ_status status = call(situ__cpu_unary, op, t, p, y, 1, IN(x));
          if (op == SITU_UNARY_bitwise_not && !whole) assert_int_equal(status, SITU_E_UNSUPPORTED);
          for (int64_t i = 0; status == SITU_OK && i < x->d.numel; i++) {
            double value = view_get(x, i), want = wrapped(unary(op, value, p), (situ_dtype)y->d.dtype);
            if (whole && op == SITU_UNARY_scalar_pow && value < 0) want = 0;
            /* A logit near 0 has the rounding of a quotient near 1, as PyTorch's. */
            bool cancels = op == SITU_UNARY_gelu || op == SITU_UNARY_gelu_tanh || op == SITU_UNARY_tanhshrink ||
                           op == SITU_UNARY_sinc || op == SITU_UNARY_logit;
            if (!close_to(view_get(y, i), want, fmax(fabs(want), cancels ? fabs(value) : 0), (situ_dtype)y->d.dtype))
              fail_msg("%s of %s %.17g is %.17g, want %.17g", unary_name[op], situ_dtype_name(t), value, view_get(y, i),
                       want);
          }
          if (status != SITU_OK && (!whole || status != SITU_E_UNSUPPORTED) && op != SITU_UNARY_bitwise_not)
            fail_msg("%s of %s: status %d", unary_name[op], situ_dtype_name(t), (int)status);
          view_free(x);
          view_free(y);
        }
  }
}

static void binary_functions(void **state) {
  (void)state;
  for (int dtype = SITU_BOOL; dtype < SITU_DTYPES; dtype++) {
    situ_dtype t = (situ_dtype)dtype;
    bool whole = !situ_dtype_is_floating(t);
    for (int s = 0; s < SHAPES; s++)
      for (int l = 0; l < 9; l++)
        for (int op = 0; op < SITU_BINARIES; op++) {
          bool bits = op >= SITU_BINARY_bitwise_and && op <= SITU_BINARY_lcm, power = op == SITU_BINARY_pow;
          bool real = op == SITU_BINARY_div || op >= SITU_BINARY_atan2;
          if (whole ? real : bits) continue;
          test_view *a = view_new(t, shapes[s], layouts[l % 3]), *b = view_new(t, shapes[s], layouts[l / 3]);
          test_view *y = view_new(binary_is_test(op) ? SITU_BOOL : t, shapes[s], layouts[(l + op) % 3]);
          view_random(a, 1, t == SITU_U8 || t == SITU_BOOL || (power && !whole) ? 0 : -5, 6);
          view_random(b, 2, whole ? 1 : 0.25, 6); /* no division by zero */
          assert_int_equal(call(situ__cpu_binary, op, t, NULL, y, 2, IN(a, b)), SITU_OK);
          for (int64_t i = 0; i < y->d.numel; i++) {
            double u = view_get(a, i), v = view_get(b, i), want = binary(op, u, v);
            if (whole && op == SITU_BINARY_div_trunc) want = trunc(u / v);
            want = wrapped(want, (situ_dtype)y->d.dtype);
            if (!close_to(view_get(y, i), want, fabs(want), (situ_dtype)y->d.dtype))
              fail_msg("%s of %s %.17g, %.17g is %.17g, want %.17g", binary_name[op], situ_dtype_name(t), u, v,
                       view_get(y, i), want);
          }
          view_free(a);
          view_free(b);
          view_free(y);
        }
  }
}

static void broadcasting(void **state) {
  (void)state;
  const situ_shape full = SITU_SHAPE(4, 3, 70),
                   small[] = { SITU_SCALAR,         SITU_SHAPE(70),       SITU_SHAPE(3, 1),
                               SITU_SHAPE(4, 1, 1), SITU_SHAPE(1, 3, 70), SITU_SHAPE(4, 3, 70) };
  const situ_dtype types[] = { SITU_F32, SITU_BF16, SITU_F16, SITU_I64, SITU_I16 };
  for (size_t t = 0; t < 5; t++)
    for (size_t i = 0; i < 6; i++)
      for (size_t k = 0; k < 6; k++)
        for (int l = 0; l < 3; l++) {
          test_view *a = view_new(types[t], small[i], layouts[l]), *b = view_new(types[t], small[k], VIEW_ROWS);
          test_view *y = view_new(types[t], full, layouts[2 - l]), wide_a = repeated(a, full),
                    wide_b = repeated(b, full);
          view_random(a, 3, -5, 5);
          view_random(b, 4, -5, 5);
          assert_int_equal(call(situ__cpu_binary, SITU_BINARY_sub, types[t], NULL, y, 2, IN(&wide_a, &wide_b)),
                           SITU_OK);
          for (int64_t e = 0; e < y->d.numel; e++) {
            double want = view_get(&wide_a, e) - view_get(&wide_b, e);
            if (!close_to(view_get(y, e), want, fabs(want), types[t]))
              fail_msg("element %d: %g, want %g", (int)e, view_get(y, e), want);
          }
          view_free(a);
          view_free(b);
          view_free(y);
        }
}

static void three_operands(void **state) {
  (void)state;
  const situ_dtype types[] = { SITU_F32, SITU_F64, SITU_F16, SITU_I64, SITU_U8 };
  const double p[4] = { 2 };
  for (size_t t = 0; t < 5; t++)
    for (int s = 0; s < SHAPES; s++)
      for (int l = 0; l < 9; l++)
        for (int op = 0; op < SITU_TERNARIES; op++) {
          bool whole = !situ_dtype_is_floating(types[t]), where = op == SITU_TERNARY_WHERE;
          test_view *a = view_new(where ? SITU_BOOL : types[t], shapes[s], layouts[l % 3]);
          test_view *b = view_new(types[t], shapes[s], layouts[l / 3]),
                    *c = view_new(types[t], shapes[s], layouts[(l + op) % 3]);
          test_view *y = view_new(types[t], shapes[s], layouts[(l + 1) % 3]);
          view_random(a, 5, 0, where ? 2 : 3);
          view_random(b, 6, 0, 4);
          view_random(c, 7, whole ? 0 : 0.125, op == SITU_TERNARY_LERP ? 1 : 4);
          situ_status status = call(situ__cpu_ternary, op, types[t], p, y, 3, IN(a, b, c));
          if (whole && (op == SITU_TERNARY_LERP || op == SITU_TERNARY_ADDCDIV))
            assert_int_equal(status, SITU_E_UNSUPPORTED);
          else assert_int_equal(status, SITU_OK);
          for (int64_t i = 0; status == SITU_OK && i < y->d.numel; i++) {
            double u = view_get(a, i), v = view_get(b, i), w = view_get(c, i);
            double want = where                        ? (u != 0 ? v : w)
                          : op == SITU_TERNARY_LERP    ? u + w * (v - u)
                          : op == SITU_TERNARY_ADDCMUL ? u + 2 * v * w
                                                       : u + 2 * v / w;
            double got = view_get(y, i), near = fmax(fabs(want), 8); /* lerp's and addcmul's terms are up to that */
            if (fabs(got - want) > (types[t] == SITU_F16 ? 0x1p-11 : whole ? 0 : FLT_EPSILON) * near)
              fail_msg("ternary %d of %g, %g, %g: %g, want %g", op, u, v, w, got, want);
          }
          view_free(a);
          view_free(b);
          view_free(c);
          view_free(y);
        }
}

/* The result over an operand: the same as beside it. */
static void in_place(void **state) {
  (void)state;
  const situ_dtype types[] = { SITU_F32, SITU_F64, SITU_BF16, SITU_F16, SITU_I64, SITU_I8 };
  for (size_t t = 0; t < 6; t++)
    for (int l = 0; l < 3; l++)
      for (int over = 0; over < 3; over++) {
        const situ_shape shape = SITU_SHAPE(9, 131);
        test_view *a = view_new(types[t], shape, layouts[l]), *b = view_new(types[t], shape, layouts[l]);
        test_view *beside = view_new(types[t], shape, VIEW_ROWS);
        view_random(a, 8, -9, 9);
        view_random(b, 9, -9, 9);
        const test_view *second = over == 2 ? a : b;
        assert_int_equal(call(situ__cpu_binary, SITU_BINARY_mul, types[t], NULL, beside, 2, IN(a, second)), SITU_OK);
        const test_view *y = over == 1 ? b : a;
        assert_int_equal(call(situ__cpu_binary, SITU_BINARY_mul, types[t], NULL, y, 2, IN(a, second)), SITU_OK);
        assert_true(view_same(y, beside));
        assert_int_equal(call(situ__cpu_unary, SITU_UNARY_square, types[t], NULL, beside, 1, IN(y)), SITU_OK);
        assert_int_equal(call(situ__cpu_unary, SITU_UNARY_square, types[t], NULL, y, 1, IN(y)), SITU_OK);
        assert_true(view_same(y, beside));
        view_free(a);
        view_free(b);
        view_free(beside);
      }
}

/* An operand of another dtype is first converted to what is computed in. */
static void mixed_dtypes(void **state) {
  (void)state;
  test_view *a = view_new(SITU_I32, SITU_SHAPE(3), VIEW_ROWS), *b = view_new(SITU_F32, SITU_SHAPE(3), VIEW_ROWS);
  test_view *y = view_new(SITU_F32, SITU_SHAPE(3), VIEW_ROWS), *half = view_new(SITU_F16, SITU_SHAPE(3), VIEW_ROWS);
  for (int i = 0; i < 3; i++) {
    view_set(a, i, i + 1);
    view_set(b, i, 0.1);
    view_set(half, i, 1);
  }
  assert_int_equal(call(situ__cpu_binary, SITU_BINARY_mul, SITU_F32, NULL, y, 2, IN(a, b)), SITU_OK);
  assert_true(view_get(y, 2) == (double)(3 * 0.1f));
  /* f16: 0.1 has become 0.0999755859375 before it is multiplied by 3. */
  view_set(half, 2, 3);
  test_view *z = view_new(SITU_F16, SITU_SHAPE(3), VIEW_ROWS);
  assert_int_equal(call(situ__cpu_binary, SITU_BINARY_mul, SITU_F16, NULL, z, 2, IN(half, b)), SITU_OK);
  assert_true(view_get(z, 0) == 0.0999755859375);
  view_free(a);
  view_free(b);
  view_free(y);
  view_free(z);
  view_free(half);
}

/* Every number of 16 bits, `times` over, wrapped. */
static test_view *all_halves(situ_dtype dtype, view_layout layout, uint16_t times) {
  enum { COUNT = 65536 + 5 };
  test_view *v = view_new(dtype, SITU_SHAPE(COUNT), layout), *rows = view_new(dtype, SITU_SHAPE(COUNT), VIEW_ROWS);
  for (int i = 0; i < COUNT; i++) ((uint16_t *)rows->storage.data)[i] = (uint16_t)((uint32_t)i * times);
  for (int i = 0; i < COUNT; i++) view_set(v, i, view_get(rows, i));
  view_free(rows);
  return v;
}

static void expect_same_numbers(const test_view *a, const test_view *b, const char *name) {
  for (int64_t i = 0; i < a->d.numel; i++) {
    const double x = view_get(a, i), y = view_get(b, i);
    if (x != y ? !(isnan(x) && isnan(y)) : signbit(x) != signbit(y))
      fail_msg("%s, element %d: %.9g in a row, %.9g with gaps", name, (int)i, x, y);
  }
}

/* f16 and bf16 without gaps have rows of their own: for every number what rows of f32 give, which take those with
   gaps. */
static void halves_of(situ_dtype dtype) {
  const double p[4] = { 0.5, 2, -3 };
  test_view *a[2], *b[2], *y[2];
  for (int l = 0; l < 2; l++) {
    a[l] = all_halves(dtype, l ? VIEW_GAPS : VIEW_ROWS, 1), b[l] = all_halves(dtype, l ? VIEW_GAPS : VIEW_ROWS, 40503);
    y[l] = view_new(dtype, SITU_SHAPE(a[l]->d.numel), l ? VIEW_GAPS : VIEW_ROWS);
  }
  test_view *one = view_new(dtype, SITU_SHAPE(1), VIEW_ROWS), wide = repeated(one, SITU_SHAPE(a[0]->d.numel));
  view_set(one, 0, -1.25);
  for (int isa = -1; view_next_isa(&isa);) {
    for (int op = 0; op < SITU_UNARIES; op++) {
      if (unary_is_test(op) || op == SITU_UNARY_bitwise_not || op == SITU_UNARY_polygamma || op == SITU_UNARY_i0)
        continue;
      for (int l = 0; l < 2; l++) assert_int_equal(call(situ__cpu_unary, op, dtype, p, y[l], 1, IN(a[l])), SITU_OK);
      expect_same_numbers(y[0], y[1], unary_name[op]);
    }
    for (int op = 0; op < SITU_BINARIES; op++) {
      if (binary_is_test(op) || (op >= SITU_BINARY_bitwise_and && op <= SITU_BINARY_lcm)) continue;
      for (int which = 0; which < 3; which++) { /* which of the operands is one number */
        for (int l = 0; l < 2; l++)
          assert_int_equal(call(situ__cpu_binary, op, dtype, NULL, y[l], 2,
                                IN(which == 1 ? &wide : a[l], which == 2 ? &wide : b[l])),
                           SITU_OK);
        expect_same_numbers(y[0], y[1], binary_name[op]);
      }
    }
  }
  for (int l = 0; l < 2; l++) view_free(a[l]), view_free(b[l]), view_free(y[l]);
  view_free(one);
}
static void halves(void **state) {
  (void)state;
  halves_of(SITU_F16);
  halves_of(SITU_BF16);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(unary_functions), cmocka_unit_test(binary_functions), cmocka_unit_test(broadcasting),
    cmocka_unit_test(three_operands),  cmocka_unit_test(in_place),         cmocka_unit_test(mixed_dtypes),
    cmocka_unit_test(halves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
