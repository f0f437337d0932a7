/* CosineAnnealingLR, CosineAnnealingWarmRestarts and SWALR, in torch's formulas.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>

#include "base/fail.h"
#include "optim/schedule.h"

static const double pi = 3.14159265358979323846;

/* ---- CosineAnnealingLR ---- */

typedef struct cosine {
  situ_lr_scheduler s;
  int64_t t_max;
  double eta_min;
} cosine;

static bool cosine_advance(const situ_lr_scheduler *s, int64_t t, double *value, int group) {
  const cosine *m = (const cosine *)s;
  double t_max = (double)m->t_max, now = value[SITU_OPTIM_LR];
  if (t == 0) return true;
  if ((t - 1 - m->t_max) % (2 * m->t_max) == 0) {
    double base;
    if (!situ__schedule_base(s, group, &base)) return false;
    value[SITU_OPTIM_LR] = now + (base - m->eta_min) * (1 - cos(pi / t_max)) / 2;
  } else
    value[SITU_OPTIM_LR] =
        (1 + cos(pi * (double)t / t_max)) / (1 + cos(pi * (double)(t - 1) / t_max)) * (now - m->eta_min) + m->eta_min;
  return true;
}
static const situ__schedule cosine_type = { "lr_scheduler_cosine_annealing_lr", sizeof(cosine),
                                            .advance = cosine_advance };

situ_lr_scheduler *situ_lr_scheduler_cosine_annealing_lr(situ_optim *o, int64_t t_max, double eta_min) {
  if (t_max < 1 || t_max > INT64_MAX / 2 || !isfinite(eta_min))
    return situ__fail(SITU_E_ARG, cosine_type.name,
                      "a t_max of %" PRId64 " and an eta_min of %g: t_max must be at least 1, "
                      "eta_min finite",
                      t_max, eta_min),
           NULL;
  cosine *m = situ__schedule_alloc(&cosine_type, o);
  if (!m) return NULL;
  m->t_max = t_max;
  m->eta_min = eta_min;
  return situ__schedule_start(&m->s);
}

/* ---- CosineAnnealingWarmRestarts ---- */

typedef struct restarts {
  situ_lr_scheduler s;
  int64_t t_0, t_mult;
  double eta_min;
} restarts;

static bool restarts_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const restarts *m = (const restarts *)s;
  int64_t t_cur = epoch, t_i = m->t_0;
  double base;
  if (!situ__schedule_base(s, group, &base)) return false;
  if (m->t_mult == 1) t_cur %= t_i;
  while (t_cur >= t_i) {
    t_cur -= t_i;
    t_i = t_i > INT64_MAX / m->t_mult ? INT64_MAX : t_i * m->t_mult;
  }
  value[SITU_OPTIM_LR] = m->eta_min + (base - m->eta_min) * (1 + cos(pi * (double)t_cur / (double)t_i)) / 2;
  return true;
}
static const situ__schedule restarts_type = { "lr_scheduler_cosine_annealing_warm_restarts", sizeof(restarts),
                                              .advance = restarts_advance };

situ_lr_scheduler *situ_lr_scheduler_cosine_annealing_warm_restarts(situ_optim *o, int64_t t_0, int64_t t_mult,
                                                                    double eta_min) {
  if (t_0 < 1 || t_mult < 1 || !isfinite(eta_min))
    return situ__fail(SITU_E_ARG, restarts_type.name,
                      "t_0 %" PRId64 ", t_mult %" PRId64
                      ", eta_min %g: t_0 and t_mult must be at least 1, eta_min finite",
                      t_0, t_mult, eta_min),
           NULL;
  restarts *m = situ__schedule_alloc(&restarts_type, o);
  if (!m) return NULL;
  m->t_0 = t_0;
  m->t_mult = t_mult;
  m->eta_min = eta_min;
  return situ__schedule_start(&m->s);
}

/* ---- SWALR ---- */

typedef struct swalr {
  situ_lr_scheduler s;
  double swa_lr, anneal_epochs;
  bool linear;
} swalr;

/* The share of swa_lr in step t. */
static double share_of(const swalr *m, double t) {
  t = fmax(0, fmin(1, t / fmax(1, m->anneal_epochs)));
  return m->linear ? t : (1 - cos(pi * t)) / 2;
}

static bool swalr_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const swalr *m = (const swalr *)s;
  const double step = m->anneal_epochs == 0 ? fmax(1, (double)epoch) : (double)epoch;
  const double before = share_of(m, step - 1), now = share_of(m, step), lr = value[SITU_OPTIM_LR];
  const double initial = before == 1 ? m->swa_lr : (lr - before * m->swa_lr) / (1 - before);
  double base;
  if (!situ__schedule_base(s, group, &base)) return false; /* torch keeps swa_lr per group */
  value[SITU_OPTIM_LR] = m->swa_lr * now + initial * (1 - now);
  return true;
}
/* It goes on from the rate that the part before has come to. */
static bool swalr_restart(const situ_lr_scheduler *s, double *value, int group) {
  return swalr_advance(s, 0, value, group);
}
static const situ__schedule swalr_type = { "lr_scheduler_swalr", sizeof(swalr), .advance = swalr_advance,
                                           .restart = swalr_restart };

situ_lr_scheduler *situ_lr_scheduler_swalr(situ_optim *o, double swa_lr, int64_t anneal_epochs, bool linear) {
  if (!(swa_lr >= 0) || !isfinite(swa_lr) || anneal_epochs < 0)
    return situ__fail(SITU_E_ARG, swalr_type.name,
                      "swa_lr %g, anneal_epochs %" PRId64 ": must be at least 0, swa_lr finite", swa_lr, anneal_epochs),
           NULL;
  swalr *m = situ__schedule_alloc(&swalr_type, o);
  if (!m) return NULL;
  m->swa_lr = swa_lr;
  m->anneal_epochs = (double)anneal_epochs;
  m->linear = linear;
  return situ__schedule_start(&m->s);
}
