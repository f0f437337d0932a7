/* CosineAnnealingLR and CosineAnnealingWarmRestarts, in torch's formulas.
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
  if ((t - 1 - m->t_max) % (2 * m->t_max) == 0)
    value[SITU_OPTIM_LR] = now + (s->base[group] - m->eta_min) * (1 - cos(pi / t_max)) / 2;
  else
    value[SITU_OPTIM_LR] =
        (1 + cos(pi * (double)t / t_max)) / (1 + cos(pi * (double)(t - 1) / t_max)) * (now - m->eta_min) + m->eta_min;
  return true;
}
static const situ__schedule cosine_type = { .name = "lr_scheduler_cosine_annealing_lr",
                                            .size = sizeof(cosine),
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
  if (m->t_mult == 1) t_cur %= t_i;
  while (t_cur >= t_i) {
    t_cur -= t_i;
    t_i = t_i > INT64_MAX / m->t_mult ? INT64_MAX : t_i * m->t_mult;
  }
  value[SITU_OPTIM_LR] = m->eta_min + (s->base[group] - m->eta_min) * (1 + cos(pi * (double)t_cur / (double)t_i)) / 2;
  return true;
}
static const situ__schedule restarts_type = { .name = "lr_scheduler_cosine_annealing_warm_restarts",
                                              .size = sizeof(restarts),
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
