/* Compares a tensor with PyTorch's values.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/gold_run.h"

/* torch.testing's tolerances; `largest` is the largest magnitude in the tensor, for gradients. A 16-bit gradient is a
   formula of several ops, each of which rounds, in torch as here: where terms cancel, what is left is as wrong as the
   terms are, so two roundings of the largest value are allowed besides. */
static double allowed(situ_dtype dtype, double want, double largest) {
  switch (dtype) {
  case SITU_F64: return 1e-7 + 1e-7 * fabs(want);
  case SITU_F32: return 1e-5 + 1.3e-6 * fabs(want);
  case SITU_F16: return 1e-5 + 1e-3 * fabs(want) + ldexp(largest, -10);
  case SITU_BF16: return 1e-5 + 1.6e-2 * fabs(want) + ldexp(largest, -7);
  default: return 0;
  }
}

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
static double ratio(situ_dtype dtype, double want, double got, double bound, double largest,
                    unsigned flags) {
  if (isnan(want) || isnan(got)) { return isnan(want) && isnan(got) ? 0 : INFINITY; }
  if (want == got) {
    bool zero_signs = (flags & GOLD_SIGNED_ZERO) && want == 0 && signbit(want) != signbit(got);
    return zero_signs ? INFINITY : 0;
  }
  if (isinf(want) || isinf(got) || allowed(dtype, want, 0) == 0) { return INFINITY; }
  return fabs(want - got) / (allowed(dtype, want, largest) * bound);
}

bool gold_compare(const gold_tensor *want, situ_tensor *got, double bound, unsigned flags,
                  double *worst, char *message, size_t size) {
  if (!got) {
    snprintf(message, size, "%s is NULL: %s", want->name, situ_error_message());
    return false;
  }
  if (!same_shape(want, got, message, size)) { return false; }
  if ((flags & GOLD_SHAPE_ONLY) || situ_device_of(got).kind == SITU_META) { return true; }
  size_t bytes = (size_t)situ_numel(got) * situ_dtype_size(want->dtype);
  void *data = malloc(bytes + 1);
  bool good = data && situ_copy_to_host(got, data, bytes) == SITU_OK;
  if (!good) { snprintf(message, size, "%s cannot be read: %s", want->name, situ_error_message()); }
  double largest = 0;
  for (int64_t i = 0; (flags & GOLD_GRADIENT) && i < situ_numel(got); i++) {
    double size_of = fabs(gold_value(want->dtype, want->data, i));
    largest = isfinite(size_of) ? fmax(largest, size_of) : largest;
  }
  for (int64_t i = 0; good && i < situ_numel(got); i++) {
    double w = gold_value(want->dtype, want->data, i), g = gold_value(want->dtype, data, i);
    double r = ratio(want->dtype, w, g, bound > 0 ? bound : 1, largest, flags);
    *worst = fmax(*worst, r);
    if (r > 1) {
      snprintf(message, size, "%s[%lld] is %.9g, not %.9g (%.3g times what is allowed)", want->name,
               (long long)i, g, w, r);
      good = false;
    }
  }
  free(data);
  return good;
}
