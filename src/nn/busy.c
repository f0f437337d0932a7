/* Modules that several threads use: the marks that a call shares and a change claims (base/busy.h).
   SPDX-License-Identifier: MIT */
#include <stdarg.h>

#include "base/fail.h"
#include "nn/nn.h"
#include "situ/sys/shape.h"

static uint64_t *mark_of(const situ_nn_module *m) { return (uint64_t *)(uintptr_t)&m->busy; }

/* `owned`: only modules without other owners, and no tensors, which have their own reference counts. */
static bool each(const situ_nn_module *m, situ__mark_visitor *visit, bool owned, int depth) {
  if (!visit(mark_of(m))) return false;
  for (int64_t i = 0; i < m->count && depth < SITU__NN_DEPTH; i++) {
    const situ_nn_slot *slot = &m->slots[i];
    situ__nn_look_ahead(m, i);
    if (!situ__nn_is_child(slot)) {
      if (!owned && !visit(&situ_desc(slot->held)->storage->busy)) return false;
      continue;
    }
    const situ_nn_module *child = slot->held;
    if (owned && __atomic_load_n(&child->refs, __ATOMIC_RELAXED) > 1) continue;
    if (!each(child, visit, owned, depth + 1)) return false;
  }
  return true;
}

bool situ__module_marks(const void *object, situ__mark_visitor *visit) {
  situ__nn_lock();
  bool good = each(object, visit, false, 0);
  situ__nn_unlock();
  return good;
}

static bool owned_marks(const void *object, situ__mark_visitor *visit) {
  situ__nn_lock();
  bool good = each(object, visit, true, 0);
  situ__nn_unlock();
  return good;
}

static bool own_mark(const void *object, situ__mark_visitor *visit) { return visit(mark_of(object)); }

bool situ__module_use(const char *op, const void *module, situ__use *use) {
  return __builtin_expect(situ__use_begin(use, situ__module_marks, module), 1) ||
         situ__busy(op, situ__nn_type(module)->name);
}

bool situ__nn_claim(const char *op, const situ_nn_module *m, situ__claim *claim) {
  return situ__claim_begin(claim, situ__module_marks, m) || situ__busy(op, situ__nn_type(m)->name);
}

bool situ__nn_change(const char *op, const situ_nn_module *m, situ__claim *claim) {
  *claim = (situ__claim){ 0 };
  if (m->standing_in)
    return situ__fail(SITU_E_STATE, op, "the forward of a parametrized %s cannot change its parts", m->type->name),
           false;
  if (m->build || situ__nn_pending(m)) return true;
  return situ__claim_begin(claim, own_mark, m) || situ__busy(op, situ__nn_type(m)->name);
}

uint64_t situ__nn_write_begin(int count, ...) {
  uint64_t locks = 0;
  va_list list;
  va_start(list, count);
  for (int i = 0; i < count; i++) {
    const situ_tensor *t = va_arg(list, situ_tensor *);
    if (t) locks |= situ__write_lock_of(situ_desc(t)->storage);
  }
  va_end(list);
  return situ__write_begin(locks);
}

bool situ__nn_claim_to_free(const char *op, const situ_nn_module *m, situ__claim *claim) {
  return __atomic_load_n(&m->refs, __ATOMIC_ACQUIRE) > 1 || situ__claim_begin(claim, owned_marks, m) ||
         situ__busy(op, situ__nn_type(m)->name);
}
