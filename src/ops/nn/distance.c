/* Norms and angles of rows: normalize, cosine_similarity, pairwise_distance.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

situ_tensor *situ_normalize(situ_tensor *input, double p, int dim, double eps) {
  SITU__MADE_OF_OPS("normalize");
  static const situ_op schema = { .name = "normalize", .operand = { { "input", SITU_FLOATING } } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  situ_tensor *norm = situ_norm(input, p, &(situ_reduce_options){ .dim = SITU_DIMS(dim), .keepdim = true });
  return situ_div(input, situ_clamp(norm, eps, INFINITY));
}

static bool together(const char *op, situ_tensor *x1, situ_tensor *x2) {
  const situ_op schema = { .name = op, .operand = { { "x1", 0 }, { "x2", 0 } } };
  return situ__together(&schema, (situ_tensor *[]){ x1, x2 }, 2);
}

situ_tensor *situ_cosine_similarity(situ_tensor *x1, situ_tensor *x2, int dim, double eps) {
  SITU__MADE_OF_OPS("cosine_similarity");
  const char *op = "cosine_similarity";
  int d;
  if (!together(op, x1, x2)) return NULL;
  situ_shape both = situ__shape(&x1->view), other = situ__shape(&x2->view);
  if (!situ_shape_broadcast(op, &both, &other) || !situ_wrap_dim(op, dim, both.ndim, &d)) return NULL;
  situ_dtype dtype = situ_result_type((situ_tensor *[]){ x1, x2 }, 2);
  if (!situ_dtype_is_floating(dtype)) dtype = SITU_F32;
  x1 = situ_to_dtype(x1, dtype);
  x2 = situ_to_dtype(x2, dtype);
  if (!(x1 = situ_expand(x1, both)) || !(x2 = situ_expand(x2, both))) return NULL;
  const situ_reduce_options along = { .dim = SITU_DIMS(d), .keepdim = true };
  situ_tensor *a = situ_div(x1, situ__at_least(situ_norm(x1, 2, &along), eps));
  situ_tensor *b = situ_div(x2, situ__at_least(situ_norm(x2, 2, &along), eps));
  return situ_sum(situ_mul(a, b), &(situ_reduce_options){ .dim = SITU_DIMS(d) });
}

situ_tensor *situ_pairwise_distance(situ_tensor *x1, situ_tensor *x2, double p, double eps, bool keepdim) {
  SITU__MADE_OF_OPS("pairwise_distance");
  if (!together("pairwise_distance", x1, x2)) return NULL;
  return situ_norm(situ_add_scalar(situ__floating(situ_sub(x1, x2)), eps), p,
                   &(situ_reduce_options){ .dim = SITU_DIMS(-1), .keepdim = keepdim });
}
