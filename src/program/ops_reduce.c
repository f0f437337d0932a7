/* ATen's reductions, scans and sorting.
   SPDX-License-Identifier: MIT */
#include "program/program.h"

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
static situ_tensor *run_any(situ__op_call *c) { return reduce(c, situ_any, false); }
static situ_tensor *run_all(situ__op_call *c) { return reduce(c, situ_all, false); }
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
static situ_tensor *any_all(situ_tensor *x) { return situ_any(x, NULL); }
static situ_tensor *all_all(situ_tensor *x) { return situ_all(x, NULL); }

/* Arguments: self, dim, correction, keepdim. */
static situ_tensor *run_var(situ__op_call *c) {
  return situ_var(situ__arg_tensor(c, 0), situ__arg_number(c, 2),
                  &(situ_reduce_options){ .dim = situ__arg_dims(c, 1), .keepdim = situ__arg_flag(c, 3) });
}
static situ_tensor *run_std(situ__op_call *c) {
  return situ_std(situ__arg_tensor(c, 0), situ__arg_number(c, 2),
                  &(situ_reduce_options){ .dim = situ__arg_dims(c, 1), .keepdim = situ__arg_flag(c, 3) });
}
/* Arguments: self, ord, dim, keepdim, dtype. */
static situ_tensor *run_norm(situ__op_call *c) {
  return situ_norm(situ__arg_tensor(c, 0), situ__arg_number(c, 1),
                   &(situ_reduce_options){
                       .dim = situ__arg_dims(c, 2), .keepdim = situ__arg_flag(c, 3), .dtype = situ__arg_dtype(c, 4) });
}

static situ_tensor **second(situ__op_call *c) { return c->node->outs > 1 ? c->also : NULL; }

static situ_tensor *run_max_dim(situ__op_call *c) {
  return situ_max_dim(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_flag(c, 2), second(c));
}
static situ_tensor *run_min_dim(situ__op_call *c) {
  return situ_min_dim(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_flag(c, 2), second(c));
}
static situ_tensor *run_sort(situ__op_call *c) {
  return situ_sort(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_flag(c, 2), second(c));
}
static situ_tensor *run_argsort(situ__op_call *c) {
  return situ_argsort(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_flag(c, 2));
}
static situ_tensor *run_topk(situ__op_call *c) {
  return situ_topk(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_dim(c, 2), situ__arg_flag(c, 3), second(c));
}

static situ_tensor *run_cumsum(situ__op_call *c) { return situ_cumsum(situ__arg_cast(c, 2), situ__arg_dim(c, 1)); }
static situ_tensor *run_cumprod(situ__op_call *c) { return situ_cumprod(situ__arg_cast(c, 2), situ__arg_dim(c, 1)); }

/* Differences after prepend and append were joined on. */
static situ_tensor *run_diff(situ__op_call *c) {
  situ_tensor *list[3];
  int count = 0;
  if (situ__arg_given(c, 3)) list[count++] = situ__arg_tensor(c, 3);
  list[count++] = situ__arg_tensor(c, 0);
  if (situ__arg_given(c, 4)) list[count++] = situ__arg_tensor(c, 4);
  return situ_diff(count > 1 ? situ_cat(list, count, situ__arg_dim(c, 2)) : list[0], situ__arg_int(c, 1),
                   situ__arg_dim(c, 2));
}
static situ_tensor *run_histc(situ__op_call *c) {
  return situ_histc(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_number(c, 2), situ__arg_number(c, 3));
}

#define ALONG "t self, I? dim, b keepdim=0, *d? dtype"
#define ALONG_ONE "t self, i dim, b keepdim=0"

static const situ__op_row rows[] = {
  { .target = "sum.default", .parameters = "t self, *d? dtype", .run = run_sum_all },
  { .target = "sum.dim_IntList", .parameters = ALONG, .run = run_sum },
  { .target = "mean.default", .parameters = "t self, *d? dtype", .run = run_mean_all },
  { .target = "mean.dim", .parameters = ALONG, .run = run_mean },
  { .target = "prod.dim_int", .parameters = ALONG, .run = run_prod },
  { .target = "amax.default", .parameters = ALONG, .run = run_amax },
  { .target = "amin.default", .parameters = ALONG, .run = run_amin },
  { .target = "any.default", .parameters = "t self", .unary = any_all },
  { .target = "any.dim", .parameters = ALONG, .run = run_any },
  { .target = "any.dims", .parameters = ALONG, .run = run_any },
  { .target = "all.default", .parameters = "t self", .unary = all_all },
  { .target = "all.dim", .parameters = ALONG, .run = run_all },
  { .target = "argmax.default", .parameters = ALONG, .run = run_argmax },
  { .target = "argmin.default", .parameters = ALONG, .run = run_argmin },
  { .target = "logsumexp.default", .parameters = ALONG, .run = run_logsumexp },
  { .target = "var.correction", .parameters = "t self, I? dim, *n correction=1, *b keepdim=0", .run = run_var },
  { .target = "std.correction", .parameters = "t self, I? dim, *n correction=1, *b keepdim=0", .run = run_std },
  { .target = "linalg_vector_norm.default",
    .parameters = "t self, n ord=2, I? dim, b keepdim=0, *d? dtype",
    .run = run_norm },
  { .target = "norm.ScalarOpt_dim", .parameters = "t self, n p=2, I? dim, b keepdim=0, *d? dtype", .run = run_norm },
  { .target = "max.default", .parameters = "t self", .unary = situ_max },
  { .target = "min.default", .parameters = "t self", .unary = situ_min },
  { .target = "max.dim", .parameters = ALONG_ONE, .results = 2, .run = run_max_dim },
  { .target = "min.dim", .parameters = ALONG_ONE, .results = 2, .run = run_min_dim },
  { .target = "sort.default", .parameters = "t self, i dim=-1, b descending=0", .results = 2, .run = run_sort },
  { .target = "sort.stable",
    .parameters = "t self, i dim=-1, b descending=0, _ stable",
    .results = 2,
    .run = run_sort },
  { .target = "argsort.default", .parameters = "t self, i dim=-1, b descending=0", .run = run_argsort },
  { .target = "topk.default",
    .parameters = "t self, i k, i dim=-1, b largest=1, _ sorted",
    .results = 2,
    .run = run_topk },
  { .target = "cumsum.default", .parameters = "t self, i dim, *d? dtype", .run = run_cumsum },
  { .target = "cumprod.default", .parameters = "t self, i dim, *d? dtype", .run = run_cumprod },
  { .target = "diff.default", .parameters = "t self, i n=1, i dim=-1, t? prepend, t? append", .run = run_diff },
  { .target = "histc.default", .parameters = "t self, i bins=100, n min=0, n max=0", .run = run_histc },
};
const situ__op_family situ__reduce_family = { rows, sizeof rows / sizeof *rows };
