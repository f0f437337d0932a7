/* Fuzzes the safetensors reader from open to close: read and mapped, strict and lenient.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  situ_error_mode(SITU_ERROR_QUIET);
  memory_files(NULL, 0, data, size);
  for (int variant = 0; variant < 3; variant++) {
    const situ_load_options options = { .map = variant == 1, .lenient = variant == 2 };
    int64_t live = situ_live_tensors();
    situ_tree *tree = situ_load("f", &options);
    /* Two tensors never share a byte, so together they are no larger than the file. */
    int64_t bytes = 0;
    for (int64_t i = 0; i < situ_tree_count(tree); i++) {
      situ_tensor *t = situ_tree_tensor_at(tree, i);
      bytes += situ_numel(t) * (int64_t)situ_dtype_size(situ_dtype_of(t));
    }
    if (bytes > (int64_t)size) abort();
    if (!tree && situ_error() == SITU_OK) abort();
    situ_tree_free(tree);
    if (situ_live_tensors() != live) abort();
    situ_error_clear();
  }
  return 0;
}
