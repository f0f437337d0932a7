/* See compare.h.
   SPDX-License-Identifier: MIT */
#include "ops/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "situ/sys/shape.h"

static bool alike(const kept *a, const kept *b) {
  return !a->data == !b->data && a->dtype == b->dtype && situ_shape_equal(&a->shape, &b->shape);
}

static bool same_bits(const kept *a, const kept *b) {
  return alike(a, b) && (!a->data || memcmp(a->data, b->data, (size_t)a->count * situ_dtype_size(a->dtype)) == 0);
}

static bool both_nan(const kept *a, const kept *b, int64_t i) {
  if (a->dtype == SITU_F32) return isnan(((const float *)a->data)[i]) && isnan(((const float *)b->data)[i]);
  if (a->dtype == SITU_F64) return isnan(((const double *)a->data)[i]) && isnan(((const double *)b->data)[i]);
  if (a->dtype != SITU_F16 && a->dtype != SITU_BF16) return false;
  const unsigned infinity = a->dtype == SITU_F16 ? 0x7C00u : 0x7F80u;
  const uint16_t x = ((const uint16_t *)a->data)[i], y = ((const uint16_t *)b->data)[i];
  return (x & 0x7FFFu) > infinity && (y & 0x7FFFu) > infinity;
}

static bool same_values(const kept *a, const kept *b) {
  if (same_bits(a, b)) return true;
  if (!alike(a, b)) return false;
  const size_t size = situ_dtype_size(a->dtype);
  for (int64_t i = 0; i < a->count; i++)
    if (memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)i * size, size) != 0 &&
        !both_nan(a, b, i))
      return false;
  return true;
}

static void disagree(const char *of, const char *about) {
  char text[128];
  (void)snprintf(text, sizeof text, "%s disagree about %s", of, about);
  wrong(text);
}

/* The same error; or, of a call that is wrong in two ways, another one: a cpu looks at indices and into matrices before it
   is asked to write what it may not, or to record what has no derivative, a queue after it was. */
static bool same_error(const outcome *a, const outcome *b) {
  if (!a->result != !b->result) return false;
  if (a->status == b->status) return true;
  return !a->result && (a->status == SITU_E_INDEX || b->status == SITU_E_INDEX || a->late || b->late);
}

void compare_bits(const outcome *a, const outcome *b, const char *of) {
  if (!same_error(a, b)) {
    char text[64];
    (void)snprintf(text, sizeof text, "the error (%s, %s)", situ_status_name(a->status), situ_status_name(b->status));
    disagree(of, text);
  }
  for (int k = 0; k < TENSORS; k++)
    if (!same_values(&a->kept[k], &b->kept[k]))
      disagree(of, k < OPERAND ? "the results" : k < GRADIENT ? "the operands" : "the gradients");
}

void compare_unchanged(const outcome *before, const outcome *failed) {
  for (int k = OPERAND; k < TENSORS; k++) /* Where backward failed, the call before it has written what it writes. */
    if ((k >= GRADIENT || !failed->result) && !same_values(&before->kept[k], &failed->kept[k]))
      wrong(k < GRADIENT ? "a failed call changed an operand" : "a failed call changed a gradient");
}

static double largest_of(const outcome *f64) {
  double most = 1;
  for (int k = 0; k < TENSORS; k++)
    for (int64_t i = 0; f64->kept[k].data && f64->kept[k].dtype == SITU_F64 && i < f64->kept[k].count; i++) {
      const double v = fabs(((const double *)f64->kept[k].data)[i]);
      if (isfinite(v)) most = fmax(most, v);
    }
  return most;
}

static void compare_near(const kept *a, const kept *b, double tolerance, int k) {
  for (int64_t i = 0; i < a->count; i++) {
    const double x = (double)((const float *)a->data)[i], y = ((const double *)b->data)[i];
    if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance) continue;
    fprintf(stderr, "tensor %d, element %lld: %.9g in f32, %.17g in f64\n", k, (long long)i, x, y);
    wrong("f32 is far from f64");
  }
}

/* Within 2e-4 of the largest number about: a wrong element is off by more, rounding in these small sums by less. Only for
   values that cannot overflow. */
void compare_wide(const outcome *f32, const outcome *f64) {
  if (!f32->result != !f64->result) wrong("refused in one of f32 and f64");
  const double scale = largest_of(f64);
  if (scale > 1e6) return;
  for (int k = 0; k < TENSORS; k++) {
    const kept *a = &f32->kept[k], *b = &f64->kept[k];
    if (!a->data != !b->data || !situ_shape_equal(&a->shape, &b->shape)) wrong("f32 and f64 have other shapes");
    if (a->data && a->dtype == SITU_F32 && b->dtype == SITU_F64) compare_near(a, b, 2e-4 * scale, k);
    else if (a->data && !same_bits(a, b)) wrong("f32 and f64 have other whole numbers");
  }
}
