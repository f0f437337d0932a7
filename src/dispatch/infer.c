/* Shape rules that several ops share.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "dispatch/dispatch.h"

bool situ_infer_like(situ_call *c) {
  if (!situ__given("infer_like", "call", c)) return false;
  c->shape[0] = situ__shape(&c->in[0]->view);
  c->dtype[0] = (situ_dtype)c->in[0]->view.dtype;
  return true;
}

bool situ_infer_broadcast(situ_call *c) {
  if (!situ__given("infer_broadcast", "call", c)) return false;
  const situ_view_desc *first = &c->in[0]->view;
  bool alike = first->contiguous, dtypes = true;
  c->shape[0] = situ__shape(first);
  for (int i = 1; i < c->ins; i++) {
    if (!c->in[i]) continue;
    const situ_view_desc *v = &c->in[i]->view;
    dtypes = dtypes && v->dtype == first->dtype;
    if (situ__same_sizes(v, first)) {
      alike = alike && v->contiguous;
      continue;
    }
    alike = false;
    situ_shape other = situ__shape(v);
    if (!situ_shape_broadcast(c->op->name, &c->shape[0], &other)) return false;
  }
  if (alike) c->like = first;
  c->dtype[0] = c->compute = dtypes ? (situ_dtype)first->dtype : situ_result_type(c->in, c->ins);
  return true;
}
