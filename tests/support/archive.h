/* A .pt2 archive around a program.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_ARCHIVE_H
#define SITU_TESTS_SUPPORT_ARCHIVE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "zip_memory.h"

/* A block of exactly its length, which the caller frees. */
static inline uint8_t *archive_of(const uint8_t *model, size_t size, size_t *length) {
  static const char list[] = "{\"config\":{}}";
  zip_memory w = { .data = malloc(size + 1024) };
  if (!w.data) return NULL;
  zip_memory_add(&w, "t/archive_format", "pt2", 3);
  zip_memory_add(&w, "t/byteorder", "little", 6);
  zip_memory_add(&w, "t/data/weights/model_weights_config.json", list, sizeof list - 1);
  zip_memory_add(&w, "t/data/constants/model_constants_config.json", list, sizeof list - 1);
  zip_memory_add(&w, "t/models/model.json", model, size);
  zip_memory_end(&w);
  *length = w.length;
  uint8_t *exact = realloc(w.data, w.length);
  return exact ? exact : w.data;
}

/* Writes it to a file. */
static inline bool archive_save(const char *path, const char *model, size_t size) {
  size_t length = 0;
  uint8_t *archive = archive_of((const uint8_t *)model, size, &length);
  FILE *f = archive ? fopen(path, "wb") : NULL;
  bool good = f && fwrite(archive, 1, length, f) == length;
  if (f) good = fclose(f) == 0 && good;
  free(archive);
  return good;
}

#endif
