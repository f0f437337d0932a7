/* Comparison of rows: covariance, correlation, distances of pairs.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

/* ---- cov, corrcoef: of variables, the rows of [variables, observations] ---- */

static situ_tensor *covariance(const char *op, situ_tensor *x, double correction) {
  const situ_op schema = { .name = op, .operand = { { "input", SITU_FLOATING | SITU_INTEGRAL } } };
  if (!situ__together(&schema, &x, 1)) return NULL;
  if (x->view.ndim > 2 || !(correction >= 0))
    return situ__fail(x->view.ndim > 2 ? SITU_E_SHAPE : SITU_E_ARG, op,
                      "input has %d dimensions, correction is %g: at most 2, not negative", x->view.ndim, correction),
           NULL;
  const int ndim = x->view.ndim;
  x = situ__floating(ndim == 2 ? x : situ_reshape(x, SITU_SHAPE(1, x->view.numel)));
  if (!x) return NULL;
  const double count = (double)x->view.size[1] - correction;
  situ_tensor *apart = situ_sub(x, situ_mean(x, &(situ_reduce_options){ .dim = SITU_DIMS(1), .keepdim = true }));
  situ_tensor *y = apart ? situ_matmul(apart, situ_transpose(apart, 0, 1)) : NULL;
  return situ_squeeze(situ_div_scalar(y, count > 0 ? count : 0), (situ_shape){ 0 });
}

situ_tensor *situ_cov(situ_tensor *input, double correction) {
  SITU__MADE_OF_OPS("cov");
  return covariance("cov", input, correction);
}

situ_tensor *situ_corrcoef(situ_tensor *input) {
  SITU__MADE_OF_OPS("corrcoef");
  situ_tensor *c = covariance("corrcoef", input, 1);
  if (!c || !c->view.ndim) return c ? situ_div(c, c) : NULL;
  situ_tensor *deviation = situ_sqrt(situ_diagonal(c, 0, 0, 1));
  if (!deviation) return NULL;
  return situ_clamp(situ_div(situ_div(c, situ_unsqueeze(deviation, 1)), situ_unsqueeze(deviation, 0)), -1, 1);
}

/* ---- distances ---- */

situ_tensor *situ_dist(situ_tensor *input, situ_tensor *other, double p) {
  SITU__MADE_OF_OPS("dist");
  static const situ_op schema = { .name = "dist",
                                  .operand = { { "input", SITU_FLOATING }, { "other", SITU_FLOATING } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, other }, 2)) return NULL;
  return situ_norm(situ_sub(input, other), p, NULL);
}

situ_tensor *situ_pdist(situ_tensor *input, double p) {
  const char *op = "pdist";
  SITU__MADE_OF_OPS(op);
  static const situ_op schema = { .name = "pdist", .operand = { { "input", SITU_FLOATING } } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  if (input->view.ndim != 2 || !(p >= 0))
    return situ__fail(p >= 0 ? SITU_E_SHAPE : SITU_E_ARG, op,
                      "input has %d dimensions, p is %g: must be 2, and not negative", input->view.ndim, p),
           NULL;
  const int64_t n = input->view.size[0];
  situ_tensor *pair = situ_triu_indices(n, n, 1, &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(input) });
  if (!pair) return NULL;
  situ_tensor *apart = situ_sub(situ_index_select(input, 0, situ_select(pair, 0, 0)),
                                situ_index_select(input, 0, situ_select(pair, 0, 1)));
  return situ_norm(apart, p, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
}
