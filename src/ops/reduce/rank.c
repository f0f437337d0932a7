/* Elements by their rank along a dimension: kthvalue, median, mode, quantile, cummax, cummin. The place of each is
   found without recording and gathered, so the gradient flows to the element that was chosen.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

/* A line of one element stands for a 0-dim input. */
typedef struct line {
  const char *op;
  situ_tensor *x;
  int dim;
  int64_t size;
  bool scalar; /* input was 0-dim */
} line;

static bool line_of(const char *op, situ_tensor *x, int dim, line *l) {
  *l = (line){ .op = op };
  if (!situ__need(op, "input", x) || !situ_wrap_dim(op, dim, x->view.ndim, &l->dim)) return false;
  l->scalar = !x->view.ndim;
  l->x = l->scalar ? situ_reshape(x, SITU_SHAPE(1)) : x;
  if (!l->x) return false;
  l->size = l->x->view.size[l->dim];
  if (l->size) return true;
  return situ__fail(SITU_E_ARG, op, "no elements to choose from: dimension %d has size 0", l->dim), false;
}

static situ_reduce_options along(const line *l) {
  return (situ_reduce_options){ .dim = SITU_DIMS(l->dim), .keepdim = true };
}

/* The elements at `place`, whose size along the dimension is 1. */
static situ_tensor *choose(const line *l, situ_tensor *place, bool keepdim, situ_tensor **indices) {
  const bool drop = l->scalar || !keepdim;
  situ_tensor *y = place ? situ_gather(l->x, l->dim, place) : NULL;
  if (drop && y) y = situ_select(y, l->dim, 0);
  if (drop && y) place = situ_select(place, l->dim, 0);
  if (indices) *indices = y ? place : NULL;
  return y && place ? y : NULL;
}

/* The number of elements of each line that are not NaN. */
static situ_tensor *numbers(const line *l) {
  const situ_reduce_options o = along(l);
  return situ_sum(situ_logical_not(situ_isnan(l->x)), &o);
}

/* ---- kthvalue, median ---- */

static situ_tensor *kth_place(const line *l, int64_t k) {
  situ_tensor *order = situ_argsort(l->x, l->dim, false);
  return order ? situ_narrow(order, l->dim, k - 1, 1) : NULL;
}

situ_tensor *situ_kthvalue(situ_tensor *input, int64_t k, int dim, bool keepdim, situ_tensor **indices) {
  SITU__MADE_OF_OPS("kthvalue");
  line l;
  if (indices) *indices = NULL;
  if (!line_of("kthvalue", input, dim, &l)) return NULL;
  if (k < 1 || k > l.size)
    return situ__fail(SITU_E_ARG, "kthvalue", "k is %lld, must be in 1..%lld, the size of dimension %d", (long long)k,
                      (long long)l.size, l.dim),
           NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  return choose(&l, situ_scope_return(&s, kth_place(&l, k)), keepdim, indices);
}

/* NaN sorts last: a line that has some has its first NaN behind its numbers. */
static situ_tensor *median_place(const line *l, bool skip_nan) {
  situ_tensor *count = numbers(l);
  situ_tensor *middle =
      situ_clamp(situ_floor_divide(situ_sub_scalar(count, 1), situ_full_like(count, 2, NULL)), 0, (double)l->size);
  if (!skip_nan)
    middle = situ_where(situ_lt_scalar(count, (double)l->size), count,
                        situ_full_like(count, (double)((l->size - 1) / 2), NULL));
  return situ_gather(situ_argsort(l->x, l->dim, false), l->dim, middle);
}

static situ_tensor *median(const char *op, bool skip_nan, situ_tensor *x, int dim, bool keepdim,
                           situ_tensor **indices) {
  line l;
  if (indices) *indices = NULL;
  if (!line_of(op, x, dim, &l)) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  return choose(&l, situ_scope_return(&s, median_place(&l, skip_nan)), keepdim, indices);
}

situ_tensor *situ_median_dim(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices) {
  SITU__MADE_OF_OPS("median_dim");
  return median("median_dim", false, input, dim, keepdim, indices);
}
situ_tensor *situ_nanmedian_dim(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices) {
  SITU__MADE_OF_OPS("nanmedian_dim");
  return median("nanmedian_dim", true, input, dim, keepdim, indices);
}
situ_tensor *situ_median(situ_tensor *input) {
  SITU__MADE_OF_OPS("median");
  return situ__need("median", "input", input)
             ? median("median", false, situ_reshape(input, SITU_SHAPE(-1)), 0, false, NULL)
             : NULL;
}
situ_tensor *situ_nanmedian(situ_tensor *input) {
  SITU__MADE_OF_OPS("nanmedian");
  return situ__need("nanmedian", "input", input)
             ? median("nanmedian", true, situ_reshape(input, SITU_SHAPE(-1)), 0, false, NULL)
             : NULL;
}

/* ---- cummax, cummin: runs of 1, 2, 4, ... elements are joined ---- */

/* Whether the later of two elements is the extreme so far: of equals the later, and NaN above all. */
static situ_tensor *later_wins(situ_tensor *early, situ_tensor *late, bool max) {
  situ_tensor *wins = max ? situ_ge(late, early) : situ_le(late, early);
  return situ_dtype_is_floating((situ_dtype)late->view.dtype) ? situ_logical_or(wins, situ_isnan(late)) : wins;
}

static situ_tensor *joined(situ_tensor *x, situ_tensor *wins, situ_tensor *early, situ_tensor *late, int dim,
                           int64_t step) {
  return situ_cat((situ_tensor *[]){ situ_narrow(x, dim, 0, step), situ_where(wins, late, early) }, 2, dim);
}

static situ_tensor *extreme_places(const line *l, bool max) {
  situ_shape line_shape = { .ndim = l->x->view.ndim }, shape = situ__shape(&l->x->view);
  for (int d = 0; d < line_shape.ndim; d++) line_shape.dim[d] = d == l->dim ? l->size : 1;
  situ_tensor *x = l->x,
              *place = situ_expand(
                  situ_reshape(situ_arange(0, (double)l->size, 1,
                                           &(situ_options){ .dtype = SITU_I64, .device = x->view.storage->device }),
                               line_shape),
                  shape);
  for (int64_t step = 1; x && place && step < l->size; step *= 2) {
    const int64_t rest = l->size - step;
    situ_tensor *early = situ_narrow(x, l->dim, 0, rest), *late = situ_narrow(x, l->dim, step, rest);
    if (!early || !late) return NULL;
    situ_tensor *wins = later_wins(early, late, max);
    x = joined(x, wins, early, late, l->dim, step);
    place =
        joined(place, wins, situ_narrow(place, l->dim, 0, rest), situ_narrow(place, l->dim, step, rest), l->dim, step);
  }
  return place ? situ_contiguous(place) : NULL;
}

static situ_tensor *running(const char *op, bool max, situ_tensor *x, int dim, situ_tensor **indices) {
  line l;
  if (indices) *indices = NULL;
  if (!situ__need(op, "input", x)) return NULL;
  if (!x->view.numel) { /* nothing to choose, and nothing to refuse */
    if (!situ_wrap_dim(op, dim, x->view.ndim, &l.dim)) return NULL;
    situ_tensor *places = situ_zeros_like(x, &(situ_options){ .dtype = SITU_I64 });
    situ_tensor *same = places ? situ_clone(x) : NULL;
    if (indices) *indices = same ? places : NULL;
    return same;
  }
  if (!line_of(op, x, dim, &l)) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *place = situ_scope_return(&s, extreme_places(&l, max)), *y = NULL;
  if (place) y = situ_gather(l.x, l.dim, place);
  if (l.scalar && y) {
    place = situ_reshape(place, SITU_SCALAR);
    y = place ? situ_reshape(y, SITU_SCALAR) : NULL;
  }
  if (indices) *indices = y ? place : NULL;
  return y;
}
situ_tensor *situ_cummax(situ_tensor *input, int dim, situ_tensor **indices) {
  SITU__MADE_OF_OPS("cummax");
  return running("cummax", true, input, dim, indices);
}
situ_tensor *situ_cummin(situ_tensor *input, int dim, situ_tensor **indices) {
  SITU__MADE_OF_OPS("cummin");
  return running("cummin", false, input, dim, indices);
}

/* ---- mode: the longest run of the sorted line ---- */

static situ_tensor *mode_place(const line *l) {
  situ_tensor *order = NULL, *v = situ_sort(l->x, l->dim, false, &order);
  if (!v) return NULL;
  situ_tensor *same = situ_eq(situ_narrow(v, l->dim, 1, l->size - 1), situ_narrow(v, l->dim, 0, l->size - 1));
  situ_tensor *starts =
      situ_cat((situ_tensor *[]){ situ_ones_like(situ_narrow(v, l->dim, 0, 1), &(situ_options){ .dtype = SITU_BOOL }),
                                  situ_logical_not(same) },
               2, l->dim);
  if (!starts) return NULL;
  situ_tensor *at =
      situ_sub_scalar(situ_cumsum(situ_ones_like(starts, &(situ_options){ .dtype = SITU_I64 }), l->dim), 1);
  situ_tensor *start = situ_cummax(situ_mul(at, starts), l->dim, NULL);
  const situ_reduce_options o = along(l);
  return situ_gather(order, l->dim, situ_argmax(situ_sub(at, start), &o));
}

situ_tensor *situ_mode(situ_tensor *input, int dim, bool keepdim, situ_tensor **indices) {
  SITU__MADE_OF_OPS("mode");
  line l;
  if (indices) *indices = NULL;
  if (!line_of("mode", input, dim, &l)) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  return choose(&l, situ_scope_return(&s, mode_place(&l)), keepdim, indices);
}

/* ---- quantile ---- */

/* The rank, which may lie between two elements: that of NaN in a line that has some, unless they are left out. */
static situ_tensor *rank_of(const line *l, double q, bool skip_nan) {
  situ_tensor *count = numbers(l);
  if (!count) return NULL;
  const situ_dtype dtype = (situ_dtype)l->x->view.dtype;
  situ_tensor *last = situ_clamp(situ_to_dtype(situ_sub_scalar(count, 1), dtype), 0, INFINITY);
  if (skip_nan) return situ_mul_scalar(last, q);
  situ_tensor *rank = situ_mul_scalar(situ_full_like(last, (double)(l->size - 1), NULL), q);
  return situ_where(situ_lt_scalar(count, (double)l->size), situ_full_like(last, (double)(l->size - 1), NULL), rank);
}

static situ_tensor *at_rank(const line *l, situ_tensor *sorted, situ_tensor *rank) {
  return situ_gather(sorted, l->dim, situ_to_dtype(rank, SITU_I64));
}

static situ_tensor *between(const line *l, situ_tensor *rank, situ_quantile_interpolation how) {
  situ_tensor *sorted = situ_sort(l->x, l->dim, false, NULL);
  switch (how) {
  case SITU_QUANTILE_LOWER: return at_rank(l, sorted, situ_floor(rank));
  case SITU_QUANTILE_HIGHER: return at_rank(l, sorted, situ_ceil(rank));
  case SITU_QUANTILE_NEAREST: return at_rank(l, sorted, situ_round(rank));
  default: break;
  }
  situ_tensor *low = situ_floor(rank), *below = at_rank(l, sorted, low), *above = at_rank(l, sorted, situ_ceil(rank));
  return how == SITU_QUANTILE_MIDPOINT ? situ_lerp_scalar(below, above, 0.5)
                                       : situ_lerp(below, above, situ_sub(rank, low));
}

static situ_tensor *quantile(const char *op, bool skip_nan, situ_tensor *x, double q, const situ_reduce_options *o,
                             situ_quantile_interpolation how) {
  const situ_op schema = { .name = op, .operand = { { "input", SITU_FLOATING } } };
  line l;
  if (!situ__together(&schema, &x, 1)) return NULL;
  if (!(q >= 0 && q <= 1)) return situ__fail(SITU_E_ARG, op, "q is %g, must be in 0..1", q), NULL;
  if (o && (o->dim.ndim > 1 || o->dtype))
    return situ__fail(SITU_E_ARG, op, "options have %s: give at most one dimension, and keepdim",
                      o->dtype ? "a dtype" : "several dimensions"),
           NULL;
  const bool flat = !o || !o->dim.ndim, keepdim = o && o->keepdim;
  situ_shape ones = { .ndim = x->view.ndim };
  for (int d = 0; d < ones.ndim; d++) ones.dim[d] = 1;
  if (!line_of(op, flat ? situ_reshape(x, SITU_SHAPE(-1)) : x, flat ? 0 : (int)o->dim.dim[0], &l)) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *rank = situ_scope_return(&s, rank_of(&l, q, skip_nan)), *y = rank ? between(&l, rank, how) : NULL;
  if (!y) return NULL;
  if (flat) return situ_reshape(y, keepdim ? ones : SITU_SCALAR);
  return l.scalar || !keepdim ? situ_select(y, l.dim, 0) : y;
}
situ_tensor *situ_quantile(situ_tensor *input, double q, const situ_reduce_options *options,
                           situ_quantile_interpolation interpolation) {
  SITU__MADE_OF_OPS("quantile");
  return quantile("quantile", false, input, q, options, interpolation);
}
situ_tensor *situ_nanquantile(situ_tensor *input, double q, const situ_reduce_options *options,
                              situ_quantile_interpolation interpolation) {
  SITU__MADE_OF_OPS("nanquantile");
  return quantile("nanquantile", true, input, q, options, interpolation);
}

situ_tensor *situ_msort(situ_tensor *input) {
  SITU__MADE_OF_OPS("msort");
  return situ_sort(input, 0, false, NULL);
}
