/* Shared by the op families.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

/* ---- element-wise work in any order of strides ---- */

/* Dimensions of y from the outermost in its memory to the innermost. */
static void sort_by_stride(const situ_view_desc *y, int *order) {
  for (int d = 0; d < y->ndim; d++) {
    int at = d;
    for (; at > 0 && llabs(y->stride[d]) > llabs(y->stride[order[at - 1]]); at--) order[at] = order[at - 1];
    order[at] = d;
  }
}

static const situ_view_desc *permuted(const situ_view_desc *v, const int *order, situ_view_desc *desc) {
  *desc = *v;
  for (int d = 0; d < v->ndim; d++) {
    desc->size[d] = v->size[order[d]];
    desc->stride[d] = v->stride[order[d]];
  }
  situ_desc_refresh(desc);
  return desc;
}

/* Rows of the kernels follow the last dimension: in the result's order of memory, operands of one dense order are one
   row, and a broadcast channel is a row of its own. */
static __attribute__((noinline)) bool launch_sorted(const char *op, situ_device device, const situ_work *given) {
  situ_view_desc desc[4];
  int order[SITU_MAX_DIMS];
  situ_work work = *given;
  sort_by_stride(given->out[0], order);
  work.out[0] = permuted(given->out[0], order, &desc[3]);
  for (int i = 0; i < work.ins; i++)
    if (given->in[i]) work.in[i] = permuted(given->in[i], order, &desc[i]);
  return situ__launch(op, device, &work);
}

bool situ__launch_elementwise(const char *op, situ_device device, const situ_work *work) {
  return work->out[0]->contiguous ? situ__launch(op, device, work) : launch_sorted(op, device, work);
}

bool situ__elementwise(const situ_call *c, situ_verb verb, const double *scalar, int scalars) {
  situ_view_desc desc[3];
  const situ_view_desc *y = &c->out[0]->view;
  const bool alike = c->like && c->like != &c->view;
  situ_work work = { verb, .op = c->op->code, .compute = c->compute, .ins = c->ins, .outs = 1, .out = { y } };
  for (int i = 0; i < c->ins; i++) {
    const situ_view_desc *x = &c->in[i]->view;
    work.in[i] = alike || situ__same_sizes(x, y) ? x : situ_desc_expand(x, y, &desc[i]);
  }
  for (int k = 0; k < scalars; k++) work.scalar[k] = scalar[k];
  return situ__launch_elementwise(c->op->name, c->device, &work);
}

const situ_view_desc *situ__ranked(const situ_view_desc *v, situ_view_desc *desc) {
  if (v->ndim) return v;
  *desc = *v;
  desc->ndim = 1;
  desc->size[0] = desc->stride[0] = 1;
  situ_desc_refresh(desc);
  return desc;
}

bool situ__resolve_shape(const char *op, situ_shape *shape, int64_t numel) {
  int open = -1;
  int64_t known = 1;
  char text[SITU_SHAPE_TEXT];
  bool good = shape->ndim >= 0 && shape->ndim <= SITU_MAX_DIMS;
  if (!good)
    return situ__fail(SITU_E_ARG, op, "%d dimensions: a tensor has 0 to %d", shape->ndim, SITU_MAX_DIMS), false;
  for (int d = 0; good && d < shape->ndim; d++) {
    if (shape->dim[d] == -1 && open < 0) open = d;
    else good = shape->dim[d] >= 0 && situ__mul_i64(known, shape->dim[d], &known);
  }
  if (good && open >= 0) {
    good = known > 0 && numel % known == 0;
    if (good) shape->dim[open] = numel / known;
  } else if (good) {
    good = known == numel;
  }
  int64_t checked;
  if (good && !situ_shape_numel(op, shape, &checked))
    return false; /* a size of 0 does not excuse an overflow of the others */
  if (!good)
    situ__fail(SITU_E_SHAPE, op, "%lld elements do not fit into shape %s", (long long)numel,
               situ_shape_text(shape, text));
  return good;
}

bool situ__dim_mask(const char *op, const situ_shape *dims, int ndim, bool all_if_none, unsigned *mask) {
  *mask = 0;
  if (dims->ndim < 0 || dims->ndim > SITU_MAX_DIMS)
    return situ__fail(SITU_E_ARG, op, "%d dimensions listed: a tensor has at most %d", dims->ndim, SITU_MAX_DIMS),
           false;
  for (int k = 0; k < dims->ndim; k++) {
    int d;
    if (!situ_wrap_dim(op, dims->dim[k], ndim, &d)) return false;
    if (*mask >> d & 1) return situ__fail(SITU_E_ARG, op, "dimension %d is listed twice", d), false;
    *mask |= 1u << d;
  }
  if (!dims->ndim && all_if_none) *mask = (1u << ndim) - 1;
  return true;
}

situ_tensor *situ__floating(situ_tensor *x) {
  return x && !situ_dtype_is_floating((situ_dtype)x->view.dtype) ? situ_to_dtype(x, SITU_F32) : x;
}

situ_tensor *situ__sum_to(situ_tensor *x, const situ_shape *shape) {
  situ_reduce_options o = { .keepdim = true };
  const int missing = situ_dim(x) - shape->ndim;
  for (int d = 0; d < situ_dim(x); d++)
    if (d < missing || shape->dim[d - missing] != situ_size(x, d)) o.dim.dim[o.dim.ndim++] = d;
  return situ_reshape(o.dim.ndim ? situ_sum(x, &o) : x, *shape);
}

bool situ__has_nan(situ_tensor *t, bool *found) {
  int64_t any = 0;
  situ__unseen u;
  situ__unseen_begin(&u);
  bool good = situ_item_i64(situ_any(situ_isnan(t), NULL), &any) == SITU_OK;
  good = situ__unseen_end(&u) && good;
  *found = any != 0;
  return good;
}

void situ__unseen_begin(situ__unseen *u) {
  u->mode = situ__forward_mode;
  if (u->mode == SITU__FORWARD_ON) situ__forward_mode = SITU__FORWARD_INSIDE;
  situ_scope_begin_no_grad(&u->scope);
}
bool situ__unseen_end(situ__unseen *u) {
  situ__forward_mode = u->mode;
  return situ_scope_end(&u->scope) == SITU_OK;
}

situ_tensor *situ__at_least(situ_tensor *x, double least) {
  situ_tensor *y = situ_clone(x);
  situ__unseen u;
  if (!y) return NULL;
  situ__unseen_begin(&u);
  const bool good = situ_clamp_(y, least, INFINITY) != NULL;
  return situ__unseen_end(&u) && good ? y : NULL;
}

bool situ__read_pair(const char *op, const char *name, situ_shape list, int64_t missing, int64_t least,
                     int64_t out[2]) {
  if (list.ndim < 0 || list.ndim > 2 || (list.ndim == 0 && missing < 0))
    return situ__fail(SITU_E_ARG, op, "%s has %d values, must have 1 or 2", name, list.ndim), false;
  for (int d = 0; d < 2; d++) {
    out[d] = list.ndim == 0 ? missing : list.dim[list.ndim == 1 ? 0 : d];
    if (out[d] >= least && out[d] <= INT32_MAX) continue;
    return situ__fail(SITU_E_ARG, op, "%s is %lld, must be %lld to 2^31 - 1", name, (long long)out[d],
                      (long long)least),
           false;
  }
  return true;
}
