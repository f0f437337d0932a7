/* ONNX's quantised values: products in whole numbers, and what onnxruntime has beside them.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "patterns.h"
#include "program/graph/quantized.h"

/* ---- linear quantisation, by tensor or along an axis ---- */

/* A scale or zero point (argument k) as a tensor that broadcasts to x: one for all, one for each place of the axis, or
   one for each block of so many. */
static situ_tensor *along(const situ__op_call *c, int k, const situ_tensor *x) {
  situ_tensor *t = situ__arg_tensor(c, k);
  const int64_t block = situ__arg_int(c, 4);
  situ_shape shape = { .ndim = situ_dim(x) };
  const int axis = situ__arg_dim_of(c, 3, shape.ndim);
  if (!t || (situ_numel(t) == 1 && block == 0)) return t ? situ_reshape(t, SITU_SCALAR) : NULL;
  if (axis < 0 || axis >= shape.ndim) return situ__call_refuse(c, "has an axis outside of its input");
  const int64_t size = situ_size(x, axis);
  if (block) {
    const int64_t each = situ__min_i64(block, size), blocks = each > 0 ? situ__ceil_div(size, each) : 0;
    if (situ_dim(t) != shape.ndim || situ_size(t, axis) != blocks)
      return situ__call_refuse(c, "needs a scale for each block");
    return situ_narrow(situ_repeat_interleave(t, each, SITU_SHAPE(axis)), axis, 0, size);
  }
  for (int d = 0; d < shape.ndim; d++) shape.dim[d] = 1;
  shape.dim[axis] = situ_numel(t);
  return situ_reshape(t, shape);
}
static situ_tensor *run_dequantize(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *scale = along(c, 1, x), *zero = along(c, 2, x);
  if (!scale) return NULL;
  x = situ_to_dtype(x, SITU_F32);
  if (zero) x = situ_sub(x, situ_to_dtype(zero, SITU_F32));
  const situ_dtype dtype = situ__arg_given(c, 5) ? situ__arg_dtype(c, 5) : situ_dtype_of(scale);
  return situ_to_dtype(situ_mul(x, situ_to_dtype(scale, SITU_F32)), dtype);
}
static situ_tensor *run_quantize(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *scale = along(c, 1, x), *zero = along(c, 2, x);
  if (!scale) return NULL;
  const situ_dtype dtype = zero ? situ_dtype_of(zero) : situ__arg_given(c, 5) ? situ__arg_dtype(c, 5) : SITU_U8;
  if (!c->node->format && dtype != SITU_U8 && dtype != SITU_I8 && dtype != SITU_I16)
    return situ__call_refuse(c, "gives a dtype other than u8, i8 and i16");
  situ_tensor *y = situ_div(situ_to_dtype(x, SITU_F32), situ_to_dtype(scale, SITU_F32));
  if (!c->node->format) return situ__quantized_saturate(y, zero, dtype);
  if (!c->node->format->exponent) y = situ_round(y); /* a whole number */
  if (zero) y = situ_add(y, situ_to_dtype(zero, SITU_F32));
  return situ__onnx_format_quantize(c->node->format, y, !situ__arg_given(c, 6) || situ__arg_flag(c, 6));
}
/* To u8, by the range of the values and 0. */
static situ_tensor *run_dynamic_quantize(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *scale, *zero, *y = situ__onnx_quantize(x, &scale, &zero);
  situ_tensor *const more[] = { scale, situ_to_dtype(zero, SITU_U8) };
  for (int i = 1; i < c->node->outs; i++) c->result[i] = more[i - 1];
  return situ_to_dtype(y, SITU_U8);
}
situ_tensor *situ__onnx_quantize(situ_tensor *x, situ_tensor **scale, situ_tensor **zero) {
  const situ_reduce_options all = { .keepdim = false };
  situ_tensor *low = situ_clamp(situ_amin(x, &all), -INFINITY, 0), *high = situ_clamp(situ_amax(x, &all), 0, INFINITY);
  situ_tensor *step = situ_div(situ_sub(high, low), situ_full_like(low, 255, NULL));
  *scale = situ_where(situ_eq_scalar(step, 0), situ_ones_like(step, NULL), step);
  *zero = situ_clamp(situ_round(situ_div(situ_neg(low), *scale)), 0, 255);
  return situ_clamp(situ_add(situ_round(situ_div(x, *scale)), *zero), 0, 255);
}

/* ---- products ---- */

/* The weight laid out, once: of a convolution, or (o NULL) the second factor of a product. */
static bool lay_out(const situ__op_call *c, situ_tensor *weight, const situ_conv_options *o, situ_tensor **packed) {
  *packed = c->prepacked ? *c->prepacked : NULL;
  if (!c->prepacked || c->is_prepacked) return true;
  return situ__quantized_lay_out(weight, o, packed) && (!*packed || situ_set(c->prepacked, *packed));
}

static situ_tensor *number(situ_tensor *t) { return situ__quantized_spread(t, SITU_F32, 0); }

/* Scales of a product, (a b) / y, in ONNX Runtime's order; y may be NULL. */
static situ_tensor *scale_of(situ_tensor *a, situ_tensor *b, situ_tensor *y) {
  situ_tensor *scale = situ_mul(a, b);
  return y ? situ_div(scale, number(y)) : scale;
}

static bool is_byte(situ__op_call *c, const situ_tensor *zero) {
  if (!zero || situ_dtype_of(zero) == SITU_U8 || situ_dtype_of(zero) == SITU_I8) return true;
  return situ__call_refuse(c, "has a zero point that is not of u8 or i8");
}

static situ_tensor *run_matmul_integer(situ__op_call *c) {
  situ__quantized q = { .a = situ__arg_tensor(c, 0),
                        .b = situ__arg_tensor(c, 1),
                        .zero_a = situ__arg_tensor(c, 2),
                        .zero_b = situ__arg_tensor(c, 3) };
  return lay_out(c, q.b, NULL, &q.packed) ? situ__quantized_matmul(&q) : NULL;
}

/* QLinear operators have arguments a, b and y, each with its scale and zero point, but for y itself. */
static situ__quantized operands(situ__op_call *c) {
  return (situ__quantized){ .a = situ__arg_tensor(c, 0),
                            .b = situ__arg_tensor(c, 3),
                            .zero_a = situ__arg_tensor(c, 2),
                            .zero_b = situ__arg_tensor(c, 5) };
}

static situ_tensor *run_qlinear_matmul(situ__op_call *c) {
  situ__quantized q = operands(c);
  q.scale = scale_of(situ__quantized_spread(situ__arg_tensor(c, 1), SITU_F32, 1), number(situ__arg_tensor(c, 4)),
                     situ__arg_tensor(c, 6));
  q.zero = situ__arg_tensor(c, 7);
  return is_byte(c, q.zero) && lay_out(c, q.b, NULL, &q.packed) ? situ__quantized_matmul(&q) : NULL;
}

/* Arguments as of QLinearMatMul, but C before y, and alpha, transA, transB. Without y it gives f32. */
static situ_tensor *run_qgemm(situ__op_call *c) {
  situ__quantized q = operands(c);
  situ_tensor *a = situ_mul_scalar(number(situ__arg_tensor(c, 1)), situ__arg_number(c, 9)),
              *bias = situ__arg_tensor(c, 6);
  if (situ__arg_flag(c, 10)) q.a = situ_transpose(q.a, 0, 1);
  if (situ__arg_flag(c, 11)) q.b = situ_transpose(q.b, 0, 1);
  if (bias && situ_numel(bias) != situ_size(q.b, 1)) return situ__call_refuse(c, "has a C that is not a row");
  if (bias) q.bias = situ_flatten(bias, 0, -1);
  q.scale = scale_of(a, number(situ__arg_tensor(c, 4)), situ__arg_tensor(c, 7));
  q.zero = situ__arg_tensor(c, 8);
  return is_byte(c, q.zero) && lay_out(c, q.b, NULL, &q.packed) ? situ__quantized_matmul(&q) : NULL;
}

/* (a b) scale + bias, in f32. */
static situ_tensor *to_floats(situ__op_call *c, situ__quantized *q, situ_tensor *bias) {
  if (!lay_out(c, q->b, NULL, &q->packed)) return NULL;
  situ_tensor *y = situ__quantized_matmul(q);
  return bias ? situ_add(y, bias) : y;
}
static situ_tensor *run_matmul_to_float(situ__op_call *c) {
  situ__quantized q = { .a = situ__arg_tensor(c, 0),
                        .b = situ__arg_tensor(c, 1),
                        .zero_a = situ__arg_tensor(c, 4),
                        .zero_b = situ__arg_tensor(c, 5) };
  q.scale = scale_of(number(situ__arg_tensor(c, 2)), number(situ__arg_tensor(c, 3)), NULL);
  return to_floats(c, &q, situ__arg_tensor(c, 6));
}
static situ_tensor *run_dynamic_matmul(situ__op_call *c) {
  situ_tensor *scale, *zero, *a = situ__onnx_quantize(situ__arg_tensor(c, 0), &scale, &zero);
  situ__quantized q = { .a = situ_to_dtype(a, SITU_U8),
                        .b = situ__arg_tensor(c, 1),
                        .zero_a = situ_to_dtype(zero, SITU_U8),
                        .zero_b = situ__arg_tensor(c, 3) };
  q.scale = scale_of(scale, number(situ__arg_tensor(c, 2)), NULL);
  return to_floats(c, &q, situ__arg_tensor(c, 4));
}

/* ---- convolutions: from argument k on those of Conv from auto_pad on ---- */

static situ_tensor *convolve(situ__op_call *c, situ__quantized *q, int k) {
  situ__onnx_windows w;
  if (!situ__onnx_read_windows(c, k, q->a, situ__onnx_spatial_of(q->b), &w)) return NULL;
  const situ_conv_options o = { .stride = w.stride, .dilation = w.dilation, .groups = situ__arg_int(c, k + 5) };
  return lay_out(c, q->b, &o, &q->packed) ? situ__quantized_conv(q, &o, w.before, w.after) : NULL;
}
static situ_tensor *run_conv_integer(situ__op_call *c) {
  situ__quantized q = { .a = situ__arg_tensor(c, 0),
                        .b = situ__arg_tensor(c, 1),
                        .zero_a = situ__arg_tensor(c, 2),
                        .zero_b = situ__arg_tensor(c, 3) };
  return convolve(c, &q, 4);
}
static situ_tensor *run_qlinear_conv(situ__op_call *c) {
  situ__quantized q = operands(c);
  q.bias = situ__arg_tensor(c, 8);
  q.scale = scale_of(number(situ__arg_tensor(c, 1)), number(situ__arg_tensor(c, 4)), situ__arg_tensor(c, 6));
  q.zero = situ__arg_tensor(c, 7);
  return is_byte(c, q.zero) ? convolve(c, &q, 9) : NULL;
}

/* ---- element by element ---- */

/* x y + z with one rounding to f32: f64 holds the product, as one of the factors has 8 bits. */
static situ_tensor *multiply_add(situ_tensor *x, situ_tensor *y, situ_tensor *z) {
  situ_tensor *product = situ_mul(situ_to_dtype(x, SITU_F64), situ_to_dtype(y, SITU_F64));
  return situ_to_dtype(situ_add(product, situ_to_dtype(z, SITU_F64)), SITU_F32);
}
/* Whether x has one element for a row of several of y. */
static bool repeats(const situ_tensor *x, const situ_tensor *y) {
  const situ_shape a = situ_shape_of(x), b = situ_shape_of(y);
  for (int d = 1; d <= b.ndim; d++)
    if (b.dim[b.ndim - d] != 1 || (d <= a.ndim && a.dim[a.ndim - d] != 1)) return d > a.ndim || a.dim[a.ndim - d] == 1;
  return false;
}
/* A zero point in f32; absent: 0. */
static situ_tensor *zero_at(situ__op_call *c, int k) {
  const situ_options o = situ__call_options(c, SITU_F32);
  return situ__arg_tensor(c, k) ? number(situ__arg_tensor(c, k)) : situ_zeros(SITU_SCALAR, &o);
}
/* In the order of ONNX Runtime's kernel: first what is added to each element of a row. */
static situ_tensor *run_qlinear_add(situ__op_call *c) {
  const situ_dtype dtype = situ_dtype_of(situ__arg_tensor(c, 0));
  if (!is_byte(c, situ__arg_tensor(c, 0))) return NULL;
  const int at = repeats(situ__arg_tensor(c, 0), situ__arg_tensor(c, 3)) ? 3 : 0, other = 3 - at;
  situ_tensor *y = number(situ__arg_tensor(c, 6));
  situ_tensor *a = situ_div(number(situ__arg_tensor(c, at + 1)), y);
  situ_tensor *b = situ_div(number(situ__arg_tensor(c, other + 1)), y);
  situ_tensor *fixed = situ_sub(zero_at(c, 7), multiply_add(a, zero_at(c, at + 2), situ_mul(b, zero_at(c, other + 2))));
  fixed = multiply_add(situ__arg_tensor(c, other), b, fixed);
  return situ__quantized_saturate(multiply_add(situ__arg_tensor(c, at), a, fixed), NULL, dtype);
}
/* The products of two bytes are exact in f32. The zero point is added before what is rounded. */
static situ_tensor *run_qlinear_mul(situ__op_call *c) {
  const situ_dtype dtype = situ_dtype_of(situ__arg_tensor(c, 0));
  if (!is_byte(c, situ__arg_tensor(c, 0))) return NULL;
  situ_tensor *a = situ_sub(situ_to_dtype(situ__arg_tensor(c, 0), SITU_F32), zero_at(c, 2));
  situ_tensor *b = situ_sub(situ_to_dtype(situ__arg_tensor(c, 3), SITU_F32), zero_at(c, 5));
  situ_tensor *scale = scale_of(number(situ__arg_tensor(c, 1)), number(situ__arg_tensor(c, 4)), situ__arg_tensor(c, 6));
  return situ__quantized_saturate(situ_add(situ_mul(situ_mul(a, b), scale), zero_at(c, 7)), NULL, dtype);
}

/* Arguments: X, its scale and zero point, those of Y. */
static situ_tensor *values_of(situ__op_call *c, situ_tensor *x, int scale, int zero) {
  return situ_mul(situ_sub(situ_to_dtype(x, SITU_F32), zero_at(c, zero)), number(situ__arg_tensor(c, scale)));
}
static situ_tensor *quantize_like(situ__op_call *c, situ_tensor *y) {
  const situ_dtype dtype = situ_dtype_of(situ__arg_tensor(c, 0));
  if (!is_byte(c, situ__arg_tensor(c, 0))) return NULL;
  return situ__quantized_saturate(situ_div(y, number(situ__arg_tensor(c, 3))), zero_at(c, 4), dtype);
}
static situ_tensor *run_qlinear_sigmoid(situ__op_call *c) {
  return quantize_like(c, situ_sigmoid(values_of(c, situ__arg_tensor(c, 0), 1, 2)));
}
static situ_tensor *run_qlinear_leaky_relu(situ__op_call *c) {
  return quantize_like(c, situ_leaky_relu(values_of(c, situ__arg_tensor(c, 0), 1, 2), situ__arg_number(c, 5)));
}

/* Sums of whole numbers, times one scale. */
static const char *average_lacks(const situ__op_call *c) {
  return situ__arg_flag(c, 5) ? "has its channels last" : NULL;
}
static situ_tensor *run_qlinear_global_average(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *zero = situ__arg_tensor(c, 2);
  situ_reduce_options plane = { .keepdim = true };
  int64_t count = 1;
  for (int d = 2; d < situ_dim(x); d++) plane.dim.dim[plane.dim.ndim++] = d, count *= situ_size(x, d);
  if (!plane.dim.ndim || !is_byte(c, x)) return situ__call_refuse(c, "needs planes of u8 or i8");
  situ_tensor *sum = situ_sum(situ_to_dtype(x, SITU_I64), &plane);
  if (zero) sum = situ_sub(sum, situ_mul_scalar(situ__quantized_spread(zero, SITU_I64, 0), (double)count));
  situ_tensor *scale =
      situ_div(number(situ__arg_tensor(c, 1)), situ_mul_scalar(number(situ__arg_tensor(c, 3)), (double)count));
  return situ__quantized_saturate(situ_mul(situ_to_dtype(sum, SITU_F32), scale), zero_at(c, 4), situ_dtype_of(x));
}

/* Arguments: the scale and zero point of Y, then each part with its own. */
static situ_tensor *run_qlinear_concat(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 2, &count), *zero = situ__arg_tensor(c, 1);
  if (!list) return NULL;
  if (count < 3 || count % 3) return situ__call_refuse(c, "needs a scale and a zero point for each input");
  if (!is_byte(c, zero)) return NULL;
  for (int i = 0; i < count; i += 3) {
    situ_tensor *x = situ_sub(situ_to_dtype(list[i], SITU_F32), number(list[i + 2]));
    x = situ_div(situ_mul(x, number(list[i + 1])), number(situ__arg_tensor(c, 0)));
    list[i / 3] = situ__quantized_saturate(x, number(zero), situ_dtype_of(zero));
  }
  return situ_cat(list, count / 3, situ__arg_dim(c, 3));
}

/* ---- floating layers between DequantizeLinear and QuantizeLinear ---- */

enum { CHANNELS = 1 << 16, NO_AXIS = SITU_MAX_DIMS };

static bool is_op(const situ__program_node *n, const char *op) { return strcmp(n->row->target, op) == 0; }

/* Sets of[3] to the bytes, scale and zero point of an argument that DequantizeLinear gives, for all elements or along
   an axis, unless that is NO_AXIS. Others may use it too. */
static bool of_bytes(situ__match *m, const situ__arg *a, int64_t axis, situ__arg of[3]) {
  const int32_t maker = a->kind == SITU__ARG_VALUE ? m->maker[a->integer] : -1;
  const situ__program_node *n = maker >= 0 ? &m->program->node[maker] : NULL;
  if (!n || !is_op(n, "DequantizeLinear") || n->arg[4].integer || n->arg[5].kind != SITU__ARG_NONE) return false;
  const situ_tensor *scale = situ__match_constant(m, &n->arg[1], CHANNELS),
                    *zero = situ__match_constant(m, &n->arg[2], CHANNELS);
  if (!scale || !zero || (situ_dtype_of(zero) != SITU_U8 && situ_dtype_of(zero) != SITU_I8)) return false;
  situ_shape shape = { .ndim = 0 }; /* columns are the axis 1 of a matrix alone */
  if (situ_dtype_of(scale) != SITU_F32 || (situ_numel(scale) != 1 && (axis == NO_AXIS || n->arg[3].integer != axis)))
    return false;
  if (situ_numel(scale) != 1 && axis == 1 && (!situ__match_shape(m, &n->arg[0], &shape) || shape.ndim != 2))
    return false;
  memcpy(of, n->arg, 3 * sizeof *of);
  return true;
}

/* Whether a bias is whole numbers at the scale of the products, which then are added to them. */
static bool of_sums(situ__match *m, const situ__arg *a, const situ__arg *scale_a, const situ__arg *scale_b,
                    situ__arg *out) {
  const int32_t maker = a->kind == SITU__ARG_VALUE ? m->maker[a->integer] : -1;
  const situ__program_node *n = maker >= 0 ? &m->program->node[maker] : NULL;
  *out = (situ__arg){ 0 };
  if (a->kind == SITU__ARG_NONE) return true;
  if (!n || !is_op(n, "DequantizeLinear")) return false;
  situ_tensor *x = situ__match_constant(m, &n->arg[0], CHANNELS),
              *scale = situ__match_constant(m, &n->arg[1], CHANNELS);
  situ_tensor *zero = situ__match_constant(m, &n->arg[2], CHANNELS);
  double off = 0, largest = 0;
  if (!x || !scale || situ_dtype_of(x) != SITU_I32 || (!zero && n->arg[2].kind != SITU__ARG_NONE)) return false;
  situ_tensor *product =
      situ_mul(number(situ__match_constant(m, scale_a, 1)), number(situ__match_constant(m, scale_b, CHANNELS)));
  if (!product || (situ_numel(scale) != 1 && situ_numel(product) != 1 && situ_numel(scale) != situ_numel(product)))
    return false;
  const situ_reduce_options all = { .keepdim = false };
  situ_tensor *apart = situ_amax(situ_abs(situ_sub(number(scale), product)), &all),
              *most = situ_amax(situ_abs(product), &all);
  if (situ_item(apart, &off) != SITU_OK || situ_item(most, &largest) != SITU_OK || !(off <= 1e-4 * largest))
    return false;
  if (zero && (situ_item(situ_amax(situ_abs(situ_to_dtype(zero, SITU_F32)), &all), &off) != SITU_OK || off != 0))
    return false;
  *out = n->arg[0];
  return true;
}

static bool has_value(const situ__arg *a, int64_t value) {
  return a->kind == SITU__ARG_NONE || (a->kind == SITU__ARG_INT && a->integer == value) ||
         (a->kind == SITU__ARG_FLOAT && a->real == (double)value);
}

/* Arguments of a layer with operands a and b; at 6 is what follows. */
static bool match_pair(situ__match *m, const situ__program_node *n, int64_t axis_b) {
  return of_bytes(m, &n->arg[0], NO_AXIS, m->arg) && of_bytes(m, &n->arg[1], axis_b, m->arg + 3);
}

static bool match_layer(situ__match *m, const situ__program_node *n, const situ__arg y[2]) {
  const situ__arg none = { 0 };
  if (is_op(n, "Conv")) {
    if (!match_pair(m, n, 0) || !of_sums(m, &n->arg[2], &m->arg[1], &m->arg[4], &m->arg[8])) return false;
    memcpy(m->arg + 9, n->arg + 3, 6 * sizeof *n->arg);
    memcpy(m->arg + 6, y, 2 * sizeof *y);
    m->row = situ__onnx_row_of("QLinearConv", INT32_MAX);
    return true;
  }
  if (is_op(n, "Gemm")) {
    const bool across = !has_value(&n->arg[6], 0);
    if (!has_value(&n->arg[3], 1) || !has_value(&n->arg[4], 1) || !has_value(&n->arg[5], 0)) return false;
    if (!match_pair(m, n, across ? 0 : 1) || !of_sums(m, &n->arg[2], &m->arg[1], &m->arg[4], &m->arg[6])) return false;
    m->arg[7] = y ? y[0] : none, m->arg[8] = y ? y[1] : none;
    memcpy(m->arg + 9, (situ__arg[]){ { .kind = SITU__ARG_FLOAT, .real = 1 }, n->arg[5], n->arg[6] },
           3 * sizeof *m->arg);
    m->row = situ__onnx_row_of("com.microsoft.QGemm", INT32_MAX);
    return true;
  }
  if (!is_op(n, "MatMul") || !match_pair(m, n, 1)) return false;
  m->row = situ__onnx_row_of(y ? "QLinearMatMul" : "com.microsoft.MatMulIntegerToFloat", INT32_MAX);
  if (y) memcpy(m->arg + 6, y, 2 * sizeof *y);
  else
    memcpy(m->arg, (situ__arg[]){ m->arg[0], m->arg[3], m->arg[1], m->arg[4], m->arg[2], m->arg[5], none },
           7 * sizeof none);
  return true;
}

/* Functions element by element, means and joined tensors. */
static bool match_element(situ__match *m, const situ__program_node *n, const situ__arg y[2]) {
  static const char *const names[][2] = { { "Add", "com.microsoft.QLinearAdd" },
                                          { "Mul", "com.microsoft.QLinearMul" },
                                          { "Sigmoid", "com.microsoft.QLinearSigmoid" },
                                          { "LeakyRelu", "com.microsoft.QLinearLeakyRelu" },
                                          { "GlobalAveragePool", "com.microsoft.QLinearGlobalAveragePool" } };
  for (int i = 0; i < 5; i++) {
    if (!is_op(n, names[i][0])) continue;
    const int at = i < 2 ? 6 : 3;
    m->row = situ__onnx_row_of(names[i][1], INT32_MAX);
    if (i < 2 ? !match_pair(m, n, NO_AXIS) : !of_bytes(m, &n->arg[0], NO_AXIS, m->arg)) return false;
    memcpy(m->arg + at, y, 2 * sizeof *y);
    if (i > 2) m->arg[5] = i == 3 ? n->arg[1] : (situ__arg){ .kind = SITU__ARG_INT };
    return true;
  }
  if (!is_op(n, "Concat") || n->arg[0].kind != SITU__ARG_LIST || n->arg[0].count > INT32_MAX / 3) return false;
  const int32_t count = n->arg[0].count;
  situ__arg *list = situ__arena_take(&m->f->program->arena, 3 * (size_t)count, sizeof *list);
  for (int32_t i = 0; list && i < count; i++)
    if (!of_bytes(m, &n->arg[0].list[i], NO_AXIS, list + 3 * i)) return false;
  if (!list) return false;
  m->row = situ__onnx_row_of("com.microsoft.QLinearConcat", INT32_MAX);
  memcpy(m->arg, y, 2 * sizeof *y);
  m->arg[2] = n->arg[0];
  m->arg[2].list = list, m->arg[2].count = 3 * count;
  m->arg[3] = n->arg[1];
  return true;
}

bool situ__match_quantized(situ__match *m, const situ__program_node *end) {
  m->nodes = 0;
  if (is_op(end, "MatMul") || is_op(end, "Gemm")) return match_layer(m, end, NULL);
  if (!is_op(end, "QuantizeLinear") || end->arg[4].integer || end->format) return false;
  situ_tensor *scale = situ__match_constant(m, &end->arg[1], 1), *zero = situ__match_constant(m, &end->arg[2], 1);
  if (!scale || !zero || situ_dtype_of(scale) != SITU_F32) return false;
  if (situ_dtype_of(zero) != SITU_U8 && situ_dtype_of(zero) != SITU_I8) return false;
  double least = 0;
  const bool rectifies = situ_item(zero, &least) == SITU_OK && least == (situ_dtype_of(zero) == SITU_I8 ? -128 : 0);
  static const char *const names[] = { "Conv",  "Gemm",    "MatMul",    "Add",
                                       "Mul",   "Sigmoid", "LeakyRelu", "GlobalAveragePool",
                                       "Concat" };
  const situ__program_node *relu = rectifies ? situ__match_node(m, &end->arg[0], "Relu", 1) : NULL, *n = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !n; i++)
    n = situ__match_node(m, relu ? &relu->arg[0] : &end->arg[0], names[i], 1);
  return n && (match_layer(m, n, end->arg + 1) || match_element(m, n, end->arg + 1));
}

#define QUANTIZE "t x, t scale, t? zero_point, i axis=1, i block_size=0, d? output_dtype, i? saturate, i? precision"
#define OF(x) "t " x ", t " x "_scale, t " x "_zero_point"
#define OF_BOTH(a, b, y)                                                                                           \
  "t " a ", t " a "_scale, t? " a "_zero_point, t " b ", t " b "_scale, t? " b "_zero_point, t " y "_scale, t? " y \
  "_zero_point"
#define OF_ONE "t X, t X_scale, t? X_zero_point, t Y_scale, t? Y_zero_point"

static const situ__op_row rows[] = {
  { "DynamicQuantizeLinear", "t x", .inputs = 1, .results = 3, .run = run_dynamic_quantize },
  { "QuantizeLinear", QUANTIZE, .inputs = 3, .run = run_quantize },
  { "DequantizeLinear", QUANTIZE, .inputs = 3, .run = run_dequantize },
  { "com.microsoft.QuantizeLinear", QUANTIZE, .inputs = 3, .run = run_quantize },
  { "com.microsoft.DequantizeLinear", QUANTIZE, .inputs = 3, .run = run_dequantize },
  { "MatMulInteger", "t A, t B, t? a_zero_point, t? b_zero_point", .inputs = 4, .prepacked = 1,
    .run = run_matmul_integer },
  { "QLinearMatMul", OF("a") ", " OF("b") ", t y_scale, t y_zero_point", .inputs = 8, .prepacked = 7,
    .run = run_qlinear_matmul },
  { "com.microsoft.QGemm",
    OF("A") ", " OF("B") ", t? C, t? y_scale, t? y_zero_point, n alpha=1, i transA=0, i transB=0", .inputs = 9,
    .prepacked = 8, .run = run_qgemm },
  { "com.microsoft.MatMulIntegerToFloat", "t A, t B, t a_scale, t b_scale, t? a_zero_point, t? b_zero_point, t? bias",
    .inputs = 7, .prepacked = 1, .run = run_matmul_to_float },
  { "com.microsoft.DynamicQuantizeMatMul", "t A, t B, t b_scale, t? b_zero_point, t? bias", .inputs = 5, .prepacked = 1,
    .run = run_dynamic_matmul },
  { "ConvInteger", "t x, t w, t? x_zero_point, t? w_zero_point, " SITU__ONNX_WINDOWS ", i group=1", .inputs = 4,
    .prepacked = 1, .run = run_conv_integer },
  { "QLinearConv", OF("x") ", " OF("w") ", t y_scale, t y_zero_point, t? B, " SITU__ONNX_WINDOWS ", i group=1",
    .inputs = 9, .prepacked = 7, .run = run_qlinear_conv },
  { "com.microsoft.QLinearAdd", OF_BOTH("A", "B", "C"), .inputs = 8, .run = run_qlinear_add },
  { "com.microsoft.QLinearMul", OF_BOTH("A", "B", "C"), .inputs = 8, .run = run_qlinear_mul },
  { "com.microsoft.QLinearSigmoid", OF_ONE, .inputs = 5, .run = run_qlinear_sigmoid },
  { "com.microsoft.QLinearLeakyRelu", OF_ONE ", n alpha=0.01", .inputs = 5, .run = run_qlinear_leaky_relu },
  { "com.microsoft.QLinearGlobalAveragePool", OF_ONE ", i channels_last=0", .inputs = 5, .lacks = average_lacks,
    .run = run_qlinear_global_average },
  { "com.microsoft.QLinearConcat", "t Y_scale, t Y_zero_point, T inputs, i axis", .inputs = 3,
    .run = run_qlinear_concat },
};
const situ__op_family situ__onnx_quantized_family = { rows, sizeof rows / sizeof *rows };
