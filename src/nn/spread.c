/* Sizes given once for all dimensions.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "nn/nn.h"

bool situ__nn_spread(const char *op, const char *what, situ_shape *shape, int ndim,
                     int64_t otherwise) {
  if (shape->ndim == ndim) return true;
  if (shape->ndim != 0 && shape->ndim != 1) {
    situ__fail(SITU_E_ARG, op, "%s has %d values: 1 or %d are needed", what, shape->ndim, ndim);
    return false;
  }
  int64_t value = shape->ndim ? shape->dim[0] : otherwise;
  shape->ndim = ndim;
  for (int d = 0; d < ndim; d++) shape->dim[d] = value;
  return true;
}
