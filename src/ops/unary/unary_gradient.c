/* The gradients of the rows of kernels/unary.h, one kernel each, and the derivatives of these gradients, by recorded
   calls: so there are derivatives of any order.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "kernels/dialect.h"
#include "ops/ops.h"
#include "ops/samples.h"

/* ---- one kernel: w s(v) ---- */

/* A row's first derivative s: its gradient is w s(v), v being x or y. */
typedef struct first_derivative {
  const situ_op *op;
  double p[4];
} first_derivative;

static situ_tensor *launch(const first_derivative *s, situ_tensor *v, situ_tensor *w);
static situ_tensor *launch_all(situ_tensor *const *in, const void *context) { return launch(context, in[0], in[1]); }

static situ_tensor *launch(const first_derivative *s, situ_tensor *v, situ_tensor *w) {
  if (situ__is_sample(v) || situ__is_sample(w))
    return situ__map_samples(s->op->name, (situ_tensor *[]){ v, w }, 2, launch_all, s);
  situ_tensor *dx = situ_empty_like(w, NULL);
  const situ_device device = w->view.storage->device;
  if (!dx || !situ_numel(dx) || device.kind == SITU_META) return dx;
  const bool of_y = s->op->save & SITU_SAVE_OUT(0);
  const situ_work work = { SITU_VERB_UNARY_GRAD,
                           .op = s->op->code,
                           .compute = situ__unary_compute(s->op, (situ_dtype)w->view.dtype),
                           .ins = 3,
                           .outs = 1,
                           .in = { of_y ? NULL : situ__desc(v), of_y ? situ__desc(v) : NULL, situ__desc(w) },
                           .out = { situ__desc(dx) },
                           .scalar = { s->p[0], s->p[1], s->p[2], s->p[3] } };
  return situ__launch_elementwise(s->op->name, device, &work) ? dx : NULL;
}

/* ---- w s'(v) for each row ---- */

static situ_tensor *row(const first_derivative *s, situ_tensor *v, situ_tensor *w) {
  return situ__unary_gradient(s->op, s->p, v, w);
}
static situ_tensor *times(situ_tensor *a, situ_tensor *b) { return situ_mul(a, b); }
static situ_tensor *scaled(situ_tensor *a, double k) { return situ_mul_scalar(a, k); }
static situ_tensor *plus(situ_tensor *a, double k) { return situ_add_scalar(a, k); }
static situ_tensor *minus_from(double k, situ_tensor *a) { return situ_rsub_scalar(a, k); }

/* v: the saved value; w: what the result is multiplied by; p: the call's parameters; S: w s(v). A piecewise constant
   gradient has a derivative of 0. */
#define SECOND(id, expression)                                                                 \
  static situ_tensor *second_##id(const first_derivative *s, situ_tensor *v, situ_tensor *w) { \
    const double *p = s->p;                                                                    \
    (void)p, (void)v;                                                                          \
    return expression;                                                                         \
  }
#define S row(s, v, w)

SECOND(piecewise_constant, situ_zeros_like(w, NULL))
SECOND(square, scaled(w, 2))
SECOND(sqrt, scaled(situ_div(w, situ_square(v)), -0.5))
SECOND(rsqrt, scaled(times(w, situ_square(v)), -1.5))
SECOND(reciprocal, scaled(times(w, v), -2))
SECOND(exp, w)
SECOND(log, situ_neg(situ_div(S, v)))
SECOND(log1p, situ_neg(situ_div(S, plus(v, 1))))
SECOND(sin, situ_neg(times(w, situ_sin(v))))
SECOND(cos, situ_neg(times(w, situ_cos(v))))
SECOND(erf, scaled(times(S, v), -2))
SECOND(tan, scaled(times(w, v), 2))
SECOND(asin, situ_div(times(S, v), minus_from(1, situ_square(v))))
SECOND(atan, scaled(situ_div(times(S, v), plus(situ_square(v), 1)), -2))
SECOND(sinh, times(w, situ_sinh(v)))
SECOND(cosh, times(w, situ_cosh(v)))
SECOND(asinh, situ_neg(situ_div(times(S, v), plus(situ_square(v), 1))))
SECOND(acosh, situ_neg(situ_div(times(S, v), plus(situ_square(v), -1))))
SECOND(atanh, scaled(situ_div(times(S, v), minus_from(1, situ_square(v))), 2))
SECOND(exp2, scaled(w, 0.69314718055994530942))
SECOND(erfinv, scaled(times(S, v), 2))
SECOND(lgamma, times(w, situ_polygamma(1, v)))
SECOND(special_entr, situ_neg(situ_div(w, v)))
SECOND(polygamma, times(w, situ_polygamma((int64_t)p[0] + 2, v)))
/* I1' = I0 - I1 / x, which is 1/2 at 0 */
SECOND(i0, situ_where(situ_eq_scalar(v, 0), scaled(w, 0.5),
                      situ_sub(times(w, situ_i0(v)), situ_div(S, situ_masked_fill(v, situ_eq_scalar(v, 0), 1)))))
/* f = sin(a x) / (a x): f'' = -a^2 f - 2 f' / x, which is -a^2 / 3 at 0; a = pi */
static situ_tensor *second_sinc(const first_derivative *s, situ_tensor *v, situ_tensor *w) {
  const double square = 9.86960440108935861883;
  situ_tensor *zero = situ_eq_scalar(v, 0), *x = situ_masked_fill(v, zero, 1);
  situ_tensor *second = situ_add(scaled(times(w, situ_sinc(v)), square), scaled(situ_div(S, x), 2));
  return situ_neg(situ_where(zero, scaled(w, square / 3), second));
}
/* Outside of the bounds S is 0. */
static situ_tensor *second_logit(const first_derivative *s, situ_tensor *v, situ_tensor *w) {
  situ_tensor *first = S, *product = situ_masked_fill(times(v, minus_from(1, v)), situ_eq_scalar(first, 0), 1);
  return situ_div(times(first, plus(scaled(v, 2), -1)), product);
}

SECOND(tanh, scaled(times(w, v), -2))
SECOND(sigmoid, times(w, plus(scaled(v, -2), 1)))
SECOND(elu, situ_masked_fill(scaled(S, p[1]), situ_gt_scalar(v, 0), 0))
/* The density of the normal distribution. */
static situ_tensor *density(situ_tensor *x) {
  return scaled(situ_exp(scaled(situ_square(x), -0.5)), 0.39894228040143267794);
}
SECOND(gelu, times(w, times(density(v), minus_from(2, situ_square(v)))))
/* y = x (1 + t) / 2 with t = tanh(u(x)): y'' = (1 - t^2) (u' + x (u'' / 2 - t u'^2)) */
static situ_tensor *second_gelu_tanh(const first_derivative *s, situ_tensor *v, situ_tensor *w) {
  (void)s;
  const double k = 0.79788456080286535588, cube = 0.044715;
  situ_tensor *square = situ_square(v);
  situ_tensor *t = situ_tanh(scaled(times(v, plus(scaled(square, cube), 1)), k));
  situ_tensor *u1 = scaled(plus(scaled(square, 3 * cube), 1), k), *u2 = scaled(v, 3 * cube * k);
  situ_tensor *inner = situ_add(u1, times(v, situ_sub(u2, times(t, situ_square(u1)))));
  return times(w, times(minus_from(1, situ_square(t)), inner));
}
/* x times the logistic function of c x. */
static situ_tensor *second_swish(double c, situ_tensor *v, situ_tensor *w) {
  situ_tensor *cx = scaled(v, c), *y = situ_sigmoid(cx);
  situ_tensor *inner = plus(times(cx, plus(scaled(y, -2), 1)), 2);
  return scaled(times(w, times(times(y, minus_from(1, y)), inner)), c);
}
SECOND(silu, second_swish(1, v, w))
SECOND(quick_gelu, second_swish(1.702, v, w))
/* y = x t with t = tanh(softplus(x)) and t' = a (1 - t^2), a being the logistic function:
   y'' = t' (2 + x (1 - a - 2 a t)) */
static situ_tensor *second_mish(const first_derivative *s, situ_tensor *v, situ_tensor *w) {
  (void)s;
  situ_tensor *a = situ_sigmoid(v), *t = situ_tanh(situ_softplus(v, 1, 20));
  situ_tensor *inner = plus(times(v, situ_sub(minus_from(1, a), scaled(times(a, t), 2))), 2);
  return times(w, times(times(a, minus_from(1, situ_square(t))), inner));
}
SECOND(hardswish, situ_masked_fill(scaled(w, 1.0 / 3), situ_ge_scalar(situ_abs(v), 3), 0))
SECOND(softsign, scaled(situ_div(times(S, situ_sign(v)), plus(situ_abs(v), 1)), -2))
SECOND(tanhshrink, scaled(times(w, times(situ_tanh(v), minus_from(1, situ_square(situ_tanh(v))))), 2))
SECOND(softplus, situ_masked_fill(times(S, scaled(minus_from(1, situ_sigmoid(scaled(v, p[0]))), p[0])),
                                  situ_gt_scalar(scaled(v, p[0]), p[1]), 0))
SECOND(pow_scalar, p[0] == 0 || p[0] == 1 ? situ_zeros_like(w, NULL)
                                          : scaled(times(w, situ_pow_scalar(v, p[0] - 2)), p[0] * (p[0] - 1)))
SECOND(scalar_pow, p[0] > 0 ? scaled(S, log(p[0])) : S)

/* The second derivative of another row, or of a piecewise constant one. */
#define second_abs second_piecewise_constant
#define second_expm1 second_exp
#define second_log2 second_log
#define second_log10 second_log
#define second_erfc second_erf
#define second_acos second_asin
#define second_relu second_piecewise_constant
#define second_leaky_relu second_piecewise_constant
#define second_hardsigmoid second_piecewise_constant
#define second_softshrink second_piecewise_constant
#define second_hardshrink second_piecewise_constant
#define second_hardtanh second_piecewise_constant
#define second_clamp second_piecewise_constant
#define second_nan_to_num second_piecewise_constant

/* The gradient reads neither x nor y. */
#define second_neg NULL
#define second_sign NULL
#define second_floor NULL
#define second_ceil NULL
#define second_round NULL
#define second_trunc NULL
#define second_add_scalar NULL
#define second_rsub_scalar NULL
#define second_mul_scalar NULL
#define second_div_scalar NULL
#define second_fmod_scalar NULL
#define second_remainder_scalar NULL

typedef situ_tensor *second_fn(const first_derivative *s, situ_tensor *v, situ_tensor *w);
/* By a row's code. A row without a second derivative above does not compile, nor does one that says NULL although its
   gradient reads x or y. Rows of TEST and INTEGER have no gradient. */
#define INTEGER(name, integer)
#define TEST(name, y, integer)
#define FLOAT(name, y, dx, uses) [SITU_UNARY_##name] = second_##name,
#define WIDE FLOAT
#define BOTH(name, y, integer, dx, uses) [SITU_UNARY_##name] = second_##name,
#define MATH BOTH
static second_fn *const seconds[SITU_UNARIES] = {
#include "kernels/unary.h"
};
#define NEEDED(second, uses) \
  _Static_assert((((uses) & (USES_X | USES_Y)) != 0) == _Generic(second, void *: false, default: true), \
                 #second ": NULL if and only if the gradient reads neither x nor y");
#define INTEGER(name, integer)
#define TEST(name, y, integer)
#define FLOAT(name, y, dx, uses) NEEDED(second_##name, uses)
#define WIDE FLOAT
#define BOTH(name, y, integer, dx, uses) NEEDED(second_##name, uses)
#define MATH BOTH
#include "kernels/unary.h"

/* ---- recording ---- */

static bool backward(situ__pass *pass, const situ__node *n, situ_tensor *const *up, const bool *wants,
                     situ_tensor **dx) {
  (void)pass;
  enum { VALUE, GRAD };
  bool good = true;
  const first_derivative *s = n->params;
  situ_tensor *v = situ__saved_operand(n, VALUE, &good), *w = situ__saved_operand(n, GRAD, &good);
  if (good && wants[GRAD]) good = (dx[GRAD] = row(s, v, up[0])) != NULL;
  if (good && wants[VALUE]) good = (dx[VALUE] = seconds[s->op->code](s, v, situ_mul(up[0], w))) != NULL;
  return good;
}

situ_tensor *situ__unary_gradient(const situ_op *op, const double p[4], situ_tensor *value, situ_tensor *grad) {
  const first_derivative s = { op, { p[0], p[1], p[2], p[3] } };
  situ_tensor *dx = grad ? launch(&s, value, grad) : NULL; /* the call that computes grad may have failed */
  if (!situ__recording() || !dx) return dx;
  situ_tensor *in[2] = { value, grad };
  const unsigned asks = situ__tape_asks(in, 2);
  if (!(asks & SITU__TAPE_WANTED)) return dx;
  if (asks & SITU__TAPE_FIRST_ORDER && !situ__tape_refuse_first_order(op->name, in, 2)) return NULL;
  situ__node *n = situ__tape_prepare(&(situ__record){ .name = op->name,
                                                      .backward = backward,
                                                      .params = &s,
                                                      .params_size = sizeof s,
                                                      .in = in,
                                                      .out = &dx,
                                                      .ins = 2,
                                                      .outs = 1,
                                                      .save = SITU_SAVE(0) | SITU_SAVE(1) });
  return n && situ__tape_attach(n, &dx) ? dx : NULL;
}
