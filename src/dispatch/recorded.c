/* Gradients that are differentiated again (create_graph): an op's backward made of recorded calls.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "dispatch/dispatch.h"

/* For callers outside of a pass. */
static bool is_complete(const char *name, const situ_grad_call *g) {
  if (!situ__given(name, "call", g) || !situ__given(name, "call->op", g->op)) return false;
  if (g->in && g->out && g->grad && g->dx && g->wants && g->shape && g->dtype && (g->params || !g->op->params_size) &&
      g->ins > 0 && g->outs > 0 && g->outs <= SITU_RESULTS)
    return true;
  return situ__fail(SITU_E_ARG, name, "a call that is not complete: it is the one that a backward gets"), false;
}

bool situ__recorded_backward(situ_grad_call *g) {
  if (g->op->backward_recorded) return g->op->backward_recorded(g);
  return situ__fail(
             SITU_E_UNSUPPORTED, g->op->name,
             "create_graph: its gradient has no derivative; without create_graph, or detached, it has a first one"),
         false;
}

/* Adds t to *sum, which may be NULL. Returns false after recording an error. */
static bool add_to(situ_tensor **sum, situ_tensor *t) {
  if (t && *sum) t = situ__autograd_up.add(*sum, t);
  if (t) *sum = t;
  return t != NULL;
}

/* ---- ops that are linear in each of some operands ----

   With y = f(a, b) the gradients are A(dy, b) and B(a, dy), where <dy, f(a, b)> = <A(dy, b), a> = <B(a, dy), b>. So for
   a direction u of A's result, <A(dy, b), u> = <dy, f(u, b)>: the gradient of dy is f(u, b), that of b is B(u, dy). */

enum { PARAMS_MAX = 512, VALUES = SITU_OPERANDS + 1 };
/* What a recorded backward keeps of its call. */
typedef struct kept {
  const situ_op *op;
  situ_device device;
  unsigned operands, wants; /* bit masks: those in which the op is linear; those whose gradients it computes */
  situ_shape shape[SITU_OPERANDS];
  situ_dtype dtype[SITU_OPERANDS];
  int ins;
  _Alignas(double) unsigned char params[PARAMS_MAX]; /* the tape aligns no further */
} kept;

static bool linear_backward(situ__pass *pass, const situ__node *n, situ_tensor *const *up, const bool *wants,
                            situ_tensor **dx);

/* The gradients of a call by the op's own backward. value: its operands, and the gradient of its result. */
static bool run_plain(const kept *c, situ_tensor *const *value, situ_tensor **dx) {
  bool wants[SITU_OPERANDS];
  for (int i = 0; i < c->ins; i++) {
    wants[i] = c->wants >> i & 1;
    dx[i] = NULL;
  }
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *none[SITU_RESULTS] = { NULL };
  bool good = c->op->backward(&(situ_grad_call){ .op = c->op,
                                                 .ins = c->ins,
                                                 .outs = 1,
                                                 .params = c->params,
                                                 .device = c->device,
                                                 .in = value,
                                                 .out = none,
                                                 .grad = value + c->ins,
                                                 .dx = dx,
                                                 .wants = wants,
                                                 .shape = c->shape,
                                                 .dtype = c->dtype,
                                                 .node = &situ__no_place });
  for (int i = 0; i < c->ins; i++) {
    if (good && wants[i]) good = (dx[i] = situ__fit_gradient(c->op->name, dx[i], &c->shape[i], c->dtype[i])) != NULL;
    if (good && wants[i]) good = situ_escape(&s, dx[i]) != NULL;
  }
  return situ_scope_end(&s) == SITU_OK && good;
}

static bool run_plain_one(situ_tensor *const *value, situ_tensor **dx, const void *k) {
  return run_plain(k, value, dx);
}

static bool run_linear(const kept *k, situ_tensor *const *value, situ_tensor **dx) {
  const int ins = k->ins;
  bool samples = false;
  for (int i = 0; i <= ins; i++) samples |= situ__is_sample(value[i]);
  if (samples ? !situ__dispatch_up.each_sample(k->op->name, value, ins + 1, dx, ins, run_plain_one, k)
              : !run_plain(k, value, dx))
    return false;
  const unsigned asks = situ__tape_asks(value, ins + 1);
  if (!(asks & SITU__TAPE_WANTED)) return true;
  if (asks & SITU__TAPE_FIRST_ORDER) return situ__tape_refuse_first_order(k->op->name, value, ins + 1);
  situ__node *n = situ__tape_prepare(&(situ__record){ .name = k->op->name,
                                                      .backward = linear_backward,
                                                      .params = k,
                                                      .params_size = sizeof *k,
                                                      .in = value,
                                                      .out = dx,
                                                      .ins = ins + 1,
                                                      .outs = ins,
                                                      .save = ~0u >> (32 - SITU_OPERANDS) });
  return n && situ__tape_attach(n, dx);
}

/* up: the gradients of the gradients. */
static bool linear_backward(situ__pass *pass, const situ__node *n, situ_tensor *const *up, const bool *wants,
                            situ_tensor **dx) {
  (void)pass;
  const kept *k = n->params;
  const int ins = k->ins;
  situ_tensor *value[VALUES], *other[VALUES], *part[SITU_OPERANDS];
  bool good = true;
  for (int i = 0; i <= ins; i++) value[i] = situ__saved_operand(n, i, &good);
  for (int i = 0; i <= ins; i++) dx[i] = NULL;
  for (int i = 0; good && i < ins; i++) {
    if (!up[i]) continue;
    for (int j = 0; j <= ins; j++) other[j] = j == i ? up[i] : value[j];
    if (wants[ins]) good = add_to(&dx[ins], situ_op_run(k->op, other, ins, k->params, NULL));
    kept rest = *k;
    rest.wants = 0;
    for (int j = 0; j < ins; j++)
      if (j != i && wants[j] && k->operands >> j & 1) rest.wants |= 1u << j;
    if (good && rest.wants) good = run_linear(&rest, other, part);
    for (int j = 0; good && j < ins; j++)
      if (rest.wants >> j & 1) good = add_to(&dx[j], part[j]);
  }
  return good;
}

bool situ_backward_linear(situ_grad_call *call, unsigned operands) {
  if (!is_complete("backward_linear", call)) return false;
  kept k = { .op = call->op, .device = call->device, .operands = operands, .ins = call->ins };
  if (call->ins > SITU_OPERANDS || call->outs != 1 || call->op->params_size > PARAMS_MAX)
    return situ__fail(SITU_E_ARG, call->op->name,
                      "situ_backward_linear: %d operands, %d results, %zu bytes of parameters", call->ins, call->outs,
                      call->op->params_size),
           false;
  situ_tensor *value[VALUES], *dx[SITU_OPERANDS];
  for (int i = 0; i < call->ins; i++) {
    value[i] = operands >> i & 1 || !call->in[i] || !situ_requires_grad(call->in[i]) ? call->in[i] : NULL;
    k.shape[i] = call->shape[i];
    k.dtype[i] = call->dtype[i];
    k.wants |= (unsigned)(call->wants[i] && operands >> i & 1) << i;
  }
  value[call->ins] = call->grad[0];
  if (call->op->params_size) memcpy(k.params, call->params, call->op->params_size);
  if (k.wants && !run_linear(&k, value, dx)) return false;
  for (int i = 0; i < call->ins; i++)
    if (k.wants >> i & 1) call->dx[i] = dx[i];
  return true;
}

/* ---- ops that are composed again ---- */

static situ_tensor *zeros_for(const situ_grad_call *g, int i) {
  return situ__dispatch_up.zeros(g->shape[i], &(situ_options){ .dtype = g->dtype[i], .device = g->device });
}

/* 16 bits are composed in f32, and rounded once. */
static bool is_short(situ_dtype dtype) { return dtype == SITU_F16 || dtype == SITU_BF16; }

/* The operands as a composition takes them; those whose gradients are asked for are listed in asked[]. */
static int stand_ins(const situ_grad_call *g, situ_tensor **in, situ_tensor **asked) {
  int count = 0;
  for (int i = 0; i < g->ins; i++) {
    in[i] = g->in[i];
    if (!g->wants[i]) continue;
    if (!in[i]) in[i] = zeros_for(g, i);
    if (!in[i] || !(in[i] = situ__tape_stand_in(in[i]))) return -1;
    asked[count++] = in[i];
    if (is_short((situ_dtype)in[i]->view.dtype) && !(in[i] = situ__dispatch_up.cast_operand(in[i], SITU_F32)))
      return -1;
  }
  return count;
}

bool situ_backward_through(situ_grad_call *call, situ_composition compose) {
  situ_tensor *in[SITU_OPERANDS], *asked[SITU_OPERANDS], *found[SITU_OPERANDS];
  if (!is_complete("backward_through", call) ||
      !situ__given("backward_through", "compose", (const void *)(uintptr_t)compose))
    return false;
  if (call->ins > SITU_OPERANDS)
    return situ__fail(SITU_E_ARG, call->op->name, "backward_through: %d operands", call->ins), false;
  const int count = stand_ins(call, in, asked);
  bool good = count >= 0;
  for (int k = 0; good && k < call->outs; k++) {
    if (!call->grad[k]) continue;
    situ_tensor *y = compose(call, in, k);
    if (y && y->view.dtype != call->grad[k]->view.dtype)
      y = situ__dispatch_up.cast_operand(y, (situ_dtype)call->grad[k]->view.dtype);
    if (!y) return false;
    if (!situ_requires_grad(y)) continue;
    const situ_backward_options o = { .gradient = call->grad[k], .create_graph = true };
    good = situ_autograd_grad(y, count, asked, found, &o) == SITU_OK;
    for (int i = 0, a = 0; good && i < call->ins; i++)
      if (call->wants[i] && found[a++]) good = add_to(&call->dx[i], found[a - 1]);
  }
  for (int i = 0; good && i < call->ins; i++)
    if (call->wants[i] && !call->dx[i]) good = (call->dx[i] = zeros_for(call, i)) != NULL;
  return good;
}
