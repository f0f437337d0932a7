/* For builds without SITU_ONNX.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "program/build.h"

situ_nn_module *situ__onnx_load(const char *path, const situ_load_options *options) {
  (void)options;
  return situ__fail(SITU_E_UNSUPPORTED, "export_load",
                    "%s: is not a .pt2 archive, and this library was built without SITU_ONNX", path),
         NULL;
}

situ_status situ_onnx_export(situ_nn_module *program, const char *path, const situ_onnx_export_options *options) {
  (void)options;
  if (situ__given("onnx_export", "program", program) && situ__given("onnx_export", "path", path))
    situ__fail(SITU_E_UNSUPPORTED, "onnx_export", "this library was built without SITU_ONNX");
  return situ_error();
}
