/* LoRA: low-rank adapters around frozen layers.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "nn/nn.h"
#include "situ/nn/adapt.h"

/* ---- one adapter ---- */

typedef struct lora {
  situ_nn_module base;
  situ_nn_module *base_layer, *lora_A, *lora_B, *lora_dropout;
  double scaling;
} lora;

static situ_tensor *lora_forward(situ_nn_module *self, situ_tensor *x) {
  lora *m = (lora *)self;
  situ_tensor *y = situ_nn_forward(m->base_layer, x),
              *low = situ_nn_forward(m->lora_A, situ_nn_forward(m->lora_dropout, x));
  return situ_add(y, situ_mul_scalar(situ_nn_forward(m->lora_B, low), m->scaling));
}

static int lora_repr(const situ_nn_module *self, char *buffer, size_t size) {
  char number[SITU__NUMBER];
  return snprintf(buffer, size, "scaling=%s", situ__nn_number(((const lora *)self)->scaling, number));
}

static const situ_nn_type lora_type = {
  .name = "LoraLinear", .size = sizeof(lora), .forward = lora_forward, .extra_repr = lora_repr
};

/* The layer's weight; NULL after recording an error. */
static situ_tensor *find_weight(const char *op, const situ_nn_module *layer) {
  const situ_nn_slot *slot = situ__nn_find(layer, "weight");
  situ_tensor *weight = slot && !situ__nn_is_child(slot) ? slot->held : NULL;
  if (layer->type == &lora_type) situ__fail(SITU_E_STATE, op, "the layer has an adapter already");
  else if (weight && situ_dim(weight) == 2) return weight;
  else situ__fail(SITU_E_ARG, op, "a %s has no 2-dim tensor `weight`: an adapter needs one", layer->type->name);
  return NULL;
}

static bool check_options(const char *op, const situ_nn_lora_options *o) {
  if (o->r >= 1 && o->lora_alpha >= 0 && o->lora_dropout >= 0 && o->lora_dropout <= 1) return true;
  return situ__fail(SITU_E_ARG, op,
                    "r %" PRId64
                    ", lora_alpha %g, lora_dropout %g: r must be 1 or more, neither negative, nor dropout above 1",
                    o->r, o->lora_alpha, o->lora_dropout),
         false;
}

static situ_nn_module *wrap(const char *op, situ_nn_module *layer, const situ_nn_lora_options *o) {
  const situ_tensor *weight = find_weight(op, layer);
  lora *m = weight && check_options(op, o) ? situ_nn_alloc(&lora_type) : NULL;
  if (!m) return situ_nn_free(layer), NULL;
  const situ_shape shape = situ_block_shape(weight);
  const bool floating = situ_dtype_is_floating(situ_dtype_of(weight));
  const situ_nn_linear_options like = { .no_bias = true,
                                        .dtype = floating ? situ_dtype_of(weight) : SITU_F32,
                                        .device = situ_device_of(weight) };
  m->scaling = o->lora_alpha / (o->use_rslora ? sqrt((double)o->r) : (double)o->r);
  situ_nn_child(m, base_layer, layer);
  situ_nn_child(m, lora_A, situ_nn_linear(shape.dim[1], o->r, &like));
  situ_nn_child(m, lora_B, situ_nn_linear(o->r, shape.dim[0], &like));
  situ_nn_child(m, lora_dropout, o->lora_dropout > 0 ? situ_nn_dropout(o->lora_dropout) : situ_nn_identity());
  situ_tensor *up = m->lora_B ? situ_nn_get_tensor(m->lora_B, "weight") : NULL;
  if (!up || !situ_nn_init_zeros_(up)) m->base.broken = true;
  /* Where the layer is was not stated for the adapter. */
  if (m->lora_A && m->lora_B) m->base.home = m->lora_A->home = m->lora_B->home = layer->home;
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_lora(situ_nn_module *base_layer, const situ_nn_lora_options *options) {
  static const char op[] = "nn_lora";
  if (!situ__nn_given(op, "base_layer", base_layer)) return NULL;
  situ_nn_lora_options o = situ_nn_lora_defaults();
  if (!situ__options_read(op, "situ_nn_lora_defaults", options, &o, sizeof o)) return situ_nn_free(base_layer), NULL;
  const bool training = base_layer->training;
  situ_nn_module *m = wrap(op, base_layer, &o);
  if (!m) return NULL;
  situ_nn_requires_grad_(((lora *)m)->base_layer, false);
  return situ_nn_train(m, training);
}

/* ---- adapters in a model ---- */

/* A part of a module that gets an adapter. */
typedef struct site {
  situ_nn_module *parent, *layer, *adapter;
  const char *name;
  size_t offset;
} site;

typedef struct search {
  const char *const *target;
  int64_t targets, count, capacity;
  site *list;
  bool *found; /* for each target */
} search;

/* Whether the path ends in the target, as whole parts. */
static bool ends_in(const char *path, const char *target) {
  const size_t length = strlen(path), part = strlen(target);
  return part && length >= part && strcmp(path + length - part, target) == 0 &&
         (length == part || path[length - part - 1] == '.');
}

static bool add_site(search *s, const site *new) {
  if (!situ__grow("nn_lora_add", &s->list, &s->capacity, sizeof *s->list, s->count + 1)) return false;
  s->list[s->count++] = *new;
  return true;
}

/* A visit of a module shows its slot but not its parent, so that a parent looks at its parts. */
static situ_status look(const situ_nn_visit *at, void *payload) {
  search *s = payload;
  situ_nn_module *m = at->module;
  for (int64_t i = 0; i < m->count; i++) {
    const situ_nn_slot *slot = &m->slots[i];
    bool wanted = false;
    char path[1024];
    if (!situ__nn_is_child(slot)) continue;
    snprintf(path, sizeof path, "%s%s%s", at->path, *at->path ? "." : "", slot->name);
    for (int64_t k = 0; k < s->targets; k++)
      if (ends_in(path, s->target[k])) s->found[k] = wanted = true;
    if (wanted && !add_site(s, &(site){ .parent = m, .layer = slot->held, .name = slot->name, .offset = slot->offset }))
      return situ_error();
  }
  return SITU_OK;
}

/* Puts a module into a site; the caller keeps its own reference to what was there. */
static bool put(const site *at, situ_nn_module *m) {
  situ_nn_module **field = at->offset ? (situ_nn_module **)(void *)((char *)at->parent + at->offset) : NULL;
  return situ_nn_add_child(at->parent, at->name, field, situ_nn_retain(m)) != NULL;
}

/* Makes all adapters before the first is put in. A layer that is used twice has one adapter. */
static bool make_adapters(const char *op, search *s, const situ_nn_lora_options *o) {
  const uint64_t errors = situ__error_count();
  for (int64_t i = 0; i < s->count; i++) {
    site *at = &s->list[i];
    for (int64_t k = 0; k < i && !at->adapter; k++)
      if (s->list[k].layer == at->layer) at->adapter = situ_nn_retain(s->list[k].adapter);
    if (!at->adapter) at->adapter = wrap(op, situ_nn_retain(at->layer), o);
    if (!at->adapter) return false;
    situ_nn_train(at->adapter, at->layer->training);
  }
  return situ__error_count() == errors;
}

static bool put_adapters(search *s) {
  int64_t done = 0;
  while (done < s->count && put(&s->list[done], s->list[done].adapter)) done++;
  if (done == s->count) return true;
  while (done-- > 0) (void)put(&s->list[done], s->list[done].layer);
  return false;
}

static bool check_found(const char *op, const search *s) {
  for (int64_t k = 0; k < s->targets; k++)
    if (!s->found[k]) return situ__fail(SITU_E_ARG, op, "no part of the module is named '%s'", s->target[k]), false;
  return true;
}

/* Freezes all parameters but those of adapters, new ones and old ones. Allocates nothing. */
static void freeze(const situ_tree *parameters) {
  for (int64_t i = 0; i < situ_tree_count(parameters); i++) {
    const char *path = situ_tree_key(parameters, i);
    if (!strstr(path, "lora_A.") && !strstr(path, "lora_B."))
      (void)situ_requires_grad_(situ_tree_tensor_at(parameters, i), false);
  }
}

static bool check_targets(const char *op, const char *const *target, int64_t count) {
  if (count < 1) return situ__fail(SITU_E_ARG, op, "%" PRId64 " target_modules", count), false;
  if (!situ__given(op, "target_modules", target)) return false;
  for (int64_t k = 0; k < count; k++)
    if (!situ__given(op, "target_modules", target[k])) return false;
  return true;
}

situ_status situ_nn_lora_add(situ_nn_module *m, const char *const *target_modules, int64_t count,
                             const situ_nn_lora_options *options) {
  static const char op[] = "nn_lora_add";
  situ_nn_lora_options o = situ_nn_lora_defaults();
  if (!situ__nn_given(op, "module", m) || !check_targets(op, target_modules, count) ||
      !situ__options_read(op, "situ_nn_lora_defaults", options, &o, sizeof o))
    return situ_error();
  search s = { .target = target_modules, .targets = count, .found = situ__calloc((size_t)count, sizeof(bool)) };
  if (!s.found) return situ__no_memory(op, (size_t)count * sizeof(bool));
  situ_tree *parameters = situ_nn_parameters(m);
  bool good = parameters && situ_nn_walk(m, SITU_NN_VISIT_MODULES | SITU_NN_VISIT_ONCE, look, &s) == SITU_OK &&
              check_found(op, &s) && make_adapters(op, &s, &o);
  /* Layers keep a reference until the end, so that they can be put back. */
  for (int64_t i = 0; i < s.count; i++) situ_nn_retain(s.list[i].layer);
  good = good && put_adapters(&s);
  for (int64_t i = 0; i < s.count; i++) {
    situ_nn_free(s.list[i].adapter);
    situ_nn_free(s.list[i].layer);
  }
  situ__free(s.list);
  situ__free(s.found);
  if (good) freeze(parameters);
  situ_tree_free(parameters);
  return good ? SITU_OK : situ_error();
}

/* ---- state ---- */

static situ_status add_state(const situ_nn_visit *at, void *payload) {
  situ_tree **state = payload;
  if (at->module->type != &lora_type) return SITU_OK;
  static const char *const part[] = { "lora_A.weight", "lora_B.weight" };
  for (int k = 0; k < 2; k++) {
    char path[1024];
    snprintf(path, sizeof path, "%s%s%s", at->path, *at->path ? "." : "", part[k]);
    *state = situ_tree_put(*state, path, situ_tree_tensor(situ_nn_get_tensor(at->module, part[k])));
    if (!*state) return situ_error();
  }
  return SITU_OK;
}

situ_tree *situ_nn_lora_state_dict(situ_nn_module *m) {
  if (!situ__nn_given("nn_lora_state_dict", "module", m)) return NULL;
  situ_tree *state = situ_tree_dict();
  if (state && situ_nn_walk(m, SITU_NN_VISIT_MODULES, add_state, &state) == SITU_OK) return state;
  situ_tree_free(state);
  return NULL;
}

situ_status situ_nn_lora_load_state_dict(situ_nn_module *m, const situ_tree *state,
                                         const situ_nn_load_options *options) {
  static const char op[] = "nn_lora_load_state_dict";
  static const situ_nn_load_options strict;
  SITU__MADE_OF_OPS(op);
  if (!situ__nn_given(op, "module", m) || !situ__valid(op, "state", state, SITU__A_TREE)) return situ_error();
  situ_nn_load_options given = options ? *options : strict;
  situ_tree *named = situ__nn_rename(situ_tree_flatten(state), &given),
            *own = named ? situ_nn_lora_state_dict(m) : NULL;
  situ_status status = own ? SITU_OK : situ_error();
  for (int64_t i = 0; own && status == SITU_OK && i < situ_tree_count(own); i++)
    if (!situ_tree_find(named, situ_tree_key(own, i)))
      status = situ__fail(SITU_E_ARG, op, "the state lacks %s", situ_tree_key(own, i));
  for (int64_t i = 0; own && status == SITU_OK && i < situ_tree_count(named); i++)
    if (!situ_tree_find(own, situ_tree_key(named, i)))
      status = situ__fail(SITU_E_ARG, op, "%s of the state belongs to no adapter", situ_tree_key(named, i));
  given.not_strict = true;
  given.rename = NULL;
  given.rename_count = 0;
  given.report = NULL;
  if (status == SITU_OK) status = situ_nn_load_state_dict(m, named, &given);
  situ_tree_free(own);
  situ_tree_free(named);
  return status;
}
