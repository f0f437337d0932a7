/* Running and whole sums of another kind: logcumsumexp, trapezoid, cumulative_trapezoid.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

/* ---- logcumsumexp: in log2 steps, after each of which an element has the sum of twice as many ---- */

typedef struct line_params {
  int dim;
} line_params;

static situ_tensor *run(situ_tensor *x, int dim) {
  const int64_t n = situ_dim(x) ? situ_size(x, dim) : 1;
  for (int64_t apart = 1; x && apart < n; apart *= 2) {
    situ_tensor *early = situ_narrow(x, dim, 0, n - apart), *late = situ_narrow(x, dim, apart, n - apart);
    situ_tensor *parts[2] = { situ_narrow(x, dim, 0, apart), situ_logaddexp(early, late) };
    x = situ_cat(parts, 2, dim);
  }
  return x;
}

static bool logcumsumexp_forward(situ_call *c) {
  const line_params *p = c->params;
  situ_tensor *y = run(situ_to_dtype(c->in[0], situ__wide(c->dtype[0])), p->dim);
  return y && situ_launch(c->op->name, c->device,
                          &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { situ_desc(y) },
                                        .out = { situ_desc(c->out[0]) } });
}

/* dx[i] = exp(x[i]) sum over j >= i of up[j] exp(-y[j]), the part of positive up, as a logarithm. */
static situ_tensor *positive_part(const line_params *p, situ_tensor *x, situ_tensor *y, situ_tensor *up) {
  situ_tensor *term = situ_sub(situ_masked_fill(situ_log(up), situ_le_scalar(up, 0), -INFINITY), y);
  if (situ_dim(x)) term = situ_flip(run(situ_flip(term, SITU_DIMS(p->dim)), p->dim), SITU_DIMS(p->dim));
  return situ_exp(situ_add(term, x));
}
static bool logcumsumexp_backward(situ_grad_call *g) {
  const situ_dtype dtype = situ__wide(situ_dtype_of(g->grad[0]));
  situ_tensor *x = situ_to_dtype(g->in[0], dtype), *y = situ_to_dtype(g->out[0], dtype);
  situ_tensor *up = situ_to_dtype(g->grad[0], dtype);
  return GRAD(g, 0, situ_sub(positive_part(g->params, x, y, up), positive_part(g->params, x, y, situ_neg(up))));
}
/* Not by the logarithm of a gradient, which may be 0. */
static situ_tensor *composed(const situ_grad_call *g, situ_tensor *const *in, int result) {
  (void)result;
  return run(in[0], ((const line_params *)g->params)->dim);
}
static bool logcumsumexp_recorded(situ_grad_call *g) { return situ_backward_through(g, composed); }

SITU_OP(logcumsumexp_op) = { .name = "logcumsumexp",
                             .operand = { { "input", SITU_FLOATING } },
                             .flags = SITU_OP_COMPOSED,
                             .save = SITU_SAVE(0) | SITU_SAVE_OUT(0),
                             .params_size = sizeof(line_params),
                             .infer = situ_infer_like,
                             .forward = logcumsumexp_forward,
                             .backward = logcumsumexp_backward,
                             .backward_recorded = logcumsumexp_recorded };
situ_tensor *situ_logcumsumexp(situ_tensor *input, int dim) {
  line_params p;
  return situ__need("logcumsumexp", "input", input) && situ_wrap_dim("logcumsumexp", dim, input->view.ndim, &p.dim)
             ? situ_op_run1(&logcumsumexp_op, input, &p)
             : NULL;
}

/* ---- trapezoid: twice the area of each step ---- */

static situ_tensor *steps(const char *op, situ_tensor *x, const situ_tensor *y, int dim) {
  if (x->view.ndim == 1) {
    situ_shape line = { .ndim = y->view.ndim };
    for (int d = 0; d < line.ndim; d++) line.dim[d] = d == dim ? x->view.numel : 1;
    x = situ_reshape(x, line);
  } else if (x->view.ndim != y->view.ndim)
    return situ__fail(SITU_E_SHAPE, op, "x has %d dimensions, y %d: 1, or as many as y", x->view.ndim, y->view.ndim),
           NULL;
  return situ_diff(x, 1, dim);
}

static situ_tensor *areas(const char *op, situ_tensor *y, situ_tensor *x, double dx, int dim) {
  enum { NUMBERS = SITU_FLOATING | SITU_INTEGRAL };
  const situ_op schema = { .name = op, .operand = { { "y", NUMBERS }, { "x", NUMBERS | SITU_OPTIONAL } } };
  if (!situ__together(&schema, (situ_tensor *[]){ y, x }, 2)) return NULL;
  if (!y->view.ndim) return situ__fail(SITU_E_SHAPE, op, "y is 0-dim, must have at least 1 dimension"), NULL;
  if (!situ_wrap_dim(op, dim, y->view.ndim, &dim)) return NULL;
  const int64_t rest = y->view.size[dim] - 1;
  if (rest <= 0) return situ_narrow(y, dim, 0, 0);
  situ_tensor *sum = situ_add(situ_narrow(y, dim, 0, rest), situ_narrow(y, dim, 1, rest));
  if (!x) return situ_mul_scalar(situ__floating(sum), dx);
  x = steps(op, x, y, dim);
  return x ? situ_mul(sum, x) : NULL;
}

situ_tensor *situ_trapezoid(situ_tensor *y, situ_tensor *x, double dx, int dim) {
  SITU__MADE_OF_OPS("trapezoid");
  situ_tensor *twice = areas("trapezoid", y, x, dx, dim);
  if (twice && !x && situ_size(y, dim) > 1) { /* as torch: an infinity at an end is NaN */
    y = situ__floating(y);
    situ_tensor *ends = situ_add(situ_select(y, dim, 0), situ_select(y, dim, -1));
    situ_tensor *sum = situ_sum(y, &(situ_reduce_options){ .dim = SITU_DIMS(dim) });
    return situ_mul_scalar(situ_sub(sum, situ_mul_scalar(ends, 0.5)), dx);
  }
  return situ_div_scalar(situ_sum(twice, &(situ_reduce_options){ .dim = SITU_DIMS(dim) }), 2);
}
situ_tensor *situ_cumulative_trapezoid(situ_tensor *y, situ_tensor *x, double dx, int dim) {
  SITU__MADE_OF_OPS("cumulative_trapezoid");
  return situ_div_scalar(situ_cumsum(areas("cumulative_trapezoid", y, x, dx, dim), dim), 2);
}
