/* weight_norm and spectral_norm.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "base/options.h"
#include "base/pair.h"
#include "nn/nn.h"
#include "situ/sys/shape.h"

/* ---- weight_norm ---- */

typedef struct weight_norm {
  situ_nn_module base;
  int dim; /* -1: one norm of the whole tensor */
} weight_norm;

/* Norms of v over all dimensions but dim, which stay with size 1; 0-dim for the whole. */
static situ_tensor *norm_except(situ_tensor *v, int dim) {
  situ_reduce_options o = { .keepdim = true };
  if (dim < 0) return situ_norm(v, 2, NULL);
  for (int d = 0; d < situ_dim(v); d++)
    if (d != dim) o.dim.dim[o.dim.ndim++] = d;
  return o.dim.ndim ? situ_norm(v, 2, &o) : situ_abs(v);
}

static situ_tree *weight_norm_call(situ_nn_module *self, const situ_tree *inputs) {
  situ_tensor *g = situ_tree_tensor_at(inputs, 0), *v = situ_tree_tensor_at(inputs, 1);
  return v ? situ_tree_tensor(situ_mul(v, situ_div(g, norm_except(v, ((weight_norm *)self)->dim)))) : NULL;
}

static const situ_nn_type weight_norm_type = { .name = "_WeightNorm",
                                               .size = sizeof(weight_norm),
                                               .call = weight_norm_call };

situ_nn_module *situ_nn_utils_weight_norm(situ_nn_module *m, const char *name, int dim) {
  const char *op = "nn_utils_weight_norm";
  if (!situ__nn_given(op, "module", m)) return NULL;
  if (!name) name = "weight";
  situ_tensor *v = situ__nn_parametrized_or_own(op, m, name);
  if (!v || (dim != -1 && !situ_wrap_dim(op, dim, situ_dim(v), &dim))) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *g = situ_clone(norm_except(v, dim));
  weight_norm *step = g ? situ_nn_alloc(&weight_norm_type) : NULL;
  if (step) step->dim = dim;
  const bool good = step && situ_nn_done(step) && situ__nn_parametrize(op, m, name, &step->base, g);
  return situ_scope_end(&s) == SITU_OK && good ? m : NULL;
}

/* ---- spectral_norm ---- */

typedef struct spectral_norm {
  situ_nn_module base;
  situ_tensor *u, *v; /* NULL for a vector */
  int64_t iterations;
  double eps;
  int dim;
} spectral_norm;

static situ_tensor *as_matrix(const spectral_norm *m, situ_tensor *weight) {
  if (weight && m->dim) weight = situ_movedim(weight, SITU_DIMS(m->dim), SITU_DIMS(0));
  return weight ? situ_flatten(weight, 1, -1) : NULL;
}

static bool iterate(spectral_norm *m, situ_tensor *weight, int64_t count) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *matrix = as_matrix(m, weight), *turned = matrix ? situ_transpose(matrix, 0, 1) : NULL;
  situ_tensor *u = m->u, *v = m->v;
  for (int64_t i = 0; i < count && v; i++) {
    u = situ_normalize(situ_mv(matrix, v), 2, 0, m->eps);
    v = situ_normalize(situ_mv(turned, u), 2, 0, m->eps);
  }
  const uint64_t locks = situ__nn_write_begin(2, m->u, m->v);
  const bool good = turned && v && situ_copy_(m->u, u) && situ_copy_(m->v, v);
  situ__write_end(locks);
  return situ_scope_end(&s) == SITU_OK && good;
}

/* Forward reads copies of u and v, which the next call may change before backward. */
static situ_tensor *spectral_norm_forward(situ_nn_module *self, situ_tensor *weight) {
  spectral_norm *m = (spectral_norm *)self;
  if (!m->u) return situ_normalize(weight, 2, 0, m->eps);
  if (self->training && !iterate(m, weight, m->iterations)) return NULL;
  situ_tensor *u = situ_clone(m->u), *v = situ_clone(m->v);
  return situ_div(weight, situ_dot(u, situ_mv(as_matrix(m, weight), v)));
}

static const situ_nn_type spectral_norm_type = { .name = "_SpectralNorm",
                                                 .size = sizeof(spectral_norm),
                                                 .forward = spectral_norm_forward };

static situ_tensor *unit(int64_t size, const situ_tensor *like, double eps) {
  const situ_options o = { .dtype = situ_dtype_of(like), .device = situ_device_of(like) };
  return situ_normalize(situ_randn(SITU_SHAPE(size), &o), 2, 0, eps);
}

/* Random vectors, after 15 steps, as in torch. A 0-dim or 1-dim weight has none. */
static bool start(spectral_norm *m, situ_tensor *weight) {
  if (situ_dim(weight) < 2) return true;
  situ_tensor *matrix = as_matrix(m, weight);
  if (!matrix) return false;
  situ_tensor *u = unit(situ_size(matrix, 0), weight, m->eps), *v = unit(situ_size(matrix, 1), weight, m->eps);
  m->u = situ_nn_add_tensor(&m->base, "_u", &m->u, u, SITU_NN_BUFFER);
  m->v = situ_nn_add_tensor(&m->base, "_v", &m->v, v, SITU_NN_BUFFER);
  return m->u && m->v && iterate(m, weight, 15);
}

static bool is_transposed(const situ_nn_module *m) {
  return strncmp(situ__nn_type(m)->name, "ConvTranspose", strlen("ConvTranspose")) == 0;
}

situ_nn_module *situ_nn_utils_spectral_norm(situ_nn_module *m, const char *name,
                                            const situ_nn_spectral_norm_options *options) {
  const char *op = "nn_utils_spectral_norm";
  situ_nn_spectral_norm_options o = situ_nn_spectral_norm_defaults();
  if (!situ__nn_given(op, "module", m) ||
      !situ__options_read(op, "situ_nn_spectral_norm_defaults", options, &o, sizeof o) ||
      !situ__check_pair(op, "dim", o.has_dim, o.dim))
    return NULL;
  if (!name) name = "weight";
  if (o.n_power_iterations < 1 || o.n_power_iterations > 1 << 20 || !(o.eps >= 0))
    return situ__fail(SITU_E_ARG, op, "n_power_iterations %lld, eps %g: 1 to 2^20, not negative",
                      (long long)o.n_power_iterations, o.eps),
           NULL;
  situ_tensor *weight = situ__nn_parametrized_or_own(op, m, name);
  int dim = o.has_dim ? o.dim : is_transposed(m);
  if (!weight || !situ_wrap_dim(op, dim, situ_dim(weight), &dim)) return NULL;
  spectral_norm *step = situ_nn_alloc(&spectral_norm_type);
  if (!step) return NULL;
  step->iterations = o.n_power_iterations;
  step->eps = o.eps;
  step->dim = dim;
  if (!start(step, weight)) step->base.broken = true;
  return situ_nn_done(step) && situ__nn_parametrize(op, m, name, &step->base, NULL) ? m : NULL;
}
