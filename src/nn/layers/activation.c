/* Activation modules: functions of the input and at most two numbers, and PReLU.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "nn/nn.h"

typedef struct activation {
  situ_nn_module base;
  double a, b;
} activation;

static situ_nn_module *make(const situ_nn_type *type, double a, double b) {
  activation *m = situ_nn_alloc(type);
  if (m) {
    m->a = a;
    m->b = b;
  }
  return situ_nn_done(m);
}

static const activation *cast(const situ_nn_module *m) { return (const activation *)m; }

/* ---- without a parameter ---- */

#define PLAIN(id, function, title)                                                                            \
  static situ_tensor *id##_forward(situ_nn_module *m, situ_tensor *x) { return (void)m, situ_##function(x); } \
  static const situ_nn_type id##_type = {                                                                     \
    .name = title, .size = sizeof(activation), .forward = id##_forward, .single_op = true                     \
  };                                                                                                          \
  situ_nn_module *situ_nn_##id(void) { return make(&id##_type, 0, 0); }
PLAIN(relu, relu, "ReLU")
PLAIN(relu6, relu6, "ReLU6")
PLAIN(silu, silu, "SiLU")
PLAIN(sigmoid, sigmoid, "Sigmoid")
PLAIN(tanh, tanh, "Tanh")
PLAIN(selu, selu, "SELU")
PLAIN(mish, mish, "Mish")
PLAIN(hardswish, hardswish, "Hardswish")
PLAIN(hardsigmoid, hardsigmoid, "Hardsigmoid")
PLAIN(log_sigmoid, logsigmoid, "LogSigmoid")
PLAIN(softsign, softsign, "Softsign")
PLAIN(tanhshrink, tanhshrink, "Tanhshrink")
PLAIN(quick_gelu, quick_gelu, "QuickGELU")

/* ---- with one ---- */

static int one(const situ_nn_module *m, const char *label, char *buffer, size_t size) {
  char a[SITU__NUMBER];
  return snprintf(buffer, size, "%s%s", label, situ__nn_number(cast(m)->a, a));
}

#define ONE(id, title, parameter, label)                                                                           \
  static situ_tensor *id##_forward(situ_nn_module *m, situ_tensor *x) { return situ_##id(x, cast(m)->a); }         \
  static int id##_repr(const situ_nn_module *m, char *buffer, size_t size) { return one(m, label, buffer, size); } \
  static const situ_nn_type id##_type = {                                                                          \
    .name = title, .size = sizeof(activation), .forward = id##_forward, .single_op = true, .extra_repr = id##_repr \
  };                                                                                                               \
  situ_nn_module *situ_nn_##id(double parameter) { return make(&id##_type, parameter, 0); }
ONE(leaky_relu, "LeakyReLU", negative_slope, "negative_slope=")
ONE(elu, "ELU", alpha, "alpha=")
ONE(celu, "CELU", alpha, "alpha=")
ONE(softshrink, "Softshrink", lambd, "")
ONE(hardshrink, "Hardshrink", lambd, "")

static situ_tensor *gelu(situ_nn_module *m, situ_tensor *x) {
  return situ_gelu(x, cast(m)->a != 0 ? SITU_GELU_TANH : SITU_GELU_NONE);
}
static int gelu_repr(const situ_nn_module *m, char *buffer, size_t size) {
  return snprintf(buffer, size, "approximate='%s'", cast(m)->a != 0 ? "tanh" : "none");
}
static const situ_nn_type gelu_type = {
  .name = "GELU", .size = sizeof(activation), .forward = gelu, .single_op = true, .extra_repr = gelu_repr
};
situ_nn_module *situ_nn_gelu(situ_gelu_approximate approximate) {
  return make(&gelu_type, approximate == SITU_GELU_TANH, 0);
}

static int dim_repr(const situ_nn_module *m, char *buffer, size_t size) {
  return snprintf(buffer, size, "dim=%d", (int)cast(m)->a);
}
#define ALONG(id, title)                                                                                          \
  static situ_tensor *id##_forward(situ_nn_module *m, situ_tensor *x) { return situ_##id(x, (int)cast(m)->a); }   \
  static const situ_nn_type id##_type = {                                                                         \
    .name = title, .size = sizeof(activation), .forward = id##_forward, .single_op = true, .extra_repr = dim_repr \
  };                                                                                                              \
  situ_nn_module *situ_nn_##id(int dim) { return make(&id##_type, dim, 0); }
ALONG(softmax, "Softmax")
ALONG(log_softmax, "LogSoftmax")
ALONG(glu, "GLU")

/* ---- with two ---- */

static int two(const situ_nn_module *m, const char *first, const char *second, char *buffer, size_t size) {
  char a[SITU__NUMBER], b[SITU__NUMBER];
  return snprintf(buffer, size, "%s=%s, %s=%s", first, situ__nn_number(cast(m)->a, a), second,
                  situ__nn_number(cast(m)->b, b));
}

#define TWO(id, title, first, second)                                                                                  \
  static situ_tensor *id##_forward(situ_nn_module *m, situ_tensor *x) { return situ_##id(x, cast(m)->a, cast(m)->b); } \
  static int id##_repr(const situ_nn_module *m, char *buffer, size_t size) {                                           \
    return two(m, #first, #second, buffer, size);                                                                      \
  }                                                                                                                    \
  static const situ_nn_type id##_type = {                                                                              \
    .name = title, .size = sizeof(activation), .forward = id##_forward, .single_op = true, .extra_repr = id##_repr     \
  };                                                                                                                   \
  situ_nn_module *situ_nn_##id(double first, double second) { return make(&id##_type, first, second); }
TWO(softplus, "Softplus", beta, threshold)
TWO(hardtanh, "Hardtanh", min_val, max_val)
TWO(threshold, "Threshold", threshold, value)

/* ---- with a parameter that learns ---- */

typedef struct prelu {
  situ_nn_module base;
  situ_tensor *weight;
  int64_t count;
} prelu;
static situ_tensor *prelu_forward(situ_nn_module *m, situ_tensor *x) { return situ_prelu(x, ((prelu *)m)->weight); }
static int prelu_repr(const situ_nn_module *m, char *buffer, size_t size) {
  return snprintf(buffer, size, "num_parameters=%" PRId64, ((const prelu *)m)->count);
}
static const situ_nn_type prelu_type = {
  .name = "PReLU", .size = sizeof(prelu), .forward = prelu_forward, .single_op = true, .extra_repr = prelu_repr
};
situ_nn_module *situ_nn_prelu(int64_t num_parameters, double init, const situ_nn_prelu_options *options) {
  static const situ_nn_prelu_options torch;
  if (!options) options = &torch;
  prelu *m = situ_nn_alloc(&prelu_type);
  if (!m) return NULL;
  const situ_options where = { .dtype = options->dtype, .device = options->device };
  m->base.home = options->device;
  m->count = num_parameters;
  situ_nn_param(m, weight, situ_full(SITU_SHAPE(num_parameters), init, &where));
  return situ_nn_done(m);
}
