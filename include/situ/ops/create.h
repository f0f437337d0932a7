/* Making tensors: constants, ranges, random values.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_CREATE_H
#define SITU_OPS_CREATE_H

#include "../tensor.h"

SITU_BEGIN

/** Unwritten memory: reading it before it is written is the caller's mistake. */
SITU_API SITU_CHECKED situ_tensor *situ_empty(situ_shape shape, const situ_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_zeros(situ_shape shape, const situ_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_ones(situ_shape shape, const situ_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_full(situ_shape shape, double value, const situ_options *options);
/** A 0-dim tensor. */
SITU_API SITU_CHECKED situ_tensor *situ_scalar_tensor(double value, const situ_options *options);
/** start, start + step, ... while short of end; default dtype i64 if all three are whole numbers, else f32. */
SITU_API SITU_CHECKED situ_tensor *situ_arange(double start, double end, double step, const situ_options *options);
/** `steps` values from start to end, both included. */
SITU_API SITU_CHECKED situ_tensor *situ_linspace(double start, double end, int64_t steps, const situ_options *options);
/** n x m, ones on the diagonal; m < 0: n x n. */
SITU_API SITU_CHECKED situ_tensor *situ_eye(int64_t n, int64_t m, const situ_options *options);
/** Uniform in [0, 1). */
SITU_API SITU_CHECKED situ_tensor *situ_rand(situ_shape shape, const situ_options *options);
/** Standard normal. */
SITU_API SITU_CHECKED situ_tensor *situ_randn(situ_shape shape, const situ_options *options);
/** Whole numbers in [low, high); default dtype i64. */
SITU_API SITU_CHECKED situ_tensor *situ_randint(int64_t low, int64_t high, situ_shape shape,
                                                const situ_options *options);
/** 0..n-1 in a random order; default dtype i64. */
SITU_API SITU_CHECKED situ_tensor *situ_randperm(int64_t n, const situ_options *options);
/** 1 with probability p[i], else 0, in p's dtype. */
SITU_API SITU_CHECKED situ_tensor *situ_bernoulli(situ_tensor *p, situ_generator *generator);

/* Like x: its shape, and its dtype and device unless options say otherwise. */
SITU_API SITU_CHECKED situ_tensor *situ_empty_like(situ_tensor *x, const situ_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_zeros_like(situ_tensor *x, const situ_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_ones_like(situ_tensor *x, const situ_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_full_like(situ_tensor *x, double value, const situ_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_rand_like(situ_tensor *x, const situ_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_randn_like(situ_tensor *x, const situ_options *options);
SITU_API SITU_CHECKED situ_tensor *situ_randint_like(situ_tensor *x, int64_t low, int64_t high,
                                                     const situ_options *options);

/* In place, every element: the value, or a draw from a distribution. NULL generator: the default one. */
SITU_API situ_tensor *situ_fill_(situ_tensor *x, double value);
SITU_API situ_tensor *situ_zero_(situ_tensor *x);
SITU_API situ_tensor *situ_uniform_(situ_tensor *x, double low, double high, situ_generator *generator);
SITU_API situ_tensor *situ_normal_(situ_tensor *x, double mean, double std, situ_generator *generator);
SITU_API situ_tensor *situ_bernoulli_(situ_tensor *x, double p, situ_generator *generator);

/** Lower / upper triangle of the last two dimensions, the rest 0; diagonal 0 is the main one. */
SITU_API SITU_CHECKED situ_tensor *situ_tril(situ_tensor *x, int64_t diagonal);
SITU_API SITU_CHECKED situ_tensor *situ_triu(situ_tensor *x, int64_t diagonal);

SITU_END
#endif
