/* Views that know their base, so that an in-place write through one is visible through the other, as in
   PyTorch. A recorded write through a view makes two nodes: the op itself, from the view's old value to its new one,
   and "the base with that part replaced". A base counts how often its history was replaced; a view with an older
   count gets a new history, as a view of the base, when it is next used.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_VIEW_H
#define SITU_AUTOGRAD_VIEW_H

#include "autograd/tape.h"

/* Views other than SITU__VIEW_FREE cannot be written in place while recording. */
typedef enum situ__view_kind {
  SITU__VIEW_FREE,     /* a view made while recording; or not a view */
  SITU__VIEW_ONE_OF,   /* one of several views that one function returned */
  SITU__VIEW_NO_GRAD,  /* made in a no_grad scope */
  SITU__VIEW_FUNCTION, /* returned by a custom function */
  SITU__VIEW_OUTSIDE   /* has elements outside its base */
} situ__view_kind;

/* Makes view, which is on the memory of `of`, a differentiable view of it. */
void situ__view_link(situ_tensor *view, situ_tensor *of, situ__view_kind kind);
/* Raises the kind of a view. */
void situ__view_fix(situ_tensor *view, situ__view_kind kind);
/* Makes a view of a tensor that no caller has a base of its own. */
void situ__view_settle(situ_tensor *view);

/* Returns true if t's history is that of an earlier value. */
static inline bool situ__view_is_stale(const situ_tensor *t) {
  return t->base && t->requires_grad && __atomic_load_n(&t->rebased, __ATOMIC_ACQUIRE) != t->base->rebased;
}
/* Renews t's history. Returns false after recording an error. */
bool situ__view_refresh(const char *op, situ_tensor *t);
static inline bool situ__view_fresh(const char *op, situ_tensor *t) {
  return !situ__view_is_stale(t) || situ__view_refresh(op, t);
}

/* Returns false after recording an error if t cannot be written in place. `recorded`: the write itself is
   recorded. */
bool situ__view_may_write(const char *op, const situ_tensor *t, bool recorded);
/* Call after base's history was replaced: counts it, which outdates its views. `before`: base required a gradient
   already. */
void situ__view_rebase(situ_tensor *base, bool before);
/* Marks t, its base and all views of that base as first_order, after a write in place. */
void situ__view_mark(situ_tensor *t);

#endif
