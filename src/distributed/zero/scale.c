/* A gradient scaler for an optimiser that is divided among ranks: all of them leave out the same steps.
   SPDX-License-Identifier: MIT */
#include "zero.h"
#include "situ/sys/grad_scaler.h"

static bool has_gradients(const situ_dist_zero *z) {
  bool has = false;
  for (int64_t i = 0; !has && i < situ_tree_count(z->parameters); i++) has = situ__zero_has_gradient(z, i);
  return has;
}

/* Whether all ranks could look at their gradients, and whether those are finite. */
static situ_status agree(const void *payload, bool good, bool *finite, bool *scaled) {
  static const char op[] = "grad_scaler";
  const situ_dist_zero *z = payload;
  if (!has_gradients(z)) /* so it is on all ranks */
    return situ__fail(SITU_E_STATE, op, "no parameter of the optimiser has a gradient; call backward first");
  return situ__dist_agree_finite(z->comm, good, finite, scaled);
}

static situ_status step(const void *payload, double grad_scale) { return situ__zero_step(payload, grad_scale); }

static int64_t count_of(const void *payload) { return situ__zero_gradients(payload); }
static situ_grad_scaler_source source_of(const situ_dist_zero *z) {
  return (situ_grad_scaler_source){ z->optim, z, count_of, situ__zero_gradient_at, agree, step };
}

situ_status situ_dist_zero_unscale_(situ_dist_zero *zero, situ_grad_scaler *scaler) {
  if (!situ__zero_given("dist_zero_unscale_", zero)) return situ_error();
  const situ_grad_scaler_source source = source_of(zero);
  return situ_grad_scaler_unscale_source(scaler, &source);
}

situ_status situ_dist_zero_scaler_step(situ_dist_zero *zero, situ_grad_scaler *scaler, bool *stepped) {
  if (stepped) *stepped = false;
  if (!situ__zero_given("dist_zero_scaler_step", zero)) return situ_error();
  const situ_grad_scaler_source source = source_of(zero);
  return situ_grad_scaler_step_source(scaler, &source, stepped);
}
