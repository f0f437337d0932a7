/* Dropout.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/fail.h"
#include "nn/nn.h"

typedef struct dropout {
  situ_nn_module base;
  double p;
} dropout;

static situ_tensor *dropout_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_dropout(x, ((dropout *)self)->p, self->training, NULL);
}

static int dropout_repr(const situ_nn_module *self, char *buffer, size_t size) {
  char p[SITU__NUMBER];
  return snprintf(buffer, size, "p=%s, inplace=False", situ__nn_number(((const dropout *)self)->p, p));
}

static const situ_nn_type dropout_type = {
  .name = "Dropout", .size = sizeof(dropout), .forward = dropout_forward, .single_op = true, .extra_repr = dropout_repr
};

situ_nn_module *situ_nn_dropout(double p) {
  dropout *m = situ_nn_alloc(&dropout_type);
  if (m && !(p >= 0 && p <= 1)) {
    situ__fail(SITU_E_ARG, "nn_dropout", "p is a probability, from 0 to 1, not %g", p);
    m->base.broken = true;
  }
  if (m) m->p = p;
  return situ_nn_done(m);
}
