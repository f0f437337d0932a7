/* A subset of a data set, and random splits.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "data/data.h"

typedef struct subset {
  situ_dataset base;
  situ_dataset *of;
  int64_t *indices;
  int64_t count;
} subset;

static int64_t length_of(situ_dataset *self) { return ((subset *)self)->count; }

static situ_tree *get(situ_dataset *self, int64_t index) {
  subset *s = (subset *)self;
  return situ_dataset_get(s->of, s->indices[index]);
}

static situ_tree *get_batch(situ_dataset *self, const int64_t *indices, int64_t count) {
  subset *s = (subset *)self;
  if (!situ__dataset_given("subset", s->of)) return NULL;
  int64_t *theirs = situ__calloc((size_t)count, sizeof *theirs);
  if (!theirs) return situ__no_memory("subset", (size_t)count * sizeof *theirs), NULL;
  for (int64_t i = 0; i < count; i++) theirs[i] = s->indices[indices[i]];
  situ_tree *batch = s->of->type->get_batch(s->of, theirs, count);
  situ__free(theirs);
  return batch;
}

static void release(situ_dataset *self) { situ__free(((subset *)self)->indices); }

/* Without get_batch, like its data set: a NULL slot must keep its meaning. */
static const situ_dataset_type by_sample = {
  .name = "Subset", .size = sizeof(subset), .length = length_of, .get = get, .release = release
};
static const situ_dataset_type by_batch = {
  .name = "Subset", .size = sizeof(subset), .length = length_of, .get = get, .get_batch = get_batch, .release = release
};

situ_dataset *situ_subset(situ_dataset *dataset, const int64_t *indices, int64_t count) {
  static const char op[] = "subset";
  if (!situ__dataset_given(op, dataset)) return NULL;
  int64_t length = situ_dataset_length(dataset);
  if (length < 0 || (count > 0 && !situ__given(op, "indices", indices))) return NULL;
  for (int64_t i = 0; i < count; i++) {
    if (indices[i] >= 0 && indices[i] < length) continue;
    return situ__fail(SITU_E_INDEX, op, "index %lld in a set of %lld", (long long)indices[i], (long long)length), NULL;
  }
  if (count < 0) return situ__fail(SITU_E_ARG, op, "%lld samples", (long long)count), NULL;
  subset *s = (subset *)situ_dataset_alloc(dataset->type->get_batch ? &by_batch : &by_sample);
  if (!s) return NULL;
  s->of = dataset;
  s->indices = situ__calloc((size_t)count + 1, sizeof *s->indices);
  if (!s->indices) {
    situ__no_memory(op, ((size_t)count + 1) * sizeof *s->indices);
    situ_dataset_free(&s->base);
    return NULL;
  }
  if (count) memcpy(s->indices, indices, (size_t)count * sizeof *indices);
  s->count = count;
  return &s->base;
}

situ_status situ_random_split(situ_dataset *dataset, int64_t count, situ_generator *generator, situ_dataset **first,
                              situ_dataset **second) {
  static const char op[] = "random_split";
  int64_t length = situ_dataset_length(dataset);
  if (length < 0) return situ_error();
  if (!first || !second) return situ__null(op, first ? "second" : "first");
  if (count < 0 || count > length)
    return situ__fail(SITU_E_ARG, op, "%lld samples of a set of %lld", (long long)count, (long long)length);
  int64_t *order = situ__random_order(op, length, generator);
  if (!order) return situ_error();
  situ_dataset *a = situ_subset(dataset, order, count);
  situ_dataset *b = a ? situ_subset(dataset, order + count, length - count) : NULL;
  situ__free(order);
  if (!b) {
    situ_dataset_free(a);
    return situ_error();
  }
  *first = a;
  *second = b;
  return SITU_OK;
}
