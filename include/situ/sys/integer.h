/* Products of bytes in whole numbers: the passes of SITU_VERB_INTEGER (backend.h).
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_INTEGER_H
#define SITU_SYS_INTEGER_H

#include "../api.h"

SITU_BEGIN

/** In a and b, u8 or i8 each; the zero point of a (one of its dtype) and of b (one, or n), or NULL; bias i32 [n] or
    NULL; scale f32 [1] or [n], or NULL; the zero point of y, one element, or NULL; the result of PREPACK for b, or
    absent. s = the sums of (a - zero) (b - zero), + bias, wrapping; out y: without a scale s, i32; without a zero
    point s scale, f32; else of its dtype, u8 or i8: s scale, rounded (half to even), + zero point, within the dtype's
    range; NaN gives its least. */
typedef enum situ_integer_pass {
  SITU_INTEGER_MATMUL, /**< a [items, m, k], b [items or 1, k, n] with any strides, y [items, m, n] */
  /** x [N, C, H, W], w [O, C/groups, kh, kw], y [N, O, H', W'], n = O; window: its padding is before x, and a place
      outside of x has the zero point. */
  SITU_INTEGER_CONV
} situ_integer_pass;

/** Size of the result of PREPACK for products of u8 and i8: panels of 32 columns and groups of four along k, and a sum
    for each column. */
static inline int64_t situ_integer_prepack_bytes(int64_t k, int64_t n) {
  const int64_t most = INT64_C(1) << 29;
  return k < 0 || n < 0 || k > most || n > most ? 0 : 128 * ((n + 31) / 32) * ((k + 3) / 4 + 1);
}

SITU_END
#endif
