/* The memory of training: a clone makes two steps as a program does, so that all that is alive at one time is counted.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/alloc.h"
#include "place/preflight/check.h"
#include "situ/sys/optimizer.h"
#include "situ/sys/part.h"

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

typedef struct training {
  situ_nn_module *module;
  const situ_place_check_options *options;
  const situ_tree *inputs;
  situ_optim **optim; /* copies, for the parameters of the clone */
  bool parts;         /* of ranks: an optimiser has some */
} training;

/* An optimiser that ranks have in parts (ZeRO) steps views of the parameters, or what follows them. */
static bool steps_parts(const situ_optim *o, const situ_tree *parameters) {
  const char *name;
  situ_tensor *first = situ_optim_count(o) > 0 ? situ_optim_param(o, 0, &name) : NULL;
  bool parts = false;
  for (int64_t i = 0; first && i < situ_tree_count(parameters); i++) {
    situ_tensor *t = situ_tree_tensor_at(parameters, i);
    if (t == first) return false;
    parts = parts || situ_part_of(t, NULL) || situ_shares_storage(t, first);
  }
  return parts;
}

static bool make_optims(training *t, const situ_nn_module *original) {
  const int64_t count = t->options->optim_count;
  if (!count) return true; /* a lazy module has no parameters yet */
  situ_tree *from = situ_nn_parameters((situ_nn_module *)original), *to = situ_nn_parameters(t->module);
  t->optim = situ__calloc((size_t)count + 1, sizeof *t->optim);
  bool good = from && to && t->optim;
  for (int64_t i = 0; i < count && good; i++) t->parts = t->parts || steps_parts(t->options->optims[i], from);
  for (int64_t i = 0; i < count && good && !t->parts; i++)
    good = (t->optim[i] = situ_optim_twin(t->options->optims[i], from, to)) != NULL;
  situ_tree_free(from);
  situ_tree_free(to);
  return good && !t->parts;
}

static situ_status has_gradient(const situ_nn_visit *at, void *payload) {
  *(bool *)payload |= situ_grad(at->tensor) != NULL;
  return SITU_OK;
}

/* Forward, loss and backward; whole: a step and zero_grad behind them. */
static bool step(const training *t, bool whole) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *out = situ_nn_call(t->module, t->inputs);
  situ_tensor *loss = out ? make_loss(out, t->options) : NULL;
  bool good = loss && situ_backward(loss, NULL) == SITU_OK;
  const int64_t count = whole ? t->options->optim_count : 0;
  for (int64_t i = 0; i < count && good; i++) good = situ_optim_step(t->optim[i]) == SITU_OK;
  for (int64_t i = 0; i < count && good; i++) good = situ_optim_zero_grad(t->optim[i], true) == SITU_OK;
  situ_tree_free(out);
  return situ_scope_end(&scope) == SITU_OK && good;
}

static void note_states(situ__preflight *p, const situ_optim *o) {
  for (int64_t i = 0; i < situ_optim_count(o); i++)
    for (int k = 0; k < SITU_OPTIM_STATES; k++) situ__preflight_present(p, situ_optim_state(o, i, k, NULL));
}

static void note_unknown(situ__preflight *p, int64_t optims, const char *why) {
  char text[128];
  (void)snprintf(text, sizeof text, "%s: the peak is without steps of optimisers", why);
  if (optims) situ__preflight_add(p, &(situ_place_finding){ .problem = SITU_PLACE_MEMORY, .note = true, .text = text });
}

/* The first step makes states, the second has them from its beginning; and gradients, if there were some: then the
   program adds up those of several batches. */
static void run_steps(situ__preflight *p, training *t, const situ_nn_module *original) {
  const int64_t count = t->options->optim_count;
  situ__preflight_forget_peaks(p);
  for (int64_t i = 0; i < count; i++) note_states(p, t->options->optims[i]);
  bool sums = false;
  const bool good = situ_nn_walk(t->module, SITU_NN_VISIT_TENSORS, has_gradient, &sums) == SITU_OK &&
                    make_optims(t, original) && step(t, true) && (!count || !sums || step(t, false)) &&
                    (!count || step(t, true));
  for (int64_t i = 0; t->optim && i < count; i++) situ_optim_free(t->optim[i]);
  situ__free(t->optim);
  situ_dry_tell(&p->dry);
  if (!good)
    note_unknown(p, count,
                 t->parts ? "an optimiser has parts of ranks, which take no steps here" : "a step here needs values");
}

void situ__preflight_train(situ__preflight *p, situ_nn_module *clone, const situ__trial *trial,
                           const situ_tree *inputs) {
  training t = { clone, trial->options, inputs, NULL, false };
  if (clone == trial->module) note_unknown(p, t.options->optim_count, "a module here cannot be copied");
  else run_steps(p, &t, trial->module);
}
