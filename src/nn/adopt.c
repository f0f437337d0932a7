/* Moves late parts: a part that is added to a finished module moves to the module's device. A module whose device was
   set by an option or a move stays there; one that another model shares is not moved away from it.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "nn/nn.h"
#include "situ/sys/move.h"

/* True if a tensor must move to `home`. Tensors on meta have no values to move, and meta is not a target. */
static bool apart(situ_device a, situ_device home) { return a.kind != SITU_META && !situ_device_equal(a, home); }

/* True if this module was put on another device explicitly. */
static bool is_stated_elsewhere(const situ_nn_module *m, situ_device home) {
  return m->home.kind && m->home.kind != SITU_META && !situ_device_equal(m->home, home);
}

typedef struct survey {
  situ_device home;
  situ_move_request *list; /* NULL: only count */
  int64_t count;           /* tensors on other devices */
  bool late;               /* for a late part: skips modules that were put elsewhere explicitly */
} survey;

static situ_status look(const situ_nn_visit *at, void *payload) {
  survey *s = payload;
  if (!apart(situ_device_of(at->tensor), s->home) || (s->late && is_stated_elsewhere(at->module, s->home)))
    return SITU_OK;
  if (s->list) s->list[s->count] = (situ_move_request){ at->tensor, s->home, SITU_DTYPE_DEFAULT };
  s->count++;
  return SITU_OK;
}

static bool walk(situ_nn_module *m, survey *s) {
  return situ_nn_walk(m, SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_UNNAMED, look, s) == SITU_OK;
}

static situ_status settle(const situ_nn_visit *at, void *payload) {
  const situ_device home = *(const situ_device *)payload;
  if (!is_stated_elsewhere(at->module, home)) at->module->home = home;
  return SITU_OK;
}

static bool is_inside(const situ_nn_module *m, const situ_nn_module *part, int depth) {
  if (m == part || depth > SITU__NN_DEPTH) return m == part;
  for (int64_t i = 0; i < m->count; i++)
    if (situ__nn_is_child(&m->slots[i]) && is_inside(m->slots[i].held, part, depth + 1)) return true;
  return false;
}

/* Another module, outside child, that shares child or a tensor that would move, and so would be affected. */
static const situ_nn_module *other_owner(const situ_nn_module *child, const survey *s, const char **part) {
  const situ_nn_module *found = NULL;
  situ__nn_lock();
  for (const situ_nn_module *m = situ__nn_newest(); m && !found; m = m->older)
    for (int64_t i = 0; i < m->count && !found; i++) {
      const situ_nn_slot *slot = &m->slots[i];
      bool has = slot->held == child;
      for (int64_t k = 0; !has && k < s->count && !situ__nn_is_child(slot); k++) has = slot->held == s->list[k].tensor;
      if (!has || is_inside(child, m, 0)) continue;
      found = m;
      *part = slot->name;
    }
  situ__nn_unlock();
  return found;
}

static bool refuse_shared(const char *op, const situ_nn_module *m, const situ_nn_module *child, const survey *s) {
  const char *part = "", *name;
  const situ_nn_module *other = other_owner(child, s, &part);
  if (!other) return false;
  char here[SITU_DEVICE_NAME_MAX], there[SITU_DEVICE_NAME_MAX];
  name = other->name ? other->name : other->type->name;
  return situ__fail(SITU_E_DEVICE, op,
                    "the %s is also %s.%s, on %s: as a part of %s, which is on %s, it would be moved there, and "
                    "away from %s; move one of them first (situ_nn_to), or add a copy (situ_nn_clone)",
                    child->type->name, name, part, situ_device_name(situ_device_of(s->list[0].tensor), there),
                    m->name ? m->name : m->type->name, situ_device_name(s->home, here), name),
         true;
}

static bool move(const char *op, const situ_move_request *list, int64_t count) {
  situ_move_plan *moving = situ_move_plan_new(op, list, count);
  bool good = moving && situ_move_plan_run(moving, false) == SITU_OK;
  situ_move_plan_free(moving);
  return good;
}

/* The one device of a finished module, unless it is meta; {0} if it has none or several. */
static situ_device place_of(situ_nn_module *m) {
  survey s = { .home = situ_nn_home(m) };
  if (m->build || !s.home.kind || s.home.kind == SITU_META) return (situ_device){ 0 };
  return walk(m, &s) && s.count == 0 ? s.home : (situ_device){ 0 };
}

bool situ__nn_adopt_tensor(const char *op, situ_nn_module *m, situ_tensor *t) {
  situ_device home = situ_nn_home(m);
  if (m->build || !home.kind || !apart(situ_device_of(t), home)) return true;
  home = place_of(m);
  return !home.kind || move(op, &(situ_move_request){ t, home, SITU_DTYPE_DEFAULT }, 1);
}

static situ_status mark_late(const situ_nn_visit *at, void *payload) {
  (void)payload;
  at->module->late = true;
  return SITU_OK;
}

bool situ__nn_adopt_child(const char *op, situ_nn_module *m, situ_nn_module *child) {
  if (m->build) return true;
  if (situ_nn_walk(child, SITU_NN_VISIT_MODULES, mark_late, NULL) != SITU_OK) return false;
  survey s = { .home = situ_nn_home(m), .late = true };
  if (!s.home.kind || s.home.kind == SITU_META) return true;
  if (!walk(child, &s)) return false;
  situ_device home = s.count || !situ_nn_home(child).kind ? place_of(m) : (situ_device){ 0 };
  if (!home.kind) return true;
  if (s.count) {
    s.list = situ__alloc((size_t)s.count * sizeof *s.list);
    if (!s.list) return situ__no_memory(op, (size_t)s.count * sizeof *s.list), false;
    s.count = 0;
    bool good = walk(child, &s) && !refuse_shared(op, m, child, &s) && move(op, s.list, s.count);
    situ__free(s.list);
    if (!good) return false;
  }
  return situ_nn_walk(child, SITU_NN_VISIT_MODULES, settle, &home) == SITU_OK;
}
