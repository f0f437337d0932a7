/* Softmax (OP 0), its logarithm (1) and their gradients (2, 3) along one dimension. D0 is the result, D1 x or y, D2 g.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"
#include "kernels/floats.h"
#include "kernels/group/lanes.h"

#define AT(k, j) (w.offset[k] + base + (j) * w.inner)
#define X(j) LOAD(D1, x[AT(1, j)])
#define G(j) LOAD(D2, g[AT(2, j)])

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x
#if OP >= 2
                  , GLOBAL const MEMORY(D2) *g
#endif
                  , const lines w) {
  ROOM
  const I64 line = LINE;
  if (OUTSIDE(line, w.outer * w.inner)) return;
  const I64 base = line / w.inner * w.size * w.inner + line % w.inner;
#if OP < 2
  T top = -INFINITY, sum = 0;
  EACH(j, w.size) top = FN(larger)(top, X(j));
  top = ALL(larger, top);
  EACH(j, w.size) sum += exp(X(j) - top);
  sum = ALL(sum, sum);
#if OP == 1
  sum = log(sum);
#endif
  EACH(j, w.size) {
#if OP == 0
    const T v = exp(X(j) - top) / sum;
#else
    const T v = X(j) - top - sum;
#endif
    y[AT(0, j)] = STORE(D0, v);
  }
#else
  T dot = 0;
#if OP == 2
  EACH(j, w.size) dot += X(j) * G(j);
#else
  EACH(j, w.size) dot += G(j);
#endif
  dot = ALL(sum, dot);
  EACH(j, w.size) {
#if OP == 2
    const T v = X(j) * (G(j) - dot);
#else
    const T v = G(j) - exp(X(j)) * dot;
#endif
    y[AT(0, j)] = STORE(D0, v);
  }
#endif
}
