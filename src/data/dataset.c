/* Functions that all data sets share.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "data/data.h"

situ_dataset *situ_dataset_alloc(const situ_dataset_type *type) {
  static const char op[] = "dataset_alloc";
  if (!type || type->size < sizeof(situ_dataset) || !type->length || !type->get)
    return situ__fail(SITU_E_ARG, op, "a data set's type needs a size, length and get"), NULL;
  situ_dataset *dataset = situ__handle_new(SITU__A_DATASET, type->size);
  if (!dataset) return situ__no_memory(op, type->size), NULL;
  dataset->type = type;
  return dataset;
}

void situ_dataset_free(situ_dataset *dataset) {
  if (!dataset || !situ__dataset_given("dataset_free", dataset)) return;
  const situ_dataset_type *type = dataset->type;
  if (type->release) type->release(dataset);
  situ__handle_free(dataset, type->size, type->name);
}

int64_t situ_dataset_length(situ_dataset *dataset) {
  static const char op[] = "dataset_length";
  if (!situ__dataset_given(op, dataset)) return -1;
  const int64_t length = dataset->type->length(dataset);
  if (length >= 0) return length;
  return situ__fail(SITU_E_ARG, op, "the data set says that it has %" PRId64 " samples", length), -1;
}

situ_tree *situ_dataset_get(situ_dataset *dataset, int64_t index) {
  static const char op[] = "dataset_get";
  if (!situ__dataset_given(op, dataset)) return NULL;
  int64_t length = situ_dataset_length(dataset);
  if (length < 0) return NULL;
  if (index < 0 || index >= length)
    return situ__fail(SITU_E_INDEX, op, "index %lld in a set of %lld", (long long)index, (long long)length), NULL;
  const uint64_t before = situ__error_count();
  situ_tree *sample = dataset->type->get(dataset, index);
  if (!sample && situ__error_count() == before)
    situ__fail(SITU_E_STATE, op, "the data set gave nothing for index %" PRId64, index);
  return sample;
}
