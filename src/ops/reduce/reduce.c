/* Reductions over some dimensions or all of them.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

typedef struct reduce_params {
  unsigned mask; /* reduced dimensions */
  bool keepdim;
  situ_dtype dtype; /* requested; DEFAULT: by the op's rule */
  double scalar;    /* correction, or p */
  /* if the result is NaN, elements that are NaN get the gradient (min, max); else all gradients are NaN (amin, amax) */
  bool nan_gets;
} reduce_params;

/* The operand's shape with 1 for reduced dimensions. */
static situ_shape kept(const situ_shape *x, unsigned mask) {
  situ_shape shape = *x;
  for (int d = 0; d < shape.ndim; d++)
    if (mask >> d & 1) shape.dim[d] = 1;
  return shape;
}

static int64_t reduced_count(const situ_shape *x, unsigned mask) {
  int64_t count = 1;
  for (int d = 0; d < x->ndim; d++)
    if (mask >> d & 1) count *= x->dim[d];
  return count;
}

/* ---- shape and dtype ---- */

/* More elements than an f64 counts exactly would make a mean wrong; and no device reduces them within an hour, nor can
   it be stopped. Only an expanded tensor has so many. */
static const int64_t most = (int64_t)1 << 53;

static bool infer_shape(situ_call *c) {
  const reduce_params *p = c->params;
  situ_shape x = situ__shape(situ__desc(c->in[0]));
  if (situ__desc(c->in[0])->numel > most)
    return situ_refuse(c, SITU_E_LIMIT, "%lld elements are to be reduced; more than 2^53 are not counted exactly",
                       (long long)situ__desc(c->in[0])->numel);
  c->shape[0] = p->keepdim ? kept(&x, p->mask) : (situ_shape){ .ndim = 0 };
  for (int d = 0; !p->keepdim && d < x.ndim; d++)
    if (!(p->mask >> d & 1)) c->shape[0].dim[c->shape[0].ndim++] = x.dim[d];
  return true;
}

static bool infer_as(situ_call *c, situ_dtype dtype) {
  c->dtype[0] = c->compute = dtype;
  return infer_shape(c);
}

/* Integers are summed in i64. */
static bool infer_sum(situ_call *c) {
  const reduce_params *p = c->params;
  situ_dtype own = (situ_dtype)situ__desc(c->in[0])->dtype;
  return infer_as(c, p->dtype ? p->dtype : situ_dtype_is_floating(own) ? own : SITU_I64);
}

static bool infer_float(situ_call *c) {
  const reduce_params *p = c->params;
  situ_dtype dtype = p->dtype ? p->dtype : (situ_dtype)situ__desc(c->in[0])->dtype;
  if (!situ_dtype_is_floating(dtype))
    return situ_refuse(c, SITU_E_DTYPE, "input is %s: this needs a floating dtype", situ_dtype_name(dtype));
  return infer_as(c, dtype);
}

static bool infer_extreme(situ_call *c) {
  const reduce_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]);
  situ_shape shape = situ__shape(x);
  if (x->numel == 0 && reduced_count(&shape, p->mask) == 0)
    return situ_refuse(c, SITU_E_ARG, "no elements to choose from: a reduced dimension has size 0");
  return infer_as(c, (situ_dtype)x->dtype);
}

static bool infer_test(situ_call *c) {
  c->dtype[0] = SITU_BOOL;
  c->compute = (situ_dtype)situ__desc(c->in[0])->dtype;
  return infer_shape(c);
}

/* ---- forward: the verb gets a result of the operand's rank ---- */

static bool forward(situ_call *c) {
  const reduce_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]);
  situ_view_desc desc;
  situ_shape shape = situ__shape(x);
  const situ_view_desc *y = situ_desc_reshape(situ__desc(c->out[0]), kept(&shape, p->mask), &desc);
  return situ__launch(c->op->name, c->device,
                      &(situ_work){ SITU_VERB_REDUCE, .op = c->op->code, .compute = c->compute, .ins = 1, .outs = 1,
                                    .in = { x }, .out = { y }, .scalar = { p->scalar } });
}

/* ---- backward: t, a result or its gradient, broadcasts to the operand ---- */

static situ_tensor *spread(const situ_grad_call *g, situ_tensor *t) {
  const reduce_params *p = g->params;
  if (t && (!t->view.ndim || t->view.ndim == g->shape[0].ndim)) return t; /* one value, or with keepdim */
  return situ_reshape(t, kept(&g->shape[0], p->mask));
}
static int64_t count_of(const situ_grad_call *g) {
  return reduced_count(&g->shape[0], ((const reduce_params *)g->params)->mask);
}

static bool sum_backward(situ_grad_call *g) {
  return (g->dx[0] = situ_expand(spread(g, g->grad[0]), g->shape[0])) != NULL;
}

static bool mean_backward(situ_grad_call *g) {
  return (g->dx[0] = situ_expand(situ_div_scalar(spread(g, g->grad[0]), (double)count_of(g)), g->shape[0])) != NULL;
}

/* d mean(x^2) / dx = 2 x / n */
static bool mean_square_backward(situ_grad_call *g) {
  const double n = (double)count_of(g);
  return (g->dx[0] = situ_mul(g->in[0], spread(g, situ_mul_scalar(g->grad[0], 2 / n)))) != NULL;
}

/* Products of halves: no division, in any order of derivative. */
static situ_tensor *prod_composed(const situ_grad_call *g, situ_tensor *const *in, int result) {
  (void)result;
  const reduce_params *p = g->params;
  situ_tensor *y = in[0];
  for (int d = 0; d < g->shape[0].ndim; d++) {
    if (!(p->mask >> d & 1)) continue;
    for (int64_t n; y && (n = situ_size(y, d)) > 1;) {
      situ_tensor *half = situ_mul(situ_narrow(y, d, 0, n / 2), situ_narrow(y, d, n / 2, n / 2));
      y = n % 2 ? situ_cat((situ_tensor *[]){ half, situ_narrow(y, d, n - 1, 1) }, 2, d) : half;
    }
  }
  return situ_reshape(y, situ_shape_of(g->grad[0]));
}
/* The product of the other elements, which is correct even if one of them is 0: nothing is divided. */
static bool prod_backward(situ_grad_call *g) {
  if (situ__recording() && situ_numel(g->in[0])) return situ_backward_through(g, prod_composed);
  const reduce_params *p = g->params;
  situ_tensor *x = g->in[0], *zero = situ_eq_scalar(x, 0);
  situ_tensor *rest = situ_masked_fill(x, zero, 1);
  situ_reduce_options o = { .keepdim = true };
  for (int d = 0; d < g->shape[0].ndim; d++)
    if (p->mask >> d & 1) o.dim.dim[o.dim.ndim++] = d;
  situ_tensor *product = p->mask ? situ_prod(rest, &o) : rest,
              *zeros = p->mask ? situ_sum(zero, &o) : situ_to_dtype(zero, SITU_I64);
  situ_tensor *others = situ_where(situ_eq_scalar(zeros, 0), situ_div(product, rest),
                                   situ_mul(product, situ_logical_and(zero, situ_eq_scalar(zeros, 1))));
  return (g->dx[0] = situ_mul(others, spread(g, g->grad[0]))) != NULL;
}

/* d var / dx = 2 (x - mean) / (n - correction) */
static situ_tensor *centred(const situ_grad_call *g) {
  const reduce_params *p = g->params;
  situ_reduce_options o = { .keepdim = true };
  for (int d = 0; d < g->shape[0].ndim; d++)
    if (p->mask >> d & 1) o.dim.dim[o.dim.ndim++] = d;
  return p->mask ? situ_sub(g->in[0], situ_mean(g->in[0], &o)) : situ_zeros_like(g->in[0], NULL);
}
static double freedom(const situ_grad_call *g) {
  return (double)count_of(g) - ((const reduce_params *)g->params)->scalar;
}

static bool var_backward(situ_grad_call *g) {
  return (g->dx[0] = situ_mul(spread(g, situ_mul_scalar(g->grad[0], 2 / freedom(g))), centred(g))) != NULL;
}
static bool std_backward(situ_grad_call *g) {
  situ_tensor *slope = situ_div(g->grad[0], situ_mul_scalar(g->out[0], freedom(g)));
  slope = situ_masked_fill(slope, situ_eq_scalar(g->out[0], 0), 0);
  return (g->dx[0] = situ_mul(spread(g, slope), centred(g))) != NULL;
}

/* Equal extremes share the gradient. */
static situ_tensor *shared(const situ_grad_call *g, situ_tensor *value) {
  const reduce_params *p = g->params;
  situ_tensor *y = spread(g, g->out[0]), *same = situ_eq(value, y);
  if (p->nan_gets) same = situ_logical_or(same, situ_logical_and(situ_isnan(value), situ_isnan(y)));
  situ_tensor *mask = situ_to_dtype(same, situ_dtype_of(g->grad[0]));
  situ_reduce_options o = { .keepdim = true };
  for (int d = 0; d < g->shape[0].ndim; d++)
    if (p->mask >> d & 1) o.dim.dim[o.dim.ndim++] = d;
  return p->mask ? situ_div(mask, situ_sum(mask, &o)) : mask;
}
static bool extreme_backward(situ_grad_call *g) {
  return (g->dx[0] = situ_mul(shared(g, g->in[0]), spread(g, g->grad[0]))) != NULL;
}

/* sign(x) |x|^(p - 1) / y^(p - 1). x and y are divided by y's value first, a constant that changes no derivative:
   otherwise the power of a tiny element is infinite for p < 1, that of a huge one for p > 2. Between 0 and 2 they are
   not divided by more than 1, so that no element becomes 0. */
static situ_tensor *power_slope(situ_tensor *x, situ_tensor *y, double p) {
  situ_tensor *none = situ_eq_scalar(y, 0), *size = situ_masked_fill(y, none, 1);
  situ_tensor *unit = situ_detach(situ_masked_fill(size, situ_isinf(size), 1));
  if (p > 0 && p < 2) unit = situ_clamp(unit, 0, 1);
  situ_tensor *part = situ_div(x, unit), *whole = situ_pow_scalar(situ_div(size, unit), 1 - p);
  if (p > 2) part = situ_mul(part, situ_pow_scalar(situ_abs(part), p - 2));
  else part = situ_mul(situ_sign(x), situ_masked_fill(situ_pow_scalar(situ_abs(part), p - 1), situ_eq_scalar(x, 0), 0));
  return situ_masked_fill(situ_mul(part, whole), none, 0);
}

static bool norm_backward(situ_grad_call *g) {
  double power = ((const reduce_params *)g->params)->scalar;
  situ_tensor *x = g->in[0], *y = spread(g, g->out[0]), *up = spread(g, g->grad[0]), *slope;
  if (power == 0) slope = situ_zeros_like(x, NULL);
  else if (power == 1) slope = situ_sign(x);
  else if (isinf(power)) slope = situ_mul(situ_sign(x), shared(g, situ_abs(x)));
  else if (power == 2) slope = situ_masked_fill(situ_div(x, y), situ_eq_scalar(y, 0), 0);
  else slope = power_slope(x, y, power);
  return (g->dx[0] = situ_mul(slope, up)) != NULL;
}

static bool logsumexp_backward(situ_grad_call *g) {
  return (g->dx[0] = situ_mul(situ_exp(situ_sub(g->in[0], spread(g, g->out[0]))), spread(g, g->grad[0]))) != NULL;
}

/* ---- torch.export ---- */

static bool traced(const situ_call *c, situ_export_trace *t) {
  const reduce_params *p = c->params;
  const int keepdim = p->keepdim;
  situ_tensor *x = c->in[0];
  situ_shape dims = { 0 };
  for (int d = 0; d < x->view.ndim; d++)
    if (p->mask >> d & 1) dims.dim[dims.ndim++] = d;
  switch (c->op->code) {
  case SITU_REDUCE_SUM: return situ_export_call(t, "sum.dim_IntList", "tIbd", x, &dims, keepdim, p->dtype);
  case SITU_REDUCE_MEAN: return situ_export_call(t, "mean.dim", "tIbd", x, &dims, keepdim, p->dtype);
  case SITU_REDUCE_MEAN_SQUARE:
    return situ_export_call(t, "square.default", "t", x) &&
           situ_export_call(t, "mean.dim", "^Ibd", &dims, keepdim, p->dtype);
  case SITU_REDUCE_MIN: return situ_export_call(t, "amin.default", "tIb", x, &dims, keepdim);
  case SITU_REDUCE_MAX: return situ_export_call(t, "amax.default", "tIb", x, &dims, keepdim);
  case SITU_REDUCE_VAR: return situ_export_call(t, "var.correction", "tInb", x, &dims, p->scalar, keepdim);
  case SITU_REDUCE_STD: return situ_export_call(t, "std.correction", "tInb", x, &dims, p->scalar, keepdim);
  case SITU_REDUCE_LOGSUMEXP: return situ_export_call(t, "logsumexp.default", "tIb", x, &dims, keepdim);
  case SITU_REDUCE_NORM: return situ_export_call(t, "linalg_vector_norm.default", "tnIb", x, p->scalar, &dims, keepdim);
  case SITU_REDUCE_ANY: return situ_export_call(t, "any.dims", "tIb", x, &dims, keepdim);
  case SITU_REDUCE_ALL:
    if (dims.ndim == 1) return situ_export_call(t, "all.dim", "tib", x, dims.dim[0], keepdim);
    return situ_export_call(t, keepdim ? NULL : "all.default", "t", x);
  default: return situ_export_call(t, dims.ndim == 1 ? "prod.dim_int" : NULL, "tib", x, dims.dim[0], keepdim);
  }
}

/* ---- the ops ---- */

static bool batched(situ_batch_call *c) {
  reduce_params p = *(const reduce_params *)c->params;
  p.mask <<= 1;
  return situ_batch_run(c, c->in, &p);
}

#define REDUCE(id, code_, rule, back, saves, flag) \
  CASTING(id, code_, rule, back, saves, flag, SITU_CAST_NOT, SITU_CAST_NOT)
#define CASTING(id, code_, rule, back, saves, flag, on_cpu, elsewhere) \
  SITU_OP(id##_op) = { .name = #id,                                    \
                       .operand = { { "input", 0 } },                  \
                       .code = code_,                                  \
                       .save = saves,                                  \
                       .flags = flag,                                  \
                       .autocast = { on_cpu, elsewhere },              \
                       .params_size = sizeof(reduce_params),           \
                       .infer = rule,                                  \
                       .forward = forward,                             \
                       .batched = batched,                             \
                       .traced = traced,                               \
                       .backward = back,                               \
                       .backward_recorded = back };
enum { X = SITU_SAVE(0), Y = SITU_SAVE_OUT(0) };
CASTING(sum, SITU_REDUCE_SUM, infer_sum, sum_backward, 0, SITU_OP_LINEAR, SITU_CAST_NOT, SITU_CAST_F32)
REDUCE(mean, SITU_REDUCE_MEAN, infer_float, mean_backward, 0, SITU_OP_LINEAR)
CASTING(prod, SITU_REDUCE_PROD, infer_sum, prod_backward, X, 0, SITU_CAST_F32, SITU_CAST_F32)
REDUCE(var, SITU_REDUCE_VAR, infer_float, var_backward, X, 0)
REDUCE(std, SITU_REDUCE_STD, infer_float, std_backward, X | Y, 0)
REDUCE(mean_square, SITU_REDUCE_MEAN_SQUARE, infer_float, mean_square_backward, X, 0)
REDUCE(amin, SITU_REDUCE_MIN, infer_extreme, extreme_backward, X | Y, 0)
REDUCE(amax, SITU_REDUCE_MAX, infer_extreme, extreme_backward, X | Y, 0)
REDUCE(all, SITU_REDUCE_ALL, infer_test, NULL, 0, SITU_OP_NO_GRAD)
REDUCE(any, SITU_REDUCE_ANY, infer_test, NULL, 0, SITU_OP_NO_GRAD)
CASTING(norm, SITU_REDUCE_NORM, infer_float, norm_backward, X | Y, 0, SITU_CAST_NOT, SITU_CAST_F32)
CASTING(logsumexp, SITU_REDUCE_LOGSUMEXP, infer_float, logsumexp_backward, X | Y, 0, SITU_CAST_NOT, SITU_CAST_F32)

static situ_tensor *run_reduction(const situ_op *op, situ_tensor *x, double scalar, const situ_reduce_options *o) {
  reduce_params p = { .scalar = scalar };
  static const situ_shape all = { .ndim = 0 };
  if (!situ__need(op->name, "input", x) || !situ__dim_mask(op->name, o ? &o->dim : &all, x->view.ndim, true, &p.mask))
    return NULL;
  if (o) {
    p.keepdim = o->keepdim;
    p.dtype = o->dtype;
    if (o->dtype && !situ__dtype_valid(o->dtype))
      return situ__fail(SITU_E_DTYPE, op->name, "%d is not a dtype", (int)o->dtype), NULL;
    if (o->dtype && (op->infer == infer_extreme || op->infer == infer_test))
      return situ__fail(SITU_E_ARG, op->name, "dtype is given: the result has that of input, or is bool; cast it"),
             NULL;
  }
  return situ_op_run1(op, x, &p);
}

#define PUBLIC(id)                                                                 \
  situ_tensor *situ_##id(situ_tensor *input, const situ_reduce_options *options) { \
    return run_reduction(&id##_op, input, 0, options);                             \
  }
/* clang-format off */
PUBLIC(sum) PUBLIC(mean) PUBLIC(prod) PUBLIC(amin) PUBLIC(amax) PUBLIC(all) PUBLIC(any)
/* clang-format on */

situ_tensor *situ__mean_square(situ_tensor *x) { return run_reduction(&mean_square_op, x, 0, NULL); }

/* Integers give f32, as for exp and log. */
situ_tensor *situ_logsumexp(situ_tensor *input, const situ_reduce_options *options) {
  SITU__MADE_OF_OPS("logsumexp");
  bool integer = situ__alive(input) && !situ_dtype_is_floating((situ_dtype)input->view.dtype);
  return run_reduction(&logsumexp_op, integer ? situ_to_dtype(input, SITU_F32) : input, 0, options);
}

situ_tensor *situ_var(situ_tensor *input, double correction, const situ_reduce_options *options) {
  return run_reduction(&var_op, input, correction, options);
}
situ_tensor *situ_std(situ_tensor *input, double correction, const situ_reduce_options *options) {
  return run_reduction(&std_op, input, correction, options);
}
situ_tensor *situ_norm(situ_tensor *input, double p, const situ_reduce_options *options) {
  if (isnan(p)) return situ__fail(SITU_E_ARG, "norm", "p is NaN"), NULL;
  return run_reduction(&norm_op, input, p, options);
}

static situ_tensor *whole(const situ_op *op, situ_tensor *x) {
  static const situ_shape all = { .ndim = 0 };
  reduce_params p = { .nan_gets = true };
  if (!situ__need(op->name, "input", x) || !situ__dim_mask(op->name, &all, x->view.ndim, true, &p.mask)) return NULL;
  return situ_op_run1(op, x, &p);
}
situ_tensor *situ_min(situ_tensor *input) {
  SITU__MADE_OF_OPS("min");
  return whole(&amin_op, input);
}
situ_tensor *situ_max(situ_tensor *input) {
  SITU__MADE_OF_OPS("max");
  return whole(&amax_op, input);
}
