/* Reductions, scans and sorting.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_REDUCE_H
#define SITU_OPS_REDUCE_H

#include "../tensor.h"

SITU_BEGIN

/** What to reduce; NULL or {0}: every dimension, into a 0-dim tensor. */
typedef struct situ_reduce_options {
  situ_shape dim; /**< SITU_DIMS(0, -1); none: all */
  bool keepdim;   /**< leave a size of 1 where a dimension was */
  situ_dtype
      dtype; /**< sum, mean, prod, var, std, norm, logsumexp: compute and return in this dtype; refused elsewhere */
} situ_reduce_options;

/** Whole numbers sum and multiply in i64. */
SITU_API SITU_CHECKED situ_tensor *situ_sum(situ_tensor *x, const situ_reduce_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_mean(situ_tensor *x, const situ_reduce_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_prod(situ_tensor *x, const situ_reduce_options *options);
/** Divides by n - correction; torch's default is 1. */
SITU_API SITU_CHECKED situ_tensor *situ_var(situ_tensor *x, double correction, const situ_reduce_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_std(situ_tensor *x, double correction, const situ_reduce_options *options);
/** Several dimensions at once; ties share the gradient evenly. */
SITU_API SITU_CHECKED situ_tensor *situ_amin(situ_tensor *x, const situ_reduce_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_amax(situ_tensor *x, const situ_reduce_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_all(situ_tensor *x, const situ_reduce_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_any(situ_tensor *x, const situ_reduce_options *options);
/** (sum |x|^p)^(1/p); p may be INFINITY, -INFINITY or 0. */
SITU_API SITU_CHECKED situ_tensor *situ_norm(situ_tensor *x, double p, const situ_reduce_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_logsumexp(situ_tensor *x, const situ_reduce_options *options);

/** The extreme of all elements. */
SITU_API SITU_CHECKED situ_tensor *situ_min(situ_tensor *x);
SITU_API SITU_CHECKED situ_tensor *situ_max(situ_tensor *x);
/** The extremes along dim; *indices (may be NULL) gets where, as i64. The first of equals counts; NaN wins. */
SITU_API SITU_CHECKED situ_tensor *situ_min_dim(situ_tensor *x, int dim, bool keepdim, situ_tensor **indices);
SITU_API SITU_CHECKED situ_tensor *situ_max_dim(situ_tensor *x, int dim, bool keepdim, situ_tensor **indices);
/** Where the extreme is: along options->dim (one), or in the flattened tensor. i64. */
SITU_API SITU_CHECKED situ_tensor *situ_argmin(situ_tensor *x, const situ_reduce_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_argmax(situ_tensor *x, const situ_reduce_options *options);

SITU_API SITU_CHECKED situ_tensor *situ_cumsum(situ_tensor *x, int dim);
/** Sorted along dim, stable; NaN is the largest; *indices (may be NULL) gets where each came from, as i64. */
SITU_API SITU_CHECKED situ_tensor *situ_sort(situ_tensor *x, int dim, bool descending, situ_tensor **indices);
SITU_API SITU_CHECKED situ_tensor *situ_argsort(situ_tensor *x, int dim, bool descending);
/** The k largest (or smallest) along dim, in order. */
SITU_API SITU_CHECKED situ_tensor *situ_topk(situ_tensor *x, int64_t k, int dim, bool largest, situ_tensor **indices);

SITU_END
#endif
