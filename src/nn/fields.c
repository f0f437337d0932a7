/* Fields that a check puts back: tensors, trees and numbers that forward keeps in a module's struct and that are not
   registered, such as a cache. A copy made without the type's .copy shares them with the original, and a module that
   cannot be cloned runs itself.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/peek.h"
#include "nn/nn.h"
#include "situ/sys/dry.h"
#include "situ/sys/layers.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static const char op[] = "nn_keep_fields";

/* A word of a module's struct, or of an array that its struct points to; or a registered tensor or an input. */
typedef struct field {
  void **at;          /* NULL: a registered tensor or an input, which is not held */
  void *was, *now;    /* the word before the run, and behind it if that is a tensor of the program's */
  situ_tree *tree;    /* it is a tree: a copy, in case the run frees or fills it; in a copied struct it stands in */
  int64_t owners;     /* it is a tensor: its owners, but for the reference that is held here; 0: it is not */
  bool held, changed; /* it is a tensor that a reference is held to; the run has changed the word */
  bool number;        /* it is not an address */
  const situ_nn_module *of; /* the module whose struct it is in; NULL: an array's */
  int64_t array;            /* the field that points to the array; -1: none */
} field;

typedef struct fields {
  field *list;
  int64_t count, capacity;
  bool own; /* the program's module runs, not a copy */
} fields;

static bool is_registered(const situ_nn_module *m, const void *at) {
  for (int64_t i = 0; i < m->count; i++)
    if ((const char *)m + m->slots[i].offset == at) return true;
  return false;
}

/* True if the word could be an object's address: most words are numbers, and a full check is slow. */
static bool is_plausible(const void *word) {
  const uintptr_t bits = (uintptr_t)word;
  return bits >= 4096 && bits % sizeof(void *) == 0 && (uint64_t)bits >> 56 == 0;
}
/* True if no memory is there. Asked before the run too, which may free what an address points to. */
static bool is_number(const void *word) {
  char byte;
  const uintptr_t bits = (uintptr_t)word;
  return bits < 4096 || (uint64_t)bits >> 56 || (situ__can_peek() && !situ__peek(word, &byte, 1));
}
static bool is_tensor(const void *word) { return is_plausible(word) && situ_is_tensor(word); }
static bool is_tree(const void *word) {
  uint32_t head;
  return is_plausible(word) && situ__peek(word, &head, sizeof head) && situ__is(SITU__A_TREE, &head);
}

/* ---- before the run ---- */

/* Holds what the word at `at` points to. Returns false after recording an error. */
static bool keep_word(fields *s, void **at, void *word, const situ_nn_module *of, int64_t array) {
  if (!situ__grow(op, &s->list, &s->capacity, sizeof *s->list, s->count + 1)) return false;
  field new = { .at = at, .was = word, .of = of, .array = array };
  if (is_tensor(word)) {
    new.owners = situ_owners(word);
    new.held = situ_retain(word);
  } else if (is_tree(word)) {
    if (!(new.tree = situ_tree_copy(word))) return false;
    if (!s->own) *at = new.tree;
  } else if (s->own && of) {
    new.number = is_number(word);
  }
  s->list[s->count++] = new;
  return true;
}

/* An array of tensors ends at the first word that is neither one nor NULL, or after a few NULLs. Its length is not
   known, so words are peeked at. */
static bool keep_array(fields *s) {
  enum { LONGEST = 4096, GAP = 8 };
  const int64_t array = s->count - 1;
  void **const words = s->list[array].was, *word;
  if (s->list[array].owners || s->list[array].tree || !is_plausible(words)) return true;
  for (int64_t i = 0, empty = 0; i < LONGEST && empty < GAP && situ__peek(words + i, &word, sizeof word); i++) {
    if (word && !is_tensor(word)) return true;
    empty = word ? 0 : empty + 1;
    if (!keep_word(s, words + i, word, NULL, array)) return false;
  }
  return true;
}

static situ_status note_tensor(const char *path, situ_tensor *t, void *payload) {
  fields *s = payload;
  (void)path;
  if (!situ__grow(op, &s->list, &s->capacity, sizeof *s->list, s->count + 1)) return situ_error();
  s->list[s->count++] = (field){ .was = t, .owners = situ_owners(t), .array = -1 };
  return SITU_OK;
}

static situ_status keep_fields(const situ_nn_visit *at, void *payload) {
  fields *s = payload;
  situ_nn_module *m = at->module;
  if (at->tensor) return note_tensor("", at->tensor, s);
  if (!s->own && m->type->copy) return SITU_OK; /* the copy has fields of its own */
  for (size_t byte = sizeof *m; byte + sizeof(void *) <= m->type->size; byte += sizeof(void *)) {
    void **word = (void **)((char *)m + byte);
    if (!is_registered(m, word) && (!keep_word(s, word, *word, m, -1) || !keep_array(s))) return situ_error();
  }
  return SITU_OK;
}

static bool keep_all(fields *s, situ_nn_module *m, const situ_tree *inputs) {
  const unsigned which = SITU_NN_VISIT_MODULES | SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_ONCE | SITU_NN_VISIT_UNNAMED;
  return situ_nn_walk(m, which, keep_fields, s) == SITU_OK &&
         (!inputs || situ_tree_each(inputs, note_tensor, s) == SITU_OK);
}

/* ---- behind it ---- */

static bool is_void(const situ_tensor *t) { return situ_desc(t)->storage->flags & SITU_STORAGE_VOID; }

/* Without memory of its own. */
static bool has_made(const situ_tree *tree) {
  const situ_tensor *t = situ_tree_kind_of(tree) == SITU_TREE_TENSOR ? situ_tree_value(tree) : NULL;
  bool made = t && is_void(t);
  for (int64_t i = 0; !made && i < situ_tree_count(tree); i++) made = has_made(situ_tree_at(tree, i));
  return made;
}
static bool is_made_tree(const void *word) { return is_tree(word) && has_made(word); }

/* Frees a tensor or a tree of the run. Returns false if it is neither. */
static bool drop_made(void *word) {
  if (is_tensor(word) && is_void(word)) return situ_release(word), true;
  return is_made_tree(word) && (situ_tree_free(word), true);
}

/* What the field shows again: the tree itself, or its copy if the run has freed or filled it. */
static situ_tree *old_tree(const fields *s, const field *f, void *now) {
  situ_tree *shown = s->own ? f->was : f->tree;
  const bool alive = is_tree(shown), good = s->own && alive && !is_made_tree(shown);
  if (now != shown && !drop_made(now) && !alive && is_tree(now)) situ_tree_free(now); /* it has replaced the old one */
  if (alive && !good) situ_tree_free(shown);
  if (good) situ_tree_free(f->tree);
  return good || !s->own ? f->was : f->tree;
}

/* Reads the word again. A field that the run has registered is the module's; an array that it has freed or moved is
   gone. */
static bool is_there(const fields *s, const field *f, void **word) {
  if (f->of) return !is_registered(f->of, f->at) && (*word = *f->at, true);
  return *s->list[f->array].at == s->list[f->array].was && situ__peek(f->at, word, sizeof *word);
}

/* Points the field to its old value, and lets go of what the run has made. */
static void put_back(const fields *s, field *f) {
  if (!f->at) return;
  void *now = NULL;
  const bool there = is_there(s, f, &now);
  f->changed = !there || now != f->was;
  if (!there) return;
  if (f->tree) {
    *f->at = old_tree(s, f, now);
  } else if (f->changed) {
    if (drop_made(now)) now = NULL;
    else if (is_tensor(now)) f->now = now;
    else if (!f->owners && !(f->number && is_number(now))) return;
    *f->at = f->was;
  }
}

/* Whether the tensor has an owner more than before, and than what unchanged fields hold here. `known`: it is in the
   list. */
static bool has_surplus(const fields *s, const situ_tensor *t, bool *known) {
  int64_t expected = 0;
  *known = false;
  for (int64_t i = 0; i < s->count; i++) {
    const field *f = &s->list[i];
    if (f->was != t || !f->owners) continue;
    if (!*known) expected = f->owners;
    *known = true;
    expected += f->held && !f->changed;
  }
  return situ_owners(t) > expected;
}

/* Settles references, once all that the run has made is gone: a field owns what it points to, or borrows it. */
static void settle(const fields *s, field *f) {
  bool known;
  if (f->now && is_tensor(f->now)) {
    const bool surplus = has_surplus(s, f->now, &known);
    /* Of other tensors, one that the field alone owns was made in the run. */
    if (known ? surplus : situ_owners(f->now) == 1 && !situ_is_registered(f->now)) situ_release(f->now);
  }
  /* The field's own reference has gone with its old value, or the one held here is one too many. */
  if (f->held && (!f->changed || has_surplus(s, f->was, &known))) situ_release(f->was);
  f->held = false;
}

bool situ_nn_keep_fields(situ_nn_module *m, bool own, const situ_tree *inputs, void (*run)(void *payload),
                         void *payload) {
  fields s = { .own = own };
  if (!situ__nn_given(op, "module", m) || (inputs && !situ__valid(op, "inputs", inputs, SITU__A_TREE)) ||
      !situ__given(op, "run", (const void *)(uintptr_t)run))
    return false;
  const bool kept = keep_all(&s, m, inputs);
  if (kept) run(payload);
  for (int64_t i = s.count; i-- > 0;) put_back(&s, &s.list[i]); /* arrays before what points to them */
  for (int64_t i = s.count; i-- > 0;) settle(&s, &s.list[i]);
  situ__free(s.list);
  return kept;
}
