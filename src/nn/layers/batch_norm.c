/* BatchNorm1d, BatchNorm2d, and SyncBatchNorm, which gets its statistics from src/distributed.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/options.h"
#include "nn/nn.h"
#include "situ/graph.h"
#include "situ/sys/layers.h"

typedef struct batch_norm {
  situ_nn_module base;
  situ_tensor *weight, *bias, *running_mean, *running_var, *num_batches_tracked;
  int64_t features;
  situ_nn_batch_norm_options options;
  bool averages;                 /* situ_nn_batch_norm_average */
  situ_nn_normaliser normaliser; /* SyncBatchNorm's; NULL: situ_batch_norm */
  void *payload;
} batch_norm;

static SITU_COLD bool refuse_capture(const batch_norm *m) {
  return situ__fail(
             SITU_E_STATE, "nn_forward",
             "%s averages its statistics over all batches, and a graph is being recorded: a replay could not count "
             "them; give it a momentum instead of cumulative, or run it before or after",
             m->base.type->name),
         false;
}

/* Sets *momentum to that of this batch. Returns false after recording an error. */
static bool count_batch(const batch_norm *m, double *momentum) {
  double batches;
  *momentum = m->options.momentum;
  if (!m->base.training || !m->num_batches_tracked) return true;
  const bool averages = m->options.cumulative || m->averages;
  if (averages && situ_graph_is_capturing()) return refuse_capture(m);
  if (!situ_add_scalar_(m->num_batches_tracked, 1)) return false;
  if (!averages) return true;
  if (situ_item(m->num_batches_tracked, &batches) != SITU_OK) return false;
  *momentum = 1 / batches;
  return true;
}

static situ_tensor *normalise_input(const batch_norm *m, situ_tensor *x, double momentum) {
  const situ_nn_module *self = &m->base;
  if (self->training && m->normaliser)
    return m->normaliser(
        &(situ_nn_normalise_call){ x, m->running_mean, m->running_var, m->weight, m->bias, momentum, m->options.eps },
        m->payload);
  situ_batch_norm_options o = situ_batch_norm_defaults();
  o.training = self->training || !m->running_mean;
  o.momentum = momentum;
  o.eps = m->options.eps;
  return situ_batch_norm(x, m->running_mean, m->running_var, m->weight, m->bias, &o);
}

/* One thread at a time updates running statistics. */
static situ_tensor *batch_norm_forward(const situ_nn_module *self, situ_tensor *x) {
  const batch_norm *m = (const batch_norm *)self;
  double momentum;
  uint64_t locks =
      self->training ? situ__nn_write_begin(3, m->running_mean, m->running_var, m->num_batches_tracked) : 0;
  const bool counted = count_batch(m, &momentum);
  if (m->normaliser) { /* it waits for other ranks, and must not hold a lock */
    situ__write_end(locks);
    locks = 0;
  }
  situ_tensor *y = counted ? normalise_input(m, x, momentum) : NULL;
  situ__write_end(locks);
  return y;
}

static situ_tensor *check_and_run(situ_nn_module *self, situ_tensor *x, int least, int most) {
  int ndim = situ_dim(x);
  if (ndim >= least && ndim <= most) return batch_norm_forward(self, x);
  if (least == most)
    situ__fail(SITU_E_SHAPE, "nn_forward", "%s needs %d dimensions, not %d", self->type->name, most, ndim);
  else
    situ__fail(SITU_E_SHAPE, "nn_forward", "%s needs %d %s %d dimensions, not %d", self->type->name, least,
               most > least + 1 ? "to" : "or", most, ndim);
  return NULL;
}
static situ_tensor *forward1d(situ_nn_module *self, situ_tensor *x) { return check_and_run(self, x, 2, 3); }
static situ_tensor *forward2d(situ_nn_module *self, situ_tensor *x) { return check_and_run(self, x, 4, 4); }
static situ_tensor *forward_any(situ_nn_module *self, situ_tensor *x) {
  return check_and_run(self, x, 2, SITU_MAX_DIMS);
}

static int batch_norm_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const batch_norm *m = (const batch_norm *)self;
  char eps[SITU__NUMBER], momentum[SITU__NUMBER];
  return snprintf(buffer, size, "%" PRId64 ", eps=%s, momentum=%s, affine=%s, track_running_stats=%s", m->features,
                  situ__nn_number(m->options.eps, eps),
                  m->options.cumulative ? "None" : situ__nn_number(m->options.momentum, momentum),
                  situ__nn_bool(!m->options.no_affine), situ__nn_bool(!m->options.no_track_running_stats));
}

static const situ_nn_type batch_norm1d_type = {
  .name = "BatchNorm1d", .size = sizeof(batch_norm), .forward = forward1d, .extra_repr = batch_norm_repr
};
static const situ_nn_type batch_norm2d_type = {
  .name = "BatchNorm2d", .size = sizeof(batch_norm), .forward = forward2d, .extra_repr = batch_norm_repr
};
static const situ_nn_type sync_batch_norm_type = {
  .name = "SyncBatchNorm", .size = sizeof(batch_norm), .forward = forward_any, .extra_repr = batch_norm_repr
};

static bool is_batch_norm(const situ_nn_module *m) {
  return m->type == &batch_norm1d_type || m->type == &batch_norm2d_type || m->type == &sync_batch_norm_type;
}

bool situ_nn_batch_norm_average(situ_nn_module *m, bool on) {
  SITU__CLAIM(claim);
  const char *op = "nn_batch_norm_average";
  if (!situ__nn_given(op, "module", m) || !is_batch_norm(m)) return false;
  batch_norm *n = (batch_norm *)m;
  if (!n->num_batches_tracked || !situ__nn_change(op, m, &claim)) return false;
  n->averages = on;
  return true;
}

bool situ_nn_batch_norm_through(situ_nn_module *m, situ_nn_normaliser normalise, void *payload) {
  SITU__CLAIM(claim);
  const char *op = "nn_batch_norm_through";
  if (!situ__nn_given(op, "module", m) || !situ__given(op, "normalise", normalise ? m : NULL) || !is_batch_norm(m) ||
      !situ__nn_change(op, m, &claim))
    return false;
  batch_norm *n = (batch_norm *)m;
  n->normaliser = normalise;
  n->payload = payload;
  __atomic_store_n(&m->type, &sync_batch_norm_type, __ATOMIC_RELEASE);
  return true;
}

static situ_nn_module *make(const char *op, const situ_nn_type *type, int64_t features,
                            const situ_nn_batch_norm_options *options) {
  situ_nn_batch_norm_options o = situ_nn_batch_norm_defaults();
  if (!situ__options_read(op, "situ_nn_batch_norm_defaults", options, &o, sizeof o)) return NULL;
  batch_norm *m = situ_nn_alloc(type);
  if (!m) return NULL;
  m->base.home = o.device;
  m->features = features;
  m->options = o;
  situ_options where = { .dtype = m->options.dtype, .device = m->options.device };
  situ_shape shape = SITU_SHAPE(features);
  if (!m->options.no_affine) {
    situ_nn_param(m, weight, situ_ones(shape, &where));
    situ_nn_param(m, bias, situ_zeros(shape, &where));
  }
  if (!m->options.no_track_running_stats) {
    situ_nn_buffer(m, running_mean, situ_zeros(shape, &where));
    situ_nn_buffer(m, running_var, situ_ones(shape, &where));
    where.dtype = SITU_I64;
    situ_nn_buffer(m, num_batches_tracked, situ_zeros(SITU_SCALAR, &where));
  }
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_batch_norm1d(int64_t num_features, const situ_nn_batch_norm_options *options) {
  return make("nn_batch_norm1d", &batch_norm1d_type, num_features, options);
}
situ_nn_module *situ_nn_batch_norm2d(int64_t num_features, const situ_nn_batch_norm_options *options) {
  return make("nn_batch_norm2d", &batch_norm2d_type, num_features, options);
}
