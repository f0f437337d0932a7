/* A text, its characters as class numbers.
   SPDX-License-Identifier: MIT */
#ifndef SITU_EXAMPLE_TEXT_H
#define SITU_EXAMPLE_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
  int64_t *symbol;
  int64_t length;
  int symbols;
  char letter[256]; /* of each symbol, which are numbered as they occur */
} text;

/* Reads at most 1 MiB, which must be longer than `longest`; free(t->symbol) afterwards. */
static inline bool text_read(text *t, const char *path, int64_t longest) {
  FILE *f = fopen(path, "rb");
  static char raw[1 << 20];
  if (!f) return perror(path), false;
  t->length = (int64_t)fread(raw, 1, sizeof raw, f);
  fclose(f);
  int number[256];
  memset(number, -1, sizeof number);
  t->symbol = malloc((size_t)t->length * sizeof *t->symbol + 1);
  if (!t->symbol || t->length <= longest) return fprintf(stderr, "%s: too short\n", path), false;
  for (int64_t i = 0; i < t->length; i++) {
    unsigned char c = (unsigned char)raw[i];
    if (number[c] < 0) t->letter[number[c] = t->symbols++] = (char)c;
    t->symbol[i] = number[c];
  }
  return true;
}

#endif
