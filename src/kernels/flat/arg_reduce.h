/* Index of the minimum (OP 0) or the maximum (1) of each line: the first of equal elements; NaN wins over all numbers.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"

GROUPS KERNEL run(GLOBAL MEMORY(D0) *values, GLOBAL I64 *at, GLOBAL const MEMORY(D1) *x, const lines w) {
  const I64 line = ITEM;
  if (line >= w.outer * w.inner) return;
  GLOBAL const MEMORY(D1) *from = x + w.offset[2] + line / w.inner * w.size * w.inner + line % w.inner;
  T best = LOAD(D1, from[0]);
  I64 where = 0;
  for (I64 j = 1; j < w.size && best == best; j++) {
    const T v = LOAD(D1, from[j * w.inner]);
    if ((OP ? v > best : v < best) || v != v) {
      best = v;
      where = j;
    }
  }
#if FLAGS & FLAG_EACH
  values[w.offset[0] + line] = STORE(D0, best);
#endif
  at[w.offset[1] + line] = where;
}
