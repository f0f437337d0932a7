/* Fuzzes the reader of an index: two bytes of length, the index, and what its files hold.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  situ_error_mode(SITU_ERROR_QUIET);
  size_t index = (size_t)data[0] | (size_t)data[1] << 8;
  data += 2;
  size -= 2;
  if (index > size) index = size;
  memory_files(data, index, data + index, size - index);
  situ_tree *tree = situ_load("m.index.json", NULL);
  if (!tree && situ_error() == SITU_OK) abort();
  situ_tree_free(tree);
  situ_error_clear();
  return 0;
}
