/* A strict JSON pull parser over text in memory: no tree, no recursion, no allocation.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_JSON_H
#define SITU_IO_JSON_H

#include "situ/api.h"

typedef enum situ__json_kind {
  SITU__JSON_ERROR = 0, /* `problem` gives the reason; later calls return it again */
  SITU__JSON_END,       /* the value is complete, and only white space follows */
  SITU__JSON_OBJECT,
  SITU__JSON_OBJECT_END,
  SITU__JSON_ARRAY,
  SITU__JSON_ARRAY_END,
  SITU__JSON_KEY,     /* text, length */
  SITU__JSON_STRING,  /* text, length */
  SITU__JSON_INTEGER, /* integer: written without fraction and exponent, and fits 64 bits */
  SITU__JSON_NUMBER,  /* any other number: text, length as written, without a NUL */
  SITU__JSON_TRUE,
  SITU__JSON_FALSE,
  SITU__JSON_NULL
} situ__json_kind;

/* Maximum nesting depth: more than any file that situ reads needs. */
#define SITU__JSON_DEPTH 64

typedef struct situ__json {
  char *start, *at, *end;
  /* Decoded in place: UTF-8, ended by a NUL, without NULs inside; lives as long as the source text. */
  char *text;
  size_t length; /* length of text */
  int64_t integer;
  const char *problem;
  bool too_deep; /* the problem is a limit of the parser, not an error in the text */
  uint8_t next;  /* what may follow: see json.c */
  uint8_t depth;
  bool in_object[SITU__JSON_DEPTH];
} situ__json;

/* Starts to parse `length` bytes, which the parser overwrites in places. The caller detects duplicate keys, because
   only it knows which keys it keeps. */
void situ__json_begin(situ__json *json, char *text, size_t length);
situ__json_kind situ__json_next(situ__json *json);
/* Skips the rest of the value that began with `kind`. Returns false on error. */
bool situ__json_skip(situ__json *json, situ__json_kind kind);
/* Returns the current position in bytes from the start, for messages. */
size_t situ__json_offset(const situ__json *json);

#endif
