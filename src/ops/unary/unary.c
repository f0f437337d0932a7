/* Element-wise functions of one tensor. Each row of the formula table is an op: its kernel, its gradient's kernel and
   the operands of that gradient all come from the row; how the gradient itself is differentiated, from
   unary_gradient.c.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "kernels/dialect.h"
#include "ops/ops.h"

typedef struct unary_params {
  double p[4];
} unary_params;

/* ---- dtypes: four rules ---- */

/* Integers keep their dtype. */
static bool infer_keep(situ_call *c) {
  situ_infer_like(c);
  situ__keep_alike(c);
  c->compute = c->dtype[0];
  return true;
}
/* Integers give f32. */
static bool infer_float(situ_call *c) {
  situ_infer_like(c);
  situ__keep_alike(c);
  if (!situ_dtype_is_floating(c->dtype[0])) c->dtype[0] = SITU_F32;
  c->compute = c->dtype[0];
  return true;
}
/* As a WIDE row. */
static bool infer_wide(situ_call *c) {
  infer_float(c);
  c->compute = situ__wide(c->dtype[0]);
  return true;
}
static bool infer_test(situ_call *c) {
  infer_keep(c);
  c->dtype[0] = SITU_BOOL;
  return true;
}

/* ---- forward and backward ---- */

static bool unary_forward(situ_call *c) {
  const unary_params *p = c->params;
  return situ__elementwise(c, SITU_VERB_UNARY, p->p, 4);
}

situ_dtype situ__unary_compute(const situ_op *op, situ_dtype dtype) {
  return op->infer == infer_wide ? situ__wide(dtype) : dtype;
}
static bool unary_backward(situ_grad_call *g) {
  const unary_params *p = g->params;
  return (g->dx[0] = situ__unary_gradient(g->op, p->p, g->in[0] ? g->in[0] : g->out[0], g->grad[0])) != NULL;
}

/* ---- torch.export ---- */

static bool clamp_traced(const situ_call *c, situ_export_trace *t, double least, double most) {
  if (least == -INFINITY) return situ_export_call(t, "clamp_max.default", "tn", c->in[0], most);
  if (most == INFINITY) return situ_export_call(t, "clamp_min.default", "tn", c->in[0], least);
  return situ_export_call(t, "clamp.default", "tnn", c->in[0], least, most);
}

static bool unary_traced(const situ_call *c, situ_export_trace *t) {
  const double *p = ((const unary_params *)c->params)->p;
  situ_tensor *x = c->in[0];
  switch (c->op->code) {
  case SITU_UNARY_pow_scalar: return situ_export_call(t, "pow.Tensor_Scalar", "tn", x, p[0]);
  case SITU_UNARY_scalar_pow: return situ_export_call(t, "pow.Scalar", "nt", p[0], x);
  case SITU_UNARY_clamp: return clamp_traced(c, t, p[0], p[1]);
  case SITU_UNARY_hardtanh: return situ_export_call(t, "hardtanh.default", "tnn", x, p[0], p[1]);
  case SITU_UNARY_softplus: return situ_export_call(t, "softplus.default", "tnn", x, p[0], p[1]);
  case SITU_UNARY_leaky_relu: return situ_export_call(t, "leaky_relu.default", "tn", x, p[0]);
  case SITU_UNARY_elu: /* and its kin, by their factors of x */
    if (p[2] != 1) return situ_export_call(t, "selu.default", "t", x);
    return situ_export_call(t, p[1] == 1 ? "elu.default" : "celu.default", "tn", x, p[0]);
  case SITU_UNARY_softshrink: return situ_export_call(t, "softshrink.default", "tn", x, p[0]);
  case SITU_UNARY_hardshrink: return situ_export_call(t, "hardshrink.default", "tn", x, p[0]);
  case SITU_UNARY_gelu_tanh: return situ_export_call(t, "gelu.default", "ts", x, "tanh");
  case SITU_UNARY_softsign:
    return situ_export_call(t, "abs.default", "t", x) && situ_export_call(t, "add.Scalar", "^n", 1.0) &&
           situ_export_call(t, "div.Tensor", "t^", x);
  case SITU_UNARY_quick_gelu:
    return situ_export_call(t, "mul.Scalar", "tn", x, 1.702) && situ_export_call(t, "sigmoid.default", "^") &&
           situ_export_call(t, "mul.Tensor", "^t", x);
  case SITU_UNARY_add_scalar: return situ_export_call(t, "add.Scalar", "tn", x, p[0]);
  case SITU_UNARY_rsub_scalar: return situ_export_call(t, "rsub.Scalar", "tn", x, p[0]);
  case SITU_UNARY_mul_scalar: return situ_export_call(t, "mul.Scalar", "tn", x, p[0]);
  case SITU_UNARY_div_scalar: return situ_export_call(t, "div.Scalar", "tn", x, p[0]);
  case SITU_UNARY_fmod_scalar: return situ_export_call(t, "fmod.Scalar", "tn", x, p[0]);
  case SITU_UNARY_remainder_scalar: return situ_export_call(t, "remainder.Scalar", "tn", x, p[0]);
  case SITU_UNARY_eq_scalar: return situ_export_call(t, "eq.Scalar", "tn", x, p[0]);
  case SITU_UNARY_ne_scalar: return situ_export_call(t, "ne.Scalar", "tn", x, p[0]);
  case SITU_UNARY_lt_scalar: return situ_export_call(t, "lt.Scalar", "tn", x, p[0]);
  case SITU_UNARY_le_scalar: return situ_export_call(t, "le.Scalar", "tn", x, p[0]);
  case SITU_UNARY_gt_scalar: return situ_export_call(t, "gt.Scalar", "tn", x, p[0]);
  case SITU_UNARY_ge_scalar: return situ_export_call(t, "ge.Scalar", "tn", x, p[0]);
  case SITU_UNARY_logit:
  case SITU_UNARY_nan_to_num:
  case SITU_UNARY_polygamma: return situ_export_call(t, NULL, ""); /* what absent numbers mean is not in the call */
  default: break;
  }
  return situ_export_operands(t, c, "default");
}

/* ---- the ops: one for each row ---- */

#define CAST(uses) \
  { SITU_CAST_NOT, (uses)&IN_F32 ? SITU_CAST_F32 : SITU_CAST_NOT }
#define ACCEPTS(uses) ((uses)&OF_FLOATS ? SITU_FLOATING : (uses)&OF_NUMBERS ? SITU_FLOATING | SITU_INTEGRAL : 0)
#define SAVES(uses) ((uses)&USES_X ? SITU_SAVE(0) : (uses)&USES_Y ? SITU_SAVE_OUT(0) : 0)
#define UNARY(id, rule, uses)                                     \
  SITU_OP(id##_op) = { .name = #id,                               \
                       .operand = { { "input", ACCEPTS(uses) } }, \
                       .code = SITU_UNARY_##id,                   \
                       .save = SAVES(uses),                       \
                       .autocast = CAST(uses),                    \
                       .params_size = sizeof(unary_params),       \
                       .infer = rule,                             \
                       .forward = unary_forward,                  \
                       .batched = situ_batch_broadcast,           \
                       .traced = unary_traced,                    \
                       .backward = unary_backward,                \
                       .backward_recorded = unary_backward };
#define FLOAT(id, y, dx, uses) UNARY(id, infer_float, uses)
#define WIDE(id, y, dx, uses) UNARY(id, infer_wide, uses)
#define BOTH(id, y, integer, dx, uses) UNARY(id, infer_keep, uses)
#define MATH(id, y, integer, dx, uses) UNARY(id, infer_keep, uses)
#define INTEGER(id, integer)                                                     \
  SITU_OP(id##_op) = { .name = #id,                                              \
                       .operand = { { "input", SITU_INTEGRAL | SITU_BOOLEAN } }, \
                       .flags = SITU_OP_NO_GRAD,                                 \
                       .code = SITU_UNARY_##id,                                  \
                       .params_size = sizeof(unary_params),                      \
                       .infer = infer_keep,                                      \
                       .forward = unary_forward,                                 \
                       .batched = situ_batch_broadcast,                          \
                       .traced = unary_traced };
#define TEST(id, y, integer)                                \
  SITU_OP(id##_op) = { .name = #id,                         \
                       .operand = { { "input", 0 } },       \
                       .flags = SITU_OP_NO_GRAD,            \
                       .code = SITU_UNARY_##id,             \
                       .params_size = sizeof(unary_params), \
                       .infer = infer_test,                 \
                       .forward = unary_forward,            \
                       .batched = situ_batch_broadcast,     \
                       .traced = unary_traced };
#include "kernels/unary.h"

#define FLOAT(id, ...) [SITU_UNARY_##id] = &id##_op,
#define WIDE FLOAT
#define BOTH FLOAT
#define MATH FLOAT
#define INTEGER FLOAT
#define TEST FLOAT
const situ_op *situ__unary_row(situ_unary code) {
  static const situ_op *const rows[SITU_UNARIES] = {
#include "kernels/unary.h"
  };
  return rows[code];
}

situ_tensor *situ__run_unary(const situ_op *op, situ_tensor *x, double p0, double p1, double p2) {
  return situ_op_run1(op, x, &(unary_params){ { p0, p1, p2, 0 } });
}
situ_tensor *situ__run_unary_(const situ_op *op, situ_tensor *x, double p0, double p1, double p2) {
  return situ_op_run_(op, &x, 1, &(unary_params){ { p0, p1, p2, 0 } });
}

#define PLAIN(id) \
  situ_tensor *situ_##id(situ_tensor *input) { return situ__run_unary(&id##_op, input, 0, 0, 0); }
/* clang-format off */
PLAIN(neg) PLAIN(abs) PLAIN(sign) PLAIN(exp) PLAIN(expm1) PLAIN(log) PLAIN(log1p) PLAIN(log2) PLAIN(sqrt) PLAIN(rsqrt)
PLAIN(reciprocal) PLAIN(sin) PLAIN(cos) PLAIN(tanh) PLAIN(sigmoid) PLAIN(relu) PLAIN(silu) PLAIN(erf)
PLAIN(tan) PLAIN(asin) PLAIN(acos) PLAIN(atan) PLAIN(sinh) PLAIN(cosh) PLAIN(asinh) PLAIN(acosh) PLAIN(atanh)
PLAIN(exp2) PLAIN(log10) PLAIN(erfc) PLAIN(erfinv) PLAIN(lgamma) PLAIN(i0) PLAIN(sinc) PLAIN(special_entr)
PLAIN(quick_gelu) PLAIN(mish) PLAIN(hardswish) PLAIN(hardsigmoid) PLAIN(softsign) PLAIN(tanhshrink)
PLAIN(floor) PLAIN(ceil) PLAIN(round) PLAIN(trunc) PLAIN(isnan) PLAIN(isinf) PLAIN(logical_not)
/* clang-format on */

static bool is_bool(const situ_tensor *x) { return situ__alive(x) && x->view.dtype == SITU_BOOL; }
bool situ__unary_keeps(const situ_op *op) { return op->infer == infer_keep; }
bool situ__unary_holds(const situ_op *op, const situ_tensor *x) {
  if (x->view.dtype != SITU_BOOL || op->infer != infer_keep) return true;
  return situ__fail(SITU_E_DTYPE, op->name, "input is bool, which cannot hold the result in place; cast it"), false;
}
/* In torch true * true is the integer 1. */
situ_tensor *situ_square(situ_tensor *input) {
  SITU__MADE_OF_OPS("square");
  return situ__run_unary(&square_op, is_bool(input) ? situ_to_dtype(input, SITU_I64) : input, 0, 0, 0);
}
/* Inverting all bits of true would still be true. */
situ_tensor *situ_bitwise_not(situ_tensor *input) {
  SITU__MADE_OF_OPS("bitwise_not");
  return situ__run_unary(is_bool(input) ? &logical_not_op : &bitwise_not_op, input, 0, 0, 0);
}

#define IN_PLACE(id) \
  situ_tensor *situ_##id##_(situ_tensor *input) { return situ__run_unary_(&id##_op, input, 0, 0, 0); }
/* clang-format off */
IN_PLACE(neg) IN_PLACE(abs) IN_PLACE(exp) IN_PLACE(log) IN_PLACE(sqrt) IN_PLACE(rsqrt) IN_PLACE(reciprocal)
IN_PLACE(sin) IN_PLACE(cos) IN_PLACE(tanh) IN_PLACE(sigmoid) IN_PLACE(relu) IN_PLACE(floor)
IN_PLACE(ceil) IN_PLACE(round) IN_PLACE(tan) IN_PLACE(asin) IN_PLACE(acos) IN_PLACE(atan) IN_PLACE(sinh) IN_PLACE(cosh)
IN_PLACE(asinh) IN_PLACE(acosh) IN_PLACE(atanh) IN_PLACE(exp2) IN_PLACE(log10)
IN_PLACE(trunc) IN_PLACE(mish) IN_PLACE(hardswish) IN_PLACE(hardsigmoid)
/* clang-format on */

situ_tensor *situ_square_(situ_tensor *input) {
  SITU__IN_PLACE_AS("square");
  if (!situ__need("square", "input", input) || !situ__unary_holds(&square_op, input)) return NULL;
  return situ__run_unary_(&square_op, input, 0, 0, 0);
}

/* ---- those with parameters ---- */

situ_tensor *situ_leaky_relu(situ_tensor *input, double negative_slope) {
  return situ__run_unary(&leaky_relu_op, input, negative_slope, 0, 0);
}
situ_tensor *situ_elu(situ_tensor *input, double alpha) { return situ__run_unary(&elu_op, input, alpha, 1, 1); }

/* Self-normalizing: Klambauer et al., arXiv:1706.02515, with torch's digits. */
#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717
situ_tensor *situ_selu(situ_tensor *input) {
  SITU__MADE_OF_OPS("selu");
  return situ__run_unary(&elu_op, input, SELU_ALPHA * SELU_SCALE, 1, SELU_SCALE);
}
situ_tensor *situ_selu_(situ_tensor *input) {
  SITU__MADE_OF_OPS("selu_");
  return situ__run_unary_(&elu_op, input, SELU_ALPHA * SELU_SCALE, 1, SELU_SCALE);
}
static bool divides(double alpha) {
  if (alpha == 0) situ__fail(SITU_E_ARG, "celu", "alpha is 0, and divides; relu is its limit");
  return alpha != 0;
}
situ_tensor *situ_celu(situ_tensor *input, double alpha) {
  SITU__MADE_OF_OPS("celu");
  return divides(alpha) ? situ__run_unary(&elu_op, input, alpha, 1 / alpha, 1) : NULL;
}
situ_tensor *situ_celu_(situ_tensor *input, double alpha) {
  SITU__MADE_OF_OPS("celu_");
  return divides(alpha) ? situ__run_unary_(&elu_op, input, alpha, 1 / alpha, 1) : NULL;
}

static bool is_width(const char *op, double lambd) {
  if (lambd >= 0) return true;
  return situ__fail(SITU_E_ARG, op, "lambd is %g, must be at least 0", lambd), false;
}
situ_tensor *situ_softshrink(situ_tensor *input, double lambd) {
  return is_width("softshrink", lambd) ? situ__run_unary(&softshrink_op, input, lambd, 0, 0) : NULL;
}
situ_tensor *situ_hardshrink(situ_tensor *input, double lambd) {
  return situ__run_unary(&hardshrink_op, input, lambd, 0, 0);
}
situ_tensor *situ_softplus(situ_tensor *input, double beta, double threshold) {
  return situ__run_unary(&softplus_op, input, beta, threshold, 0);
}
static bool are_bounds(const situ_tensor *x, double min, double max) {
  if (!situ__need("hardtanh", "input", x)) return false;
  if (!(min > max)) return true;
  return situ__fail(SITU_E_ARG, "hardtanh", "min is %g, max %g: min must not be greater than max", min, max), false;
}
situ_tensor *situ_hardtanh(situ_tensor *input, double min_val, double max_val) {
  return are_bounds(input, min_val, max_val) ? situ__run_unary(&hardtanh_op, input, min_val, max_val, 0) : NULL;
}
situ_tensor *situ_hardtanh_(situ_tensor *input, double min_val, double max_val) {
  SITU__IN_PLACE_AS("hardtanh");
  return are_bounds(input, min_val, max_val) ? situ__run_unary_(&hardtanh_op, input, min_val, max_val, 0) : NULL;
}

situ_tensor *situ_gelu(situ_tensor *input, situ_gelu_approximate approximate) {
  SITU__MADE_OF_OPS("gelu");
  return situ__run_unary(approximate == SITU_GELU_TANH ? &gelu_tanh_op : &gelu_op, input, 0, 0, 0);
}

/* The order is at most 170, the largest whose factorial is an f64. */
enum { MOST_DERIVATIVES = 170 };
situ_tensor *situ_polygamma(int64_t n, situ_tensor *input) {
  if (n >= 0 && n <= MOST_DERIVATIVES) return situ__run_unary(&polygamma_op, input, (double)n, 0, 0);
  return situ__fail(SITU_E_ARG, "polygamma", "n is %lld, must be 0 to %d", (long long)n, MOST_DERIVATIVES), NULL;
}
situ_tensor *situ_digamma(situ_tensor *input) {
  SITU__MADE_OF_OPS("digamma");
  return situ__run_unary(&polygamma_op, input, 0, 0, 0);
}
situ_tensor *situ_logit(situ_tensor *input, double eps) {
  SITU__DEFAULT_FPU;
  /* NaN, and beyond 0.5, where the bounds would be in the wrong order */
  if (!(eps <= 0.5)) return situ__fail(SITU_E_ARG, "logit", "eps is %g, must be at most 0.5", eps), NULL;
  return situ__run_unary(&logit_op, input, eps == 0 ? -INFINITY : eps, eps == 0 ? INFINITY : 1 - eps, 0);
}

/* True for a bound that integers cannot have; with a NaN bound all results are NaN, as in torch. */
static bool fraction(double bound) { return isnan(bound) || (isfinite(bound) && bound != trunc(bound)); }
situ_tensor *situ_clamp(situ_tensor *input, double min, double max) {
  SITU__MADE_OF_OPS("clamp");
  if (!situ__need("clamp", "input", input)) return NULL;
  if (!situ_dtype_is_floating((situ_dtype)input->view.dtype) && (fraction(min) || fraction(max)))
    input = situ_to_dtype(input, SITU_F32);
  else if (is_bool(input)) input = situ_to_dtype(input, SITU_I64);
  return situ__run_unary(&clamp_op, input, min, max, 0);
}
/* In place the dtype is kept, so a bound that it cannot hold is refused. */
situ_tensor *situ_clamp_(situ_tensor *input, double min, double max) {
  SITU__MADE_OF_OPS("clamp_");
  if (!situ__need("clamp_", "input", input) || !situ__unary_holds(&clamp_op, input)) return NULL;
  if (!situ_dtype_is_floating((situ_dtype)input->view.dtype) && (fraction(min) || fraction(max)))
    return situ__fail(SITU_E_DTYPE, "clamp_", "bounds %g and %g do not fit into %s in place", min, max,
                      situ_dtype_name((situ_dtype)input->view.dtype)),
           NULL;
  return situ__run_unary_(&clamp_op, input, min, max, 0);
}

situ_tensor *situ_nan_to_num(situ_tensor *input, const situ_nan_to_num_options *options) {
  if (!situ__need("nan_to_num", "input", input)) return NULL;
  double most = situ_dtype_is_floating((situ_dtype)input->view.dtype) ? situ__dtypes[input->view.dtype].largest : 0;
  return situ__run_unary(&nan_to_num_op, input, options ? options->nan : 0,
                         options && options->posinf ? *options->posinf : most,
                         options && options->neginf ? *options->neginf : -most);
}
