/* What a tensor's storage knows about it, for explanations and error messages.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "tensor/tensor.h"
#include "situ/sys/explain.h"
#include "situ/sys/plain.h"

/* NULL: an allocation of its own. */
static const char *memory_of(const situ_storage *s) {
  const uint32_t flags = situ__storage_flags(s);
  if (flags & SITU_STORAGE_PINNED) return "of the host, pinned";
  if (flags & SITU_STORAGE_MAPPED) return "a file's, mapped";
  if (!(flags & SITU_STORAGE_FOREIGN)) return NULL;
  return flags & SITU_STORAGE_READ_ONLY ? "of the program, read-only" : "of the program";
}

bool situ_facts_of(const char *op, const situ_tensor *t, situ_facts *out) {
  if (!situ__need(op, "input", t) || !situ__given(op, "out", out)) return false;
  const situ_storage *s = t->view.storage;
  *out = (situ_facts){ .moved_by = s->moved_by,
                       .memory = memory_of(s),
                       .bytes = s->bytes,
                       .serial = s->serial,
                       .written = situ__holds_some(s),
                       .unstated = (s->flags & SITU_STORAGE_UNSTATED) != 0 };
  situ__site_text(t->created_at, out->created, sizeof out->created);
  situ__site_text(s->moved_at, out->moved, sizeof out->moved);
  void *adopted_at = NULL;
  if (situ__device_adoption(s->device, &adopted_at) == SITU__ADOPTED)
    situ__site_text(adopted_at, out->adopted, sizeof out->adopted);
  return true;
}

void situ_stand_for(situ_tensor *copy, const situ_tensor *original) {
  if (!situ__need("stand_for", "copy", copy) || !situ__need("stand_for", "original", original)) return;
  const situ_storage *from = original->view.storage;
  copy->created_at = original->created_at;
  copy->view.storage->moved_at = from->moved_at;
  copy->view.storage->moved_by = from->moved_by;
}

void situ_count_slot(situ_tensor *t, int by) {
  if (t && situ__need("count_slot", "tensor", t))
    __atomic_fetch_add(&t->view.storage->slots, (uint32_t)by, __ATOMIC_RELAXED);
}

bool situ_is_registered(const situ_tensor *t) {
  return t && situ__need("is_registered", "tensor", t) &&
         __atomic_load_n(&t->view.storage->slots, __ATOMIC_RELAXED) != 0;
}

typedef struct meeting {
  void (*visit)(situ_relation how, const situ_tensor *other, void *payload);
  void *payload;
} meeting;

/* Visits the oldest tensor of a storage, which is the last of its list. */
static bool visit_oldest(situ_storage *s, situ_relation how, const meeting *m) {
  const situ_tensor *oldest = situ__handles_begin(s);
  while (oldest && oldest->next_handle) oldest = oldest->next_handle;
  if (oldest) m->visit(how, oldest, m->payload);
  situ__handles_end(s);
  return true;
}

static bool visit_follower(situ_storage *s, void *payload) { return visit_oldest(s, SITU_LEADS, payload); }

void situ_each_relative(const situ_tensor *t, void (*visit)(situ_relation how, const situ_tensor *other, void *payload),
                        void *payload) {
  if (!t || !situ__need("each_relative", "input", t)) return;
  situ_storage *s = t->view.storage;
  const meeting m = { visit, payload };
  for (const situ_tensor *other = situ__handles_begin(s); other; other = other->next_handle)
    if (other != t) visit(SITU_SHARES, other, payload);
  situ__handles_end(s);
  if (!s->links) return;
  situ_storage *leader = situ__leader(s);
  if (leader) visit_oldest(leader, SITU_FOLLOWS, &m);
  (void)situ__each_follower(s, visit_follower, (void *)(uintptr_t)&m);
}
