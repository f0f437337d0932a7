/* torch.func.vmap: a function of one sample, run once for all of them. ops/samples.h has the mechanism.
   SPDX-License-Identifier: MIT */
#include "autograd/tangent.h"
#include "base/fail.h"
#include "func/dual.h"
#include "func/function.h"
#include "ops/samples.h"
#include "situ/func.h"
#include "situ/ops.h"

enum { MOST = SITU__PRIMALS }; /* operands, and results */

typedef struct mapped {
  const char *op;
  int count;
  situ_tensor *const *in;
  const int *in_dims;
  int out_dim;
} mapped;

static int in_dim(const mapped *m, int i) { return m->in_dims ? m->in_dims[i] : 0; }

/* The number of samples, which all operands that have some must agree on; -1 after recording an error. */
static int64_t samples_of(const mapped *m) {
  int64_t samples = -1;
  int d, first = 0;
  for (int i = 0; i < m->count; i++) {
    if (!situ__need(m->op, "in", m->in[i])) return -1;
    if (in_dim(m, i) == SITU_FUNC_WHOLE) continue;
    if (!m->in[i]->view.ndim)
      return situ__fail(SITU_E_SHAPE, m->op,
                        "in[%d] has no dimension; with in_dims[%d] = SITU_FUNC_WHOLE it is the "
                        "same for all samples",
                        i, i),
             -1;
    if (!situ_wrap_dim(m->op, in_dim(m, i), m->in[i]->view.ndim, &d)) return -1;
    const int64_t size = m->in[i]->view.size[d];
    if (samples < 0) first = i, samples = size;
    if (size == samples) continue;
    return situ__fail(SITU_E_SHAPE, m->op, "in[%d] has %lld samples, and in[%d] has %lld", first, (long long)samples, i,
                      (long long)size),
           -1;
  }
  if (samples > 0 && samples <= INT32_MAX) return samples;
  if (samples < 0) situ__fail(SITU_E_ARG, m->op, "all in_dims are SITU_FUNC_WHOLE: no operand has samples");
  else situ__fail(SITU_E_SHAPE, m->op, "%lld samples", (long long)samples);
  return -1;
}

/* ---- inside situ_func_jvp: a sample of what has a tangent has the sample of the tangent ---- */

/* t's tangent among the tensors of `level`; NULL: it has none. *good turns false after recording an error. */
static situ_tensor *tangent_at(situ__samples *level, situ_tensor *t, bool *good) {
  situ__samples *now = situ__sampling;
  situ__sampling = level;
  situ__forward_mode = SITU__FORWARD_INSIDE;
  situ_tensor *tangent = situ__dual_tangent(t, good);
  situ__forward_mode = SITU__FORWARD_ON;
  situ__sampling = now;
  return *good ? tangent : NULL;
}

static bool pick_tangent(const mapped *m, situ__samples *s, situ_tensor *whole, situ_tensor *one) {
  bool good = true;
  if (situ__forward_mode != SITU__FORWARD_ON) return true;
  situ_tensor *tangent = tangent_at(s->outer, whole, &good);
  if (!tangent) return good;
  return (tangent = situ__sample_of(m->op, s, tangent)) && situ__tangent_set(m->op, one, tangent);
}

/* All samples of y's tangent, which may differ where those of y are the same, are that of the result. */
static bool collect_tangent(const mapped *m, situ__samples *s, situ_tensor *y, situ_tensor *result) {
  bool good = true, batched;
  if (situ__forward_mode != SITU__FORWARD_ON) return true;
  situ_tensor *tangent = tangent_at(s, y, &good);
  if (!tangent) return good;
  situ__forward_mode = SITU__FORWARD_INSIDE;
  tangent = situ__whole_of(m->op, s, tangent, &batched);
  situ__sampling = s->outer;
  if (tangent && !batched) tangent = situ__samples_repeat(m->op, tangent, s->count);
  if (tangent) tangent = situ_movedim(tangent, SITU_DIMS(0), SITU_DIMS(m->out_dim));
  good = tangent && situ__tangent_set(m->op, result, tangent);
  situ__sampling = s;
  situ__forward_mode = SITU__FORWARD_ON;
  return good;
}

/* One sample of each operand. */
static bool pick_samples(const mapped *m, situ__samples *s, situ_tensor **one) {
  for (int i = 0; i < m->count; i++) {
    one[i] = m->in[i];
    if (in_dim(m, i) == SITU_FUNC_WHOLE) continue;
    situ__sampling = s->outer;
    situ_tensor *whole = situ_movedim(m->in[i], SITU_DIMS(in_dim(m, i)), SITU_DIMS(0));
    situ__sampling = s;
    if (!whole || !(one[i] = situ__sample_of(m->op, s, whole)) || !pick_tangent(m, s, whole, one[i])) return false;
  }
  return true;
}

/* All samples of a result, at out_dim. */
static situ_tensor *collect(const mapped *m, situ__samples *s, situ_tensor *y) {
  bool batched;
  situ_tensor *whole = situ__need(m->op, "result", y) ? situ__whole_of(m->op, s, y, &batched) : NULL;
  if (!whole) return NULL;
  situ__sampling = s->outer;
  if (!batched) whole = situ__samples_repeat(m->op, whole, s->count);
  if (whole) whole = situ_movedim(whole, SITU_DIMS(0), SITU_DIMS(m->out_dim));
  if (whole && y->first_order && (whole = situ_detach(whole))) whole->first_order = true; /* as in one sample */
  situ__sampling = s;
  return whole && collect_tangent(m, s, y, whole) ? whole : NULL;
}

/* Runs the function in a scope of its own, of which the results alone are left. */
static bool run(const mapped *m, situ_func_many function, void *payload, situ_tensor **out, int outs) {
  situ_tensor *one[MOST];
  situ__samples s;
  situ_scope scope;
  if (m->count < 1 || m->count > MOST || outs < 1 || outs > MOST)
    return situ__fail(SITU_E_ARG, m->op, "%d operands and %d results, must be 1 to %d", m->count, outs, MOST), false;
  if (!m->in || !out) return situ__null(m->op, m->in ? "out" : "in"), false;
  if (!situ__apart(m->op, "in and out", m->in, m->count, out, outs)) return false;
  for (int k = 0; k < outs; k++) out[k] = NULL;
  const int64_t samples = samples_of(m);
  if (samples < 0) return false;
  situ__scope_begin_as(&scope, situ__recording());
  situ__samples_begin(&s, samples);
  const uint64_t errors = situ__error_count();
  bool good = pick_samples(m, &s, one) && function(one, m->count, out, outs, payload) == SITU_OK &&
              situ__error_count() == errors;
  if (!good && situ__error_count() == errors) situ__fail(SITU_E_STATE, m->op, "the function failed without an error");
  for (int k = 0; k < outs; k++) out[k] = good && (out[k] = collect(m, &s, out[k])) ? out[k] : (good = false, NULL);
  situ__samples_end(&s);
  for (int k = 0; k < outs; k++) good = good && situ_escape(&scope, out[k]) != NULL;
  good = situ_scope_end(&scope) == SITU_OK && good;
  for (int k = 0; !good && k < outs; k++) out[k] = NULL;
  return good;
}

situ_status situ_func_vmap_many(situ_func_many function, void *payload, int count, situ_tensor *const *in,
                                const int *in_dims, int out_dim, int outs, situ_tensor **out) {
  const char *op = "func_vmap_many";
  if (!function) return situ__null(op, "function");
  return run(&(mapped){ op, count, in, in_dims, out_dim }, function, payload, out, outs) ? SITU_OK : situ_error();
}

/* ---- of one result ---- */

typedef struct single {
  situ_func function;
  void *payload;
} single;

static situ_status run_single(situ_tensor *const *in, int count, situ_tensor **out, int outs, void *payload) {
  const single *s = payload;
  (void)outs;
  out[0] = situ__func_value("func_vmap", s->function, s->payload, count, in);
  return out[0] ? SITU_OK : situ_error();
}

situ_tensor *situ_func_vmap(situ_func function, void *payload, int count, situ_tensor *const *in, const int *in_dims,
                            int out_dim) {
  const char *op = "func_vmap";
  situ_tensor *out = NULL;
  if (!function) return situ__null(op, "function"), NULL;
  single s = { function, payload };
  return run(&(mapped){ op, count, in, in_dims, out_dim }, run_single, &s, &out, 1) ? out : NULL;
}
