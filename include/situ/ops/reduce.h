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

/** Sum; integer and bool dtypes in i64. */
SITU_API SITU_CHECKED situ_tensor *situ_sum(situ_tensor *input, const situ_reduce_options *options);
/** Mean; integer dtypes need options->dtype. */
SITU_API SITU_CHECKED situ_tensor *situ_mean(situ_tensor *input, const situ_reduce_options *options);
/** Product; integer and bool dtypes in i64. */
SITU_API SITU_CHECKED situ_tensor *situ_prod(situ_tensor *input, const situ_reduce_options *options);
/** Variance: divides by n - correction. torch's default correction is 1 (0: population variance). */
SITU_API SITU_CHECKED situ_tensor *situ_var(situ_tensor *input, double correction, const situ_reduce_options *options);
/** Square root of situ_var; torch's default correction is 1. */
SITU_API SITU_CHECKED situ_tensor *situ_std(situ_tensor *input, double correction, const situ_reduce_options *options);
/** Minimum, over several dimensions at once; NaN wins; equal elements share the gradient evenly. */
SITU_API SITU_CHECKED situ_tensor *situ_amin(situ_tensor *input, const situ_reduce_options *options);
/** Maximum, over several dimensions at once; NaN wins; equal elements share the gradient evenly. */
SITU_API SITU_CHECKED situ_tensor *situ_amax(situ_tensor *input, const situ_reduce_options *options);
/** No element is 0, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_all(situ_tensor *input, const situ_reduce_options *options);
/** At least one element is not 0, as bool. */
SITU_API SITU_CHECKED situ_tensor *situ_any(situ_tensor *input, const situ_reduce_options *options);
/** (sum |input|^p)^(1/p); p may be INFINITY, -INFINITY or 0 (the count of elements that are not 0). torch's default p
    is 2. */
SITU_API SITU_CHECKED situ_tensor *situ_norm(situ_tensor *input, double p, const situ_reduce_options *options);
/** log(sum(exp(input))), without overflow; integer dtypes give f32. */
SITU_API SITU_CHECKED situ_tensor *situ_logsumexp(situ_tensor *input, const situ_reduce_options *options);

/** The smallest of all elements, 0-dim; NaN wins. */
SITU_API SITU_CHECKED situ_tensor *situ_min(situ_tensor *input);
/** The largest of all elements, 0-dim; NaN wins. */
SITU_API SITU_CHECKED situ_tensor *situ_max(situ_tensor *input);
/** Minimum along dim; *indices (may be NULL) gets its index, as i64. The first of equals counts; NaN wins. */
SITU_API SITU_CHECKED situ_tensor *situ_min_dim(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices);
/** Maximum along dim; as situ_min_dim. */
SITU_API SITU_CHECKED situ_tensor *situ_max_dim(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices);
/** Index of the minimum, i64: along options->dim (at most one), or in the flattened tensor. */
SITU_API SITU_CHECKED situ_tensor *situ_argmin(situ_tensor *input, const situ_reduce_options *options);
/** Index of the maximum; as situ_argmin. */
SITU_API SITU_CHECKED situ_tensor *situ_argmax(situ_tensor *input, const situ_reduce_options *options);

/** Running sum along dim; integer and bool dtypes in i64. */
SITU_API SITU_CHECKED situ_tensor *situ_cumsum(situ_tensor *input, int dim);
/** Running product along dim; integer and bool dtypes in i64. The gradient is right where elements are 0. */
SITU_API SITU_CHECKED situ_tensor *situ_cumprod(situ_tensor *input, int dim);
/** Sorted along dim (torch's default is -1), stable; NaN is the largest; *indices (may be NULL) gets the place that
    each element came from, as i64. */
SITU_API SITU_CHECKED situ_tensor *situ_sort(situ_tensor *input, int dim, bool descending, situ_tensor **indices);
/** log of the running sum of exp(input) along dim, without overflow; floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_logcumsumexp(situ_tensor *input, int dim);
/** Area under y along dim by the trapezoidal rule, at places x (1-D, or of y's rank), or with x NULL at steps of dx.
    Integer dtypes give f32. torch's defaults are dx 1 and dim -1. */
SITU_API SITU_CHECKED situ_tensor *situ_trapezoid(situ_tensor *y, situ_tensor *x, double dx, int dim);
/** Covariances of the rows of input [variables, observations], [variables, variables]; 0-dim for one variable, or of
    input with fewer dimensions. torch's default correction is 1. Integer dtypes give f32. */
SITU_API SITU_CHECKED situ_tensor *situ_cov(situ_tensor *input, double correction);
/** situ_cov divided by the standard deviations: Pearson's correlations, within -1..1. */
SITU_API SITU_CHECKED situ_tensor *situ_corrcoef(situ_tensor *input);
/** situ_norm of input - other, 0-dim; shapes broadcast. torch's default p is 2. */
SITU_API SITU_CHECKED situ_tensor *situ_dist(situ_tensor *input, situ_tensor *other, double p);
/** Distances of each two rows of input [n, m], as situ_norm of their difference: [n (n - 1) / 2], in the order (0, 1),
    (0, 2), ... torch's default p is 2. */
SITU_API SITU_CHECKED situ_tensor *situ_pdist(situ_tensor *input, double p);
/** The running areas of situ_trapezoid: along dim one element less than y. */
SITU_API SITU_CHECKED situ_tensor *situ_cumulative_trapezoid(situ_tensor *y, situ_tensor *x, double dx, int dim);
/** The indices of situ_sort. */
SITU_API SITU_CHECKED situ_tensor *situ_argsort(situ_tensor *input, int dim, bool descending);
/** The k largest (or smallest) along dim, in order; *indices as in situ_sort. torch's defaults are dim -1 and largest
    true. */
SITU_API SITU_CHECKED situ_tensor *situ_topk(situ_tensor *input, int64_t k, int dim, bool largest,
                                             situ_tensor **indices);
/** Sorted along dimension 0. */
SITU_API SITU_CHECKED situ_tensor *situ_msort(situ_tensor *input);
/** Running maximum along dim; *indices (may be NULL) gets its index, as i64: the last of equals, and NaN stays. */
SITU_API SITU_CHECKED situ_tensor *situ_cummax(situ_tensor *input, int dim, situ_tensor **indices);
/** Running minimum; as situ_cummax. */
SITU_API SITU_CHECKED situ_tensor *situ_cummin(situ_tensor *input, int dim, situ_tensor **indices);
/** The k-th smallest along dim, k from 1; NaN is the largest; *indices (may be NULL) gets its index, as i64. torch's
    default dim is -1. */
SITU_API SITU_CHECKED situ_tensor *situ_kthvalue(situ_tensor *input, int64_t k, int dim, bool keepdim,
                                                 situ_tensor **indices);
/** The median of all elements, 0-dim: the lower of two middle ones; NaN wins. */
SITU_API SITU_CHECKED situ_tensor *situ_median(situ_tensor *input);
/** situ_median of the elements that are not NaN. */
SITU_API SITU_CHECKED situ_tensor *situ_nanmedian(situ_tensor *input);
/** The median along dim; *indices (may be NULL) gets its index, as i64. torch's default dim is -1. */
SITU_API SITU_CHECKED situ_tensor *situ_median_dim(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices);
/** situ_median_dim of the elements that are not NaN. */
SITU_API SITU_CHECKED situ_tensor *situ_nanmedian_dim(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices);
/** The most frequent value along dim, the smallest of several; *indices (may be NULL) gets an index of it, as i64.
    torch's default dim is -1. */
SITU_API SITU_CHECKED situ_tensor *situ_mode(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices);

/** What situ_quantile gives between two elements. */
typedef enum situ_quantile_interpolation {
  SITU_QUANTILE_LINEAR = 0,
  SITU_QUANTILE_LOWER,
  SITU_QUANTILE_HIGHER,
  SITU_QUANTILE_MIDPOINT,
  SITU_QUANTILE_NEAREST
} situ_quantile_interpolation;
/** The q-quantile (q in 0..1) along options->dim (at most one), or of all elements; NaN wins. Floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_quantile(situ_tensor *input, double q, const situ_reduce_options *options,
                                                 situ_quantile_interpolation interpolation);
/** situ_quantile of the elements that are not NaN. */
SITU_API SITU_CHECKED situ_tensor *situ_nanquantile(situ_tensor *input, double q, const situ_reduce_options *options,
                                                    situ_quantile_interpolation interpolation);

/** The number of elements that are not 0, i64, over the listed dimensions (none: all). */
SITU_API SITU_CHECKED situ_tensor *situ_count_nonzero(situ_tensor *input, situ_shape dim);
/** The sum of what expand would repeat: of a size that broadcasts to input's. Sums as situ_sum's, else a view. */
SITU_API SITU_CHECKED situ_tensor *situ_sum_to_size(situ_tensor *input, situ_shape size);
/** situ_sum with NaN as 0. */
SITU_API SITU_CHECKED situ_tensor *situ_nansum(situ_tensor *input, const situ_reduce_options *options);
/** Mean of the elements that are not NaN; NaN where there are none. Floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_nanmean(situ_tensor *input, const situ_reduce_options *options);
/** situ_amin; *max (may be NULL) gets situ_amax. */
SITU_API SITU_CHECKED situ_tensor *situ_aminmax(situ_tensor *input, const situ_reduce_options *options,
                                                situ_tensor **max);
/** situ_var; *mean (may be NULL) gets situ_mean. */
SITU_API SITU_CHECKED situ_tensor *situ_var_mean(situ_tensor *input, double correction,
                                                 const situ_reduce_options *options, situ_tensor **mean);
/** situ_std; *mean (may be NULL) gets situ_mean. */
SITU_API SITU_CHECKED situ_tensor *situ_std_mean(situ_tensor *input, double correction,
                                                 const situ_reduce_options *options, situ_tensor **mean);
/** Differences of neighbours along dim, n times (0: a copy); bool: which differ. torch's defaults are 1 and -1. */
SITU_API SITU_CHECKED situ_tensor *situ_diff(situ_tensor *input, int64_t n, int dim);
/** p-norm of the difference of each row of x1 [..., P, M] and each of x2 [..., R, M]: [..., P, R], in one piece of
    memory of P R M elements. One floating dtype; torch's default p is 2. */
SITU_API SITU_CHECKED situ_tensor *situ_cdist(situ_tensor *x1, situ_tensor *x2, double p);
/** input with each slice along dim whose p-norm is above maxnorm scaled down to it. */
SITU_API SITU_CHECKED situ_tensor *situ_renorm(situ_tensor *input, double p, int dim, double maxnorm);

SITU_END
#endif
