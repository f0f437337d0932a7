/* The Kronecker product: a product of two tensors whose dimensions alternate.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

/* x with each dimension beside one of size 1: in front of it, or behind it if `outer`. Missing dimensions are 1. */
static situ_tensor *alternate(situ_tensor *x, int ndim, bool outer) {
  situ_shape shape = { .ndim = 2 * ndim };
  for (int d = 0; d < ndim; d++) {
    const int from = d - (ndim - x->view.ndim);
    const int64_t size = from < 0 ? 1 : x->view.size[from];
    shape.dim[2 * d] = outer ? size : 1;
    shape.dim[2 * d + 1] = outer ? 1 : size;
  }
  return situ_reshape(x, shape);
}

situ_tensor *situ_kron(situ_tensor *input, situ_tensor *other) {
  SITU__MADE_OF_OPS("kron");
  static const situ_op schema = { .name = "kron", .operand = { { "input", 0 }, { "other", 0 } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, other }, 2)) return NULL;
  const int ndim = input->view.ndim > other->view.ndim ? input->view.ndim : other->view.ndim;
  if (2 * ndim > SITU_MAX_DIMS)
    return situ__fail(SITU_E_SHAPE, "kron", "%d dimensions: at most %d", ndim, SITU_MAX_DIMS / 2), NULL;
  situ_tensor *product = situ_mul(alternate(input, ndim, true), alternate(other, ndim, false));
  if (!product) return NULL;
  situ_shape shape = { .ndim = ndim };
  for (int d = 0; d < ndim; d++) shape.dim[d] = product->view.size[2 * d] * product->view.size[2 * d + 1];
  return situ_reshape(product, shape);
}
