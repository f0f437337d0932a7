/* Golden values from PyTorch 2.15: searching, counting, ranks and statistics.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include <string.h>

#include "support/gold_run.h"

static int dim(const gold_call *c, int64_t otherwise) { return (int)gold_int(c, "dim", otherwise); }
static bool keepdim(const gold_call *c) { return gold_bool(c, "keepdim", false); }
static situ_reduce_options options(const gold_call *c) {
  return (situ_reduce_options){ gold_list(c, "dim"), keepdim(c), gold_dtype(c, "dtype") };
}

/* ---- ranks ---- */

static void kthvalue(gold_call *c) {
  c->out[0] = situ_kthvalue(c->in[0], gold_int(c, "k", 1), dim(c, -1), keepdim(c), NULL);
}
static void middle(gold_call *c, situ_tensor *(*whole)(situ_tensor *),
                   situ_tensor *(*along)(situ_tensor *, int, bool, situ_tensor **)) {
  c->out[0] = gold_has(c, "dim") ? along(c->in[0], dim(c, 0), keepdim(c), NULL) : whole(c->in[0]);
}
static void median(gold_call *c) { middle(c, situ_median, situ_median_dim); }
static void nanmedian(gold_call *c) { middle(c, situ_nanmedian, situ_nanmedian_dim); }
static void mode(gold_call *c) { c->out[0] = situ_mode(c->in[0], dim(c, -1), keepdim(c), NULL); }
static void cummax(gold_call *c) { c->out[0] = situ_cummax(c->in[0], dim(c, 0), &c->out[1]); }
static void cummin(gold_call *c) { c->out[0] = situ_cummin(c->in[0], dim(c, 0), &c->out[1]); }

static void at_quantile(gold_call *c, situ_tensor *(*f)(situ_tensor *, double, const situ_reduce_options *,
                                                        situ_quantile_interpolation)) {
  static const char *const names[] = { "linear", "lower", "higher", "midpoint", "nearest" };
  const situ_reduce_options o = options(c);
  int how = 0;
  while (strcmp(names[how], gold_word(c, "interpolation", "linear")) != 0) how++;
  c->out[0] = f(c->in[0], gold_real(c, "q", 0), &o, (situ_quantile_interpolation)how);
}
static void quantile(gold_call *c) { at_quantile(c, situ_quantile); }
static void nanquantile(gold_call *c) { at_quantile(c, situ_nanquantile); }

/* ---- reductions ---- */

static void count_nonzero(gold_call *c) { c->out[0] = situ_count_nonzero(c->in[0], gold_list(c, "dim")); }
static void nansum(gold_call *c) {
  const situ_reduce_options o = options(c);
  c->out[0] = situ_nansum(c->in[0], &o);
}
static void nanmean(gold_call *c) {
  const situ_reduce_options o = options(c);
  c->out[0] = situ_nanmean(c->in[0], &o);
}
static void aminmax(gold_call *c) {
  const situ_reduce_options o = options(c);
  c->out[0] = situ_aminmax(c->in[0], &o, &c->out[1]);
}
static void var_mean(gold_call *c) {
  const situ_reduce_options o = options(c);
  c->out[0] = situ_var_mean(c->in[0], gold_real(c, "correction", 1), &o, &c->out[1]);
}
static void std_mean(gold_call *c) {
  const situ_reduce_options o = options(c);
  c->out[0] = situ_std_mean(c->in[0], gold_real(c, "correction", 1), &o, &c->out[1]);
}
static void diff(gold_call *c) { c->out[0] = situ_diff(c->in[0], gold_int(c, "n", 1), dim(c, -1)); }
static void cdist(gold_call *c) { c->out[0] = situ_cdist(c->in[0], gold_in(c, "x2"), gold_real(c, "p", 2)); }
static void renorm(gold_call *c) {
  c->out[0] = situ_renorm(c->in[0], gold_real(c, "p", 2), dim(c, 0), gold_real(c, "maxnorm", 0));
}

/* ---- searching and counting ---- */

static bool right(const gold_call *c) { return gold_bool(c, "right", false); }
static void searchsorted(gold_call *c) { c->out[0] = situ_searchsorted(c->in[0], gold_in(c, "values"), right(c)); }
static void bucketize(gold_call *c) { c->out[0] = situ_bucketize(c->in[0], gold_in(c, "boundaries"), right(c)); }
static void isin(gold_call *c) {
  c->out[0] = situ_isin(c->in[0], gold_in(c, "test_elements"), gold_bool(c, "invert", false));
}
static void unique(gold_call *c) { c->out[0] = situ_unique(c->in[0], &c->out[1], &c->out[2]); }
static void unique_consecutive(gold_call *c) { c->out[0] = situ_unique_consecutive(c->in[0], &c->out[1], &c->out[2]); }
static void bincount(gold_call *c) {
  c->out[0] = situ_bincount(c->in[0], gold_in(c, "weights"), gold_int(c, "minlength", 0));
}
static void histc(gold_call *c) {
  c->out[0] = situ_histc(c->in[0], gold_int(c, "bins", 100), gold_real(c, "min", 0), gold_real(c, "max", 0));
}

static const gold_op ops[] = {
  { "kthvalue", .run = kthvalue },
  { "median", .run = median },
  { "nanmedian", .run = nanmedian },
  { "mode", .run = mode },
  { "cummax", .run = cummax },
  { "cummin", .run = cummin },
  { "msort", .one = situ_msort },
  { "quantile", .run = quantile, .steps = 3, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "nanquantile", .run = nanquantile, .steps = 3, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "count_nonzero", .run = count_nonzero },
  { "nansum", .run = nansum },
  { "nanmean", .run = nanmean, .steps = 2, .grad_steps = 2, .why = GOLD_ROUNDS },
  { "aminmax", .run = aminmax },
  { "var_mean", .run = var_mean, .grad_steps = 3, .why = GOLD_ROUNDS },
  { "std_mean", .run = std_mean, .grad_steps = 4, .why = GOLD_ROUNDS },
  { "diff", .run = diff },
  { "cdist", .run = cdist, .steps = 2, .grad_steps = 5, .why = GOLD_ROUNDS },
  { "renorm", .run = renorm, .steps = 3, .grad_steps = 6, .why = GOLD_ROUNDS },
  { "searchsorted", .run = searchsorted },
  { "bucketize", .run = bucketize },
  { "isin", .run = isin },
  { "unique", .run = unique },
  { "unique_consecutive", .run = unique_consecutive },
  { "bincount", .run = bincount },
  { "histc", .run = histc },
  { 0 },
};

#define NO_VALUES "the size depends on values, and meta has none"
static const gold_exception exceptions[] = {
  { "unique", .device = "meta", .why = NO_VALUES },
  { "unique_consecutive", .device = "meta", .why = NO_VALUES },
  { "bincount", .device = "meta", .why = NO_VALUES },
  { "histc", .device = "meta", .where = "max", .is = 0, .why = "the range depends on values, and meta has none" },
  { 0 },
};

int main(void) { return gold_main("statistics", ops, exceptions); }
