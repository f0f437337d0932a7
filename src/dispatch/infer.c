/* Shape rules that many ops share.
   SPDX-License-Identifier: MIT */
#include "dispatch/dispatch.h"

bool situ_infer_like(situ_call *c) {
  c->shape[0] = situ__shape(&c->in[0]->view);
  c->dtype[0] = (situ_dtype)c->in[0]->view.dtype;
  return true;
}

bool situ_infer_broadcast(situ_call *c) {
  c->shape[0] = situ__shape(&c->in[0]->view);
  bool same = true;
  for (int i = 1; i < c->ins; i++) {
    if (!c->in[i]) continue;
    if (!situ__same_sizes(&c->in[i]->view, &c->in[0]->view)) {
      situ_shape other = situ__shape(&c->in[i]->view);
      if (!situ_shape_broadcast(c->op->name, &c->shape[0], &other)) return false;
    }
    same = same && c->in[i]->view.dtype == c->in[0]->view.dtype;
  }
  c->dtype[0] = same ? (situ_dtype)c->in[0]->view.dtype : situ_result_type(c->in, c->ins);
  c->compute = c->dtype[0];
  return true;
}
