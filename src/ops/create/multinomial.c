/* Draws categories by their weights. With replacement: where a uniform number lies among the running sums. Without: the
   categories with the largest log(weight) + Gumbel noise, as by P. Efraimidis and P. Spirakis, "Weighted random
   sampling with a reservoir" (2006), whose keys u^(1 / weight) have the same order.
   SPDX-License-Identifier: MIT */
#include <float.h>

#include "base/fail.h"
#include "device/dry.h"
#include "ops/ops.h"

static const char op[] = "multinomial";

static situ_tensor *over_row(situ_tensor *(*reduce)(situ_tensor *, const situ_reduce_options *), situ_tensor *w) {
  return reduce(w, &(situ_reduce_options){ .dim = SITU_DIMS(-1) });
}

/* Every row has a finite sum, nothing negative, and `least` weights above 0. Two answers from the device. */
static bool are_weights(situ_tensor *w, int64_t least) {
  if (w->view.storage->device.kind == SITU_META || situ__is_dry()) return true;
  situ_tensor *good = situ_logical_and(situ_isfinite(over_row(situ_sum, w)), over_row(situ_all, situ_ge_scalar(w, 0)));
  situ_tensor *many = situ_ge_scalar(situ_count_nonzero(w, SITU_DIMS(-1)), (double)least);
  int64_t valid = 0, enough = 0;
  if (situ_item_i64(situ_all(good, NULL), &valid) != SITU_OK || situ_item_i64(situ_all(many, NULL), &enough) != SITU_OK)
    return false;
  if (!valid)
    situ__fail(SITU_E_ARG, op, "input has a weight that is negative or NaN, or a row whose sum is not finite");
  else if (!enough)
    situ__fail(SITU_E_ARG, op, "input has a row with less than %lld weights above 0%s", (long long)least,
               least > 1 ? ", as many as are drawn without replacement" : "");
  return valid && enough;
}

static situ_tensor *with_replacement(situ_tensor *w, situ_shape drawn, const situ_options *like) {
  situ_tensor *sums = situ_cumsum(w, -1), *total = situ_narrow(sums, -1, situ_size(w, -1) - 1, 1);
  situ_tensor *below = situ_nextafter(total, situ_zeros_like(total, NULL)); /* a product may round up to the total */
  situ_tensor *place = situ_minimum(situ_mul(situ_rand(drawn, like), total), below);
  return situ_searchsorted(sums, place, true);
}

/* A weight of 0 has the key -infinity; the noise of others is finite. */
static situ_tensor *without_replacement(situ_tensor *w, int64_t num_samples, const situ_options *like) {
  situ_tensor *uniform = situ_clamp(situ_rand(situ_shape_of(w), like), FLT_MIN, 1);
  situ_tensor *noise = situ_neg(situ_log(situ_neg(situ_log(uniform))));
  situ_tensor *indices = NULL;
  situ_tensor *keys = situ_topk(situ_add(situ_log(w), noise), num_samples, -1, true, &indices);
  return keys ? indices : NULL;
}

static bool has_shape(const situ_tensor *x, int64_t num_samples, bool replacement) {
  const int ndim = x->view.ndim;
  const int64_t n = ndim ? x->view.size[ndim - 1] : 0;
  const situ_shape shape = situ__shape(&x->view);
  char text[SITU_SHAPE_TEXT];
  if (ndim < 1 || ndim > 2 || n < 1)
    situ__fail(SITU_E_SHAPE, op, "input is %s, must be weights [n] or [rows, n]", situ_shape_text(&shape, text));
  else if (num_samples < 1 || (!replacement && num_samples > n))
    situ__fail(SITU_E_ARG, op, "%lld samples of %lld categories%s", (long long)num_samples, (long long)n,
               num_samples < 1 ? ": at least 1" : ": without replacement at most as many");
  else return true;
  return false;
}

situ_tensor *situ_multinomial(situ_tensor *input, int64_t num_samples, bool replacement, situ_generator *generator) {
  SITU__MADE_OF_OPS(op);
  if (!situ__need(op, "input", input)) return NULL;
  const situ_dtype dtype = (situ_dtype)input->view.dtype;
  if (!situ_dtype_is_floating(dtype))
    return situ__fail(SITU_E_DTYPE, op, "input is %s, must be floating", situ_dtype_name(dtype)), NULL;
  if (!has_shape(input, num_samples, replacement)) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *w = situ_to_dtype(input, situ__wide(dtype)), *drawn = NULL;
  if (w && are_weights(w, replacement ? 1 : num_samples)) {
    const situ_options like = { .dtype = situ__wide(dtype),
                                .device = input->view.storage->device,
                                .generator = generator };
    situ_shape shape = situ__shape(&input->view);
    shape.dim[shape.ndim - 1] = num_samples;
    drawn = replacement ? with_replacement(w, shape, &like) : without_replacement(w, num_samples, &like);
  }
  return situ_scope_return(&s, drawn);
}
