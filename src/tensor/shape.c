/* Shapes and views: overflow checks, broadcasting, reshaping without a copy.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/size.h"
#include "tensor/tensor.h"
#include "situ/sys/shape.h"

const char *situ_shape_text(const situ_shape *shape, char buffer[SITU_SHAPE_TEXT]) {
  if (!situ__given("shape_text", "shape", shape) || !situ__given("shape_text", "buffer", buffer)) return "";
  size_t at = (size_t)snprintf(buffer, SITU_SHAPE_TEXT, "[");
  int shown = shape->ndim < SITU_MAX_DIMS ? shape->ndim : SITU_MAX_DIMS;
  for (int d = 0; d < shown; d++)
    at += (size_t)snprintf(buffer + at, SITU_SHAPE_TEXT - at, "%s%lld", d ? ", " : "", (long long)shape->dim[d]);
  snprintf(buffer + at, SITU_SHAPE_TEXT - at, "]");
  return buffer;
}

static bool check_rank(const char *op, const situ_shape *shape) {
  if (!situ__given(op, "shape", shape)) return false;
  if (shape->ndim >= 0 && shape->ndim <= SITU_MAX_DIMS) return true;
  return situ__fail(SITU_E_ARG, op, "%d dimensions: a tensor has 0 to %d", shape->ndim, SITU_MAX_DIMS), false;
}

/* Checks for overflow even if a size is 0: {0, 2^62, 2^62} is an error on every device. */
bool situ_shape_numel(const char *op, const situ_shape *shape, int64_t *numel) {
  char text[SITU_SHAPE_TEXT];
  if (!check_rank(op, shape) || !situ__given(op, "numel", numel)) return false;
  int64_t product = 1;
  bool empty = false;
  for (int d = 0; d < shape->ndim; d++) {
    int64_t size = shape->dim[d];
    if (size < 0)
      return situ__fail(SITU_E_SHAPE, op, "size %lld at dimension %d of %s is negative", (long long)size, d,
                        situ_shape_text(shape, text)),
             false;
    if (size == 0) empty = true;
    else if (!situ__mul_i64(product, size, &product))
      return situ__fail(SITU_E_OVERFLOW, op, "shape %s has more than 2^63 elements", situ_shape_text(shape, text)),
             false;
  }
  *numel = empty ? 0 : product;
  return true;
}

bool situ_shape_equal(const situ_shape *a, const situ_shape *b) {
  if (!check_rank("shape_equal", a) || !check_rank("shape_equal", b) || a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->dim[d] != b->dim[d]) return false;
  return true;
}

bool situ_shape_broadcast(const char *op, situ_shape *a, const situ_shape *b) {
  if (!check_rank(op, a) || !check_rank(op, b)) return false;
  const int own = a->ndim, ndim = own > b->ndim ? own : b->ndim;
  for (int d = 1; d <= own && d <= b->ndim; d++) {
    const int64_t x = a->dim[own - d], y = b->dim[b->ndim - d];
    if (x != y && x != 1 && y != 1) {
      char left[SITU_SHAPE_TEXT], right[SITU_SHAPE_TEXT];
      return situ__fail(SITU_E_SHAPE, op, "%s and %s do not broadcast: sizes %lld and %lld differ at dimension -%d",
                        situ_shape_text(a, left), situ_shape_text(b, right), (long long)x, (long long)y, d),
             false;
    }
  }
  /* In place, as a copy of what was just written in parts would wait for the stores. */
  for (int d = 1; d <= ndim; d++) {
    const int64_t x = d <= own ? a->dim[own - d] : 1, y = d <= b->ndim ? b->dim[b->ndim - d] : 1;
    a->dim[ndim - d] = x == 1 ? y : x;
  }
  a->ndim = ndim;
  return true;
}

bool situ_wrap_dim(const char *op, int64_t dim, int ndim, int *out) {
  if (!situ__given(op, "out", out)) return false;
  int64_t range = ndim > 0 ? ndim : 1;
  if (dim < -range || dim >= range)
    return situ__fail(SITU_E_ARG, op, "dimension %lld is outside %lld..%lld", (long long)dim, (long long)-range,
                      (long long)range - 1),
           false;
  *out = (int)(dim < 0 ? dim + range : dim);
  return true;
}

/* For sizes of 0, and those that are refused. */
static SITU_COLD __attribute__((noinline)) bool desc_odd_rows(const char *op, const situ_shape *shape,
                                                              situ_view_desc *view) {
  if (!situ_shape_numel(op, shape, &view->numel)) return false;
  int64_t step = 1;
  for (int d = shape->ndim - 1; d >= 0; d--) {
    view->stride[d] = step;
    if (shape->dim[d] > 1) step *= shape->dim[d];
  }
  return true;
}

/* One pass for positive sizes; only others need the full check. */
bool situ__desc_rows(const char *op, const situ_shape *shape, situ_view_desc *view) {
  if (!check_rank(op, shape)) return false;
  int64_t step = 1;
  bool odd = false;
  for (int d = shape->ndim - 1; d >= 0; d--) {
    const int64_t size = shape->dim[d];
    view->size[d] = size;
    view->stride[d] = step;
    if (size != 1) odd |= size < 1 || !situ__mul_i64(step, size, &step);
  }
  view->ndim = (uint8_t)shape->ndim;
  view->numel = step;
  view->contiguous = true;
  return !odd || desc_odd_rows(op, shape, view);
}

void situ_desc_refresh(situ_view_desc *v) {
  if (!situ__given("desc_refresh", "v", v)) return;
  int64_t step = 1, numel = 1;
  bool rows = true;
  for (int d = v->ndim - 1; d >= 0; d--) {
    if (v->size[d] != 1 && v->stride[d] != step) rows = false;
    if (v->size[d] > 1) step *= v->size[d];
    numel *= v->size[d];
  }
  v->numel = numel;
  v->contiguous = rows || numel == 0;
}

const situ_view_desc *situ_desc_expand(const situ_view_desc *v, const situ_view_desc *to, situ_view_desc *buffer) {
  if (!situ__given("desc_expand", "v", v) || !situ__given("desc_expand", "to", to)) return NULL;
  if (situ__same_sizes(v, to)) return v;
  if (!situ__given("desc_expand", "buffer", buffer)) return NULL;
  buffer->storage = v->storage;
  buffer->offset = v->offset;
  buffer->dtype = v->dtype;
  buffer->ndim = to->ndim;
  const int missing = to->ndim - v->ndim;
  int64_t step = 1;
  bool rows = true;
  for (int d = to->ndim - 1; d >= 0; d--) {
    const int own = d - missing;
    const int64_t size = to->size[d], stride = own < 0 || (v->size[own] == 1 && size != 1) ? 0 : v->stride[own];
    buffer->size[d] = size;
    buffer->stride[d] = stride;
    if (size == 1) continue;
    rows &= stride == step;
    step *= size;
  }
  buffer->numel = step;
  buffer->contiguous = rows || step == 0;
  return buffer;
}

const situ_view_desc *situ_desc_reshape(const situ_view_desc *v, situ_shape shape, situ_view_desc *buffer) {
  if (!situ__given("desc_reshape", "v", v) || !situ__given("desc_reshape", "buffer", buffer) ||
      !check_rank("desc_reshape", &shape))
    return NULL;
  buffer->storage = v->storage;
  buffer->offset = v->offset;
  buffer->dtype = v->dtype;
  buffer->ndim = (uint8_t)shape.ndim;
  int64_t step = 1;
  for (int d = shape.ndim - 1; d >= 0; d--) {
    buffer->size[d] = shape.dim[d];
    buffer->stride[d] = step;
    if (shape.dim[d] > 1)
      step = (int64_t)((uint64_t)step * (uint64_t)shape.dim[d]); /* wraps only if there are no elements */
  }
  buffer->numel = v->numel;
  buffer->contiguous = true;
  return buffer;
}

/* In the order of their strides, each dimension must step beyond everything that the smaller ones reach: then no two
   elements share memory. Like PyTorch, this also reports some unusual strides that do not overlap. */
bool situ__desc_overlaps(const situ_view_desc *v) {
  if (v->contiguous) return false;
  bool done[SITU_MAX_DIMS] = { false };
  int64_t reach = 0;
  for (int n = 0; n < v->ndim; n++) {
    int next = -1;
    for (int d = 0; d < v->ndim; d++)
      if (!done[d] && (next < 0 || llabs(v->stride[d]) < llabs(v->stride[next]))) next = d;
    done[next] = true;
    if (v->size[next] <= 1) continue;
    int64_t step = llabs(v->stride[next]);
    if (step <= reach) return v->numel > 0;
    reach += step * (v->size[next] - 1);
  }
  return false;
}
