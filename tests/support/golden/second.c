/* Second derivatives of golden cases (tools/golden/edges.py): the gradients of the sum of all first gradients, each
   element times 1, 2 or 3 in turn.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "support/golden/run.h"

static const char prefix[] = "second.";

bool gold_is_second(const gold_case *c, int output) {
  return strncmp(c->output[output].name, prefix, sizeof prefix - 1) == 0;
}

/* The sum of g's elements times their weights. */
static situ_tensor *weighted(situ_tensor *g) {
  const situ_options like = { .device = situ_device_of(g) };
  situ_tensor *at = situ_remainder_scalar(situ_arange(0, (double)situ_numel(g), 1, &like), 3);
  situ_tensor *weight = situ_to_dtype(situ_add_scalar(at, 1), situ_dtype_of(g));
  return situ_sum(situ_mul(g, situ_reshape(weight, situ_shape_of(g))), NULL);
}

static situ_tensor *sum_of_gradients(gold_call *call, situ_tensor **by, int count, situ_tensor *up) {
  situ_tensor *g[GOLD_MAX_INPUTS], *sum = NULL;
  const situ_backward_options record = { .gradient = up, .create_graph = true };
  if (situ_autograd_grad(call->out[0], count, by, g, &record) != SITU_OK) return NULL;
  for (int k = 0; k < count; k++) {
    situ_tensor *part = g[k] ? weighted(g[k]) : NULL;
    if (part) sum = sum ? situ_add(sum, part) : part;
  }
  return sum;
}

bool gold_second(gold_call *call) {
  const gold_case *c = call->c;
  situ_tensor *by[GOLD_MAX_INPUTS + 1], *found[GOLD_MAX_INPUTS + 1] = { NULL };
  int count = 0, outputs = c->outputs;
  while (outputs && gold_is_second(c, outputs - 1)) outputs--;
  if (outputs == c->outputs) return true;
  for (int i = 0; i < c->inputs; i++)
    if (situ_requires_grad(call->leaf[i])) by[count++] = call->leaf[i];
  situ_tensor *up = by[count] = situ_requires_grad_(gold_tensor_to(&c->seed[0], call->device), true);
  const situ_backward_options keep = { .retain_graph = true }; /* the first gradients follow */
  situ_tensor *sum = sum_of_gradients(call, by, count, up);
  if (!sum || (situ_requires_grad(sum) && situ_autograd_grad(sum, count + 1, by, found, &keep) != SITU_OK))
    return false;
  for (int k = 0; k <= count; k++)
    if (!(call->out[outputs + k] = found[k] ? found[k] : situ_zeros_like(by[k], NULL))) return false;
  return true;
}
