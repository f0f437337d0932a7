/* ATen's factories. Tensors are made on the module's device, whatever the file says.
   SPDX-License-Identifier: MIT */
#include "program/program.h"

static bool is_whole(const situ__op_call *c, int k) {
  const situ__arg *a = &c->arg[k];
  return a->kind != SITU__ARG_FLOAT && (a->kind != SITU__ARG_VALUE || a->of != SITU__VALUE_FLOAT);
}

/* Arguments: start, end, step, dtype. */
static situ_tensor *run_arange(situ__op_call *c) {
  situ_dtype dtype = situ__arg_dtype(c, 3);
  if (!dtype) dtype = is_whole(c, 0) && is_whole(c, 1) && is_whole(c, 2) ? SITU_I64 : SITU_F32;
  return situ_arange(situ__arg_number(c, 0), situ__arg_number(c, 1), situ__arg_number(c, 2),
                     &(situ_options){ .dtype = dtype });
}

/* The dtype of a number: torch derives it from the value. */
static situ_dtype dtype_of_number(const situ__op_call *c, int k) {
  if (c->arg[k].kind == SITU__ARG_BOOL) return SITU_BOOL;
  return is_whole(c, k) ? SITU_I64 : SITU_F32;
}

typedef situ_tensor *factory(situ_shape, const situ_options *);
static situ_tensor *make(situ__op_call *c, factory *fn) {
  return fn(situ__arg_dims(c, 0), &(situ_options){ .dtype = situ__arg_dtype(c, 1) });
}
static situ_tensor *run_zeros(situ__op_call *c) { return make(c, situ_zeros); }
static situ_tensor *run_ones(situ__op_call *c) { return make(c, situ_ones); }
static situ_tensor *run_rand(situ__op_call *c) { return make(c, situ_rand); }
static situ_tensor *run_randn(situ__op_call *c) { return make(c, situ_randn); }
static situ_tensor *run_full(situ__op_call *c) {
  const situ_dtype dtype = situ__arg_dtype(c, 1);
  return situ_full(situ__arg_dims(c, 0), situ__arg_number(c, 2),
                   &(situ_options){ .dtype = dtype ? dtype : dtype_of_number(c, 2) });
}
static situ_tensor *run_scalar_tensor(situ__op_call *c) {
  return situ_scalar_tensor(situ__arg_number(c, 0), &(situ_options){ .dtype = situ__arg_dtype(c, 1) });
}

typedef situ_tensor *like_factory(situ_tensor *, const situ_options *);
static situ_tensor *make_like(situ__op_call *c, like_factory *fn) {
  return fn(situ__arg_tensor(c, 0), &(situ_options){ .dtype = situ__arg_dtype(c, 1) });
}
static situ_tensor *run_zeros_like(situ__op_call *c) { return make_like(c, situ_zeros_like); }
static situ_tensor *run_ones_like(situ__op_call *c) { return make_like(c, situ_ones_like); }
static situ_tensor *run_rand_like(situ__op_call *c) { return make_like(c, situ_rand_like); }
static situ_tensor *run_randn_like(situ__op_call *c) { return make_like(c, situ_randn_like); }
static situ_tensor *run_full_like(situ__op_call *c) {
  return situ_full_like(situ__arg_tensor(c, 0), situ__arg_number(c, 2),
                        &(situ_options){ .dtype = situ__arg_dtype(c, 1) });
}

typedef situ_tensor *new_factory(situ_tensor *, situ_shape, const situ_options *);
static situ_tensor *make_new(situ__op_call *c, new_factory *fn) {
  return fn(situ__arg_tensor(c, 0), situ__arg_dims(c, 2), &(situ_options){ .dtype = situ__arg_dtype(c, 1) });
}
static situ_tensor *run_new_zeros(situ__op_call *c) { return make_new(c, situ_new_zeros); }
static situ_tensor *run_new_ones(situ__op_call *c) { return make_new(c, situ_new_ones); }
static situ_tensor *run_new_full(situ__op_call *c) {
  return situ_new_full(situ__arg_tensor(c, 0), situ__arg_dims(c, 2), situ__arg_number(c, 3),
                       &(situ_options){ .dtype = situ__arg_dtype(c, 1) });
}

#define WHERE "d? dtype, _ layout, _ device, _ pin_memory"
#define LIKE "t self, d? dtype, _ layout, _ device, _ pin_memory, _ memory_format"
#define NEW "t self, d? dtype, I size, _ layout, _ device, _ pin_memory"

static const situ__op_row rows[] = {
  { .target = "arange.default", .parameters = "n start=0, n end, n step=1, " WHERE, .run = run_arange },
  { .target = "arange.start", .parameters = "n start, n end, n step=1, " WHERE, .run = run_arange },
  { .target = "arange.start_step", .parameters = "n start, n end, n step=1, " WHERE, .run = run_arange },
  { .target = "zeros.default", .parameters = "I size, " WHERE, .run = run_zeros },
  { .target = "ones.default", .parameters = "I size, " WHERE, .run = run_ones },
  /* Zeros: decomposed programs write parts of it, which reads the rest. */
  { .target = "empty.memory_format", .parameters = "I size, " WHERE ", _ memory_format", .run = run_zeros },
  { .target = "empty_permuted.default", .parameters = "I size, " WHERE ", _ physical_layout", .run = run_zeros },
  { .target = "rand.default", .parameters = "I size, " WHERE, .run = run_rand },
  { .target = "randn.default", .parameters = "I size, " WHERE, .run = run_randn },
  { .target = "full.default",
    .parameters = "I size, d? dtype, n fill_value, _ layout, _ device, _ pin_memory",
    .run = run_full },
  { .target = "scalar_tensor.default", .parameters = "n s, " WHERE, .run = run_scalar_tensor },
  { .target = "zeros_like.default", .parameters = LIKE, .run = run_zeros_like },
  { .target = "ones_like.default", .parameters = LIKE, .run = run_ones_like },
  { .target = "empty_like.default", .parameters = LIKE, .run = run_zeros_like },
  { .target = "rand_like.default", .parameters = LIKE, .run = run_rand_like },
  { .target = "randn_like.default", .parameters = LIKE, .run = run_randn_like },
  { .target = "full_like.default",
    .parameters = "t self, d? dtype, n fill_value, _ layout, _ device, _ pin_memory, _ memory_format",
    .run = run_full_like },
  { .target = "new_zeros.default", .parameters = NEW, .run = run_new_zeros },
  { .target = "new_ones.default", .parameters = NEW, .run = run_new_ones },
  { .target = "new_empty.default", .parameters = NEW, .run = run_new_zeros },
  { .target = "new_full.default",
    .parameters = "t self, d? dtype, I size, n fill_value, _ layout, _ device, _ pin_memory",
    .run = run_new_full },
};
const situ__op_family situ__make_family = { rows, sizeof rows / sizeof *rows };
