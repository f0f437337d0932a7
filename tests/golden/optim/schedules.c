/* Golden values: every two schedules in a SequentialLR, and each with a parameter group that is added after it, as in
   tools/golden/schedules.py.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <string.h>

#include "situ/optim.h"
#include "support/golden/run.h"
#include "support/optim.h"

enum { STEPS = 10, MILESTONE = 4, ADDED = 2 };

static double falling(int64_t epoch, void *payload) {
  (void)payload;
  return 1 / (2 + (double)epoch);
}

static situ_lr_scheduler *chain(situ_optim *o) {
  situ_lr_scheduler *parts[] = { situ_lr_scheduler_exponential_lr(o, 0.8), situ_lr_scheduler_step_lr(o, 2, 0.5) };
  return situ_lr_scheduler_chained_scheduler(2, parts);
}
static situ_lr_scheduler *sequence_of(situ_optim *o) {
  situ_lr_scheduler *parts[] = { situ_lr_scheduler_step_lr(o, 1, 0.5), situ_lr_scheduler_exponential_lr(o, 0.8) };
  return situ_lr_scheduler_sequential_lr(o, 2, parts, (int64_t[]){ 5 });
}

static situ_lr_scheduler *make(const char *kind, situ_optim *o) {
  if (!strcmp(kind, "step")) return situ_lr_scheduler_step_lr(o, 2, 0.5);
  if (!strcmp(kind, "multi_step")) return situ_lr_scheduler_multi_step_lr(o, (int64_t[]){ 0, 3 }, 2, 0.5);
  if (!strcmp(kind, "constant")) return situ_lr_scheduler_constant_lr(o, 0.25, 3);
  if (!strcmp(kind, "linear")) return situ_lr_scheduler_linear_lr(o, 0.1, 0.9, 4);
  if (!strcmp(kind, "exponential")) return situ_lr_scheduler_exponential_lr(o, 0.8);
  if (!strcmp(kind, "polynomial")) return situ_lr_scheduler_polynomial_lr(o, 6, 2);
  if (!strcmp(kind, "lambda")) return situ_lr_scheduler_lambda_lr(o, falling, NULL);
  if (!strcmp(kind, "multiplicative")) return situ_lr_scheduler_multiplicative_lr(o, falling, NULL);
  if (!strcmp(kind, "cosine")) return situ_lr_scheduler_cosine_annealing_lr(o, 5, 0.01);
  if (!strcmp(kind, "restarts")) return situ_lr_scheduler_cosine_annealing_warm_restarts(o, 3, 2, 0);
  if (!strcmp(kind, "one_cycle")) {
    situ_one_cycle_options options = situ_one_cycle_defaults();
    options.three_phase = true;
    return situ_lr_scheduler_one_cycle_lr(o, 0.4, 12, &options);
  }
  if (!strcmp(kind, "cyclic")) {
    situ_cyclic_options options = situ_cyclic_defaults();
    options.step_size_up = 3;
    return situ_lr_scheduler_cyclic_lr(o, 0.01, 0.3, &options);
  }
  if (!strcmp(kind, "swalr")) return situ_lr_scheduler_swalr(o, 0.05, 3, false);
  if (!strcmp(kind, "swalr_at_once")) return situ_lr_scheduler_swalr(o, 0.05, 0, false);
  if (!strcmp(kind, "plateau")) return situ_lr_scheduler_reduce_lr_on_plateau(o, 0.5, 0, NULL);
  if (!strcmp(kind, "chain")) return chain(o);
  return strcmp(kind, "sequence") ? NULL : sequence_of(o);
}

static situ_tree *parameter(void) { return SITU_TREE(situ_requires_grad_(situ_zeros(SITU_SHAPE(1), NULL), true)); }
static situ_optim *sgd(void) { return situ_optim_sgd(parameter(), 0.2, OPTIM_MOMENTUM(0.9)); }

static void run_sequence(gold_call *c) {
  situ_optim *o = sgd();
  situ_lr_scheduler *parts[2];
  parts[0] = make(gold_word(c, "first", ""), o);
  parts[1] = make(gold_word(c, "second", ""), o);
  situ_lr_scheduler *s = situ_lr_scheduler_sequential_lr(o, 2, parts, (int64_t[]){ MILESTONE });
  double rates[STEPS], momenta[STEPS];
  bool good = s != NULL;
  for (int step = 0; good && step < STEPS; step++) {
    rates[step] = situ_optim_get(o, 0, SITU_OPTIM_LR);
    momenta[step] = situ_optim_get(o, 0, SITU_OPTIM_MOMENTUM);
    good = situ_lr_scheduler_step(s) == SITU_OK;
  }
  const situ_options f64 = { .dtype = SITU_F64, .device = c->device };
  if (good) {
    c->out[0] = situ_from_host(rates, sizeof rates, SITU_SHAPE(STEPS), &f64);
    c->out[1] = situ_from_host(momenta, sizeof momenta, SITU_SHAPE(STEPS), &f64);
  }
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}

/* Where PyTorch raises, a step is refused, and changes nothing. */
static void run_late(gold_call *c) {
  situ_optim *o = sgd();
  const char *kind = gold_word(c, "kind", "");
  situ_lr_scheduler *s = make(kind, o);
  double rates[STEPS][2];
  int rows = 0;
  bool good = s != NULL, refused = false;
  while (good && !refused && rows < STEPS) {
    if (rows == ADDED) {
      situ_optim_options added = situ_optim_group_options(o, 0);
      added.lr = 0.1;
      good = situ_optim_add_param_group(o, parameter(), &added) == SITU_OK;
    }
    const int last = rows >= ADDED;
    for (int g = 0; g < 2; g++) rates[rows][g] = situ_optim_get(o, g * last, SITU_OPTIM_LR);
    const situ_status status =
        strcmp(kind, "plateau") ? situ_lr_scheduler_step(s) : situ_lr_scheduler_step_metrics(s, 1);
    refused = status == SITU_E_STATE;
    good = good && (refused || status == SITU_OK);
    for (int g = 0; refused && g < 2; g++) good = good && rates[rows][g] == situ_optim_get(o, g, SITU_OPTIM_LR);
    rows++;
  }
  if (refused) good = good && strstr(situ_error_message(), "group 1 was added after this scheduler") != NULL;
  if (good) {
    situ_error_clear();
    c->out[0] = situ_from_host(rates, (size_t)rows * sizeof *rates, SITU_SHAPE(rows, 2),
                               &(situ_options){ .dtype = SITU_F64, .device = c->device });
  }
  situ_lr_scheduler_free(s);
  situ_optim_free(o);
}

static const gold_op ops[] = {
  /* f64's tolerance, 1e-7, is for values near 1 */
  { "scheduler.sequence", .run = run_sequence, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { "scheduler.late", .run = run_late, .bound = 1e-6, .why = "bound 1e-6: rates are small" },
  { 0 },
};

int main(void) { return gold_main("schedules", ops, NULL); }
