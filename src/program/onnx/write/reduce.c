/* ATen's reductions, scans and sorting as ONNX operators.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "write.h"

#define IN SITU__ONNX_IN

static int rank_of(const situ__onnx_writer *w) { return situ__onnx_about(w, 0)->size.ndim; }
static const char *number(situ__onnx_writer *w, double value) { return situ__onnx_scalar(w, value, w->gives->dtype); }

/* ---- reductions: dimensions at argument 1, none means all ---- */

static situ_shape axes_of(const situ__onnx_writer *w, bool listed) {
  const int rank = rank_of(w);
  const situ_shape given = listed ? situ__arg_dims(&w->call, 1) : SITU_SCALAR;
  situ_shape axes = { .ndim = given.ndim ? given.ndim : rank };
  for (int d = 0; d < axes.ndim; d++) axes.dim[d] = given.ndim ? situ__onnx_dim(given.dim[d], rank) : d;
  return axes;
}
static const char *reduce(situ__onnx_writer *w, const char *type, const char *x, const situ_shape *axes, bool keepdim) {
  if (!rank_of(w)) return x;
  return situ__onnx_put(w, type, IN(x, situ__onnx_ints(w, axes)), "keepdims:i", (int64_t)keepdim);
}
/* Whether there is an element: of none, runtimes give what they like as the mean or the extreme. */
static bool has_element(situ__onnx_writer *w, const situ_shape *axes) {
  const situ__inferred *x = situ__onnx_about(w, 0);
  for (int i = 0; i < axes->ndim && x->size.ndim; i++)
    if (x->size.dim[axes->dim[i]] == 0) return situ__onnx_lacks(w, "reduces no element"), false;
  return true;
}
/* The sum or product; ONNX has that of whole numbers in i32 and i64. */
static const char *total(situ__onnx_writer *w, const char *type, bool listed) {
  const situ_shape axes = axes_of(w, listed);
  const situ_dtype dtype = w->gives->dtype;
  const bool narrow = !situ_dtype_is_floating(dtype) && dtype != SITU_I32;
  const char *x = situ__onnx_cast(w, situ__onnx_arg_as(w, 0, dtype), dtype, narrow ? SITU_I64 : dtype);
  const char *y = reduce(w, type, x, &axes, listed && situ__arg_flag(&w->call, 2));
  return situ__onnx_cast(w, y, narrow ? SITU_I64 : dtype, dtype);
}
/* The mean or the extreme, of bools and i16 as i32: ONNX has neither. */
static const char *of_some(situ__onnx_writer *w, const char *type, bool listed) {
  const situ_shape axes = axes_of(w, listed);
  const situ_dtype dtype = w->gives->dtype, as = dtype == SITU_BOOL || dtype == SITU_I16 ? SITU_I32 : dtype;
  if (!has_element(w, &axes)) return NULL;
  const char *y = reduce(w, type, situ__onnx_arg_as(w, 0, as), &axes, listed && situ__arg_flag(&w->call, 2));
  return situ__onnx_cast(w, y, as, dtype);
}
static const char *write_sum(situ__onnx_writer *w) { return total(w, "ReduceSum", true); }
static const char *write_mean(situ__onnx_writer *w) { return of_some(w, "ReduceMean", true); }
static const char *write_prod(situ__onnx_writer *w) { return total(w, "ReduceProd", true); }
static const char *write_amax(situ__onnx_writer *w) { return of_some(w, "ReduceMax", true); }
static const char *write_amin(situ__onnx_writer *w) { return of_some(w, "ReduceMin", true); }
static const char *write_logsumexp(situ__onnx_writer *w) { return total(w, "ReduceLogSumExp", true); }
static const char *write_sum_all(situ__onnx_writer *w) { return total(w, "ReduceSum", false); }
static const char *write_mean_all(situ__onnx_writer *w) { return of_some(w, "ReduceMean", false); }
static const char *write_max_all(situ__onnx_writer *w) { return of_some(w, "ReduceMax", false); }
static const char *write_min_all(situ__onnx_writer *w) { return of_some(w, "ReduceMin", false); }

/* Whether one is true: their number, which is 0 of none. */
static const char *whether_any(situ__onnx_writer *w, const char *bools, bool listed) {
  const situ_shape axes = axes_of(w, listed);
  const char *x = situ__onnx_cast(w, bools, SITU_BOOL, SITU_I64);
  return situ__onnx_cast(w, reduce(w, "ReduceSum", x, &axes, listed && situ__arg_flag(&w->call, 2)), SITU_I64,
                         SITU_BOOL);
}
static const char *whether_all(situ__onnx_writer *w, bool listed) {
  const char *off = situ__onnx_put1(w, "Not", situ__onnx_arg_as(w, 0, SITU_BOOL)), *y = whether_any(w, off, listed);
  return y ? situ__onnx_put1(w, "Not", y) : NULL;
}
static const char *write_any(situ__onnx_writer *w) { return whether_any(w, situ__onnx_arg_as(w, 0, SITU_BOOL), true); }
static const char *write_all(situ__onnx_writer *w) { return whether_all(w, true); }
static const char *write_any_all(situ__onnx_writer *w) {
  return whether_any(w, situ__onnx_arg_as(w, 0, SITU_BOOL), false);
}
static const char *write_all_all(situ__onnx_writer *w) { return whether_all(w, false); }

/* The number of elements that become one, in the result's dtype. */
static const char *count_of(situ__onnx_writer *w, const situ_shape *axes) {
  const char *sizes = situ__onnx_put1(w, "Shape", situ__onnx_arg(w, 0));
  if (!rank_of(w)) return number(w, 1);
  sizes = situ__onnx_put(w, "Gather", IN(sizes, situ__onnx_ints(w, axes)), "axis:i", (int64_t)0);
  return situ__onnx_cast(w, situ__onnx_put(w, "ReduceProd", IN(sizes), "keepdims:i", (int64_t)0), SITU_I64,
                         w->gives->dtype);
}
static const char *variance(situ__onnx_writer *w) {
  const situ_shape axes = axes_of(w, true);
  const double correction = situ__arg_given(&w->call, 2) ? situ__arg_number(&w->call, 2) : 1; /* or whether unbiased */
  if (!has_element(w, &axes)) return NULL;
  const char *all = situ__onnx_arg(w, 0),
             *away = situ__onnx_put2(w, "Sub", all, reduce(w, "ReduceMean", all, &axes, true));
  const char *y = reduce(w, "ReduceSum", situ__onnx_put2(w, "Mul", away, away), &axes, situ__arg_flag(&w->call, 3));
  const char *count = situ__onnx_put2(w, "Sub", count_of(w, &axes), number(w, correction));
  return situ__onnx_put2(w, "Div", y, situ__onnx_put2(w, "Max", count, number(w, 0)));
}
static const char *deviation(situ__onnx_writer *w) { return situ__onnx_put1(w, "Sqrt", variance(w)); }

/* Arguments: self, ord, dim, keepdim. */
static const char *write_norm(situ__onnx_writer *w) {
  const double p = situ__arg_number(&w->call, 1);
  const situ_shape given = situ__arg_dims(&w->call, 2);
  situ_shape axes = axes_of(w, false);
  if (given.ndim) axes = given;
  const bool keepdim = situ__arg_flag(&w->call, 3);
  const char *x = situ__onnx_arg_as(w, 0, w->gives->dtype), *size = situ__onnx_put1(w, "Abs", x);
  if (p == 0 || (isinf(p) && !has_element(w, &axes))) return NULL;
  if (!rank_of(w)) return size;
  if (p == 1) return reduce(w, "ReduceL1", x, &axes, keepdim);
  if (p == 2) return reduce(w, "ReduceL2", x, &axes, keepdim);
  if (isinf(p)) return reduce(w, p > 0 ? "ReduceMax" : "ReduceMin", size, &axes, keepdim);
  const char *sum = reduce(w, "ReduceSum", situ__onnx_put2(w, "Pow", size, number(w, p)), &axes, keepdim);
  return situ__onnx_put2(w, "Pow", sum, number(w, 1 / p));
}

static const char *write_count_nonzero(situ__onnx_writer *w) {
  const situ_shape axes = axes_of(w, true);
  return reduce(w, "ReduceSum", situ__onnx_cast(w, situ__onnx_arg_as(w, 0, SITU_BOOL), SITU_BOOL, SITU_I64), &axes,
                false);
}
/* Without what is NaN. */
static const char *write_nansum(situ__onnx_writer *w) {
  const situ_shape axes = axes_of(w, true);
  if (!situ_dtype_is_floating(situ__onnx_about(w, 0)->dtype)) return write_sum(w);
  const char *x = situ__onnx_formula(w, "Where(IsNaN($0),0,$0)", w->gives->dtype);
  return reduce(w, "ReduceSum", x, &axes, situ__arg_flag(&w->call, 2));
}

/* ---- places ---- */

static const char *place_of(situ__onnx_writer *w, const char *type, bool keepdim) {
  const int rank = rank_of(w);
  const situ_dtype dtype = situ__onnx_about(w, 0)->dtype;
  const char *x = situ__onnx_arg_as(w, 0, dtype == SITU_BOOL ? SITU_I32 : dtype); /* ONNX compares no bools */
  if (!situ__arg_given(&w->call, 1) || !rank) {
    const char *flat = situ__onnx_reshape_to(w, x, SITU_SHAPE(-1));
    const char *y = situ__onnx_put(w, type, IN(flat), "axis:i keepdims:i", (int64_t)0, (int64_t)0);
    situ_shape one = { .ndim = keepdim ? rank : 0 };
    for (int d = 0; d < one.ndim; d++) one.dim[d] = 1;
    return one.ndim ? situ__onnx_reshape_to(w, y, one) : y;
  }
  const int64_t axis = situ__onnx_dim(situ__arg_int(&w->call, 1), rank);
  return situ__onnx_put(w, type, IN(x), "axis:i keepdims:i", axis, (int64_t)keepdim);
}
static const char *write_argmax(situ__onnx_writer *w) { return place_of(w, "ArgMax", situ__arg_flag(&w->call, 2)); }
static const char *write_argmin(situ__onnx_writer *w) { return place_of(w, "ArgMin", situ__arg_flag(&w->call, 2)); }
static const char *value_and_place(situ__onnx_writer *w, const char *value, const char *place) {
  if (w->node->outs > 1) w->result[0] = place_of(w, place, situ__arg_flag(&w->call, 2));
  return of_some(w, value, true);
}
static const char *write_max_dim(situ__onnx_writer *w) { return value_and_place(w, "ReduceMax", "ArgMax"); }
static const char *write_min_dim(situ__onnx_writer *w) { return value_and_place(w, "ReduceMin", "ArgMin"); }

/* ---- sorting ---- */

static bool put_top(situ__onnx_writer *w, const char *count, int64_t dim, bool largest, const char *out[2]) {
  if (!rank_of(w)) return situ__onnx_lacks(w, "sorts one number"), false;
  return situ__onnx_put_all(w, "TopK", IN(situ__onnx_arg(w, 0), count), out, 2, "axis:i largest:i sorted:i",
                            (int64_t)situ__onnx_dim(dim, rank_of(w)), (int64_t)largest, (int64_t)1);
}
static bool put_sorted(situ__onnx_writer *w, const char *out[2]) {
  const int64_t dim = situ__onnx_dim(situ__arg_int(&w->call, 1), rank_of(w));
  const char *size = situ__onnx_put(w, "Shape", IN(situ__onnx_arg(w, 0)), "start:i end:i", dim, dim + 1);
  return put_top(w, size, dim, situ__arg_flag(&w->call, 2), out);
}
static const char *write_sort(situ__onnx_writer *w) {
  const char *out[2] = { NULL };
  if (!put_sorted(w, out)) return NULL;
  w->result[0] = out[1];
  return out[0];
}
static const char *write_argsort(situ__onnx_writer *w) {
  const char *out[2] = { NULL };
  return put_sorted(w, out) ? out[1] : NULL;
}
static const char *write_topk(situ__onnx_writer *w) {
  const char *out[2] = { NULL }, *count = situ__onnx_sizes(w, 1);
  if (!put_top(w, count, situ__arg_int(&w->call, 2), situ__arg_flag(&w->call, 3), out)) return NULL;
  w->result[0] = out[1];
  return out[0];
}

/* ---- along a dimension ---- */

static const char *write_cumsum(situ__onnx_writer *w) {
  if (!rank_of(w)) return situ__onnx_arg_as(w, 0, w->gives->dtype);
  const char *dim = situ__onnx_scalar(w, situ__onnx_dim(situ__arg_int(&w->call, 1), rank_of(w)), SITU_I64);
  return situ__onnx_put2(w, "CumSum", situ__onnx_arg_as(w, 0, w->gives->dtype), dim);
}
/* For each element the row of those up to it along the dimension, which comes last. */
typedef struct prefixes {
  situ_shape order;        /* that puts the dimension last, and back */
  const char *upto, *rows; /* whether an element is up to that of its row; it, or another number */
} prefixes;

static prefixes put_prefixes(situ__onnx_writer *w, const char *x, double otherwise, situ_dtype dtype) {
  const int rank = rank_of(w), dim = situ__onnx_dim(situ__arg_int(&w->call, 1), rank);
  prefixes p = { .order = { .ndim = rank } };
  for (int d = 0; d < rank; d++) p.order.dim[d] = d;
  p.order.dim[dim] = rank - 1;
  p.order.dim[rank - 1] = dim;
  x = situ__onnx_put(w, "Transpose", IN(x), "perm:I", &p.order);
  const char *size = x ? situ__onnx_put(w, "Shape", IN(x), "start:i", (int64_t)(rank - 1)) : NULL;
  const char *zero = situ__onnx_scalar(w, 0, SITU_I64), *one = situ__onnx_scalar(w, 1, SITU_I64);
  const char *at = situ__onnx_put(w, "Range", IN(zero, situ__onnx_reshape_to(w, size, SITU_SCALAR), one), "");
  const char *all = situ__onnx_put2(w, "Unsqueeze", x, situ__onnx_int(w, -2));
  p.upto = situ__onnx_put2(w, "LessOrEqual", at, situ__onnx_put2(w, "Unsqueeze", at, situ__onnx_int(w, 1)));
  if (p.upto && all) p.rows = situ__onnx_put(w, "Where", IN(p.upto, all, situ__onnx_scalar(w, otherwise, dtype)), "");
  return p;
}
static const char *reduce_rows(situ__onnx_writer *w, const char *type, const char *rows) {
  return situ__onnx_put(w, type, IN(rows, situ__onnx_int(w, -1)), "keepdims:i", (int64_t)0);
}
static const char *put_back(situ__onnx_writer *w, const char *y, const prefixes *p) {
  return situ__onnx_put(w, "Transpose", IN(y), "perm:I", &p->order);
}
static const char *write_cumprod(situ__onnx_writer *w) {
  const situ_dtype dtype = w->gives->dtype, as = situ_dtype_is_floating(dtype) ? dtype : SITU_I64;
  if (!rank_of(w)) return situ__onnx_arg_as(w, 0, dtype);
  const prefixes p = put_prefixes(w, situ__onnx_arg_as(w, 0, as), 1, as);
  return situ__onnx_cast(w, put_back(w, reduce_rows(w, "ReduceProd", p.rows), &p), as, dtype);
}
/* The last of equal ones counts, and NaN more than all numbers. */
static const char *extreme_so_far(situ__onnx_writer *w, const char *type, bool most) {
  const situ_dtype dtype = w->gives->dtype;
  const bool real = situ_dtype_is_floating(dtype);
  double least = -0x1p63, greatest = 0x1p63;
  if (!rank_of(w)) return situ__onnx_lacks(w, "is of one number");
  (void)situ__onnx_range_of(dtype, &least, &greatest);
  const double otherwise = real ? (most ? -(double)INFINITY : (double)INFINITY) : most ? least : greatest;
  const prefixes p = put_prefixes(w, situ__onnx_arg(w, 0), otherwise, dtype);
  const char *y = reduce_rows(w, type, p.rows), *none = real && p.rows ? situ__onnx_put1(w, "IsNaN", p.rows) : NULL;
  const char *same = situ__onnx_put2(w, "Equal", p.rows, situ__onnx_put2(w, "Unsqueeze", y, situ__onnx_int(w, -1)));
  const char *match = situ__onnx_put2(w, "And", p.upto, same);
  if (none) {
    const char *any = reduce_rows(w, "ReduceMax", situ__onnx_cast(w, none, SITU_BOOL, SITU_I32));
    any = situ__onnx_cast(w, any, SITU_I32, SITU_BOOL);
    const char *wide = situ__onnx_put2(w, "Unsqueeze", any, situ__onnx_int(w, -1));
    const char *number_match = situ__onnx_put2(w, "And", match, situ__onnx_put1(w, "Not", wide));
    match = situ__onnx_put2(w, "Or", none, number_match);
    y = any && y ? situ__onnx_put(w, "Where", IN(any, number(w, (double)NAN), y), "") : NULL;
  }
  const char *at = situ__onnx_put(w, "ArgMax", IN(situ__onnx_cast(w, match, SITU_BOOL, SITU_I32)),
                                  "axis:i keepdims:i select_last_index:i", (int64_t)-1, (int64_t)0, (int64_t)1);
  if (w->node->outs > 1) w->result[0] = put_back(w, at, &p);
  return put_back(w, y, &p);
}
static const char *write_cummax(situ__onnx_writer *w) { return extreme_so_far(w, "ReduceMax", true); }
static const char *write_cummin(situ__onnx_writer *w) { return extreme_so_far(w, "ReduceMin", false); }
static const char *part(situ__onnx_writer *w, const char *x, int64_t dim, int64_t start, int64_t end) {
  return situ__onnx_put(w, "Slice", IN(x, situ__onnx_int(w, start), situ__onnx_int(w, end), situ__onnx_int(w, dim)),
                        "");
}
enum { MOST_TIMES = 64 }; /* nodes of one diff */
static const char *write_diff(situ__onnx_writer *w) {
  const int64_t dim = situ__onnx_dim(situ__arg_int(&w->call, 2), rank_of(w));
  const char *in[4] = { NULL }, *x;
  int count = 0;
  if (situ__arg_int(&w->call, 1) == 0) return situ__onnx_arg(w, 0); /* without what stands before or after it */
  if (situ__arg_given(&w->call, 3)) in[count++] = situ__onnx_arg_as(w, 3, w->gives->dtype);
  in[count++] = situ__onnx_arg_as(w, 0, w->gives->dtype);
  if (situ__arg_given(&w->call, 4)) in[count++] = situ__onnx_arg_as(w, 4, w->gives->dtype);
  if (w->gives->dtype == SITU_BOOL || situ__arg_int(&w->call, 1) > MOST_TIMES) return NULL;
  x = count > 1 ? situ__onnx_put(w, "Concat", in, "axis:i", dim) : in[0];
  for (int64_t n = situ__arg_int(&w->call, 1); n > 0; n--)
    x = situ__onnx_put2(w, "Sub", part(w, x, dim, 1, INT64_MAX), part(w, x, dim, 0, -1));
  return x;
}

static const situ__onnx_form forms[] = {
  { "sum.default", .write = write_sum_all },
  { "sum.dim_IntList", .write = write_sum },
  { "nansum.default", .write = write_nansum },
  { "count_nonzero.default", .write = write_count_nonzero },
  { "count_nonzero.dim_IntList", .write = write_count_nonzero },
  { "mean.default", .write = write_mean_all },
  { "mean.dim", .write = write_mean },
  { "prod.dim_int", .write = write_prod },
  { "amax.default", .write = write_amax },
  { "amin.default", .write = write_amin },
  { "any.default", .write = write_any_all },
  { "any.dim", .write = write_any },
  { "any.dims", .write = write_any },
  { "all.default", .write = write_all_all },
  { "all.dim", .write = write_all },
  { "argmax.default", .write = write_argmax },
  { "argmin.default", .write = write_argmin },
  { "logsumexp.default", .write = write_logsumexp },
  { "var.default", .write = variance },
  { "var.dim", .write = variance },
  { "std.default", .write = deviation },
  { "std.dim", .write = deviation },
  { "var.correction", .write = variance },
  { "std.correction", .write = deviation },
  { "linalg_vector_norm.default", .write = write_norm },
  { "norm.ScalarOpt_dim", .write = write_norm },
  { "max.default", .write = write_max_all },
  { "min.default", .write = write_min_all },
  { "max.dim", .write = write_max_dim },
  { "min.dim", .write = write_min_dim },
  { "sort.default", .write = write_sort },
  { "sort.stable", .write = write_sort },
  { "argsort.default", .write = write_argsort },
  { "topk.default", .write = write_topk, .varies = 1U << 1 },
  { "cumsum.default", .write = write_cumsum },
  { "cumprod.default", .write = write_cumprod },
  { "cummax.default", .write = write_cummax },
  { "cummin.default", .write = write_cummin },
  { "diff.default", .write = write_diff },
};
const situ__onnx_forms situ__onnx_form_reduce = { forms, sizeof forms / sizeof *forms };
