/* OneCycleLR: the rate rises, falls, and falls further; the momentum changes inversely.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>

#include "base/fail.h"
#include "base/options.h"
#include "optim/schedule.h"

static const double pi = 3.14159265358979323846;

typedef struct phase {
  double end;      /* its last step */
  double from, to; /* rates */
  double momentum_from, momentum_to;
} phase;

typedef struct one_cycle {
  situ_lr_scheduler s;
  int64_t total_steps;
  phase phases[3];
  int phase_count;
  bool linear;
  int momentum; /* a situ_optim_field; -1: not changed */
} one_cycle;

static double anneal(const one_cycle *m, double start, double end, double share) {
  if (m->linear) return (end - start) * share + start;
  return end + (start - end) / 2.0 * (cos(pi * share) + 1);
}

static bool advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const one_cycle *m = (const one_cycle *)s;
  double step = (double)epoch, start = 0;
  int i = 0;
  if (!situ__schedule_base(s, group, &value[SITU_OPTIM_LR])) return false;
  if (epoch > m->total_steps)
    return situ__fail(SITU_E_STATE, s->type->name, "step %" PRId64 " of a cycle of %" PRId64, epoch, m->total_steps),
           false;
  while (i < m->phase_count - 1 && step > m->phases[i].end) start = m->phases[i++].end;
  const phase *p = &m->phases[i];
  double share = (step - start) / (p->end - start);
  if (m->momentum >= 0) value[m->momentum] = anneal(m, p->momentum_from, p->momentum_to, share);
  value[SITU_OPTIM_LR] = anneal(m, p->from, p->to, share);
  return true;
}

static const situ__schedule type = { "lr_scheduler_one_cycle_lr", sizeof(one_cycle), .advance = advance,
                                     .sets_initial_lr = true };

/* low, last: the first rate and the last one. */
static bool are_valid(double high, int64_t total_steps, const situ_one_cycle_options *o, double low, double last) {
  const double rise = o->pct_start, light = o->base_momentum, heavy = o->max_momentum;
  if (total_steps < 1 || !(high >= 0) || !isfinite(high) || !(rise >= 0 && rise <= 1))
    situ__fail(SITU_E_ARG, type.name, "max_lr %g, total_steps %" PRId64 ", pct_start %g", high, total_steps, rise);
  else if (!isfinite(low) || !isfinite(last))
    situ__fail(SITU_E_ARG, type.name, "div_factor %g, final_div_factor %g: first and last rate would be %g and %g",
               o->div_factor, o->final_div_factor, low, last);
  else if (!(light >= 0 && light <= 1 && heavy >= 0 && heavy <= 1))
    situ__fail(SITU_E_ARG, type.name, "base_momentum %g, max_momentum %g: must be in 0..1", light, heavy);
  else if (rise * (double)total_steps == 1)
    situ__fail(SITU_E_ARG, type.name,
               "pct_start %g of total_steps %" PRId64 " is 1 step, so the rising phase would begin "
               "and end in step 0; give a larger pct_start",
               rise, total_steps);
  else return true;
  return false;
}

situ_lr_scheduler *situ_lr_scheduler_one_cycle_lr(situ_optim *o, double max_lr, int64_t total_steps,
                                                  const situ_one_cycle_options *options) {
  situ_one_cycle_options with = situ_one_cycle_defaults();
  if (!situ__options_read(type.name, "situ_one_cycle_defaults", options, &with, sizeof with)) return NULL;
  const double low = max_lr / with.div_factor, last = low / with.final_div_factor;
  const double rise = with.pct_start, steps = (double)total_steps;
  const double light = with.base_momentum, heavy = with.max_momentum;
  if (!are_valid(max_lr, total_steps, &with, low, last)) return NULL;
  one_cycle *m = situ__schedule_alloc(&type, o);
  if (!m) return NULL;
  if (!with.keep_momentum && !situ__schedule_can_cycle(&m->s)) return NULL;
  m->total_steps = total_steps;
  m->linear = with.linear;
  m->momentum = with.keep_momentum ? -1 : (int)situ__schedule_momentum(o);
  phase *p = m->phases;
  *p++ = (phase){ rise * steps - 1, low, max_lr, heavy, light };
  if (with.three_phase) {
    *p++ = (phase){ 2 * rise * steps - 2, max_lr, low, light, heavy };
    *p++ = (phase){ steps - 1, low, last, heavy, heavy };
  } else {
    *p++ = (phase){ steps - 1, max_lr, last, light, heavy };
  }
  m->phase_count = (int)(p - m->phases);
  for (int g = 0; g < m->s.count; g++) m->s.base[g] = low;
  return situ__schedule_start(&m->s);
}
