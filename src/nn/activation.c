/* Activation modules: functions of the input and at most two numbers.
   SPDX-License-Identifier: MIT */
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

static situ_tensor *relu(situ_nn_module *m, situ_tensor *x) { return (void)m, situ_relu(x); }
static situ_tensor *silu(situ_nn_module *m, situ_tensor *x) { return (void)m, situ_silu(x); }
static situ_tensor *sigmoid(situ_nn_module *m, situ_tensor *x) { return (void)m, situ_sigmoid(x); }
static situ_tensor *tanh_(situ_nn_module *m, situ_tensor *x) { return (void)m, situ_tanh(x); }

static const situ_nn_type relu_type = {
  .name = "ReLU", .size = sizeof(activation), .forward = relu, .single_op = true
};
static const situ_nn_type silu_type = {
  .name = "SiLU", .size = sizeof(activation), .forward = silu, .single_op = true
};
static const situ_nn_type sigmoid_type = {
  .name = "Sigmoid", .size = sizeof(activation), .forward = sigmoid, .single_op = true
};
static const situ_nn_type tanh_type = {
  .name = "Tanh", .size = sizeof(activation), .forward = tanh_, .single_op = true
};

situ_nn_module *situ_nn_relu(void) { return make(&relu_type, 0, 0); }
situ_nn_module *situ_nn_silu(void) { return make(&silu_type, 0, 0); }
situ_nn_module *situ_nn_sigmoid(void) { return make(&sigmoid_type, 0, 0); }
situ_nn_module *situ_nn_tanh(void) { return make(&tanh_type, 0, 0); }

/* ---- with one ---- */

static int one(const situ_nn_module *m, const char *name, char *buffer, size_t size) {
  char a[SITU__NUMBER];
  return snprintf(buffer, size, "%s=%s", name, situ__nn_number(cast(m)->a, a));
}

static situ_tensor *leaky_relu(situ_nn_module *m, situ_tensor *x) { return situ_leaky_relu(x, cast(m)->a); }
static int leaky_relu_repr(const situ_nn_module *m, char *buffer, size_t size) {
  return one(m, "negative_slope", buffer, size);
}
static const situ_nn_type leaky_relu_type = { .name = "LeakyReLU",
                                              .size = sizeof(activation),
                                              .forward = leaky_relu,
                                              .single_op = true,
                                              .extra_repr = leaky_relu_repr };
situ_nn_module *situ_nn_leaky_relu(double negative_slope) { return make(&leaky_relu_type, negative_slope, 0); }

static situ_tensor *elu(situ_nn_module *m, situ_tensor *x) { return situ_elu(x, cast(m)->a); }
static int elu_repr(const situ_nn_module *m, char *buffer, size_t size) { return one(m, "alpha", buffer, size); }
static const situ_nn_type elu_type = {
  .name = "ELU", .size = sizeof(activation), .forward = elu, .single_op = true, .extra_repr = elu_repr
};
situ_nn_module *situ_nn_elu(double alpha) { return make(&elu_type, alpha, 0); }

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
static situ_tensor *softmax(situ_nn_module *m, situ_tensor *x) { return situ_softmax(x, (int)cast(m)->a); }
static const situ_nn_type softmax_type = {
  .name = "Softmax", .size = sizeof(activation), .forward = softmax, .single_op = true, .extra_repr = dim_repr
};
situ_nn_module *situ_nn_softmax(int dim) { return make(&softmax_type, dim, 0); }

static situ_tensor *log_softmax(situ_nn_module *m, situ_tensor *x) { return situ_log_softmax(x, (int)cast(m)->a); }
static const situ_nn_type log_softmax_type = {
  .name = "LogSoftmax", .size = sizeof(activation), .forward = log_softmax, .single_op = true, .extra_repr = dim_repr
};
situ_nn_module *situ_nn_log_softmax(int dim) { return make(&log_softmax_type, dim, 0); }

/* ---- with two ---- */

static int two(const situ_nn_module *m, const char *first, const char *second, char *buffer, size_t size) {
  char a[SITU__NUMBER], b[SITU__NUMBER];
  return snprintf(buffer, size, "%s=%s, %s=%s", first, situ__nn_number(cast(m)->a, a), second,
                  situ__nn_number(cast(m)->b, b));
}

static situ_tensor *softplus(situ_nn_module *m, situ_tensor *x) { return situ_softplus(x, cast(m)->a, cast(m)->b); }
static int softplus_repr(const situ_nn_module *m, char *buffer, size_t size) {
  return two(m, "beta", "threshold", buffer, size);
}
static const situ_nn_type softplus_type = {
  .name = "Softplus", .size = sizeof(activation), .forward = softplus, .single_op = true, .extra_repr = softplus_repr
};
situ_nn_module *situ_nn_softplus(double beta, double threshold) { return make(&softplus_type, beta, threshold); }

static situ_tensor *hardtanh(situ_nn_module *m, situ_tensor *x) { return situ_hardtanh(x, cast(m)->a, cast(m)->b); }
static int hardtanh_repr(const situ_nn_module *m, char *buffer, size_t size) {
  return two(m, "min_val", "max_val", buffer, size);
}
static const situ_nn_type hardtanh_type = {
  .name = "Hardtanh", .size = sizeof(activation), .forward = hardtanh, .single_op = true, .extra_repr = hardtanh_repr
};
situ_nn_module *situ_nn_hardtanh(double min_val, double max_val) { return make(&hardtanh_type, min_val, max_val); }
