/* Learning-rate schedules: what they share, and the simple ones. Formulas are torch's, so that the
   rates are equal to the last bit; those that go on from the present rate can be chained.
   SPDX-License-Identifier: MIT */
#include "optim/schedule.h"

#include <inttypes.h>
#include <math.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/record.h"

static const double pi = 3.14159265358979323846;

void *situ__schedule_alloc(const situ__schedule *type, situ_optim *o) {
  if (!o) return situ__null(type->name, "optimiser"), NULL;
  situ_lr_scheduler *s = situ__calloc(1, type->size);
  double *base = situ__alloc((size_t)o->group_count * sizeof *base);
  if (!s || !base) {
    situ__no_memory(type->name, type->size);
    situ__free(s);
    situ__free(base);
    return NULL;
  }
  *s = (situ_lr_scheduler){ .type = type, .o = o, .base = base, .count = o->group_count };
  __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
  for (int g = 0; g < s->count; g++) {
    situ__group *group = &o->groups[g];
    if (!group->has_initial_lr) group->initial_lr = group->value[SITU_OPTIM_LR];
    group->has_initial_lr = true;
    base[g] = group->initial_lr;
  }
  return s;
}

static void set_rates(situ_lr_scheduler *s) {
  for (int g = 0; g < s->count; g++) {
    situ__group *group = &s->o->groups[g];
    group->value[SITU_OPTIM_LR] = s->type->rate(s, group, s->base[g], group->value[SITU_OPTIM_LR]);
  }
}

situ_lr_scheduler *situ__schedule_start(situ_lr_scheduler *s) {
  if (s) set_rates(s);
  return s;
}

situ_status situ_lr_scheduler_step(situ_lr_scheduler *s) {
  if (!s) return situ__null("lr_scheduler_step", "scheduler");
  if (s->type->may_step && !s->type->may_step(s, s->last_epoch + 1)) return situ_error();
  s->last_epoch++;
  set_rates(s);
  return SITU_OK;
}

int64_t situ_lr_scheduler_last_epoch(const situ_lr_scheduler *s) { return s ? s->last_epoch : 0; }

void situ_lr_scheduler_free(situ_lr_scheduler *s) {
  if (!s) return;
  situ_optim_free(s->o);
  situ__free(s->base);
  situ__free(s);
}

situ_tree *situ_lr_scheduler_state_dict(const situ_lr_scheduler *s) {
  if (!s) return situ__null("lr_scheduler_state_dict", "scheduler"), NULL;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *dict =
      situ_tree_put(situ_tree_dict(), "last_epoch", situ__record_whole(s->last_epoch));
  dict = situ_tree_put(dict, "base_lrs", situ__record_numbers(s->base, s->count));
  SITU_IGNORE(situ_scope_end(&scope));
  return dict;
}

situ_status situ_lr_scheduler_load_state_dict(situ_lr_scheduler *s, const situ_tree *state) {
  if (!s || !state) return situ__null("lr_scheduler_load_state_dict", s ? "state" : "scheduler");
  double epoch, *base = situ__alloc((size_t)s->count * sizeof *base);
  situ_tree *flat = situ_tree_flatten(state);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  bool ok = base && flat && situ__record_read(flat, "last_epoch", &epoch, 1) &&
            situ__record_read(flat, "base_lrs", base, s->count);
  SITU_IGNORE(situ_scope_end(&scope));
  situ_tree_free(flat);
  if (ok) {
    s->last_epoch = (int64_t)epoch;
    for (int g = 0; g < s->count; g++) s->base[g] = base[g];
  } else if (!base) {
    situ__no_memory("lr_scheduler_load_state_dict", sizeof *base);
  }
  situ__free(base);
  return ok ? SITU_OK : situ_error();
}

/* ---- StepLR ---- */

typedef struct step_lr {
  situ_lr_scheduler s;
  int64_t every;
  double gamma;
} step_lr;

static double step_rate(situ_lr_scheduler *s, situ__group *group, double base, double now) {
  const step_lr *m = (const step_lr *)s;
  (void)group, (void)base;
  return s->last_epoch == 0 || s->last_epoch % m->every ? now : now * m->gamma;
}
static const situ__schedule step_type = { "lr_scheduler_step_lr", sizeof(step_lr), step_rate,
                                          NULL };

situ_lr_scheduler *situ_lr_scheduler_step_lr(situ_optim *o, int64_t step_size, double gamma) {
  if (step_size < 1)
    return situ__fail(SITU_E_ARG, step_type.name, "a step_size of %" PRId64, step_size), NULL;
  step_lr *m = situ__schedule_alloc(&step_type, o);
  if (!m) return NULL;
  m->every = step_size;
  m->gamma = gamma;
  return situ__schedule_start(&m->s);
}

/* ---- CosineAnnealingLR ---- */

typedef struct cosine {
  situ_lr_scheduler s;
  int64_t t_max;
  double eta_min;
} cosine;

static double cosine_rate(situ_lr_scheduler *s, situ__group *group, double base, double now) {
  const cosine *m = (const cosine *)s;
  int64_t t = s->last_epoch;
  double t_max = (double)m->t_max;
  (void)group;
  if (t == 0) return now;
  if ((t - 1 - m->t_max) % (2 * m->t_max) == 0)
    return now + (base - m->eta_min) * (1 - cos(pi / t_max)) / 2;
  return (1 + cos(pi * (double)t / t_max)) / (1 + cos(pi * (double)(t - 1) / t_max)) *
             (now - m->eta_min) +
         m->eta_min;
}
static const situ__schedule cosine_type = { "lr_scheduler_cosine_annealing_lr", sizeof(cosine),
                                            cosine_rate, NULL };

situ_lr_scheduler *situ_lr_scheduler_cosine_annealing_lr(situ_optim *o, int64_t t_max,
                                                         double eta_min) {
  if (t_max < 1)
    return situ__fail(SITU_E_ARG, cosine_type.name, "a t_max of %" PRId64, t_max), NULL;
  cosine *m = situ__schedule_alloc(&cosine_type, o);
  if (!m) return NULL;
  m->t_max = t_max;
  m->eta_min = eta_min;
  return situ__schedule_start(&m->s);
}

/* ---- LambdaLR ---- */

typedef struct lambda_lr {
  situ_lr_scheduler s;
  double (*lambda)(int64_t step, void *payload);
  void *payload;
} lambda_lr;

static double lambda_rate(situ_lr_scheduler *s, situ__group *group, double base, double now) {
  const lambda_lr *m = (const lambda_lr *)s;
  (void)group, (void)now;
  return base * m->lambda(s->last_epoch, m->payload);
}
static const situ__schedule lambda_type = { "lr_scheduler_lambda_lr", sizeof(lambda_lr),
                                            lambda_rate, NULL };

situ_lr_scheduler *situ_lr_scheduler_lambda_lr(situ_optim *o,
                                               double (*lambda)(int64_t step, void *payload),
                                               void *payload) {
  if (!lambda) return situ__null(lambda_type.name, "lambda"), NULL;
  lambda_lr *m = situ__schedule_alloc(&lambda_type, o);
  if (!m) return NULL;
  m->lambda = lambda;
  m->payload = payload;
  return situ__schedule_start(&m->s);
}
