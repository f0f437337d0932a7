/* Prints the list of kernels, one a line: text, symbol, NAME, OP, compute dtype, FLAGS, D0 .. D5 (`-`: not defined).
   SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/lower/list/list.h"

static situ_status fail(situ_status status, const char *op, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)fprintf(stderr, "situ_kernels: %s: ", op);
  (void)vfprintf(stderr, fmt, args);
  (void)fputc('\n', stderr);
  va_end(args);
  return status;
}

static const char *verb_name(situ_verb verb) {
  (void)verb;
  return "work";
}

static const char *dtype_name(int dtype) { return dtype ? situ__dtypes[dtype].name : "-"; }

static void print_kernel(const situ__listed *kernel) {
  static const char *const text[] = {
#define ROW(name) #name,
    SITU__TEXTS(ROW)
#undef ROW
  };
  const situ__variant *v = &kernel->variant;
  const situ__call call = { .variant = *v, .name = kernel->name };
  char symbol[SITU__CALL_NAME];
  situ__lower_name(&call, symbol);
  (void)printf("%s %s %s %d %s %u", text[v->text], symbol, kernel->name ? kernel->name : "none",
               kernel->name ? 0 : v->op, dtype_name(v->compute), (unsigned)v->flags);
  for (int k = 0; k < SITU__CALL_DTYPES; k++) (void)printf(" %s", dtype_name(v->dtype[k]));
  (void)putchar('\n');
}

int main(void) {
  static const situ_host host = { .fail = fail, .verb_name = verb_name, .alloc = malloc, .free = free };
  (void)situ__lower_start(&host, &situ__list_targets);
  situ__list_all();
  size_t count;
  const situ__listed *list = situ__list_read(&count);
  if (!list) return EXIT_FAILURE;
  for (int text = 0; text < SITU__TEXT_COUNT; text++)
    for (size_t k = 0; k < count; k++)
      if (list[k].variant.text == text) print_kernel(&list[k]);
  return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
