/* Layer norm (OP 0), RMS norm (2) and their gradients (1, 3) over rows; with FLAG_COLUMNS the sums over rows, which are
   the gradients of weight and bias.
   SPDX-License-Identifier: MIT

   D0 is y or dx, D1 x, D2 g, D3 weight, D4 bias; dweight and dbias have the dtypes of D3 and D4. Statistics are T. */
#include "kernels/element.h"
#include "kernels/floats.h"
#if FLAGS & FLAG_ROW
#include "kernels/group/row.h"
#else
#include "kernels/group/lanes.h"
#endif

#define CENTRED (OP < 2)
#define X(j) LOAD(D1, x[n.x + row + (j)])
#define G(j) LOAD(D2, g[n.g + row + (j)])
#if FLAGS & FLAG_WEIGHT
#define W(j) LOAD(D3, weight[n.weight + (j)])
#else
#define W(j) 1
#endif
/* For FLAG_ROW, weight and bias may be NULL; `none` is the value to use then (1 and 0). */
#define ALONG(k, dtype, vector, at, p, to, none)           \
  if (vector) {                                            \
    READ_ALONG(k, dtype, vector + at, p, to)               \
  } else {                                                 \
    UNROLL for (int e = 0; e < PACK; e++) to[e] = (T)none; \
  }
typedef struct parameters {
  T p[4];
} parameters;

#if FLAGS & FLAG_COLUMNS
GROUPS KERNEL run(GLOBAL MEMORY(D3) *dweight, GLOBAL MEMORY(D4) *dbias, GLOBAL const MEMORY(D1) *x,
                  GLOBAL const MEMORY(D2) *g, GLOBAL const T *mean, GLOBAL const T *rstd, const norms n) {
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
                  ,
                  GLOBAL const MEMORY(D2) *g, GLOBAL const T *mean, GLOBAL const T *rstd
#else
                  ,
                  GLOBAL T *mean, GLOBAL T *rstd
#endif
#if FLAGS & (FLAG_WEIGHT | FLAG_ROW)
                  ,
                  GLOBAL const MEMORY(D3) *weight
#endif
#if FLAGS & (FLAG_BIAS | FLAG_ROW)
                  ,
                  GLOBAL const MEMORY(D4) *bias
#endif
                  ,
                  const norms n, const parameters q
#if FLAGS & FLAG_ROW
                  ,
                  const row_layout layout) {
  SHARED_SCRATCH;
  const I64 r = ROW;
  if (r >= n.rows) return;
  BEGIN_ROW(r, n.width)
  T held[PIECES][PACK];
#if OP % 2 == 0
  T centre = 0, squares = 0;
#if CENTRED
  PASS {
    READ_ROW(1, x + n.x + base, held, 0)
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) centre += held[p][e];
  }
  centre = ALLREDUCE(sum, centre) / (T)size;
  PASS {
    RELOAD(READ_ROW(1, x + n.x + base, held, 0))
#else
  PASS {
    READ_ROW(1, x + n.x + base, held, 0)
#endif
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) {
        const T d = IS_THERE(COLUMN(p) + e) ? held[p][e] - centre : 0;
        squares += d * d;
      }
  }
  squares = ALLREDUCE(sum, squares);
  const T scale = 1 / sqrt(squares / (T)size + q.p[0]);
  PASS {
    RELOAD(READ_ROW(1, x + n.x + base, held, 0))
    EACH_PIECE(p) {
      row_1 out;
      T w[PACK], b[PACK];
      ALONG(3, D3, weight, n.weight, p, w, 1)
      ALONG(4, D4, bias, n.bias, p, b, -0.0)
      UNROLL for (int e = 0; e < PACK; e++) {
        const T v = (held[p][e] - centre) * scale * w[e] + b[e];
        out.v[e] = STORE(D0, v);
      }
      WRITE_PIECE(0, y + n.y + base, p, out)
    }
  }
  if (TEAM_RANK != 0) return;
#if CENTRED
  mean[n.mean + r] = centre;
#endif
  rstd[n.rstd + r] = scale;
#else
  /* held becomes the normalised x, slope g times the weight. */
#if CENTRED
  const T scale = rstd[n.rstd + r], centre = mean[n.mean + r];
#else
  const T scale = rstd[n.rstd + r], centre = 0;
#endif
  T slope[PIECES][PACK], sum = 0, dot = 0;
#define READ_BOTH                                 \
  READ_ROW(1, x + n.x + base, held, centre)       \
  READ_ROW(2, g + n.g + base, slope, 0)           \
  EACH_PIECE(p) {                                 \
    T w[PACK];                                    \
    ALONG(3, D3, weight, n.weight, p, w, 1)       \
    UNROLL for (int e = 0; e < PACK; e++) {       \
      slope[p][e] = slope[p][e] * w[e];           \
      held[p][e] = (held[p][e] - centre) * scale; \
    }                                             \
  }
  PASS {
    READ_BOTH
    EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) {
        sum += slope[p][e];
        dot += slope[p][e] * held[p][e];
      }
  }
  sum = CENTRED ? ALLREDUCE(sum, sum) / (T)size : 0;
  dot = ALLREDUCE(sum, dot) / (T)size;
  PASS {
    RELOAD(READ_BOTH)
    EACH_PIECE(p) {
      row_1 out;
      UNROLL for (int e = 0; e < PACK; e++) {
        const T v = scale * (slope[p][e] - sum - held[p][e] * dot);
        out.v[e] = STORE(D0, v);
      }
      WRITE_PIECE(0, y + n.y + base, p, out)
    }
  }
#endif
}
#else
) {
  SHARED_SCRATCH;
  const I64 r = LINE;
  if (OUTSIDE(r, n.rows)) return;
  const I64 row = r * n.width;
#if OP % 2 == 0
  T centre = 0, squares = 0;
#if CENTRED
  FOLD_EACH(centre, PLUS, j, n.width, X(j))
  centre = ALLREDUCE(sum, centre) / (T)n.width;
#endif
  FOLD_EACH(squares, PLUS, j, n.width, (X(j) - centre) * (X(j) - centre))
  squares = ALLREDUCE(sum, squares);
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
  sum = CENTRED ? ALLREDUCE(sum, sum) / (T)n.width : 0;
  dot = ALLREDUCE(sum, dot) / (T)n.width;
  EACH(j, n.width) {
    const T v = scale * (G(j) * W(j) - sum - (X(j) - centre) * scale * dot);
    y[n.y + row + j] = STORE(D0, v);
  }
#endif
}
#endif
#endif
