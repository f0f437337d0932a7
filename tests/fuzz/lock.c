/* Fuzzes the reader of lock files: a file is refused, differs, or is the one that would be written.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/nn.h"
#include "situ/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char whole[] = "situ-lock 1\n"
                              "0.weight parameter f32 [2,2] cpu -\n"
                              "0.bias parameter f32 [2] cpu -\n"
                              "1.weight parameter f32 [2,2] cpu =0.weight\n"
                              "1.bias parameter f32 [2] cpu =0.bias\n";
  static situ_nn_module *m;
  situ_error_mode(SITU_ERROR_QUIET);
  if (!m) {
    situ_nn_module *part = situ_nn_linear(2, 2, NULL);
    m = situ_nn_module_list(part, situ_nn_retain(part));
  }
  memory_files(NULL, 0, data, size);
  situ_status status = situ_place_lock_check(m, "f");
  /* The lines may come in another order, and with reasons; nothing else may differ. */
  if (status == SITU_OK && size < sizeof whole - 1) abort();
  if (status != SITU_OK && situ_error() != status) abort();
  situ_error_clear();
  return 0;
}
