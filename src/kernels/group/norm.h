/* Layer norm (OP 0), RMS norm (2) and their gradients (1, 3) over rows; with FLAG_COLUMNS the sums over rows that are the
   gradients of weight and bias.
   SPDX-License-Identifier: MIT

   D0 is y or dx, D1 x, D2 g, D3 weight, D4 bias; dweight and dbias have the dtypes of D3 and D4. Statistics are T. */
#include "kernels/element.h"
#include "kernels/floats.h"
#include "kernels/group/lanes.h"

#define CENTRED (OP < 2)
#define X(j) LOAD(D1, x[n.x + row + (j)])
#define G(j) LOAD(D2, g[n.g + row + (j)])
#if FLAGS & FLAG_WEIGHT
#define W(j) LOAD(D3, weight[n.weight + (j)])
#else
#define W(j) 1
#endif
typedef struct parameters {
  T p[4];
} parameters;

#if FLAGS & FLAG_COLUMNS
GROUPS KERNEL run(GLOBAL MEMORY(D3) *dweight, GLOBAL MEMORY(D4) *dbias, GLOBAL const MEMORY(D1) *x, GLOBAL const MEMORY(D2) *g,
                  GLOBAL const T *mean, GLOBAL const T *rstd, const norms n) {
  const I64 j = ITEM;
  if (j >= n.width) return;
  T dw = 0, db = 0, part_w = 0, part_b = 0;
  for (I64 r = 0; r < n.rows; r++) {
    const I64 row = r * n.width;
#if CENTRED
    const T v = X(j) - mean[n.mean + r];
#else
    const T v = X(j);
#endif
    part_w += G(j) * (v * rstd[n.rstd + r]);
    part_b += G(j);
    if (r % 64 == 63) dw += part_w, db += part_b, part_w = part_b = 0;
  }
  dw += part_w;
  db += part_b;
#if FLAGS & FLAG_WEIGHT
  dweight[n.dweight + j] = STORE(D3, dw);
#endif
#if FLAGS & FLAG_BIAS
  dbias[n.dbias + j] = STORE(D4, db);
#endif
}
#else
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x
#if OP % 2
                  , GLOBAL const MEMORY(D2) *g, GLOBAL const T *mean, GLOBAL const T *rstd
#else
                  , GLOBAL T *mean, GLOBAL T *rstd
#endif
#if FLAGS & FLAG_WEIGHT
                  , GLOBAL const MEMORY(D3) *weight
#endif
#if FLAGS & FLAG_BIAS
                  , GLOBAL const MEMORY(D4) *bias
#endif
                  , const norms n, const parameters q) {
  ROOM
  const I64 r = LINE;
  if (OUTSIDE(r, n.rows)) return;
  const I64 row = r * n.width;
#if OP % 2 == 0
  T centre = 0, squares = 0;
#if CENTRED
  FOLD_EACH(centre, PLUS, j, n.width, X(j))
  centre = ALL(sum, centre) / (T)n.width;
#endif
  FOLD_EACH(squares, PLUS, j, n.width, (X(j) - centre) * (X(j) - centre))
  squares = ALL(sum, squares);
  const T scale = 1 / sqrt(squares / (T)n.width + q.p[0]);
  EACH(j, n.width) {
    T v = (X(j) - centre) * scale * W(j);
#if FLAGS & FLAG_BIAS
    v += LOAD(D4, bias[n.bias + j]);
#endif
    y[n.y + row + j] = STORE(D0, v);
  }
  if (!IS_FIRST) return;
#if CENTRED
  mean[n.mean + r] = centre;
#endif
  rstd[n.rstd + r] = scale;
#else
  const T scale = rstd[n.rstd + r];
#if CENTRED
  const T centre = mean[n.mean + r];
#else
  const T centre = 0;
#endif
  T sum = 0, dot = 0;
  FOLD_EACH(sum, PLUS, j, n.width, G(j) * W(j))
  FOLD_EACH(dot, PLUS, j, n.width, G(j) * W(j) * ((X(j) - centre) * scale))
  sum = CENTRED ? ALL(sum, sum) / (T)n.width : 0;
  dot = ALL(sum, dot) / (T)n.width;
  EACH(j, n.width) {
    const T v = scale * (G(j) * W(j) - sum - (X(j) - centre) * scale * dot);
    y[n.y + row + j] = STORE(D0, v);
  }
#endif
}
#endif
