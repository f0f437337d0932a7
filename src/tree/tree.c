/* Trees of tensors: nodes, built bottom-up, that do not change once they are part of another tree.
   SPDX-License-Identifier: MIT */
#include "situ/tree.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/format.h"
#include "base/handle.h"
#include "base/hash.h"

enum { MAX_LEVELS = 64, LINEAR = 8 /* largest dict that is searched linearly */ };

typedef struct entry {
  char *key; /* NULL in a list */
  situ_tree *item;
} entry;

struct situ_tree {
  uint32_t head;
  uint8_t kind;
  bool inside; /* part of another tree, which owns it */
  int levels;  /* levels below this one */
  situ_tensor *tensor;
  entry *entries;
  int64_t count, capacity;
  int64_t *index; /* for larger dicts: an open-addressing hash table of entry numbers, -1 where free */
  int64_t index_size;
};

static const char *const kind_names[] = { "None", "a tensor", "a list", "a dict" };

static bool is_tree(const char *op, const char *argument, const situ_tree *t) {
  return situ__valid(op, argument, t, SITU__A_TREE);
}

static situ_tree *new_node(const char *op, situ_tree_kind kind) {
  situ_tree *t = situ__handle_new(SITU__A_TREE, sizeof *t);
  if (!t) return situ__no_memory(op, sizeof *t), NULL;
  t->kind = (uint8_t)kind;
  return t;
}

situ_tree *situ_tree_none(void) { return new_node("tree_none", SITU_TREE_NONE); }
situ_tree *situ_tree_list(void) { return new_node("tree_list", SITU_TREE_LIST); }
situ_tree *situ_tree_dict(void) { return new_node("tree_dict", SITU_TREE_DICT); }

situ_tree *situ_tree_tensor(situ_tensor *tensor) {
  if (!situ__valid("tree_tensor", "tensor", tensor, SITU__A_TENSOR)) return NULL;
  situ_tree *t = new_node("tree_tensor", SITU_TREE_TENSOR);
  if (t && !(t->tensor = situ_retain(tensor))) {
    situ_tree_free(t);
    return NULL;
  }
  return t;
}

static void destroy_tree(situ_tree *t) {
  for (int64_t i = 0; i < t->count; i++) {
    situ__free(t->entries[i].key);
    destroy_tree(t->entries[i].item);
  }
  situ__free(t->entries);
  situ__free(t->index);
  situ_release(t->tensor);
  situ__handle_free(t, sizeof *t, kind_names[t->kind]);
}

void situ_tree_free(situ_tree *tree) {
  if (!tree || !is_tree("tree_free", "tree", tree)) return;
  if (tree->inside)
    situ__fail(SITU_E_STATE, "tree_free", "%s inside another tree, which frees it", kind_names[tree->kind]);
  else destroy_tree(tree);
}

bool situ_tree_set(situ_tree **slot, situ_tree *tree) {
  if (!situ__given("tree_set", "slot", slot) || !tree || !is_tree("tree_set", "tree", tree)) return false;
  situ_tree *old = *slot;
  if (old && !is_tree("tree_set", "*slot", old)) return false;
  *slot = tree;
  if (old != tree) situ_tree_free(old);
  return true;
}

/* ---- keys ---- */

static void index_add(situ_tree *t, int64_t i) {
  uint64_t at = situ__hash_text(t->entries[i].key);
  while (t->index[at & (uint64_t)(t->index_size - 1)] >= 0) at++;
  t->index[at & (uint64_t)(t->index_size - 1)] = i;
}

/* Returns the entry number of a key, or -1. */
static int64_t lookup(const situ_tree *t, const char *key) {
  if (!t->index) {
    for (int64_t i = 0; i < t->count; i++)
      if (strcmp(t->entries[i].key, key) == 0) return i;
    return -1;
  }
  for (uint64_t at = situ__hash_text(key);; at++) {
    int64_t i = t->index[at & (uint64_t)(t->index_size - 1)];
    if (i < 0 || strcmp(t->entries[i].key, key) == 0) return i;
  }
}

/* Makes space for one more entry, and keeps the hash table at most half full. */
static bool grow_entries(situ_tree *t) {
  if (!situ__grow(NULL, &t->entries, &t->capacity, sizeof *t->entries, t->count + 1)) return false;
  if (t->kind == SITU_TREE_DICT && t->count >= LINEAR && 2 * (t->count + 1) > t->index_size) {
    int64_t size = t->index_size ? 2 * t->index_size : 4 * LINEAR;
    int64_t *index = situ__alloc((size_t)size * sizeof *index);
    if (!index) return false;
    situ__free(t->index);
    memset(index, -1, (size_t)size * sizeof *index);
    t->index = index;
    t->index_size = size;
    for (int64_t i = 0; i < t->count; i++) index_add(t, i);
  }
  return true;
}

/* ---- adding ---- */

static bool can_add(const char *op, const situ_tree *t, situ_tree_kind kind, const char *key, const situ_tree *item) {
  if (!is_tree(op, kind_names[kind] + 2, t) || !is_tree(op, "item", item) ||
      (kind == SITU_TREE_DICT && !situ__given(op, "key", key)))
    return false;
  if (t->kind != kind) situ__fail(SITU_E_ARG, op, "%s, where %s is needed", kind_names[t->kind], kind_names[kind]);
  else if (t->inside || item->inside || t == item)
    situ__fail(SITU_E_STATE, op, "%s is part of a tree already", t->inside ? kind_names[kind] + 2 : "the item");
  else if (item->levels + 1 > MAX_LEVELS) situ__fail(SITU_E_LIMIT, op, "more than %d levels", MAX_LEVELS);
  else if (kind == SITU_TREE_DICT && lookup(t, key) >= 0)
    situ__fail(SITU_E_ARG, op, "two items with the key \"%s\"", key);
  else return true;
  return false;
}

static situ_tree *add_item(const char *op, situ_tree *t, situ_tree_kind kind, const char *key, situ_tree *item) {
  char *copy = NULL;
  if (can_add(op, t, kind, key, item)) {
    if ((!key || (copy = situ__strdup(key))) && grow_entries(t)) {
      t->entries[t->count++] = (entry){ copy, item };
      if (t->index) index_add(t, t->count - 1);
      if (t->levels < item->levels + 1) t->levels = item->levels + 1;
      item->inside = true;
      return t;
    }
    situ__no_memory(op, sizeof *t->entries);
    situ__free(copy);
  }
  /* The call owns its arguments, so it frees them; what is part of another tree belongs to that tree. */
  if (item != t && situ__is(SITU__A_TREE, item) && !item->inside) destroy_tree(item);
  if (situ__is(SITU__A_TREE, t) && !t->inside) destroy_tree(t);
  return NULL;
}

situ_tree *situ_tree_append(situ_tree *list, situ_tree *item) {
  return add_item("tree_append", list, SITU_TREE_LIST, NULL, item);
}
situ_tree *situ_tree_put(situ_tree *dict, const char *key, situ_tree *item) {
  return add_item("tree_put", dict, SITU_TREE_DICT, key, item);
}

situ_tree *situ_tree_of(int64_t count, situ_tensor *const *tensors) {
  if (count < 0) return situ__fail(SITU_E_ARG, "tree_of", "%" PRId64 " tensors", count), NULL;
  if (count && !situ__given("tree_of", "tensors", tensors)) return NULL;
  situ_tree *list = situ_tree_list();
  for (int64_t i = 0; i < count && list; i++) list = situ_tree_append(list, situ_tree_tensor(tensors[i]));
  return list;
}

/* ---- queries ---- */

situ_tree_kind situ_tree_kind_of(const situ_tree *tree) {
  return tree && is_tree("tree_kind_of", "tree", tree) ? (situ_tree_kind)tree->kind : SITU_TREE_NONE;
}
int64_t situ_tree_count(const situ_tree *tree) { return tree && is_tree("tree_count", "tree", tree) ? tree->count : 0; }

static const entry *entry_at(const char *op, const situ_tree *t, int64_t i) {
  if (!is_tree(op, "tree", t)) return NULL;
  if (i < 0 || i >= t->count)
    situ__fail(SITU_E_INDEX, op, "item %" PRId64 " of %s of %" PRId64, i, kind_names[t->kind], t->count);
  else return &t->entries[i];
  return NULL;
}

const situ_tree *situ_tree_at(const situ_tree *tree, int64_t i) {
  const entry *e = entry_at("tree_at", tree, i);
  return e ? e->item : NULL;
}

const char *situ_tree_key(const situ_tree *dict, int64_t i) {
  const entry *e = entry_at("tree_key", dict, i);
  if (e && !e->key) situ__fail(SITU_E_ARG, "tree_key", "a list has no keys");
  return e ? e->key : NULL;
}

const situ_tree *situ_tree_find(const situ_tree *dict, const char *key) {
  if (!dict || !is_tree("tree_find", "dict", dict) || !key || dict->kind != SITU_TREE_DICT) return NULL;
  int64_t i = lookup(dict, key);
  return i < 0 ? NULL : dict->entries[i].item;
}

static situ_tensor *value(const char *op, const situ_tree *t) {
  if (!is_tree(op, "tree", t)) return NULL;
  if (t->kind == SITU_TREE_TENSOR) return t->tensor;
  if (t->kind == SITU_TREE_LIST && t->count == 1) return value(op, t->entries[0].item);
  else if (t->kind == SITU_TREE_NONE) situ__fail(SITU_E_ARG, op, "None, where a tensor is needed");
  else situ__fail(SITU_E_ARG, op, "%s of %" PRId64 ", where a tensor is needed", kind_names[t->kind], t->count);
  return NULL;
}

situ_tensor *situ_tree_value(const situ_tree *tree) { return value("tree_value", tree); }

situ_tensor *situ_tree_tensor_at(const situ_tree *tree, int64_t i) {
  const entry *e = entry_at("tree_tensor_at", tree, i);
  return e ? value("tree_tensor_at", e->item) : NULL;
}

static situ_tensor *get(const char *op, const situ_tree *dict, const char *key) {
  const situ_tree *item = situ_tree_find(dict, key);
  if (item) return value(op, item);
  return situ__fail(SITU_E_ARG, op, "%s without a key \"%s\"", kind_names[dict->kind], key), NULL;
}

situ_tensor *situ_tree_get(const situ_tree *dict, const char *key) {
  if (!is_tree("tree_get", "dict", dict) || !situ__given("tree_get", "key", key)) return NULL;
  return get("tree_get", dict, key);
}

situ_tensor *situ_tree_getf(const situ_tree *dict, const char *fmt, ...) {
  const char *op = "tree_getf";
  if (!is_tree(op, "dict", dict) || !situ__given(op, "fmt", fmt)) return NULL;
  char key[1024];
  va_list args;
  va_start(args, fmt);
  const int length = situ__vformat(key, sizeof key, fmt, args);
  va_end(args);
  if (length >= 0 && (size_t)length < sizeof key) return get(op, dict, key);
  return situ__fail(SITU_E_ARG, op, "a key of %d bytes, at most %zu are taken", length, sizeof key - 1), NULL;
}
