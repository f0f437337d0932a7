/* Batch norm over [N, C, S] (OP 0) and its gradient (1), one work-group for each channel (FLAG_SERIAL: one work-item).
   D0 is y or dx, D1 x, D2 g; the vectors of C elements are of D3.
   SPDX-License-Identifier: MIT

   n.flags: FLAG_TRAINING, and which of the optional vectors are present. Statistics are T. */
#include "kernels/element.h"
#include "kernels/floats.h"
#include "kernels/group/lanes.h"

#define X(at) LOAD(D1, x[n.x + (at)])
#define G(at) LOAD(D2, g[n.g + (at)])
#define IS(flag) (n.flags & (flag))
/* Loops over the offsets of the channel's elements, and sums an expression of the offset. A work-item that has the
   whole channel walks its rows of S elements and keeps BY partial sums, which the compiler vectorises. */
#if FLAGS & FLAG_SERIAL
#define NORM ALONE KERNEL
#define ROW for (I64 row = c * n.inner; row < n.batch * n.channels * n.inner; row += n.channels * n.inner)
#define EACH_AT(at) ROW for (I64 at = row; at < row + n.inner; at++)
enum { BY = 16 };
#define SUM_AT(result, at, value)                                  \
  {                                                                \
    T all[BY] = { 0 };                                             \
    ROW {                                                          \
      T side[BY] = { 0 }, rest = 0;                                \
      I64 from = row;                                              \
      for (; from + BY <= row + n.inner; from += BY)               \
        for (int l = 0; l < BY; l++) {                             \
          const I64 at = from + l;                                 \
          side[l] += value;                                        \
        }                                                          \
      for (I64 at = from; at < row + n.inner; at++) rest += value; \
      for (int l = 0; l < BY; l++) all[l] += side[l];              \
      result += rest;                                              \
    }                                                              \
    for (int l = 0; l < BY; l++) result += all[l];                 \
  }
#else
#define NORM GROUPS KERNEL
#define EACH_AT(at) \
  EACH(j, count)    \
    for (I64 at = (j / n.inner * n.channels + c) * n.inner + j % n.inner, k = 0; k < 1; k++)
#define SUM_AT(result, at, value)    \
  {                                  \
    EACH_AT(at) result += value;     \
    result = ALLREDUCE(sum, result); \
  }
#endif
typedef struct parameters {
  T p[4];
} parameters;

#if OP == 0
NORM run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, GLOBAL T *mean, GLOBAL T *rstd,
         GLOBAL const MEMORY(D3) *weight, GLOBAL const MEMORY(D3) *bias, GLOBAL const MEMORY(D3) *old_mean,
         GLOBAL const MEMORY(D3) *old_var, GLOBAL MEMORY(D3) *new_mean, GLOBAL MEMORY(D3) *new_var, const batch_norms n,
         const parameters q) {
  SHARED_SCRATCH;
  const I64 c = LINE, count = n.batch * n.inner;
  T centre = 0, squares = 0, variance;
  if (IS(FLAG_TRAINING)) {
    SUM_AT(centre, at, X(at))
    centre /= (T)count;
    SUM_AT(squares, at, (X(at) - centre) * (X(at) - centre))
    variance = squares / (T)count;
  } else {
    centre = IS(FLAG_MEAN) ? LOAD(D3, old_mean[n.old_mean + c]) : 0;
    variance = IS(FLAG_VAR) ? LOAD(D3, old_var[n.old_var + c]) : 1;
  }
  const T scale = 1 / sqrt(variance + q.p[0]);
  const T factor = IS(FLAG_WEIGHT) ? scale * LOAD(D3, weight[n.weight + c]) : scale;
  const T shift = IS(FLAG_BIAS) ? LOAD(D3, bias[n.bias + c]) : 0;
  EACH_AT(at) {
    const T v = (X(at) - centre) * factor + shift;
    y[n.y + at] = STORE(D0, v);
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
NORM run(GLOBAL MEMORY(D0) *dx, GLOBAL const MEMORY(D1) *x, GLOBAL const MEMORY(D2) *g, GLOBAL const T *mean,
         GLOBAL const T *rstd, GLOBAL const MEMORY(D3) *weight, GLOBAL MEMORY(D3) *dweight, GLOBAL MEMORY(D3) *dbias,
         const batch_norms n) {
  SHARED_SCRATCH;
  const I64 c = LINE, count = n.batch * n.inner;
  const T centre = mean[n.mean + c], scale = rstd[n.rstd + c];
  T sum = 0, dot = 0;
  SUM_AT(sum, at, G(at))
  SUM_AT(dot, at, G(at) * (X(at) - centre))
  if (IS(FLAG_DX)) {
    const T factor = IS(FLAG_WEIGHT) ? scale * LOAD(D3, weight[n.weight + c]) : scale;
    const T a = IS(FLAG_TRAINING) ? sum / (T)count : 0, b = IS(FLAG_TRAINING) ? scale * scale * dot / (T)count : 0;
    EACH_AT(at) {
      const T v = factor * (G(at) - a - (X(at) - centre) * b);
      dx[n.y + at] = STORE(D0, v);
    }
  }
  if (!IS_FIRST) return;
  const T dw = dot * scale;
  if (IS(FLAG_DWEIGHT)) dweight[n.dweight + c] = STORE(D3, dw);
  if (IS(FLAG_DBIAS)) dbias[n.dbias + c] = STORE(D3, sum);
}
#endif
