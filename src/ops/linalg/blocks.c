/* Ops on quantised weights: dequantize, and linear and embedding with a weight of blocks. Blocks are constants: linear
   has the gradients of its input and of its bias. Where a device has no fused product, rows of the weight are
   dequantised a part at a time, so that memory stays bounded.
   SPDX-License-Identifier: MIT */
#include "base/size.h"
#include "ops/ops.h"
#include "situ/blocks.h"

enum { INPUT, WEIGHT, BIAS };
enum { PART = 16 << 20 }; /* numbers that are dequantised at a time: 64 MiB of f32 */

static bool check_blocks(situ_call *c, int i) {
  if (situ__blocks_of(situ__desc(c->in[i]))) return true;
  return situ_refuse(c, SITU_E_DTYPE, "%s holds numbers, must be a tensor of blocks", c->op->operand[i].name);
}

static bool check_weight(situ_call *c, int i) {
  const int ndim = situ__desc(c->in[i])->ndim;
  return check_blocks(c, i) &&
         (ndim == 2 ||
          situ_refuse(c, SITU_E_SHAPE, "weight has %d dimensions, must be blocks of [rows, columns]", ndim));
}

/* Rows [first, first + count) of the weight, in *desc. */
static const situ_view_desc *rows_at(const situ_view_desc *weight, int64_t first, int64_t count, situ_view_desc *desc) {
  *desc = *weight;
  desc->offset += first * weight->stride[0];
  desc->size[0] = count;
  desc->numel = count * weight->size[1];
  return desc;
}

static bool launch_values(const char *op, situ_device device, const situ_view_desc *blocks, const situ_view_desc *y,
                          situ_block_type type) {
  return y->numel == 0 ||
         situ_launch(op, device,
                     &(situ_work){ SITU_VERB_BLOCKS, .op = SITU_BLOCKS_VALUES, .compute = SITU_F32, .ins = 1, .outs = 1,
                                   .in = { blocks }, .out = { y }, .integer = { type } });
}

/* ---- dequantize ---- */

static bool values_infer(situ_call *c) {
  if (!check_blocks(c, 0)) return false;
  c->shape[0] = situ_block_shape(c->in[0]);
  c->dtype[0] = SITU_F32;
  return true;
}

static bool values_forward(situ_call *c) {
  const situ_view_desc *blocks = situ__desc(c->in[0]), *y = situ__desc(c->out[0]);
  const int last = blocks->ndim - 1;
  const int64_t rows = y->numel / y->size[last];
  situ_view_desc from, to;
  return launch_values(c->op->name, c->device, situ_desc_reshape(blocks, SITU_SHAPE(rows, blocks->size[last]), &from),
                       situ_desc_reshape(y, SITU_SHAPE(rows, y->size[last]), &to), situ__blocks_of(blocks));
}

SITU_OP(dequantize_op) = { .name = "dequantize",
                           .operand = { { "input", SITU_BLOCKS } },
                           .flags = SITU_OP_NO_GRAD,
                           .infer = values_infer,
                           .forward = values_forward };

situ_tensor *situ_dequantize(situ_tensor *input) { return situ_op_run1(&dequantize_op, input, NULL); }

/* ---- block_embedding: the rows' bytes are gathered, then dequantised ---- */

static bool embedding_infer(situ_call *c) {
  const situ_view_desc *index = situ__desc(c->in[0]);
  if (!check_weight(c, 1)) return false;
  if (index->ndim == SITU_MAX_DIMS)
    return situ_refuse(c, SITU_E_ARG, "input has %d dimensions: the result would have one more than the limit",
                       SITU_MAX_DIMS);
  c->shape[0] = situ__shape(index);
  c->shape[0].dim[c->shape[0].ndim++] = situ_block_shape(c->in[1]).dim[1];
  c->dtype[0] = SITU_F32;
  return true;
}

static bool embedding_forward(situ_call *c) {
  const situ_view_desc *weight = situ__desc(c->in[1]);
  situ_tensor *index = situ_contiguous(c->in[0]);
  if (!index) return false;
  const int64_t count = situ_desc(index)->numel;
  situ_tensor *rows =
      situ_empty(SITU_SHAPE(count, weight->size[1]), &(situ_options){ .dtype = SITU_U8, .device = c->device });
  situ_view_desc flat;
  return rows &&
         situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_GATHER, .op = SITU_INDEX_ROWS, .ins = 2, .outs = 1,
                                   .in = { weight, situ_desc_reshape(situ_desc(index), SITU_SHAPE(count), &flat) },
                                   .out = { situ_desc(rows) } }) &&
         launch_values(c->op->name, c->device, situ_desc(rows), situ__desc(c->out[0]), situ__blocks_of(weight));
}

SITU_OP(block_embedding_op) = { .name = "block_embedding",
                                .operand = { { "input", SITU_INDEX }, { "weight", SITU_BLOCKS } },
                                .flags = SITU_OP_COMPOSED | SITU_OP_NO_GRAD,
                                .infer = embedding_infer,
                                .forward = embedding_forward };

situ_tensor *situ_block_embedding(situ_tensor *input, situ_tensor *weight) {
  return situ_op_run2(&block_embedding_op, input, weight, NULL);
}

/* ---- block_linear ---- */

static bool linear_infer(situ_call *c) {
  const situ_view_desc *x = situ__desc(c->in[INPUT]), *b = situ__desc(c->in[BIAS]);
  char text[SITU_SHAPE_TEXT];
  if (!check_weight(c, WEIGHT)) return false;
  const situ_shape weight = situ_block_shape(c->in[WEIGHT]), shape = situ__shape(x);
  if (x->ndim < 1 || x->size[x->ndim - 1] != weight.dim[1])
    return situ_refuse(c, SITU_E_SHAPE, "input is %s, must be [.., %lld] for a weight of %s [%lld, %lld]",
                       situ_shape_text(&shape, text), (long long)weight.dim[1],
                       situ_block_name(situ__blocks_of(situ__desc(c->in[WEIGHT]))), (long long)weight.dim[0],
                       (long long)weight.dim[1]);
  if (b && (b->ndim != 1 || b->size[0] != weight.dim[0])) {
    const situ_shape given = situ__shape(b);
    return situ_refuse(c, SITU_E_SHAPE, "bias is %s, must be [%lld]", situ_shape_text(&given, text),
                       (long long)weight.dim[0]);
  }
  c->shape[0] = shape;
  c->shape[0].dim[x->ndim - 1] = weight.dim[0];
  c->dtype[0] = (situ_dtype)x->dtype;
  return true;
}

/* Values of some rows of the weight, in f32 or f64. */
static situ_tensor *values_of(const char *op, situ_tensor *weight, int64_t first, int64_t count, situ_dtype dtype) {
  situ_view_desc rows;
  const situ_device device = situ_device_of(weight);
  const int64_t columns = situ_block_shape(weight).dim[1];
  situ_tensor *values = situ_empty(SITU_SHAPE(count, columns), &(situ_options){ .dtype = SITU_F32, .device = device });
  if (!values || !launch_values(op, device, rows_at(situ_desc(weight), first, count, &rows), situ_desc(values),
                                situ_block_type_of(weight)))
    return NULL;
  return situ_to_dtype(values, dtype);
}

static int64_t part_rows(const situ_tensor *weight) {
  return situ__max_i64(1, PART / situ__max_i64(1, situ_block_shape(weight).dim[1]));
}

/* Columns [first, first + count) of y, in *desc. */
static const situ_view_desc *columns_at(const situ_view_desc *y, int64_t first, int64_t count, situ_view_desc *desc) {
  *desc = *y;
  desc->offset += first * y->stride[1];
  desc->size[1] = count;
  desc->numel = y->size[0] * count;
  desc->contiguous = count == y->size[1];
  return desc;
}

/* y = x w^T + bias by products of parts of the weight. x, bias (may be NULL) and y are of one dtype, f32 or f64. */
static bool multiply_parts(const situ_call *c, situ_tensor *x, situ_tensor *bias, const situ_view_desc *y) {
  const int64_t rows = y->size[1], part = part_rows(c->in[WEIGHT]);
  bool good = true;
  for (int64_t first = 0; good && first < rows; first += part) {
    const int64_t count = situ__min_i64(part, rows - first);
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    situ_view_desc across, to;
    situ_tensor *w = values_of(c->op->name, c->in[WEIGHT], first, count, (situ_dtype)y->dtype),
                *b = bias ? situ_narrow(bias, 0, first, count) : NULL;
    good = w && (b || !bias) &&
           situ__product(c->op->name, c->device, situ_desc(x), situ__transposed(situ_desc(w), &across), situ__desc(b),
                         columns_at(y, first, count, &to), 1, b ? 1 : 0);
    good = situ_scope_end(&s) == SITU_OK && good;
  }
  return good;
}

static bool linear_forward(situ_call *c) {
  const situ_view_desc *y = situ__desc(c->out[0]), *blocks = situ__desc(c->in[WEIGHT]);
  const int64_t rows = blocks->size[0], count = y->numel / rows;
  const situ_dtype dtype = (situ_dtype)y->dtype, wide = situ__wide(dtype);
  situ_tensor *x = situ_contiguous(situ_to_dtype(c->in[INPUT], wide)),
              *bias = c->in[BIAS] ? situ_contiguous(situ_to_dtype(c->in[BIAS], wide)) : NULL,
              *sum = wide == dtype ? c->out[0]
                                   : situ_empty(situ__shape(y), &(situ_options){ .dtype = wide, .device = c->device });
  if (!x || !sum || (!bias && c->in[BIAS])) return false;
  x = situ_reshape(x, SITU_SHAPE(count, situ_block_shape(c->in[WEIGHT]).dim[1]));
  if (!x) return false;
  situ_view_desc flat;
  const situ_view_desc *to = situ_desc_reshape(situ_desc(sum), SITU_SHAPE(count, rows), &flat);
  const situ_work work = { SITU_VERB_BLOCKS,    .op = SITU_BLOCKS_LINEAR,
                           .compute = SITU_F32, .ins = 3,
                           .outs = 1,           .in = { situ_desc(x), blocks, situ__desc(bias) },
                           .out = { to },       .integer = { situ__blocks_of(blocks) } };
  bool offered = false;
  if (wide == SITU_F32 && situ_desc(x)->numel && situ__offers(c->op->name, c->device, &work, &offered) != SITU_OK)
    return false;
  if (offered ? !situ_launch(c->op->name, c->device, &work) : !multiply_parts(c, x, bias, to)) return false;
  return sum == c->out[0] || situ_copy_(c->out[0], sum) != NULL;
}

/* dx = up w, summed over parts of the weight's rows. */
static situ_tensor *input_gradient(const situ_grad_call *g, situ_tensor *up) {
  situ_tensor *weight = g->in[WEIGHT], *sum = NULL;
  const situ_dtype dtype = g->dtype[INPUT], wide = situ__wide(dtype);
  const int64_t rows = g->shape[WEIGHT].dim[0], part = part_rows(weight);
  up = situ_to_dtype(up, wide);
  if (!rows) return situ_zeros(g->shape[INPUT], &(situ_options){ .dtype = dtype, .device = g->device });
  for (int64_t first = 0; up && first < rows; first += part) {
    const int64_t count = situ__min_i64(part, rows - first);
    situ_tensor *w = values_of(g->op->name, weight, first, count, wide),
                *product = situ_matmul(count == rows ? up : situ_narrow(up, -1, first, count), w);
    sum = sum ? situ_add(sum, product) : product;
    if (!sum) return NULL;
  }
  return situ_to_dtype(sum, dtype);
}

static bool linear_backward(situ_grad_call *g) {
  situ_tensor *up = g->grad[0];
  if (!GRAD(g, INPUT, input_gradient(g, up))) return false;
  return GRAD(
      g, BIAS,
      situ_sum(situ_reshape(up, SITU_SHAPE(-1, g->shape[BIAS].dim[0])), &(situ_reduce_options){ .dim = SITU_DIMS(0) }));
}

/* For a dry run: assumes that the input has the features that the weight expects. */
static bool linear_mend(situ_call *c) {
  return situ__blocks_of(situ__desc(c->in[WEIGHT])) &&
         situ_mend_size(c, INPUT, situ__desc(c->in[INPUT])->ndim - 1, situ_block_shape(c->in[WEIGHT]).dim[1]);
}

SITU_OP(block_linear_op) = { .name = "block_linear",
                             .operand = { { "input", SITU_FLOATING | SITU_SAME },
                                          { "weight", SITU_BLOCKS },
                                          { "bias", SITU_FLOATING | SITU_SAME | SITU_OPTIONAL } },
                             .flags = SITU_OP_COMPOSED,
                             .save = SITU_SAVE(WEIGHT),
                             .infer = linear_infer,
                             .forward = linear_forward,
                             .batched = situ_batch_leading,
                             .mend = linear_mend,
                             .backward = linear_backward,
                             .backward_recorded = linear_backward };

situ_tensor *situ_block_linear(situ_tensor *input, situ_tensor *weight, situ_tensor *bias) {
  return situ_op_run3(&block_linear_op, input, weight, bias, NULL);
}
