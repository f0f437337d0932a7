/* Learning-rate schedules: shared code, and the simple schedules. Formulas are torch's, so that the rates are equal to
   the last bit; those that start from the current rate can be chained.
   SPDX-License-Identifier: MIT */
#include "optim/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/record.h"
#include "situ/sys/load.h"

static const double pi = 3.14159265358979323846;

void *situ__schedule_alloc(const situ__schedule *type, situ_optim *o) {
  if (!situ__optim_given(type->name, o)) return NULL;
  situ_lr_scheduler *s = situ__handle_new(SITU__A_SCHEDULER, type->size);
  double *base = situ__alloc((size_t)o->group_count * sizeof *base),
         (*next)[SITU_OPTIM_FIELDS] = situ__alloc((size_t)o->group_count * sizeof *next);
  if (!s || !base || !next) {
    situ__no_memory(type->name, type->size);
    situ__handle_free(s, type->size, type->name);
    situ__free(base);
    situ__free(next);
    return NULL;
  }
  s->type = type;
  s->o = o;
  s->base = base;
  s->next = next;
  s->count = o->group_count;
  __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
  for (int g = 0; g < s->count; g++) {
    const situ__group *group = &o->groups[g];
    base[g] = group->has_initial_lr ? group->initial_lr : group->value[SITU_OPTIM_LR];
  }
  return s;
}

static bool all_finite(const situ_lr_scheduler *s, int group) {
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    if (isfinite(s->next[group][f])) continue;
    situ__fail(SITU_E_ARG, s->type->name, "%s of group %d would be %g in step %" PRId64, situ__optim_fields[f].name,
               group, s->next[group][f], s->last_epoch);
    return false;
  }
  return true;
}

/* Computes values for all groups before it changes the first one. */
static bool set_rates(situ_lr_scheduler *s) {
  situ__group *groups = s->o->groups;
  for (int g = 0; g < s->count; g++) {
    memcpy(s->next[g], groups[g].value, sizeof s->next[g]);
    s->type->advance(s, s->next[g], s->base[g]);
    if (!all_finite(s, g)) return false;
  }
  for (int g = 0; g < s->count; g++) memcpy(groups[g].value, s->next[g], sizeof s->next[g]);
  return true;
}

situ_lr_scheduler *situ__schedule_start(situ_lr_scheduler *s) {
  if (!set_rates(s)) {
    situ_lr_scheduler_free(s);
    return NULL;
  }
  for (int g = 0; g < s->count; g++) {
    s->o->groups[g].initial_lr = s->base[g];
    s->o->groups[g].has_initial_lr = true;
  }
  return s;
}

situ_status situ_lr_scheduler_step(situ_lr_scheduler *s) {
  if (!situ__schedule_given("lr_scheduler_step", s)) return situ_error();
  SITU__ALONE(in, &s->alone, "lr_scheduler_step", "this scheduler");
  SITU__CLAIM(claim);
  if (!in || !situ__optim_change("lr_scheduler_step", s->o, &claim)) return situ_error();
  if (s->type->may_step && !s->type->may_step(s, s->last_epoch + 1)) return situ_error();
  s->last_epoch++;
  if (set_rates(s)) return SITU_OK;
  s->last_epoch--;
  return situ_error();
}

int64_t situ_lr_scheduler_last_epoch(const situ_lr_scheduler *s) {
  return s && situ__schedule_given("lr_scheduler_last_epoch", s) ? s->last_epoch : 0;
}

void situ_lr_scheduler_free(situ_lr_scheduler *s) {
  /* The claim is never released: no other thread can enter from here on. */
  if (!s || !situ__schedule_given("lr_scheduler_free", s) ||
      !situ__alone_begin(&s->alone, "lr_scheduler_free", "this scheduler"))
    return;
  situ__optim_let_go(s->o);
  situ__free(s->base);
  situ__free(s->next);
  situ__handle_free(s, s->type->size, s->type->name);
}

situ_tree *situ_lr_scheduler_state_dict(const situ_lr_scheduler *s) {
  if (!situ__schedule_given("lr_scheduler_state_dict", s)) return NULL;
  SITU__ALONE(in, (situ__alone *)(uintptr_t)&s->alone, "lr_scheduler_state_dict", "this scheduler");
  if (!in) return NULL;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *dict = situ_tree_put(situ_tree_dict(), "last_epoch", situ__record_whole(s->last_epoch));
  dict = situ_tree_put(dict, "base_lrs", situ__record_numbers(s->base, s->count));
  SITU_IGNORE(situ_scope_end(&scope));
  return dict;
}

static bool are_rates(double epoch, const double *base, int count) {
  bool good = epoch >= 0 && epoch < 0x1p53 && epoch == trunc(epoch);
  for (int g = 0; g < count; g++) good = good && isfinite(base[g]);
  if (!good)
    situ__fail(SITU_E_ARG, "lr_scheduler_load_state_dict",
               "last_epoch is %g and base_lrs[0] %g: the first must be a whole number of at least "
               "0, rates finite",
               epoch, base[0]);
  return good;
}

struct situ_lr_scheduler_loading {
  uint32_t head;
  int count;
  situ_lr_scheduler *s;
  situ__alone *in;
  double epoch, base[]; /* epoch, and a base rate for each group */
};

situ_lr_scheduler_loading *situ_lr_scheduler_load_prepare(situ_lr_scheduler *s, const situ_tree *state) {
  const char *op = "lr_scheduler_load_state_dict";
  if (!situ__schedule_given(op, s) || !situ__valid(op, "state", state, SITU__A_TREE)) return NULL;
  const size_t bytes = sizeof(situ_lr_scheduler_loading) + (size_t)s->count * sizeof(double);
  situ_lr_scheduler_loading *l = situ__handle_new(SITU__A_SCHEDULER_STATE, bytes);
  if (!l) return situ__no_memory(op, bytes), NULL;
  l->s = s;
  l->count = s->count;
  l->in = situ__alone_begin(&s->alone, op, "this scheduler");
  situ_tree *flat = situ_tree_flatten(state);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  bool ok = flat && l->in && situ__record_read(flat, "last_epoch", &l->epoch, 1) &&
            situ__record_read(flat, "base_lrs", l->base, s->count) && are_rates(l->epoch, l->base, s->count);
  SITU_IGNORE(situ_scope_end(&scope));
  situ_tree_free(flat);
  if (ok) return l;
  situ_lr_scheduler_load_end(l, false);
  return NULL;
}

void situ_lr_scheduler_load_end(situ_lr_scheduler_loading *l, bool commit) {
  const char *op = "lr_scheduler_load_end";
  if (!l || !situ__valid(op, "loading", l, SITU__A_SCHEDULER_STATE)) return;
  if (commit && situ__schedule_given(op, l->s)) {
    l->s->last_epoch = (int64_t)l->epoch;
    memcpy(l->s->base, l->base, (size_t)l->s->count * sizeof *l->base);
  }
  if (situ__is(SITU__A_SCHEDULER, l->s)) situ__alone_end(&l->in);
  situ__handle_free(l, sizeof *l + (size_t)l->count * sizeof *l->base, NULL);
}

situ_status situ_lr_scheduler_load_state_dict(situ_lr_scheduler *s, const situ_tree *state) {
  situ_lr_scheduler_loading *l = situ_lr_scheduler_load_prepare(s, state);
  if (!l) return situ_error();
  situ_lr_scheduler_load_end(l, true);
  return SITU_OK;
}

/* ---- StepLR ---- */

typedef struct step_lr {
  situ_lr_scheduler s;
  int64_t every;
  double gamma;
} step_lr;

static void step_advance(const situ_lr_scheduler *s, double *value, double base) {
  const step_lr *m = (const step_lr *)s;
  (void)base;
  if (s->last_epoch != 0 && s->last_epoch % m->every == 0) value[SITU_OPTIM_LR] *= m->gamma;
}
static const situ__schedule step_type = { "lr_scheduler_step_lr", sizeof(step_lr), step_advance, NULL };

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

/* ---- CosineAnnealingLR ---- */

typedef struct cosine {
  situ_lr_scheduler s;
  int64_t t_max;
  double eta_min;
} cosine;

static void cosine_advance(const situ_lr_scheduler *s, double *value, double base) {
  const cosine *m = (const cosine *)s;
  int64_t t = s->last_epoch;
  double t_max = (double)m->t_max, now = value[SITU_OPTIM_LR];
  if (t == 0) return;
  if ((t - 1 - m->t_max) % (2 * m->t_max) == 0)
    value[SITU_OPTIM_LR] = now + (base - m->eta_min) * (1 - cos(pi / t_max)) / 2;
  else
    value[SITU_OPTIM_LR] =
        (1 + cos(pi * (double)t / t_max)) / (1 + cos(pi * (double)(t - 1) / t_max)) * (now - m->eta_min) + m->eta_min;
}
static const situ__schedule cosine_type = { "lr_scheduler_cosine_annealing_lr", sizeof(cosine), cosine_advance, NULL };

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

/* ---- LambdaLR ---- */

typedef struct lambda_lr {
  situ_lr_scheduler s;
  double (*lambda)(int64_t step, void *payload);
  void *payload;
} lambda_lr;

static void lambda_advance(const situ_lr_scheduler *s, double *value, double base) {
  const lambda_lr *m = (const lambda_lr *)s;
  value[SITU_OPTIM_LR] = base * m->lambda(s->last_epoch, m->payload);
}
static const situ__schedule lambda_type = { "lr_scheduler_lambda_lr", sizeof(lambda_lr), lambda_advance, NULL };

situ_lr_scheduler *situ_lr_scheduler_lambda_lr(situ_optim *o, double (*lambda)(int64_t step, void *payload),
                                               void *payload) {
  if (!lambda) return situ__null(lambda_type.name, "lambda"), NULL;
  lambda_lr *m = situ__schedule_alloc(&lambda_type, o);
  if (!m) return NULL;
  m->lambda = lambda;
  m->payload = payload;
  return situ__schedule_start(&m->s);
}
