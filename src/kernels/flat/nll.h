/* Cross entropy with class indices: the loss of every position (OP 0), the gradient of every element (OP 1), and the
   sums of losses (OP 2).
   SPDX-License-Identifier: MIT

   D0 is the result, D1 x, D2 g, D3 weight. x is [N, C, S]; lse, losses and used weights are T, total is of D4. */
#include "kernels/element.h"
#include "kernels/floats.h"

#if OP == 2
#include "kernels/group/lanes.h"
#elif FLAGS & FLAG_ROW
#define ROWS_HELD 1
#include "kernels/group/row.h"
#define EXP(x) row_exp(x)
#define HELD_AT READ_PACKS(1, x + n.x + base, held, -INFINITY)
#else
#define EXP(x) exp(x)
#endif

#define X(c) LOAD(D1, x[n.x + base + n.inner * (c)])
#if FLAGS & FLAG_ROW /* weights are possible */
#define W(c) (weight ? (T)LOAD(D3, weight[n.weight + (c)]) : 1)
#elif FLAGS & FLAG_WEIGHT
#define W(c) LOAD(D3, weight[n.weight + (c)])
#else
#define W(c) ((T)1)
#endif
typedef struct parameters {
  T p[4]; /* label smoothing */
} parameters;

#define FINITE_OR_0(x) ((x) - (x) == 0 || (x) != (x) ? (x) : 0)
#if FLAGS & FLAG_ROW
#define IS_FIRST (TEAM_RANK == 0)
#elif OP != 2
#define IS_FIRST 1
#endif

DEVICE bool outside(GLOBAL fault *found, const nlls n, I64 position, I64 target) {
  if (target >= 0 && target < n.classes) return false;
  if (FIRST_TO_RAISE(&found->raised)) {
    found->verb = n.verb;
    found->value = target;
    found->bound = n.classes;
    found->at = position;
  }
  return true;
}

#if OP == 0
/* Writes each position's loss and the weight that it used; y too where nothing is reduced. */
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, GLOBAL const I64 *target,
                  GLOBAL const MEMORY(D3) *weight, GLOBAL T *lse, GLOBAL T *each, const nlls n, const parameters q
#if FLAGS & FLAG_ROW
                  ,
                  const row_layout layout, GLOBAL fault *found) {
  SHARED_SCRATCH;
  const I64 position = ROW;
  if (position >= n.positions) return;
  BEGIN_ROW(position, n.classes)
  const I64 hit = target[n.target + position];
  row_1 held[PIECES];
#else
                  ,
                  GLOBAL fault *found) {
  const I64 position = ITEM;
  if (position >= n.positions) return;
  const I64 base = position / n.inner * n.classes * n.inner + position % n.inner, hit = target[n.target + position];
#endif
  /* Loaded first, as nothing else is left to do when the row's sum is known. */
  const bool counts = hit != n.ignore && !outside(found, n, position, hit);
  const T weight_used = counts ? W(hit) : 0, of_target = counts ? X(hit) : 0;
  T log_sum = 0, value = 0;
#if FLAGS & FLAG_LOGITS
  T top = -INFINITY, sum = 0;
#if FLAGS & FLAG_ROW
  /* Each thread's sum is relative to its own maximum so far; the sums are then rescaled to the maximum of all
     threads. */
  PASS {
    HELD_AT
    const T before = top;
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) top = at_most(top, VALUE(held, p, e));
    const T middle = FINITE_OR_0(top);
    sum *= exp(before - middle);
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) sum += EXP(VALUE(held, p, e) - middle);
  }
  const T mine = top;
  top = ALLREDUCE(larger, top);
  const T centre = FINITE_OR_0(top);
  sum = ALLREDUCE(sum, sum * exp(mine - centre));
#else
  for (I64 c = 0; c < n.classes; c++) top = FN(larger)(top, X(c));
  const T centre = FINITE_OR_0(top);
  for (I64 c = 0; c < n.classes; c++) sum += exp(X(c) - centre);
#endif
  log_sum = centre + log(sum);
  /* The log-softmax of a row that contains Inf is NaN, as in torch. */
  if (log_sum == INFINITY) log_sum = log_sum - log_sum;
  if (IS_FIRST) lse[n.lse + position] = log_sum;
#endif
  if (counts) {
    value = weight_used * (log_sum - of_target);
    if (q.p[0] != 0) {
      T all = 0;
#if FLAGS & FLAG_ROW
      PASS {
        HELD_AT
        EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) {
            const int c = COLUMN(p) + e;
            const T w = IS_THERE(c) ? W(c) : 0;
            if (w != 0) all += w * (log_sum - VALUE(held, p, e));
          }
      }
      all = ALLREDUCE(sum, all);
#else
      for (I64 c = 0; c < n.classes; c++)
        if (W(c) != 0) all += W(c) * (log_sum - X(c));
#endif
      value = (1 - q.p[0]) * value + q.p[0] / (T)n.classes * all;
    }
  }
  if (!IS_FIRST) return;
#if FLAGS & FLAG_EACH
  y[n.y + position] = STORE(D0, value);
#endif
  each[2 * position] = value;
  each[2 * position + 1] = weight_used;
}
#elif OP == 1
/* dx[c] = scale [ softmax(x)[c] all - smooth weight[c] - hit (c is the target) ] */
#if FLAGS & FLAG_ROW
#define WEIGHT_SUM (weight ? weight_sum[0] : (T)n.classes)
#elif FLAGS & FLAG_WEIGHT
#define WEIGHT_SUM weight_sum[0]
#else
#define WEIGHT_SUM (T) n.classes
#endif
#if FLAGS & FLAG_LOGITS
#define SHARE_OF_CLASS(x, c) (EXP(x - log_sum) * (mine + smooth * WEIGHT_SUM) - smooth * W(c))
#else
#define SHARE_OF_CLASS(x, c) 0
#endif
GROUPS KERNEL run(GLOBAL MEMORY(D0) *dx, GLOBAL const MEMORY(D1) *x, GLOBAL const I64 *target,
                  GLOBAL const MEMORY(D3) *weight, GLOBAL const T *lse, GLOBAL const MEMORY(D2) *g,
                  GLOBAL const MEMORY(D4) *total, GLOBAL const T *weight_sum, const nlls n, const parameters q
#if FLAGS & FLAG_ROW
                  ,
                  const row_layout layout, GLOBAL fault *found) {
  const I64 position = ROW;
  if (position >= n.positions) return;
  BEGIN_ROW(position, n.classes)
#else
                  ,
                  GLOBAL fault *found) {
  const I64 i = ITEM;
  if (i >= n.positions * n.classes) return;
  const I64 c = i / n.inner % n.classes, position = i / (n.inner * n.classes) * n.inner + i % n.inner;
  const I64 base = position / n.inner * n.classes * n.inner + position % n.inner;
#endif
  const I64 hit = target[n.target + position];
  const bool counts = hit != n.ignore && !outside(found, n, position, hit);
  T scale = 0, mine = 0, smooth = 0, log_sum = 0;
  if (counts) {
    scale = LOAD(D2, g[n.g + (FLAGS & FLAG_EACH ? position : 0)]);
#if FLAGS & FLAG_MEAN
    scale /= LOAD(D4, total[n.total]);
#endif
    mine = (1 - q.p[0]) * W(hit);
    smooth = q.p[0] / (T)n.classes;
#if FLAGS & FLAG_LOGITS
    log_sum = lse[n.lse + position];
#endif
  }
#if FLAGS & FLAG_ROW
  row_1 held[PIECES];
  PASS {
#if FLAGS & FLAG_LOGITS
    HELD_AT
#endif
    EACH_PIECE(p) {
      T out[PACK];
      UNROLL for (int e = 0; e < PACK; e++) {
        const int c = COLUMN(p) + e;
        out[e] = counts && IS_THERE(c) ? scale * (SHARE_OF_CLASS(VALUE(held, p, e), c) - (c == hit ? mine : 0)) : 0;
      }
      WRITE_PIECE(0, dx + n.y + base, p, out)
    }
  }
#else
  T value = 0;
  if (counts) value = scale * (SHARE_OF_CLASS(X(c), c) - (c == hit ? mine : 0));
  dx[n.y + i] = STORE(D0, value);
#endif
}
#elif OP == 2
/* Adds up the losses and weights of a piece: to y, a pair too (FLAG_EACH), or to y and total. 0 / 0 if all positions
   are ignored: NaN, as in torch. */
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL T *total, GLOBAL const T *each, const nlls n, const pieces cut) {
  SHARED_SCRATCH;
  const I64 line = LINE;
  if (OUTSIDE(line, cut.count)) return;
  const I64 first = line * cut.length, count = cut.all - first < cut.length ? cut.all - first : cut.length;
  T sum = 0, used = 0;
  FOLD_EACH(sum, PLUS, j, count, each[2 * (first + j)])
  FOLD_EACH(used, PLUS, j, count, each[2 * (first + j) + 1])
  sum = ALLREDUCE(sum, sum);
  used = ALLREDUCE(sum, used);
  if (!IS_FIRST) return;
#if FLAGS & FLAG_EACH
  y[2 * line] = sum;
  y[2 * line + 1] = used;
#else
#if FLAGS & FLAG_MEAN
  sum /= used;
#endif
  if (y) y[n.y] = STORE(D0, sum);
  if (total) total[n.total] = used;
#endif
}
#endif
