/* Home for late parts: what is added to a module that was finished before comes to where the module lives.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "nn/nn.h"
#include "situ/sys/move.h"

/* meta is no home to bring values to, and nothing can be brought from there that has none. */
static bool apart(situ_device a, situ_device home) {
  return a.kind != SITU_META && !situ_device_equal(a, home);
}

typedef struct survey {
  situ_device home;
  situ_move *list; /* NULL: only count */
  int64_t count;   /* tensors that are elsewhere */
} survey;

static situ_status look(const situ_nn_visit *at, void *payload) {
  survey *s = payload;
  if (!apart(situ_device_of(at->tensor), s->home)) return SITU_OK;
  if (s->list) s->list[s->count] = (situ_move){ at->tensor, s->home, SITU_DTYPE_DEFAULT };
  s->count++;
  return SITU_OK;
}

static bool walk(situ_nn_module *m, survey *s) {
  return situ_nn_walk(m, SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_UNNAMED, look, s) == SITU_OK;
}

static situ_status settle(const situ_nn_visit *at, void *payload) {
  at->module->home = *(const situ_device *)payload;
  return SITU_OK;
}

static bool move(const char *op, const situ_move *list, int64_t count) {
  situ_moving *moving = situ_moving_plan(op, list, count);
  bool good = moving && situ_moving_make(moving, false) == SITU_OK;
  situ_moving_free(moving);
  return good;
}

/* The one place of a finished module that is not on meta; {0}: there is none, or it is spread over several. */
static situ_device place_of(situ_nn_module *m) {
  survey s = { .home = situ_nn_home(m) };
  if (m->build || !s.home.kind || s.home.kind == SITU_META) return (situ_device){ 0 };
  return walk(m, &s) && s.count == 0 ? s.home : (situ_device){ 0 };
}

bool situ__nn_adopt_tensor(const char *op, situ_nn_module *m, situ_tensor *t) {
  situ_device home = situ_nn_home(m);
  if (m->build || !home.kind || !apart(situ_device_of(t), home)) return true;
  home = place_of(m);
  return !home.kind || move(op, &(situ_move){ t, home, SITU_DTYPE_DEFAULT }, 1);
}

bool situ__nn_adopt_child(const char *op, situ_nn_module *m, situ_nn_module *child) {
  if (m->build) return true;
  survey s = { .home = situ_nn_home(m) };
  if (!s.home.kind || s.home.kind == SITU_META) return true;
  if (!walk(child, &s)) return false;
  situ_device home = s.count || !situ_nn_home(child).kind ? place_of(m) : (situ_device){ 0 };
  if (!home.kind) return true;
  if (s.count) {
    s.list = situ__alloc((size_t)s.count * sizeof *s.list);
    if (!s.list) return situ__no_memory(op, (size_t)s.count * sizeof *s.list), false;
    s.count = 0;
    bool good = walk(child, &s) && move(op, s.list, s.count);
    situ__free(s.list);
    if (!good) return false;
  }
  return situ_nn_walk(child, SITU_NN_VISIT_MODULES, settle, &home) == SITU_OK;
}
