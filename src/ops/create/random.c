/* Creates tensors of random numbers. A call draws once from its generator; element i of a draw has the same bits on
   every device.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

typedef struct random_params {
  situ_random kind;
  double a, b; /* bounds, or mean and standard deviation, or probability */
  int64_t low, high;
  situ_generator draw;
} random_params;

/* Rounds to the dtype's next number towards -infinity. */
static double round_down(double x, situ_dtype dtype) {
  static const int least[SITU_DTYPES] = { [SITU_F16] = -24, [SITU_BF16] = -133, [SITU_F32] = -149, [SITU_F64] = -1074 };
  int exponent, step;
  frexp(x, &exponent);
  step = exponent - ilogb(situ__dtype(dtype)->exact);
  const double unit = ldexp(1, step > least[dtype] ? step : least[dtype]);
  return floor(x / unit) * unit;
}
/* The largest number that a uniform draw gives: the last one below `high`, or `low` where none is between. */
static double last_below(double low, double high, situ_dtype dtype) {
  return fmax(low, round_down(nextafter(high, -INFINITY), dtype));
}

static situ_work work_of(const random_params *p, const situ_view_desc *y) {
  const bool bounded = p->kind == SITU_RANDOM_UNIFORM;
  return (situ_work){ SITU_VERB_RANDOM,
                      .op = (int)p->kind,
                      .outs = 1,
                      .out = { y },
                      .scalar = { p->a, p->b, bounded ? last_below(p->a, p->b, (situ_dtype)y->dtype) : 0 },
                      .integer = { p->low, p->high },
                      .seed = p->draw.seed,
                      .offset = p->draw.offset };
}

/* Element i, in row-major order of the sizes, is number i of the draw; kernels number elements by their place in
   memory, unless they read probabilities. */
bool situ__draw(const char *op, situ_device device, const situ_work *work) {
  const situ_view_desc *y = work->out[0];
  if (y->contiguous || work->ins) return situ_launch(op, device, work);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const situ_shape shape = situ__shape(y);
  situ_tensor *rows = situ_op_new(op, shape, (situ_dtype)y->dtype, device);
  situ_work plain = *work;
  plain.out[0] = situ__desc(rows);
  const bool good = rows && situ_launch(op, device, &plain) && situ__copy_values(op, plain.out[0], y);
  SITU_IGNORE(situ_scope_end(&s));
  return good;
}

/* ---- new tensors ---- */

/* Its strides are input's, if there is one; element i is the same number in any order of strides. */
static situ_tensor *make(const char *op, situ_shape shape, situ_dtype otherwise, random_params p, const situ_options *o,
                         const situ_tensor *input) {
  situ_dtype dtype = o && o->dtype ? o->dtype : otherwise;
  situ_tensor *t = situ__new_as(op, shape, dtype, o, input);
  if (!t) return NULL;
  if (p.kind <= SITU_RANDOM_NORMAL && !situ_dtype_is_floating(dtype))
    return situ__fail(SITU_E_DTYPE, op, "%s cannot hold these numbers; ask for a floating dtype, or use situ_randint",
                      situ_dtype_name(dtype)),
           NULL;
  p.draw = situ_generator_draw(o ? o->generator : NULL);
  const situ_work work = work_of(&p, &t->view);
  if (t->view.numel && !situ__draw(op, t->view.storage->device, &work)) return NULL;
  return o && o->requires_grad ? situ_requires_grad_(t, true) : t;
}

situ_tensor *situ__rand_as(situ_shape shape, const situ_options *o, const situ_tensor *input) {
  return make("rand", shape, SITU_F32, (random_params){ .kind = SITU_RANDOM_UNIFORM, .b = 1 }, o, input);
}
situ_tensor *situ_rand(situ_shape shape, const situ_options *options) { return situ__rand_as(shape, options, NULL); }
situ_tensor *situ__randn_as(situ_shape shape, const situ_options *o, const situ_tensor *input) {
  return make("randn", shape, SITU_F32, (random_params){ .kind = SITU_RANDOM_NORMAL, .b = 1 }, o, input);
}
situ_tensor *situ_randn(situ_shape shape, const situ_options *options) { return situ__randn_as(shape, options, NULL); }

/* Rounds to a multiple that the dtype has, towards -infinity. */
static int64_t round_down_integer(int64_t value, situ_dtype dtype) {
  const uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  int cut = 0;
  while (size >> cut >> ilogb(situ__dtype(dtype)->exact)) cut++;
  return (int64_t)((uint64_t)value >> cut << cut);
}

/* Checks the range, and narrows it to whole numbers that the dtype has: rounding would leave it. */
static bool range(const char *op, int64_t *low, int64_t *high, situ_dtype dtype) {
  const bool floating = situ_dtype_is_floating(dtype);
  int64_t first = *low, last = *high - (*high > INT64_MIN);
  if (floating && *low < *high) {
    if (!situ__fits(op, (double)first, dtype) || !situ__fits(op, (double)last, dtype)) return false;
    last = round_down_integer(last, dtype);
    if (round_down_integer(first, dtype) < first) first = -round_down_integer(-first, dtype);
  }
  if (*low >= *high || first > last)
    return situ__fail(SITU_E_ARG, op, "no whole number%s%s is in [%lld, %lld)", floating ? " of " : "",
                      floating ? situ_dtype_name(dtype) : "", (long long)*low, (long long)*high),
           false;
  if (!floating) {
    const double most = situ__dtype(dtype)->exact, least = dtype == SITU_BOOL || dtype == SITU_U8 ? 0 : -most - 1;
    if ((double)first < least || (double)last > most)
      return situ__fail(SITU_E_ARG, op, "[%lld, %lld) does not fit into %s", (long long)*low, (long long)*high,
                        situ_dtype_name(dtype)),
             false;
  }
  *low = first, *high = last + 1;
  return true;
}
situ_tensor *situ__randint_as(int64_t low, int64_t high, situ_shape shape, const situ_options *o,
                              const situ_tensor *input) {
  if (!range("randint", &low, &high, o && o->dtype ? o->dtype : SITU_I64)) return NULL;
  const random_params p = { .kind = SITU_RANDOM_INTEGER, .low = low, .high = high };
  return make("randint", shape, SITU_I64, p, o, input);
}
situ_tensor *situ_randint(int64_t low, int64_t high, situ_shape shape, const situ_options *options) {
  return situ__randint_as(low, high, shape, options, NULL);
}

/* Short ones sort random numbers of 64 bits, which makes equal numbers, and thus bias, negligible. In long ones every
   element is computed by itself, from 256 bits. */
situ_tensor *situ_randperm(int64_t n, const situ_options *options) {
  SITU__MADE_OF_OPS("randperm");
  const situ_dtype dtype = options && options->dtype ? options->dtype : SITU_I64;
  if (dtype == SITU_BOOL || (double)n - 1 > situ__dtype(dtype)->exact)
    return situ__fail(SITU_E_ARG, "randperm", "%s does not have all whole numbers below %lld", situ_dtype_name(dtype),
                      (long long)n),
           NULL;
  situ_options raw = options ? *options : (situ_options){ 0 };
  raw.dtype = SITU_I64;
  raw.requires_grad = false;
  raw.memory_format = SITU_CONTIGUOUS_FORMAT;
  enum { SHORT = 1024 };
  const random_params p = { .kind = n <= SHORT ? SITU_RANDOM_RAW : SITU_RANDOM_PERMUTATION };
  situ_tensor *order = make("randperm", SITU_SHAPE(n), SITU_I64, p, &raw, NULL);
  if (n <= SHORT) order = situ_argsort(order, 0, false);
  order = situ_to_dtype(order, dtype);
  return order && options && options->requires_grad ? situ_requires_grad_(order, true) : order;
}

/* ---- in place, and from probabilities: the gradient is 0 ---- */

static bool random_infer(situ_call *c) { return situ_infer_like(c); }

static bool random_forward(situ_call *c) {
  situ_work work = work_of(c->params, situ__desc(c->out[0]));
  if (!c->in_place) { /* bernoulli: the operand contains the probabilities */
    work.ins = 1;
    work.in[0] = situ__desc(c->in[0]);
  }
  return situ__draw(c->op->name, c->device, &work);
}
static bool zero_backward(situ_grad_call *g) { return (g->dx[0] = situ_zeros_like(g->grad[0], NULL)) != NULL; }

#define RANDOM(id, text, kinds)                              \
  SITU_OP(id##_op) = { .name = text,                         \
                       .operand = { { "input", kinds } },    \
                       .params_size = sizeof(random_params), \
                       .infer = random_infer,                \
                       .forward = random_forward,            \
                       .batched = situ_batch_broadcast,      \
                       .backward = zero_backward,            \
                       .backward_recorded = zero_backward };
RANDOM(uniform, "uniform_", SITU_FLOATING)
RANDOM(normal, "normal_", SITU_FLOATING)
RANDOM(bernoulli_in_place, "bernoulli_", 0)
RANDOM(bernoulli, "bernoulli", SITU_FLOATING)

situ_tensor *situ_uniform_(situ_tensor *input, double low, double high, situ_generator *generator) {
  if (!situ__need("uniform_", "input", input)) return NULL;
  if (!(low <= high) || isinf(high - low))
    return situ__fail(SITU_E_ARG, "uniform_", "[%g, %g) is not a range of finite numbers", low, high), NULL;
  const situ_dtype dtype = (situ_dtype)input->view.dtype;
  if (!situ__fits("uniform_", low, dtype) || !situ__fits("uniform_", high, dtype) ||
      !situ__fits("uniform_", high - low, dtype))
    return NULL;
  return situ_op_run_(
      &uniform_op, &input, 1,
      &(random_params){ .kind = SITU_RANDOM_UNIFORM, .a = low, .b = high, .draw = situ_generator_draw(generator) });
}
situ_tensor *situ_normal_(situ_tensor *input, double mean, double std, situ_generator *generator) {
  if (!(std >= 0)) return situ__fail(SITU_E_ARG, "normal_", "a standard deviation of %g", std), NULL;
  return situ_op_run_(
      &normal_op, &input, 1,
      &(random_params){ .kind = SITU_RANDOM_NORMAL, .a = mean, .b = std, .draw = situ_generator_draw(generator) });
}
situ_tensor *situ_bernoulli_(situ_tensor *input, double p, situ_generator *generator) {
  if (!(p >= 0 && p <= 1)) return situ__fail(SITU_E_ARG, "bernoulli_", "a probability of %g", p), NULL;
  return situ_op_run_(
      &bernoulli_in_place_op, &input, 1,
      &(random_params){ .kind = SITU_RANDOM_BERNOULLI, .a = p, .draw = situ_generator_draw(generator) });
}
situ_tensor *situ_bernoulli(situ_tensor *input, situ_generator *generator) {
  return situ_op_run1(&bernoulli_op, input,
                      &(random_params){ .kind = SITU_RANDOM_BERNOULLI, .draw = situ_generator_draw(generator) });
}

/* -log(1 - u) / lambd, u uniform in [0, 1): in f32 at least, so that 1 - u is not 0. */
situ_tensor *situ_exponential_(situ_tensor *input, double lambd, situ_generator *generator) {
  const char *op = "exponential_";
  SITU__MADE_OF_OPS(op);
  static const situ_op schema = { .name = "exponential_", .operand = { { "input", SITU_FLOATING } } };
  if (!situ__together(&schema, &input, 1)) return NULL;
  if (!(lambd > 0)) return situ__fail(SITU_E_ARG, op, "lambd is %g, must be above 0", lambd), NULL;
  const situ_options like = { .dtype = situ__wide(situ_dtype_of(input)),
                              .device = situ_device_of(input),
                              .generator = generator };
  situ_tensor *u = situ_rand(situ__shape(&input->view), &like);
  return u ? situ_copy_(input, situ_div_scalar(situ_neg(situ_log1p(situ_neg(u))), lambd)) : NULL;
}
