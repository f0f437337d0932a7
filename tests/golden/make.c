/* Golden values: factories.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static void made(gold_call *c, situ_tensor *(*f)(situ_shape, const situ_options *)) {
  situ_options options = gold_options(c);
  c->out[0] = f(gold_list(c, "size"), &options);
}
static void empty(gold_call *c) { made(c, situ_empty); }
static void zeros(gold_call *c) { made(c, situ_zeros); }
static void ones(gold_call *c) { made(c, situ_ones); }
static void rand_(gold_call *c) { made(c, situ_rand); }
static void randn(gold_call *c) { made(c, situ_randn); }

/* The device is stated only where an input does not say it. */
static void like(gold_call *c, situ_tensor *(*f)(situ_tensor *, const situ_options *)) {
  c->out[0] = f(c->in[0], &(situ_options){ .dtype = gold_dtype(c, "dtype") });
}
static void empty_like(gold_call *c) { like(c, situ_empty_like); }
static void zeros_like(gold_call *c) { like(c, situ_zeros_like); }
static void ones_like(gold_call *c) { like(c, situ_ones_like); }
static void rand_like(gold_call *c) { like(c, situ_rand_like); }
static void randn_like(gold_call *c) { like(c, situ_randn_like); }

static void full(gold_call *c) {
  situ_options options = gold_options(c);
  c->out[0] = situ_full(gold_list(c, "size"), gold_real(c, "fill_value", 0), &options);
}

static void full_like(gold_call *c) {
  c->out[0] =
      situ_full_like(c->in[0], gold_real(c, "fill_value", 0), &(situ_options){ .dtype = gold_dtype(c, "dtype") });
}

static void arange(gold_call *c) {
  situ_options options = gold_options(c);
  double start = gold_real(c, "start", 0), end = gold_real(c, "end", 0);
  bool one = !gold_has(c, "end");
  c->out[0] = situ_arange(one ? 0 : start, one ? start : end, gold_real(c, "step", 1), &options);
}

static void linspace(gold_call *c) {
  situ_options options = gold_options(c);
  c->out[0] = situ_linspace(gold_real(c, "start", 0), gold_real(c, "end", 0), gold_int(c, "steps", 0), &options);
}

static void eye(gold_call *c) {
  situ_options options = gold_options(c);
  c->out[0] = situ_eye(gold_int(c, "n", 0), gold_int(c, "m", -1), &options);
}

static void randint(gold_call *c) {
  situ_options options = gold_options(c);
  c->out[0] = situ_randint(gold_int(c, "low", 0), gold_int(c, "high", 0), gold_list(c, "size"), &options);
}

static void randint_like(gold_call *c) {
  bool one = !gold_has(c, "high");
  int64_t low = gold_int(c, "low", 0), high = gold_int(c, "high", 0);
  c->out[0] =
      situ_randint_like(c->in[0], one ? 0 : low, one ? low : high, &(situ_options){ .dtype = gold_dtype(c, "dtype") });
}

static void randperm(gold_call *c) {
  situ_options options = gold_options(c);
  c->out[0] = situ_randperm(gold_int(c, "n", 0), &options);
}

static void bernoulli(gold_call *c) { c->out[0] = situ_bernoulli(c->in[0], NULL); }
static void tril(gold_call *c) { c->out[0] = situ_tril(c->in[0], gold_int(c, "diagonal", 0)); }
static void triu(gold_call *c) { c->out[0] = situ_triu(c->in[0], gold_int(c, "diagonal", 0)); }

static const gold_op ops[] = {
  { "empty", .run = empty },
  { "zeros", .run = zeros },
  { "ones", .run = ones },
  { "rand", .run = rand_ },
  { "randn", .run = randn },
  { "randint", .run = randint },
  { "randperm", .run = randperm },
  { "bernoulli", .run = bernoulli },
  { "full", .run = full },
  { "arange", .run = arange },
  { "linspace", .run = linspace },
  { "eye", .run = eye },
  { "empty_like", .run = empty_like },
  { "zeros_like", .run = zeros_like },
  { "ones_like", .run = ones_like },
  { "full_like", .run = full_like },
  { "rand_like", .run = rand_like },
  { "randn_like", .run = randn_like },
  { "randint_like", .run = randint_like },
  { "tril", .run = tril },
  { "triu", .run = triu },
  { "fill_", .scalar = situ_fill_ },
  { "zero_", .one = situ_zero_ },
  { 0 },
};

int main(void) { return gold_main("make", ops, NULL); }
