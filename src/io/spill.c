/* Modules whose values are in a file while they are not needed in memory.
   SPDX-License-Identifier: MIT */
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "situ/io.h"

static const char op[] = "nn_spill";

static situ_status has_no_gradient(const situ_nn_visit *at, void *payload) {
  (void)payload;
  if (!situ_grad(at->tensor)) return SITU_OK;
  return situ__fail(SITU_E_STATE, op, "%s has a gradient, which would be lost: situ_nn_zero_grad, or a step, first",
                    at->path);
}

static situ_status save(situ_nn_module *m, const char *path) {
  situ_tree *state = situ_nn_state_dict(m);
  const situ_status status = state ? situ_save(path, state, NULL) : situ_error();
  situ_tree_free(state);
  return status;
}

static situ_status map(situ_nn_module *m, const char *path) {
  situ_tree *file = situ_load(path, &(situ_load_options){ .map = true });
  const situ_status status =
      file ? situ_nn_load_state_dict(m, file, &(situ_nn_load_options){ .assign = true }) : situ_error();
  situ_tree_free(file); /* with the memory that the module had */
  return status;
}

situ_status situ_nn_spill(situ_nn_module *m, const char *path) {
  SITU__CLAIM(claim);
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__given(op, "path", path)) return situ_error();
  if (!situ__claim_begin(&claim, situ__module_marks, m)) return situ__busy(op, m->type->name), situ_error();
  situ_status status = situ_nn_walk(m, SITU_NN_PARAMETER, has_no_gradient, NULL);
  if (status == SITU_OK) status = save(m, path);
  return status == SITU_OK ? map(m, path) : status;
}
