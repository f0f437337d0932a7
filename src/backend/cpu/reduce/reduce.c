/* Reductions over any dimensions of any view, split into pieces that depend on the problem alone.
   SPDX-License-Identifier: MIT */
#include "fold.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"
#include "device/empty_reduction.h"

#include <math.h>
#include <string.h>

enum {
  TILE = 1024,             /* columns of large blocks that are reduced together: their states stay in L1; */
  SMALL_TILE = 512,        /* of others, whose elements may be copied */
  SEGMENT = 1 << 15,       /* elements of a piece of work, */
  LARGE_SEGMENT = 1 << 17, /* where columns have so many that all threads get several: memory is read in longer runs */
  LARGE = 8 * LARGE_SEGMENT,
  RUN = 256,    /* contiguous elements that justify a call of their own, without a copy */
  UNCOPIED = 8, /* times the elements of a call, if none is copied */
  FEW = 128,    /* elements whose buffers are in one page */
  GRAIN = 16384 /* elements below which a second thread costs more than it saves */
};

/* x viewed as [outer, rows, width]: each column of each outer block is reduced separately. Dimensions are in the order
   of x's memory, not of its sizes, so that a transposed view is as fast as its base. */
typedef struct plan {
  const situ__reduction *how;
  const situ__fold_kernels *kernels;
  size_t size;             /* of an element of the compute type */
  situ_view_desc x, y, y2; /* dimensions: outer kept, reduced, inner kept; y lacks the reduced ones */
  int outer_dims;
  int64_t outer, rows, width;
  bool direct; /* blocks are read in place, rows ld apart, `run` rows at a time */
  bool halves; /* sums of contiguous numbers of 16 bits */
  int64_t ld, run;
  int64_t tile, tiles, segment, segments, group;
  char *a, *b; /* states of [outer, segments, width], if there are several segments */
} plan;

typedef struct axis {
  int64_t size, x, y;
  bool reduced;
} axis;

/* Distance in memory; broadcast dimensions (stride 0) count as farthest apart. */
static int64_t distance(const axis *a) { return a->x ? (a->x < 0 ? -a->x : a->x) : INT64_MAX; }

/* The dimensions of x, farthest apart first. */
static int sorted_axes(const situ_view_desc *x, const situ_view_desc *y, axis *to) {
  int n = 0;
  for (int d = 0; d < x->ndim; d++) {
    if (x->size[d] == 1) continue;
    axis a = { x->size[d], x->stride[d], y->stride[d], y->size[d] == 1 };
    int i = n++;
    for (; i > 0 && distance(&to[i - 1]) < distance(&a); i--) to[i] = to[i - 1];
    to[i] = a;
  }
  return n;
}

static void add_dim(situ_view_desc *v, int64_t size, int64_t stride) {
  v->size[v->ndim] = size;
  v->stride[v->ndim++] = stride;
}

static bool gapless(const situ_view_desc *v) {
  int64_t next = 1;
  for (int d = v->ndim - 1; d >= 0; next *= v->size[d--])
    if (v->size[d] != 1 && v->stride[d] != next) return false;
  return true;
}

/* Appends the axes that are `reduced`, or those that are not; merges contiguous neighbours. Returns their number. */
static int append(plan *p, const axis *axes, int count, bool reduced, int64_t *numel) {
  int added = 0;
  axis last = { 0 };
  for (int i = 0; i <= count; i++) {
    if (i < count && axes[i].reduced != reduced) continue;
    bool one_line =
        i < count && last.size && last.x == axes[i].x * axes[i].size && (reduced || last.y == axes[i].y * axes[i].size);
    if (last.size && !one_line) {
      add_dim(&p->x, last.size, last.x);
      if (!reduced) add_dim(&p->y, last.size, last.y);
      added++;
    }
    if (i == count) break;
    *numel *= axes[i].size;
    int64_t size = one_line ? last.size * axes[i].size : axes[i].size;
    last = axes[i];
    last.size = size;
  }
  return added;
}

static void arrange(plan *p) {
  const situ_view_desc *x = p->how->x, *y = p->how->y;
  axis axes[SITU_MAX_DIMS];
  int n = sorted_axes(x, y, axes), inner = n;
  while (inner > 0 && !axes[inner - 1].reduced) inner--;
  memcpy(&p->x, x, offsetof(situ_view_desc, size));
  memcpy(&p->y, y, offsetof(situ_view_desc, size));
  p->x.ndim = p->y.ndim = 0;
  p->outer = p->rows = p->width = 1;
  p->outer_dims = append(p, axes, inner, false, &p->outer);
  int rows = append(p, axes, inner, true, &p->rows);
  int width = append(p, axes + inner, n - inner, false, &p->width);
  p->x.contiguous = gapless(&p->x);
  p->y.contiguous = gapless(&p->y);
  if (p->how->y2) {
    p->y2 = p->y;
    p->y2.storage = p->how->y2->storage;
    p->y2.offset = p->how->y2->offset;
  }

  int last = p->x.ndim - 1;
  bool native = situ__cpu_native((situ_dtype)x->dtype, p->how->compute);
  p->run = rows && !width ? p->x.size[last] : p->rows;
  p->direct = native && (last < 0 || p->x.stride[last] == 1) && width <= 1 && (rows <= 1 || (!width && p->run >= RUN));
  const bool half = x->dtype == SITU_F16 || x->dtype == SITU_BF16;
  p->halves = half && p->kernels->sum_16 && p->how->fold == SITU__FOLD_SUM && p->how->map == SITU__MAP_NONE && !width &&
              p->x.contiguous;
  p->ld = !width ? 1 : rows ? p->x.stride[last - 1] : p->width;
}

/* Elements [row, + rows) x [column, + columns) of an outer block: in place, or converted into buffer. */
static situ__fold_block block_at(const plan *p, int64_t outer, int64_t row, int64_t rows, int64_t column,
                                 int64_t columns, char *buffer) {
  situ__fold_block k = { .x = buffer, .groups = 1, .rows = rows, .width = columns, .ld = columns };
  int64_t at = (outer * p->rows + row) * p->width + column;
  if (p->direct) {
    int64_t offset = 0;
    for (int d = p->x.ndim - 1; at && d >= 0; at /= p->x.size[d--]) offset += at % p->x.size[d] * p->x.stride[d];
    k.x = situ__cpu_data(&p->x) + offset * (int64_t)p->size;
    k.ld = p->ld;
  } else if (columns == p->width) {
    situ__cpu_load(&p->x, at, rows * columns, p->how->compute, buffer);
  } else {
    for (int64_t r = 0; r < rows; r++, at += p->width, buffer += (size_t)columns * p->size)
      situ__cpu_load(&p->x, at, columns, p->how->compute, buffer);
  }
  return k;
}

/* Whether blocks are folded where they are, of any size. */
static bool copies_nothing(const plan *p) {
  return p->direct && p->how->map == SITU__MAP_NONE && p->how->fold < SITU__FOLD_MOMENTS;
}

static void deliver(const plan *p, int64_t first, int64_t count, void *a, void *b) {
  if (p->how->finish) p->how->finish(p->how, p->rows, count, a, b);
  situ__cpu_store(&p->y, first, count, p->how->compute, a);
  if (p->how->y2) situ__cpu_store(&p->y2, first, count, p->how->compute, b);
}

/* Groups of outer blocks; buffer, a and b have space for the elements of one. */
static inline void fold_groups(const plan *p, int64_t begin, int64_t end, double *buffer, double *a, double *b) {
  for (int64_t g = begin; g < end; g++) {
    int64_t first = g * p->group, count = situ__min_i64(p->group, p->outer - first);
    situ__fold_block k = { buffer, count, p->rows, p->width, p->width };
    if (p->direct && (p->x.contiguous || (count == 1 && p->run == p->rows)))
      k = block_at(p, first, 0, p->rows, 0, p->width, NULL);
    else situ__cpu_load(&p->x, first * p->rows * p->width, count * p->rows * p->width, p->how->compute, buffer);
    k.groups = count;
    p->kernels->fold(p->how->fold, p->how->map, p->how->p, &k, a, b);
    deliver(p, first * p->width, count * p->width, a, b);
  }
}

static SITU__OWN_FRAME void copied_blocks(const plan *p, int64_t begin, int64_t end) {
  _Alignas(64) double buffer[SITU__FOLD_BLOCK], a[SITU__FOLD_BLOCK], b[SITU__FOLD_BLOCK];
  fold_groups(p, begin, end, buffer, a, b);
}

/* Outer blocks that fit into L1, several at a time. Touching the pages of buffers takes time: where nothing is copied
   and results are few, or all elements are, there are small ones. */
static void small_blocks(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  const int64_t results = p->group * p->width;
  const bool in_place = p->x.contiguous && copies_nothing(p);
  if (results > FEW || (!in_place && results * p->rows > FEW)) {
    copied_blocks(p, begin, end);
    return;
  }
  double buffer[FEW], a[FEW], b[FEW];
  fold_groups(p, begin, end, buffer, a, b);
}

/* The state of some rows of a tile of columns. */
static void fold_rows(const plan *p, int64_t outer, int64_t row, int64_t rows, int64_t column, int64_t columns,
                      void *buffer, void *a, void *b) {
  if (p->halves && rows >= SITU__FOLD_RUN) {
    const char *x = situ__cpu_data(&p->x) + (outer * p->rows + row) * (int64_t)sizeof(uint16_t);
    *(float *)a = p->kernels->sum_16(p->x.dtype == SITU_BF16, (const uint16_t *)(const void *)x, rows);
    return;
  }
  const situ__fold_block k = block_at(p, outer, row, rows, column, columns, buffer);
  p->kernels->fold(p->how->fold, p->how->map, p->how->p, &k, a, b);
}

/* Unit u: one segment of the rows of one tile of columns of one outer block. */
static void large_blocks(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  const situ__reduction *how = p->how;
  _Alignas(64) double buffer[SITU__FOLD_BLOCK], sum_a[TILE], sum_b[TILE], a[TILE], b[TILE];
  int64_t step = copies_nothing(p) ? p->segment : SITU__FOLD_BLOCK / p->tile;
  for (int64_t u = begin; u < end; u++) {
    int64_t s = u % p->segments, t = u / p->segments % p->tiles, o = u / p->segments / p->tiles;
    int64_t column = t * p->tile, columns = situ__min_i64(p->tile, p->width - column);
    int64_t row = s * p->segment, last = situ__min_i64(row + p->segment, p->rows);
    void *to_a = sum_a, *to_b = sum_b;
    if (p->segments > 1) {
      size_t at = (size_t)((o * p->segments + s) * p->width + column) * p->size;
      to_a = p->a + at;
      to_b = p->b + at;
    }
    for (int64_t r = row, rows; r < last; r += rows) {
      rows = situ__min_i64(step, last - r);
      if (p->direct) rows = situ__min_i64(rows, p->run - r % p->run);
      bool first = r == row;
      fold_rows(p, o, r, rows, column, columns, buffer, first ? to_a : a, first ? to_b : b);
      if (!first) p->kernels->merge(how->fold, columns, to_a, to_b, r - row, a, b, rows);
    }
    if (p->segments == 1) deliver(p, o * p->width + column, columns, to_a, to_b);
  }
}

/* Merges the segments of each unit (outer block, tile) pairwise, as a tree. */
static void merge_segments(int64_t begin, int64_t end, void *payload) {
  const plan *p = payload;
  for (int64_t u = begin; u < end; u++) {
    int64_t column = u % p->tiles * p->tile, columns = situ__min_i64(p->tile, p->width - column);
    size_t at = (size_t)(u / p->tiles * p->segments * p->width + column) * p->size, apart = (size_t)p->width * p->size;
    for (int64_t half = 1; half < p->segments; half *= 2)
      for (int64_t s = 0; s + half < p->segments; s += 2 * half) {
        size_t to = at + (size_t)s * apart, from = to + (size_t)half * apart;
        int64_t n = half * p->segment, m = situ__min_i64(n, p->rows - (s + half) * p->segment);
        p->kernels->merge(p->how->fold, columns, p->a + to, p->b + to, n, p->a + from, p->b + from, m);
      }
    deliver(p, u / p->tiles * p->width + column, columns, p->a + at, p->b + at);
  }
}

situ_status situ__reduce(const situ__reduction *how) {
  plan p; /* set in parts: clearing its views would take longer than a small sum */
  p.how = how;
  p.kernels = situ__fold_kernels_for(how->compute);
  p.size = situ__compute_size(how->compute);
  p.a = p.b = NULL;
  arrange(&p);
  if (p.outer * p.rows * p.width <= SITU__FOLD_BLOCK) {
    p.group = p.outer;
    small_blocks(0, 1, &p);
    return SITU_OK;
  }
  if (p.rows * p.width <= SITU__FOLD_BLOCK) {
    p.group = (p.x.contiguous && copies_nothing(&p) ? UNCOPIED : 1) * SITU__FOLD_BLOCK / (p.rows * p.width);
    p.group = situ__min_i64(p.group, SITU__FOLD_BLOCK / p.width);
    int64_t grain = situ__max_i64(1, GRAIN / (p.group * p.rows * p.width));
    situ__parallel(situ__ceil_div(p.outer, p.group), grain, small_blocks, &p);
    return SITU_OK;
  }
  const bool large = p.width >= TILE && p.outer * p.rows * p.width >= LARGE && copies_nothing(&p);
  p.tile = situ__min_i64(p.width, large ? TILE : SMALL_TILE);
  p.tiles = situ__ceil_div(p.width, p.tile);
  p.segment = (large ? LARGE_SEGMENT : SEGMENT) / p.tile;
  p.segments = situ__ceil_div(p.rows, p.segment);
  if (p.segments > 1) {
    size_t bytes = (size_t)(p.outer * p.segments * p.width) * p.size;
    p.a = situ__alloc(2 * bytes);
    if (!p.a) return situ__no_memory(how->op, 2 * bytes);
    p.b = p.a + bytes;
  }
  int64_t unit = situ__min_i64(p.rows, p.segment) * p.tile;
  situ__parallel(p.outer * p.tiles * p.segments, situ__max_i64(1, GRAIN / unit), large_blocks, &p);
  if (p.segments > 1)
    situ__parallel(p.outer * p.tiles, situ__max_i64(1, GRAIN / (p.tile * p.segments)), merge_segments, &p);
  situ__free(p.a);
  return SITU_OK;
}

/* ---- the verb ---- */

static double get_value(situ__compute compute, const void *v, int64_t i) {
  return compute == SITU__F32 ? ((const float *)v)[i] : ((const double *)v)[i];
}
static void put_value(situ__compute compute, void *v, int64_t i, double x) {
  if (compute == SITU__F32) ((float *)v)[i] = (float)x;
  else ((double *)v)[i] = x;
}

static void finish_mean(const situ__reduction *how, int64_t n, int64_t count, void *a, void *b) {
  (void)b;
  for (int64_t i = 0; i < count; i++) put_value(how->compute, a, i, get_value(how->compute, a, i) / (double)n);
}
static void finish_var(const situ__reduction *how, int64_t n, int64_t count, void *a, void *b) {
  double freedom = fmax(0, (double)n - how->p); /* 0 gives NaN or Inf, as in torch */
  for (int64_t i = 0; i < count; i++) put_value(how->compute, a, i, get_value(how->compute, b, i) / freedom);
}
static void finish_std(const situ__reduction *how, int64_t n, int64_t count, void *a, void *b) {
  finish_var(how, n, count, a, b);
  for (int64_t i = 0; i < count; i++) put_value(how->compute, a, i, sqrt(get_value(how->compute, a, i)));
}
static void finish_root(const situ__reduction *how, int64_t n, int64_t count, void *a, void *b) {
  (void)n, (void)b;
  for (int64_t i = 0; i < count; i++) {
    double x = get_value(how->compute, a, i);
    put_value(how->compute, a, i, how->p == 2 ? sqrt(x) : pow(x, 1 / how->p));
  }
}
static void finish_logsumexp(const situ__reduction *how, int64_t n, int64_t count, void *a, void *b) {
  (void)n;
  for (int64_t i = 0; i < count; i++) {
    double max = get_value(how->compute, a, i);
    put_value(how->compute, a, i, (isinf(max) ? 0 : max) + log(get_value(how->compute, b, i)));
  }
}

static void choose_norm(situ__reduction *r) {
  r->map = SITU__MAP_ABS;
  if (r->p == INFINITY) r->fold = SITU__FOLD_MAX;
  else if (r->p == -INFINITY) r->fold = SITU__FOLD_MIN;
  else if (r->p == 0) r->map = SITU__MAP_NONZERO;
  else if (r->p != 1) {
    r->map = r->p == 2 ? SITU__MAP_SQUARE : SITU__MAP_POWER;
    r->finish = finish_root;
  }
}

static void choose_reduction(const situ_work *work, situ__reduction *r) {
  switch ((situ_reduce)work->op) {
  case SITU_REDUCE_MEAN: r->finish = finish_mean; break;
  case SITU_REDUCE_MEAN_SQUARE: r->map = SITU__MAP_SQUARE, r->finish = finish_mean; break;
  case SITU_REDUCE_PROD: r->fold = SITU__FOLD_PROD; break;
  case SITU_REDUCE_MIN: r->fold = SITU__FOLD_MIN; break;
  case SITU_REDUCE_MAX: r->fold = SITU__FOLD_MAX; break;
  case SITU_REDUCE_VAR: r->fold = SITU__FOLD_MOMENTS, r->finish = finish_var; break;
  case SITU_REDUCE_STD: r->fold = SITU__FOLD_MOMENTS, r->finish = finish_std; break;
  case SITU_REDUCE_LOGSUMEXP: r->fold = SITU__FOLD_LOGSUM, r->finish = finish_logsumexp; break;
  case SITU_REDUCE_NORM: choose_norm(r); break;
  /* These map nonzero elements to 1 and take the minimum, the maximum or the sum. */
  case SITU_REDUCE_ALL: r->fold = SITU__FOLD_MIN, r->map = SITU__MAP_NONZERO; break;
  case SITU_REDUCE_ANY: r->fold = SITU__FOLD_MAX, r->map = SITU__MAP_NONZERO; break;
  case SITU_REDUCE_COUNT: r->map = SITU__MAP_NONZERO; break;
  default: break;
  }
}

static void fill(const situ_view_desc *y, double value) {
  double block[SITU__BLOCK];
  for (int64_t i = 0; i < SITU__BLOCK; i++) block[i] = value;
  for (int64_t i = 0; i < y->numel; i += SITU__BLOCK)
    situ__cpu_store(y, i, situ__min_i64(SITU__BLOCK, y->numel - i), SITU__F64, block);
}

situ_status situ__cpu_reduce(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  situ_dtype compute = work->compute ? work->compute : (situ_dtype)x->dtype;
  situ__reduction r = { .op = "reduce", .compute = situ__cpu_compute(compute), .p = work->scalar[0], .x = x, .y = y };
  if (work->op == SITU_REDUCE_COUNT && r.compute == SITU__F32)
    r.compute = SITU__F64; /* f32 counts exactly to 2^24 only */
  if (work->op == SITU_REDUCE_STD && r.compute == SITU__F32)
    r.compute = SITU__F64; /* squares overflow f32 long before their root does */
  choose_reduction(work, &r);
  if (r.compute == SITU__I64 && (r.finish || r.fold >= SITU__FOLD_MOMENTS))
    return situ__fail(SITU_E_DTYPE, r.op, "mean, var, std, norm and logsumexp are not computed in %s",
                      situ__dtype_name(compute));
  if (x->numel) return situ__reduce(&r);
  if (r.fold == SITU__FOLD_MIN || r.fold == SITU__FOLD_MAX)
    if (r.map != SITU__MAP_NONZERO) return situ__fail(SITU_E_ARG, r.op, "no elements have no extreme");
  fill(y, situ__empty_reduction(work));
  return SITU_OK;
}
