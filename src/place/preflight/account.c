/* The memory of training: a clone makes two steps as a program does, so that all that is alive at one time is counted.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/alloc.h"
#include "place/preflight/check.h"
#include "situ/sys/optimizer.h"
#include "situ/sys/trainer.h"

static situ_status add_result(const char *path, situ_tensor *t, void *payload) {
  situ_tensor **sum = payload;
  (void)path;
  if (!situ_requires_grad(t)) return SITU_OK;
  situ_tensor *own = situ_sum(t, NULL);
  *sum = *sum && own ? situ_add(*sum, situ_to(own, situ_device_of(*sum))) : own;
  return SITU_OK;
}

static situ_tensor *make_loss(const situ_tree *outputs, const situ_place_check_options *options) {
  situ_tensor *loss = NULL;
  if (options->loss) return options->loss(outputs, options->payload);
  return situ_tree_each(outputs, add_result, &loss) == SITU_OK ? loss : NULL;
}

/* A twin of what trains the clone, or of an optimiser: one of them. */
typedef struct twin {
  const situ_trainer *how;
  void *it;
  situ_optim *optim;
} twin;

typedef struct training {
  situ_nn_module *module;
  const situ_place_check_options *options;
  situ_tree **inputs; /* copies of those that the check was given */
  const situ_tree *given;
  twin over;   /* what trains the module over ranks */
  twin *optim; /* for the parameters of the clone */
} training;

/* Finds a trainer and makes its twin; none is good too. Returns false after recording an error. */
static bool make_twin(const void *object, const situ_twin_module *module, twin *out) {
  void *self = NULL;
  out->how = situ_trainer_of(object, &self);
  return !out->how || (out->it = out->how->twin(self, module)) != NULL;
}

static bool make_twins(training *t, situ_nn_module *original) {
  const int64_t count = t->options->optim_count;
  if (!count && !situ_trainer_of(original, NULL)) return true; /* a lazy module has no parameters yet */
  situ_tree *from = situ_nn_parameters(original), *to = situ_nn_parameters(t->module);
  situ_twin_module module = { t->module, from, to, NULL };
  t->optim = situ__calloc((size_t)count + 1, sizeof *t->optim);
  bool good = from && to && t->optim && make_twin(original, &module, &t->over);
  module.trainer = t->over.it;
  for (int64_t i = 0; i < count && good; i++) {
    twin *o = &t->optim[i];
    good = make_twin(t->options->optims[i], &module, o) &&
           (o->it || (o->optim = situ_optim_twin(t->options->optims[i], from, to)) != NULL);
  }
  situ_tree_free(from);
  situ_tree_free(to);
  return good;
}

static void free_twins(training *t) {
  for (int64_t i = 0; t->optim && i < t->options->optim_count; i++) {
    if (t->optim[i].it) t->optim[i].how->free(t->optim[i].it);
    situ_optim_free(t->optim[i].optim);
  }
  situ__free(t->optim);
  if (t->over.it) t->over.how->free(t->over.it);
}

static situ_status has_gradient(const situ_nn_visit *at, void *payload) {
  *(bool *)payload |= situ_grad(at->tensor) != NULL;
  return SITU_OK;
}

static bool step_optims(const training *t) {
  bool good = true;
  for (int64_t i = 0; i < t->options->optim_count && good; i++) {
    const twin *o = &t->optim[i];
    good = o->it ? o->how->step(o->it) == SITU_OK : situ_optim_step(o->optim) == SITU_OK;
  }
  for (int64_t i = 0; i < t->options->optim_count && good; i++)
    good = t->optim[i].it || situ_optim_zero_grad(t->optim[i].optim, true) == SITU_OK;
  return good;
}

/* Forward, loss and backward; steps: a step of the optimisers behind them. */
static bool run_batch(const training *t, bool steps) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *out = situ_nn_call(t->module, *t->inputs);
  situ_tensor *loss = out ? make_loss(out, t->options) : NULL;
  const bool good = loss && situ_backward(loss, NULL) == SITU_OK && (!steps || step_optims(t));
  situ_tree_free(out);
  return situ_scope_end(&scope) == SITU_OK && good;
}

static situ_tensor *loss_of(const situ_tree *outputs, void *payload) { return make_loss(outputs, payload); }

/* A step of all micro-batches of this rank. */
static bool step_over_ranks(const training *t) {
  const twin *over = &t->over;
  bool good = true;
  if (over->how->run) good = over->how->run(over->it, t->given, loss_of, (void *)t->options) == SITU_OK;
  for (int64_t k = over->how->run ? 0 : over->how->passes(over->it); k > 0 && good; k--) good = run_batch(t, false);
  situ_scope scope;
  situ_scope_begin(&scope);
  good = good && step_optims(t);
  situ_nn_zero_grad(t->module); /* of parameters without one of these optimisers too */
  return situ_scope_end(&scope) == SITU_OK && good;
}

static bool step(const training *t) { return t->over.it ? step_over_ranks(t) : run_batch(t, true); }

static void note_states(situ__preflight *p, const situ_optim *o) {
  const char *name;
  for (int64_t i = 0; i < situ_optim_count(o); i++) {
    situ_tensor *own = situ_optim_param(o, i, &name);
    situ__preflight_present(p, own);
    situ__preflight_present(p, situ_grad(own));
    for (int k = 0; k < SITU_OPTIM_STATES; k++) situ__preflight_present(p, situ_optim_state(o, i, k, NULL));
  }
}

static void note_unknown(situ__preflight *p, int64_t optims, const char *why) {
  char text[128];
  (void)snprintf(text, sizeof text, "%s: the peak is without steps of optimisers", why);
  if (optims) situ__preflight_add(p, &(situ_place_finding){ .problem = SITU_PLACE_MEMORY, .note = true, .text = text });
}

/* The first step makes states, the second has them from its beginning; and gradients, if there were some: then the
   program adds up those of several batches. Over ranks they are in the sums of what trains the module. */
static void run_steps(situ__preflight *p, training *t, situ_nn_module *original) {
  const int64_t count = t->options->optim_count;
  for (int64_t i = 0; i < count; i++) note_states(p, t->options->optims[i]);
  bool sums = false, good = make_twins(t, original);
  if (t->over.it) situ_nn_zero_grad(t->module);
  if (t->over.it && t->over.how->run) {
    situ_tree_free(*t->inputs);
    *t->inputs = NULL;
  }
  situ__preflight_forget_peaks(p);
  good = good && situ_nn_walk(t->module, SITU_NN_VISIT_TENSORS, has_gradient, &sums) == SITU_OK;
  if (good && (count || t->over.it)) {
    good = step(t) && (!sums || run_batch(t, false));
    situ__preflight_hear(p);
  }
  good = good && step(t);
  p->hears = false;
  free_twins(t);
  situ_dry_tell(&p->dry);
  if (!good) note_unknown(p, count, "a step here needs values");
}

void situ__preflight_train(situ__preflight *p, situ_nn_module *clone, const situ__trial *trial, situ_tree **inputs) {
  training t = { .module = clone, .options = trial->options, .inputs = inputs, .given = trial->inputs };
  if (clone == trial->module) note_unknown(p, t.options->optim_count, "a module here cannot be copied");
  else run_steps(p, &t, trial->module);
}
