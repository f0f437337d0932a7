/* Comparison within a tolerance: isclose, allclose; and of all elements: equal.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

/* torch measures the distance of integers and bools in f32. */
static situ_tensor *number(situ_tensor *x) {
  return situ_dtype_is_floating(situ_dtype_of(x)) ? x : situ_to_dtype(x, SITU_F32);
}

static bool check(const char *op, situ_tensor *x, situ_tensor *y, double rtol, double atol) {
  const situ_op schema = { .name = op, .operand = { { "input", SITU_SAME }, { "other", SITU_SAME } } };
  if (!situ__together(&schema, (situ_tensor *[]){ x, y }, 2)) return false;
  if (rtol >= 0 && atol >= 0) return true;
  return situ__fail(SITU_E_ARG, op, "rtol %g and atol %g must be at least 0 (torch's defaults are 1e-5 and 1e-8)", rtol,
                    atol),
         false;
}

/* Equal elements are close, infinities too; other infinities have an infinite distance. */
static situ_tensor *close(const char *op, situ_tensor *x, situ_tensor *y, double rtol, double atol, bool equal_nan) {
  if (!check(op, x, y, rtol, atol)) return NULL;
  situ_tensor *same = situ_eq(x, y);
  if (equal_nan) same = situ_logical_or(same, situ_logical_and(situ_isnan(x), situ_isnan(y)));
  if (rtol == 0 && atol == 0) return same;
  x = number(x);
  y = number(y);
  situ_tensor *allowed = situ_add_scalar(situ_abs(situ_mul_scalar(y, rtol)), atol);
  situ_tensor *distance = situ_abs(situ_sub(x, y));
  situ_tensor *near = situ_logical_and(situ_le(distance, allowed), situ_lt_scalar(distance, INFINITY));
  return situ_logical_or(same, near);
}

situ_tensor *situ_isclose(situ_tensor *input, situ_tensor *other, double rtol, double atol, bool equal_nan) {
  SITU__MADE_OF_OPS("isclose");
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  return situ_scope_return(&s, close("isclose", input, other, rtol, atol, equal_nan));
}

situ_status situ_allclose(situ_tensor *input, situ_tensor *other, double rtol, double atol, bool equal_nan, bool *out) {
  SITU__MADE_OF_OPS("allclose");
  if (!situ__given("allclose", "out", out)) return situ_error();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  int64_t all = 0;
  situ_status status = situ_item_i64(situ_all(close("allclose", input, other, rtol, atol, equal_nan), NULL), &all);
  situ_status end = situ_scope_end(&s);
  if (status == SITU_OK) status = end;
  if (status == SITU_OK) *out = all != 0;
  return status;
}

/* 1 or 0 in *all. */
static situ_status all_equal(situ_tensor *x, situ_tensor *y, int64_t *all) {
  if (!check("equal", x, y, 0, 0)) return situ_error();
  if (!situ__same_sizes(&x->view, &y->view)) return SITU_OK;
  return situ_item_i64(situ_all(situ_eq(x, y), NULL), all);
}

situ_status situ_equal(situ_tensor *input, situ_tensor *other, bool *out) {
  SITU__MADE_OF_OPS("equal");
  if (!situ__given("equal", "out", out)) return situ_error();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  int64_t all = 0;
  const situ_status status = all_equal(input, other, &all), end = situ_scope_end(&s);
  if (status != SITU_OK || end != SITU_OK) return status != SITU_OK ? status : end;
  *out = all != 0;
  return SITU_OK;
}
