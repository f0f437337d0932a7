/* Golden values from PyTorch 2.15: ops for images.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

#include "support/gold_run.h"

static void interpolate(gold_call *c) {
  static const char *const modes[] = {
    "nearest", "linear", "bilinear", "bicubic", "trilinear", "area", "nearest-exact"
  };
  situ_interpolate_options o = {
    .size = gold_list(c, "size"),
    .scale_factor = { gold_real(c, "scale0", 0), gold_real(c, "scale1", 0), gold_real(c, "scale2", 0) },
    .align_corners = gold_bool(c, "align_corners", false),
    .recompute_scale_factor = gold_bool(c, "recompute_scale_factor", false),
    .antialias = gold_bool(c, "antialias", false),
  };
  const char *mode = gold_word(c, "mode", "nearest");
  while (strcmp(modes[o.mode], mode)) o.mode++;
  c->out[0] = situ_interpolate(c->in[0], &o);
}

/* ---- pooling ---- */

static situ_pool_options pool(const gold_call *c) {
  return (situ_pool_options){
    .kernel = gold_list(c, "kernel_size"),
    .stride = gold_list(c, "stride"),
    .padding = gold_list(c, "padding"),
    .dilation = gold_list(c, "dilation"),
    .ceil_mode = gold_bool(c, "ceil_mode", false),
    .exclude_pad = !gold_bool(c, "count_include_pad", true),
    .divisor_override = gold_int(c, "divisor_override", 0),
  };
}
#define INDICES(c) gold_bool(c, "return_indices", false) ? &(c)->out[1] : NULL
#define OP(id, ...) \
  static void id(gold_call *c) { c->out[0] = situ_##id(c->in[0], __VA_ARGS__); }
#define POOL(id, ...)                             \
  static void id(gold_call *c) {                  \
    const situ_pool_options o = pool(c);          \
    c->out[0] = situ_##id(c->in[0], __VA_ARGS__); \
  }
POOL(max_pool1d, &o, INDICES(c))
POOL(max_pool3d, &o, INDICES(c))
POOL(avg_pool1d, &o)
POOL(avg_pool3d, &o)
#define POWERS gold_real(c, "norm_type", 0), o.kernel, o.stride, o.ceil_mode
POOL(lp_pool1d, POWERS)
POOL(lp_pool2d, POWERS)
POOL(lp_pool3d, POWERS)
#define PLACES gold_in(c, "indices"), o.kernel, o.stride, o.padding, gold_list(c, "output_size")
POOL(max_unpool1d, PLACES)
POOL(max_unpool2d, PLACES)
POOL(max_unpool3d, PLACES)
#define SIZE gold_sizes(c)
OP(adaptive_avg_pool1d, SIZE.dim[0])
OP(adaptive_avg_pool3d, SIZE)
OP(adaptive_max_pool1d, SIZE.dim[0], INDICES(c))
OP(adaptive_max_pool2d, SIZE, INDICES(c))
OP(adaptive_max_pool3d, SIZE, INDICES(c))

/* ---- convolution ---- */

static situ_conv_options conv(const gold_call *c) {
  return (situ_conv_options){ .stride = gold_list(c, "stride"),
                              .padding = gold_list(c, "padding"),
                              .dilation = gold_list(c, "dilation"),
                              .output_padding = gold_list(c, "output_padding"),
                              .groups = gold_int(c, "groups", 0),
                              .same = gold_bool(c, "same", false) };
}
#define CONV(id, function, is_same)                                                          \
  static void id(gold_call *c) {                                                             \
    situ_conv_options o = conv(c);                                                           \
    o.same = o.same || is_same;                                                              \
    c->out[0] = function(gold_in(c, "input"), gold_in(c, "weight"), gold_in(c, "bias"), &o); \
  }
CONV(conv3d, situ_conv3d, false)
CONV(conv1d_same, situ_conv1d, true)
CONV(conv2d_same, situ_conv2d, true)
CONV(conv_transpose1d, situ_conv_transpose1d, false)
CONV(conv_transpose3d, situ_conv_transpose3d, false)

/* ---- patches, grids, norms ---- */

static situ_unfold_options steps(const gold_call *c) {
  return (situ_unfold_options){ .dilation = gold_list(c, "dilation"),
                                .padding = gold_list(c, "padding"),
                                .stride = gold_list(c, "stride") };
}
static void unfold(gold_call *c) {
  const situ_unfold_options o = steps(c);
  c->out[0] = situ_unfold(c->in[0], gold_list(c, "kernel_size"), &o);
}
static void fold(gold_call *c) {
  const situ_unfold_options o = steps(c);
  c->out[0] = situ_fold(c->in[0], SIZE, gold_list(c, "kernel_size"), &o);
}
static void grid_sample(gold_call *c) {
  const char *mode = gold_word(c, "mode", "bilinear"), *padding = gold_word(c, "padding_mode", "zeros");
  const situ_grid_sample_options o = { .mode = *mode == 'n'              ? SITU_GRID_NEAREST
                                               : strcmp(mode, "bicubic") ? SITU_GRID_BILINEAR
                                                                         : SITU_GRID_BICUBIC,
                                       .padding_mode = *padding == 'z'   ? SITU_GRID_ZEROS
                                                       : *padding == 'b' ? SITU_GRID_BORDER
                                                                         : SITU_GRID_REFLECTION,
                                       .align_corners = gold_bool(c, "align_corners", false) };
  c->out[0] = situ_grid_sample(gold_in(c, "input"), gold_in(c, "grid"), &o);
}
static void deform_conv2d(gold_call *c) {
  const situ_deform_conv2d_options o = { .stride = gold_list(c, "stride"),
                                         .padding = gold_list(c, "padding"),
                                         .dilation = gold_list(c, "dilation"),
                                         .mask = gold_in(c, "mask") };
  c->out[0] = situ_deform_conv2d(c->in[0], gold_in(c, "offset"), gold_in(c, "weight"), gold_in(c, "bias"), &o);
}
OP(affine_grid, gold_list(c, "size"), gold_bool(c, "align_corners", false))
OP(channel_shuffle, gold_int(c, "groups", 1))
static void instance_norm(gold_call *c) {
  situ_tensor *mean = gold_in(c, "running_mean"), *var = gold_in(c, "running_var");
  const situ_instance_norm_options o =
      OPTIONS_OF(situ_instance_norm, with.no_input_stats = !gold_bool(c, "use_input_stats", true),
                 with.momentum = gold_real(c, "momentum", 0.1), with.eps = gold_real(c, "eps", 1e-5));
  c->out[0] = situ_instance_norm(c->in[0], mean, var, gold_in(c, "weight"), gold_in(c, "bias"), &o);
  c->out[1] = mean;
  c->out[2] = var;
}
OP(local_response_norm, gold_int(c, "size", 1), gold_real(c, "alpha", 1e-4), gold_real(c, "beta", 0.75),
   gold_real(c, "k", 1))

#define RUN(id) \
  { #id, .run = id }
static const gold_op ops[] = {
  RUN(interpolate),
  RUN(max_pool1d),
  RUN(max_pool3d),
  RUN(avg_pool1d),
  RUN(avg_pool3d),
  RUN(lp_pool1d),
  RUN(lp_pool2d),
  RUN(lp_pool3d),
  RUN(max_unpool1d),
  RUN(max_unpool2d),
  RUN(max_unpool3d),
  RUN(adaptive_avg_pool1d),
  RUN(adaptive_avg_pool3d),
  RUN(adaptive_max_pool1d),
  RUN(adaptive_max_pool2d),
  RUN(adaptive_max_pool3d),
  RUN(conv3d),
  RUN(conv1d_same),
  RUN(conv2d_same),
  RUN(conv_transpose1d),
  RUN(conv_transpose3d),
  RUN(unfold),
  RUN(fold),
  RUN(grid_sample),
  RUN(affine_grid),
  { "deform_conv2d", .run = deform_conv2d, .steps = 2, .grad_steps = 4, .why = GOLD_ROUNDS },
  RUN(channel_shuffle),
  { "instance_norm", .run = instance_norm, .writes = true, .grad_steps = 4, .why = GOLD_ROUNDS },
  RUN(local_response_norm),
  { 0 },
};

int main(void) { return gold_main("vision", ops, NULL); }
