/* softmax(scale q k^T + mask) v in one pass over blocks of keys: scores exist for a few queries and one block of keys
   at a time, and the sums so far are scaled when a larger score appears. Memory is linear in the lengths.
   SPDX-License-Identifier: MIT */
#include "attention.h"
#include "backend/cpu/common/convert.h"
#include "backend/cpu/reduce/fold.h"

#include "base/size.h"

#include <string.h>

/* Measured on cores with 32 KiB and 1 MiB of cache; see bench/. */
enum {
  QUERIES = 1024,      /* of a unit, for which a block of keys is packed once */
  TILED_QUERIES = 512, /* the same by tile registers, for which queries are packed, too */
  FEW_QUERIES = 96,    /* where there are few heads: work for several threads */
  UNITS = 16,          /* from which there are enough */
  FEW_TILED = 256,     /* the same by tile registers, for which blocks of keys take longer to pack */
  ROWS = 24,           /* queries whose scores are in the L1 cache together */
  TILED_ROWS = 32,     /* the same by tile registers */
  KEYS = 256,          /* of a block; fewer where features are many */
  FEATURES = 64 * 256  /* keys * features of a block */
};

/* ---- a unit: some queries of one head ---- */

typedef struct plan {
  situ__attention p;
  const situ__panels *tiles;              /* for products by tile registers; NULL: by vectors */
  const situ__attention_weigher *weigher; /* goes with tiles */
  int64_t queries, keys, blocks, rows;    /* of a unit; of a block; units of a head; queries together */
  bool direct;                            /* sums are added up in the result */
  int64_t y_row;                          /* elements between their rows */
} plan;

typedef struct buffers {
  void *q, *k, *panels, *v, *scores, *y, *most, *total, *row;
  char *q_tiles, *k_tiles, *v_tiles, *weights; /* panels for tile registers; weights: two, as of scores */
  uint32_t *words;
} buffers;

static size_t lay_out(const plan *t, char *memory, buffers *r) {
  const situ__attention *p = &t->p;
  const int64_t elem = p->elem, e = situ__full_vectors(p, p->e), v = situ__full_vectors(p, p->v_width);
  size_t used = 0;
  r->q = situ__carve(memory, &used, t->queries * e * elem);
  r->k = situ__carve(memory, &used, t->keys * e * elem);
  r->panels = situ__carve(memory, &used, situ__panels_size(p, t->keys, p->e) * elem);
  r->v = situ__carve(memory, &used, t->keys * v * elem);
  r->scores =
      situ__carve(memory, &used, (t->tiles ? 2 : 1) * t->rows * situ__max_i64(t->keys, t->tiles ? e : 0) * elem);
  r->y = situ__carve(memory, &used, t->direct ? 0 : t->queries * v * elem);
  r->most = situ__carve(memory, &used, t->queries * elem);
  r->total = situ__carve(memory, &used, t->queries * elem);
  r->row = situ__carve(memory, &used, t->keys * elem);
  r->words = situ__carve(memory, &used, (t->keys + 8) * (int64_t)sizeof(uint32_t));
  if (!t->tiles) return used;
  r->q_tiles = situ__carve(memory, &used, situ__tiles_bytes(t->tiles, t->queries, p->e));
  r->k_tiles = situ__carve(memory, &used, situ__tiles_bytes(t->tiles, t->keys, p->e));
  r->v_tiles = situ__carve(memory, &used, situ__tiles_bytes(t->tiles, p->v_width, t->keys));
  r->weights = situ__carve(memory, &used, 2 * situ__tiles_bytes(t->tiles, t->rows, t->keys));
  return used;
}

typedef struct unit {
  const plan *t;
  const buffers *r;
  situ__head head;
  int64_t first, rows, n; /* queries; keys of the block */
  situ__matrix q, k, v;
  char *y;
  bool q_tiled; /* panels hold q */
} unit;

/* ---- its panels for tile registers ---- */

/* scale q, in panels. Sets q_tiled, false if numbers are there that tile registers do not multiply. */
static void tile_queries(unit *u) {
  const situ__attention *p = &u->t->p;
  const situ__panels *tiles = u->t->tiles;
  const int64_t ld = situ__full_vectors(p, p->e);
  u->q_tiled = tiles != NULL;
  for (int64_t i = 0, rows; i < u->rows && u->q_tiled; i += rows) {
    rows = situ__min_i64(u->t->rows, u->rows - i);
    p->rows->scaled(rows, p->e, u->q.data + i * u->q.row * p->elem, u->q.row, u->q.col, p->work->scalar[0],
                    u->r->scores, ld);
    u->q_tiled = tiles->pack_a(u->r->q_tiles + situ__tiles_bytes(tiles, i, p->e), u->r->scores, ld, 1, rows, p->e);
  }
}

/* The block's keys and values, in panels. */
static bool tile_keys(const unit *u, const situ__matrix *k, const situ__matrix *v) {
  const situ__attention *p = &u->t->p;
  const situ__panels *tiles = u->t->tiles;
  return tiles->pack_b(u->r->k_tiles, k->data, k->row, k->col, u->n, p->e) &&
         tiles->pack_b(u->r->v_tiles, v->data, v->col, v->row, p->v_width, u->n);
}

/* ---- a block of keys by tile registers ---- */

/* Some queries on their way: their scores, which become weights, with which values are added up. */
typedef struct step {
  situ__weighing w;
  situ__scores_place at;
  char *y;
  bool packed; /* panels hold the weights */
} step;

/* The step of the queries from i on, in one of two buffers. */
static step step_of(const unit *u, int64_t i, int64_t j, int64_t half) {
  const plan *t = u->t;
  const situ__attention *p = &t->p;
  const buffers *r = u->r;
  const int64_t rows = situ__min_i64(t->rows, u->rows - i), sees = p->causal ? u->first + i + 1 - j : u->n,
                columns = situ__min_i64(u->n, sees + (rows - 1) * p->causal);
  float *scores = (float *)r->scores + half * t->rows * t->keys;
  step s = { .at = { &u->head, u->first + i, j, r->row, r->words }, .y = u->y + i * t->y_row * p->elem };
  s.w = (situ__weighing){ .s = { scores, rows, columns, t->keys, sees, p->causal },
                          .panels = r->weights + half * situ__tiles_bytes(t->tiles, t->rows, t->keys),
                          .centre = (float *)r->most + i,
                          .total = (float *)r->total + i,
                          .y = (float *)(void *)s.y,
                          .width = p->v_width,
                          .y_ld = t->y_row,
                          .first = j == 0 };
  return s;
}

/* Computes the step's scores, and weighs a part of those of the step before. */
static void begin_step(const unit *u, int64_t i, step *s, situ__weighing *beside) {
  const situ__attention *p = &u->t->p;
  const situ__scores *x = &s->w.s;
  situ__attention_multiply(u->t->tiles, x->rows, x->columns, p->e, p->e,
                           u->r->q_tiles + situ__tiles_bytes(u->t->tiles, i, p->e), u->r->k_tiles, false, x->data,
                           x->ld, (situ__beside){ .weigh = beside });
  situ__attention_mask(p, x, &s->at);
  if (p->keep == 1) u->t->weigher->begin(&s->w);
}

/* Ends the weights. Those of which dropout takes some are not weighed beside products. */
static void weigh_step(const unit *u, step *s) {
  const situ__attention *p = &u->t->p;
  const situ__scores *x = &s->w.s;
  if (p->keep == 1) {
    s->packed = u->t->weigher->finish(&s->w);
    return;
  }
  p->rows->soften(x, s->w.first, s->w.centre, s->w.total, s->y, p->v_width, u->t->y_row);
  situ__attention_drop(p, x, &s->at, x->data);
  s->packed = u->t->tiles->pack_a(s->w.panels, x->data, x->ld, 1, x->rows, x->columns);
}

/* Adds values by the step's weights to y, and weighs a part of the scores of the step after. */
static void end_step(const unit *u, const step *s, const situ__matrix *v, situ__weighing *beside) {
  const situ__attention *p = &u->t->p;
  const situ__scores *x = &s->w.s;
  const bool add = !s->w.first;
  if (s->packed)
    situ__attention_multiply(u->t->tiles, x->rows, p->v_width, x->columns, u->n, s->w.panels, u->r->v_tiles, add, s->y,
                             u->t->y_row, (situ__beside){ .weigh = beside });
  else
    situ__attention_product(p, x->rows, p->v_width, x->columns, (situ__factor){ x->data, x->ld, 1 },
                            (situ__factor){ v->data, v->row, 1 }, 1, add, s->y, u->t->y_row);
}

/* Three steps are on their way: values are added up for one and scores computed for another, which keeps the tile
   registers busy, while vectors weigh the scores of the one between them. */
static void absorb_by_tiles(const unit *u, int64_t j, const situ__matrix *v) {
  const plan *t = u->t;
  const situ__attention *p = &t->p;
  const int64_t first = p->causal ? situ__max_i64(0, j - u->first) / t->rows : 0,
                end = situ__ceil_div(u->rows, t->rows);
  step steps[2];
  situ__panels_begin(t->tiles);
  for (int64_t k = first; k < end + 2; k++) {
    step *outer = &steps[k % 2], *inner = k > first && k <= end ? &steps[(k + 1) % 2] : NULL;
    situ__weighing *beside = inner && p->keep == 1 ? &inner->w : NULL;
    if (k >= first + 2) end_step(u, outer, v, beside);
    if (k < end) {
      *outer = step_of(u, k * t->rows, j, k % 2);
      begin_step(u, k * t->rows, outer, beside);
    }
    if (inner) weigh_step(u, inner);
  }
  situ__panels_end(t->tiles);
}

/* ---- a block of keys ---- */

static void absorb_by_vectors(const unit *u, int64_t j, const situ__matrix *k, const situ__matrix *v) {
  const situ__attention *p = &u->t->p;
  const buffers *r = u->r;
  const int64_t n = u->n, ld = u->t->keys, y_row = u->t->y_row;
  situ__attention_pack_keys(p, k, n, r->panels);
  for (int64_t i = 0, rows; i < u->rows; i += rows) {
    rows = situ__min_i64(u->t->rows, u->rows - i);
    const int64_t sees = p->causal ? u->first + i + 1 - j : n,
                  columns = situ__min_i64(n, sees + (rows - 1) * p->causal);
    if (columns <= 0) continue;
    const situ__scores s = { r->scores, rows, columns, ld, sees, p->causal };
    const situ__scores_place at = { &u->head, u->first + i, j, r->row, r->words };
    const situ__matrix q = situ__attention_rows_from(p, &u->q, i);
    char *y = u->y + i * y_row * p->elem;
    situ__attention_score(p, &s, &q, k, n, r->panels);
    situ__attention_mask(p, &s, &at);
    p->rows->soften(&s, j == 0, (char *)r->most + i * p->elem, (char *)r->total + i * p->elem, y, p->v_width, y_row);
    situ__attention_drop(p, &s, &at, s.data);
    situ__attention_product(p, rows, p->v_width, columns, (situ__factor){ s.data, ld, 1 },
                            (situ__factor){ v->data, v->row, 1 }, 1, j > 0, y, y_row);
  }
}

/* Adds the keys from j on to the sums of all queries of the unit that see some of them. */
static void absorb(const unit *u, int64_t j) {
  const situ__attention *p = &u->t->p;
  const situ__matrix k = situ__attention_stage(p, &u->k, j, u->n, false, u->r->k),
                     v = situ__attention_stage(p, &u->v, j, u->n, true, u->r->v);
  if (u->q_tiled && tile_keys(u, &k, &v)) absorb_by_tiles(u, j, &v);
  else absorb_by_vectors(u, j, &k, &v);
}

/* Where the unit's first row of the result is. */
static char *result(const unit *u) {
  const situ__attention *p = &u->t->p;
  const situ_view_desc *to = p->work->out[0];
  return situ__cpu_data(to) + (u->head.number * p->l + u->first) * p->v_width * situ__cpu_size(to->dtype);
}

/* Writes the unit's result and logsumexp. */
static void store(const unit *u) {
  const situ__attention *p = &u->t->p;
  const situ_dtype dtype = (situ_dtype)p->work->out[0]->dtype;
  const int64_t size = situ__cpu_size(dtype), ld = u->t->y_row * p->elem;
  char *y = result(u);
  for (int64_t r = 0; r < u->rows && !u->t->direct; r++)
    situ__cpu_convert()->store[p->compute][dtype](u->y + r * ld, p->v_width, y + r * p->v_width * size, size);
  memcpy(situ__cpu_data(p->work->out[1]) + (u->head.number * p->l + u->first) * p->elem, u->r->most,
         (size_t)(u->rows * p->elem));
}

static void run_unit(const void *plan_, char *memory, int64_t number) {
  const plan *t = plan_;
  const situ__attention *p = &t->p;
  buffers b;
  (void)lay_out(t, memory, &b);
  unit u = { .t = t, .r = &b, .head = situ__head_of(p, number / t->blocks), .first = number % t->blocks * t->queries };
  u.rows = situ__min_i64(t->queries, p->l - u.first);
  u.y = t->direct ? result(&u) : b.y;
  const situ__matrix q = situ__matrix_of(p->q, &u.head);
  u.q = situ__attention_stage(p, &q, u.first, u.rows, p->l <= SITU__FEW_QUERIES, b.q);
  u.k = situ__matrix_of(p->k, &u.head);
  u.v = situ__matrix_of(p->v, &u.head);
  tile_queries(&u);
  const int64_t keys = p->causal ? situ__min_i64(p->s, u.first + u.rows) : p->s;
  for (int64_t j = 0; j < keys; j += t->keys) {
    u.n = situ__min_i64(t->keys, keys - j);
    absorb(&u, j);
  }
  p->rows->finish(u.rows, b.most, b.total, u.y, p->v_width, t->y_row);
  store(&u);
}

situ_status situ__attention_forward(const situ__attention *p, const situ__panels *tiles) {
  plan t = { .p = *p, .tiles = tiles, .weigher = situ__attention_weigher_of_tiles() };
  const int64_t widest = situ__max_i64(p->e, p->v_width);
  t.rows = t.tiles ? TILED_ROWS : ROWS;
  const int64_t most = t.tiles ? TILED_QUERIES : QUERIES, few = t.tiles ? FEW_TILED : FEW_QUERIES;
  const bool many = p->heads * situ__ceil_div(p->l, most) >= UNITS;
  t.queries = situ__round_up(situ__even_part(p->l, many ? most : few), t.rows);
  /* Tile registers write whole squares. */
  t.direct = situ__cpu_native((situ_dtype)p->work->out[0]->dtype, p->compute) &&
             (!t.tiles || (p->l % t.tiles->full == 0 && p->v_width % t.tiles->full == 0));
  t.y_row = t.direct ? p->v_width : situ__full_vectors(p, p->v_width);
  t.keys = situ__max_i64(64, situ__min_i64(situ__round_up(situ__min_i64(p->s, KEYS), 64), FEATURES / widest / 64 * 64));
  t.blocks = situ__ceil_div(p->l, t.queries);
  const double cost = (double)t.queries * (double)p->s * (double)(p->e + p->v_width);
  buffers none;
  return situ__attention_run(&t, run_unit, p->heads * t.blocks, cost, lay_out(&t, NULL, &none));
}
