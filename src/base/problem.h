/* An error in the content of a file, as the pure parsers return it: they know no path and record no errors.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_PROBLEM_H
#define SITU_BASE_PROBLEM_H

#include "situ/error.h"

typedef struct situ__problem {
  situ_status status;
  char text[512]; /* follows a path: "has no end" */
} situ__problem;

/* Always returns false, so that a parser can return its result. */
bool situ__problem_set(situ__problem *problem, situ_status status, const char *fmt, ...) SITU_PRINTF(3, 4) SITU_COLD;

#define SITU__SHOWN_MAX 72
/* Makes a name from a file printable: control characters and bidirectional marks become "?", long names are cut.
   Returns out. */
const char *situ__shown(const char *name, char out[SITU__SHOWN_MAX]);

#endif
