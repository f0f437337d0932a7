/* Formatting in the C locale.
   SPDX-License-Identifier: MIT */
#include "base/format.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t c_locale;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void make_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* C libraries have this one ready. Without it (0) the thread's own stays in use. */
static locale_t get_locale(void) {
  (void)pthread_once(&once, make_locale);
  return c_locale;
}

int situ__vformat(char *out, size_t size, const char *fmt, va_list args) {
  const locale_t before = uselocale(get_locale());
  const int length = vsnprintf(out, size, fmt, args);
  (void)uselocale(before);
  return length;
}

int situ__format(char *out, size_t size, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  const int length = situ__vformat(out, size, fmt, args);
  va_end(args);
  return length;
}

double situ__strtod(const char *text, char **end) {
  const locale_t c = get_locale();
  return c ? strtod_l(text, end, c) : strtod(text, end);
}
