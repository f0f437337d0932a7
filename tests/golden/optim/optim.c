/* Golden values: optimisers step by step, learning rates, clipping.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <situ/optim.h>
#include <stdio.h>
#include <string.h>

#include "support/golden/run.h"
#include "support/optim.h"

enum { MOST_PARAMS = 4, MOST_STEPS = 16, STEPS = 30 };

static double adjustment(const char *word) {
  return *word == 'o' ? SITU_MUON_ORIGINAL : *word == 'm' ? SITU_MUON_MATCH_RMS_ADAMW : SITU_MUON_SPECTRAL_UNCLAMPED;
}

/* Sets what the case gives. Those of the last parameter's own group begin with "group.". */
static void read_options(const gold_call *c, const char *prefix, situ_optim_options *options) {
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, optim_members[f].name);
    if (!gold_has(c, name)) continue;
    const bool is_word = f == SITU_OPTIM_ADJUST_LR_FN;
    optim_set_option(options, (situ_optim_field)f,
                     is_word ? adjustment(gold_word(c, name, "")) : gold_real(c, name, 0));
  }
}

typedef optim_maker maker;

/* An optimiser of all parameters, the last in a group of its own if the case says so. */
static situ_optim *build(gold_call *c, maker *make, situ_tensor **params, int count) {
  bool split = gold_has(c, "group.lr");
  situ_optim_options first = optim_defaults(make);
  read_options(c, "", &first);
  const double lr = gold_real(c, "lr", optim_rule_of(make)->lr);
  situ_optim *o = make(situ_tree_of(split ? count - 1 : count, params), lr, &first);
  if (!split || !o) return o;
  situ_optim_options second = situ_optim_group_options(o, 0);
  read_options(c, "group.", &second);
  if (situ_optim_add_param_group(o, situ_tree_of(1, &params[count - 1]), &second) == SITU_OK) return o;
  situ_optim_free(o);
  return NULL;
}

static void steps(gold_call *c, maker *make) {
  situ_tensor *given[MOST_PARAMS + 1], *grads[MOST_PARAMS + 1], *params[MOST_PARAMS];
  situ_tensor *history[MOST_PARAMS][MOST_STEPS];
  int count = gold_tensors(c, "param", given), length = (int)c->c->output[0].size.dim[0];
  gold_tensors(c, "grads", grads);
  for (int i = 0; i < count; i++) { params[i] = situ_requires_grad_(situ_clone(given[i]), true); }
  situ_optim *o = build(c, make, params, count);
  bool good = o != NULL;
  for (int step = 0; good && step < length; step++) {
    for (int i = 0; good && i < count; i++) {
      bool none = i == 0 && step == gold_int(c, "skip", -1);
      situ_tensor *grad = none ? NULL : situ_clone(situ_select(grads[i], 0, step));
      good = situ_set_grad(params[i], grad) == SITU_OK;
    }
    good = good && situ_optim_step(o) == SITU_OK;
    for (int i = 0; i < count; i++) { history[i][step] = situ_clone(situ_detach(params[i])); }
  }
  for (int i = 0; good && i < count; i++) { c->out[i] = situ_stack(history[i], length, 0); }
  situ_optim_free(o);
}
/* By the rule that its defaults name. */
static void optimiser(gold_call *c) {
  for (int i = 0; i < OPTIM_RULES; i++)
    if (strcmp(optim_rules[i].defaults().of + strlen("optim_"), c->c->op + strlen("optim.")) == 0)
      steps(c, optim_rules[i].make);
}

static double decay(int64_t epoch, void *payload) {
  (void)payload;
  return pow(0.9, (double)epoch);
}
static double inverse(int64_t epoch, void *payload) {
  (void)payload;
  return 1 / (1 + (double)epoch);
}
static double warmup(int64_t epoch, void *payload) {
  (void)payload;
  return fmin(1, ((double)epoch + 1) / 10);
}

static situ_lr_scheduler *lambda(const gold_call *c, situ_optim *o) {
  const char *word = gold_word(c, "lr_lambda", "");
  return situ_lr_scheduler_lambda_lr(o, *word == 'd' ? decay : *word == 'i' ? inverse : warmup, NULL);
}

/* The recipes of optimisers.py. */
static int64_t parts_of(const char *recipe, situ_optim *o, situ_lr_scheduler **part, int64_t *milestones) {
  if (strcmp(recipe, "warmup") == 0) {
    part[0] = situ_lr_scheduler_constant_lr(o, 0.1, 4);
    part[1] = situ_lr_scheduler_exponential_lr(o, 0.9);
    milestones[0] = 4;
    return 2;
  }
  const bool three = strcmp(recipe, "three") == 0;
  const int64_t falls[] = { 2, 5 };
  part[0] = three ? situ_lr_scheduler_linear_lr(o, 0.25, 1, 6) : situ_lr_scheduler_polynomial_lr(o, 8, 2);
  part[1] = three ? situ_lr_scheduler_cosine_annealing_lr(o, 12, 0)
                  : situ_lr_scheduler_cosine_annealing_warm_restarts(o, 5, 1, 0);
  part[2] = three ? situ_lr_scheduler_step_lr(o, 3, 0.5) : situ_lr_scheduler_multi_step_lr(o, falls, 2, 0.3);
  milestones[0] = three ? 6 : 9;
  milestones[1] = three ? 18 : 20;
  return 3;
}
static situ_lr_scheduler *sequential(const gold_call *c, situ_optim *o) {
  situ_lr_scheduler *part[3];
  int64_t milestones[2];
  const int64_t count = parts_of(gold_word(c, "recipe", ""), o, part, milestones);
  return situ_lr_scheduler_sequential_lr(o, count, part, milestones);
}
static situ_lr_scheduler *chained(const gold_call *c, situ_optim *o) {
  situ_lr_scheduler *part[3];
  int64_t milestones[2];
  const int64_t count = parts_of(gold_word(c, "recipe", ""), o, part, milestones);
  return situ_lr_scheduler_chained_scheduler(count, part);
}

/* Of the case's arguments, but where these are functions or other schedules. */
static situ_lr_scheduler *make_schedule(gold_call *c, situ_optim *o) {
  if (gold_has(c, "lr_lambda")) return lambda(c, o);
  if (gold_has(c, "recipe")) return strstr(c->c->op, "chained") ? chained(c, o) : sequential(c, o);
  char function[64];
  snprintf(function, sizeof function, "lr_scheduler_%s", c->c->op + strlen("scheduler."));
  return gold_make(c, function, NULL, o);
}

/* The rate (and momentum) in force in each of 30 steps. */
static void schedule(gold_call *c) {
  situ_tensor *param = situ_requires_grad_(situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = c->device }), true);
  situ_optim *o = situ_optim_sgd(SITU_TREE(param), gold_real(c, "lr", 0), OPTIM_MOMENTUM(0.9));
  situ_lr_scheduler *s = make_schedule(c, o);
  double rates[STEPS], momenta[STEPS], metrics[STEPS];
  situ_tensor *given = gold_in(c, "metrics");
  bool good = s && (!given || situ_copy_to_host(given, metrics, sizeof metrics) == SITU_OK);
  for (int step = 0; good && step < STEPS; step++) {
    rates[step] = situ_optim_get(o, 0, SITU_OPTIM_LR);
    momenta[step] = situ_optim_get(o, 0, SITU_OPTIM_MOMENTUM);
    good = situ_optim_step(o) == SITU_OK;
    if (step + 1 == STEPS) break;
    good = good && (given ? situ_lr_scheduler_step_metrics(s, metrics[step]) : situ_lr_scheduler_step(s)) == SITU_OK;
  }
  if (good) {
    situ_options f64 = { .dtype = SITU_F64, .device = c->device };
    c->out[0] = situ_from_host(rates, sizeof rates, SITU_SHAPE(STEPS), &f64);
    c->out[1] = situ_from_host(momenta, sizeof momenta, SITU_SHAPE(STEPS), &f64);
  }
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}
static void clip(gold_call *c) {
  situ_tensor *grads[MOST_PARAMS + 1], *params[MOST_PARAMS + 1];
  int count = gold_tensors(c, "grad", grads);
  bool good = true;
  for (int i = 0; i <= count; i++) { /* the last has no gradient */
    params[i] = situ_requires_grad_(situ_zeros_like(grads[i < count ? i : 0], NULL), true);
    good = good && (i == count || situ_set_grad(params[i], situ_clone(grads[i])) == SITU_OK);
  }
  situ_tree *tree = situ_tree_of(count + 1, params);
  double total = 0;
  good = good && situ_nn_utils_clip_grad_norm_(tree, gold_real(c, "max_norm", 0), gold_real(c, "norm_type", 2),
                                               &total) == SITU_OK;
  situ_tree_free(tree);
  c->out[0] = good ? situ_scalar_tensor(total, &(situ_options){ .dtype = SITU_F32, .device = c->device }) : NULL;
  for (int i = 0; i < count; i++) { c->out[i + 1] = situ_grad(params[i]); }
}

static void clip_value(gold_call *c) {
  situ_tensor *grads[MOST_PARAMS + 1], *params[MOST_PARAMS + 1];
  int count = gold_tensors(c, "grad", grads);
  bool good = true;
  for (int i = 0; i < count; i++) {
    params[i] = situ_requires_grad_(situ_zeros_like(grads[i], NULL), true);
    good = good && situ_set_grad(params[i], situ_clone(grads[i])) == SITU_OK;
  }
  situ_tree *tree = situ_tree_of(count, params);
  good = good && situ_nn_utils_clip_grad_value_(tree, gold_real(c, "clip_value", -1)) == SITU_OK;
  situ_tree_free(tree);
  for (int i = 0; good && i < count; i++) { c->out[i] = situ_grad(params[i]); }
}

static const gold_op ops[] = {
  { "optim.adafactor", .run = optimiser, .steps = 8, .why = GOLD_ROUNDS },
  { "optim.*", .run = optimiser },
  /* f64's tolerance, 1e-7, is for values near 1 */
  { "scheduler.*", .run = schedule, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "nn.utils.clip_grad_norm", .run = clip },
  { "nn.utils.clip_grad_value", .run = clip_value },
  { 0 },
};

int main(void) { return gold_main("optim", ops, NULL); }
