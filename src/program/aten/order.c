/* ATen's sorting, order statistics, searching and counting.
   SPDX-License-Identifier: MIT */
#include "program/graph/program.h"
#include "program/graph/rows.h"

/* ---- sorting ---- */

static situ_tensor *run_sort(situ__op_call *c) {
  return situ_sort(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_flag(c, 2), situ__call_result(c, 1));
}
static situ_tensor *run_argsort(situ__op_call *c) {
  return situ_argsort(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_flag(c, 2));
}
static situ_tensor *run_topk(situ__op_call *c) {
  return situ_topk(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_dim(c, 2), situ__arg_flag(c, 3),
                   situ__call_result(c, 1));
}
static situ_tensor *run_kthvalue(situ__op_call *c) {
  return situ_kthvalue(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_dim(c, 2), situ__arg_flag(c, 3),
                       situ__call_result(c, 1));
}

typedef situ_tensor *choice(situ_tensor *, int, bool, situ_tensor **);
static situ_tensor *choose(situ__op_call *c, choice *fn) {
  return fn(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__arg_flag(c, 2), situ__call_result(c, 1));
}
static situ_tensor *run_max_dim(situ__op_call *c) { return choose(c, situ_max_dim); }
static situ_tensor *run_min_dim(situ__op_call *c) { return choose(c, situ_min_dim); }
static situ_tensor *run_median_dim(situ__op_call *c) { return choose(c, situ_median_dim); }
static situ_tensor *run_nanmedian_dim(situ__op_call *c) { return choose(c, situ_nanmedian_dim); }
static situ_tensor *run_mode(situ__op_call *c) { return choose(c, situ_mode); }
static situ_tensor *run_cummax(situ__op_call *c) {
  return situ_cummax(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__call_result(c, 1));
}
static situ_tensor *run_cummin(situ__op_call *c) {
  return situ_cummin(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__call_result(c, 1));
}
static situ_tensor *run_aminmax(situ__op_call *c) {
  return situ_aminmax(situ__arg_tensor(c, 0),
                      &(situ_reduce_options){ .dim = situ__arg_dims(c, 1), .keepdim = situ__arg_flag(c, 2) },
                      situ__call_result(c, 1));
}

typedef situ_tensor *quantiles(situ_tensor *, double, const situ_reduce_options *, situ_quantile_interpolation);
/* One, or one after the other for those of a tensor, whose values the host reads. */
static situ_tensor *run_quantiles(situ__op_call *c, quantiles *fn) {
  const char *text = situ__arg_given(c, 4) ? situ__arg_text(c, 4) : "linear";
  const situ_quantile_interpolation how = text[0] == 'h'                     ? SITU_QUANTILE_HIGHER
                                          : text[0] == 'm'                   ? SITU_QUANTILE_MIDPOINT
                                          : text[0] == 'n'                   ? SITU_QUANTILE_NEAREST
                                          : text[0] == 'l' && text[1] == 'o' ? SITU_QUANTILE_LOWER
                                                                             : SITU_QUANTILE_LINEAR;
  const situ_reduce_options o = { .dim = situ__arg_dims(c, 2), .keepdim = situ__arg_flag(c, 3) };
  const int64_t given = situ__arg_is_tensor(c, 1) ? situ_numel(situ__arg_tensor(c, 1)) : 1;
  double *q = situ__call_take(c, given, sizeof *q);
  situ_tensor **list = situ__call_take(c, given, sizeof *list);
  const int count = q && list ? situ__arg_host_numbers(c, 1, q, (int)given) : -1;
  for (int i = 0; i < count; i++)
    if (!(list[i] = fn(situ__arg_tensor(c, 0), q[i], &o, how))) return NULL;
  const bool one = !situ__arg_is_tensor(c, 1) || situ_dim(situ__arg_tensor(c, 1)) == 0;
  return count < 1 ? NULL : one ? list[0] : situ_stack(list, count, 0);
}
static situ_tensor *run_quantile(situ__op_call *c) { return run_quantiles(c, situ_quantile); }
static situ_tensor *run_nanquantile(situ__op_call *c) { return run_quantiles(c, situ_nanquantile); }

/* ---- searching and counting ---- */

static situ_tensor *integer(situ_tensor *places, bool i32) { return i32 ? situ_to_dtype(places, SITU_I32) : places; }
static situ_tensor *run_searchsorted(situ__op_call *c) {
  situ_tensor *sorted = situ__arg_tensor(c, 0);
  const bool right = situ__arg_flag(c, 3) || *situ__arg_text(c, 4) == 'r';
  if (situ__arg_given(c, 5)) sorted = situ_gather(sorted, -1, situ__arg_tensor(c, 5));
  situ_tensor *values = situ__arg_is_tensor(c, 1) ? situ__arg_tensor(c, 1)
                                                  : situ_new_full(sorted, SITU_SCALAR, situ__arg_number(c, 1), NULL);
  const situ_dtype common = situ_promote_types(situ_dtype_of(sorted), situ_dtype_of(values));
  return integer(situ_searchsorted(situ_to_dtype(sorted, common), situ_to_dtype(values, common), right),
                 situ__arg_flag(c, 2));
}
static situ_tensor *run_bucketize(situ__op_call *c) {
  situ_tensor *bounds = situ__arg_tensor(c, 1);
  situ_tensor *x = situ__arg_is_tensor(c, 0) ? situ__arg_tensor(c, 0)
                                             : situ_new_full(bounds, SITU_SCALAR, situ__arg_number(c, 0), NULL);
  return integer(situ_bucketize(x, bounds, situ__arg_flag(c, 3)), situ__arg_flag(c, 2));
}
static situ_tensor *run_isin(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_tensor *among =
      situ__arg_is_tensor(c, 1) ? situ__arg_tensor(c, 1) : situ_new_full(x, SITU_SCALAR, situ__arg_number(c, 1), NULL);
  return situ_isin(x, among, situ__arg_flag(c, 2));
}
static situ_tensor *run_unique(situ__op_call *c) {
  return situ_unique(situ__arg_tensor(c, 0), situ__call_result(c, 1), situ__call_result(c, 2));
}
static situ_tensor *run_unique_dim(situ__op_call *c) {
  return situ_unique_dim(situ__arg_tensor(c, 0), situ__arg_dim(c, 1), situ__call_result(c, 1), situ__call_result(c, 2));
}
static situ_tensor *run_unique_consecutive(situ__op_call *c) {
  if (situ__arg_given(c, 1) && situ_dim(situ__arg_tensor(c, 0)) != 1)
    return situ__call_refuse(c, "compares slices, where situ compares elements");
  return situ_unique_consecutive(situ__arg_tensor(c, 0), situ__call_result(c, 1), situ__call_result(c, 2));
}
static situ_tensor *run_bincount(situ__op_call *c) {
  return situ_bincount(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_int(c, 2));
}
static situ_tensor *run_histc(situ__op_call *c) {
  return situ_histc(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_number(c, 2), situ__arg_number(c, 3));
}
static situ_tensor *run_count_nonzero(situ__op_call *c) {
  return situ_count_nonzero(situ__arg_tensor(c, 0), situ__arg_dims(c, 1));
}

#define ALONG_ONE "t self, i dim, b keepdim=0"
#define SEARCH "*b out_int32=0, *b right=0"

static const situ__op_row rows[] = {
  { "max.default", "t self", .unary = situ_max },
  { "min.default", "t self", .unary = situ_min },
  { "median.default", "t self", .unary = situ_median },
  { "nanmedian.default", "t self", .unary = situ_nanmedian },
  UNARY(msort),
  { "max.dim", ALONG_ONE, .results = 2, .run = run_max_dim },
  { "min.dim", ALONG_ONE, .results = 2, .run = run_min_dim },
  { "median.dim", ALONG_ONE, .results = 2, .run = run_median_dim },
  { "nanmedian.dim", ALONG_ONE, .results = 2, .run = run_nanmedian_dim },
  { "mode.default", "t self, i dim=-1, b keepdim=0", .results = 2, .run = run_mode },
  { "kthvalue.default", "t self, i k, i dim=-1, b keepdim=0", .results = 2, .run = run_kthvalue },
  { "cummax.default", "t self, i dim", .results = 2, .run = run_cummax },
  { "cummin.default", "t self, i dim", .results = 2, .run = run_cummin },
  { "aminmax.default", "t self, *I? dim, *b keepdim=0", .results = 2, .run = run_aminmax },
  { "quantile.default", "t self, h q, I? dim, b keepdim=0, *s? interpolation", .run = run_quantile },
  { "quantile.scalar", "t self, h q, I? dim, b keepdim=0, *s? interpolation", .run = run_quantile },
  { "nanquantile.default", "t self, h q, I? dim, b keepdim=0, *s? interpolation", .run = run_nanquantile },
  { "nanquantile.scalar", "t self, h q, I? dim, b keepdim=0, *s? interpolation", .run = run_nanquantile },
  { "sort.default", "t self, i dim=-1, b descending=0", .results = 2, .run = run_sort },
  { "sort.stable", "t self, i dim=-1, b descending=0, _ stable", .results = 2, .run = run_sort },
  { "argsort.default", "t self, i dim=-1, b descending=0", .run = run_argsort },
  { "argsort.stable", "t self, i dim=-1, b descending=0, _ stable", .run = run_argsort },
  { "topk.default", "t self, i k, i dim=-1, b largest=1, _ sorted", .results = 2, .run = run_topk },

  { "searchsorted.Tensor", "t sorted_sequence, t self, " SEARCH ", *s? side, *t? sorter", .run = run_searchsorted },
  { "searchsorted.Scalar", "t sorted_sequence, n self, " SEARCH ", *s? side, *t? sorter", .run = run_searchsorted },
  { "bucketize.Tensor", "t self, t boundaries, " SEARCH, .run = run_bucketize },
  { "bucketize.Scalar", "n self, t boundaries, " SEARCH, .run = run_bucketize },
  { "isin.Tensor_Tensor", "t elements, t test_elements, *b invert=0, _ assume_unique", .run = run_isin },
  { "isin.Tensor_Scalar", "t elements, n test_element, *b invert=0, _ assume_unique", .run = run_isin },
  { "_unique2.default", "t self, _ sorted, _ return_inverse, _ return_counts", .results = 3, .run = run_unique },
  { "unique_dim.default", "t self, i dim, _ sorted, _ return_inverse, _ return_counts", .results = 3,
    .run = run_unique_dim },
  { "unique_consecutive.default", "t self, i? dim, _ return_inverse, _ return_counts", .results = 3,
    .run = run_unique_consecutive },
  UNARY(nonzero),
  { "argwhere.default", "t self", .unary = situ_nonzero },
  { "masked_select.default", "t self, t mask", .binary = situ_masked_select },
  { "bincount.default", "t self, t? weights, i minlength=0", .run = run_bincount },
  { "histc.default", "t self, i bins=100, n min=0, n max=0", .run = run_histc },
  { "count_nonzero.default", "t self, I? dim", .run = run_count_nonzero },
  { "count_nonzero.dim_IntList", "t self, I dim", .run = run_count_nonzero },
};
const situ__op_family situ__order_family = { rows, sizeof rows / sizeof *rows };
