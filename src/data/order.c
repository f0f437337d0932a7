/* Random orders of samples.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "data/data.h"
#include "situ/ops.h"

int64_t *situ__random_order(const char *op, int64_t count, situ_generator *generator) {
  int64_t *order = situ__calloc((size_t)count + 1, sizeof *order);
  if (!order) return situ__fail(SITU_E_NOMEM, op, "no memory for the order of %lld samples", (long long)count), NULL;
  const size_t bytes = (size_t)count * sizeof *order;
  const situ_options options = { .device = { .kind = SITU_CPU }, .generator = generator };
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *drawn = situ_randperm(count, &options);
  situ_status status = drawn ? situ_copy_to_host(drawn, order, bytes) : situ_error();
  situ_status ended = situ_scope_end(&scope);
  if (status == SITU_OK && ended == SITU_OK) return order;
  situ__free(order);
  return NULL;
}
