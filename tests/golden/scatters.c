/* Golden values from PyTorch 2.15: reductions by index, and parts and elements written into a copy.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

#include "support/gold_run.h"

static int dim(const gold_call *c, const char *name, int64_t otherwise) { return (int)gold_int(c, name, otherwise); }

typedef situ_tensor *(*reduction)(situ_tensor *, int, situ_tensor *, situ_tensor *, situ_scatter_reduction, bool);
static void reduced(gold_call *c, const char *src, reduction f) {
  static const char *const names[] = { "sum", "prod", "mean", "amax", "amin" };
  int how = 0;
  while (strcmp(names[how], gold_word(c, "reduce", "sum")) != 0) how++;
  c->out[0] = f(c->in[0], dim(c, "dim", 0), gold_in(c, "index"), gold_in(c, src), (situ_scatter_reduction)how,
                gold_bool(c, "include_self", true));
}
static void scatter_reduce(gold_call *c) { reduced(c, "src", situ_scatter_reduce); }
static void scatter_reduce_(gold_call *c) { reduced(c, "src", situ_scatter_reduce_); }
static void index_reduce(gold_call *c) { reduced(c, "source", situ_index_reduce); }
static void index_reduce_(gold_call *c) { reduced(c, "source", situ_index_reduce_); }

#define ELEMENTS c->in[0], c->in[1], c->in[2], gold_bool(c, "accumulate", false)
static void put(gold_call *c) { c->out[0] = situ_put(ELEMENTS); }
static void put_(gold_call *c) { c->out[0] = situ_put_(ELEMENTS); }
static void masked_scatter(gold_call *c) { c->out[0] = situ_masked_scatter(c->in[0], c->in[1], c->in[2]); }
static void masked_scatter_(gold_call *c) { c->out[0] = situ_masked_scatter_(c->in[0], c->in[1], c->in[2]); }

static void slice_scatter(gold_call *c) {
  c->out[0] = situ_slice_scatter(c->in[0], c->in[1], dim(c, "dim", 0), gold_int(c, "start", 0),
                                 gold_int(c, "end", INT64_MAX), gold_int(c, "step", 1));
}
static void select_scatter(gold_call *c) {
  c->out[0] = situ_select_scatter(c->in[0], c->in[1], dim(c, "dim", 0), gold_int(c, "index", 0));
}
static void diagonal_scatter(gold_call *c) {
  c->out[0] = situ_diagonal_scatter(c->in[0], c->in[1], gold_int(c, "offset", 0), dim(c, "dim1", 0), dim(c, "dim2", 1));
}

#define ROUNDED .steps = 4, .grad_steps = 6, .why = GOLD_ROUNDS
static const gold_op ops[] = {
  { "scatter_reduce", .run = scatter_reduce, ROUNDED },
  { "scatter_reduce_", .run = scatter_reduce_, ROUNDED },
  { "index_reduce", .run = index_reduce, ROUNDED },
  { "index_reduce_", .run = index_reduce_, ROUNDED },
  { "take", .two = situ_take },
  { "put", .run = put },
  { "put_", .run = put_ },
  { "masked_scatter", .run = masked_scatter },
  { "masked_scatter_", .run = masked_scatter_ },
  { "slice_scatter", .run = slice_scatter },
  { "select_scatter", .run = select_scatter },
  { "diagonal_scatter", .run = diagonal_scatter },
  { 0 },
};

static const gold_exception exceptions[] = {
  { "masked_scatter", "pick/empty", .device = "meta", .why = "asks for values, and meta has none" },
  { "masked_scatter_", "pick/empty", .device = "meta", .why = "asks for values, and meta has none" },
  { 0 },
};

int main(void) { return gold_main("scatters", ops, exceptions); }
