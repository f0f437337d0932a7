/* Masks: filling and selecting where a condition holds.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

/* ---- masked_fill: where(mask, value, x), in x's dtype ---- */

typedef struct fill_params {
  double value;
} fill_params;

static bool fill_infer(situ_call *c) {
  if (!situ_infer_broadcast(c)) return false;
  c->dtype[0] = c->compute = (situ_dtype)situ__desc(c->in[0])->dtype;
  c->like = NULL; /* contiguous, as in torch */
  return true;
}

static bool fill_forward(situ_call *c) {
  const fill_params *p = c->params;
  situ_tensor *value = situ_full(SITU_SCALAR, p->value, &(situ_options){ .dtype = c->dtype[0], .device = c->device });
  if (!value) return false;
  const situ_view_desc *y = situ__desc(c->out[0]);
  situ_view_desc desc[3];
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_TERNARY, .op = SITU_TERNARY_WHERE, .compute = c->compute, .ins = 3,
                                   .outs = 1,
                                   .in = { situ_desc_expand(situ__desc(c->in[1]), y, &desc[0]),
                                           situ_desc_expand(situ_desc(value), y, &desc[1]),
                                           situ_desc_expand(situ__desc(c->in[0]), y, &desc[2]) },
                                   .out = { y } });
}

static bool fill_backward(situ_grad_call *g) { return (g->dx[0] = situ_masked_fill(g->grad[0], g->in[1], 0)) != NULL; }

static bool traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "masked_fill.Scalar", "ttn", c->in[0], c->in[1], ((const fill_params *)c->params)->value);
}

SITU_OP(masked_fill_op) = { .name = "masked_fill",
                            .traced = traced,
                            .operand = { { "input", 0 }, { "mask", SITU_BOOLEAN } },
                            .flags = SITU_OP_COMPOSED,
                            .save = SITU_SAVE(1),
                            .params_size = sizeof(fill_params),
                            .infer = fill_infer,
                            .forward = fill_forward,
                            .batched = situ_batch_broadcast,
                            .backward = fill_backward,
                            .backward_recorded = fill_backward };

situ_tensor *situ_masked_fill(situ_tensor *input, situ_tensor *mask, double value) {
  return situ_op_run2(&masked_fill_op, input, mask, &(fill_params){ value });
}
situ_tensor *situ_masked_fill_(situ_tensor *input, situ_tensor *mask, double value) {
  return situ_op_run_(&masked_fill_op, (situ_tensor *[]){ input, mask }, 2, &(fill_params){ value });
}

/* ---- nonzero, masked_select: sizes depend on values, so these wait for the device ---- */

/* The number of nonzero elements. Returns -1 after recording an error. */
static int64_t count_nonzero(const char *op, situ_tensor *x) {
  int64_t count = -1;
  if (!x->view.numel) return 0;
  situ_tensor *sum = situ_op_new(op, SITU_SCALAR, SITU_I64, x->view.storage->device);
  situ_view_desc desc;
  situ_shape ones = situ__shape(&x->view);
  for (int d = 0; d < ones.ndim; d++) ones.dim[d] = 1;
  if (!sum || !situ_launch(op, x->view.storage->device,
                           &(situ_work){ SITU_VERB_REDUCE, .op = SITU_REDUCE_COUNT,
                                         .compute = (situ_dtype)x->view.dtype, .ins = 1, .outs = 1, .in = { &x->view },
                                         .out = { situ_desc_reshape(situ_desc(sum), ones, &desc) } }))
    return -1;
  return situ_item_i64(sum, &count) == SITU_OK ? count : -1;
}

situ_tensor *situ_nonzero(situ_tensor *input) {
  SITU__MADE_OF_OPS("nonzero");
  const char *op = "nonzero";
  if (!situ__need(op, "input", input)) return NULL;
  situ_device device = input->view.storage->device;
  if (device.kind == SITU_META)
    return situ__fail(SITU_E_UNSUPPORTED, op, "the size depends on values, which a meta tensor does not have"), NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *out = NULL, *rows = situ_contiguous(input);
  int64_t count = rows ? count_nonzero(op, rows) : -1;
  if (count >= 0) out = situ_op_new(op, SITU_SHAPE(count, input->view.ndim), SITU_I64, device);
  if (out && situ_numel(out) &&
      !situ_launch(
          op, device,
          &(situ_work){ SITU_VERB_NONZERO, .ins = 1, .outs = 1, .in = { situ_desc(rows) }, .out = { situ_desc(out) } }))
    out = NULL;
  out = situ_escape(&s, out);
  SITU_IGNORE(situ_scope_end(&s));
  return out;
}

situ_tensor *situ_masked_select(situ_tensor *input, situ_tensor *mask) {
  SITU__MADE_OF_OPS("masked_select");
  const char *op = "masked_select";
  static const situ_op schema = { .name = "masked_select", .operand = { { "input", 0 }, { "mask", SITU_BOOLEAN } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, mask }, 2)) return NULL;
  situ_shape both = situ__shape(&input->view), other = situ__shape(&mask->view);
  if (!situ_shape_broadcast(op, &both, &other)) return NULL;
  situ_tensor *where = situ_nonzero(situ_reshape(situ_expand(mask, both), SITU_SHAPE(-1)));
  if (!where) return NULL;
  return situ_index_select(situ_reshape(situ_expand(input, both), SITU_SHAPE(-1)), 0,
                           situ_reshape(where, SITU_SHAPE(situ_size(where, 0))));
}
