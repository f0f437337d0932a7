/* One call of an op: check, infer, allocate results, launch, record.
   SPDX-License-Identifier: MIT */
#include "autograd/view.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "device/graph/graph.h"
#include "device/launch/launch.h"
#include "dispatch/dispatch.h"
#include "situ/sys/plain.h"

/* ---- backward ---- */

const situ__place situ__no_place;

situ_tensor *situ_grad_collected(const situ_grad_call *call, int i) {
  if (!situ__given("grad_collected", "call", call) || !situ__given("grad_collected", "call->node", call->node))
    return NULL;
  const situ__place *at = call->node;
  return at->pass && i >= 0 && i < call->ins ? situ__collected(at->pass, at->node, i) : NULL;
}

bool situ__copy_values(const char *op, const situ_view_desc *from, const situ_view_desc *to) {
  const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { from }, .out = { to } };
  return !to->numel || situ__run(op, to->storage->device, &work) == SITU_OK;
}

/* SITU_OP_ROWS: the gradient of the first operand, in the memory format of the result's, as in torch. */
static bool lay_gradient(const situ_grad_call *call) {
  situ_tensor *dx = call->dx[0], *up = call->grad[0], *laid;
  if (!dx || !up || !dx->view.contiguous || dx->view.ndim != up->view.ndim) return true;
  const situ_memory_format format = situ__suggest_format(&up->view);
  situ_view_desc layout = dx->view;
  if (format < SITU_CHANNELS_LAST || !situ__format_strides(&layout, format) || layout.contiguous) return true;
  laid = situ__tensor_strided(call->op->name, &layout, (situ_dtype)dx->view.dtype, dx->view.storage->device);
  if (!laid || !situ__copy_values(call->op->name, &dx->view, &laid->view)) return false;
  call->dx[0] = laid;
  return true;
}

static bool run_backward(situ_grad_call *call) {
  const situ_op *op = call->op;
  const uint64_t errors = situ__error_count();
  if (!situ__own_code((const void *)(uintptr_t)op->backward)) situ__origin.within = NULL; /* as in function.c */
  const char *outer = situ__call_as(op->name, " backward");
  bool good = (situ__recording() ? situ__recorded_backward(call) : op->backward(call)) && situ__error_count() == errors;
  situ__call_end(&outer);
  if (!good && situ_error() == SITU_OK) situ__fail(SITU_E_STATE, op->name, "backward failed");
  if (good && op->flags & SITU_OP_ROWS && !situ__recording()) good = lay_gradient(call);
  for (int i = 0; good && i < call->ins; i++)
    if (call->wants[i] && call->dx[i])
      good = (call->dx[i] = situ__fit_gradient(op->name, call->dx[i], &call->shape[i], call->dtype[i])) != NULL;
  return good;
}

static bool op_backward(situ__pass *pass, const situ__node *n, situ_tensor *const *grad, const bool *wants,
                        situ_tensor **dx) {
  enum { FEW = SITU_OPERANDS };
  const situ_op *op = n->owner;
  situ_tensor *few[FEW], **in = few, *out[SITU_RESULTS];
  const size_t bytes = (size_t)n->ins * sizeof *in;
  if (n->ins > FEW && !(in = situ__alloc(bytes))) return situ__no_memory(op->name, bytes), false;
  bool good = true;
  for (int i = 0; i < n->ins; i++) in[i] = n->in[i].saved ? situ__saved_operand(n, i, &good) : NULL;
  for (int k = 0; k < n->outs; k++) out[k] = n->out[k].saved ? situ__saved_result(n, k, &good) : NULL;
  good = good && run_backward(&(situ_grad_call){ .op = op,
                                                 .ins = n->ins,
                                                 .outs = n->outs,
                                                 .params = n->params,
                                                 .device = n->device,
                                                 .in = in,
                                                 .out = out,
                                                 .grad = grad,
                                                 .dx = dx,
                                                 .wants = wants,
                                                 .shape = n->shape,
                                                 .dtype = n->dtype,
                                                 .node = &(situ__place){ pass, n } });
  if (in != few) situ__free(in);
  return good;
}

/* The values that backward needs. A product needs each factor only for the gradient of the other one. */
static unsigned to_save(const situ_call *c) {
  unsigned save = c->op->save;
  if (c->op->flags & SITU_OP_PRODUCT) {
    if (!c->in[1]->requires_grad) save &= ~SITU_SAVE(0);
    if (!c->in[0]->requires_grad) save &= ~SITU_SAVE(1);
  }
  return save;
}

/* A copy of values that will be overwritten. */
static situ_tensor *copy_of(const char *op, const situ_tensor *t) {
  situ_shape shape = situ__shape(&t->view);
  situ_tensor *copy = situ__tensor_new(op, &shape, (situ_dtype)t->view.dtype, t->view.storage->device);
  return copy && situ__copy_values(op, &t->view, &copy->view) ? copy : NULL;
}

static situ__node *node_of(const situ_op *op, const situ_call *c, unsigned save, situ_tensor *before) {
  return situ__tape_prepare(&(situ__record){ .name = op->name,
                                             .backward = op->backward ? op_backward : NULL,
                                             .owner = op,
                                             .params = c->params,
                                             .params_size = op->params_size,
                                             .in = c->in,
                                             .out = c->out,
                                             .ins = c->ins,
                                             .outs = c->outs,
                                             .save = save,
                                             .before = before });
}

situ__node *situ__op_node(const situ_op *op, situ_tensor *const *in, int ins, const void *params,
                          situ_tensor *const *out) {
  const situ_call c = { .op = op, .ins = ins, .outs = 1, .in = in, .params = params, .out = { out[0] } };
  return node_of(op, &c, op->save, NULL);
}

/* The nodes of one call, allocated before it runs, so that nothing can fail after values have changed. */
typedef struct recorded {
  situ__node *node; /* NULL: not recorded */
  situ__node *part; /* for a write in place through a view: the node of the base */
} recorded;

static void cancel_nodes(recorded *r) {
  situ__tape_cancel(r->part);
  situ__tape_cancel(r->node);
}

static bool prepare_nodes(const situ_call *c, bool wanted, recorded *r) {
  *r = (recorded){ 0 };
  if (!wanted || c->op->flags & SITU_OP_NO_GRAD) return true;
  const unsigned save = to_save(c);
  situ_tensor *before = NULL;
  for (int i = 0; c->in_place && i < c->ins && !before; i++)
    if (save & SITU_SAVE(i) && c->in[i] && c->in[i]->view.storage == c->in[0]->view.storage &&
        situ__same_place(&c->in[i]->view, &c->in[0]->view) && !(before = copy_of(c->op->name, c->in[0])))
      return false;
  if (!(r->node = node_of(c->op, c, save, before))) return false;
  if (!c->in_place || !c->in[0]->base) return true;
  if ((r->part = situ__autograd_up.node_of_part(c->in[0]))) {
    situ__tape_connect(r->part, 1, r->node, 0);
    return true;
  }
  cancel_nodes(r);
  return false;
}

/* Returns false where a hook for saved tensors has recorded an error. */
static bool attach_nodes(const situ_call *c, const recorded *r) {
  if (!r->node) return true;
  situ_tensor *base = !c->in_place ? NULL : c->in[0]->base ? c->in[0]->base : c->in[0];
  const bool before = base && base->requires_grad;
  bool good = situ__tape_attach(r->node, c->out);
  if (r->part) good &= situ__tape_attach(r->part, &base);
  if (base) situ__view_rebase(base, before);
  else if (c->op->flags & SITU_OP_VIEW && c->out[0]->base) c->out[0]->rebased = c->out[0]->base->rebased;
  return good;
}

/* ---- forward ---- */

/* Renews the history of views whose base was written in place. */
static bool refresh_views(const situ_call *c) {
  for (int i = 0; i < c->ins; i++)
    if (c->in[i] && !situ__view_fresh(c->op->name, c->in[i])) return false;
  return true;
}

/* Returns true if t may contain elements that the op writes before it reads them. An elementwise op may read the
   place that it writes. */
static bool may_overlap(const situ_op *op, const situ_tensor *t, const situ_tensor *written) {
  int64_t first, last, from, to;
  if (t->view.storage != written->view.storage) return false;
  if (!(op->flags & SITU_OP_SCATTERS) && situ__same_place(&t->view, &written->view)) return false;
  return situ__desc_range(&t->view, &first, &last) && situ__desc_range(&written->view, &from, &to) && first <= to &&
         from <= last;
}

static bool check_in_place(const situ_call *c, bool wanted) {
  const situ_tensor *t = c->in[0];
  situ_shape own = situ__shape(&t->view);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  if (c->op->outs > 1)
    return situ_refuse(c, SITU_E_UNSUPPORTED, "has %d results: it has no form in place", c->op->outs);
  if (!situ_shape_equal(&own, &c->shape[0]))
    return situ_refuse(c, SITU_E_SHAPE, "the result %s does not fit in place into %s", situ_shape_text(&c->shape[0], a),
                       situ_shape_text(&own, b));
  if (situ__dtype_kind(c->dtype[0]) > situ__dtype_kind((situ_dtype)t->view.dtype))
    return situ_refuse(c, SITU_E_DTYPE, "the result is %s and cannot be stored in place in %s",
                       situ_dtype_name(c->dtype[0]), situ_dtype_name((situ_dtype)t->view.dtype));
  if (situ__desc_overlaps(&t->view))
    return situ_refuse(c, SITU_E_ALIAS, "written in place, but elements of %s share memory (expanded?); clone it first",
                       situ_shape_text(&own, a));
  for (int i = 1; i < c->ins; i++)
    if (c->in[i] && may_overlap(c->op, c->in[i], t))
      return situ_refuse(c, SITU_E_ALIAS, "operand %d may overlap what is written in place; clone it first", i);
  return !situ__recording() || situ__view_may_write(c->op->name, t, wanted);
}

/* What an op that knows blocks makes of them in u8 are the same blocks. */
static inline void pass_blocks_on(const situ_call *c) {
  if (!c->in[0] || !situ__blocks_of(&c->in[0]->view)) return;
  for (int k = 0; k < c->outs; k++)
    if (c->out[k] && c->out[k]->view.dtype == SITU_U8)
      c->out[k]->view.storage->flags |= c->in[0]->view.storage->flags & SITU_STORAGE_BLOCKS;
}

/* The indices of a pool are as large as its result, and mostly for its backward alone: they stay row-major. */
situ_tensor *situ__result_new(const situ_call *c, int k) {
  if (c->like == &c->view && !(k && c->op->flags & SITU_OP_ROWS)) {
    const situ_shape first = situ__shape(&c->view);
    if (situ_shape_equal(&c->shape[k], &first))
      return situ__tensor_strided(c->op->name, &c->view, c->dtype[k], c->device);
  }
  return situ__tensor_new(c->op->name, &c->shape[k], c->dtype[k], c->device);
}

static __attribute__((noinline)) bool make_ordered(situ_call *c) {
  for (int k = 0; k < c->outs; k++)
    if (c->dtype[k] && !(c->out[k] = situ__result_new(c, k))) return false;
  return true;
}

static bool make_results(situ_call *c) {
  const situ_op *op = c->op;
  if (op->flags & SITU_OP_VIEW) {
    if (!(c->out[0] = situ__tensor_view(op->name, &c->view))) return false;
    situ__view_link(c->out[0], c->in[0], situ__recording() ? SITU__VIEW_FREE : SITU__VIEW_NO_GRAD);
    return true;
  }
  if (op->flags & SITU_OP_FORMAT) situ__follow_format(c);
  if (c->like == &c->view) {
    if (!make_ordered(c)) return false;
    pass_blocks_on(c);
    return true;
  }
  if (c->like) {
    if (!(c->out[0] = situ__tensor_like(op->name, c->like, c->dtype[0]))) return false;
    pass_blocks_on(c);
    return true;
  }
  for (int k = 0; k < c->outs; k++) {
    if (!c->dtype[k]) continue;
    if (!(c->out[k] = situ__tensor_new(op->name, &c->shape[k], c->dtype[k], c->device))) return false;
  }
  pass_blocks_on(c);
  return true;
}

static bool has_elements(const situ_call *c) {
  for (int k = 0; k < c->outs; k++)
    if (c->out[k] && c->out[k]->view.numel) return true;
  return false;
}

/* On meta, the forward is recorded for a later replay (launch/recipe.c), unless the replay cannot happen: inputs
   without known values, or a training step. */
static bool to_be_noted(const situ_call *c, bool wanted) {
  if (wanted) return false;
  for (int i = c->in_place; i < c->ins; i++)
    if (c->in[i] && !situ__recipe_has(c->in[i]->view.storage)) return false;
  return true;
}

/* Counts the results as written with unknown values. */
static bool lose_results(const situ_call *c) {
  for (int k = 0; k < c->outs; k++)
    if (c->out[k]) situ__recipe_lose(c->out[k]->view.storage);
  for (int i = 0; i < c->ins && i < SITU_OPERANDS; i++)
    if (c->in[i] && c->op->operand[i].accept & SITU_WRITTEN) situ__recipe_lose(c->in[i]->view.storage);
  return true;
}

static __attribute__((noinline)) bool run_composed(situ_call *c) {
  const situ_op *op = c->op;
  const char *outer = situ__call_as(op->name, "");
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const uint64_t errors = situ__error_count();
  bool good = op->forward(c) && situ__error_count() == errors; /* an error in any step fails the call */
  SITU_IGNORE(situ_scope_end(&s));
  situ__call_end(&outer);
  return good;
}
static inline bool run_op(situ_call *c) {
  return c->op->flags & SITU_OP_COMPOSED ? run_composed(c) : c->op->forward(c);
}

/* SITU_OP_ROWS: forward writes contiguous results, which are copied to those of another order. */
static __attribute__((noinline)) bool run_in_rows(situ_call *c) {
  situ_tensor *laid[SITU_RESULTS];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  bool good = true;
  for (int k = 0; k < c->outs; k++) {
    laid[k] = c->out[k];
    if (good && laid[k] && !laid[k]->view.contiguous)
      good = (c->out[k] = situ__tensor_new(c->op->name, &c->shape[k], c->dtype[k], c->device)) != NULL;
  }
  good = good && run_op(c);
  for (int k = 0; k < c->outs; k++) {
    if (good && c->out[k] != laid[k]) good = situ__copy_values(c->op->name, &c->out[k]->view, &laid[k]->view);
    c->out[k] = laid[k];
  }
  SITU_IGNORE(situ_scope_end(&s));
  return good;
}

static bool run_forward(situ_call *c, bool wanted) {
  const situ_op *op = c->op;
  if (op->flags & SITU_OP_VIEW || !has_elements(c)) return true;
  if (c->device.kind == SITU_META && !to_be_noted(c, wanted)) return lose_results(c);
  if (op->flags & SITU_OP_ROWS && c->like == &c->view) return run_in_rows(c);
  return run_op(c);
}

/* Returns false after recording an error if the call cannot be recorded. Results of a NO_GRAD op never have a
   gradient. */
static bool may_record(const situ_call *c, unsigned asks) {
  if (c->op->flags & SITU_OP_NO_GRAD || !(asks & SITU__TAPE_WANTED)) return true;
  if (!c->op->backward)
    return situ_refuse(c, SITU_E_UNSUPPORTED,
                       "cannot be differentiated, but an operand requires a gradient; detach it");
  if (asks & SITU__TAPE_FIRST_ORDER) return situ__tape_refuse_first_order(c->op->name, c->in, c->ins);
  return !(asks & SITU__TAPE_STALE) || refresh_views(c);
}

static void mark_results(const situ_call *c) {
  for (int k = 0; k < c->outs; k++) {
    if (!c->out[k] || !situ_dtype_is_floating((situ_dtype)c->out[k]->view.dtype)) continue;
    if (c->in_place) situ__view_mark(c->out[k]);
    else c->out[k]->first_order = true;
  }
}

static bool takes_samples(const situ_call *c) {
  for (int i = 0; i < c->ins; i++)
    if (situ__is_sample(c->in[i])) return !(c->op->flags & SITU_OP_VIEW);
  return false;
}

static bool run_steps(situ_call *c);
static bool run_steps_or_casts(situ_call *c) {
  return situ__setting.autocast ? situ__autocast_run(c, run_steps) : run_steps(c);
}

static bool run_steps(situ_call *c) {
  const situ_op *op = c->op;
  situ__verdict verdict = situ__examine(c);
  if (verdict != SITU__GOOD) return verdict == SITU__MIXED && situ__mixed(c, run_steps_or_casts);
  const unsigned asks = situ__tape_asks(c->in, c->ins);
  bool wanted = asks & SITU__TAPE_WANTED;
  if (asks && !may_record(c, asks)) return false;
  if (!op->infer(c)) return false;
  const bool samples = __builtin_expect(situ__sampling != NULL, 0) && takes_samples(c);
  if (c->in_place) {
    if (!check_in_place(c, wanted)) return false;
    c->out[0] = c->in[0];
    /* A dry run leaves the history of the program's tensors alone. */
    if (wanted && situ__is_dry()) wanted = situ__is_void(c->in[0]->view.storage);
  } else if (samples ? !situ__dispatch_up.run_samples(c) : !make_results(c)) {
    return false;
  }
  recorded r;
  if (!prepare_nodes(c, wanted, &r)) return false;
  const bool part = c->in_place && situ__part_begin(&c->in[0]->view);
  const bool good = samples ? !c->in_place || situ__dispatch_up.run_samples(c) : run_forward(c, wanted);
  if (part) situ__end_part(&c->in[0]->view, good);
  if (!good) {
    cancel_nodes(&r);
    return false;
  }
  if (!attach_nodes(c, &r)) return false;
  if (asks == SITU__TAPE_FIRST_ORDER && !(op->flags & SITU_OP_NO_GRAD)) mark_results(c);
  return true;
}

/* Sets situ__now.call, so that errors inside the call list its operands: see explain.c. */
static bool run_call(situ_call *c) {
  const void *outer = situ__now.call;
  situ__now.call = c;
  bool good = run_steps(c);
  situ__now.call = outer;
  return good;
}

static bool run_modal(situ_call *c) {
  return situ__forward_mode == SITU__FORWARD_ON ? situ__dispatch_up.run_dual(c, run_call) : run_call(c);
}

/* Not inlined, to keep the common path short. */
static SITU_COLD __attribute__((noinline)) bool run_dry(situ_call *c) { return situ__dry_call(c, run_call); }
static SITU_COLD __attribute__((noinline)) bool run_cast(situ_call *c) {
  return situ__autocast_run(c, situ__is_dry() ? run_dry : run_modal);
}

situ_tensor *situ__run_two(const situ_op *op, situ_tensor *a, situ_tensor *b) {
  if (!situ__plain_pair(op, a, b)) return situ_op_run2(op, a, b, NULL);
  situ_tensor *y = situ__tensor_like(op->name, &a->view, (situ_dtype)a->view.dtype);
  return y && situ__run_pair(op->name, op->code, &a->view, &b->view, &y->view) == SITU_OK ? y : NULL;
}

/* Checks the arguments that the operand check relies on. */
static inline bool call_given(const situ_op *op, situ_tensor *const *in, int ins, const void *params) {
  if (__builtin_expect(op && ins > 0 && in && (params || !op->params_size), 1)) return true;
  if (!situ__given("op_run", "op", op)) return false;
  if (ins < 1) situ__fail(SITU_E_ARG, op->name, "%d operands", ins);
  else situ__null(op->name, in ? "params" : "in");
  return false;
}

situ_tensor *situ_op_run(const situ_op *op, situ_tensor *const *in, int ins, const void *params, situ_tensor **outs) {
  if (!call_given(op, in, ins, params)) return NULL;
  situ_call c;
  c.op = op;
  c.ins = ins;
  c.outs = op->outs ? op->outs : 1;
  c.in = in;
  c.params = params;
  c.in_place = false;
  c.compute = SITU_DTYPE_DEFAULT;
  c.like = NULL;
  memset(c.out, 0, sizeof c.out); /* all: a loop over those that there are would be a call */
  memset(c.dtype, 0, sizeof c.dtype);
  const situ__fpu fpu = situ__fpu_enter();
  bool good = situ__setting.autocast ? run_cast(&c) : situ__is_dry() ? run_dry(&c) : run_modal(&c);
  situ__fpu_leave(fpu);
  for (int k = 0; outs && k < c.outs; k++) outs[k] = good ? c.out[k] : NULL;
  return good ? c.out[0] : NULL;
}

situ_tensor *situ_op_run_(const situ_op *op, situ_tensor *const *in, int ins, const void *params) {
  if (!call_given(op, in, ins, params)) return NULL;
  situ_call c = { .op = op, .ins = ins, .outs = 1, .in = in, .params = params, .in_place = true };
  const char *outer = situ__call_as(op->name, "_");
  const situ__fpu fpu = situ__fpu_enter();
  bool good = situ__is_dry() ? run_dry(&c) : run_modal(&c);
  situ__fpu_leave(fpu);
  situ__call_end(&outer);
  return good ? c.out[0] : NULL;
}

situ_tensor *situ_op_new(const char *op, situ_shape shape, situ_dtype dtype, situ_device device) {
  if (!situ__device_resolve(op, device, &device)) return NULL;
  return situ__tensor_new(op, &shape, dtype, device);
}

static bool has_operand(const situ_work *work) {
  for (int i = 0; i < work->ins; i++)
    if (work->in[i]) return true;
  for (int i = 0; i < work->outs; i++)
    if (work->out[i]) return true;
  return false;
}

bool situ_launch(const char *op, situ_device device, const situ_work *work) {
  if (!situ__given(op, "work", work)) return false;
  if (work->ins < 0 || work->ins > SITU_WORK_MAX || work->outs < 0 || work->outs > SITU_WORK_MAX)
    return situ__fail(SITU_E_ARG, op, "work of %d operands and %d results", work->ins, work->outs), false;
  /* Where a tensor is, a device is. A dry run shows meta tensors on the devices that they are meant for. */
  if ((situ__is_dry() || !has_operand(work)) && !situ__device_there(op, device)) return false;
  return situ__run(op, device, work) == SITU_OK;
}
bool situ_is_plain(void) {
  return !situ__recording() && situ__forward_mode != SITU__FORWARD_ON && !situ__sampling && !situ__setting.autocast &&
         !situ__is_dry() && !situ__graph_recording;
}
bool situ_device_has(situ_device device, situ_verb verb) { return situ__has_verb(device, verb); }

/* Hidden: a program with a section of the same name must not resolve to this one. */
extern const situ_op *const __start_situ_ops[] __attribute__((visibility("hidden")));
extern const situ_op *const __stop_situ_ops[] __attribute__((visibility("hidden")));
size_t situ_op_table(const situ_op *const **ops) {
  if (ops) *ops = __start_situ_ops;
  return (size_t)(__stop_situ_ops - __start_situ_ops);
}
