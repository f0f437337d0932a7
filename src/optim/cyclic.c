/* CyclicLR: the rate goes up and down between two limits; the momentum changes inversely.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>

#include "base/fail.h"
#include "base/options.h"
#include "optim/schedule.h"

typedef struct cyclic {
  situ_lr_scheduler s;
  double max_lr;
  situ_cyclic_options options;
  double total_size, step_ratio;
} cyclic;

static double scale(const situ_cyclic_options *o, double cycle, double epoch) {
  if (o->scale_fn) return o->scale_fn(o->scale_iterations ? epoch : cycle, o->payload);
  switch (o->mode) {
  case SITU_CYCLIC_TRIANGULAR2: return 1 / pow(2, cycle - 1);
  case SITU_CYCLIC_EXP_RANGE: return pow(o->gamma, epoch);
  default: return 1;
  }
}

static bool advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const cyclic *m = (const cyclic *)s;
  const situ_cyclic_options *o = &m->options;
  const double cycle = floor(1 + (double)epoch / m->total_size), x = 1 + (double)epoch / m->total_size - cycle;
  const double height = x <= m->step_ratio ? x / m->step_ratio : (x - 1) / (m->step_ratio - 1);
  const double factor = scale(o, cycle, (double)epoch);
  double base;
  if (!situ__schedule_base(s, group, &base)) return false;
  value[SITU_OPTIM_LR] = base + (m->max_lr - base) * height * factor;
  if (!o->keep_momentum)
    value[situ__schedule_momentum(s->o)] = o->max_momentum - (o->max_momentum - o->base_momentum) * height * factor;
  return true;
}

static const situ__schedule type = { "lr_scheduler_cyclic_lr", sizeof(cyclic), .advance = advance };

static bool are_valid(double base_lr, double max_lr, const situ_cyclic_options *o) {
  if (!isfinite(base_lr) || !isfinite(max_lr) || base_lr < 0 || max_lr < 0)
    situ__fail(SITU_E_ARG, type.name, "base_lr %g, max_lr %g: must be finite, and at least 0", base_lr, max_lr);
  else if (o->step_size_up < 1 || !(o->step_size_down >= 0) || !isfinite(o->step_size_down))
    situ__fail(SITU_E_ARG, type.name,
               "step_size_up %" PRId64 ", step_size_down %g: must be at least 1 and 0, and finite", o->step_size_up,
               o->step_size_down);
  else if ((unsigned)o->mode > SITU_CYCLIC_EXP_RANGE || !isfinite(o->gamma))
    situ__fail(SITU_E_ARG, type.name, "mode %d, gamma %g: mode must be one of situ_cyclic_mode, gamma finite",
               (int)o->mode, o->gamma);
  else if (!(o->base_momentum >= 0 && o->base_momentum <= 1 && o->max_momentum >= 0 && o->max_momentum <= 1))
    situ__fail(SITU_E_ARG, type.name, "base_momentum %g, max_momentum %g: must be in 0..1", o->base_momentum,
               o->max_momentum);
  else return true;
  return false;
}

situ_lr_scheduler *situ_lr_scheduler_cyclic_lr(situ_optim *o, double base_lr, double max_lr,
                                               const situ_cyclic_options *options) {
  situ_cyclic_options with = situ_cyclic_defaults();
  if (!situ__options_read(type.name, "situ_cyclic_defaults", options, &with, sizeof with)) return NULL;
  if (with.step_size_down == SITU_NONE) with.step_size_down = (double)with.step_size_up;
  if (!are_valid(base_lr, max_lr, &with)) return NULL;
  cyclic *m = situ__schedule_alloc(&type, o);
  if (!m) return NULL;
  if (!with.keep_momentum && !situ__schedule_can_cycle(&m->s)) return NULL;
  m->max_lr = max_lr;
  m->options = with;
  m->total_size = (double)with.step_size_up + with.step_size_down;
  m->step_ratio = (double)with.step_size_up / m->total_size;
  for (int g = 0; g < m->s.count; g++) m->s.base[g] = base_lr;
  return situ__schedule_start(&m->s);
}
