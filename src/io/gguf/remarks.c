/* The metadata of a GGUF file as text.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "base/utf8.h"
#include "gguf.h"

/* An array is told by its number of elements: vocabularies have a hundred thousand. A string that is not UTF-8 is told
   by its bytes. */
static void add_value(situ__text *text, const situ_gguf *f, const char *key) {
  static const char *const plural[] = { "values", "integers", "numbers", "bools", "strings" };
  int64_t count, integer;
  double real;
  size_t length;
  const situ_gguf_kind kind = situ_gguf_kind_of(f, key, &count);
  const char *string = kind == SITU_GGUF_STRING ? situ_gguf_string(f, key, 0, &length) : NULL;
  if (count >= 0) situ__text_add(text, "%" PRId64 " %s", count, plural[kind]);
  else if (string && situ__utf8_prefix(string, length) < length) situ__text_add(text, "%zu bytes", length);
  else if (string) situ__text_append(text, string, strnlen(string, length));
  else if (kind == SITU_GGUF_BOOL)
    situ__text_add(text, situ_gguf_integer(f, key, 0, &integer) && integer ? "true" : "false");
  else if (situ_gguf_integer(f, key, 0, &integer)) situ__text_add(text, "%" PRId64, integer);
  else if (situ_gguf_number(f, key, 0, &real)) situ__text_add(text, "%.9g", real);
  situ__text_append(text, "", 1);
}

bool situ__gguf_remarks_make(situ__gguf_remarks *out, const situ_gguf *f) {
  const int64_t keys = situ_gguf_keys(f);
  situ__text text = { 0 };
  size_t *start = situ__alloc(((size_t)keys + 1) * sizeof *start);
  *out = (situ__gguf_remarks){ .remark = situ__calloc((size_t)keys + 1, sizeof *out->remark) };
  for (int64_t i = 0; start && out->remark && i < keys; i++) {
    start[i] = text.length;
    add_value(&text, f, situ_gguf_key(f, i));
  }
  const bool good = start && out->remark && !text.failed;
  for (int64_t i = 0; good && i < keys; i++)
    out->remark[i] = (situ_metadata){ .key = situ_gguf_key(f, i), .value = text.data + start[i] };
  out->text = text.data;
  out->count = good ? keys : 0;
  situ__free(start);
  if (good) return true;
  situ__gguf_remarks_free(out);
  return situ__no_memory("gguf_open", (size_t)keys * sizeof *out->remark), false;
}

void situ__gguf_remarks_free(situ__gguf_remarks *remarks) {
  situ__free(remarks->remark);
  situ__free(remarks->text);
  *remarks = (situ__gguf_remarks){ .count = 0 };
}
