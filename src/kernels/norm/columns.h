/* Gradients of a norm's weight and bias: sums over rows, a work-item for each column.
   SPDX-License-Identifier: MIT */
GROUPS KERNEL run(GLOBAL MEMORY(D3) *dweight, GLOBAL MEMORY(D4) *dbias, GLOBAL const MEMORY(D1) *x,
                  GLOBAL const MEMORY(D2) *g, GLOBAL const T *mean, GLOBAL const T *rstd, const norms n) {
  enum { PART = 64 }; /* partial sums keep a long sum accurate */
  const I64 j = ITEM;
  if (j >= n.width) return;
  T dw = 0, db = 0, part_w = 0, part_b = 0;
  for (I64 r = 0; r < n.rows; r++) {
    const I64 at = r * n.width + j;
    const T slope = LOAD(D2, g[n.g + at]);
    T v = LOAD(D1, x[n.x + at]);
    if (CENTRED) v -= mean[n.mean + r];
    part_w += slope * (v * rstd[n.rstd + r]);
    part_b += slope;
    if (r % PART == PART - 1) dw += part_w, db += part_b, part_w = part_b = 0;
  }
  if (FLAGS & FLAG_WEIGHT) dweight[n.dweight + j] = STORE(D3, dw + part_w);
  if (FLAGS & FLAG_BIAS) dbias[n.dbias + j] = STORE(D4, db + part_b);
}
