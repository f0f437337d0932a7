/* Samplers: what all share, SequentialSampler, RandomSampler and SubsetRandomSampler.
   SPDX-License-Identifier: MIT */
#include "data/sampler.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "situ/ops.h"

void *situ__sampler_alloc(const situ__sampler_type *type, int64_t count, int64_t bound) {
  situ_sampler *s = situ__handle_new(SITU__A_SAMPLER, type->size);
  if (!s) return situ__no_memory(type->name, type->size), NULL;
  s->type = type;
  s->count = count;
  s->bound = bound;
  return s;
}

void situ_sampler_free(situ_sampler *sampler) {
  if (!sampler || !situ__sampler_given("sampler_free", sampler)) return;
  if (sampler->type->release) sampler->type->release(sampler);
  situ__handle_free(sampler, sampler->type->size, sampler->type->name);
}

int64_t situ_sampler_length(const situ_sampler *sampler) {
  return situ__sampler_given("sampler_length", sampler) ? sampler->count : -1;
}

situ_status situ_sampler_draw(situ_sampler *sampler, int64_t *indices, int64_t capacity) {
  static const char op[] = "sampler_draw";
  if (!situ__sampler_given(op, sampler)) return situ_error();
  if (capacity < sampler->count)
    return situ__fail(SITU_E_ARG, op, "space for %" PRId64 " indices; an epoch has %" PRId64, capacity, sampler->count);
  if (sampler->count > 0 && !indices) return situ__null(op, "indices");
  return sampler->type->draw(sampler, indices) ? SITU_OK : situ_error();
}

/* ---- SequentialSampler ---- */

static bool draw_sequence(situ_sampler *s, int64_t *indices) {
  for (int64_t i = 0; i < s->count; i++) indices[i] = i;
  return true;
}
static const situ__sampler_type sequential_type = { .name = "sequential_sampler",
                                                    .size = sizeof(situ_sampler),
                                                    .draw = draw_sequence };

situ_sampler *situ_sequential_sampler(situ_dataset *dataset) {
  const int64_t length = situ_dataset_length(dataset);
  return length < 0 ? NULL : situ__sampler_alloc(&sequential_type, length, length);
}

/* ---- RandomSampler, SubsetRandomSampler ---- */

typedef struct random_sampler {
  situ_sampler s;
  situ_generator *generator;
  int64_t *indices; /* of the subset; NULL: 0..bound - 1 */
  int64_t among;    /* number of indices to choose from */
} random_sampler;

/* As torch: whole permutations, one after the other, the last one cut. */
static bool draw_permutations(situ_sampler *s, int64_t *indices) {
  const random_sampler *m = (const random_sampler *)s;
  for (int64_t begin = 0; begin < s->count; begin += m->among) {
    int64_t *order = situ__random_order(s->type->name, m->among, m->generator);
    if (!order) return false;
    for (int64_t i = 0; i < m->among && begin + i < s->count; i++)
      indices[begin + i] = m->indices ? m->indices[order[i]] : order[i];
    situ__free(order);
  }
  return true;
}

static bool draw_with_replacement(situ_sampler *s, int64_t *indices) {
  const random_sampler *m = (const random_sampler *)s;
  const situ_options options = { .dtype = SITU_I64, .device = { .kind = SITU_CPU }, .generator = m->generator };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *drawn = situ_randint(0, s->bound, SITU_SHAPE(s->count), &options);
  const bool good = drawn && situ_copy_to_host(drawn, indices, (size_t)s->count * sizeof *indices) == SITU_OK;
  return situ_scope_end(&scope) == SITU_OK && good;
}

static void release_random(situ_sampler *s) { situ__free(((random_sampler *)s)->indices); }

static const situ__sampler_type permuted_type = { .name = "random_sampler",
                                                  .size = sizeof(random_sampler),
                                                  .draw = draw_permutations };
static const situ__sampler_type replaced_type = { .name = "random_sampler",
                                                  .size = sizeof(random_sampler),
                                                  .draw = draw_with_replacement };
static const situ__sampler_type subset_type = {
  .name = "subset_random_sampler", .size = sizeof(random_sampler), .draw = draw_permutations, .release = release_random
};

situ_sampler *situ_random_sampler(situ_dataset *dataset, const situ_random_sampler_options *options) {
  const situ_random_sampler_options with = options ? *options : (situ_random_sampler_options){ 0 };
  const int64_t length = situ_dataset_length(dataset);
  if (length < 0) return NULL;
  if (with.num_samples < 0 || (with.num_samples > 0 && length == 0))
    return situ__fail(SITU_E_ARG, permuted_type.name, "num_samples %" PRId64 " of a dataset of %" PRId64,
                      with.num_samples, length),
           NULL;
  random_sampler *m = situ__sampler_alloc(with.replacement ? &replaced_type : &permuted_type,
                                          with.num_samples ? with.num_samples : length, length);
  if (!m) return NULL;
  m->generator = with.generator;
  m->among = length;
  return &m->s;
}

situ_sampler *situ_subset_random_sampler(const int64_t *indices, int64_t count, situ_generator *generator) {
  static const char op[] = "subset_random_sampler";
  int64_t bound = 0;
  if (count < 0) return situ__fail(SITU_E_ARG, op, "%" PRId64 " indices", count), NULL;
  if (count > 0 && !indices) return situ__null(op, "indices"), NULL;
  for (int64_t i = 0; i < count; i++) {
    if (indices[i] < 0) return situ__fail(SITU_E_INDEX, op, "indices[%" PRId64 "] is %" PRId64, i, indices[i]), NULL;
    if (indices[i] >= bound) bound = indices[i] + (indices[i] < INT64_MAX);
  }
  random_sampler *m = situ__sampler_alloc(&subset_type, count, bound);
  if (!m) return NULL;
  m->generator = generator;
  m->among = count;
  m->indices = situ__calloc((size_t)count + 1, sizeof *m->indices);
  if (!m->indices) {
    situ__no_memory(op, (size_t)count * sizeof *m->indices);
    situ_sampler_free(&m->s);
    return NULL;
  }
  if (count > 0) memcpy(m->indices, indices, (size_t)count * sizeof *indices);
  return &m->s;
}
