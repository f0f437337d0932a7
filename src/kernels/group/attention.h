/* softmax(scale q k^T + mask) v over blocks of keys, and its gradients: scores exist for a block of queries and one of
   keys at a time (Dao, arXiv:2307.08691). OP 0: y and the logsumexp of rows; 1: dq, and delta = sum(g y) of rows; 2: dk
   and dv. With weights p, their dropout p' and scores z: dv = p'^T g, dz = p (dropout(g v^T) - delta), dq = scale dz k,
   dk = scale dz^T q. Each result is added up in one order, by one work-group.
   SPDX-License-Identifier: MIT

   D0 is the dtype of operands and results, D1 that of the mask, if there is one: bool (true: attend) or T's (added).
   Statistics of rows are T. */
#include "kernels/element.h"
#include "kernels/random.h"

typedef struct parameters {
  T p[4]; /* scale, probability of keeping a weight, its reciprocal */
} parameters;
#define UP_TO(a, b) ((a) < (b) ? (int)(a) : (int)(b))

/* ---- tiles: sums of a work-group, and what its threads share --------------------------------- */

/* BLOCK queries or keys; WIDTH features of a result; DEPTH terms of a product are shared at a time. */
#if ON_CPU
/* One work-item computes a tile with vectors. */
#define VECTOR__(type, wide) type##wide
#define VECTOR_(type, wide) VECTOR__(type, wide)
typedef VECTOR_(TYPE, WIDE) vector;
enum { BLOCK = ATTENTION_BLOCK(1, sizeof(T)), WIDTH = ATTENTION_WIDTH(1, sizeof(T)), DEPTH = BLOCK };
enum { HEIGHT = 4, SIDES = 16 };
enum { A_ROW = DEPTH, A_STEP = 1, X_ROW = BLOCK };
typedef union tile {
  T at[BLOCK][WIDTH];
  vector by[BLOCK][WIDTH / WIDE];
} tile;
typedef struct shared {
  tile b; /* [DEPTH][WIDTH] */
  T a[BLOCK][DEPTH], x[BLOCK][X_ROW];
  T top[BLOCK], total[BLOCK], factor[BLOCK];
} shared;
#define HELD
#define GROUP_MEMORY
#define WAIT
#define MEMBERS ALONE KERNEL
#define EACH_ROW(i, r, count) for (int i = 0, r = 0; i < (count); r = ++i)
#define EACH_COLUMN(j, c, count) for (int j = 0, c = 0; j < (count); c = ++j)
#define EACH_LINE(r, count) for (int r = 0; r < (count); r++)
#else
/* Each thread has rows DOWN apart and columns ACROSS apart. */
enum { BLOCK = ATTENTION_BLOCK(0, sizeof(T)), WIDTH = ATTENTION_WIDTH(0, sizeof(T)), DEPTH = 16, SIDES = 4 };
enum { ACROSS = GROUP_SIZE < 16 ? GROUP_SIZE : 16, DOWN = GROUP_SIZE / ACROSS };
enum { A_ROW = 1, A_STEP = BLOCK + 1, X_ROW = BLOCK + 1 };
typedef struct tile {
  T at[BLOCK / DOWN][BLOCK / ACROSS];
} tile;
typedef struct shared {
  T a[DEPTH][BLOCK + 1], b[DEPTH][BLOCK + 1], x[BLOCK][X_ROW];
  T top[BLOCK], total[BLOCK], factor[BLOCK];
} shared;
#define HELD SHARED
#define GROUP_MEMORY LOCAL
#define WAIT SYNC
#define MEMBERS GROUPS KERNEL
#define EACH_ROW(i, r, count) UNROLL for (int i = 0, r = LANE / ACROSS; i < BLOCK / DOWN; i++, r += DOWN)
#define EACH_COLUMN(j, c, count) UNROLL for (int j = 0, c = LANE % ACROSS; j < BLOCK / ACROSS; j++, c += ACROSS)
#define EACH_LINE(r, count) for (int r = LANE; r < BLOCK; r += GROUP_SIZE)
#endif

DEVICE void clear(tile *t) { EACH_ROW(i, r, BLOCK) EACH_COLUMN(j, c, WIDTH) t->at[i][j] = 0; }

/* A matrix of an operand. */
typedef struct matrix {
  GLOBAL const MEMORY(D0) *at;
  I64 row, col;
} matrix;

#if ON_CPU
/* to[r * ld + c] = from[r * row + c * col]; the inner loop runs along the dimension of stride 1. */
DEVICE void lay(T *to, int ld, GLOBAL const MEMORY(D0) *from, int rows, I64 row, int columns, I64 col) {
  if (col == 1) {
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < columns; c++) to[r * ld + c] = LOAD(D0, from[r * row + c]);
  } else {
    for (int c = 0; c < columns; c++)
      for (int r = 0; r < rows; r++) to[r * ld + c] = LOAD(D0, from[r * row + c * col]);
  }
}
#define LAY_A(from, rows, row, depth, step) lay(m->a[0], DEPTH, from, rows, row, depth, step)
#define LAY_B(from, depth, step, columns, col) lay(m->b.at[0], WIDTH, from, depth, step, columns, col)

/* to += a b, with b in m; a's element (r, k) is a[r * row + k * step]. */
DEVICE void multiply(tile *to, const T *a, int row, int step, shared *m, int rows, int columns, int depth) {
  for (int p = 0; p * WIDE < columns; p++)
    for (int i = 0; i < rows; i += HEIGHT) {
      vector sum[HEIGHT];
#pragma unroll
      for (int r = 0; r < HEIGHT; r++) sum[r] = to->by[i + r][p];
      for (int k = 0; k < depth; k++) {
        const vector b = m->b.by[k][p];
#pragma unroll
        for (int r = 0; r < HEIGHT; r++) sum[r] = fma((vector)(a[(i + r) * row + k * step]), b, sum[r]);
      }
#pragma unroll
      for (int r = 0; r < HEIGHT; r++) to->by[i + r][p] = sum[r];
    }
}
#else
/* to[k][c] = from[k * step + c * col], 0 past the last. Adjacent threads read adjacent elements. */
DEVICE void lay(SHARED T (*to)[BLOCK + 1], GLOBAL const MEMORY(D0) *from, int depth, I64 step, int columns, I64 col) {
  for (int e = LANE; e < DEPTH * BLOCK; e += GROUP_SIZE) {
    const int k = col == 1 ? e / BLOCK : e % DEPTH, c = col == 1 ? e % BLOCK : e / DEPTH;
    to[k][c] = k < depth && c < columns ? LOAD(D0, from[k * step + c * col]) : 0;
  }
}
#define LAY_A(from, rows, row, depth, step) lay(m->a, from, depth, step, rows, row)
#define LAY_B(from, depth, step, columns, col) lay(m->b, from, depth, step, columns, col)

/* to += a b, with b in m; a's element (r, k) is a[r * row + k * step]. */
DEVICE void multiply(tile *to, SHARED const T *a, int row, int step, SHARED shared *m, int rows, int columns,
                     int depth) {
  for (int k = 0; k < depth; k++)
    EACH_ROW(i, r, rows) EACH_COLUMN(j, c, columns) to->at[i][j] = fma(a[r * row + k * step], m->b[k][c], to->at[i][j]);
}
#endif

/* to = a b^T, over `depth` features. */
DEVICE void multiply_rows(tile *to, matrix a, matrix b, HELD shared *m, int rows, int columns, I64 depth) {
  clear(to);
  for (I64 first = 0; first < depth; first += DEPTH) {
    const int terms = UP_TO(depth - first, DEPTH);
    WAIT;
    LAY_A(a.at + first * a.col, rows, a.row, terms, a.col);
    LAY_B(b.at + first * b.col, terms, b.col, columns, b.row);
    WAIT;
    multiply(to, &m->a[0][0], A_ROW, A_STEP, m, rows, columns, terms);
  }
}

/* to += x b, or x^T b if `turned`, over `depth` rows of b. */
DEVICE void blend(tile *to, bool turned, matrix b, HELD shared *m, int rows, int columns, int depth) {
  const int row = turned ? 1 : X_ROW, step = turned ? X_ROW : 1;
  for (int first = 0; first < depth; first += DEPTH) {
    const int terms = UP_TO(depth - first, DEPTH);
    WAIT;
    LAY_B(b.at + first * b.row, terms, b.row, columns, b.col);
    WAIT;
    multiply(to, &m->x[0][0] + first * step, row, step, m, rows, columns, terms);
  }
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* A block: its head, the first of its queries and keys, and how many there are. */
typedef struct block {
  I64 head, query, key;
  int rows, columns;
} block;

#ifdef D1
#define MASK , GLOBAL const MEMORY(D1) *mask
#define MASK_GIVEN , mask
#define THE_MASK , mask + walk_at(&places, 3, b.head)
#else
#define MASK
#define MASK_GIVEN
#define THE_MASK
#endif

/* The score of query r and key c of a block, given their product; -Inf where the query does not see the key. */
DEVICE T score_of(T product, const block *b, int r, int c, const attentions *w, T scale MASK) {
  if (r >= b->rows || c >= b->columns || (w->causal && b->key + c > b->query + r)) return -INFINITY;
#ifdef D1
  const MEMORY(D1) given = mask[(b->query + r) * w->mask_row + (b->key + c) * w->mask_col];
  if (w->choice) return given != 0 ? scale * product : -INFINITY;
  return scale * product + LOAD(D1, given);
#else
  return scale * product;
#endif
}

/* What dropout multiplies the weight by; the four words of a counter are kept for the next weight. */
typedef struct draws {
  U64 index;
  U32 word[4];
} draws;
DEVICE T kept(draws *d, const block *b, int r, int c, const attentions *w, const parameters *q) {
  if (!w->drops) return 1;
  const U64 at = (U64)((b->head * w->l + b->query + r) * w->s + b->key + c);
  if (at / 4 != d->index) {
    d->index = at / 4;
    philox(at / 4, (U64)w->draw, (U64)w->seed, &d->word[0], &d->word[1], &d->word[2], &d->word[3]);
  }
  return uniform_f32(d->word[at % 4], 24) < (float)q->p[1] ? q->p[2] : 0;
}
#define NO_DRAWS            \
  {                         \
    ~(U64)0, { 0, 0, 0, 0 } \
  }

#define OPERANDS GLOBAL const MEMORY(D0) *q, GLOBAL const MEMORY(D0) *k, GLOBAL const MEMORY(D0) *v
#define PARAMETERS CONST_PARAM walk places, CONST_PARAM attentions w, const parameters z
/* The head's matrices, from a query or a key on. */
#define QUERIES(i) \
  { q + walk_at(&places, 0, b.head) + (i)*w.q_row, w.q_row, w.q_col }
#define KEYS(j) \
  { k + walk_at(&places, 1, b.head) + (j)*w.k_row, w.k_row, w.k_col }
#define VALUES(j) \
  { v + walk_at(&places, 2, b.head) + (j)*w.v_row, w.v_row, w.v_col }
#define SLOPES(i) \
  { g + w.g + (b.head * w.l + (i)) * w.v, w.v, 1 }
#define FROM_COLUMN(m, c) \
  { m.at + (c)*m.col, m.row, m.col }

#if OP == 0
/* ---- forward: a work-group has a block of queries, and WIDTH features of the result ----------- */

/* The largest element of a row of x, ignoring NaN, and `start`; or the sum of the row. */
DEVICE T fold_row(HELD const T *x, bool sum, T start) {
  T side[SIDES];
  for (int l = 0; l < SIDES; l++) side[l] = start;
  for (int c = 0; c < BLOCK; c += SIDES)
    for (int l = 0; l < SIDES; l++) side[l] = sum ? side[l] + x[c + l] : x[c + l] > side[l] ? x[c + l] : side[l];
  T all = side[0];
  for (int l = 1; l < SIDES; l++) all = sum ? all + side[l] : side[l] > all ? side[l] : all;
  return all;
}
#define CENTRE(top) ((top) == -INFINITY ? 0 : (top)) /* relative to 0, exponentials of -Inf are 0 */

/* x, the scores of a block, becomes e^(score - top), with the largest score of the row until now; sums until now are
   multiplied by `factor` (Milakov and Gimelshein, arXiv:1805.02867). A NaN reaches the row through the sum. */
DEVICE void soften(HELD shared *m, int rows) {
  WAIT;
  EACH_LINE(r, rows) {
    const T before = m->top[r], top = fold_row(m->x[r], false, before);
    m->top[r] = top;
    m->factor[r] = exp(before - CENTRE(top));
  }
  WAIT;
  EACH_ROW(i, r, rows) {
    const T centre = CENTRE(m->top[r]);
    EACH_COLUMN(j, c, BLOCK) m->x[r][c] = exp(m->x[r][c] - centre);
  }
  WAIT;
  EACH_LINE(r, rows) m->total[r] = m->total[r] * m->factor[r] + fold_row(m->x[r], true, 0);
}

MEMBERS run(GLOBAL MEMORY(D0) *y, GLOBAL T *stats, OPERANDS MASK, PARAMETERS) {
  GROUP_MEMORY shared all;
  HELD shared *m = &all;
  block b = { GROUP / w.chunks / w.blocks, GROUP / w.chunks % w.blocks * BLOCK, 0, 0, 0 };
  const I64 column = GROUP % w.chunks * WIDTH;
  const int width = UP_TO(w.v - column, WIDTH);
  b.rows = UP_TO(w.l - b.query, BLOCK);
  const I64 keys = w.causal && b.query + b.rows < w.s ? b.query + b.rows : w.s;
  tile scores, sum;
  clear(&sum);
  EACH_LINE(r, BLOCK) m->top[r] = -INFINITY, m->total[r] = 0;
  for (; b.key < keys; b.key += BLOCK) {
    b.columns = UP_TO(keys - b.key, BLOCK);
    const matrix queries = QUERIES(b.query), near = KEYS(b.key), values = VALUES(b.key);
    multiply_rows(&scores, queries, near, m, b.rows, b.columns, w.e);
    EACH_ROW(i, r, b.rows)
    EACH_COLUMN(j, c, BLOCK) m->x[r][c] = score_of(scores.at[i][j], &b, r, c, &w, z.p[0] THE_MASK);
    soften(m, b.rows);
    draws d = NO_DRAWS;
    if (w.drops) {
      WAIT;
      EACH_ROW(i, r, b.rows) EACH_COLUMN(j, c, b.columns) m->x[r][c] *= kept(&d, &b, r, c, &w, &z);
    }
    EACH_ROW(i, r, b.rows) EACH_COLUMN(j, c, width) sum.at[i][j] *= m->factor[r];
    const matrix part = FROM_COLUMN(values, column);
    blend(&sum, false, part, m, b.rows, width, b.columns);
  }
  WAIT;
  EACH_ROW(i, r, b.rows) {
    const T total = m->total[r], share = total == 0 ? 0 : 1 / total;
    EACH_COLUMN(j, c, width) {
      const T value = sum.at[i][j] * share;
      if (r < b.rows && c < width) y[w.y + (b.head * w.l + b.query + r) * w.v + column + c] = STORE(D0, value);
    }
  }
  if (column > 0) return;
  EACH_LINE(r, b.rows)
  if (r < b.rows)
    stats[w.stats + b.head * w.l + b.query + r] = m->total[r] == 0 ? INFINITY : m->top[r] + log(m->total[r]);
}
#else
/* ---- gradients ------------------------------------------------------------------------------- */

#define STATISTICS GLOBAL const MEMORY(D0) *g, GLOBAL const T *stats

/* x becomes the weights of a block after dropout, and slopes, products of g and v, the gradients of scores. m->total is
   the logsumexp of each row, m->top its delta. */
DEVICE void differentiate(tile *scores, tile *slopes, HELD shared *m, const block *b, const attentions *w,
                          const parameters *z MASK) {
  draws d = NO_DRAWS;
  WAIT;
  EACH_ROW(i, r, b->rows) {
    const T centre = m->total[r], delta = m->top[r];
    EACH_COLUMN(j, c, BLOCK)
    m->x[r][c] = scores->at[i][j] = exp(score_of(scores->at[i][j], b, r, c, w, z->p[0] MASK_GIVEN) - centre);
    if (w->drops) EACH_COLUMN(j, c, BLOCK) {
        const T times = kept(&d, b, r, c, w, z);
        slopes->at[i][j] *= times;
        m->x[r][c] *= times;
      }
    EACH_COLUMN(j, c, BLOCK) slopes->at[i][j] = scores->at[i][j] * (slopes->at[i][j] - delta);
  }
}
#if OP == 1
/* A work-group has a block of queries, and WIDTH features of dq. */
MEMBERS run(GLOBAL MEMORY(D0) *dq, GLOBAL T *deltas, OPERANDS, STATISTICS, GLOBAL const MEMORY(D0) *y MASK,
            PARAMETERS) {
  GROUP_MEMORY shared all;
  HELD shared *m = &all;
  block b = { GROUP / w.chunks / w.blocks, GROUP / w.chunks % w.blocks * BLOCK, 0, 0, 0 };
  const I64 column = GROUP % w.chunks * WIDTH;
  const int width = UP_TO(w.e - column, WIDTH);
  b.rows = UP_TO(w.l - b.query, BLOCK);
  const I64 keys = w.causal && b.query + b.rows < w.s ? b.query + b.rows : w.s;
  tile scores, slopes, sum;
  clear(&sum);
  EACH_LINE(r, b.rows) {
    if (r >= b.rows) continue;
    const I64 row = b.head * w.l + b.query + r;
    T delta = 0;
    for (I64 c = 0; c < w.v; c++) delta += LOAD(D0, g[w.g + row * w.v + c]) * LOAD(D0, y[w.y + row * w.v + c]);
    m->total[r] = stats[w.stats + row], m->top[r] = delta;
    if (column == 0) deltas[row] = delta;
  }
  for (; b.key < keys; b.key += BLOCK) {
    b.columns = UP_TO(keys - b.key, BLOCK);
    const matrix queries = QUERIES(b.query), near = KEYS(b.key), values = VALUES(b.key), ups = SLOPES(b.query),
                 part = FROM_COLUMN(near, column);
    multiply_rows(&scores, queries, near, m, b.rows, b.columns, w.e);
    multiply_rows(&slopes, ups, values, m, b.rows, b.columns, w.v);
    differentiate(&scores, &slopes, m, &b, &w, &z THE_MASK);
    EACH_ROW(i, r, b.rows) EACH_COLUMN(j, c, BLOCK) m->x[r][c] = slopes.at[i][j];
    blend(&sum, false, part, m, b.rows, width, b.columns);
  }
  EACH_ROW(i, r, b.rows) EACH_COLUMN(j, c, width) {
    const T value = z.p[0] * sum.at[i][j];
    if (r < b.rows && c < width) dq[w.out + (b.head * w.l + b.query + r) * w.e + column + c] = STORE(D0, value);
  }
}
#else
/* A work-group has a block of keys of the heads that share them, and WIDTH features of dk and dv. */
MEMBERS run(GLOBAL MEMORY(D0) *dk, GLOBAL MEMORY(D0) *dv, OPERANDS, STATISTICS, GLOBAL const T *deltas MASK,
            PARAMETERS) {
  GROUP_MEMORY shared all;
  HELD shared *m = &all;
  const I64 unit = GROUP / w.chunks / w.blocks, column = GROUP % w.chunks * WIDTH;
  const int e = UP_TO(w.e - column, WIDTH), width = UP_TO(w.v - column, WIDTH);
  block b = { 0, 0, GROUP / w.chunks % w.blocks * BLOCK, 0, 0 };
  b.columns = UP_TO(w.s - b.key, BLOCK);
  tile scores, slopes, key_sum, value_sum;
  clear(&key_sum);
  clear(&value_sum);
  for (I64 of = 0; of < w.shared; of++) {
    b.head = unit * w.shared + of;
    for (b.query = w.causal ? b.key : 0; b.query < w.l; b.query += BLOCK) {
      b.rows = UP_TO(w.l - b.query, BLOCK);
      const matrix queries = QUERIES(b.query), near = KEYS(b.key), values = VALUES(b.key), ups = SLOPES(b.query),
                   up = FROM_COLUMN(ups, column), query = FROM_COLUMN(queries, column);
      EACH_LINE(r, b.rows) {
        const I64 row = b.head * w.l + b.query + (r < b.rows ? r : 0);
        m->total[r] = stats[w.stats + row], m->top[r] = deltas[row];
      }
      multiply_rows(&scores, queries, near, m, b.rows, b.columns, w.e);
      multiply_rows(&slopes, ups, values, m, b.rows, b.columns, w.v);
      differentiate(&scores, &slopes, m, &b, &w, &z THE_MASK);
      if (width > 0) blend(&value_sum, true, up, m, b.columns, width, b.rows);
      WAIT;
      EACH_ROW(i, r, b.rows) EACH_COLUMN(j, c, BLOCK) m->x[r][c] = slopes.at[i][j];
      if (e > 0) blend(&key_sum, true, query, m, b.columns, e, b.rows);
    }
  }
  EACH_ROW(i, r, b.columns) EACH_COLUMN(j, c, WIDTH) {
    const I64 row = unit * w.s + b.key + r;
    const T key = z.p[0] * key_sum.at[i][j], value = value_sum.at[i][j];
    if (r < b.columns && c < e) dk[w.out + row * w.e + column + c] = STORE(D0, key);
    if (r < b.columns && c < width) dv[w.out2 + row * w.v + column + c] = STORE(D0, value);
  }
}
#endif
#endif
