/* Lints the structs of modules: each word that points to a live tensor or module should be registered.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/peek.h"
#include "place/lint/lint.h"
#include "situ/sys/layers.h"

static bool list_inside(situ__lint *l, const situ_nn_module *m, int depth) {
  if (situ__map_get(&l->inside, m)) return true;
  if (!situ__map_put(&l->inside, m, (void *)m)) return situ__no_memory(l->op, sizeof(void *)), false;
  for (int64_t i = 0; i < m->count && depth < 256; i++) {
    const situ_nn_slot *slot = &m->slots[i];
    if (slot->kind == SITU_NN_CHILD && !list_inside(l, slot->held, depth + 1)) return false;
  }
  return true;
}

/* A module that is not registered in m: accounted for if m is registered in it, or in one below it. */
static situ__found look_at_module(situ__lint *l, const situ_nn_module *m, const situ_nn_module *other) {
  if (l->outer != other) {
    situ__map_free(&l->inside);
    l->outer = NULL;
    if (!list_inside(l, other, 0)) return SITU__UNKNOWN;
    l->outer = other;
  }
  return situ__map_get(&l->inside, m) ? SITU__ACCOUNTED : SITU__LOOSE_MODULE;
}

situ__found situ__lint_look(situ__lint *l, const situ_nn_module *m, const void *word) {
  if (!situ__lint_plausible(word)) return SITU__NOTHING;
  if (situ__lint_known(l, word)) return SITU__ACCOUNTED;
  if (situ_nn_is_module(word)) return look_at_module(l, m, word);
  if (!situ_is_tensor(word)) return SITU__NOTHING;
  /* A view of a registered tensor moves with it. */
  return situ__map_get(&l->moves, situ__lint_storage(word)) ? SITU__ACCOUNTED : SITU__LOOSE_TENSOR;
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

/* What a module's first tensor tells of it: a copy of a registered module has the tensors' names from there. */
typedef struct origin {
  const situ__lint *l;
  const situ__part *part; /* the registered tensor of that name */
  int length;             /* of the registered module's path */
  bool seen;
} origin;

/* Of all registered tensors, once; the first of a name counts. */
static bool gather_names(situ__lint *l) {
  for (int64_t i = l->names.count ? l->count : 0; i < l->count; i++) {
    const char *name = l->parts[i].tensor ? situ_name(l->parts[i].tensor) : "";
    if (*name && situ__names_get(&l->names, name) < 0 && !situ__names_put(&l->names, name, (int32_t)i))
      return situ__no_memory(l->op, sizeof name), false;
  }
  return true;
}

static situ_status look_at_name(const situ_nn_visit *at, void *payload) {
  origin *o = payload;
  const char *name = situ_name(at->tensor);
  o->seen = true;
  if (strlen(name) <= strlen(at->path)) return SITU_E_STATE; /* it has never been a part */
  const int32_t number = situ__names_get(&o->l->names, name);
  const situ__part *p = number < 0 ? NULL : &o->l->parts[number];
  if (!p || situ_numel(p->tensor) != situ_numel(at->tensor)) return SITU_E_STATE;
  o->part = p;
  o->length = (int)(strlen(p->path) - strlen(at->path)) - 1;
  return SITU_E_STATE; /* ends the walk */
}

/* An average or a target network: registered, it would be trained as well. */
static bool copied_module(situ__lint *l, const situ__part *p, size_t at, const situ_nn_module *m, const origin *o) {
  return situ__lint_add(l, SITU_LINT_MODULE, SITU_LINT_WARNING, p, NULL, NULL,
                        "the %s at byte %zu of the struct is a copy of %.*s and not registered: it does not move with "
                        "the module and is not saved",
                        m->type->name, at, o->length, o->part->path) &&
         situ__lint_fix(l,
                        "situ_nn_module *average = situ_optim_averaged_model(model, NULL);   /* beside the model, "
                        "instead of the field at byte %zu; to be trained: situ_nn_child(m, field, m->field) */",
                        at);
}

static bool loose_module(situ__lint *l, const situ__part *p, size_t at, situ_nn_module *m) {
  origin o = { .l = l };
  if (!situ__map_put(&l->told, m, (void *)m)) return situ__no_memory(l->op, sizeof(void *)), false;
  if (!gather_names(l)) return false;
  if (situ_nn_walk(m, SITU_NN_VISIT_TENSORS, look_at_name, &o) != SITU_OK && !o.seen) return false;
  if (o.part && o.length > 0) return copied_module(l, p, at, m, &o);
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
  if (child && situ__lint_plausible(word) && situ_nn_is_module(word)) shows = "another module";
  if (!child && situ__lint_plausible(word) && situ_is_tensor(word)) shows = situ__lint_tensor(word, text);
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

static bool look_into(situ__lint *l, const situ__part *p, size_t at) {
  void *word;
  memcpy(&word, (const char *)p->module + at, sizeof word);
  const situ_nn_slot *slot = slot_at(p->module, at);
  if (slot) return slot->held == word || other_part(l, p, slot, word);
  switch (situ__lint_look(l, p->module, word)) {
  case SITU__ACCOUNTED: return true;
  case SITU__LOOSE_TENSOR: return loose_tensor(l, p, at, word);
  case SITU__LOOSE_MODULE: return loose_module(l, p, at, word);
  case SITU__UNKNOWN: return false;
  case SITU__NOTHING: break;
  }
  return !situ__lint_plausible(word) || (dangling(l, p, at, word) && situ__lint_list(l, p, at, word));
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

/* By number; a clone has none. */
static bool gather_makers(const situ__lint *l, situ__map *makers) {
  for (int64_t i = 0; i < l->count; i++) {
    const situ__part *p = &l->parts[i];
    const void *number = (const void *)(uintptr_t)p->module->number;
    if (!p->tensor && !p->again && number && !situ__map_put(makers, number, (void *)p))
      return situ__no_memory(l->op, sizeof *p), false;
  }
  return true;
}

/* The part that was built when x was made, if it is the module's; NULL. */
static const situ__part *maker_of(const situ__map *makers, const situ_nn_module *x) {
  const situ__part *p = x->within ? situ__map_get(makers, (const void *)(uintptr_t)x->within) : NULL;
  return p && x->number < p->module->done ? p : NULL;
}

/* Modules that were created with the module, that a static variable has, say. */
static bool stray_modules(situ__lint *l) {
  const situ_nn_module **list = NULL;
  int64_t most = 0, all;
  while ((all = situ_nn_unheld(list, most)) > most) /* a look at all modules of the process: mostly one */
    if (!situ__grow(l->op, &list, &most, sizeof *list, all)) return situ__free(list), false;
  situ__map makers = { 0 };
  bool good = !all || gather_makers(l, &makers);
  for (int64_t i = 0; i < all && good; i++) {
    const situ_nn_module *x = list[i];
    const situ__part *p = situ_nn_is_module(x) ? maker_of(&makers, x) : NULL;
    if (!p || situ__map_get(&l->told, x)) continue;
    const situ__found what = situ__lint_look(l, p->module, x);
    if (what != SITU__LOOSE_MODULE) {
      good = what != SITU__UNKNOWN;
      continue;
    }
    good = situ__lint_add(l, SITU_LINT_STRAY, SITU_LINT_WARNING, p, NULL, NULL,
                          "a module that was made with it (%s) is in use but not registered: its parameters do not "
                          "move with it, are not saved and are not trained",
                          x->type->name) &&
           situ__lint_fix(l, "situ_nn_add_child(&m->base, name, NULL, situ_nn_retain(module));");
  }
  situ__map_free(&makers);
  situ__free(list);
  return good;
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
  return good && stray_modules(l);
}
