/* Deep copies of modules that preserve sharing.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "nn/nn.h"
#include "situ/sys/dry.h"
#include "situ/sys/tensor.h"

static const char op[] = "nn_clone";

/* Whether more than one slot may hold it, of this module or another: only then can the copy meet it again. */
static bool is_shared_tensor(const situ_tensor *t) {
  return __atomic_load_n(&situ_desc(t)->storage->slots, __ATOMIC_RELAXED) != 1;
}
static bool is_shared_module(const situ_nn_module *m) { return __atomic_load_n(&m->parents, __ATOMIC_RELAXED) != 1; }

/* A copy that is being made. No other thread knows its parts yet: they are counted without locks, and become part of
   the list of live modules at once. */
typedef struct cloning {
  situ__map made; /* copies of parts that the copy may meet again */
  situ_nn_module *first, *last;
  int64_t count;
  bool dry; /* copies stand for their originals */
} cloning;

static void enlist(cloning *c) {
  if (c->count) situ__nn_enlist(c->first, c->last, c->count);
  c->count = 0;
}

static bool clone_grad(const cloning *c, situ_tensor *to, const situ_tensor *from) {
  situ_tensor *grad = situ_grad(from), *copy = grad ? situ_clone(grad) : NULL;
  if (copy && c->dry) situ_stand_for(copy, grad);
  return !grad || (copy && situ_set_grad(to, copy) == SITU_OK);
}

/* Returns a reference for the caller, also for a shared tensor that was copied already. */
static situ_tensor *clone_tensor(cloning *c, situ_tensor *t) {
  const bool shared = is_shared_tensor(t);
  situ_tensor *copy = shared ? situ__map_get(&c->made, t) : NULL;
  if (copy) return situ_retain(copy);
  copy = situ_duplicate(t);
  if (!copy) return NULL;
  if (c->dry) situ_stand_for(copy, t);
  const bool good = clone_grad(c, copy, t);
  if (good && (!shared || situ__map_put(&c->made, t, copy))) return copy;
  if (good) situ__no_memory(op, sizeof(void *));
  situ_release(copy);
  return NULL;
}

/* But those of objects that are bound to `from`. */
static bool clone_hooks(situ_nn_module *to, const situ_nn_module *from) {
  if (!from->hooks) return true;
  situ__module_hook *list = situ__alloc((size_t)from->hooks->capacity * sizeof *list);
  to->hooks = situ__alloc(sizeof *to->hooks);
  if (!list || !to->hooks) {
    situ__free(list);
    situ__free(to->hooks);
    to->hooks = NULL;
    return situ__no_memory(op, sizeof *to->hooks), false;
  }
  *to->hooks = *from->hooks;
  to->hooks->list = list;
  to->hooks->count = 0;
  for (int64_t i = 0; i < from->hooks->count; i++)
    if (!from->hooks->list[i].wraps) {
      list[to->hooks->count++] = from->hooks->list[i];
      (void)situ__share_text(from->hooks->list[i].text);
    }
  return true;
}

/* Copies the struct with its unregistered fields; registered parts follow. */
static situ_nn_module *clone_struct(cloning *c, const situ_nn_module *m) {
  situ_nn_module *copy = situ__handle_new(SITU__A_MODULE, m->type->size);
  if (!copy) return situ__no_memory(op, m->type->size), NULL;
  copy->type = m->type;
  copy->home = m->home;
  copy->computes_on = m->computes_on;
  copy->training = m->training;
  copy->late_policy = m->late_policy;
  copy->pending = m->pending;
  copy->parametrized = m->parametrized;
  copy->refs = 1;
  memcpy(copy + 1, m + 1, m->type->size - sizeof *m);
  for (int64_t i = 0; i < m->count; i++)
    if (m->slots[i].offset) memset((char *)copy + m->slots[i].offset, 0, sizeof(void *));
  const uint64_t errors = situ__error_count();
  void *const site = situ__origin.within;
  situ__origin.within = NULL; /* what the type's own code makes has lines of its own */
  const situ_status status = m->type->copy ? m->type->copy(copy, m) : SITU_OK;
  situ__origin.within = site;
  if (status != SITU_OK) {
    if (situ__error_count() == errors)
      situ__fail(status, op, "%s: its type's copy failed without an error", m->type->name);
    situ__handle_free(copy, m->type->size, m->type->name);
    return NULL;
  }
  copy->older = c->count ? c->first : NULL;
  if (c->count) c->first->newer = copy;
  else c->last = copy;
  c->first = copy;
  c->count++;
  return copy;
}

static situ_nn_module *clone(cloning *c, situ_nn_module *m, int depth);

static bool clone_parts(cloning *c, situ_nn_module *copy, const situ_nn_module *m, int depth) {
  if (!situ__nn_reserve(copy, m->count)) return situ__no_memory(op, (size_t)m->count * sizeof *m->slots), false;
  for (int64_t i = 0; i < m->count; i++) {
    const situ_nn_slot *slot = &m->slots[i];
    situ__nn_look_ahead(m, i);
    __builtin_prefetch(slot->name, 1);
    const bool child = situ__nn_is_child(slot);
    void *part = child ? (void *)clone(c, slot->held, depth + 1) : (void *)clone_tensor(c, slot->held);
    if (!part) return false;
    if (child) {
      situ_nn_module *own = part;
      own->parents++;
      own->holder = copy;
      own->place = copy->count;
    } else {
      situ_desc(part)->storage->slots++;
    }
    copy->children += child;
    copy->slots[copy->count++] = (situ_nn_slot){
      .name = situ__share_text(slot->name), .kind = slot->kind, .offset = slot->offset, .held = part
    };
    if (slot->offset) memcpy((char *)copy + slot->offset, &part, sizeof part);
  }
  situ__nn_index_copy(copy, m);
  return true;
}

static situ_nn_module *clone(cloning *c, situ_nn_module *m, int depth) {
  const bool shared = is_shared_module(m);
  situ_nn_module *copy = shared ? situ__map_get(&c->made, m) : NULL;
  if (copy) return situ_nn_retain(copy);
  if (depth > SITU__NN_DEPTH || (m->type->release && !m->type->copy))
    return situ__fail(SITU_E_UNSUPPORTED, op, "%s: %s", m->type->name,
                      depth > SITU__NN_DEPTH ? "nested too deep"
                                             : "its type frees something, but does not say how to copy it"),
           NULL;
  copy = clone_struct(c, m);
  if (!copy) return NULL;
  const bool good = clone_hooks(copy, m) && clone_parts(c, copy, m, depth);
  situ__nn_show_originals(copy);
  if (good && (!shared || situ__map_put(&c->made, m, copy))) return copy;
  if (good) situ__no_memory(op, sizeof(void *));
  enlist(c);
  situ_nn_free(copy);
  return NULL;
}

situ_nn_module *situ_nn_clone(situ_nn_module *m) {
  SITU__MADE_OF_OPS("nn_clone");
  if (!situ__nn_given(op, "module", m)) return NULL;
  SITU__CLAIM(claim); /* gradients are copied, too, and a concurrent backward would change them */
  if (!situ__nn_claim(op, m, &claim)) return NULL;
  void *const outer = situ__origin.within, *const site = __builtin_return_address(0);
  /* All tensors of the copy are made at the program's call, which is looked up once. */
  if (!outer && !situ__base_up.own_code(site)) situ__origin.within = site;
  cloning c = { .dry = situ_is_dry() };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_nn_module *copy = clone(&c, m, 0);
  SITU_IGNORE(situ_scope_end(&scope));
  situ__origin.within = outer;
  enlist(&c);
  situ__map_free(&c.made);
  return copy;
}
