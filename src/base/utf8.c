/* UTF-8.
   SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <string.h>

/* The second byte's range is what excludes overlong forms (E0, F0), surrogates (ED) and what lies
   beyond the last character (F4). */
static size_t character(const unsigned char *s, size_t left) {
  unsigned char first = s[0], low = 0x80, high = 0xBF;
  size_t length;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return 0;
  }
  if (left < length || s[1] < low || s[1] > high) return 0;
  for (size_t i = 2; i < length; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  return length;
}

size_t situ__utf8_character(const char *text, size_t left) {
  return left ? character((const unsigned char *)text, left) : 0;
}

size_t situ__utf8_prefix(const char *text, size_t length) {
  const unsigned char *s = (const unsigned char *)text;
  size_t at = 0;
  while (at < length) {
    uint64_t eight;
    /* Eight ASCII bytes at a time: headers are almost nothing else. */
    if (length - at >= 8 && (memcpy(&eight, s + at, 8), (eight & 0x8080808080808080u) == 0)) {
      at += 8;
      continue;
    }
    size_t bytes = character(s + at, length - at);
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

size_t situ__utf8_encode(uint32_t code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
  out[0] = (char)((0xF00 >> length) | code);
  return length;
}
