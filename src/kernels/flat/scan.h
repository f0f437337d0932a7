/* Running sum (OP 0) or product (1) of each line, and the product's gradient (2): situ_scan_pass.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"

#if OP == 2
/* From the end: dx[j] = y[j-1] s[j], with y[-1] = 1 and s[j] = g[j] + x[j+1] s[j+1]. */
GROUPS KERNEL run(GLOBAL MEMORY(D0) *dx, GLOBAL const MEMORY(D0) *x, GLOBAL const MEMORY(D0) *y,
                  GLOBAL const MEMORY(D0) *g, const lines w) {
  const I64 line = ITEM;
  if (line >= w.outer * w.inner) return;
  const I64 base = line / w.inner * w.size * w.inner + line % w.inner;
  T rest = 0;
  for (I64 j = w.size - 1; j >= 0; j--) {
    const I64 at = base + j * w.inner;
    const T s = LOAD(D0, g[w.offset[3] + at]) + rest;
    rest = LOAD(D0, x[w.offset[1] + at]) * s;
    const T before = j ? LOAD(D0, y[w.offset[2] + at - w.inner]) : (T)1;
    dx[w.offset[0] + at] = STORE(D0, before * s);
  }
}
#else
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, const lines w) {
  const I64 line = ITEM;
  if (line >= w.outer * w.inner) return;
  const I64 base = line / w.inner * w.size * w.inner + line % w.inner;
  T total = OP;
  for (I64 j = 0; j < w.size; j++) {
    const T v = LOAD(D1, x[w.offset[1] + base + j * w.inner]);
    total = OP ? total * v : total + v;
    y[w.offset[0] + base + j * w.inner] = STORE(D0, total);
  }
}
#endif
