/* Golden values from PyTorch 2.15: indexing by lists of tensors, and ops that place or order values.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

/* `at` says which dimension each index stands at: there are gaps in the list. */
static int indices(gold_call *c, situ_tensor *list[SITU_MAX_DIMS]) {
  situ_tensor *given[GOLD_MAX_INPUTS + 1];
  const situ_shape at = gold_list(c, "at");
  int last = 0;
  (void)gold_tensors(c, "indices", given);
  for (int k = 0; k < at.ndim; k++) {
    list[at.dim[k]] = given[k];
    if (at.dim[k] > last) last = (int)at.dim[k];
  }
  return last + 1;
}
static void list_index(gold_call *c) {
  situ_tensor *list[SITU_MAX_DIMS] = { NULL };
  int count = indices(c, list);
  c->out[0] = situ_index(c->in[0], list, count);
}
static void put(gold_call *c,
                situ_tensor *(*f)(situ_tensor *, situ_tensor *const *, int, situ_tensor *, bool accumulate)) {
  situ_tensor *list[SITU_MAX_DIMS] = { NULL };
  int count = indices(c, list);
  c->out[0] = f(c->in[0], list, count, gold_in(c, "values"), gold_bool(c, "accumulate", false));
}
static void index_put(gold_call *c) { put(c, situ_index_put); }
static void index_put_(gold_call *c) { put(c, situ_index_put_); }

static const gold_op ops[] = {
  { "index", .run = list_index },
  { "index_put", .run = index_put },
  { "index_put_", .run = index_put_ },
  { 0 },
};

#define NO_VALUES "the size depends on values, and meta has none"
static const gold_exception exceptions[] = {
  { "index", .device = "meta", .where = "masks", .is = 1, .why = NO_VALUES },
  { "index_put", .device = "meta", .where = "masks", .is = 1, .why = NO_VALUES },
  { "index_put_", .device = "meta", .where = "masks", .is = 1, .why = NO_VALUES },
  { 0 },
};

int main(void) { return gold_main("indexing", ops, exceptions); }
