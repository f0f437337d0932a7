/* Fuzzes the IDX reader.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  situ_error_mode(SITU_ERROR_QUIET);
  memory_files(NULL, 0, data, size);
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *t = situ_idx_load("f", (situ_device){ .kind = SITU_CPU });
  if (t && situ_numel(t) * (int64_t)situ_dtype_size(situ_dtype_of(t)) > (int64_t)size) abort();
  if (!t && situ_error() == SITU_OK) abort();
  SITU_IGNORE(situ_scope_end(&scope));
  situ_error_clear();
  return 0;
}
