/* Numbers in a state tree.
   SPDX-License-Identifier: MIT */
#include "optim/record.h"

#include <inttypes.h>

#include "base/fail.h"
#include "situ/ops.h"

static situ_tree *host(const void *data, size_t bytes, situ_shape shape, situ_dtype dtype) {
  situ_options options = { .dtype = dtype, .device = { .kind = SITU_CPU } };
  return situ_tree_tensor(situ_from_host(data, bytes, shape, &options));
}

situ_tree *situ__record_number(double value) { return host(&value, sizeof value, SITU_SCALAR, SITU_F64); }
situ_tree *situ__record_integer(int64_t value) { return host(&value, sizeof value, SITU_SCALAR, SITU_I64); }
situ_tree *situ__record_numbers(const double *values, int64_t count) {
  return host(values, (size_t)count * sizeof *values, SITU_SHAPE(count), SITU_F64);
}
situ_tree *situ__record_range(int64_t first, int64_t count) {
  situ_options options = { .dtype = SITU_I64, .device = { .kind = SITU_CPU } };
  return situ_tree_tensor(situ_arange((double)first, (double)(first + count), 1, &options));
}

situ_tensor *situ__record_find(const situ_tree *flat, const char *path) {
  const situ_tree *leaf = situ_tree_find(flat, path);
  return leaf ? situ_tree_value(leaf) : NULL;
}

bool situ__record_read(const situ_tree *flat, const char *path, double *out, int64_t count) {
  situ_tensor *t = situ__record_find(flat, path);
  if (!t) return situ__fail(SITU_E_ARG, "load_state_dict", "the state has no %s", path), false;
  if (situ_numel(t) != count)
    return situ__fail(SITU_E_ARG, "load_state_dict", "%s: %" PRId64 " numbers, not %" PRId64, path, situ_numel(t),
                      count),
           false;
  return situ_copy_to_host(situ_to_dtype(t, SITU_F64), out, (size_t)count * sizeof *out) == SITU_OK;
}
