/* Fuzzes the readers of PNG and JPEG files.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/media.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  situ_error_mode(SITU_ERROR_QUIET);
  memory_files(NULL, 0, data, size);
  for (int mode = 0; mode <= SITU_IMAGE_RGB_ALPHA; mode++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_tensor *t = situ_read_image("f", (situ_image_mode)mode, (situ_device){ .kind = SITU_CPU });
    /* at most deflate's ratio, of 1 bit a pixel that becomes 4 bytes */
    if (t && situ_numel(t) / (1032 * 8 * 4) > (int64_t)size) abort();
    if (!t && situ_error() == SITU_OK) abort();
    SITU_IGNORE(situ_scope_end(&scope));
    situ_error_clear();
  }
  return 0;
}
