/* One reduction for each element of y. D0 is y, D1 x.
   SPDX-License-Identifier: MIT

   FLAGS: FLAG_SERIAL, the fold, what an element becomes first, and what becomes of the folded value. */
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
#define NONE 1
#define TAKE(a, b) (a * b)
#define TOGETHER product
#elif FOLD == FOLD_MIN
#define NONE MOST
#define TAKE(a, b) SMALLER(a, b)
#define TOGETHER smaller
#elif FOLD == FOLD_MAX || FOLD == FOLD_LOGSUM
#define NONE LEAST
#define TAKE(a, b) LARGER(a, b)
#define TOGETHER larger
#else
#define NONE 0
#define TAKE(a, b) (a + b)
#define TOGETHER sum
#endif
#define ALL_(op, x) ALL(op, x)

typedef struct parameters {
  T p[4];
} parameters;

#define X(j) LOAD(D1, x[from + walk_at(&part, 0, j)])

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, const walk kept, const walk part,
                  const pieces cut, const parameters q) {
  ROOM
  const I64 line = LINE;
  if (OUTSIDE(line, kept.numel)) return;
  /* A line may be a piece of what is reduced: its part begins at `first`. */
  const I64 from = walk_at(&kept, 1, line), first = line % cut.count * cut.length;
  const I64 count = part.numel - first < cut.length ? part.numel - first : cut.length;
  T a = NONE;
#if FLAGS & FLAG_DENSE && FLAGS & FLAG_SERIAL
  /* Side by side in memory: as many folds, side by side in a vector, which keeps sums exact too. */
  GLOBAL const MEMORY(D1) *at = x + from + part.offset[0] + first;
  T wide[16];
  for (int l = 0; l < 16; l++) wide[l] = NONE;
  I64 j = 0;
  for (; j + 16 <= count; j += 16)
    for (int l = 0; l < 16; l++) {
      const T v = LOAD(D1, at[j + l]);
      wide[l] = TAKE(wide[l], MAPPED(v));
    }
  for (; j < count; j++) {
    const T v = LOAD(D1, at[j]);
    a = TAKE(a, MAPPED(v));
  }
  for (int l = 0; l < 16; l++) a = TAKE(a, wide[l]);
#else
  /* Short sums of their own keep a long one exact. */
  T run = NONE;
  int length = 0;
  EACH(j, count) {
    const T v = X(first + j);
    run = TAKE(run, MAPPED(v));
    if (++length == 64) {
      a = TAKE(a, run);
      run = NONE;
      length = 0;
    }
  }
  a = TAKE(a, run);
#endif
  a = ALL_(TOGETHER, a);
#if FOLD == FOLD_MOMENTS || FOLD == FOLD_LOGSUM
#if FOLD == FOLD_MOMENTS
  const T centre = a / (T)part.numel;
#define AROUND(d) ((d) * (d))
#else
  const T centre = a - a == 0 || a != a ? a : 0;
#define AROUND(d) exp(d)
#endif
  T b = 0;
  EACH(j, part.numel) {
    const T d = X(j) - centre;
    b += AROUND(d);
  }
  b = ALL(sum, b);
#endif
  if (!IS_FIRST) return;
#if FINISH == FINISH_MEAN
  a = a / (T)cut.all;
#elif FINISH == FINISH_VAR || FINISH == FINISH_STD
  const T freedom = (T)part.numel - q.p[0];
  a = b / (freedom > 0 ? freedom : 0);
#if FINISH == FINISH_STD
  a = sqrt(a);
#endif
#elif FINISH == FINISH_ROOT
  a = sqrt(a);
#elif FINISH == FINISH_POWER
  a = pow(a, 1 / q.p[0]);
#elif FINISH == FINISH_LOGSUM
  a = centre + log(b);
#endif
  y[walk_at(&kept, 0, line)] = STORE(D0, a);
}
