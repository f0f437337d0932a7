/* Moves late parts: a part that is added to a finished module moves to the module's device. A part is one whole: if a
   device was stated for any module of it, all of it stays. One that another model shares is not moved away from it.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

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
  situ_device from;        /* that of the first of them */
  bool stated;             /* a module was put elsewhere explicitly */
} survey;

static situ_status look(const situ_nn_visit *at, void *payload) {
  survey *s = payload;
  if (!at->tensor) return s->stated |= is_stated_elsewhere(at->module, s->home), SITU_OK;
  if (!apart(situ_device_of(at->tensor), s->home)) return SITU_OK;
  if (!s->count) s->from = situ_device_of(at->tensor);
  if (s->list) s->list[s->count] = (situ_move_request){ at->tensor, s->home, SITU_DTYPE_DEFAULT };
  s->count++;
  return SITU_OK;
}

static bool walk(situ_nn_module *m, survey *s) {
  return situ_nn_walk(m, SITU_NN_VISIT_MODULES | SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_UNNAMED, look, s) == SITU_OK;
}

static const char *called(const situ_nn_module *m) { return m->name ? m->name : m->type->name; }

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
  name = called(other);
  return situ__fail(SITU_E_DEVICE, op,
                    "the %s is also %s.%s, on %s: as a part of %s, which is on %s, it would be moved there, and "
                    "away from %s; move one of them first (situ_nn_to), or add a copy (situ_nn_clone)",
                    child->type->name, name, part, situ_device_name(situ_device_of(s->list[0].tensor), there),
                    called(m), situ_device_name(s->home, here), name),
         true;
}

static bool move(const char *op, const situ_move_request *list, int64_t count) {
  situ_move_plan *moving = situ_move_plan_new(op, list, count);
  bool good = moving && situ_move_plan_run(moving, false) == SITU_OK;
  situ_move_plan_free(moving);
  return good;
}

/* The one device of a finished module, unless it is meta; {0} if it has none or several, or computes elsewhere. */
static situ_device place_of(situ_nn_module *m) {
  survey s = { .home = situ_nn_home(m) };
  if (m->build || !s.home.kind || s.home.kind == SITU_META || m->computes_on.kind) return (situ_device){ 0 };
  return walk(m, &s) && s.count == 0 ? s.home : (situ_device){ 0 };
}

/* Does what m's policy says of a part on another device. Returns false after recording an error. */
static bool heed_policy(const char *op, const situ_nn_module *m, const char *part, const survey *s) {
  char from[SITU_DEVICE_NAME_MAX], home[SITU_DEVICE_NAME_MAX], line[256] = "";
  if (m->late_policy == SITU_NN_LATE_ADOPT) return true;
  situ_device_name(s->from, from);
  situ_device_name(s->home, home);
  if (m->late_policy == SITU_NN_LATE_ERROR)
    return situ__fail(SITU_E_DEVICE, op,
                      "%s is on %s, and %s, which takes no part from elsewhere (situ_nn_set_late_policy), is on %s: "
                      "move it there first",
                      part, from, called(m), home),
           false;
  void *site = situ__base_up.call_site();
  if (site) (void)situ__base_up.site_text(site, line, sizeof line);
  situ__log("%s: %s is on %s, and %s on %s: it %s%s%s", op, part, from, called(m), home,
            s->stated ? "stays, since that was stated for it" : "is moved there", *line ? "\n  at " : "", line);
  return true;
}

bool situ__nn_adopt_tensor(const char *op, situ_nn_module *m, situ_tensor *t) {
  survey s = { .home = situ_nn_home(m), .from = situ_device_of(t) };
  if (m->build || !s.home.kind || !apart(s.from, s.home) || !place_of(m).kind) return true;
  return heed_policy(op, m, situ_name(t), &s) && move(op, &(situ_move_request){ t, s.home, SITU_DTYPE_DEFAULT }, 1);
}

/* Moves all of child that is elsewhere. */
static bool fetch(const char *op, const situ_nn_module *m, situ_nn_module *child, survey *s) {
  s->list = situ__alloc((size_t)s->count * sizeof *s->list);
  if (!s->list) return situ__no_memory(op, (size_t)s->count * sizeof *s->list), false;
  s->count = 0;
  const bool good = walk(child, s) && !refuse_shared(op, m, child, s) && move(op, s->list, s->count);
  situ__free(s->list);
  return good;
}

typedef struct late_part {
  situ_device home, computes_on; /* {0}: it keeps its own */
  uint8_t policy;
} late_part;

static situ_status settle(const situ_nn_visit *at, void *payload) {
  const late_part *to = payload;
  at->module->late = true;
  if (to->policy) at->module->late_policy = to->policy;
  if (to->home.kind) at->module->home = to->home;
  if (to->computes_on.kind) at->module->computes_on = to->computes_on;
  return SITU_OK;
}

bool situ__nn_adopt_child(const char *op, situ_nn_module *m, situ_nn_module *child) {
  if (m->build) return true;
  survey s = { .home = situ_nn_home(m) };
  late_part to = { .policy = m->late_policy, .computes_on = m->computes_on };
  if (s.home.kind && s.home.kind != SITU_META) {
    if (!walk(child, &s)) return false;
    if (s.count || !situ_nn_home(child).kind) to.home = place_of(m);
    if (to.home.kind && s.count) {
      char part[80];
      (void)snprintf(part, sizeof part, "the %.60s", child->type->name);
      if (!heed_policy(op, m, part, &s) || (!s.stated && !fetch(op, m, child, &s))) return false;
    }
    if (s.stated) to.home = (situ_device){ 0 };
  }
  return situ_nn_walk(child, SITU_NN_VISIT_MODULES, settle, &to) == SITU_OK;
}
