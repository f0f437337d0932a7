/* Registration under a path ("encoder.layer.0"): modules on it that do not exist are made.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "nn/nn.h"
#include "situ/sys/layers.h"

bool situ__nn_is_path(const char *name) { return name && strchr(name, '.'); }

static bool check_depth(const char *op, const char *path) {
  int dots = 0;
  for (const char *c = path; (c = strchr(c, '.')) != NULL; c++) dots++;
  if (dots < SITU__NN_DEPTH) return true;
  return situ__fail(SITU_E_LIMIT, op, "a path of more than %d parts", SITU__NN_DEPTH), false;
}

/* For "encoder.layer.0": adds "layer.0" to m's child "encoder". A child that does not exist gets its part before m gets
   it, so that a failure leaves m as it was. */
static bool add_below(const char *op, situ_nn_module *m, const char *path, const situ__nn_addition *part) {
  const char *dot = strchr(path, '.');
  if (!dot && part->shared) return situ_nn_share_tensor(m, path, part->tensor, part->kind) != NULL;
  if (!dot && part->tensor) return situ_nn_add_tensor(m, path, NULL, part->tensor, part->kind) != NULL;
  if (!dot) return situ_nn_add_child(m, path, NULL, part->child) != NULL;
  char *name = situ__strdup(path);
  situ_nn_slot *slot = NULL;
  bool added = false;
  if (name) {
    name[dot - path] = 0;
    slot = situ__nn_find(m, name);
  }
  if (!name || (slot && !situ__nn_is_child(slot))) {
    if (!name) situ__no_memory(op, strlen(path) + 1);
    else situ__fail(SITU_E_ARG, op, "%s: \"%s\" is a tensor, and cannot hold \"%s\"", m->type->name, name, dot + 1);
    situ__nn_give_up(part->child);
  } else if (slot) {
    added = add_below(op, slot->held, dot + 1, part);
  } else {
    situ_nn_module *holder = situ_nn_module_dict();
    if (!holder) situ__nn_give_up(part->child);
    else if (add_below(op, holder, dot + 1, part)) added = situ_nn_add_child(m, name, NULL, holder) != NULL;
    else situ__nn_give_up(holder);
  }
  situ__free(name);
  return added;
}

bool situ__nn_add_by_path(const char *op, situ_nn_module *m, const char *path, const situ__nn_addition *part) {
  if (check_depth(op, path)) return add_below(op, m, path, part);
  return situ__nn_give_up(part->child), false;
}
