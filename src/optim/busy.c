/* Optimisers and other threads: see base/busy.h.
   SPDX-License-Identifier: MIT */
#include "optim/optim.h"
#include "situ/sys/shape.h"

static bool own_mark(const void *object, situ__mark_visitor *visit) {
  const situ_optim *o = object;
  return visit((uint64_t *)(uintptr_t)&o->busy);
}

static bool all_marks(const void *object, situ__mark_visitor *visit) {
  const situ_optim *o = object;
  if (!own_mark(o, visit)) return false;
  for (int64_t i = 0; i < o->count; i++)
    if (!visit(&situ_desc(o->items[i].param)->storage->busy)) return false;
  return true;
}

bool situ__optim_use(const char *op, const situ_optim *o, situ__use *use) {
  return situ__use_begin(use, all_marks, o) || situ__busy(op, "this optimiser, or one of its parameters,");
}

bool situ__optim_claim(const char *op, const situ_optim *o, situ__claim *claim) {
  return situ__claim_begin(claim, all_marks, o) || situ__busy(op, "this optimiser, or one of its parameters,");
}

bool situ__optim_change(const char *op, const situ_optim *o, situ__claim *claim) {
  return situ__claim_begin(claim, own_mark, o) || situ__busy(op, "this optimiser");
}
