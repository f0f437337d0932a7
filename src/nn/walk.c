/* The visitor of modules, and functions based on it: parameters, buffers, modes.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "base/map.h"
#include "base/text.h"
#include "nn/nn.h"
#include "situ/sys/layers.h"

typedef struct walker {
  unsigned which;
  situ_nn_visitor visit;
  void *payload;
  situ__text path;
  situ__map seen;
} walker;

/* True if the part was visited already and must be skipped. */
static bool again(walker *w, void *part, situ_status *status) {
  if (!(w->which & SITU_NN_VISIT_ONCE)) return false;
  if (situ__map_get(&w->seen, part)) return true;
  if (!situ__map_put(&w->seen, part, part)) *status = situ__no_memory("nn_walk", sizeof(void *));
  return false;
}

static situ_status show(walker *w, situ_nn_visit *at) {
  if (w->path.failed) return situ__no_memory("nn_walk", w->path.capacity);
  at->path = at->name = w->path.data ? w->path.data : "";
  if (at->slot && !(w->which & SITU_NN_VISIT_UNNAMED)) at->name += w->path.length - strlen(at->slot->name);
  return w->visit(at, w->payload);
}

/* Appends a name to the path; the returned length restores it. */
static size_t push(walker *w, const char *name) {
  size_t length = w->path.length;
  if (w->which & SITU_NN_VISIT_UNNAMED) return length;
  if (length) situ__text_append(&w->path, ".", 1);
  situ__text_append(&w->path, name, strlen(name));
  return length;
}

static void pop(walker *w, size_t length) {
  w->path.length = length;
  if (w->path.data) w->path.data[length] = 0;
}

static situ_status walk(walker *w, situ_nn_module *m, situ_nn_slot *own, int depth) {
  static const unsigned order[] = { SITU_NN_PARAMETER, SITU_NN_VISIT_BUFFERS, SITU_NN_CHILD };
  unsigned inside = SITU_NN_VISIT_MODULES | SITU_NN_VISIT_LEAVE | SITU_NN_VISIT_TENSORS;
  unsigned present = 0;
  const int64_t count = situ__nn_count(m);
  for (int64_t i = 0; i < count; i++) present |= m->slots[i].kind;
  situ_status status = SITU_OK;
  if (depth > SITU__NN_DEPTH)
    return situ__fail(SITU_E_LIMIT, "nn_walk", "%s: modules nested more than %d deep", w->path.data, SITU__NN_DEPTH);
  situ_nn_visit at = { .depth = depth, .module = m, .slot = own };
  if (again(w, m, &status)) return SITU_OK;
  if (status == SITU_OK && w->which & SITU_NN_VISIT_MODULES) status = show(w, &at);
  for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
    unsigned kinds = order[k] & (w->which & inside ? w->which | SITU_NN_CHILD : w->which);
    if (!(kinds & present)) continue;
    for (int64_t i = 0; i < situ__nn_count(m) && status == SITU_OK; i++) {
      situ_nn_slot *slot = &m->slots[i];
      if (!(slot->kind & kinds)) continue;
      situ__nn_look_ahead(m, i);
      size_t length = push(w, slot->name);
      if (situ__nn_is_child(slot)) {
        status = walk(w, slot->held, slot, depth + 1);
      } else if (!again(w, slot->held, &status) && status == SITU_OK) {
        at.slot = slot;
        at.tensor = slot->held;
        status = show(w, &at);
      }
      pop(w, length);
    }
  }
  at.slot = own;
  at.tensor = NULL;
  at.leaving = true;
  if (status == SITU_OK && w->which & SITU_NN_VISIT_LEAVE) status = show(w, &at);
  return status;
}

situ_status situ_nn_walk(situ_nn_module *m, unsigned which, situ_nn_visitor visit, void *payload) {
  if (!situ__nn_given("nn_walk", "module", m)) return situ_error();
  if (!visit) return situ__null("nn_walk", "visit");
  walker w = { .which = which, .visit = visit, .payload = payload };
  situ__use use;
  if (!situ__module_use("nn_walk", m, &use)) return situ_error();
  situ_status status = walk(&w, m, NULL, 0);
  situ__use_end();
  situ__text_free(&w.path);
  situ__map_free(&w.seen);
  return status;
}

/* ---- lists of tensors ---- */

typedef struct collecting {
  const char *op;
  situ_tree *dict;
} collecting;

situ_status situ__nn_has_parameters(const char *op, const situ_nn_visit *at) {
  if (!situ__nn_pending(at->module)) return SITU_OK;
  return situ__fail(SITU_E_STATE, op, "%s%s%s has no parameters yet: it makes them from its first input", at->path,
                    *at->path ? ", a " : "this ", at->module->type->name);
}

static situ_status collect_one(const situ_nn_visit *at, void *payload) {
  collecting *c = payload;
  if (at->tensor) {
    c->dict = situ_tree_put(c->dict, at->path, situ_tree_tensor(at->tensor));
    return c->dict ? SITU_OK : situ_error();
  }
  return situ__nn_has_parameters(c->op, at);
}

static situ_tree *collect(const char *op, situ_nn_module *m, unsigned which) {
  collecting c = { op, situ_tree_dict() };
  if (c.dict && situ_nn_walk(m, which | SITU_NN_VISIT_MODULES, collect_one, &c) != SITU_OK) {
    situ_tree_free(c.dict);
    return NULL;
  }
  return c.dict;
}

situ_tree *situ_nn_parameters(situ_nn_module *m) {
  return collect("nn_parameters", m, SITU_NN_PARAMETER | SITU_NN_VISIT_ONCE);
}
situ_tree *situ_nn_buffers(situ_nn_module *m) {
  return collect("nn_buffers", m, SITU_NN_VISIT_BUFFERS | SITU_NN_VISIT_ONCE);
}
situ_tree *situ_nn_state_dict(situ_nn_module *m) {
  SITU__MADE_OF_OPS("nn_state_dict");
  return collect("nn_state_dict", m, SITU_NN_PARAMETER | SITU_NN_BUFFER);
}

static situ_status count_one(const situ_nn_visit *at, void *payload) {
  *(int64_t *)payload += situ_numel(at->tensor);
  return SITU_OK;
}

int64_t situ_nn_num_parameters(const situ_nn_module *m) {
  int64_t count = 0;
  /* The visitor only reads. */
  return situ_nn_walk((situ_nn_module *)m, SITU_NN_PARAMETER | SITU_NN_VISIT_ONCE, count_one, &count) == SITU_OK ? count
                                                                                                                 : -1;
}

/* ---- looking up ---- */

/* Finds the part at a path; returns false if there is none. *slot NULL: m itself. */
static bool find(situ_nn_module *m, const char *path, situ_nn_slot **slot) {
  *slot = NULL;
  while (*path) {
    size_t length = strcspn(path, ".");
    *slot = situ__nn_find_part(m, path, length);
    if (!*slot || (path[length] && !situ__nn_is_child(*slot))) return false;
    if (situ__nn_is_child(*slot)) m = (*slot)->held;
    path += length + (path[length] != 0);
  }
  return true;
}

static void *get(const char *op, situ_nn_module *m, const char *path, bool child) {
  situ_nn_slot *slot;
  if (!situ__nn_given(op, "module", m) || !situ__given(op, "path", path)) return NULL;
  bool found = find(m, path, &slot);
  if (found && !slot && child) return m;
  if (found && slot && situ__nn_is_child(slot) == child) return slot->held;
  return situ__fail(SITU_E_ARG, op, "%s has no %s \"%s\"", m->type->name, child ? "module" : "parameter or buffer",
                    path),
         NULL;
}

situ_nn_module *situ_nn_get_submodule(situ_nn_module *m, const char *path) {
  return get("nn_get_submodule", m, path, true);
}
situ_tensor *situ_nn_get_tensor(situ_nn_module *m, const char *path) { return get("nn_get_tensor", m, path, false); }

int64_t situ_nn_unheld(const situ_nn_module **list, int64_t capacity) {
  int64_t count = 0;
  situ__nn_lock();
  for (const situ_nn_module *m = situ__nn_newest(); m; m = m->older) {
    if (!m->within || m->build || __atomic_load_n(&m->parents, __ATOMIC_RELAXED)) continue;
    if (count < capacity) list[count] = m;
    count++;
  }
  situ__nn_unlock();
  return count;
}

/* ---- changes of all parts ---- */

typedef struct applying {
  situ_status (*fn)(situ_nn_module *m, void *payload);
  void *payload;
} applying;

static situ_status apply_one(const situ_nn_visit *at, void *payload) {
  applying *a = payload;
  return a->fn(at->module, a->payload);
}

situ_status situ_nn_apply(situ_nn_module *m, situ_status (*fn)(situ_nn_module *, void *), void *payload) {
  if (!fn) return situ__null("nn_apply", "fn");
  return situ_nn_walk(m, SITU_NN_VISIT_LEAVE | SITU_NN_VISIT_ONCE, apply_one, &(applying){ fn, payload });
}

/* A walk that changes what it visits. */
static situ_status change_all(const char *op, situ_nn_module *m, unsigned which, situ_nn_visitor change,
                              void *payload) {
  SITU__CLAIM(claim);
  return situ__nn_given(op, "module", m) && situ__nn_claim(op, m, &claim) ? situ_nn_walk(m, which, change, payload)
                                                                          : situ_error();
}

static situ_status train_one(const situ_nn_visit *at, void *payload) {
  at->module->training = *(bool *)payload;
  return SITU_OK;
}

situ_nn_module *situ_nn_train(situ_nn_module *m, bool on) {
  return change_all("nn_train", m, SITU_NN_VISIT_MODULES, train_one, &on) == SITU_OK ? m : NULL;
}
situ_nn_module *situ_nn_eval(situ_nn_module *m) { return situ_nn_train(m, false); }

static situ_status set_late_policy(const situ_nn_visit *at, void *payload) {
  at->module->late_policy = *(const uint8_t *)payload;
  return SITU_OK;
}

situ_nn_module *situ_nn_set_late_policy(situ_nn_module *m, situ_nn_late_policy policy) {
  static const char op[] = "nn_set_late_policy";
  uint8_t own = (uint8_t)policy;
  if ((unsigned)policy > SITU_NN_LATE_ERROR)
    return situ__fail(SITU_E_ARG, op, "policy is %d, must be one of situ_nn_late_policy", (int)policy), NULL;
  return change_all(op, m, SITU_NN_VISIT_MODULES, set_late_policy, &own) == SITU_OK ? m : NULL;
}

static situ_status require_one(const situ_nn_visit *at, void *payload) {
  return situ_requires_grad_(at->tensor, *(bool *)payload) ? SITU_OK : situ_error();
}

situ_nn_module *situ_nn_requires_grad_(situ_nn_module *m, bool wanted) {
  return change_all("nn_requires_grad_", m, SITU_NN_PARAMETER, require_one, &wanted) == SITU_OK ? m : NULL;
}

static situ_status drop_grad(const situ_nn_visit *at, void *payload) {
  (void)payload;
  return situ_set_grad(at->tensor, NULL);
}

void situ_nn_zero_grad(situ_nn_module *m) {
  SITU_IGNORE(change_all("nn_zero_grad", m, SITU_NN_PARAMETER, drop_grad, NULL));
}
