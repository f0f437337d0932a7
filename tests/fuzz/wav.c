/* Fuzzes the reader of WAV files.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/media.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  situ_error_mode(SITU_ERROR_QUIET);
  memory_files(NULL, 0, data, size);
  for (int as_is = 0; as_is < 2; as_is++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    int64_t rate = 0;
    situ_tensor *t = situ_wav_load("f", &(situ_wav_options){ .not_normalized = as_is }, &rate);
    if (t && (situ_numel(t) > (int64_t)size || rate < 1)) abort();
    if (!t && situ_error() == SITU_OK) abort();
    SITU_IGNORE(situ_scope_end(&scope));
    situ_error_clear();
  }
  return 0;
}
