/* Fuzzes the reader of ONNX models. A model that was loaded on meta is called there: its loops run where their trip count
   and condition are known.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/situ.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const uint8_t *data, size_t size, const situ_load_options *options) {
  const int64_t tensors = situ_live_tensors(), modules = situ_nn_live_modules();
  memory_files(NULL, 0, data, size);
  situ_nn_module *m = situ_export_load("f", options);
  if (!m && situ_error() == SITU_OK) abort();
  if (m && options->device.kind == SITU_META) {
    situ_scope scope; /* owns the results */
    situ_scope_begin(&scope);
    situ_tree *in = situ_tree_list();
    situ_tree_free(situ_nn_call(m, in));
    situ_tree_free(in);
    SITU_IGNORE(situ_scope_end(&scope));
  }
  situ_error_clear();
  situ_nn_free(m);
  situ_error_clear();
  if (situ_live_tensors() != tensors || situ_nn_live_modules() != modules) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  situ_error_mode(SITU_ERROR_QUIET);
  load(data, size, &(situ_load_options){ .map = true });
  load(data, size, &(situ_load_options){ .device = { .kind = SITU_META }, .max_iterations = 50 });
  return 0;
}
