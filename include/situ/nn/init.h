/* Initialisation of parameters, in place and without recording (torch.nn.init).
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_INIT_H
#define SITU_NN_INIT_H

#include "../tensor.h"

SITU_BEGIN

/* All return t, NULL on error. NULL generator: the default one. */

/** Uniform in [a, b); torch's defaults are 0 and 1. */
SITU_API situ_tensor *situ_nn_init_uniform_(situ_tensor *t, double a, double b, situ_generator *generator);
/** Normal with this mean and standard deviation; torch's defaults are 0 and 1. */
SITU_API situ_tensor *situ_nn_init_normal_(situ_tensor *t, double mean, double std, situ_generator *generator);
/** All value. */
SITU_API situ_tensor *situ_nn_init_constant_(situ_tensor *t, double value);
/** All 0. */
SITU_API situ_tensor *situ_nn_init_zeros_(situ_tensor *t);
/** All 1. */
SITU_API situ_tensor *situ_nn_init_ones_(situ_tensor *t);
/** The identity matrix; t is 2-D. */
SITU_API situ_tensor *situ_nn_init_eye_(situ_tensor *t);

/** Glorot and Bengio 2010: keeps the variance of values and gradients; uniform. t has at least 2 dimensions. torch's
    default gain is 1. */
SITU_API situ_tensor *situ_nn_init_xavier_uniform_(situ_tensor *t, double gain, situ_generator *generator);
/** As situ_nn_init_xavier_uniform_, from a normal distribution. */
SITU_API situ_tensor *situ_nn_init_xavier_normal_(situ_tensor *t, double gain, situ_generator *generator);

typedef enum situ_nn_nonlinearity {
  SITU_NN_LEAKY_RELU = 0, /**< torch's default */
  SITU_NN_RELU,
  SITU_NN_TANH,
  SITU_NN_SIGMOID,
  SITU_NN_LINEAR,
  SITU_NN_SELU
} situ_nn_nonlinearity;
typedef struct situ_nn_kaiming_options {
  double a;     /**< negative slope of the following leaky ReLU; torch's default is 0 */
  bool fan_out; /**< torch's mode='fan_out': keep the variance in backward instead of forward */
  situ_nn_nonlinearity nonlinearity;
} situ_nn_kaiming_options;
/** He et al., arXiv:1502.01852: keeps the variance behind a nonlinearity; uniform. options may be NULL. */
SITU_API situ_tensor *situ_nn_init_kaiming_uniform_(situ_tensor *t, const situ_nn_kaiming_options *options,
                                                    situ_generator *generator);
/** As situ_nn_init_kaiming_uniform_, from a normal distribution. */
SITU_API situ_tensor *situ_nn_init_kaiming_normal_(situ_tensor *t, const situ_nn_kaiming_options *options,
                                                   situ_generator *generator);
/** torch.nn.init.calculate_gain. slope: for LEAKY_RELU only; torch's default is 0.01, and 0 is 0. */
SITU_API double situ_nn_init_calculate_gain(situ_nn_nonlinearity nonlinearity, double slope);

SITU_END
#endif
