/* Modules that rearrange images: PixelShuffle, PixelUnshuffle, ChannelShuffle, Unfold, Fold. And LocalResponseNorm.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "nn/nn.h"

/* ---- one number ---- */

typedef struct counted {
  situ_nn_module base;
  int64_t count;
} counted;

#define COUNTED(id, title, word)                                                             \
  static situ_tensor *id##_forward(situ_nn_module *self, situ_tensor *x) {                   \
    return situ_##id(x, ((counted *)self)->count);                                           \
  }                                                                                          \
  static int id##_repr(const situ_nn_module *self, char *buffer, size_t size) {              \
    return snprintf(buffer, size, word "=%" PRId64, ((const counted *)self)->count);         \
  }                                                                                          \
  static const situ_nn_type id##_type = {                                                    \
    .name = title, .size = sizeof(counted), .forward = id##_forward, .extra_repr = id##_repr \
  };                                                                                         \
  situ_nn_module *situ_nn_##id(int64_t count) {                                              \
    counted *m = situ_nn_alloc(&id##_type);                                                  \
    if (m) m->count = count;                                                                 \
    return situ_nn_done(m);                                                                  \
  }
COUNTED(pixel_shuffle, "PixelShuffle", "upscale_factor")
COUNTED(pixel_unshuffle, "PixelUnshuffle", "downscale_factor")
COUNTED(channel_shuffle, "ChannelShuffle", "groups")

/* ---- patches ---- */

typedef struct patches {
  situ_nn_module base;
  situ_shape output, kernel;
  situ_unfold_options options;
} patches;

static situ_tensor *unfold_forward(situ_nn_module *self, situ_tensor *x) {
  const patches *m = (const patches *)self;
  return situ_unfold(x, m->kernel, &m->options);
}
static situ_tensor *fold_forward(situ_nn_module *self, situ_tensor *x) {
  const patches *m = (const patches *)self;
  return situ_fold(x, m->output, m->kernel, &m->options);
}

static int unfold_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const patches *m = (const patches *)self;
  char k[SITU__TUPLE], d[SITU__TUPLE], p[SITU__TUPLE], s[SITU__TUPLE];
  return snprintf(buffer, size, "kernel_size=%s, dilation=%s, padding=%s, stride=%s", situ__nn_sizes(m->kernel, 0, k),
                  situ__nn_sizes(m->options.dilation, 1, d), situ__nn_sizes(m->options.padding, 0, p),
                  situ__nn_sizes(m->options.stride, 1, s));
}
static int fold_repr(const situ_nn_module *self, char *buffer, size_t size) {
  char o[SITU__TUPLE];
  const int at = snprintf(buffer, size, "output_size=%s, ", situ__nn_sizes(((const patches *)self)->output, 0, o));
  return at + unfold_repr(self, buffer + at, size - (size_t)at);
}

static const situ_nn_type unfold_type = {
  .name = "Unfold", .size = sizeof(patches), .forward = unfold_forward, .extra_repr = unfold_repr
};
static const situ_nn_type fold_type = {
  .name = "Fold", .size = sizeof(patches), .forward = fold_forward, .extra_repr = fold_repr
};

static situ_nn_module *make(const situ_nn_type *type, situ_shape output, situ_shape kernel,
                            const situ_unfold_options *options) {
  patches *m = situ_nn_alloc(type);
  if (m) m->output = output, m->kernel = kernel;
  if (m && options) m->options = *options;
  return situ_nn_done(m);
}
situ_nn_module *situ_nn_unfold(situ_shape kernel_size, const situ_unfold_options *options) {
  return make(&unfold_type, (situ_shape){ 0 }, kernel_size, options);
}
situ_nn_module *situ_nn_fold(situ_shape output_size, situ_shape kernel_size, const situ_unfold_options *options) {
  return make(&fold_type, output_size, kernel_size, options);
}

/* ---- LocalResponseNorm ---- */

typedef struct response {
  situ_nn_module base;
  int64_t size;
  double alpha, beta, k;
} response;

static situ_tensor *response_forward(situ_nn_module *self, situ_tensor *x) {
  const response *m = (const response *)self;
  return situ_local_response_norm(x, m->size, m->alpha, m->beta, m->k);
}
static int response_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const response *m = (const response *)self;
  char alpha[SITU__NUMBER], beta[SITU__NUMBER], k[SITU__NUMBER];
  return snprintf(buffer, size, "%" PRId64 ", alpha=%s, beta=%s, k=%s", m->size, situ__nn_number(m->alpha, alpha),
                  situ__nn_number(m->beta, beta), situ__nn_number(m->k, k));
}
static const situ_nn_type response_type = {
  .name = "LocalResponseNorm", .size = sizeof(response), .forward = response_forward, .extra_repr = response_repr
};
situ_nn_module *situ_nn_local_response_norm(int64_t size, double alpha, double beta, double k) {
  response *m = situ_nn_alloc(&response_type);
  if (m) m->size = size, m->alpha = alpha, m->beta = beta, m->k = k;
  return situ_nn_done(m);
}
