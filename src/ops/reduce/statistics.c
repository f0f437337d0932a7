/* Statistics made of reductions: count_nonzero, sum_to_size, nansum, nanmean, aminmax, var_mean, std_mean, diff, cdist,
   renorm.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

situ_tensor *situ_count_nonzero(situ_tensor *input, situ_shape dim) {
  SITU__MADE_OF_OPS("count_nonzero");
  return situ_sum(situ_ne_scalar(input, 0), &(situ_reduce_options){ .dim = dim });
}

situ_tensor *situ_sum_to_size(situ_tensor *input, situ_shape size) {
  SITU__MADE_OF_OPS("sum_to_size");
  if (!situ__need("sum_to_size", "input", input)) return NULL;
  const situ_shape from = situ__shape(&input->view);
  bool good = size.ndim >= 0 && size.ndim <= from.ndim;
  const int more = good ? from.ndim - size.ndim : 0;
  for (int d = more; good && d < from.ndim; d++) good = size.dim[d - more] == from.dim[d] || size.dim[d - more] == 1;
  if (good) return size.ndim ? situ__sum_to(input, &size) : situ_sum(input, NULL); /* as torch, of one element too */
  char s[SITU_SHAPE_TEXT], t[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, "sum_to_size", "size is %s, which does not broadcast to input's, %s",
                    situ_shape_text(&size, s), situ_shape_text(&from, t)),
         NULL;
}

situ_tensor *situ_nansum(situ_tensor *input, const situ_reduce_options *options) {
  SITU__MADE_OF_OPS("nansum");
  return situ_sum(situ_masked_fill(input, situ_isnan(input), 0), options);
}

situ_tensor *situ_nanmean(situ_tensor *input, const situ_reduce_options *options) {
  SITU__MADE_OF_OPS("nanmean");
  static const situ_op schema = { .name = "nanmean", .operand = { { "input", SITU_FLOATING } } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  situ_tensor *count = situ_sum(situ_logical_not(situ_isnan(input)), options);
  return situ_div(situ_nansum(input, options), count);
}

situ_tensor *situ_aminmax(situ_tensor *input, const situ_reduce_options *options, situ_tensor **max) {
  SITU__MADE_OF_OPS("aminmax");
  situ_tensor *most = situ_amax(input, options), *least = most ? situ_amin(input, options) : NULL;
  if (max) *max = least ? most : NULL;
  return least;
}

situ_tensor *situ_var_mean(situ_tensor *input, double correction, const situ_reduce_options *options,
                           situ_tensor **mean) {
  SITU__MADE_OF_OPS("var_mean");
  situ_tensor *centre = situ_mean(input, options), *spread = centre ? situ_var(input, correction, options) : NULL;
  if (mean) *mean = spread ? centre : NULL;
  return spread;
}

situ_tensor *situ_std_mean(situ_tensor *input, double correction, const situ_reduce_options *options,
                           situ_tensor **mean) {
  SITU__MADE_OF_OPS("std_mean");
  situ_tensor *centre = situ_mean(input, options), *spread = centre ? situ_std(input, correction, options) : NULL;
  if (mean) *mean = spread ? centre : NULL;
  return spread;
}

situ_tensor *situ_diff(situ_tensor *input, int64_t n, int dim) {
  SITU__MADE_OF_OPS("diff");
  int d;
  if (!situ__need("diff", "input", input) || !situ_wrap_dim("diff", dim, input->view.ndim, &d)) return NULL;
  if (!input->view.ndim) return situ__fail(SITU_E_ARG, "diff", "input is 0-dim, must have at least 1 dimension"), NULL;
  if (n < 0) return situ__fail(SITU_E_ARG, "diff", "n is %lld, must be at least 0", (long long)n), NULL;
  if (n == 0) return situ_clone(input);
  if (n >= input->view.size[d]) return situ_narrow(input, d, 0, 0);
  for (; input && n; n--) {
    const int64_t rest = input->view.size[d] - 1;
    situ_tensor *late = situ_narrow(input, d, 1, rest), *early = situ_narrow(input, d, 0, rest);
    input = input->view.dtype == SITU_BOOL ? situ_logical_xor(late, early) : situ_sub(late, early);
  }
  return input;
}

situ_tensor *situ_cdist(situ_tensor *x1, situ_tensor *x2, double p) {
  SITU__MADE_OF_OPS("cdist");
  static const situ_op schema = {
    .name = "cdist", .operand = { { "x1", SITU_SAME | SITU_FLOATING }, { "x2", SITU_SAME | SITU_FLOATING } }
  };
  if (!situ__together(&schema, (situ_tensor *[]){ x1, x2 }, 2)) return NULL;
  if (x1->view.ndim < 2 || x2->view.ndim < 2)
    return situ__fail(SITU_E_SHAPE, "cdist", "x1 has %d dimensions, x2 %d: both have at least 2, [..., rows, width]",
                      x1->view.ndim, x2->view.ndim),
           NULL;
  if (!(p >= 0)) return situ__fail(SITU_E_ARG, "cdist", "p is %g, must be at least 0", p), NULL;
  return situ_norm(situ_sub(situ_unsqueeze(x1, -2), situ_unsqueeze(x2, -3)), p,
                   &(situ_reduce_options){ .dim = SITU_DIMS(-1) });
}

/* torch divides by norm + 1e-7. */
situ_tensor *situ_renorm(situ_tensor *input, double p, int dim, double maxnorm) {
  SITU__MADE_OF_OPS("renorm");
  static const situ_op schema = { .name = "renorm", .operand = { { "input", SITU_FLOATING } } };
  int d;
  if (!situ__together(&schema, &input, 1) || !situ_wrap_dim("renorm", dim, input->view.ndim, &d)) return NULL;
  if (input->view.ndim < 2 || !(p > 0) || !(maxnorm >= 0))
    return situ__fail(SITU_E_ARG, "renorm", "%d dimensions, p %g, maxnorm %g: needs at least 2, above 0, at least 0",
                      input->view.ndim, p, maxnorm),
           NULL;
  situ_reduce_options o = { .keepdim = true };
  for (int k = 0; k < input->view.ndim; k++)
    if (k != d) o.dim.dim[o.dim.ndim++] = k;
  situ_tensor *norm = situ_norm(input, p, &o);
  situ_tensor *factor = situ_mul_scalar(situ_reciprocal(situ_add_scalar(norm, 1e-7)), maxnorm);
  return situ_mul(input, situ_where(situ_gt_scalar(norm, maxnorm), factor, situ_ones_like(factor, NULL)));
}
