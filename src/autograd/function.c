/* Custom functions on the tape.
   SPDX-License-Identifier: MIT */
#include "autograd/tangent.h"
#include "autograd/view.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "situ/sys/shape.h"

static bool check_gradient(const char *name, const situ__node *n, int i, const situ_tensor *g) {
  if (!situ__need(name, "grad_in", g)) return false;
  situ_shape got = situ__shape(&g->view);
  if (situ_shape_equal(&got, &n->shape[i]) && (situ_dtype)g->view.dtype == n->dtype[i]) return true;
  char want[SITU_SHAPE_TEXT], have[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_ARG, name, "backward returned %s %s as the gradient of operand %d, which is %s %s",
                    situ_dtype_name((situ_dtype)g->view.dtype), situ_shape_text(&got, have), i,
                    situ_dtype_name(n->dtype[i]), situ_shape_text(&n->shape[i], want)),
         false;
}

/* In a recording scope the gradients of the results are stand-ins with a history, so a gradient without one was
   computed outside of recorded calls. */
static bool check_history(const char *name, int i, const situ_tensor *dx) {
  if (dx->requires_grad || !situ__recording()) return true;
  return situ__fail(
             SITU_E_UNSUPPORTED, name,
             "create_graph: the gradient of operand %d was not computed by recorded calls, so that its own derivative "
             "would be dropped",
             i),
         false;
}

static bool function_backward(situ__pass *pass, const situ__node *n, situ_tensor *const *grad, const bool *wants,
                              situ_tensor **dx) {
  (void)pass;
  situ__origin.within = NULL; /* the function's own lines are the call sites; the pass restores it */
  const situ_function *f = n->owner;
  size_t count = (size_t)(n->ins + 2 * n->outs);
  situ_tensor **values = situ__alloc(count * sizeof *values), **given = values + n->ins + n->outs;
  if (!values) return situ__no_memory(f->name, count * sizeof *values), false;
  bool good = true;
  for (int i = 0; i < n->ins; i++) values[i] = situ__saved_operand(n, i, &good);
  for (int k = 0; k < n->outs; k++) values[n->ins + k] = situ__saved_result(n, k, &good);
  for (int k = 0; good && k < n->outs; k++) {
    given[k] = grad[k] && situ__recording() ? situ__tape_stand_in(grad[k]) : grad[k];
    good = given[k] || !grad[k];
  }
  situ_status status =
      good ? f->backward(values, n->ins, values + n->ins, n->outs, given, dx, n->params) : situ_error();
  situ__free(values);
  if (status != SITU_OK) {
    if (situ_error() == SITU_OK) situ__fail(status, f->name, "backward failed");
    return false;
  }
  for (int i = 0; i < n->ins; i++) {
    if (!wants[i]) continue;
    if (!dx[i])
      return situ__fail(SITU_E_ARG, f->name, "backward left no gradient for operand %d, which requires one", i), false;
    if (!check_gradient(f->name, n, i, dx[i]) || !check_history(f->name, i, dx[i])) return false;
  }
  return true;
}

/* A function may return an operand itself: then its result becomes a separate handle. */
static bool own_handles(const situ_function *f, situ_tensor *const *in, int ins, situ_tensor **out, int outs) {
  for (int k = 0; k < outs; k++) {
    situ_tensor *given = out[k];
    if (!situ__need(f->name, "result", given)) return false;
    bool operand = given->node != NULL;
    for (int i = 0; i < ins; i++) operand = operand || given == in[i];
    if (operand && !(out[k] = situ__tensor_view(f->name, &given->view))) return false;
    if (operand) situ__view_link(out[k], given, SITU__VIEW_FUNCTION);
  }
  return true;
}

situ_status situ_function_apply(const situ_function *function, situ_tensor *const *in, int count_in, situ_tensor **out,
                                int count_out, void *payload) {
  const char *name = function && function->name ? function->name : "function_apply";
  const bool apart = situ__apart(name, "in and out", in, count_in, out, count_out);
  bool good = function && function->forward && count_in > 0 && count_out > 0 && in && out;
  if (!good) situ__fail(SITU_E_ARG, name, "a function needs a forward, operands and results");
  good = good && apart;
  for (int i = 0; good && i < count_in; i++) good = situ__need(name, "operand", in[i]);
  for (int k = 0; good && k < count_out; k++) out[k] = NULL;
  bool recorded = false;
  const unsigned asks = good ? situ__tape_asks(in, count_in) : 0;
  const bool wanted = asks & SITU__TAPE_WANTED;
  if (wanted && asks & SITU__TAPE_FIRST_ORDER) good = situ__tape_refuse_first_order(name, in, count_in);
  for (int i = 0; good && wanted && i < count_in; i++) good = situ__view_fresh(name, in[i]);
  for (int i = 0; good && situ__forward_mode == SITU__FORWARD_ON && i < count_in; i++)
    good = situ__tangent_refuse(name, in[i]);
  if (good) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    situ_status status = function->forward(in, count_in, out, count_out, payload);
    good = status == SITU_OK && own_handles(function, in, count_in, out, count_out);
    if (status != SITU_OK && situ_error() == SITU_OK) situ__fail(status, name, "forward failed");
    for (int k = 0; good && k < count_out; k++) good = situ_escape(&s, out[k]) != NULL;
    SITU_IGNORE(situ_scope_end(&s));
  }
  if (good && wanted) {
    situ__node *n = situ__tape_prepare(&(situ__record){ .name = name,
                                                        .backward = function->backward ? function_backward : NULL,
                                                        .owner = function,
                                                        .params = payload,
                                                        .release = function->release,
                                                        .in = in,
                                                        .out = out,
                                                        .ins = count_in,
                                                        .outs = count_out,
                                                        .save = ~0u });
    recorded = n != NULL;
    good = recorded && situ__tape_attach(n, out);
  }
  for (int k = 0; good && asks == SITU__TAPE_FIRST_ORDER && k < count_out; k++)
    out[k]->first_order = situ_dtype_is_floating((situ_dtype)out[k]->view.dtype);
  if (!recorded && function && function->release) function->release(payload);
  if (!good && out && apart)
    for (int k = 0; k < count_out; k++) out[k] = NULL;
  return good ? SITU_OK : situ_error();
}
