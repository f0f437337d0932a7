/* torchvision.ops.deform_conv2d: a convolution whose kernel reads the image at places of its own for each result
   (J. Dai et al., arXiv:1703.06211), each of them with a weight (X. Zhu et al., arXiv:1811.11168). Made of other ops:
   bilinear samples as columns, and one product.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

enum { INPUT, OFFSET, WEIGHT, BIAS, MASK, OPERANDS };

typedef struct deformation {
  int64_t batch, channels, size[2], outputs, groups, offset_groups;
  int64_t kernel[2], stride[2], padding[2], dilation[2], out[2];
} deformation;

/* ---- sizes ---- */

static bool read_out(const char *op, deformation *f) {
  for (int d = 0; d < 2; d++) {
    int64_t reach, span;
    if (!situ__mul_i64(f->dilation[d], f->kernel[d] - 1, &reach) ||
        !situ__add_i64(f->size[d], 2 * f->padding[d], &span) || !situ__sub_i64(span, reach + 1, &span) || span < 0)
      return situ__fail(SITU_E_SHAPE, op, "the kernel of %lld with dilation %lld is larger than the padded input",
                        (long long)f->kernel[d], (long long)f->dilation[d]),
             false;
    f->out[d] = span / f->stride[d] + 1;
  }
  return true;
}

/* [N, per_place offset_groups kh kw, oh, ow] */
static bool fits_places(const char *op, const char *name, const situ_tensor *t, const deformation *f,
                        int64_t per_place) {
  const situ_shape own = situ__shape(&t->view);
  situ_shape shape =
      SITU_SHAPE(f->batch, per_place * f->offset_groups * f->kernel[0] * f->kernel[1], f->out[0], f->out[1]);
  if (situ_shape_equal(&own, &shape)) return true;
  char text[2][SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "%s is %s, must be %s, with %lld offset groups", name,
                    situ_shape_text(&own, text[0]), situ_shape_text(&shape, text[1]), (long long)f->offset_groups),
         false;
}

static bool read_sizes(const char *op, situ_tensor *const *in, const situ_deform_conv2d_options *o, deformation *f) {
  const situ_shape x = situ__shape(&in[INPUT]->view), w = situ__shape(&in[WEIGHT]->view),
                   offset = situ__shape(&in[OFFSET]->view);
  char text[3][SITU_SHAPE_TEXT];
  bool good = x.ndim == 4 && w.ndim == 4 && offset.ndim == 4 && in[WEIGHT]->view.numel > 0 && x.dim[1] % w.dim[1] == 0;
  if (good) {
    *f = (deformation){ .batch = x.dim[0],
                        .channels = x.dim[1],
                        .size = { x.dim[2], x.dim[3] },
                        .outputs = w.dim[0],
                        .groups = x.dim[1] / w.dim[1],
                        .kernel = { w.dim[2], w.dim[3] } };
    f->offset_groups = offset.dim[1] / (2 * f->kernel[0] * f->kernel[1]);
    good = f->groups && f->outputs % f->groups == 0 && f->offset_groups && f->channels % f->offset_groups == 0 &&
           f->size[0] && f->size[1];
  }
  if (!good)
    return situ__fail(SITU_E_SHAPE, op,
                      "input is %s, offset %s, weight %s, must be [N, C, H, W], [N, 2 G kh kw, oh, ow] and "
                      "[O, C/groups, kh, kw], where groups divides O and G divides C",
                      situ_shape_text(&x, text[0]), situ_shape_text(&offset, text[1]), situ_shape_text(&w, text[2])),
           false;
  if (!situ__read_pair(op, "stride", o->stride, 1, 1, f->stride) ||
      !situ__read_pair(op, "padding", o->padding, 0, 0, f->padding) ||
      !situ__read_pair(op, "dilation", o->dilation, 1, 1, f->dilation) || !read_out(op, f) ||
      !fits_places(op, "offset", in[OFFSET], f, 2) || (in[MASK] && !fits_places(op, "mask", in[MASK], f, 1)))
    return false;
  if (!in[BIAS] || (in[BIAS]->view.ndim == 1 && in[BIAS]->view.size[0] == f->outputs)) return true;
  const situ_shape bias = situ__shape(&in[BIAS]->view);
  return situ__fail(SITU_E_SHAPE, op, "bias is %s, must be [%lld]", situ_shape_text(&bias, text[0]),
                    (long long)f->outputs),
         false;
}

/* ---- samples, and their product with the weight ---- */

/* Where the kernel reads along d without offsets, [kernel, out] spread over [1, kh, kw, oh, ow]. */
static situ_tensor *regular_places(const deformation *f, int d, const situ_options *like) {
  situ_tensor *tap = situ_mul_scalar(situ_arange(0, (double)f->kernel[d], 1, like), (double)f->dilation[d]);
  situ_tensor *out = situ_mul_scalar(situ_arange(0, (double)f->out[d], 1, like), (double)f->stride[d]);
  situ_tensor *at = situ_add_scalar(situ_add(situ_unsqueeze(tap, 1), out), -(double)f->padding[d]);
  return situ_reshape(at,
                      d ? SITU_SHAPE(1, 1, f->kernel[1], 1, f->out[1]) : SITU_SHAPE(1, f->kernel[0], 1, f->out[0], 1));
}

/* [N G, 1, kh kw oh ow]; offset has y and x of each place one after the other. */
static situ_tensor *places(const deformation *f, int d, situ_tensor *offset) {
  const int64_t each = f->batch * f->offset_groups, taps = f->kernel[0] * f->kernel[1], out = f->out[0] * f->out[1];
  const situ_options like = { .dtype = situ_dtype_of(offset), .device = situ_device_of(offset) };
  situ_tensor *own = situ_select(situ_reshape(offset, SITU_SHAPE(each, taps, 2, out)), 2, d);
  own = situ_reshape(own, SITU_SHAPE(each, f->kernel[0], f->kernel[1], f->out[0], f->out[1]));
  return situ_reshape(situ_add(own, regular_places(f, d, &like)), SITU_SHAPE(each, 1, taps * out));
}

static situ_tensor *convolved(situ_tensor *const *in, const deformation *f) {
  const int64_t each = f->batch * f->offset_groups, taps = f->kernel[0] * f->kernel[1], out = f->out[0] * f->out[1],
                rows = f->channels / f->groups * taps;
  situ_tensor *at[] = { places(f, 0, in[OFFSET]), places(f, 1, in[OFFSET]) };
  if (!at[0] || !at[1]) return NULL;
  situ_tensor *image =
      situ_reshape(in[INPUT], SITU_SHAPE(each, f->channels / f->offset_groups, f->size[0], f->size[1]));
  situ_tensor *columns = image ? situ__sample_pixels(image, at) : NULL;
  if (columns && in[MASK]) columns = situ_mul(columns, situ_reshape(in[MASK], SITU_SHAPE(each, 1, taps * out)));
  if (!columns) return NULL;
  situ_tensor *weight = situ_reshape(in[WEIGHT], SITU_SHAPE(f->groups, f->outputs / f->groups, rows));
  situ_tensor *y = situ_matmul(weight, situ_reshape(columns, SITU_SHAPE(f->batch, f->groups, rows, out)));
  y = situ_reshape(y, SITU_SHAPE(f->batch, f->outputs, f->out[0], f->out[1]));
  return y && in[BIAS] ? situ_add(y, situ_reshape(in[BIAS], SITU_SHAPE(f->outputs, 1, 1))) : y;
}

situ_tensor *situ_deform_conv2d(situ_tensor *input, situ_tensor *offset, situ_tensor *weight, situ_tensor *bias,
                                const situ_deform_conv2d_options *options) {
  enum { FLOAT = SITU_FLOATING | SITU_SAME, PERHAPS = FLOAT | SITU_OPTIONAL };
  static const situ_op schema = { .name = "deform_conv2d",
                                  .operand = { { "input", FLOAT },
                                               { "offset", FLOAT },
                                               { "weight", FLOAT },
                                               { "bias", PERHAPS },
                                               { "mask", PERHAPS } },
                                  .autocast = { SITU_CAST_F32, SITU_CAST_F32 } };
  static const situ_deform_conv2d_options none;
  SITU__MADE_OF_OPS(schema.name);
  if (!options) options = &none;
  situ_tensor *in[OPERANDS] = { input, offset, weight, bias, options->mask };
  deformation f;
  if (!situ__autocast(&schema, in, OPERANDS) || !situ__together(&schema, in, OPERANDS) ||
      !read_sizes(schema.name, in, options, &f))
    return NULL;
  const situ_dtype wide = situ__wide(situ_dtype_of(in[INPUT]));
  for (int k = 0; k < OPERANDS; k++)
    if (in[k] && !(in[k] = situ_to_dtype(in[k], wide))) return NULL;
  const uint32_t autocast = situ__setting.autocast; /* the dtypes are chosen */
  situ__setting.autocast = 0;
  situ_tensor *y = situ_to_dtype(convolved(in, &f), situ_dtype_of(input));
  situ__setting.autocast = autocast;
  return y;
}
