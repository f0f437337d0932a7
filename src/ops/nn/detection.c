/* torchvision.ops: nms and roi_align, made of other ops.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "device/dry.h"
#include "ops/ops.h"

static situ_tensor *coordinate(situ_tensor *boxes, int k) { return situ_select(boxes, -1, k); }

/* ---- nms ---- */

static situ_tensor *row(situ_tensor *x) { return x ? situ_unsqueeze(x, 0) : NULL; }
static situ_tensor *column(situ_tensor *x) { return x ? situ_unsqueeze(x, 1) : NULL; }

/* The length that each two boxes have in common, from coordinate k to k + 2. */
static situ_tensor *common(situ_tensor *boxes, int k) {
  situ_tensor *low = coordinate(boxes, k), *high = coordinate(boxes, k + 2);
  situ_tensor *length = situ_sub(situ_minimum(row(high), column(high)), situ_maximum(row(low), column(low)));
  return situ_clamp(length, 0, INFINITY);
}

/* True at [i, j] where box j comes before box i, and covers it by more than the threshold. */
static situ_tensor *covered(situ_tensor *boxes, double threshold) {
  situ_tensor *area = situ_mul(situ_sub(coordinate(boxes, 2), coordinate(boxes, 0)),
                               situ_sub(coordinate(boxes, 3), coordinate(boxes, 1)));
  situ_tensor *both = situ_mul(common(boxes, 0), common(boxes, 1));
  situ_tensor *either = situ_sub(situ_add(row(area), column(area)), both);
  return situ_tril(situ_gt_scalar(situ_div(both, either), threshold), -1);
}

/* A box is kept if none that is kept covers it. Each round is right for one box more than the last, from the first on:
   it is over when nothing changes. */
static situ_tensor *kept(situ_tensor *over, situ_tensor *all) {
  int64_t changed = 1;
  while (changed && all) {
    situ_tensor *hidden = situ_any(situ_logical_and(over, row(all)), &(situ_reduce_options){ .dim = SITU_DIMS(1) });
    situ_tensor *next = situ_logical_not(hidden);
    if (situ_item_i64(situ_any(situ_ne(next, all), NULL), &changed) != SITU_OK) return NULL;
    all = next;
  }
  return all;
}

static bool are_boxes(const char *op, const char *name, const situ_tensor *boxes, int64_t columns) {
  if (boxes->view.ndim == 2 && boxes->view.size[1] == columns) return true;
  const situ_shape shape = situ__shape(&boxes->view);
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "%s is %s, must be [n, %lld]", name, situ_shape_text(&shape, text),
                    (long long)columns),
         false;
}

situ_tensor *situ_nms(situ_tensor *boxes, situ_tensor *scores, double iou_threshold) {
  const char *op = "nms";
  SITU__MADE_OF_OPS(op);
  static const situ_op schema = {
    .name = "nms", .operand = { { "boxes", SITU_FLOATING | SITU_SAME }, { "scores", SITU_FLOATING | SITU_SAME } }
  };
  if (!situ__together(&schema, (situ_tensor *[]){ boxes, scores }, 2) || !are_boxes(op, "boxes", boxes, 4)) return NULL;
  const int64_t n = boxes->view.size[0];
  if (scores->view.ndim != 1 || scores->view.numel != n)
    return situ__fail(SITU_E_SHAPE, op, "scores has %d dimensions and %lld elements: one for each of %lld boxes",
                      scores->view.ndim, (long long)scores->view.numel, (long long)n),
           NULL;
  if (boxes->view.storage->device.kind == SITU_META)
    return situ__fail(SITU_E_UNSUPPORTED, op, "the size depends on values, which a meta tensor does not have"), NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *order = situ_argsort(scores, 0, true), *sorted = order ? situ_index_select(boxes, 0, order) : NULL;
  situ_tensor *keep =
      sorted ? kept(covered(situ_to_dtype(sorted, situ__wide(situ_dtype_of(boxes))), iou_threshold),
                    situ_ones(SITU_SHAPE(n), &(situ_options){ .dtype = SITU_BOOL, .device = situ_device_of(boxes) }))
             : NULL;
  return situ_scope_return(&s, keep ? situ_masked_select(order, keep) : NULL);
}

/* ---- roi_align: bilinear samples are products of a hat over rows and one over columns, and so are their means ---- */

enum { MOST = 1 << 20 }; /* bins, samples */

typedef struct axis {
  situ_tensor *start, *length;   /* [K]: of each box */
  int64_t pixels, bins, samples; /* samples: in each bin; 0: as many as a bin has pixels */
} axis;

/* x [n] along one of 4 dimensions. */
static situ_tensor *spread(situ_tensor *x, int dim) {
  situ_shape shape = SITU_SHAPE(1, 1, 1, 1);
  shape.dim[dim] = -1;
  return x ? situ_reshape(x, shape) : NULL;
}

/* The weight of each pixel in each bin of each box, [K, bins, pixels]. */
static situ_tensor *weights(const axis *a) {
  if (!a->start || !a->length) return NULL;
  const situ_options like = { .dtype = situ_dtype_of(a->start), .device = situ_device_of(a->start) };
  situ_tensor *many, *bin = situ_div_scalar(a->length, (double)a->bins);
  int64_t most = a->samples;
  if (most) many = situ_full_like(bin, (double)most, NULL);
  else {
    double largest = 1;
    const bool known = situ_device_of(bin).kind != SITU_META && !situ__is_dry() && situ_numel(bin);
    many = situ_ceil(bin);
    if (!many || (known && situ_item(situ_amax(many, NULL), &largest) != SITU_OK)) return NULL;
    if (!(largest < MOST)) return situ__fail(SITU_E_ARG, "roi_align", "a bin of a box has %g pixels", largest), NULL;
    most = largest > 1 ? (int64_t)largest : 1;
  }
  situ_tensor *i = spread(situ_arange(0, (double)a->bins, 1, &like), 1);
  situ_tensor *s = spread(situ_arange(0, (double)most, 1, &like), 2);
  situ_tensor *pixel = spread(situ_arange(0, (double)a->pixels, 1, &like), 3), *per_bin = spread(many, 0);
  situ_tensor *part = situ_add(i, situ_div(situ_add_scalar(s, 0.5), per_bin));
  situ_tensor *at = situ_add(spread(a->start, 0), situ_mul(part, spread(bin, 0)));
  situ_tensor *counts = situ_logical_and(
      situ_logical_and(situ_ge_scalar(at, -1), situ_le_scalar(at, (double)a->pixels)), situ_lt(s, per_bin));
  situ_tensor *hat =
      situ_relu(situ_rsub_scalar(situ_abs(situ_sub(situ_clamp(at, 0, (double)(a->pixels - 1)), pixel)), 1));
  situ_tensor *sum =
      situ_sum(situ_where(counts, hat, situ_zeros_like(hat, NULL)), &(situ_reduce_options){ .dim = SITU_DIMS(2) });
  return situ_div(sum, situ_reshape(situ_clamp(many, 1, INFINITY), SITU_SHAPE(-1, 1, 1)));
}

static axis axis_of(situ_tensor *boxes, int k, double scale, bool aligned) {
  const double shift = aligned ? 0.5 : 0;
  axis a = { .start = situ_sub_scalar(situ_mul_scalar(coordinate(boxes, k), scale), shift) };
  situ_tensor *end = situ_sub_scalar(situ_mul_scalar(coordinate(boxes, k + 2), scale), shift);
  a.length = situ_sub(end, a.start);
  if (!aligned) a.length = situ_clamp(a.length, 1, INFINITY);
  return a;
}

static bool are_images(const char *op, situ_tensor *boxes, int64_t images) {
  double low = 0, high = 0;
  if (boxes->view.storage->device.kind == SITU_META || situ__is_dry() || !boxes->view.numel) return true;
  situ_tensor *image = situ_trunc(coordinate(boxes, 0));
  if (situ_item(situ_amin(image, NULL), &low) != SITU_OK || situ_item(situ_amax(image, NULL), &high) != SITU_OK)
    return false;
  if (low >= 0 && high < (double)images) return true;
  return situ__fail(SITU_E_INDEX, op, "boxes[:, 0] has %g, must be the index of one of %lld images",
                    low < 0 ? low : high, (long long)images),
         false;
}

/* y [K, bins, N H], 0 but for the box's own image. */
static situ_tensor *in_own_image(situ_tensor *y, situ_tensor *boxes, int64_t images) {
  const situ_options like = { .dtype = situ_dtype_of(boxes), .device = situ_device_of(boxes) };
  situ_tensor *own =
      situ_eq(situ_unsqueeze(situ_trunc(coordinate(boxes, 0)), 1), situ_arange(0, (double)images, 1, &like));
  own = situ_reshape(situ_to_dtype(own, like.dtype), SITU_SHAPE(situ_size(y, 0), 1, images, 1));
  const situ_shape flat = SITU_SHAPE(situ_size(y, 0) * situ_size(y, 1), images * situ_size(y, 2));
  return situ_reshape(situ_mul(situ_unsqueeze(y, 2), own), flat);
}

static situ_tensor *aligned_regions(situ_tensor *x, situ_tensor *boxes, axis *vertical, axis *horizontal) {
  const int64_t n = situ_size(x, 0), c = situ_size(x, 1), h = situ_size(x, 2), w = situ_size(x, 3),
                k = situ_size(boxes, 0), ph = vertical->bins, pw = horizontal->bins;
  vertical->pixels = h, horizontal->pixels = w;
  situ_tensor *wy = weights(vertical), *wx = wy ? weights(horizontal) : NULL;
  if (!wx || !(wy = in_own_image(wy, boxes, n))) return NULL;
  situ_tensor *rows = situ_reshape(situ_permute(x, SITU_DIMS(0, 2, 1, 3)), SITU_SHAPE(n * h, c * w));
  situ_tensor *mean = situ_reshape(situ_matmul(wy, rows), SITU_SHAPE(k, ph * c, w));
  mean = situ_reshape(situ_matmul(mean, situ_transpose(wx, 1, 2)), SITU_SHAPE(k, ph, c, pw));
  return situ_contiguous(situ_permute(mean, SITU_DIMS(0, 2, 1, 3)));
}

situ_tensor *situ_roi_align(situ_tensor *input, situ_tensor *boxes, situ_shape output_size, double spatial_scale,
                            int64_t sampling_ratio, bool aligned) {
  const char *op = "roi_align";
  SITU__MADE_OF_OPS(op);
  static const situ_op schema = {
    .name = "roi_align", .operand = { { "input", SITU_FLOATING | SITU_SAME }, { "boxes", SITU_FLOATING | SITU_SAME } }
  };
  if (!situ__together(&schema, (situ_tensor *[]){ input, boxes }, 2) || !are_boxes(op, "boxes", boxes, 5)) return NULL;
  const situ_shape shape = situ__shape(&input->view);
  const int64_t ph = output_size.ndim ? output_size.dim[0] : 0, pw = output_size.ndim > 1 ? output_size.dim[1] : ph;
  char text[SITU_SHAPE_TEXT];
  if (shape.ndim != 4 || shape.dim[2] < 1 || shape.dim[3] < 1)
    return situ__fail(SITU_E_SHAPE, op, "input is %s, must be [N, C, H, W]", situ_shape_text(&shape, text)), NULL;
  if (output_size.ndim > 2 || ph < 1 || pw < 1 || ph > MOST || pw > MOST || sampling_ratio > MOST)
    return situ__fail(SITU_E_ARG, op,
                      "output_size is %s, sampling_ratio %lld: one or two sizes from 1 to %d, and at most that",
                      situ_shape_text(&output_size, text), (long long)sampling_ratio, MOST),
           NULL;
  const situ_dtype dtype = situ_dtype_of(input), wide = situ__wide(dtype);
  boxes = situ_to_dtype(situ_detach(boxes), wide);
  if (!boxes || !are_images(op, boxes, shape.dim[0])) return NULL;
  axis vertical = axis_of(boxes, 2, spatial_scale, aligned), horizontal = axis_of(boxes, 1, spatial_scale, aligned);
  vertical.bins = ph, horizontal.bins = pw;
  vertical.samples = horizontal.samples = sampling_ratio > 0 ? sampling_ratio : 0;
  situ_tensor *y = aligned_regions(situ_to_dtype(input, wide), boxes, &vertical, &horizontal);
  return y ? situ_to_dtype(y, dtype) : NULL;
}
