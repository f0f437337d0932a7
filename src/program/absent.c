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
bool situ_export_input_at(const situ_nn_module *program, int64_t index, situ_export_input *out) {
  (void)index, (void)out;
  if (situ__given("export_input_at", "program", program)) refuse("export_input_at");
  return false;
}
int64_t situ_export_result_at(const situ_nn_module *program, int64_t index, char *buffer, size_t size) {
  (void)index, (void)buffer, (void)size;
  if (situ__given("export_result_at", "program", program)) refuse("export_result_at");
  return -1;
}
const char *situ_export_target_at(const situ_nn_module *program, int64_t index) {
  (void)index;
  if (situ__given("export_target_at", "program", program)) refuse("export_target_at");
  return NULL;
}
situ_status situ_onnx_export(situ_nn_module *program, const char *path, const situ_onnx_export_options *options) {
  (void)options;
  if (situ__given("onnx_export", "program", program) && situ__given("onnx_export", "path", path)) refuse("onnx_export");
  return situ_error();
}
