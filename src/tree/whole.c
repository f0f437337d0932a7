/* Operations on whole trees: walk, map, flatten.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/fail.h"
#include "base/handle.h"
#include "base/text.h"
#include "situ/tree.h"

/* Recursion is safe: the builder bounds the depth. */
static situ_status each(const situ_tree *t, situ__text *path, situ_tree_visitor visit, void *payload) {
  situ_tree_kind kind = situ_tree_kind_of(t);
  if (kind == SITU_TREE_TENSOR) {
    if (path->failed) return situ__no_memory("tree_each", path->capacity);
    return visit(path->data ? path->data : "", situ_tree_value(t), payload);
  }
  for (int64_t i = 0; i < situ_tree_count(t); i++) {
    size_t length = path->length;
    if (length) situ__text_append(path, ".", 1);
    if (kind == SITU_TREE_DICT) situ__text_append(path, situ_tree_key(t, i), strlen(situ_tree_key(t, i)));
    else situ__text_add(path, "%" PRId64, i);
    situ_status status = each(situ_tree_at(t, i), path, visit, payload);
    if (status != SITU_OK) return status;
    path->length = length;
    if (path->data) path->data[length] = 0;
  }
  return SITU_OK;
}

situ_status situ_tree_each(const situ_tree *tree, situ_tree_visitor visit, void *payload) {
  if (!situ__valid("tree_each", "tree", tree, SITU__A_TREE)) return situ_error();
  if (!visit) return situ__null("tree_each", "visit");
  situ__text path = { 0 };
  situ_status status = each(tree, &path, visit, payload);
  situ__text_free(&path);
  return status;
}

situ_tree *situ_tree_map(const situ_tree *tree, situ_tensor *(*fn)(situ_tensor *, void *), void *payload) {
  if (!situ__valid("tree_map", "tree", tree, SITU__A_TREE)) return NULL;
  if (!fn) return situ__null("tree_map", "fn"), NULL;
  situ_tree *to;
  switch (situ_tree_kind_of(tree)) {
  case SITU_TREE_TENSOR: return situ_tree_tensor(fn(situ_tree_value(tree), payload));
  case SITU_TREE_LIST:
    to = situ_tree_list();
    for (int64_t i = 0; i < situ_tree_count(tree) && to; i++)
      to = situ_tree_append(to, situ_tree_map(situ_tree_at(tree, i), fn, payload));
    return to;
  case SITU_TREE_DICT:
    to = situ_tree_dict();
    for (int64_t i = 0; i < situ_tree_count(tree) && to; i++)
      to = situ_tree_put(to, situ_tree_key(tree, i), situ_tree_map(situ_tree_at(tree, i), fn, payload));
    return to;
  case SITU_TREE_NONE: break;
  }
  return situ_tree_none();
}

static situ_tensor *same(situ_tensor *tensor, void *payload) {
  (void)payload;
  return tensor;
}

situ_tree *situ_tree_copy(const situ_tree *tree) { return situ_tree_map(tree, same, NULL); }

static situ_status put_flat(const char *path, situ_tensor *tensor, void *payload) {
  situ_tree **flat = payload;
  *flat = situ_tree_put(*flat, path, situ_tree_tensor(tensor));
  return *flat ? SITU_OK : situ_error();
}

situ_tree *situ_tree_flatten(const situ_tree *tree) {
  if (!situ__valid("tree_flatten", "tree", tree, SITU__A_TREE)) return NULL;
  situ_tree *flat = situ_tree_dict();
  if (flat && situ_tree_each(tree, put_flat, &flat) != SITU_OK) {
    situ_tree_free(flat);
    return NULL;
  }
  return flat;
}

situ_tree *situ_tree_section(const situ_tree *flat, const char *section) {
  if (!situ__valid("tree_section", "flat", flat, SITU__A_TREE) || !situ__given("tree_section", "section", section))
    return NULL;
  if (situ_tree_kind_of(flat) != SITU_TREE_DICT)
    return situ__fail(SITU_E_ARG, "tree_section", "a dict is needed"), NULL;
  size_t length = strlen(section);
  situ_tree *part = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(flat) && part; i++) {
    const char *key = situ_tree_key(flat, i);
    if (strncmp(key, section, length) == 0 && key[length] == '.')
      part = situ_tree_put(part, key + length + 1, situ_tree_copy(situ_tree_at(flat, i)));
  }
  return part;
}
