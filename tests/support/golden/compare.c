/* Compares a tensor with PyTorch's values.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/golden/run.h"

/* torch.testing's tolerances, and the distance of 1 to the next number. */
static const struct usual {
  double rtol, atol, epsilon;
} usual[SITU_DTYPES] = {
  [SITU_F64] = { 1e-7, 1e-7, 0x1p-52 },
  [SITU_F32] = { 1.3e-6, 1e-5, 0x1p-23 },
  [SITU_F16] = { 1e-3, 1e-5, 0x1p-10 },
  [SITU_BF16] = { 1.6e-2, 1e-5, 0x1p-7 },
};

static bool same_shape(const gold_tensor *want, situ_tensor *got, char *message, size_t size) {
  situ_shape shape = situ_shape_of(got);
  bool same = shape.ndim == want->size.ndim;
  for (int i = 0; same && i < shape.ndim; i++) { same = shape.dim[i] == want->size.dim[i]; }
  if (!same) {
    int at = snprintf(message, size, "%s has shape [", want->name);
    for (int i = 0; i < shape.ndim; i++) {
      at += snprintf(message + at, size - (size_t)at, " %lld", (long long)shape.dim[i]);
    }
    at += snprintf(message + at, size - (size_t)at, " ], not [");
    for (int i = 0; i < want->size.ndim; i++) {
      at += snprintf(message + at, size - (size_t)at, " %lld", (long long)want->size.dim[i]);
    }
    snprintf(message + at, size - (size_t)at, " ]");
  } else if (situ_dtype_of(got) != want->dtype) {
    snprintf(message, size, "%s is %s, not %s", want->name, situ_dtype_name(situ_dtype_of(got)),
             situ_dtype_name(want->dtype));
    same = false;
  }
  return same;
}

/* error / allowed for one element; INFINITY if no tolerance helps. */
static double ratio(double want, double got, double allowed, unsigned flags) {
  if (isnan(want) || isnan(got)) { return isnan(want) && isnan(got) ? 0 : INFINITY; }
  if (want == got) {
    bool zero_signs = (flags & GOLD_SIGNED_ZERO) && want == 0 && signbit(want) != signbit(got);
    return zero_signs ? INFINITY : 0;
  }
  return isinf(want) || isinf(got) || allowed == 0 ? INFINITY : fabs(want - got) / allowed;
}

double gold_largest(const gold_tensor *t) {
  double most = 0;
  for (int64_t i = 0; i < t->stored; i++) {
    double magnitude = fabs(gold_value(t->dtype, t->data, i));
    most = isfinite(magnitude) ? fmax(most, magnitude) : most;
  }
  return most;
}

static bool same_values(const gold_tensor *want, const void *data, const gold_tolerance *tolerance, double *worst,
                        char *message, size_t size) {
  const struct usual *u = &usual[want->dtype];
  if (u->epsilon > 0 && usual[tolerance->coarsest].epsilon > u->epsilon) { u = &usual[tolerance->coarsest]; }
  double bound = tolerance->bound > 0 ? tolerance->bound : 1;
  double rounding = tolerance->steps * u->epsilon / 2 * tolerance->scale;
  for (int64_t i = 0; i < want->stored; i++) {
    double w = gold_value(want->dtype, want->data, i), g = gold_value(want->dtype, data, i);
    double r = ratio(w, g, bound * (u->atol + u->rtol * fabs(w) + rounding), tolerance->flags);
    *worst = fmax(*worst, r);
    if (r > 1) {
      snprintf(message, size, "%s[%lld] is %.9g, not %.9g (%.3g times what is allowed)", want->name, (long long)i, g, w,
               r);
      return false;
    }
  }
  return true;
}

bool gold_compare(const gold_tensor *want, situ_tensor *got, const gold_tolerance *tolerance, double *worst,
                  char *message, size_t size) {
  if (!got) {
    snprintf(message, size, "%s is NULL: %s", want->name, situ_error_message());
    return false;
  }
  if (!same_shape(want, got, message, size)) { return false; }
  if ((tolerance->flags & GOLD_SHAPE_ONLY) || situ_device_of(got).kind == SITU_META) { return true; }
  size_t bytes = (size_t)situ_numel(got) * situ_dtype_size(want->dtype);
  void *data = malloc(bytes + 1);
  bool good = data && situ_copy_to_host(got, data, bytes) == SITU_OK;
  if (!good) {
    snprintf(message, size, "%s cannot be read: %s", want->name, situ_error_message());
  } else {
    good = same_values(want, data, tolerance, worst, message, size);
  }
  free(data);
  return good;
}
