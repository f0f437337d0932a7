/* dropout: backward uses the mask of zeros that forward draws.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

typedef struct dropout_params {
  double keep;
  situ_generator draw;
} dropout_params;

/* Results: y and the mask, whose elements are 0 or 1 / keep. */
static bool infer(situ_call *c) {
  situ_infer_like(c);
  c->shape[1] = c->shape[0];
  c->dtype[1] = c->dtype[0];
  situ__keep_order(c);
  return true;
}

static bool scale(const situ_call *c, situ_verb verb, int op, double factor) {
  const situ_view_desc *mask = situ__desc(c->out[1]);
  const bool pair = verb == SITU_VERB_BINARY;
  return situ__launch_elementwise(c->op->name, c->device,
                                  &(situ_work){ verb, .op = op, .compute = c->dtype[1], .ins = pair ? 2 : 1, .outs = 1,
                                                .in = { pair ? situ__desc(c->in[0]) : mask, pair ? mask : NULL },
                                                .out = { pair ? situ__desc(c->out[0]) : mask }, .scalar = { factor } });
}

static bool forward(situ_call *c) {
  const dropout_params *p = c->params;
  return situ__draw(c->op->name, c->device,
                    &(situ_work){ SITU_VERB_RANDOM, .op = SITU_RANDOM_BERNOULLI, .outs = 1,
                                  .out = { situ__desc(c->out[1]) }, .scalar = { p->keep }, .seed = p->draw.seed,
                                  .offset = p->draw.offset }) &&
         scale(c, SITU_VERB_UNARY, SITU_UNARY_mul_scalar, p->keep > 0 ? 1 / p->keep : 0) &&
         scale(c, SITU_VERB_BINARY, SITU_BINARY_mul, 0);
}

/* The mask is a constant. */
static bool backward(situ_grad_call *g) {
  situ_tensor *mask = situ__recording() ? situ_detach(g->out[1]) : g->out[1];
  return (g->dx[0] = situ_mul(g->grad[0], mask)) != NULL;
}

static bool traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "dropout.default", "tnb", c->in[0], 1 - ((const dropout_params *)c->params)->keep, true);
}

SITU_OP(dropout_op) = { .name = "dropout",
                        .traced = traced,
                        .operand = { { "input", SITU_FLOATING } },
                        .outs = 2,
                        .shown = 1,
                        .save = SITU_SAVE_OUT(1),
                        .params_size = sizeof(dropout_params),
                        .infer = infer,
                        .forward = forward,
                        .batched = situ_batch_broadcast,
                        .backward = backward,
                        .backward_recorded = backward };

situ_tensor *situ__dropout_of(situ_tensor *x, double p, situ_generator draw) {
  SITU__DEFAULT_FPU;
  return situ_op_run1(&dropout_op, x, &(dropout_params){ .keep = 1 - p, .draw = draw });
}

situ_tensor *situ_dropout(situ_tensor *input, double p, bool training, situ_generator *generator) {
  if (!(p >= 0 && p <= 1)) return situ__fail(SITU_E_ARG, "dropout", "a probability of %g: must be in 0..1", p), NULL;
  if (!situ__need("dropout", "input", input)) return NULL;
  if (!training || p == 0) return input;
  return situ__dropout_of(input, p, situ_generator_draw(generator));
}
