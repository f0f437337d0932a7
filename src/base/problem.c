/* Errors in the content of a file.
   SPDX-License-Identifier: MIT */
#include "base/problem.h"
#include "base/format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool situ__problem_set(situ__problem *problem, situ_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  situ__vformat(problem->text, sizeof problem->text, fmt, args);
  va_end(args);
  problem->status = status;
  return false;
}

const char *situ__shown(const char *name, char out[SITU__SHOWN_MAX]) {
  size_t length = 0, most = SITU__SHOWN_MAX - 4;
  for (; name[length] && length < most; length++) {
    unsigned char c = (unsigned char)name[length];
    out[length] = c < 0x20 || c == 0x7F ? '?' : name[length];
  }
  if (name[length]) {
    /* Do not cut inside a UTF-8 character. */
    while (length > 0 && ((unsigned char)name[length] & 0xC0) == 0x80) length--;
    memcpy(out + length, "...", 3);
    length += 3;
  }
  out[length] = '\0';
  return out;
}
