/* What trains a module, or steps an optimiser, over ranks.
   SPDX-License-Identifier: MIT */
#include "situ/sys/trainer.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/mutex.h"

/* Few are alive at a time. */
typedef struct noted {
  struct noted *next;
  const void *object;
  const situ_trainer *how;
  void *self;
} noted;

static situ__mutex lock = SITU__MUTEX_INIT;
static noted *all;

static void forget(const void *object, const void *self) {
  noted **at = &all, *n;
  while ((n = *at) && (n->object != object || n->self != self)) at = &n->next;
  if (n) *at = n->next;
  situ__free(n);
}

situ_status situ_set_trainer(const void *object, const situ_trainer *how, void *self) {
  static const char op[] = "set_trainer";
  if (!object) return situ__null(op, "object");
  noted *n = how ? situ__alloc(sizeof *n) : NULL;
  if (how && !n) return situ__no_memory(op, sizeof *n);
  situ__mutex_lock(&lock);
  forget(object, self);
  if (n) {
    *n = (noted){ all, object, how, self };
    all = n;
  }
  situ__mutex_unlock(&lock);
  return SITU_OK;
}

const situ_trainer *situ_trainer_of(const void *object, void **self) {
  situ__mutex_lock(&lock);
  const noted *n = all;
  while (n && n->object != object) n = n->next;
  const situ_trainer *how = n ? n->how : NULL;
  if (n && self) *self = n->self;
  situ__mutex_unlock(&lock);
  return how;
}
