/* softmax(scale q k^T + mask) v in one pass over blocks of keys: scores exist for a few queries and one block of keys
   at a time, and the sums so far are scaled when a larger score appears. Memory is linear in the lengths.
   SPDX-License-Identifier: MIT */
#include "attention.h"
#include "convert.h"
#include "fold.h"

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
  FEATURES = 64 * 256, /* keys * features of a block */
  SHORT = 64           /* keys, for which ops keep all weights */
};

/* ---- a unit: some queries of one head ---- */

typedef struct plan {
  situ__attention p;
  const situ__panels *tiles;           /* for products by tile registers; NULL: by vectors */
  int64_t queries, keys, blocks, rows; /* of a unit; of a block; units of a head; queries together */
  bool direct;                         /* sums are added up in the result */
  int64_t y_row;                       /* elements between their rows */
} plan;

typedef struct buffers {
  void *q, *k, *panels, *v, *scores, *y, *most, *total, *row;
  char *q_tiles, *k_tiles, *v_tiles, *weights; /* panels for tile registers */
  uint32_t *words;
} buffers;

static size_t lay_out(const plan *t, char *memory, buffers *r) {
  const situ__attention *p = &t->p;
  const int64_t elem = p->elem, e = situ__whole_vectors(p, p->e), v = situ__whole_vectors(p, p->v_width);
  size_t used = 0;
  r->q = situ__carve(memory, &used, t->queries * e * elem);
  r->k = situ__carve(memory, &used, t->keys * e * elem);
  r->panels = situ__carve(memory, &used, situ__panels_size(p, t->keys, p->e) * elem);
  r->v = situ__carve(memory, &used, t->keys * v * elem);
  r->scores = situ__carve(memory, &used, t->rows * situ__max_i64(t->keys, t->tiles ? e : 0) * elem);
  r->y = situ__carve(memory, &used, t->direct ? 0 : t->queries * v * elem);
  r->most = situ__carve(memory, &used, t->queries * elem);
  r->total = situ__carve(memory, &used, t->queries * elem);
  r->row = situ__carve(memory, &used, t->keys * elem);
  r->words = situ__carve(memory, &used, (t->keys + 8) * (int64_t)sizeof(uint32_t));
  if (!t->tiles) return used;
  r->q_tiles = situ__carve(memory, &used, situ__tiles_bytes(t->tiles, t->queries, p->e));
  r->k_tiles = situ__carve(memory, &used, situ__tiles_bytes(t->tiles, t->keys, p->e));
  r->v_tiles = situ__carve(memory, &used, situ__tiles_bytes(t->tiles, p->v_width, t->keys));
  r->weights = situ__carve(memory, &used, situ__tiles_bytes(t->tiles, t->rows, t->keys));
  return used;
}

typedef struct unit {
  const plan *t;
  const buffers *r;
  situ__head head;
  int64_t first, rows, n; /* queries; keys of the block */
  situ__matrix q, k, v;
  char *y;
  bool q_tiled, tiled; /* panels of q hold it; those of the block too */
} unit;

/* ---- its products by tile registers ---- */

/* scale q, in panels. Sets q_tiled, false if numbers are there that tile registers do not multiply. */
static void tile_queries(unit *u) {
  const situ__attention *p = &u->t->p;
  const situ__panels *tiles = u->t->tiles;
  const int64_t ld = situ__whole_vectors(p, p->e);
  u->q_tiled = tiles != NULL;
  for (int64_t i = 0, rows; i < u->rows && u->q_tiled; i += rows) {
    rows = situ__min_i64(u->t->rows, u->rows - i);
    p->rows->scaled(rows, p->e, u->q.data + i * u->q.row * p->elem, u->q.row, u->q.col, p->work->scalar[0],
                    u->r->scores, ld);
    u->q_tiled = tiles->pack_a(u->r->q_tiles + situ__tiles_bytes(tiles, i, p->e), u->r->scores, ld, 1, rows, p->e);
  }
}

/* The block's keys and values, in panels. Sets tiled. */
static void tile_keys(unit *u, const situ__matrix *k, const situ__matrix *v) {
  const situ__attention *p = &u->t->p;
  const situ__panels *tiles = u->t->tiles;
  u->tiled = u->q_tiled && tiles->pack_b(u->r->k_tiles, k->data, k->row, k->col, u->n, p->e) &&
             tiles->pack_b(u->r->v_tiles, v->data, v->col, v->row, p->v_width, u->n);
}

/* ---- its products ---- */

/* Scores of the queries from i on. */
static void score(const unit *u, int64_t i, const situ__scores *s, const situ__matrix *k) {
  const situ__attention *p = &u->t->p;
  const buffers *r = u->r;
  const situ__panels *tiles = u->t->tiles;
  const situ__matrix q = situ__attention_rows_from(p, &u->q, i);
  if (!u->tiled) situ__attention_score(p, s, &q, k, u->n, r->panels);
  else
    situ__attention_multiply(tiles, s->rows, s->columns, p->e, p->e, r->q_tiles + situ__tiles_bytes(tiles, i, p->e),
                             r->k_tiles, false, s->data, s->ld);
}

/* Adds values by their weights s to y. A weight that is not 0 but below 2^-100 has no three parts. */
static void add_values(const unit *u, const situ__scores *s, const situ__matrix *v, bool add, void *y) {
  const plan *t = u->t;
  const situ__attention *p = &t->p;
  if (u->tiled && t->tiles->pack_a(u->r->weights, s->data, s->ld, 1, s->rows, s->columns))
    situ__attention_multiply(t->tiles, s->rows, p->v_width, s->columns, u->n, u->r->weights, u->r->v_tiles, add, y,
                             t->y_row);
  else
    situ__attention_product(p, s->rows, p->v_width, s->columns, (situ__factor){ s->data, s->ld, 1 },
                            (situ__factor){ v->data, v->row, 1 }, 1, add, y, t->y_row);
}

/* Adds the keys from j on to the sums of all queries of the unit that see some of them. */
static void absorb(unit *u, int64_t j) {
  const int64_t n = u->n;
  const situ__attention *p = &u->t->p;
  const buffers *r = u->r;
  const situ__matrix k = situ__attention_stage(p, &u->k, j, n, false, r->k),
                     v = situ__attention_stage(p, &u->v, j, n, true, r->v);
  const int64_t ld = u->t->keys, y_row = u->t->y_row;
  tile_keys(u, &k, &v);
  if (!u->tiled) situ__attention_pack_keys(p, &k, n, r->panels);
  for (int64_t i = 0, rows; i < u->rows; i += rows) {
    rows = situ__min_i64(u->t->rows, u->rows - i);
    const int64_t sees = p->causal ? u->first + i + 1 - j : n,
                  columns = situ__min_i64(n, sees + (rows - 1) * p->causal);
    if (columns <= 0) continue;
    const situ__scores s = { r->scores, rows, columns, ld, sees, p->causal };
    const situ__scores_place at = { &u->head, u->first + i, j, r->row, r->words };
    char *y = u->y + i * y_row * p->elem;
    score(u, i, &s, &k);
    situ__attention_mask(p, &s, &at);
    p->rows->soften(&s, j == 0, (char *)r->most + i * p->elem, (char *)r->total + i * p->elem, y, p->v_width, y_row);
    situ__attention_drop(p, &s, &at, s.data);
    add_values(u, &s, &v, j > 0, y);
  }
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
    situ__cpu_convert()->store[p->lane][dtype](u->y + r * ld, p->v_width, y + r * p->v_width * size, size);
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

/* The weights of so few keys are as small as the operands, so they are kept: cheaper than to compute them again. Of
   many rows of x a product by tiles is faster than one row of blocks after the other. */
situ_status situ__cpu_offers(int index, const situ_work *work) {
  (void)index;
  if (work->verb == SITU_VERB_CONV) return situ__cpu_offers_conv(work);
  if (work->verb == SITU_VERB_FACTOR) return situ__cpu_offers_factor(work);
  const situ_view_desc *k = work->in[1];
  if (work->verb == SITU_VERB_BLOCKS) return work->out[0]->size[0] > SITU__BLOCKS_ROWS ? SITU_E_UNSUPPORTED : SITU_OK;
  return work->verb == SITU_VERB_ATTENTION && k->size[k->ndim - 2] <= SHORT ? SITU_E_UNSUPPORTED : SITU_OK;
}

situ_status situ__cpu_attention(int index, const situ_work *work) {
  (void)index;
  if (work->op == SITU_ATTENTION_GRAD) return situ__cpu_attention_grad(work);
  plan t = { .p = situ__attention_of(work, work->ins > 3 ? work->in[3] : NULL) };
  const situ__attention *p = &t.p;
  const int64_t widest = situ__max_i64(p->e, p->v_width);
  t.tiles = situ__attention_tiles(p);
  t.rows = t.tiles ? TILED_ROWS : ROWS;
  const int64_t most = t.tiles ? TILED_QUERIES : QUERIES, few = t.tiles ? FEW_TILED : FEW_QUERIES;
  const bool many = p->heads * situ__ceil_div(p->l, most) >= UNITS;
  t.queries = situ__round_up(situ__ceil_div(p->l, situ__ceil_div(p->l, many ? most : few)), t.rows);
  /* Tile registers write whole squares. */
  t.direct = situ__cpu_native((situ_dtype)work->out[0]->dtype, p->lane) &&
             (!t.tiles || (p->l % t.tiles->whole == 0 && p->v_width % t.tiles->whole == 0));
  t.y_row = t.direct ? p->v_width : situ__whole_vectors(p, p->v_width);
  t.keys = situ__max_i64(64, situ__min_i64(situ__round_up(situ__min_i64(p->s, KEYS), 64), FEATURES / widest / 64 * 64));
  t.blocks = situ__ceil_div(p->l, t.queries);
  const double cost = (double)t.queries * (double)p->s * (double)(p->e + p->v_width);
  buffers none;
  return situ__attention_run(&t, run_unit, p->heads * t.blocks, cost, lay_out(&t, NULL, &none));
}
