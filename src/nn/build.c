/* The making of a module: its number, and at the end what its scope owns, which stays with the module, or goes.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "nn/nn.h"
#include "situ/sys/tensor.h"

/* Offset of the field that points to the tensor; 0: none. */
static size_t shown_at(const situ_nn_module *m, const situ_tensor *t) {
  for (size_t at = sizeof *m; at + sizeof t <= m->type->size; at += sizeof t) {
    const situ_tensor *field;
    memcpy(&field, (const char *)m + at, sizeof field);
    if (field == t) return at;
  }
  return 0;
}

/* The tensors of a module that was built, and those that fields of modules below it point to, found once. */
typedef struct parts {
  const situ_nn_module *m;
  int64_t next; /* the slot after the one found last: parts are often registered in the order in which they are made */
  situ__map known;
  bool looked, failed;
} parts;
enum { HELD = 1, SHOWN_BELOW = 2 };

static void know(parts *p, const void *t, uintptr_t what) {
  if (!situ__map_put(&p->known, t, (void *)((uintptr_t)situ__map_get(&p->known, t) | what))) p->failed = true;
}

static void look(parts *p, const situ_nn_module *m, int depth) {
  for (int64_t i = 0; i < m->count; i++) {
    const situ_nn_module *child = m->slots[i].held;
    if (!situ__nn_is_child(&m->slots[i])) {
      if (!depth) know(p, m->slots[i].held, HELD);
      continue;
    }
    for (int64_t k = 0; k < child->stray_count; k++)
      if (child->strays[k].offset) know(p, child->strays[k].tensor, SHOWN_BELOW);
    if (depth < SITU__NN_DEPTH) look(p, child, depth + 1);
  }
}

static bool is_known(parts *p, const situ_tensor *t, uintptr_t what) {
  if (!p->looked) look(p, p->m, 0);
  p->looked = true;
  return (uintptr_t)situ__map_get(&p->known, t) & what;
}

static bool holds(parts *p, const situ_tensor *t) {
  if (!situ_is_registered(t)) return false;
  if (p->next == p->m->count || p->m->slots[p->next].held != t) return is_known(p, t, HELD);
  p->next++;
  return true;
}

static bool note_stray(situ_nn_module *m, const situ_tensor *t, size_t offset) {
  size_t bytes = (size_t)(m->stray_count + 1) * sizeof *m->strays;
  situ_nn_stray *strays = situ__realloc(m->strays, bytes);
  if (!strays) return situ__no_memory("nn_done", bytes), false;
  m->strays = strays;
  m->strays[m->stray_count++] = (situ_nn_stray){ t, situ_desc(t)->storage->serial, offset };
  return true;
}

/* Modules have numbers in the order of situ_nn_alloc; a clone has 0. A module's .within is the number of the one that
   its thread was building, which made it if its number is below that one's .done. */
static uint64_t next_number = 1;
static SITU__THREAD_LOCAL uint64_t building; /* number of the innermost module that this thread builds; 0: none */

void situ__nn_begin_build(situ_nn_module *m, struct situ_nn_build *build) {
  m->build = build;
  m->number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
  m->within = building;
  building = m->number;
}

void situ__nn_end_build(situ_nn_module *m) {
  struct situ_nn_build *build = m->build;
  if (!build) return;
  if (building == m->number) building = m->within;
  m->done = __atomic_load_n(&next_number, __ATOMIC_RELAXED);
  if (situ_scope_is_open(&build->scope)) {
    situ_tensor *const *made;
    const int64_t count = situ_scope_owned(&build->scope, &made);
    parts p = { .m = m };
    for (int64_t i = 0; i < count; i++) {
      situ_tensor *t = made[i];
      if (!situ__is(SITU__A_TENSOR, t) || holds(&p, t)) continue;
      size_t offset = shown_at(m, t);
      if ((offset || situ_owners(t) > 1) && !note_stray(m, t, offset)) m->broken = true;
      if (offset || (m->children && is_known(&p, t, SHOWN_BELOW))) situ_escape(&build->scope, t);
    }
    if (p.failed) m->broken = situ__no_memory("nn_done", sizeof p.known) != SITU_OK;
    situ__map_free(&p.known);
    SITU_IGNORE(situ_scope_end(&build->scope));
  }
  m->build = NULL;
  situ__free(build);
}
