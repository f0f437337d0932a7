/* ONNX's resampling of images, regions, and transforms of signals.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "program/graph/program.h"

/* ---- Resize: along each dimension a sum of weighted elements ---- */

typedef struct resize {
  const char *coordinates, *nearest; /* coordinate_transformation_mode, nearest_mode */
  char mode;                         /* n, l, c */
  double cubic, outside;             /* cubic_coeff_a, extrapolation_value */
  bool exclude, antialias;
  int64_t in, out;
  double scale, start, end; /* start and end: of the region, 0 to 1 */
} resize;

/* The place in the input of element i of the result. */
static double place_of(const resize *r, int64_t i) {
  const char *mode = r->coordinates;
  const double x = (double)i, in = (double)r->in, length = (double)r->out;
  if (strcmp(mode, "asymmetric") == 0) return x / r->scale;
  if (strcmp(mode, "tf_half_pixel_for_nn") == 0) return (x + 0.5) / r->scale;
  if (strcmp(mode, "align_corners") == 0) return r->scale * in > 1 ? x * (in - 1) / (r->scale * in - 1) : 0;
  if (strcmp(mode, "pytorch_half_pixel") == 0) return r->out > 1 ? (x + 0.5) / r->scale - 0.5 : 0;
  if (strcmp(mode, "tf_crop_and_resize") == 0)
    return r->out > 1 ? r->start * (in - 1) + x * (r->end - r->start) * (in - 1) / (length - 1)
                      : 0.5 * (r->start + r->end) * (in - 1);
  if (strcmp(mode, "half_pixel_symmetric") == 0) {
    const double adjust = length / (r->scale * in), centre = in / 2;
    return centre * (1 - adjust) + (x + 0.5) / r->scale - 0.5;
  }
  return (x + 0.5) / r->scale - 0.5;
}

static double weight_at(const resize *r, double distance) {
  const double d = fabs(distance), a = r->cubic;
  if (r->mode == 'l') return d < 1 ? 1 - d : 0;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static int64_t nearest_to(const resize *r, double x) {
  const char *mode = r->nearest;
  if (strcmp(mode, "simple") == 0) mode = r->scale < 1 ? "ceil" : "floor";
  if (strcmp(mode, "floor") == 0) return (int64_t)floor(x);
  if (strcmp(mode, "ceil") == 0) return (int64_t)ceil(x);
  if (strcmp(mode, "round_prefer_ceil") == 0) return (int64_t)floor(x + 0.5);
  return (int64_t)ceil(x - 0.5);
}
static int64_t clamp_place(int64_t at, int64_t size) { return at < 0 ? 0 : at < size ? at : size - 1; }

/* Each tap reads the input once more; 2^26 weights and their places are 1 GiB. */
enum { MOST_TAPS = 4096, MOST_WEIGHTS = 1 << 26 };

/* What an element of the result is made of: at most `taps` elements of the input, each with its weight. */
typedef struct weights {
  int64_t taps;
  int64_t *place; /* [taps, out]; those without a weight are 0 */
  double *weight; /* they add up to 1 */
} weights;

/* The elements from which element i of the result is made, outside of the input too. */
static void find_reach(const resize *r, int64_t i, int64_t *first, int64_t *last) {
  const double x = place_of(r, i), stretch = r->antialias && r->scale < 1 ? r->scale : 1;
  const double reach = (r->mode == 'l' ? 1 : 2) / stretch; /* a wider kernel, of the elements that are there */
  *first = r->mode == 'n' ? nearest_to(r, x) : (int64_t)floor(x - reach);
  *last = r->mode == 'n' ? *first : (int64_t)ceil(x + reach);
}

/* Places beyond an edge count as the edge, unless they are excluded. */
static void fill_taps(const resize *r, int64_t i, const weights *out) {
  const double x = place_of(r, i), stretch = r->antialias && r->scale < 1 ? r->scale : 1;
  int64_t first, last, from;
  double sum = 0;
  find_reach(r, i, &first, &last);
  from = clamp_place(first, r->in);
  for (int pass = 0; pass < 2; pass++)
    for (int64_t k = first; k <= last; k++) {
      if (r->exclude && (k < 0 || k >= r->in)) continue;
      const double w = r->mode == 'n' ? 1 : weight_at(r, (x - (double)k) * stretch);
      const int64_t at = clamp_place(k, r->in), slot = (at - from) * r->out + i;
      if (pass == 0) sum += w;
      else if (sum != 0) out->weight[slot] += w / sum, out->place[slot] = at;
    }
}

/* A list on the host for x; on meta, where it is not filled, its shape. */
static situ_tensor *list_for(const situ_tensor *x, const void *list, size_t bytes, situ_dtype dtype, situ_shape shape) {
  const bool meta = situ_device_of(x).kind == SITU_META;
  const situ_options o = { .dtype = dtype, .device = { .kind = meta ? SITU_META : SITU_CPU } };
  return meta ? situ_empty(shape, &o) : situ_from_host(list, bytes, shape, &o);
}

/* sum and tap t. An element without a weight is left out, so that its NaN or infinity stays where it is. */
static situ_tensor *add_tap(situ_tensor *sum, situ_tensor *x, int d, const resize *r, const weights *of, int64_t t) {
  const situ_device there = situ_device_of(x);
  situ_shape along = { .ndim = situ_dim(x) };
  for (int k = 0; k < along.ndim; k++) along.dim[k] = k == d ? r->out : 1;
  const size_t at = (size_t)(t * r->out), count = (size_t)r->out;
  situ_tensor *place = list_for(x, of->place + at, count * sizeof *of->place, SITU_I64, SITU_SHAPE(r->out));
  situ_tensor *part = situ_index_select(x, d, situ_to(place, there));
  if (r->mode == 'n') return part;
  situ_tensor *weight = list_for(x, of->weight + at, count * sizeof *of->weight, SITU_F64, along);
  weight = situ_to(situ_to_dtype(weight, situ_dtype_of(x)), there);
  part = situ_where(situ_eq_scalar(weight, 0), situ_zeros_like(part, NULL), situ_mul(part, weight));
  return sum ? situ_add(sum, part) : part;
}

/* The sum over the taps. What a tap makes is released before the next one. */
static situ_tensor *add_taps(situ_tensor *x, int d, const resize *r, const weights *of) {
  situ_tensor *sum = NULL;
  for (int64_t t = 0; t < of->taps; t++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    if (!(sum = situ_scope_return(&scope, add_tap(sum, x, d, r, of, t)))) return NULL;
  }
  return sum;
}

/* The region's outside is a number. */
static situ_tensor *fill_outside(situ_tensor *y, int d, const resize *r) {
  situ_shape shape = { .ndim = situ_dim(y) };
  bool *inside = situ__calloc((size_t)r->out + 1, sizeof *inside);
  if (!inside) return situ__no_memory("Resize", (size_t)r->out), NULL;
  for (int k = 0; k < shape.ndim; k++) shape.dim[k] = k == d ? r->out : 1;
  for (int64_t i = 0; i < r->out && situ_device_of(y).kind != SITU_META; i++) {
    const double at = place_of(r, i);
    inside[i] = at >= 0 && at <= (double)(r->in - 1);
  }
  situ_tensor *mask = list_for(y, inside, (size_t)r->out, SITU_BOOL, shape);
  situ__free(inside);
  return situ_where(situ_to(mask, situ_device_of(y)), y, situ_full_like(y, r->outside, NULL));
}

/* x along dimension d. Weighted sums are computed in f32 at least, of whole numbers in f64. On meta one tap, which is
   not filled, gives the shape. */
static situ_tensor *resize_dim(situ_tensor *x, int d, const resize *r) {
  const situ_dtype dtype = situ_dtype_of(x);
  const bool weighted = r->mode != 'n', crops = strcmp(r->coordinates, "tf_crop_and_resize") == 0;
  weights of = { .taps = 1 };
  if (r->out < 1) return situ_narrow(x, d, 0, 0);
  if (weighted && dtype == SITU_I64)
    return situ__fail(SITU_E_UNSUPPORTED, "Resize",
                      "computes no weighted sums of i64: cast it to f32, or resize by mode nearest"),
           NULL;
  const int64_t filled = situ_device_of(x).kind == SITU_META ? 0 : r->out;
  for (int64_t i = 0; i < filled && r->out <= MOST_WEIGHTS; i++) {
    int64_t first, last;
    find_reach(r, i, &first, &last);
    of.taps = situ__max_i64(of.taps, clamp_place(last, r->in) - clamp_place(first, r->in) + 1);
  }
  if (of.taps > MOST_TAPS || r->out > MOST_WEIGHTS / of.taps)
    return situ__fail(SITU_E_LIMIT, "Resize",
                      "makes %lld elements of %lld by a kernel of %lld: it takes kernels of at most %d, and %d weights "
                      "in all; resize in steps",
                      (long long)r->out, (long long)r->in, (long long)of.taps, MOST_TAPS, MOST_WEIGHTS),
           NULL;
  const size_t elements = (size_t)(of.taps * filled) + 1;
  of.place = situ__calloc(elements, sizeof *of.place);
  of.weight = situ__calloc(elements, sizeof *of.weight);
  situ_tensor *y = NULL;
  if (of.place && of.weight) {
    for (int64_t i = 0; i < filled; i++) fill_taps(r, i, &of);
    const situ_dtype wide = !weighted                       ? dtype
                            : situ_dtype_is_floating(dtype) ? (dtype == SITU_F64 ? SITU_F64 : SITU_F32)
                                                            : SITU_F64;
    y = add_taps(situ_to_dtype(x, wide), d, r, &of);
    if (crops) y = fill_outside(y, d, r);
    /* 0.3 * 3 + 0.7 * 3 is less than 3 by a rounding, which the cast would make 2. */
    if (wide != dtype && wide == SITU_F64) y = situ_div_scalar(situ_round(situ_mul_scalar(y, 0x1p20)), 0x1p20);
    y = situ_to_dtype(y, dtype);
  } else {
    situ__no_memory("Resize", elements * sizeof *of.weight);
  }
  situ__free(of.place);
  situ__free(of.weight);
  return y;
}

/* Arguments: X, roi, scales, sizes, and the attributes. */
enum { ROI = 1, SCALES, SIZES, MODE, COORDINATES, NEAREST, CUBIC, OUTSIDE, EXCLUDE, ANTIALIAS, AXES, POLICY };

static const char *text_or(const situ__op_call *c, int k, const char *otherwise) {
  return situ__arg_given(c, k) ? situ__arg_text(c, k) : otherwise;
}

/* Sizes and scales of the axes; false after an error. */
static bool read_target(situ__op_call *c, const situ_shape *axes, const situ_shape *from, double *scale,
                        int64_t *size) {
  const int scales = situ__arg_host_numbers(c, SCALES, scale, SITU_MAX_DIMS);
  const int sizes = situ__arg_host_ints(c, SIZES, size, SITU_MAX_DIMS);
  const char *policy = text_or(c, POLICY, "stretch");
  if (scales < 0 || sizes < 0) return false;
  if ((scales != axes->ndim) == (sizes != axes->ndim))
    return situ__call_refuse(c, "needs a scale or a size for each axis, and not both");
  double best = 0;
  for (int i = 0; i < axes->ndim && sizes; i++) {
    const int64_t of = from->dim[axes->dim[i]];
    const double each = of || size[i] ? (double)size[i] / (double)of : 1; /* an empty dimension stays so */
    if (i == 0 || (strcmp(policy, "not_smaller") == 0 ? each > best : each < best)) best = each;
    scale[i] = each;
  }
  for (int i = 0; i < axes->ndim; i++) {
    const double of = (double)from->dim[axes->dim[i]];
    const bool stretched = sizes && strcmp(policy, "stretch") == 0;
    if (sizes && !stretched) scale[i] = best;
    if (!stretched) {
      const double exact = floor(sizes ? best * of + 0.5 : scale[i] * of);
      if (exact >= 0x1p62) return situ__call_refuse(c, "has a scale or a size that is too large");
      size[i] = exact >= 0 ? (int64_t)exact : -1;
    }
    if (of == 0 && size[i] == 0 && isfinite(scale[i])) scale[i] = 1;
    else if (!(scale[i] >= 0) || size[i] < 0 || of < 1) return situ__call_refuse(c, "has a scale or a size below 0");
  }
  return true;
}

/* situ_interpolate computes the usual kinds faster: those of the last two of four dimensions. */
static situ_tensor *interpolate(situ_tensor *x, const resize *r, const double *scale, const int64_t *size) {
  const bool half = strcmp(r->coordinates, "half_pixel") == 0 ||
                    (strcmp(r->coordinates, "pytorch_half_pixel") == 0 && size[2] > 1 && size[3] > 1);
  const bool corners = strcmp(r->coordinates, "align_corners") == 0;
  const bool simple = strcmp(r->nearest, "simple") == 0 && scale[2] >= 1 && scale[3] >= 1;
  const bool floors = strcmp(r->coordinates, "asymmetric") == 0 && (simple || strcmp(r->nearest, "floor") == 0);
  if (scale[0] != 1 || scale[1] != 1 || !situ_dtype_is_floating(situ_dtype_of(x))) return NULL;
  if (r->antialias || r->exclude || (r->mode == 'n' ? !floors : !half && !corners)) return NULL;
  if (r->mode == 'c' && r->cubic != -0.75) return NULL;
  if (!situ_numel(x) || size[2] < 1 || size[3] < 1) return NULL;
  for (int d = 2; d < 4; d++) /* by sizes situ computes the scale from them */
    if (fabs(scale[d] * (double)situ_size(x, d) - (double)size[d]) > 1e-6) return NULL;
  const situ_interpolate_options o = { .size = SITU_SHAPE(size[2], size[3]),
                                       .mode = r->mode == 'n'   ? SITU_INTERPOLATE_NEAREST
                                               : r->mode == 'l' ? SITU_INTERPOLATE_BILINEAR
                                                                : SITU_INTERPOLATE_BICUBIC,
                                       .align_corners = corners && r->mode != 'n' };
  return situ_interpolate(x, &o);
}

static situ_tensor *run_resize(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape from = situ_shape_of(x);
  situ_shape axes = situ__arg_dims(c, AXES);
  double scale[SITU_MAX_DIMS], roi[2 * SITU_MAX_DIMS];
  int64_t size[SITU_MAX_DIMS];
  resize r = { .coordinates = text_or(c, COORDINATES, "half_pixel"),
               .nearest = text_or(c, NEAREST, "round_prefer_floor"),
               .mode = *text_or(c, MODE, "nearest"),
               .cubic = situ__arg_number(c, CUBIC),
               .outside = situ__arg_number(c, OUTSIDE),
               .exclude = situ__arg_flag(c, EXCLUDE),
               .antialias = situ__arg_flag(c, ANTIALIAS) };
  if (!situ__arg_given(c, AXES))
    for (axes.ndim = 0; axes.ndim < from.ndim; axes.ndim++) axes.dim[axes.ndim] = axes.ndim;
  for (int i = 0; i < axes.ndim; i++) {
    if (axes.dim[i] < 0) axes.dim[i] += from.ndim;
    if (axes.dim[i] < 0 || axes.dim[i] >= from.ndim) return situ__call_refuse(c, "has an axis outside of its input");
  }
  if (!read_target(c, &axes, &from, scale, size)) return NULL;
  const bool crops = strcmp(r.coordinates, "tf_crop_and_resize") == 0;
  if (crops && situ__arg_host_numbers(c, ROI, roi, 2 * SITU_MAX_DIMS) != 2 * axes.ndim)
    return situ__call_refuse(c, "needs a region of two numbers for each axis");
  situ_tensor *fast = from.ndim == 4 && !situ__arg_given(c, AXES) && !crops ? interpolate(x, &r, scale, size) : NULL;
  if (fast) return fast;
  for (int i = 0; i < axes.ndim && x; i++) {
    const int d = (int)axes.dim[i];
    r.in = from.dim[d];
    r.out = size[i];
    r.scale = scale[i];
    r.start = crops ? roi[i] : 0;
    r.end = crops ? roi[i + axes.ndim] : 1;
    if (r.in != r.out || scale[i] != 1 || crops) x = resize_dim(x, d, &r);
  }
  return x;
}

/* Before opset 11: no region and no sizes, and coordinates of one kind. Arguments: X, scales, mode. */
static situ_tensor *run_upsample(situ__op_call *c) {
  situ__arg all[POLICY + 1] = { [SCALES] = c->arg[1], [MODE] = c->arg[2] };
  situ__op_call as = *c;
  all[0] = c->arg[0];
  all[COORDINATES] = (situ__arg){ .kind = SITU__ARG_TEXT, .text = "asymmetric" };
  all[NEAREST] = (situ__arg){ .kind = SITU__ARG_TEXT, .text = "simple" };
  as.arg = all;
  return run_resize(&as);
}

/* ---- sampling ---- */

static situ_tensor *run_grid_sample(situ__op_call *c) {
  const char *mode = text_or(c, 3, "linear"), *padding = text_or(c, 4, "zeros");
  const bool cubic = strstr(mode, "cubic") != NULL;
  const situ_grid_sample_options o = { .mode = *mode == 'n' ? SITU_GRID_NEAREST
                                               : cubic      ? SITU_GRID_BICUBIC
                                                            : SITU_GRID_BILINEAR,
                                       .padding_mode = *padding == 'z'   ? SITU_GRID_ZEROS
                                                       : *padding == 'b' ? SITU_GRID_BORDER
                                                                         : SITU_GRID_REFLECTION,
                                       .align_corners = situ__arg_flag(c, 2) };
  return situ_grid_sample(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), &o);
}
static situ_tensor *run_affine_grid(situ__op_call *c) {
  situ_shape size;
  size.ndim = situ__arg_host_ints(c, 1, size.dim, SITU_MAX_DIMS);
  return size.ndim < 0 ? NULL : situ_affine_grid(situ__arg_tensor(c, 0), size, situ__arg_flag(c, 2));
}
/* Arguments: X, rois, batch_indices, coordinate_transformation_mode, mode, output_height, output_width,
   sampling_ratio, spatial_scale. */
static const char *roi_lacks(const situ__op_call *c) { return *text_or(c, 4, "avg") != 'a' ? "takes maxima" : NULL; }
static situ_tensor *run_roi_align(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *rois = situ__arg_tensor(c, 1);
  situ_tensor *image = situ_unsqueeze(situ_to_dtype(situ__arg_tensor(c, 2), situ_dtype_of(rois)), 1);
  const bool aligned = strcmp(text_or(c, 3, "half_pixel"), "half_pixel") == 0;
  return situ_roi_align(x, situ_cat((situ_tensor *[]){ image, rois }, 2, 1),
                        SITU_SHAPE(situ__arg_int(c, 5), situ__arg_int(c, 6)), situ__arg_number(c, 8),
                        situ__arg_int(c, 7), aligned);
}

/* ---- signals: complex numbers are pairs in the last dimension, real ones alone in it ---- */

/* Arguments: input, dft_length, axis, inverse, onesided. */
static situ_tensor *run_dft(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  int64_t length = 0, along = c->node->row->since >= 20 ? -2 : 1;
  const bool inverse = situ__arg_flag(c, 3), one_sided = situ__arg_flag(c, 4);
  if (situ__arg_host_ints(c, 1, &length, 1) < 0 || situ__arg_host_ints(c, 2, &along, 1) < 0) return NULL;
  const int dims = situ_dim(x), axis = situ__dim_of(along, dims);
  if (dims < 2 || axis < 0 || axis >= dims - 1) return situ__call_refuse(c, "has an axis outside of its input");
  const situ_fft_options o = { .n = length, .dim = SITU_SHAPE(axis) };
  const bool real = situ_size(x, -1) == 1;
  if (inverse && one_sided) return situ_unsqueeze(situ_fft_irfft(x, &o), -1);
  if (real && one_sided) return situ_fft_rfft(situ_squeeze(x, SITU_SHAPE(-1)), &o);
  if (real) x = situ_pad(x, SITU_SHAPE(0, 1), SITU_PAD_CONSTANT, 0);
  situ_tensor *y = inverse ? situ_fft_ifft(x, &o) : situ_fft_fft(x, &o);
  const int64_t size = length ? length : situ_size(x, axis);
  return one_sided ? situ_narrow(y, axis, 0, size / 2 + 1) : y;
}
/* Arguments: signal, frame_step, window, frame_length, onesided. */
static situ_tensor *run_stft(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *window = situ__arg_tensor(c, 2);
  int64_t hop = 0, length = window ? situ_numel(window) : 0;
  if (situ__arg_host_ints(c, 1, &hop, 1) < 0 || situ__arg_host_ints(c, 3, &length, 1) < 0) return NULL;
  if (situ_dim(x) != 3 || situ_size(x, -1) != 1) return situ__call_refuse(c, "needs a real signal [N, length, 1]");
  const situ_stft_options o = { .hop_length = hop,
                                .win_length = window ? situ_numel(window) : 0,
                                .no_center = true,
                                .two_sided = !situ__arg_flag(c, 4) };
  return situ_transpose(situ_stft(situ_squeeze(x, SITU_SHAPE(-1)), window, length, &o), 1, 2);
}

static const situ__op_row rows[] = {
  { "Resize",
    "t X, h? roi, h? scales, h? sizes, s? mode(nearest|linear|cubic), "
    "s? coordinate_transformation_mode(half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|"
    "asymmetric|tf_crop_and_resize|tf_half_pixel_for_nn), "
    "s? nearest_mode(round_prefer_floor|round_prefer_ceil|floor|ceil), "
    "n cubic_coeff_a=-0.75, n extrapolation_value=0, i exclude_outside=0, i antialias=0, I? axes, "
    "s? keep_aspect_ratio_policy(stretch|not_larger|not_smaller)",
    .inputs = 4, .since = 11, .run = run_resize },
  { "Resize", "t X, h scales, s? mode(nearest|linear)", .inputs = 2, .run = run_upsample },
  { "Upsample", "t X, h scales, s? mode(nearest|linear)", .inputs = 2, .run = run_upsample },
  { "GridSample",
    "t X, t grid, i align_corners=0, s? mode(linear|nearest|cubic|bilinear|bicubic), "
    "s? padding_mode(zeros|border|reflection)",
    .inputs = 2, .run = run_grid_sample },
  { "AffineGrid", "t theta, h size, i align_corners=0", .inputs = 2, .run = run_affine_grid },
  { "RoiAlign",
    "t X, t rois, t batch_indices, s? coordinate_transformation_mode(half_pixel|output_half_pixel), "
    "s? mode(avg|max), i output_height=1, i output_width=1, i sampling_ratio=0, n spatial_scale=1",
    .inputs = 3, .lacks = roi_lacks, .run = run_roi_align },
  { "DFT", "t input, h? dft_length, h? axis, i inverse=0, i onesided=0", .inputs = 2, .run = run_dft },
  { "DFT", "t input, h? dft_length, h? axis, i inverse=0, i onesided=0", .inputs = 3, .since = 20, .run = run_dft },
  { "STFT", "t signal, h frame_step, t? window, h? frame_length, i onesided=1", .inputs = 4, .run = run_stft },
};
const situ__op_family situ__onnx_image_family = { rows, sizeof rows / sizeof *rows };
