/* ONNX's indexing, sets and selections.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/size.h"
#include "program/graph/program.h"

/* Indices that count from the end if they are negative. */
static situ_tensor *wrap(situ_tensor *index, int64_t size) {
  return situ_where(situ_lt_scalar(index, 0), situ_add_scalar(index, (double)size), index);
}

static situ_tensor *run_gather(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *list[SITU_MAX_DIMS] = { NULL };
  const int dim = situ__arg_dim_of(c, 2, situ_dim(x));
  if (dim < 0 || dim >= situ_dim(x)) return situ__call_refuse(c, "has an axis outside of its input");
  list[dim] = situ__arg_tensor(c, 1);
  return situ_index(x, list, dim + 1);
}
static situ_tensor *run_gather_elements(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int dim = situ__arg_dim(c, 2);
  return situ_gather(x, dim, wrap(situ__arg_tensor(c, 1), situ_size(x, dim)));
}

/* The rows of indices [..., k] as k tensors, after `batch` ranges for the dimensions that are shared. Returns the
   number of tensors, -1 after an error. */
static int split_index(situ__op_call *c, situ_tensor *x, situ_tensor *indices, int batch,
                       situ_tensor *list[SITU_MAX_DIMS]) {
  const int dims = situ_dim(indices) - 1;
  if (dims < 0 || batch < 0 || batch > dims || situ_size(indices, -1) + batch > situ_dim(x) || situ_dim(x) < 1)
    return situ__call_refuse(c, "has indices of more numbers than its input has dimensions"), -1;
  for (int b = 0; b < batch; b++) {
    situ_shape shape = { .ndim = dims };
    for (int d = 0; d < dims; d++) shape.dim[d] = d == b ? -1 : 1;
    list[b] = situ_reshape(
        situ_arange(0, (double)situ_size(x, b), 1, &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(x) }),
        shape);
    if (!list[b]) return -1;
  }
  const int64_t count = situ_unbind(indices, -1, list + batch, SITU_MAX_DIMS - batch);
  return count < 0 ? -1 : batch + (int)count;
}
static situ_tensor *run_gather_nd(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *list[SITU_MAX_DIMS];
  const int count = split_index(c, x, situ__arg_tensor(c, 1), situ__arg_dim(c, 2), list);
  return count < 0 ? NULL : situ_index(x, list, count);
}

/* ---- writes ---- */

static bool read_reduction(const char *text, situ_scatter_reduction *out) {
  static const char *const names[] = { "add", "mul", "", "max", "min" };
  for (int k = 0; k < 5; k++)
    if (strcmp(text, names[k]) == 0) {
      *out = (situ_scatter_reduction)k;
      return *text;
    }
  return false;
}

static situ_tensor *run_scatter_elements(situ__op_call *c) {
  situ_scatter_reduction reduction;
  situ_tensor *x = situ__arg_tensor(c, 0), *updates = situ__arg_tensor(c, 2);
  const int dim = situ__arg_dim(c, 3);
  situ_tensor *index = wrap(situ__arg_tensor(c, 1), situ_size(x, dim));
  if (!read_reduction(situ__arg_text(c, 4), &reduction)) return situ_scatter(x, dim, index, updates);
  return situ_scatter_reduce(x, dim, index, updates, reduction, true);
}

/* Of several updates to one place: as slices of x, in which the indexed dimensions are one. */
static situ_tensor *reduce_nd(situ_tensor *x, situ_tensor *const *list, int count, situ_tensor *updates,
                              situ_scatter_reduction reduction) {
  const situ_shape shape = situ_shape_of(x);
  situ_tensor *place = NULL;
  int64_t slices = 1;
  for (int d = 0; d < count; d++) {
    situ_tensor *index = wrap(list[d], shape.dim[d]);
    place = place ? situ_add(situ_mul_scalar(place, (double)shape.dim[d]), index) : index;
    slices *= shape.dim[d];
  }
  place = situ_reshape(place, SITU_SHAPE(-1));
  situ_tensor *flat = situ_reshape(x, SITU_SHAPE(slices, slices ? situ_numel(x) / slices : 0));
  updates = situ_reshape(updates, SITU_SHAPE(situ_numel(place), situ_size(flat, 1)));
  return situ_reshape(situ_index_reduce(flat, 0, place, updates, reduction, true), shape);
}
static situ_tensor *run_scatter_nd(situ__op_call *c) {
  situ_scatter_reduction reduction;
  situ_tensor *x = situ__arg_tensor(c, 0), *updates = situ__arg_tensor(c, 2), *list[SITU_MAX_DIMS];
  const int count = split_index(c, x, situ__arg_tensor(c, 1), 0, list);
  if (count < 0) return NULL;
  const bool reduces = read_reduction(situ__arg_text(c, 3), &reduction);
  if (count && reduces && reduction != SITU_SCATTER_SUM) return reduce_nd(x, list, count, updates, reduction);
  return situ_index_put(x, list, count, updates, reduces);
}

/* Writes update [.., T, ..] into each sequence of a cache, from its own place on; circular: beyond the end at the
   start. Waits for the device. */
static situ_tensor *run_tensor_scatter(situ__op_call *c) {
  situ_tensor *cache = situ__arg_tensor(c, 0), *update = situ__arg_tensor(c, 1);
  const int dim = situ__arg_dim_of(c, 3, situ_dim(cache));
  const int64_t batch = situ_size(cache, 0), size = situ_size(cache, dim), steps = situ_size(update, dim);
  if (dim < 1 || batch > SITU__CALL_MOST || batch < 1 || size < 1 || steps < 0)
    return situ__call_refuse(c, "has an axis or a number of sequences that situ does not take");
  situ_tensor **out = situ__call_take(c, batch, sizeof *out);
  int64_t *at = situ__call_take(c, batch, sizeof *at); /* 0 where it is absent */
  if (!out || !at || situ__arg_host_ints(c, 2, at, (int)batch) < 0) return NULL;
  const bool circular = *situ__arg_text(c, 4) == 'c';
  for (int64_t b = 0; b < batch; b++) {
    const situ_options o = { .dtype = SITU_I64, .device = situ_device_of(cache) };
    if (at[b] < 0 || at[b] > size) return situ__call_refuse(c, "writes outside of its cache");
    situ_tensor *place = situ_arange((double)at[b], (double)at[b] + (double)steps, 1, &o);
    if (circular) place = situ_remainder_scalar(place, (double)size);
    out[b] = situ_index_copy(situ_select(cache, 0, b), dim - 1, place, situ_select(update, 0, b));
    if (!out[b]) return NULL;
  }
  return situ_stack(out, (int)batch, 0);
}

/* ---- selections, whose sizes depend on values: they wait for the device ---- */

static situ_tensor *nonzero(situ_tensor *x) { return situ_transpose(situ_nonzero(x), 0, 1); }

static situ_tensor *run_compress(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  if (!situ__arg_given(c, 2)) x = situ_flatten(x, 0, -1);
  situ_tensor *index = situ_reshape(situ_nonzero(situ__arg_tensor(c, 1)), SITU_SHAPE(-1));
  return situ_index_select(x, situ__arg_given(c, 2) ? situ__arg_dim(c, 2) : 0, index);
}

static situ_tensor *run_one_hot(situ__op_call *c) {
  int64_t depth = 0;
  situ_tensor *index = situ_to_dtype(situ__arg_tensor(c, 0), SITU_I64), *values = situ__arg_tensor(c, 2);
  if (situ__arg_host_ints(c, 1, &depth, 1) < 0) return NULL;
  if (depth < 1) return situ__call_refuse(c, "has a depth below 1");
  const int64_t axis = situ__arg_int(c, 3);
  situ_tensor *classes =
      situ_arange(0, (double)depth, 1, &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(index) });
  situ_tensor *hot = situ_eq(situ_unsqueeze(wrap(index, depth), -1), classes);
  hot = situ_movedim(hot, SITU_SHAPE(-1), SITU_SHAPE(axis));
  return situ_where(hot, situ_select(values, 0, 1), situ_select(values, 0, 0));
}

/* The distinct elements or slices in ascending order, or in that of their first occurrence. */
static situ_tensor *run_unique(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0), *inverse = NULL, *counts = NULL;
  const bool slices = situ__arg_given(c, 1);
  const int dim = slices ? situ__arg_dim(c, 1) : 0;
  situ_tensor *y = slices ? situ_unique_dim(x, dim, &inverse, &counts) : situ_unique(x, &inverse, &counts);
  if (!y) return NULL;
  inverse = situ_flatten(inverse, 0, -1);
  const int64_t all = situ_numel(inverse), found = situ_numel(counts);
  const situ_options o = { .dtype = SITU_I64, .device = situ_device_of(x) };
  situ_tensor *first = situ_scatter_reduce(situ_full(SITU_SHAPE(found), (double)all, &o), 0, inverse,
                                           situ_arange(0, (double)all, 1, &o), SITU_SCATTER_AMIN, true);
  if (!situ__arg_flag(c, 2)) {
    situ_tensor *order = situ_argsort(first, 0, false), *rank = situ_argsort(order, 0, false);
    y = situ_index_select(y, dim, order);
    first = situ_index_select(first, 0, order);
    counts = situ_index_select(counts, 0, order);
    inverse = situ_index_select(rank, 0, inverse);
  }
  situ_tensor *const more[] = { first, inverse, counts };
  for (int i = 1; i < c->node->outs; i++) c->result[i] = more[i - 1];
  return y;
}

/* Corners x1, y1, x2, y2 in order, of boxes by two corners or by centre, width and height. */
static situ_tensor *order_boxes(situ_tensor *boxes, bool center) {
  situ_tensor *a = situ_narrow(boxes, 1, 0, 2), *b = situ_narrow(boxes, 1, 2, 2);
  situ_tensor *half = situ_mul_scalar(b, 0.5);
  situ_tensor *low = center ? situ_sub(a, half) : situ_minimum(a, b);
  situ_tensor *high = center ? situ_add(a, half) : situ_maximum(a, b);
  return situ_cat((situ_tensor *[]){ low, high }, 2, 1);
}
/* Of one class of one image: rows (image, class, box). */
static situ_tensor *suppress(situ_tensor *boxes, situ_tensor *scores, int64_t most, double iou, const double *least,
                             int64_t image, int64_t class) {
  const situ_options o = { .dtype = SITU_I64, .device = situ_device_of(boxes) };
  situ_tensor *kept = NULL;
  if (least) {
    kept = situ_reshape(situ_nonzero(situ_gt_scalar(scores, *least)), SITU_SHAPE(-1));
    boxes = situ_index_select(boxes, 0, kept);
    scores = situ_index_select(scores, 0, kept);
  }
  situ_tensor *chosen = situ_nms(boxes, scores, iou);
  if (!chosen) return NULL;
  chosen = situ_narrow(chosen, 0, 0, situ__min_i64(most, situ_numel(chosen)));
  if (kept) chosen = situ_index_select(kept, 0, chosen);
  const int64_t count = situ_numel(chosen);
  return situ_stack((situ_tensor *[]){ situ_full(SITU_SHAPE(count), (double)image, &o),
                                       situ_full(SITU_SHAPE(count), (double)class, &o), chosen },
                    3, 1);
}
static situ_tensor *run_nms(situ__op_call *c) {
  situ_tensor *boxes = situ__arg_tensor(c, 0), *scores = situ__arg_tensor(c, 1), *piece[256];
  int64_t most = 0;
  double iou = 0, least = 0;
  if (situ__arg_host_ints(c, 2, &most, 1) < 0 || situ__arg_host_numbers(c, 3, &iou, 1) < 0 ||
      situ__arg_host_numbers(c, 4, &least, 1) < 0)
    return NULL;
  const int64_t images = situ_size(scores, 0), classes = situ_size(scores, 1);
  int64_t pairs; /* each takes its time, whether its scores take memory or not */
  if (situ_dim(scores) != 3) return situ__call_refuse(c, "has scores that are not [images, classes, boxes]");
  if (!situ__mul_i64(images, classes, &pairs) || pairs > 1 << 24)
    return situ__call_refuse(c, "has more than 2^24 classes of images");
  int count = 0;
  piece[count++] = situ_empty(SITU_SHAPE(0, 3), &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(boxes) });
  for (int64_t i = 0; i < images && most > 0; i++)
    for (int64_t k = 0; k < classes; k++) {
      if (count == (int)(sizeof piece / sizeof *piece)) {
        piece[0] = situ_cat(piece, count, 0);
        count = 1;
      }
      situ_tensor *ordered = order_boxes(situ_select(boxes, 0, i), situ__arg_flag(c, 5));
      piece[count] = suppress(ordered, situ_select(situ_select(scores, 0, i), 0, k), most, iou,
                              situ__arg_given(c, 4) ? &least : NULL, i, k);
      if (!piece[count++]) return NULL;
    }
  return situ_cat(piece, count, 0);
}

static const situ__op_row rows[] = {
  { "Gather", "t data, t indices, i axis=0", .inputs = 2, .run = run_gather, .shapes = true },
  { "GatherElements", "t data, t indices, i axis=0", .inputs = 2, .run = run_gather_elements },
  { "GatherND", "t data, t indices, i batch_dims=0", .inputs = 2, .run = run_gather_nd },
  { "ScatterElements", "t data, t indices, t updates, i axis=0, s? reduction(none|add|mul|max|min)", .inputs = 3,
    .run = run_scatter_elements },
  { "Scatter", "t data, t indices, t updates, i axis=0, s? reduction(none)", .inputs = 3, .run = run_scatter_elements },
  { "ScatterND", "t data, t indices, t updates, s? reduction(none|add|mul|max|min)", .inputs = 3, .run = run_scatter_nd,
    .shapes = true },
  { "TensorScatter", "t past_cache, t update, h? write_indices, i axis=-2, s? mode(linear|circular)", .inputs = 3,
    .run = run_tensor_scatter },
  { "Compress", "t input, t condition, i? axis", .inputs = 2, .run = run_compress },
  { "NonZero", "t X", .inputs = 1, .unary = nonzero },
  { "OneHot", "t indices, h depth, t values, i axis=-1", .inputs = 3, .run = run_one_hot },
  { "Unique", "t X, i? axis, i sorted=1", .inputs = 1, .results = 4, .run = run_unique },
  { "NonMaxSuppression",
    "t boxes, t scores, h? max_output_boxes_per_class, h? iou_threshold, h? score_threshold, "
    "i center_point_box=0",
    .inputs = 5, .run = run_nms },
};
const situ__op_family situ__onnx_index_family = { rows, sizeof rows / sizeof *rows };
