/* A gradient scaler where ranks have different gradients: all of them leave out the same steps.
   SPDX-License-Identifier: MIT */
#include "ddp.h"
#include "situ/parallel.h"
#include "situ/sys/grad_scaler.h"

situ_status situ__dist_agree_finite(situ_comm *comm, bool good, bool *finite, bool *scaled) {
  static const char op[] = "grad_scaler";
  int32_t all[3] = { good, good && *finite, -(int32_t)*scaled }; /* the least of each */
  const situ_comm_call call = {
    SITU_COMM_ALL_REDUCE, .reduction = SITU_COMM_MIN, .dtype = SITU_I32, .count = 3, .send = all,
    .receive = all,       .name = "finite gradients"
  };
  SITU_TRY(situ__comm_call(op, comm, &call));
  *finite = all[1] != 0;
  *scaled = all[2] != 0;
  if (all[0] || !good) return SITU_OK; /* this rank has recorded its own error */
  return situ__fail(SITU_E_COMM, op, "another rank could not look at its gradients");
}

/* This rank's own gradients and step, and with whom to agree. */
typedef struct shared_source {
  situ_grad_scaler_source own;
  situ_comm *comm;
} shared_source;

static int64_t count_of(const void *payload) {
  const shared_source *s = payload;
  return s->own.count(s->own.payload);
}
static situ_tensor *gradient_of(const void *payload, int64_t i) {
  const shared_source *s = payload;
  return s->own.gradient(s->own.payload, i);
}
static situ_status agree(const void *payload, bool good, bool *finite, bool *scaled) {
  return situ__dist_agree_finite(((const shared_source *)payload)->comm, good, finite, scaled);
}
static situ_status step(const void *payload, double grad_scale) {
  const shared_source *s = payload;
  return s->own.step(s->own.payload, grad_scale);
}

/* Returns false after recording an error. */
static bool share(const char *op, situ_optim *optim, situ_comm *comm, shared_source *s, situ_grad_scaler_source *all) {
  if (!situ__comm_given(op, comm) || situ_grad_scaler_source_of(optim, &s->own) != SITU_OK) return false;
  s->comm = comm;
  *all = (situ_grad_scaler_source){ optim, s, count_of, gradient_of, agree, step };
  return true;
}

situ_status situ_dist_scaler_unscale_(situ_optim *optim, situ_comm *comm, situ_grad_scaler *scaler) {
  shared_source s;
  situ_grad_scaler_source all;
  if (!share("dist_scaler_unscale_", optim, comm, &s, &all)) return situ_error();
  return situ_grad_scaler_unscale_source(scaler, &all);
}

situ_status situ_dist_scaler_step(situ_optim *optim, situ_comm *comm, situ_grad_scaler *scaler, bool *stepped) {
  shared_source s;
  situ_grad_scaler_source all;
  if (stepped) *stepped = false;
  if (!share("dist_scaler_step", optim, comm, &s, &all)) return situ_error();
  return situ_grad_scaler_step_source(scaler, &all, stepped);
}
