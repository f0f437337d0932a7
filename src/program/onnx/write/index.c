/* ATen's indexing as ONNX operators.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "write.h"

#define IN SITU__ONNX_IN

static const char *self(situ__onnx_writer *w) { return situ__onnx_arg(w, 0); }
static int rank_of(const situ__onnx_writer *w) { return situ__onnx_about(w, 0)->size.ndim; }
static int64_t dim_at(const situ__onnx_writer *w, int k) {
  return situ__onnx_dim(situ__arg_int(&w->call, k), rank_of(w));
}

/* ---- lists of indices ---- */

/* The dimensions that a list of index tensors is for: count of them, from `first` on. Returns false for a list with
   gaps, or with masks, whose results have other sizes each time. */
static bool find_indexed(situ__onnx_writer *w, int *first, int *count) {
  const int items = situ__onnx_items(w, 1);
  *count = *first = 0;
  for (int i = 0; i < items; i++) {
    const situ__inferred *about = situ__onnx_item_about(w, 1, i);
    if (!about->dtype) continue;
    if (about->dtype == SITU_BOOL) return situ__onnx_lacks(w, "takes a mask"), false;
    if (!*count) *first = i;
    else if (i != *first + *count) return situ__onnx_lacks(w, "has indices of dimensions that are not adjacent"), false;
    (*count)++;
  }
  return *count > 0;
}

/* Index number i, in the sizes to which all are broadcast: plus zeros made of the others. */
static const char *spread_index(situ__onnx_writer *w, int i, int first, int count) {
  const char *x = situ__onnx_cast(w, situ__onnx_item(w, 1, i), situ__onnx_item_about(w, 1, i)->dtype, SITU_I64);
  for (int k = first; k < first + count; k++) {
    if (k == i) continue;
    const char *other = situ__onnx_cast(w, situ__onnx_item(w, 1, k), situ__onnx_item_about(w, 1, k)->dtype, SITU_I64);
    x = situ__onnx_put2(w, "Add", x, situ__onnx_put2(w, "Sub", other, other));
  }
  return x;
}

/* [.., count]: the indices of each element, for GatherND and ScatterND; *rank gets the number of dimensions before. */
static const char *join_indices(situ__onnx_writer *w, int first, int count, int *rank) {
  const char *in[SITU_MAX_DIMS + 1] = { NULL }, *last = situ__onnx_int(w, -1);
  *rank = 0;
  for (int i = 0; i < count; i++) {
    const int own = situ__onnx_item_about(w, 1, first + i)->size.ndim;
    if (own > *rank) *rank = own;
    in[i] = situ__onnx_put2(w, "Unsqueeze", spread_index(w, first + i, first, count), last);
  }
  return situ__onnx_put(w, "Concat", in, "axis:i", (int64_t)-1);
}

static const char *transpose(situ__onnx_writer *w, const char *x, const situ_shape *order) {
  return situ__onnx_put(w, "Transpose", IN(x), "perm:I", order);
}

/* The indexed dimensions go to the front for GatherND, and what it gives goes back to their place. */
static const char *write_index(situ__onnx_writer *w) {
  int first, count, rank;
  if (!find_indexed(w, &first, &count)) return NULL;
  if (count == 1)
    return situ__onnx_put(w, "Gather", IN(self(w), situ__onnx_item(w, 1, first)), "axis:i", (int64_t)first);
  situ_shape front = { .ndim = rank_of(w) };
  for (int d = 0; d < front.ndim; d++) front.dim[d] = d < count ? first + d : d < first + count ? d - count : d;
  const char *x = first ? transpose(w, self(w), &front) : self(w), *indices = join_indices(w, first, count, &rank);
  const char *y = situ__onnx_put2(w, "GatherND", x, indices);
  if (!first) return y;
  situ_shape back = { .ndim = w->gives->size.ndim };
  for (int d = 0; d < back.ndim; d++) back.dim[d] = d < first ? rank + d : d < first + rank ? d - first : d;
  return transpose(w, y, &back);
}

static const char *write_index_put(situ__onnx_writer *w) {
  int first, count, rank;
  if (!find_indexed(w, &first, &count)) return NULL;
  if (first) return situ__onnx_lacks(w, "has indices of later dimensions only");
  const situ__inferred *x = situ__onnx_about(w, 0);
  const char *indices = join_indices(w, 0, count, &rank), *values = situ__onnx_arg_as(w, 2, w->gives->dtype);
  /* In the sizes of what is written: those of the indices, then the dimensions that have none. */
  situ_shape start = SITU_SHAPE(0), end = SITU_SHAPE(rank);
  const char *sizes = situ__onnx_put1(w, "Shape", indices);
  sizes = situ__onnx_put(w, "Slice", IN(sizes, situ__onnx_ints(w, &start), situ__onnx_ints(w, &end)), "");
  if (x->size.ndim > count) {
    const char *rest = situ__onnx_put(w, "Shape", IN(self(w)), "start:i", (int64_t)count);
    sizes = situ__onnx_put(w, "Concat", IN(sizes, rest), "axis:i", (int64_t)0);
  }
  const char *reduction = situ__arg_flag(&w->call, 3) ? "add" : "none";
  return situ__onnx_put(w, "ScatterND", IN(self(w), indices, situ__onnx_put2(w, "Expand", values, sizes)),
                        "reduction:s", reduction);
}

/* ---- one index ---- */

/* An index, whose negative numbers count from the end in ONNX only. */
static const char *index_at(situ__onnx_writer *w, int k) { return situ__onnx_arg_as(w, k, SITU_I64); }

static const char *write_index_select(situ__onnx_writer *w) {
  const char *index = index_at(w, 2);
  if (!situ__onnx_about(w, 2)->size.ndim) index = situ__onnx_reshape_to(w, index, SITU_SHAPE(1));
  return situ__onnx_put(w, "Gather", IN(self(w), index), "axis:i", dim_at(w, 1));
}
/* GatherElements and ScatterElements need indices that are as long as the operand elsewhere, in some runtimes; torch
   has no such rule, and neither does the operators' text. */
static const char *write_gather(situ__onnx_writer *w) {
  if (!rank_of(w)) return self(w);
  return situ__onnx_put(w, "GatherElements", IN(self(w), index_at(w, 2)), "axis:i", dim_at(w, 1));
}
static const char *scatter(situ__onnx_writer *w, const char *index, const char *values, const char *reduction) {
  return situ__onnx_put(w, "ScatterElements", IN(self(w), index, values), "axis:i reduction:s", dim_at(w, 1),
                        reduction);
}
static const char *write_scatter(situ__onnx_writer *w) {
  return scatter(w, index_at(w, 2), situ__onnx_arg_as(w, 3, w->gives->dtype), "none");
}
static const char *write_scatter_value(situ__onnx_writer *w) {
  const char *index = index_at(w, 2);
  return scatter(
      w, index,
      situ__onnx_put2(w, "Expand", situ__onnx_arg_as(w, 3, w->gives->dtype), situ__onnx_put1(w, "Shape", index)),
      "none");
}
static const char *write_scatter_add(situ__onnx_writer *w) {
  return scatter(w, index_at(w, 2), situ__onnx_arg_as(w, 3, w->gives->dtype), "add");
}
/* One number for each slice: repeated along the others. */
static const char *scatter_slices(situ__onnx_writer *w, const char *source, const char *reduction) {
  const int rank = rank_of(w);
  situ_shape along = { .ndim = rank };
  for (int d = 0; d < rank; d++) along.dim[d] = d == dim_at(w, 1) ? -1 : 1;
  const char *index = situ__onnx_reshape_to(w, index_at(w, 2), along);
  if (!index || !source) return NULL;
  return scatter(w, situ__onnx_put2(w, "Expand", index, situ__onnx_put1(w, "Shape", source)), source, reduction);
}
static const char *write_index_add(situ__onnx_writer *w) {
  const double alpha = situ__arg_number(&w->call, 4);
  const char *source = situ__onnx_arg_as(w, 3, w->gives->dtype);
  if (alpha != 1) source = situ__onnx_put2(w, "Mul", source, situ__onnx_scalar(w, alpha, w->gives->dtype));
  return scatter_slices(w, source, "add");
}
static const char *write_index_copy(situ__onnx_writer *w) {
  if (!rank_of(w)) return NULL;
  return scatter_slices(w, situ__onnx_arg_as(w, 3, w->gives->dtype), "none");
}
/* Operands are broadcast to each other. */
static const char *write_masked_select(situ__onnx_writer *w) {
  const char *x = self(w), *mask = situ__onnx_arg_as(w, 1, SITU_BOOL);
  const char *sizes = x ? situ__onnx_put1(w, "Shape", x) : NULL;
  x = mask && x ? situ__onnx_put2(w, "Expand", x, situ__onnx_put1(w, "Shape", mask)) : NULL;
  mask = situ__onnx_put2(w, "Expand", mask, sizes);
  return situ__onnx_put2(w, "Compress", x, situ__onnx_reshape_to(w, mask, SITU_SHAPE(-1)));
}
static const char *write_nonzero(situ__onnx_writer *w) {
  const char *x = situ__onnx_arg_as(w, 0, SITU_BOOL);
  return rank_of(w) && x ? transpose(w, situ__onnx_put1(w, "NonZero", x), &SITU_SHAPE(1, 0)) : NULL;
}
static const char *write_index_fill(situ__onnx_writer *w) {
  const int rank = rank_of(w);
  if (!rank) return NULL;
  situ_shape along = { .ndim = rank };
  for (int d = 0; d < rank; d++) along.dim[d] = d == dim_at(w, 1) ? -1 : 1;
  const char *flat = situ__onnx_reshape_to(w, index_at(w, 2), SITU_SHAPE(-1)), *x = self(w);
  const char *part = flat && x ? situ__onnx_put(w, "Gather", IN(x, flat), "axis:i", dim_at(w, 1)) : NULL;
  const char *sizes = part ? situ__onnx_put1(w, "Shape", part) : NULL;
  const char *value = situ__onnx_put2(w, "Expand", situ__onnx_arg_as(w, 3, w->gives->dtype), sizes);
  const char *index = situ__onnx_put2(w, "Expand", situ__onnx_reshape_to(w, flat, along), sizes);
  return index && value ? scatter(w, index, value, "none") : NULL;
}
/* Arguments: self, dim, index, src, reduce, include_self. */
static const char *write_scatter_reduce(situ__onnx_writer *w) {
  static const char *const names[][2] = { { "sum", "add" }, { "prod", "mul" }, { "amax", "max" }, { "amin", "min" } };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], situ__arg_text(&w->call, 4)) == 0 && situ__arg_flag(&w->call, 5) && rank_of(w))
      return scatter(w, index_at(w, 2), situ__onnx_arg_as(w, 3, w->gives->dtype), names[i][1]);
  return situ__onnx_lacks(w, "reduces by a mean, or without what it writes to");
}
static const char *write_one_hot(situ__onnx_writer *w) {
  const int64_t values[2] = { 0, 1 }, classes = w->gives->size.dim[w->gives->size.ndim - 1];
  const char *pair = situ__onnx_constant(w, SITU_I64, &SITU_SHAPE(2), values);
  const bool single = !rank_of(w); /* ONNX's indices have dimensions */
  const char *index = single ? situ__onnx_reshape_to(w, self(w), SITU_SHAPE(1)) : self(w);
  const char *y = situ__onnx_put(w, "OneHot", IN(index, situ__onnx_int(w, classes), pair), "axis:i", (int64_t)-1);
  return single ? situ__onnx_reshape_to(w, y, SITU_SHAPE(classes)) : y;
}

static const situ__onnx_form forms[] = {
  { "index.Tensor", .write = write_index },
  { "index_put.default", .write = write_index_put },
  { "index_select.default", .write = write_index_select },
  { "gather.default", .write = write_gather },
  { "scatter.src", .write = write_scatter },
  { "scatter.value", .write = write_scatter_value },
  { "scatter_add.default", .write = write_scatter_add },
  { "index_add.default", .write = write_index_add },
  { "index_copy.default", .write = write_index_copy },
  { "masked_select.default", .write = write_masked_select },
  { "nonzero.default", .write = write_nonzero },
  { "index_fill.int_Scalar", .write = write_index_fill },
  { "index_fill.int_Tensor", .write = write_index_fill },
  { "scatter_reduce.two", .write = write_scatter_reduce },
  { "one_hot.default", .write = write_one_hot },
};
const situ__onnx_forms situ__onnx_form_index = { forms, sizeof forms / sizeof *forms };
