/* ATen's views, joins and factories as ONNX operators.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "write.h"

#define IN SITU__ONNX_IN

static int64_t int_at(const situ__onnx_writer *w, int k) { return situ__arg_int(&w->call, k); }
static int rank_of(const situ__onnx_writer *w, int k) { return situ__onnx_about(w, k)->size.ndim; }
static int dim_at(const situ__onnx_writer *w, int k) { return situ__onnx_dim(int_at(w, k), rank_of(w, 0)); }
static const char *self(situ__onnx_writer *w) { return situ__onnx_arg(w, 0); }

/* ---- reshapes ---- */

static const char *write_reshape(situ__onnx_writer *w) {
  return situ__onnx_reshape(w, self(w), situ__onnx_about(w, 0), w->gives);
}
/* With a list of sizes, which may be computed. */
static const char *write_view(situ__onnx_writer *w) {
  int varying = 0;
  for (int d = 0; d < w->gives->size.ndim; d++) varying += w->gives->size.dim[d] < 0;
  if (varying < 2) return write_reshape(w);
  return situ__onnx_put2(w, "Reshape", self(w), situ__onnx_sizes(w, 1));
}
static const char *permuted(situ__onnx_writer *w, const situ_shape *order) {
  return situ__onnx_put(w, "Transpose", IN(self(w)), "perm:I", order);
}
static situ_shape in_order(int rank) {
  situ_shape order = { .ndim = rank };
  for (int d = 0; d < rank; d++) order.dim[d] = d;
  return order;
}
static const char *write_transpose(situ__onnx_writer *w) {
  situ_shape order = in_order(rank_of(w, 0));
  if (!order.ndim) return self(w);
  const int a = dim_at(w, 1), b = dim_at(w, 2);
  order.dim[a] = b;
  order.dim[b] = a;
  return permuted(w, &order);
}
static const char *write_permute(situ__onnx_writer *w) {
  situ_shape order = situ__arg_dims(&w->call, 1);
  for (int d = 0; d < order.ndim; d++) order.dim[d] = situ__onnx_dim(order.dim[d], order.ndim);
  return order.ndim ? permuted(w, &order) : self(w);
}
static const char *write_matrix_transpose(situ__onnx_writer *w) {
  situ_shape order = in_order(rank_of(w, 0));
  if (order.ndim < 2) return self(w);
  order.dim[order.ndim - 1] = order.ndim - 2;
  order.dim[order.ndim - 2] = order.ndim - 1;
  return permuted(w, &order);
}
static const char *write_reversed(situ__onnx_writer *w) {
  situ_shape order = in_order(rank_of(w, 0));
  for (int d = 0; d < order.ndim; d++) order.dim[d] = order.ndim - 1 - d;
  return order.ndim ? permuted(w, &order) : self(w);
}
static const char *write_movedim(situ__onnx_writer *w) {
  const situ_shape from = situ__arg_dims(&w->call, 1), to = situ__arg_dims(&w->call, 2);
  const int rank = rank_of(w, 0);
  situ_shape order = { .ndim = rank };
  bool taken[SITU_MAX_DIMS] = { false };
  for (int d = 0; d < rank; d++) order.dim[d] = -1;
  for (int i = 0; i < from.ndim; i++) {
    order.dim[situ__onnx_dim(to.dim[i], rank)] = situ__onnx_dim(from.dim[i], rank);
    taken[situ__onnx_dim(from.dim[i], rank)] = true;
  }
  for (int d = 0, next = 0; d < rank; d++) {
    if (order.dim[d] >= 0) continue;
    while (taken[next]) next++;
    order.dim[d] = next++;
  }
  return permuted(w, &order);
}

/* ---- expansion ---- */

/* A size of 1 keeps the operand's. */
static const char *write_expand(situ__onnx_writer *w) {
  const situ__inferred *from = situ__onnx_about(w, 0), *to = w->gives;
  const int more = to->size.ndim - from->size.ndim;
  situ_shape sizes = to->size;
  for (int d = 0; d < sizes.ndim; d++) {
    if (d >= more && from->size.dim[d - more] == sizes.dim[d] && from->other.dim[d - more] == to->other.dim[d])
      sizes.dim[d] = 1;
    if (sizes.dim[d] < 0) return situ__onnx_expand(w, self(w), situ__onnx_sizes_or(w, 1, 1), to->dtype);
  }
  return situ__onnx_expand(w, self(w), situ__onnx_ints(w, &sizes), to->dtype);
}
static const char *write_expand_as(situ__onnx_writer *w) {
  return situ__onnx_expand(w, self(w), situ__onnx_put1(w, "Shape", situ__onnx_arg(w, 1)), w->gives->dtype);
}
/* Of all operands, in the sizes to which they are broadcast. */
static const char *write_broadcast_tensors(situ__onnx_writer *w) {
  const char *first = NULL;
  for (int i = 0; i < situ__onnx_items(w, 0); i++) {
    const char *x = situ__onnx_item(w, 0, i);
    for (int k = 0; k < situ__onnx_items(w, 0); k++)
      if (k != i && x)
        x = situ__onnx_expand(w, x, situ__onnx_put1(w, "Shape", situ__onnx_item(w, 0, k)),
                              situ__onnx_item_about(w, 0, i)->dtype);
    if (i == 0) first = x;
    else if (i < w->node->outs) w->result[i - 1] = x;
  }
  return first;
}
/* Each element of the first list beside each of the others'. */
static const char *write_cartesian_prod(situ__onnx_writer *w) {
  const int count = situ__onnx_items(w, 0);
  const char *list[SITU_MAX_DIMS], *in[SITU_MAX_DIMS + 1] = { NULL };
  if (count < 2 || count > SITU_MAX_DIMS) return NULL;
  for (int i = 0; i < count; i++) {
    situ_shape along = { .ndim = count };
    for (int d = 0; d < count; d++) along.dim[d] = d == i ? -1 : 1;
    list[i] = situ__onnx_reshape_to(w, situ__onnx_item(w, 0, i), along);
    if (!list[i]) return NULL;
  }
  for (int i = 0; i < count; i++) {
    const char *x = list[i];
    for (int k = 0; k < count; k++)
      if (k != i) x = situ__onnx_put2(w, "Expand", x, situ__onnx_put1(w, "Shape", list[k]));
    in[i] = situ__onnx_reshape_to(w, x, SITU_SHAPE(-1, 1));
  }
  return situ__onnx_put(w, "Concat", in, "axis:i", (int64_t)1);
}
static const char *unsqueeze(situ__onnx_writer *w, const char *x, int64_t dim) {
  return situ__onnx_put2(w, "Unsqueeze", x, situ__onnx_int(w, dim));
}
/* tile.default may have fewer numbers than dimensions. */
static const char *write_repeat(situ__onnx_writer *w) {
  const situ__arg *list = &w->node->arg[1];
  const int rank = rank_of(w, 0), given = list->kind == SITU__ARG_LIST ? list->count : 1;
  const char *x = self(w), *repeats = situ__onnx_sizes(w, 1), *in[SITU_MAX_DIMS + 2] = { NULL };
  for (int d = rank; d < given; d++) x = unsqueeze(w, x, 0);
  if (given < rank) {
    for (int d = given; d < rank; d++) in[d - given] = situ__onnx_int(w, 1);
    if (given) in[rank - given] = repeats;
    repeats = situ__onnx_put(w, "Concat", in, "axis:i", (int64_t)0);
  }
  return rank || given ? situ__onnx_put2(w, "Tile", x, repeats) : x;
}
/* Sizes of x from dimension `start` to `end`. */
static const char *sizes_of(situ__onnx_writer *w, const char *x, int64_t start, int64_t end) {
  return situ__onnx_put(w, "Shape", IN(x), "start:i end:i", start, end);
}
/* Each element several times after itself: a dimension more, which is merged. */
static const char *write_repeat_interleave(situ__onnx_writer *w) {
  const bool along = situ__arg_given(&w->call, 2) && rank_of(w, 0);
  const char *x = along ? self(w) : situ__onnx_reshape_to(w, self(w), SITU_SHAPE(-1));
  const int dim = along ? dim_at(w, 2) : 0, rank = along ? rank_of(w, 0) : 1;
  if (rank == SITU_MAX_DIMS) return NULL;
  const char *repeats = situ__onnx_sizes(w, 1), *merged = situ__onnx_int(w, -1), *in[SITU_MAX_DIMS + 2] = { NULL };
  for (int d = 0; d <= rank; d++) in[d] = d == dim + 1 ? repeats : situ__onnx_int(w, 1);
  const char *y =
      situ__onnx_put2(w, "Tile", unsqueeze(w, x, dim + 1), situ__onnx_put(w, "Concat", in, "axis:i", (int64_t)0));
  const char *shape = situ__onnx_put(w, "Concat", IN(sizes_of(w, x, 0, dim), merged, sizes_of(w, x, dim + 1, rank)),
                                     "axis:i", (int64_t)0);
  return situ__onnx_put2(w, "Reshape", y, shape);
}
/* 0, 1, .. to a count, which is a list of one. */
static const char *places(situ__onnx_writer *w, const char *count) {
  const char *end = situ__onnx_reshape_to(w, count, SITU_SCALAR), *one = situ__onnx_scalar(w, 1, SITU_I64);
  return situ__onnx_put(w, "Range", IN(situ__onnx_scalar(w, 0, SITU_I64), end, one), "");
}
/* Windows of a dimension, as the last one. */
static const char *write_unfold(situ__onnx_writer *w) {
  const int rank = rank_of(w, 0), dim = dim_at(w, 1);
  if (!rank) return NULL;
  const char *size = situ__onnx_int(w, int_at(w, 2)), *step = situ__onnx_int(w, int_at(w, 3)), *x = self(w);
  const char *count = situ__onnx_put2(w, "Div", situ__onnx_put2(w, "Sub", sizes_of(w, x, dim, dim + 1), size), step);
  count = situ__onnx_put2(w, "Add", count, situ__onnx_int(w, 1));
  const char *first = unsqueeze(w, situ__onnx_put2(w, "Mul", places(w, count), step), 1);
  const char *at = situ__onnx_put2(w, "Add", first, places(w, size));
  const char *y = at && x ? situ__onnx_put(w, "Gather", IN(x, at), "axis:i", (int64_t)dim) : NULL;
  situ_shape order = { .ndim = rank + 1 };
  for (int d = 0; d < rank; d++) order.dim[d] = d <= dim ? d : d + 1;
  order.dim[rank] = dim + 1;
  return situ__onnx_put(w, "Transpose", IN(y), "perm:I", &order);
}
/* The two dimensions become the last one, of which every (columns + 1)th element is taken. */
static const char *write_diagonal(situ__onnx_writer *w) {
  const int rank = rank_of(w, 0), a = dim_at(w, 2), b = dim_at(w, 3);
  const int64_t offset = int_at(w, 1);
  situ_shape order = { 0 };
  for (int d = 0; d < rank; d++)
    if (d != a && d != b) order.dim[order.ndim++] = d;
  order.dim[order.ndim++] = a;
  order.dim[order.ndim++] = b;
  const char *x = permuted(w, &order), *rows = sizes_of(w, x, rank - 2, rank - 1),
             *columns = sizes_of(w, x, rank - 1, rank);
  const char *flat =
      situ__onnx_put(w, "Concat", IN(sizes_of(w, x, 0, rank - 2), situ__onnx_int(w, -1)), "axis:i", (int64_t)0);
  const char *down = situ__onnx_int(w, offset < 0 ? -offset : 0), *along = situ__onnx_int(w, offset > 0 ? offset : 0);
  const char *count =
      situ__onnx_put2(w, "Min", situ__onnx_put2(w, "Sub", rows, down), situ__onnx_put2(w, "Sub", columns, along));
  count = situ__onnx_put2(w, "Max", count, situ__onnx_int(w, 0));
  const char *step = situ__onnx_put2(w, "Add", columns, situ__onnx_int(w, 1));
  const char *start = situ__onnx_put2(w, "Add", situ__onnx_put2(w, "Mul", down, columns), along);
  const char *at = situ__onnx_put2(w, "Add", situ__onnx_put2(w, "Mul", places(w, count), step), start);
  x = situ__onnx_put2(w, "Reshape", x, flat);
  return x && at ? situ__onnx_put(w, "Gather", IN(x, at), "axis:i", (int64_t)(rank - 2)) : NULL;
}

/* ---- dimensions of size 1 ---- */

static const char *write_unsqueeze(situ__onnx_writer *w) {
  const int64_t dim = situ__onnx_dim(int_at(w, 1), rank_of(w, 0) + 1);
  return situ__onnx_put2(w, "Unsqueeze", self(w), situ__onnx_int(w, dim));
}
static const char *write_squeeze(situ__onnx_writer *w) {
  const situ__inferred *x = situ__onnx_about(w, 0);
  const bool listed = strcmp(w->node->row->target, "squeeze.default") != 0;
  const situ_shape given = listed ? situ__arg_dims(&w->call, 1) : in_order(x->size.ndim);
  situ_shape dims = { 0 };
  for (int i = 0; i < given.ndim; i++) {
    const int d = situ__onnx_dim(given.dim[i], x->size.ndim);
    if (x->size.ndim && x->size.dim[d] == 1) dims.dim[dims.ndim++] = d;
  }
  return dims.ndim ? situ__onnx_put2(w, "Squeeze", self(w), situ__onnx_ints(w, &dims)) : self(w);
}

/* ---- parts ---- */

static const char *slice(situ__onnx_writer *w, const char *x, int64_t dim, const int64_t range[3]) {
  const char *start = situ__onnx_int(w, range[0]), *end = situ__onnx_int(w, range[1]);
  return situ__onnx_put(w, "Slice", IN(x, start, end, situ__onnx_int(w, dim), situ__onnx_int(w, range[2])), "");
}
static const char *write_slice(situ__onnx_writer *w) {
  const char *start = situ__arg_given(&w->call, 2) ? situ__onnx_sizes(w, 2) : situ__onnx_int(w, 0);
  const char *end = situ__arg_given(&w->call, 3) ? situ__onnx_sizes(w, 3) : situ__onnx_int(w, INT64_MAX);
  return situ__onnx_put(w, "Slice",
                        IN(self(w), start, end, situ__onnx_int(w, dim_at(w, 1)), situ__onnx_int(w, int_at(w, 4))), "");
}
static const char *write_narrow(situ__onnx_writer *w) {
  const int64_t start = int_at(w, 2), end = start + int_at(w, 3);
  /* A start from the end: up to -0 is up to the end. */
  return slice(w, self(w), dim_at(w, 1), (int64_t[]){ start, start < 0 && end == 0 ? INT64_MAX : end, 1 });
}
static const char *write_select(situ__onnx_writer *w) {
  const char *index = situ__onnx_scalar(w, (double)int_at(w, 2), SITU_I64);
  return situ__onnx_put(w, "Gather", IN(self(w), index), "axis:i", (int64_t)dim_at(w, 1));
}
static const char *write_flip(situ__onnx_writer *w) {
  const situ_shape dims = situ__arg_dims(&w->call, 1);
  const char *x = self(w);
  for (int i = 0; i < dims.ndim; i++)
    x = slice(w, x, situ__onnx_dim(dims.dim[i], rank_of(w, 0)), (int64_t[]){ -1, INT64_MIN, -1 });
  return x;
}
/* Without dims, of the flattened tensor. */
static const char *write_roll(situ__onnx_writer *w) {
  const situ_shape shifts = situ__arg_dims(&w->call, 1), dims = situ__arg_dims(&w->call, 2);
  const situ__inferred *about = situ__onnx_about(w, 0);
  const bool flat = dims.ndim == 0;
  const char *x = flat ? situ__onnx_reshape_to(w, self(w), SITU_SHAPE(-1)) : self(w);
  for (int i = 0; i < shifts.ndim; i++) {
    const int64_t dim = flat ? 0 : situ__onnx_dim(dims.dim[i], about->size.ndim);
    /* The elements that come to the end: -shift of a size, which varies or is 0. */
    const char *size = situ__onnx_put(w, "Shape", IN(x), "start:i end:i", dim, dim + 1);
    const char *at = situ__onnx_put2(w, "Mod", situ__onnx_int(w, -shifts.dim[i]),
                                     situ__onnx_put2(w, "Max", size, situ__onnx_int(w, 1)));
    const char *axis = situ__onnx_int(w, dim), *first = situ__onnx_int(w, 0), *last = situ__onnx_int(w, INT64_MAX);
    if (!at) return NULL;
    const char *start = situ__onnx_put(w, "Slice", IN(x, at, last, axis), "");
    x = situ__onnx_put(w, "Concat", IN(start, situ__onnx_put(w, "Slice", IN(x, first, at, axis), "")), "axis:i", dim);
  }
  return flat ? situ__onnx_reshape(w, x, &(situ__inferred){ 0 }, w->gives) : x;
}
/* A view by strides: the elements at its places, of the memory that its operand is a view of. */
static const char *write_as_strided(situ__onnx_writer *w) {
  const situ__inferred *x = situ__onnx_about(w, 0), *y = w->gives;
  int64_t count = 1;
  if (!situ__onnx_is_fixed(w, x) || !situ__onnx_is_fixed(w, y) || x->offset != 0) return NULL;
  for (int d = x->size.ndim - 1; d >= 0; d--) {
    if (x->size.dim[d] != 1 && x->stride.dim[d] != count) return NULL;
    count *= x->size.dim[d];
  }
  if (x->storage != y->storage || count != x->elements) return NULL;
  return situ__onnx_gather_places(w, situ__onnx_reshape_to(w, self(w), SITU_SHAPE(-1)), y);
}

/* ---- joins and splits ---- */

static const char *write_cat(situ__onnx_writer *w) {
  const int count = situ__onnx_items(w, 0), rank = w->gives->size.ndim;
  const char **in = situ__arena_take(&w->arena, (size_t)count + 1, sizeof *in);
  int used = 0;
  if (!in) return w->failed = true, NULL;
  for (int i = 0; i < count; i++) {
    const situ__inferred *x = situ__onnx_item_about(w, 0, i);
    if (x->size.ndim != rank) continue; /* torch ignores an empty list among matrices */
    in[used++] = situ__onnx_cast(w, situ__onnx_item(w, 0, i), x->dtype, w->gives->dtype);
  }
  return situ__onnx_put(w, "Concat", in, "axis:i", (int64_t)situ__onnx_dim(int_at(w, 1), rank));
}
static const char *write_stack(situ__onnx_writer *w) {
  const int count = situ__onnx_items(w, 0);
  const int64_t dim = situ__onnx_dim(int_at(w, 1), w->gives->size.ndim);
  const char **in = situ__arena_take(&w->arena, (size_t)count + 1, sizeof *in);
  if (!in) return w->failed = true, NULL;
  for (int i = 0; i < count; i++) {
    const char *x =
        situ__onnx_cast(w, situ__onnx_item(w, 0, i), situ__onnx_item_about(w, 0, i)->dtype, w->gives->dtype);
    in[i] = situ__onnx_put2(w, "Unsqueeze", x, situ__onnx_int(w, dim));
  }
  return situ__onnx_put(w, "Concat", in, "axis:i", dim);
}
/* Where part i begins, a list of one: parts of a chunk have equal lengths, which may vary, but for the last one. */
static const char *start_of(situ__onnx_writer *w, int32_t i, int64_t dim) {
  const char *target = w->node->row->target, *number = situ__onnx_int(w, i);
  if (strncmp(target, "unbind", 6) == 0) return number;
  if (strcmp(target, "split.Tensor") == 0) return situ__onnx_put2(w, "Mul", number, situ__onnx_sizes(w, 1));
  const char *size = sizes_of(w, self(w), dim, dim + 1), *count = situ__onnx_int(w, int_at(w, 1));
  const char *length = situ__onnx_put2(w, "Add", size, situ__onnx_int(w, int_at(w, 1) - 1));
  return situ__onnx_put2(w, "Mul", number, situ__onnx_put2(w, "Div", length, count));
}
static const char *write_split(situ__onnx_writer *w) {
  const situ__program_node *n = w->node;
  const bool unbinds = strncmp(n->row->target, "unbind", 6) == 0, listed = w->node->arg[1].kind == SITU__ARG_LIST;
  const int64_t dim = unbinds ? dim_at(w, 1) : dim_at(w, 2);
  const char **part = situ__arena_take(&w->arena, (size_t)n->outs, sizeof *part), *axis = situ__onnx_int(w, dim);
  if (!part) return w->failed = true, NULL;
  if (listed && !situ__onnx_put_all(w, "Split", IN(self(w), situ__onnx_sizes(w, 1)), part, n->outs, "axis:i", dim))
    return NULL;
  for (int32_t i = 0; !listed && i < n->outs; i++) {
    if (n->out[i] < 0 && i) continue;
    const char *start = start_of(w, i, dim), *end = start_of(w, i + 1, dim);
    if (!start || !end) return NULL;
    part[i] = situ__onnx_put(w, "Slice", IN(self(w), start, end, axis), "");
    if (unbinds) part[i] = situ__onnx_put2(w, "Squeeze", part[i], axis);
  }
  for (int32_t i = 1; i < n->outs; i++) w->result[i - 1] = part[i];
  return part[0];
}

/* ---- pictures and triangles ---- */

static const char *triangle(situ__onnx_writer *w, int64_t upper) {
  const situ_dtype dtype = situ__onnx_about(w, 0)->dtype, as = dtype == SITU_BOOL ? SITU_I64 : dtype;
  const char *diagonal = situ__onnx_scalar(w, (double)int_at(w, 1), SITU_I64);
  const char *y = situ__onnx_put(w, "Trilu", IN(situ__onnx_arg_as(w, 0, as), diagonal), "upper:i", upper);
  return situ__onnx_cast(w, y, as, dtype);
}
static const char *write_tril(situ__onnx_writer *w) { return triangle(w, 0); }
static const char *write_triu(situ__onnx_writer *w) { return triangle(w, 1); }
static const char *write_pixel_shuffle(situ__onnx_writer *w) {
  if (rank_of(w, 0) != 4) return NULL;
  return situ__onnx_put(w, "DepthToSpace", IN(self(w)), "blocksize:i mode:s", int_at(w, 1), "CRD");
}
static const char *write_pixel_unshuffle(situ__onnx_writer *w) {
  const situ__inferred *x = situ__onnx_about(w, 0);
  const int64_t r = int_at(w, 1), *s = x->size.dim;
  if (x->size.ndim != 4 || !situ__onnx_is_fixed(w, x)) return NULL;
  const char *y = situ__onnx_reshape_to(w, self(w), SITU_SHAPE(s[0], s[1], s[2] / r, r, s[3] / r, r));
  y = situ__onnx_put(w, "Transpose", IN(y), "perm:I", &SITU_SHAPE(0, 1, 3, 5, 2, 4));
  return situ__onnx_reshape_to(w, y, w->gives->size);
}
/* torch lists the last dimension first. */
static const char *write_pad(situ__onnx_writer *w) {
  const situ_shape given = situ__arg_dims(&w->call, 1);
  const char *mode = situ__arg_given(&w->call, 3) ? situ__arg_text(&w->call, 3) : "constant";
  const int rank = rank_of(w, 0);
  int64_t pads[2 * SITU_MAX_DIMS] = { 0 };
  for (int i = 0; i < given.ndim / 2; i++) {
    pads[rank - 1 - i] = given.dim[2 * i];
    pads[2 * rank - 1 - i] = given.dim[2 * i + 1];
  }
  if (strcmp(mode, "circular") == 0) {
    if (w->opset < 19) return situ__onnx_lacks(w, "is circular, which ONNX has from opset 19 on");
    mode = "wrap";
  }
  if (strcmp(mode, "replicate") == 0) mode = "edge";
  const situ_dtype dtype = w->gives->dtype;
  const char *list = situ__onnx_constant(w, SITU_I64, &SITU_SHAPE(2 * rank), pads);
  const char *value = situ__onnx_scalar(w, situ__arg_given(&w->call, 2) ? situ__arg_number(&w->call, 2) : 0, dtype);
  return situ__onnx_put(w, "Pad", IN(self(w), list, value), "mode:s", mode);
}

/* ---- factories ---- */

static const char *filled(situ__onnx_writer *w, double value, const char *sizes) {
  return situ__onnx_expand(w, situ__onnx_scalar(w, value, w->gives->dtype), sizes, w->gives->dtype);
}
static const char *write_zeros(situ__onnx_writer *w) { return filled(w, 0, situ__onnx_sizes(w, 0)); }
static const char *write_ones(situ__onnx_writer *w) { return filled(w, 1, situ__onnx_sizes(w, 0)); }
/* Filled with argument k, which may be a size. */
static const char *filled_by(situ__onnx_writer *w, int k, const char *sizes) {
  return situ__onnx_expand(w, situ__onnx_arg_as(w, k, w->gives->dtype), sizes, w->gives->dtype);
}
static const char *write_full(situ__onnx_writer *w) { return filled_by(w, 2, situ__onnx_sizes(w, 0)); }
static const char *like(situ__onnx_writer *w, double value) {
  return filled(w, value, situ__onnx_put1(w, "Shape", self(w)));
}
static const char *write_zeros_like(situ__onnx_writer *w) { return like(w, 0); }
static const char *write_ones_like(situ__onnx_writer *w) { return like(w, 1); }
static const char *write_full_like(situ__onnx_writer *w) {
  return filled_by(w, 2, situ__onnx_put1(w, "Shape", self(w)));
}
static const char *write_new_zeros(situ__onnx_writer *w) { return filled(w, 0, situ__onnx_sizes(w, 2)); }
static const char *write_new_ones(situ__onnx_writer *w) { return filled(w, 1, situ__onnx_sizes(w, 2)); }
static const char *write_new_full(situ__onnx_writer *w) { return filled_by(w, 3, situ__onnx_sizes(w, 2)); }
static const char *write_scalar_tensor(situ__onnx_writer *w) { return situ__onnx_arg_as(w, 0, w->gives->dtype); }
static const char *write_eye(situ__onnx_writer *w) {
  const char *rows = situ__onnx_sizes(w, 0), *columns = situ__onnx_sizes_or(w, 2, -1);
  if (w->node->arg[2].kind == SITU__ARG_INT && int_at(w, 2) < 0) columns = rows;
  const char *sizes = situ__onnx_put(w, "Concat", IN(rows, columns), "axis:i", (int64_t)0);
  const char *x = situ__onnx_put2(w, "Expand", situ__onnx_scalar(w, 0, SITU_I64), sizes);
  return x ? situ__onnx_cast(w, situ__onnx_put1(w, "EyeLike", x), SITU_I64, w->gives->dtype) : NULL;
}
/* An end that varies is a tensor of one element. In f64 or i64, as torch counts the elements. */
static const char *write_arange(situ__onnx_writer *w) {
  const situ_dtype dtype = w->gives->dtype, as = situ_dtype_is_floating(dtype) ? SITU_F64 : SITU_I64;
  const char *in[4] = { NULL };
  for (int k = 0; k < 3; k++) {
    const situ__arg *a = &w->node->arg[k];
    if (as == SITU_I64 && a->kind == SITU__ARG_FLOAT && a->real != trunc(a->real))
      return situ__onnx_lacks(w, "gives whole numbers in steps that are not");
    in[k] = situ__onnx_arg_as(w, k, as);
  }
  return situ__onnx_cast(w, situ__onnx_put(w, "Range", in, ""), as, dtype);
}

#define VARIES(text, function, places) \
  { text, .write = function, .varies = places }
/* Arguments by their places. */
#define AT(k) (1U << (k))

static const situ__onnx_form forms[] = {
  VARIES("view.default", write_view, AT(1)),
  VARIES("_unsafe_view.default", write_view, AT(1)),
  VARIES("reshape.default", write_view, AT(1)),
  { "view_as.default", .write = write_reshape },
  { "reshape_as.default", .write = write_reshape },
  { "flatten.using_ints", .write = write_reshape },
  VARIES("unflatten.int", write_reshape, AT(2)),
  { "transpose.int", .write = write_transpose },
  { "swapaxes.default", .write = write_transpose },
  { "swapdims.default", .write = write_transpose },
  { "permute.default", .write = write_permute },
  { "t.default", .write = write_reversed },
  { "numpy_T.default", .write = write_reversed },
  { "movedim.int", .write = write_movedim },
  { "movedim.intlist", .write = write_movedim },
  VARIES("expand.default", write_expand, AT(1)),
  { "expand_as.default", .write = write_expand_as },
  VARIES("broadcast_to.default", write_expand, AT(1)),
  { "broadcast_tensors.default", .write = write_broadcast_tensors },
  { "cartesian_prod.default", .write = write_cartesian_prod },
  VARIES("repeat.default", write_repeat, AT(1)),
  VARIES("tile.default", write_repeat, AT(1)),
  VARIES("repeat_interleave.self_int", write_repeat_interleave, AT(1)),
  { "unfold.default", .write = write_unfold },
  { "diagonal.default", .write = write_diagonal },
  { "linalg_diagonal.default", .write = write_diagonal },
  { "mT.default", .write = write_matrix_transpose },
  { "mH.default", .write = write_matrix_transpose },
  { "adjoint.default", .write = write_matrix_transpose },
  { "atleast_1d.default", .write = write_reshape },
  { "atleast_2d.default", .write = write_reshape },
  { "atleast_3d.default", .write = write_reshape },
  { "unsqueeze.default", .write = write_unsqueeze },
  { "squeeze.default", .write = write_squeeze },
  { "squeeze.dim", .write = write_squeeze },
  { "squeeze.dims", .write = write_squeeze },
  VARIES("slice.Tensor", write_slice, AT(2) | AT(3)),
  { "narrow.default", .write = write_narrow },
  { "select.int", .write = write_select },
  { "as_strided.default", .write = write_as_strided },
  { "flip.default", .write = write_flip },
  { "roll.default", .write = write_roll },
  { "cat.default", .write = write_cat },
  { "concat.default", .write = write_cat },
  { "stack.default", .write = write_stack },
  VARIES("split.Tensor", write_split, AT(1)),
  VARIES("split_with_sizes.default", write_split, AT(1)),
  VARIES("split.sizes", write_split, AT(1)),
  { "chunk.default", .write = write_split },
  { "unbind.int", .write = write_split },
  { "tril.default", .write = write_tril },
  { "triu.default", .write = write_triu },
  { "pixel_shuffle.default", .write = write_pixel_shuffle },
  { "pixel_unshuffle.default", .write = write_pixel_unshuffle },
  { "pad.default", .write = write_pad },
  { "constant_pad_nd.default", .write = write_pad },
  VARIES("zeros.default", write_zeros, AT(0)),
  VARIES("empty.memory_format", write_zeros, AT(0)),
  VARIES("ones.default", write_ones, AT(0)),
  VARIES("full.default", write_full, AT(0) | AT(2)),
  { "zeros_like.default", .write = write_zeros_like },
  { "empty_like.default", .write = write_zeros_like },
  { "ones_like.default", .write = write_ones_like },
  VARIES("full_like.default", write_full_like, AT(2)),
  VARIES("new_zeros.default", write_new_zeros, AT(2)),
  VARIES("new_empty.default", write_new_zeros, AT(2)),
  VARIES("new_ones.default", write_new_ones, AT(2)),
  VARIES("new_full.default", write_new_full, AT(2) | AT(3)),
  VARIES("scalar_tensor.default", write_scalar_tensor, AT(0)),
  VARIES("eye.default", write_eye, AT(0) | AT(2)),
  VARIES("eye.m", write_eye, AT(0) | AT(2)),
  VARIES("arange.default", write_arange, AT(0) | AT(1) | AT(2)),
  VARIES("arange.start", write_arange, AT(0) | AT(1) | AT(2)),
  VARIES("arange.start_step", write_arange, AT(0) | AT(1) | AT(2)),
};
const situ__onnx_forms situ__onnx_form_shape = { forms, sizeof forms / sizeof *forms };
