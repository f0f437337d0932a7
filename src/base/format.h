/* snprintf with a decimal point in every locale: text of situ's is read by programs (traces, JSON, files) as much as by
   people, and a comma cuts numbers that are looked for by their point.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_FORMAT_H
#define SITU_BASE_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

#include "situ/api.h"

int situ__vformat(char *out, size_t size, const char *fmt, va_list args) SITU_PRINTF(3, 0);
int situ__format(char *out, size_t size, const char *fmt, ...) SITU_PRINTF(3, 4);
/* strtod, likewise. */
double situ__strtod(const char *text, char **end);

#endif
