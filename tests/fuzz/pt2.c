/* Fuzzes the reader of .pt2 programs: the bytes as a whole archive, and as the program of one whose rest is right. A program
   that was loaded is run on meta.
   SPDX-License-Identifier: MIT */
#include "../support/zip_memory.h"
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
  static const char list[] = "{\"config\":{}}";
  situ_error_mode(SITU_ERROR_QUIET);
  load(data, size, &(situ_load_options){ .map = true, .verify = SITU_VERIFY_ALWAYS });
  load(data, size, &(situ_load_options){ .device = { .kind = SITU_META } });
  zip_memory w = { .data = malloc(size + 1024) };
  if (!w.data) return 0;
  zip_memory_add(&w, "t/archive_format", "pt2", 3);
  zip_memory_add(&w, "t/byteorder", "little", 6);
  zip_memory_add(&w, "t/data/weights/model_weights_config.json", list, sizeof list - 1);
  zip_memory_add(&w, "t/data/constants/model_constants_config.json", list, sizeof list - 1);
  zip_memory_add(&w, "t/models/model.json", data, size);
  zip_memory_end(&w);
  uint8_t *exact = malloc(w.length);
  if (exact) {
    memcpy(exact, w.data, w.length);
    load(exact, w.length, &(situ_load_options){ .device = { .kind = SITU_META } });
  }
  free(exact);
  free(w.data);
  return 0;
}
