/* Norms of contiguous rows, each shared by a warp or a work-group, which read memory once (row.h).
   SPDX-License-Identifier: MIT */
#include "kernels/group/row.h"

/* Loads piece p of weight or bias; `none` is the value without it (1 and -0). */
#define ALONG(k, dtype, vector, at, p, to, none)           \
  if (vector) {                                            \
    READ_ALONG(k, dtype, vector + at, p, to)               \
  } else {                                                 \
    UNROLL for (int e = 0; e < PACK; e++) to[e] = (T)none; \
  }

#if BACKWARD
/* held becomes the normalised x, slope g times the weight. */
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

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, GLOBAL const MEMORY(D2) *g, GLOBAL const T *mean,
                  GLOBAL const T *rstd, GLOBAL const MEMORY(D3) *weight, GLOBAL const MEMORY(D4) *bias, const norms n,
                  const parameters q, const row_layout layout) {
  SHARED_SCRATCH;
  const I64 r = ROW;
  if (r >= n.rows) return;
  BEGIN_ROW(r, n.width)
  const T scale = rstd[n.rstd + r], centre = CENTRED ? mean[n.mean + r] : 0;
  T held[PIECES][PACK], slope[PIECES][PACK], sum = 0, dot = 0;
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
      T out[PACK];
      UNROLL for (int e = 0; e < PACK; e++) out[e] = scale * (slope[p][e] - sum - held[p][e] * dot);
      WRITE_PIECE(0, y + n.y + base, p, out)
    }
  }
}
#else
#define SQUARE(x) ((x) * (x))
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *x, GLOBAL T *mean, GLOBAL T *rstd,
                  GLOBAL const MEMORY(D3) *weight, GLOBAL const MEMORY(D4) *bias, const norms n, const parameters q,
                  const row_layout layout) {
  SHARED_SCRATCH;
  const I64 r = ROW;
  if (r >= n.rows) return;
  BEGIN_ROW(r, n.width)
  row_1 held[PIECES];
  T centre = 0, squares = 0;
  if (CENTRED) {
    PASS {
      READ_PACKS(1, x + n.x + base, held, 0)
      EACH_PIECE(p) UNROLL for (int e = 0; e < PACK; e++) centre += VALUE(held, p, e);
    }
    centre = ALLREDUCE(sum, centre) / (T)size;
  }
  PASS {
    if (!CENTRED || FLAGS & FLAG_LONG) { READ_PACKS(1, x + n.x + base, held, 0) }
    EACH_PIECE(p) {
      const int c = COLUMN(p);
      if (IS_FULL(c)) {
        UNROLL for (int e = 0; e < PACK; e++) squares += SQUARE(VALUE(held, p, e) - centre);
      } else {
        UNROLL for (int e = 0; e < PACK; e++) if (IS_THERE(c + e)) squares +=
            (VALUE(held, p, e) - centre) * (VALUE(held, p, e) - centre);
      }
    }
  }
  squares = ALLREDUCE(sum, squares);
  const T scale = 1 / sqrt(squares / (T)size + q.p[0]);
  PASS {
    RELOAD(READ_PACKS(1, x + n.x + base, held, 0))
    EACH_PIECE(p) {
      T out[PACK], w[PACK], b[PACK];
      ALONG(3, D3, weight, n.weight, p, w, 1)
      ALONG(4, D4, bias, n.bias, p, b, -0.0)
      UNROLL for (int e = 0; e < PACK; e++) out[e] = (VALUE(held, p, e) - centre) * scale * w[e] + b[e];
      WRITE_PIECE(0, y + n.y + base, p, out)
    }
  }
  if (TEAM_RANK != 0) return;
  if (CENTRED) mean[n.mean + r] = centre;
  rstd[n.rstd + r] = scale;
}
#endif
