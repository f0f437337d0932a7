/* UTF-8: validation, printable text, encoding.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_UTF8_H
#define SITU_BASE_UTF8_H

#include "situ/api.h"

/* Returns how many leading bytes are valid UTF-8 (RFC 3629: no surrogates, no overlong forms); `length` if all. */
size_t situ__utf8_prefix(const char *text, size_t length);
/* Returns the size of the valid character at the start of text, of which `left` bytes are readable; 0 if it is
   invalid. */
size_t situ__utf8_character(const char *text, size_t left);
/* Copies text for a message, as far as it fits. Writes as escapes ("\x1b", "\u202e") what would move the cursor,
   colour or reorder the rest of a line (control characters except newline and tab, bidirectional marks), and bytes
   that are not UTF-8. */
void situ__utf8_printable(const char *text, char *out, size_t size);
/* Whether the character, of `bytes` valid bytes, is written as it is by that. */
bool situ__utf8_is_printable(const char *text, size_t bytes);
/* Drops an incomplete character at the end of a text that fills its buffer of `size` bytes, where it was cut. */
void situ__utf8_drop_cut(char *text, size_t size);
/* Encodes one character (below 0x110000) and returns its size, 1 to 4. */
size_t situ__utf8_encode(uint32_t code, char *out);

#endif
