/* For builds without SITU_PROGRAMS.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "situ/export.h"

situ_nn_module *situ_export_load(const char *path, const situ_load_options *options) {
  (void)options;
  if (situ__given("export_load", "path", path))
    situ__fail(SITU_E_UNSUPPORTED, "export_load", "this library was built without SITU_PROGRAMS");
  return NULL;
}
