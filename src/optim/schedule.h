/* Internals of learning-rate schedules.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPTIM_SCHEDULE_H
#define SITU_OPTIM_SCHEDULE_H

#include "optim/optim.h"

typedef struct situ__schedule {
  const char *name;
  size_t size; /* of the struct that begins with situ_lr_scheduler */
  /* Changes a group's hyperparameters from those of the previous step to those of step s->last_epoch. base: the group's
     initial rate. */
  void (*advance)(const situ_lr_scheduler *s, double *value, double base);
  /* Checks that this step is allowed. NULL: always. Returns false after recording an error. */
  bool (*may_step)(const situ_lr_scheduler *s, int64_t step);
} situ__schedule;

struct situ_lr_scheduler {
  uint32_t head;
  const situ__schedule *type;
  situ_optim *o;
  situ__alone alone;
  int64_t last_epoch;
  double *base;                      /* initial rates, one for each group */
  double (*next)[SITU_OPTIM_FIELDS]; /* scratch: the groups' next values */
  int count;
};

static inline bool situ__schedule_given(const char *op, const situ_lr_scheduler *s) {
  return situ__valid(op, "scheduler", s, SITU__A_SCHEDULER);
}
/* A zeroed schedule of type->size bytes that references o and stores the initial rates. Returns NULL after recording an
   error. */
void *situ__schedule_alloc(const situ__schedule *type, situ_optim *o);
/* Sets the rates of step 0 and returns s. If a value is not finite, records an error, frees s and returns NULL. */
situ_lr_scheduler *situ__schedule_start(situ_lr_scheduler *s);

#endif
