/* Golden values: picking and placing by index.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static int dim(const gold_call *c) { return (int)gold_int(c, "dim", 0); }

static void index_select(gold_call *c) { c->out[0] = situ_index_select(c->in[0], dim(c), gold_in(c, "index")); }
static void gather(gold_call *c) { c->out[0] = situ_gather(c->in[0], dim(c), gold_in(c, "index")); }
static void take_along_dim(gold_call *c) { c->out[0] = situ_take_along_dim(c->in[0], gold_in(c, "indices"), dim(c)); }

static void placed(gold_call *c, situ_tensor *(*f)(situ_tensor *, int, situ_tensor *, situ_tensor *)) {
  c->out[0] = f(c->in[0], dim(c), gold_in(c, "index"), gold_in(c, "src"));
}
static void scatter(gold_call *c) {
  if (gold_has(c, "value")) {
    c->out[0] = situ_scatter_value(c->in[0], dim(c), gold_in(c, "index"), gold_real(c, "value", 0));
  } else {
    placed(c, situ_scatter);
  }
}
static void scatter_(gold_call *c) { placed(c, situ_scatter_); }
static void scatter_add(gold_call *c) { placed(c, situ_scatter_add); }
static void scatter_add_(gold_call *c) { placed(c, situ_scatter_add_); }

static void added(gold_call *c, situ_tensor *(*f)(situ_tensor *, int, situ_tensor *, situ_tensor *, double)) {
  c->out[0] = f(c->in[0], dim(c), gold_in(c, "index"), gold_in(c, "source"), gold_real(c, "alpha", 1));
}
static void index_add(gold_call *c) { added(c, situ_index_add); }
static void index_add_(gold_call *c) { added(c, situ_index_add_); }

static void filled(gold_call *c, situ_tensor *(*f)(situ_tensor *, situ_tensor *, double)) {
  c->out[0] = f(c->in[0], gold_in(c, "mask"), gold_real(c, "value", 0));
}
static void masked_fill(gold_call *c) { filled(c, situ_masked_fill); }
static void masked_fill_(gold_call *c) { filled(c, situ_masked_fill_); }

static void embedding(gold_call *c) {
  situ_embedding_options options = OPTIONS_OF(situ_embedding, with.has_padding_idx = gold_has(c, "padding_idx"),
                                              with.padding_idx = gold_int(c, "padding_idx", 0));
  c->out[0] = situ_embedding(gold_in(c, "input"), gold_in(c, "weight"), &options);
}

static void one_hot(gold_call *c) { c->out[0] = situ_one_hot(c->in[0], gold_int(c, "num_classes", -1)); }

static const gold_op ops[] = {
  { "index_select", .run = index_select },
  { "gather", .run = gather },
  { "take_along_dim", .run = take_along_dim },
  { "scatter", .run = scatter },
  { "scatter_", .run = scatter_ },
  { "scatter_add", .run = scatter_add },
  { "scatter_add_", .run = scatter_add_ },
  { "index_add", .run = index_add },
  { "index_add_", .run = index_add_ },
  { "masked_fill", .run = masked_fill },
  { "masked_fill_", .run = masked_fill_ },
  { "masked_select", .two = situ_masked_select },
  { "nonzero", .one = situ_nonzero },
  { "embedding", .run = embedding },
  { "one_hot", .run = one_hot },
  { 0 },
};

#define NO_VALUES "the size depends on values, and meta has none"
static const gold_exception exceptions[] = {
  { "masked_select", .device = "meta", .why = NO_VALUES },
  { "nonzero", .device = "meta", .why = NO_VALUES },
  { "one_hot", .device = "meta", .unless = "num_classes", .why = NO_VALUES },
  { 0 },
};

int main(void) { return gold_main("index", ops, exceptions); }
