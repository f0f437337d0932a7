/* Growable text buffer for messages, JSON, SVG. It remembers failure, so callers need to check only the end.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_TEXT_H
#define SITU_BASE_TEXT_H

#include "situ/api.h"

typedef struct situ__text {
  char *data; /* ends with a NUL; NULL before anything was added */
  size_t length;
  int64_t capacity;
  bool failed; /* an allocation failed: data holds only the beginning */
} situ__text;

void situ__text_add(situ__text *text, const char *fmt, ...) SITU_PRINTF(2, 3);
void situ__text_append(situ__text *text, const char *bytes, size_t count);
/* Appends "[2, 3]". */
void situ__text_dims(situ__text *text, const int64_t *dim, int count);
/* Appends it with JSON quotes and escapes. */
void situ__text_json_string(situ__text *text, const char *utf8);
void situ__text_free(situ__text *text);

/* Writes "1.5 MiB" or "12 B"; returns out. */
enum { SITU__BYTES_TEXT = 24 };
const char *situ__bytes_text(uint64_t bytes, char out[SITU__BYTES_TEXT]);
/* The same for two amounts that a message compares: whole bytes if they would read alike otherwise. */
void situ__bytes_texts(uint64_t one, uint64_t other, char out[2][SITU__BYTES_TEXT]);
/* Copies the text to a caller's buffer as snprintf does, and frees it. Returns its full length, -1 after a failed
   allocation. */
int64_t situ__text_give(situ__text *text, char *buffer, size_t size);
/* The same for a call that reports its errors: records SITU_E_NOMEM after a failed allocation. */
int64_t situ__text_deliver(const char *op, situ__text *text, char *buffer, size_t size);

#endif
