/* Optimisers and other threads: see base/busy.h.
   SPDX-License-Identifier: MIT */
#include <sched.h>

#include "optim/optim.h"
#include "base/mutex.h"
#include "situ/sys/shape.h"

/* Guards each optimiser's list of parameters, which a claim or a use on another thread may walk at any time. */
static situ__mutex list = SITU__MUTEX_INIT;

void situ__optim_lock(void) { situ__mutex_lock(&list); }
void situ__optim_unlock(void) { situ__mutex_unlock(&list); }

static bool own_mark(const void *object, situ__mark_visitor *visit) {
  const situ_optim *o = object;
  return visit((uint64_t *)(uintptr_t)&o->busy);
}

bool situ__optim_marks(const void *object, situ__mark_visitor *visit) {
  const situ_optim *o = object;
  bool good = own_mark(o, visit);
  situ__optim_lock();
  for (int64_t i = 0; i < o->count && good; i++) good = visit(&situ_desc(o->items[i].param)->storage->busy);
  situ__optim_unlock();
  return good;
}

bool situ__optim_use(const char *op, const situ_optim *o, situ__use *use) {
  return situ__use_begin(use, situ__optim_marks, o) || situ__busy(op, "this optimiser, or one of its parameters,");
}

void situ__optim_await(const situ_optim *o, situ__use *use) {
  while (!situ__use_begin(use, situ__optim_marks, o)) sched_yield();
}

bool situ__optim_claim(const char *op, const situ_optim *o, situ__claim *claim) {
  return situ__claim_begin(claim, situ__optim_marks, o) || situ__busy(op, "this optimiser, or one of its parameters,");
}

bool situ__optim_change(const char *op, const situ_optim *o, situ__claim *claim) {
  return situ__claim_begin(claim, own_mark, o) || situ__busy(op, "this optimiser");
}
