/* Golden values from PyTorch 2.15: names of its op database whose own family is older, or for which situ has a function of
   another name.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

#include "support/gold_run.h"

/* ---- made ---- */

static void full(gold_call *c) {
  const situ_options o = gold_options(c);
  c->out[0] = situ_full(gold_list(c, "size"), gold_real(c, "fill_value", 0), &o);
}
static void scalar_tensor(gold_call *c) {
  const situ_options o = gold_options(c);
  c->out[0] = situ_scalar_tensor(gold_real(c, "value", 0), &o);
}
static void randint(gold_call *c) {
  const situ_options o = gold_options(c);
  c->out[0] = situ_randint(gold_int(c, "low", 0), gold_int(c, "high", 0), gold_list(c, "size"), &o);
}
static void bernoulli(gold_call *c) { c->out[0] = situ_bernoulli(c->in[0], NULL); }
static void uniform_(gold_call *c) {
  c->out[0] = situ_uniform_(c->in[0], gold_real(c, "low", 0), gold_real(c, "high", 1), NULL);
}

/* ---- rearranged ---- */

static void to(gold_call *c) { c->out[0] = situ_to_dtype(c->in[0], gold_dtype(c, "dtype")); }
static void split_with_sizes(gold_call *c) {
  (void)!situ_split_sizes(c->in[0], gold_list(c, "split_sizes"), (int)gold_int(c, "dim", 0), c->out, GOLD_MAX_OUTPUTS);
}
static void broadcast_to(gold_call *c) { c->out[0] = situ_expand(c->in[0], gold_list(c, "size")); }
static void expand_as(gold_call *c) { c->out[0] = situ_expand(c->in[0], situ_shape_of(c->in[1])); }
static void reshape_as(gold_call *c) { c->out[0] = situ_reshape(c->in[0], situ_shape_of(c->in[1])); }
static void view_as(gold_call *c) { c->out[0] = situ_view(c->in[0], situ_shape_of(c->in[1])); }
static void ravel(gold_call *c) { c->out[0] = situ_reshape(c->in[0], SITU_SHAPE(-1)); }
static void turn(gold_call *c) { c->out[0] = situ_dim(c->in[0]) < 2 ? c->in[0] : situ_transpose(c->in[0], -2, -1); }
static void pad(gold_call *c) {
  c->out[0] = situ_pad(c->in[0], gold_list(c, "pad"), SITU_PAD_CONSTANT, gold_real(c, "value", 0));
}

/* ---- numbers ---- */

static void clamp_min(gold_call *c) { c->out[0] = situ_clamp_tensor(c->in[0], c->in[1], NULL); }
static void clamp_max(gold_call *c) { c->out[0] = situ_clamp_tensor(c->in[0], NULL, c->in[1]); }
#define CLOSE c->in[0], c->in[1], gold_real(c, "rtol", 0), gold_real(c, "atol", 0), gold_bool(c, "equal_nan", false)
static void isclose(gold_call *c) { c->out[0] = situ_isclose(CLOSE); }
static void number(gold_call *c, double value, situ_dtype dtype) {
  c->out[0] = situ_scalar_tensor(value, &(situ_options){ .dtype = dtype, .device = c->device });
}
static void allclose(gold_call *c) {
  bool same = false;
  if (situ_allclose(CLOSE, &same) == SITU_OK) { number(c, same, SITU_BOOL); }
}
static void item(gold_call *c) {
  double value = 0;
  if (situ_item(c->in[0], &value) == SITU_OK) { number(c, value, SITU_F64); }
}

/* ---- layers ---- */

static void rms_norm(gold_call *c) {
  c->out[0] =
      situ_rms_norm(c->in[0], gold_list(c, "normalized_shape"), gold_in(c, "weight"), gold_real(c, "eps", SITU_NONE));
}
static void attention(gold_call *c) {
  const situ_attention_options options =
      OPTIONS_OF(situ_attention, with.attn_mask = gold_in(c, "attn_mask"),
                 with.is_causal = gold_bool(c, "is_causal", false), with.scale = gold_real(c, "scale", SITU_NONE));
  c->out[0] = situ_scaled_dot_product_attention(gold_in(c, "query"), gold_in(c, "key"), gold_in(c, "value"), &options);
}
static void upsample(gold_call *c) {
  const bool bilinear = strcmp(c->c->op, "nn.functional.upsample_bilinear") == 0;
  const situ_interpolate_options o = {
    .size = gold_list(c, "size"),
    .scale_factor = { gold_real(c, "scale0", 0), gold_real(c, "scale1", 0), gold_real(c, "scale2", 0) },
    .mode = bilinear ? SITU_INTERPOLATE_BILINEAR : SITU_INTERPOLATE_NEAREST,
    .align_corners = bilinear,
  };
  c->out[0] = situ_interpolate(c->in[0], &o);
}

static const gold_op ops[] = {
  { "Tensor.full", .run = full },
  { "scalar_tensor", .run = scalar_tensor },
  { "Tensor.randint", .run = randint },
  { "Tensor.bernoulli", .run = bernoulli },
  { "Tensor.zero_", .one = situ_zero_ },
  { "uniform_", .run = uniform_ },
  { "bool", .run = to },
  { "byte", .run = to },
  { "char", .run = to },
  { "short", .run = to },
  { "int", .run = to },
  { "long", .run = to },
  { "half", .run = to },
  { "bfloat16", .run = to },
  { "float", .run = to },
  { "double", .run = to },
  { "Tensor.to", .run = to },
  { "split_with_sizes", .run = split_with_sizes },
  { "broadcast_to", .run = broadcast_to },
  { "expand_as", .run = expand_as },
  { "reshape_as", .run = reshape_as },
  { "view_as", .run = view_as },
  { "ravel", .run = ravel },
  { "t", .run = turn },
  { "mT", .run = turn },
  { "constant_pad_nd", .run = pad },
  { "true_divide", .two = situ_div },
  { "sgn", .one = situ_sign },
  { "clamp_min", .run = clamp_min },
  { "clamp_max", .run = clamp_max },
  { "isclose", .run = isclose },
  { "allclose", .run = allclose },
  { "item", .run = item },
  { "nn.functional.rms_norm", .run = rms_norm, .steps = 2, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "nn.functional.scaled_dot_product_attention", .run = attention, .steps = 4, .grad_steps = 32, .why = GOLD_ROUNDS },
  { "nn.functional.upsample_nearest", .run = upsample },
  { "nn.functional.upsample_bilinear", .run = upsample },
  { 0 },
};

#define NO_VALUES "asks for values, and meta has none"
static const gold_exception exceptions[] = {
  { "allclose", .device = "meta", .why = NO_VALUES },
  { "item", .device = "meta", .why = NO_VALUES },
  { 0 },
};

int main(void) { return gold_main("samples", ops, exceptions); }
