/* A strict JSON pull parser over text in memory: no tree, no recursion, no allocation.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_JSON_H
#define SITU_IO_JSON_H

#include "situ/api.h"

typedef enum situ__json_kind {
  SITU__JSON_ERROR = 0, /* `problem` says what; every later call gives it again */
  SITU__JSON_END,       /* the one value is complete, and nothing but white space follows */
  SITU__JSON_OBJECT,
  SITU__JSON_OBJECT_END,
  SITU__JSON_ARRAY,
  SITU__JSON_ARRAY_END,
  SITU__JSON_KEY,     /* text, length */
  SITU__JSON_STRING,  /* text, length */
  SITU__JSON_INTEGER, /* integer: written without fraction and exponent, and fits 64 bits */
  SITU__JSON_NUMBER,  /* any other number; its value is nobody's business here */
  SITU__JSON_TRUE,
  SITU__JSON_FALSE,
  SITU__JSON_NULL
} situ__json_kind;

/* Nothing that is read here is nested deeper; a deeper text is refused before it costs anything. */
#define SITU__JSON_DEPTH 8

typedef struct situ__json {
  char *start, *at, *end;
  /* Decoded in place, UTF-8, ended by a NUL and with none inside; lives as long as the text. */
  char *text;
  size_t length; /* of text */
  int64_t integer;
  const char *problem;
  bool too_deep; /* the problem is a limit of ours, not a fault of the text */
  uint8_t next;  /* what may come: see json.c */
  uint8_t depth;
  bool in_object[SITU__JSON_DEPTH];
} situ__json;

/* Starts on `length` bytes, which parsing overwrites here and there. Duplicate keys are for the
   caller to find: only it knows which keys it keeps. */
void situ__json_begin(situ__json *json, char *text, size_t length);
situ__json_kind situ__json_next(situ__json *json);
/* Reads on to the end of the value that has begun with `kind`; false on error. */
bool situ__json_skip(situ__json *json, situ__json_kind kind);
/* Where the parser stands, in bytes from the start: for messages. */
size_t situ__json_offset(const situ__json *json);

#endif
