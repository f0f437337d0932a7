/* Renames the tensors of a state before it is loaded: rows replace whole parts of a path.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "base/text.h"
#include "nn/nn.h"

static const char op[] = "nn_load_state_dict";

/* Where the parts begin in a path, as whole parts; NULL: nowhere. */
static const char *find_parts(const char *path, const char *parts) {
  const size_t length = strlen(parts);
  for (const char *at = path; at; at = strchr(at, '.'), at = at ? at + 1 : NULL)
    if (!length || (strncmp(at, parts, length) == 0 && (at[length] == 0 || at[length] == '.'))) return at;
  return NULL;
}

/* Appends the parts [begin, end) of a path, with a dot between them and what is there. */
static void add_parts(situ__text *text, const char *begin, const char *end) {
  if (begin < end && *begin == '.') begin++;
  if (begin < end && end[-1] == '.') end--;
  if (begin >= end) return;
  if (text->length) situ__text_add(text, ".");
  situ__text_append(text, begin, (size_t)(end - begin));
}

/* Replaces *path, by its first occurrence of row->from. Returns false if the tensor is left out. */
static bool apply(const situ_nn_rename *row, situ__text *path) {
  const char *begin = path->data ? path->data : "", *at = find_parts(begin, row->from);
  if (!at) return true;
  if (!row->to) return false;
  const char *rest = at + strlen(row->from);
  situ__text renamed = { 0 };
  add_parts(&renamed, begin, at);
  add_parts(&renamed, row->to, row->to + strlen(row->to));
  add_parts(&renamed, rest, rest + strlen(rest));
  renamed.failed |= path->failed;
  situ__text_free(path);
  *path = renamed;
  return true;
}

/* Adds one tensor under its new name. Returns false after recording an error. */
static bool add_renamed(situ_tree *to, const char *name, situ_tensor *t, const situ_nn_load_options *o) {
  situ__text path = { 0 };
  situ__text_add(&path, "%s", name);
  bool kept = true, good = true;
  for (int64_t i = 0; kept && i < o->rename_count; i++) kept = apply(&o->rename[i], &path);
  const char *renamed = path.data ? path.data : "";
  if (path.failed) {
    good = (situ__no_memory(op, strlen(name)), false);
  } else if (kept && situ_tree_find(to, renamed)) {
    situ__fail(SITU_E_ARG, op, "two tensors of the state are named %s by .rename, one of them from %s", renamed, name);
    good = false;
  } else if (kept) {
    good = situ_tree_put(to, renamed, situ_tree_tensor(t)) != NULL;
  }
  situ__text_free(&path);
  return good;
}

static bool check_rows(const situ_nn_load_options *o) {
  for (int64_t i = 0; i < o->rename_count; i++)
    if (!o->rename || !o->rename[i].from)
      return situ__fail(SITU_E_ARG, op, "row %lld of .rename has no .from", (long long)i), false;
  if (o->rename_count < 0)
    return situ__fail(SITU_E_ARG, op, "a rename_count of %lld", (long long)o->rename_count), false;
  return true;
}

situ_tree *situ__nn_rename(situ_tree *state, const situ_nn_load_options *options) {
  if (!state || !options->rename_count) return state;
  situ_tree *renamed = check_rows(options) ? situ_tree_dict() : NULL;
  bool good = renamed != NULL;
  for (int64_t i = 0; good && i < situ_tree_count(state); i++)
    good = add_renamed(renamed, situ_tree_key(state, i), situ_tree_tensor_at(state, i), options);
  situ_tree_free(state);
  if (good) return renamed;
  situ_tree_free(renamed);
  return NULL;
}
