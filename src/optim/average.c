/* Averages of a model's parameters: stochastic weight averaging and exponential moving averages.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "optim/optim.h"
#include "situ/nn.h"
#include "situ/ops.h"
#include "situ/sys/graph.h"
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
  situ_averaged_model_options with = situ_averaged_model_defaults();
  if (!situ__options_read(op, "situ_averaged_model_defaults", options, &with, sizeof with)) return NULL;
  if (!(with.decay >= 0 && with.decay <= 1) && with.decay != SITU_NONE)
    return situ__fail(SITU_E_ARG, op, "decay is %g: it must be in 0..1, or SITU_NONE for the mean of all updates",
                      with.decay),
           NULL;
  situ_nn_module *clone = situ_nn_clone(model);
  if (!clone) return NULL;
  averaged_model *m = situ_nn_alloc(&type);
  if (m) m->options = with;
  situ_nn_child(m, module, clone);
  situ_nn_buffer(m, n_averaged, make_counter(model));
  situ_nn_module *made = situ_nn_done(m);
  const int64_t elements = made ? situ_nn_num_parameters(model) : 0;
  if (!elements || (elements > 0 && situ_nn_follow(made, model) == SITU_OK && situ_nn_follow(clone, model) == SITU_OK))
    return made;
  situ_nn_free(made);
  return NULL;
}

/* ---- updates ---- */

/* Tensors of the average and of the model, pair by pair. */
typedef struct pairs {
  situ_tree *averaged, *model;
  int64_t count;
} pairs;

static bool have_one_shape(const char *op, const pairs *p) {
  if (p->count != situ_tree_count(p->model))
    return situ__fail(SITU_E_SHAPE, op,
                      "the model has %" PRId64 " parameters and buffers of a kind, its average %" PRId64,
                      situ_tree_count(p->model), p->count),
           false;
  for (int64_t i = 0; i < p->count; i++) {
    const situ_shape a = situ_shape_of(situ_tree_tensor_at(p->averaged, i)),
                     b = situ_shape_of(situ_tree_tensor_at(p->model, i));
    char text[2][SITU_SHAPE_TEXT];
    if (situ_shape_equal(&a, &b)) continue;
    return situ__fail(SITU_E_SHAPE, op, "%s is %s, its average %s", situ_tree_key(p->model, i),
                      situ_shape_text(&b, text[0]), situ_shape_text(&a, text[1])),
           false;
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

static bool read_count(averaged_model *m) {
  if (m->known && m->version == situ_version_of(m->n_averaged)) return true;
  const bool paused = situ_graph_pause();
  m->known = situ_item_i64(m->n_averaged, &m->count) == SITU_OK;
  if (paused) situ_graph_resume();
  m->version = situ_version_of(m->n_averaged);
  return m->known;
}
/* The share of the model in the next average. */
static double share_of(const averaged_model *m) {
  return m->count == 0 ? 1 : m->options.decay >= 0 ? 1 - m->options.decay : 1 / ((double)m->count + 1);
}

/* ---- in graphs: each replay takes the share of its own update, and counts it ---- */

typedef struct captured_update {
  averaged_model *m;
  double share; /* of this replay, */
  bool counted; /* which m->count counts already */
} captured_update;

static situ_status refresh_share(void *payload, situ_work *work, situ_optimizer_params *params,
                                 situ_optimizer_item *list) {
  captured_update *u = payload;
  (void)params, (void)list;
  if (!situ__valid("graph_replay", "averaged", u->m, SITU__A_MODULE)) return situ_error();
  if (!u->counted) {
    if (!read_count(u->m)) return situ_error();
    u->share = share_of(u->m);
    u->counted = true;
    u->m->count++;
  }
  if (work->verb == SITU_VERB_FILL || work->verb == SITU_VERB_UNARY) work->scalar[0] = u->share;
  return SITU_OK;
}
static void update_ended(void *payload, situ_graph_outcome outcome) {
  captured_update *u = payload;
  if (u->counted && outcome == SITU_GRAPH_RAN) u->m->version = situ_version_of(u->m->n_averaged);
  else if (u->counted) u->m->count--;
  u->counted = false;
}

/* Sets *update to the one that is captured; NULL: none, or its replays have the share of now. */
static bool begin_update(averaged_model *m, captured_update **update) {
  *update = NULL;
  if (!situ_graph_is_capturing() || (m->count > 0 && m->options.decay >= 0)) return true;
  captured_update *u = situ__calloc(1, sizeof *u);
  if (!u) return situ__no_memory("optim_update_parameters", sizeof *u), false;
  u->m = m;
  const situ_graph_values values = { .payload = u, .ended = update_ended, .release = situ__free };
  if (situ_graph_values_begin(&values) != SITU_OK) return false;
  situ_graph_values_end();
  *update = u;
  return true;
}

/* ---- the new average, in torch's formulas ---- */

static bool average(const averaged_model *m, captured_update *u, situ_tensor *mean, situ_tensor *value) {
  const bool floating = situ_dtype_is_floating(situ_dtype_of(mean));
  situ_tensor *change = floating ? NULL : situ_sub(value, mean);
  if (u && situ_graph_values_begin(&(situ_graph_values){ .payload = u, .refresh = refresh_share }) != SITU_OK)
    return false;
  situ_tensor *done = floating ? situ_lerp_scalar_(mean, value, share_of(m)) : situ_mul_scalar(change, share_of(m));
  if (u) situ_graph_values_end();
  return floating ? done : situ_copy_(mean, situ_add(mean, done));
}

/* The first update, of which only a copy is left. No replay is the first. */
static bool copy_first(const averaged_model *m, captured_update *u, situ_tensor *mean, situ_tensor *value) {
  if (u && !average(m, u, mean, value)) return false;
  const bool paused = situ_graph_pause();
  const bool good = situ_copy_(mean, value);
  if (paused) situ_graph_resume();
  return good;
}

static bool update(const averaged_model *m, captured_update *u, const pairs *p, bool copy_only) {
  for (int64_t i = 0; i < p->count; i++) {
    situ_tensor *mean = situ_tree_tensor_at(p->averaged, i);
    situ_tensor *value = situ_to(situ_detach(situ_tree_tensor_at(p->model, i)), situ_device_of(mean));
    if (value && situ_dtype_of(value) != situ_dtype_of(mean)) value = situ_to_dtype(value, situ_dtype_of(mean));
    if (!value) return false;
    if (!(copy_only       ? situ_copy_(mean, value) != NULL
          : m->count == 0 ? copy_first(m, u, mean, value)
                          : average(m, u, mean, value)))
      return false;
  }
  return true;
}

static bool take(averaged_model *m, const pairs *parameters, const pairs *buffers) {
  captured_update *u;
  if (!read_count(m) || !begin_update(m, &u) || !update(m, u, parameters, false) ||
      !update(m, u, buffers, !m->options.use_buffers) || !situ_add_scalar_(m->n_averaged, 1))
    return false;
  m->count++;
  m->version = situ_version_of(m->n_averaged);
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
  SITU__CLAIM(claim);
  if (!situ__claim_begin(&claim, situ__module_marks, averaged)) return situ__busy(op, "the average"), situ_error();
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
