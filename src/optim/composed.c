/* Optimisers without a kernel of their own: Adafactor and Muon are made of ops. Every new value is computed before the
   first is written, so that a failure changes nothing. 16 bits are computed in f32 (Muon's iteration in bf16, as in
   torch), and rounded once.
   SPDX-License-Identifier: MIT */
#include <float.h>
#include <math.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/optim.h"
#include "situ/ops.h"

/* One parameter in a step. */
typedef struct composed {
  const situ_optimizer_tensors *item;
  situ_tensor *param, *grad; /* as they are computed with */
  const double *value;
  situ_tensor *next, *state[3]; /* new values; state NULL: unchanged */
} composed;

/* ---- Adafactor ---- */

static double epsilon_of(situ_dtype dtype) {
  return dtype == SITU_F64 ? DBL_EPSILON : dtype == SITU_F32 ? FLT_EPSILON : dtype == SITU_F16 ? 0x1p-10 : 0x1p-7;
}

/* The root of the mean of squares, 0-dim. */
static situ_tensor *root_mean_square(situ_tensor *x) {
  return situ_div_scalar(situ_norm(x, 2, NULL), sqrt((double)situ_numel(x)));
}

/* A running mean of the squares of grad over dim. */
static situ_tensor *mean_squares(situ_tensor *grad, int dim, situ_tensor *before, double weight) {
  situ_tensor *now = situ_mean(situ_square(grad), &(situ_reduce_options){ .dim = SITU_DIMS(dim), .keepdim = true });
  return situ_lerp_scalar(situ_to_dtype(before, situ_dtype_of(grad)), now, weight);
}

static situ_tensor *variance_of(composed *c, double weight, double eps) {
  if (situ_dim(c->grad) < 2)
    return c->state[2] =
               situ_lerp_scalar(situ_to_dtype(c->item->state[2], situ_dtype_of(c->grad)), situ_square(c->grad), weight);
  situ_tensor *row = c->state[0] = mean_squares(c->grad, -1, c->item->state[0], weight);
  situ_tensor *col = c->state[1] = mean_squares(c->grad, -2, c->item->state[1], weight);
  situ_tensor *mean = situ_mean(row, &(situ_reduce_options){ .dim = SITU_DIMS(-2), .keepdim = true });
  return situ_div(situ_matmul(row, col), situ_clamp(mean, eps, INFINITY));
}

static bool adafactor(composed *c) {
  const double *v = c->value, n = (double)c->item->step, lr = v[SITU_OPTIM_LR];
  const double own = epsilon_of(situ_dtype_of(c->item->param)),
               eps = v[SITU_OPTIM_EPS1] == SITU_NONE ? own : v[SITU_OPTIM_EPS1];
  situ_tensor *variance = variance_of(c, pow(n, v[SITU_OPTIM_BETA2_DECAY]), eps);
  situ_tensor *update = situ_mul(situ_rsqrt(situ_clamp(variance, eps * eps, INFINITY)), c->grad);
  situ_tensor *scale = situ_clamp(root_mean_square(c->param), v[SITU_OPTIM_EPS], INFINITY);
  situ_tensor *clip = situ_clamp(situ_div_scalar(root_mean_square(update), v[SITU_OPTIM_D]), 1, INFINITY);
  situ_tensor *rate = situ_mul_scalar(situ_div(scale, clip), fmin(lr, 1 / sqrt(n)));
  situ_tensor *kept = situ_mul_scalar(c->param, 1 - lr * v[SITU_OPTIM_WEIGHT_DECAY]);
  return (c->next = situ_sub(kept, situ_mul(update, rate))) != NULL;
}

/* ---- Muon ---- */

static situ_tensor *transposed(situ_tensor *x) { return situ_transpose(x, 0, 1); }

/* alpha a b + beta x. */
static situ_tensor *sum_of_products(situ_tensor *x, situ_tensor *a, situ_tensor *b, double beta, double alpha) {
  const situ_addmm_options o = { .size = sizeof o, .beta = beta, .alpha = alpha };
  return situ_addmm(x, a, b, &o);
}

/* About U V^T of the singular value decomposition, by Newton-Schulz steps of degree 5 (Keller Jordan, "Muon", 2024). */
static situ_tensor *orthogonalise(situ_tensor *update, const double *v) {
  const bool tall = situ_size(update, 0) > situ_size(update, 1);
  situ_tensor *x = situ_to_dtype(update, SITU_BF16);
  if (tall) x = transposed(x);
  x = situ_div(x, situ_clamp(situ_norm(x, 2, NULL), v[SITU_OPTIM_EPS], INFINITY));
  for (int i = 0; i < (int)v[SITU_OPTIM_NS_STEPS] && x; i++) {
    situ_tensor *gram = situ_matmul(x, transposed(x));
    situ_tensor *both = sum_of_products(gram, gram, gram, v[SITU_OPTIM_NS_B], v[SITU_OPTIM_NS_C]);
    x = sum_of_products(x, both, x, v[SITU_OPTIM_NS_A], 1);
  }
  return tall ? transposed(x) : x;
}

static double adjusted_rate(const double *v, double rows, double columns) {
  switch ((int)v[SITU_OPTIM_ADJUST_LR_FN]) {
  case SITU_MUON_MATCH_RMS_ADAMW: return v[SITU_OPTIM_LR] * 0.2 * sqrt(fmax(rows, columns));
  case SITU_MUON_SPECTRAL_UNCLAMPED: return v[SITU_OPTIM_LR] * sqrt(rows / columns);
  default: return v[SITU_OPTIM_LR] * sqrt(fmax(1, rows / columns));
  }
}

static bool muon(composed *c) {
  const double *v = c->value, momentum = v[SITU_OPTIM_MOMENTUM];
  const situ_dtype dtype = situ_dtype_of(c->grad);
  situ_tensor *buffer = situ_lerp_scalar(situ_to_dtype(c->item->state[0], dtype), c->grad, 1 - momentum);
  situ_tensor *update = v[SITU_OPTIM_NESTEROV] != 0 ? situ_lerp_scalar(c->grad, buffer, momentum) : buffer;
  if (!(c->state[0] = buffer) || !update) return false;
  const double rate = adjusted_rate(v, (double)situ_size(update, 0), (double)situ_size(update, 1));
  situ_tensor *kept = situ_mul_scalar(c->param, 1 - v[SITU_OPTIM_LR] * v[SITU_OPTIM_WEIGHT_DECAY]);
  c->next = situ_sub(kept, situ_mul_scalar(situ_to_dtype(orthogonalise(update, v), dtype), rate));
  return c->next != NULL;
}

/* ---- a step ---- */

static situ_dtype wide(const situ_tensor *x) {
  const situ_dtype dtype = situ_dtype_of(x);
  return dtype == SITU_F16 || dtype == SITU_BF16 ? SITU_F32 : dtype;
}

static bool compute(const situ_optim *o, composed *c, double grad_scale) {
  situ_tensor *grad = c->item->grad, *param = c->item->master ? c->item->master : c->item->param;
  c->param = situ_to_dtype(param, wide(param));
  c->grad = situ_to_dtype(grad, wide(grad));
  const double factor = c->value[SITU_OPTIM_MAXIMIZE] != 0 ? -grad_scale : grad_scale;
  if (factor != 1) c->grad = situ_mul_scalar(c->grad, factor);
  return c->param && c->grad && (o->rule == (situ_optimizer_rule)SITU__RULE_MUON ? muon(c) : adafactor(c));
}

/* Casts to what is written, so that writing needs no memory. */
static situ_tensor *fitted(situ_tensor *x, const situ_tensor *to) {
  return to ? situ_to_dtype(x, situ_dtype_of(to)) : x;
}
static bool fit(composed *c, situ_tensor **rounded) {
  situ_tensor *master = c->item->master;
  *rounded = fitted(c->next, c->item->param);
  c->next = master ? fitted(c->next, master) : NULL;
  for (int k = 0; k < 3; k++)
    if (c->state[k] && !(c->state[k] = fitted(c->state[k], c->item->state[k]))) return false;
  return *rounded && (!master || c->next);
}

static bool store(const composed *c, situ_tensor *rounded) {
  bool good = situ_copy_(c->item->param, rounded) && (!c->next || situ_copy_(c->item->master, c->next));
  for (int k = 0; k < 3 && good; k++) good = !c->state[k] || situ_copy_(c->item->state[k], c->state[k]);
  return good;
}

situ_status situ__optim_step_composed(const situ_optim *o, double grad_scale) {
  int64_t total = 0, done = 0;
  for (int g = 0; g < o->group_count; g++) total += o->groups[g].active;
  composed *list = situ__calloc((size_t)total + 1, sizeof *list);
  situ_tensor **rounded = situ__calloc((size_t)total + 1, sizeof(situ_tensor *));
  bool good = list && rounded;
  if (!good) situ__no_memory("optim_step", (size_t)total * sizeof *list);
  for (int g = 0; g < o->group_count; g++)
    for (int64_t i = 0; i < o->groups[g].active && good; i++) {
      composed *c = &list[done];
      *c = (composed){ .item = &o->active[done], .value = o->groups[g].value };
      if (situ_numel(c->item->param)) good = compute(o, c, grad_scale) && fit(c, &rounded[done]);
      done++;
    }
  for (int64_t i = 0; i < done && good; i++) good = !rounded[i] || store(&list[i], rounded[i]);
  situ__free(list);
  situ__free(rounded);
  return good ? SITU_OK : situ_error();
}
