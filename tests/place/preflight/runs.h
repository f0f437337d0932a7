/* Runs of the models, as a program makes them: forward alone, or three steps with an optimiser.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_PREFLIGHT_RUNS_H
#define SITU_TEST_PREFLIGHT_RUNS_H

#include "place/preflight/models.h"
#include "situ/optim.h"
#include "support/pairs.h"

static situ_optim *sgd(situ_tree *p) { return situ_optim_sgd(p, .01, NULL); }
static situ_optim *momentum(situ_tree *p) {
  situ_optim_options o = situ_optim_sgd_defaults();
  o.momentum = .9;
  return situ_optim_sgd(p, .01, &o);
}
static situ_optim *adam(situ_tree *p) { return situ_optim_adam(p, .001, NULL); }
static situ_optim *rmsprop(situ_tree *p) {
  situ_optim_options o = situ_optim_rmsprop_defaults();
  o.centered = true;
  o.momentum = .9;
  return situ_optim_rmsprop(p, .001, &o);
}
static const struct mode {
  const char *name;
  situ_optim *(*make)(situ_tree *parameters); /* NULL: inference */
} modes[] = {
  { "inference", NULL }, { "SGD", sgd }, { "momentum", momentum }, { "Adam", adam }, { "RMSprop", rmsprop }
};
enum { MODES = sizeof modes / sizeof *modes };

static situ_tensor *input_of(const struct kind *k) {
  const situ_options o = { .device = there() };
  return k->tokens ? situ_randint(0, k->tokens, k->in, &o) : situ_randn(k->in, &o);
}

static situ_status infer(situ_nn_module *m, const situ_tree *in) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *y = situ_nn_call(m, in);
  const situ_status status = y ? situ_synchronize(there()) : situ_error();
  situ_tree_free(y);
  return situ_scope_end(&scope) == SITU_OK ? status : situ_error();
}

typedef struct goal {
  int loss;
  situ_tensor *target;
} goal;
static situ_tensor *loss_of(situ_tensor *y, const goal *g) {
  if (g->loss == ENTROPY) return situ_cross_entropy(situ_flatten(y, 0, 1), situ_flatten(g->target, 0, 1), NULL);
  return g->loss == MEAN ? situ_mean(y, NULL) : situ_sum(y, NULL);
}
static situ_tensor *own_loss(const situ_tree *outputs, void *payload) {
  return loss_of(situ_tree_kind_of(outputs) == SITU_TREE_TENSOR ? situ_tree_value(outputs)
                                                                : situ_tree_tensor_at(outputs, 0),
                 payload);
}

static situ_status step(situ_nn_module *m, const situ_tree *in, situ_optim *o, const goal *g) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *y = situ_nn_forward(m, situ_tree_tensor_at(in, 0)), *loss = y ? loss_of(y, g) : NULL;
  situ_status status = loss ? situ_backward(loss, NULL) : situ_error();
  if (status == SITU_OK) status = situ_optim_step(o);
  if (status == SITU_OK) status = situ_optim_zero_grad(o, true);
  if (status == SITU_OK) status = situ_synchronize(there());
  return situ_scope_end(&scope) == SITU_OK ? status : situ_error();
}

/* As a program does, with states that the first step makes. Leaves the device as it was. */
static inline situ_status real_run(situ_nn_module *m, const situ_tree *in, const struct mode *mode, const goal *g) {
  if (!mode->make) return infer(m, in);
  situ_optim *o = mode->make(situ_nn_parameters(m));
  situ_status status = SITU_OK;
  for (int k = 0; k < 3 && status == SITU_OK; k++) status = step(m, in, o, g);
  situ_optim_free(o);
  return status;
}

#endif
