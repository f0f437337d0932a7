/* Clips gradients by their common norm (torch.nn.utils.clip_grad_norm_).
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/optim.h"
#include "situ/ops.h"

static const char op[] = "clip_grad_norm_";

/* The norm of all gradients: the norm of their norms, on the first one's device. If gradients are on several devices,
   only these norms are copied. */
static situ_tensor *total_norm(situ_tensor **grad, int count, double p) {
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

static situ_status clip(situ_tensor **grad, int count, double max_norm, double p, double *total) {
  if (total) *total = 0;
  if (!(max_norm >= 0) || isnan(p)) return situ__fail(SITU_E_ARG, op, "max_norm %g, p %g", max_norm, p);
  if (count == 0) return SITU_OK;
  situ_tensor *norm = total_norm(grad, count, p);
  /* torch computes number / tensor as reciprocal times number. */
  situ_tensor *scale = situ_mul_scalar(situ_reciprocal(situ_add_scalar(norm, 1e-6)), max_norm);
  scale = situ_clamp(scale, -INFINITY, 1);
  if (!scale || (total && situ_item(norm, total) != SITU_OK)) return situ_error();
  for (int i = 0; i < count; i++)
    if (!situ_mul_(grad[i], situ_to(scale, situ_device_of(grad[i])))) return situ_error();
  return SITU_OK;
}

/* Returns parameter i of `from`. clip_all() clips the gradients of those that have one. */
typedef situ_tensor *(*param_at)(const void *from, int64_t i);

static situ_status clip_all(const void *from, int64_t n, param_at at, double max_norm, double p, double *total) {
  situ_tensor **grad = situ__alloc((size_t)(n ? n : 1) * sizeof *grad);
  if (!grad) return situ__no_memory(op, (size_t)n * sizeof *grad);
  int count = 0;
  for (int64_t i = 0; i < n; i++) {
    situ_tensor *g = situ_grad(at(from, i));
    if (g) grad[count++] = g;
  }
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_status status = clip(grad, count, max_norm, p, total);
  SITU_IGNORE(situ_scope_end(&scope));
  situ__free(grad);
  return status;
}

static situ_tensor *of_tree(const void *from, int64_t i) { return situ_tree_tensor_at(from, i); }
static situ_tensor *of_optim(const void *from, int64_t i) { return ((const situ_optim *)from)->items[i].param; }

situ_status situ_nn_utils_clip_grad_norm_(const situ_tree *parameters, double max_norm, double p, double *total) {
  SITU__MADE_OF_OPS("nn_utils_clip_grad_norm_");
  situ_tree *flat = situ_tree_flatten(parameters);
  if (!flat) return situ_error();
  situ_status status = clip_all(flat, situ_tree_count(flat), of_tree, max_norm, p, total);
  situ_tree_free(flat);
  return status;
}

situ_status situ_optim_clip_grad_norm_(situ_optim *o, double max_norm, double p, double *total) {
  SITU__MADE_OF_OPS("optim_clip_grad_norm_");
  SITU__CLAIM(claim);
  if (!situ__optim_given(op, o) || !situ__optim_claim(op, o, &claim)) return situ_error();
  return clip_all(o, o->count, of_optim, max_norm, p, total);
}
