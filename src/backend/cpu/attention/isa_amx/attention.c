/* Attention by tile registers. A product of tiles takes 16 cycles, in which vectors would have nothing to do: between
   products they turn the scores of other queries into weights.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/common/isa/exp.h"
#include "backend/cpu/attention/isa/score_lanes.h"
#include "backend/cpu/gemm/isa_amx/beside.h"

#include <math.h>

/* Weights are relative to a row's centre, which moves to a score that is FAR larger: to move it to each larger one
   would scale sums in every other block. */
#define FAR 8.0f

/* Steps of 32 columns. */
static int64_t steps_of(const situ__weighing *w) { return (w->s.columns + DEPTH - 1) / DEPTH; }

/* Closes what the row does not see, and finds its centre. */
ALWAYS_INLINE void begin_row(const situ__weighing *w, int64_t row) {
  const situ__scores *s = &w->s;
  float *x = (float *)s->data + row * s->ld, *centre = w->centre + row, *total = w->total + row;
  const int64_t full = steps_of(w) * DEPTH, sees = s->seen + row * s->step;
  for (int64_t i = sees < 0 ? 0 : sees < s->columns ? sees : s->columns; i < full; i++) x[i] = -INFINITY;
  const float before = w->first ? -INFINITY : *centre, top = top_f32(x, full);
  *centre = top <= before + FAR ? before : top;
  if (w->first) *total = 0;
  if (w->first || *centre == before) return;
  const float factor = situ__exp_f32(before - *centre);
  float *y = w->y + row * w->y_ld;
  *total *= factor;
  for (int64_t i = 0; i < w->width; i++) y[i] *= factor;
}

/* A row on its way, from the next of its steps on. */
typedef struct row {
  float *x;
  char *to;
  int64_t steps;
  vec_f32 centre, sum;
  __m512 least;
} row;

ALWAYS_INLINE row take_row(const situ__weighing *w) {
  if (w->row >= w->s.rows) return (row){ .steps = 0 };
  const float centre = w->centre[w->row];
  return (row){ .x = (float *)w->s.data + w->row * w->s.ld,
                .to = w->panels + w->row * 64,
                .steps = steps_of(w),
                .centre = F32(splat)(centre == -INFINITY ? 0 : centre), /* of a row without a key all weights are 0 */
                .least = _mm512_load_ps(w->least) };
}

/* x <= FAR. What exp takes for more than 0 has three parts if it is above LEAST: noted in `least`. */
#define ZERO -87.0f  /* below it exp_lanes gives 0 */
#define LEAST -69.2f /* exp of it is above 2^-100 */
ALWAYS_INLINE vec_f32 weigh_vector(row *r, float *x) {
  const vec_f32 at = F32(load)(x) - r->centre;
  const __mmask16 some = _mm512_cmp_ps_mask((__m512)at, _mm512_set1_ps(ZERO), _CMP_NLT_UQ);
  r->least = _mm512_mask_min_ps(r->least, some, r->least, (__m512)at);
  const vec_f32 y = exp_lanes(at);
  F32(store)(x, y);
  r->sum += y;
  return y;
}

ALWAYS_INLINE void weigh_pairs(row *r) {
  if (r->steps == 0) return;
  const vec_f32 low = weigh_vector(r, r->x), high = weigh_vector(r, r->x + TILE);
  store_split(low, high, r->to, 2 * TILE_BYTES);
  r->x += DEPTH;
  r->to += BLOCK_BYTES;
  r->steps--;
}

ALWAYS_INLINE void give_row(situ__weighing *w, row *r) {
  if (w->row >= w->s.rows) return;
  while (r->steps) weigh_pairs(r);
  const float total = sum_lanes(r->sum);
  w->total[w->row++] += total;
  w->split = w->split && total < INFINITY;
  _mm512_store_ps(w->least, r->least);
}

static void begin(situ__weighing *w) {
  w->row = 0;
  w->split = true;
  _mm512_store_ps(w->least, _mm512_setzero_ps());
  begin_row(w, 0);
}

static bool finish(situ__weighing *w) {
  while (w->row < w->s.rows) {
    row r = take_row(w);
    if (w->row + 1 < w->s.rows) begin_row(w, w->row + 1);
    give_row(w, &r);
  }
  return w->split && _mm512_reduce_min_ps(_mm512_load_ps(w->least)) >= LEAST;
}

/* A row takes as long as a block of products, and the next one's centre is found before it is needed. */
struct company {
  situ__weighing *w;
  row r;
};
ALWAYS_INLINE void take_weighing(company *c) { c->r = take_row(c->w); }
ALWAYS_INLINE void weigh_between(company *c, int number) {
  weigh_pairs(&c->r);
  if (number % 3 == 0) weigh_pairs(&c->r);
  if (number == 3 && c->w->row + 1 < c->w->s.rows) begin_row(c->w, c->w->row + 1);
}
ALWAYS_INLINE void give_weighing(company *c) { give_row(c->w, &c->r); }

static void multiply(const situ__tile *t, int64_t rows, situ__weighing *w) {
  static const side_work work = { take_weighing, weigh_between, give_weighing };
  company with = { .w = w };
  multiply_beside(t, rows, &work, &with);
}

const situ__attention_weigher situ__attention_weigher_amx = { begin, multiply, finish };
