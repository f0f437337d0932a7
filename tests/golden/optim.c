/* Golden values: optimisers step by step, learning rates, clipping.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <situ/optim.h>
#include <stdio.h>
#include <string.h>

#include "support/gold_run.h"
#include "support/optim.h"

enum { MOST_PARAMS = 4, MOST_STEPS = 16, SCHEDULE = 30 };

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
static void sgd(gold_call *c) { steps(c, situ_optim_sgd); }
static void adam(gold_call *c) { steps(c, situ_optim_adam); }
static void adamw(gold_call *c) { steps(c, situ_optim_adamw); }
static void rmsprop(gold_call *c) { steps(c, situ_optim_rmsprop); }
static void adagrad(gold_call *c) { steps(c, situ_optim_adagrad); }
static void adadelta(gold_call *c) { steps(c, situ_optim_adadelta); }
static void adamax(gold_call *c) { steps(c, situ_optim_adamax); }
static void nadam(gold_call *c) { steps(c, situ_optim_nadam); }
static void radam(gold_call *c) { steps(c, situ_optim_radam); }
static void rprop(gold_call *c) { steps(c, situ_optim_rprop); }
static void asgd(gold_call *c) { steps(c, situ_optim_asgd); }
static void lion(gold_call *c) { steps(c, situ_optim_lion); }
static void adafactor(gold_call *c) { steps(c, situ_optim_adafactor); }
static void muon(gold_call *c) { steps(c, situ_optim_muon); }

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

static situ_lr_scheduler *step_lr(const gold_call *c, situ_optim *o) {
  return situ_lr_scheduler_step_lr(o, gold_int(c, "step_size", 0), gold_real(c, "gamma", 0.1));
}

static situ_lr_scheduler *cosine(const gold_call *c, situ_optim *o) {
  return situ_lr_scheduler_cosine_annealing_lr(o, gold_int(c, "T_max", 0), gold_real(c, "eta_min", 0));
}

static situ_lr_scheduler *lambda(const gold_call *c, situ_optim *o) {
  const char *word = gold_word(c, "lr_lambda", "");
  return situ_lr_scheduler_lambda_lr(o, *word == 'd' ? decay : *word == 'i' ? inverse : warmup, NULL);
}

static situ_lr_scheduler *one_cycle(const gold_call *c, situ_optim *o) {
  situ_one_cycle_options options = situ_one_cycle_defaults();
  options.pct_start = gold_real(c, "pct_start", options.pct_start);
  options.linear = strcmp(gold_word(c, "anneal_strategy", "cos"), "linear") == 0;
  options.keep_momentum = !gold_bool(c, "cycle_momentum", true);
  options.base_momentum = gold_real(c, "base_momentum", options.base_momentum);
  options.max_momentum = gold_real(c, "max_momentum", options.max_momentum);
  options.div_factor = gold_real(c, "div_factor", options.div_factor);
  options.final_div_factor = gold_real(c, "final_div_factor", options.final_div_factor);
  options.three_phase = gold_bool(c, "three_phase", false);
  return situ_lr_scheduler_one_cycle_lr(o, gold_real(c, "max_lr", 0), gold_int(c, "total_steps", 0), &options);
}

static situ_lr_scheduler *multi_step(const gold_call *c, situ_optim *o) {
  situ_shape milestones = gold_list(c, "milestones");
  return situ_lr_scheduler_multi_step_lr(o, milestones.dim, milestones.ndim, gold_real(c, "gamma", 0.1));
}
static situ_lr_scheduler *constant(const gold_call *c, situ_optim *o) {
  return situ_lr_scheduler_constant_lr(o, gold_real(c, "factor", 0), gold_int(c, "total_iters", 5));
}
static situ_lr_scheduler *linear(const gold_call *c, situ_optim *o) {
  return situ_lr_scheduler_linear_lr(o, gold_real(c, "start_factor", 0), gold_real(c, "end_factor", 1),
                                     gold_int(c, "total_iters", 5));
}
static situ_lr_scheduler *exponential(const gold_call *c, situ_optim *o) {
  return situ_lr_scheduler_exponential_lr(o, gold_real(c, "gamma", 0));
}
static situ_lr_scheduler *polynomial(const gold_call *c, situ_optim *o) {
  return situ_lr_scheduler_polynomial_lr(o, gold_int(c, "total_iters", 5), gold_real(c, "power", 1));
}
static situ_lr_scheduler *restarts(const gold_call *c, situ_optim *o) {
  return situ_lr_scheduler_cosine_annealing_warm_restarts(o, gold_int(c, "T_0", 0), gold_int(c, "T_mult", 1),
                                                          gold_real(c, "eta_min", 0));
}

static situ_lr_scheduler *cyclic(const gold_call *c, situ_optim *o) {
  const char *mode = gold_word(c, "mode", "triangular");
  situ_cyclic_options options = situ_cyclic_defaults();
  options.step_size_up = gold_int(c, "step_size_up", options.step_size_up);
  options.step_size_down = gold_int(c, "step_size_down", options.step_size_down);
  options.mode = strcmp(mode, "triangular2") == 0 ? SITU_CYCLIC_TRIANGULAR2
                 : *mode == 'e'                   ? SITU_CYCLIC_EXP_RANGE
                                                  : SITU_CYCLIC_TRIANGULAR;
  options.gamma = gold_real(c, "gamma", options.gamma);
  options.keep_momentum = !gold_bool(c, "cycle_momentum", true);
  options.base_momentum = gold_real(c, "base_momentum", options.base_momentum);
  options.max_momentum = gold_real(c, "max_momentum", options.max_momentum);
  return situ_lr_scheduler_cyclic_lr(o, gold_real(c, "base_lr", 0), gold_real(c, "max_lr", 0), &options);
}

static situ_lr_scheduler *plateau(const gold_call *c, situ_optim *o) {
  situ_plateau_options options = situ_plateau_defaults();
  options.max = strcmp(gold_word(c, "mode", "min"), "max") == 0;
  options.threshold = gold_real(c, "threshold", options.threshold);
  options.threshold_abs = strcmp(gold_word(c, "threshold_mode", "rel"), "abs") == 0;
  options.cooldown = gold_int(c, "cooldown", 0);
  options.min_lr = gold_real(c, "min_lr", 0);
  options.eps = gold_real(c, "eps", options.eps);
  return situ_lr_scheduler_reduce_lr_on_plateau(o, gold_real(c, "factor", 0.1), gold_int(c, "patience", 10), &options);
}

static situ_lr_scheduler *swalr(const gold_call *c, situ_optim *o) {
  return situ_lr_scheduler_swalr(o, gold_real(c, "swa_lr", 0), gold_int(c, "anneal_epochs", 10),
                                 strcmp(gold_word(c, "anneal_strategy", "cos"), "linear") == 0);
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

/* The rate (and momentum) in force in each of 30 steps. */
static void schedule(gold_call *c, situ_lr_scheduler *(*make)(const gold_call *, situ_optim *)) {
  situ_tensor *param = situ_requires_grad_(situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = c->device }), true);
  situ_optim *o = situ_optim_sgd(SITU_TREE(param), gold_real(c, "lr", 0), OPTIM_MOMENTUM(0.9));
  situ_lr_scheduler *s = make(c, o);
  double rates[SCHEDULE], momenta[SCHEDULE], metrics[SCHEDULE];
  situ_tensor *given = gold_in(c, "metrics");
  bool good = s && (!given || situ_copy_to_host(given, metrics, sizeof metrics) == SITU_OK);
  for (int step = 0; good && step < SCHEDULE; step++) {
    rates[step] = situ_optim_get(o, 0, SITU_OPTIM_LR);
    momenta[step] = situ_optim_get(o, 0, SITU_OPTIM_MOMENTUM);
    good = situ_optim_step(o) == SITU_OK;
    if (step + 1 == SCHEDULE) break;
    good = good && (given ? situ_lr_scheduler_step_metrics(s, metrics[step]) : situ_lr_scheduler_step(s)) == SITU_OK;
  }
  if (good) {
    situ_options f64 = { .dtype = SITU_F64, .device = c->device };
    c->out[0] = situ_from_host(rates, sizeof rates, SITU_SHAPE(SCHEDULE), &f64);
    c->out[1] = situ_from_host(momenta, sizeof momenta, SITU_SHAPE(SCHEDULE), &f64);
  }
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}
static void run_step_lr(gold_call *c) { schedule(c, step_lr); }
static void run_cosine(gold_call *c) { schedule(c, cosine); }
static void run_lambda(gold_call *c) { schedule(c, lambda); }
static void run_one_cycle(gold_call *c) { schedule(c, one_cycle); }
static void run_multi_step(gold_call *c) { schedule(c, multi_step); }
static void run_constant(gold_call *c) { schedule(c, constant); }
static void run_linear(gold_call *c) { schedule(c, linear); }
static void run_exponential(gold_call *c) { schedule(c, exponential); }
static void run_polynomial(gold_call *c) { schedule(c, polynomial); }
static void run_restarts(gold_call *c) { schedule(c, restarts); }
static void run_cyclic(gold_call *c) { schedule(c, cyclic); }
static void run_plateau(gold_call *c) { schedule(c, plateau); }
static void run_swalr(gold_call *c) { schedule(c, swalr); }
static void run_sequential(gold_call *c) { schedule(c, sequential); }
static void run_chained(gold_call *c) { schedule(c, chained); }

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
  { "optim.sgd", .run = sgd },
  { "optim.adam", .run = adam },
  { "optim.adamw", .run = adamw },
  { "optim.rmsprop", .run = rmsprop },
  { "optim.adagrad", .run = adagrad },
  { "optim.adadelta", .run = adadelta },
  { "optim.adamax", .run = adamax },
  { "optim.nadam", .run = nadam },
  { "optim.radam", .run = radam },
  { "optim.rprop", .run = rprop },
  { "optim.asgd", .run = asgd },
  { "optim.lion", .run = lion },
  { "optim.adafactor", .run = adafactor, .steps = 8, .why = GOLD_ROUNDS },
  { "optim.muon", .run = muon },
  /* f64's tolerance, 1e-7, is for values near 1: rates go down to 1e-6 */
  { "scheduler.steplr", .run = run_step_lr, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.cosineannealinglr", .run = run_cosine, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.lambdalr", .run = run_lambda, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.onecyclelr", .run = run_one_cycle, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.multisteplr", .run = run_multi_step, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.constantlr", .run = run_constant, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.linearlr", .run = run_linear, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.exponentiallr", .run = run_exponential, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.polynomiallr", .run = run_polynomial, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.cosineannealingwarmrestarts", .run = run_restarts, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.cycliclr", .run = run_cyclic, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.reducelronplateau", .run = run_plateau, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.swalr", .run = run_swalr, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.sequentiallr", .run = run_sequential, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.chainedscheduler", .run = run_chained, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "nn.utils.clip_grad_norm", .run = clip },
  { "nn.utils.clip_grad_value", .run = clip_value },
  { 0 },
};

int main(void) { return gold_main("optim", ops, NULL); }
