/* Norms of rows, each processed by a work-group or by one work-item (lanes.h).
   SPDX-License-Identifier: MIT */
#include "kernels/group/lanes.h"

#define X(j) LOAD(D1, x[n.x + row + (j)])
#define G(j) LOAD(D2, g[n.g + row + (j)])
#define W(j) (FLAGS & FLAG_WEIGHT ? LOAD(D3, weight[n.weight + (j)]) : 1)

#if BACKWARD
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, GLOBAL const MEMORY(D2) *g, GLOBAL const T *mean,
                  GLOBAL const T *rstd, GLOBAL const MEMORY(D3) *weight, GLOBAL const MEMORY(D4) *bias, const norms n,
                  const parameters q) {
  SHARED_SCRATCH;
  const I64 r = LINE;
  if (OUTSIDE(r, n.rows)) return;
  const I64 row = r * n.width;
  const T scale = rstd[n.rstd + r], centre = CENTRED ? mean[n.mean + r] : 0;
  T sum = 0, dot = 0;
  FOLD_EACH(sum, PLUS, j, n.width, G(j) * W(j))
  FOLD_EACH(dot, PLUS, j, n.width, G(j) * W(j) * ((X(j) - centre) * scale))
  sum = CENTRED ? ALLREDUCE(sum, sum) / (T)n.width : 0;
  dot = ALLREDUCE(sum, dot) / (T)n.width;
  EACH(j, n.width) {
    const T v = scale * (G(j) * W(j) - sum - (X(j) - centre) * scale * dot);
    y[n.y + row + j] = STORE(D0, v);
  }
}
#else
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, GLOBAL T *mean, GLOBAL T *rstd,
                  GLOBAL const MEMORY(D3) *weight, GLOBAL const MEMORY(D4) *bias, const norms n, const parameters q) {
  SHARED_SCRATCH;
  const I64 r = LINE;
  if (OUTSIDE(r, n.rows)) return;
  const I64 row = r * n.width;
  T centre = 0, squares = 0;
  if (CENTRED) {
    FOLD_EACH(centre, PLUS, j, n.width, X(j))
    centre = ALLREDUCE(sum, centre) / (T)n.width;
  }
  FOLD_EACH(squares, PLUS, j, n.width, (X(j) - centre) * (X(j) - centre))
  squares = ALLREDUCE(sum, squares);
  const T scale = 1 / sqrt(squares / (T)n.width + q.p[0]);
  EACH(j, n.width) {
    T v = (X(j) - centre) * scale * W(j);
    if (FLAGS & FLAG_BIAS) v += LOAD(D4, bias[n.bias + j]);
    y[n.y + row + j] = STORE(D0, v);
  }
  if (!IS_FIRST) return;
  if (CENTRED) mean[n.mean + r] = centre;
  rstd[n.rstd + r] = scale;
}
#endif
