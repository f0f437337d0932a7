/* How far the values of two tensors are apart.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "place/compare/compare.h"
#include "situ/ops/shape.h"
#include "situ/sys/shape.h"

situ_tensor *situ__on_host(situ_tensor *t) {
  static const situ_device host = { SITU_CPU, 0 };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *copy = situ_contiguous(situ_to(situ_detach(t), host));
  if (copy && situ_shares_storage(copy, t)) copy = situ_clone(copy);
  copy = situ_retain(copy);
  SITU_IGNORE(situ_scope_end(&scope));
  return copy;
}

static double tolerance_of(situ_dtype dtype) {
  static const double by_dtype[SITU_DTYPES] = {
    [SITU_F16] = 1e-2, [SITU_BF16] = 5e-2, [SITU_F32] = 1e-4, [SITU_F64] = 1e-9
  };
  return by_dtype[dtype];
}

static void add_elements(situ__distance *apart, const double *a, const double *b, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const double most = fmax(fabs(a[i]), fabs(b[i])), distance = fabs(a[i] - b[i]);
    if (isfinite(most) && most > apart->scale) apart->scale = most;
    if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
    apart->absolute = fmax(apart->absolute, isfinite(distance) ? distance : INFINITY);
  }
}

bool situ__distance_add(situ__distance *apart, situ_tensor *a, situ_tensor *b) {
  const situ_shape shape = situ_shape_of(a), other = b ? situ_shape_of(b) : shape;
  if (!b || !situ_shape_equal(&shape, &other)) {
    apart->absolute = INFINITY;
    return true;
  }
  apart->tolerance = fmax(apart->tolerance, fmax(tolerance_of(situ_dtype_of(a)), tolerance_of(situ_dtype_of(b))));
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *wide[] = { situ_to_dtype(a, SITU_F64), situ_to_dtype(b, SITU_F64) };
  const bool good = wide[0] && wide[1];
  if (good) add_elements(apart, situ_data_ptr(wide[0]), situ_data_ptr(wide[1]), situ_numel(a));
  SITU_IGNORE(situ_scope_end(&scope));
  return good;
}

double situ__distance_relative(const situ__distance *apart) {
  if (apart->absolute == 0) return 0;
  return apart->scale > 0 ? apart->absolute / apart->scale : INFINITY;
}

bool situ__distance_differs(const situ__comparing *c, const situ__distance *apart) {
  const double given = c->options->tolerance;
  const double by_dtype = fmax(apart->tolerance, tolerance_of(c->options->autocast));
  return situ__distance_relative(apart) > (c->options->exact ? 0 : given > 0 ? given : by_dtype);
}
