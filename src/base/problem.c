/* Errors in the content of a file.
   SPDX-License-Identifier: MIT */
#include "base/problem.h"
#include "base/format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

bool situ__problem_set(situ__problem *problem, situ_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  situ__vformat(problem->text, sizeof problem->text, fmt, args);
  va_end(args);
  situ__utf8_drop_cut(problem->text, sizeof problem->text);
  problem->status = status;
  return false;
}

const char *situ__shown(const char *name, char out[SITU__SHOWN_MAX]) {
  const size_t most = SITU__SHOWN_MAX - 4;
  size_t length = 0, left = strlen(name);
  while (left) {
    const size_t bytes = situ__utf8_character(name, left), taken = bytes ? bytes : 1;
    if (length + taken > most) break;
    const bool hides = (unsigned char)*name < 0x20 || (bytes && !situ__utf8_is_printable(name, bytes));
    memcpy(out + length, hides ? "?" : name, hides ? 1 : taken);
    length += hides ? 1 : taken;
    name += taken;
    left -= taken;
  }
  if (left) {
    memcpy(out + length, "...", 3);
    length += 3;
  }
  out[length] = '\0';
  return out;
}
