/* Looking at memory that may not be there.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_PEEK_H
#define SITU_BASE_PEEK_H

#include <stdbool.h>
#include <stddef.h>

/* Copies bytes from an address that may be anything: freed, protected, no address at all. False:
   there is nothing to read (or this system cannot say: see situ__can_peek). About a microsecond. */
bool situ__peek(const void *from, void *to, size_t bytes);
/* Does this system let a process ask? */
bool situ__can_peek(void);

#endif
