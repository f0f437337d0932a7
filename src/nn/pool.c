/* MaxPool2d, AvgPool2d, AdaptiveAvgPool2d.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "nn/nn.h"

typedef struct pool {
  situ_nn_module base;
  situ_pool_options options;
} pool;

static situ_tensor *max_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_max_pool2d(x, &((pool *)self)->options, NULL);
}
static situ_tensor *avg_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_avg_pool2d(x, &((pool *)self)->options);
}
static situ_tensor *adaptive_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_adaptive_avg_pool2d(x, ((pool *)self)->options.kernel);
}

/* torch prints sizes as they were passed: one number, or a tuple. */
static const char *sizes(situ_shape shape, int64_t otherwise, char buffer[SITU__TUPLE]) {
  if (shape.ndim > 1) return situ__nn_tuple(shape, buffer);
  snprintf(buffer, SITU__TUPLE, "%" PRId64, shape.ndim ? shape.dim[0] : otherwise);
  return buffer;
}

static int pool_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const situ_pool_options *o = &((const pool *)self)->options;
  situ_shape stride = o->stride.ndim ? o->stride : o->kernel;
  char k[SITU__TUPLE], s[SITU__TUPLE], p[SITU__TUPLE];
  return snprintf(buffer, size, "kernel_size=%s, stride=%s, padding=%s", sizes(o->kernel, 0, k), sizes(stride, 0, s),
                  sizes(o->padding, 0, p));
}
static int max_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const situ_pool_options *o = &((const pool *)self)->options;
  char d[SITU__TUPLE];
  int at = pool_repr(self, buffer, size);
  return at + snprintf(buffer + at, size - (size_t)at, ", dilation=%s, ceil_mode=%s", sizes(o->dilation, 1, d),
                       situ__nn_bool(o->ceil_mode));
}
static int adaptive_repr(const situ_nn_module *self, char *buffer, size_t size) {
  char s[SITU__TUPLE];
  return snprintf(buffer, size, "output_size=%s", sizes(((const pool *)self)->options.kernel, 0, s));
}

static const situ_nn_type max_type = {
  .name = "MaxPool2d", .size = sizeof(pool), .forward = max_forward, .single_op = true, .extra_repr = max_repr
};
static const situ_nn_type avg_type = {
  .name = "AvgPool2d", .size = sizeof(pool), .forward = avg_forward, .single_op = true, .extra_repr = pool_repr
};
static const situ_nn_type adaptive_type = { .name = "AdaptiveAvgPool2d",
                                            .size = sizeof(pool),
                                            .forward = adaptive_forward,
                                            .single_op = true,
                                            .extra_repr = adaptive_repr };

static situ_nn_module *make(const situ_nn_type *type, situ_shape kernel, const situ_pool_options *options) {
  pool *m = situ_nn_alloc(type);
  if (m && options) m->options = *options;
  if (m) m->options.kernel = kernel;
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_max_pool2d(situ_shape kernel_size, const situ_pool_options *options) {
  return make(&max_type, kernel_size, options);
}
situ_nn_module *situ_nn_avg_pool2d(situ_shape kernel_size, const situ_pool_options *options) {
  return make(&avg_type, kernel_size, options);
}
situ_nn_module *situ_nn_adaptive_avg_pool2d(situ_shape output_size) { return make(&adaptive_type, output_size, NULL); }
