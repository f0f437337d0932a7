/* ATen's factories. Tensors are made on the module's device, whatever the file says.
   SPDX-License-Identifier: MIT */
#include "base/size.h"
#include "program/graph/program.h"

/* start + i * step for `count` elements, whatever their size. */
static situ_tensor *arange_wide(situ__op_call *c) {
  const int64_t start = situ__arg_int(c, 0), end = situ__arg_int(c, 1), step = situ__arg_int(c, 2);
  int64_t length, sum;
  const situ_options o = { .dtype = SITU_I64 };
  if (step == 0 || !situ__sub_i64(end, start, &length) ||
      !situ__add_i64(length, step > 0 ? step - 1 : step + 1, &sum) || (sum == INT64_MIN && step == -1))
    return situ__call_refuse(c, "has a step of 0, or 2^63 steps or more");
  const int64_t count = situ__max_i64(sum / step, 0);
  situ_tensor *i = situ_arange(0, (double)count, 1, &o);
  return i ? situ_add(situ_mul(i, situ__arg_scalar(c, 2, i)), situ__arg_scalar(c, 0, i)) : NULL;
}

/* A floating result has the double of a whole number, as in torch. */
static double bound_of(const situ__op_call *c, int k, situ_dtype dtype) {
  return situ_dtype_is_floating(dtype) && situ__arg_is_integer(c, k) ? (double)situ__arg_int(c, k)
                                                                     : situ__arg_number(c, k);
}

/* Arguments: start, end, step, dtype. */
static situ_tensor *run_arange(situ__op_call *c) {
  situ_dtype dtype = situ__arg_dtype(c, 3);
  bool integer = true, wide = false;
  for (int k = 0; k < 3; k++) integer &= situ__arg_is_integer(c, k), wide |= situ__arg_is_wide(c, k);
  if (!dtype) dtype = integer ? SITU_I64 : situ__call_real(c);
  if (integer && wide && dtype == SITU_I64) return arange_wide(c);
  return situ_arange(bound_of(c, 0, dtype), bound_of(c, 1, dtype), bound_of(c, 2, dtype),
                     &(situ_options){ .dtype = dtype });
}

/* The dtype of a number: torch derives it from the value. */
static situ_dtype dtype_of_number(const situ__op_call *c, int k) {
  if (situ__arg_is_bool(c, k)) return SITU_BOOL;
  return situ__arg_is_integer(c, k) ? SITU_I64 : situ__call_real(c);
}

typedef situ_tensor *factory(situ_shape, const situ_options *);
static situ_tensor *make(situ__op_call *c, factory *fn) {
  return fn(situ__arg_dims(c, 0), &(situ_options){ .dtype = situ__arg_dtype_or_real(c, 1) });
}
static situ_tensor *run_zeros(situ__op_call *c) { return make(c, situ_zeros); }
static situ_tensor *run_ones(situ__op_call *c) { return make(c, situ_ones); }
static situ_tensor *run_rand(situ__op_call *c) { return make(c, situ_rand); }
static situ_tensor *run_randn(situ__op_call *c) { return make(c, situ_randn); }
/* A tensor of the number at k, which the plain factory `fn` makes unless it is beyond 2^53. */
static situ_tensor *fill_wide(situ__op_call *c, int k, situ_shape size, situ_options o) {
  situ_tensor *like = situ_empty(SITU_SCALAR, &o);
  return like ? situ_clone(situ_expand(situ__arg_scalar(c, k, like), size)) : NULL;
}
static situ_tensor *run_full(situ__op_call *c) {
  situ_options o = { .dtype = situ__arg_dtype(c, 1) };
  if (!o.dtype) o.dtype = dtype_of_number(c, 2);
  if (situ__arg_is_wide(c, 2)) return fill_wide(c, 2, situ__arg_dims(c, 0), o);
  return situ_full(situ__arg_dims(c, 0), situ__arg_element(c, 2, o.dtype), &o);
}
static situ_tensor *run_scalar_tensor(situ__op_call *c) {
  const situ_options o = { .dtype = situ__arg_dtype_or_real(c, 1) };
  if (situ__arg_is_wide(c, 0)) return fill_wide(c, 0, SITU_SCALAR, o);
  return situ_scalar_tensor(situ__arg_element(c, 0, o.dtype), &o);
}

typedef situ_tensor *like_factory(situ_tensor *, const situ_options *);
static situ_tensor *make_like(situ__op_call *c, like_factory *fn) {
  return fn(situ__arg_tensor(c, 0), &(situ_options){ .dtype = situ__arg_dtype(c, 1) });
}
static situ_tensor *run_zeros_like(situ__op_call *c) { return make_like(c, situ_zeros_like); }
static situ_tensor *run_ones_like(situ__op_call *c) { return make_like(c, situ_ones_like); }
static situ_tensor *run_rand_like(situ__op_call *c) { return make_like(c, situ_rand_like); }
static situ_tensor *run_randn_like(situ__op_call *c) { return make_like(c, situ_randn_like); }
/* The dtype at k, else that of x. */
static situ_options options_like(situ__op_call *c, int k, situ_tensor *x) {
  return (situ_options){ .dtype = situ__arg_given(c, k) ? situ__arg_dtype(c, k) : situ_dtype_of(x),
                         .device = situ_device_of(x) };
}
static situ_tensor *run_full_like(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_options o = options_like(c, 1, x);
  if (situ__arg_is_wide(c, 2)) return fill_wide(c, 2, situ_shape_of(x), o);
  return situ_full_like(x, situ__arg_element(c, 2, o.dtype), &o);
}

typedef situ_tensor *new_factory(situ_tensor *, situ_shape, const situ_options *);
static situ_tensor *make_new(situ__op_call *c, new_factory *fn) {
  return fn(situ__arg_tensor(c, 0), situ__arg_dims(c, 2), &(situ_options){ .dtype = situ__arg_dtype(c, 1) });
}
static situ_tensor *run_new_zeros(situ__op_call *c) { return make_new(c, situ_new_zeros); }
static situ_tensor *run_new_ones(situ__op_call *c) { return make_new(c, situ_new_ones); }
static situ_tensor *run_new_full(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_options o = options_like(c, 1, x);
  if (situ__arg_is_wide(c, 3)) return fill_wide(c, 3, situ__arg_dims(c, 2), o);
  return situ_new_full(x, situ__arg_dims(c, 2), situ__arg_element(c, 3, o.dtype), &o);
}

/* ---- places, steps and windows ---- */

static situ_tensor *run_eye(situ__op_call *c) {
  return situ_eye(situ__arg_int(c, 0), situ__arg_int(c, 2), &(situ_options){ .dtype = situ__arg_dtype_or_real(c, 1) });
}
/* Arguments: start, end, steps, dtype, base. */
static bool read_ends(situ__op_call *c, double end[2]) {
  for (int k = 0; k < 2; k++)
    if (situ__arg_host_numbers(c, k, &end[k], 1) != 1) return false;
  return true;
}
static situ_tensor *run_linspace(situ__op_call *c) {
  double end[2];
  const situ_options o = { .dtype = situ__arg_dtype_or_real(c, 3) };
  return read_ends(c, end) ? situ_linspace(end[0], end[1], situ__arg_int(c, 2), &o) : NULL;
}
static situ_tensor *run_logspace(situ__op_call *c) {
  double end[2];
  const situ_options o = { .dtype = situ__arg_dtype_or_real(c, 3) };
  return read_ends(c, end) ? situ_logspace(end[0], end[1], situ__arg_int(c, 2), situ__arg_number(c, 4), &o) : NULL;
}
typedef situ_tensor *indices(int64_t, int64_t, int64_t, const situ_options *);
static situ_tensor *make_indices(situ__op_call *c, indices *fn) {
  const situ_dtype dtype = situ__arg_dtype(c, 3);
  return fn(situ__arg_int(c, 0), situ__arg_int(c, 1), situ__arg_int(c, 2),
            &(situ_options){ .dtype = dtype ? dtype : SITU_I64 });
}
static situ_tensor *run_tril_indices(situ__op_call *c) { return make_indices(c, situ_tril_indices); }
static situ_tensor *run_triu_indices(situ__op_call *c) { return make_indices(c, situ_triu_indices); }

/* Arguments: window_length, periodic, dtype, then numbers of the window. */
typedef situ_tensor *window(int64_t, bool, const situ_options *);
static situ_tensor *make_window(situ__op_call *c, window *fn) {
  return fn(situ__arg_int(c, 0), situ__arg_flag(c, 1), &(situ_options){ .dtype = situ__arg_dtype_or_real(c, 2) });
}
static situ_tensor *run_hann(situ__op_call *c) { return make_window(c, situ_hann_window); }
static situ_tensor *run_blackman(situ__op_call *c) { return make_window(c, situ_blackman_window); }
static situ_tensor *run_bartlett(situ__op_call *c) { return make_window(c, situ_bartlett_window); }
static situ_tensor *run_hamming(situ__op_call *c) {
  return situ_hamming_window(situ__arg_int(c, 0), situ__arg_flag(c, 1), situ__arg_number(c, 3), situ__arg_number(c, 4),
                             &(situ_options){ .dtype = situ__arg_dtype_or_real(c, 2) });
}
static situ_tensor *run_kaiser(situ__op_call *c) {
  return situ_kaiser_window(situ__arg_int(c, 0), situ__arg_flag(c, 1), situ__arg_number(c, 3),
                            &(situ_options){ .dtype = situ__arg_dtype_or_real(c, 2) });
}

/* ---- drawn ---- */

/* Arguments: low, high, size, dtype. */
static situ_tensor *run_randint(situ__op_call *c) {
  const situ_dtype dtype = situ__arg_dtype(c, 3);
  return situ_randint(situ__arg_int(c, 0), situ__arg_int(c, 1), situ__arg_dims(c, 2),
                      &(situ_options){ .dtype = dtype ? dtype : SITU_I64 });
}
static situ_tensor *run_randint_like(situ__op_call *c) {
  return situ_randint_like(situ__arg_tensor(c, 0), situ__arg_int(c, 2), situ__arg_int(c, 3),
                           &(situ_options){ .dtype = situ__arg_dtype(c, 1) });
}
static situ_tensor *run_randperm(situ__op_call *c) {
  const situ_dtype dtype = situ__arg_dtype(c, 1);
  return situ_randperm(situ__arg_int(c, 0), &(situ_options){ .dtype = dtype ? dtype : SITU_I64 });
}
static situ_tensor *run_bernoulli(situ__op_call *c) { return situ_bernoulli(situ__arg_tensor(c, 0), NULL); }
static situ_tensor *run_bernoulli_p(situ__op_call *c) {
  return situ_bernoulli_(situ_clone(situ__arg_tensor(c, 0)), situ__arg_number(c, 1), NULL);
}
static situ_tensor *run_bernoulli_(situ__op_call *c) {
  return situ_bernoulli_(situ__arg_tensor(c, 0), situ__arg_number(c, 1), NULL);
}
static situ_tensor *run_multinomial(situ__op_call *c) {
  return situ_multinomial(situ__arg_tensor(c, 0), situ__arg_int(c, 1), situ__arg_flag(c, 2), NULL);
}
static situ_tensor *run_uniform_(situ__op_call *c) {
  return situ_uniform_(situ__arg_tensor(c, 0), situ__arg_number(c, 1), situ__arg_number(c, 2), NULL);
}
static situ_tensor *run_normal_(situ__op_call *c) {
  return situ_normal_(situ__arg_tensor(c, 0), situ__arg_number(c, 1), situ__arg_number(c, 2), NULL);
}
static situ_tensor *run_exponential_(situ__op_call *c) {
  return situ_exponential_(situ__arg_tensor(c, 0), situ__arg_number(c, 1), NULL);
}
/* Arguments: mean, std, of which one is a tensor. */
static situ_tensor *run_normal(situ__op_call *c) {
  situ_tensor *mean = situ__arg_is_tensor(c, 0) ? situ__arg_tensor(c, 0) : NULL;
  situ_tensor *std = situ__arg_is_tensor(c, 1) ? situ__arg_tensor(c, 1) : NULL;
  situ_tensor *both[2] = { mean ? mean : std, std ? std : mean };
  if (situ_broadcast_tensors(both, 2, both) != SITU_OK) return NULL;
  situ_tensor *y = situ_randn_like(both[0], NULL);
  y = std ? situ_mul(y, std) : situ_mul_scalar(y, situ__arg_number(c, 1));
  return mean ? situ_add(y, mean) : situ_add_scalar(y, situ__arg_number(c, 0));
}
static situ_tensor *run_normal_of_size(situ__op_call *c) {
  situ_tensor *y = situ_randn(situ__arg_dims(c, 2), &(situ_options){ .dtype = situ__arg_dtype_or_real(c, 3) });
  return situ_add_scalar(situ_mul_scalar(y, situ__arg_number(c, 1)), situ__arg_number(c, 0));
}

#define WHERE "*d? dtype, _ layout, _ device, _ pin_memory"
#define LIKE "t self, d? dtype, _ layout, _ device, _ pin_memory, _ memory_format"
#define NEW "t self, d? dtype, I size, _ layout, _ device, _ pin_memory"
#define LOGSPACE "h start, h end, i steps, d? dtype, n base=10, _ layout, _ device, _ pin_memory"
#define HAMMING "i window_length, b periodic=1, d? dtype, n alpha=0.54, n beta=0.46, _ layout, _ device, _ pin_memory"
#define KAISER "i window_length, b periodic=1, d? dtype, n beta=12, _ layout, _ device, _ pin_memory"
#define RANDINT_LIKE "t self, d? dtype, i low=0, i high, _ layout, _ device, _ pin_memory, _ memory_format"

static const situ__op_row rows[] = {
  { "arange.default", "n start=0, n end, n step=1, " WHERE, .run = run_arange },
  { "arange.start", "n start, n end, n step=1, " WHERE, .run = run_arange },
  { "arange.start_step", "n start, n end, n step=1, " WHERE, .run = run_arange },
  { "zeros.default", "I size, " WHERE, .run = run_zeros },
  { "ones.default", "I size, " WHERE, .run = run_ones },
  /* Zeros: decomposed programs write parts of it, which reads the rest. */
  { "empty.memory_format", "I size, " WHERE ", _ memory_format", .run = run_zeros },
  { "empty_permuted.default", "I size, " WHERE ", _ physical_layout", .run = run_zeros },
  { "rand.default", "I size, " WHERE, .run = run_rand },
  { "randn.default", "I size, " WHERE, .run = run_randn },
  { "full.default", "I size, *d? dtype, n fill_value, _ layout, _ device, _ pin_memory", .run = run_full },
  { "scalar_tensor.default", "n s, " WHERE, .run = run_scalar_tensor },
  { "zeros_like.default", LIKE, .run = run_zeros_like },
  { "ones_like.default", LIKE, .run = run_ones_like },
  { "empty_like.default", LIKE, .run = run_zeros_like },
  { "rand_like.default", LIKE, .run = run_rand_like },
  { "randn_like.default", LIKE, .run = run_randn_like },
  { "full_like.default", "t self, d? dtype, n fill_value, _ layout, _ device, _ pin_memory, _ memory_format",
    .run = run_full_like },
  { "new_zeros.default", NEW, .run = run_new_zeros },
  { "new_ones.default", NEW, .run = run_new_ones },
  { "new_empty.default", NEW, .run = run_new_zeros },
  { "new_full.default", "t self, d? dtype, I size, n fill_value, _ layout, _ device, _ pin_memory",
    .run = run_new_full },

  { "eye.default", "i n, d? dtype, i m=-1, _ layout, _ device, _ pin_memory", .run = run_eye },
  { "eye.m", "i n, d? dtype, i m, _ layout, _ device, _ pin_memory", .run = run_eye },
  { "linspace.default", "h start, h end, i steps, " WHERE, .run = run_linspace },
  { "linspace.Tensor_Tensor", "h start, h end, i steps, " WHERE, .run = run_linspace },
  { "linspace.Tensor_Scalar", "h start, h end, i steps, " WHERE, .run = run_linspace },
  { "linspace.Scalar_Tensor", "h start, h end, i steps, " WHERE, .run = run_linspace },
  { "logspace.default", LOGSPACE, .run = run_logspace },
  { "logspace.Tensor_Tensor", LOGSPACE, .run = run_logspace },
  { "logspace.Tensor_Scalar", LOGSPACE, .run = run_logspace },
  { "logspace.Scalar_Tensor", LOGSPACE, .run = run_logspace },
  { "tril_indices.default", "i row, i col, i offset=0, " WHERE, .run = run_tril_indices },
  { "triu_indices.default", "i row, i col, i offset=0, " WHERE, .run = run_triu_indices },
  { "empty_strided.default", "I size, " WHERE ", _ stride", .run = run_zeros },
  { "new_empty_strided.default", NEW ", _ stride", .run = run_new_zeros },
  { "hann_window.default", "i window_length, b periodic=1, " WHERE, .run = run_hann },
  { "hann_window.periodic", "i window_length, b periodic=1, " WHERE, .run = run_hann },
  { "blackman_window.default", "i window_length, b periodic=1, " WHERE, .run = run_blackman },
  { "blackman_window.periodic", "i window_length, b periodic=1, " WHERE, .run = run_blackman },
  { "bartlett_window.default", "i window_length, b periodic=1, " WHERE, .run = run_bartlett },
  { "bartlett_window.periodic", "i window_length, b periodic=1, " WHERE, .run = run_bartlett },
  { "hamming_window.default", HAMMING, .run = run_hamming },
  { "hamming_window.periodic", HAMMING, .run = run_hamming },
  { "hamming_window.periodic_alpha", HAMMING, .run = run_hamming },
  { "hamming_window.periodic_alpha_beta", HAMMING, .run = run_hamming },
  { "kaiser_window.default", KAISER, .run = run_kaiser },
  { "kaiser_window.periodic", KAISER, .run = run_kaiser },
  { "kaiser_window.beta", KAISER, .run = run_kaiser },

  { "randint.default", "i low=0, i high, I size, " WHERE, .run = run_randint },
  { "randint.low", "i low, i high, I size, " WHERE, .run = run_randint },
  { "randint_like.default", RANDINT_LIKE, .run = run_randint_like },
  { "randint_like.low_dtype", RANDINT_LIKE, .run = run_randint_like },
  { "randperm.default", "i n, " WHERE, .run = run_randperm },
  { "bernoulli.default", "t self, _ generator", .run = run_bernoulli },
  { "bernoulli.p", "t self, n p, _ generator", .run = run_bernoulli_p },
  { "bernoulli_.float", "t self, n p=0.5, _ generator", .run = run_bernoulli_ },
  { "multinomial.default", "t self, i num_samples, b replacement=0, _ generator", .run = run_multinomial },
  { "uniform_.default", "t self, n from=0, n to=1, _ generator", .run = run_uniform_ },
  { "normal_.default", "t self, n mean=0, n std=1, _ generator", .run = run_normal_ },
  { "exponential_.default", "t self, n lambd=1, _ generator", .run = run_exponential_ },
  { "normal.Tensor_Tensor", "t mean, t std, _ generator", .run = run_normal },
  { "normal.Tensor_float", "t mean, n std=1, _ generator", .run = run_normal },
  { "normal.float_Tensor", "n mean, t std, _ generator", .run = run_normal },
  { "normal.float_float", "n mean, n std, I size, " WHERE ", _ generator", .run = run_normal_of_size },
};
const situ__op_family situ__make_family = { rows, sizeof rows / sizeof *rows };
