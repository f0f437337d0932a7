/* A call in a dry run: all its errors are reported, and it continues with its most likely result.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/dry.h"
#include "dispatch/explain.h"

/* ---- guesses ---- */

static situ_device likely_device(const situ_call *c) {
  if (situ__dry->mended.kind) return situ__dry->mended;
  const situ__majority most = situ__vote(c, SITU__BY_DEVICE);
  return most.like < 0 ? (situ_device){ 0 } : c->in[most.like]->view.storage->device;
}

static situ_dtype likely_dtype(const situ_call *c) {
  const situ__majority most = situ__vote(c, SITU__BY_DTYPE);
  return most.like < 0 ? SITU_DTYPE_DEFAULT : (situ_dtype)c->in[most.like]->view.dtype;
}

/* Corrects results that took their dtype from an operand that is at fault. */
static void mend_dtypes(situ_call *c) {
  const situ_dtype likely = likely_dtype(c);
  for (int k = 0; likely && k < c->outs; k++)
    if (c->dtype[k] == (situ_dtype)c->in[0]->view.dtype && c->op->operand[0].accept & SITU_SAME) c->dtype[k] = likely;
}

bool situ_mend_largest(situ_call *call) {
  const situ_view_desc *largest = NULL;
  if (!situ__given("mend_largest", "call", call)) return false;
  for (int i = 0; i < call->ins; i++)
    if (call->in[i] && (!largest || call->in[i]->view.numel > largest->numel)) largest = &call->in[i]->view;
  call->shape[0] = situ__shape(largest);
  call->dtype[0] = situ_result_type(call->in, call->ins);
  return true;
}

bool situ_mend_size(situ_call *call, int operand, int dim, int64_t size) {
  enum { FEW = SITU_OPERANDS };
  if (!situ__given("mend_size", "call", call)) return false;
  situ_tensor *const *given = call->in, *in[FEW], as;
  if (call->ins > FEW || operand < 0 || operand >= call->ins || !given[operand] || dim < 0 ||
      dim >= given[operand]->view.ndim)
    return false;
  as = *given[operand]; /* only for infer */
  as.view.size[dim] = size;
  for (int i = 0; i < call->ins; i++) in[i] = i == operand ? &as : given[i];
  call->in = in;
  const bool good = call->op->infer(call);
  call->in = given;
  call->like = NULL;
  return good;
}

/* ---- results without values ---- */

/* Returns gradients without values, with the operand's shape, dtype and device. */
static bool likely_backward(situ__pass *pass, const situ__node *n, situ_tensor *const *grad, const bool *wants,
                            situ_tensor **dx) {
  (void)pass, (void)grad;
  for (int i = 0; i < n->ins; i++) {
    const situ__operand *o = &n->in[i];
    if (!wants[i]) continue;
    const situ_device device = o->leaf ? o->leaf->view.storage->device : o->node->device;
    dx[i] = situ__tensor_new(n->name, &n->shape[i], n->dtype[i], device);
    if (!dx[i]) return false;
    situ__storage_wrote(dx[i]->view.storage);
  }
  return true;
}

static bool make_results(situ_call *c, bool guessed) {
  const situ_op *op = c->op;
  if (op->flags & SITU_OP_FORMAT && !guessed) situ__follow_format(c);
  for (int k = 0; k < c->outs; k++) {
    const bool view = op->flags & SITU_OP_VIEW && !guessed;
    c->out[k] = NULL;
    if (!view && !c->dtype[k]) continue;
    c->out[k] = view ? situ__tensor_view(op->name, &c->view) : situ__result_new(c, k);
    if (!c->out[k]) return false;
    if (!view) situ__storage_wrote(c->out[k]->view.storage);
  }
  if (op->flags & SITU_OP_NO_GRAD || !(situ__tape_asks(c->in, c->ins) & SITU__TAPE_WANTED)) return true;
  const situ__record r = {
    .name = op->name, .backward = likely_backward, .in = c->in, .out = c->out, .ins = c->ins, .outs = c->outs
  };
  situ__node *n = situ__tape_prepare(&r);
  return n && situ__tape_attach(n, c->out);
}

/* ---- one call ---- */

bool situ__has_operands(const situ_call *c) {
  const bool variadic = c->op->flags & SITU_OP_VARIADIC;
  for (int i = 0; i < c->ins; i++) {
    const bool optional = c->op->operand[variadic ? 0 : i].accept & SITU_OPTIONAL;
    if (c->in[i] ? !situ__alive(c->in[i]) : !optional) return false;
  }
  return c->ins > 0 && (variadic || c->ins == SITU_OPERANDS || !c->op->operand[c->ins].name);
}

/* Reports the error and clears it. */
static void report_error(void) {
  situ__dry_found();
  situ__dry_forget();
}

/* Sets shape and dtype of the results, known or guessed. Returns false if there is no guess; the error stays
   recorded. */
static bool infer_results(situ_call *c, bool *guessed) {
  if (c->op->infer(c)) return true;
  situ__dry_found();
  *guessed = true;
  return c->in_place || (c->op->mend && c->op->mend(c));
}

static bool call_dry(situ_call *c, bool (*run)(situ_call *)) {
  if (!situ__has_operands(c)) return run(c);
  const situ__verdict verdict = situ__examine(c);
  situ_status wrong = situ_error();
  bool guessed = false;
  if (verdict == SITU__MIXED) {
    situ__dry->mended = (situ_device){ 0 };
    if (run(c)) return true; /* the policy may copy */
    wrong = situ_error();
  }
  if (wrong != SITU_OK) report_error();
  if (verdict == SITU__MIXED) c->device = likely_device(c);
  if (!infer_results(c, &guessed)) return false;
  if (wrong == SITU_E_DTYPE) mend_dtypes(c);
  if (wrong == SITU_OK && !guessed && run(c)) return true;
  report_error();
  if (!c->in_place) return make_results(c, guessed);
  c->out[0] = c->in[0];
  return true;
}

bool situ__dry_call(situ_call *c, bool (*run)(situ_call *c)) {
  /* Report an error that is still recorded. A call with all its operands starts afresh; a call that got NULL only
     repeats the earlier error. */
  if (situ_error() != SITU_OK) situ__dry_found();
  else situ__dry->told = false;
  if (situ__has_operands(c)) situ__dry_forget();
  const void *outer = situ__now.call;
  situ__now.call = c;
  situ__dry->depth++;
  const bool good = call_dry(c, run);
  situ__dry->depth--;
  if (good && !situ__dry->depth && situ__dry->called) situ__dry->called(situ__dry, c);
  situ__now.call = outer;
  if (!good) situ__dry_found();
  return good;
}
