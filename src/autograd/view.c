/* Views and their bases: which tensors an in-place write affects, and which writes are errors.
   SPDX-License-Identifier: MIT */
#include "autograd/view.h"

#include "base/fail.h"
#include "base/mutex.h"
#include "base/refs.h"

void situ__view_link(situ_tensor *view, situ_tensor *of, situ__view_kind kind) {
  situ_tensor *base = of->base ? of->base : of;
  if (view->view.dtype < SITU_F16 || view->base) return;
  situ__refs_add(&base->refs);
  view->base = base;
  view->rebased = base->rebased;
  if (of->base && of->view_kind > kind) kind = (situ__view_kind)of->view_kind;
  if (kind != SITU__VIEW_FREE) situ__view_fix(view, kind);
}

void situ__view_fix(situ_tensor *view, situ__view_kind kind) {
  if (!view->base || kind <= (situ__view_kind)view->view_kind) return;
  view->view_kind = (uint8_t)kind;
  if (kind > SITU__VIEW_ONE_OF) __atomic_store_n(&view->base->view_kind, (uint8_t)kind, __ATOMIC_RELAXED);
}

void situ__view_settle(situ_tensor *view) {
  situ_tensor *base = view->base;
  view->base = NULL;
  view->view_kind = SITU__VIEW_FREE;
  situ_release(base);
}

/* Returns the tensor's name, or "this tensor". */
static const char *label_of(const situ_tensor *t) { return *situ_name(t) ? situ_name(t) : "this tensor"; }

static bool refuse_kind(const char *op, const situ_tensor *t, const char *what) {
  static const char *const why[] = {
    [SITU__VIEW_ONE_OF] =
        "one of several views that split, chunk or unbind returned; take that part with situ_narrow or situ_select",
    [SITU__VIEW_NO_GRAD] =
        "a view that was made in a no_grad scope, and whether the write belongs to its history cannot be told; "
        "make the view where gradients are recorded, or write in the no_grad scope too",
    [SITU__VIEW_FUNCTION] = "a view that a function returned; clone it first",
    [SITU__VIEW_OUTSIDE] = "a view that shows elements which its base does not have; clone it first",
  };
  return situ__fail(SITU_E_STATE, op, "%s %s where gradients are recorded, but it is %s", label_of(t), what,
                    why[t->view_kind]),
         false;
}

/* Guards situ__view_refresh: several threads may use one view. */
static situ__mutex refreshing = SITU__MUTEX_INIT;

bool situ__view_refresh(const char *op, situ_tensor *t) {
  if (t->view_kind > SITU__VIEW_ONE_OF) return refuse_kind(op, t, "is used after its base was written in place");
  bool good = true;
  situ__mutex_lock(&refreshing);
  if (situ__view_is_stale(t)) {
    situ__node *n = situ__autograd_up.node_of_view(t);
    good = n && situ__tape_attach(n, &t);
    if (n) __atomic_store_n(&t->rebased, t->base->rebased, __ATOMIC_RELEASE);
  }
  situ__mutex_unlock(&refreshing);
  return good;
}

/* Returns true if another view of base is a leaf that requires a gradient. */
static bool has_leaf_view(const situ_tensor *base, const situ_tensor *t) {
  bool found = false;
  for (const situ_tensor *v = situ__handles_begin(base->view.storage); v && !found; v = v->next_handle)
    found = v != t && v->base == base && v->requires_grad && !v->node && !situ__view_is_stale(v);
  situ__handles_end(base->view.storage);
  return found;
}

bool situ__view_may_write(const char *op, const situ_tensor *t, bool recorded) {
  const situ_tensor *base = t->base ? t->base : t;
  const bool leaf = t->requires_grad && !t->node, leaf_base = base->requires_grad && !base->node;
  if (leaf || leaf_base)
    return situ__fail(SITU_E_STATE, op,
                      "%s leaf that requires a gradient is written in place; do it in a no_grad scope",
                      leaf ? "a" : "a view of a"),
           false;
  if (t->base && t->view_kind != SITU__VIEW_FREE && (recorded || base->requires_grad))
    return refuse_kind(op, t, "is written in place");
  if (t->base && recorded && situ__desc_overlaps(&base->view))
    return situ__fail(SITU_E_ALIAS, op,
                      "%s is written in place, but elements of its base share memory (expanded?); clone it first",
                      label_of(t)),
           false;
  if (recorded && !base->requires_grad && has_leaf_view(base, t))
    return situ__fail(SITU_E_STATE, op,
                      "%s is written in place, but a leaf that requires a gradient is a view of the same memory; "
                      "write under no_grad, or clone one of them",
                      label_of(t)),
           false;
  return true;
}

void situ__view_rebase(situ_tensor *base, bool before) {
  base->rebased++;
  if (before && !__atomic_load_n(&base->view_kind, __ATOMIC_RELAXED)) return;
  for (situ_tensor *v = situ__handles_begin(base->view.storage); v; v = v->next_handle)
    if (v->base == base) v->requires_grad = true;
  situ__handles_end(base->view.storage);
}

void situ__view_mark(situ_tensor *t) {
  situ_tensor *base = t->base ? t->base : t;
  for (situ_tensor *v = situ__handles_begin(base->view.storage); v; v = v->next_handle)
    if (v == base || v->base == base) v->first_order = true;
  situ__handles_end(base->view.storage);
}
