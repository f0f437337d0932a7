/* Tangents of tensors. See tangent.h.
   SPDX-License-Identifier: MIT */
#include "autograd/tangent.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/refs.h"

/* What holds a tangent in this thread's forward mode, so that its end finds all. */
static SITU__THREAD_LOCAL struct {
  situ__meta **meta;
  int64_t count, capacity;
} known;

bool situ__tangents_begin(const char *op) {
  if (situ__forward_mode != SITU__FORWARD_OFF)
    return situ__fail(
               SITU_E_UNSUPPORTED, op,
               "inside situ_func_jvp: a tangent of a tangent; take the gradient of what situ_func_jvp returns instead "
               "(situ_func_hvp)"),
           false;
  situ__forward_mode = SITU__FORWARD_ON;
  return true;
}

void situ__tangents_end(void) {
  situ__forward_mode = SITU__FORWARD_OFF;
  for (int64_t i = 0; i < known.count; i++) {
    situ_drop(&known.meta[i]->tangent);
    situ__meta_release(known.meta[i]);
  }
  situ__free(known.meta);
  known.meta = NULL;
  known.count = known.capacity = 0;
}

/* Forgets those whose tensors are gone, when the list is full. */
static bool reserve(const char *op) {
  if (known.count < known.capacity) return true;
  int64_t kept = 0;
  for (int64_t i = 0; i < known.count; i++) {
    if (__atomic_load_n(&known.meta[i]->refs, __ATOMIC_ACQUIRE) > 1) known.meta[kept++] = known.meta[i];
    else situ__meta_release(known.meta[i]);
  }
  known.count = kept;
  if (2 * kept < known.capacity) return true;
  return situ__grow(op, &known.meta, &known.capacity, sizeof *known.meta, known.capacity + 1);
}

situ_tensor *situ__tangent(const situ_tensor *t) {
  const situ__meta *m = t ? situ__meta_now(t) : NULL;
  return m ? m->tangent : NULL;
}

bool situ__tangent_set(const char *op, situ_tensor *t, situ_tensor *tangent) {
  situ__meta *m = situ__meta_of(op, t);
  if (!m || !reserve(op)) return false;
  if (!m->tangent) {
    situ__refs_add(&m->refs);
    known.meta[known.count++] = m;
  }
  return situ_set(&m->tangent, tangent);
}

bool situ__tangent_refuse(const char *op, const situ_tensor *t) {
  if (!situ__tangent(t) && !(t && t->base && situ__tangent(t->base))) return true;
  const char *name = situ_name(t);
  return situ__fail(SITU_E_UNSUPPORTED, op, "%s%shas a tangent (situ_func_jvp), which this function would lose",
                    *name ? name : "an operand", " "),
         false;
}
