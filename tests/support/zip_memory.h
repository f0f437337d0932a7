/* Writes a zip archive of stored entries into memory, without checksums.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_ZIP_MEMORY_H
#define SITU_TESTS_SUPPORT_ZIP_MEMORY_H

#include <stdint.h>
#include <string.h>

typedef struct zip_memory {
  uint8_t *data; /* large enough: the entries, and 128 bytes and twice the name for each */
  size_t length;
  struct {
    const char *name;
    size_t header, bytes;
  } entry[8];
  int count;
} zip_memory;

static inline void put_number(zip_memory *w, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) w->data[w->length++] = (uint8_t)(value >> 8 * i);
}

static inline void put_text(zip_memory *w, const void *text, size_t length) {
  if (length) memcpy(w->data + w->length, text, length);
  w->length += length;
}

/* The part that local and central headers share, from the flags to the name's length. */
static inline void put_sizes(zip_memory *w, size_t bytes, const char *name) {
  put_number(w, 0, 8); /* flags, method, time, date */
  put_number(w, 0, 4); /* CRC */
  put_number(w, bytes, 4);
  put_number(w, bytes, 4);
  put_number(w, strlen(name), 2);
}

static inline void zip_memory_add(zip_memory *w, const char *name, const void *data, size_t bytes) {
  w->entry[w->count].name = name;
  w->entry[w->count].header = w->length;
  w->entry[w->count++].bytes = bytes;
  put_number(w, 0x04034b50, 4);
  put_number(w, 10, 2);
  put_sizes(w, bytes, name);
  put_number(w, 0, 2);
  put_text(w, name, strlen(name));
  put_text(w, data, bytes);
}

static inline void zip_memory_end(zip_memory *w) {
  const size_t start = w->length;
  for (int i = 0; i < w->count; i++) {
    put_number(w, 0x02014b50, 4);
    put_number(w, 10, 2);
    put_number(w, 10, 2);
    put_sizes(w, w->entry[i].bytes, w->entry[i].name);
    put_number(w, 0, 8); /* extra field, comment, disk, attributes */
    put_number(w, 0, 4);
    put_number(w, w->entry[i].header, 4);
    put_text(w, w->entry[i].name, strlen(w->entry[i].name));
  }
  const size_t length = w->length - start;
  put_number(w, 0x06054b50, 4);
  put_number(w, 0, 4);
  put_number(w, (uint64_t)w->count, 2);
  put_number(w, (uint64_t)w->count, 2);
  put_number(w, length, 4);
  put_number(w, start, 4);
  put_number(w, 0, 2);
}

#endif
