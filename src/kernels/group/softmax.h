/* Softmax (OP 0), log-softmax (1) and their gradients (2, 3) along one dimension. D0 is the result, D1 x or y, D2 g.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"
#include "kernels/floats.h"
/* All elements are masked and the result must be 0: top becomes 0 and sum 1. */
#define IS_MASKED(top) (OP == 0 && w.masked && (top) == -INFINITY)
#if FLAGS & FLAG_ROW
#include "kernels/group/row.h"
/* x / sum. Where it is rounded to 16 bits after that, a product takes its place, which is a fifth of the work. */
#define SHARE(x) (SIZE(D0) == 2 ? (x)*inverse : (x) / sum)
#define SOFTMAX(x) (OP == 0 ? SHARE(row_exp(x - top)) : x - top - sum)
/* Exponentials take the place of a row's values where they have their dtype; else they are computed again. */
#define KEEPS_PARTS (OP == 0 && SIZE(D1) > 2 && !(FLAGS & FLAG_LONG))
#define SLOPE(y, g) (OP == 2 ? (y) * (g - dot) : g - row_exp(y) * dot)

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x
#if OP >= 2
                  ,
                  GLOBAL const MEMORY(D2) *g
#endif
                  ,
                  const lines w, const row_layout layout) {
  SHARED_SCRATCH;
  const I64 row = ROW;
  if (row >= w.outer) return;
  BEGIN_ROW(row, w.size)
#if OP < 2
  row_1 held[PIECES];
  T top = -INFINITY, sum = 0;
#if FLAGS & FLAG_LONG
  /* Each thread's sum is relative to its own maximum so far; the sums are then rescaled to the maximum of all
     threads. */
  PASS {
    READ_PACKS(1, x + w.offset[1] + base, held, -INFINITY)
    const T before = top;
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) top = at_most(top, VALUE(held, p, e));
    const T centre = top == -INFINITY ? 0 : top;
    sum *= exp(before - centre);
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) sum += row_exp(VALUE(held, p, e) - centre);
  }
  const T mine = top;
  top = ALLREDUCE(larger, top);
  sum = ALLREDUCE(sum, sum * exp(mine - (top == -INFINITY ? 0 : top)));
#else
  PASS {
    READ_PACKS(1, x + w.offset[1] + base, held, -INFINITY)
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) top = at_most(top, VALUE(held, p, e));
    top = ALLREDUCE(larger, top);
    if (IS_MASKED(top)) top = 0;
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) {
        const T part = row_exp(VALUE(held, p, e) - top);
        sum += part;
#if KEEPS_PARTS
        held[p].v[e] = part;
#endif
      }
  }
  sum = ALLREDUCE(sum, sum);
#if KEEPS_PARTS
#undef SOFTMAX
#define SOFTMAX(x) SHARE(x)
#endif
#endif
  if (OP == 0 && w.masked && sum == 0) top = 0, sum = 1;
  if (OP == 1) sum = log(sum);
  const T inverse = 1 / sum;
  PASS {
    RELOAD(READ_PACKS(1, x + w.offset[1] + base, held, -INFINITY))
    EACH_PIECE(p) {
      T out[PACK];
      UNROLL for (int e = 0; e < PACK; e++) out[e] = SOFTMAX(VALUE(held, p, e));
      WRITE_PIECE(0, y + w.offset[0] + base, p, out)
    }
  }
#else
  T held[PIECES][PACK], slope[PIECES][PACK], dot = 0;
  PASS {
    READ_ROW(1, x + w.offset[1] + base, held, 0)
    READ_ROW(2, g + w.offset[2] + base, slope, 0)
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) dot += OP == 2 ? held[p][e] * slope[p][e] : slope[p][e];
  }
  dot = ALLREDUCE(sum, dot);
  PASS {
    RELOAD(READ_ROW(1, x + w.offset[1] + base, held, 0))
    RELOAD(READ_ROW(2, g + w.offset[2] + base, slope, 0))
    EACH_PIECE(p) {
      T out[PACK];
      UNROLL for (int e = 0; e < PACK; e++) out[e] = SLOPE(held[p][e], slope[p][e]);
      WRITE_PIECE(0, y + w.offset[0] + base, p, out)
    }
  }
#endif
}
#else
#include "kernels/group/lanes.h"

#if FLAGS & FLAG_DENSE
#define INNER 1
#else
#define INNER w.inner
#endif
#define AT(k, j) (w.offset[k] + base + INNER * (j))
#define X(j) LOAD(D1, x[AT(1, j)])
#define G(j) LOAD(D2, g[AT(2, j)])

/* e^(x - top): on a CPU y, if its dtype is T, holds these values until they are divided by the sum. */
#define SAME_f32_f32 1
#define SAME_f64_f64 1
#if ON_CPU && OP == 0 && PASTE(PASTE(SAME, D0), TNAME)
#define EXP(j) (y[AT(0, j)] = exp(X(j) - top))
#define EXP_RELOAD(j) y[AT(0, j)]
#else
#define EXP(j) exp(X(j) - top)
#define EXP_RELOAD(j) EXP(j)
#endif

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x
#if OP >= 2
                  ,
                  GLOBAL const MEMORY(D2) *g
#endif
                  ,
                  const lines w) {
  SHARED_SCRATCH;
  const I64 line = LINE;
  if (OUTSIDE(line, w.outer * w.inner)) return;
  const I64 base = line / INNER * w.size * INNER + line % INNER;
#if OP < 2
  T top = -INFINITY, sum = 0;
  FOLD_EACH(top, GREATER, j, w.size, X(j))
  top = ALLREDUCE(larger, top);
  if (IS_MASKED(top)) top = 0;
  FOLD_EACH(sum, PLUS, j, w.size, EXP(j))
  sum = ALLREDUCE(sum, sum);
  if (OP == 0 && w.masked && sum == 0) sum = 1;
#if OP == 1
  sum = log(sum);
#endif
  EACH(j, w.size) {
#if OP == 0
    const T v = EXP_RELOAD(j) / sum;
#else
    const T v = X(j) - top - sum;
#endif
    y[AT(0, j)] = STORE(D0, v);
  }
#else
  T dot = 0;
#if OP == 2
  FOLD_EACH(dot, PLUS, j, w.size, X(j) * G(j))
#else
  FOLD_EACH(dot, PLUS, j, w.size, G(j))
#endif
  dot = ALLREDUCE(sum, dot);
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
#endif
