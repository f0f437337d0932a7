/* For builds without SITU_ONNX.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "program/build.h"

situ_nn_module *situ__onnx_load(const char *path, const situ_load_options *options) {
  (void)options;
  situ__fail(SITU_E_UNSUPPORTED, "export_load",
             "%s: is not a .pt2 archive, and this library was built without SITU_ONNX", path);
  return NULL;
}
