/* Batch norm over [N, C, S] (OP 0) and its gradient (1): a group is a channel. D0 is y or dx, D1 x, D2 g; the vectors of C
   elements are of D3.
   SPDX-License-Identifier: MIT

   n.flags: FLAG_TRAINING, and which of the optional vectors are there. Statistics are T. */
#include "kernels/element.h"
#include "kernels/floats.h"
#include "kernels/group/lanes.h"

#define AT(j) (((j) / n.inner * n.channels + c) * n.inner + (j) % n.inner)
#define X(j) LOAD(D1, x[n.x + AT(j)])
#define IS(flag) (n.flags & (flag))
#define G(j) LOAD(D2, g[n.g + AT(j)])
typedef struct parameters {
  T p[4];
} parameters;

#if OP == 0
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, GLOBAL T *mean, GLOBAL T *rstd, GLOBAL const MEMORY(D3) *weight,
                  GLOBAL const MEMORY(D3) *bias, GLOBAL const MEMORY(D3) *old_mean, GLOBAL const MEMORY(D3) *old_var,
                  GLOBAL MEMORY(D3) *new_mean, GLOBAL MEMORY(D3) *new_var, const batch_norms n, const parameters q) {
  ROOM
  const I64 c = LINE, count = n.batch * n.inner;
  T centre = 0, squares = 0, variance;
  if (IS(FLAG_TRAINING)) {
    EACH(j, count) centre += X(j);
    centre = ALL(sum, centre) / (T)count;
    EACH(j, count) {
      const T d = X(j) - centre;
      squares += d * d;
    }
    squares = ALL(sum, squares);
    variance = squares / (T)count;
  } else {
    centre = IS(FLAG_MEAN) ? LOAD(D3, old_mean[n.old_mean + c]) : 0;
    variance = IS(FLAG_VAR) ? LOAD(D3, old_var[n.old_var + c]) : 1;
  }
  const T scale = 1 / sqrt(variance + q.p[0]);
  const T factor = IS(FLAG_WEIGHT) ? scale * LOAD(D3, weight[n.weight + c]) : scale;
  const T shift = IS(FLAG_BIAS) ? LOAD(D3, bias[n.bias + c]) : 0;
  EACH(j, count) {
    const T v = (X(j) - centre) * factor + shift;
    y[n.y + AT(j)] = STORE(D0, v);
  }
  if (!IS_FIRST) return;
  if (IS(FLAG_STATISTICS)) {
    mean[n.mean + c] = centre;
    rstd[n.rstd + c] = scale;
  }
  if (!IS(FLAG_TRAINING) || !IS(FLAG_UPDATE)) return;
  const T m = (1 - q.p[1]) * (IS(FLAG_MEAN) ? LOAD(D3, old_mean[n.old_mean + c]) : 0) + q.p[1] * centre;
  const T v = (1 - q.p[1]) * (IS(FLAG_VAR) ? LOAD(D3, old_var[n.old_var + c]) : 1) + q.p[1] * squares / (T)(count - 1);
  new_mean[n.new_mean + c] = STORE(D3, m);
  new_var[n.new_var + c] = STORE(D3, v);
}
#else
GROUPS KERNEL run(GLOBAL MEMORY(D0) *dx, GLOBAL const MEMORY(D1) *x, GLOBAL const MEMORY(D2) *g, GLOBAL const T *mean, GLOBAL const T *rstd,
                  GLOBAL const MEMORY(D3) *weight, GLOBAL MEMORY(D3) *dweight, GLOBAL MEMORY(D3) *dbias, const batch_norms n) {
  ROOM
  const I64 c = LINE, count = n.batch * n.inner;
  const T centre = mean[n.mean + c], scale = rstd[n.rstd + c];
  T sum = 0, dot = 0;
  EACH(j, count) {
    sum += G(j);
    dot += G(j) * (X(j) - centre);
  }
  sum = ALL(sum, sum);
  dot = ALL(sum, dot);
  if (IS(FLAG_DX)) {
  const T factor = IS(FLAG_WEIGHT) ? scale * LOAD(D3, weight[n.weight + c]) : scale;
  const T a = IS(FLAG_TRAINING) ? sum / (T)count : 0, b = IS(FLAG_TRAINING) ? scale * scale * dot / (T)count : 0;
  EACH(j, count) {
    const T v = factor * (G(j) - a - (X(j) - centre) * b);
    dx[n.y + AT(j)] = STORE(D0, v);
  }
  }
  if (!IS_FIRST) return;
  const T dw = dot * scale;
  if (IS(FLAG_DWEIGHT)) dweight[n.dweight + c] = STORE(D3, dw);
  if (IS(FLAG_DBIAS)) dbias[n.dbias + c] = STORE(D3, sum);
}
#endif
