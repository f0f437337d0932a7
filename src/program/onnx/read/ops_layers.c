/* ONNX's products, convolutions and pooling.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "patterns.h"
#include "situ/sys/plain.h"

/* ---- products ---- */

/* alpha A B + beta C, with A and B transposed if asked for. */
static situ_tensor *run_gemm(situ__op_call *c) {
  situ_tensor *a = situ__arg_tensor(c, 0), *b = situ__arg_tensor(c, 1), *bias = situ__arg_tensor(c, 2);
  const double alpha = situ__arg_number(c, 3), beta = situ__arg_number(c, 4);
  const bool linear = alpha == 1 && beta == 1 && situ__arg_flag(c, 6) && (!bias || situ_dim(bias) == 1);
  if (situ__arg_flag(c, 5)) a = situ_transpose(a, 0, 1);
  situ_tensor *packed;
  if (linear && (!bias || situ_numel(bias) == situ_size(b, 0)))
    return situ__call_prepack(c, a, b, &packed) ? situ_linear_by(a, b, bias, packed) : NULL;
  if (situ__arg_flag(c, 6)) b = situ_transpose(b, 0, 1);
  situ_tensor *y = situ_matmul(a, b);
  if (alpha != 1) y = situ_mul_scalar(y, alpha);
  if (!bias || beta == 0) return y;
  return situ_add(y, beta == 1 ? bias : situ_mul_scalar(bias, beta));
}
/* By a weight it is a linear layer without a bias. */
static situ_tensor *run_matmul(situ__op_call *c) {
  situ_tensor *a = situ__arg_tensor(c, 0), *b = situ__arg_tensor(c, 1), *packed;
  if (!c->prepacked || situ_dim(a) < 2 || situ_dim(b) != 2 || situ_size(a, -1) != situ_size(b, 0))
    return situ_matmul(a, b);
  situ_tensor *weight = situ_transpose(b, 0, 1);
  if (!weight || !situ__call_prepack(c, a, weight, &packed)) return NULL;
  return packed ? situ_linear_by(a, weight, NULL, packed) : situ_matmul(a, b);
}
static situ_tensor *run_einsum(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  char equation[256];
  size_t length = 0;
  for (const char *from = situ__arg_text(c, 1); *from && length + 1 < sizeof equation; from++)
    if (*from != ' ') equation[length++] = *from;
  equation[length] = 0;
  return situ_einsum(equation, list, count);
}

/* ---- windows: what convolutions and pooling share ---- */

static int64_t at_or(situ_shape list, int d, int64_t otherwise) { return d < list.ndim ? list.dim[d] : otherwise; }

/* Sums of products of two such numbers have 64 bits. */
static bool are_moderate(situ_shape list) {
  enum { MOST = 1 << 30 };
  for (int d = 0; d < list.ndim; d++)
    if (list.dim[d] > MOST || list.dim[d] < -MOST) return false;
  return true;
}
static const char immoderate[] = "has a size, kernel, pad, stride or dilation beyond 2^30";

bool situ__onnx_read_windows(situ__op_call *c, int k, situ_tensor *x, situ_shape kernel, situ__onnx_windows *w) {
  const situ_shape size = situ_shape_of(x), dilation = situ__arg_dims(c, k + 1), pads = situ__arg_dims(c, k + 3);
  const situ_shape stride = situ__arg_dims(c, k + 4);
  const char *automatic = situ__arg_text(c, k);
  *w = (situ__onnx_windows){ .dims = size.ndim - 2, .kernel = kernel, .even = true };
  if (w->dims < 1 || w->dims > 3 || kernel.ndim != w->dims)
    return situ__call_refuse(c, "needs 1 to 3 spatial dimensions, and a kernel of as many");
  if (!are_moderate(size) || !are_moderate(kernel) || !are_moderate(stride) || !are_moderate(dilation) ||
      !are_moderate(pads))
    return situ__call_refuse(c, immoderate);
  w->stride.ndim = w->dilation.ndim = w->dims;
  for (int d = 0; d < w->dims; d++) {
    w->stride.dim[d] = at_or(stride, d, 1);
    w->dilation.dim[d] = at_or(dilation, d, 1);
    w->before[d] = at_or(pads, d, 0);
    w->after[d] = at_or(pads, d + w->dims, 0);
    if (w->stride.dim[d] < 1 || w->dilation.dim[d] < 1 || kernel.dim[d] < 1)
      return situ__call_refuse(c, "has a kernel, stride or dilation below 1");
    if (strncmp(automatic, "SAME", 4) == 0) {
      const int64_t out = situ__ceil_div(size.dim[d + 2], w->stride.dim[d]);
      const int64_t reach = (out - 1) * w->stride.dim[d] + (kernel.dim[d] - 1) * w->dilation.dim[d] + 1;
      const int64_t total = situ__max_i64(0, reach - size.dim[d + 2]);
      w->before[d] = automatic[5] == 'L' ? total - total / 2 : total / 2;
      w->after[d] = total - w->before[d];
    }
    w->even = w->even && w->before[d] == w->after[d];
  }
  return true;
}
static situ_shape padding_of(const situ__onnx_windows *w) {
  situ_shape padding = { .ndim = w->dims };
  for (int d = 0; d < w->dims; d++) padding.dim[d] = w->before[d];
  return padding;
}
/* more: further elements at the ends (NULL: none). */
static situ_tensor *pad_windows(situ_tensor *x, const situ__onnx_windows *w, const int64_t *more, double value) {
  situ_shape pad = { .ndim = 0 };
  for (int d = w->dims - 1; d >= 0; d--) {
    pad.dim[pad.ndim++] = w->before[d];
    pad.dim[pad.ndim++] = w->after[d] + (more ? more[d] : 0);
  }
  return situ_pad(x, pad, SITU_PAD_CONSTANT, value);
}
situ_shape situ__onnx_spatial_of(const situ_tensor *weight) {
  situ_shape s = situ_shape_of(weight);
  if (s.ndim >= 2) memmove(s.dim, s.dim + 2, (size_t)(s.ndim - 2) * sizeof *s.dim);
  s.ndim -= 2;
  return s;
}

/* ---- convolutions ---- */

typedef situ_tensor *convolution(situ_tensor *, situ_tensor *, situ_tensor *, const situ_conv_options *);
static convolution *const plain[] = { situ_conv1d, situ_conv2d, situ_conv3d };
static convolution *const transposed[] = { situ_conv_transpose1d, situ_conv_transpose2d, situ_conv_transpose3d };

/* Whether gate * x has x's sizes, and the gate a number for each channel, as situ__call_conv2d takes it. */
static bool gates_channels(const situ_tensor *gate, const situ_tensor *x) {
  const situ_shape g = situ_shape_of(gate), s = situ_shape_of(x);
  return g.ndim == 4 && s.ndim == 4 && (g.dim[0] == 1 || g.dim[0] == s.dim[0]) && g.dim[1] == s.dim[1] &&
         g.dim[2] == 1 && g.dim[3] == 1;
}

/* Arguments: X, W, B, auto_pad, dilations, kernel_shape, pads, strides, group; the gate may be NULL. */
static situ_tensor *convolve(situ__op_call *c, situ_tensor *gate, situ_activation activation, bool max_pool) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1);
  situ__onnx_windows w;
  if (gate && !gates_channels(gate, x)) x = situ_mul(gate, x), gate = NULL;
  if (!situ__onnx_read_windows(c, 3, x, situ__onnx_spatial_of(weight), &w)) return NULL;
  const situ_conv_options o = { .stride = w.stride,
                                .dilation = w.dilation,
                                .padding = w.even ? padding_of(&w) : SITU_SCALAR,
                                .groups = situ__arg_int(c, 8),
                                .activation = activation };
  if (gate && !w.even) x = situ_mul(gate, x), gate = NULL;
  if (!w.even) x = pad_windows(x, &w, NULL, 0);
  if (w.dims == 2) return situ__call_conv2d(c, x, weight, situ__arg_tensor(c, 2), gate, &o, max_pool);
  return plain[w.dims - 1](x, weight, situ__arg_tensor(c, 2), &o);
}
static situ_tensor *run_conv(situ__op_call *c) { return convolve(c, NULL, SITU_ACTIVATION_NONE, false); }
static situ_tensor *run_conv_relu(situ__op_call *c) { return convolve(c, NULL, SITU_ACTIVATION_RELU, false); }
static situ_tensor *run_conv_relu_pool(situ__op_call *c) { return convolve(c, NULL, SITU_ACTIVATION_RELU, true); }
static situ_tensor *run_conv_silu(situ__op_call *c) { return convolve(c, NULL, SITU_ACTIVATION_SILU, false); }
static situ_tensor *run_conv_gated(situ__op_call *c) {
  return convolve(c, situ__arg_tensor(c, 9), SITU_ACTIVATION_NONE, false);
}

/* Arguments: X, W, offset, B, mask, dilations, group, kernel_shape, offset_group, pads, strides. The groups are those
   of the shapes, with which situ compares the offsets. */
static situ_tensor *run_deform_conv(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1);
  const situ_shape pads = situ__arg_dims(c, 9), kernel = situ__onnx_spatial_of(weight);
  const int64_t group = situ__arg_int(c, 6), channels = situ_size(weight, 1), places = situ__arg_int(c, 8);
  const situ__onnx_windows w = { .dims = 2,
                                 .before = { at_or(pads, 0, 0), at_or(pads, 1, 0) },
                                 .after = { at_or(pads, 2, 0), at_or(pads, 3, 0) } };
  if (situ_dim(x) != 4 || kernel.ndim != 2) return situ__call_refuse(c, "needs 2 spatial dimensions");
  if (!are_moderate(pads) || !are_moderate(kernel) || !are_moderate(SITU_SHAPE(group, channels, places)))
    return situ__call_refuse(c, immoderate);
  int64_t offsets = 2 * places;
  for (int d = 0; d < 2; d++)
    if (!situ__mul_i64(offsets, kernel.dim[d], &offsets)) return situ__call_refuse(c, immoderate);
  if (group * channels != situ_size(x, 1) || situ_size(situ__arg_tensor(c, 2), 1) != offsets)
    return situ__call_refuse(c, "has a group or an offset_group other than that of its inputs");
  const situ_deform_conv2d_options o = { .stride = situ__arg_dims(c, 10),
                                         .dilation = situ__arg_dims(c, 5),
                                         .mask = situ__arg_tensor(c, 4) };
  return situ_deform_conv2d(pad_windows(x, &w, NULL, 0), situ__arg_tensor(c, 2), weight, situ__arg_tensor(c, 3), &o);
}

/* Also output_padding and output_shape, which decides the padding. Uneven padding is cut from the whole result. */
static situ_tensor *run_conv_transpose(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *weight = situ__arg_tensor(c, 1);
  const situ_shape size = situ_shape_of(x), more = situ__arg_dims(c, 9), wanted = situ__arg_dims(c, 10);
  const char *automatic = situ__arg_text(c, 3);
  const bool same = strncmp(automatic, "SAME", 4) == 0;
  situ__onnx_windows w;
  if (!situ__onnx_read_windows(c, 3, x, situ__onnx_spatial_of(weight), &w)) return NULL;
  if (!are_moderate(more) || !are_moderate(wanted)) return situ__call_refuse(c, immoderate);
  if (wanted.ndim && wanted.ndim < w.dims)
    return situ__call_refuse(c, "has an output_shape of fewer sizes than the input has spatial dimensions");
  w.even = true;
  for (int d = 0; d < w.dims; d++) {
    const int64_t whole =
        w.stride.dim[d] * (size.dim[d + 2] - 1) + at_or(more, d, 0) + (w.kernel.dim[d] - 1) * w.dilation.dim[d] + 1;
    if (same || wanted.ndim) {
      const int64_t out = wanted.ndim ? at_or(wanted, d + wanted.ndim - w.dims, 1) : size.dim[d + 2] * w.stride.dim[d];
      const int64_t total = whole - out, half = total >= 0 ? total / 2 : -((1 - total) / 2);
      w.before[d] = same && automatic[5] == 'U' ? half : total - half;
      w.after[d] = total - w.before[d];
    }
    w.even = w.even && w.before[d] == w.after[d] && w.before[d] >= 0;
  }
  const situ_conv_options o = { .stride = w.stride,
                                .dilation = w.dilation,
                                .padding = w.even ? padding_of(&w) : SITU_SCALAR,
                                .output_padding = more,
                                .groups = situ__arg_int(c, 8) };
  situ_tensor *y = transposed[w.dims - 1](x, weight, situ__arg_tensor(c, 2), &o);
  for (int d = 0; d < w.dims; d++) {
    w.before[d] = -w.before[d];
    w.after[d] = -w.after[d];
  }
  return w.even ? y : pad_windows(y, &w, NULL, 0);
}

/* ---- pooling ---- */

static situ_shape plane_of(const situ_tensor *x) { return situ__onnx_spatial_of(x); }

/* Indices in each plane become ONNX's: in the whole tensor, row-major or with the columns first. */
static situ_tensor *number_globally(situ_tensor *index, const situ_tensor *x, bool columns) {
  const situ_shape s = situ_shape_of(x), plane = plane_of(x);
  int64_t size = 1;
  if (situ_numel(x) == 0) return index;
  for (int d = 0; d < plane.ndim; d++) size *= plane.dim[d];
  if (columns && plane.ndim == 2) {
    situ_tensor *wide = situ_full(SITU_SCALAR, (double)plane.dim[1],
                                  &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(index) });
    situ_tensor *column = situ_remainder(index, wide), *row = situ_floor_divide(index, wide);
    index = situ_add(situ_mul_scalar(column, (double)plane.dim[0]), row);
  }
  situ_shape each = { .ndim = s.ndim, .dim = { s.dim[0], s.dim[1] } };
  for (int d = 2; d < s.ndim; d++) each.dim[d] = 1;
  situ_tensor *first = situ_arange(0, (double)(s.dim[0] * s.dim[1] * size), (double)(size ? size : 1),
                                   &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(index) });
  return situ_add(index, situ_reshape(first, each));
}

/* Further elements at the end that ceil_mode needs; a window that would begin in the padding after the end is left
   out. */
static void reach_ceil(const situ__onnx_windows *w, const situ_tensor *x, int64_t more[3]) {
  const situ_shape plane = plane_of(x);
  for (int d = 0; d < w->dims; d++) {
    const int64_t size = plane.dim[d] + w->before[d] + w->after[d], stride = w->stride.dim[d];
    const int64_t reach = (w->kernel.dim[d] - 1) * w->dilation.dim[d] + 1;
    int64_t out = situ__ceil_div(situ__max_i64(0, size - reach), stride) + 1;
    if ((out - 1) * stride >= plane.dim[d] + w->before[d]) out--;
    more[d] = situ__max_i64(0, (out - 1) * stride + reach - size);
  }
}

/* The smallest value of a dtype, which padding of a maximum has. */
static double lowest(situ_dtype dtype) { return dtype == SITU_U8 ? 0 : dtype == SITU_I8 ? -128 : -(double)INFINITY; }

static const char *max_pool_lacks(const situ__op_call *c) {
  const situ_shape pads = situ__arg_dims(c, 4);
  bool even = *situ__arg_text(c, 1) != 'S';
  for (int d = 0; d < pads.ndim / 2; d++) even = even && pads.dim[d] == pads.dim[d + pads.ndim / 2];
  return c->node->outs > 1 && !even ? "gives indices with uneven padding" : NULL;
}

/* Arguments: X, auto_pad, dilations, kernel_shape, pads, strides, ceil_mode, storage_order. */
static situ_tensor *run_max_pool(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *y, **indices = situ__call_result(c, 1);
  const situ_dtype dtype = situ_dtype_of(x);
  situ__onnx_windows w;
  if (!situ__onnx_read_windows(c, 1, x, situ__arg_dims(c, 3), &w)) return NULL;
  situ_pool_options o = { .kernel = w.kernel, .stride = w.stride, .dilation = w.dilation };
  bool inside = w.even;
  for (int d = 0; d < w.dims; d++) inside = inside && w.before[d] <= w.kernel.dim[d] / 2;
  situ_tensor *padded = x;
  if (inside) {
    o.padding = padding_of(&w);
    o.ceil_mode = situ__arg_flag(c, 6);
  } else {
    int64_t more[3] = { 0 };
    if (situ__arg_flag(c, 6)) reach_ceil(&w, x, more);
    padded = pad_windows(x, &w, more, lowest(dtype));
  }
  const bool integer = !situ_dtype_is_floating(dtype);
  if (integer) padded = situ_to_dtype(padded, SITU_F32);
  if (w.dims == 1) y = situ_max_pool1d(padded, &o, indices);
  else if (w.dims == 2) y = situ_max_pool2d(padded, &o, indices);
  else y = situ_max_pool3d(padded, &o, indices);
  if (y && indices && !(*indices = number_globally(*indices, x, situ__arg_flag(c, 7)))) return NULL;
  return integer ? situ_to_dtype(y, dtype) : y;
}

/* Sums over windows, as a convolution by ones, plane by plane. */
static situ_tensor *sum_windows(situ_tensor *x, const situ__onnx_windows *w) {
  const situ_shape s = situ_shape_of(x);
  situ_shape one = { .ndim = s.ndim, .dim = { s.dim[0] * s.dim[1], 1 } }, kernel = { .ndim = s.ndim, .dim = { 1, 1 } };
  for (int d = 0; d < w->dims; d++) {
    one.dim[d + 2] = s.dim[d + 2];
    kernel.dim[d + 2] = w->kernel.dim[d];
  }
  situ_tensor *ones = situ_ones(kernel, &(situ_options){ .dtype = situ_dtype_of(x), .device = situ_device_of(x) });
  situ_tensor *y = plain[w->dims - 1](situ_reshape(x, one), ones, NULL,
                                      &(situ_conv_options){ .stride = w->stride, .dilation = w->dilation });
  situ_shape back = situ_shape_of(y);
  if (back.ndim < 2) return NULL;
  back.dim[0] = s.dim[0];
  back.dim[1] = s.dim[1];
  return situ_reshape(y, back);
}

/* Arguments as of MaxPool, but count_include_pad in place of storage_order. What situ_avg_pool does not take is the
   sum over windows by their number of elements. */
static situ_tensor *run_avg_pool(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ__onnx_windows w;
  int64_t more[3] = { 0 };
  if (!situ__onnx_read_windows(c, 1, x, situ__arg_dims(c, 3), &w)) return NULL;
  const bool include = situ__arg_flag(c, 7), ceil_mode = situ__arg_flag(c, 6);
  bool simple = w.even;
  for (int d = 0; d < w.dims; d++) simple = simple && w.dilation.dim[d] == 1 && w.before[d] <= w.kernel.dim[d] / 2;
  const situ_pool_options o = {
    .kernel = w.kernel, .stride = w.stride, .padding = padding_of(&w), .ceil_mode = ceil_mode, .exclude_pad = !include
  };
  if (simple && w.dims == 1) return situ_avg_pool1d(x, &o);
  if (simple && w.dims == 2) return situ_avg_pool2d(x, &o);
  if (simple) return situ_avg_pool3d(x, &o);
  if (ceil_mode) reach_ceil(&w, x, more);
  situ_tensor *sum = sum_windows(pad_windows(x, &w, more, 0), &w), *ones = situ_ones_like(x, NULL);
  if (include) ones = pad_windows(ones, &w, NULL, 1);
  situ__onnx_windows rest = w; /* of the ones: what is not counted */
  for (int d = 0; d < w.dims && include; d++) rest.before[d] = rest.after[d] = 0;
  return situ_div(sum, sum_windows(pad_windows(ones, &rest, more, 0), &w));
}

/* (sum |x|^p)^(1/p) over windows. Arguments as of MaxPool, and p. */
static situ_tensor *run_lp_pool(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const double p = situ__arg_number(c, 7);
  situ__onnx_windows w;
  int64_t more[3] = { 0 };
  if (!situ__onnx_read_windows(c, 1, x, situ__arg_dims(c, 3), &w)) return NULL;
  if (situ__arg_flag(c, 6)) reach_ceil(&w, x, more);
  situ_tensor *powers = pad_windows(situ_pow_scalar(situ_abs(x), p), &w, more, 0);
  return situ_pow_scalar(sum_windows(powers, &w), 1 / p);
}

/* All dimensions but batch and channel, as sizes of 1. */
static situ_reduce_options over_plane(const situ_tensor *x) {
  situ_reduce_options o = { .keepdim = true };
  for (int d = 2; d < situ_dim(x); d++) o.dim.dim[o.dim.ndim++] = d;
  return o;
}
static situ_tensor *global_mean(situ_tensor *x) {
  const situ_reduce_options o = over_plane(x);
  return o.dim.ndim ? situ_mean(x, &o) : x;
}
static situ_tensor *global_max(situ_tensor *x) {
  const situ_reduce_options o = over_plane(x);
  return o.dim.ndim ? situ_amax(x, &o) : x;
}
static situ_tensor *run_global_lp(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_reduce_options o = over_plane(x);
  return situ_norm(x, situ__arg_number(c, 1), &o);
}

/* Arguments: X, I, output_shape, auto_pad, dilations, kernel_shape, pads, strides. Indices are of the whole result as
   kernel, strides and pads give it; a larger output_shape adds zeros after it. */
static situ_tensor *run_max_unpool(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *index = situ__arg_tensor(c, 1);
  situ_shape size = situ_shape_of(x), given;
  int64_t numel = 1;
  situ__onnx_windows w;
  if (!situ__onnx_read_windows(c, 3, x, situ__arg_dims(c, 5), &w)) return NULL;
  given.ndim = situ__arg_host_ints(c, 2, given.dim, SITU_MAX_DIMS);
  if (given.ndim < 0) return NULL;
  if (!are_moderate(given)) return situ__call_refuse(c, immoderate);
  if (given.ndim && given.ndim != size.ndim) return situ__call_refuse(c, "has an output_shape of another rank");
  for (int d = 0; d < w.dims; d++)
    size.dim[d + 2] = (size.dim[d + 2] - 1) * w.stride.dim[d] - w.before[d] - w.after[d] + w.kernel.dim[d];
  for (int d = 0; d < size.ndim; d++)
    if (size.dim[d] < 0 || !situ__mul_i64(numel, size.dim[d], &numel))
      return situ__call_refuse(c, "gives a size below 0, or more than 2^63 elements");
  const situ_options o = { .dtype = situ_dtype_of(x), .device = situ_device_of(x) };
  situ_tensor *flat = situ_zeros(SITU_SHAPE(numel), &o);
  situ_tensor *y = situ_reshape(situ_scatter(flat, 0, situ_flatten(index, 0, -1), situ_flatten(x, 0, -1)), size);
  for (int d = 0; d < w.dims; d++) {
    w.before[d] = 0;
    w.after[d] = given.ndim ? given.dim[d + 2] - size.dim[d + 2] : 0;
  }
  return given.ndim ? pad_windows(y, &w, NULL, 0) : y;
}

/* Arguments: input, image_shape, block_shape, dilations, pads, strides. Uneven padding is cut from the whole image. */
static situ_tensor *run_col2im(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_shape image, block;
  const situ_shape pads = situ__arg_dims(c, 4);
  image.ndim = situ__arg_host_ints(c, 1, image.dim, SITU_MAX_DIMS);
  block.ndim = situ__arg_host_ints(c, 2, block.dim, SITU_MAX_DIMS);
  if (image.ndim < 0 || block.ndim < 0) return NULL;
  if (image.ndim != 2 || block.ndim != 2) return situ__call_refuse(c, "has images that are not of 2 dimensions");
  if (!are_moderate(image) || !are_moderate(pads)) return situ__call_refuse(c, immoderate);
  situ__onnx_windows w = { .dims = 2 };
  situ_shape whole = image;
  for (int d = 0; d < 2; d++) {
    w.before[d] = -at_or(pads, d, 0);
    w.after[d] = -at_or(pads, d + 2, 0);
    whole.dim[d] -= w.before[d] + w.after[d];
  }
  const situ_unfold_options o = { .dilation = situ__arg_dims(c, 3), .stride = situ__arg_dims(c, 5) };
  return pad_windows(situ_fold(x, whole, block, &o), &w, NULL, 0);
}

#define GEMM "t A, t B, t? C, n alpha=1, n beta=1, i transA=0, i transB=0"
#define CONV "t X, t W, t? B, " SITU__ONNX_WINDOWS ", i group=1"
#define POOL "t X, s? auto_pad(NOTSET|SAME_UPPER|SAME_LOWER|VALID), I? dilations, I kernel_shape, I? pads, I? strides"

const situ__op_row situ__onnx_conv_relu = { "conv_relu", CONV, .prepacked = 1, .run = run_conv_relu };
const situ__op_row situ__onnx_conv_silu = { "conv_silu", CONV, .prepacked = 1, .run = run_conv_silu };
const situ__op_row situ__onnx_conv_gated = { "conv_gated", CONV ", t gate", .prepacked = 1, .run = run_conv_gated };
const situ__op_row situ__onnx_conv_relu_pool = { "conv_relu_pool", CONV, .prepacked = 1, .run = run_conv_relu_pool };

static const situ__op_row rows[] = {
  { "Gemm", GEMM ", i? broadcast", .inputs = 3, .prepacked = 1, .run = run_gemm },
  { "Gemm", GEMM, .inputs = 3, .since = 7, .prepacked = 1, .run = run_gemm },
  { "MatMul", "t A, t B", .inputs = 2, .prepacked = 1, .run = run_matmul },
  { "Einsum", "T Inputs, s equation", .inputs = 1, .run = run_einsum },
  { "Det", "t X", .inputs = 1, .unary = situ_linalg_det },
  { "Conv", CONV, .inputs = 3, .prepacked = 1, .run = run_conv },
  { "ConvTranspose", "t X, t W, t? B, " SITU__ONNX_WINDOWS ", i group=1, I? output_padding, I? output_shape",
    .inputs = 3, .run = run_conv_transpose },
  { "DeformConv",
    "t X, t W, t offset, t? B, t? mask, I? dilations, i group=1, I? kernel_shape, i offset_group=1, "
    "I? pads, I? strides",
    .inputs = 5, .since = 19, .run = run_deform_conv },
  { "MaxPool", POOL ", i ceil_mode=0, i storage_order=0", .inputs = 1, .results = 2, .lacks = max_pool_lacks,
    .run = run_max_pool },
  { "AveragePool", POOL ", i ceil_mode=0, i count_include_pad=0", .inputs = 1, .run = run_avg_pool },
  { "LpPool", POOL ", i ceil_mode=0, i p=2", .inputs = 1, .run = run_lp_pool },
  { "GlobalAveragePool", "t X", .inputs = 1, .unary = global_mean },
  { "GlobalMaxPool", "t X", .inputs = 1, .unary = global_max },
  { "GlobalLpPool", "t X, i p=2", .inputs = 1, .run = run_global_lp },
  { "MaxUnpool", "t X, t I, h? output_shape, " SITU__ONNX_WINDOWS, .inputs = 3, .run = run_max_unpool },
  { "Col2Im", "t input, h image_shape, h block_shape, I? dilations, I? pads, I? strides", .inputs = 3,
    .run = run_col2im },
};
const situ__op_family situ__onnx_layers_family = { rows, sizeof rows / sizeof *rows };
