/* One call of an op: check, infer, make the results, launch, record.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/dry.h"
#include "dispatch/dispatch.h"

/* ---- the way back ---- */

enum { MANY = 64 };  /* operands of a variadic op that fit without an allocation are few; see cat's backward */

situ_tensor *situ_grad_collected(const situ_grad_call *call, int i) { return situ__collected(call->node, i); }

static bool op_backward(situ__node *n, situ_tensor *const *grad, const bool *wants, situ_tensor **dx) {
  const situ_op *op = n->owner;
  situ_tensor *in[MANY], *out[SITU_RESULTS];
  situ_shape shape[MANY];
  situ_dtype dtype[MANY];
  for (int i = 0; i < n->ins; i++) {
    in[i] = n->in[i].saved;
    shape[i] = n->in[i].shape;
    dtype[i] = n->in[i].dtype;
  }
  for (int k = 0; k < n->outs; k++) out[k] = n->out[k].saved;
  situ_grad_call call = { .op = op, .ins = n->ins, .outs = n->outs, .params = n->params, .device = n->device, .in = in, .out = out,
                          .grad = grad, .dx = dx, .wants = wants, .shape = shape, .dtype = dtype, .node = n };
  const char *outer = situ__call_as(op->name, " backward");
  bool good = op->backward(&call);
  situ__call_end(&outer);
  if (!good) {
    if (situ_error() == SITU_OK) situ__fail(SITU_E_STATE, op->name, "backward failed");
    return false;
  }
  for (int i = 0; i < n->ins; i++) {
    if (!wants[i] || !dx[i]) continue;
    if (!(dx[i] = situ__fit_gradient(op->name, dx[i], &shape[i], dtype[i]))) return false;
  }
  return true;
}

/* What backward will ask for. */
static unsigned to_save(const situ_call *c) {
  unsigned save = c->op->save;
  if (c->op->flags & SITU_OP_PRODUCT) {
    if (!c->in[1]->requires_grad) save &= ~SITU_SAVE(0);
    if (!c->in[0]->requires_grad) save &= ~SITU_SAVE(1);
  }
  return save;
}

/* A copy of what is about to be written over. */
static situ_tensor *copy_of(const char *op, const situ_tensor *t) {
  situ_shape shape = situ__shape(&t->view);
  situ_tensor *copy = situ__tensor_new(op, &shape, (situ_dtype)t->view.dtype, t->view.storage->device);
  const situ_work work = { .verb = SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &t->view }, .out = { copy ? &copy->view : NULL } };
  return copy && situ__run(op, t->view.storage->device, &work) == SITU_OK ? copy : NULL;
}

static bool record(const situ_call *c, bool wanted, situ_tensor *before) {
  const situ_op *op = c->op;
  if (!wanted || op->flags & SITU_OP_NO_GRAD) return true;
  if (c->ins > MANY) return situ_refuse(c, SITU_E_LIMIT, "%d operands: at most %d can be differentiated at once", c->ins, MANY);
  const situ__record r = { .name = op->name, .backward = op->backward ? op_backward : NULL, .owner = op, .params = c->params,
                           .params_size = op->params_size, .in = c->in, .out = c->out, .ins = c->ins, .outs = c->outs,
                           .save = to_save(c), .before = before };
  return situ__tape_record(&r);
}

/* ---- the way there ---- */

/* A view with history shows values that its recorded history does not know of once its storage was written by
   other means; PyTorch rebuilds the history, we refuse. */
static bool check_views(const situ_call *c) {
  for (int i = 0; i < c->ins; i++) {
    const situ_tensor *t = c->in[i];
    if (t && t->is_view && t->requires_grad && t->view_version != __atomic_load_n(&t->view.storage->version, __ATOMIC_RELAXED))
      return situ_refuse(c, SITU_E_STATE, "operand %d is a view whose base was changed in place since; take the view again", i);
  }
  return true;
}

static bool check_in_place(const situ_call *c) {
  const situ_tensor *t = c->in[0];
  situ_shape own = situ__shape(&t->view);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  if (!situ_shape_equal(&own, &c->shape[0]))
    return situ_refuse(c, SITU_E_SHAPE, "the result %s does not fit in place into %s", situ_shape_text(&c->shape[0], a), situ_shape_text(&own, b));
  if (situ__dtype_kind(c->dtype[0]) > situ__dtype_kind((situ_dtype)t->view.dtype))
    return situ_refuse(c, SITU_E_DTYPE, "the result is %s and cannot be stored in place in %s", situ_dtype_name(c->dtype[0]),
                       situ_dtype_name((situ_dtype)t->view.dtype));
  if (situ__desc_overlaps(&t->view))
    return situ_refuse(c, SITU_E_ALIAS, "written in place, but elements of %s share memory (expanded?); clone it first", situ_shape_text(&own, a));
  for (int i = 1; i < c->ins; i++)
    if (c->in[i] && c->in[i]->view.storage == t->view.storage && c->in[i] != t &&
        !(situ__same_sizes(&c->in[i]->view, &t->view) && c->in[i]->view.offset == t->view.offset && c->in[i]->view.contiguous == t->view.contiguous))
      return situ_refuse(c, SITU_E_ALIAS, "operand %d may overlap what is written in place; clone it first", i);
  if (!situ__recording()) return true;
  if (t->requires_grad && !t->node)
    return situ_refuse(c, SITU_E_STATE, "a leaf that requires a gradient is written in place; do it in a no_grad scope");
  if (t->requires_grad && t->is_view)
    return situ_refuse(c, SITU_E_STATE, "a view that requires a gradient is written in place; write to its base, or use the form without _");
  return true;
}

static bool make_results(situ_call *c) {
  const situ_op *op = c->op;
  if (op->flags & SITU_OP_VIEW) {
    c->out[0] = situ__tensor_view(op->name, &c->view);
    return c->out[0] != NULL;
  }
  if (c->like) return (c->out[0] = situ__tensor_like(op->name, c->like, c->dtype[0])) != NULL;
  for (int k = 0; k < c->outs; k++) {
    if (!c->dtype[k]) continue;
    if (!(c->out[k] = situ__tensor_new(op->name, &c->shape[k], c->dtype[k], c->device))) return false;
  }
  return true;
}

static bool has_elements(const situ_call *c) {
  for (int k = 0; k < c->outs; k++)
    if (c->out[k] && c->out[k]->view.numel) return true;
  return false;
}

/* On meta a forward notes down what would have to be done (recipe.c), where that may ever be asked for: not of what
   depends on values that nobody has, nor of a training step. */
static bool to_be_noted(const situ_call *c, bool wanted) {
  if (wanted) return false;
  for (int i = c->in_place; i < c->ins; i++)
    if (c->in[i] && !situ__recipe_has(c->in[i]->view.storage)) return false;
  return true;
}

/* Written, though nobody knows with what. */
static bool lose_results(const situ_call *c) {
  for (int k = 0; k < c->outs; k++)
    if (c->out[k]) situ__recipe_lose(c->out[k]->view.storage);
  for (int i = 0; i < c->ins && i < SITU_OPERANDS; i++)
    if (c->in[i] && c->op->operand[i].accept & SITU_WRITTEN) situ__recipe_lose(c->in[i]->view.storage);
  return true;
}

static bool forward(situ_call *c, bool wanted) {
  const situ_op *op = c->op;
  if (op->flags & SITU_OP_VIEW || !has_elements(c)) return true;
  if (c->device.kind == SITU_META && !to_be_noted(c, wanted)) return lose_results(c);
  if (!(op->flags & SITU_OP_COMPOSED)) return op->forward(c);
  const char *outer = situ__call_as(op->name, "");
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  bool good = op->forward(c);
  SITU_IGNORE(situ_scope_end(&s));
  situ__call_end(&outer);
  return good;
}

static bool steps(situ_call *c);
static bool steps_or_casts(situ_call *c) { return situ__setting.autocast ? situ__autocast_run(c, steps) : steps(c); }

static bool steps(situ_call *c) {
  const situ_op *op = c->op;
  situ__verdict verdict = situ__examine(c);
  if (verdict != SITU__GOOD) return verdict == SITU__MIXED && situ__mixed(c, steps_or_casts);
  bool wanted = situ__tape_wanted(c->in, c->ins);
  if (wanted && !op->backward && !(op->flags & SITU_OP_NO_GRAD))
    return situ_refuse(c, SITU_E_UNSUPPORTED, "cannot be differentiated, but an operand requires a gradient; detach it");
  if (wanted && !check_views(c)) return false;
  if (!op->infer(c)) return false;
  if (c->in_place) {
    if (!check_in_place(c)) return false;
    c->out[0] = c->in[0];
  } else if (!make_results(c)) {
    return false;
  }
  situ_tensor *before = NULL;
  if (c->in_place && wanted && !(op->flags & SITU_OP_NO_GRAD) && to_save(c) & SITU_SAVE(0) && !(before = copy_of(op->name, c->in[0]))) return false;
  if (!forward(c, wanted) || !record(c, wanted, before)) return false;
  if (wanted && op->flags & SITU_OP_VIEW) {
    c->out[0]->is_view = true;
    c->out[0]->view_version = __atomic_load_n(&c->out[0]->view.storage->version, __ATOMIC_RELAXED);
  }
  return true;
}

/* What fails in a call is explained with its operands: see explain.c. */
static bool run(situ_call *c) {
  const void *outer = situ__now.call;
  situ__now.call = c;
  bool good = steps(c);
  situ__now.call = outer;
  return good;
}

/* Out of the way: its code would make the usual way longer. */
static SITU_COLD __attribute__((noinline)) bool run_dry(situ_call *c) { return situ__dry_call(c, run); }
static SITU_COLD __attribute__((noinline)) bool run_cast(situ_call *c) { return situ__autocast_run(c, situ__is_dry() ? run_dry : run); }

static situ_tensor *run_pair(const situ_op *op, const situ_view_desc *a, const situ_view_desc *b) {
  situ_tensor *y = situ__tensor_like(op->name, a, (situ_dtype)a->dtype);
  if (!y) return NULL;
  const situ_work work = { .verb = SITU_VERB_BINARY, .op = op->code, .compute = (situ_dtype)a->dtype, .ins = 2, .outs = 1, .in = { a, b }, .out = { &y->view } };
  return situ__run(op->name, a->storage->device, &work) == SITU_OK ? y : NULL;
}

situ_tensor *situ_op_run(const situ_op *op, situ_tensor *const *in, int ins, const void *params, situ_tensor **outs) {
  if (ins == 2 && !outs && situ__plain_pair(op, in)) return run_pair(op, &in[0]->view, &in[1]->view);
  situ_call c;
  c.op = op;
  c.ins = ins;
  c.outs = op->outs ? op->outs : 1;
  c.in = in;
  c.params = params;
  c.in_place = false;
  c.compute = SITU_DTYPE_DEFAULT;
  c.like = NULL;
  for (int k = 0; k < c.outs; k++) {
    c.out[k] = NULL;
    c.dtype[k] = SITU_DTYPE_DEFAULT;
  }
  bool good = situ__setting.autocast ? run_cast(&c) : situ__is_dry() ? run_dry(&c) : run(&c);
  for (int k = 0; outs && k < c.outs; k++) outs[k] = good ? c.out[k] : NULL;
  return good ? c.out[0] : NULL;
}

situ_tensor *situ_op_run_(const situ_op *op, situ_tensor *const *in, int ins, const void *params) {
  situ_call c = { .op = op, .ins = ins, .outs = 1, .in = in, .params = params, .in_place = true };
  const char *outer = situ__call_as(op->name, "_");
  bool good = situ__is_dry() ? run_dry(&c) : run(&c);
  situ__call_end(&outer);
  return good ? c.out[0] : NULL;
}

situ_tensor *situ_op_new(const char *op, situ_shape shape, situ_dtype dtype, situ_device device) {
  if (!situ__device_resolve(op, device, &device)) return NULL;
  return situ__tensor_new(op, &shape, dtype, device);
}

bool situ_launch(const char *op, situ_device device, const situ_work *work) { return situ__run(op, device, work) == SITU_OK; }
bool situ_device_has(situ_device device, situ_verb verb) { return situ__has_verb(device, verb); }

/* Hidden: a program that has such a section too must not mistake ours for its own. */
extern const situ_op *const __start_situ_ops[] __attribute__((visibility("hidden")));
extern const situ_op *const __stop_situ_ops[] __attribute__((visibility("hidden")));
size_t situ_op_table(const situ_op *const **ops) {
  *ops = __start_situ_ops;
  return (size_t)(__stop_situ_ops - __start_situ_ops);
}
