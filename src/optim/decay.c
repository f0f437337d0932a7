/* Schedules that multiply the rate by a factor: StepLR, MultiStepLR, ConstantLR, LinearLR, ExponentialLR, PolynomialLR,
   LambdaLR, MultiplicativeLR. Formulas are torch's, so that the rates are equal to the last bit; they start from the
   current rate, so that schedules can be chained.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/schedule.h"

/* ---- StepLR ---- */

typedef struct step_lr {
  situ_lr_scheduler s;
  int64_t every;
  double gamma;
} step_lr;

static bool step_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const step_lr *m = (const step_lr *)s;
  (void)group;
  if (epoch != 0 && epoch % m->every == 0) value[SITU_OPTIM_LR] *= m->gamma;
  return true;
}
static const situ__schedule step_type = { "lr_scheduler_step_lr", sizeof(step_lr), .advance = step_advance };

situ_lr_scheduler *situ_lr_scheduler_step_lr(situ_optim *o, int64_t step_size, double gamma) {
  if (step_size < 1 || !isfinite(gamma))
    return situ__fail(SITU_E_ARG, step_type.name,
                      "a step_size of %" PRId64 " and a gamma of %g: step_size must be at least 1, "
                      "gamma finite",
                      step_size, gamma),
           NULL;
  step_lr *m = situ__schedule_alloc(&step_type, o);
  if (!m) return NULL;
  m->every = step_size;
  m->gamma = gamma;
  return situ__schedule_start(&m->s);
}

/* ---- MultiStepLR ---- */

typedef struct multi_step {
  situ_lr_scheduler s;
  int64_t *milestones, count;
  double gamma;
} multi_step;

static bool multi_step_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const multi_step *m = (const multi_step *)s;
  int times = 0;
  (void)group;
  for (int64_t i = 0; i < m->count; i++) times += m->milestones[i] == epoch;
  if (times > 0) value[SITU_OPTIM_LR] *= pow(m->gamma, times);
  return true;
}
static void multi_step_release(situ_lr_scheduler *s) { situ__free(((multi_step *)s)->milestones); }
static const situ__schedule multi_step_type = { "lr_scheduler_multi_step_lr", sizeof(multi_step),
                                                .advance = multi_step_advance, .release = multi_step_release };

static bool are_milestones(const int64_t *milestones, int64_t count) {
  if (count < 0) return situ__fail(SITU_E_ARG, multi_step_type.name, "%" PRId64 " milestones", count), false;
  if (count > 0 && !milestones) return situ__null(multi_step_type.name, "milestones"), false;
  for (int64_t i = 0; i < count; i++) {
    if (milestones[i] >= 0) continue;
    return situ__fail(SITU_E_ARG, multi_step_type.name, "milestones[%" PRId64 "] is %" PRId64 ": a step is at least 0",
                      i, milestones[i]),
           false;
  }
  return true;
}

situ_lr_scheduler *situ_lr_scheduler_multi_step_lr(situ_optim *o, const int64_t *milestones, int64_t count,
                                                   double gamma) {
  if (!are_milestones(milestones, count)) return NULL;
  if (!isfinite(gamma))
    return situ__fail(SITU_E_ARG, multi_step_type.name, "a gamma of %g: it must be finite", gamma), NULL;
  multi_step *m = situ__schedule_alloc(&multi_step_type, o);
  if (!m) return NULL;
  m->gamma = gamma;
  m->milestones = situ__calloc((size_t)count + 1, sizeof *m->milestones);
  if (!m->milestones) {
    situ__no_memory(multi_step_type.name, (size_t)count * sizeof *m->milestones);
    situ_lr_scheduler_free(&m->s);
    return NULL;
  }
  m->count = count;
  if (count > 0) memcpy(m->milestones, milestones, (size_t)count * sizeof *milestones);
  return situ__schedule_start(&m->s);
}

/* ---- ConstantLR, LinearLR, PolynomialLR: for a number of steps ---- */

typedef struct limited {
  situ_lr_scheduler s;
  int64_t total_iters;
  double start, end; /* factors */
  double power;
} limited;

static bool constant_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const limited *m = (const limited *)s;
  (void)group;
  if (epoch == 0) value[SITU_OPTIM_LR] *= m->start;
  else if (epoch == m->total_iters) value[SITU_OPTIM_LR] *= 1.0 / m->start;
  return true;
}
static const situ__schedule constant_type = { "lr_scheduler_constant_lr", sizeof(limited),
                                              .advance = constant_advance };

static bool linear_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const limited *m = (const limited *)s;
  const double rise = m->end - m->start;
  (void)group;
  if (epoch == 0) value[SITU_OPTIM_LR] *= m->start;
  else if (epoch <= m->total_iters)
    value[SITU_OPTIM_LR] *= 1.0 + rise / ((double)m->total_iters * m->start + (double)(epoch - 1) * rise);
  return true;
}
static const situ__schedule linear_type = { "lr_scheduler_linear_lr", sizeof(limited), .advance = linear_advance };

static bool polynomial_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const limited *m = (const limited *)s;
  const double total = (double)m->total_iters;
  (void)group;
  if (epoch != 0 && epoch <= m->total_iters)
    value[SITU_OPTIM_LR] *= pow((1.0 - (double)epoch / total) / (1.0 - (double)(epoch - 1) / total), m->power);
  return true;
}
static const situ__schedule polynomial_type = { "lr_scheduler_polynomial_lr", sizeof(limited),
                                                .advance = polynomial_advance };

static bool is_factor(const situ__schedule *type, const char *name, double factor, bool may_be_zero) {
  if (factor <= 1 && (may_be_zero ? factor >= 0 : factor > 0)) return true;
  return situ__fail(SITU_E_ARG, type->name, "%s is %g: it must be %s 0 and at most 1", name, factor,
                    may_be_zero ? "at least" : "above"),
         false;
}

static situ_lr_scheduler *make_limited(const situ__schedule *type, situ_optim *o, int64_t total_iters, limited with) {
  if (total_iters < 0)
    return situ__fail(SITU_E_ARG, type->name, "total_iters is %" PRId64 ": it must be at least 0", total_iters), NULL;
  limited *m = situ__schedule_alloc(type, o);
  if (!m) return NULL;
  m->total_iters = total_iters;
  m->start = with.start;
  m->end = with.end;
  m->power = with.power;
  return situ__schedule_start(&m->s);
}

situ_lr_scheduler *situ_lr_scheduler_constant_lr(situ_optim *o, double factor, int64_t total_iters) {
  if (!is_factor(&constant_type, "factor", factor, false)) return NULL;
  return make_limited(&constant_type, o, total_iters, (limited){ .start = factor });
}

situ_lr_scheduler *situ_lr_scheduler_linear_lr(situ_optim *o, double start_factor, double end_factor,
                                               int64_t total_iters) {
  if (!is_factor(&linear_type, "start_factor", start_factor, false) ||
      !is_factor(&linear_type, "end_factor", end_factor, true))
    return NULL;
  return make_limited(&linear_type, o, total_iters, (limited){ .start = start_factor, .end = end_factor });
}

situ_lr_scheduler *situ_lr_scheduler_polynomial_lr(situ_optim *o, int64_t total_iters, double power) {
  if (!isfinite(power))
    return situ__fail(SITU_E_ARG, polynomial_type.name, "a power of %g: it must be finite", power), NULL;
  return make_limited(&polynomial_type, o, total_iters, (limited){ .power = power });
}

/* ---- ExponentialLR ---- */

typedef struct exponential {
  situ_lr_scheduler s;
  double gamma;
} exponential;

static bool exponential_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  (void)group;
  if (epoch != 0) value[SITU_OPTIM_LR] *= ((const exponential *)s)->gamma;
  return true;
}
static const situ__schedule exponential_type = { "lr_scheduler_exponential_lr", sizeof(exponential),
                                                 .advance = exponential_advance };

situ_lr_scheduler *situ_lr_scheduler_exponential_lr(situ_optim *o, double gamma) {
  if (!isfinite(gamma))
    return situ__fail(SITU_E_ARG, exponential_type.name, "a gamma of %g: it must be finite", gamma), NULL;
  exponential *m = situ__schedule_alloc(&exponential_type, o);
  if (!m) return NULL;
  m->gamma = gamma;
  return situ__schedule_start(&m->s);
}

/* ---- LambdaLR, MultiplicativeLR ---- */

typedef struct lambda_lr {
  situ_lr_scheduler s;
  double (*lambda)(int64_t step, void *payload);
  void *payload;
} lambda_lr;

static bool lambda_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const lambda_lr *m = (const lambda_lr *)s;
  double base;
  if (!situ__schedule_base(s, group, &base)) return false;
  value[SITU_OPTIM_LR] = base * m->lambda(epoch, m->payload);
  return true;
}
static const situ__schedule lambda_type = { "lr_scheduler_lambda_lr", sizeof(lambda_lr), .advance = lambda_advance };

static bool multiply(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const lambda_lr *m = (const lambda_lr *)s;
  double base;
  if (!situ__schedule_base(s, group, &base)) return false; /* torch has a lambda per group */
  value[SITU_OPTIM_LR] *= m->lambda(epoch, m->payload);
  return true;
}
static bool multiplicative_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  return epoch == 0 || multiply(s, epoch, value, group);
}
static bool multiplicative_restart(const situ_lr_scheduler *s, double *value, int group) {
  return multiply(s, 0, value, group);
}
static const situ__schedule multiplicative_type = { "lr_scheduler_multiplicative_lr", sizeof(lambda_lr),
                                                    .advance = multiplicative_advance,
                                                    .restart = multiplicative_restart };

static situ_lr_scheduler *make_lambda(const situ__schedule *type, situ_optim *o,
                                      double (*lambda)(int64_t step, void *payload), void *payload) {
  if (!lambda) return situ__null(type->name, "lambda"), NULL;
  lambda_lr *m = situ__schedule_alloc(type, o);
  if (!m) return NULL;
  m->lambda = lambda;
  m->payload = payload;
  return situ__schedule_start(&m->s);
}

situ_lr_scheduler *situ_lr_scheduler_lambda_lr(situ_optim *o, double (*lambda)(int64_t step, void *payload),
                                               void *payload) {
  return make_lambda(&lambda_type, o, lambda, payload);
}
situ_lr_scheduler *situ_lr_scheduler_multiplicative_lr(situ_optim *o, double (*lambda)(int64_t step, void *payload),
                                                       void *payload) {
  return make_lambda(&multiplicative_type, o, lambda, payload);
}
