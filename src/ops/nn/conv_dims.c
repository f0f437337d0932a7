/* Convolution in three dimensions, made of that in two: the kernel's depth becomes channels. And padding "same".
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

/* ---- padding "same" ---- */

/* What does not divide by two is padded at the end, ahead of the convolution. */
bool situ__conv_same(const char *op, int spatial, situ_tensor **x, const situ_tensor *weight, situ_conv_options *o) {
  if (!o->same || !*x || !weight || (*x)->view.ndim < spatial || weight->view.ndim != spatial + 2) return true;
  if (o->padding.ndim) return situ__fail(SITU_E_ARG, op, "padding is given together with same"), false;
  situ_shape extra = { .ndim = 2 * spatial };
  bool uneven = false;
  for (int d = 0; d < spatial; d++) {
    const int64_t stride = o->stride.ndim ? o->stride.dim[o->stride.ndim == 1 ? 0 : d] : 1,
                  dilation = o->dilation.ndim ? o->dilation.dim[o->dilation.ndim == 1 ? 0 : d] : 1;
    int64_t all;
    if (stride != 1)
      return situ__fail(SITU_E_ARG, op, "same is given: stride must be 1, is %lld", (long long)stride), false;
    if (dilation < 1 || !situ__mul_i64(dilation, weight->view.size[2 + d] - 1, &all) || all < 0)
      return situ__fail(SITU_E_ARG, op, "dilation is %lld", (long long)dilation), false;
    o->padding.dim[d] = all / 2;
    extra.dim[2 * (spatial - 1 - d) + 1] = all % 2;
    uneven = uneven || all % 2;
  }
  o->padding.ndim = spatial;
  o->same = false;
  return !uneven || (*x = situ_pad(*x, extra, SITU_PAD_CONSTANT, 0)) != NULL;
}

/* ---- three dimensions ---- */

typedef struct depth {
  int64_t kernel, stride, padding, dilation, output_padding;
} depth;

static bool entry(const char *op, const char *name, situ_shape *list, int64_t missing, int64_t *first) {
  if (list->ndim != 0 && list->ndim != 1 && list->ndim != 3)
    return situ__fail(SITU_E_ARG, op, "%s has %d values, must have 1 or 3", name, list->ndim), false;
  *first = list->ndim ? list->dim[0] : missing;
  if (*first < missing || *first > INT32_MAX)
    return situ__fail(SITU_E_ARG, op, "%s is %lld, must be %lld to 2^31 - 1", name, (long long)*first,
                      (long long)missing),
           false;
  if (list->ndim == 3) *list = SITU_SHAPE(list->dim[1], list->dim[2]);
  return true;
}

/* Takes the depth out of the options; what is left is for two dimensions. Each of the kernel's planes is a step. */
static bool take_depth(const char *op, const situ_tensor *weight, situ_conv_options *o, depth *d) {
  enum { MOST = 65536 };
  d->kernel = weight->view.size[2];
  if (d->kernel > MOST)
    return situ__fail(SITU_E_LIMIT, op, "the kernel's depth is %lld, must be at most %d", (long long)d->kernel, MOST),
           false;
  return entry(op, "stride", &o->stride, 1, &d->stride) && entry(op, "padding", &o->padding, 0, &d->padding) &&
         entry(op, "dilation", &o->dilation, 1, &d->dilation) &&
         entry(op, "output_padding", &o->output_padding, 0, &d->output_padding);
}

enum { INPUT, WEIGHT, BIAS };

/* Autocast may replace the operands. */
static bool check(const char *op, bool transposed, situ_tensor *in[3]) {
  enum { NUMBERS = SITU_FLOATING | SITU_INTEGRAL | SITU_SAME };
  const situ_op schema = {
    .name = op,
    .operand = { { "input", NUMBERS }, { "weight", NUMBERS }, { "bias", NUMBERS | SITU_OPTIONAL } },
    .autocast = { SITU_CAST_LOW, SITU_CAST_LOW }
  };
  if (!situ__autocast(&schema, in, 3) || !situ__together(&schema, in, 3)) return false;
  const situ_shape a = situ__shape(&in[INPUT]->view), b = situ__shape(&in[WEIGHT]->view);
  bool good = (a.ndim == 4 || a.ndim == 5) && b.ndim == 5 && in[WEIGHT]->view.numel > 0;
  for (int d = 1; good && d <= 3; d++) good = a.dim[a.ndim - d] > 0;
  if (good) return true;
  char text[2][SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op,
                    "input is %s, weight is %s, must be [N, C, D, H, W] or [C, D, H, W], and %s without a 0",
                    situ_shape_text(&a, text[0]), situ_shape_text(&b, text[1]),
                    transposed ? "[C, O/groups, kd, kh, kw]" : "[O, C/groups, kd, kh, kw]"),
         false;
}

/* The planes that each result's depth reads, as channels: x [N, C, D, H, W] -> [N D', C kd, H, W]. */
static situ_tensor *planes_of(const char *op, situ_tensor *x, const depth *d, int64_t *out) {
  if (d->padding) x = situ_pad(x, SITU_DIMS(0, 0, 0, 0, d->padding, d->padding), SITU_PAD_CONSTANT, 0);
  if (!x) return NULL;
  const int64_t *size = x->view.size, reach = d->dilation * (d->kernel - 1);
  if (size[2] <= reach)
    return situ__fail(SITU_E_SHAPE, op, "the kernel covers %lld elements, the padded input has %lld",
                      (long long)reach + 1, (long long)size[2]),
           NULL;
  *out = (size[2] - reach - 1) / d->stride + 1;
  situ_tensor **part = situ__alloc((size_t)d->kernel * sizeof *part), *all = NULL;
  if (!part) return situ__fail(SITU_E_NOMEM, op, "no memory for a kernel of depth %lld", (long long)d->kernel), NULL;
  bool made = true;
  for (int64_t k = 0; made && k < d->kernel; k++) {
    const int64_t first = k * d->dilation;
    part[k] = situ_transpose(situ_slice(x, 2, first, first + (*out - 1) * d->stride + 1, d->stride), 1, 2);
    made = part[k] != NULL;
  }
  if (made) all = situ_stack(part, (int)d->kernel, 3);
  situ__free(part);
  return situ_reshape(all, SITU_SHAPE(size[0] * *out, size[1] * d->kernel, size[3], size[4]));
}

/* y [N D, O, H, W] -> [N, O, D, H, W], or without N. */
static situ_tensor *as_volume(situ_tensor *y, int64_t batch, int64_t out, bool batched) {
  if (!y) return NULL;
  const int64_t *size = y->view.size;
  y = situ_contiguous(situ_transpose(situ_reshape(y, SITU_SHAPE(batch, out, size[1], size[2], size[3])), 1, 2));
  return batched ? y : situ_squeeze(y, SITU_DIMS(0));
}

/* The weight's depth as part of its second dimension. */
static situ_tensor *flat_weight(situ_tensor *weight) {
  const int64_t *size = weight->view.size;
  return situ_reshape(weight, SITU_SHAPE(size[0], size[1] * size[2], size[3], size[4]));
}

situ_tensor *situ_conv3d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias, const situ_conv_options *options) {
  SITU__MADE_OF_OPS("conv3d");
  situ_conv_options o = options ? *options : (situ_conv_options){ 0 };
  situ_tensor *in[] = { input, weight, bias };
  depth d;
  int64_t out;
  if (!check("conv3d", false, in)) return NULL;
  input = in[INPUT], weight = in[WEIGHT], bias = in[BIAS];
  if (!situ__conv_same("conv3d", 3, &input, weight, &o) || !take_depth("conv3d", weight, &o, &d)) return NULL;
  const bool batched = input->view.ndim == 5;
  situ_tensor *x = batched ? input : situ_unsqueeze(input, 0);
  if (!(x = planes_of("conv3d", x, &d, &out))) return NULL;
  return as_volume(situ_conv2d(x, flat_weight(weight), bias, &o), batched ? input->view.size[0] : 1, out, batched);
}

/* Each plane's products with every plane of the kernel, [N D, O kd, H, W], added where they belong. */
static situ_tensor *added_up(const char *op, situ_tensor *y, int64_t batch, int64_t planes, const depth *d) {
  if (!y) return NULL;
  const int64_t outputs = y->view.size[1] / d->kernel, height = y->view.size[2], width = y->view.size[3];
  const int64_t full = (planes - 1) * d->stride + d->dilation * (d->kernel - 1) + 1 + d->output_padding;
  const situ_device device = situ_device_of(y);
  if (full <= 2 * d->padding || (d->output_padding >= d->stride && d->output_padding >= d->dilation))
    return situ__fail(full <= 2 * d->padding ? SITU_E_SHAPE : SITU_E_ARG, op,
                      "depth %lld with padding %lld and output_padding %lld: the result would have no depth, or "
                      "padding without values",
                      (long long)full, (long long)d->padding, (long long)d->output_padding),
           NULL;
  const situ_options integer = { .dtype = SITU_I64, .device = device };
  situ_tensor *plane = situ_mul_scalar(situ_arange(0, (double)planes, 1, &integer), (double)d->stride);
  situ_tensor *tap = situ_mul_scalar(situ_arange(0, (double)d->kernel, 1, &integer), (double)d->dilation);
  situ_tensor *to = situ_reshape(situ_add(situ_unsqueeze(plane, 1), tap), SITU_SHAPE(-1));
  y = situ_permute(situ_reshape(y, SITU_SHAPE(batch, planes, outputs, d->kernel, height, width)),
                   SITU_DIMS(0, 2, 1, 3, 4, 5));
  y = situ_reshape(y, SITU_SHAPE(batch, outputs, planes * d->kernel, height, width));
  situ_tensor *sum = situ_zeros(SITU_SHAPE(batch, outputs, full, height, width),
                                &(situ_options){ .dtype = situ_dtype_of(y), .device = device });
  return situ_narrow(situ_index_add(sum, 2, to, y, 1), 2, d->padding, full - 2 * d->padding);
}

/* Products that are added up are f32 for the 16-bit dtypes. */
static situ_tensor *wide(situ_tensor *x) {
  const situ_dtype dtype = situ_dtype_of(x);
  return dtype == SITU_F16 || dtype == SITU_BF16 ? situ_to_dtype(x, SITU_F32) : x;
}
/* Without autocast, which would round them again; in a scope of its own, since the bias is left out. */
static situ_tensor *wide_products(situ_tensor *x, situ_tensor *weight, const situ_conv_options *o) {
  const uint32_t autocast = situ__setting.autocast;
  situ_scope s;
  situ_scope_begin(&s);
  situ__setting.autocast = 0;
  situ_tensor *y = situ_conv_transpose2d(x, weight, NULL, o);
  situ__setting.autocast = autocast;
  return situ_scope_return(&s, y);
}

situ_tensor *situ_conv_transpose3d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                   const situ_conv_options *options) {
  SITU__MADE_OF_OPS("conv_transpose3d");
  const char *op = "conv_transpose3d";
  situ_conv_options o = options ? *options : (situ_conv_options){ 0 };
  situ_tensor *in[] = { input, weight, bias };
  depth d;
  if (!check(op, true, in)) return NULL;
  input = in[INPUT], weight = in[WEIGHT], bias = in[BIAS];
  if (!take_depth(op, weight, &o, &d)) return NULL;
  const bool batched = input->view.ndim == 5;
  situ_tensor *x = wide(batched ? input : situ_unsqueeze(input, 0));
  if (!x) return NULL;
  const int64_t *size = x->view.size, batch = size[0], planes = size[2];
  x = situ_reshape(situ_transpose(x, 1, 2), SITU_SHAPE(batch * planes, size[1], size[3], size[4]));
  situ_tensor *y = added_up(op, wide_products(x, wide(flat_weight(weight)), &o), batch, planes, &d);
  if (y && bias) {
    if (bias->view.ndim != 1 || bias->view.size[0] != y->view.size[1])
      return situ__fail(SITU_E_SHAPE, op, "bias has %lld elements, must be [%lld]", (long long)bias->view.numel,
                        (long long)y->view.size[1]),
             NULL;
    y = situ_add(y, situ_reshape(bias, SITU_SHAPE(-1, 1, 1, 1)));
  }
  y = situ_to_dtype(situ_contiguous(y), situ_dtype_of(input));
  return batched ? y : situ_squeeze(y, SITU_DIMS(0));
}
