/* Growing text: messages, JSON, SVG. Failure is remembered, so only the end must be checked.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_TEXT_H
#define SITU_BASE_TEXT_H

#include "situ/api.h"

typedef struct situ__text {
  char *data; /* always ended with a NUL once something was added; NULL before */
  size_t length, capacity;
  bool failed; /* an allocation failed: data is what fitted */
} situ__text;

void situ__text_add(situ__text *text, const char *fmt, ...) SITU_PRINTF(2, 3);
void situ__text_append(situ__text *text, const char *bytes, size_t count);
/* "[2, 3]" */
void situ__text_dims(situ__text *text, const int64_t *dim, int count);
/* With JSON quotes and escapes. */
void situ__text_json_string(situ__text *text, const char *utf8);
void situ__text_free(situ__text *text);

/* "1.5 MiB", "12 B"; returns out. */
enum { SITU__BYTES_TEXT = 16 };
const char *situ__bytes_text(uint64_t bytes, char out[SITU__BYTES_TEXT]);
/* Hands the text to a caller as snprintf does, and frees it: returns the length of all of it, -1 if
   it failed. */
int64_t situ__text_give(situ__text *text, char *buffer, size_t size);

#endif
