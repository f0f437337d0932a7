/* Golden values: reductions, scans and sorting.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

static situ_reduce_options options(const gold_call *c) {
  return (situ_reduce_options){ gold_list(c, "dim"), gold_bool(c, "keepdim", false), gold_dtype(c, "dtype") };
}

static void reduced(gold_call *c, situ_tensor *(*f)(situ_tensor *, const situ_reduce_options *)) {
  situ_reduce_options o = options(c);
  c->out[0] = f(c->in[0], &o);
}
static void sum(gold_call *c) { reduced(c, situ_sum); }
static void mean(gold_call *c) { reduced(c, situ_mean); }
static void prod(gold_call *c) { reduced(c, situ_prod); }
static void amin(gold_call *c) { reduced(c, situ_amin); }
static void amax(gold_call *c) { reduced(c, situ_amax); }
static void all(gold_call *c) { reduced(c, situ_all); }
static void any(gold_call *c) { reduced(c, situ_any); }
static void argmin(gold_call *c) { reduced(c, situ_argmin); }
static void argmax(gold_call *c) { reduced(c, situ_argmax); }
static void logsumexp(gold_call *c) { reduced(c, situ_logsumexp); }

static void spread(gold_call *c, situ_tensor *(*f)(situ_tensor *, double, const situ_reduce_options *)) {
  situ_reduce_options o = options(c);
  c->out[0] = f(c->in[0], gold_real(c, "correction", 1), &o);
}
static void var(gold_call *c) { spread(c, situ_var); }
static void std(gold_call *c) { spread(c, situ_std); }

static void norm(gold_call *c) {
  situ_reduce_options o = options(c);
  c->out[0] = situ_norm(c->in[0], gold_real(c, "p", 2), &o);
}

static void extreme(gold_call *c, situ_tensor *(*whole)(situ_tensor *),
                    situ_tensor *(*along)(situ_tensor *, int, bool, situ_tensor **)) {
  if (gold_has(c, "dim")) {
    c->out[0] = along(c->in[0], (int)gold_int(c, "dim", 0), gold_bool(c, "keepdim", false), &c->out[1]);
  } else {
    c->out[0] = whole(c->in[0]);
  }
}
static void min(gold_call *c) { extreme(c, situ_min, situ_min_dim); }
static void max(gold_call *c) { extreme(c, situ_max, situ_max_dim); }

static void cumsum(gold_call *c) { c->out[0] = situ_cumsum(c->in[0], (int)gold_int(c, "dim", 0)); }

static void sort(gold_call *c) {
  c->out[0] = situ_sort(c->in[0], (int)gold_int(c, "dim", -1), gold_bool(c, "descending", false), &c->out[1]);
}

static void argsort(gold_call *c) {
  c->out[0] = situ_argsort(c->in[0], (int)gold_int(c, "dim", -1), gold_bool(c, "descending", false));
}

static void topk(gold_call *c) {
  c->out[0] =
      situ_topk(c->in[0], gold_int(c, "k", 0), (int)gold_int(c, "dim", -1), gold_bool(c, "largest", true), &c->out[1]);
}

static const gold_op ops[] = {
  { "sum", .run = sum },
  { "mean", .run = mean },
  { "prod", .run = prod, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "var", .run = var, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "std", .run = std, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "amin", .run = amin },
  { "amax", .run = amax },
  { "min", .run = min },
  { "max", .run = max },
  { "argmin", .run = argmin },
  { "argmax", .run = argmax },
  { "all", .run = all },
  { "any", .run = any },
  { "norm", .run = norm, .grad_steps = 5, .why = GOLD_ROUNDS },
  { "logsumexp", .run = logsumexp },
  { "cumsum", .run = cumsum },
  { "sort", .run = sort },
  { "argsort", .run = argsort },
  { "topk", .run = topk },
  { 0 },
};

static const gold_exception exceptions[] = {
  { "norm", "f16/9", .why = "f16 and p = -2: |x|^(p - 2) overflows on the way, as in torch's formula" },
  { "all", .dtype = SITU_U8, .why = "bool for u8 too: torch's u8 is from before it had bool" },
  { "any", .dtype = SITU_U8, .why = "bool for u8 too: torch's u8 is from before it had bool" },
  { 0 },
};

int main(void) { return gold_main("reduce", ops, exceptions); }
