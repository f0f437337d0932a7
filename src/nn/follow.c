/* Modules that go along when another one moves: averages of it, its loss, its metrics.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "nn/nn.h"
#include "situ/sys/tensor.h"

typedef struct pairing {
  situ_tree *state;   /* of the leader; NULL: nothing is followed any more */
  situ_tensor *first; /* what a tensor without a partner follows */
} pairing;

static situ_status pair(const situ_nn_visit *at, void *payload) {
  const pairing *p = payload;
  const bool known = p->state && situ_tree_find(p->state, at->path);
  return situ_accompany(at->tensor, known ? situ_tree_get(p->state, at->path) : p->first);
}

situ_status situ_nn_follow(situ_nn_module *m, situ_nn_module *leader) {
  static const char op[] = "nn_follow";
  pairing p = { 0 };
  if (!situ__nn_given(op, "module", m) || (leader && !situ__nn_given(op, "leader", leader))) return situ_error();
  if (leader && !(p.state = situ_nn_state_dict(leader))) return situ_error();
  if (situ_tree_count(p.state)) p.first = situ_tree_tensor_at(p.state, 0);
  if (leader && !p.first) {
    situ_tree_free(p.state);
    return situ__fail(SITU_E_ARG, op, "leader, a %s, has no parameters and buffers that could be followed",
                      leader->type->name);
  }
  const situ_status status = situ_nn_walk(m, SITU_NN_VISIT_TENSORS, pair, &p);
  situ_tree_free(p.state);
  return status;
}
