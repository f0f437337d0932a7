/* Lints the structs of modules: each word that points to a live tensor or module should be registered.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/fail.h"
#include "base/peek.h"
#include "place/lint/lint.h"

/* True if the word could be an object's address: most words are numbers, and a full check is slow. */
static bool plausible(const void *word) {
  uintptr_t bits = (uintptr_t)word;
  return bits >= 4096 && bits % _Alignof(void *) == 0 && (uint64_t)bits >> 56 == 0;
}

static bool list_inside(situ__lint *l, const situ_nn_module *m, int depth) {
  if (situ__map_get(&l->inside, m)) return true;
  if (!situ__map_put(&l->inside, m, (void *)m)) return situ__no_memory(l->op, sizeof(void *)), false;
  for (int64_t i = 0; i < m->count && depth < 256; i++) {
    const situ_nn_slot *slot = &m->slots[i];
    if (slot->kind == SITU_NN_CHILD && !list_inside(l, slot->held, depth + 1)) return false;
  }
  return true;
}

typedef enum found { NOTHING, ACCOUNTED, LOOSE_TENSOR, LOOSE_MODULE, UNKNOWN } found; /* UNKNOWN: no memory to tell */

/* A module that is not registered in m: accounted for if m is registered in it, or in one below it. */
static found look_at_module(situ__lint *l, const situ_nn_module *m, const situ_nn_module *other) {
  if (l->outer != other) {
    situ__map_free(&l->inside);
    l->outer = NULL;
    if (!list_inside(l, other, 0)) return UNKNOWN;
    l->outer = other;
  }
  return situ__map_get(&l->inside, m) ? ACCOUNTED : LOOSE_MODULE;
}

/* Classifies a word found in m's struct. */
static found look_at(situ__lint *l, const situ_nn_module *m, const void *word) {
  if (!plausible(word)) return NOTHING;
  if (situ__lint_known(l, word)) return ACCOUNTED;
  if (situ_nn_is_module(word)) return look_at_module(l, m, word);
  if (!situ_is_tensor(word)) return NOTHING;
  /* A view of a registered tensor moves with it. */
  return situ__map_get(&l->moves, situ__lint_storage(word)) ? ACCOUNTED : LOOSE_TENSOR;
}

static const situ_nn_slot *slot_at(const situ_nn_module *m, size_t offset) {
  for (int64_t i = 0; i < m->count; i++)
    if (m->slots[i].offset == offset) return &m->slots[i];
  return NULL;
}

/* ---- problems of one field ---- */

static bool loose_tensor(situ__lint *l, const situ__part *p, size_t at, const situ_tensor *t) {
  char text[SITU__LINT_TEXT];
  const char *name = situ_name(t);
  return situ__lint_add(l, SITU_LINT_TENSOR, SITU_LINT_WARNING, p, NULL, t,
                        "the tensor at byte %zu of the struct (%s%s%s) is not registered: it does not "
                        "move with the module, is not saved and is not trained",
                        at, name, *name ? ", " : "", situ__lint_tensor(t, text)) &&
         situ__lint_fix(l, "situ_nn_buffer(m, field, m->field);   /* the field at byte %zu */", at);
}

static bool loose_module(situ__lint *l, const situ__part *p, size_t at, const situ_nn_module *m) {
  if (!situ__map_put(&l->told, m, (void *)m)) return situ__no_memory(l->op, sizeof(void *)), false;
  return situ__lint_add(l, SITU_LINT_MODULE, SITU_LINT_WARNING, p, NULL, NULL,
                        "the %s at byte %zu of the struct is not registered: its parameters do not "
                        "move, are not saved and are not trained",
                        m->type->name, at) &&
         situ__lint_fix(l, "situ_nn_child(m, field, m->field);   /* the field at byte %zu */", at);
}

/* The field of a registered part should point to that part: the module's code uses the field, all other code the
   registration. */
static bool other_part(situ__lint *l, const situ__part *p, const situ_nn_slot *slot, const void *word) {
  bool child = slot->kind == SITU_NN_CHILD;
  char text[SITU__LINT_TEXT];
  const situ_tensor *tensor = child ? NULL : slot->held;
  const char *shows = !word ? "NULL" : "something that is not alive";
  if (child && plausible(word) && situ_nn_is_module(word)) shows = "another module";
  if (!child && plausible(word) && situ_is_tensor(word)) shows = situ__lint_tensor(word, text);
  return situ__lint_add(l, SITU_LINT_FIELD, SITU_LINT_ERROR, p, NULL, tensor,
                        "the field of \"%s\" was assigned past registration: it shows %s, so the "
                        "module computes with that, and moves, saves and trains the one before",
                        slot->name, shows) &&
         situ__lint_fix(l, "situ_nn_%s(m, %s, ...);   /* not m->%s = ... */",
                        child                             ? "child"
                        : slot->kind == SITU_NN_PARAMETER ? "param"
                                                          : "buffer",
                        slot->name, slot->name);
}

/* A field that pointed to a tensor when the module was finished, and still does, though the tensor was freed. */
static bool dangling(situ__lint *l, const situ__part *p, size_t at, const void *word) {
  for (int64_t i = 0; i < p->module->stray_count; i++) {
    const situ_nn_stray *stray = &p->module->strays[i];
    if (stray->offset != at || stray->tensor != word) continue;
    return situ__lint_add(l, SITU_LINT_DANGLING, SITU_LINT_ERROR, p, NULL, NULL,
                          "the field at byte %zu of the struct shows a tensor that is gone: it was "
                          "made with the module, never registered, and its scope has ended",
                          at) &&
           situ__lint_fix(l, "situ_nn_buffer(m, field, ...);   /* the field at byte %zu */", at);
  }
  return true;
}

/* An array of tensors or modules, like a Python list that should be a ModuleList. It ends at the first word that is
   neither of them nor NULL, or after a few NULLs, as entries may be missing. */
static bool array(situ__lint *l, const situ__part *p, size_t at, void *const *list) {
  enum { LONGEST = 4096, GAP = 8 };
  int64_t tensors = 0, modules = 0;
  int empty = 0;
  const char *first = "";
  for (int64_t i = 0; i < LONGEST; i++) {
    void *word;
    if (!situ__peek(list + i, &word, sizeof word)) break;
    empty = word ? 0 : empty + 1;
    if (!word && empty <= GAP) continue;
    found what = look_at(l, p->module, word);
    if (what == UNKNOWN) return false;
    if (what == NOTHING) break;
    if (what == ACCOUNTED || situ__map_get(&l->told, word)) continue;
    if (!situ__map_put(&l->told, word, word)) return situ__no_memory(l->op, sizeof(void *)), false;
    if (what == LOOSE_MODULE && !modules++) first = ((situ_nn_module *)word)->type->name;
    tensors += what == LOOSE_TENSOR;
  }
  if (!tensors && !modules) return true;
  if (modules)
    return situ__lint_add(l, SITU_LINT_ARRAY, SITU_LINT_WARNING, p, NULL, NULL,
                          "the field at byte %zu of the struct points to an array with %" PRId64
                          " module%s (%s%s) that are not registered: their parameters do not move, "
                          "are not saved and are not trained",
                          at, modules, modules == 1 ? "" : "s", first, modules > 1 ? ", ..." : "") &&
           situ__lint_fix(l, "situ_nn_child(m, layers, situ_nn_module_list_of(n, m->layers));");
  return situ__lint_add(l, SITU_LINT_ARRAY, SITU_LINT_WARNING, p, NULL, NULL,
                        "the field at byte %zu of the struct points to an array with %" PRId64
                        " tensor%s that are not registered: they do not move with the module, are "
                        "not saved and are not trained",
                        at, tensors, tensors == 1 ? "" : "s") &&
         situ__lint_fix(l, "situ_nn_add_tensor(&m->base, name, NULL, m->list[i], SITU_NN_BUFFER);");
}

static bool look_into(situ__lint *l, const situ__part *p, size_t at) {
  void *word;
  memcpy(&word, (const char *)p->module + at, sizeof word);
  const situ_nn_slot *slot = slot_at(p->module, at);
  if (slot) return slot->held == word || other_part(l, p, slot, word);
  switch (look_at(l, p->module, word)) {
  case ACCOUNTED: return true;
  case LOOSE_TENSOR: return loose_tensor(l, p, at, word);
  case LOOSE_MODULE: return loose_module(l, p, at, word);
  case UNKNOWN: return false;
  case NOTHING: break;
  }
  return !plausible(word) || (dangling(l, p, at, word) && array(l, p, at, word));
}

/* ---- tensors that were created with the module and are not in it ---- */

static bool strays(situ__lint *l, const situ__part *p) {
  for (int64_t i = 0; i < p->module->stray_count; i++) {
    const situ_nn_stray *stray = &p->module->strays[i];
    const situ_tensor *t = stray->tensor;
    char text[SITU__LINT_TEXT];
    if (stray->offset || situ__lint_known(l, t) || situ__map_get(&l->told, t)) continue;
    if (!situ_is_tensor(t)) continue;
    const situ_storage *storage = situ__lint_storage(t);
    if (storage->serial != stray->serial || situ__map_get(&l->moves, storage)) continue;
    if (!situ__lint_add(l, SITU_LINT_STRAY, SITU_LINT_WARNING, p, NULL, t,
                        "a tensor that was made with it (%s%s%s) is in use but not registered: "
                        "it does not move with the module, is not saved and is not trained",
                        situ_name(t), *situ_name(t) ? ", " : "", situ__lint_tensor(t, text)) ||
        !situ__lint_fix(l, "situ_nn_add_tensor(&m->base, name, NULL, tensor, SITU_NN_BUFFER);"))
      return false;
  }
  return true;
}

bool situ__lint_fields(situ__lint *l) {
  bool good = true;
  if (l->count && !situ__can_peek())
    return situ__lint_add(l, SITU_LINT_TENSOR, SITU_LINT_NOTE, &l->parts[0], NULL, NULL,
                          "fields were not searched for tensors: this system does not say what "
                          "memory there is");
  for (int64_t i = 0; i < l->count && good; i++) {
    const situ__part *p = &l->parts[i];
    if (p->tensor || p->again) continue;
    for (size_t at = sizeof *p->module; good && at + sizeof(void *) <= p->module->type->size; at += sizeof(void *))
      good = look_into(l, p, at);
    good = good && strays(l, p);
  }
  return good;
}
