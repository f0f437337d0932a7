/* Tensors that stay as they are while they are saved.
   SPDX-License-Identifier: MIT */
#include "still.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/problem.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static bool visit_mark(const situ_tensor *t, situ__mark_visitor *visit) {
  return !t || visit(&situ_desc(t)->storage->busy);
}

static bool own_marks(const void *object, situ__mark_visitor *visit) {
  const situ__still *s = object;
  bool good = true;
  for (int64_t i = 0; good && i < s->count; i++) good = visit_mark(s->list[i].tensor, visit);
  return good;
}

static bool leader_marks(const void *object, situ__mark_visitor *visit) {
  const situ__still *s = object;
  bool good = true;
  for (int64_t i = 0; good && i < s->count; i++) good = visit_mark(s->list[i].leader, visit);
  return good;
}

static uint32_t version_of(const situ_tensor *t) { return t ? situ_version_of(t) : 0; }

static void find_leader(situ_relation how, const situ_tensor *other, void *payload) {
  situ_tensor **leader = payload;
  if (how == SITU_FOLLOWS && !*leader) *leader = situ_retain((situ_tensor *)(uintptr_t)other);
}

/* What a tensor moves with at last: the state of a part of ZeRO-3 follows the part, and that a parameter. */
static situ_tensor *last_leader(situ_tensor *t) {
  situ_tensor *last = NULL, *up = NULL;
  for (situ_each_relative(t, find_leader, &up); up; situ_each_relative(last, find_leader, &up)) {
    situ_release(last);
    last = up;
    up = NULL;
  }
  return last;
}

static void free_list(situ__still *s) {
  for (int64_t i = 0; i < s->count; i++) situ_release(s->list[i].leader);
  situ__free(s->list);
  *s = (situ__still){ 0 };
}

situ_tensor *situ__still_one(const void *list, int64_t i, const char **name) {
  (void)i;
  *name = situ_name(list);
  return (situ_tensor *)(uintptr_t)list;
}

/* A tensor that might move meanwhile must not be asked for its leader. */
static bool use_all(situ__still *s) {
  if (!situ__use_begin(&s->own, own_marks, s)) return false;
  for (int64_t i = 0; i < s->count; i++)
    if (s->list[i].tensor) s->list[i].leader = last_leader(s->list[i].tensor);
  if (situ__use_begin(&s->leaders, leader_marks, s)) return true;
  situ__use_end();
  return false;
}

bool situ__still_begin(const char *op, situ__still *s, situ__still_at *at, const void *list, int64_t count) {
  const size_t bytes = ((size_t)count + 1) * sizeof *s->list;
  *s = (situ__still){ .list = situ__calloc(1, bytes), .count = count };
  if (!s->list) return situ__no_memory(op, bytes), false;
  bool good = true;
  for (int64_t i = 0; i < count; i++) {
    s->list[i].tensor = at(list, i, &s->list[i].name);
    good = good && (!s->list[i].tensor || situ_desc(s->list[i].tensor));
  }
  if (!good || !use_all(s)) {
    free_list(s);
    return good && situ__busy(op, "a tensor to save");
  }
  for (int64_t i = 0; i < count; i++) s->list[i].version = version_of(s->list[i].tensor);
  return true;
}

bool situ__still_unchanged(const char *op, const situ__still *s) {
  char shown[SITU__SHOWN_MAX];
  for (int64_t i = 0; i < s->count; i++)
    if (version_of(s->list[i].tensor) != s->list[i].version)
      return situ__fail(SITU_E_STATE, op,
                        "'%s' was written by another thread while it was saved, and nothing is saved: call this again, "
                        "or guard both with a lock",
                        situ__shown(s->list[i].name, shown)),
             false;
  return true;
}

void situ__still_end(situ__still *s) {
  if (!s->list) return;
  situ__use_end();
  situ__use_end();
  free_list(s);
}

uint64_t situ__still_lock(const situ_tensor *t) {
  return situ__write_begin(situ__write_lock_of(situ_desc(t)->storage));
}
