/* Shape rules that several ops share.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "dispatch/dispatch.h"

/* ---- the order of strides ---- */

/* Begins the layout of the results; call->view is free, as views have no results to lay out. */
static situ_view_desc *begin_layout(situ_call *c) {
  situ_view_desc *to = &c->view;
  to->storage = c->in[0]->view.storage;
  to->offset = 0;
  to->ndim = (uint8_t)c->shape[0].ndim;
  memcpy(to->size, c->shape[0].dim, sizeof to->size);
  return to;
}

void situ__order_results(situ_call *c) {
  enum { MOST = SITU_OPERANDS };
  const situ_view_desc *views[MOST];
  if (c->ins > MOST) return;
  for (int i = 0; i < c->ins; i++) views[i] = situ__desc(c->in[i]);
  situ_view_desc *to = begin_layout(c);
  if (situ__order_strides(to, views, c->ins) && !to->contiguous) c->like = to;
}

void situ__keep_strides(situ_call *c) {
  const situ_view_desc *x = situ__desc(c->in[0]), each = situ__unexpanded(x), *views = &each;
  if (!situ__is_expanded(x)) {
    situ__keep_order(c);
    return;
  }
  situ_view_desc *to = begin_layout(c);
  memcpy(to->size, each.size, sizeof to->size);
  if (!situ__order_strides(to, &views, 1)) return;
  for (int d = 0; d < x->ndim; d++) {
    if (!x->stride[d]) to->stride[d] = 0;
    to->size[d] = x->size[d];
  }
  situ_desc_refresh(to);
  c->like = to;
}

void situ__format_results(situ_call *c, situ_memory_format format) {
  situ_view_desc *to = begin_layout(c);
  if (situ__format_strides(to, format) && !to->contiguous) c->like = to;
}

void situ__follow_format(situ_call *c) {
  const situ_view_desc *x = situ__desc(c->in[0]);
  const situ_memory_format format = situ__suggest_format(x);
  if (format >= SITU_CHANNELS_LAST && c->shape[0].ndim == x->ndim) situ__format_results(c, format);
}

/* ---- shapes ---- */

bool situ_infer_like(situ_call *call) {
  if (!situ__given("infer_like", "call", call)) return false;
  call->shape[0] = situ__shape(&call->in[0]->view);
  call->dtype[0] = (situ_dtype)call->in[0]->view.dtype;
  return true;
}

bool situ_infer_broadcast(situ_call *call) {
  if (!situ__given("infer_broadcast", "call", call)) return false;
  const situ_view_desc *first = &call->in[0]->view;
  bool alike = first->contiguous, rows = alike, dtypes = true;
  call->shape[0] = situ__shape(first);
  for (int i = 1; i < call->ins; i++) {
    if (!call->in[i]) continue;
    const situ_view_desc *v = &call->in[i]->view;
    dtypes = dtypes && v->dtype == first->dtype;
    rows = rows && v->contiguous;
    if (situ__same_sizes(v, first)) {
      alike = alike && v->contiguous;
      continue;
    }
    alike = false;
    situ_shape other = situ__shape(v);
    if (!situ_shape_broadcast(call->op->name, &call->shape[0], &other)) return false;
  }
  if (alike) call->like = first;
  else if (!rows) situ__order_results(call);
  call->dtype[0] = call->compute = dtypes ? (situ_dtype)first->dtype : situ_result_type(call->in, call->ins);
  return true;
}
