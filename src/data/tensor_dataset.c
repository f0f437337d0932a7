/* A data set of tensors in memory.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "data/data.h"
#include "situ/ops.h"

typedef struct tensor_dataset {
  situ_dataset base;
  situ_tree *tensors;
  int64_t length; /* -1 until the first tensor was seen */
} tensor_dataset;

static int64_t length_of(situ_dataset *self) { return ((tensor_dataset *)self)->length; }

static situ_tensor *row(situ_tensor *t, void *payload) { return situ_select(t, 0, *(const int64_t *)payload); }

static situ_tree *get(situ_dataset *self, int64_t index) {
  return situ_tree_map(((tensor_dataset *)self)->tensors, row, &index);
}

typedef struct picked {
  const int64_t *indices;
  int64_t count;
} picked;

/* Copies even if the rows are consecutive: an in-place op on a batch must not change the data set. */
static situ_tensor *rows(situ_tensor *t, void *payload) {
  const picked *p = payload;
  const situ_options options = { .dtype = SITU_I64, .device = situ_device_of(t) };
  size_t bytes = (size_t)p->count * sizeof *p->indices;
  return situ_index_select(t, 0, situ_from_host(p->indices, bytes, SITU_SHAPE(p->count), &options));
}

static situ_tree *get_batch(situ_dataset *self, const int64_t *indices, int64_t count) {
  picked p = { indices, count };
  return situ_tree_map(((tensor_dataset *)self)->tensors, rows, &p);
}

static void release(situ_dataset *self) { situ_tree_free(((tensor_dataset *)self)->tensors); }

static const situ_dataset_type type = {
  .name = "TensorDataset",
  .size = sizeof(tensor_dataset),
  .length = length_of,
  .get = get,
  .get_batch = get_batch,
  .release = release,
};

static situ_status check_rows(const char *path, situ_tensor *t, void *payload) {
  tensor_dataset *d = payload;
  if (situ_dim(t) < 1)
    return situ__fail(SITU_E_SHAPE, "tensor_dataset", "tensor '%s' has no first dimension to take samples from", path);
  int64_t length = situ_size(t, 0);
  if (d->length >= 0 && length != d->length)
    return situ__fail(SITU_E_SHAPE, "tensor_dataset", "tensor '%s' has %lld rows, the one before %lld", path,
                      (long long)length, (long long)d->length);
  d->length = length;
  return SITU_OK;
}

situ_dataset *situ_tensor_dataset(situ_tree *tensors) {
  if (!situ__valid("tensor_dataset", "tensors", tensors, SITU__A_TREE)) return NULL;
  tensor_dataset *d = (tensor_dataset *)situ_dataset_alloc(&type);
  if (!d) {
    situ_tree_free(tensors);
    return NULL;
  }
  d->tensors = tensors;
  d->length = -1;
  situ_status status = situ_tree_each(tensors, check_rows, d);
  if (status == SITU_OK && d->length < 0)
    status = situ__fail(SITU_E_ARG, "tensor_dataset", "there is no tensor in the tree");
  if (status == SITU_OK) return &d->base;
  situ_dataset_free(&d->base);
  return NULL;
}
