/* Searching and counting: searchsorted, bucketize, isin, unique, bincount, histc.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

static bool needs_values(const char *op, const char *what, const situ_tensor *x) {
  if (x->view.storage->device.kind != SITU_META) return true;
  return situ__fail(SITU_E_UNSUPPORTED, op, "the %s depends on values, which a meta tensor does not have", what), false;
}

static situ_options on(const situ_tensor *x, situ_dtype dtype) {
  return (situ_options){ .dtype = dtype, .device = x->view.storage->device };
}

/* ---- searchsorted: a binary search of all values at once ---- */

/* Whether an element comes before the place of a value: as torch, to which NaN is the largest value. */
typedef situ_tensor *before(situ_tensor *element, situ_tensor *value);
static situ_tensor *less(situ_tensor *element, situ_tensor *value) { return situ_logical_not(situ_ge(element, value)); }
static situ_tensor *at_most(situ_tensor *element, situ_tensor *value) {
  return situ_logical_not(situ_gt(element, value));
}

/* line and values have one rank, and equal sizes but for the last dimension. */
static situ_tensor *search(situ_tensor *line, situ_tensor *values, before *comes_before) {
  if (!line || !values) return NULL;
  const int last = line->view.ndim - 1;
  const int64_t size = line->view.size[last];
  const situ_options like = on(line, SITU_I64);
  situ_tensor *found = situ_zeros_like(values, &like);
  int64_t step = 1;
  while (step <= size / 2) step *= 2;
  for (; size && step; step /= 2) {
    situ_tensor *next = situ_add_scalar(found, (double)step);
    situ_tensor *element = situ_gather(line, last, situ_clamp(situ_sub_scalar(next, 1), 0, (double)(size - 1)));
    situ_tensor *take = situ_logical_and(comes_before(element, values), situ_le_scalar(next, (double)size));
    found = situ_where(take, next, found);
  }
  return found;
}

static bool lines_fit(const char *op, const situ_tensor *line, const situ_tensor *values) {
  bool good = line->view.ndim == values->view.ndim;
  for (int d = 0; good && d + 1 < line->view.ndim; d++) good = line->view.size[d] == values->view.size[d];
  if (good) return true;
  situ_shape a = situ__shape(&line->view), b = situ__shape(&values->view);
  char s[SITU_SHAPE_TEXT], t[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op,
                    "values %s do not fit sorted_sequence %s: equal but for the last dimension, or it is 1-D",
                    situ_shape_text(&b, t), situ_shape_text(&a, s)),
         false;
}

static situ_tensor *sorted_search(const char *op, situ_tensor *line, situ_tensor *values, bool right) {
  if (!line->view.ndim)
    return situ__fail(SITU_E_SHAPE, op, "the sorted sequence is 0-dim: it has at least one dimension"), NULL;
  if (line->view.ndim > 1) return lines_fit(op, line, values) ? search(line, values, right ? at_most : less) : NULL;
  const situ_shape shape = situ__shape(&values->view);
  situ_tensor *found = search(line, situ_reshape(values, SITU_SHAPE(values->view.numel)), right ? at_most : less);
  return found ? situ_reshape(found, shape) : NULL;
}

static situ_tensor *searched(const situ_op *schema, situ_tensor *line, situ_tensor *values, bool right) {
  situ_scope s;
  if (!situ__together(schema, (situ_tensor *[]){ line, values }, 2)) return NULL;
  situ_scope_begin_no_grad(&s);
  return situ_scope_return(&s, sorted_search(schema->name, line, values, right));
}

situ_tensor *situ_searchsorted(situ_tensor *sorted_sequence, situ_tensor *values, bool right) {
  SITU__MADE_OF_OPS("searchsorted");
  static const situ_op schema = { .name = "searchsorted",
                                  .operand = { { "sorted_sequence", SITU_SAME | SITU_FLOATING | SITU_INTEGRAL },
                                               { "values", SITU_SAME | SITU_FLOATING | SITU_INTEGRAL } } };
  return searched(&schema, sorted_sequence, values, right);
}

situ_tensor *situ_bucketize(situ_tensor *input, situ_tensor *boundaries, bool right) {
  SITU__MADE_OF_OPS("bucketize");
  static const situ_op schema = { .name = "bucketize",
                                  .operand = { { "boundaries", SITU_SAME | SITU_FLOATING | SITU_INTEGRAL },
                                               { "input", SITU_SAME | SITU_FLOATING | SITU_INTEGRAL } } };
  if (!situ__together(&schema, (situ_tensor *[]){ boundaries, input }, 2)) return NULL;
  if (boundaries->view.ndim != 1)
    return situ__fail(SITU_E_SHAPE, "bucketize", "boundaries has %d dimensions, must have 1", boundaries->view.ndim),
           NULL;
  return searched(&schema, boundaries, input, right);
}

/* ---- isin: NaN is last in the line, before nothing, and equal to nothing ---- */

static situ_tensor *members(situ_tensor *elements, situ_tensor *tests) {
  const situ_dtype dtype = situ_result_type((situ_tensor *[]){ elements, tests }, 2);
  const situ_shape shape = situ__shape(&elements->view);
  const int64_t size = tests->view.numel;
  const situ_options flags = on(elements, SITU_BOOL);
  if (!size) return situ_zeros(shape, &flags);
  situ_tensor *line = situ_sort(situ_reshape(situ_to_dtype(tests, dtype), SITU_SHAPE(size)), 0, false, NULL);
  situ_tensor *values = situ_reshape(situ_to_dtype(elements, dtype), SITU_SHAPE(elements->view.numel));
  situ_tensor *at = situ_clamp(search(line, values, situ_lt), 0, (double)(size - 1));
  return situ_reshape(situ_eq(situ_index_select(line, 0, at), values), shape);
}

situ_tensor *situ_isin(situ_tensor *elements, situ_tensor *test_elements, bool invert) {
  SITU__MADE_OF_OPS("isin");
  static const situ_op schema = { .name = "isin", .operand = { { "elements", 0 }, { "test_elements", 0 } } };
  situ_scope s;
  if (!situ__together(&schema, (situ_tensor *[]){ elements, test_elements }, 2)) return NULL;
  situ_scope_begin_no_grad(&s);
  situ_tensor *in = members(elements, test_elements);
  return situ_scope_return(&s, invert ? situ_logical_not(in) : in);
}

/* ---- unique, unique_consecutive: runs of equal elements ---- */

typedef struct runs {
  situ_tensor *values, *inverse, *counts;
} runs;

/* The runs of elements, or of rows, of a tensor that has some; order: where each came from, NULL: it is as it was. */
static bool find_runs(situ_tensor *v, situ_tensor *order, runs *out) {
  const int64_t size = v->view.size[0];
  const situ_options flag = on(v, SITU_BOOL), integer = on(v, SITU_I64);
  situ_tensor *differs = situ_ne(situ_narrow(v, 0, 1, size - 1), situ_narrow(v, 0, 0, size - 1));
  if (v->view.ndim > 1) differs = situ_any(differs, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
  situ_tensor *starts = situ_cat((situ_tensor *[]){ situ_ones(SITU_SHAPE(1), &flag), differs }, 2, 0);
  situ_tensor *first = situ_reshape(situ_nonzero(starts), SITU_SHAPE(-1));
  if (!first) return false;
  const int64_t count = first->view.numel;
  situ_tensor *next = situ_cat(
      (situ_tensor *[]){ situ_narrow(first, 0, 1, count - 1), situ_full(SITU_SHAPE(1), (double)size, &integer) }, 2, 0);
  out->values = situ_index_select(v, 0, first);
  out->counts = situ_sub(next, first);
  out->inverse = situ_sub_scalar(situ_cumsum(starts, 0), 1);
  if (order) out->inverse = situ_index_copy(situ_zeros_like(order, NULL), 0, order, out->inverse);
  return out->values && out->counts && out->inverse;
}

static situ_tensor *distinct(const char *op, bool sort, situ_tensor *x, situ_tensor **inverse_indices,
                             situ_tensor **counts) {
  if (inverse_indices) *inverse_indices = NULL;
  if (counts) *counts = NULL;
  if (!situ__need(op, "input", x) || !needs_values(op, "size", x)) return NULL;
  runs r = { NULL, NULL, NULL };
  const situ_options integer = on(x, SITU_I64);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *order = NULL, *v = situ_reshape(x, SITU_SHAPE(x->view.numel));
  if (sort && v) v = situ_sort(v, 0, false, &order);
  bool good = v != NULL;
  if (good && x->view.numel) good = find_runs(v, order, &r);
  else if (good) r = (runs){ situ_clone(v), situ_zeros(SITU_SHAPE(0), &integer), situ_zeros(SITU_SHAPE(0), &integer) };
  if (good) good = (r.inverse = situ_reshape(r.inverse, situ__shape(&x->view))) && r.values && r.counts;
  if (good && inverse_indices) *inverse_indices = situ_escape(&s, r.inverse);
  if (good && counts) *counts = situ_escape(&s, r.counts);
  return situ_scope_return(&s, good ? r.values : NULL);
}

situ_tensor *situ_unique(situ_tensor *input, situ_tensor **inverse_indices, situ_tensor **counts) {
  SITU__MADE_OF_OPS("unique");
  return distinct("unique", true, input, inverse_indices, counts);
}
situ_tensor *situ_unique_consecutive(situ_tensor *input, situ_tensor **inverse_indices, situ_tensor **counts) {
  SITU__MADE_OF_OPS("unique_consecutive");
  return distinct("unique_consecutive", false, input, inverse_indices, counts);
}

/* Rows in ascending order: sorted by their last column first, since sorting is stable. */
static situ_tensor *sort_rows(situ_tensor *rows, situ_tensor **order) {
  const situ_options integer = on(rows, SITU_I64);
  *order = situ_arange(0, (double)rows->view.size[0], 1, &integer);
  for (int64_t c = rows->view.size[1] - 1; *order && c >= 0; c--) {
    situ_tensor *step = situ_argsort(situ_index_select(situ_select(rows, 1, c), 0, *order), 0, false);
    *order = step ? situ_index_select(*order, 0, step) : NULL;
  }
  return *order ? situ_index_select(rows, 0, *order) : NULL;
}

situ_tensor *situ_unique_dim(situ_tensor *input, int dim, situ_tensor **inverse_indices, situ_tensor **counts) {
  const char *op = "unique_dim";
  SITU__MADE_OF_OPS(op);
  if (inverse_indices) *inverse_indices = NULL;
  if (counts) *counts = NULL;
  if (!situ__need(op, "input", input) || !needs_values(op, "size", input) ||
      !situ_wrap_dim(op, dim, input->view.ndim, &dim))
    return NULL;
  if (!input->view.ndim || (!input->view.numel && input->view.size[dim]))
    return situ__fail(SITU_E_SHAPE, op, "input has no elements in the slices along dimension %d", dim), NULL;
  runs r = { NULL, NULL, NULL };
  const situ_options integer = on(input, SITU_I64);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *moved = situ_movedim(input, SITU_DIMS(dim), SITU_DIMS(0)), *order = NULL, *y = NULL;
  situ_tensor *rows = moved && moved->view.numel ? situ_reshape(moved, SITU_SHAPE(moved->view.size[0], -1)) : NULL;
  if (rows) rows = sort_rows(rows, &order);
  if (moved && !moved->view.size[0]) { /* nothing: the three are empty */
    y = situ_clone(input);
    r.inverse = situ_zeros(SITU_SHAPE(0), &integer), r.counts = situ_zeros(SITU_SHAPE(0), &integer);
  } else if (rows && find_runs(rows, order, &r)) {
    situ_shape shape = situ__shape(&moved->view);
    shape.dim[0] = r.values->view.size[0];
    y = situ_contiguous(situ_movedim(situ_reshape(r.values, shape), SITU_DIMS(0), SITU_DIMS(dim)));
  }
  if (y && inverse_indices) *inverse_indices = situ_escape(&s, r.inverse);
  if (y && counts) *counts = situ_escape(&s, r.counts);
  return situ_scope_return(&s, y);
}

/* ---- bincount ---- */

static bool check_bins(situ_tensor *x, situ_tensor *weights, int64_t minlength) {
  const char *op = "bincount";
  if (x->view.ndim != 1 || (weights && (weights->view.ndim != 1 || weights->view.numel != x->view.numel)))
    return situ__fail(SITU_E_SHAPE, op, "input and weights must be 1-D and of one size"), false;
  if (minlength >= 0) return true;
  return situ__fail(SITU_E_ARG, op, "minlength is %lld, must be at least 0", (long long)minlength), false;
}

static bool count_bins(situ_tensor *x, int64_t *bins) {
  int64_t least, most;
  if (!x->view.numel) return true;
  if (situ_item_i64(situ_amin(x, NULL), &least) != SITU_OK || situ_item_i64(situ_amax(x, NULL), &most) != SITU_OK)
    return false;
  if (least < 0 || most == INT64_MAX)
    return situ__fail(SITU_E_INDEX, "bincount", "input has %lld: no bin has this number",
                      (long long)(least < 0 ? least : most)),
           false;
  if (most >= *bins) *bins = most + 1;
  return true;
}

situ_tensor *situ_bincount(situ_tensor *input, situ_tensor *weights, int64_t minlength) {
  SITU__MADE_OF_OPS("bincount");
  static const situ_op schema = { .name = "bincount",
                                  .operand = { { "input", SITU_INTEGRAL }, { "weights", SITU_OPTIONAL } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, weights }, 2) || !check_bins(input, weights, minlength) ||
      !needs_values("bincount", "size", input))
    return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_options o = on(input, !weights ? SITU_I64 : weights->view.dtype == SITU_F32 ? SITU_F32 : SITU_F64);
  situ_tensor *y = NULL;
  if (count_bins(input, &minlength)) {
    weights = weights ? situ_to_dtype(weights, o.dtype)
                      : situ_expand(situ_ones(SITU_SHAPE(1), &o), situ__shape(&input->view));
    y = situ_index_add(situ_zeros(SITU_SHAPE(minlength), &o), 0, situ_to_dtype(input, SITU_I64), weights, 1);
  }
  return situ_scope_return(&s, y);
}

/* ---- histc ---- */

/* Equal bounds mean the smallest and largest element. */
static bool range_of(situ_tensor *x, double *min, double *max) {
  if (*min == *max && x->view.numel) {
    if (!needs_values("histc", "range", x)) return false;
    if (situ_item(situ_amin(x, NULL), min) != SITU_OK || situ_item(situ_amax(x, NULL), max) != SITU_OK) return false;
  }
  if (*min == *max) {
    *min -= 1;
    *max += 1;
  }
  if (*min < *max && isfinite(*max - *min)) return true;
  return situ__fail(SITU_E_ARG, "histc", "%g..%g is not a range of finite numbers", *min, *max), false;
}

/* Parts of a range are told apart in f32 at least. */
static situ_tensor *histogram(situ_tensor *x, int64_t bins, double min, double max) {
  const situ_options integer = on(x, SITU_I64);
  const situ_dtype dtype = (situ_dtype)x->view.dtype;
  if (dtype != SITU_F64) x = situ_to_dtype(x, SITU_F32);
  if (!x) return NULL;
  if (!range_of(x, &min, &max)) return NULL;
  situ_tensor *inside = situ_logical_and(situ_ge_scalar(x, min), situ_le_scalar(x, max));
  situ_tensor *at = situ_div_scalar(situ_mul_scalar(situ_sub_scalar(x, min), (double)bins), max - min);
  at = situ_clamp(situ_to_dtype(situ_masked_fill(at, situ_logical_not(inside), 0), SITU_I64), 0, (double)(bins - 1));
  situ_tensor *y = situ_index_add(situ_zeros(SITU_SHAPE(bins), &integer), 0, at, situ_to_dtype(inside, SITU_I64), 1);
  return y ? situ_to_dtype(y, dtype) : NULL;
}

situ_tensor *situ_histc(situ_tensor *input, int64_t bins, double min, double max) {
  SITU__MADE_OF_OPS("histc");
  static const situ_op schema = { .name = "histc", .operand = { { "input", SITU_FLOATING } } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  if (bins < 1) return situ__fail(SITU_E_ARG, "histc", "%lld bins, must be at least 1", (long long)bins), NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  input = situ_reshape(input, SITU_SHAPE(input->view.numel));
  return situ_scope_return(&s, input ? histogram(input, bins, min, max) : NULL);
}
