/* Gradients against central differences, for those who write ops and functions.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"
#include "func/function.h"
#include "situ/ops.h"
#include "situ/random.h"
#include "situ/sys/shape.h"
#include "tensor/tensor.h"

enum { MOST = 63 }; /* inputs; gradgradcheck adds the incoming gradient */

typedef struct check {
  const char *op;
  situ_func function;
  void *payload;
  int count;
  situ_tensor *const *inputs;
  situ_gradcheck_options o;
  situ_tensor *weight; /* of the result's elements */
} check;

static bool given(check *c, const situ_gradcheck_options *options) {
  c->o = situ_gradcheck_defaults();
  if (!situ__options_read(c->op, "situ_gradcheck_defaults", options, &c->o, sizeof c->o)) return false;
  if (!c->function) return situ__null(c->op, "function"), false;
  if (!c->inputs) return situ__null(c->op, "inputs"), false;
  if (c->count < 1 || c->count > MOST)
    return situ__fail(SITU_E_ARG, c->op, "%d inputs, must be 1 to %d", c->count, MOST), false;
  if (!(c->o.eps > 0 && c->o.atol >= 0 && c->o.rtol >= 0))
    return situ__fail(SITU_E_ARG, c->op, "eps %g, atol %g, rtol %g: eps must be positive, the others not negative",
                      c->o.eps, c->o.atol, c->o.rtol),
           false;
  bool any = false;
  for (int i = 0; i < c->count; i++) {
    if (!situ__need(c->op, "inputs", c->inputs[i])) return false;
    if (!c->inputs[i]->requires_grad) continue;
    any = true;
    if (c->inputs[i]->view.dtype == SITU_F64) continue;
    return situ__fail(SITU_E_DTYPE, c->op, "inputs[%d] is %s, must be f64: differences would be too coarse", i,
                      situ_dtype_name((situ_dtype)c->inputs[i]->view.dtype)),
           false;
  }
  if (!any) situ__fail(SITU_E_ARG, c->op, "no input requires a gradient");
  return any;
}

/* Weights between 0.5 and 1.5, the same on every run. */
static situ_tensor *weights_like(const situ_tensor *y) {
  situ_generator fixed = { .seed = 1 };
  situ_tensor *w = situ_empty_like((situ_tensor *)y, NULL);
  return w ? situ_uniform_(w, 0.5, 1.5, &fixed) : NULL;
}

static situ_tensor *weighed(const check *c, situ_tensor *const *in) {
  situ_tensor *y = situ__func_value(c->op, c->function, c->payload, c->count, in);
  return y ? situ_sum(situ_mul(y, c->weight), NULL) : NULL;
}

/* The weighed sum with element k of input i moved. */
static bool moved(const check *c, int i, int64_t k, double by, double *value) {
  situ_tensor *in[MOST + 1];
  situ_scope s;
  situ__scope_begin_as(&s, false);
  memcpy(in, c->inputs, (size_t)c->count * sizeof *in);
  situ_tensor *own = situ_clone(c->inputs[i]);
  situ_tensor *one = own ? situ_narrow(situ_reshape(own, SITU_SHAPE(-1)), 0, k, 1) : NULL;
  const situ_tensor *sum = one && situ_add_scalar_(one, by) && (in[i] = own) ? weighed(c, in) : NULL;
  const bool good = sum && situ_item((situ_tensor *)sum, value) == SITU_OK;
  return situ_scope_end(&s) == SITU_OK && good;
}

static bool compare(const check *c, int i, const char *by, const double *got) {
  const situ_shape shape = situ__shape(&c->inputs[i]->view);
  for (int64_t k = 0; k < c->inputs[i]->view.numel; k++) {
    double up, down;
    if (!moved(c, i, k, c->o.eps, &up) || !moved(c, i, k, -c->o.eps, &down)) return false;
    const double want = (up - down) / (2 * c->o.eps);
    if (fabs(got[k] - want) <= c->o.atol + c->o.rtol * fabs(want) || (isnan(got[k]) && isnan(want))) continue;
    char at[SITU_SHAPE_TEXT];
    situ_shape index = { .ndim = shape.ndim };
    int64_t rest = k;
    for (int d = shape.ndim - 1; d >= 0; rest /= shape.dim[d], d--) index.dim[d] = rest % shape.dim[d];
    const char *name = situ_name(c->inputs[i]);
    return situ__fail(SITU_E_STATE, c->op, "the gradient of inputs[%d]%s%s at %s is %.10g by %s, %.10g by differences",
                      i, *name ? ", " : "", name, situ_shape_text(&index, at), got[k], by, want),
           false;
  }
  return true;
}

/* The derivative of the weighed sum by each element of input i, in forward mode. */
static bool forward(const check *c, int i, double *out) {
  const situ_tensor *x = c->inputs[i];
  for (int64_t k = 0; k < x->view.numel; k++) {
    situ_tensor *tangents[MOST + 1] = { NULL }, *along;
    situ_scope s;
    situ__scope_begin_as(&s, false);
    situ_tensor *unit = situ_zeros_like((situ_tensor *)x, NULL);
    situ_tensor *one = unit ? situ_narrow(situ_reshape(unit, SITU_SHAPE(-1)), 0, k, 1) : NULL;
    tangents[i] = one && situ_fill_(one, 1) ? unit : NULL;
    const bool good = tangents[i] && situ_func_jvp(c->function, c->payload, c->count, c->inputs, tangents, &along) &&
                      situ_item(situ_sum(situ_mul(along, c->weight), NULL), &out[k]) == SITU_OK;
    if (situ_scope_end(&s) != SITU_OK || !good) return false;
  }
  return true;
}

static bool check_input(const check *c, int i, situ_tensor *grad) {
  const size_t bytes = (size_t)(c->inputs[i]->view.numel + 1) * sizeof(double);
  double *values = situ__alloc(bytes);
  if (!values) return situ__no_memory(c->op, bytes), false;
  bool good = situ_copy_to_host(grad, values, bytes - sizeof(double)) == SITU_OK && compare(c, i, "backward", values);
  if (good && c->o.check_forward_ad) good = forward(c, i, values) && compare(c, i, "forward mode", values);
  situ__free(values);
  return good;
}

static bool run_check(check *c) {
  situ_tensor *grads[MOST + 1], *y;
  situ_scope s;
  situ__scope_begin_as(&s, false);
  bool good = (y = situ__func_value(c->op, c->function, c->payload, c->count, c->inputs)) &&
              (c->weight = weights_like(y)) &&
              situ_func_vjp(c->function, c->payload, c->count, c->inputs, c->weight, false, grads);
  for (int i = 0; good && i < c->count; i++)
    if (c->inputs[i]->requires_grad) good = check_input(c, i, situ_contiguous(grads[i]));
  return situ_scope_end(&s) == SITU_OK && good;
}

situ_status situ_autograd_gradcheck(situ_func function, void *payload, int count, situ_tensor *const *inputs,
                                    const situ_gradcheck_options *options) {
  check c = { .op = "autograd_gradcheck", .function = function, .payload = payload, .count = count, .inputs = inputs };
  return given(&c, options) && run_check(&c) ? SITU_OK : situ_error();
}

/* ---- gradients of gradients ---- */

/* The gradients of the inputs that require one, one after the other; the last operand is the incoming gradient. */
static situ_tensor *gradients_of(situ_tensor *const *in, int count, void *payload) {
  const check *c = payload;
  situ_tensor *grads[MOST + 1], *flat[MOST + 1];
  int n = 0;
  if (!situ_func_vjp(c->function, c->payload, count - 1, in, in[count - 1], true, grads)) return NULL;
  for (int i = 0; i < count - 1; i++)
    if (c->inputs[i]->requires_grad && !(flat[n++] = situ_reshape(grads[i], SITU_SHAPE(-1)))) return NULL;
  return situ_cat(flat, n, 0);
}

situ_status situ_autograd_gradgradcheck(situ_func function, void *payload, int count, situ_tensor *const *inputs,
                                        const situ_gradcheck_options *options) {
  check c = {
    .op = "autograd_gradgradcheck", .function = function, .payload = payload, .count = count, .inputs = inputs
  };
  if (!given(&c, options)) return situ_error();
  situ_tensor *all[MOST + 1], *y;
  situ_scope s;
  situ__scope_begin_as(&s, false);
  memcpy(all, inputs, (size_t)count * sizeof *all);
  bool good = (y = situ__func_value(c.op, function, payload, count, inputs)) && (all[count] = weights_like(y)) &&
              (all[count] = situ_requires_grad_(situ_detach(all[count]), true));
  check second = { .op = c.op, .function = gradients_of, .payload = &c, .count = count + 1, .inputs = all, .o = c.o };
  good = good && run_check(&second);
  return situ_scope_end(&s) == SITU_OK && good ? SITU_OK : situ_error();
}
