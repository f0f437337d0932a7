/* Activations that are not element-wise functions of one tensor: glu, prelu.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

situ_tensor *situ_glu(situ_tensor *input, int dim) {
  SITU__MADE_OF_OPS("glu");
  static const situ_op schema = { .name = "glu", .operand = { { "input", SITU_FLOATING } } };
  if (!situ__together(&schema, &input, 1) || !situ_wrap_dim("glu", dim, input->view.ndim, &dim)) return NULL;
  const int64_t size = situ_size(input, dim), half = size / 2;
  if (!input->view.ndim || size % 2)
    return situ__fail(SITU_E_SHAPE, "glu", "dimension %d of input has %lld elements, must have an even number", dim,
                      (long long)size),
           NULL;
  return situ_mul(situ_narrow(input, dim, 0, half), situ_sigmoid(situ_narrow(input, dim, half, half)));
}

/* One slope for all, or one for each element of dimension 1: as a shape that broadcasts to x, in *shape. */
static bool slopes(const situ_tensor *x, const situ_tensor *weight, situ_shape *shape) {
  const int64_t n = weight->view.numel, channels = x->view.ndim > 1 ? x->view.size[1] : 1;
  *shape = SITU_SCALAR;
  if (weight->view.ndim <= 1 && (n == 1 || n == channels)) {
    if (n == 1) return true;
    shape->ndim = x->view.ndim - 1;
    shape->dim[0] = n;
    for (int d = 1; d < shape->ndim; d++) shape->dim[d] = 1;
    return true;
  }
  return situ__fail(SITU_E_SHAPE, "prelu",
                    "weight has %d dimensions and %lld elements, must have 1 dimension and %lld or 1",
                    weight->view.ndim, (long long)n, (long long)channels),
         false;
}

/* The slope's gradient must not read an input that it does not scale: 0 times an infinite one would be NaN. */
situ_tensor *situ_prelu(situ_tensor *input, situ_tensor *weight) {
  SITU__MADE_OF_OPS("prelu");
  static const situ_op schema = { .name = "prelu",
                                  .operand = { { "input", SITU_FLOATING }, { "weight", SITU_FLOATING } } };
  situ_shape shape;
  if (!situ__together(&schema, (situ_tensor *[]){ input, weight }, 2) || !slopes(input, weight, &shape)) return NULL;
  situ_tensor *positive = situ_gt_scalar(input, 0);
  return situ_where(positive, input, situ_mul(situ_masked_fill(input, positive, 0), situ_reshape(weight, shape)));
}
