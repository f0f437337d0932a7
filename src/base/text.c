/* Growable text buffer.
   SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/format.h"

/* Reserves count more bytes and the NUL. Returns false when memory runs out; then nothing more is added. */
static bool reserve_bytes(situ__text *text, size_t count) {
  enum { FIRST = 64 };
  if (text->failed) return false;
  const size_t most = PTRDIFF_MAX - text->length, needed = text->length + count + 1;
  text->failed = count >= most || !situ__grow(NULL, &text->data, &text->capacity, 1, needed < FIRST ? FIRST : needed);
  return !text->failed;
}

void situ__text_append(situ__text *text, const char *bytes, size_t count) {
  if (!reserve_bytes(text, count)) return;
  if (count) memcpy(text->data + text->length, bytes, count);
  text->length += count;
  text->data[text->length] = 0;
}

void situ__text_add(situ__text *text, const char *fmt, ...) {
  char small[256];
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int length = situ__vformat(small, sizeof small, fmt, args);
  va_end(args);
  if (length < 0) {
    text->failed = true;
  } else if ((size_t)length < sizeof small) {
    situ__text_append(text, small, (size_t)length);
  } else if (reserve_bytes(text, (size_t)length)) {
    (void)situ__vformat(text->data + text->length, (size_t)length + 1, fmt, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

void situ__text_dims(situ__text *text, const int64_t *dim, int count) {
  situ__text_append(text, "[", 1);
  for (int i = 0; i < count; i++) situ__text_add(text, i ? ", %" PRId64 : "%" PRId64, dim[i]);
  situ__text_append(text, "]", 1);
}

void situ__text_json_string(situ__text *text, const char *utf8) {
  static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
  situ__text_append(text, "\"", 1);
  for (const char *c = utf8; *c; c++) {
    const char *found = strchr(plain, *c);
    if (found) {
      situ__text_add(text, "\\%c", letter[found - plain]);
    } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
      situ__text_add(text, "\\u%04x", (unsigned char)*c);
    } else {
      situ__text_append(text, c, 1);
    }
  }
  situ__text_append(text, "\"", 1);
}

void situ__text_free(situ__text *text) {
  situ__free(text->data);
  *text = (situ__text){ 0 };
}

int64_t situ__text_give(situ__text *text, char *buffer, size_t size) {
  int64_t length = text->failed ? -1 : (int64_t)text->length;
  if (length >= 0 && buffer && size) {
    size_t kept = text->length < size ? text->length : size - 1;
    if (kept) memcpy(buffer, text->data, kept);
    buffer[kept] = 0;
  }
  situ__text_free(text);
  return length;
}

int64_t situ__text_deliver(const char *op, situ__text *text, char *buffer, size_t size) {
  const int64_t capacity = text->capacity;
  const int64_t length = situ__text_give(text, buffer, size);
  if (length < 0) situ__no_memory(op, capacity);
  return length;
}

const char *situ__bytes_text(uint64_t bytes, char out[SITU__BYTES_TEXT]) {
  static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
  double value = (double)bytes;
  int u = 0;
  for (; value >= 1024 && u < 6; u++) value /= 1024;
  (void)situ__format(out, SITU__BYTES_TEXT, u ? "%.1f %s" : "%.0f %s", value, unit[u]);
  return out;
}

void situ__bytes_texts(uint64_t one, uint64_t other, char out[2][SITU__BYTES_TEXT]) {
  if (strcmp(situ__bytes_text(one, out[0]), situ__bytes_text(other, out[1])) != 0 || one == other) return;
  (void)snprintf(out[0], SITU__BYTES_TEXT, "%llu B", (unsigned long long)one);
  (void)snprintf(out[1], SITU__BYTES_TEXT, "%llu B", (unsigned long long)other);
}
