/* Fuzzes the JSON parser: any bytes end in an error or at the end, and no string has a NUL inside.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "io/format/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size ? size : 1);
  if (!text) return 0;
  if (size) memcpy(text, data, size);
  situ__json json;
  situ__json_begin(&json, text, size);
  size_t tokens = 0;
  for (situ__json_kind kind = SITU__JSON_NULL; kind != SITU__JSON_END && kind != SITU__JSON_ERROR; tokens++) {
    kind = situ__json_next(&json);
    bool text_kind = kind == SITU__JSON_KEY || kind == SITU__JSON_STRING;
    if (text_kind && (strlen(json.text) != json.length || json.text < text || json.text + json.length >= text + size))
      abort();
    if (kind == SITU__JSON_ERROR && (!json.problem || situ__json_offset(&json) > size)) abort();
    if (tokens > size + 1) abort();
  }
  free(text);
  return 0;
}
