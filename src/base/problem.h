/* What is wrong with a file, said by the pure parsers: they know no path and record no error.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_PROBLEM_H
#define SITU_BASE_PROBLEM_H

#include "situ/error.h"

typedef struct situ__problem {
  situ_status status;
  char text[256]; /* follows a path: "has no end" */
} situ__problem;

/* Always false, so that a parser can return it. */
bool situ__problem_set(situ__problem *problem, situ_status status, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;

#define SITU__SHOWN_MAX 72
/* A name of a file's, fit for a message: control characters as '?', cut when long. Returns out. */
const char *situ__shown(const char *name, char out[SITU__SHOWN_MAX]);

#endif
