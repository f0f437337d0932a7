/* ReduceLROnPlateau: the rate falls when a metric has stopped improving.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>

#include "base/fail.h"
#include "base/options.h"
#include "optim/schedule.h"

typedef struct history {
  double best, num_bad_epochs, cooldown_counter;
} history;
static const char *const saved[] = { "best", "num_bad_epochs", "cooldown_counter", NULL };

typedef struct plateau {
  situ_lr_scheduler s;
  double factor, patience;
  situ_plateau_options options;
  history now, next; /* next: after the step that is being made */
  bool reduce;       /* in that step */
} plateau;

static bool advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const plateau *m = (const plateau *)s;
  const double old = value[SITU_OPTIM_LR], new = fmax(old * m->factor, m->options.min_lr);
  (void)epoch, (void)group;
  if (m->reduce && old - new > m->options.eps) value[SITU_OPTIM_LR] = new;
  return true;
}

static void commit(situ_lr_scheduler *s, int64_t epoch) {
  (void)epoch;
  ((plateau *)s)->now = ((plateau *)s)->next;
}

static const situ__schedule type = {
  "lr_scheduler_reduce_lr_on_plateau", sizeof(plateau),      .advance = advance, .commit = commit, .saved = saved,
  .saved_at = offsetof(plateau, now),  .takes_metrics = true
};

static bool is_better(const situ_plateau_options *o, double a, double best) {
  const double by = o->threshold;
  if (o->max) return a > (o->threshold_abs ? best + by : best * (by + 1));
  return a < (o->threshold_abs ? best - by : best * (1 - by));
}

/* Notes the metric in m->next and m->reduce. */
static void note(plateau *m, double metrics) {
  history *h = &m->next;
  *h = m->now;
  if (is_better(&m->options, metrics, h->best)) {
    h->best = metrics;
    h->num_bad_epochs = 0;
  } else h->num_bad_epochs++;
  if (h->cooldown_counter > 0) {
    h->cooldown_counter--;
    h->num_bad_epochs = 0;
  }
  m->reduce = h->num_bad_epochs > m->patience;
  if (!m->reduce) return;
  h->cooldown_counter = (double)m->options.cooldown;
  h->num_bad_epochs = 0;
}

situ_status situ_lr_scheduler_step_metrics(situ_lr_scheduler *s, double metrics) {
  static const char op[] = "lr_scheduler_step_metrics";
  if (!situ__schedule_given(op, s)) return situ_error();
  SITU__ALONE(in, &s->alone, op, "this scheduler");
  if (!in) return situ_error();
  if (s->type != &type)
    return situ__fail(SITU_E_ARG, op, "%s takes no metrics: situ_lr_scheduler_step(s)", s->type->name);
  if (isnan(metrics)) return situ__fail(SITU_E_ARG, op, "metrics is NaN: no rate can be chosen by it");
  note((plateau *)s, metrics);
  return situ__schedule_step(op, s);
}

static bool are_valid(double factor, int64_t patience, const situ_plateau_options *o) {
  if (!(factor >= 0 && factor < 1) || patience < 0)
    situ__fail(SITU_E_ARG, type.name,
               "factor %g, patience %" PRId64 ": factor must be in 0..1, below 1, patience at "
               "least 0",
               factor, patience);
  else if (!isfinite(o->threshold) || o->cooldown < 0 || !isfinite(o->min_lr) || o->min_lr < 0 || !(o->eps >= 0) ||
           !isfinite(o->eps))
    situ__fail(SITU_E_ARG, type.name,
               "threshold %g, cooldown %" PRId64 ", min_lr %g, eps %g: must be finite, all but threshold at least 0",
               o->threshold, o->cooldown, o->min_lr, o->eps);
  else return true;
  return false;
}

situ_lr_scheduler *situ_lr_scheduler_reduce_lr_on_plateau(situ_optim *o, double factor, int64_t patience,
                                                          const situ_plateau_options *options) {
  situ_plateau_options with = situ_plateau_defaults();
  if (!situ__options_read(type.name, "situ_plateau_defaults", options, &with, sizeof with)) return NULL;
  if (!are_valid(factor, patience, &with)) return NULL;
  plateau *m = situ__schedule_alloc(&type, o);
  if (!m) return NULL;
  m->factor = factor;
  m->patience = (double)patience;
  m->options = with;
  m->now.best = with.max ? -INFINITY : INFINITY;
  return situ__schedule_start(&m->s);
}
