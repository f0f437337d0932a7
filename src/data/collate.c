/* Stacks samples into a batch.
   SPDX-License-Identifier: MIT */
#include <limits.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "situ/data.h"
#include "situ/ops.h"

static const char op[] = "default_collate";

static situ_tree *collate(const situ_tree *const *samples, int64_t count);

static situ_tree *differ(const char *what) {
  return situ__fail(SITU_E_SHAPE, op, "the samples of a batch differ in %s", what), NULL;
}

static situ_tree *stack(const situ_tree *const *samples, int64_t count) {
  situ_tensor **tensors = situ__calloc((size_t)count, sizeof *tensors);
  if (!tensors) return situ__no_memory(op, (size_t)count * sizeof *tensors), NULL;
  for (int64_t i = 0; i < count; i++) tensors[i] = situ_tree_value(samples[i]);
  situ_tensor *stacked = situ_stack(tensors, (int)count, 0);
  situ__free(tensors);
  return situ_tree_tensor(stacked);
}

/* Collates the k-th part of all samples. */
static situ_tree *collate_part(const situ_tree *const *samples, int64_t count, int64_t k, const char *key) {
  const situ_tree **parts = situ__calloc((size_t)count, sizeof *parts);
  if (!parts) return situ__no_memory(op, (size_t)count * sizeof *parts), NULL;
  situ_tree *made = NULL;
  int64_t i = 0;
  for (; i < count; i++)
    if (!(parts[i] = key ? situ_tree_find(samples[i], key) : situ_tree_at(samples[i], k))) break;
  made = i == count ? collate(parts, count) : differ("their keys");
  situ__free(parts);
  return made;
}

/* The recursion is bounded by the depth limit of trees. */
static situ_tree *collate(const situ_tree *const *samples, int64_t count) {
  situ_tree_kind kind = situ_tree_kind_of(samples[0]);
  int64_t parts = situ_tree_count(samples[0]);
  for (int64_t i = 1; i < count; i++) {
    if (situ_tree_kind_of(samples[i]) != kind) return differ("kind");
    if (situ_tree_count(samples[i]) != parts) return differ("the number of their parts");
  }
  if (kind == SITU_TREE_TENSOR) return stack(samples, count);
  if (kind == SITU_TREE_NONE) return situ_tree_none();
  situ_tree *batch = kind == SITU_TREE_LIST ? situ_tree_list() : situ_tree_dict();
  for (int64_t k = 0; batch && k < parts; k++) {
    const char *key = kind == SITU_TREE_DICT ? situ_tree_key(samples[0], k) : NULL;
    situ_tree *part = collate_part(samples, count, k, key);
    batch = key ? situ_tree_put(batch, key, part) : situ_tree_append(batch, part);
  }
  return batch;
}

situ_tree *situ_default_collate(situ_tree *const *samples, int64_t count) {
  if (!samples || count < 1 || count > INT_MAX)
    return situ__fail(SITU_E_ARG, op, "%lld samples make no batch", (long long)count), NULL;
  for (int64_t i = 0; i < count; i++)
    if (!situ__valid(op, "samples", samples[i], SITU__A_TREE)) return NULL;
  return collate((const situ_tree *const *)samples, count);
}
