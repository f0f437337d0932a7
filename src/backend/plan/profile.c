/* The strict parser of profiles: "2 x 24 GiB, no f64, 12 GB/s; 80 GiB".
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/plan/plan.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static void skip(const char **at) {
  while (**at == ' ' || **at == '\t' || **at == '\n') ++*at;
}

/* Skips spaces, and the character if it is next. */
static bool take(const char **at, char c) {
  skip(at);
  return **at == c ? ++*at, true : false;
}

/* Reads digits. Returns false if the number is too large. */
static bool read_digits(const char **at, uint64_t *out) {
  for (*out = 0; is_digit(**at); ++*at)
    if (__builtin_mul_overflow(*out, 10u, out) || __builtin_add_overflow(*out, (uint64_t)(**at - '0'), out))
      return false;
  return true;
}

/* Bytes of the unit that is next, which is skipped; 0: it is none. */
static uint64_t read_unit(const char **at) {
  static const struct {
    const char *name;
    uint64_t bytes;
  } units[] = {
    { "B", 1 },     { "KiB", 1ull << 10 }, { "MiB", 1ull << 20 }, { "GiB", 1ull << 30 },   { "TiB", 1ull << 40 },
    { "KB", 1000 }, { "MB", 1000000 },     { "GB", 1000000000 },  { "TB", 1000000000000 },
  };
  size_t length = 0;
  for (skip(at); is_letter((*at)[length]);) length++;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strlen(units[i].name) == length && memcmp(units[i].name, *at, length) == 0)
      return *at += length, units[i].bytes;
  return 0;
}

#define NUMBER "a number of bytes with its unit (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB) must be here"
#define LARGE "this number is too large"

/* Reads "24 GiB" or "1.5GB". */
static const char *read_bytes(const char **at, uint64_t *out) {
  uint64_t full, part = 0, of = 1;
  skip(at);
  if (!is_digit(**at)) return NUMBER;
  if (!read_digits(at, &full)) return LARGE;
  if (**at == '.' && is_digit((*at)[1]))
    for (++*at; is_digit(**at); ++*at)
      if (of < 1000000) part = 10 * part + (uint64_t)(**at - '0'), of *= 10;
  const uint64_t unit = read_unit(at), more = unit / of * part + unit % of * part / of;
  if (!unit) return NUMBER;
  if (__builtin_mul_overflow(full, unit, &full) || __builtin_add_overflow(full, more, out)) return LARGE;
  return *out ? NULL : "0 bytes are not possible here";
}

/* Reads "f64" behind "no". */
static const char *read_dtype(const char **at, uint32_t *missing) {
  size_t length = 0;
  for (skip(at); is_letter((*at)[length]) || is_digit((*at)[length]);) length++;
  for (int d = SITU_BOOL; d < SITU_DTYPES; d++) {
    const char *name = situ__dtype_name((situ_dtype)d);
    if (strlen(name) != length || memcmp(name, *at, length) != 0) continue;
    if (*missing >> d & 1) return "this dtype was named before";
    *missing |= 1u << d;
    return *at += length, NULL;
  }
  return "this must be a dtype, as in \"no f64\"";
}

/* What follows the memory, up to the end of the group. */
static const char *read_limits(const char **at, situ__planned *d) {
  while (take(at, ',')) {
    const char *bad;
    skip(at);
    if (strncmp(*at, "no ", 3) == 0) {
      *at += 3;
      bad = read_dtype(at, &d->missing);
    } else {
      if (!is_digit(**at)) return "\"no DTYPE\" or a speed as in \"12 GB/s\" must be here";
      if (d->copy_rate) return "a second speed";
      bad = read_bytes(at, &d->copy_rate);
      if (!bad && (*at)[0] == '/' && (*at)[1] == 's') *at += 2;
      else if (!bad) bad = "a speed is in bytes a second, as in \"12 GB/s\"";
    }
    if (bad) return bad;
  }
  return NULL;
}

/* "2 x 24 GiB" and what follows. */
static const char *read_group(const char **at, situ__plan *out) {
  situ__planned d = { 0 };
  uint64_t number;
  const char *const begin = *at;
  skip(at);
  if (!read_digits(at, &number)) return LARGE;
  if (!take(at, 'x')) number = 1, *at = begin; /* it was the memory */
  const char *bad = read_bytes(at, &d.memory);
  if (bad || (bad = read_limits(at, &d))) return bad;
  if (number < 1 || number > (uint64_t)(SITU__DEVICES_MAX - out->count)) {
    *at = begin;
    return "1 to 64 devices are possible";
  }
  for (uint64_t i = 0; i < number; i++) out->device[out->count++] = d;
  return NULL;
}

const char *situ__plan_read(const char *profile, situ__plan *out, const char **at) {
  *out = (situ__plan){ 0 };
  *at = profile;
  skip(at);
  if (!**at) return NULL;
  do {
    const char *bad = read_group(at, out);
    if (bad) return bad;
  } while (take(at, ';'));
  return **at ? "a comma or a semicolon must be here" : NULL;
}
