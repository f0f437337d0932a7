/* Fuzzes the reader of ONNX models, and what runs and writes them.
   SPDX-License-Identifier: MIT */
#include "program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  program_load(data, size);
  return 0;
}
