/* ONNX's factories. Tensors are made on the module's device, but for sizes, which stay on the host.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "program/graph/program.h"

static situ_tensor *run_constant_of_shape(situ__op_call *c) {
  situ_shape shape;
  situ_tensor *value = situ__arg_tensor(c, 1);
  shape.ndim = situ__arg_host_ints(c, 0, shape.dim, SITU_MAX_DIMS);
  if (shape.ndim < 0) return NULL;
  const situ_options o = situ__call_options(c, SITU_F32);
  return value ? situ_expand(situ_reshape(value, SITU_SCALAR), shape) : situ_zeros(shape, &o);
}

/* start + i delta, which doubles may not hold. */
static situ_tensor *range_of_integers(situ__op_call *c, const situ_options *o) {
  int64_t number[3];
  for (int k = 0; k < 3; k++) {
    const int count = situ__arg_host_ints(c, k, &number[k], 1);
    if (count < 1) return count == 0 ? situ__call_refuse(c, "has no value as start, limit or delta") : NULL;
  }
  const int64_t start = number[0], limit = number[1], delta = number[2];
  if (delta == 0) return situ__call_refuse(c, "has a delta that is 0 or not finite");
  /* A span of two numbers of 64 bits needs their unsigned difference. */
  const uint64_t span = delta > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  const uint64_t step = delta > 0 ? (uint64_t)delta : 0 - (uint64_t)delta;
  const uint64_t elements = (delta > 0 ? limit <= start : limit >= start) ? 0 : (span - 1) / step + 1;
  if (elements > (uint64_t)1 << 53) return situ__call_refuse(c, "gives more than 2^53 elements");
  const situ_options wide = { .dtype = SITU_I64, .device = o->device };
  const double end = (double)start + (double)elements * (double)delta;
  if (fabs((double)start) < 0x1p50 && fabs(end) < 0x1p50)
    return situ_to_dtype(situ_arange((double)start, end, (double)delta, &wide), o->dtype);
  situ_tensor *first = situ_from_host(&start, sizeof start, SITU_SCALAR, &wide),
              *each = situ_from_host(&delta, sizeof delta, SITU_SCALAR, &wide),
              *place = situ_arange(0, (double)elements, 1, &wide);
  return situ_to_dtype(situ_add(situ_mul(place, each), first), o->dtype);
}

static situ_tensor *run_range(situ__op_call *c) {
  double start, limit, delta;
  double *const number[] = { &start, &limit, &delta };
  const situ_options o = situ__call_options(c, situ_dtype_of(situ__arg_tensor(c, 0)));
  if (situ_dtype_is_integer(o.dtype)) return range_of_integers(c, &o);
  for (int k = 0; k < 3; k++)
    if (!situ__arg_host_number(c, k, number[k], "has no value as start, limit or delta")) return NULL;
  if (delta == 0 || !isfinite(delta)) return situ__call_refuse(c, "has a delta that is 0 or not finite");
  if ((limit - start) / delta <= 0) return situ_empty(SITU_SHAPE(0), &o);
  return situ_arange(start, limit, delta, &o);
}

static situ_tensor *run_eye_like(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_dtype dtype = situ__arg_dtype(c, 1);
  const int64_t k = situ__arg_int(c, 2);
  situ_tensor *ones = situ_ones_like(x, &(situ_options){ .dtype = dtype ? dtype : situ_dtype_of(x) });
  return situ_triu(situ_tril(ones, k), k);
}

/* ---- random numbers: situ's own, whatever seed the file has ---- */

/* Arguments: dtype, then two numbers: mean and scale, or low and high. */
static situ_tensor *scale_normal(situ_tensor *x, const situ__op_call *c, int k) {
  return situ_add_scalar(situ_mul_scalar(x, situ__arg_number(c, k + 1)), situ__arg_number(c, k));
}
static situ_tensor *scale_uniform(situ_tensor *x, const situ__op_call *c, int k) {
  const double low = situ__arg_number(c, k), high = situ__arg_number(c, k + 1);
  return situ_add_scalar(situ_mul_scalar(x, high - low), low);
}
static situ_tensor *run_random_normal(situ__op_call *c) {
  const situ_options o = situ__call_options(c, situ__arg_dtype(c, 1));
  return scale_normal(situ_randn(situ__arg_dims(c, 0), &o), c, 2);
}
static situ_tensor *run_random_uniform(situ__op_call *c) {
  const situ_options o = situ__call_options(c, situ__arg_dtype(c, 1));
  return scale_uniform(situ_rand(situ__arg_dims(c, 0), &o), c, 2);
}
static situ_tensor *run_random_normal_like(situ__op_call *c) {
  return scale_normal(situ_randn_like(situ__arg_tensor(c, 0), &(situ_options){ .dtype = situ__arg_dtype(c, 1) }), c, 2);
}
static situ_tensor *run_random_uniform_like(situ__op_call *c) {
  return scale_uniform(situ_rand_like(situ__arg_tensor(c, 0), &(situ_options){ .dtype = situ__arg_dtype(c, 1) }), c, 2);
}
static situ_tensor *run_bernoulli(situ__op_call *c) {
  situ_tensor *y = situ_bernoulli(situ__arg_tensor(c, 0), NULL);
  return situ__arg_given(c, 1) ? situ_to_dtype(y, situ__arg_dtype(c, 1)) : y;
}
static situ_tensor *run_multinomial(situ__op_call *c) {
  situ_tensor *p = situ_softmax(situ__arg_tensor(c, 0), -1);
  return situ_to_dtype(situ_multinomial(p, situ__arg_int(c, 2), true, NULL),
                       situ__arg_given(c, 1) ? situ__arg_dtype(c, 1) : SITU_I32);
}

/* ---- windows ---- */

typedef enum window { HANN, HAMMING, BLACKMAN } window;
static situ_tensor *make_window(situ__op_call *c, window kind) {
  int64_t size = 0;
  if (situ__arg_host_ints(c, 0, &size, 1) < 0) return NULL;
  const bool periodic = situ__arg_flag(c, 1);
  const situ_dtype dtype = situ__arg_given(c, 2) ? situ__arg_dtype(c, 2) : SITU_F32;
  const situ_options o = situ__call_options(c, situ_dtype_is_floating(dtype) ? dtype : SITU_F32);
  situ_tensor *y = kind == HANN      ? situ_hann_window(size, periodic, &o)
                   : kind == HAMMING ? situ_hamming_window(size, periodic, 25.0 / 46.0, 21.0 / 46.0, &o)
                                     : situ_blackman_window(size, periodic, &o);
  return situ_to_dtype(y, dtype);
}
static situ_tensor *run_hann(situ__op_call *c) { return make_window(c, HANN); }
static situ_tensor *run_hamming(situ__op_call *c) { return make_window(c, HAMMING); }
static situ_tensor *run_blackman(situ__op_call *c) { return make_window(c, BLACKMAN); }

/* ---- mel filters ---- */

static double mel_of(double hertz) { return 2595 * log10(1 + hertz / 700); }

/* Rows of the spectrum that are nearest below bins + 2 frequencies, which equal steps on the mel scale separate. */
static situ_tensor *mel_rows(double bins, double length, double rate, double low, double high) {
  const situ_options host = { .dtype = SITU_F64, .device = { .kind = SITU_CPU } };
  situ_tensor *mel = situ_mul_scalar(situ_arange(0, bins + 2, 1, &host), (high - low) / (bins + 2));
  situ_tensor *power = situ_scalar_pow(10, situ_div_scalar(situ_add_scalar(mel, low), 2595));
  situ_tensor *hertz = situ_mul_scalar(situ_sub_scalar(power, 1), 700);
  return situ_floor(situ_div_scalar(situ_mul_scalar(hertz, length + 1), rate));
}

/* A triangle for each bin, which rises from the row of the bin before it and falls to that of the next. In f64 on the
   host, so that the rows do not depend on the device. */
static situ_tensor *run_mel_weights(situ__op_call *c) {
  double number[5];
  for (int k = 0; k < 5; k++)
    if (!situ__arg_host_number(c, k, &number[k], "has an input without a value")) return NULL;
  const double bins = number[0], length = number[1], rate = number[2], low = number[3], high = number[4];
  if (!(bins >= 1 && bins < 0x1p31 && length >= 1 && length < 0x1p31 && rate >= 1 && rate < 0x1p31))
    return situ__call_refuse(c, "needs numbers of bins, of samples and of samples a second from 1 to 2^31");
  if (!(low >= 0 && low < high && high <= rate / 2))
    return situ__call_refuse(c, "needs a lower edge from 0, below the upper one, and that at most half of the rate");
  const int64_t n = (int64_t)bins, rows = (int64_t)length / 2 + 1;
  const situ_options o = situ__call_options(c, situ__arg_given(c, 5) ? situ__arg_dtype(c, 5) : SITU_F32);
  if (c->dry) return situ_empty(SITU_SHAPE(rows, n), &o);
  const situ_options host = { .dtype = SITU_F64, .device = { .kind = SITU_CPU } };
  situ_tensor *at = mel_rows(bins, length, rate, mel_of(low), mel_of(high));
  situ_tensor *top = situ_narrow(at, 0, 1, n), *row = situ_unsqueeze(situ_arange(0, (double)rows, 1, &host), 1);
  situ_tensor *rise = situ_clamp(situ_sub(top, situ_narrow(at, 0, 0, n)), 1, INFINITY);
  situ_tensor *fall = situ_clamp(situ_sub(situ_narrow(at, 0, 2, n), top), 1, INFINITY);
  situ_tensor *left = situ_div(situ_add(rise, situ_sub(row, top)), rise);
  situ_tensor *right = situ_div(situ_sub(fall, situ_sub(row, top)), fall);
  situ_tensor *weights = situ_clamp(situ_minimum(left, right), 0, INFINITY);
  return situ_to(situ_to_dtype(weights, o.dtype), o.device);
}

#define WINDOW "h size, i periodic=1, d? output_datatype"

static const situ__op_row rows[] = {
  { "ConstantOfShape", "h input, t? value", .inputs = 1, .run = run_constant_of_shape, .shapes = true },
  { "Range", "h start, h limit, h delta", .inputs = 3, .run = run_range },
  { "EyeLike", "t input, d? dtype, i k=0", .inputs = 1, .run = run_eye_like },
  { "RandomNormal", "I shape, d? dtype, n mean=0, n scale=1, n? seed", .run = run_random_normal },
  { "RandomUniform", "I shape, d? dtype, n low=0, n high=1, n? seed", .run = run_random_uniform },
  { "RandomNormalLike", "t input, d? dtype, n mean=0, n scale=1, n? seed", .inputs = 1, .run = run_random_normal_like },
  { "RandomUniformLike", "t input, d? dtype, n low=0, n high=1, n? seed", .inputs = 1, .run = run_random_uniform_like },
  { "Bernoulli", "t input, d? dtype, n? seed", .inputs = 1, .run = run_bernoulli },
  { "Multinomial", "t input, d? dtype, i sample_size=1, n? seed", .inputs = 1, .run = run_multinomial },
  { "HannWindow", WINDOW, .inputs = 1, .run = run_hann },
  { "HammingWindow", WINDOW, .inputs = 1, .run = run_hamming },
  { "BlackmanWindow", WINDOW, .inputs = 1, .run = run_blackman },
  { "MelWeightMatrix",
    "h num_mel_bins, h dft_length, h sample_rate, h lower_edge_hertz, h upper_edge_hertz, d? output_datatype",
    .inputs = 5, .run = run_mel_weights },
};
const situ__op_family situ__onnx_make_family = { rows, sizeof rows / sizeof *rows };
