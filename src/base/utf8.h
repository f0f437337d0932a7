/* UTF-8: what is valid, and how a character is written.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_UTF8_H
#define SITU_BASE_UTF8_H

#include "situ/api.h"

/* How many bytes at the start are valid UTF-8 (RFC 3629: no surrogates, no longer form than
   needed); `length` if all. */
size_t situ__utf8_prefix(const char *text, size_t length);
/* Bytes of the valid character that text, of which `left` bytes are there, begins with; 0: none. */
size_t situ__utf8_character(const char *text, size_t left);
/* Copies text for a message, as far as it fits: what would move the cursor, colour or turn round the rest of a line
   (control characters but for newlines and tabs, bidirectional marks), and bytes that are no UTF-8, as "\x1b", "\u202e". */
void situ__utf8_printable(const char *text, char *out, size_t size);
/* Writes one character (below 0x110000) and returns its bytes, 1 to 4. */
size_t situ__utf8_encode(uint32_t code, char *out);

#endif
