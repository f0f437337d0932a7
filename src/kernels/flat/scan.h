/* Cumulative sum of each line.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, const lines w) {
  const I64 line = ITEM;
  if (line >= w.outer * w.inner) return;
  const I64 base = line / w.inner * w.size * w.inner + line % w.inner;
  T sum = 0;
  for (I64 j = 0; j < w.size; j++) {
    sum += LOAD(D1, x[w.offset[1] + base + j * w.inner]);
    y[w.offset[0] + base + j * w.inner] = STORE(D0, sum);
  }
}
