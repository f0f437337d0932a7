/* Reads memory that may be unmapped.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_PEEK_H
#define SITU_BASE_PEEK_H

#include <stdbool.h>
#include <stddef.h>

/* Copies bytes from any address: freed, protected, or not an address at all. Returns false if it is not readable, or
   if this system has no way to (see situ__can_peek). At most 4096 bytes; costs about a microsecond. errno changes. */
bool situ__peek(const void *from, void *to, size_t bytes);
/* Returns true if this system has a way. */
bool situ__can_peek(void);

#endif
