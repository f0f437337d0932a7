/* Max, average and adaptive pooling in 1 to 3 dimensions.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "nn/nn.h"

typedef struct pool {
  situ_nn_module base;
  situ_pool_options options;
} pool;

#define OPTIONS(m) &((pool *)(m))->options
#define SIZE(m) ((pool *)(m))->options.kernel
#define FORWARD(id, ...) \
  static situ_tensor *id##_forward(situ_nn_module *self, situ_tensor *x) { return situ_##id(x, __VA_ARGS__); }
FORWARD(max_pool1d, OPTIONS(self), NULL)
FORWARD(max_pool2d, OPTIONS(self), NULL)
FORWARD(max_pool3d, OPTIONS(self), NULL)
FORWARD(avg_pool1d, OPTIONS(self))
FORWARD(avg_pool2d, OPTIONS(self))
FORWARD(avg_pool3d, OPTIONS(self))
FORWARD(adaptive_avg_pool1d, SIZE(self).ndim == 1 ? SIZE(self).dim[0] : 0)
FORWARD(adaptive_avg_pool2d, SIZE(self))
FORWARD(adaptive_avg_pool3d, SIZE(self))
FORWARD(adaptive_max_pool1d, SIZE(self).ndim == 1 ? SIZE(self).dim[0] : 0, NULL)
FORWARD(adaptive_max_pool2d, SIZE(self), NULL)
FORWARD(adaptive_max_pool3d, SIZE(self), NULL)

const char *situ__nn_sizes(situ_shape shape, int64_t otherwise, char buffer[SITU__TUPLE]) {
  if (shape.ndim > 1) return situ__nn_tuple(shape, buffer);
  snprintf(buffer, SITU__TUPLE, "%" PRId64, shape.ndim ? shape.dim[0] : otherwise);
  return buffer;
}

static int pool_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const situ_pool_options *o = &((const pool *)self)->options;
  situ_shape stride = o->stride.ndim ? o->stride : o->kernel;
  char k[SITU__TUPLE], s[SITU__TUPLE], p[SITU__TUPLE];
  return snprintf(buffer, size, "kernel_size=%s, stride=%s, padding=%s", situ__nn_sizes(o->kernel, 0, k),
                  situ__nn_sizes(stride, 0, s), situ__nn_sizes(o->padding, 0, p));
}
static int max_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const situ_pool_options *o = &((const pool *)self)->options;
  char d[SITU__TUPLE];
  int at = pool_repr(self, buffer, size);
  return at + snprintf(buffer + at, size - (size_t)at, ", dilation=%s, ceil_mode=%s", situ__nn_sizes(o->dilation, 1, d),
                       situ__nn_bool(o->ceil_mode));
}
static int adaptive_repr(const situ_nn_module *self, char *buffer, size_t size) {
  char s[SITU__TUPLE];
  return snprintf(buffer, size, "output_size=%s", situ__nn_sizes(((const pool *)self)->options.kernel, 0, s));
}

static int row_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const situ_pool_options *o = &((const pool *)self)->options;
  const int64_t k = o->kernel.dim[0];
  return snprintf(buffer, size, "kernel_size=(%" PRId64 ",), stride=(%" PRId64 ",), padding=(%" PRId64 ",)", k,
                  o->stride.ndim ? o->stride.dim[0] : k, o->padding.ndim ? o->padding.dim[0] : 0);
}

static situ_nn_module *make(const situ_nn_type *type, situ_shape kernel, const situ_pool_options *options) {
  pool *m = situ_nn_alloc(type);
  if (m && options) m->options = *options;
  if (m) m->options.kernel = kernel;
  return situ_nn_done(m);
}

#define TYPE(id, title, repr, single)                                                                     \
  static const situ_nn_type id##_type = {                                                                 \
    .name = title, .size = sizeof(pool), .forward = id##_forward, .single_op = single, .extra_repr = repr \
  };
#define POOL(id, title, repr, single)                                                      \
  TYPE(id, title, repr, single)                                                            \
  situ_nn_module *situ_nn_##id(situ_shape kernel_size, const situ_pool_options *options) { \
    return make(&id##_type, kernel_size, options);                                         \
  }
#define ADAPTIVE(id, title, single)      \
  TYPE(id, title, adaptive_repr, single) \
  situ_nn_module *situ_nn_##id(situ_shape output_size) { return make(&id##_type, output_size, NULL); }
POOL(max_pool1d, "MaxPool1d", max_repr, false)
POOL(max_pool2d, "MaxPool2d", max_repr, true)
POOL(max_pool3d, "MaxPool3d", max_repr, false)
POOL(avg_pool1d, "AvgPool1d", row_repr, false)
POOL(avg_pool2d, "AvgPool2d", pool_repr, true)
POOL(avg_pool3d, "AvgPool3d", pool_repr, false)
ADAPTIVE(adaptive_avg_pool1d, "AdaptiveAvgPool1d", false)
ADAPTIVE(adaptive_avg_pool2d, "AdaptiveAvgPool2d", true)
ADAPTIVE(adaptive_avg_pool3d, "AdaptiveAvgPool3d", false)
ADAPTIVE(adaptive_max_pool1d, "AdaptiveMaxPool1d", false)
ADAPTIVE(adaptive_max_pool2d, "AdaptiveMaxPool2d", false)
ADAPTIVE(adaptive_max_pool3d, "AdaptiveMaxPool3d", false)
