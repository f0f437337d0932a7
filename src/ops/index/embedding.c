/* embedding, and embedding_bag, which is made of it.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/busy.h"
#include "base/fail.h"
#include "base/options.h"
#include "base/pair.h"
#include "ops/ops.h"

/* ---- embedding: rows of a table ---- */

typedef struct embedding_params {
  int64_t padding; /* the row without a gradient; -1: none */
  bool by_frequency;
} embedding_params;

static bool embedding_infer(situ_call *c) {
  const situ_view_desc *index = situ__desc(c->in[0]), *weight = situ__desc(c->in[1]);
  if (weight->ndim != 2)
    return situ_refuse(c, SITU_E_SHAPE, "weight has %d dimensions, must be [vocabulary, width]", weight->ndim);
  if (index->ndim == SITU_MAX_DIMS)
    return situ_refuse(c, SITU_E_ARG, "index has %d dimensions: the result would have one more than the limit",
                       SITU_MAX_DIMS);
  const embedding_params *p = c->params;
  if (p->padding >= weight->size[0])
    return situ_refuse(c, SITU_E_ARG, "padding_idx %lld is outside the vocabulary of %lld", (long long)p->padding,
                       (long long)weight->size[0]);
  c->shape[0] = situ__shape(index);
  c->shape[0].dim[c->shape[0].ndim++] = weight->size[1];
  c->dtype[0] = (situ_dtype)weight->dtype;
  return true;
}

static bool embedding_forward(situ_call *c) {
  const situ_view_desc *weight = situ__desc(c->in[1]);
  situ_tensor *flat = situ_contiguous(c->in[0]);
  if (!flat) return false;
  int64_t count = situ_desc(flat)->numel;
  situ_view_desc index, y;
  return situ_launch(
      c->op->name, c->device,
      &(situ_work){ SITU_VERB_GATHER, .op = SITU_INDEX_ROWS, .ins = 2, .outs = 1,
                    .in = { weight, situ_desc_reshape(situ_desc(flat), SITU_SHAPE(count), &index) },
                    .out = { situ_desc_reshape(situ__desc(c->out[0]), SITU_SHAPE(count, weight->size[1]), &y) } });
}

/* up[i] divided by the number of times that its row is in index. */
static situ_tensor *divided_by_frequency(situ_tensor *up, situ_tensor *index, int64_t vocabulary) {
  const situ_options like = { .dtype = situ__wide(situ_dtype_of(up)), .device = situ_device_of(up) };
  situ_tensor *ones = situ_expand(situ_ones(SITU_SCALAR, &like), situ_shape_of(index));
  situ_tensor *counts = situ_index_add_(situ_zeros(SITU_SHAPE(vocabulary), &like), 0, index, ones, 1);
  situ_tensor *divided = situ_div(up, situ_unsqueeze(situ_index_select(counts, 0, index), 1));
  return situ_to_dtype(divided, situ_dtype_of(up));
}

static bool embedding_backward(situ_grad_call *g) {
  const embedding_params *p = g->params;
  const situ_shape table = g->shape[1];
  situ_tensor *index = situ_reshape(g->in[0], SITU_SHAPE(-1)),
              *up = situ_reshape(g->grad[0], SITU_SHAPE(situ_numel(g->in[0]), table.dim[1]));
  if (p->padding >= 0) up = situ_masked_fill(up, situ_unsqueeze(situ_eq_scalar(index, (double)p->padding), 1), 0);
  if (p->by_frequency && table.dim[1]) up = divided_by_frequency(up, index, table.dim[0]);
  situ_tensor *sum = situ_grad_collected(g, 1);
  if (!sum && up)
    sum = g->dx[1] = situ_zeros(table, &(situ_options){ .dtype = situ_dtype_of(up), .device = g->device });
  return situ_index_add_(sum, 0, index, up, 1) != NULL;
}

static bool embedding_traced(const situ_call *c, situ_export_trace *t) {
  const embedding_params *p = c->params;
  return situ_export_call(t, "embedding.default", "ttib", c->in[1], c->in[0], p->padding, (int)p->by_frequency);
}

SITU_OP(embedding_op) = { .name = "embedding",
                          .traced = embedding_traced,
                          .operand = { { "input", SITU_INDEX }, { "weight", 0 } },
                          .flags = SITU_OP_COMPOSED,
                          .save = SITU_SAVE(0),
                          .params_size = sizeof(embedding_params),
                          .infer = embedding_infer,
                          .forward = embedding_forward,
                          .batched = situ_batch_leading,
                          .backward = embedding_backward,
                          .backward_recorded = embedding_backward };

/* ---- max_norm ---- */

/* Scales the rows in y that have a larger norm, as torch's embedding_renorm_ does; the gradient does not see it. */
static bool bound_rows(situ_tensor *y, const situ_embedding_options *o) {
  const situ_dtype wide = situ__wide(situ_dtype_of(y));
  const situ_options like = { .dtype = wide, .device = situ_device_of(y) };
  situ__unseen u;
  situ__unseen_begin(&u);
  situ_tensor *rows = situ_to_dtype(y, wide);
  situ_tensor *norm = situ_norm(rows, o->norm_type, &(situ_reduce_options){ .dim = SITU_DIMS(-1), .keepdim = true });
  situ_tensor *scale = situ_div(situ_full(SITU_SCALAR, o->max_norm, &like), situ_add_scalar(norm, 1e-7));
  scale = situ_masked_fill(scale, situ_logical_not(situ_gt_scalar(norm, o->max_norm)), 1);
  const bool good = situ_copy_(y, situ_mul(rows, scale)) != NULL;
  return situ__unseen_end(&u) && good;
}

/* Writes rows to weight, equal ones where index names a row several times. */
static bool write_rows(situ_tensor *weight, situ_tensor *index, situ_tensor *rows) {
  situ__unseen u;
  situ__unseen_begin(&u);
  const situ_shape shape = SITU_SHAPE(situ_numel(index), weight->view.size[1]);
  const uint64_t lock = situ__write_begin(situ__write_lock_of(weight->view.storage)); /* a save may read it */
  const bool good = situ_index_copy_(weight, 0, situ_reshape(index, SITU_SHAPE(-1)), situ_reshape(rows, shape)) != NULL;
  situ__write_end(lock);
  return situ__unseen_end(&u) && good;
}

static bool is_bounded(const situ_tensor *y, const situ_embedding_options *o) {
  return o->max_norm != SITU_NONE && y->view.numel;
}

/* The rows; with max_norm those that write_rows is to write, when nothing else can fail. */
static situ_tensor *embed(situ_tensor *index, situ_tensor *weight, const embedding_params *p,
                          const situ_embedding_options *o) {
  situ_tensor *y = situ_op_run2(&embedding_op, index, weight, p);
  return !y || !is_bounded(y, o) || bound_rows(y, o) ? y : NULL;
}

static situ_tensor *embed_bounded(situ_tensor *index, situ_tensor *weight, const embedding_params *p,
                                  const situ_embedding_options *o) {
  SITU__MADE_OF_OPS("embedding");
  const situ_op schema = { .name = "embedding", .operand = { { "input", SITU_INDEX }, { "weight", SITU_FLOATING } } };
  if (!situ__together(&schema, (situ_tensor *[]){ index, weight }, 2)) return NULL;
  situ_tensor *y = embed(index, weight, p, o);
  return !y || !is_bounded(y, o) || write_rows(weight, index, y) ? y : NULL;
}

/* Checks options, and wraps a negative padding_idx. Returns false after recording an error. */
static bool read_options(const char *op, const situ_embedding_options *o, const situ_tensor *weight,
                         embedding_params *p) {
  *p = (embedding_params){ .padding = -1, .by_frequency = o->scale_grad_by_freq };
  if (!situ__check_pair(op, "padding_idx", o->has_padding_idx, o->padding_idx)) return false;
  if (!(o->max_norm >= 0 || o->max_norm == SITU_NONE) || isnan(o->norm_type))
    return situ__fail(SITU_E_ARG, op, "max_norm %g, norm_type %g: max_norm must not be negative, neither may be NaN",
                      o->max_norm, o->norm_type),
           false;
  if (!o->has_padding_idx) return true;
  p->padding = o->padding_idx;
  if (p->padding < 0 && situ__need(op, "weight", weight) && weight->view.ndim == 2) p->padding += weight->view.size[0];
  if (p->padding >= 0) return true;
  return situ__fail(SITU_E_ARG, op, "padding_idx %lld is outside the vocabulary", (long long)o->padding_idx), false;
}

situ_tensor *situ_embedding(situ_tensor *input, situ_tensor *weight, const situ_embedding_options *options) {
  situ_embedding_options o = situ_embedding_defaults();
  embedding_params p;
  if (!situ__options_read("embedding", "situ_embedding_defaults", options, &o, sizeof o)) return NULL;
  if (!read_options("embedding", &o, weight, &p)) return NULL;
  return o.max_norm != SITU_NONE ? embed_bounded(input, weight, &p, &o)
                                 : situ_op_run2(&embedding_op, input, weight, &p);
}

/* ---- embedding_bag: sums, means and maxima of the rows of a bag ---- */

typedef struct bags {
  situ_tensor *place; /* [n] for each entry its bag; NULL: rows are [bags, entries, width] */
  situ_tensor *skip;  /* which entries are padding; NULL: none */
  int64_t count;
} bags;

/* The bag of each of n entries. Kernels refuse offsets that are outside 0..n, that do not begin with 0 (a bag -1), or
   that decrease (a bag of negative length). */
static situ_tensor *places(situ_tensor *offsets, int64_t n) {
  const situ_options integer = { .dtype = SITU_I64, .device = situ_device_of(offsets) };
  const int64_t count = situ_numel(offsets);
  if (!(offsets = situ_to_dtype(offsets, SITU_I64))) return NULL;
  situ_tensor *ones = situ_expand(situ_ones(SITU_SCALAR, &integer), SITU_SHAPE(count));
  situ_tensor *starts = situ_index_add_(situ_zeros(SITU_SHAPE(n + 1), &integer), 0, offsets, ones, 1);
  if (count > 1) {
    situ_tensor *any = situ_expand(situ_zeros(SITU_SCALAR, &integer), SITU_SHAPE(n + 1));
    situ_tensor *length = situ_sub(situ_narrow(offsets, 0, 1, count - 1), situ_narrow(offsets, 0, 0, count - 1));
    if (!situ_index_select(any, 0, length)) return NULL;
  }
  return situ_sub_scalar(situ_cumsum(situ_narrow(starts, 0, 0, n), 0), 1);
}

/* Sums over the entries of each bag: of [n, ...] or [bags, entries, ...]. */
static situ_tensor *add_up(const bags *b, situ_tensor *x) {
  if (!b->place) return situ_sum(x, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
  if (!x) return NULL;
  situ_shape shape = situ_shape_of(x);
  shape.dim[0] = b->count;
  situ_tensor *zeros = situ_zeros(shape, &(situ_options){ .dtype = situ_dtype_of(x), .device = situ_device_of(x) });
  return situ_index_add(zeros, 0, b->place, x, 1);
}

/* The number of entries of each bag, as a column. */
static situ_tensor *sizes(const bags *b, situ_tensor *input, situ_dtype dtype) {
  const situ_options like = { .dtype = dtype, .device = situ_device_of(input) };
  situ_tensor *each = b->skip ? situ_to_dtype(situ_logical_not(b->skip), dtype)
                              : situ_expand(situ_ones(SITU_SCALAR, &like), situ_shape_of(input));
  return situ_unsqueeze(add_up(b, each), 1);
}

/* For each bag and column the first entry that has the maximum (NaN is the largest), or n if the bag is empty. */
static situ_tensor *first_maxima(const bags *b, situ_tensor *rows) {
  const situ_shape shape = situ_shape_of(rows);
  const int64_t n = shape.dim[0];
  const situ_options like = { .dtype = situ_dtype_of(rows), .device = situ_device_of(rows) },
                     integer = { .dtype = SITU_I64, .device = like.device };
  const situ_shape all = SITU_SHAPE(b->count, shape.dim[1]);
  situ_tensor *place = situ_expand(situ_unsqueeze(b->place, 1), shape);
  situ_tensor *most = situ_scatter_reduce(situ_full(all, -INFINITY, &like), 0, place, rows, SITU_SCATTER_AMAX, true);
  situ_tensor *other = situ_logical_not(situ_logical_or(situ_eq(rows, situ_gather(most, 0, place)), situ_isnan(rows)));
  if (b->skip) other = situ_logical_or(other, situ_unsqueeze(b->skip, 1));
  situ_tensor *entry = situ_expand(situ_unsqueeze(situ_arange(0, (double)n, 1, &integer), 1), shape);
  return situ_scatter_reduce(situ_full(all, (double)n, &integer), 0, place, situ_masked_fill(entry, other, (double)n),
                             SITU_SCATTER_AMIN, true);
}

static situ_tensor *maxima(const bags *b, situ_tensor *input, situ_tensor *rows) {
  if (b->skip) rows = situ_masked_fill(rows, situ_unsqueeze(b->skip, -1), -INFINITY);
  if (!rows || !situ_numel(input)) return add_up(b, rows);
  if (!b->place) {
    situ_tensor *most = situ_max_dim(rows, 1, false, NULL);
    return b->skip ? situ_masked_fill(most, situ_eq_scalar(sizes(b, input, SITU_I64), 0), 0) : most;
  }
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *first = situ_scope_return(&s, first_maxima(b, rows));
  situ_tensor *empty = situ_eq_scalar(first, (double)situ_size(rows, 0));
  return situ_masked_fill(situ_gather(rows, 0, situ_masked_fill(first, empty, 0)), empty, 0);
}

/* 16 bits are computed in f32, and rounded once. */
static situ_tensor *reduce_bags(const bags *b, situ_tensor *input, situ_tensor *rows,
                                const situ_embedding_bag_options *o) {
  const situ_dtype wide = rows ? situ__wide(situ_dtype_of(rows)) : SITU_F32;
  rows = situ_to_dtype(rows, wide);
  if (o->mode == SITU_EMBEDDING_BAG_MAX) return maxima(b, input, rows);
  if (b->skip) rows = situ_masked_fill(rows, situ_unsqueeze(b->skip, -1), 0);
  if (o->per_sample_weights) rows = situ_mul(rows, situ_unsqueeze(situ_to_dtype(o->per_sample_weights, wide), -1));
  situ_tensor *sum = add_up(b, rows);
  return o->mode == SITU_EMBEDDING_BAG_SUM ? sum : situ_div(sum, situ_clamp(sizes(b, input, wide), 1, INFINITY));
}

static bool bag_error(situ_status status, const char *text) {
  return situ__fail(status, "embedding_bag", "%s", text), false;
}

static bool bags_fit(const situ_tensor *input, const situ_embedding_bag_options *o) {
  const situ_view_desc *x = &input->view;
  if ((unsigned)o->mode > SITU_EMBEDDING_BAG_MAX) return bag_error(SITU_E_ARG, "mode is not one of mean, sum and max");
  if (x->ndim != 1 && x->ndim != 2) return bag_error(SITU_E_SHAPE, "input must have 1 or 2 dimensions");
  if ((x->ndim == 1) != (o->offsets != NULL))
    return bag_error(SITU_E_ARG, x->ndim == 1 ? "input has 1 dimension: offsets says where each bag begins"
                                              : "input has 2 dimensions, one bag a row: offsets must be NULL");
  if (o->include_last_offset && !o->offsets) return bag_error(SITU_E_ARG, "include_last_offset without offsets");
  if (o->offsets && o->offsets->view.ndim != 1) return bag_error(SITU_E_SHAPE, "offsets must have 1 dimension");
  if (o->offsets && !o->offsets->view.numel && (x->numel || o->include_last_offset))
    return bag_error(SITU_E_SHAPE, "offsets has no elements");
  if (o->mode == SITU_EMBEDDING_BAG_MAX && o->scale_grad_by_freq)
    return bag_error(SITU_E_ARG, "scale_grad_by_freq is not for maxima");
  if (!o->per_sample_weights) return true;
  if (o->mode != SITU_EMBEDDING_BAG_SUM) return bag_error(SITU_E_ARG, "per_sample_weights are for sums only");
  const situ_shape a = situ__shape(x), b = situ__shape(&o->per_sample_weights->view);
  return situ_shape_equal(&a, &b) || bag_error(SITU_E_SHAPE, "per_sample_weights must have input's shape");
}

static situ_tensor *embed_bags(situ_tensor *input, situ_tensor *weight, const situ_embedding_bag_options *o) {
  const situ_embedding_options each = { .has_padding_idx = o->has_padding_idx,
                                        .padding_idx = o->padding_idx,
                                        .max_norm = o->max_norm,
                                        .norm_type = o->norm_type,
                                        .scale_grad_by_freq = o->scale_grad_by_freq };
  embedding_params p;
  bags b = { .count = o->offsets ? o->offsets->view.numel : input->view.size[0] };
  if (!read_options("embedding_bag", &each, weight, &p)) return NULL;
  if (p.padding >= 0 && !(b.skip = situ_eq_scalar(input, (double)p.padding))) return NULL;
  if (o->offsets && !(b.place = places(o->offsets, input->view.numel))) return NULL;
  situ_tensor *rows = embed(input, weight, &p, &each), *y = reduce_bags(&b, input, rows, o);
  if (o->include_last_offset) y = situ_narrow(y, 0, 0, b.count - 1); /* the last is what follows the last bag */
  y = situ_to_dtype(y, (situ_dtype)weight->view.dtype);
  return !y || !is_bounded(rows, &each) || write_rows(weight, input, rows) ? y : NULL;
}

situ_tensor *situ_embedding_bag(situ_tensor *input, situ_tensor *weight, const situ_embedding_bag_options *options) {
  SITU__MADE_OF_OPS("embedding_bag");
  static const situ_op schema = { .name = "embedding_bag",
                                  .operand = { { "input", SITU_INDEX },
                                               { "weight", SITU_SAME | SITU_FLOATING },
                                               { "offsets", SITU_INDEX | SITU_OPTIONAL },
                                               { "per_sample_weights", SITU_SAME | SITU_FLOATING | SITU_OPTIONAL } } };
  situ_embedding_bag_options o = situ_embedding_bag_defaults();
  if (!situ__options_read("embedding_bag", "situ_embedding_bag_defaults", options, &o, sizeof o)) return NULL;
  situ_tensor *in[] = { input, weight, o.offsets, o.per_sample_weights };
  return situ__together(&schema, in, 4) && bags_fit(input, &o) ? embed_bags(input, weight, &o) : NULL;
}
