/* Golden values from PyTorch 2.15: names of its op database whose own family is older, or for which situ has a function
   of another name.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

static void expand_as(gold_call *c) { c->out[0] = situ_expand(c->in[0], situ_shape_of(c->in[1])); }
static void reshape_as(gold_call *c) { c->out[0] = situ_reshape(c->in[0], situ_shape_of(c->in[1])); }
static void view_as(gold_call *c) { c->out[0] = situ_view(c->in[0], situ_shape_of(c->in[1])); }
static void turn(gold_call *c) { c->out[0] = situ_dim(c->in[0]) < 2 ? c->in[0] : situ_transpose(c->in[0], -2, -1); }

/* Results that are numbers. */
static void number(gold_call *c, double value, situ_dtype dtype) {
  c->out[0] = situ_scalar_tensor(value, &(situ_options){ .dtype = dtype, .device = c->device });
}
static void allclose(gold_call *c) {
  bool same = false;
  if (situ_allclose(c->in[0], c->in[1], gold_real(c, "rtol", 0), gold_real(c, "atol", 0), false, &same) == SITU_OK) {
    number(c, same, SITU_BOOL);
  }
}
static void item(gold_call *c) {
  double value = 0;
  if (situ_item(c->in[0], &value) == SITU_OK) { number(c, value, SITU_F64); }
}

static const gold_op ops[] = {
  { "bool", .call = "to_dtype" },
  { "byte", .call = "to_dtype" },
  { "char", .call = "to_dtype" },
  { "short", .call = "to_dtype" },
  { "int", .call = "to_dtype" },
  { "long", .call = "to_dtype" },
  { "half", .call = "to_dtype" },
  { "bfloat16", .call = "to_dtype" },
  { "float", .call = "to_dtype" },
  { "double", .call = "to_dtype" },
  { "Tensor.to", .call = "to_dtype" },
  { "split_with_sizes", .call = "split_sizes" },
  { "broadcast_to", .call = "expand" },
  { "expand_as", .run = expand_as },
  { "reshape_as", .run = reshape_as },
  { "view_as", .run = view_as },
  { "ravel", .with = "shape=-1", .call = "reshape" },
  { "t", .run = turn },
  { "mT", .run = turn },
  { "constant_pad_nd", .call = "pad" },
  { "true_divide", .call = "div" },
  { "sgn", .call = "sign" },
  { "clamp_min", .with = "min:other", .call = "clamp_tensor" },
  { "clamp_max", .with = "max:other", .call = "clamp_tensor" },
  { "allclose", .run = allclose },
  { "item", .run = item },
  { "nn.functional.rms_norm", GOLD_STEPS(2, 4) },
  { "nn.functional.scaled_dot_product_attention", GOLD_STEPS(4, 32) },
  { "nn.functional.upsample_nearest", .call = "interpolate" },
  { "nn.functional.upsample_bilinear", .with = ".mode=bilinear .align_corners=1", .call = "interpolate" },
  { 0 },
};

#define NO_VALUES "asks for values, and meta has none"
static const gold_exception exceptions[] = {
  { "allclose", .device = "meta", .why = NO_VALUES },
  { "item", .device = "meta", .why = NO_VALUES },
  { 0 },
};

int main(void) { return gold_main("samples", ops, exceptions); }
