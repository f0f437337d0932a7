/* UTF-8.
   SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* The range of the second byte excludes overlong forms (E0, F0), surrogates (ED) and code points above U+10FFFF
   (F4). */
static size_t character_size(const unsigned char *s, size_t left) {
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
  return left ? character_size((const unsigned char *)text, left) : 0;
}

size_t situ__utf8_prefix(const char *text, size_t length) {
  const unsigned char *s = (const unsigned char *)text;
  size_t at = 0;
  while (at < length) {
    uint64_t eight;
    /* Skip eight ASCII bytes at a time: headers are mostly ASCII. */
    if (length - at >= 8 && (memcpy(&eight, s + at, 8), (eight & 0x8080808080808080u) == 0)) {
      at += 8;
      continue;
    }
    size_t bytes = character_size(s + at, length - at);
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

static uint32_t code_of(const unsigned char *s, size_t bytes) {
  uint32_t code = bytes == 1 ? s[0] : s[0] & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; i++) code = code << 6 | (s[i] & 0x3F);
  return code;
}

static bool is_harmless(uint32_t code) {
  if (code < 0xA0) return code == '\n' || code == '\t' || (code >= 0x20 && code < 0x7F);
  return code != 0x061C && code != 0x200E && code != 0x200F && !(code >= 0x2028 && code <= 0x202E) &&
         !(code >= 0x2066 && code <= 0x2069);
}

bool situ__utf8_is_printable(const char *text, size_t bytes) {
  return is_harmless(code_of((const unsigned char *)text, bytes));
}

void situ__utf8_drop_cut(char *text, size_t size) {
  const size_t length = strlen(text);
  size_t at = length;
  if (length + 1 < size) return;
  while (at > 0 && length - at < 3 && ((unsigned char)text[at - 1] & 0xC0) == 0x80) at--;
  if (at > 0 && (unsigned char)text[at - 1] >= 0xC0 && !situ__utf8_character(text + at - 1, length - at + 1))
    text[at - 1] = 0;
}

void situ__utf8_printable(const char *text, char *out, size_t size) {
  size_t left = strlen(text), done = 0;
  while (left) {
    const size_t bytes = situ__utf8_character(text, left), taken = bytes ? bytes : 1;
    const uint32_t code = code_of((const unsigned char *)text, taken);
    char escape[8];
    const bool raw = bytes && is_harmless(code);
    const size_t length = raw ? taken
                              : (size_t)snprintf(escape, sizeof escape, !bytes || code < 0x80 ? "\\x%02x" : "\\u%04x",
                                                 bytes ? code : (unsigned char)*text);
    if (done + length + 1 > size) break;
    memcpy(out + done, raw ? text : escape, length);
    done += length;
    text += taken;
    left -= taken;
  }
  out[done] = 0;
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
