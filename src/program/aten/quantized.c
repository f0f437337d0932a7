/* quantized_decomposed of PyTorch's quantisation: numbers to whole ones of a scale and a zero point, and back.
   SPDX-License-Identifier: MIT */
#include "program/graph/program.h"

/* Scale or zero point k: a number, or a tensor of one for all or one for each place along the axis. In f32, as torch
   computes. */
static situ_tensor *factor(situ__op_call *c, int k, int axis_at) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  if (!situ__arg_is_tensor(c, k))
    return situ_new_full(x, SITU_SCALAR, situ__arg_number(c, k), &(situ_options){ .dtype = SITU_F32 });
  situ_tensor *t = situ_to_dtype(situ__arg_tensor(c, k), SITU_F32);
  if (!axis_at) return situ_reshape(t, SITU_SCALAR);
  const int rank = situ_dim(x), axis = situ__arg_dim_of(c, axis_at, rank);
  if (axis < 0 || axis >= rank) return situ__call_refuse(c, "has an axis that the input lacks");
  situ_shape size = { .ndim = rank };
  for (int d = 0; d < rank; d++) size.dim[d] = d == axis ? -1 : 1;
  return situ_reshape(t, size);
}

/* Arguments from `first` on: quant_min, quant_max, dtype. */
static situ_tensor *quantize(situ__op_call *c, int first, int axis_at) {
  const situ_dtype dtype = situ__arg_dtype(c, first + 2);
  situ_tensor *x = situ_to_dtype(situ__arg_tensor(c, 0), SITU_F32), *scale = factor(c, 1, axis_at);
  situ_tensor *y = situ_round(situ_mul(x, situ_reciprocal(scale)));
  y = situ_add(y, factor(c, 2, axis_at));
  return situ_to_dtype(situ_clamp(y, situ__arg_number(c, first), situ__arg_number(c, first + 1)), dtype);
}
static situ_tensor *dequantize(situ__op_call *c, int first, int axis_at) {
  const situ_dtype dtype = situ__arg_given(c, first + 3) ? situ__arg_dtype(c, first + 3) : SITU_F32;
  situ_tensor *x = situ_to_dtype(situ__arg_tensor(c, 0), SITU_F32);
  if (situ__arg_given(c, 2)) x = situ_sub(x, factor(c, 2, axis_at));
  return situ_to_dtype(situ_mul(x, factor(c, 1, axis_at)), dtype);
}
static situ_tensor *run_quantize(situ__op_call *c) { return quantize(c, 3, 0); }
static situ_tensor *run_dequantize(situ__op_call *c) { return dequantize(c, 3, 0); }
static situ_tensor *run_quantize_channels(situ__op_call *c) { return quantize(c, 4, 3); }
static situ_tensor *run_dequantize_channels(situ__op_call *c) { return dequantize(c, 4, 3); }

#define OPS "torch.ops.quantized_decomposed."
#define BOUNDS "i quant_min, i quant_max, d dtype"
#define NUMBERS "t input, n scale, i zero_point, " BOUNDS
#define TENSORS "t input, t scale, t zero_point, " BOUNDS

static const situ__op_row rows[] = {
  { OPS "quantize_per_tensor.default", NUMBERS, .run = run_quantize },
  { OPS "quantize_per_tensor.tensor", TENSORS, .run = run_quantize },
  { OPS "dequantize_per_tensor.default", NUMBERS ", *d? out_dtype", .run = run_dequantize },
  { OPS "dequantize_per_tensor.tensor", TENSORS ", *d? out_dtype", .run = run_dequantize },
  { OPS "quantize_per_channel.default", "t input, t scales, t zero_points, i axis, " BOUNDS,
    .run = run_quantize_channels },
  { OPS "dequantize_per_channel.default", "t input, t scales, t? zero_points, i axis, " BOUNDS ", *d? out_dtype",
    .run = run_dequantize_channels },
};
const situ__op_family situ__quantized_family = { rows, sizeof rows / sizeof *rows };
