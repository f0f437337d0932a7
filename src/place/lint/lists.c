/* Lints what a field points to, like a Python list that should be a ModuleList: an array of tensors or modules, a
   linked list of them, a struct with an array and its length, a tree.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/fail.h"
#include "base/handle.h"
#include "base/peek.h"
#include "place/lint/lint.h"

/* WORDS: of a node or struct, as many as the smallest block of malloc has: what follows may be another block's. */
enum { LONGEST = 4096, GAP = 8, WORDS = 3 };

/* Unregistered parts that no finding has told yet. */
typedef struct tally {
  int64_t tensors, modules;
  const char *first; /* type of the first module */
} tally;

static bool is_part(situ__found what) { return what == SITU__LOOSE_TENSOR || what == SITU__LOOSE_MODULE; }

/* Classifies a word, and counts it if it was not told yet. */
static situ__found count(situ__lint *l, const situ__part *p, const void *word, tally *t) {
  const situ__found what = situ__lint_look(l, p->module, word);
  if (!is_part(what) || situ__map_get(&l->told, word)) return what;
  if (!situ__map_put(&l->told, word, (void *)word)) return situ__no_memory(l->op, sizeof(void *)), SITU__UNKNOWN;
  if (what == SITU__LOOSE_MODULE && !t->modules++) t->first = ((const situ_nn_module *)word)->type->name;
  t->tensors += what == SITU__LOOSE_TENSOR;
  return what;
}

/* An array ends at the first word that is neither a part nor NULL, or after a few NULLs, as entries may be missing. */
static bool count_array(situ__lint *l, const situ__part *p, void *const *list, tally *t) {
  int empty = 0;
  for (int64_t i = 0; i < LONGEST; i++) {
    void *word;
    if (!situ__peek(list + i, &word, sizeof word)) break;
    empty = word ? 0 : empty + 1;
    if (!word && empty <= GAP) continue;
    const situ__found what = count(l, p, word, t);
    if (what == SITU__UNKNOWN) return false;
    if (what == SITU__NOTHING) break;
  }
  return true;
}

/* Words of a node: which one is the part, and which one the next node. */
typedef struct shape {
  int part, next;
} shape;

/* Whether memory is a node, and the next one alike. */
static bool find_links(situ__lint *l, const situ__part *p, void *const *memory, shape *s) {
  void *word[WORDS], *after[WORDS];
  if (!situ__peek(memory, word, sizeof word)) return false;
  for (s->part = 0; s->part < WORDS; s->part++)
    for (s->next = 0; s->next < WORDS; s->next++)
      if (s->next != s->part && situ__lint_plausible(word[s->next]) &&
          is_part(situ__lint_look(l, p->module, word[s->part])) && situ__peek(word[s->next], after, sizeof after) &&
          is_part(situ__lint_look(l, p->module, after[s->part])))
        return true;
  return false;
}

static bool count_nodes(situ__lint *l, const situ__part *p, void *const *node, const shape *s, tally *t) {
  void *word[WORDS];
  for (int64_t i = 0; i < LONGEST && node && situ__peek(node, word, sizeof word); i++) {
    const situ__found what = count(l, p, word[s->part], t);
    if (what == SITU__UNKNOWN) return false;
    if (what == SITU__NOTHING) break;
    node = word[s->next];
  }
  return true;
}

/* True if items has n entries that are parts or NULL. */
static bool are_parts(situ__lint *l, const situ__part *p, void *const *items, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    void *word;
    if (!situ__peek(items + i, &word, sizeof word)) return false;
    if (word && situ__lint_look(l, p->module, word) == SITU__NOTHING) return false;
  }
  return true;
}

/* { n, items }, in any order; a capacity beside n is not less. */
static bool count_struct(situ__lint *l, const situ__part *p, void *const *memory, tally *t) {
  void *word[WORDS];
  uint32_t n = 0;
  if (!situ__peek(memory, word, sizeof word)) return true;
  for (int k = 0; k < WORDS; k++) {
    const uint32_t number = (uint32_t)(uintptr_t)word[k];
    if (number >= 1 && number <= LONGEST && (!n || number < n)) n = number;
  }
  for (int k = 0; k < WORDS && n; k++) {
    if (!situ__lint_plausible(word[k]) || !are_parts(l, p, word[k], n)) continue;
    for (uint32_t i = 0; i < n; i++) {
      void *entry = NULL;
      if (situ__peek((void **)word[k] + i, &entry, sizeof entry) && count(l, p, entry, t) == SITU__UNKNOWN)
        return false;
    }
  }
  return true;
}

static bool tell(situ__lint *l, const situ__part *p, size_t at, const tally *t, const char *what, const char *fix) {
  if (t->modules)
    return situ__lint_add(l, SITU_LINT_ARRAY, SITU_LINT_WARNING, p, NULL, NULL,
                          "the field at byte %zu of the struct points to %s with %" PRId64
                          " module%s (%s%s) that are not registered: their parameters do not move, "
                          "are not saved and are not trained",
                          at, what, t->modules, t->modules == 1 ? "" : "s", t->first, t->modules > 1 ? ", ..." : "") &&
           situ__lint_fix(l, "%s", fix);
  return situ__lint_add(l, SITU_LINT_ARRAY, SITU_LINT_WARNING, p, NULL, NULL,
                        "the field at byte %zu of the struct points to %s with %" PRId64
                        " tensor%s that are not registered: they do not move with the module, are "
                        "not saved and are not trained",
                        at, what, t->tensors, t->tensors == 1 ? "" : "s") &&
         situ__lint_fix(l, "situ_nn_add_tensor(&m->base, \"list.0\", NULL, tensor, SITU_NN_BUFFER);   /* each, under a "
                           "name of its own */");
}

static bool is_tree(const void *memory) {
  uint32_t head;
  return situ__peek(memory, &head, sizeof head) && situ__is(SITU__A_TREE, &head);
}

typedef struct leaves {
  situ__lint *l;
  const situ__part *part;
  tally *tally;
} leaves;

static situ_status count_leaf(const char *path, situ_tensor *t, void *payload) {
  const leaves *of = payload;
  (void)path;
  return count(of->l, of->part, t, of->tally) == SITU__UNKNOWN ? situ_error() : SITU_OK;
}

bool situ__lint_list(situ__lint *l, const situ__part *p, size_t at, void *const *memory) {
  tally t = { .tensors = 0 };
  shape s;
  if (is_tree(memory))
    return situ_tree_each((const situ_tree *)memory, count_leaf, &(leaves){ l, p, &t }) == SITU_OK &&
           (!t.tensors || tell(l, p, at, &t, "a tree", ""));
  if (find_links(l, p, memory, &s)) {
    if (!count_nodes(l, p, memory, &s, &t)) return false;
    return (!t.modules && !t.tensors) ||
           tell(l, p, at, &t, "a linked list",
                "situ_nn_add_child(&m->base, \"layers.0\", NULL, m->field->layer);   /* each node's, by its number */");
  }
  if (!count_array(l, p, memory, &t)) return false;
  if (t.modules || t.tensors)
    return tell(l, p, at, &t, "an array",
                "situ_nn_add_child(&m->base, \"layers\", NULL, situ_nn_module_list_of(n, m->field));");
  if (!count_struct(l, p, memory, &t)) return false;
  return (!t.modules && !t.tensors) ||
         tell(l, p, at, &t, "a struct that has an array",
              "situ_nn_add_child(&m->base, \"layers\", NULL, situ_nn_module_list_of(m->field->n, m->field->items));");
}
