/* Fits gradients to their operands: sums over broadcast dimensions, and casts back from the promoted dtype.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/launch/launch.h"
#include "dispatch/dispatch.h"

/* Returns grad summed to `shape`, from which it was broadcast. */
static situ_tensor *sum_to(const char *op, situ_tensor *grad, const situ_shape *shape) {
  situ_shape padded = situ__shape(&grad->view); /* grad's rank, 1 where it is summed */
  int missing = padded.ndim - shape->ndim;
  bool fits = missing >= 0;
  for (int d = 0; fits && d < padded.ndim; d++) {
    int64_t size = d < missing ? 1 : shape->dim[d - missing];
    fits = size == padded.dim[d] || size == 1;
    padded.dim[d] = size;
  }
  if (!fits) {
    situ_shape got = situ__shape(&grad->view);
    char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, op, "a gradient of shape %s came for an operand of shape %s",
                      situ_shape_text(&got, a), situ_shape_text(shape, b)),
           NULL;
  }
  if (situ__recording()) return situ__dispatch_up.sum_to(grad, shape);
  situ_device device = grad->view.storage->device;
  situ_tensor *sum = situ__tensor_new(op, shape, (situ_dtype)grad->view.dtype, device);
  if (!sum) return NULL;
  situ_view_desc reshaped;
  const situ_view_desc *out = missing ? situ_desc_reshape(&sum->view, padded, &reshaped) : &sum->view;
  const situ_work work = {
    SITU_VERB_REDUCE,      .op = SITU_REDUCE_SUM, .compute = (situ_dtype)grad->view.dtype, .ins = 1, .outs = 1,
    .in = { &grad->view }, .out = { out }
  };
  return situ__run(op, device, &work) == SITU_OK ? sum : NULL;
}

static situ_tensor *cast_gradient(const char *op, situ_tensor *grad, situ_dtype dtype) {
  if (situ__recording()) return situ__dispatch_up.cast_operand(grad, dtype);
  situ_device device = grad->view.storage->device;
  situ_view_desc layout = grad->view;
  const situ_view_desc *of = &grad->view;
  if (!situ__order_strides(&layout, &of, 1)) SITU_IGNORE(situ__format_strides(&layout, SITU_CONTIGUOUS_FORMAT));
  situ_tensor *out = situ__tensor_strided(op, &layout, dtype, device);
  if (!out) return NULL;
  const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &grad->view }, .out = { &out->view } };
  return situ__run(op, device, &work) == SITU_OK ? out : NULL;
}

situ_tensor *situ__fit_gradient(const char *op, situ_tensor *grad, const situ_shape *shape, situ_dtype dtype) {
  bool same = grad->view.ndim == shape->ndim;
  for (int d = 0; same && d < shape->ndim; d++) same = grad->view.size[d] == shape->dim[d];
  if (!same && !(grad = sum_to(op, grad, shape))) return NULL;
  return (situ_dtype)grad->view.dtype == dtype ? grad : cast_gradient(op, grad, dtype);
}
