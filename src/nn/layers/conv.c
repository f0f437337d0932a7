/* Conv1d to 3d, ConvTranspose1d to 3d.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/fail.h"
#include "nn/nn.h"

typedef struct conv {
  situ_nn_module base;
  situ_tensor *weight, *bias;
  int64_t in, out;
  situ_shape kernel, padding; /* padding as requested, for torch's repr */
  bool same;                  /* padding="same" */
  situ_pad_mode mode;
  situ_shape pad; /* for situ_pad, if the mode is not zeros; the convolution itself then does not pad */
  situ_conv_options options;
} conv;

static situ_tensor *padded(const conv *m, situ_tensor *x) {
  return m->mode == SITU_PAD_CONSTANT ? x : situ_pad(x, m->pad, m->mode, 0);
}

#define FORWARD(id)                                                        \
  static situ_tensor *id##_forward(situ_nn_module *self, situ_tensor *x) { \
    conv *m = (conv *)self;                                                \
    return situ_##id(padded(m, x), m->weight, m->bias, &m->options);       \
  }
FORWARD(conv1d)
FORWARD(conv2d)
FORWARD(conv3d)
FORWARD(conv_transpose1d)
FORWARD(conv_transpose2d)
FORWARD(conv_transpose3d)

static bool all(situ_shape shape, int64_t value) {
  for (int d = 0; d < shape.ndim; d++)
    if (shape.dim[d] != value) return false;
  return true;
}

static int conv_repr(const situ_nn_module *self, char *buffer, size_t size) {
  static const char *const modes[] = { "zeros", "reflect", "replicate", "circular" };
  const conv *m = (const conv *)self;
  char tuple[SITU__TUPLE], stride[SITU__TUPLE];
  int at = snprintf(buffer, size, "%" PRId64 ", %" PRId64 ", kernel_size=%s, stride=%s", m->in, m->out,
                    situ__nn_tuple(m->kernel, tuple), situ__nn_tuple(m->options.stride, stride));
  struct {
    const char *name;
    situ_shape shape;
    int64_t usual;
  } const rest[] = { { "padding", m->padding, 0 },
                     { "dilation", m->options.dilation, 1 },
                     { "output_padding", m->options.output_padding, 0 } };
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
    if (i == 0 && m->same) at += snprintf(buffer + at, size - (size_t)at, ", padding=same");
    else if (!all(rest[i].shape, rest[i].usual))
      at += snprintf(buffer + at, size - (size_t)at, ", %s=%s", rest[i].name, situ__nn_tuple(rest[i].shape, tuple));
  if (m->options.groups != 1) at += snprintf(buffer + at, size - (size_t)at, ", groups=%" PRId64, m->options.groups);
  if (!m->bias) at += snprintf(buffer + at, size - (size_t)at, ", bias=False");
  if (m->mode) at += snprintf(buffer + at, size - (size_t)at, ", padding_mode=%s", modes[m->mode]);
  return at;
}

#define TYPE(id, title, single)                                                                                \
  static const situ_nn_type id##_type = {                                                                      \
    .name = title, .size = sizeof(conv), .forward = id##_forward, .single_op = single, .extra_repr = conv_repr \
  };
TYPE(conv1d, "Conv1d", false)
TYPE(conv2d, "Conv2d", false)
TYPE(conv3d, "Conv3d", false)
TYPE(conv_transpose1d, "ConvTranspose1d", true)
TYPE(conv_transpose2d, "ConvTranspose2d", true)
TYPE(conv_transpose3d, "ConvTranspose3d", false)

static bool is_transposed(const conv *m) {
  const situ_nn_type *type = m->base.type;
  return type == &conv_transpose1d_type || type == &conv_transpose2d_type || type == &conv_transpose3d_type;
}

/* shape itself, or its single value for each of ndim dimensions; empty: `otherwise`. Returns false after recording an
   error. */
static bool spread(const char *op, const char *what, situ_shape *shape, int ndim, int64_t otherwise) {
  if (shape->ndim == ndim) return true;
  if (shape->ndim != 0 && shape->ndim != 1)
    return situ__fail(SITU_E_ARG, op, "%s has %d values: 1 or %d are needed", what, shape->ndim, ndim), false;
  int64_t value = shape->ndim ? shape->dim[0] : otherwise;
  shape->ndim = ndim;
  for (int d = 0; d < ndim; d++) shape->dim[d] = value;
  return true;
}

/* padding="same": the convolution itself pads, unless the mode is not zeros. */
static bool same(conv *m, const char *op, bool transposed, const situ_nn_conv_options *o) {
  m->options.same = true;
  m->options.padding.ndim = 0;
  const char *why = transposed                   ? "transposed convolutions do not have it"
                    : o->padding.ndim            ? "padding is given too"
                    : !all(m->options.stride, 1) ? "stride must be 1"
                                                 : NULL;
  if (why) situ__fail(SITU_E_ARG, op, "same is given: %s", why);
  return !why;
}

/* Stores the options, with one value for each dimension. */
static bool configure(conv *m, const char *op, int ndim, const situ_nn_conv_options *o) {
  const bool transposed = is_transposed(m);
  m->mode = o->padding_mode;
  m->same = o->same;
  m->padding = o->padding;
  m->options = (situ_conv_options){ .stride = o->stride,
                                    .padding = o->padding,
                                    .dilation = o->dilation,
                                    .groups = o->groups ? o->groups : 1,
                                    .output_padding = o->output_padding };
  if (!spread(op, "kernel_size", &m->kernel, ndim, 0) || !spread(op, "stride", &m->options.stride, ndim, 1) ||
      !spread(op, "padding", &m->padding, ndim, 0) || !spread(op, "dilation", &m->options.dilation, ndim, 1) ||
      (transposed && !spread(op, "output_padding", &m->options.output_padding, ndim, 0)))
    return false;
  m->options.padding = m->padding;
  int64_t groups = m->options.groups;
  if (m->in < 0 || m->out < 0 || groups < 1 || m->in % groups || m->out % groups)
    return situ__fail(SITU_E_ARG, op, "%" PRId64 " and %" PRId64 " channels do not divide into %" PRId64 " groups",
                      m->in, m->out, groups),
           false;
  if (!transposed && o->output_padding.ndim)
    return situ__fail(SITU_E_ARG, op, "only a transposed convolution has an output_padding"), false;
  if (m->mode < SITU_PAD_CONSTANT || m->mode > SITU_PAD_CIRCULAR || (transposed && m->mode))
    return situ__fail(SITU_E_ARG, op, "padding mode %d%s", (int)m->mode,
                      transposed ? " on a transposed convolution: zeros only" : ""),
           false;
  if (o->same && !same(m, op, transposed, o)) return false;
  if (m->mode == SITU_PAD_CONSTANT) return true;
  m->pad.ndim = 2 * ndim;
  for (int d = 0; d < ndim; d++) {
    const int to = ndim - 1 - d;
    const int64_t all = m->options.dilation.dim[to] * (m->kernel.dim[to] - 1);
    m->pad.dim[2 * d] = o->same ? all / 2 : m->padding.dim[to];
    m->pad.dim[2 * d + 1] = o->same ? all - all / 2 : m->padding.dim[to];
  }
  m->options.same = false;
  m->options.padding = (situ_shape){ 0 };
  return true;
}

/* torch's initial values: weight and bias uniform within 1 / sqrt(fan in). */
static void fill(conv *m, int ndim, const situ_nn_conv_options *o) {
  const bool transposed = is_transposed(m);
  situ_options where = { .dtype = o->dtype, .device = o->device };
  m->base.home = o->device;
  int64_t groups = m->options.groups;
  situ_shape shape = transposed ? SITU_SHAPE(m->in, m->out / groups) : SITU_SHAPE(m->out, m->in / groups);
  double fan_in = (double)shape.dim[1];
  for (int d = 0; d < ndim; d++) {
    shape.dim[shape.ndim++] = m->kernel.dim[d];
    fan_in *= (double)m->kernel.dim[d];
  }
  situ_tensor *weight =
      situ_nn_init_kaiming_uniform_(situ_empty(shape, &where), &(situ_nn_kaiming_options){ .a = sqrt(5) }, NULL);
  situ_nn_param(m, weight, weight);
  if (o->no_bias) return;
  double bound = fan_in > 0 ? 1 / sqrt(fan_in) : 0;
  situ_nn_param(m, bias, situ_nn_init_uniform_(situ_empty(SITU_SHAPE(m->out), &where), -bound, bound, NULL));
}

static situ_nn_module *make(const situ_nn_type *type, const char *op, int64_t in, int64_t out, situ_shape kernel,
                            int ndim, const situ_nn_conv_options *options) {
  static const situ_nn_conv_options torch;
  if (!options) options = &torch;
  conv *m = situ_nn_alloc(type);
  if (m) {
    m->in = in;
    m->out = out;
    m->kernel = kernel;
    if (configure(m, op, ndim, options)) fill(m, ndim, options);
    else m->base.broken = true;
  }
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                               const situ_nn_conv_options *options) {
  return make(&conv1d_type, "nn_conv1d", in_channels, out_channels, SITU_SHAPE(kernel_size), 1, options);
}
situ_nn_module *situ_nn_conv2d(int64_t in_channels, int64_t out_channels, situ_shape kernel_size,
                               const situ_nn_conv_options *options) {
  return make(&conv2d_type, "nn_conv2d", in_channels, out_channels, kernel_size, 2, options);
}
situ_nn_module *situ_nn_conv3d(int64_t in_channels, int64_t out_channels, situ_shape kernel_size,
                               const situ_nn_conv_options *options) {
  return make(&conv3d_type, "nn_conv3d", in_channels, out_channels, kernel_size, 3, options);
}
situ_nn_module *situ_nn_conv_transpose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                                         const situ_nn_conv_options *options) {
  return make(&conv_transpose1d_type, "nn_conv_transpose1d", in_channels, out_channels, SITU_SHAPE(kernel_size), 1,
              options);
}
situ_nn_module *situ_nn_conv_transpose2d(int64_t in_channels, int64_t out_channels, situ_shape kernel_size,
                                         const situ_nn_conv_options *options) {
  return make(&conv_transpose2d_type, "nn_conv_transpose2d", in_channels, out_channels, kernel_size, 2, options);
}
situ_nn_module *situ_nn_conv_transpose3d(int64_t in_channels, int64_t out_channels, situ_shape kernel_size,
                                         const situ_nn_conv_options *options) {
  return make(&conv_transpose3d_type, "nn_conv_transpose3d", in_channels, out_channels, kernel_size, 3, options);
}
