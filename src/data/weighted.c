/* WeightedRandomSampler.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "data/sampler.h"
#include "situ/ops.h"

static const char op[] = "weighted_random_sampler";

typedef struct weighted {
  situ_sampler s;
  situ_generator *generator;
  double *weights;
  double *sums; /* of the weights up to and including each one */
} weighted;

static bool draw_uniform(situ_generator *generator, double *out, int64_t count) {
  const situ_options options = { .dtype = SITU_F64, .device = { .kind = SITU_CPU }, .generator = generator };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *drawn = situ_rand(SITU_SHAPE(count), &options);
  const bool good = drawn && situ_copy_to_host(drawn, out, (size_t)count * sizeof *out) == SITU_OK;
  return situ_scope_end(&scope) == SITU_OK && good;
}

/* The first index whose sum is above x. */
static int64_t find_sum(const double *sums, int64_t count, double x) {
  int64_t low = 0, high = count - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (sums[middle] > x) high = middle;
    else low = middle + 1;
  }
  return low;
}

static bool draw_with_replacement(situ_sampler *s, int64_t *indices) {
  const weighted *m = (const weighted *)s;
  double *uniform = situ__calloc((size_t)s->count + 1, sizeof *uniform);
  if (!uniform) return situ__no_memory(op, (size_t)s->count * sizeof *uniform), false;
  const bool good = draw_uniform(m->generator, uniform, s->count);
  for (int64_t i = 0; good && i < s->count; i++)
    indices[i] = find_sum(m->sums, s->bound, uniform[i] * m->sums[s->bound - 1]);
  situ__free(uniform);
  return good;
}

typedef struct arrival {
  double time;
  int64_t index;
} arrival;

static int compare_arrivals(const void *a, const void *b) {
  const arrival *x = a, *y = b;
  return x->time != y->time ? (x->time > y->time) - (x->time < y->time) : (x->index > y->index) - (x->index < y->index);
}

/* Exponential arrival times with the weights as rates: the first ones are a weighted draw without replacement
   (Efraimidis and Spirakis, Information Processing Letters 97, 2006). */
static bool draw_without(situ_sampler *s, int64_t *indices) {
  const weighted *m = (const weighted *)s;
  double *uniform = situ__calloc((size_t)s->bound, sizeof *uniform);
  arrival *list = situ__calloc((size_t)s->bound, sizeof *list);
  bool good = uniform && list;
  if (!good) situ__no_memory(op, (size_t)s->bound * sizeof *list);
  good = good && draw_uniform(m->generator, uniform, s->bound);
  for (int64_t i = 0; good && i < s->bound; i++)
    list[i] = (arrival){ m->weights[i] > 0 ? -log1p(-uniform[i]) / m->weights[i] : (double)INFINITY, i };
  if (good) qsort(list, (size_t)s->bound, sizeof *list, compare_arrivals);
  for (int64_t i = 0; good && i < s->count; i++) indices[i] = list[i].index;
  situ__free(uniform);
  situ__free(list);
  return good;
}

static void release(situ_sampler *s) {
  situ__free(((weighted *)s)->weights);
  situ__free(((weighted *)s)->sums);
}

static const situ__sampler_type replaced_type = {
  .name = op, .size = sizeof(weighted), .draw = draw_with_replacement, .release = release
};
static const situ__sampler_type without_type = {
  .name = op, .size = sizeof(weighted), .draw = draw_without, .release = release
};

/* Number of weights above 0; -1 after recording an error. */
static int64_t count_positive(const double *weights, int64_t count) {
  int64_t positive = 0;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    sum += weights[i];
    positive += weights[i] > 0;
    if (weights[i] >= 0 && isfinite(sum)) continue;
    return situ__fail(SITU_E_ARG, op, "weights[%" PRId64 "] is %g: weights and their sum must be at least 0 and finite",
                      i, weights[i]),
           -1;
  }
  if (positive > 0) return positive;
  return situ__fail(SITU_E_ARG, op, "no weight is above 0"), -1;
}

static bool is_valid(const double *weights, int64_t count, int64_t num_samples, bool replacement) {
  if (count < 1 || num_samples < 1)
    situ__fail(SITU_E_ARG, op, "%" PRId64 " weights, num_samples %" PRId64 ": both must be at least 1", count,
               num_samples);
  else if (!weights) situ__null(op, "weights");
  else {
    const int64_t positive = count_positive(weights, count);
    if (positive < 0) return false;
    if (replacement || num_samples <= positive) return true;
    situ__fail(SITU_E_ARG, op,
               "num_samples is %" PRId64 ", and %" PRId64 " weights are above 0: without replacement it can be at most "
               "that",
               num_samples, positive);
  }
  return false;
}

situ_sampler *situ_weighted_random_sampler(const double *weights, int64_t count, int64_t num_samples, bool replacement,
                                           situ_generator *generator) {
  if (!is_valid(weights, count, num_samples, replacement)) return NULL;
  weighted *m = situ__sampler_alloc(replacement ? &replaced_type : &without_type, num_samples, count);
  if (!m) return NULL;
  m->generator = generator;
  m->weights = situ__calloc((size_t)count, sizeof *m->weights);
  m->sums = situ__calloc((size_t)count, sizeof *m->sums);
  if (!m->weights || !m->sums) {
    situ__no_memory(op, (size_t)count * sizeof *m->sums);
    situ_sampler_free(&m->s);
    return NULL;
  }
  memcpy(m->weights, weights, (size_t)count * sizeof *weights);
  for (int64_t i = 0; i < count; i++) m->sums[i] = weights[i] + (i > 0 ? m->sums[i - 1] : 0);
  return &m->s;
}
