/* Recording an error: the first of a thread is kept, later ones only counted.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FAIL_H
#define SITU_BASE_FAIL_H

#include "situ/error.h"

/* Records and returns status. op is the call's public name without situ_ ("matmul"); fmt says what was wrong,
   got and wanted: "[32, 784] x [768, 10]: 784 and 768 differ". Text is cut at 4 KiB. */
situ_status situ__fail(situ_status status, const char *op, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;
/* The same with the operands that the message lists (texts are copied). */
situ_status situ__fail_operands(situ_status status, const char *op, const situ_error_operand *list, int count,
                                const char *fmt, ...) SITU_PRINTF(5, 6) SITU_COLD;
situ_status situ__no_memory(const char *op, size_t bytes) SITU_COLD;
/* The status to return when an operand is NULL: the thread's first error if there is one (the NULL came from
   it), else SITU_E_ARG "`operand` is NULL", recorded. */
situ_status situ__null(const char *op, const char *operand) SITU_COLD;
/* Errors met by this thread so far, kept or not: scopes compare it. */
uint64_t situ__error_count(void);
/* Sends a line to the log function whatever the mode (warnings, lint). */
void situ__log(const char *fmt, ...) SITU_PRINTF(1, 2) SITU_COLD;

#endif
