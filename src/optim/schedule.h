/* What a learning-rate schedule is made of.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPTIM_SCHEDULE_H
#define SITU_OPTIM_SCHEDULE_H

#include "optim/optim.h"

typedef struct situ__schedule {
  const char *name;
  size_t size; /* of the struct that begins with situ_lr_scheduler */
  /* Changes a group's hyperparameters, which are those of the step before, to those of step
     s->last_epoch. base: the group's first rate. */
  void (*advance)(const situ_lr_scheduler *s, double *value, double base);
  /* May this step be made? NULL: always. False: recorded. */
  bool (*may_step)(const situ_lr_scheduler *s, int64_t step);
} situ__schedule;

struct situ_lr_scheduler {
  uint32_t head;
  const situ__schedule *type;
  situ_optim *o;
  situ__alone alone;
  int64_t last_epoch;
  double *base;                      /* first rates, a group each */
  double (*next)[SITU_OPTIM_FIELDS]; /* scratch: what the groups are about to get */
  int count;
};

static inline bool situ__schedule_given(const char *op, const situ_lr_scheduler *s) {
  return situ__valid(op, "scheduler", s, SITU__A_SCHEDULER);
}
/* A cleared schedule of type->size bytes that holds o and knows the first rates; NULL: recorded. */
void *situ__schedule_alloc(const situ__schedule *type, situ_optim *o);
/* Sets the rates of step 0 and returns s. NULL: a value is not finite, which is recorded; s is freed. */
situ_lr_scheduler *situ__schedule_start(situ_lr_scheduler *s);

#endif
