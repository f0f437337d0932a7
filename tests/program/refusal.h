/* What a refusal of a program's file must say, whatever it refuses.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_PROGRAM_REFUSAL_H
#define SITU_TEST_PROGRAM_REFUSAL_H

#include <stdio.h>
#include <string.h>

#include "situ/situ.h"

/* Refusals that were looked at. */
static int refusals;

/* The thread's error must have the file's path, the node's place and name, its op, and `what`; it is cleared. Words that
   leave out what they are about are not allowed. */
static inline void expect_place(const char *path, const char *place, const char *name, const char *op,
                                const char *what) {
  static const char *const vague[] = { "a dtype that", "(null)", "  at :", ": \n", ", ,", "has 1 calls" };
  const char *said = situ_error_message();
  const char *const needed[] = { path, place, name, op, what };
  refusals++;
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (needed[i] && !strstr(said, needed[i])) fail_msg("%s %s: \"%s\" does not say \"%s\"", op, name, said, needed[i]);
  for (size_t i = 0; i < sizeof vague / sizeof *vague; i++)
    if (strstr(said, vague[i])) fail_msg("%s %s: \"%s\" says \"%s\"", op, name, said, vague[i]);
  situ_error_clear();
}

#endif
