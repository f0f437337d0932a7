/* ATen's products, convolutions, pooling, attention and upsampling as ONNX operators.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "write.h"

#define IN SITU__ONNX_IN

static int64_t int_at(const situ__onnx_writer *w, int k) { return situ__arg_int(&w->call, k); }
static int rank_of(const situ__onnx_writer *w, int k) { return situ__onnx_about(w, k)->size.ndim; }
static const char *self(situ__onnx_writer *w) { return situ__onnx_arg(w, 0); }
static const char *number(situ__onnx_writer *w, double value) { return situ__onnx_scalar(w, value, w->gives->dtype); }

/* ---- products ---- */

static const char *transposed(situ__onnx_writer *w, const char *x, int rank) {
  situ_shape order = { .ndim = rank };
  for (int d = 0; d < rank; d++) order.dim[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
  return situ__onnx_put(w, "Transpose", IN(x), "perm:I", &order);
}
static const char *write_linear(situ__onnx_writer *w) {
  const char *x = self(w), *weight = situ__onnx_arg(w, 1), *bias = situ__onnx_arg(w, 2);
  if (rank_of(w, 0) == 2)
    return situ__onnx_put(w, "Gemm", bias ? IN(x, weight, bias) : IN(x, weight), "transB:i", (int64_t)1);
  const char *y = situ__onnx_put2(w, "MatMul", x, transposed(w, weight, 2));
  return bias ? situ__onnx_put2(w, "Add", y, bias) : y;
}
static const char *write_addmm(situ__onnx_writer *w) {
  const double beta = situ__arg_number(&w->call, 3), alpha = situ__arg_number(&w->call, 4);
  return situ__onnx_put(w, "Gemm", IN(situ__onnx_arg(w, 1), situ__onnx_arg(w, 2), self(w)), "alpha:f beta:f", alpha,
                        beta);
}
static const char *write_baddbmm(situ__onnx_writer *w) {
  const double beta = situ__arg_number(&w->call, 3), alpha = situ__arg_number(&w->call, 4);
  const char *y = situ__onnx_put2(w, "MatMul", situ__onnx_arg(w, 1), situ__onnx_arg(w, 2)), *x = self(w);
  if (alpha != 1) y = situ__onnx_put2(w, "Mul", y, number(w, alpha));
  if (beta != 1) x = situ__onnx_put2(w, "Mul", x, number(w, beta));
  return situ__onnx_put2(w, "Add", x, y);
}
static const char *write_einsum(situ__onnx_writer *w) {
  enum { MOST = 16 };
  const char *in[MOST + 1] = { NULL };
  const int count = situ__onnx_items(w, 1);
  if (count > MOST) return NULL;
  for (int i = 0; i < count; i++) in[i] = situ__onnx_item(w, 1, i);
  return situ__onnx_put(w, "Einsum", in, "equation:s", situ__arg_text(&w->call, 0));
}

/* ---- convolutions ---- */

/* Sizes of a layer at argument k: one for each spatial dimension. */
static situ_shape each(const situ__onnx_writer *w, int k, int spatial, int64_t otherwise) {
  situ_shape given = situ__arg_dims(&w->call, k);
  situ_shape sizes = { .ndim = spatial };
  for (int d = 0; d < spatial; d++) sizes.dim[d] = given.ndim == 0 ? otherwise : given.dim[given.ndim == 1 ? 0 : d];
  return sizes;
}
static situ_shape twice(const situ_shape *padding) {
  situ_shape pads = { .ndim = 2 * padding->ndim };
  for (int d = 0; d < padding->ndim; d++) pads.dim[d] = pads.dim[padding->ndim + d] = padding->dim[d];
  return pads;
}
/* "same" pads more at the end, as torch does. */
static situ_shape same_pads(const situ__onnx_writer *w, const situ_shape *dilation) {
  const situ_shape *kernel = &situ__onnx_about(w, 1)->size;
  situ_shape pads = { .ndim = 2 * dilation->ndim };
  for (int d = 0; d < dilation->ndim; d++) {
    const int64_t all = dilation->dim[d] * (kernel->dim[d + 2] - 1);
    pads.dim[d] = all / 2;
    pads.dim[dilation->ndim + d] = all - all / 2;
  }
  return pads;
}
/* An operand without a batch gets one. */
static const char *batched(situ__onnx_writer *w, int spatial) {
  return rank_of(w, 0) == spatial + 2 ? self(w) : situ__onnx_put2(w, "Unsqueeze", self(w), situ__onnx_int(w, 0));
}
static const char *unbatched(situ__onnx_writer *w, int spatial, const char *y) {
  return rank_of(w, 0) == spatial + 2 ? y : situ__onnx_put2(w, "Squeeze", y, situ__onnx_int(w, 0));
}
static const char *convolve(situ__onnx_writer *w, const situ_shape *pads, int dilations, int groups) {
  const int spatial = rank_of(w, 1) - 2;
  const situ_shape strides = each(w, 3, spatial, 1), dilation = each(w, dilations, spatial, 1);
  const char *bias = situ__onnx_arg(w, 2), *x = batched(w, spatial), *weight = situ__onnx_arg(w, 1);
  const char *y = situ__onnx_put(w, "Conv", bias ? IN(x, weight, bias) : IN(x, weight),
                                 "strides:I pads:I dilations:I group:i", &strides, pads, &dilation, int_at(w, groups));
  return unbatched(w, spatial, y);
}
static const char *write_conv(situ__onnx_writer *w) {
  const situ_shape padding = each(w, 4, rank_of(w, 1) - 2, 0), pads = twice(&padding);
  return convolve(w, &pads, 5, 6);
}
static const char *write_conv_named(situ__onnx_writer *w) {
  const situ_shape dilation = each(w, 5, rank_of(w, 1) - 2, 1);
  const situ_shape none = { .ndim = 2 * dilation.ndim }, same = same_pads(w, &dilation);
  return convolve(w, *situ__arg_text(&w->call, 4) == 's' ? &same : &none, 5, 6);
}
static const char *convolve_back(situ__onnx_writer *w, int outputs, int groups, int dilations) {
  const int spatial = rank_of(w, 1) - 2;
  const situ_shape padding = each(w, 4, spatial, 0), pads = twice(&padding), strides = each(w, 3, spatial, 1);
  const situ_shape dilation = each(w, dilations, spatial, 1), more = each(w, outputs, spatial, 0);
  const char *bias = situ__onnx_arg(w, 2), *x = batched(w, spatial), *weight = situ__onnx_arg(w, 1);
  const char *y = situ__onnx_put(w, "ConvTranspose", bias ? IN(x, weight, bias) : IN(x, weight),
                                 "strides:I pads:I dilations:I output_padding:I group:i", &strides, &pads, &dilation,
                                 &more, int_at(w, groups));
  return unbatched(w, spatial, y);
}
static const char *write_conv_transpose(situ__onnx_writer *w) { return convolve_back(w, 5, 6, 7); }
static const char *write_convolution(situ__onnx_writer *w) {
  if (situ__arg_flag(&w->call, 6)) return convolve_back(w, 7, 8, 5);
  const situ_shape padding = each(w, 4, rank_of(w, 1) - 2, 0), pads = twice(&padding);
  return convolve(w, &pads, 5, 8);
}

/* ---- pooling ---- */

static int spatial_of(const situ__onnx_writer *w) { return strstr(w->node->row->target, "1d") ? 1 : 2; }

/* Places in a plane; ONNX counts them in the whole tensor. */
static const char *write_max_pool(situ__onnx_writer *w) {
  const int spatial = spatial_of(w), outs = w->node->outs > 1 ? 2 : 1;
  const situ_shape kernel = each(w, 1, spatial, 1), padding = each(w, 3, spatial, 0), pads = twice(&padding);
  const situ_shape dilation = each(w, 4, spatial, 1), given = situ__arg_dims(&w->call, 2);
  const situ_shape strides = given.ndim ? each(w, 2, spatial, 1) : kernel;
  const char *out[2] = { NULL };
  if (!situ__onnx_put_all(w, "MaxPool", IN(batched(w, spatial)), out, outs,
                          "kernel_shape:I strides:I pads:I dilations:I ceil_mode:i", &kernel, &strides, &pads,
                          &dilation, int_at(w, 5)))
    return NULL;
  if (outs > 1) {
    const situ__inferred *x = situ__onnx_about(w, 0);
    if (!situ__onnx_is_fixed(w, x)) return NULL;
    int64_t plane = 1;
    for (int d = x->size.ndim - spatial; d < x->size.ndim; d++) plane *= x->size.dim[d];
    w->result[0] =
        unbatched(w, spatial, situ__onnx_put2(w, "Mod", out[1], situ__onnx_scalar(w, (double)plane, SITU_I64)));
  }
  return unbatched(w, spatial, out[0]);
}
static const char *write_avg_pool(situ__onnx_writer *w) {
  const int spatial = spatial_of(w);
  const situ_shape kernel = each(w, 1, spatial, 1), padding = each(w, 3, spatial, 0), pads = twice(&padding);
  const situ_shape given = situ__arg_dims(&w->call, 2), strides = given.ndim ? each(w, 2, spatial, 1) : kernel;
  if (spatial == 2 && situ__arg_given(&w->call, 6)) return situ__onnx_lacks(w, "has a divisor of its own");
  const char *y = situ__onnx_put(w, "AveragePool", IN(batched(w, spatial)),
                                 "kernel_shape:I strides:I pads:I ceil_mode:i count_include_pad:i", &kernel, &strides,
                                 &pads, int_at(w, 4), int_at(w, 5));
  return unbatched(w, spatial, y);
}

/* x with dimension d as `to` means of ranges: not a product by weights, of which 0 times an infinity is NaN. */
static const char *average_ranges(situ__onnx_writer *w, const char *x, int d, int64_t from, int64_t to) {
  enum { MOST = 64 };
  const char *part[MOST + 1] = { NULL };
  if (from == to) return x;
  if (to > MOST) return situ__onnx_lacks(w, "has more than 64 ranges of different sizes");
  const char *axis = situ__onnx_int(w, d);
  for (int64_t o = 0; o < to; o++) {
    const char *start = situ__onnx_int(w, o * from / to), *end = situ__onnx_int(w, ((o + 1) * from + to - 1) / to);
    part[o] = situ__onnx_put2(w, "ReduceMean", situ__onnx_put(w, "Slice", IN(x, start, end, axis), ""), axis);
    if (!part[o]) return NULL;
  }
  return to == 1 ? part[0] : situ__onnx_put(w, "Concat", part, "axis:i", (int64_t)d);
}
/* Ranges of one size are windows. */
static const char *average_windows(situ__onnx_writer *w, const situ_shape *kernel) {
  const char *y =
      situ__onnx_put(w, "AveragePool", IN(batched(w, kernel->ndim)), "kernel_shape:I strides:I", kernel, kernel);
  return unbatched(w, kernel->ndim, y);
}
static const char *write_adaptive_avg_pool(situ__onnx_writer *w) {
  const int spatial = spatial_of(w), rank = rank_of(w, 0);
  const situ_shape *out = &w->gives->size;
  const situ__inferred *x = situ__onnx_about(w, 0);
  situ_shape axes = { .ndim = spatial };
  bool one = true;
  for (int d = 0; d < spatial; d++) {
    axes.dim[d] = rank - spatial + d;
    one = one && out->dim[axes.dim[d]] == 1;
  }
  if (one) return situ__onnx_put2(w, "ReduceMean", self(w), situ__onnx_ints(w, &axes));
  for (int d = rank - spatial; d < rank; d++)
    if (x->size.dim[d] < 0) return situ__onnx_is_fixed(w, x), NULL;
  situ_shape kernel = { .ndim = spatial };
  bool even = true;
  for (int d = 0; d < spatial; d++) {
    const int64_t from = x->size.dim[axes.dim[d]], to = out->dim[axes.dim[d]];
    if (from < 1 || to < 1) return situ__onnx_lacks(w, "has no element");
    kernel.dim[d] = from / to;
    even = even && from % to == 0;
  }
  if (even) return average_windows(w, &kernel);
  const char *y = self(w);
  for (int d = 0; d < spatial; d++) {
    const int64_t axis = axes.dim[d];
    y = average_ranges(w, y, (int)axis, x->size.dim[axis], out->dim[axis]);
  }
  return y;
}

/* ---- attention, embedding ---- */

/* The heads of key or value as often as those of query. The call has been tried on these sizes: there are heads, and
   one dimension more is possible where they differ. */
static const char *repeat_heads(situ__onnx_writer *w, int k) {
  const situ__inferred *x = situ__onnx_about(w, k), *query = situ__onnx_about(w, 0);
  const int rank = x->size.ndim, at = rank - 3;
  const int64_t heads = query->size.dim[query->size.ndim - 3];
  if (heads < 0) return situ__onnx_is_fixed(w, query), NULL;
  if (!situ__onnx_is_fixed(w, x)) return NULL;
  const int64_t times = heads / x->size.dim[at];
  situ_shape wide = { .ndim = rank + 1 }, repeats = { .ndim = rank + 1 }, whole = x->size;
  if (times == 1) return situ__onnx_arg(w, k);
  for (int d = 0; d <= rank; d++) {
    wide.dim[d] = d <= at ? x->size.dim[d] : d == at + 1 ? 1 : x->size.dim[d - 1];
    repeats.dim[d] = d == at + 1 ? times : 1;
  }
  whole.dim[at] *= times;
  const char *y = situ__onnx_reshape_to(w, situ__onnx_arg(w, k), wide);
  return situ__onnx_reshape_to(w, situ__onnx_put2(w, "Tile", y, situ__onnx_ints(w, &repeats)), whole);
}
/* 0 where a query may see a key, minus infinity elsewhere. */
static const char *causal_mask(situ__onnx_writer *w, const char *scores) {
  const char *ones =
      situ__onnx_put2(w, "Expand", situ__onnx_scalar(w, 1, w->gives->dtype), situ__onnx_put1(w, "Shape", scores));
  const char *seen = situ__onnx_put(w, "Trilu", IN(ones), "upper:i", (int64_t)0);
  return situ__onnx_cast(w, seen, w->gives->dtype, SITU_BOOL);
}
/* Of a query that sees no key the weights are 0, not NaN. */
static const char *blank_masked(situ__onnx_writer *w, const char *scores, const char *weights) {
  const char *most = situ__onnx_put(w, "ReduceMax", IN(scores, situ__onnx_int(w, -1)), "keepdims:i", (int64_t)1);
  const char *none = situ__onnx_put2(w, "Equal", most, number(w, -INFINITY));
  return none && weights ? situ__onnx_put(w, "Where", IN(none, number(w, 0), weights), "") : NULL;
}
static const char *write_attention(situ__onnx_writer *w) {
  const situ__inferred *query = situ__onnx_about(w, 0), *mask = situ__onnx_about(w, 3);
  const int64_t width = query->size.dim[query->size.ndim - 1];
  const bool grouped = situ__arg_flag(&w->call, 7);
  if (situ__arg_number(&w->call, 4) > 0 && situ__call_trains(&w->call)) return situ__onnx_lacks(w, "drops out");
  if (width < 1) return situ__onnx_is_fixed(w, query), NULL;
  const double scale = situ__arg_given(&w->call, 6) ? situ__arg_number(&w->call, 6) : 1 / sqrt((double)width);
  const char *key = grouped ? repeat_heads(w, 1) : situ__onnx_arg(w, 1);
  const char *value = grouped ? repeat_heads(w, 2) : situ__onnx_arg(w, 2);
  const char *scores = situ__onnx_put2(w, "MatMul", situ__onnx_put2(w, "Mul", self(w), number(w, scale)),
                                       transposed(w, key, rank_of(w, 1)));
  const char *seen = situ__arg_flag(&w->call, 5) ? causal_mask(w, scores)
                     : mask->dtype == SITU_BOOL  ? situ__onnx_arg(w, 3)
                                                 : NULL;
  if (seen) { /* added, so that NaN of a key that is not seen stays NaN, as in torch */
    const char *bias = situ__onnx_put(w, "Where", IN(seen, number(w, 0), number(w, -INFINITY)), "");
    scores = situ__onnx_put2(w, "Add", scores, bias);
  } else if (mask->dtype) scores = situ__onnx_put2(w, "Add", scores, situ__onnx_arg(w, 3));
  const char *weights = situ__onnx_put(w, "Softmax", IN(scores), "axis:i", (int64_t)-1);
  if (seen || mask->dtype) weights = blank_masked(w, scores, weights);
  return situ__onnx_put2(w, "MatMul", weights, value);
}
static const char *write_embedding(situ__onnx_writer *w) {
  return situ__onnx_put2(w, "Gather", self(w), situ__onnx_arg(w, 1));
}
static const char *write_dropout(situ__onnx_writer *w) {
  const bool drops = situ__arg_flag(&w->call, 2) && situ__call_trains(&w->call) && situ__arg_number(&w->call, 1) > 0;
  return drops ? situ__onnx_lacks(w, "drops out: call situ_nn_eval before the export") : self(w);
}
/* A slope for each channel, which are dimension 1. */
static const char *write_prelu(situ__onnx_writer *w) {
  const int rank = rank_of(w, 0);
  const char *slope = situ__onnx_arg(w, 1);
  situ_shape shape = { .ndim = rank > 1 ? rank - 1 : 1 };
  for (int d = 0; d < shape.ndim; d++) shape.dim[d] = 1;
  shape.dim[0] = -1;
  if (rank == 0) slope = situ__onnx_reshape_to(w, slope, SITU_SCALAR);
  if (rank_of(w, 1) == 1 && rank > 2) slope = situ__onnx_reshape_to(w, slope, shape);
  return situ__onnx_put2(w, "PRelu", self(w), slope);
}
static const char *softmax(situ__onnx_writer *w, const char *type) {
  const int rank = rank_of(w, 0);
  const char *x = situ__onnx_arg_as(w, 0, w->gives->dtype);
  if (rank) return situ__onnx_put(w, type, IN(x), "axis:i", (int64_t)situ__onnx_dim(int_at(w, 1), rank));
  x = situ__onnx_put(w, type, IN(situ__onnx_reshape_to(w, x, SITU_SHAPE(1))), "axis:i", (int64_t)0);
  return situ__onnx_reshape_to(w, x, SITU_SCALAR);
}
static const char *write_softmax(situ__onnx_writer *w) { return softmax(w, "Softmax"); }
static const char *write_log_softmax(situ__onnx_writer *w) { return softmax(w, "LogSoftmax"); }

/* ---- upsampling ---- */

/* By scales if they are given, since places are computed of them. */
static const char *resize(situ__onnx_writer *w, int scales_at, const char *places, const char *mode) {
  const situ__inferred *x = situ__onnx_about(w, 0);
  const int rank = x->size.ndim;
  float scale[SITU_MAX_DIMS];
  double given[3];
  const char *scales = "", *sizes = NULL;
  for (int d = 0; d < rank; d++) scale[d] = 1;
  if (!situ__arg_given(&w->call, 1)) {
    const int count = situ__arg_numbers(&w->call, scales_at, given, 3);
    for (int d = 0; d < count; d++) scale[rank - count + d] = (float)given[d];
    scales = situ__onnx_constant(w, SITU_F32, &SITU_SHAPE(rank), scale);
  } else {
    if (!situ__onnx_is_fixed(w, w->gives)) return NULL;
    sizes = situ__onnx_ints(w, &w->gives->size);
  }
  return situ__onnx_put(w, "Resize", sizes ? IN(self(w), "", scales, sizes) : IN(self(w), "", scales),
                        "mode:s coordinate_transformation_mode:s nearest_mode:s cubic_coeff_a:f", mode, places, "floor",
                        -0.75);
}
static const char *resize_smoothly(situ__onnx_writer *w, const char *mode) {
  return resize(w, 3, situ__arg_flag(&w->call, 2) ? "align_corners" : "half_pixel", mode);
}
static const char *write_nearest(situ__onnx_writer *w) { return resize(w, 2, "asymmetric", "nearest"); }
static const char *write_linear_resize(situ__onnx_writer *w) { return resize_smoothly(w, "linear"); }
static const char *write_cubic_resize(situ__onnx_writer *w) { return resize_smoothly(w, "cubic"); }

static const situ__onnx_form forms[] = {
  { "linear.default", .write = write_linear },
  { "mm.default", .same = "MatMul" },
  { "bmm.default", .same = "MatMul" },
  { "matmul.default", .same = "MatMul" },
  { "mv.default", .same = "MatMul" },
  { "dot.default", .same = "MatMul" },
  { "addmm.default", .write = write_addmm },
  { "baddbmm.default", .write = write_baddbmm },
  { "einsum.default", .write = write_einsum },
  { "conv1d.default", .write = write_conv },
  { "conv2d.default", .write = write_conv },
  { "conv3d.default", .write = write_conv },
  { "conv1d.padding", .write = write_conv_named },
  { "conv2d.padding", .write = write_conv_named },
  { "conv_transpose1d.default", .write = write_conv_transpose },
  { "conv_transpose2d.input", .write = write_conv_transpose },
  { "conv_transpose3d.input", .write = write_conv_transpose },
  { "convolution.default", .write = write_convolution },
  { "max_pool1d.default", .write = write_max_pool },
  { "max_pool2d.default", .write = write_max_pool },
  { "max_pool2d_with_indices.default", .write = write_max_pool },
  { "avg_pool1d.default", .write = write_avg_pool },
  { "avg_pool2d.default", .write = write_avg_pool },
  { "adaptive_avg_pool1d.default", .write = write_adaptive_avg_pool },
  { "adaptive_avg_pool2d.default", .write = write_adaptive_avg_pool },
  { "_adaptive_avg_pool2d.default", .write = write_adaptive_avg_pool },
  { "scaled_dot_product_attention.default", .write = write_attention },
  { "embedding.default", .write = write_embedding },
  { "dropout.default", .write = write_dropout },
  { "prelu.default", .write = write_prelu },
  { "_prelu_kernel.default", .write = write_prelu },
  { "softmax.int", .write = write_softmax },
  { "_softmax.default", .write = write_softmax },
  { "log_softmax.int", .write = write_log_softmax },
  { "_log_softmax.default", .write = write_log_softmax },
  { "upsample_nearest1d.vec", .write = write_nearest },
  { "upsample_nearest2d.vec", .write = write_nearest },
  { "upsample_linear1d.vec", .write = write_linear_resize },
  { "upsample_bilinear2d.vec", .write = write_linear_resize },
  { "upsample_bicubic2d.vec", .write = write_cubic_resize },
};
const situ__onnx_forms situ__onnx_form_layers = { forms, sizeof forms / sizeof *forms };
