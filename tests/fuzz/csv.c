/* Fuzzes the CSV reader: the first byte chooses dtype and delimiter.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  situ_error_mode(SITU_ERROR_QUIET);
  const situ_csv_options options = {
    .dtype = (situ_dtype)(data[0] % SITU_DTYPES),
    .delimiter = ",;\t "[data[0] / SITU_DTYPES % 4],
    .skip_lines = data[0] >= 128,
  };
  memory_files(NULL, 0, data + 1, size - 1);
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *t = situ_csv_load("f", &options);
  /* Every value has a character of its own, and all but the last a delimiter behind it. */
  if (t && 2 * situ_numel(t) > (int64_t)size) abort();
  if (!t && situ_error() == SITU_OK) abort();
  SITU_IGNORE(situ_scope_end(&scope));
  situ_error_clear();
  return 0;
}
