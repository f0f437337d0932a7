/* Pooling in one and three dimensions, made of pooling in two: the third dimension is pooled after the other two, as
   maxima and averages may be taken one dimension at a time.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

/* [N, C, ...] or [C, ...] with `spatial` sizes. */
static bool is_image(const char *op, const situ_tensor *x, int spatial) {
  if (!situ__need(op, "input", x)) return false;
  const int ndim = x->view.ndim;
  bool good = ndim == spatial + 1 || ndim == spatial + 2;
  for (int d = ndim - spatial - 1; good && d < ndim; d++) good = x->view.size[d] > 0;
  if (good) return true;
  const situ_shape shape = situ__shape(&x->view);
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "input is %s, must be %s without a 0 after N", situ_shape_text(&shape, text),
                    spatial == 1   ? "[N, C, L] or [C, L]"
                    : spatial == 2 ? "[N, C, H, W] or [C, H, W]"
                                   : "[N, C, D, H, W] or [C, D, H, W]"),
         false;
}

static bool has_entries(const char *op, const char *name, const situ_shape *list, int spatial, bool required) {
  if (list->ndim == 1 || list->ndim == spatial || (list->ndim == 0 && !required)) return true;
  return situ__fail(SITU_E_ARG, op, "%s has %d values, must have 1%s", name, list->ndim, spatial == 3 ? " or 3" : ""),
         false;
}
static bool good_options(const char *op, const situ_pool_options *o, int spatial) {
  return has_entries(op, "kernel", &o->kernel, spatial, true) &&
         has_entries(op, "stride", &o->stride, spatial, false) &&
         has_entries(op, "padding", &o->padding, spatial, false) &&
         has_entries(op, "dilation", &o->dilation, spatial, false);
}

/* The list for height and width `rest`, or for depth: first, and `other` across. */
static situ_shape rest_of(situ_shape list) { return list.ndim == 3 ? SITU_SHAPE(list.dim[1], list.dim[2]) : list; }
static situ_shape along(situ_shape list, int64_t other) { return list.ndim ? SITU_SHAPE(list.dim[0], other) : list; }
static situ_shape across(situ_shape list, int64_t other) { return list.ndim ? SITU_SHAPE(other, list.dim[0]) : list; }

/* ---- one dimension is two, of height 1 ---- */

static situ_pool_options as_rows(const situ_pool_options *o) {
  situ_pool_options rows = *o;
  rows.kernel = across(o->kernel, 1), rows.stride = across(o->stride, 1);
  rows.padding = across(o->padding, 0), rows.dilation = across(o->dilation, 1);
  return rows;
}

static const situ_pool_options none;

situ_tensor *situ_max_pool1d(situ_tensor *input, const situ_pool_options *options, situ_tensor **indices) {
  SITU__MADE_OF_OPS("max_pool1d");
  if (!options) options = &none;
  if (!is_image("max_pool1d", input, 1) || !good_options("max_pool1d", options, 1)) return NULL;
  const situ_pool_options rows = as_rows(options);
  situ_tensor *y = situ_squeeze(situ_max_pool2d(situ_unsqueeze(input, -2), &rows, indices), SITU_DIMS(-2));
  return y && indices && !(*indices = situ_squeeze(*indices, SITU_DIMS(-2))) ? NULL : y;
}

situ_tensor *situ_avg_pool1d(situ_tensor *input, const situ_pool_options *options) {
  SITU__MADE_OF_OPS("avg_pool1d");
  if (!options) options = &none;
  if (!is_image("avg_pool1d", input, 1) || !good_options("avg_pool1d", options, 1)) return NULL;
  if (options->divisor_override)
    return situ__fail(SITU_E_ARG, "avg_pool1d", "divisor_override is given: only avg_pool2d and avg_pool3d have it"),
           NULL;
  const situ_pool_options rows = as_rows(options);
  return situ_squeeze(situ_avg_pool2d(situ_unsqueeze(input, -2), &rows), SITU_DIMS(-2));
}

situ_tensor *situ_adaptive_avg_pool1d(situ_tensor *input, int64_t output_size) {
  SITU__MADE_OF_OPS("adaptive_avg_pool1d");
  if (!is_image("adaptive_avg_pool1d", input, 1)) return NULL;
  return situ_squeeze(situ_adaptive_avg_pool2d(situ_unsqueeze(input, -2), SITU_SHAPE(1, output_size)), SITU_DIMS(-2));
}

/* ---- three dimensions: planes, then depth ---- */

/* x [.., D, H, W] as planes [L, D, H, W], and the planes as lines of depth [L, 1, D, H W]. */
static int64_t leading(const situ_tensor *x) {
  return x->view.ndim == 5 ? x->view.size[0] * x->view.size[1] : x->view.size[0];
}
static situ_tensor *as_planes(situ_tensor *x) {
  if (!x) return NULL;
  const int64_t *size = x->view.size + x->view.ndim - 3;
  return situ_reshape(x, SITU_SHAPE(leading(x), size[0], size[1], size[2]));
}
static situ_tensor *as_depths(situ_tensor *x) {
  return x ? situ_reshape(x, SITU_SHAPE(x->view.size[0], 1, x->view.size[1], x->view.size[2] * x->view.size[3])) : NULL;
}
/* y [L, 1, D', H' W'] with the dimensions of x before depth, and the sizes of `planes` behind it. */
static situ_tensor *as_volume(situ_tensor *y, const situ_tensor *x, const situ_tensor *planes) {
  if (!y || !planes) return NULL;
  situ_shape shape = situ__shape(&x->view);
  shape.dim[shape.ndim - 3] = y->view.size[2];
  for (int d = 1; d <= 2; d++) shape.dim[shape.ndim - d] = planes->view.size[4 - d];
  return situ_reshape(y, shape);
}

static situ_pool_options of_planes(const situ_pool_options *o) {
  situ_pool_options planes = *o;
  planes.kernel = rest_of(o->kernel), planes.stride = rest_of(o->stride);
  planes.padding = rest_of(o->padding), planes.dilation = rest_of(o->dilation);
  return planes;
}
static situ_pool_options of_depths(const situ_pool_options *o) {
  situ_pool_options depths = *o;
  depths.kernel = along(o->kernel, 1), depths.stride = along(o->stride, 1);
  depths.padding = along(o->padding, 0), depths.dilation = along(o->dilation, 1);
  return depths;
}

/* Index in the volume: that of the plane's maximum, of the depth that won. */
static situ_tensor *volume_index(const situ_tensor *x, situ_tensor *in_plane, situ_tensor *in_depth) {
  if (!in_plane || !in_depth) return NULL;
  const int64_t *size = x->view.size + x->view.ndim - 3, lines = in_plane->view.size[0];
  situ_tensor *depth =
      situ_arange(0, (double)size[0], 1, &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(in_plane) });
  depth = situ_mul_scalar(situ_reshape(depth, SITU_SHAPE(size[0], 1, 1)), (double)(size[1] * size[2]));
  situ_tensor *all =
      situ_reshape(situ_add(in_plane, depth), SITU_SHAPE(lines, situ_numel(in_plane) / situ__max_i64(1, lines)));
  situ_tensor *picked =
      situ_gather(all, 1, situ_reshape(in_depth, SITU_SHAPE(lines, situ_numel(in_depth) / situ__max_i64(1, lines))));
  return situ_reshape(picked, situ__shape(&in_depth->view));
}

/* Autocast on the cpu casts to f32 what torch's lists there have: pooling in three dimensions, unpooling. */
static bool cast_to_f32(const char *op, situ_tensor **x) {
  const situ_op schema = { .name = op, .autocast = { SITU_CAST_F32 } };
  return situ__autocast(&schema, x, 1);
}

/* With indices torch calls another function, which its lists lack. */
situ_tensor *situ_max_pool3d(situ_tensor *input, const situ_pool_options *options, situ_tensor **indices) {
  SITU__MADE_OF_OPS("max_pool3d");
  if (!options) options = &none;
  if ((!indices && !cast_to_f32("max_pool3d", &input)) || !is_image("max_pool3d", input, 3) ||
      !good_options("max_pool3d", options, 3))
    return NULL;
  const situ_pool_options planes = of_planes(options), depths = of_depths(options);
  situ_tensor *in_plane = NULL, *in_depth = NULL;
  situ_tensor *flat = situ_max_pool2d(as_planes(input), &planes, indices ? &in_plane : NULL);
  situ_tensor *y = situ_max_pool2d(as_depths(flat), &depths, indices ? &in_depth : NULL);
  y = as_volume(y, input, flat);
  return y && indices && !(*indices = as_volume(volume_index(input, in_plane, in_depth), input, flat)) ? NULL : y;
}

/* Averages of averages are f32 inside for the 16-bit dtypes. */
static situ_tensor *wide(situ_tensor *x) {
  const situ_dtype dtype = (situ_dtype)x->view.dtype;
  return dtype == SITU_F16 || dtype == SITU_BF16 ? situ_to_dtype(x, SITU_F32) : x;
}

static bool floats(const char *op, situ_tensor *x) {
  const situ_op schema = { .name = op, .operand = { { "input", SITU_FLOATING } } };
  return situ__together(&schema, &x, 1);
}

situ_tensor *situ_avg_pool3d(situ_tensor *input, const situ_pool_options *options) {
  SITU__MADE_OF_OPS("avg_pool3d");
  if (!options) options = &none;
  if (!cast_to_f32("avg_pool3d", &input) || !floats("avg_pool3d", input) || !is_image("avg_pool3d", input, 3) ||
      !good_options("avg_pool3d", options, 3))
    return NULL;
  situ_pool_options planes = of_planes(options);
  const situ_pool_options depths = of_depths(options);
  if (planes.divisor_override) planes.divisor_override = 1; /* the second pass divides */
  situ_tensor *x = as_planes(wide(input)), *flat = x ? situ_avg_pool2d(x, &planes) : NULL;
  situ_tensor *y = as_volume(situ_avg_pool2d(as_depths(flat), &depths), input, flat);
  return situ_to_dtype(y, (situ_dtype)input->view.dtype);
}

/* No element of x, in the sizes of a result that has none: `spatial` sizes of output_size behind those of x. */
static situ_tensor *empty_of(situ_tensor *x, int spatial, situ_shape output_size) {
  situ_shape shape = situ__shape(&x->view);
  for (int d = 0; d < spatial; d++) {
    const int64_t size = output_size.dim[output_size.ndim == 1 ? 0 : d];
    if (size != SITU_KEEP_SIZE) shape.dim[shape.ndim - spatial + d] = size;
  }
  return situ_reshape(situ_narrow(x, -1, 0, 0), shape);
}
static bool has_zero(situ_shape sizes) {
  bool found = false;
  for (int d = 0; d < sizes.ndim; d++) found = found || sizes.dim[d] == 0;
  return found;
}

situ_tensor *situ_adaptive_avg_pool3d(situ_tensor *input, situ_shape output_size) {
  SITU__MADE_OF_OPS("adaptive_avg_pool3d");
  if (!cast_to_f32("adaptive_avg_pool3d", &input) || !floats("adaptive_avg_pool3d", input) ||
      !is_image("adaptive_avg_pool3d", input, 3) ||
      !has_entries("adaptive_avg_pool3d", "output_size", &output_size, 3, true))
    return NULL;
  if (has_zero(output_size)) return empty_of(input, 3, output_size);
  situ_tensor *x = as_planes(wide(input)), *flat = x ? situ_adaptive_avg_pool2d(x, rest_of(output_size)) : NULL;
  situ_tensor *y =
      as_volume(situ_adaptive_avg_pool2d(as_depths(flat), along(output_size, SITU_KEEP_SIZE)), input, flat);
  return situ_to_dtype(y, (situ_dtype)input->view.dtype);
}

/* ---- maxima of equal parts, one dimension at a time ---- */

/* For each of `parts` parts of a dimension the places in it, [parts, longest]; a shorter part repeats its last. */
static situ_tensor *places_of(int64_t size, int64_t parts, int64_t *longest, situ_device device) {
  const situ_options here = { .dtype = SITU_I64, .device = device };
  *longest = size / parts + (size % parts ? 2 : 0); /* at most */
  situ_tensor *part = situ_arange(0, (double)parts, 1, &here), *by = situ_full(SITU_SCALAR, (double)parts, &here);
  situ_tensor *first = situ_floor_divide(situ_mul_scalar(part, (double)size), by);
  situ_tensor *end = situ_add_scalar(situ_mul_scalar(situ_add_scalar(part, 1), (double)size), (double)(parts - 1));
  situ_tensor *last = situ_add_scalar(situ_floor_divide(end, by), -1);
  situ_tensor *place = situ_add(situ_unsqueeze(first, 1), situ_arange(0, (double)*longest, 1, &here));
  return situ_minimum(place, situ_unsqueeze(last, 1));
}

/* x [.., size, ..] as [.., parts, longest, ..] */
static situ_tensor *in_parts(situ_tensor *x, int dim, situ_tensor *places) {
  if (!x || !places) return NULL;
  const int64_t parts = places->view.size[0], longest = places->view.size[1];
  return situ_unflatten(situ_index_select(x, dim, situ_reshape(places, SITU_SHAPE(-1))), dim,
                        SITU_SHAPE(parts, longest));
}

/* The maxima of the parts along dim; *at, if it is not NULL, are the elements' indices in their plane, and becomes
   those of the maxima. */
static situ_tensor *max_of_parts(situ_tensor *x, int dim, int64_t parts, situ_tensor **at) {
  if (!x) return NULL;
  int64_t longest;
  situ_tensor *places = places_of(x->view.size[dim], parts, &longest, situ_device_of(x)), *which = NULL;
  situ_tensor *y = situ_max_dim(in_parts(x, dim, places), dim + 1, true, &which);
  if (y && *at) *at = situ_squeeze(situ_gather(in_parts(*at, dim, places), dim + 1, which), SITU_DIMS(dim + 1));
  return situ_squeeze(y, SITU_DIMS(dim + 1));
}

static situ_tensor *adaptive_max(const char *op, situ_tensor *x, int spatial, situ_shape sizes, situ_tensor **indices) {
  if ((spatial == 3 && !cast_to_f32(op, &x)) || !floats(op, x) || !is_image(op, x, spatial) ||
      !has_entries(op, "output_size", &sizes, spatial, true))
    return NULL;
  const int first = x->view.ndim - spatial;
  situ_shape shape = situ__shape(&x->view), plane = shape;
  int64_t numel = 1, out[3];
  for (int d = 0; d < spatial; d++) {
    numel *= shape.dim[first + d];
    out[d] = sizes.dim[sizes.ndim == 1 ? 0 : d];
    if (out[d] == SITU_KEEP_SIZE) out[d] = shape.dim[first + d];
    if (out[d] < 0 || out[d] > INT32_MAX)
      return situ__fail(SITU_E_ARG, op,
                        "output_size is %lld, must be 0 to 2^31 - 1; SITU_KEEP_SIZE is the input's size",
                        (long long)out[d]),
             NULL;
  }
  for (int d = 0; d < first; d++) plane.dim[d] = 1;
  situ_tensor *at = NULL;
  if (indices) {
    at = situ_arange(0, (double)numel, 1, &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(x) });
    if (!(at = situ_expand(situ_reshape(at, plane), shape))) return NULL;
  }
  if (has_zero(sizes)) {
    if (indices && !(*indices = empty_of(at, spatial, sizes))) return NULL;
    return empty_of(x, spatial, sizes);
  }
  situ_tensor *y = x;
  for (int d = spatial - 1; y && d >= 0; d--) y = max_of_parts(y, first + d, out[d], &at);
  if (y && indices && !(*indices = at)) return NULL;
  return y;
}

situ_tensor *situ_adaptive_max_pool1d(situ_tensor *input, int64_t output_size, situ_tensor **indices) {
  SITU__MADE_OF_OPS("adaptive_max_pool1d");
  return adaptive_max("adaptive_max_pool1d", input, 1, SITU_SHAPE(output_size), indices);
}
situ_tensor *situ_adaptive_max_pool2d(situ_tensor *input, situ_shape output_size, situ_tensor **indices) {
  SITU__MADE_OF_OPS("adaptive_max_pool2d");
  return adaptive_max("adaptive_max_pool2d", input, 2, output_size, indices);
}
situ_tensor *situ_adaptive_max_pool3d(situ_tensor *input, situ_shape output_size, situ_tensor **indices) {
  SITU__MADE_OF_OPS("adaptive_max_pool3d");
  return adaptive_max("adaptive_max_pool3d", input, 3, output_size, indices);
}

/* ---- power averages ---- */

static situ_tensor *power_average(situ_tensor *x, int spatial, double p, const situ_pool_options *o) {
  double area = 1;
  for (int d = 0; d < spatial; d++) area *= (double)o->kernel.dim[o->kernel.ndim == 1 ? 0 : d];
  situ_tensor *powers = situ_pow_scalar(x, p);
  situ_tensor *mean = spatial == 1   ? situ_avg_pool1d(powers, o)
                      : spatial == 2 ? situ_avg_pool2d(powers, o)
                                     : situ_avg_pool3d(powers, o);
  return situ_pow_scalar(situ_mul_scalar(situ_mul(situ_sign(mean), situ_relu(situ_abs(mean))), area), 1 / p);
}

#define LP_POOL(id, spatial)                                                                                   \
  situ_tensor *situ_##id(situ_tensor *input, double norm_type, situ_shape kernel_size, situ_shape stride,      \
                         bool ceil_mode) {                                                                     \
    SITU__MADE_OF_OPS(#id);                                                                                    \
    const situ_pool_options o = { .kernel = kernel_size, .stride = stride, .ceil_mode = ceil_mode };           \
    if (!floats(#id, input) || !is_image(#id, input, spatial) || !good_options(#id, &o, spatial)) return NULL; \
    return power_average(input, spatial, norm_type, &o);                                                       \
  }
LP_POOL(lp_pool1d, 1)
LP_POOL(lp_pool2d, 2)
LP_POOL(lp_pool3d, 3)

/* ---- the inverse of max pooling: values at their indices, 0 elsewhere ---- */

static situ_tensor *max_unpool(const char *op, situ_tensor *x, situ_tensor *indices, int spatial,
                               const situ_pool_options *o, situ_shape size) {
  const situ_op schema = { .name = op, .operand = { { "input", 0 }, { "indices", SITU_INDEX } } };
  if (!cast_to_f32(op, &x) || !situ__together(&schema, (situ_tensor *[]){ x, indices }, 2) ||
      !is_image(op, x, spatial) || !good_options(op, o, spatial))
    return NULL;
  const int first = x->view.ndim - spatial;
  situ_shape shape = situ__shape(&x->view), where = situ__shape(&indices->view);
  if (!situ_shape_equal(&shape, &where) || (size.ndim && size.ndim != spatial)) {
    char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, op,
                      "input is %s, indices are %s: both must have one shape, and output_size %d values",
                      situ_shape_text(&shape, a), situ_shape_text(&where, b), spatial),
           NULL;
  }
  int64_t lines = 1, from = 1, to = 1;
  for (int d = 0; d < first; d++) lines *= shape.dim[d];
  for (int d = 0; d < spatial; d++) {
    const int64_t kernel = o->kernel.dim[o->kernel.ndim == 1 ? 0 : d],
                  stride = o->stride.ndim ? o->stride.dim[o->stride.ndim == 1 ? 0 : d] : kernel,
                  padding = o->padding.ndim ? o->padding.dim[o->padding.ndim == 1 ? 0 : d] : 0;
    int64_t *out = &shape.dim[first + d];
    from *= *out;
    if (kernel < 1 || stride < 1)
      return situ__fail(SITU_E_ARG, op,
                        "kernel_size is %lld and stride %lld at spatial dimension %d: both must be positive",
                        (long long)kernel, (long long)stride, d),
             NULL;
    if (size.ndim) *out = size.dim[d];
    else if (!situ__mul_i64(*out - 1, stride, out) || !situ__add_i64(*out, kernel, out) || padding > INT32_MAX ||
             padding < 0 || !situ__sub_i64(*out, 2 * padding, out))
      *out = -1;
    if (*out < 1 || !situ__mul_i64(to, *out, &to))
      return situ__fail(SITU_E_ARG, op, "the result would have size %lld at spatial dimension %d", (long long)*out, d),
             NULL;
  }
  situ_tensor *y = situ_zeros(SITU_SHAPE(lines, to),
                              &(situ_options){ .dtype = (situ_dtype)x->view.dtype, .device = situ_device_of(x) });
  y = situ_scatter(y, 1, situ_reshape(indices, SITU_SHAPE(lines, from)), situ_reshape(x, SITU_SHAPE(lines, from)));
  return situ_reshape(y, shape);
}

#define MAX_UNPOOL(id, spatial)                                                                               \
  situ_tensor *situ_##id(situ_tensor *input, situ_tensor *indices, situ_shape kernel_size, situ_shape stride, \
                         situ_shape padding, situ_shape output_size) {                                        \
    SITU__MADE_OF_OPS(#id);                                                                                   \
    const situ_pool_options o = { .kernel = kernel_size, .stride = stride, .padding = padding };              \
    return max_unpool(#id, input, indices, spatial, &o, output_size);                                         \
  }
MAX_UNPOOL(max_unpool1d, 1)
MAX_UNPOOL(max_unpool2d, 2)
MAX_UNPOOL(max_unpool3d, 3)
