/* The gradients of attention: weights are computed again from the logsumexp of each row, for one block of keys and one
   of queries at a time (Dao, arXiv:2307.08691). With weights p, their dropout p', scores z, delta = sum(dy y):
   dv = p'^T dy, dz = p (dropout(dy v^T) - delta), dq = scale (dz k), dk = dz^T (scale q).
   SPDX-License-Identifier: MIT */
#include "attention.h"
#include "backend/cpu/common/convert.h"
#include "backend/cpu/reduce/fold.h"

#include "base/size.h"

#include <string.h>

/* Measured on cores with 32 KiB and 1 MiB of cache; see bench/. */
enum {
  QUERIES = 66,       /* of a block: whole register tiles */
  KEYS = 128,         /* of a block; fewer where features are many */
  TILED_QUERIES = 64, /* the same by tile registers */
  TILED_KEYS = 256,
  FEATURES = 64 * 256, /* keys * features of a block */
  PAD = 16,            /* elements between rows of scores: a column is in several sets of the cache */
  CHUNK = 1 << 20      /* multiply-adds: below it, waking a thread costs more than it saves */
};

/* A unit: the queries of all heads that share the keys of one. Its part of dq is added up in the result, or in scratch
   if that has another dtype. */
typedef struct plan {
  situ__attention p;
  const situ_view_desc *y, *stats, *g, *dq, *dk, *dv;
  const situ__panels *tiles;            /* for products by tile registers; NULL: by vectors */
  const situ__attention_packer *packer; /* goes with tiles */
  int64_t queries, keys, ld, shared;    /* of a block; row of scores; heads of a unit */
  bool direct;                          /* dq is added up in place */
} plan;

typedef struct buffers {
  void *k, *v, *k_panels, *v_panels, *q, *g, *weights, *slopes, *dk, *dv, *dq, *delta, *row;
  uint32_t *words;
  void *scaled; /* queries */
  /* Panels for tile registers. Lanes are keys or queries; across: their features. */
  char *k_tiles, *v_tiles, *k_across, *q_tiles, *g_tiles, *q_across, *g_across;
  char *scores[2]; /* weights or slopes: one is multiplied while the next is packed */
} buffers;

static size_t lay_out(const plan *t, char *memory, buffers *r) {
  const situ__attention *p = &t->p;
  const int64_t elem = p->elem, e = situ__full_vectors(p, p->e) * elem, v = situ__full_vectors(p, p->v_width) * elem;
  size_t used = 0;
  r->k = situ__carve(memory, &used, t->keys * e);
  r->v = situ__carve(memory, &used, t->keys * v);
  r->k_panels = situ__carve(memory, &used, situ__panels_size(p, t->keys, p->e) * elem);
  r->v_panels = situ__carve(memory, &used, situ__panels_size(p, t->keys, p->v_width) * elem);
  r->q = situ__carve(memory, &used, t->queries * e);
  r->g = situ__carve(memory, &used, t->queries * v);
  r->weights = situ__carve(memory, &used, t->queries * t->ld * elem);
  r->slopes = situ__carve(memory, &used, t->queries * t->ld * elem);
  r->dk = situ__carve(memory, &used, t->keys * p->e * elem);
  r->dv = situ__carve(memory, &used, t->keys * p->v_width * elem);
  r->dq = situ__carve(memory, &used, t->direct ? 0 : t->shared * p->l * p->e * elem);
  r->delta = situ__carve(memory, &used, t->shared * p->l * elem);
  r->row = situ__carve(memory, &used, t->ld * elem);
  r->words = situ__carve(memory, &used, (t->keys + 8) * (int64_t)sizeof(uint32_t));
  const situ__panels *tiles = t->tiles;
  if (!tiles) return used;
  r->scaled = situ__carve(memory, &used, t->queries * e);
  r->k_tiles = situ__carve(memory, &used, situ__tiles_bytes(tiles, t->keys, p->e));
  r->v_tiles = situ__carve(memory, &used, situ__tiles_bytes(tiles, t->keys, p->v_width));
  r->k_across = situ__carve(memory, &used, situ__tiles_bytes(tiles, p->e, t->keys));
  r->q_tiles = situ__carve(memory, &used, situ__tiles_bytes(tiles, t->queries, p->e));
  r->g_tiles = situ__carve(memory, &used, situ__tiles_bytes(tiles, t->queries, p->v_width));
  r->q_across = situ__carve(memory, &used, situ__tiles_bytes(tiles, p->e, t->queries));
  r->g_across = situ__carve(memory, &used, situ__tiles_bytes(tiles, p->v_width, t->queries));
  for (int i = 0; i < 2; i++) r->scores[i] = situ__carve(memory, &used, situ__tiles_bytes(tiles, t->keys, t->queries));
  return used;
}

/* Head number `of` among those that share the keys of unit `number`. */
static situ__head head_of(const plan *t, int64_t number, int64_t of) {
  situ__head head = { .number = 0 };
  const situ_view_desc *q = t->p.q, *k = t->p.k;
  int64_t step = 1;
  for (int d = q->ndim - 3; d >= 0; step *= q->size[d--]) {
    int64_t *from = k->size[d] == q->size[d] ? &number : &of;
    head.at[d] = *from % q->size[d];
    *from /= q->size[d];
    head.number += head.at[d] * step;
  }
  return head;
}

/* ---- a block of keys ---- */

typedef struct block {
  const plan *t;
  const buffers *r;
  int64_t j, n; /* keys */
  situ__matrix k, v;
  bool tiled; /* panels for tile registers hold them */
} block;

/* One head's part of a unit. */
typedef struct part {
  situ__head head;
  situ__matrix q, g;
  char *dq, *delta, *stats;
} part;

/* Some queries of a part, and what the block's keys give them. */
typedef struct queries {
  const part *a;
  int64_t i;
  situ__matrix q, g;
  situ__scores s;
  situ__scores_place at;
} queries;

static char *after(void *data, int64_t elements, const situ__attention *p) { return (char *)data + elements * p->elem; }

static char *dq_of(const block *b, const queries *w) { return after(w->a->dq, w->i * b->t->p.e, &b->t->p); }

/* The block's keys and values for both kinds of products: a number that tile registers do not multiply may appear in
   any operand. */
static void pack_keys(block *b) {
  const situ__attention *p = &b->t->p;
  const buffers *r = b->r;
  const situ__panels *tiles = b->t->tiles;
  situ__attention_pack_keys(p, &b->k, b->n, r->k_panels);
  situ__attention_pack(p, &b->v, b->n, r->v_panels);
  if (!tiles) return;
  b->tiled = tiles->pack_b(r->k_tiles, b->k.data, b->k.row, 1, b->n, p->e) &&
             tiles->pack_b(r->k_across, b->k.data, 1, b->k.row, p->e, b->n) &&
             tiles->pack_b(r->v_tiles, b->v.data, b->v.row, b->v.col, b->n, p->v_width);
}

/* Queries, scaled as the forward pass does, so that scores have its bits, and gradients, in panels. */
static bool tile_rows(const block *b, const queries *w) {
  const situ__attention *p = &b->t->p;
  const buffers *r = b->r;
  const situ__panels *tiles = b->t->tiles;
  const int64_t count = w->s.rows;
  if (!b->tiled) return false;
  p->rows->scaled(count, p->e, w->q.data, w->q.row, 1, p->work->scalar[0], r->scaled, p->e);
  return tiles->pack_a(r->q_tiles, r->scaled, p->e, 1, count, p->e) &&
         tiles->pack_b(r->q_across, r->scaled, 1, p->e, p->e, count) &&
         tiles->pack_a(r->g_tiles, w->g.data, w->g.row, 1, count, p->v_width) &&
         tiles->pack_b(r->g_across, w->g.data, 1, w->g.row, p->v_width, count);
}

/* ---- queries by vectors ---- */

/* Weights, in r->weights, and the gradients of the scores, in r->slopes. */
static void differentiate(const block *b, const queries *w) {
  const situ__attention *p = &b->t->p;
  const buffers *r = b->r;
  const situ__scores *s = &w->s;
  situ__attention_score(p, s, &w->q, &b->k, b->n, r->k_panels);
  situ__attention_product(p, s->rows, s->columns, p->v_width, (situ__factor){ w->g.data, w->g.row, w->g.col },
                          (situ__factor){ r->v_panels, 0, b->n }, 1, false, r->slopes, s->ld);
  situ__attention_mask(p, s, &w->at);
  p->rows->weigh(s, w->a->stats + w->i * p->elem);
  situ__attention_drop(p, s, &w->at, r->slopes);
  p->rows->slope(s, r->slopes, w->a->delta + w->i * p->elem);
  situ__attention_drop(p, s, &w->at, s->data);
}

/* c [m, x's columns] += scale a x */
static void add_product(const block *b, int64_t m, int64_t k, situ__factor a, const situ__matrix *x, double scale,
                        void *c) {
  situ__attention_product(&b->t->p, m, x->columns, k, a, (situ__factor){ x->data, x->row, 1 }, scale, true, c,
                          x->columns);
}

/* Scores as a factor: turned, or as they are. */
static situ__factor down(const block *b, const void *scores) { return (situ__factor){ scores, 1, b->t->ld }; }
static situ__factor along(const block *b, const void *scores) { return (situ__factor){ scores, b->t->ld, 1 }; }
static void add_dv(const block *b, const queries *w) {
  add_product(b, w->s.columns, w->s.rows, down(b, b->r->weights), &w->g, 1, b->r->dv);
}
static void add_dk(const block *b, const queries *w) {
  add_product(b, w->s.columns, w->s.rows, down(b, b->r->slopes), &w->q, b->t->p.work->scalar[0], b->r->dk);
}
static void add_dq(const block *b, const queries *w) {
  add_product(b, w->s.rows, w->s.columns, along(b, b->r->slopes), &b->k, 1, dq_of(b, w));
}

static void absorb_by_vectors(const block *b, const queries *w) {
  differentiate(b, w);
  add_dv(b, w);
  add_dk(b, w);
  add_dq(b, w);
}

/* ---- queries by tile registers ---- */

static void multiply(const block *b, int64_t m, int64_t n, int64_t k, int64_t b_k, const char *a, const char *x,
                     bool add, void *c, int64_t c_row, situ__side_packing *beside) {
  situ__attention_multiply(b->t->tiles, m, n, k, b_k, a, x, add, c, c_row, (situ__beside){ .pack = beside });
}

/* Begins to pack scores, as they are or turned. */
static situ__side_packing packing_of(const block *b, situ__factor a, int64_t lanes, int64_t k, int half) {
  situ__side_packing x = {
    .to = b->r->scores[half], .from = a.data, .lane = a.row, .step = a.col, .lanes = lanes, .k = k
  };
  b->t->packer->begin(&x);
  return x;
}

/* Scores are packed for a product while the one before is multiplied. Where panels cannot hold them, which a number
   below 2^-100 suffices for, vectors multiply; what would have been packed beside is packed then. Tile registers write
   whole squares. */
static void absorb_by_tiles(const block *b, const queries *w) {
  const situ__attention *p = &b->t->p;
  const buffers *r = b->r;
  const situ__scores *s = &w->s;
  const situ__attention_packer *packer = b->t->packer;
  const int64_t m = s->rows, n = s->columns, e = p->e, v = p->v_width;
  const bool drops = p->keep != 1;
  situ__panels_begin(b->t->tiles);
  multiply(b, m, n, e, e, r->q_tiles, r->k_tiles, false, s->data, s->ld, NULL);
  situ__attention_mask(p, s, &w->at);
  p->rows->weigh(s, w->a->stats + w->i * p->elem);
  situ__side_packing weights = packing_of(b, down(b, r->weights), n, m, 0);
  multiply(b, m, n, v, v, r->g_tiles, r->v_tiles, false, r->slopes, s->ld, drops ? NULL : &weights);
  situ__attention_drop(p, s, &w->at, r->slopes);
  p->rows->slope(s, r->slopes, w->a->delta + w->i * p->elem);
  situ__attention_drop(p, s, &w->at, s->data);
  const bool weighs = packer->finish(&weights);
  situ__side_packing turned = packing_of(b, down(b, r->slopes), n, m, 1);
  if (weighs) multiply(b, n, v, m, m, weights.to, r->g_across, true, r->dv, v, &turned);
  else add_dv(b, w);
  const bool turns = packer->finish(&turned), full = m % b->t->tiles->full == 0;
  situ__side_packing slopes = packing_of(b, along(b, r->slopes), m, n, 0);
  if (turns) multiply(b, n, e, m, m, turned.to, r->q_across, true, r->dk, e, full ? &slopes : NULL);
  else add_dk(b, w);
  if (full && packer->finish(&slopes)) multiply(b, m, e, n, b->n, slopes.to, r->k_across, true, dq_of(b, w), e, NULL);
  else add_dq(b, w);
  situ__panels_end(b->t->tiles);
}

/* Adds what queries [i, i + count) of a head give to dq, and to the block's dk and dv. */
static void absorb(const block *b, const part *a, int64_t i, int64_t count) {
  const situ__attention *p = &b->t->p;
  const buffers *r = b->r;
  const int64_t sees = p->causal ? i + 1 - b->j : b->n, columns = situ__min_i64(b->n, sees + (count - 1) * p->causal),
                ld = b->t->ld;
  if (columns <= 0) return;
  queries w = { .a = a,
                .i = i,
                .s = { r->weights, count, columns, ld, sees, p->causal },
                .at = { &a->head, i, b->j, r->row, r->words } };
  w.q = situ__attention_stage(p, &a->q, i, count, true, r->q);
  w.g = situ__attention_stage(p, &a->g, i, count, true, r->g);
  if (tile_rows(b, &w)) absorb_by_tiles(b, &w);
  else absorb_by_vectors(b, &w);
}

/* ---- a unit ---- */

static part part_of(const plan *t, const buffers *r, int64_t number, int64_t of) {
  const situ__attention *p = &t->p;
  part a = { .head = head_of(t, number, of) };
  a.q = situ__matrix_of(p->q, &a.head);
  a.g = situ__matrix_of(t->g, &a.head);
  a.delta = after(r->delta, of * p->l, p);
  a.stats = after(situ__cpu_data(t->stats), a.head.number * p->l, p);
  a.dq = t->direct ? after(situ__cpu_data(t->dq), a.head.number * p->l * p->e, p) : after(r->dq, of * p->l * p->e, p);
  return a;
}

/* Sets delta, and dq to 0. */
static void begin_part(const plan *t, const buffers *r, const part *a) {
  const situ__attention *p = &t->p;
  const situ__matrix y = situ__matrix_of(t->y, &a->head);
  for (int64_t i = 0, rows; i < p->l; i += rows) {
    rows = situ__min_i64(p->l - i, situ__min_i64(t->queries, t->keys));
    const situ__matrix g = situ__attention_stage(p, &a->g, i, rows, true, r->g),
                       x = situ__attention_stage(p, &y, i, rows, true, r->v);
    p->rows->dots(rows, p->v_width, g.data, g.row, x.data, x.row, a->delta + i * p->elem);
  }
  memset(a->dq, 0, (size_t)(p->l * p->e * p->elem));
}

/* Converts contiguous rows of the compute type to a result. */
static void store(const situ__attention *p, const situ_view_desc *to, int64_t at, int64_t count, const void *from) {
  const int64_t size = situ__cpu_size(to->dtype);
  situ__cpu_convert()->store[p->compute][to->dtype](from, count, situ__cpu_data(to) + at * size, size);
}

static void run_block(const plan *t, const buffers *r, int64_t number, int64_t j) {
  const situ__attention *p = &t->p;
  const situ__head head = head_of(t, number, 0);
  const situ__matrix k = situ__matrix_of(p->k, &head), v = situ__matrix_of(p->v, &head);
  block b = { .t = t, .r = r, .j = j, .n = situ__min_i64(t->keys, p->s - j) };
  b.k = situ__attention_stage(p, &k, j, b.n, true, r->k);
  b.v = situ__attention_stage(p, &v, j, b.n, false, r->v);
  pack_keys(&b);
  memset(r->dk, 0, (size_t)(b.n * p->e * p->elem));
  memset(r->dv, 0, (size_t)(b.n * p->v_width * p->elem));
  for (int64_t of = 0; of < t->shared; of++) {
    const part a = part_of(t, r, number, of);
    const int64_t first = p->causal ? j / t->queries * t->queries : 0;
    for (int64_t i = first; i < p->l; i += t->queries) absorb(&b, &a, i, situ__min_i64(t->queries, p->l - i));
  }
  store(p, t->dk, (number * p->s + j) * p->e, b.n * p->e, r->dk);
  store(p, t->dv, (number * p->s + j) * p->v_width, b.n * p->v_width, r->dv);
}

static void run_unit(const void *plan_, char *memory, int64_t number) {
  const plan *t = plan_;
  const situ__attention *p = &t->p;
  buffers r;
  (void)lay_out(t, memory, &r);
  for (int64_t of = 0; of < t->shared; of++) {
    const part a = part_of(t, &r, number, of);
    begin_part(t, &r, &a);
  }
  for (int64_t j = 0; j < p->s; j += t->keys) run_block(t, &r, number, j);
  for (int64_t of = 0; of < t->shared; of++) {
    const part a = part_of(t, &r, number, of);
    p->rows->scaled(p->l, p->e, a.dq, p->e, 1, p->work->scalar[0], a.dq, p->e);
    if (!t->direct) store(p, t->dq, a.head.number * p->l * p->e, p->l * p->e, a.dq);
  }
}

situ_status situ__attention_grad(const situ__attention *p, const situ__panels *tiles) {
  const situ_work *work = p->work;
  plan t = { .p = *p,
             .tiles = tiles,
             .packer = situ__attention_packer_of_tiles(),
             .y = work->in[3],
             .stats = work->in[4],
             .g = work->in[5],
             .dq = work->out[0],
             .dk = work->out[1],
             .dv = work->out[2] };
  int64_t units = 1;
  for (int d = 0; d < p->k->ndim - 2; d++) units *= p->k->size[d];
  t.shared = p->heads / units;
  t.queries = t.tiles ? TILED_QUERIES : QUERIES;
  const int64_t most = situ__min_i64(p->s, t.tiles ? TILED_KEYS : KEYS);
  t.keys =
      situ__max_i64(64, situ__min_i64(situ__round_up(most, 64), FEATURES / situ__max_i64(p->e, p->v_width) / 64 * 64));
  t.ld = t.keys + PAD;
  t.direct = situ__cpu_native((situ_dtype)t.dq->dtype, p->compute);
  const double cost = 2.5 * (double)(t.shared * p->l) * (double)p->s * (double)(p->e + p->v_width);
  buffers none;
  return situ__attention_run(&t, run_unit, units, cost, lay_out(&t, NULL, &none));
}
