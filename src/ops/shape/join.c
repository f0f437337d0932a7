/* Joining and splitting: cat, stack, split, chunk, unbind, and copies made of them: flip, roll, repeat.
   SPDX-License-Identifier: MIT */
#include "autograd/view.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

/* ---- cat ---- */

typedef struct cat_params {
  int dim;
} cat_params;

/* torch's one exception: an empty 1-D tensor may be joined with any tensors, and adds nothing. */
static bool adds_nothing(int ndim, int64_t size) { return ndim == 1 && size == 0; }

/* The memory format of all operands that add something; contiguous if they differ. */
static situ_memory_format common_format(const situ_call *c) {
  situ_memory_format common = SITU_MEMORY_FORMAT_DEFAULT;
  for (int i = 0; i < c->ins; i++) {
    const situ_view_desc *x = situ__desc(c->in[i]);
    if (adds_nothing(x->ndim, x->size[0])) continue;
    const situ_memory_format own = x->ndim < 4 ? SITU_CONTIGUOUS_FORMAT : situ__suggest_format(x);
    if (common != SITU_MEMORY_FORMAT_DEFAULT && own != common) return SITU_CONTIGUOUS_FORMAT;
    common = own;
  }
  return common;
}

static bool cat_infer(situ_call *c) {
  const cat_params *p = c->params;
  int d;
  int lead = 0;
  while (lead < c->ins - 1 && adds_nothing(situ__desc(c->in[lead])->ndim, situ__desc(c->in[lead])->size[0])) lead++;
  const situ_shape first = situ__shape(situ__desc(c->in[lead]));
  situ_shape shape = first;
  if (!shape.ndim) return situ_refuse(c, SITU_E_SHAPE, "0-dim tensors cannot be joined; use situ_stack");
  if (!situ_wrap_dim(c->op->name, p->dim, shape.ndim, &d)) return false;
  for (int i = lead + 1; i < c->ins; i++) {
    const situ_view_desc *x = situ__desc(c->in[i]);
    if (adds_nothing(x->ndim, x->size[0])) continue;
    char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
    situ_shape own = situ__shape(x);
    bool fits = x->ndim == shape.ndim;
    for (int k = 0; fits && k < x->ndim; k++) fits = k == d || x->size[k] == shape.dim[k];
    if (!fits)
      return situ_refuse(c, SITU_E_SHAPE, "tensor %d is %s, tensor %d is %s: only dimension %d may differ", i,
                         situ_shape_text(&own, a), lead, situ_shape_text(&first, b), d);
    if (!situ__add_i64(shape.dim[d], x->size[d], &shape.dim[d]))
      return situ_refuse(c, SITU_E_OVERFLOW, "dimension %d has more than 2^63 elements", d);
  }
  c->shape[0] = shape;
  c->dtype[0] = situ_result_type(c->in, c->ins);
  const situ_memory_format format = common_format(c);
  if (format >= SITU_CHANNELS_LAST) situ__format_results(c, format);
  return true;
}

/* The part of `whole` where an operand of `size`, starting at `at` along d, is copied. */
static situ_view_desc piece(const situ_view_desc *whole, int d, int64_t at, int64_t size) {
  situ_view_desc v = *whole;
  v.offset += at * v.stride[d];
  v.size[d] = size;
  situ_desc_refresh(&v);
  return v;
}

static bool cat_forward(situ_call *c) {
  const cat_params *p = c->params;
  const situ_view_desc *y = situ__desc(c->out[0]);
  int d = p->dim < 0 ? p->dim + y->ndim : p->dim;
  int64_t at = 0;
  for (int i = 0; i < c->ins; i++) {
    const situ_view_desc *x = situ__desc(c->in[i]);
    if (!x->numel) continue;
    situ_view_desc part = piece(y, d, at, x->size[d]);
    at += x->size[d];
    if (!situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { x }, .out = { &part } }))
      return false;
  }
  return true;
}

static bool cat_backward(situ_grad_call *g) {
  const cat_params *p = g->params;
  int d = p->dim < 0 ? p->dim + situ_dim(g->grad[0]) : p->dim;
  int64_t at = 0;
  for (int i = 0; i < g->ins; i++) {
    if (adds_nothing(g->shape[i].ndim, g->shape[i].dim[0])) {
      if (g->wants[i] && !(g->dx[i] = situ_zeros(g->shape[i], &(situ_options){ .dtype = situ_dtype_of(g->grad[0]),
                                                                               .device = g->device })))
        return false;
      continue;
    }
    if (g->wants[i] && !(g->dx[i] = situ_narrow(g->grad[0], d, at, g->shape[i].dim[d]))) return false;
    at += g->shape[i].dim[d];
  }
  return true;
}

/* For a dry run: assumes that all tensors have the first one's sizes except along the dimension. */
static bool cat_mend(situ_call *c) {
  int d = ((const cat_params *)c->params)->dim;
  c->shape[0] = situ__shape(situ__desc(c->in[0]));
  if (d < 0) d += c->shape[0].ndim;
  if (d < 0 || d >= c->shape[0].ndim) return false;
  for (int i = 1; i < c->ins; i++)
    if (d < situ__desc(c->in[i])->ndim &&
        !situ__add_i64(c->shape[0].dim[d], situ__desc(c->in[i])->size[d], &c->shape[0].dim[d]))
      return false;
  c->dtype[0] = situ_result_type(c->in, c->ins);
  return true;
}

/* With the samples in dimension 0 of all. */
static bool cat_batched(situ_batch_call *c) {
  for (int i = 0; i < c->ins; i++)
    if (!situ_numel(c->in[i])) return situ_batch_each(c);
  return situ__batch_repeat(c) && situ__batch_dim(c, offsetof(cat_params, dim));
}

static bool cat_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "cat.default", "Ti", c->in, c->ins, (int64_t)((const cat_params *)c->params)->dim);
}

SITU_OP(cat_op) = { .name = "cat",
                    .traced = cat_traced,
                    .operand = { { "tensors", 0 } },
                    .flags = SITU_OP_VARIADIC | SITU_OP_LINEAR,
                    .params_size = sizeof(cat_params),
                    .infer = cat_infer,
                    .forward = cat_forward,
                    .batched = cat_batched,
                    .mend = cat_mend,
                    .backward = cat_backward,
                    .backward_recorded = cat_backward };

bool situ__some(const char *op, situ_tensor *const *tensors, int count) {
  if (tensors && count > 0) return true;
  return situ__fail(SITU_E_ARG, op, "needs at least one tensor"), false;
}

situ_tensor *situ_cat(situ_tensor *const *tensors, int count, int dim) {
  if (!situ__some("cat", tensors, count)) return NULL;
  return situ_op_run(&cat_op, tensors, count, &(cat_params){ dim }, NULL);
}

situ_tensor *situ_stack(situ_tensor *const *tensors, int count, int dim) {
  SITU__MADE_OF_OPS("stack");
  static const situ_op schema = { .name = "stack", .operand = { { "tensors", 0 } }, .flags = SITU_OP_VARIADIC };
  int d;
  if (!situ__some("stack", tensors, count) || !situ__together(&schema, tensors, count) ||
      !situ_wrap_dim("stack", dim, tensors[0]->view.ndim + 1, &d))
    return NULL;
  situ_tensor **row = situ__alloc((size_t)count * sizeof *row);
  if (!row) return situ__no_memory("stack", (size_t)count * sizeof *row), NULL;
  situ_tensor *out = NULL;
  bool good = true;
  for (int i = 0; good && i < count; i++) {
    if (!situ__same_sizes(&tensors[i]->view, &tensors[0]->view)) {
      situ_shape first = situ__shape(&tensors[0]->view), own = situ__shape(&tensors[i]->view);
      char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
      situ__fail(SITU_E_SHAPE, "stack", "tensor %d is %s, the first is %s: they must be equal", i,
                 situ_shape_text(&own, a), situ_shape_text(&first, b));
      good = false;
    }
    good = good && (row[i] = situ_unsqueeze(tensors[i], d)) != NULL;
  }
  if (good) out = situ_cat(row, count, d);
  situ__free(row);
  return out;
}

/* ---- split, chunk, unbind: slices into the caller's array ---- */

/* The checks that all share: *d is dim from 0. */
static bool check_source(const char *op, situ_tensor *x, int dim, int *d) {
  if (!situ__need(op, "input", x) || !situ_wrap_dim(op, dim, x->view.ndim, d)) return false;
  if (!x->view.ndim) situ__fail(SITU_E_SHAPE, op, "a 0-dim tensor has no dimension to split");
  return x->view.ndim > 0;
}

/* out NULL with capacity 0 is a question for the number of pieces. */
static bool check_capacity(const char *op, int64_t pieces, situ_tensor **out, int64_t capacity) {
  if (!out && !capacity) return true;
  if (!out) situ__fail(SITU_E_ARG, op, "out is NULL, with a capacity of %lld", (long long)capacity);
  else if (pieces > capacity)
    situ__fail(SITU_E_ARG, op, "%lld pieces, but out has a capacity of %lld", (long long)pieces, (long long)capacity);
  return out && pieces <= capacity;
}

/* As in torch, if a call returns several views, recording mode forbids writing them in place. */
static situ_tensor *one_of(situ_tensor *view) {
  if (view) situ__view_fix(view, SITU__VIEW_ONE_OF);
  return view;
}

int64_t situ_split(situ_tensor *input, int64_t split_size, int dim, situ_tensor **out, int64_t capacity) {
  SITU__MADE_OF_OPS("split");
  int d;
  if (!check_source("split", input, dim, &d)) return -1;
  int64_t length = input->view.size[d];
  if (split_size < 0 || (split_size == 0 && length > 0))
    return situ__fail(SITU_E_ARG, "split", "size %lld must be positive", (long long)split_size), -1;
  int64_t pieces = length ? situ__ceil_div(length, split_size) : 1;
  if (!check_capacity("split", pieces, out, capacity)) return -1;
  for (int64_t i = 0; out && i < pieces; i++) {
    int64_t at = i * split_size;
    if (!(out[i] = one_of(situ_narrow(input, d, at, situ__min_i64(split_size, length - at))))) return -1;
  }
  return pieces;
}

int64_t situ_split_sizes(situ_tensor *input, situ_shape split_sizes, int dim, situ_tensor **out, int64_t capacity) {
  SITU__MADE_OF_OPS("split_sizes");
  int d;
  if (!check_source("split_sizes", input, dim, &d)) return -1;
  int64_t total = 0;
  bool good = split_sizes.ndim > 0 && split_sizes.ndim <= SITU_MAX_DIMS;
  for (int i = 0; good && i < split_sizes.ndim; i++)
    good = split_sizes.dim[i] >= 0 && situ__add_i64(total, split_sizes.dim[i], &total);
  if (!good || total != input->view.size[d]) {
    char text[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_ARG, "split_sizes", "sizes %s do not add up to %lld, the size of dimension %d",
                      situ_shape_text(&split_sizes, text), (long long)input->view.size[d], d),
           -1;
  }
  if (!check_capacity("split_sizes", split_sizes.ndim, out, capacity)) return -1;
  int64_t at = 0;
  for (int i = 0; out && i < split_sizes.ndim; i++) {
    if (!(out[i] = one_of(situ_narrow(input, d, at, split_sizes.dim[i])))) return -1;
    at += split_sizes.dim[i];
  }
  return split_sizes.ndim;
}

int64_t situ_chunk(situ_tensor *input, int64_t chunks, int dim, situ_tensor **out, int64_t capacity) {
  SITU__MADE_OF_OPS("chunk");
  int d;
  if (!check_source("chunk", input, dim, &d)) return -1;
  if (chunks <= 0) return situ__fail(SITU_E_ARG, "chunk", "%lld chunks: must be positive", (long long)chunks), -1;
  return situ_split(input, situ__max_i64(situ__ceil_div(input->view.size[d], chunks), 1), d, out, capacity);
}

int64_t situ_tensor_split(situ_tensor *input, int64_t sections, int dim, situ_tensor **out, int64_t capacity) {
  const char *op = "tensor_split";
  SITU__MADE_OF_OPS(op);
  int d;
  if (!check_source(op, input, dim, &d)) return -1;
  if (sections <= 0) return situ__fail(SITU_E_ARG, op, "%lld sections: must be positive", (long long)sections), -1;
  if (!check_capacity(op, sections, out, capacity)) return -1;
  const int64_t size = input->view.size[d] / sections, larger = input->view.size[d] % sections;
  for (int64_t i = 0, at = 0; out && i < sections; at += size + (i++ < larger))
    if (!(out[i] = one_of(situ_narrow(input, d, at, size + (i < larger))))) return -1;
  return sections;
}

int64_t situ_tensor_split_indices(situ_tensor *input, situ_shape indices, int dim, situ_tensor **out,
                                  int64_t capacity) {
  const char *op = "tensor_split_indices";
  SITU__MADE_OF_OPS(op);
  int d;
  if (!check_source(op, input, dim, &d)) return -1;
  if (indices.ndim < 0 || indices.ndim > SITU_MAX_DIMS)
    return situ__fail(SITU_E_ARG, op, "%d indices: at most %d", indices.ndim, SITU_MAX_DIMS), -1;
  if (!check_capacity(op, indices.ndim + 1, out, capacity)) return -1;
  for (int i = 0; out && i <= indices.ndim; i++) {
    const int64_t start = i ? indices.dim[i - 1] : 0, end = i < indices.ndim ? indices.dim[i] : INT64_MAX;
    if (!(out[i] = one_of(situ_slice(input, d, start, end, 1)))) return -1;
  }
  return indices.ndim + 1;
}

int64_t situ_unbind(situ_tensor *input, int dim, situ_tensor **out, int64_t capacity) {
  SITU__MADE_OF_OPS("unbind");
  int d;
  if (!check_source("unbind", input, dim, &d)) return -1;
  int64_t pieces = input->view.size[d];
  if (!check_capacity("unbind", pieces, out, capacity)) return -1;
  for (int64_t i = 0; out && i < pieces; i++)
    if (!(out[i] = one_of(situ_select(input, d, i)))) return -1;
  return pieces;
}

/* ---- flip: a view backwards, copied, since public views have no negative strides ---- */

typedef struct flip_params {
  situ_shape dims;
} flip_params;

static bool flip_infer(situ_call *c) {
  const flip_params *p = c->params;
  unsigned mask;
  if (!situ__dim_mask(c->op->name, &p->dims, situ__desc(c->in[0])->ndim, false, &mask)) return false;
  situ_infer_like(c);
  situ__keep_order(c);
  return true;
}

static bool flip_forward(situ_call *c) {
  const flip_params *p = c->params;
  situ_view_desc v = *situ__desc(c->in[0]);
  for (int k = 0; k < p->dims.ndim; k++) {
    int64_t d = p->dims.dim[k] < 0 ? p->dims.dim[k] + v.ndim : p->dims.dim[k];
    if (!v.ndim) continue;
    v.offset += (v.size[d] - 1) * v.stride[d];
    v.stride[d] = -v.stride[d];
  }
  situ_desc_refresh(&v);
  return situ_launch(
      c->op->name, c->device,
      &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &v }, .out = { situ__desc(c->out[0]) } });
}

static bool flip_backward(situ_grad_call *g) {
  const flip_params *p = g->params;
  return (g->dx[0] = situ_flip(g->grad[0], p->dims)) != NULL;
}

static bool flip_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "flip.default", "tI", c->in[0], &((const flip_params *)c->params)->dims);
}

SITU_OP(flip_op) = { .name = "flip",
                     .traced = flip_traced,
                     .operand = { { "input", 0 } },
                     .params_size = sizeof(flip_params),
                     .flags = SITU_OP_LINEAR,
                     .infer = flip_infer,
                     .forward = flip_forward,
                     .backward = flip_backward,
                     .backward_recorded = flip_backward };

situ_tensor *situ_flip(situ_tensor *input, situ_shape dims) {
  return situ_op_run1(&flip_op, input, &(flip_params){ dims });
}

/* ---- roll: two pieces are swapped, one dimension at a time ---- */

situ_tensor *situ_roll(situ_tensor *input, situ_shape shifts, situ_shape dims) {
  SITU__MADE_OF_OPS("roll");
  if (!situ__need("roll", "input", input)) return NULL;
  situ_shape own = situ__shape(&input->view);
  if (!dims.ndim) { /* torch: without dimensions the flattened tensor is rolled */
    if (shifts.ndim != 1)
      return situ__fail(SITU_E_ARG, "roll", "%d shifts without dimensions: exactly one is needed", shifts.ndim), NULL;
    return situ_reshape(situ_roll(situ_reshape(input, SITU_SHAPE(-1)), shifts, SITU_DIMS(0)), own);
  }
  if (shifts.ndim != dims.ndim)
    return situ__fail(SITU_E_ARG, "roll", "%d shifts for %d dimensions", shifts.ndim, dims.ndim), NULL;
  if (!own.ndim)
    return situ__fail(SITU_E_ARG, "roll", "dimension %lld of a 0-dim tensor, which has none; leave dims out",
                      (long long)dims.dim[0]),
           NULL;
  situ_tensor *y = input;
  for (int k = 0; y && k < dims.ndim; k++) {
    int d;
    if (!situ_wrap_dim("roll", dims.dim[k], own.ndim, &d)) return NULL;
    int64_t size = own.dim[d], shift = size ? shifts.dim[k] % size : 0;
    if (shift < 0) shift += size;
    if (!shift) continue;
    situ_tensor *part[2] = { situ_narrow(y, d, size - shift, shift), situ_narrow(y, d, 0, size - shift) };
    y = situ_cat(part, 2, d);
  }
  return y == input ? situ_clone(input) : y;
}

/* ---- repeat: expanded next to each dimension, then merged ---- */

situ_tensor *situ_repeat(situ_tensor *input, situ_shape repeats) {
  SITU__MADE_OF_OPS("repeat");
  if (!situ__need("repeat", "input", input)) return NULL;
  int64_t numel;
  situ_shape whole = { .ndim = repeats.ndim };
  if (repeats.ndim < input->view.ndim || repeats.ndim > SITU_MAX_DIMS)
    return situ__fail(SITU_E_ARG, "repeat", "%d repetitions for a tensor of %d dimensions", repeats.ndim,
                      input->view.ndim),
           NULL;
  const int missing = repeats.ndim - input->view.ndim;
  for (int d = 0; d < repeats.ndim; d++) {
    int64_t size = d < missing ? 1 : input->view.size[d - missing];
    if (repeats.dim[d] < 0 || !situ__mul_i64(size, repeats.dim[d], &whole.dim[d]))
      return situ__fail(repeats.dim[d] < 0 ? SITU_E_ARG : SITU_E_OVERFLOW, "repeat", "%lld repetitions of size %lld",
                        (long long)repeats.dim[d], (long long)size),
             NULL;
  }
  if (!situ_shape_numel("repeat", &whole, &numel)) return NULL;
  situ_tensor *y = input;
  for (int d = repeats.ndim - 1; y && d >= 0; d--) { /* one dimension at a time stays within SITU_MAX_DIMS */
    if (d >= missing && repeats.dim[d] == 1) continue;
    situ_shape now = situ__shape(situ_desc(y));
    int at = now.ndim - (repeats.ndim - d);
    int64_t outer = 1, inner = 1;
    for (int k = 0; k < at; k++) outer *= now.dim[k];
    for (int k = at < 0 ? 0 : at; k < now.ndim; k++) inner *= now.dim[k];
    situ_tensor *spread =
        situ_expand(situ_reshape(y, SITU_SHAPE(outer, 1, inner)), SITU_SHAPE(outer, repeats.dim[d], inner));
    situ_shape merged = now;
    if (at < 0) {
      merged.ndim = now.ndim + 1;
      for (int k = now.ndim; k > 0; k--) merged.dim[k] = now.dim[k - 1];
      merged.dim[0] = repeats.dim[d];
    } else {
      merged.dim[at] *= repeats.dim[d];
    }
    y = situ_reshape(spread, merged);
  }
  return y == input ? situ_clone(input) : y;
}
