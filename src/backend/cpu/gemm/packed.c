/* Runs products by panels: packs the factors, then multiplies tile by tile. Blocks, tiles and tasks depend on the
   problem alone, and each sum runs along k in one order.
   SPDX-License-Identifier: MIT */
#include "packed.h"
#include "algorithm.h"
#include "backend/cpu/common/convert.h"
#include "backend/cpu/elementwise/move.h"
#include "gemv.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"
#include "base/stream.h"
#include "device/device.h"

enum {
  GROUP = 128,     /* lanes that are packed together; whole panels */
  PART = 128,      /* elements along k, where there is one panel */
  LEAST = 1 << 15, /* cost from which packing pays for 16 bits */
  APART = 4096,    /* bytes between rows from which on they evict each other from the cache, */
  WAYS = 8,        /* if they are more than so many */
  NEAR = 2 << 20,  /* bytes of a that stay in the L2 cache */
  LARGE = 4 << 20, /* bytes of a result that would leave no cache to the factors */
  NARROW = 320,    /* columns of b of which half a block's depth stays in the L2 cache beside a tile's part of a */
  LINE = 64,
  PREPACK_HEAD = 64, /* bytes before panels that are laid out before, of which a head says when they are used */
  PREPACK_M = 16,
  PREPACK_N = 64,   /* sizes from which they pay */
  PREPACK_TILE = 64 /* columns of a tile: small ones pack nothing twice, and are shared evenly */
};

/* When panels that are laid out before are used: if these kernels can multiply them, where they would without, too. */
enum { NEVER, SAME, ALWAYS };
typedef struct head {
  int32_t when, depth; /* of a block, of vectors */
} head;

SITU__ISA_DECLARE(situ__panels, situ__panels_f32);
SITU__ISA_DECLARE(situ__panels, situ__panels_f64);
extern const situ__panels situ__panels_bf16_dots, situ__panels_bf16_amx, situ__panels_f16_amx, situ__panels_f32_amx;

/* Panels for vectors, of f32 or f64. */
static const situ__panels *vectors_for(situ_dtype dtype) {
  const situ__isa isa = situ__cpu_isa();
  return dtype == SITU_F64 ? SITU__ISA_PICK(isa, situ__panels_f64) : SITU__ISA_PICK(isa, situ__panels_f32);
}

/* Those of tile registers, and those that add two products of bf16 to an f32; NULL: there are none for this dtype and
   processor. */
static const situ__panels *amx_for(situ_dtype dtype) {
#ifdef SITU_HAVE_ISA_AMX
  if (situ__cpu_isa() == SITU__ISA_AMX && dtype == SITU_BF16) return &situ__panels_bf16_amx;
  if (situ__cpu_isa() == SITU__ISA_AMX && dtype == SITU_F16) return &situ__panels_f16_amx;
  if (situ__cpu_isa() == SITU__ISA_AMX && dtype == SITU_F32) return &situ__panels_f32_amx;
#endif
  (void)dtype;
  return NULL;
}
static const situ__panels *bf16_dot_for(situ_dtype dtype) {
#ifdef SITU_HAVE_ISA_BF16
  if (situ__cpu_isa() == SITU__ISA_BF16 && dtype == SITU_BF16) return &situ__panels_bf16_dots;
#endif
  (void)dtype;
  return NULL;
}

const situ__panels *situ__panels_of_tiles(void) { return amx_for(SITU_F32); }
const situ__panels *situ__panels_of_vectors(void) { return vectors_for(SITU_F32); }

/* One factor: its lanes are the rows of a or the columns of b. */
typedef struct factor {
  const char *data;
  int64_t lane, step, lanes, width; /* strides between lanes and along k; lanes of a panel */
  bool (*pack)(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k);
  char *panels; /* block after block of k; NULL: packed by each tile as it is needed */
} factor;

typedef struct work {
  situ__matmul *p;
  const situ__panels *with;
  situ__steps at; /* the item of the batch */
  factor a, b;
  bool few;                        /* rows: nothing is packed */
  bool in_place;                   /* a is not packed */
  bool past_cache;                 /* c is large, and whole lines */
  bool late_a, late_b;             /* packed by the tiles, each its part, as no other tile reads that */
  bool laid_out;                   /* b, before */
  bool backwards;                  /* tiles are multiplied from the last to the first */
  bool narrow;                     /* b: all tiles multiply one of its blocks, and then the next one */
  int64_t depth;                   /* of a block of k */
  int64_t k_begin, k_end;          /* whole blocks that are packed and multiplied now */
  bool special;                    /* a factor was not finite */
  int64_t sums_row;                /* floats between rows of sums */
  size_t strip, rows, panel, sums; /* bytes of the parts of a slot: for conversions, of a, of b, of c */
} work;

static size_t lines(int64_t bytes) { return (size_t)situ__round_up(bytes, 64); }

/* ---- packing ---- */

/* Packs lanes and a block of k. strip: memory for as many elements in f32, if the factor must be converted. */
static bool pack_part(const work *w, const factor *f, int64_t lane, int64_t lanes, int64_t k0, int64_t k, char *to,
                      char *strip) {
  const situ_dtype dtype = w->p->g.dtype;
  const char *from = f->data + (lane * f->lane + k0 * f->step) * w->p->elem;
  if (w->with->dtype == dtype) return f->pack(to, from, f->lane, f->step, lanes, k);
  const bool along_k = f->step == 1;
  const int64_t count = along_k ? k : lanes, rows = along_k ? lanes : k, row = along_k ? f->lane : f->step;
  for (int64_t i = 0; i < rows; i++)
    situ__cpu_convert()->load[dtype][SITU__F32](from + i * row * w->p->elem, (along_k ? f->step : f->lane) * w->p->elem,
                                                count, strip + i * count * (int64_t)sizeof(float));
  return f->pack(to, strip, along_k ? count : 1, along_k ? 1 : count, lanes, k);
}

/* The same for any number of lanes, from the first of a panel on. */
static bool pack_lanes(const work *w, const factor *f, int64_t lane, int64_t lanes, int64_t k0, int64_t k, char *to,
                       char *strip) {
  const int64_t most = GROUP / f->width * f->width, bytes = situ__round_up(k, w->with->unit) * w->with->bytes;
  bool good = true;
  for (int64_t i = 0; i < lanes && good; i += most)
    good = pack_part(w, f, lane + i, situ__min_i64(most, lanes - i), k0, k, to + i * bytes, strip);
  return good;
}

/* Address of the panels from `lane` on, which is the first of a panel, of the block of k at k0. */
static char *panels_at(const work *w, const factor *f, int64_t lane, int64_t k0) {
  const int64_t k = situ__round_up(situ__min_i64(w->depth, w->p->g.k - k0), w->with->unit);
  return f->panels + (k0 * situ__round_up(f->lanes, f->width) + lane * k) * w->with->bytes;
}

/* Lanes of a block of k that are packed together; if there is one panel, parts of its block are packed apart. */
static int64_t lanes_of_group(const factor *f) { return f->lanes <= f->width ? f->width : GROUP / f->width * f->width; }
static int64_t part_of_block(const work *w, const factor *f) {
  return f->lanes <= f->width ? situ__min_i64(w->depth, situ__round_up(PART, w->with->unit)) : w->depth;
}

/* Of the blocks from k_begin to k_end. */
static int64_t groups(const work *w, const factor *f) {
  if (!f->panels) return 0;
  return situ__ceil_div(f->lanes, lanes_of_group(f)) * situ__ceil_div(w->k_end - w->k_begin, w->depth) *
         situ__ceil_div(w->depth, part_of_block(w, f));
}

/* Of both factors. */
static int64_t all_groups(const work *w) { return groups(w, &w->a) + (w->laid_out ? 0 : groups(w, &w->b)); }

/* Groups that follow each other have the same lanes, as a thread multiplies those that it has packed. */
static void pack_group(work *w, const factor *f, int64_t group, char *slot) {
  const int64_t most = lanes_of_group(f), part = part_of_block(w, f), parts = situ__ceil_div(w->depth, part);
  const int64_t along = situ__ceil_div(w->k_end - w->k_begin, w->depth) * parts, lane = group / along * most;
  const int64_t k0 = w->k_begin + group % along / parts * w->depth, at = group % along % parts * part;
  const int64_t k = situ__min_i64(part, situ__min_i64(w->depth, w->p->g.k - k0) - at);
  char *to = panels_at(w, f, lane, k0) + at * f->width * w->with->bytes;
  if (k > 0 && !pack_part(w, f, lane, situ__min_i64(most, f->lanes - lane), k0 + at, k, to, slot))
    __atomic_store_n(&w->special, true, __ATOMIC_RELAXED);
}

/* Each thread's units are its part of both factors: what the other has packed comes from a cache that may be as far as
   memory. */
static void pack_groups(int64_t begin, int64_t end, void *payload) {
  work *w = payload;
  char *slot = situ__slots_take(&w->p->slots);
  const int64_t of_a = groups(w, &w->a), all = situ__max_i64(1, all_groups(w));
  for (int64_t i = begin; i < end; i++) {
    const int64_t before = i * of_a / all; /* groups of a */
    const bool is_a = (i + 1) * of_a / all > before;
    pack_group(w, is_a ? &w->a : &w->b, is_a ? before : i - before, slot);
  }
  situ__slots_give(&w->p->slots, slot);
}

/* ---- tiles ---- */

/* c = alpha sums + beta bias, rounded once. */
static void round_tile(const work *w, const float *sums, int64_t row, const char *bias, char *c, int64_t m, int64_t n) {
  const situ__matmul *p = w->p;
  const situ__convert *convert = situ__cpu_convert();
  const float alpha = (float)p->g.alpha, beta = (float)p->beta;
  float value[SITU__BLOCK], extra[SITU__BLOCK];
  for (int64_t j = 0; j < n; j += SITU__BLOCK) {
    const int64_t count = situ__min_i64(SITU__BLOCK, n - j);
    for (int64_t i = 0; i < m; i++) {
      const float *sum = sums + i * row + j;
      if (bias || alpha != 1) {
        if (bias && (i == 0 || p->bias_row != 0))
          convert->load[p->g.dtype][SITU__F32](bias + (i * p->bias_row + j * p->bias_col) * p->elem,
                                               p->bias_col * p->elem, count, extra);
        if (bias)
          for (int64_t q = 0; q < count; q++) value[q] = alpha * sum[q] + beta * extra[q];
        else
          for (int64_t q = 0; q < count; q++) value[q] = alpha * sum[q];
        sum = value;
      }
      convert->store[SITU__F32][p->g.dtype](sum, count, c + (i * p->g.c_row + j) * p->elem, p->elem);
    }
  }
}

/* Floats between rows of sums: an odd number of lines, as rows of a power of two evict each other from the cache. */
static int64_t sums_row(const work *w) {
  const int64_t row = situ__round_up(w->p->tile_n, w->with->columns);
  return row + (row / 16 % 2 == 0 ? 16 : 0);
}

typedef void gemv_fn(const situ__gemv *t);

/* Of bf16 as it is, if this processor has instructions for that; else NULL. */
static gemv_fn *gemv_dots(const situ__gemm *g) {
#ifdef SITU_HAVE_ISA_BF16
  if (situ__cpu_isa() >= SITU__ISA_BF16 && g->dtype == SITU_BF16 && g->b_row == 1) return situ__gemv_dots;
#endif
  (void)g;
  return NULL;
}

/* Few rows: a is all that is copied before, as f32 but for products of bf16. */
static void multiply_gemv(const work *w, int64_t m, int64_t n, int64_t j, char *slot, float *sums, int64_t row) {
  const situ__gemm *g = &w->p->g;
  const situ__gemv_kernels *gemv = SITU__ISA_PICK(situ__cpu_isa(), situ__gemv_kernels);
  gemv_fn *const dots = gemv_dots(g);
  const int64_t elem = w->p->elem;
  for (int64_t i = 0; i < m; i++) {
    const char *from = w->a.data + i * g->a_row * elem;
    if (dots) situ__cpu_move(elem, slot + i * g->k * elem, elem, from, g->a_col * elem, g->k);
    else
      situ__cpu_convert()->load[g->dtype][SITU__F32](from, g->a_col * elem, g->k,
                                                     slot + i * g->k * (int64_t)sizeof(float));
  }
  const situ__gemv t = { .m = m,
                         .n = n,
                         .k = g->k,
                         .a = slot,
                         .b = (const uint16_t *)(const void *)w->b.data + j * g->b_col,
                         .lane = g->b_col,
                         .step = g->b_row,
                         .c = sums,
                         .c_row = row };
  (dots ? dots : g->dtype == SITU_BF16 ? gemv->bf16 : gemv->f16)(&t);
}

/* Returns false if a factor that is packed here cannot be multiplied by these kernels. */
static bool multiply_tile(const work *w, int64_t tile, char *slot) {
  const situ__matmul *p = w->p;
  const situ__panels *with = w->with;
  int64_t i, j;
  situ__matmul_tile(p, tile, &i, &j);
  const int64_t m = situ__min_i64(p->tile_m, p->g.m - i), n = situ__min_i64(p->tile_n, p->g.n - j);
  const int64_t column = with->dtype == SITU_F64 ? sizeof(double) : sizeof(float);
  const bool apart = w->sums > 0;
  const char *bias = p->bias ? p->bias + (w->at.bias + i * p->bias_row + j * p->bias_col) * p->elem : NULL;
  situ__gemm g = p->g;
  g.m = m, g.n = n;
  g.c = (char *)g.c + (w->at.c + i * g.c_row + j) * p->elem;
  /* As where the result is not apart, so that an element's bits do not depend on that. */
  const bool begins = bias && apart && with->full && g.alpha == 1;
  /* Panel by panel, each of which has its sums together. */
  const bool each = !bias || (p->bias_row == 0 && p->beta == 1 && n <= SITU__BLOCK); /* row gets the same */
  const bool rounds =
      apart && with->rounds && g.alpha == 1 && each && !w->few && (w->past_cache || g.c_row * p->elem < APART);
  float addend[SITU__BLOCK];
  if (rounds && bias) situ__cpu_convert()->load[g.dtype][SITU__F32](bias, p->bias_col * p->elem, n, addend);
  if (bias && !apart && w->k_begin == 0) situ__matmul_start_from(p, bias, &g);
  char *const rows = slot + w->strip, *const panel = rows + w->rows, *const sums = apart ? panel + w->panel : g.c;
  const situ__matmul_start start = situ__matmul_start_of(p, bias);
  if (begins) situ__matmul_set_rows(&start, g.dtype, sums, w->sums_row, m, n);
  const int64_t row = apart ? w->sums_row : g.c_row;
  situ__tile t = { .a_row = w->in_place ? g.a_row : 1,
                   .a_col = w->in_place ? 1 : with->rows,
                   .c_row = rounds ? with->columns : row,
                   .alpha = apart ? 1 : g.alpha,
                   .from_row = g.from_row,
                   .past_cache = w->past_cache };
  if (w->few) multiply_gemv(w, m, n, j, slot, (float *)(void *)sums, row);
  for (int64_t k0 = w->k_begin; k0 < w->k_end && !w->few; k0 += w->depth) {
    t.k = situ__min_i64(w->depth, w->k_end - k0);
    t.a = w->in_place ? w->a.data + (i * g.a_row + k0) * p->elem : w->late_a ? rows : panels_at(w, &w->a, i, k0);
    if (w->late_a && !pack_lanes(w, &w->a, i, m, k0, t.k, rows, slot)) return false;
    t.add = k0 > 0 || begins || (!apart && g.add);
    for (int64_t q = 0; q < n; q += with->columns) {
      t.columns = situ__min_i64(with->columns, n - q);
      t.b = w->late_b ? panel : panels_at(w, &w->b, j + q, k0);
      if (w->late_b && !pack_part(w, &w->b, j + q, t.columns, k0, t.k, panel, slot)) return false;
      t.c = sums + (rounds ? situ__round_up(m, with->rows) * q : q) * column;
      t.from = k0 == 0 && g.from && !apart ? (const char *)g.from + q * column : NULL;
      if (rounds && k0 + t.k == g.k) {
        t.rounded = (uint16_t *)(void *)g.c + q, t.rounded_row = g.c_row;
        t.bias = bias ? addend + q : NULL;
      }
      with->multiply(&t, m);
    }
  }
  if (w->past_cache) situ__stream_end();
  if (apart && !rounds) round_tile(w, (const float *)(void *)sums, row, begins ? NULL : bias, g.c, m, n);
  return true;
}

static void multiply_tiles(int64_t begin, int64_t end, void *payload) {
  work *w = payload;
  char *slot = situ__slots_take(&w->p->slots);
  situ__panels_begin(w->with);
  const int64_t last = w->p->tiles_m * w->p->tiles_n - 1;
  for (int64_t tile = begin; tile < end; tile++)
    if (!multiply_tile(w, w->backwards ? last - tile : tile, slot))
      __atomic_store_n(&w->special, true, __ATOMIC_RELAXED);
  situ__panels_end(w->with);
  situ__slots_give(&w->p->slots, slot);
}

/* ---- items of the batch ---- */

static int64_t factor_bytes(const work *w, const factor *f) {
  if (f == &w->a ? w->in_place || w->few || w->late_a : w->late_b || f->panels) return 0;
  return situ__round_up(f->lanes, f->width) * situ__round_up(w->p->g.k, w->with->unit) * w->with->bytes;
}

/* A tile that reads more rows than a set of the L1 cache holds reads packed ones where they share sets. */
static bool stays_in_place(const situ__matmul *p, const situ__panels *with) {
  const situ__gemm *g = &p->g;
  const int64_t row = g->a_row * p->elem;
  const bool clash = with->in_place > WAYS && row >= APART && row % (APART / 2) == 0;
  return with->in_place && g->m % with->in_place == 0 && g->k % with->in_place == 0 && g->a_col == 1 &&
         with->dtype == g->dtype && !clash;
}

static bool are_few(const situ__matmul *p) {
  return p->elem == 2 && p->g.m <= SITU__GEMV_ROWS && (p->g.b_row == 1 || p->g.b_col == 1);
}

/* Whether kernels write the result itself. Squares are added to in at most two blocks of k there, as rows of the result
   may evict each other from the cache. */
static bool is_direct(const work *w) {
  const situ__gemm *g = &w->p->g;
  const int full = w->with->full;
  if (w->p->elem == 2 || full == 0) return w->p->elem != 2;
  return g->m % full == 0 && g->n % full == 0 && g->alpha == 1 &&
         (g->k <= 2 * w->with->depth || (w->narrow && g->c_row * w->p->elem < APART));
}

/* Kernels for which factors of f32 are laid out before: the best. */
static const situ__panels *laid_out_for(void) {
  const situ__panels *tiles = amx_for(SITU_F32);
  return tiles ? tiles : vectors_for(SITU_F32);
}

/* What kernels of whole squares multiply, which is more than the product, costs of vectors' time. */
static double cost_of_full(const situ__matmul *p, const situ__panels *with) {
  if (!with->full) return 0;
  const int64_t m = situ__round_up(p->g.m, with->full), n = situ__round_up(p->g.n, with->full);
  return situ__matmul_cost((double)m, (double)n, (double)situ__round_up(p->g.k, with->unit)) / with->gain;
}

/* Whether packing pays, where nothing is laid out before. */
static bool packing_pays(const situ__matmul *p, const situ__panels *with) {
  const int64_t m = p->g.m, n = p->g.n, k = p->g.k;
  const double cost = situ__matmul_cost((double)m, (double)n, (double)k);
  if (k == 0 || p->elem == 2) return k > 0 && cost >= LEAST;
  if (!with->full && situ__matmul_is_in_place(p)) return false;
  return cost - cost_of_full(p, with) >= with->least && m >= with->least_m && n >= with->least_n && k >= with->least_k;
}

/* Depth of the blocks of a product by vectors where nothing is laid out before, on which its bits depend: panels are
   used where they have the same one. 0: its tiles may add in another order. */
static int64_t own_depth(const situ__matmul *p, const situ__panels *with) {
  if (packing_pays(p, with)) return situ__even_part(p->g.k, with->depth);
  const bool ordered = p->g.b_col == 1 || p->g.n % situ__gemm_kernels_for(p->g.dtype)->lanes == 0;
  return p->g.m < SITU__FEW && ordered ? situ__gemm_depth(&p->g) : 0;
}

/* Of b, if these kernels may use it; else NULL. */
static const head *laid_out(const situ__matmul *p, const situ__panels *with) {
  const head *laid = (const head *)(const void *)p->packed_b;
  if (!laid || laid->when == NEVER || with != laid_out_for()) return NULL;
  return with->full || laid->depth == own_depth(p, with) ? laid : NULL;
}

static work work_of(situ__matmul *p, const situ__panels *with) {
  const situ__gemm *g = &p->g;
  work w = { .p = p, .with = with, .k_end = g->k };
  w.a = (factor){ .lane = g->a_row, .step = g->a_col, .lanes = g->m, .width = with->rows, .pack = with->pack_a };
  w.b = (factor){ .lane = g->b_col, .step = g->b_row, .lanes = g->n, .width = with->columns, .pack = with->pack_b };
  w.in_place = stays_in_place(p, with);
  w.past_cache = g->m * g->n * p->elem >= LARGE && (uintptr_t)g->c % LINE == 0 && g->c_row * p->elem % LINE == 0;
  w.few = are_few(p);
  w.late_a = p->tiles_n == 1 && !w.in_place && !w.few;
  const head *laid = laid_out(p, with);
  w.laid_out = laid != NULL;
  w.narrow = with->full && w.late_a && !w.laid_out && g->n <= NARROW;
  const bool shallow = !w.laid_out && g->k <= 2 * with->shallow;
  const int64_t depth = shallow ? with->shallow : w.narrow ? with->depth / 2 : with->depth;
  w.depth = laid && !with->full ? laid->depth : situ__round_up(situ__even_part(g->k, depth), with->unit);
  if (w.laid_out) w.b.panels = (char *)(uintptr_t)p->packed_b + PREPACK_HEAD;
  w.late_b = p->tiles_m == 1 && !w.b.panels;
  if (w.few) w.strip = lines(g->m * g->k * (int64_t)sizeof(float));
  else if (with->dtype != g->dtype) w.strip = lines(GROUP * situ__min_i64(w.depth, g->k) * (int64_t)sizeof(float));
  if (w.late_a) w.rows = lines(situ__round_up(p->tile_m, with->rows) * w.depth * with->bytes);
  if (w.late_b) w.panel = lines(with->columns * w.depth * with->bytes);
  w.sums_row = sums_row(&w);
  if (!is_direct(&w)) w.sums = lines(situ__round_up(p->tile_m, with->rows) * w.sums_row * (int64_t)sizeof(float));
  return w;
}

static void at_item(work *w, int64_t item) {
  w->at = situ__matmul_item(w->p, item);
  w->a.data = (const char *)w->p->g.a + w->at.a * w->p->elem;
  w->b.data = (const char *)w->p->g.b + w->at.b * w->p->elem;
}

/* Items of one tile each. */
static void run_items(int64_t begin, int64_t end, void *payload) {
  work w = *(const work *)payload;
  char *slot = situ__slots_take(&w.p->slots);
  bool good = true;
  situ__panels_begin(w.with);
  for (int64_t item = begin; item < end && good; item++) {
    at_item(&w, w.p->done + item);
    good = multiply_tile(&w, 0, slot);
  }
  situ__panels_end(w.with);
  situ__slots_give(&w.p->slots, slot);
  if (!good) __atomic_store_n(&((work *)payload)->special, true, __ATOMIC_RELAXED);
}

/* Sets *special if the kernels cannot multiply the factors of an item: all must be done again. */
static situ_status run_small(situ__matmul *p, const situ__panels *with, int64_t grain, bool *special) {
  work w = work_of(p, with);
  const size_t bytes = w.strip + w.rows + w.panel + w.sums;
  const situ_status status = situ__slots_open(&p->slots, "matmul", bytes, situ__ceil_div(p->items, grain));
  if (status != SITU_OK) return status;
  situ__parallel(p->items - p->done, grain, run_items, &w);
  situ__slots_close(&p->slots);
  *special = w.special;
  return SITU_OK;
}

/* One item: all threads pack, then all multiply. Sums that are apart are kept for one tile only, which then goes
   through all blocks of k. */
static void run_item(work *w) {
  const int64_t k = w->p->g.k, step = w->narrow && !w->sums ? w->depth : k;
  for (w->k_begin = 0; w->k_begin < k && !w->special; w->k_begin += step) {
    w->k_end = situ__min_i64(w->k_begin + step, k);
    situ__parallel(all_groups(w), 1, pack_groups, w);
    if (!w->special) situ__parallel(w->p->tiles_m * w->p->tiles_n, 1, multiply_tiles, w);
  }
}

/* Steps of a recurrent layer multiply the same factor again and again: with tiles from either end in turn, one thread
   finds in its cache what it read last. Several threads keep their parts of the factor. */
static bool is_turn_to_go_back(void) {
  static SITU__THREAD_LOCAL bool turn;
  turn = !turn;
  return turn && situ__pool_threads() == 1;
}

/* Items of several tiles. Stops at an item whose factors the kernels cannot multiply, and sets *special. */
static situ_status run_large(situ__matmul *p, const situ__panels *with, bool *special) {
  static const situ_device cpu = { .kind = SITU_CPU };
  work w = work_of(p, with);
  if (w.laid_out) w.backwards = is_turn_to_go_back();
  const int64_t tiles = p->tiles_m * p->tiles_n;
  const size_t of_a = (size_t)factor_bytes(&w, &w.a), of_b = (size_t)factor_bytes(&w, &w.b);
  char *memory;
  situ_status status = situ__memory_alloc("matmul", cpu, of_a + of_b, (void **)&memory);
  if (status != SITU_OK) return status;
  if (of_a) w.a.panels = memory;
  if (of_b) w.b.panels = memory + of_a;
  const int64_t packs = all_groups(&w);
  status = situ__slots_open(&p->slots, "matmul", w.strip + w.rows + w.panel + w.sums, tiles > packs ? tiles : packs);
  for (; status == SITU_OK && p->done < p->items; p->done++) {
    at_item(&w, p->done);
    run_item(&w);
    if (w.special) break;
  }
  if (status == SITU_OK) situ__slots_close(&p->slots);
  situ__memory_free(cpu, memory, of_a + of_b);
  *special = w.special;
  return status;
}

static bool pays(const situ__matmul *p, const situ__panels *with) {
  const head *laid = laid_out(p, with);
  return (laid && (laid->when == ALWAYS || !with->full)) || packing_pays(p, with);
}

/* Sets the tiles; returns the number of items for each chunk. */
static int64_t split(situ__matmul *p, const situ__panels *with) {
  situ__tiling tiling = with->tiling;
  if (laid_out(p, with)) tiling.beside_n = PREPACK_TILE;
  const int64_t grain = situ__matmul_split(p, &tiling);
  /* Of a square each thread reads the columns of b that it packs, and all of a, which no other thread writes. */
  if (!with->full) p->down |= p->g.n == p->g.m;
  return grain;
}

static bool suits(const situ__matmul *p, const situ__panels *with) {
  return with && p->g.dtype != SITU_I64 && !are_few(p) && pays(p, with);
}

/* SITU_E_UNSUPPORTED: from item p->done on the kernels cannot multiply the factors. */
static situ_status run(situ__matmul *p, const situ__panels *with) {
  bool special = false;
  const int64_t grain = split(p, with);
  const situ_status status =
      p->tiles_m * p->tiles_n > 1 ? run_large(p, with, &special) : run_small(p, with, grain, &special);
  return status == SITU_OK && special ? SITU_E_UNSUPPORTED : status;
}

/* ---- rows of the table ---- */

static bool suits_gemv(const situ__matmul *p) { return are_few(p) && pays(p, vectors_for(p->g.dtype)); }
static bool suits_amx(const situ__matmul *p) { return suits(p, amx_for(p->g.dtype)); }
static bool suits_bf16_dot(const situ__matmul *p) { return suits(p, bf16_dot_for(p->g.dtype)); }
/* Also where the others leave it values that they cannot multiply. */
static bool suits_packed(const situ__matmul *p) {
  return suits(p, vectors_for(p->g.dtype)) || suits_amx(p) || suits_bf16_dot(p);
}
static situ_status run_vectors(situ__matmul *p) { return run(p, vectors_for(p->g.dtype)); }
static situ_status run_amx(situ__matmul *p) { return run(p, amx_for(p->g.dtype)); }
static situ_status run_bf16_dot(situ__matmul *p) { return run(p, bf16_dot_for(p->g.dtype)); }

const situ__matmul_algorithm situ__matmul_gemv = { "gemv", suits_gemv, run_vectors, SITU__ISA_BASE };
const situ__matmul_algorithm situ__matmul_amx = { "amx", suits_amx, run_amx, SITU__ISA_AMX };
const situ__matmul_algorithm situ__matmul_bf16_dot = { "bf16_dot", suits_bf16_dot, run_bf16_dot, SITU__ISA_BF16 };
const situ__matmul_algorithm situ__matmul_packed = { "packed", suits_packed, run_vectors, SITU__ISA_BASE };

/* ---- weights that are prepacked ---- */

bool situ__packed_offers_prepack(const situ__matmul *p) {
  const situ__panels *with = laid_out_for();
  const bool large = p->g.m >= PREPACK_M && p->g.n >= PREPACK_N && p->g.k >= with->least_k;
  if (p->g.dtype != SITU_F32) return false;
  if (with->full) return p->same ? packing_pays(p, with) : large;
  const double cost = situ__matmul_cost((double)p->g.m, (double)p->g.n, (double)p->g.k);
  return p->same && large && cost > SITU__MATMUL_SMALL && own_depth(p, with) > 0;
}

situ_status situ__packed_prepack(situ__matmul *p, void *to) {
  const situ__panels *with = laid_out_for();
  head *laid = to;
  *laid = (head){ p->same ? SAME : ALWAYS, with->full ? 0 : (int32_t)own_depth(p, with) };
  p->packed_b = to;
  work w = work_of(p, with);
  w.b.data = p->g.b;
  situ__parallel(groups(&w, &w.b), 1, pack_groups, &w);
  if (w.special) laid->when = NEVER;
  return SITU_OK;
}
