/* Averages of a model's parameters: stochastic weight averaging and exponential moving averages.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/fail.h"
#include "optim/optim.h"
#include "situ/nn.h"
#include "situ/ops.h"
#include "situ/sys/shape.h"

typedef struct averaged_model {
  situ_nn_module base;
  situ_nn_module *module;
  situ_tensor *n_averaged;
  situ_averaged_model_options options;
  /* The value of n_averaged while its version is `version`, so that an update does not wait for the device. */
  int64_t count;
  uint32_t version;
  bool known;
} averaged_model;

static situ_tensor *forward(situ_nn_module *self, situ_tensor *x) {
  return situ_nn_forward(((averaged_model *)self)->module, x);
}

static situ_status copy(situ_nn_module *copy, const situ_nn_module *self) {
  (void)self;
  ((averaged_model *)copy)->known = false; /* its n_averaged counts versions anew */
  return SITU_OK;
}

static const situ_nn_type type = {
  .name = "AveragedModel", .size = sizeof(averaged_model), .forward = forward, .copy = copy
};

/* n_averaged starts on the device of the first parameter. */
static situ_tensor *make_counter(situ_nn_module *model) {
  situ_tree *parameters = situ_nn_parameters(model);
  if (!parameters) return NULL;
  situ_options options = { .dtype = SITU_I64 };
  if (situ_tree_count(parameters) > 0) options.device = situ_device_of(situ_tree_tensor_at(parameters, 0));
  situ_tree_free(parameters);
  return situ_zeros(SITU_SCALAR, &options);
}

situ_nn_module *situ_optim_averaged_model(situ_nn_module *model, const situ_averaged_model_options *options) {
  static const char op[] = "optim_averaged_model";
  if (!situ__valid(op, "model", model, SITU__A_MODULE)) return NULL;
  if (options && !(options->decay >= 0 && options->decay <= 1))
    return situ__fail(SITU_E_ARG, op, "decay is %g: it must be in 0..1", options->decay), NULL;
  situ_nn_module *clone = situ_nn_clone(model);
  if (!clone) return NULL;
  averaged_model *m = situ_nn_alloc(&type);
  if (m && options) m->options = *options;
  situ_nn_child(m, module, clone);
  situ_nn_buffer(m, n_averaged, make_counter(model));
  return situ_nn_done(m);
}

/* ---- updates ---- */

/* Tensors of the average and of the model, pair by pair. */
typedef struct pairs {
  situ_tree *averaged, *model;
  int64_t count;
} pairs;

static bool have_one_shape(const char *op, const pairs *p) {
  if (p->count != situ_tree_count(p->model)) {
    situ__fail(SITU_E_SHAPE, op, "the model has %" PRId64 " parameters and buffers of a kind, its average %" PRId64,
               situ_tree_count(p->model), p->count);
    return false;
  }
  for (int64_t i = 0; i < p->count; i++) {
    const situ_shape a = situ_shape_of(situ_tree_tensor_at(p->averaged, i)),
                     b = situ_shape_of(situ_tree_tensor_at(p->model, i));
    char text[2][SITU_SHAPE_TEXT];
    if (situ_shape_equal(&a, &b)) continue;
    situ__fail(SITU_E_SHAPE, op, "%s is %s, its average %s", situ_tree_key(p->model, i), situ_shape_text(&b, text[0]),
               situ_shape_text(&a, text[1]));
    return false;
  }
  return true;
}

static bool open_pairs(const char *op, pairs *p, situ_tree *averaged, situ_tree *model) {
  *p = (pairs){ averaged, model, averaged ? situ_tree_count(averaged) : 0 };
  return averaged && model && have_one_shape(op, p);
}
static void close_pairs(pairs *p) {
  situ_tree_free(p->averaged);
  situ_tree_free(p->model);
}

/* The new average, in torch's formulas. share: 1 - decay, or 1 / (number of models). */
static bool average(situ_tensor *mean, situ_tensor *value, double share) {
  if (situ_dtype_is_floating(situ_dtype_of(mean))) return situ_lerp_scalar_(mean, value, share);
  return situ_copy_(mean, situ_add(mean, situ_mul_scalar(situ_sub(value, mean), share)));
}

static bool update(const pairs *p, bool copy_only, double share) {
  for (int64_t i = 0; i < p->count; i++) {
    situ_tensor *mean = situ_tree_tensor_at(p->averaged, i);
    situ_tensor *value = situ_to(situ_detach(situ_tree_tensor_at(p->model, i)), situ_device_of(mean));
    if (value && situ_dtype_of(value) != situ_dtype_of(mean)) value = situ_to_dtype(value, situ_dtype_of(mean));
    if (!value || !(copy_only ? situ_copy_(mean, value) != NULL : average(mean, value, share))) return false;
  }
  return true;
}

static bool read_count(averaged_model *m) {
  if (m->known && m->version == situ_version_of(m->n_averaged)) return true;
  return situ_item_i64(m->n_averaged, &m->count) == SITU_OK;
}

static bool take(averaged_model *m, const pairs *parameters, const pairs *buffers) {
  if (!read_count(m)) return false;
  const bool first = m->count == 0;
  const double share = m->options.decay > 0 ? 1 - m->options.decay : 1 / ((double)m->count + 1);
  if (!update(parameters, first, share) || !update(buffers, first || !m->options.use_buffers, share) ||
      !situ_add_scalar_(m->n_averaged, 1))
    return false;
  m->count++;
  m->version = situ_version_of(m->n_averaged);
  m->known = true;
  return true;
}

situ_status situ_optim_update_parameters(situ_nn_module *averaged, situ_nn_module *model) {
  static const char op[] = "optim_update_parameters";
  SITU__MADE_OF_OPS(op);
  if (!situ__valid(op, "averaged", averaged, SITU__A_MODULE) || !situ__valid(op, "model", model, SITU__A_MODULE))
    return situ_error();
  if (averaged->type != &type)
    return situ__fail(SITU_E_ARG, op, "averaged is a %s: make it by situ_optim_averaged_model", averaged->type->name);
  averaged_model *m = (averaged_model *)averaged;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  pairs parameters = { 0 }, buffers = { 0 };
  const bool good = open_pairs(op, &parameters, situ_nn_parameters(m->module), situ_nn_parameters(model)) &&
                    open_pairs(op, &buffers, situ_nn_buffers(m->module), situ_nn_buffers(model)) &&
                    take(m, &parameters, &buffers);
  close_pairs(&parameters);
  close_pairs(&buffers);
  SITU_IGNORE(situ_scope_end(&scope));
  return good ? SITU_OK : situ_error();
}
