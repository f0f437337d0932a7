/* Changes the JSON of a program by its values: another number, another value of the same text, one more, one less.
   SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { VALUES = 8192, DEPTH = 64 };

/* A value: a scalar, or a list or an object with all that it holds. */
typedef struct span {
  size_t at, length;
  char kind;    /* '"', '{', '[', 'k' a key, '0' a number, 'w' a word */
  char in;      /* what holds it: '{' or '[' */
  size_t whole; /* where it begins with its key */
} span;
static span values[VALUES];

static size_t end_of_text(const uint8_t *data, size_t size, size_t at) {
  for (at++; at < size && data[at] != '"'; at++) at += data[at] == '\\';
  return at < size ? at + 1 : size;
}

static int find_values(const uint8_t *data, size_t size) {
  int count = 0, depth = 0, open[DEPTH];
  size_t key = 0; /* where the member begins; 0: it has no key */
  for (size_t i = 0; i < size && count < VALUES;) {
    const uint8_t c = data[i];
    size_t end = i + 1;
    span s = { .at = i, .length = 1, .in = depth ? values[open[depth - 1]].kind : 0, .whole = key ? key : i };
    if (c == '{' || c == '[') {
      if (depth == DEPTH) return count;
      s.kind = (char)c;
      open[depth++] = count;
    } else if (c == '}' || c == ']') {
      if (!depth) return count;
      depth--;
      values[open[depth]].length = i + 1 - values[open[depth]].at;
    } else if (c == '"') {
      end = end_of_text(data, size, i);
      s.kind = end < size && data[end] == ':' ? 'k' : '"';
    } else if (isalnum(c) || c == '-') {
      while (end < size && (isalnum(data[end]) || strchr("+-.", data[end]))) end++;
      s.kind = isalpha(c) ? 'w' : '0';
    }
    s.length = end - i;
    if (s.kind) values[count++] = s;
    if (s.kind) key = s.kind == 'k' ? i : 0;
    i = end;
  }
  return count;
}

static size_t replace(uint8_t *data, size_t size, size_t most, span at, const uint8_t *by, size_t length) {
  const size_t changed = size - at.length + length;
  if (changed > most) return size;
  uint8_t *copy = malloc(length + 1);
  if (!copy) return size;
  memcpy(copy, by, length); /* it may be of the same text */
  memmove(data + at.at + length, data + at.at + at.length, size - at.at - at.length);
  memcpy(data + at.at, copy, length);
  free(copy);
  return changed;
}

/* Another of the same kind. */
static span choose(int count, char kind, unsigned *seed) {
  span found = { 0 };
  for (int i = 0, seen = 0; i < count; i++)
    if (values[i].kind == kind && (unsigned)rand_r(seed) % (unsigned)++seen == 0) found = values[i];
  return found;
}

static size_t change(uint8_t *data, size_t size, size_t most, unsigned *seed) {
  static const char *const numbers[] = { "0",
                                         "1",
                                         "2",
                                         "3",
                                         "-1",
                                         "-2",
                                         "7",
                                         "13",
                                         "64",
                                         "2147483648",
                                         "1e300",
                                         "0.5",
                                         "4611686018427387904",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "2147483647",
                                         "-2147483649",
                                         "1048576" };
  const int count = find_values(data, size);
  if (count < 2) return LLVMFuzzerMutate(data, size, most);
  span at = values[1 + rand_r(seed) % (count - 1)];
  for (int i = 0; i < 3 && (at.kind == '"' || at.kind == 'k'); i++) /* names seldom: most others are not there */
    at = values[1 + rand_r(seed) % (count - 1)];
  const unsigned how = (unsigned)rand_r(seed) % 8;
  if (at.kind == '0' && how < 6) {
    const char *number = numbers[(unsigned)rand_r(seed) % (sizeof numbers / sizeof *numbers)];
    return replace(data, size, most, at, (const uint8_t *)number, strlen(number));
  }
  if (how == 0 && at.kind != 'k') { /* it goes, with the comma after or before it */
    span gone = { .at = at.whole, .length = at.at + at.length - at.whole };
    if (gone.at + gone.length < size && data[gone.at + gone.length] == ',') gone.length++;
    else if (gone.at && data[gone.at - 1] == ',') gone.at--, gone.length++;
    return replace(data, size, most, gone, data, 0);
  }
  if (how == 1 && at.in == '[' && at.length + 1 + size <= most) { /* twice */
    memmove(data + at.at + at.length + 1, data + at.at, size - at.at);
    data[at.at + at.length] = ',';
    return size + at.length + 1;
  }
  if (at.kind == 'k' && how < 7) return size;
  const char kind = how == 2 && at.kind != 'k' ? values[rand_r(seed) % count].kind : at.kind;
  const span other = choose(count, kind == 'k' ? at.kind : kind, seed);
  return replace(data, size, most, at, data + other.at, other.length);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  if (!size || *data != '{' || seed % 256 == 0) return LLVMFuzzerMutate(data, size, most);
  seed = seed * 2654435761u + 1;
  for (int i = seed / 256 % 8 ? 1 : 3; i; i--) size = change(data, size, most, &seed);
  return size;
}
