/* Products of quantised values.
   SPDX-License-Identifier: MIT */
#include "quantized.h"

#include "situ/situ.h"
#include "situ/sys/op.h"

enum { A, B, ZERO_A, ZERO_B, BIAS, SCALE, ZERO, PACKED, OPERANDS };
typedef struct window_params {
  situ_window window;
  int64_t after[2];
} window_params;

/* ---- the op ---- */

static situ_dtype result_dtype(const situ_call *c) {
  return c->in[ZERO] ? situ_dtype_of(c->in[ZERO]) : c->in[SCALE] ? SITU_F32 : SITU_I32;
}

static bool product_infer(situ_call *c) {
  const situ_shape a = situ_shape_of(c->in[A]), b = situ_shape_of(c->in[B]);
  c->shape[0] = SITU_SHAPE(a.dim[0], a.dim[1], b.dim[2]);
  c->dtype[0] = result_dtype(c);
  return a.dim[2] == b.dim[1] ||
         situ_refuse(c, SITU_E_SHAPE, "sizes %lld and %lld differ", (long long)a.dim[2], (long long)b.dim[1]);
}

static bool conv_infer(situ_call *c) {
  const window_params *p = c->params;
  const situ_shape x = situ_shape_of(c->in[A]), w = situ_shape_of(c->in[B]);
  const int64_t groups = p->window.groups;
  if (groups < 1 || w.dim[0] % groups || w.dim[1] * groups != x.dim[1])
    return situ_refuse(c, SITU_E_SHAPE, "input has %lld channels, the weight %lld in %lld groups", (long long)x.dim[1],
                       (long long)w.dim[1], (long long)groups);
  c->shape[0] = SITU_SHAPE(x.dim[0], w.dim[0], 0, 0);
  for (int d = 0; d < 2; d++) {
    const int64_t reach = p->window.dilation[d] * (p->window.kernel[d] - 1) + 1;
    const int64_t size = x.dim[2 + d] + p->window.padding[d] + p->after[d];
    if (size < reach)
      return situ_refuse(c, SITU_E_SHAPE, "the kernel covers %lld elements, the padded input has %lld",
                         (long long)reach, (long long)size);
    c->shape[0].dim[2 + d] = (size - reach) / p->window.stride[d] + 1;
  }
  c->dtype[0] = result_dtype(c);
  return true;
}

static bool forward(situ_call *c) {
  const window_params *p = c->params;
  situ_work work = { SITU_VERB_INTEGER,
                     .op = p ? SITU_INTEGER_CONV : SITU_INTEGER_MATMUL,
                     .compute = SITU_I32,
                     .ins = OPERANDS,
                     .outs = 1,
                     .out = { situ_desc(c->out[0]) },
                     .window = p ? &p->window : NULL };
  for (int i = 0; i < OPERANDS; i++) work.in[i] = c->in[i] ? situ_desc(c->in[i]) : NULL;
  return situ_launch(c->op->name, c->device, &work);
}

enum { NUMBERS = SITU_INTEGRAL | SITU_OPTIONAL };
#define OPERANDS_OF                                                                                                  \
  {                                                                                                                  \
    { "input", SITU_INTEGRAL }, { "other", SITU_INTEGRAL }, { "input_zero", NUMBERS }, { "other_zero", NUMBERS },    \
        { "bias", NUMBERS }, { "scale", SITU_FLOATING | SITU_OPTIONAL }, { "zero", NUMBERS }, { "packed", NUMBERS }, \
  }
static const situ_op product_op = { .name = "quantized_matmul",
                                    .operand = OPERANDS_OF,
                                    .flags = SITU_OP_NO_GRAD,
                                    .infer = product_infer,
                                    .forward = forward };
static const situ_op conv_op = { .name = "quantized_conv",
                                 .operand = OPERANDS_OF,
                                 .flags = SITU_OP_NO_GRAD,
                                 .params_size = sizeof(window_params),
                                 .infer = conv_infer,
                                 .forward = forward };

/* ---- what the kernel takes ---- */

static bool is_traced(void) {
  situ_export_trace *trace = situ_export_pause();
  if (trace) situ_export_resume(trace, NULL);
  return trace != NULL;
}

static bool is_bytes(const situ_tensor *t) { return situ_dtype_of(t) == SITU_U8 || situ_dtype_of(t) == SITU_I8; }
static bool is_one_or(const situ_tensor *t, int64_t count) {
  return !t || situ_numel(t) == 1 || (situ_dim(t) == 1 && situ_numel(t) == count);
}

static bool has_kernel(const situ__quantized *q, int64_t columns) {
  return situ_device_has(situ_device_of(q->a), SITU_VERB_INTEGER) && situ_numel(q->b) > 0 && is_bytes(q->a) &&
         is_bytes(q->b) &&
         (!q->zero_a || (situ_numel(q->zero_a) == 1 && situ_dtype_of(q->zero_a) == situ_dtype_of(q->a))) &&
         (!q->zero_b || situ_dtype_of(q->zero_b) == situ_dtype_of(q->b)) && is_one_or(q->zero_b, columns) &&
         (!q->bias ||
          (situ_dtype_of(q->bias) == SITU_I32 && situ_dim(q->bias) == 1 && situ_numel(q->bias) == columns)) &&
         (!q->scale || situ_dtype_of(q->scale) == SITU_F32) && is_one_or(q->scale, columns) &&
         (!q->zero || (situ_numel(q->zero) == 1 && is_bytes(q->zero))) && (q->scale || !q->zero) && !is_traced();
}

static situ_tensor *run(const situ_op *op, const situ__quantized *q, situ_tensor *a, situ_tensor *b,
                        const window_params *p) {
  situ_tensor *in[OPERANDS] = {
    situ_contiguous(a), p ? situ_contiguous(b) : b, q->zero_a, q->zero_b, q->bias, q->scale, q->zero, q->packed
  };
  for (int i = ZERO_A; i <= SCALE; i++)
    if (in[i]) in[i] = situ_contiguous(in[i]);
  return situ_op_run(op, in, OPERANDS, p, NULL);
}

/* ---- composed of floats ---- */

situ_tensor *situ__quantized_spread(situ_tensor *t, situ_dtype dtype, int after) {
  if (!t) return NULL;
  situ_shape size = situ_shape_of(t);
  if (situ_numel(t) == 1) size.ndim = 0;
  for (int d = 0; d < after && size.ndim > 0 && size.ndim < SITU_MAX_DIMS; d++) size.dim[size.ndim++] = 1;
  return situ_reshape(situ_to_dtype(t, dtype), size);
}

situ_tensor *situ__quantized_saturate(situ_tensor *x, situ_tensor *zero, situ_dtype dtype) {
  situ_tensor *y = situ_round(x);
  if (zero) y = situ_add(y, situ_to_dtype(zero, SITU_F32));
  const double low = dtype == SITU_U8 ? 0 : dtype == SITU_I8 ? -128 : -32768;
  return situ_to_dtype(situ_clamp(y, low, dtype == SITU_U8 ? 255 : -low - 1), dtype);
}

static situ_tensor *without_zero(situ_tensor *t, situ_tensor *zero, situ_dtype dtype, int after) {
  situ_tensor *x = situ_to_dtype(t, dtype);
  return zero ? situ_sub(x, situ__quantized_spread(zero, dtype, after)) : x;
}

/* sums of floats; columns are the dimension before the last `after`. */
static situ_tensor *finish(const situ__quantized *q, situ_tensor *sums, int after) {
  if (q->bias) sums = situ_add(sums, situ__quantized_spread(q->bias, situ_dtype_of(sums), after));
  if (!q->scale) return situ_to_dtype(sums, SITU_I32);
  situ_tensor *y = situ_mul(situ_to_dtype(sums, SITU_F32), situ__quantized_spread(q->scale, SITU_F32, after));
  return q->zero ? situ__quantized_saturate(y, situ__quantized_spread(q->zero, SITU_F32, 0), situ_dtype_of(q->zero))
                 : y;
}

/* ---- products ---- */

/* The same leading sizes, or a matrix b. */
static bool is_batch(const situ_shape *a, const situ_shape *b) {
  if (a->ndim < 2 || b->ndim < 2 || a->dim[a->ndim - 1] != b->dim[b->ndim - 2]) return false;
  bool same = b->ndim == 2 || a->ndim == b->ndim;
  for (int d = 0; d < b->ndim - 2 && same; d++) same = a->dim[d] == b->dim[d];
  return same;
}

situ_tensor *situ__quantized_matmul(const situ__quantized *q) {
  const situ_shape a = situ_shape_of(q->a), b = situ_shape_of(q->b);
  if (!is_batch(&a, &b) || !has_kernel(q, b.dim[b.ndim - 1]))
    return finish(
        q, situ_matmul(without_zero(q->a, q->zero_a, SITU_F64, 1), without_zero(q->b, q->zero_b, SITU_F64, 0)), 0);
  const int64_t k = b.dim[b.ndim - 2], n = b.dim[b.ndim - 1], m = a.dim[a.ndim - 2];
  const bool matrix = b.ndim == 2;
  int64_t items = 1;
  for (int d = 0; d < a.ndim - 2; d++) items *= a.dim[d];
  situ_shape y = a;
  y.dim[y.ndim - 1] = n;
  return situ_reshape(run(&product_op, q,
                          situ_reshape(q->a, matrix ? SITU_SHAPE(1, items * m, k) : SITU_SHAPE(items, m, k)),
                          matrix ? situ_unsqueeze(q->b, 0) : situ_reshape(q->b, SITU_SHAPE(items, k, n)), NULL),
                      y);
}

/* ---- convolutions ---- */

static int64_t entry(const situ_shape *list, int d, int64_t otherwise) {
  return d < list->ndim ? list->dim[d] : otherwise;
}

static window_params window_of(situ_tensor *weight, const situ_conv_options *o, const int64_t *before,
                               const int64_t *after) {
  const int dims = situ_dim(weight) - 2, skip = 2 - dims;
  window_params p = { .window = { .kernel = { 1, 1 }, .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = o->groups } };
  for (int d = 0; d < dims; d++) {
    p.window.kernel[d + skip] = situ_size(weight, d + 2);
    p.window.stride[d + skip] = entry(&o->stride, d, 1);
    p.window.dilation[d + skip] = entry(&o->dilation, d, 1);
    p.window.padding[d + skip] = before ? before[d] : 0;
    p.after[d + skip] = after ? after[d] : 0;
  }
  return p;
}

/* Whether sizes stay far below 2^63. */
static bool is_small(const window_params *p, const situ_shape *x) {
  const int64_t most = INT64_C(1) << 28;
  for (int d = 0; d < 2; d++)
    if (p->window.stride[d] > most || p->window.dilation[d] > most || p->window.kernel[d] > most ||
        p->window.padding[d] > most || p->after[d] > most || p->window.padding[d] < 0 || p->after[d] < 0)
      return false;
  for (int d = 0; d < x->ndim; d++)
    if (x->dim[d] > most) return false;
  return true;
}

/* In f64, whose sums are exact. A trace with a scale is in f32, as DequantizeLinear and Conv compute: onnxruntime has
   no convolution of f64. */
static situ_tensor *compose_conv(const situ__quantized *q, const situ_conv_options *o, const int64_t *before,
                                 const int64_t *after) {
  static situ_tensor *(*const plain[])(situ_tensor *, situ_tensor *, situ_tensor *,
                                       const situ_conv_options *) = { situ_conv1d, situ_conv2d, situ_conv3d };
  const int dims = situ_dim(q->b) - 2;
  situ_shape pad = { .ndim = 0 };
  for (int d = dims - 1; d >= 0; d--) {
    pad.dim[pad.ndim++] = before[d];
    pad.dim[pad.ndim++] = after[d];
  }
  const situ_dtype dtype = q->scale && is_traced() ? SITU_F32 : SITU_F64;
  situ_tensor *x = situ_pad(without_zero(q->a, q->zero_a, dtype, 0), pad, SITU_PAD_CONSTANT, 0);
  return finish(q, plain[dims - 1](x, without_zero(q->b, q->zero_b, dtype, dims + 1), NULL, o), dims);
}

situ_tensor *situ__quantized_conv(const situ__quantized *q, const situ_conv_options *o, const int64_t *before,
                                  const int64_t *after) {
  const int dims = situ_dim(q->b) - 2;
  const situ_shape x = situ_shape_of(q->a);
  if (dims > 2) return compose_conv(q, o, before, after);
  const window_params p = window_of(q->b, o, before, after);
  if (!has_kernel(q, situ_size(q->b, 0)) || !is_small(&p, &x)) return compose_conv(q, o, before, after);
  if (dims == 2) return run(&conv_op, q, q->a, q->b, &p);
  situ_tensor *y = run(&conv_op, q, situ_unsqueeze(q->a, 2), situ_unsqueeze(q->b, 2), &p);
  return situ_squeeze(y, SITU_SHAPE(2));
}

/* ---- what is laid out once ---- */

bool situ__quantized_lay_out(situ_tensor *b, const situ_conv_options *o, situ_tensor **packed) {
  const situ_device device = situ_device_of(b);
  const int dims = situ_dim(b) - 2;
  *packed = NULL;
  if (!is_bytes(b) || !situ_device_has(device, SITU_VERB_INTEGER) || situ_numel(b) == 0) return true;
  if (o ? dims < 1 || dims > 2 : dims != 0) return true;
  window_params p = { .window.groups = 1 };
  if (o) p = window_of(b, o, NULL, NULL), b = situ_contiguous(dims == 1 ? situ_unsqueeze(b, 2) : b);
  const int64_t k = o ? situ_numel(b) / situ_size(b, 0) : situ_size(b, 0), n = o ? situ_size(b, 0) : situ_size(b, 1);
  const int64_t bytes = p.window.groups < 1 ? 0 : p.window.groups * situ_integer_prepack_bytes(k, n / p.window.groups);
  if (!b || bytes <= 0) return b != NULL;
  *packed = situ_empty(SITU_SHAPE(bytes), &(situ_options){ .dtype = SITU_U8, .device = device });
  return *packed && situ_launch("quantized_lay_out", device,
                                &(situ_work){ SITU_VERB_PREPACK, .compute = situ_dtype_of(b), .ins = 1, .outs = 1,
                                              .in = { situ_desc(b) }, .out = { situ_desc(*packed) },
                                              .window = o ? &p.window : NULL });
}
