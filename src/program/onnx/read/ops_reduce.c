/* ONNX's reductions, scans, sorting and softmax.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "program/graph/program.h"

typedef situ_tensor *reduction(situ_tensor *, const situ_reduce_options *);

/* Arguments: data, axes, keepdims, noop_with_empty_axes. *none: no axis is reduced. */
static bool read_options(situ__op_call *c, situ_reduce_options *o, bool *none) {
  o->dim.ndim = situ__arg_host_ints(c, 1, o->dim.dim, SITU_MAX_DIMS);
  o->keepdim = situ__arg_flag(c, 2);
  *none = o->dim.ndim == 0 && (situ__arg_flag(c, 3) || situ_dim(situ__arg_tensor(c, 0)) == 0);
  return o->dim.ndim >= 0;
}

/* In the input's dtype; whole numbers are reduced as `wide`. */
static situ_tensor *reduce_as(situ__op_call *c, situ_tensor *x, reduction *fn, situ_dtype wide) {
  situ_reduce_options o = { .keepdim = false };
  bool none;
  const situ_dtype dtype = situ_dtype_of(x);
  if (!read_options(c, &o, &none)) return NULL;
  if (none) return x;
  if (!situ_dtype_is_floating(dtype)) x = situ_to_dtype(x, wide);
  return situ_to_dtype(fn(x, &o), dtype);
}
static situ_tensor *run_sum(situ__op_call *c) { return reduce_as(c, situ__arg_tensor(c, 0), situ_sum, SITU_I64); }
static situ_tensor *run_prod(situ__op_call *c) { return reduce_as(c, situ__arg_tensor(c, 0), situ_prod, SITU_I64); }
/* Of whole numbers the mean is toward 0. */
static situ_tensor *mean(situ_tensor *x, const situ_reduce_options *o) {
  if (situ_dtype_is_floating(situ_dtype_of(x))) return situ_mean(x, o);
  situ_tensor *sum = situ_sum(x, o);
  const int64_t results = situ_numel(sum), count = results > 0 ? situ_numel(x) / results : 1;
  const situ_options integer = { .dtype = SITU_I64, .device = situ_device_of(x) };
  if (count == 0)
    return situ__fail(SITU_E_SHAPE, "ReduceMean", "takes the mean of no elements, which whole numbers do not have"),
           NULL;
  return situ_div_mode(sum, situ_from_host(&count, sizeof count, SITU_SCALAR, &integer), SITU_ROUND_TRUNC);
}
static situ_tensor *run_mean(situ__op_call *c) { return reduce_as(c, situ__arg_tensor(c, 0), mean, SITU_I64); }
static situ_tensor *run_l1(situ__op_call *c) {
  return reduce_as(c, situ_abs(situ__arg_tensor(c, 0)), situ_sum, SITU_I64);
}
static situ_tensor *run_sum_square(situ__op_call *c) {
  return reduce_as(c, situ_square(situ__arg_tensor(c, 0)), situ_sum, SITU_I64);
}

/* Of floating numbers; others as f64, cast back. */
static situ_tensor *reduce_real(situ__op_call *c, reduction *fn) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_reduce_options o = { .keepdim = false };
  bool none;
  const situ_dtype dtype = situ_dtype_of(x);
  if (!read_options(c, &o, &none)) return NULL;
  if (none) return fn == situ_logsumexp ? x : fn(situ_unsqueeze(x, 0), &(situ_reduce_options){ .dim = SITU_SHAPE(0) });
  if (!situ_dtype_is_floating(dtype)) x = situ_to_dtype(x, SITU_F64);
  return situ_to_dtype(fn(x, &o), dtype);
}
static situ_tensor *norm2(situ_tensor *x, const situ_reduce_options *o) { return situ_norm(x, 2, o); }
static situ_tensor *log_sum(situ_tensor *x, const situ_reduce_options *o) { return situ_log(situ_sum(x, o)); }
static situ_tensor *run_l2(situ__op_call *c) { return reduce_real(c, norm2); }
static situ_tensor *run_log_sum(situ__op_call *c) { return reduce_real(c, log_sum); }
static situ_tensor *run_log_sum_exp(situ__op_call *c) { return reduce_real(c, situ_logsumexp); }

/* The extreme of no element: that of the dtype, in x's sizes with 1 instead of each reduced one. */
static situ_tensor *extreme_of_none(const situ_tensor *x, const situ_reduce_options *o, bool largest) {
  const situ_dtype dtype = situ_dtype_of(x);
  const int bits = 8 * (int)situ_dtype_size(dtype);
  const int64_t most = dtype == SITU_U8 ? UINT8_MAX : INT64_MAX >> (64 - bits),
                least = dtype == SITU_U8 ? 0 : -most - 1;
  const double infinity = largest ? -(double)__builtin_inff() : (double)__builtin_inff();
  const bool floating = situ_dtype_is_floating(dtype);
  situ_shape shape = situ_shape_of(x);
  for (int i = 0; i < o->dim.ndim; i++) {
    const int d = situ__dim_of(o->dim.dim[i], shape.ndim);
    if (d >= 0 && d < shape.ndim) shape.dim[d] = 1;
  }
  for (int d = 0; d < shape.ndim && o->dim.ndim == 0; d++) shape.dim[d] = 1;
  const int64_t value = largest ? least : most;
  const situ_options as = { .dtype = floating ? SITU_F64 : SITU_I64, .device = situ_device_of(x) };
  const void *bytes = floating ? (const void *)&infinity : &value;
  return situ_expand(situ_to_dtype(situ_from_host(bytes, 8, SITU_SCALAR, &as), dtype), shape);
}
static situ_tensor *reduce_extreme(situ__op_call *c, reduction *fn, bool largest) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_reduce_options o = { .keepdim = false };
  bool none;
  const situ_dtype dtype = situ_dtype_of(x);
  if (!read_options(c, &o, &none)) return NULL;
  if (none) return x;
  if (dtype == SITU_BOOL) return largest ? situ_any(x, &o) : situ_all(x, &o);
  if (situ_numel(x) == 0) x = extreme_of_none(x, &o, largest);
  return x ? fn(x, &o) : NULL;
}
static situ_tensor *run_max(situ__op_call *c) { return reduce_extreme(c, situ_amax, true); }
static situ_tensor *run_min(situ__op_call *c) { return reduce_extreme(c, situ_amin, false); }

/* ---- positions ---- */

/* Arguments: data, axis, keepdims, select_last_index. */
static situ_tensor *find_extreme(situ__op_call *c, reduction *fn) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int dim = situ__arg_dim(c, 1);
  const bool last = situ__arg_flag(c, 3);
  const situ_reduce_options o = { .dim = SITU_SHAPE(dim), .keepdim = situ__arg_flag(c, 2) };
  situ_tensor *y = fn(last ? situ_flip(x, SITU_SHAPE(dim)) : x, &o);
  return last ? situ_rsub_scalar(y, (double)(situ_size(x, dim) - 1)) : y;
}
static situ_tensor *run_argmax(situ__op_call *c) { return find_extreme(c, situ_argmax); }
static situ_tensor *run_argmin(situ__op_call *c) { return find_extreme(c, situ_argmin); }

static situ_tensor *run_topk(situ__op_call *c) {
  int64_t k = 0;
  if (situ__arg_host_ints(c, 1, &k, 1) < 0) return NULL;
  return situ_topk(situ__arg_tensor(c, 0), k, situ__arg_dim(c, 2), situ__arg_flag(c, 3), situ__call_result(c, 1));
}

/* ---- scans ---- */

/* Exclusive: shifted by one, with `neutral` first. Arguments: x, axis, exclusive, reverse. */
static situ_tensor *scan(situ__op_call *c, situ_tensor *(*fn)(situ_tensor *, int), double neutral) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  int64_t axis = 0;
  const situ_dtype dtype = situ_dtype_of(x);
  if (situ__arg_host_ints(c, 1, &axis, 1) < 0) return NULL;
  const int dim = situ__as_dim(axis);
  const bool reverse = situ__arg_flag(c, 3);
  if (reverse) x = situ_flip(x, SITU_SHAPE(dim));
  if (situ__arg_flag(c, 2)) {
    const int64_t size = situ_size(x, dim);
    situ_shape shape = situ_shape_of(x);
    if (size < 1) return x;
    if (shape.ndim) shape.dim[situ__dim_of(dim, shape.ndim)] = 1;
    situ_tensor *first = situ_full(shape, neutral, &(situ_options){ .dtype = dtype, .device = situ_device_of(x) });
    x = size > 1 ? situ_cat((situ_tensor *[]){ first, situ_narrow(x, dim, 0, size - 1) }, 2, dim) : first;
  }
  situ_tensor *y = situ_to_dtype(fn(x, dim), dtype);
  return reverse ? situ_flip(y, SITU_SHAPE(dim)) : y;
}
static situ_tensor *run_cumsum(situ__op_call *c) { return scan(c, situ_cumsum, 0); }
static situ_tensor *run_cumprod(situ__op_call *c) { return scan(c, situ_cumprod, 1); }

/* ---- softmax ---- */

/* Before opset 13 all dimensions from the axis on are one. */
static situ_tensor *run_along(situ__op_call *c, situ_tensor *(*fn)(situ_tensor *, int)) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int dim = situ__arg_dim(c, 1);
  if (c->node->row->since == 13 || dim == -1 || dim == situ_dim(x) - 1) return fn(x, dim);
  return situ_reshape(fn(situ_flatten(x, dim, -1), -1), situ_shape_of(x));
}
static situ_tensor *run_softmax(situ__op_call *c) { return run_along(c, situ_softmax); }
static situ_tensor *run_log_softmax(situ__op_call *c) { return run_along(c, situ_log_softmax); }
static situ_tensor *hardmax(situ_tensor *x, int dim) {
  situ_tensor *index = situ_argmax(x, &(situ_reduce_options){ .dim = SITU_SHAPE(dim) });
  situ_tensor *hot = situ_one_hot(index, situ_size(x, dim));
  return situ_to_dtype(situ_movedim(hot, SITU_SHAPE(-1), SITU_SHAPE(dim)), situ_dtype_of(x));
}
static situ_tensor *run_hardmax(situ__op_call *c) { return run_along(c, hardmax); }

#define REDUCE(name, function) \
  { name, "t data, h? axes, i keepdims=1, i noop_with_empty_axes=0", .inputs = 2, .run = function, .shapes = true }
#define ALONG(name, function)                                             \
  { name, "t input, i axis=1", .inputs = 1, .run = function }, {          \
    name, "t input, i axis=-1", .inputs = 1, .since = 13, .run = function \
  }
#define ARG "t data, i axis=0, i keepdims=1, i select_last_index=0"
#define SCAN "t x, h axis, i exclusive=0, i reverse=0"

static const situ__op_row rows[] = {
  REDUCE("ReduceL1", run_l1),
  REDUCE("ReduceL2", run_l2),
  REDUCE("ReduceLogSum", run_log_sum),
  REDUCE("ReduceLogSumExp", run_log_sum_exp),
  REDUCE("ReduceMax", run_max),
  REDUCE("ReduceMean", run_mean),
  REDUCE("ReduceMin", run_min),
  REDUCE("ReduceProd", run_prod),
  REDUCE("ReduceSum", run_sum),
  REDUCE("ReduceSumSquare", run_sum_square),
  ALONG("Softmax", run_softmax),
  ALONG("LogSoftmax", run_log_softmax),
  ALONG("Hardmax", run_hardmax),
  { "ArgMax", ARG, .inputs = 1, .run = run_argmax },
  { "ArgMin", ARG, .inputs = 1, .run = run_argmin },
  { "TopK", "t X, h k, i axis=-1, i largest=1", .inputs = 1, .results = 2, .run = run_topk },
  { "TopK", "t X, h K, i axis=-1, i largest=1, i? sorted", .inputs = 2, .results = 2, .since = 10, .run = run_topk },
  { "CumSum", SCAN, .inputs = 2, .run = run_cumsum },
  { "CumProd", SCAN, .inputs = 2, .run = run_cumprod },
};
const situ__op_family situ__onnx_reduce_family = { rows, sizeof rows / sizeof *rows };
