/* torch.func: derivatives of functions of tensors, by forward mode (dual.c) and by backward passes.
   SPDX-License-Identifier: MIT */
#include "situ/func.h"

#include "autograd/tangent.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "func/dual.h"
#include "func/function.h"
#include "ops/samples.h"
#include "situ/ops.h"

bool situ__func_given(const char *op, situ_func function, int count, situ_tensor *const *primals) {
  if (!function) return situ__null(op, "function"), false;
  if (!primals) return situ__null(op, "primals"), false;
  if (count < 1 || count > SITU__PRIMALS)
    return situ__fail(SITU_E_ARG, op, "%d primals, must be 1 to %d", count, SITU__PRIMALS), false;
  for (int i = 0; i < count; i++)
    if (!situ__need(op, "primals", primals[i])) return false;
  return true;
}

bool situ__func_floating(const char *op, int count, situ_tensor *const *primals, int argnum) {
  if (argnum < 0 || argnum >= count)
    return situ__fail(SITU_E_ARG, op, "argnum is %d, there are %d primals", argnum, count), false;
  const situ_dtype dtype = (situ_dtype)primals[argnum]->view.dtype;
  if (situ_dtype_is_floating(dtype)) return true;
  return situ__fail(SITU_E_DTYPE, op, "primals[%d] is %s, must be floating", argnum, situ_dtype_name(dtype)), false;
}

/* Checks that t is a direction at `at`: same shape, dtype and device. */
static bool fits(const char *op, const char *name, situ_tensor *t, const situ_tensor *at) {
  if (!situ__need(op, name, t)) return false;
  if (!situ__same_device(t->view.storage->device, at->view.storage->device)) {
    const situ_blamed list[2] = { { .operand = "primal", .tensor = at },
                                  { .operand = name, .tensor = t, .odd = true } };
    return situ__blame(SITU_E_DEVICE, op, list, 2, "a direction must be where its primal is"), false;
  }
  if (t->view.dtype == at->view.dtype && situ__same_sizes(&t->view, &at->view)) return true;
  const situ_shape want = situ__shape(&at->view), got = situ__shape(&t->view);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  return situ__fail(t->view.dtype != at->view.dtype ? SITU_E_DTYPE : SITU_E_SHAPE, op, "%s is %s %s, its primal %s %s",
                    name, situ_dtype_name((situ_dtype)t->view.dtype), situ_shape_text(&got, b),
                    situ_dtype_name((situ_dtype)at->view.dtype), situ_shape_text(&want, a)),
         false;
}

/* Handles of their own for the primals, so that what is marked on them does not stay; with their history. */
static bool own_handles(const char *op, int count, situ_tensor *const *primals, situ_tensor **own) {
  for (int i = 0; i < count; i++) {
    situ_tensor *t = primals[i];
    const bool recorded = t->requires_grad && situ__recording();
    if (!(own[i] = recorded ? situ__tape_stand_in(t) : situ__tensor_view(op, &t->view))) return false;
  }
  return true;
}

/* ---- forward mode ---- */

situ_tensor *situ__func_forward(const char *op, situ_func function, void *payload, int count,
                                situ_tensor *const *primals, situ_tensor *const *tangents, situ_tensor **tangent) {
  situ_tensor *own[SITU__PRIMALS], *y = NULL, *t = NULL;
  if (!own_handles(op, count, primals, own) || !situ__tangents_begin(op)) return NULL;
  bool good = true;
  for (int i = 0; good && i < count; i++)
    if (tangents && tangents[i]) good = situ__tangent_set(op, own[i], tangents[i]);
  const uint64_t errors = situ__error_count();
  y = good ? function(own, count, payload) : NULL;
  good = good && y && situ__error_count() == errors && situ__need(op, "result", y);
  if (good) {
    situ__forward_mode = SITU__FORWARD_INSIDE;
    t = situ__dual_tangent(y, &good);
    t = good && tangent ? t ? situ_clone(t) : situ_zeros_like(y, NULL) : NULL; /* the call below releases tangents */
    good = good && (t || !tangent);
  }
  situ__tangents_end();
  if (!good && situ_error() == SITU_OK) situ__fail(SITU_E_STATE, op, "the function returned no tensor");
  if (tangent) *tangent = good ? t : NULL;
  return good ? y : NULL;
}

situ_tensor *situ_func_jvp(situ_func function, void *payload, int count, situ_tensor *const *primals,
                           situ_tensor *const *tangents, situ_tensor **tangent) {
  const char *op = "func_jvp";
  situ_tensor *y = NULL, *along = NULL;
  bool good = situ__func_given(op, function, count, primals);
  for (int i = 0; good && tangents && i < count; i++)
    good = tangents[i] ? situ__func_floating(op, count, primals, i) && fits(op, "tangents", tangents[i], primals[i])
                       : situ__optional(op, "tangents", NULL, SITU__A_TENSOR);
  if (good) y = situ__func_forward(op, function, payload, count, primals, tangents, tangent ? &along : NULL);
  if (tangent) *tangent = along; /* last: it may be among the primals or tangents */
  return y;
}

/* ---- backward ---- */

/* Leaves at the primals: integers stay constants. In situ_func_vmap each sample has leaves of its own. */
bool situ__func_leaves(const char *op, int count, situ_tensor *const *primals, bool create_graph, situ_tensor **own) {
  if (create_graph && !own_handles(op, count, primals, own)) return false;
  for (int i = 0; i < count; i++) {
    if (!create_graph && situ__sampling && !situ__is_sample(primals[i])) own[i] = situ__sample_constant(op, primals[i]);
    else if (!create_graph) own[i] = situ__tensor_view(op, &primals[i]->view);
    if (!own[i]) return false;
    const bool floating = situ_dtype_is_floating((situ_dtype)own[i]->view.dtype);
    if (floating && !own[i]->requires_grad && !situ_requires_grad_(own[i], true)) return false;
  }
  return true;
}

/* The gradients of y by leaves; zeros where it does not depend on one, NULL for integers. */
bool situ__func_gradients(situ_tensor *y, situ_tensor *cotangent, bool keep, bool create_graph, int count,
                          situ_tensor *const *own, situ_tensor **grads) {
  situ_tensor *asked[SITU__PRIMALS], *found[SITU__PRIMALS] = { NULL };
  int n = 0;
  for (int i = 0; i < count; i++)
    if (own[i]->requires_grad) asked[n++] = own[i];
  const situ_backward_options o = { .gradient = cotangent, .retain_graph = keep, .create_graph = create_graph };
  if (y->requires_grad && n && situ_autograd_grad(y, n, asked, found, &o) != SITU_OK) return false;
  for (int i = 0, k = 0; i < count; i++) {
    grads[i] = NULL;
    if (!own[i]->requires_grad) continue;
    if (!(grads[i] = found[k] ? found[k] : situ_zeros_like(own[i], NULL))) return false;
    k++;
  }
  return true;
}

situ_tensor *situ__func_value(const char *op, situ_func function, void *payload, int count, situ_tensor *const *own) {
  const uint64_t errors = situ__error_count();
  situ_tensor *y = function(own, count, payload);
  if (!y && situ__error_count() == errors) situ__fail(SITU_E_STATE, op, "the function returned no tensor");
  return y && situ__error_count() == errors && situ__need(op, "result", y) ? y : NULL;
}

situ_tensor *situ_func_vjp(situ_func function, void *payload, int count, situ_tensor *const *primals,
                           situ_tensor *cotangent, bool create_graph, situ_tensor **grads) {
  const char *op = "func_vjp";
  situ_tensor *own[SITU__PRIMALS], *y = NULL;
  situ_scope s;
  if (!situ__func_given(op, function, count, primals) || !situ__optional(op, "cotangent", cotangent, SITU__A_TENSOR))
    return NULL;
  if (!grads) return situ__null(op, "grads"), NULL;
  if (!situ__apart(op, "primals and grads", primals, count, grads, count)) return NULL;
  for (int i = 0; i < count; i++) grads[i] = NULL;
  situ__scope_begin_as(&s, true);
  bool good = situ__func_leaves(op, count, primals, create_graph, own) &&
              (y = situ__func_value(op, function, payload, count, own)) &&
              (!cotangent || fits(op, "cotangent", cotangent, y)) &&
              situ__func_gradients(y, cotangent, false, create_graph, count, own, grads);
  if (good && !create_graph) good = (y = situ_detach(y)) != NULL;
  for (int i = 0; i < count; i++) {
    if (good && grads[i] && !create_graph) good = (grads[i] = situ_detach(grads[i])) != NULL;
    if (good && grads[i]) good = situ_escape(&s, grads[i]) != NULL;
  }
  if (good) good = situ_escape(&s, y) != NULL;
  const bool ended = situ_scope_end(&s) == SITU_OK;
  for (int i = 0; !(good && ended) && i < count; i++) grads[i] = NULL;
  return good && ended ? y : NULL;
}

situ_tensor *situ_func_hvp(situ_func function, void *payload, int count, situ_tensor *const *primals, int argnum,
                           situ_tensor *v) {
  const char *op = "func_hvp";
  if (!situ__func_given(op, function, count, primals) || !situ__func_floating(op, count, primals, argnum) ||
      !fits(op, "v", v, primals[argnum]))
    return NULL;
  situ_tensor *own[SITU__PRIMALS], *tangents[SITU__PRIMALS] = { NULL }, *along = NULL, *out = NULL, *y = NULL;
  situ_scope s;
  situ__scope_begin_as(&s, true);
  bool good = situ__func_leaves(op, count, primals, false, own);
  for (int i = 0; good && i < count; i++)
    if (i != argnum) good = (own[i] = situ_detach(own[i])) != NULL;
  tangents[argnum] = v;
  good = good && (y = situ__func_forward(op, function, payload, count, own, tangents, &along)) != NULL;
  if (good && along->view.numel != 1) {
    const situ_shape shape = situ__shape(&along->view);
    char text[SITU_SHAPE_TEXT];
    situ__fail(SITU_E_SHAPE, op, "the function's result is %s, must have one element", situ_shape_text(&shape, text));
    good = false;
  }
  if (good && along->requires_grad) good = situ_autograd_grad(along, 1, &own[argnum], &out, NULL) == SITU_OK;
  if (good) good = (out = out ? situ_detach(out) : situ_zeros_like(own[argnum], NULL)) != NULL;
  if (good) good = situ_escape(&s, out) != NULL;
  return situ_scope_end(&s) == SITU_OK && good ? out : NULL;
}
