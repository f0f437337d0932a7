/* A convolution forward and back, on a device and on the cpu: whole numbers, whose sums every floating dtype has.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CUDA_CONVOLUTION_H
#define SITU_CUDA_CONVOLUTION_H

#include "situ/autograd.h"
#include "situ/ops.h"
#include "situ/random.h"
#include "situ/scope.h"
#include "situ/tensor.h"
#include "support/cuda/child.h"
#include "support/cuda/double.h"

enum { CONVOLUTION_ROOM = 4096, CONVOLUTION_RESULTS = 4 };

typedef struct convolution {
  const char *name;
  int64_t x[4], w[4];
  int64_t stride[2], padding[2], dilation[2], groups;
  bool bias, transposed, forward; /* forward: no gradients */
} convolution;

/* y and the gradients of x, w and bias. */
typedef struct convolved {
  int64_t count[CONVOLUTION_RESULTS];
  double of[CONVOLUTION_RESULTS][CONVOLUTION_ROOM];
} convolved;

static inline situ_tensor *numbers(situ_shape shape, int which, situ_dtype dtype, situ_device device) {
  static float values[CONVOLUTION_ROOM];
  int64_t count = 1;
  for (int d = 0; d < shape.ndim; d++) count *= shape.dim[d];
  CHECK(count <= CONVOLUTION_ROOM);
  for (int64_t at = 0; at < count; at++) values[at] = (float)((at * 7 + at / 5 + which * 3) % 5 - 2);
  situ_tensor *made = situ_from_host(values, (size_t)count * sizeof *values, shape, NULL);
  return situ_to(situ_to_dtype(made, dtype), device);
}

static inline situ_status keep(situ_tensor *t, convolved *to, int k) {
  situ_tensor *wide = situ_to_dtype(t, SITU_F64);
  if (!wide) return situ_error();
  to->count[k] = situ_numel(t);
  CHECK(to->count[k] <= CONVOLUTION_ROOM);
  return situ_copy_to_host(wide, to->of[k], (size_t)to->count[k] * sizeof(double));
}

static inline situ_status convolve_in(const convolution *c, const char *device, situ_dtype dtype, convolved *to) {
  const situ_device at = situ_dev(device);
  const int64_t channels = c->transposed ? c->w[1] * c->groups : c->w[0];
  situ_tensor *x = numbers(SITU_SHAPE(c->x[0], c->x[1], c->x[2], c->x[3]), 0, dtype, at),
              *w = numbers(SITU_SHAPE(c->w[0], c->w[1], c->w[2], c->w[3]), 1, dtype, at),
              *b = c->bias ? numbers(SITU_SHAPE(channels), 2, dtype, at) : NULL;
  if (!x || !w || (c->bias && !b)) return situ_error();
  situ_requires_grad_(x, !c->forward);
  situ_requires_grad_(w, !c->forward);
  if (b) situ_requires_grad_(b, !c->forward);
  const situ_conv_options options = { .stride = SITU_DIMS(c->stride[0], c->stride[1]),
                                      .padding = SITU_DIMS(c->padding[0], c->padding[1]),
                                      .dilation = SITU_DIMS(c->dilation[0], c->dilation[1]),
                                      .groups = c->groups };
  situ_tensor *y = c->transposed ? situ_conv_transpose2d(x, w, b, &options) : situ_conv2d(x, w, b, &options);
  if (!y) return situ_error();
  situ_status status = SITU_OK;
  if (!c->forward) {
    situ_tensor *weight = numbers(situ_shape_of(y), 3, dtype, at);
    status = situ_backward(situ_sum(situ_mul(y, weight), NULL), NULL);
  }
  situ_tensor *const result[] = { y, situ_grad(x), situ_grad(w), b ? situ_grad(b) : NULL };
  for (int k = 0; k < CONVOLUTION_RESULTS && status == SITU_OK; k++) {
    to->count[k] = 0;
    if (result[k]) status = keep(result[k], to, k);
  }
  return status;
}

/* All results, with nothing left alive. */
static inline situ_status convolve_on(const convolution *c, const char *device, situ_dtype dtype, convolved *to) {
  situ_scope scope;
  situ_scope_begin(&scope);
  const situ_status status = convolve_in(c, device, dtype, to), ended = situ_scope_end(&scope);
  return status == SITU_OK ? ended : status;
}

static inline void same_as_cpu(const convolution *c, situ_dtype dtype, const convolved *got) {
  static convolved want;
  CHECK(convolve_on(c, "cpu", dtype, &want) == SITU_OK);
  for (int k = 0; k < CONVOLUTION_RESULTS; k++) {
    CHECK(got->count[k] == want.count[k]);
    for (int64_t at = 0; at < want.count[k]; at++) {
      if (got->of[k][at] != want.of[k][at])
        (void)fprintf(stderr, "%s, dtype %d: result %d: [%lld] is %g, not %g\n", c->name, (int)dtype, k, (long long)at,
                      got->of[k][at], want.of[k][at]);
      CHECK(got->of[k][at] == want.of[k][at]);
    }
  }
}

#endif
