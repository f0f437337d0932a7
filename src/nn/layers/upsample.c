/* Upsample.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "nn/nn.h"
#include "base/format.h"

typedef struct upsample {
  situ_nn_module base;
  situ_interpolate_options options;
} upsample;

static situ_tensor *upsample_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_interpolate(x, &((upsample *)self)->options);
}

/* Python's repr of a float. */
static int factor(char *buffer, size_t size, double value) {
  return situ__format(buffer, size, value == (double)(int64_t)value ? "%.1f" : "%.9g", value);
}

static int upsample_repr(const situ_nn_module *self, char *buffer, size_t size) {
  static const char *const modes[] = {
    "nearest", "linear", "bilinear", "bicubic", "trilinear", "area", "nearest-exact"
  };
  const situ_interpolate_options *o = &((const upsample *)self)->options;
  const bool many = o->scale_factor[1] != 0;
  char tuple[SITU__TUPLE];
  int at = snprintf(buffer, size, o->size.ndim ? "size=" : many ? "scale_factor=(" : "scale_factor=");
  if (o->size.ndim == 1) at += snprintf(buffer + at, size - (size_t)at, "%" PRId64, o->size.dim[0]);
  else if (o->size.ndim) at += snprintf(buffer + at, size - (size_t)at, "%s", situ__nn_tuple(o->size, tuple));
  for (int d = 0; d < 3 && o->scale_factor[d] != 0; d++) {
    if (d) at += snprintf(buffer + at, size - (size_t)at, ", ");
    at += factor(buffer + at, size - (size_t)at, o->scale_factor[d]);
  }
  return at + snprintf(buffer + at, size - (size_t)at, "%s, mode='%s'", many ? ")" : "",
                       (unsigned)o->mode < sizeof modes / sizeof *modes ? modes[o->mode] : "?");
}

static const situ_nn_type upsample_type = { .name = "Upsample",
                                            .size = sizeof(upsample),
                                            .forward = upsample_forward,
                                            .single_op = true,
                                            .extra_repr = upsample_repr };

situ_nn_module *situ_nn_upsample(const situ_interpolate_options *options) {
  upsample *m = situ_nn_alloc(&upsample_type);
  if (m && options) m->options = *options;
  return situ_nn_done(m);
}
