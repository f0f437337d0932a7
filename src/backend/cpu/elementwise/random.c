/* Random numbers: element i of draw (seed, offset) has the same bits on every device, however the draw is split.
   SPDX-License-Identifier: MIT */
#include "random.h"
#include "backend/cpu/common/loop.h"

#include <stdatomic.h>

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"
#include "kernels/dialect.h"
#include "kernels/random.h"

/* A block of draws: words first, then converted to values in place. */
typedef union draws {
  uint32_t word[2 * SITU__BLOCK];
  uint64_t pair[SITU__BLOCK];
  float f32[SITU__BLOCK];
  double f64[SITU__BLOCK];
  int64_t i64[SITU__BLOCK];
} draws;

/* Parameters of one call. */
typedef struct job {
  const situ_work *work;
  atomic_llong wrong; /* 1 + index of an element whose probability is not in 0..1; 0: none */
} job;

/* A piece of one call: n elements from `first` on, which is a multiple of 4; y has capacity for a block. */
typedef struct piece {
  const situ_work *work;
  job *job;
  const situ__random_rows *rows;
  int64_t first, n;
} piece;

static void draw_words(const piece *p, uint32_t *w) {
  p->rows->words(w, p->first / 4, situ__ceil_div(p->n, 4), p->work->seed, p->work->offset);
}
static void draw_pairs(const piece *p, draws *y) {
  p->rows->words(y->word, p->first / 2, situ__ceil_div(p->n, 2), p->work->seed, p->work->offset);
}

static situ__compute uniform(const piece *p, draws *y) {
  const double low = p->work->scalar[0], range = p->work->scalar[1] - low, most = p->work->scalar[2];
  situ_dtype dtype = (situ_dtype)p->work->out[0]->dtype;
  if (dtype == SITU_F64) {
    draw_pairs(p, y);
    for (int64_t i = 0; i < p->n; i++) y->f64[i] = at_most_f64(low + uniform_f64(y->pair[i]) * range, most);
    return SITU__F64;
  }
  const int digits = dtype == SITU_F16 ? 11 : dtype == SITU_BF16 ? 8 : 24;
  const float low_32 = (float)low, range_32 = (float)range, most_32 = (float)most;
  draw_words(p, y->word);
  for (int64_t i = 0; i < p->n; i++)
    y->f32[i] = at_most_f32(low_32 + uniform_f32(y->word[i], digits) * range_32, most_32);
  return SITU__F32;
}

static situ__compute normal(const piece *p, draws *y) {
  const double mean = p->work->scalar[0], deviation = p->work->scalar[1];
  draws raw;
  if (p->work->out[0]->dtype == SITU_F64) {
    draw_pairs(p, &raw);
    p->rows->normal_64(raw.pair, situ__ceil_div(p->n, 2), y->f64);
    for (int64_t i = 0; i < p->n; i++) y->f64[i] = mean + y->f64[i] * deviation;
    return SITU__F64;
  }
  const float mean_32 = (float)mean, deviation_32 = (float)deviation;
  draw_words(p, raw.word);
  p->rows->normal_32(raw.word, situ__ceil_div(p->n, 2), y->f32);
  for (int64_t i = 0; i < p->n; i++) y->f32[i] = mean_32 + y->f32[i] * deviation_32;
  return SITU__F32;
}

static void check_chance(const piece *p, int64_t i, double chance) {
  if (!(chance >= 0 && chance <= 1)) atomic_store(&p->job->wrong, p->first + i + 1);
}

static situ__compute bernoulli(const piece *p, draws *y) {
  const situ_view_desc *chance = p->work->ins ? p->work->in[0] : NULL;
  if (chance && chance->dtype == SITU_F64) {
    double limit[SITU__BLOCK];
    situ__cpu_load(chance, p->first, p->n, SITU__F64, limit);
    draw_pairs(p, y);
    for (int64_t i = 0; i < p->n; i++) check_chance(p, i, limit[i]);
    for (int64_t i = 0; i < p->n; i++) y->i64[i] = uniform_f64(y->pair[i]) < limit[i];
    return SITU__I64;
  }
  float limit[SITU__BLOCK];
  uint32_t word[SITU__BLOCK];
  for (int64_t i = 0; !chance && i < p->n; i++) limit[i] = (float)p->work->scalar[0];
  if (chance) situ__cpu_load(chance, p->first, p->n, SITU__F32, limit);
  draw_words(p, word);
  for (int64_t i = 0; chance && i < p->n; i++) check_chance(p, i, (double)limit[i]);
  for (int64_t i = 0; i < p->n; i++) y->i64[i] = uniform_f32(word[i], 24) < limit[i];
  return SITU__I64;
}

static situ__compute integer(const piece *p, draws *y) {
  const uint64_t low = (uint64_t)p->work->integer[0], range = (uint64_t)p->work->integer[1] - low;
  draw_pairs(p, y);
  p->rows->integers(y->pair, p->n, low, range);
  return SITU__I64;
}

static situ__compute raw(const piece *p, draws *y) {
  draw_pairs(p, y);
  return SITU__I64;
}

static situ__compute permutation(const piece *p, draws *y) {
  p->rows->permutation(y->pair, p->first, p->n, (uint64_t)p->work->out[0]->numel, p->work->seed, p->work->offset);
  return SITU__I64;
}

typedef situ__compute (*draw_fn)(const piece *p, draws *y);
static const draw_fn draw[SITU_RANDOMS] = {
  [SITU_RANDOM_UNIFORM] = uniform, [SITU_RANDOM_NORMAL] = normal, [SITU_RANDOM_BERNOULLI] = bernoulli,
  [SITU_RANDOM_INTEGER] = integer, [SITU_RANDOM_RAW] = raw,       [SITU_RANDOM_PERMUTATION] = permutation,
};

static void draw_elements(int64_t begin, int64_t end, void *payload) {
  job *j = payload;
  const situ_work *work = j->work;
  draws y;
  piece p = { work, j, SITU__ISA_PICK(situ__cpu_isa(), situ__random_rows), begin, 0 };
  for (; p.first < end; p.first += SITU__BLOCK) {
    p.n = situ__min_i64(SITU__BLOCK, end - p.first);
    situ__compute compute = draw[work->op](&p, &y);
    situ__cpu_store(work->out[0], p.first, p.n, compute, &y);
  }
}

situ_status situ__cpu_random(int index, const situ_work *work) {
  (void)index;
  job j = { .work = work };
  situ__parallel(work->out[0]->numel, SITU__GRAIN, draw_elements, &j);
  const long long wrong = atomic_load(&j.wrong);
  return wrong ? situ__fail(SITU_E_ARG, "random", "the probability of element %lld is not in 0..1", wrong - 1)
               : SITU_OK;
}
