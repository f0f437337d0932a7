/* LayerNorm, RMSNorm, GroupNorm: statistics of each sample separately.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/options.h"
#include "nn/nn.h"

typedef struct norm {
  situ_nn_module base;
  situ_tensor *weight, *bias;
  situ_shape shape; /* of weight and bias */
  int64_t groups;
  double eps; /* SITU_NONE: RMSNorm's default */
  bool no_affine;
} norm;

static situ_tensor *layer_forward(situ_nn_module *self, situ_tensor *x) {
  norm *m = (norm *)self;
  return situ_layer_norm(x, m->shape, m->weight, m->bias, m->eps);
}
static situ_tensor *rms_forward(situ_nn_module *self, situ_tensor *x) {
  norm *m = (norm *)self;
  return situ_rms_norm(x, m->shape, m->weight, m->eps);
}
static situ_tensor *group_forward(situ_nn_module *self, situ_tensor *x) {
  norm *m = (norm *)self;
  return situ_group_norm(x, m->groups, m->weight, m->bias, m->eps);
}

static int shape_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const norm *m = (const norm *)self;
  char shape[SITU__TUPLE], eps[SITU__NUMBER];
  return snprintf(buffer, size, "%s, eps=%s, elementwise_affine=%s", situ__nn_tuple(m->shape, shape),
                  m->eps == SITU_NONE ? "None" : situ__nn_number(m->eps, eps), situ__nn_bool(!m->no_affine));
}
static int group_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const norm *m = (const norm *)self;
  char eps[SITU__NUMBER];
  return snprintf(buffer, size, "%" PRId64 ", %" PRId64 ", eps=%s, affine=%s", m->groups, m->shape.dim[0],
                  situ__nn_number(m->eps, eps), situ__nn_bool(!m->no_affine));
}

static const situ_nn_type layer_type = {
  .name = "LayerNorm", .size = sizeof(norm), .forward = layer_forward, .single_op = true, .extra_repr = shape_repr
};
static const situ_nn_type rms_type = {
  .name = "RMSNorm", .size = sizeof(norm), .forward = rms_forward, .single_op = true, .extra_repr = shape_repr
};
static const situ_nn_type group_type = {
  .name = "GroupNorm", .size = sizeof(norm), .forward = group_forward, .single_op = true, .extra_repr = group_repr
};

static situ_nn_module *make(const char *op, const situ_nn_type *type, situ_shape shape, int64_t groups,
                            const situ_nn_norm_options *options) {
  situ_nn_norm_options o = situ_nn_norm_defaults();
  if (!situ__options_read(op, "situ_nn_norm_defaults", options, &o, sizeof o)) return NULL;
  norm *m = situ_nn_alloc(type);
  if (!m) return NULL;
  m->base.home = o.device;
  m->shape = shape;
  m->groups = groups;
  m->eps = o.eps == SITU_NONE && type != &rms_type ? 1e-5 : o.eps;
  m->no_affine = o.no_affine;
  if (type == &group_type && (groups < 1 || shape.dim[0] < 0 || shape.dim[0] % groups)) {
    situ__fail(SITU_E_ARG, op, "%" PRId64 " channels do not divide into %" PRId64 " groups", shape.dim[0], groups);
    m->base.broken = true;
  }
  situ_options where = { .dtype = o.dtype, .device = o.device };
  if (!o.no_affine) situ_nn_param(m, weight, situ_ones(shape, &where));
  if (!o.no_affine && !o.no_bias && type != &rms_type) situ_nn_param(m, bias, situ_zeros(shape, &where));
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_layer_norm(situ_shape normalized_shape, const situ_nn_norm_options *options) {
  return make("nn_layer_norm", &layer_type, normalized_shape, 0, options);
}
situ_nn_module *situ_nn_rms_norm(situ_shape normalized_shape, const situ_nn_norm_options *options) {
  return make("nn_rms_norm", &rms_type, normalized_shape, 0, options);
}
situ_nn_module *situ_nn_group_norm(int64_t num_groups, int64_t num_channels, const situ_nn_norm_options *options) {
  return make("nn_group_norm", &group_type, SITU_SHAPE(num_channels), num_groups, options);
}
