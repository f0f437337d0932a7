/* Internals of learning-rate schedules.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPTIM_SCHEDULE_H
#define SITU_OPTIM_SCHEDULE_H

#include "optim/optim.h"

typedef struct situ__schedule {
  const char *name;
  size_t size; /* of the struct that begins with situ_lr_scheduler */
  /* Changes the values of a group in the step before to those of step `epoch`, and nothing else, so that a failed step
     changes nothing. Returns false after recording an error. */
  bool (*advance)(const situ_lr_scheduler *s, int64_t epoch, double *value, int group);
  /* Where SequentialLR begins with it after another one: the value of that step. NULL: advance to step 0 from the first
     rate. */
  bool (*restart)(const situ_lr_scheduler *s, double *value, int group);
  /* The step to `epoch` succeeded; s->last_epoch is the step before. NULL: nothing to do. */
  void (*commit)(situ_lr_scheduler *s, int64_t epoch);
  void (*release)(situ_lr_scheduler *s); /* frees what the struct points to; NULL: nothing */
  /* Numbers that are saved besides last_epoch and base_lrs: their names, NULL at the end, and the offset of the first
     of these doubles. None may be NaN. */
  const char *const *saved;
  size_t saved_at;
  bool sets_initial_lr; /* the groups' initial rates, also where an earlier schedule has set them */
  bool takes_metrics;   /* is stepped by situ_lr_scheduler_step_metrics only */
} situ__schedule;

struct situ_lr_scheduler {
  uint32_t head;
  const situ__schedule *type;
  situ_optim *o;
  situ__alone alone;
  int64_t last_epoch;
  double *base;                      /* initial rates, one for each of the first `count` groups */
  double (*next)[SITU_OPTIM_FIELDS]; /* scratch: the next values of `capacity` groups */
  int64_t capacity;
  int count;                 /* groups of the optimiser when the schedule was made */
  situ_lr_scheduler **parts; /* owned schedules of SequentialLR and ChainedScheduler */
  int64_t part_count;
  bool is_part; /* another schedule owns this one and steps it */
};

static inline bool situ__schedule_given(const char *op, const situ_lr_scheduler *s) {
  return situ__valid(op, "scheduler", s, SITU__A_SCHEDULER);
}
/* The field that cyclical schedules change as momentum: beta1, or momentum for optimisers without it. */
static inline situ_optim_field situ__schedule_momentum(const situ_optim *o) {
  return situ__optim_has(o, SITU_OPTIM_BETA1) ? SITU_OPTIM_BETA1 : SITU_OPTIM_MOMENTUM;
}
/* A zeroed schedule of type->size bytes that references o and stores the initial rates. Returns NULL after recording an
   error. */
void *situ__schedule_alloc(const situ__schedule *type, situ_optim *o);
/* The first rate of a group. Returns false after recording that the group was added behind the schedule, which has none
   for it: torch raises there. */
bool situ__schedule_base(const situ_lr_scheduler *s, int group, double *base);
/* Sets the rates of step 0 and returns s. If a value is not finite, records an error, frees s and returns NULL. */
situ_lr_scheduler *situ__schedule_start(situ_lr_scheduler *s);
/* Checks that the optimiser has the momentum of situ__schedule_momentum. If not, records an error, frees s and returns
   false. */
bool situ__schedule_can_cycle(situ_lr_scheduler *s);
/* One step of a schedule that this thread has to itself, and of its optimiser. All or nothing. */
situ_status situ__schedule_step(const char *op, situ_lr_scheduler *s);

#endif
