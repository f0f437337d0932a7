/* Floor 3: views that know their base, so that an in-place write through either is seen by both, as in PyTorch.
   A write with history through a view records two calls: the op itself, from the view's old value to its new one, and
   "the base with that part replaced". A base counts how often its history was replaced; a view that is behind gets its history
   again, as a view of the base, when it is next used.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_VIEW_H
#define SITU_AUTOGRAD_VIEW_H

#include "autograd/tape.h"

/* Views other than SITU__VIEW_FREE cannot be written in place where that is recorded. */
typedef enum situ__view_kind {
  SITU__VIEW_FREE,     /* a view made where gradients are recorded; or not a view */
  SITU__VIEW_ONE_OF,   /* one of several that one function returned */
  SITU__VIEW_NO_GRAD,  /* made in a no_grad scope */
  SITU__VIEW_FUNCTION, /* returned by a user's function */
  SITU__VIEW_OUTSIDE   /* shows elements that its base does not have */
} situ__view_kind;

/* Makes view, on the memory of `of`, a differentiable view of it. */
void situ__view_link(situ_tensor *view, situ_tensor *of, situ__view_kind kind);
/* Raises the kind of a view. */
void situ__view_fix(situ_tensor *view, situ__view_kind kind);

/* Is t's recorded history that of an earlier value? */
static inline bool situ__view_is_stale(const situ_tensor *t) {
  return t->base && t->requires_grad && __atomic_load_n(&t->rebased, __ATOMIC_ACQUIRE) != t->base->rebased;
}
/* Records t's history again. False: recorded. */
bool situ__view_refresh(const char *op, situ_tensor *t);
static inline bool situ__view_fresh(const char *op, situ_tensor *t) {
  return !situ__view_is_stale(t) || situ__view_refresh(op, t);
}

/* May t be written in place where gradients are recorded? `recorded`: the write itself will be. False: recorded. */
bool situ__view_may_write(const char *op, const situ_tensor *t, bool recorded);
/* After base's history was replaced: its views are behind. `before`: base required a gradient already. */
void situ__view_rebase(situ_tensor *base, bool before);
/* t, written in place, is first_order now: and so are its base and all other views of that. */
void situ__view_mark(situ_tensor *t);

#endif
