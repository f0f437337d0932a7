/* Bilinear.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/fail.h"
#include "nn/nn.h"

typedef struct bilinear {
  situ_nn_module base;
  situ_tensor *weight, *bias;
  int64_t in1, in2, out;
} bilinear;

static situ_tree *bilinear_call(situ_nn_module *self, const situ_tree *inputs) {
  const bilinear *m = (const bilinear *)self;
  if (situ_tree_kind_of(inputs) != SITU_TREE_LIST || situ_tree_count(inputs) != 2)
    return situ__fail(SITU_E_ARG, "nn_call", "Bilinear needs the list [input1, input2]"), NULL;
  return situ_tree_tensor(
      situ_bilinear(situ_tree_tensor_at(inputs, 0), situ_tree_tensor_at(inputs, 1), m->weight, m->bias));
}

static int bilinear_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const bilinear *m = (const bilinear *)self;
  return snprintf(buffer, size, "in1_features=%" PRId64 ", in2_features=%" PRId64 ", out_features=%" PRId64 ", bias=%s",
                  m->in1, m->in2, m->out, situ__nn_bool(m->bias));
}

static const situ_nn_type bilinear_type = {
  .name = "Bilinear", .size = sizeof(bilinear), .call = bilinear_call, .extra_repr = bilinear_repr
};

situ_nn_module *situ_nn_bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features,
                                 const situ_nn_bilinear_options *options) {
  static const situ_nn_bilinear_options torch;
  const situ_nn_bilinear_options *o = options ? options : &torch;
  bilinear *m = situ_nn_alloc(&bilinear_type);
  if (!m) return NULL;
  m->base.home = o->device;
  m->in1 = in1_features;
  m->in2 = in2_features;
  m->out = out_features;
  const situ_options where = { .dtype = o->dtype, .device = o->device };
  const double bound = in1_features > 0 ? 1 / sqrt((double)in1_features) : 0;
  situ_tensor *weight = situ_empty(SITU_SHAPE(out_features, in1_features, in2_features), &where);
  situ_nn_param(m, weight, situ_nn_init_uniform_(weight, -bound, bound, NULL));
  if (!o->no_bias)
    situ_nn_param(m, bias, situ_nn_init_uniform_(situ_empty(SITU_SHAPE(out_features), &where), -bound, bound, NULL));
  return situ_nn_done(m);
}
