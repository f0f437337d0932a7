/* Recording an error: the first of a thread is kept, later ones only counted.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FAIL_H
#define SITU_BASE_FAIL_H

#include "situ/error.h"

/* Records and returns status. op is the call's public name without situ_ ("matmul"); fmt says what
   was wrong, got and wanted: "[32, 784] x [768, 10]: 784 and 768 differ". The message becomes "op:
   text", and where the caller can be told, a second line "  at train.c:12 in step". Text is cut at
   4 KiB. */
situ_status situ__fail(situ_status status, const char *op, const char *fmt, ...)
    SITU_PRINTF(3, 4) SITU_COLD;
/* The same with the operands that the message lists (texts are copied); the text is the whole
   message. */
situ_status situ__fail_operands(situ_status status, const char *op, const situ_error_operand *list,
                                int count, const char *fmt, ...) SITU_PRINTF(5, 6) SITU_COLD;
situ_status situ__no_memory(const char *op, size_t bytes) SITU_COLD;
/* The status to return when an operand is NULL: the thread's first error if there is one (the NULL
   came from it), else SITU_E_ARG "`operand` is NULL", recorded. */
situ_status situ__null(const char *op, const char *operand) SITU_COLD;
/* Errors met by this thread so far, kept or not: scopes compare it. */
uint64_t situ__error_count(void);
/* Sends a line to the log function whatever the mode (warnings, lint). */
void situ__log(const char *fmt, ...) SITU_PRINTF(1, 2) SITU_COLD;

/* Work of another moment (a device's queue) fails in whichever thread happens to run it. Between
   these two calls the thread's own error is set aside, and what fails is neither logged nor kept;
   the second call tells what it was. */
typedef struct situ__errors {
  struct situ__error_record *record;
  situ_status status;
  uint64_t count;
} situ__errors;
void situ__errors_aside(situ__errors *own);
/* The first failure in between (SITU_OK: none) and its message. */
situ_status situ__errors_back(const situ__errors *own, char *message, size_t size);

/* How an error finds out where it was caused: set once by floor 1, which knows frames and line
   tables. */
typedef struct situ__locator {
  void *(*find)(void);
  const char *(*text)(void *site, char *buffer, size_t size); /* "" if it cannot be told */
} situ__locator;
void situ__error_locate(const situ__locator *locator);

#endif
