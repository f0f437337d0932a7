/* Clipping by the norm of gradients of which each rank has a part, with the same bits for any division: the sum is
   exact until its last rounding.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "distributed/comm/exact.h"
#include "zero.h"
#include "situ/sys/grad.h"
#include "situ/sys/grad_scaler.h"

static const char op[] = "dist_zero_clip_grad_norm_";

/* ---- the norm ---- */

/* Of this rank's elements. */
static bool add_own(const situ_dist_zero *z, situ__exact *x, double p) {
  bool good = situ__zero_set_gradients(z, true);
  for (int64_t k = 0; good && k < z->part_count; k++) {
    const situ__zero_part *part = &z->parts[k];
    situ_tensor *grad = situ__zero_has_gradient(z, part->parameter) ? situ_grad(part->values) : NULL;
    good = !grad || situ__exact_add(x, grad, p);
  }
  return situ__zero_set_gradients(z, false) && good;
}

/* ---- clipping ---- */

/* The norm of torch has the gradients' dtype. */
static situ_tensor *norm_tensor(const situ_dist_zero *z, double norm) {
  bool wide = false;
  for (int64_t i = 0; i < situ_tree_count(z->parameters); i++)
    wide = wide || situ_dtype_of(situ_tree_tensor_at(z->parameters, i)) == SITU_F64;
  return situ_full(SITU_SCALAR, norm,
                   &(situ_options){ .dtype = wide ? SITU_F64 : SITU_F32, .device = { SITU_CPU, 0 } });
}

situ_tensor *situ__zero_gradient_at(const void *zero, int64_t i) {
  const situ_dist_zero *z = zero;
  const int64_t part = i - situ_tree_count(z->parameters);
  if (part < 0) return situ_grad(situ_tree_tensor_at(z->parameters, i));
  const situ__zero_part *p = &z->parts[part];
  return situ_grad_is_in_parts(situ_tree_tensor_at(z->parameters, p->parameter)) ? situ_grad(p->values) : NULL;
}

static bool scale_gradients(const situ_dist_zero *z, double norm, double max_norm) {
  const int64_t most = situ__zero_gradients(z);
  situ_tensor **grad = situ__alloc((size_t)(most + 1) * sizeof *grad), *total = norm_tensor(z, norm);
  if (!grad) return situ__no_memory(op, (size_t)(most + 1) * sizeof *grad), false;
  int64_t count = 0;
  for (int64_t i = 0; i < most; i++)
    if ((grad[count] = situ__zero_gradient_at(z, i))) count++;
  const bool good = total && situ_clip_by_norm_(grad, count, total, max_norm) == SITU_OK;
  situ__free(grad);
  return good;
}

static bool clip(const situ_dist_zero *z, situ__exact *x, double max_norm, double p, double *total) {
  if (!add_own(z, x, p) || !situ__exact_reduce(op, z->comm, x, p)) return false;
  const double norm = situ__exact_norm(x, p);
  if (total) *total = norm;
  return scale_gradients(z, norm, max_norm);
}

situ_status situ_dist_zero_clip_grad_norm_(situ_dist_zero *zero, double max_norm, double p, double *total) {
  SITU__MADE_OF_OPS(op);
  if (total) *total = 0;
  if (!situ__zero_given(op, zero)) return situ_error();
  if (!(max_norm >= 0) || !(p > 0))
    return situ__fail(SITU_E_ARG, op, "max_norm %g, p %g: at least 0, and above 0", max_norm, p);
  situ__exact *x = situ__calloc(1, sizeof *x);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = x ? clip(zero, x, max_norm, p, total) : (situ__no_memory(op, sizeof *x), false);
  if (!good) situ_comm_abort(zero->comm, situ_error_message());
  const situ_status ended = situ_scope_end(&s);
  situ__free(x);
  return good ? ended : situ_error();
}
