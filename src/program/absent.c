/* For builds without SITU_PROGRAMS.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "situ/export.h"

static void refuse(const char *op) {
  situ__fail(SITU_E_UNSUPPORTED, op, "this library was built without SITU_PROGRAMS");
}

situ_nn_module *situ_export_load(const char *path, const situ_load_options *options) {
  (void)options;
  if (situ__given("export_load", "path", path)) refuse("export_load");
  return NULL;
}

situ_nn_module *situ_export(situ_nn_module *m, const situ_tree *inputs) {
  (void)inputs;
  if (situ__given("export", "module", m)) refuse("export");
  return NULL;
}
situ_status situ_export_save(situ_nn_module *program, const char *path) {
  if (situ__given("export_save", "program", program) && situ__given("export_save", "path", path)) refuse("export_save");
  return situ_error();
}
