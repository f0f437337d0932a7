/* Patches of images as columns (unfold), and columns added up to images (fold): an index of every patch's pixels, by
   which one gathers and the other adds.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

typedef struct patches {
  int64_t kernel[2], dilation[2], padding[2], stride[2];
  int64_t size[2], count[2]; /* of the padded image; patches along each dimension */
} patches;

static bool read_patches(const char *op, situ_shape kernel_size, const situ_unfold_options *o, const int64_t size[2],
                         patches *p) {
  static const situ_unfold_options none;
  if (!o) o = &none;
  if (!situ__read_pair(op, "kernel_size", kernel_size, -1, 1, p->kernel) ||
      !situ__read_pair(op, "dilation", o->dilation, 1, 1, p->dilation) ||
      !situ__read_pair(op, "padding", o->padding, 0, 0, p->padding) ||
      !situ__read_pair(op, "stride", o->stride, 1, 1, p->stride))
    return false;
  for (int d = 0; d < 2; d++) {
    if (size[d] < 1 || size[d] > INT64_MAX / 4)
      return situ__fail(SITU_E_ARG, op, "a size is %lld, must be positive, and below 2^61", (long long)size[d]), false;
    p->size[d] = size[d] + 2 * p->padding[d];
    const int64_t span = p->size[d] - p->dilation[d] * (p->kernel[d] - 1) - 1;
    if (span < 0)
      return situ__fail(SITU_E_SHAPE, op, "the kernel covers %lld elements, the padded image has %lld",
                        (long long)(p->size[d] - span), (long long)p->size[d]),
             false;
    p->count[d] = span / p->stride[d] + 1;
  }
  return true;
}

/* first + a step + b step2, [a, b] */
static situ_tensor *places(int64_t a, int64_t step, int64_t b, int64_t step2, situ_device device) {
  const situ_options integer = { .dtype = SITU_I64, .device = device };
  situ_tensor *rows = situ_mul_scalar(situ_arange(0, (double)a, 1, &integer), (double)step);
  situ_tensor *columns = situ_mul_scalar(situ_arange(0, (double)b, 1, &integer), (double)step2);
  return situ_add(situ_unsqueeze(rows, 1), columns);
}

/* For each element of the kernel the pixels of all patches, in the padded image: [kh kw oh ow]. */
static situ_tensor *index_of(const patches *p, situ_device device) {
  situ_tensor *row = places(p->kernel[0], p->dilation[0] * p->size[1], p->count[0], p->stride[0] * p->size[1], device);
  situ_tensor *column = places(p->kernel[1], p->dilation[1], p->count[1], p->stride[1], device);
  row = situ_reshape(row, SITU_SHAPE(p->kernel[0], 1, p->count[0], 1));
  column = situ_reshape(column, SITU_SHAPE(1, p->kernel[1], 1, p->count[1]));
  return situ_reshape(situ_add(row, column), SITU_SHAPE(-1));
}

situ_tensor *situ_unfold(situ_tensor *input, situ_shape kernel_size, const situ_unfold_options *options) {
  SITU__MADE_OF_OPS("unfold");
  static const situ_op schema = { .name = "unfold", .operand = { { "input", 0 } } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  const int ndim = input->view.ndim;
  if (ndim != 3 && ndim != 4)
    return situ__fail(SITU_E_SHAPE, "unfold", "input has %d dimensions, must be [N, C, H, W] or [C, H, W]", ndim), NULL;
  patches p;
  const int64_t *size = input->view.size + ndim - 3, batch = ndim == 4 ? input->view.size[0] : 1, channels = size[0];
  if (!read_patches("unfold", kernel_size, options, size + 1, &p)) return NULL;
  situ_tensor *x = input;
  if (p.padding[0] || p.padding[1])
    x = situ_pad(x, SITU_DIMS(p.padding[1], p.padding[1], p.padding[0], p.padding[0]), SITU_PAD_CONSTANT, 0);
  x = situ_reshape(x, SITU_SHAPE(batch * channels, p.size[0] * p.size[1]));
  x = situ_index_select(x, 1, index_of(&p, situ_device_of(input)));
  const int64_t rows = channels * p.kernel[0] * p.kernel[1], columns = p.count[0] * p.count[1];
  return situ_reshape(x, ndim == 4 ? SITU_SHAPE(batch, rows, columns) : SITU_SHAPE(rows, columns));
}

situ_tensor *situ_fold(situ_tensor *input, situ_shape output_size, situ_shape kernel_size,
                       const situ_unfold_options *options) {
  SITU__MADE_OF_OPS("fold");
  static const situ_op schema = { .name = "fold", .operand = { { "input", 0 } } };
  int64_t size[2];
  patches p;
  if (!situ__together(&schema, &input, 1) || !situ__read_pair("fold", "output_size", output_size, -1, 1, size) ||
      !read_patches("fold", kernel_size, options, size, &p))
    return NULL;
  const int ndim = input->view.ndim;
  const int64_t area = p.kernel[0] * p.kernel[1], columns = p.count[0] * p.count[1];
  if ((ndim != 2 && ndim != 3) || input->view.size[ndim - 1] != columns || input->view.size[ndim - 2] % area) {
    const situ_shape shape = situ__shape(&input->view);
    char text[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, "fold", "input is %s, must be [N, C * %lld, %lld] or without N, as unfold gives it",
                      situ_shape_text(&shape, text), (long long)area, (long long)columns),
           NULL;
  }
  const int64_t batch = ndim == 3 ? input->view.size[0] : 1, channels = input->view.size[ndim - 2] / area;
  const situ_options here = { .dtype = situ_dtype_of(input), .device = situ_device_of(input) };
  situ_tensor *y = situ_zeros(SITU_SHAPE(batch * channels, p.size[0] * p.size[1]), &here);
  y = situ_index_add(y, 1, index_of(&p, here.device), situ_reshape(input, SITU_SHAPE(batch * channels, area * columns)),
                     1);
  y = situ_reshape(y, ndim == 3 ? SITU_SHAPE(batch, channels, p.size[0], p.size[1])
                                : SITU_SHAPE(channels, p.size[0], p.size[1]));
  if (!p.padding[0] && !p.padding[1]) return y;
  return situ_pad(y, SITU_DIMS(-p.padding[1], -p.padding[1], -p.padding[0], -p.padding[0]), SITU_PAD_CONSTANT, 0);
}
