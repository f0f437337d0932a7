/* Orders of strides: memory formats, and the order that results of element-wise ops take from their operands.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "situ/sys/shape.h"
#include "tensor/tensor.h"

/* Dimensions from the innermost to the outermost of a channels-last format; its rank. */
static const int channels_last[] = { 1, 3, 2, 0 }, channels_last_3d[] = { 1, 4, 3, 2, 0 };

static const int *order_of(situ_memory_format format, int *rank) {
  *rank = format == SITU_CHANNELS_LAST_3D ? 5 : 4;
  return format == SITU_CHANNELS_LAST_3D ? channels_last_3d : channels_last;
}

bool situ__format_check(const char *op, situ_memory_format format, int ndim) {
  if ((unsigned)format > SITU_CHANNELS_LAST_3D)
    return situ__fail(SITU_E_ARG, op, "%d is not a memory format", (int)format), false;
  if (format < SITU_CHANNELS_LAST) return true;
  int rank;
  (void)order_of(format, &rank);
  if (ndim == rank) return true;
  return situ__fail(SITU_E_SHAPE, op, "memory format %s is for %d dimensions, the tensor has %d",
                    rank == 5 ? "channels_last_3d" : "channels_last", rank, ndim),
         false;
}

bool situ__is_format(const situ_view_desc *v, situ_memory_format format) {
  if (format < SITU_CHANNELS_LAST) return v->contiguous;
  int rank;
  const int *order = order_of(format, &rank);
  if (v->ndim != rank) return false;
  int64_t step = 1;
  for (int i = 0; i < rank; i++) {
    const int64_t size = v->size[order[i]];
    if (size != 1 && v->stride[order[i]] != step) return false;
    if (size != 1 && !situ__mul_i64(step, size, &step)) return false;
  }
  return true;
}

/* As torch's is_channels_last_strides_2d: what a tensor of one channel or of one pixel is, is ambiguous, and
   row-major unless its strides say otherwise. */
static bool suggests(const situ_view_desc *v, const int *order) {
  int64_t least = 0;
  if (v->stride[1] == 0) return false;
  for (int i = 0; i < v->ndim; i++) {
    const int d = order[i];
    if (v->size[d] == 0 || v->stride[d] < least || (d == 0 && least == v->stride[1])) return false;
    least = v->stride[d];
    if (v->size[d] > 1 && !situ__mul_i64(least, v->size[d], &least)) return false;
  }
  return true;
}

situ_memory_format situ__suggest_format(const situ_view_desc *v) {
  if (v->ndim == 4 && suggests(v, channels_last)) return SITU_CHANNELS_LAST;
  if (v->ndim == 5 && suggests(v, channels_last_3d)) return SITU_CHANNELS_LAST_3D;
  return SITU_CONTIGUOUS_FORMAT;
}

/* Sets the strides of a dense view whose dimensions lie in this order, from the innermost to the outermost. A size of
   0 counts as 1. */
static bool set_strides(situ_view_desc *v, const int *order) {
  int64_t step = 1;
  for (int i = 0; i < v->ndim; i++) {
    const int d = order[i];
    v->stride[d] = step;
    if (v->size[d] > 1 && !situ__mul_i64(step, v->size[d], &step)) return false;
  }
  situ_desc_refresh(v);
  return true;
}

bool situ__format_strides(situ_view_desc *v, situ_memory_format format) {
  int rows[SITU_MAX_DIMS], rank;
  const int *order = order_of(format, &rank);
  for (int i = 0; i < v->ndim; i++) rows[i] = v->ndim - 1 - i;
  return set_strides(v, format >= SITU_CHANNELS_LAST && v->ndim == rank ? order : rows);
}

bool situ__is_dense(const situ_view_desc *v) {
  if (v->contiguous) return true;
  bool done[SITU_MAX_DIMS] = { false };
  int64_t step = 1;
  for (int n = 0; n < v->ndim; n++) {
    int next = -1;
    for (int d = 0; d < v->ndim; d++)
      if (!done[d] && v->size[d] > 1 && (next < 0 || v->stride[d] < v->stride[next])) next = d;
    if (next < 0) return true;
    if (v->stride[next] != step) return false;
    done[next] = true;
    step *= v->size[next]; /* fits: elements of memory that exists */
  }
  return true;
}

bool situ__is_expanded(const situ_view_desc *v) {
  bool expanded = false;
  for (int d = 0; d < v->ndim && v->numel; d++) expanded = expanded || (v->size[d] > 1 && !v->stride[d]);
  return expanded;
}

situ_view_desc situ__unexpanded(const situ_view_desc *v) {
  situ_view_desc each = *v;
  if (!situ__is_expanded(v)) return each;
  for (int d = 0; d < v->ndim; d++)
    if (!v->stride[d]) each.size[d] = 1;
  situ_desc_refresh(&each);
  return each;
}

/* Stride of operand v along dimension d of a result of `ndim` dimensions; 0 where v is broadcast. */
static int64_t stride_along(const situ_view_desc *v, const situ_view_desc *result, int d) {
  const int own = d - (result->ndim - v->ndim);
  return own < 0 || (v->size[own] == 1 && result->size[d] != 1) ? 0 : v->stride[own];
}

/* TensorIterator's rule (ATen/TensorIterator.cpp, should_swap): 1 if a must lie outside of b, -1 if inside; the first
   operand decides whose strides are neither equal nor 0. a lies inside of b so far. */
static int compare_dims(const situ_view_desc *to, const situ_view_desc *const *views, int count, int a, int b) {
  for (int k = 0; k < count; k++) {
    if (!views[k]) continue;
    const int64_t x = stride_along(views[k], to, a), y = stride_along(views[k], to, b);
    if (x == 0 || y == 0) continue;
    if (x != y) return x < y ? -1 : 1;
    if (to->size[a] > to->size[b]) return 1;
  }
  return 0;
}

/* Insertion sort that leaves dimensions in place whose comparison is ambiguous. */
static void sort_dims(const situ_view_desc *to, const situ_view_desc *const *views, int count, int *order) {
  for (int i = 0; i < to->ndim; i++) order[i] = to->ndim - 1 - i;
  for (int i = 1; i < to->ndim; i++)
    for (int at = i, below = i - 1; below >= 0; below--) {
      const int found = compare_dims(to, views, count, order[below], order[at]);
      if (found < 0) break;
      if (found == 0) continue;
      const int outer = order[below];
      order[below] = order[at];
      order[at] = outer;
      at = below;
    }
}

/* True if all operands have the result's sizes and one dense order: then the result has the same strides, also where
   sizes of 1 leave them open. */
static bool copy_strides(situ_view_desc *to, const situ_view_desc *const *views, int count) {
  const situ_view_desc *first = NULL;
  for (int k = 0; k < count; k++) {
    const situ_view_desc *v = views[k];
    if (!v) continue;
    if (!situ__same_sizes(v, to) || (first && memcmp(v->stride, first->stride, (size_t)v->ndim * sizeof *v->stride)))
      return false;
    if (!first && !situ__is_dense(v)) return false;
    first = v;
  }
  if (!first) return false;
  memcpy(to->stride, first->stride, sizeof to->stride);
  situ_desc_refresh(to);
  return true;
}

bool situ__order_strides(situ_view_desc *to, const situ_view_desc *const *views, int count) {
  int order[SITU_MAX_DIMS];
  if (copy_strides(to, views, count)) return true;
  sort_dims(to, views, count, order);
  return set_strides(to, order);
}

bool situ_is_contiguous_memory_format(const situ_tensor *t, situ_memory_format memory_format) {
  const char *op = "is_contiguous_memory_format";
  if (!situ__need(op, "input", t)) return false;
  if ((unsigned)memory_format > SITU_CHANNELS_LAST_3D || memory_format == SITU_PRESERVE_FORMAT)
    return situ__fail(SITU_E_ARG, op, "%d is not a memory format that a tensor can have", (int)memory_format), false;
  return situ__is_format(&t->view, memory_format);
}
