/* InstanceNorm1d to 3d.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/options.h"
#include "nn/nn.h"

typedef struct instance_norm {
  situ_nn_module base;
  situ_tensor *weight, *bias, *running_mean, *running_var, *num_batches_tracked;
  int64_t features;
  int ndim; /* of an input, with N */
  situ_nn_instance_norm_options options;
} instance_norm;

static situ_tensor *forward(situ_nn_module *self, situ_tensor *x) {
  const instance_norm *m = (const instance_norm *)self;
  const int ndim = situ_dim(x);
  if (ndim != m->ndim && ndim != m->ndim - 1)
    return situ__fail(SITU_E_SHAPE, "nn_forward", "%s needs %d or %d dimensions, not %d", self->type->name, m->ndim - 1,
                      m->ndim, ndim),
           NULL;
  const bool tracked = m->running_mean != NULL;
  const uint64_t locks = self->training ? situ__nn_write_begin(2, m->running_mean, m->running_var) : 0;
  situ_instance_norm_options o = situ_instance_norm_defaults();
  o.no_input_stats = tracked && !self->training;
  o.momentum = m->options.momentum;
  o.eps = m->options.eps;
  situ_tensor *y = situ_instance_norm(ndim == m->ndim ? x : situ_unsqueeze(x, 0), m->running_mean, m->running_var,
                                      m->weight, m->bias, &o);
  situ__write_end(locks);
  return ndim == m->ndim ? y : situ_squeeze(y, SITU_DIMS(0));
}

static int repr(const situ_nn_module *self, char *buffer, size_t size) {
  const instance_norm *m = (const instance_norm *)self;
  char eps[SITU__NUMBER], momentum[SITU__NUMBER];
  return snprintf(buffer, size, "%" PRId64 ", eps=%s, momentum=%s, affine=%s, track_running_stats=%s", m->features,
                  situ__nn_number(m->options.eps, eps), situ__nn_number(m->options.momentum, momentum),
                  situ__nn_bool(m->options.affine), situ__nn_bool(m->options.track_running_stats));
}

static const situ_nn_type types[] = {
  { .name = "InstanceNorm1d", .size = sizeof(instance_norm), .forward = forward, .extra_repr = repr },
  { .name = "InstanceNorm2d", .size = sizeof(instance_norm), .forward = forward, .extra_repr = repr },
  { .name = "InstanceNorm3d", .size = sizeof(instance_norm), .forward = forward, .extra_repr = repr }
};

static situ_nn_module *make(int spatial, int64_t features, const situ_nn_instance_norm_options *options) {
  static const char *const ops[] = { "nn_instance_norm1d", "nn_instance_norm2d", "nn_instance_norm3d" };
  situ_nn_instance_norm_options o = situ_nn_instance_norm_defaults();
  if (!situ__options_read(ops[spatial - 1], "situ_nn_instance_norm_defaults", options, &o, sizeof o)) return NULL;
  instance_norm *m = situ_nn_alloc(&types[spatial - 1]);
  if (!m) return NULL;
  m->base.home = o.device;
  m->features = features;
  m->ndim = spatial + 2;
  m->options = o;
  situ_options where = { .dtype = m->options.dtype, .device = m->options.device };
  const situ_shape shape = SITU_SHAPE(features);
  if (m->options.affine) {
    situ_nn_param(m, weight, situ_ones(shape, &where));
    situ_nn_param(m, bias, situ_zeros(shape, &where));
  }
  if (m->options.track_running_stats) {
    situ_nn_buffer(m, running_mean, situ_zeros(shape, &where));
    situ_nn_buffer(m, running_var, situ_ones(shape, &where));
    where.dtype = SITU_I64;
    situ_nn_buffer(m, num_batches_tracked, situ_zeros(SITU_SCALAR, &where));
  }
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_instance_norm1d(int64_t num_features, const situ_nn_instance_norm_options *options) {
  return make(1, num_features, options);
}
situ_nn_module *situ_nn_instance_norm2d(int64_t num_features, const situ_nn_instance_norm_options *options) {
  return make(2, num_features, options);
}
situ_nn_module *situ_nn_instance_norm3d(int64_t num_features, const situ_nn_instance_norm_options *options) {
  return make(3, num_features, options);
}
