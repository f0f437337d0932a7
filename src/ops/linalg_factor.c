/* Factorizations: Cholesky.
   SPDX-License-Identifier: MIT */
#include "ops/lapack.h"

static bool launch(situ_call *c, situ_linalg_pass pass, int outs, int64_t integer) {
  situ_work work = { .verb = SITU_VERB_LINALG,
                     .op = (int)pass,
                     .compute = c->dtype[0],
                     .ins = 1,
                     .outs = outs,
                     .in = { situ__desc(c->in[0]) },
                     .integer = { integer } };
  for (int k = 0; k < outs; k++) work.out[k] = c->out[k] ? situ__desc(c->out[k]) : NULL;
  return situ_launch(c->op->name, c->device, &work);
}

/* ---- cholesky ---- */

typedef struct cholesky_params {
  bool upper;
} cholesky_params;

static bool cholesky_infer(situ_call *c) { return situ__lapack_matrix(c, 0, true) && situ_infer_like(c); }
static bool cholesky_forward(situ_call *c) {
  return launch(c, SITU_LINALG_CHOLESKY, 1, ((const cholesky_params *)c->params)->upper);
}

/* With S the lower triangle of l^T dl, its diagonal halved: da = l^-T (S + S^T) / 2 l^-1, Iain Murray, "Differentiation
   of the Cholesky decomposition" (2016). */
static bool cholesky_backward(situ_grad_call *g) {
  const bool upper = ((const cholesky_params *)g->params)->upper;
  situ_tensor *l = upper ? situ__mt(g->out[0]) : g->out[0], *dl = upper ? situ__mt(g->grad[0]) : g->grad[0];
  situ_tensor *lt = situ__mt(l), *s = situ_matmul(lt, dl);
  situ_tensor *even = situ_mul_scalar(situ_add(situ_tril(s, 0), situ__mt(situ_tril(s, -1))), 0.5);
  return (g->dx[0] = situ__triangular(lt, situ__triangular(lt, even, true, false), true, false)) != NULL;
}

SITU_OP(cholesky_op) = { .name = "linalg_cholesky",
                         .operand = { { "input", SITU_FLOATING } },
                         .flags = SITU_OP_COMPOSED,
                         .save = SITU_SAVE_OUT(0),
                         .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                         .params_size = sizeof(cholesky_params),
                         .infer = cholesky_infer,
                         .forward = cholesky_forward,
                         .backward = cholesky_backward };

situ_tensor *situ_linalg_cholesky(situ_tensor *input, bool upper) {
  return situ__need(cholesky_op.name, "input", input)
             ? situ__lapack_run1(&cholesky_op, input, &(cholesky_params){ upper })
             : NULL;
}
