/* Checked arithmetic on sizes: returns true and sets the result, or returns false and sets nothing.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_SIZE_H
#define SITU_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool situ__add_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool situ__sub_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_sub_overflow(a, b, out); }
static inline bool situ__mul_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool situ__mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }

static inline int64_t situ__min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t situ__max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
/* Rounds up; a >= 0, b > 0. */
static inline int64_t situ__ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
static inline int64_t situ__round_up(int64_t a, int64_t unit) { return situ__ceil_div(a, unit) * unit; }
/* The size of parts of a, each at most `most`, all but the last of one size and that not much smaller. */
static inline int64_t situ__even_part(int64_t a, int64_t most) {
  return a <= most ? a : situ__ceil_div(a, situ__ceil_div(a, most));
}

#endif
