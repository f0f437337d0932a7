/* Fuzzes the reader of .pt2 programs, and what runs and writes them: the bytes as a whole archive if they begin as one,
   else as the program of one whose rest is right.
   SPDX-License-Identifier: MIT */
#include "../support/archive.h"
#include "program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size >= 2 && memcmp(data, "PK", 2) == 0) {
    program_load(data, size);
    return 0;
  }
  size_t length;
  uint8_t *archive = archive_of(data, size, &length);
  if (archive) program_load(archive, length);
  free(archive);
  return 0;
}
