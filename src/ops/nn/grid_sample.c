/* grid_sample: the values of an image at places that a grid gives; affine_grid: the grid of an affine map.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

enum { SPATIAL = 3 };

typedef struct sampling {
  situ_tensor *image; /* [N, C, all pixels] */
  int64_t batch, channels, size[SPATIAL], step[SPATIAL], points;
  int spatial;
  situ_grid_padding padding;
  bool align;
} sampling;

/* ---- places: in pixels, after padding ---- */

/* Reflected at low / 2 and high / 2 until it is between them. */
static situ_tensor *reflected(situ_tensor *at, int64_t low, int64_t high) {
  if (low == high) return situ_mul_scalar(at, 0);
  const double least = (double)low / 2, span = (double)(high - low) / 2;
  at = situ_abs(situ_add_scalar(at, -least));
  situ_tensor *turns = situ_floor(situ_div_scalar(at, span));
  situ_tensor *rest = situ_sub(at, situ_mul_scalar(situ_detach(turns), span));
  situ_tensor *even = situ_eq_scalar(situ_remainder_scalar(turns, 2), 0);
  return situ_where(even, situ_add_scalar(rest, least), situ_rsub_scalar(rest, span + least));
}

static situ_tensor *padded(const sampling *s, int d, situ_tensor *at) {
  const int64_t size = s->size[d];
  if (s->padding == SITU_GRID_ZEROS) return at;
  if (s->padding == SITU_GRID_REFLECTION)
    at = s->align ? reflected(at, 0, 2 * (size - 1)) : reflected(at, -1, 2 * size - 1);
  return situ_clamp(at, 0, (double)(size - 1));
}

/* Dimension d of the grid in pixels: -1 and 1 are the centres of the first and last pixels (align), or their edges. */
static situ_tensor *place(const sampling *s, int d, situ_tensor *grid) {
  situ_tensor *at = situ_reshape(situ_select(grid, -1, s->spatial - 1 - d), SITU_SHAPE(s->batch, 1, s->points));
  const double size = (double)s->size[d];
  at = situ_add_scalar(at, 1);
  return s->align ? situ_mul_scalar(at, (size - 1) / 2) : situ_add_scalar(situ_mul_scalar(at, size / 2), -0.5);
}

/* ---- taps: one pixel of each dimension, with a weight ---- */

typedef struct tap {
  situ_tensor *at, *weight; /* at: whole numbers in the image's dtype; weight NULL: 1 */
} tap;

/* The sum over all combinations of one tap of each dimension from d on. */
static situ_tensor *sum_of_taps(const sampling *s, tap taps[SPATIAL][4], int count, int d, situ_tensor *index,
                                situ_tensor *inside, situ_tensor *weight) {
  if (d == SPATIAL || d == s->spatial) {
    index = situ_expand(index, SITU_SHAPE(s->batch, s->channels, s->points));
    situ_tensor *value = situ_gather(s->image, 2, index);
    if (inside)
      value = situ_where(inside, value,
                         situ_zeros(SITU_SCALAR, &(situ_options){ .dtype = situ_dtype_of(s->image),
                                                                  .device = situ_device_of(s->image) }));
    return weight ? situ_mul(value, weight) : value;
  }
  situ_tensor *sum = NULL;
  for (int k = 0; k < count; k++) {
    situ_tensor *at = situ_detach(taps[d][k].at), *w = taps[d][k].weight;
    const double last = (double)(s->size[d] - 1);
    situ_tensor *in = situ_logical_and(situ_ge_scalar(at, 0), situ_le_scalar(at, last));
    situ_tensor *i = situ_mul_scalar(situ_to_dtype(situ_clamp(at, 0, last), SITU_I64), (double)s->step[d]);
    situ_tensor *part = sum_of_taps(s, taps, count, d + 1, index ? situ_add(index, i) : i,
                                    inside ? situ_logical_and(inside, in) : in, w && weight ? situ_mul(weight, w) : w);
    sum = sum ? situ_add(sum, part) : part;
    if (!sum) return NULL;
  }
  return sum;
}

/* Keys's kernel with a = -0.75, for a distance of the fraction t to the four pixels around. */
static situ_tensor *cubic(situ_tensor *t, int k) {
  const double a = -0.75;
  situ_tensor *x = k == 0   ? situ_add_scalar(t, 1)
                   : k == 1 ? t
                   : k == 2 ? situ_rsub_scalar(t, 1)
                            : situ_rsub_scalar(t, 2);
  if (k == 1 || k == 2)
    return situ_add_scalar(situ_mul(situ_mul(situ_add_scalar(situ_mul_scalar(x, a + 2), -(a + 3)), x), x), 1);
  situ_tensor *y = situ_add_scalar(situ_mul_scalar(x, a), -5 * a);
  return situ_add_scalar(situ_mul(situ_add_scalar(situ_mul(y, x), 8 * a), x), -4 * a);
}

/* 1, whose gradient for the places is 0, as torch's is, instead of none. */
static situ_tensor *constant_weight(situ_tensor *at) {
  if (!situ_requires_grad(at)) return NULL;
  situ_tensor *some = situ_where(situ_isnan(at), situ_zeros_like(at, NULL), situ_clamp(at, -1, 1));
  return situ_add_scalar(situ_mul_scalar(some, 0), 1);
}

static int taps_of(const sampling *s, situ_grid_mode mode, int d, situ_tensor *at, tap taps[4]) {
  if (mode == SITU_GRID_NEAREST) {
    at = padded(s, d, at);
    taps[0] = (tap){ situ_round(at), constant_weight(at) };
    return 1;
  }
  if (mode == SITU_GRID_BILINEAR) {
    at = padded(s, d, at);
    situ_tensor *low = situ_detach(situ_floor(at)), *t = situ_sub(at, low);
    taps[0] = (tap){ low, situ_rsub_scalar(t, 1) };
    taps[1] = (tap){ situ_add_scalar(low, 1), t };
    return 2;
  }
  situ_tensor *low = situ_detach(situ_floor(at)), *t = situ_sub(at, low);
  for (int k = 0; k < 4; k++) taps[k] = (tap){ padded(s, d, situ_add_scalar(low, k - 1)), cubic(t, k) };
  return 4;
}

/* ---- the functions ---- */

static sampling sampling_of(situ_tensor *image, int64_t points) {
  const int64_t *size = image->view.size;
  sampling s = { .batch = size[0], .channels = size[1], .spatial = image->view.ndim - 2, .points = points };
  int64_t pixels = 1;
  for (int d = s.spatial - 1; d >= 0; d--) s.size[d] = size[2 + d], s.step[d] = pixels, pixels *= size[2 + d];
  s.image = situ_reshape(image, SITU_SHAPE(s.batch, s.channels, pixels));
  return s;
}

situ_tensor *situ__sample_pixels(situ_tensor *image, situ_tensor *const at[2]) {
  const sampling s = sampling_of(image, situ_size(at[0], -1));
  tap taps[SPATIAL][4];
  for (int d = 0; d < 2; d++) taps_of(&s, SITU_GRID_BILINEAR, d, at[d], taps[d]);
  return sum_of_taps(&s, taps, 2, 0, NULL, NULL, NULL);
}

/* in: input and grid; autocast may replace them. */
static bool check(situ_tensor *in[2], const situ_grid_sample_options *o) {
  enum { FLOAT = SITU_FLOATING | SITU_SAME };
  static const situ_op schema = { .name = "grid_sample",
                                  .operand = { { "input", FLOAT }, { "grid", FLOAT } },
                                  .autocast = { SITU_CAST_F32, SITU_CAST_WIDEST } };
  if (!situ__autocast(&schema, in, 2) || !situ__together(&schema, in, 2)) return false;
  const situ_shape a = situ__shape(&in[0]->view), b = situ__shape(&in[1]->view);
  bool good =
      (a.ndim == 4 || a.ndim == 5) && b.ndim == a.ndim && b.dim[0] == a.dim[0] && b.dim[b.ndim - 1] == a.ndim - 2;
  for (int d = 2; good && d < a.ndim; d++) good = a.dim[d] > 0;
  if (!good) {
    char text[2][SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, "grid_sample",
                      "input is %s, grid is %s, must be [N, C, H, W] and [N, H', W', 2], or [N, C, D, H, W] and "
                      "[N, D', H', W', 3]",
                      situ_shape_text(&a, text[0]), situ_shape_text(&b, text[1])),
           false;
  }
  if ((unsigned)o->mode <= SITU_GRID_BICUBIC && (unsigned)o->padding_mode <= SITU_GRID_REFLECTION &&
      !(o->mode == SITU_GRID_BICUBIC && a.ndim == 5))
    return true;
  return situ__fail(SITU_E_ARG, "grid_sample",
                    "mode %d with padding mode %d in %d dimensions: bicubic has 2, others do not exist", (int)o->mode,
                    (int)o->padding_mode, a.ndim - 2),
         false;
}

situ_tensor *situ_grid_sample(situ_tensor *input, situ_tensor *grid, const situ_grid_sample_options *options) {
  SITU__MADE_OF_OPS("grid_sample");
  static const situ_grid_sample_options none;
  const situ_grid_sample_options *o = options ? options : &none;
  situ_tensor *in[] = { input, grid };
  if (!check(in, o)) return NULL;
  input = in[0], grid = in[1];
  const situ_dtype dtype = situ_dtype_of(input), wide = situ_dtype_size(dtype) == 2 ? SITU_F32 : dtype;
  if (!(input = situ_to_dtype(input, wide)) || !(grid = situ_to_dtype(grid, wide))) return NULL;
  sampling s = sampling_of(input, 1);
  s.padding = o->padding_mode, s.align = o->align_corners;
  situ_shape shape = SITU_SHAPE(s.batch, s.channels);
  for (int d = 0; d < s.spatial; d++) s.points *= shape.dim[shape.ndim++] = grid->view.size[1 + d];
  tap taps[SPATIAL][4];
  int count = 0;
  for (int d = 0; d < s.spatial; d++) count = taps_of(&s, o->mode, d, place(&s, d, grid), taps[d]);
  return situ_to_dtype(situ_reshape(sum_of_taps(&s, taps, count, 0, NULL, NULL, NULL), shape), dtype);
}

/* -1 to 1: the centres of `count` pixels, or between their edges. */
static situ_tensor *axis(int64_t count, bool align, const situ_options *here) {
  if (count == 1) return situ_zeros(SITU_SHAPE(1), here);
  situ_tensor *line = situ_linspace(-1, 1, count, here);
  return align ? line : situ_mul_scalar(line, (double)(count - 1) / (double)count);
}

situ_tensor *situ_affine_grid(situ_tensor *theta, situ_shape size, bool align_corners) {
  SITU__MADE_OF_OPS("affine_grid");
  static const situ_op schema = { .name = "affine_grid", .operand = { { "theta", SITU_FLOATING } } };
  if (!situ__together(&schema, &theta, 1)) return NULL;
  const int spatial = size.ndim == 4 ? 2 : 3;
  const int64_t *given = theta->view.size;
  bool good = size.ndim == spatial + 2 && theta->view.ndim == 3 && given[0] == size.dim[0] && given[1] == spatial &&
              given[2] == spatial + 1;
  for (int d = 0; good && d < size.ndim; d++) good = size.dim[d] > 0;
  if (!good) {
    const situ_shape shape = situ__shape(&theta->view);
    char text[2][SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, "affine_grid",
                      "theta is %s, size %s: must be [N, 2, 3] for [N, C, H, W], [N, 3, 4] for "
                      "[N, C, D, H, W]",
                      situ_shape_text(&shape, text[0]), situ_shape_text(&size, text[1])),
           NULL;
  }
  const situ_options here = { .dtype = situ_dtype_of(theta), .device = situ_device_of(theta) };
  situ_shape plane = { .ndim = spatial };
  int64_t points = 1;
  for (int d = 0; d < spatial; d++)
    if (!situ__mul_i64(points, plane.dim[d] = size.dim[2 + d], &points))
      return situ__fail(SITU_E_OVERFLOW, "affine_grid", "more than 2^63 points"), NULL;
  situ_tensor *part[SPATIAL + 1];
  for (int k = 0; k < spatial; k++) { /* x, y, z: the last dimension first */
    situ_shape line = plane;
    for (int d = 0; d < spatial; d++) line.dim[d] = d == spatial - 1 - k ? plane.dim[d] : 1;
    part[k] = situ_expand(situ_reshape(axis(size.dim[1 + spatial - k], align_corners, &here), line), plane);
    if (!part[k]) return NULL;
  }
  part[spatial] = situ_ones(plane, &here);
  situ_tensor *base = situ_reshape(situ_stack(part, spatial + 1, -1), SITU_SHAPE(points, spatial + 1));
  situ_tensor *grid = situ_matmul(base, situ_transpose(theta, 1, 2));
  situ_shape shape = { .ndim = size.ndim, .dim = { size.dim[0] } };
  for (int d = 0; d < spatial; d++) shape.dim[1 + d] = plane.dim[d];
  shape.dim[1 + spatial] = spatial;
  return situ_reshape(grid, shape);
}
