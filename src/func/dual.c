/* The tangents of a call's results, by one of five rules: the call itself on tangents, where it is linear (a view of a
   tensor gives a view of its tangent) or bilinear; an element-wise gradient's kernel; the op's own rule; else the
   derivative of the recorded backward, which is linear in the gradient g: J t is the derivative of <J^T g, t> by g.
   SPDX-License-Identifier: MIT */
#include "func/dual.h"

#include <string.h>

#include "autograd/tangent.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "ops/ops.h"

/* ---- tangents of operands ---- */

/* Whether two tensors have the same strides: the elements of a view are then at the same places. */
static bool lie_alike(const situ_tensor *a, const situ_tensor *b) {
  for (int d = 0; d < a->view.ndim; d++)
    if (a->view.size[d] > 1 && a->view.stride[d] != b->view.stride[d]) return false;
  return true;
}

/* t's tangent in t's layout, so that views of both correspond. */
static situ_tensor *aligned(situ_tensor *t, bool *good) {
  situ_tensor *tangent = situ__tangent(t);
  if (!tangent || lie_alike(t, tangent)) return tangent;
  const situ_memory_format format = situ__suggest_format(&t->view);
  const bool named = situ__is_format(&t->view, format);
  situ_tensor *own = named ? situ_clone_memory_format(tangent, format) : NULL;
  if (!named)
    situ__fail(SITU_E_UNSUPPORTED, "func_jvp",
               "a view of a tensor that is not contiguous has no tangent here; call "
               "situ_contiguous before it is viewed");
  *good = own && situ__tangent_set("func_jvp", t, own);
  return own;
}

situ_tensor *situ__dual_tangent(situ_tensor *t, bool *good) {
  situ_tensor *own = situ__tangent(t);
  if (own || !t || !t->base || !situ__tangent(t->base)) return own;
  situ_tensor *whole = aligned(t->base, good);
  if (!whole) return NULL;
  situ_shape strides = { .ndim = t->view.ndim };
  memcpy(strides.dim, t->view.stride, sizeof strides.dim);
  const int64_t at = whole->view.offset + t->view.offset - t->base->view.offset;
  own = situ_as_strided(whole, situ__shape(&t->view), strides, at);
  *good = own && situ__tangent_set("func_jvp", t, own);
  return own;
}

/* The tangent of what is written in place: zeros if it was a constant. */
static situ_tensor *tangent_to_write(situ_tensor *t, bool *good) {
  situ_tensor *whole = t->base ? t->base : t;
  if (!situ__tangent(whole) && !situ__tangent(t)) {
    situ_tensor *zeros = situ_zeros_like(whole, NULL);
    *good = zeros && situ__tangent_set("func_jvp", whole, zeros);
  }
  return *good ? situ__dual_tangent(t, good) : NULL;
}

/* ---- the rules ---- */

/* The operands of a linear call with tangents in place of values; zeros where there is none. */
static situ_tensor *run_on_tangents(const situ_call *c, situ_tensor *const *tangent) {
  situ_tensor *few[SITU_OPERANDS], **in = few, *y = NULL;
  const size_t bytes = (size_t)c->ins * sizeof *in;
  if (c->ins > SITU_OPERANDS && !(in = situ__alloc(bytes))) return situ__no_memory(c->op->name, bytes), NULL;
  bool good = true;
  for (int i = 0; good && i < c->ins; i++) {
    in[i] = c->in[i];
    if (!in[i] || !situ_dtype_is_floating((situ_dtype)in[i]->view.dtype)) continue;
    good = (in[i] = tangent[i] ? tangent[i] : situ_zeros_like(c->in[i], NULL)) != NULL;
  }
  if (good) y = situ_op_run(c->op, in, c->ins, c->params, NULL);
  if (in != few) situ__free(in);
  return y;
}

/* By the recorded backward. Sets dy[k], NULL where it is 0. */
static bool through_backward(const situ_call *c, situ_tensor *const *tangent, situ_tensor **dy) {
  const situ_op *op = c->op;
  situ_tensor *in[SITU_OPERANDS], *out[SITU_RESULTS], *u[SITU_RESULTS], *dx[SITU_OPERANDS] = { NULL }, *sum = NULL;
  situ_shape shape[SITU_OPERANDS];
  situ_dtype dtype[SITU_OPERANDS];
  bool wants[SITU_OPERANDS];
  if (!op->backward_recorded)
    return situ__fail(SITU_E_UNSUPPORTED, op->name,
                      op->backward
                          ? "func_jvp: its gradient has no derivative, which forward mode needs"
                          : "cannot be differentiated, but an operand has a tangent (situ_func_jvp); detach it"),
           false;
  if (c->ins > SITU_OPERANDS)
    return situ__fail(SITU_E_UNSUPPORTED, op->name, "func_jvp: %d operands, of an op that is not linear", c->ins),
           false;
  for (int i = 0; i < c->ins; i++) {
    in[i] = op->save & SITU_SAVE(i) ? c->in[i] : NULL;
    wants[i] = tangent[i] != NULL;
    if (c->in[i]) shape[i] = situ__shape(&c->in[i]->view), dtype[i] = (situ_dtype)c->in[i]->view.dtype;
  }
  for (int k = 0; k < c->outs; k++) {
    out[k] = op->save & SITU_SAVE_OUT(k) ? c->out[k] : NULL;
    u[k] = NULL;
    if ((op->shown && k >= op->shown) || !c->out[k] || !situ_dtype_is_floating((situ_dtype)c->out[k]->view.dtype))
      continue;
    if (!(u[k] = situ_requires_grad_(situ_zeros_like(c->out[k], NULL), true))) return false;
  }
  situ_grad_call g = { .op = op,
                       .ins = c->ins,
                       .outs = c->outs,
                       .params = c->params,
                       .device = c->device,
                       .in = in,
                       .out = out,
                       .grad = u,
                       .dx = dx,
                       .wants = wants,
                       .shape = shape,
                       .dtype = dtype,
                       .node = &situ__no_place };
  if (!situ__recorded_backward(&g)) return false;
  for (int i = 0; i < c->ins; i++) {
    if (!wants[i] || !dx[i] || !(dx[i] = situ__fit_gradient(op->name, dx[i], &shape[i], dtype[i]))) continue;
    situ_tensor *part = situ_sum(situ_mul(dx[i], tangent[i]), NULL);
    sum = sum ? situ_add(sum, part) : part;
  }
  if (!sum || !sum->requires_grad) return situ_error() == SITU_OK;
  for (int k = 0; k < c->outs; k++)
    if (u[k] && situ_autograd_grad(sum, 1, &u[k], &dy[k], &(situ_backward_options){ .create_graph = true }) != SITU_OK)
      return false;
  return true;
}

/* f(ta, b) + f(a, tb); a third operand, which is added, takes part once. */
static bool by_product(const situ_call *c, situ_tensor *const *tangent, situ_tensor **dy) {
  for (int i = 0; i < 2; i++) {
    if (!tangent[i]) continue;
    situ_tensor *in[SITU_OPERANDS] = { c->in[0], c->in[1] };
    in[i] = tangent[i];
    in[2] = c->ins > 2 && !dy[0] ? tangent[2] : NULL;
    situ_tensor *part = situ_op_run(c->op, in, c->ins, c->params, NULL);
    if (!part || !(dy[0] = dy[0] ? situ_add(dy[0], part) : part)) return false;
  }
  return true;
}

/* Whether the op's own rule holds, which may launch verbs: nothing is recorded, and there is one sample. */
static bool has_own_rule(const situ_call *c, situ_tensor *const *tangent) {
  bool history = false;
  if (!c->op->forward_derivative || situ__sampling) return false;
  for (int i = 0; i < c->ins; i++)
    history |= (c->in[i] && c->in[i]->requires_grad) || (tangent[i] && tangent[i]->requires_grad);
  return !history || !situ__recording();
}

static bool find_tangents(const situ_call *c, situ_tensor *const *tangent, situ_tensor **dy) {
  const situ_op *op = c->op;
  if (op->flags & (SITU_OP_VIEW | SITU_OP_LINEAR)) return (dy[0] = run_on_tangents(c, tangent)) != NULL;
  if (op->flags & SITU_OP_BILINEAR && (tangent[0] || tangent[1])) return by_product(c, tangent, dy);
  if (situ__is_unary(op)) {
    situ_tensor *value = op->save & SITU_SAVE_OUT(0) ? c->out[0] : op->save ? c->in[0] : NULL;
    return (dy[0] = situ__unary_gradient(op, c->params, value, tangent[0])) != NULL;
  }
  return through_backward(c, tangent, dy);
}

/* ---- calls ---- */

/* Computes the tangents in a scope of their own, and sets them. */
static bool set_tangents(const situ_call *c, situ_tensor *const *tangent) {
  const bool records = situ__recording();
  situ_tensor *dy[SITU_RESULTS] = { NULL };
  situ_scope s;
  const bool own = has_own_rule(c, tangent);
  situ__scope_begin_as(&s, !own && (records || !(c->op->flags & SITU_OP_VIEW)));
  bool good = own ? c->op->forward_derivative(c, tangent, dy) : find_tangents(c, tangent, dy);
  for (int k = 0; good && k < c->outs; k++) {
    if (!dy[k] || !c->out[k] || !situ_dtype_is_floating((situ_dtype)c->out[k]->view.dtype)) continue;
    if (!records && dy[k]->requires_grad) dy[k] = situ_detach(dy[k]);
    good = dy[k] && situ__tangent_set(c->op->name, c->out[k], dy[k]);
  }
  return situ_scope_end(&s) == SITU_OK && good;
}

/* The value is computed beside the written tensor first, with its tangent; then both are written. */
static bool run_in_place(situ_call *c, bool (*run)(situ_call *call)) {
  situ_tensor *x = c->in[0], *y = NULL;
  bool good = true;
  if (!(y = situ_op_run(c->op, c->in, c->ins, c->params, NULL))) return false;
  y = situ__dual_tangent(y, &good);
  situ__forward_mode = SITU__FORWARD_INSIDE;
  good = good && run(c);
  situ__forward_mode = SITU__FORWARD_ON;
  situ_tensor *to =
      good && (y || situ__tangent(x) || (x->base && situ__tangent(x->base))) ? tangent_to_write(x, &good) : NULL;
  if (!good || !to) return good;
  situ__forward_mode = SITU__FORWARD_INSIDE;
  good = (y ? situ_copy_(to, y) : situ_zero_(to)) != NULL;
  situ__forward_mode = SITU__FORWARD_ON;
  return good;
}

bool situ__dual_run(situ_call *c, bool (*run)(situ_call *call)) {
  situ_tensor *tangent[SITU_OPERANDS], **all = tangent;
  bool any = false, good = true;
  if (c->ins > SITU_OPERANDS) {
    const size_t bytes = (size_t)c->ins * sizeof *all;
    if (!(all = situ__alloc(bytes))) return situ__no_memory(c->op->name, bytes), false;
  }
  situ__forward_mode = SITU__FORWARD_INSIDE; /* the calls of which this one is made must not look for tangents */
  for (int i = 0; good && i < c->ins; i++) {
    all[i] = situ__alive(c->in[i]) ? situ__dual_tangent(c->in[i], &good) : NULL;
    if (all[i] && c->op->flags & SITU_OP_VIEW) all[i] = aligned(c->in[i], &good);
    any |= all[i] != NULL;
  }
  if (good && c->in_place && any) {
    situ__forward_mode = SITU__FORWARD_ON;
    good = run_in_place(c, run);
  } else {
    good = good && run(c) && (!any || c->op->flags & SITU_OP_NO_GRAD || set_tangents(c, all));
  }
  situ__forward_mode = SITU__FORWARD_ON;
  if (all != tangent) situ__free(all);
  return good;
}
