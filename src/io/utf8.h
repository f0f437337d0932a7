/* UTF-8: what is valid, and how a character is written.
   SPDX-License-Identifier: MIT */
#ifndef SITU_IO_UTF8_H
#define SITU_IO_UTF8_H

#include "situ/api.h"

/* How many bytes at the start are valid UTF-8 (RFC 3629: no surrogates, no longer form than
   needed); `length` if all. */
size_t situ__utf8_prefix(const char *text, size_t length);
/* Writes one character (below 0x110000) and returns its bytes, 1 to 4. */
size_t situ__utf8_encode(uint32_t code, char *out);

#endif
