/* Calls of situ_func_vmap, and the rules that many ops share. Rules of single ops stand beside the ops.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "ops/ops.h"
#include "ops/samples.h"

/* ---- from samples to wholes and back ---- */

/* The wholes of a call's operands, for the time of a call on them. */
typedef struct lifted {
  const char *op;
  situ__samples *level, *inner;
  situ_scope scope;
  uint8_t mode;
  situ_tensor *few[SITU_OPERANDS], **in;
  bool few_batched[SITU_OPERANDS], *batched;
  bool any;   /* at least one operand differs between samples */
  bool keeps; /* backward will need what the call can keep */
} lifted;

static bool lift(lifted *l, const char *op, situ_tensor *const *in, int ins) {
  *l = (lifted){ .op = op, .level = situ__samples_level(in, ins), .inner = situ__sampling };
  if (!l->level)
    return situ__fail(SITU_E_STATE, op,
                      "an operand is a sample of a situ_func_vmap that has ended, or of another thread's"),
           false;
  l->in = l->few;
  l->batched = l->few_batched;
  if (ins > SITU_OPERANDS) {
    const size_t bytes = (size_t)ins * (sizeof *l->in + sizeof *l->batched);
    if (!(l->in = situ__alloc(bytes))) {
      l->level = NULL; /* nothing has begun */
      return situ__no_memory(op, bytes), false;
    }
    l->batched = (bool *)(l->in + ins);
  }
  situ__sampling = l->level->outer;
  l->mode = situ__forward_mode;
  for (int i = 0; i < ins; i++) l->keeps |= situ__keeps(in[i]);
  if (l->keeps) situ__forward_mode = SITU__FORWARD_INSIDE; /* then calls on wholes keep what backward needs, too */
  situ__scope_begin_as(&l->scope, l->level->records);
  bool good = true;
  for (int i = 0; i < ins; i++) {
    l->batched[i] = false;
    l->in[i] = good && in[i] ? situ__whole_of(op, l->level, in[i], &l->batched[i]) : NULL;
    good = good && (l->in[i] || !in[i]);
    l->any |= l->batched[i];
  }
  return good;
}

/* Ends what lift has begun, also if that has failed; the wholes of results become samples. */
static bool lower(lifted *l, bool good, situ_tensor **out, int outs) {
  if (!l->level) return false;
  const bool kept = good;
  for (int k = 0; k < outs; k++)
    if (kept && out[k]) situ_retain(out[k]);
  if (l->in != l->few) situ__free(l->in);
  const bool ended = situ_scope_end(&l->scope) == SITU_OK;
  situ__sampling = l->inner;
  situ__forward_mode = l->mode;
  for (int k = 0; k < outs; k++) {
    situ_tensor *whole = kept ? out[k] : NULL;
    out[k] = NULL;
    if (whole && good && ended && !(out[k] = situ__sample_of(l->op, l->level, whole))) good = false;
    situ_release(whole);
  }
  return good && ended;
}

/* ---- one call for each sample ---- */

typedef bool (*run_sample)(situ_tensor *const *in, situ_tensor **out, const void *context);

/* in[] of sample k. */
static bool pick_sample(situ_tensor *const *in, const bool *batched, int ins, int64_t k, situ_tensor **one) {
  for (int i = 0; i < ins; i++) {
    one[i] = in[i];
    if (in[i] && batched[i] && !(one[i] = situ_select(in[i], 0, k))) return false;
  }
  return true;
}

/* Results of single samples; joins them to out[]. */
static bool run_each(const char *op, int64_t samples, situ_tensor *const *in, const bool *batched, int ins,
                     situ_tensor **out, int outs, run_sample run, const void *context) {
  const size_t count = (size_t)ins + (size_t)outs * (size_t)samples, bytes = count * sizeof *in;
  situ_tensor **one = situ__alloc(bytes), **result = one + ins, *got[SITU_OPERANDS + 1];
  if (!one) return situ__no_memory(op, bytes), false;
  bool good = true;
  for (int64_t k = 0; good && k < samples; k++) {
    for (int r = 0; r < outs; r++) got[r] = NULL;
    good = pick_sample(in, batched, ins, k, one) && run(one, got, context);
    for (int r = 0; r < outs; r++) result[r * samples + k] = got[r];
  }
  for (int r = 0; r < outs; r++) {
    out[r] = NULL;
    if (good && result[r * samples]) good = (out[r] = situ_stack(&result[r * samples], (int)samples, 0)) != NULL;
  }
  situ__free(one);
  return good;
}

bool situ__each_sample(const char *op, situ_tensor *const *in, int ins, situ_tensor **out, int outs, run_sample run,
                       const void *context) {
  lifted l;
  bool good = lift(&l, op, in, ins);
  good = good && run_each(op, l.level->count, l.in, l.batched, ins, out, outs, run, context);
  return lower(&l, good, out, outs);
}

situ_tensor *situ__map_samples(const char *op, situ_tensor *const *in, int ins,
                               situ_tensor *(*map)(situ_tensor *const *in, const void *context), const void *context) {
  lifted l;
  situ_tensor *out = NULL;
  bool good = lift(&l, op, in, ins);
  for (int i = 0; good && i < ins; i++) {
    if (!l.in[i] || l.batched[i]) continue;
    /* One long row is faster than many short ones. */
    good = (l.in[i] = situ__samples_repeat(op, l.in[i], l.level->count)) && (l.in[i] = situ_clone(l.in[i]));
  }
  good = good && (out = map(l.in, context)) != NULL;
  return lower(&l, good, &out, 1) ? out : NULL;
}

/* ---- rules ---- */

/* For callers outside of a call. */
static bool is_complete(const char *name, const situ_batch_call *c) {
  if (!situ__given(name, "call", c) || !situ__given(name, "call->op", c->op)) return false;
  if (c->in && c->batched && c->shape && c->dtype && c->out && c->samples > 0 && c->ins > 0 && c->outs > 0 &&
      c->outs <= SITU_RESULTS && (c->params || !c->op->params_size))
    return true;
  return situ__fail(SITU_E_ARG, name, "a call that is not complete: it is the one that a rule gets"), false;
}

bool situ_batch_run(situ_batch_call *call, situ_tensor *const *in, const void *params) {
  if (!is_complete("batch_run", call) || !situ__given("batch_run", "in", in)) return false;
  if (!params) params = call->params;
  if (call->in_place) return (call->out[0] = situ_op_run_(call->op, in, call->ins, params)) != NULL;
  return situ_op_run(call->op, in, call->ins, params, call->out) != NULL;
}

static bool run_one(situ_tensor *const *in, situ_tensor **out, const void *context) {
  situ_batch_call one = *(const situ_batch_call *)context;
  one.out = out;
  return situ_batch_run(&one, in, NULL);
}

bool situ_batch_each(situ_batch_call *call) {
  if (!is_complete("batch_each", call)) return false;
  if (!call->in_place)
    return run_each(call->op->name, call->samples, call->in, call->batched, call->ins, call->out, call->outs, run_one,
                    call);
  situ_tensor *rest[SITU_RESULTS];
  call->out[0] = call->in[0];
  return run_each(call->op->name, call->samples, call->in, call->batched, call->ins, rest, 0, run_one, call);
}

/* Number of dimensions of one sample of operand i. */
static int rank_of(const situ_batch_call *c, int i) { return c->in[i]->view.ndim - c->batched[i]; }

/* x, whose dimension 0 counts the samples, with as many further dimensions as `rank`: those of size 1 come first. */
static situ_tensor *with_rank(situ_tensor *x, int rank) {
  situ_shape shape = { .ndim = 1, .dim = { x->view.size[0] } };
  if (x->view.ndim > rank) return x;
  while (shape.ndim + x->view.ndim - 1 < rank + 1) shape.dim[shape.ndim++] = 1;
  for (int d = 1; d < x->view.ndim; d++) shape.dim[shape.ndim++] = x->view.size[d];
  return situ_reshape(x, shape);
}

/* A tensor without dimensions does not take part in the choice of the result's dtype, but a vector of samples does. */
static bool keep_dtype(situ_batch_call *c) {
  if (c->in_place || (situ_dtype)c->out[0]->view.dtype == c->dtype[0]) return true;
  return (c->out[0] = situ_to_dtype(c->out[0], c->dtype[0])) != NULL;
}

bool situ_batch_broadcast(situ_batch_call *call) {
  situ_tensor *in[SITU_OPERANDS];
  int rank = 0;
  if (!is_complete("batch_broadcast", call)) return false;
  if (call->ins > SITU_OPERANDS) return situ_batch_each(call);
  for (int i = 0; i < call->ins; i++)
    if (call->in[i] && rank_of(call, i) > rank) rank = rank_of(call, i);
  for (int i = 0; i < call->ins; i++) {
    in[i] = call->in[i];
    if (call->in[i] && call->batched[i] && !(in[i] = with_rank(call->in[i], rank))) return false;
  }
  return situ_batch_run(call, in, NULL) && keep_dtype(call);
}

situ_tensor *situ__batch_result(const situ_batch_call *c, situ_tensor *t, int k) {
  situ_shape shape;
  return situ__samples_shape(c->op->name, &c->shape[k], c->samples, &shape) ? situ_reshape(t, shape) : NULL;
}

/* Statistics of rows may be one vector. */
static bool shape_results(situ_batch_call *c) {
  for (int k = 0; !c->in_place && k < c->outs; k++)
    if (c->out[k] && c->dtype[k] && !(c->out[k] = situ__batch_result(c, c->out[k], k))) return false;
  return true;
}

bool situ_batch_leading(situ_batch_call *call) {
  if (!is_complete("batch_leading", call)) return false;
  for (int i = 1; i < call->ins; i++)
    if (call->batched[i]) return situ_batch_each(call);
  return situ_batch_run(call, call->in, NULL) && shape_results(call);
}

bool situ_batch_fold(situ_batch_call *call) {
  situ_tensor *in[SITU_OPERANDS];
  if (!is_complete("batch_fold", call)) return false;
  bool others = call->ins > SITU_OPERANDS || call->in_place;
  for (int i = 1; i < call->ins && !others; i++) {
    others = call->batched[i];
    in[i] = call->in[i];
  }
  if (others || !call->batched[0]) return situ_batch_each(call);
  return (in[0] = situ_flatten(call->in[0], 0, 1)) && situ_batch_run(call, in, NULL) && shape_results(call);
}

bool situ__batch_dim(situ_batch_call *c, size_t at) {
  _Alignas(double) char params[64];
  int dim;
  if (!rank_of(c, 0) || c->op->params_size > sizeof params) return situ_batch_each(c);
  memcpy(params, c->params, c->op->params_size);
  memcpy(&dim, params + at, sizeof dim);
  if (dim >= 0) dim++; /* else it is counted from the end */
  memcpy(params + at, &dim, sizeof dim);
  return situ_batch_run(c, c->in, params);
}

bool situ__batch_repeat(situ_batch_call *c) {
  for (int i = c->in_place; i < c->ins; i++) {
    if (!c->in[i] || c->batched[i]) continue;
    if (!(c->in[i] = situ__samples_repeat(c->op->name, c->in[i], c->samples))) return false;
    c->batched[i] = true;
  }
  return true;
}

/* ---- calls ---- */

/* A rule's results must be those of the op's shape rule. Hidden ones, for backward, are dropped unless it will need
   them. */
static bool are_results(situ_batch_call *c, bool keeps) {
  const int shown = c->op->shown && !keeps ? c->op->shown : c->outs;
  for (int k = 0; k < c->outs; k++) {
    if (k >= shown || !c->dtype[k]) {
      c->out[k] = NULL;
      continue;
    }
    const situ_view_desc *v = situ__desc(c->out[k]);
    bool good = !c->dtype[k] == !v;
    if (good && v) good = v->ndim == c->shape[k].ndim + 1 && v->size[0] == c->samples && v->dtype == c->dtype[k];
    for (int d = 0; good && v && d < c->shape[k].ndim; d++) good = v->size[d + 1] == c->shape[k].dim[d];
    if (good) continue;
    return situ__fail(SITU_E_STATE, c->op->name, "result %d of its rule for situ_func_vmap has another shape or dtype",
                      k),
           false;
  }
  return true;
}

static bool run_rule(situ_batch_call *c) { return c->op->batched ? c->op->batched(c) : situ_batch_each(c); }

/* Operands that are the same for all samples give results that are: one call, repeated. */
static bool run_once(situ_batch_call *c) {
  if (!situ_batch_run(c, c->in, NULL)) return false;
  for (int k = 0; k < c->outs && !c->in_place; k++) {
    if (c->out[k] && !(c->out[k] = situ__samples_repeat(c->op->name, c->out[k], c->samples))) return false;
  }
  return true;
}

/* Gives the written operand memory for each sample, if the others differ between samples. */
static bool split_target(const situ_call *c) {
  situ__samples *level = situ__samples_level(c->in, c->ins);
  bool any = false;
  for (int i = 1; i < c->ins; i++) any |= situ__sample_differs(level, c->in[i]);
  return !any || situ__sample_differs(level, c->in[0]) || situ__sample_split(c->op->name, level, c->in[0]);
}

bool situ__run_samples(situ_call *c) {
  lifted l;
  if (c->in_place && !split_target(c)) return false;
  bool good = lift(&l, c->op->name, c->in, c->ins);
  situ_batch_call b = { .op = c->op,
                        .ins = c->ins,
                        .outs = c->outs,
                        .params = c->params,
                        .in_place = c->in_place,
                        .samples = l.level ? l.level->count : 0,
                        .in = l.in,
                        .batched = l.batched,
                        .shape = c->shape,
                        .dtype = c->dtype,
                        .out = c->out };
  situ_tensor *out[SITU_RESULTS] = { NULL };
  b.out = out;
  good = good && (l.any ? run_rule(&b) : run_once(&b));
  if (good && !c->in_place) good = are_results(&b, l.keeps);
  if (c->in_place) {
    if (good) situ__storage_wrote(c->in[0]->view.storage);
    return lower(&l, good, out, 0);
  }
  good = lower(&l, good, out, c->outs);
  for (int k = 0; k < c->outs; k++) c->out[k] = out[k];
  return good;
}
