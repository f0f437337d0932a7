/* ATen's and torchvision's ops on images: upsampling, sampling at places, patches, boxes.
   SPDX-License-Identifier: MIT */
#include "program/graph/bind.h"
#include "program/graph/rows.h"

/* ---- upsampling ---- */

/* By sizes, or by factors: one list, or with the sizes that they make a number for each side. */
static situ_tensor *upsample(situ__op_call *c, int scales, situ_interpolate_options o) {
  const int sides = situ__op_parameters(c->node->row) - scales;
  int given = 0;
  for (int k = 0; k < sides; k++) given += situ__arg_given(c, scales + k);
  if (!situ__arg_given(c, 1)) situ__arg_numbers(c, scales, o.scale_factor, 3);
  else if (!given) o.size = situ__arg_dims(c, 1);
  else if (given < sides) return situ__call_refuse(c, "has a factor for some of its sizes only");
  else
    for (int k = 0; k < sides; k++) o.scale_factor[k] = situ__arg_number(c, scales + k);
  return situ_interpolate(situ__arg_tensor(c, 0), &o);
}
static situ_tensor *run_nearest(situ__op_call *c) {
  return upsample(c, 2, (situ_interpolate_options){ .mode = SITU_INTERPOLATE_NEAREST });
}
static situ_tensor *run_nearest_exact(situ__op_call *c) {
  return upsample(c, 2, (situ_interpolate_options){ .mode = SITU_INTERPOLATE_NEAREST_EXACT });
}
static situ_tensor *smooth(situ__op_call *c, situ_interpolate_mode mode, bool antialias) {
  return upsample(
      c, 3, (situ_interpolate_options){ .mode = mode, .align_corners = situ__arg_flag(c, 2), .antialias = antialias });
}
static situ_tensor *run_linear1d(situ__op_call *c) { return smooth(c, SITU_INTERPOLATE_LINEAR, false); }
static situ_tensor *run_bilinear(situ__op_call *c) { return smooth(c, SITU_INTERPOLATE_BILINEAR, false); }
static situ_tensor *run_bicubic(situ__op_call *c) { return smooth(c, SITU_INTERPOLATE_BICUBIC, false); }
static situ_tensor *run_trilinear(situ__op_call *c) { return smooth(c, SITU_INTERPOLATE_TRILINEAR, false); }
static situ_tensor *run_bilinear_aa(situ__op_call *c) { return smooth(c, SITU_INTERPOLATE_BILINEAR, true); }
static situ_tensor *run_bicubic_aa(situ__op_call *c) { return smooth(c, SITU_INTERPOLATE_BICUBIC, true); }

/* ---- sampling at places ---- */

static situ_tensor *run_grid_sampler(situ__op_call *c) {
  static const situ_grid_mode modes[] = { SITU_GRID_BILINEAR, SITU_GRID_NEAREST, SITU_GRID_BICUBIC };
  static const situ_grid_padding paddings[] = { SITU_GRID_ZEROS, SITU_GRID_BORDER, SITU_GRID_REFLECTION };
  const int64_t mode = situ__arg_int(c, 2), padding = situ__arg_int(c, 3);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    return situ__call_refuse(c, "has a mode that situ does not know");
  const situ_grid_sample_options o = { .mode = modes[mode],
                                       .padding_mode = paddings[padding],
                                       .align_corners = situ__arg_flag(c, 4) };
  return situ_grid_sample(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), &o);
}
static situ_tensor *run_affine_grid(situ__op_call *c) {
  return situ_affine_grid(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), situ__arg_flag(c, 2));
}

/* ---- patches and channels ---- */

static situ_tensor *run_im2col(situ__op_call *c) {
  const situ_unfold_options o = { .dilation = situ__arg_dims(c, 2),
                                  .padding = situ__arg_dims(c, 3),
                                  .stride = situ__arg_dims(c, 4) };
  return situ_unfold(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), &o);
}
static situ_tensor *run_col2im(situ__op_call *c) {
  const situ_unfold_options o = { .dilation = situ__arg_dims(c, 3),
                                  .padding = situ__arg_dims(c, 4),
                                  .stride = situ__arg_dims(c, 5) };
  return situ_fold(situ__arg_tensor(c, 0), situ__arg_dims(c, 1), situ__arg_dims(c, 2), &o);
}
static situ_tensor *run_channel_shuffle(situ__op_call *c) {
  return situ_channel_shuffle(situ__arg_tensor(c, 0), situ__arg_int(c, 1));
}
static situ_tensor *run_pixel_shuffle(situ__op_call *c) {
  return situ_pixel_shuffle(situ__arg_tensor(c, 0), situ__arg_int(c, 1));
}
static situ_tensor *run_pixel_unshuffle(situ__op_call *c) {
  return situ_pixel_unshuffle(situ__arg_tensor(c, 0), situ__arg_int(c, 1));
}

/* ---- torchvision ---- */

static situ_tensor *run_nms(situ__op_call *c) {
  return situ_nms(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_number(c, 2));
}
static situ_tensor *run_roi_align(situ__op_call *c) {
  return situ_roi_align(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1),
                        SITU_SHAPE(situ__arg_int(c, 3), situ__arg_int(c, 4)), situ__arg_number(c, 2),
                        situ__arg_int(c, 5), situ__arg_flag(c, 6));
}
static situ_tensor *run_deform_conv2d(situ__op_call *c) {
  const situ_deform_conv2d_options o = { .stride = SITU_SHAPE(situ__arg_int(c, 5), situ__arg_int(c, 6)),
                                         .padding = SITU_SHAPE(situ__arg_int(c, 7), situ__arg_int(c, 8)),
                                         .dilation = SITU_SHAPE(situ__arg_int(c, 9), situ__arg_int(c, 10)),
                                         .mask = situ__arg_flag(c, 13) ? situ__arg_tensor(c, 3) : NULL };
  return situ_deform_conv2d(situ__arg_tensor(c, 0), situ__arg_tensor(c, 2), situ__arg_tensor(c, 1),
                            situ__arg_tensor(c, 4), &o);
}

#define UPSAMPLE(name, options, scales, function)                                            \
  { name ".vec", "t input, I? output_size, " options "F? scale_factors", .run = function },  \
      { name ".default", "t self, I output_size, " options scales, .run = function }, {      \
    name "_backward.default", "t grad_output, I output_size, I input_size, " options scales, \
        .run = situ__run_resized_gradient, .gradient_of = name ".default"                    \
  }
#define CORNERS "b align_corners, "
#define SCALES_1 "n? scales"
#define SCALES_2 "n? scales_h, n? scales_w"
#define SCALES_3 "n? scales_d, " SCALES_2
#define GRID "t input, t grid, i interpolation_mode, i padding_mode, b align_corners"

static const situ__op_row rows[] = {
  UPSAMPLE("upsample_nearest1d", "", SCALES_1, run_nearest),
  UPSAMPLE("upsample_nearest2d", "", SCALES_2, run_nearest),
  UPSAMPLE("upsample_nearest3d", "", SCALES_3, run_nearest),
  UPSAMPLE("_upsample_nearest_exact1d", "", SCALES_1, run_nearest_exact),
  UPSAMPLE("_upsample_nearest_exact2d", "", SCALES_2, run_nearest_exact),
  UPSAMPLE("_upsample_nearest_exact3d", "", SCALES_3, run_nearest_exact),
  UPSAMPLE("upsample_linear1d", CORNERS, SCALES_1, run_linear1d),
  UPSAMPLE("upsample_bilinear2d", CORNERS, SCALES_2, run_bilinear),
  UPSAMPLE("upsample_bicubic2d", CORNERS, SCALES_2, run_bicubic),
  UPSAMPLE("upsample_trilinear3d", CORNERS, SCALES_3, run_trilinear),
  UPSAMPLE("_upsample_bilinear2d_aa", CORNERS, SCALES_2, run_bilinear_aa),
  UPSAMPLE("_upsample_bicubic2d_aa", CORNERS, SCALES_2, run_bicubic_aa),

  { "grid_sampler.default", GRID, .run = run_grid_sampler },
  { "grid_sampler_2d.default", GRID, .run = run_grid_sampler },
  { "grid_sampler_3d.default", GRID, .run = run_grid_sampler },
  { "affine_grid_generator.default", "t theta, I size, b align_corners", .run = run_affine_grid },

  { "im2col.default", "t self, I kernel_size, I dilation, I padding, I stride", .run = run_im2col },
  { "col2im.default", "t self, I output_size, I kernel_size, I dilation, I padding, I stride", .run = run_col2im },
  { "channel_shuffle.default", "t self, i groups", .run = run_channel_shuffle },
  { "pixel_shuffle.default", "t self, i upscale_factor", .run = run_pixel_shuffle },
  { "pixel_unshuffle.default", "t self, i downscale_factor", .run = run_pixel_unshuffle },

  { "torch.ops.torchvision.nms.default", "t dets, t scores, n iou_threshold", .run = run_nms },
  { "torch.ops.torchvision.roi_align.default",
    "t input, t rois, n spatial_scale, i pooled_height, i pooled_width, i sampling_ratio, b aligned",
    .run = run_roi_align },
  { "torch.ops.torchvision.deform_conv2d.default",
    "t input, t weight, t offset, t mask, t? bias, i stride_h, i stride_w, i pad_h, i pad_w, "
    "i dilation_h, i dilation_w, _ groups, _ offset_groups, b use_mask",
    .run = run_deform_conv2d },
};
const situ__op_family situ__image_family = { rows, sizeof rows / sizeof *rows };
