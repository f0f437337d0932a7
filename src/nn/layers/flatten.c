/* Flatten.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "nn/nn.h"

typedef struct flatten {
  situ_nn_module base;
  int start, end;
} flatten;

static situ_tensor *flatten_forward(situ_nn_module *self, situ_tensor *x) {
  flatten *m = (flatten *)self;
  return situ_flatten(x, m->start, m->end);
}

static int flatten_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const flatten *m = (const flatten *)self;
  return snprintf(buffer, size, "start_dim=%d, end_dim=%d", m->start, m->end);
}

static const situ_nn_type flatten_type = {
  .name = "Flatten", .size = sizeof(flatten), .forward = flatten_forward, .single_op = true, .extra_repr = flatten_repr
};

situ_nn_module *situ_nn_flatten(int start_dim, int end_dim) {
  flatten *m = situ_nn_alloc(&flatten_type);
  if (m) {
    m->start = start_dim;
    m->end = end_dim;
  }
  return situ_nn_done(m);
}
