/* Making tensors: constants, ranges, random values.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_CREATE_H
#define SITU_OPS_CREATE_H

#include "../tensor.h"

SITU_BEGIN

/* Options NULL or {0}: f32 unless said otherwise, on the default device, no gradient. A value that the dtype cannot
   hold is SITU_E_ARG. */

/** Uninitialised memory: the caller writes it before reading it. */
SITU_API SITU_CHECKED situ_tensor *situ_empty(situ_shape shape, const situ_options *options);
/** All 0. */
SITU_API SITU_CHECKED situ_tensor *situ_zeros(situ_shape shape, const situ_options *options);
/** All 1. */
SITU_API SITU_CHECKED situ_tensor *situ_ones(situ_shape shape, const situ_options *options);
/** All fill_value. Default dtype f32 (torch derives it from the value). */
SITU_API SITU_CHECKED situ_tensor *situ_full(situ_shape shape, double fill_value, const situ_options *options);
/** A 0-dim tensor. */
SITU_API SITU_CHECKED situ_tensor *situ_scalar_tensor(double value, const situ_options *options);
/** start, start + step, ... while short of end; default dtype i64 if all three are whole numbers, else f32. torch's
    defaults are start 0 and step 1; step 0 is SITU_E_ARG. */
SITU_API SITU_CHECKED situ_tensor *situ_arange(double start, double end, double step, const situ_options *options);
/** `steps` values from start to end, both included. */
SITU_API SITU_CHECKED situ_tensor *situ_linspace(double start, double end, int64_t steps, const situ_options *options);
/** base to the powers of situ_linspace(start, end, steps); torch's default base is 10. Of integer dtypes the
    bounds lose their fractions first, and the powers are computed in f64. */
SITU_API SITU_CHECKED situ_tensor *situ_logspace(double start, double end, int64_t steps, double base,
                                                 const situ_options *options);
/** Row and column indices of the lower triangle of a row x col matrix, up to diagonal `offset`: [2, count]; i64 or i32.
    torch's default offset is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_tril_indices(int64_t row, int64_t col, int64_t offset,
                                                     const situ_options *options);
/** Row and column indices of the upper triangle, from diagonal `offset`; as situ_tril_indices. */
SITU_API SITU_CHECKED situ_tensor *situ_triu_indices(int64_t row, int64_t col, int64_t offset,
                                                     const situ_options *options);
/** n x m, ones on the diagonal; m < 0: n x n. */
SITU_API SITU_CHECKED situ_tensor *situ_eye(int64_t n, int64_t m, const situ_options *options);
/** Uniform in [0, 1); floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_rand(situ_shape shape, const situ_options *options);
/** Standard normal; floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_randn(situ_shape shape, const situ_options *options);
/** Whole numbers in [low, high) that the dtype has; default dtype i64. SITU_E_ARG if it has none of them. */
SITU_API SITU_CHECKED situ_tensor *situ_randint(int64_t low, int64_t high, situ_shape shape,
                                                const situ_options *options);
/** 0..n-1 in a random order, the same on every device; default dtype i64. Of more than 1024 numbers, one of at most
    2^256 orders: a Feistel network computes each element by itself. */
SITU_API SITU_CHECKED situ_tensor *situ_randperm(int64_t n, const situ_options *options);
/** 1 with probability input[i], else 0, in input's shape and (floating) dtype. NULL generator: the default one. */
SITU_API SITU_CHECKED situ_tensor *situ_bernoulli(situ_tensor *input, situ_generator *generator);
/** Indices drawn from each row of weights, input [n] or [rows, n], floating, in proportion to them: i64 [num_samples]
    or [rows, num_samples]. The sum of a row may be any number above 0. Without replacement no index of a row is drawn
    twice, and num_samples is at most the number of weights above 0. A weight that is negative or NaN, and a row whose
    sum is 0 or not finite, is SITU_E_ARG. Waits for the device. NULL generator: the default one. */
SITU_API SITU_CHECKED situ_tensor *situ_multinomial(situ_tensor *input, int64_t num_samples, bool replacement,
                                                    situ_generator *generator);

/* Like input: its shape, and its dtype and device unless options say otherwise. */

/** Uninitialised memory, shaped as input. */
SITU_API SITU_CHECKED situ_tensor *situ_empty_like(situ_tensor *input, const situ_options *options);
/** All 0, shaped as input. */
SITU_API SITU_CHECKED situ_tensor *situ_zeros_like(situ_tensor *input, const situ_options *options);
/** All 1, shaped as input. */
SITU_API SITU_CHECKED situ_tensor *situ_ones_like(situ_tensor *input, const situ_options *options);
/** All fill_value, shaped as input. */
SITU_API SITU_CHECKED situ_tensor *situ_full_like(situ_tensor *input, double fill_value, const situ_options *options);
/** Uniform in [0, 1), shaped as input. */
SITU_API SITU_CHECKED situ_tensor *situ_rand_like(situ_tensor *input, const situ_options *options);
/** Standard normal, shaped as input. */
SITU_API SITU_CHECKED situ_tensor *situ_randn_like(situ_tensor *input, const situ_options *options);
/** Whole numbers in [low, high), shaped as input. */
SITU_API SITU_CHECKED situ_tensor *situ_randint_like(situ_tensor *input, int64_t low, int64_t high,
                                                     const situ_options *options);

/* Of a given shape, with input's dtype and on its device unless options say otherwise. */

/** Uninitialised memory. */
SITU_API SITU_CHECKED situ_tensor *situ_new_empty(situ_tensor *input, situ_shape shape, const situ_options *options);
/** All 0. */
SITU_API SITU_CHECKED situ_tensor *situ_new_zeros(situ_tensor *input, situ_shape shape, const situ_options *options);
/** All 1. */
SITU_API SITU_CHECKED situ_tensor *situ_new_ones(situ_tensor *input, situ_shape shape, const situ_options *options);
/** All fill_value. */
SITU_API SITU_CHECKED situ_tensor *situ_new_full(situ_tensor *input, situ_shape shape, double fill_value,
                                                 const situ_options *options);

/* In place: each writes every element of input and returns input, NULL on error. The old values get a gradient of 0.
   NULL generator: the default one. */

/** Writes value. */
SITU_API situ_tensor *situ_fill_(situ_tensor *input, double value);
/** Writes 0. */
SITU_API situ_tensor *situ_zero_(situ_tensor *input);
/** Draws uniformly from [low, high), where low is rounded to the dtype; never high, unless both are one number of the
    dtype. torch's defaults are 0 and 1. Floating dtypes. */
SITU_API situ_tensor *situ_uniform_(situ_tensor *input, double low, double high, situ_generator *generator);
/** Draws from a normal distribution; torch's defaults are mean 0 and std 1, and std 0 gives the mean. Floating dtypes.
    */
SITU_API situ_tensor *situ_normal_(situ_tensor *input, double mean, double std, situ_generator *generator);
/** Draws from an exponential distribution with rate lambd (torch's default is 1). Floating dtypes. */
SITU_API situ_tensor *situ_exponential_(situ_tensor *input, double lambd, situ_generator *generator);
/** Writes 1 with probability p, else 0; torch's default p is 0.5. */
SITU_API situ_tensor *situ_bernoulli_(situ_tensor *input, double p, situ_generator *generator);

/** Lower triangle of the last two dimensions, 0 above it; diagonal 0 is the main one. At least 2 dimensions. */
SITU_API SITU_CHECKED situ_tensor *situ_tril(situ_tensor *input, int64_t diagonal);
/** Upper triangle of the last two dimensions, 0 below it; diagonal 0 is the main one. At least 2 dimensions. */
SITU_API SITU_CHECKED situ_tensor *situ_triu(situ_tensor *input, int64_t diagonal);

SITU_END
#endif
