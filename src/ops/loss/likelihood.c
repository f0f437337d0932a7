/* Losses that are negative log-likelihoods: binary cross entropy of probabilities, Poisson, Gauss.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "loss.h"

/* ---- binary cross entropy: one op, whose gradient is finite where a logarithm is not ---- */

static bool entropy_infer(situ_call *c) {
  return situ__equal_shapes(c->op->name, "target", c->in[1], "input", c->in[0]) && situ_infer_like(c);
}

/* log x, at least -100 (as torch, so that 0 times it is 0). */
static situ_tensor *bounded(situ_tensor *log) { return situ_clamp(log, -100, INFINITY); }

static bool entropy_forward(situ_call *c) {
  situ_tensor *x = c->in[0], *t = c->in[1];
  situ_tensor *log0 = bounded(situ_log1p(situ_neg(x))), *log1 = bounded(situ_log(x));
  situ_tensor *each = situ_sub(situ_mul(situ_sub_scalar(t, 1), log0), situ_mul(t, log1));
  return each && situ_launch(c->op->name, c->device,
                             &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { situ_desc(each) },
                                           .out = { situ__desc(c->out[0]) } });
}

static bool entropy_backward(situ_grad_call *g) {
  situ_tensor *x = g->in[0], *t = g->in[1], *up = g->grad[0];
  situ_tensor *spread = situ_clamp(situ_mul(situ_rsub_scalar(x, 1), x), 1e-12, INFINITY);
  return GRAD(g, 0, situ_div(situ_mul(up, situ_sub(x, t)), spread)) &&
         GRAD(g, 1, situ_mul(up, situ_sub(situ_log1p(situ_neg(x)), situ_log(x))));
}

/* Its operands do not broadcast. */
static bool entropy_batched(situ_batch_call *c) { return situ__batch_repeat(c) && situ_batch_run(c, c->in, NULL); }

SITU_OP(binary_cross_entropy_op) = { .name = "binary_cross_entropy",
                                     .operand = { { "input", SITU_FLOATING | SITU_SAME },
                                                  { "target", SITU_FLOATING | SITU_SAME } },
                                     .flags = SITU_OP_COMPOSED,
                                     .save = SITU_SAVE(0) | SITU_SAVE(1),
                                     .infer = entropy_infer,
                                     .forward = entropy_forward,
                                     .batched = entropy_batched,
                                     .backward = entropy_backward,
                                     .backward_recorded = entropy_backward };

situ_tensor *situ_binary_cross_entropy(situ_tensor *input, situ_tensor *target, situ_tensor *weight,
                                       situ_reduction reduction) {
  SITU__MADE_OF_OPS("binary_cross_entropy");
  const char *op = "binary_cross_entropy";
  static const situ_operand operands[] = { { "input", SITU_FLOATING | SITU_SAME },
                                           { "target", SITU_FLOATING | SITU_SAME },
                                           { "weight", SITU_OPTIONAL } };
  situ_tensor *in[3] = { input, target, weight };
  if (!situ__loss_operands(op, operands, in, 3) || !situ__spreads_to(op, "weight", in[2], in[0])) return NULL;
  situ_tensor *each = situ_op_run2(&binary_cross_entropy_op, in[0], in[1], NULL);
  return situ__reduce_loss(op, in[2] ? situ_mul(each, in[2]) : each, reduction);
}

/* log(2 pi) / 2 */
#define HALF_LOG_2_PI 0.91893853320467274178

/* ---- Poisson ---- */

/* t log t - t + log(2 pi t) / 2 where t > 1, else 0; at 0 its gradient is NaN, as PyTorch's. */
static situ_tensor *log_factorial(situ_tensor *t) {
  situ_tensor *log = situ_log(t);
  situ_tensor *sum = situ_add_scalar(situ_add(situ_sub(situ_mul(t, log), t), situ_mul_scalar(log, 0.5)), HALF_LOG_2_PI);
  return situ_masked_fill(sum, situ_le_scalar(t, 1), 0);
}

situ_tensor *situ_poisson_nll_loss(situ_tensor *input, situ_tensor *target, bool log_input, bool full, double eps,
                                   situ_reduction reduction) {
  SITU__MADE_OF_OPS("poisson_nll_loss");
  static const situ_operand operands[] = { { "input", 0 }, { "target", 0 } };
  situ_tensor *in[2] = { input, target };
  if (!situ__loss_operands("poisson_nll_loss", operands, in, 2)) return NULL;
  situ_tensor *x = in[0], *t = in[1];
  situ_tensor *each =
      log_input ? situ_sub(situ_exp(x), situ_mul(t, x)) : situ_sub(x, situ_mul(t, situ_log(situ_add_scalar(x, eps))));
  if (full) each = situ_add(each, log_factorial(t));
  return situ__reduce_loss("poisson_nll_loss", each, reduction);
}

/* ---- Gauss ---- */

/* A variance as it broadcasts to input: without its last dimension, that becomes 1. */
static situ_tensor *variance(const char *op, situ_tensor *var, const situ_tensor *input) {
  const situ_shape x = situ__shape(&input->view);
  situ_shape v = situ__shape(&var->view), rest = x;
  rest.ndim = x.ndim ? x.ndim - 1 : 0;
  if (situ_shape_equal(&v, &x)) return var;
  if (x.ndim && situ_shape_equal(&v, &rest)) return situ_unsqueeze(var, -1);
  bool good = v.ndim == x.ndim && v.ndim && v.dim[v.ndim - 1] == 1;
  for (int d = 0; good && d < v.ndim - 1; d++) good = v.dim[d] == x.dim[d];
  if (good) return var;
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "var is %s, input %s: equal, or 1 or nothing in the last dimension",
                    situ_shape_text(&v, a), situ_shape_text(&x, b)),
         NULL;
}

situ_tensor *situ_gaussian_nll_loss(situ_tensor *input, situ_tensor *target, situ_tensor *var, bool full, double eps,
                                    situ_reduction reduction) {
  SITU__MADE_OF_OPS("gaussian_nll_loss");
  const char *op = "gaussian_nll_loss";
  static const situ_operand operands[] = { { "input", SITU_FLOATING }, { "target", 0 }, { "var", SITU_FLOATING } };
  situ_tensor *in[3] = { input, target, var };
  if (!situ__loss_operands(op, operands, in, 3) || !(in[2] = variance(op, in[2], in[0]))) return NULL;
  situ_tensor *spread = situ__at_least(in[2], eps);
  situ_tensor *each =
      situ_mul_scalar(situ_add(situ_log(spread), situ_div(situ_square(situ_sub(in[0], in[1])), spread)), 0.5);
  if (full) each = situ_add_scalar(each, HALF_LOG_2_PI);
  return situ__reduce_loss(op, each, reduction);
}
