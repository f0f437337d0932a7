/* Initial values of parameters.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "nn/nn.h"
#include "situ/sys/shape.h"

/* Without recording on the tape: parameters are leaves that require a gradient, and are written nevertheless. */
static situ_tensor *draw(situ_tensor *t, bool flat, double a, double b, situ_generator *generator) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  t = flat ? situ_uniform_(t, a, b, generator) : situ_normal_(t, a, b, generator);
  SITU_IGNORE(situ_scope_end(&scope));
  return t;
}

situ_tensor *situ_nn_init_uniform_(situ_tensor *t, double a, double b, situ_generator *generator) {
  return draw(t, true, a, b, generator);
}
situ_tensor *situ_nn_init_normal_(situ_tensor *t, double mean, double std, situ_generator *generator) {
  return draw(t, false, mean, std, generator);
}

situ_tensor *situ_nn_init_constant_(situ_tensor *t, double value) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  t = situ_fill_(t, value);
  SITU_IGNORE(situ_scope_end(&scope));
  return t;
}
situ_tensor *situ_nn_init_zeros_(situ_tensor *t) { return situ_nn_init_constant_(t, 0); }
situ_tensor *situ_nn_init_ones_(situ_tensor *t) { return situ_nn_init_constant_(t, 1); }

situ_tensor *situ_nn_init_eye_(situ_tensor *t) {
  if (!t || situ_dim(t) != 2) {
    if (t) situ__fail(SITU_E_SHAPE, "nn_init_eye_", "a matrix is needed, not %d dimensions", situ_dim(t));
    else situ__null("nn_init_eye_", "input");
    return NULL;
  }
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  t = situ_copy_(t, situ_eye(situ_size(t, 0), situ_size(t, 1),
                             &(situ_options){ .dtype = situ_dtype_of(t), .device = situ_device_of(t) }));
  SITU_IGNORE(situ_scope_end(&scope));
  return t;
}

/* The number of inputs and outputs that a weight connects. */
static bool fans(const char *op, situ_tensor *t, double *in, double *out) {
  if (!t) return situ__null(op, "input"), false;
  situ_shape shape = situ_shape_of(t);
  if (shape.ndim < 2) {
    char text[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, op, "%s has fewer than 2 dimensions: no inputs and outputs to count",
                      situ_shape_text(&shape, text)),
           false;
  }
  double field = 1;
  for (int d = 2; d < shape.ndim; d++) field *= (double)shape.dim[d];
  *in = (double)shape.dim[1] * field;
  *out = (double)shape.dim[0] * field;
  return true;
}

/* Fills with mean 0 and a standard deviation. */
static situ_tensor *spread(situ_tensor *t, double std, bool flat, situ_generator *generator) {
  double bound = sqrt(3) * std;
  return flat ? draw(t, true, -bound, bound, generator) : draw(t, false, 0, std, generator);
}

/* An empty weight has no values to fill, and a fan of 0 to divide by. */
static situ_tensor *xavier(const char *op, situ_tensor *t, double gain, bool flat, situ_generator *generator) {
  double in, out;
  if (!fans(op, t, &in, &out)) return NULL;
  if (situ_numel(t) == 0) return t;
  return spread(t, gain * sqrt(2 / (in + out)), flat, generator);
}

situ_tensor *situ_nn_init_xavier_uniform_(situ_tensor *t, double gain, situ_generator *generator) {
  return xavier("nn_init_xavier_uniform_", t, gain, true, generator);
}
situ_tensor *situ_nn_init_xavier_normal_(situ_tensor *t, double gain, situ_generator *generator) {
  return xavier("nn_init_xavier_normal_", t, gain, false, generator);
}

double situ_nn_init_calculate_gain(situ_nn_nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
  case SITU_NN_LEAKY_RELU: return sqrt(2 / (1 + slope * slope));
  case SITU_NN_RELU: return sqrt(2);
  case SITU_NN_TANH: return 5.0 / 3;
  case SITU_NN_SELU: return 3.0 / 4;
  case SITU_NN_SIGMOID:
  case SITU_NN_LINEAR: return 1;
  }
  return situ__fail(SITU_E_ARG, "nn_init_calculate_gain", "%d is not a nonlinearity", (int)nonlinearity), NAN;
}

static situ_tensor *kaiming(const char *op, situ_tensor *t, const situ_nn_kaiming_options *options, bool flat,
                            situ_generator *generator) {
  static const situ_nn_kaiming_options torch;
  double in, out;
  if (!options) options = &torch;
  if (!fans(op, t, &in, &out)) return NULL;
  if (isnan(options->a)) return situ__fail(SITU_E_ARG, op, "`a`, the negative slope, is NaN"), NULL;
  double gain = situ_nn_init_calculate_gain(options->nonlinearity, options->a);
  if (isnan(gain)) return NULL;
  if (situ_numel(t) == 0) return t;
  return spread(t, gain / sqrt(options->fan_out ? out : in), flat, generator);
}

situ_tensor *situ_nn_init_kaiming_uniform_(situ_tensor *t, const situ_nn_kaiming_options *options,
                                           situ_generator *generator) {
  return kaiming("nn_init_kaiming_uniform_", t, options, true, generator);
}
situ_tensor *situ_nn_init_kaiming_normal_(situ_tensor *t, const situ_nn_kaiming_options *options,
                                          situ_generator *generator) {
  return kaiming("nn_init_kaiming_normal_", t, options, false, generator);
}
