/* Clips gradients by their common norm or by value (torch.nn.utils.clip_grad_norm_, clip_grad_value_).
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/optim.h"
#include "situ/ops.h"
#include "situ/sys/grad_scaler.h"

/* The arguments of a call, and the function that clips. */
typedef struct request {
  const char *op;
  double bound, p; /* max_norm or clip_value; p of the norm */
  double *total;
  situ_status (*clip)(situ_tensor **grad, int count, const struct request *how);
} request;

/* The norm of all gradients: the norm of their norms, on the first one's device. If gradients are on several devices,
   only these norms are copied. */
static situ_tensor *total_norm(const char *op, situ_tensor **grad, int count, double p) {
  situ_tensor **norm = situ__alloc((size_t)count * sizeof *norm);
  if (!norm) return situ__no_memory(op, (size_t)count * sizeof *norm), NULL;
  bool ok = true;
  for (int i = 0; i < count && ok; i++) {
    norm[i] = situ_to(situ_norm(grad[i], p, NULL), situ_device_of(grad[0]));
    ok = norm[i];
  }
  situ_tensor *total = ok ? situ_norm(situ_stack(norm, count, 0), p, NULL) : NULL;
  situ__free(norm);
  return total;
}

static situ_status scale_to_norm(situ_tensor *const *grad, int64_t count, situ_tensor *norm, double max_norm) {
  /* torch computes number / tensor as reciprocal times number. */
  situ_tensor *scale = situ_mul_scalar(situ_reciprocal(situ_add_scalar(norm, 1e-6)), max_norm);
  scale = situ_clamp(scale, -INFINITY, 1);
  if (!scale) return situ_error();
  for (int64_t i = 0; i < count; i++)
    if (!situ_mul_(grad[i], situ_to(scale, situ_device_of(grad[i])))) return situ_error();
  return SITU_OK;
}

static situ_status scale_all(situ_tensor **grad, int count, const request *how) {
  if (how->total) *how->total = 0;
  if (!(how->bound >= 0) || isnan(how->p))
    return situ__fail(SITU_E_ARG, how->op, "max_norm %g, p %g", how->bound, how->p);
  if (count == 0) return SITU_OK;
  situ_tensor *norm = total_norm(how->op, grad, count, how->p);
  if (how->total && situ_item(norm, how->total) != SITU_OK) return situ_error();
  return scale_to_norm(grad, count, norm, how->bound);
}

situ_status situ_clip_by_norm_(situ_tensor *const *grad, int64_t count, situ_tensor *norm, double max_norm) {
  static const char op[] = "clip_by_norm_";
  SITU__MADE_OF_OPS(op);
  if (!situ__valid(op, "norm", norm, SITU__A_TENSOR) || (count && !situ__given(op, "grad", grad))) return situ_error();
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  const situ_status status = scale_to_norm(grad, count, norm, max_norm);
  const situ_status ended = situ_scope_end(&scope);
  return status == SITU_OK ? ended : status;
}

static situ_status clamp_all(situ_tensor **grad, int count, const request *how) {
  if (!(how->bound >= 0)) return situ__fail(SITU_E_ARG, how->op, "clip_value is %g: at least 0", how->bound);
  for (int i = 0; i < count; i++)
    if (!situ_clamp_(grad[i], -how->bound, how->bound)) return situ_error();
  return SITU_OK;
}

/* Returns parameter i of `from`. clip_all() clips the gradients of those that have one. */
typedef situ_tensor *(*param_at)(const void *from, int64_t i);

static situ_status clip_all(const void *from, int64_t n, param_at at, const request *how) {
  situ_tensor **grad = situ__alloc((size_t)(n ? n : 1) * sizeof *grad);
  if (!grad) return situ__no_memory(how->op, (size_t)n * sizeof *grad);
  int count = 0;
  bool whole = true;
  for (int64_t i = 0; whole && i < n; i++) {
    whole = situ__optim_gradient(how->op, at(from, i), NULL, &grad[count]);
    if (whole && grad[count]) count++;
  }
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_status status = whole ? how->clip(grad, count, how) : situ_error();
  SITU_IGNORE(situ_scope_end(&scope));
  situ__free(grad);
  return status;
}

static situ_tensor *of_tree(const void *from, int64_t i) { return situ_tree_tensor_at(from, i); }
static situ_tensor *of_optim(const void *from, int64_t i) { return ((const situ_optim *)from)->items[i].param; }

static situ_status clip_tree(const situ_tree *parameters, const request *how) {
  situ_tree *flat = situ_tree_flatten(parameters);
  if (!flat) return situ_error();
  situ_status status = clip_all(flat, situ_tree_count(flat), of_tree, how);
  situ_tree_free(flat);
  return status;
}

static situ_status clip_optim(situ_optim *o, const request *how) {
  SITU__CLAIM(claim);
  if (!situ__optim_given(how->op, o) || !situ__optim_claim(how->op, o, &claim)) return situ_error();
  return clip_all(o, o->count, of_optim, how);
}

static request by_norm(double max_norm, double p, double *total) {
  return (request){ .op = "clip_grad_norm_", .bound = max_norm, .p = p, .total = total, .clip = scale_all };
}
static request by_value(double value) {
  return (request){ .op = "clip_grad_value_", .bound = value, .clip = clamp_all };
}

situ_status situ_nn_utils_clip_grad_norm_(const situ_tree *parameters, double max_norm, double p, double *total) {
  SITU__MADE_OF_OPS("nn_utils_clip_grad_norm_");
  const request how = by_norm(max_norm, p, total);
  return clip_tree(parameters, &how);
}

situ_status situ_optim_clip_grad_norm_(situ_optim *o, double max_norm, double p, double *total) {
  SITU__MADE_OF_OPS("optim_clip_grad_norm_");
  const request how = by_norm(max_norm, p, total);
  return clip_optim(o, &how);
}

situ_status situ_nn_utils_clip_grad_value_(const situ_tree *parameters, double clip_value) {
  SITU__MADE_OF_OPS("nn_utils_clip_grad_value_");
  const request how = by_value(clip_value);
  return clip_tree(parameters, &how);
}

situ_status situ_optim_clip_grad_value_(situ_optim *o, double clip_value) {
  SITU__MADE_OF_OPS("optim_clip_grad_value_");
  const request how = by_value(clip_value);
  return clip_optim(o, &how);
}
