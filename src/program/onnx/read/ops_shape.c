/* ONNX's views, joins and rearrangements, and the sizes of tensors.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "program/graph/program.h"

/* ---- sizes ---- */

static situ_tensor *give_ints(situ__op_call *c, const int64_t *list, int count, bool scalar) {
  const situ_options o = situ__call_options(c, SITU_I64);
  const situ_shape shape = scalar ? SITU_SCALAR : SITU_SHAPE(count);
  return c->dry ? situ_empty(shape, &o) : situ_from_host(list, (size_t)count * sizeof *list, shape, &o);
}
static int64_t clamp_index(int64_t at, int64_t size) {
  if (at < 0) at += size;
  return situ__max_i64(0, situ__min_i64(at, size));
}
static situ_tensor *run_shape(situ__op_call *c) {
  const situ_shape shape = situ_shape_of(situ__arg_tensor(c, 0));
  const int64_t start = clamp_index(situ__arg_int(c, 1), shape.ndim);
  const int64_t end = situ__arg_given(c, 2) ? clamp_index(situ__arg_int(c, 2), shape.ndim) : shape.ndim;
  return give_ints(c, shape.dim + start, (int)situ__max_i64(0, end - start), false);
}
static situ_tensor *run_size(situ__op_call *c) {
  const int64_t numel = situ_numel(situ__arg_tensor(c, 0));
  return give_ints(c, &numel, 1, true);
}

/* ---- views ---- */

/* The values of a list of sizes or dimensions; ndim -1 after an error. */
static situ_shape read_dims(situ__op_call *c, int k) {
  situ_shape dims;
  dims.ndim = situ__arg_host_ints(c, k, dims.dim, SITU_MAX_DIMS);
  return dims;
}

/* A size 0 is the input's, unless allowzero says that it is 0. */
static situ_tensor *run_reshape(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape from = situ_shape_of(x);
  situ_shape to = read_dims(c, 1);
  if (to.ndim < 0) return NULL;
  for (int d = 0; d < to.ndim && !situ__arg_flag(c, 2); d++)
    if (to.dim[d] == 0 && d < from.ndim) to.dim[d] = from.dim[d];
  return situ_reshape(x, to);
}
static situ_tensor *run_flatten(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape from = situ_shape_of(x);
  const int at = situ__arg_dim_of(c, 1, from.ndim);
  situ_shape to = SITU_SHAPE(1, 1);
  if (at < 0 || at > from.ndim) return situ__call_refuse(c, "has an axis outside of its input");
  for (int d = 0; d < from.ndim; d++) to.dim[d >= at] *= from.dim[d];
  return situ_reshape(x, to);
}
static situ_tensor *run_transpose(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_shape dims = situ__arg_dims(c, 1);
  if (!situ__arg_given(c, 1))
    for (dims.ndim = 0; dims.ndim < situ_dim(x); dims.ndim++) dims.dim[dims.ndim] = situ_dim(x) - 1 - dims.ndim;
  return situ_permute(x, dims);
}
static situ_tensor *run_squeeze(situ__op_call *c) {
  const situ_shape dims = read_dims(c, 1);
  if (dims.ndim < 0) return NULL;
  if (situ__arg_given(c, 1) && dims.ndim == 0) return situ__arg_tensor(c, 0);
  return situ_squeeze(situ__arg_tensor(c, 0), dims);
}
/* Dimensions count in the result. */
static situ_tensor *run_unsqueeze(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape from = situ_shape_of(x), dims = read_dims(c, 1);
  situ_shape to = { .ndim = from.ndim + dims.ndim };
  if (dims.ndim < 0) return NULL;
  if (to.ndim > SITU_MAX_DIMS) return situ__call_refuse(c, "gives more than 8 dimensions");
  for (int d = 0; d < to.ndim; d++) to.dim[d] = -1;
  for (int i = 0; i < dims.ndim; i++) {
    const int d = situ__dim_of(dims.dim[i], to.ndim);
    if (d < 0 || d >= to.ndim || to.dim[d] == 1) return situ__call_refuse(c, "has axes that are outside, or equal");
    to.dim[d] = 1;
  }
  for (int d = 0, at = 0; d < to.ndim; d++)
    if (to.dim[d] < 0) to.dim[d] = from.dim[at++];
  return situ_reshape(x, to);
}
/* Both shapes broadcast to each other. */
static situ_tensor *run_expand(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape from = situ_shape_of(x);
  situ_shape to = read_dims(c, 1);
  if (to.ndim < 0) return NULL;
  const int more = from.ndim - to.ndim;
  if (more > 0) {
    memmove(to.dim + more, to.dim, (size_t)to.ndim * sizeof *to.dim);
    for (int d = 0; d < more; d++) to.dim[d] = 1;
    to.ndim = from.ndim;
  }
  for (int d = 0; d < from.ndim; d++) {
    int64_t *size = &to.dim[to.ndim - from.ndim + d];
    if (*size == 1) *size = from.dim[d];
  }
  return situ_expand(x, to);
}

/* As Python's slices: bounds are cut to the dimension; a negative step goes backwards. */
static situ_tensor *slice(situ_tensor *x, int dim, int64_t start, int64_t end, int64_t step) {
  const int64_t size = situ_size(x, dim);
  if (size < 0) return NULL;
  if (step > 0) return situ_slice(x, dim, clamp_index(start, size), clamp_index(end, size), step);
  if (start < 0) start += size;
  if (end < 0) end += end < -size ? 0 : size;
  start = situ__max_i64(-1, situ__min_i64(start, size - 1));
  end = situ__max_i64(-1, situ__min_i64(end, size - 1));
  return situ_slice(situ_flip(x, SITU_SHAPE(dim)), dim, size - 1 - start, size - 1 - end, -step);
}
static situ_tensor *run_slice(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape starts = read_dims(c, 1), ends = read_dims(c, 2);
  situ_shape axes = read_dims(c, 3), steps = read_dims(c, 4);
  if (starts.ndim < 0 || ends.ndim < 0 || axes.ndim < 0 || steps.ndim < 0) return NULL;
  for (int i = 0; i < starts.ndim; i++) {
    if (!situ__arg_given(c, 3)) axes.dim[axes.ndim++] = i;
    if (!situ__arg_given(c, 4)) steps.dim[steps.ndim++] = 1;
  }
  if (ends.ndim != starts.ndim || axes.ndim != starts.ndim || steps.ndim != starts.ndim)
    return situ__call_refuse(c, "has starts, ends, axes and steps of different numbers");
  for (int i = 0; i < starts.ndim && x; i++) {
    if (steps.dim[i] == 0 || steps.dim[i] == INT64_MIN)
      return situ__call_refuse(c, "has a step that is 0, or too large");
    x = slice(x, situ__as_dim(axes.dim[i]), starts.dim[i], ends.dim[i], steps.dim[i]);
  }
  return x;
}

/* ---- joins and pieces ---- */

static situ_tensor *run_concat(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  return situ_cat(list, count, situ__arg_dim(c, 1));
}

static const char *split_lacks(const situ__op_call *c) {
  const bool other = situ__arg_given(c, 3) && situ__arg_int(c, 3) != c->node->outs;
  return other ? "has another num_outputs than results" : NULL;
}
static situ_tensor *run_split(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int dim = situ__arg_dim(c, 2), pieces = c->node->outs;
  const int64_t size = situ_size(x, dim), each = pieces ? situ__ceil_div(situ__max_i64(size, 0), pieces) : 0;
  int count = pieces;
  int64_t *sizes = situ__arg_given(c, 1) ? situ__arg_host_list(c, 1, &count) : situ__call_take(c, count, sizeof *sizes);
  if (size < 0 || !sizes) return NULL;
  for (int i = 0; i < pieces && !situ__arg_given(c, 1); i++)
    sizes[i] = situ__max_i64(situ__min_i64(each, size - i * each), 0);
  return situ__call_split(c, x, dim, sizes, count);
}

/* ---- copies ---- */

static situ_tensor *run_tile(situ__op_call *c) {
  const situ_shape repeats = read_dims(c, 1);
  return repeats.ndim < 0 ? NULL : situ_tile(situ__arg_tensor(c, 0), repeats);
}

/* Pads dimension by dimension where they are more than situ_pad takes. */
static situ_tensor *pad_dims(situ_tensor *x, const int64_t *before, const int64_t *after, situ_pad_mode mode,
                             double value) {
  const int dims = situ_dim(x);
  int first = 0;
  while (first < dims && before[first] == 0 && after[first] == 0) first++;
  if (first == dims) return x;
  situ_shape pad = { .ndim = 0 };
  for (int d = dims - 1; d >= first && pad.ndim + 1 < SITU_MAX_DIMS; d--) {
    pad.dim[pad.ndim++] = before[d];
    pad.dim[pad.ndim++] = after[d];
  }
  const int rest = dims - pad.ndim / 2; /* dimensions before those */
  x = situ_pad(x, pad, mode, value);
  for (int d = first; d < rest && x; d++) {
    situ_tensor *turned = situ_movedim(x, SITU_SHAPE(d), SITU_SHAPE(-1));
    x = situ_movedim(situ_pad(turned, SITU_SHAPE(before[d], after[d]), mode, value), SITU_SHAPE(-1), SITU_SHAPE(d));
  }
  return x;
}
static const char *const pad_modes[] = { "constant", "reflect", "edge", "wrap" };
static int find_pad_mode(const situ__op_call *c) {
  const char *mode = situ__arg_given(c, 4) ? situ__arg_text(c, 4) : pad_modes[0];
  int k = 0;
  while (k < 3 && strcmp(mode, pad_modes[k]) != 0) k++;
  return k;
}
/* Padding with a whole number that a double does not hold. */
static situ_tensor *pad_exactly(situ_tensor *x, const int64_t *before, const int64_t *after, int64_t value) {
  const situ_options integer = { .dtype = SITU_I64, .device = situ_device_of(x) };
  situ_tensor *inside = situ_ones_like(x, &(situ_options){ .dtype = SITU_BOOL });
  inside = pad_dims(inside, before, after, SITU_PAD_CONSTANT, 0);
  return situ_where(inside, pad_dims(x, before, after, SITU_PAD_CONSTANT, 0),
                    situ_from_host(&value, sizeof value, SITU_SCALAR, &integer));
}
static situ_tensor *run_pad(situ__op_call *c) {
  int64_t pads[2 * SITU_MAX_DIMS], before[SITU_MAX_DIMS] = { 0 }, after[SITU_MAX_DIMS] = { 0 };
  double value = 0;
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int dims = situ_dim(x), count = situ__arg_host_ints(c, 1, pads, 2 * SITU_MAX_DIMS);
  situ_shape axes = read_dims(c, 3);
  if (count < 0 || axes.ndim < 0 || situ__arg_host_numbers(c, 2, &value, 1) < 0) return NULL;
  if (!situ__arg_given(c, 3))
    for (axes.ndim = 0; axes.ndim < dims; axes.ndim++) axes.dim[axes.ndim] = axes.ndim;
  if (count != 2 * axes.ndim) return situ__call_refuse(c, "has another number of pads than two for each axis");
  for (int i = 0; i < axes.ndim; i++) {
    const int d = situ__dim_of(axes.dim[i], dims);
    if (d < 0 || d >= dims) return situ__call_refuse(c, "has an axis outside of its input");
    before[d] = pads[i];
    after[d] = pads[i + axes.ndim];
  }
  const situ_pad_mode mode = (situ_pad_mode)find_pad_mode(c);
  if (mode == SITU_PAD_CONSTANT && situ_dtype_of(x) == SITU_I64 && fabs(value) >= 0x1p53) {
    int64_t integer = 0;
    if (situ__arg_host_ints(c, 2, &integer, 1) < 0) return NULL;
    return pad_exactly(x, before, after, integer);
  }
  return pad_dims(x, before, after, mode, value);
}

/* Cut or padded evenly; of an odd number the larger part is at the end when padding, and at the start is less when
   cutting. */
static situ_tensor *run_center_crop_pad(situ__op_call *c) {
  int64_t before[SITU_MAX_DIMS] = { 0 }, after[SITU_MAX_DIMS] = { 0 };
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape size = read_dims(c, 1), from = situ_shape_of(x);
  situ_shape axes = situ__arg_dims(c, 2);
  if (size.ndim < 0) return NULL;
  if (!situ__arg_given(c, 2))
    for (axes.ndim = 0; axes.ndim < from.ndim; axes.ndim++) axes.dim[axes.ndim] = axes.ndim;
  if (size.ndim != axes.ndim) return situ__call_refuse(c, "has another number of sizes than of axes");
  for (int i = 0; i < axes.ndim; i++) {
    const int d = situ__dim_of(axes.dim[i], from.ndim);
    if (d < 0 || d >= from.ndim) return situ__call_refuse(c, "has an axis outside of its input");
    if (size.dim[i] < 0) return situ__call_refuse(c, "has a size below 0");
    const int64_t more = size.dim[i] - from.dim[d];
    before[d] = more < 0 ? -(-more / 2) : more / 2;
    after[d] = more - before[d];
  }
  return pad_dims(x, before, after, SITU_PAD_CONSTANT, 0);
}

/* Blocks of b x b: the channel is [b, b, C] (DCR) or [C, b, b] (CRD). */
static situ_tensor *run_depth_to_space(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape s = situ_shape_of(x);
  const int64_t b = situ__arg_int(c, 1);
  if (*situ__arg_text(c, 2) == 'C') return situ_pixel_shuffle(x, b);
  int64_t area, height, width;
  if (s.ndim != 4 || b < 1 || !situ__mul_i64(b, b, &area) || s.dim[1] % area || !situ__mul_i64(s.dim[2], b, &height) ||
      !situ__mul_i64(s.dim[3], b, &width))
    return situ__call_refuse(c, "needs [N, C b b, H, W]");
  const int64_t channels = s.dim[1] / area;
  x = situ_reshape(x, SITU_SHAPE(s.dim[0], b, b, channels, s.dim[2], s.dim[3]));
  return situ_reshape(situ_permute(x, SITU_SHAPE(0, 3, 4, 1, 5, 2)), SITU_SHAPE(s.dim[0], channels, height, width));
}
static situ_tensor *run_space_to_depth(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_shape s = situ_shape_of(x);
  const int64_t b = situ__arg_int(c, 1);
  int64_t channels;
  if (s.ndim != 4 || b < 1 || s.dim[2] % b || s.dim[3] % b || !situ__mul_i64(s.dim[1], b, &channels) ||
      !situ__mul_i64(channels, b, &channels))
    return situ__call_refuse(c, "needs [N, C, H b, W b]");
  x = situ_reshape(x, SITU_SHAPE(s.dim[0], s.dim[1], s.dim[2] / b, b, s.dim[3] / b, b));
  return situ_reshape(situ_permute(x, SITU_SHAPE(0, 3, 5, 1, 2, 4)),
                      SITU_SHAPE(s.dim[0], channels, s.dim[2] / b, s.dim[3] / b));
}
static situ_tensor *run_space_to_depth_by_mode(situ__op_call *c) {
  if (*situ__arg_text(c, 2) != 'C') return run_space_to_depth(c);
  return situ_pixel_unshuffle(situ__arg_tensor(c, 0), situ__arg_int(c, 1));
}

static situ_tensor *run_trilu(situ__op_call *c) {
  int64_t k = 0;
  if (situ__arg_host_ints(c, 1, &k, 1) < 0) return NULL;
  return situ__arg_flag(c, 2) ? situ_triu(situ__arg_tensor(c, 0), k) : situ_tril(situ__arg_tensor(c, 0), k);
}

/* The first length[b] steps of sequence b backwards, the others as they are. */
static situ_tensor *run_reverse_sequence(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *lengths = situ_to_dtype(situ__arg_tensor(c, 1), SITU_I64);
  const int batch = situ__arg_dim(c, 2), time = situ__arg_dim(c, 3);
  situ_shape along_time = { .ndim = situ_dim(x) }, along_batch = along_time;
  if (along_time.ndim < 2) return situ__call_refuse(c, "needs at least 2 dimensions");
  for (int d = 0; d < along_time.ndim; d++) along_time.dim[d] = along_batch.dim[d] = 1;
  along_time.dim[situ__dim_of(time, along_time.ndim)] = -1;
  along_batch.dim[situ__dim_of(batch, along_time.ndim)] = -1;
  situ_tensor *t =
      situ_arange(0, (double)situ_size(x, time), 1, &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(x) });
  t = situ_reshape(t, along_time);
  lengths = situ_reshape(lengths, along_batch);
  situ_tensor *back = situ_sub(situ_sub_scalar(lengths, 1), t);
  return situ_take_along_dim(x, situ_where(situ_lt(t, lengths), back, t), time);
}
static const char *reverse_lacks(const situ__op_call *c) {
  const int64_t a = situ__arg_int(c, 2), b = situ__arg_int(c, 3);
  return (a != 0 && a != 1) || (b != 0 && b != 1) ? "has axes other than 0 and 1" : NULL;
}

static const situ__op_row rows[] = {
  { "Shape", "t data, i start=0, i? end", .inputs = 1, .run = run_shape, .shapes = true },
  { "Size", "t data", .inputs = 1, .run = run_size, .shapes = true },
  { "Reshape", "t data, h shape, i allowzero=0", .folds = true, .inputs = 2, .run = run_reshape, .shapes = true },
  { "Flatten", "t input, i axis=1", .inputs = 1, .run = run_flatten },
  { "Transpose", "t data, I? perm", .folds = true, .inputs = 1, .run = run_transpose, .shapes = true },
  { "Squeeze", "t data, h? axes", .folds = true, .inputs = 2, .run = run_squeeze, .shapes = true },
  { "Unsqueeze", "t data, h axes", .folds = true, .inputs = 2, .run = run_unsqueeze, .shapes = true },
  { "Expand", "t input, h shape", .inputs = 2, .run = run_expand },
  { "Slice", "t data, h starts, h ends, h? axes, h? steps", .folds = true, .inputs = 5, .run = run_slice,
    .shapes = true },
  { "Concat", "T inputs, i axis", .folds = true, .inputs = 1, .run = run_concat, .shapes = true },
  { "Split", "t input, h? split, i axis=0, i? num_outputs", .inputs = 2, .results = SITU__RESULTS_LIST,
    .lacks = split_lacks, .run = run_split, .shapes = true },
  { "Tile", "t input, h repeats", .inputs = 2, .run = run_tile },
  { "Pad", "t data, h pads, h? value, _ axes, s? mode(constant|reflect|edge)", .inputs = 1, .run = run_pad },
  { "Pad", "t data, h pads, h? constant_value, h? axes, s? mode(constant|reflect|edge|wrap)", .inputs = 4, .since = 11,
    .run = run_pad },
  { "CenterCropPad", "t input_data, h shape, I? axes", .inputs = 2, .run = run_center_crop_pad },
  { "DepthToSpace", "t input, i blocksize, s? mode(DCR|CRD)", .inputs = 1, .run = run_depth_to_space },
  { "SpaceToDepth", "t input, i blocksize", .inputs = 1, .run = run_space_to_depth },
  { "SpaceToDepth", "t input, i blocksize, s? mode(DCR|CRD)", .inputs = 1, .since = 28,
    .run = run_space_to_depth_by_mode },
  { "Trilu", "t input, h? k, i upper=1", .inputs = 2, .run = run_trilu },
  { "ReverseSequence", "t input, t sequence_lens, i batch_axis=1, i time_axis=0", .inputs = 2, .lacks = reverse_lacks,
    .run = run_reverse_sequence },
};
const situ__op_family situ__onnx_shape_family = { rows, sizeof rows / sizeof *rows };
