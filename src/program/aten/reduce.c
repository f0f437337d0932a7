/* ATen's reductions, scans and distances.
   SPDX-License-Identifier: MIT */
#include "program/graph/program.h"
#include "program/graph/rows.h"

typedef situ_tensor *reduction(situ_tensor *, const situ_reduce_options *);

/* Arguments: self, dim, keepdim, dtype. */
static situ_tensor *reduce(situ__op_call *c, reduction *fn, bool has_dtype) {
  const situ_reduce_options o = { .dim = situ__arg_dims(c, 1),
                                  .keepdim = situ__arg_flag(c, 2),
                                  .dtype = has_dtype ? situ__arg_dtype(c, 3) : SITU_DTYPE_DEFAULT };
  return fn(situ__arg_tensor(c, 0), &o);
}
static situ_tensor *run_sum(situ__op_call *c) { return reduce(c, situ_sum, true); }
static situ_tensor *run_mean(situ__op_call *c) { return reduce(c, situ_mean, true); }
static situ_tensor *run_prod(situ__op_call *c) { return reduce(c, situ_prod, true); }
static situ_tensor *run_amax(situ__op_call *c) { return reduce(c, situ_amax, false); }
static situ_tensor *run_amin(situ__op_call *c) { return reduce(c, situ_amin, false); }
/* Of u8 torch gives u8. */
static situ_tensor *as_bytes(situ_tensor *y, situ_tensor *x) {
  return y && situ_dtype_of(x) == SITU_U8 ? situ_to_dtype(y, SITU_U8) : y;
}
static situ_tensor *run_any(situ__op_call *c) { return as_bytes(reduce(c, situ_any, false), situ__arg_tensor(c, 0)); }
static situ_tensor *run_all(situ__op_call *c) { return as_bytes(reduce(c, situ_all, false), situ__arg_tensor(c, 0)); }
static situ_tensor *run_argmax(situ__op_call *c) { return reduce(c, situ_argmax, false); }
static situ_tensor *run_argmin(situ__op_call *c) { return reduce(c, situ_argmin, false); }
static situ_tensor *run_logsumexp(situ__op_call *c) { return reduce(c, situ_logsumexp, false); }

/* All dimensions, in a dtype. */
static situ_tensor *run_sum_all(situ__op_call *c) {
  return situ_sum(situ__arg_tensor(c, 0), &(situ_reduce_options){ .dtype = situ__arg_dtype(c, 1) });
}
static situ_tensor *run_mean_all(situ__op_call *c) {
  return situ_mean(situ__arg_tensor(c, 0), &(situ_reduce_options){ .dtype = situ__arg_dtype(c, 1) });
}
static situ_tensor *run_prod_all(situ__op_call *c) {
  return situ_prod(situ__arg_tensor(c, 0), &(situ_reduce_options){ .dtype = situ__arg_dtype(c, 1) });
}
static situ_tensor *run_nansum(situ__op_call *c) { return reduce(c, situ_nansum, true); }
static situ_tensor *run_nanmean(situ__op_call *c) { return reduce(c, situ_nanmean, true); }
static situ_tensor *any_all(situ_tensor *x) { return as_bytes(situ_any(x, NULL), x); }
static situ_tensor *all_all(situ_tensor *x) { return as_bytes(situ_all(x, NULL), x); }

/* Arguments: self, dim, correction, keepdim. */
static situ_tensor *run_var(situ__op_call *c) {
  return situ_var(situ__arg_tensor(c, 0), situ__arg_number(c, 2),
                  &(situ_reduce_options){ .dim = situ__arg_dims(c, 1), .keepdim = situ__arg_flag(c, 3) });
}
static situ_tensor *run_std(situ__op_call *c) {
  return situ_std(situ__arg_tensor(c, 0), situ__arg_number(c, 2),
                  &(situ_reduce_options){ .dim = situ__arg_dims(c, 1), .keepdim = situ__arg_flag(c, 3) });
}
typedef situ_tensor *with_mean(situ_tensor *, double, const situ_reduce_options *, situ_tensor **);
static situ_tensor *reduce_with_mean(situ__op_call *c, with_mean *fn) {
  const situ_reduce_options o = { .dim = situ__arg_dims(c, 1), .keepdim = situ__arg_flag(c, 3) };
  return fn(situ__arg_tensor(c, 0), situ__arg_number(c, 2), &o, situ__call_result(c, 1));
}
static situ_tensor *run_var_mean(situ__op_call *c) { return reduce_with_mean(c, situ_var_mean); }
static situ_tensor *run_std_mean(situ__op_call *c) { return reduce_with_mean(c, situ_std_mean); }
/* Arguments: self, ord, dim, keepdim, dtype. */
static situ_tensor *run_norm(situ__op_call *c) {
  return situ_norm(situ__arg_tensor(c, 0), situ__arg_number(c, 1),
                   &(situ_reduce_options){
                       .dim = situ__arg_dims(c, 2), .keepdim = situ__arg_flag(c, 3), .dtype = situ__arg_dtype(c, 4) });
}

static situ_tensor *run_cumsum(situ__op_call *c) { return situ_cumsum(situ__arg_cast(c, 2), situ__arg_dim(c, 1)); }
static situ_tensor *run_logcumsumexp(situ__op_call *c) {
  return situ_logcumsumexp(situ__arg_tensor(c, 0), situ__arg_dim(c, 1));
}
static situ_tensor *run_cumprod(situ__op_call *c) { return situ_cumprod(situ__arg_cast(c, 2), situ__arg_dim(c, 1)); }

/* Differences after prepend and append were joined on; none of 0 differences. */
static situ_tensor *run_diff(situ__op_call *c) {
  const bool joins = situ__arg_int(c, 1) != 0;
  situ_tensor *list[3];
  int count = 0;
  if (joins && situ__arg_given(c, 3)) list[count++] = situ__arg_tensor(c, 3);
  list[count++] = situ__arg_tensor(c, 0);
  if (joins && situ__arg_given(c, 4)) list[count++] = situ__arg_tensor(c, 4);
  return situ_diff(count > 1 ? situ_cat(list, count, situ__arg_dim(c, 2)) : list[0], situ__arg_int(c, 1),
                   situ__arg_dim(c, 2));
}

/* ---- distances and areas ---- */

static situ_tensor *run_dist(situ__op_call *c) {
  return situ_dist(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_number(c, 2));
}
static situ_tensor *run_cdist(situ__op_call *c) {
  return situ_cdist(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_number(c, 2));
}
static situ_tensor *run_pdist(situ__op_call *c) { return situ_pdist(situ__arg_tensor(c, 0), situ__arg_number(c, 1)); }
static situ_tensor *run_renorm(situ__op_call *c) {
  return situ_renorm(situ__arg_tensor(c, 0), situ__arg_number(c, 1), situ__arg_dim(c, 2), situ__arg_number(c, 3));
}
static situ_tensor *run_cosine_similarity(situ__op_call *c) {
  return situ_cosine_similarity(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_dim(c, 2),
                                situ__arg_number(c, 3));
}
static situ_tensor *run_pairwise_distance(situ__op_call *c) {
  return situ_pairwise_distance(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_number(c, 2),
                                situ__arg_number(c, 3), situ__arg_flag(c, 4));
}
static situ_tensor *run_cov(situ__op_call *c) {
  if (situ__arg_given(c, 2) || situ__arg_given(c, 3))
    return situ__call_refuse(c, "weighs its observations, which situ lacks");
  return situ_cov(situ__arg_tensor(c, 0), situ__arg_number(c, 1));
}
/* Arguments: y, x, dim, dx. */
static situ_tensor *run_trapezoid(situ__op_call *c) {
  return situ_trapezoid(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_number(c, 3), situ__arg_dim(c, 2));
}
static situ_tensor *run_cumulative_trapezoid(situ__op_call *c) {
  return situ_cumulative_trapezoid(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_number(c, 3),
                                   situ__arg_dim(c, 2));
}

/* unbiased is a correction of 1, or of 0. */
#define SPREAD "t self, I? dim, *n correction=1, *b keepdim=0"
#define SPREAD_BIASED "t self, I? dim, b unbiased=1, b keepdim=0"
#define NORM "t self, n p=2, I? dim, b keepdim=0, *d? dtype"
#define AREA "t y, t? x, *i dim=-1, *n dx=1"
#define ALONG "t self, I? dim, b keepdim=0, *d? dtype"

static const situ__op_row rows[] = {
  { "sum.default", "t self, *d? dtype", .run = run_sum_all },
  { "sum.dim_IntList", ALONG, .run = run_sum },
  { "mean.default", "t self, *d? dtype", .run = run_mean_all },
  { "mean.dim", ALONG, .run = run_mean },
  { "prod.default", "t self, *d? dtype", .run = run_prod_all },
  { "prod.dim_int", ALONG, .run = run_prod },
  { "amax.default", ALONG, .run = run_amax },
  { "amin.default", ALONG, .run = run_amin },
  { "any.default", "t self", .unary = any_all },
  { "any.dim", ALONG, .run = run_any },
  { "any.dims", ALONG, .run = run_any },
  { "all.default", "t self", .unary = all_all },
  { "all.dim", ALONG, .run = run_all },
  { "all.dims", ALONG, .run = run_all },
  { "nansum.default", ALONG, .run = run_nansum },
  { "nanmean.default", ALONG, .run = run_nanmean },
  { "argmax.default", ALONG, .run = run_argmax },
  { "argmin.default", ALONG, .run = run_argmin },
  { "logsumexp.default", ALONG, .run = run_logsumexp },
  { "var.default", SPREAD_BIASED, .run = run_var },
  { "var.dim", SPREAD_BIASED, .run = run_var },
  { "var.correction", SPREAD, .run = run_var },
  { "std.default", SPREAD_BIASED, .run = run_std },
  { "std.dim", SPREAD_BIASED, .run = run_std },
  { "std.correction", SPREAD, .run = run_std },
  { "var_mean.default", SPREAD_BIASED, .results = 2, .run = run_var_mean },
  { "var_mean.dim", SPREAD_BIASED, .results = 2, .run = run_var_mean },
  { "var_mean.correction", SPREAD, .results = 2, .run = run_var_mean },
  { "std_mean.default", SPREAD_BIASED, .results = 2, .run = run_std_mean },
  { "std_mean.dim", SPREAD_BIASED, .results = 2, .run = run_std_mean },
  { "std_mean.correction", SPREAD, .results = 2, .run = run_std_mean },
  { "linalg_vector_norm.default", "t self, n ord=2, I? dim, b keepdim=0, *d? dtype", .run = run_norm },
  { "norm.Scalar", NORM, .run = run_norm },
  { "norm.ScalarOpt_dtype", NORM, .run = run_norm },
  { "norm.ScalarOpt_dim_dtype", NORM, .run = run_norm },
  { "norm.ScalarOpt_dim", NORM, .run = run_norm },
  { "cumsum.default", "t self, i dim, *d? dtype", .run = run_cumsum },
  { "logcumsumexp.default", "t self, i dim", .run = run_logcumsumexp },
  { "cumprod.default", "t self, i dim, *d? dtype", .run = run_cumprod },
  { "diff.default", "t self, i n=1, i dim=-1, t? prepend, t? append", .run = run_diff },
  { "dist.default", "t self, t other, n p=2", .run = run_dist },
  { "_cdist_forward.default", "t x1, t x2, n p, _ compute_mode", .run = run_cdist },
  { "cdist.default", "t x1, t x2, n p=2, _ compute_mode", .run = run_cdist },
  { "pdist.default", "t self, n p=2", .run = run_pdist },
  { "renorm.default", "t self, n p, i dim, n maxnorm", .run = run_renorm },
  { "cosine_similarity.default", "t x1, t x2, i dim=1, n eps=1e-08", .run = run_cosine_similarity },
  { "pairwise_distance.default", "t x1, t x2, n p=2, n eps=1e-06, b keepdim=0", .run = run_pairwise_distance },
  { "cov.default", "t self, *i correction=1, *t? fweights, *t? aweights", .run = run_cov },
  UNARY(corrcoef),
  { "trapezoid.x", AREA, .run = run_trapezoid },
  { "trapezoid.dx", AREA, .run = run_trapezoid },
  { "cumulative_trapezoid.x", AREA, .run = run_cumulative_trapezoid },
  { "cumulative_trapezoid.dx", AREA, .run = run_cumulative_trapezoid },
};
const situ__op_family situ__reduce_family = { rows, sizeof rows / sizeof *rows };
