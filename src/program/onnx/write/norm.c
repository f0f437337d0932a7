/* ATen's norms as ONNX operators.
   SPDX-License-Identifier: MIT */
#include <float.h>

#include "base/alloc.h"
#include "write.h"

#define IN SITU__ONNX_IN

static const char *number(situ__onnx_writer *w, double value) { return situ__onnx_scalar(w, value, w->gives->dtype); }

/* The tensor at k; for None, `otherwise` in the shape. */
static const char *or_all(situ__onnx_writer *w, int k, double otherwise, situ_shape shape) {
  const char *given = situ__onnx_arg(w, k);
  return given ? given : situ__onnx_put2(w, "Expand", number(w, otherwise), situ__onnx_ints(w, &shape));
}
static situ_shape channels(const situ__onnx_writer *w) { return SITU_SHAPE(situ__onnx_about(w, 0)->size.dim[1]); }

static const char *by_statistics(situ__onnx_writer *w, double eps) {
  const situ_shape c = channels(w);
  if (c.dim[0] < 0) return situ__onnx_is_fixed(w, situ__onnx_about(w, 0)), NULL;
  const char *weight = or_all(w, 1, 1, c), *bias = or_all(w, 2, 0, c);
  return situ__onnx_put(w, "BatchNormalization",
                        IN(situ__onnx_arg(w, 0), weight, bias, situ__onnx_arg(w, 3), situ__onnx_arg(w, 4)), "epsilon:f",
                        eps);
}
/* By the mean and variance of each channel of this input, which is how instance norm is exported. */
static const char *by_own_statistics(situ__onnx_writer *w, double eps) {
  const int rank = situ__onnx_about(w, 0)->size.ndim;
  situ_shape axes = { 0 }, spread = { .ndim = rank - 1 };
  for (int d = 0; d < rank; d++)
    if (d != 1) axes.dim[axes.ndim++] = d;
  for (int d = 0; d < spread.ndim; d++) spread.dim[d] = d ? 1 : -1;
  const char *x = situ__onnx_arg(w, 0), *list = situ__onnx_ints(w, &axes);
  const char *away = situ__onnx_put2(w, "Sub", x, situ__onnx_put2(w, "ReduceMean", x, list));
  const char *variance = situ__onnx_put2(w, "ReduceMean", situ__onnx_put2(w, "Mul", away, away), list);
  const char *y =
      situ__onnx_put2(w, "Div", away, situ__onnx_put1(w, "Sqrt", situ__onnx_put2(w, "Add", variance, number(w, eps))));
  const char *weight = situ__onnx_arg(w, 1), *bias = situ__onnx_arg(w, 2);
  if (weight) y = situ__onnx_put2(w, "Mul", y, situ__onnx_reshape_to(w, weight, spread));
  return bias ? situ__onnx_put2(w, "Add", y, situ__onnx_reshape_to(w, bias, spread)) : y;
}
static const char *write_batch_norm(situ__onnx_writer *w) {
  if (!situ__arg_given(&w->call, 3)) return by_own_statistics(w, situ__arg_number(&w->call, 7));
  if (situ__arg_flag(&w->call, 5) && situ__call_trains(&w->call))
    return situ__onnx_lacks(w, "uses the batch's statistics: call situ_nn_eval before the export");
  return by_statistics(w, situ__arg_number(&w->call, 7));
}
static const char *write_batch_norm_of_batch(situ__onnx_writer *w) {
  return by_own_statistics(w, situ__arg_number(&w->call, 5));
}
static const char *write_batch_norm_eval(situ__onnx_writer *w) {
  return by_statistics(w, situ__arg_number(&w->call, 6));
}
static const char *write_instance_norm(situ__onnx_writer *w) {
  const situ_shape c = channels(w);
  const double eps = situ__arg_number(&w->call, 7);
  if (!situ__arg_flag(&w->call, 5)) return by_statistics(w, eps);
  if (c.dim[0] < 0) return situ__onnx_is_fixed(w, situ__onnx_about(w, 0)), NULL;
  return situ__onnx_put(w, "InstanceNormalization", IN(situ__onnx_arg(w, 0), or_all(w, 1, 1, c), or_all(w, 2, 0, c)),
                        "epsilon:f", eps);
}
static const char *write_layer_norm(situ__onnx_writer *w) {
  const situ_shape normalized = situ__arg_dims(&w->call, 1);
  const char *x = situ__onnx_arg(w, 0), *weight = or_all(w, 2, 1, normalized), *bias = situ__onnx_arg(w, 3);
  return situ__onnx_put(w, "LayerNormalization", bias ? IN(x, weight, bias) : IN(x, weight), "axis:i epsilon:f",
                        (int64_t)-normalized.ndim, situ__arg_number(&w->call, 4));
}
/* Groups as the channels of an instance norm, then weight and bias of each channel. */
static const char *by_groups(situ__onnx_writer *w, int64_t groups, int weight_at, double eps) {
  const situ__inferred *x = situ__onnx_about(w, 0);
  const int64_t c = x->size.dim[1];
  situ_shape of_groups = SITU_SHAPE(groups), spread = { .ndim = x->size.ndim - 1 };
  if (c < 0) return situ__onnx_is_fixed(w, x), NULL;
  for (int d = 0; d < x->size.ndim; d++)
    if (x->size.dim[d] == 0) return situ__onnx_lacks(w, "normalises no element");
  for (int d = 0; d < spread.ndim; d++) spread.dim[d] = d ? 1 : c;
  const situ_shape grouped = SITU_SHAPE(0, groups, -1); /* 0: the size of x */
  const char *y = situ__onnx_put2(w, "Reshape", situ__onnx_arg(w, 0), situ__onnx_ints(w, &grouped));
  const char *ones = situ__onnx_put2(w, "Expand", number(w, 1), situ__onnx_ints(w, &of_groups));
  const char *zeros = situ__onnx_put2(w, "Expand", number(w, 0), situ__onnx_ints(w, &of_groups));
  y = situ__onnx_put(w, "InstanceNormalization", IN(y, ones, zeros), "epsilon:f", eps);
  y = situ__onnx_put2(w, "Reshape", y, situ__onnx_put1(w, "Shape", situ__onnx_arg(w, 0)));
  const char *weight = situ__onnx_arg(w, weight_at), *bias = situ__onnx_arg(w, weight_at + 1);
  if (weight) y = situ__onnx_put2(w, "Mul", y, situ__onnx_reshape_to(w, weight, spread));
  return bias ? situ__onnx_put2(w, "Add", y, situ__onnx_reshape_to(w, bias, spread)) : y;
}
static const char *write_group_norm(situ__onnx_writer *w) {
  return by_groups(w, situ__arg_int(&w->call, 1), 2, situ__arg_number(&w->call, 4));
}
static const char *write_native_group_norm(situ__onnx_writer *w) {
  return by_groups(w, situ__arg_int(&w->call, 6), 1, situ__arg_number(&w->call, 7));
}
static const char *write_rms_norm(situ__onnx_writer *w) {
  const situ_shape normalized = situ__arg_dims(&w->call, 1);
  const double least = w->gives->dtype == SITU_F64 ? DBL_EPSILON : FLT_EPSILON;
  const double eps = situ__arg_given(&w->call, 3) ? situ__arg_number(&w->call, 3) : least;
  const char *x = situ__onnx_arg(w, 0), *weight = situ__onnx_arg(w, 2);
  situ_shape axes = { .ndim = normalized.ndim };
  for (int d = 0; d < axes.ndim; d++) axes.dim[d] = d - axes.ndim;
  const char *mean = situ__onnx_put2(w, "ReduceMean", situ__onnx_put2(w, "Mul", x, x), situ__onnx_ints(w, &axes));
  const char *root = situ__onnx_put1(w, "Sqrt", situ__onnx_put2(w, "Add", mean, number(w, eps)));
  const char *y = situ__onnx_put2(w, "Div", x, root);
  return weight ? situ__onnx_put2(w, "Mul", y, weight) : y;
}
static const char *write_weight_norm(situ__onnx_writer *w) {
  const int rank = situ__onnx_about(w, 0)->size.ndim, dim = situ__onnx_dim(situ__arg_int(&w->call, 2), rank);
  situ_shape axes = { 0 };
  for (int d = 0; d < rank; d++)
    if (d != dim) axes.dim[axes.ndim++] = d;
  const char *v = situ__onnx_arg(w, 0), *norm = situ__onnx_put2(w, "ReduceL2", v, situ__onnx_ints(w, &axes));
  return situ__onnx_put2(w, "Mul", v, situ__onnx_put2(w, "Div", situ__onnx_arg(w, 1), norm));
}

static const situ__onnx_form forms[] = {
  { "batch_norm.default", .write = write_batch_norm },
  { "_native_batch_norm_legit_no_training.default", .write = write_batch_norm_eval },
  { "_native_batch_norm_legit.no_stats", .write = write_batch_norm_of_batch },
  { "instance_norm.default", .write = write_instance_norm },
  { "layer_norm.default", .write = write_layer_norm },
  { "native_layer_norm.default", .write = write_layer_norm },
  { "group_norm.default", .write = write_group_norm },
  { "native_group_norm.default", .write = write_native_group_norm, .varies = 7U << 3 },
  { "rms_norm.default", .write = write_rms_norm },
  { "_weight_norm.default", .write = write_weight_norm },
};
const situ__onnx_forms situ__onnx_form_norm = { forms, sizeof forms / sizeof *forms };
