/* One reduction for each element of y. D0 is y, D1 x.
   SPDX-License-Identifier: MIT

   FLAGS: FLAG_SERIAL; FOLD_, the reduction; MAP_, applied to each element first; FINISH_, applied to the reduced
   value. */
#include "kernels/element.h"
#if FLOATING
#include "kernels/floats.h"
#endif
#include "kernels/group/lanes.h"

#define FOLD (FLAGS >> 4 & 15)
#define MAP (FLAGS >> 8 & 15)
#define FINISH (FLAGS >> 12 & 15)

#if MAP == MAP_ABS && FLOATING
#define MAPPED(x) fabs(x)
#elif MAP == MAP_SQUARE
#define MAPPED(x) ((x) * (x))
#elif MAP == MAP_NONZERO
#define MAPPED(x) ((T)((x) != 0))
#elif MAP == MAP_POWER
#define MAPPED(x) pow(fabs(x), q.p[0])
#else
#define MAPPED(x) (x)
#endif

#if FLOATING
#define MOST INFINITY
#define LEAST (-INFINITY)
#define LARGER(a, b) FN(larger)(a, b)
#define SMALLER(a, b) FN(smaller)(a, b)
#else
#define MOST MOST_I64
#define LEAST LEAST_I64
#define LARGER(a, b) (a > b ? a : b)
#define SMALLER(a, b) (a < b ? a : b)
#endif

#if FOLD == FOLD_PROD
#define IDENTITY 1
#define COMBINE(a, b) (a * b)
#define REDUCE_OP product
#elif FOLD == FOLD_MIN
#define IDENTITY MOST
#define COMBINE(a, b) SMALLER(a, b)
#define REDUCE_OP smaller
#elif FOLD == FOLD_MAX
#define IDENTITY LEAST
#define COMBINE(a, b) LARGER(a, b)
#define REDUCE_OP larger
#elif FOLD == FOLD_LOGSUM
#define IDENTITY LEAST
#define COMBINE(a, b) GREATER(a, b)
#define REDUCE_OP larger
#else
#define IDENTITY 0
#define COMBINE(a, b) (a + b)
#define REDUCE_OP sum
#endif
#define ALLREDUCE_(op, x) ALLREDUCE(op, x)

typedef struct parameters {
  T p[4];
} parameters;

#if FINISH == FINISH_VAR || FINISH == FINISH_STD
#define AROUND(d) ((d) * (d))
#else
#define AROUND(d) exp(d)
#endif

/* Computes the result from the reduced value a; b is the sum of AROUND, relative to a. */
DEVICE T finished(T a, T b, const walk *part, const pieces *cut, const parameters *q) {
#if FINISH == FINISH_MEAN
  return a / (T)cut->all;
#elif FINISH == FINISH_VAR || FINISH == FINISH_STD
  const T freedom = (T)part->numel - q->p[0], variance = b / (freedom > 0 ? freedom : 0);
  return FINISH == FINISH_STD ? a * sqrt(variance) : variance;
#elif FINISH == FINISH_ROOT
  return sqrt(a);
#elif FINISH == FINISH_POWER
  return pow(a, 1 / q->p[0]);
#elif FINISH == FINISH_LOGSUM
  return a + log(b);
#else
  return a;
#endif
}

#if FLAGS & FLAG_BESIDE
/* Adjacent lines, as columns are: a CPU reduces BESIDE of them at a time, row by row. */
ALONE KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, const walk kept, const walk part, const pieces cut,
                 const parameters q) {
  T all[BESIDE], run[BESIDE];
  const I64 line = GROUP * BESIDE, from = walk_at(&kept, 1, line);
  const int lines = kept.numel - line < BESIDE ? (int)(kept.numel - line) : BESIDE;
  for (int l = 0; l < BESIDE; l++) all[l] = run[l] = IDENTITY;
  for (I64 j = 0; j < part.numel; j++) {
    GLOBAL const MEMORY(D1) *at = x + from + walk_at(&part, 0, j);
    for (int l = 0; l < lines; l++) {
      const T v = LOAD(D1, at[l]);
      run[l] = COMBINE(run[l], MAPPED(v));
    }
    if (j % 64 == 63 || j == part.numel - 1)
      for (int l = 0; l < BESIDE; l++) all[l] = COMBINE(all[l], run[l]), run[l] = IDENTITY;
  }
  for (int l = 0; l < lines; l++) {
    const T v = finished(all[l], 0, &part, &cut, &q);
    y[walk_at(&kept, 0, line + l)] = STORE(D0, v);
  }
}
#else
/* Reduces of(x) over the elements of this line. */
#if FLAGS & FLAG_DENSE
#define FOLD_PART(result, take, of) FOLD_EACH(result, take, j, count, of(LOAD(D1, at[j])))
#else
#define FOLD_PART(result, take, of)                                                                            \
  if (part.ndim <= 1) FOLD_EACH(result, take, j, count, of(LOAD(D1, at[part.offset[0] + (first + j) * step]))) \
  else FOLD_EACH(result, take, j, count, of(LOAD(D1, at[walk_at(&part, 0, first + j)])))
#endif
#define DISTANCE(x) fabs((x)-a)
#define IN_UNITS(x) AROUND(((x)-a) / unit)
#define AROUND_A(x) AROUND((x)-a)

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, CONST_PARAM walk kept, CONST_PARAM walk part,
                  const pieces cut, const parameters q) {
  SHARED_SCRATCH;
  const I64 line = LINE;
  if (OUTSIDE(line, kept.numel)) return;
  /* A line may be a piece of the elements to reduce: its part begins at `first`. */
  const I64 first = line % cut.count * cut.length;
  const I64 count = part.numel - first < cut.length ? part.numel - first : cut.length;
#if FLAGS & FLAG_DENSE
  GLOBAL const MEMORY(D1) *at = x + walk_at(&kept, 1, line) + part.offset[0] + first;
#else
  GLOBAL const MEMORY(D1) *at = x + walk_at(&kept, 1, line);
  const I64 step = part.stride[0][0];
#endif
  T a = IDENTITY, b = 0;
  FOLD_PART(a, COMBINE, MAPPED)
  a = ALLREDUCE_(REDUCE_OP, a);
#if FOLD == FOLD_MOMENTS || FOLD == FOLD_LOGSUM
#if FOLD == FOLD_MOMENTS
  a = a / (T)part.numel;
#else
  a = a - a == 0 || a != a ? a : 0;
#endif
#if FINISH == FINISH_STD && FLOATING
  /* Relative to the largest deviation: squares would overflow or underflow long before their root does. */
  T unit = 0;
  FOLD_PART(unit, LARGER, DISTANCE)
  unit = ALLREDUCE(larger, unit);
  if (unit == 0) unit = 1;
  FOLD_PART(b, PLUS, IN_UNITS)
  b = ALLREDUCE(sum, b);
  a = unit;
#else
  FOLD_PART(b, PLUS, AROUND_A)
  b = ALLREDUCE(sum, b);
#endif
#endif
  if (!IS_FIRST) return;
  const T v = finished(a, b, &part, &cut, &q);
  y[walk_at(&kept, 0, line)] = STORE(D0, v);
}
#endif
