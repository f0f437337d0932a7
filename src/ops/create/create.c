/* Creates tensors of constants and ranges. These ops have no operands to check, only a device to resolve.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "ops/ops.h"

static situ_dtype dtype_or(const situ_options *o, situ_dtype otherwise) { return o && o->dtype ? o->dtype : otherwise; }
static situ_device device_of(const situ_options *o) { return o ? o->device : (situ_device){ 0 }; }

/* Runs work on a new tensor, unless it is NULL or empty. */
static bool launch(const char *op, situ_tensor *t, const situ_work *work) {
  return !t->view.numel || situ_launch(op, t->view.storage->device, work);
}

static situ_tensor *finish(situ_tensor *t, const situ_options *o) {
  return t && o && o->requires_grad ? situ_requires_grad_(t, true) : t;
}

/* ---- one value ---- */

bool situ__fits(const char *op, double value, situ_dtype dtype) {
  if ((unsigned)dtype >= SITU_DTYPES || dtype == SITU_BOOL)
    return true; /* the caller, which creates the tensor, refuses a wrong dtype */
  if ((situ_dtype_is_floating(dtype) && !isfinite(value)) ||
      (value >= situ__dtypes[dtype].lowest && value <= situ__dtypes[dtype].largest))
    return true;
  if (dtype == SITU_U8 && value < 0 && value >= -255 && value == trunc(value)) return true;
  return situ__fail(SITU_E_ARG, op, "%g does not fit into %s", value, situ_dtype_name(dtype)), false;
}

bool situ__is_integer(double factor) { return factor == trunc(factor) && factor >= -0x1p63 && factor < 0x1p63; }
bool situ__check_factor(const situ_call *c, const char *name, double factor) {
  return situ_dtype_is_floating(c->dtype[0]) || situ__is_integer(trunc(factor)) ||
         situ_refuse(c, SITU_E_ARG, "%s is %g, but the operands are whole numbers; cast them to a floating dtype", name,
                     factor);
}

/* INT64_MAX as a double is 2^63. */
int64_t situ__to_integer(double value) {
  return value >= 0x1p63 ? INT64_MAX : isnan(value) ? 0 : value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

/* Sets the strides of a new tensor by the options, or as `input` has them. Returns false after recording an error. */
static bool lay_out(const char *op, situ_view_desc *layout, situ_memory_format format, const situ_tensor *input) {
  const situ_view_desc *of = situ__desc(input);
  if (!situ__format_check(op, format, layout->ndim)) return false;
  if (input && (format == SITU_MEMORY_FORMAT_DEFAULT || format == SITU_PRESERVE_FORMAT))
    return situ__order_strides(layout, &of, 1);
  if (format != SITU_PRESERVE_FORMAT) return situ__format_strides(layout, format);
  return situ__fail(SITU_E_ARG, op, "preserve: there is no input whose strides to preserve"), false;
}

static situ_tensor *note_device(situ_tensor *t, const situ_options *o) {
  if (t && !(o && o->device.kind)) t->view.storage->flags |= SITU_STORAGE_UNSTATED;
  return t;
}

situ_tensor *situ__new_as(const char *op, situ_shape shape, situ_dtype dtype, const situ_options *o,
                          const situ_tensor *input) {
  const situ_memory_format format = o ? o->memory_format : SITU_MEMORY_FORMAT_DEFAULT;
  situ_device device = o ? o->device : (situ_device){ 0 };
  const bool rows =
      format == SITU_MEMORY_FORMAT_DEFAULT ? !input || input->view.contiguous : format == SITU_CONTIGUOUS_FORMAT;
  const bool pinned = o && o->pinned.kind;
  if (rows && !pinned) return note_device(situ_op_new(op, shape, dtype, device), o);
  if (pinned && rows) return note_device(situ__tensor_pinned(op, &shape, dtype, device, o->pinned), o);
  if (pinned)
    return situ__fail(SITU_E_ARG, op,
                      "pinned memory is in row-major order; leave options->memory_format at its default"),
           NULL;
  int64_t numel;
  if (!situ_shape_numel(op, &shape, &numel) || !situ__device_resolve(op, device, &device)) return NULL;
  situ_view_desc layout = { .ndim = (uint8_t)shape.ndim };
  memcpy(layout.size, shape.dim, sizeof layout.size);
  return lay_out(op, &layout, format, input) ? note_device(situ__tensor_strided(op, &layout, dtype, device), o) : NULL;
}

static situ_tensor *constant(const char *op, situ_shape shape, double value, situ_dtype dtype, const situ_options *o,
                             const situ_tensor *input) {
  situ_tensor *t = situ__new_as(op, shape, dtype, o, input);
  if (!t || !situ__fits(op, value, dtype)) return NULL;
  if (!launch(op, t,
              &(situ_work){ SITU_VERB_FILL, .outs = 1, .out = { &t->view }, .scalar = { value },
                            .integer = { situ__to_integer(value) } }))
    return NULL;
  return finish(t, o);
}

/* With input's order of strides, if there is one. */
static situ_tensor *empty_as(situ_shape shape, const situ_options *o, const situ_tensor *input) {
  return finish(situ__new_as("empty", shape, dtype_or(o, SITU_F32), o, input), o);
}
static situ_tensor *zeros_as(situ_shape shape, const situ_options *o, const situ_tensor *input) {
  return constant("zeros", shape, 0, dtype_or(o, SITU_F32), o, input);
}
static situ_tensor *ones_as(situ_shape shape, const situ_options *o, const situ_tensor *input) {
  return constant("ones", shape, 1, dtype_or(o, SITU_F32), o, input);
}

situ_tensor *situ_empty(situ_shape shape, const situ_options *options) { return empty_as(shape, options, NULL); }
situ_tensor *situ_zeros(situ_shape shape, const situ_options *options) { return zeros_as(shape, options, NULL); }
situ_tensor *situ_ones(situ_shape shape, const situ_options *options) { return ones_as(shape, options, NULL); }
situ_tensor *situ_full(situ_shape shape, double fill_value, const situ_options *options) {
  return constant("full", shape, fill_value, dtype_or(options, SITU_F32), options, NULL);
}
situ_tensor *situ_scalar_tensor(double value, const situ_options *options) {
  return constant("scalar_tensor", SITU_SCALAR, value, dtype_or(options, SITU_F32), options, NULL);
}

/* ---- like another ---- */

/* x's dtype and device unless the options specify others. Returns false if x is not a tensor. */
static bool like(const char *op, const situ_tensor *x, const situ_options *o, situ_shape *shape, situ_options *out) {
  if (!situ__need(op, "input", x)) return false;
  *shape = situ__shape(&x->view);
  *out = o ? *o : (situ_options){ 0 };
  if (!out->dtype) out->dtype = (situ_dtype)x->view.dtype;
  if (!out->device.kind && !out->pinned.kind) out->device = x->view.storage->device;
  return true;
}

#define LIKE(id, make_as)                                                                    \
  situ_tensor *situ_##id##_like(situ_tensor *input, const situ_options *options) {           \
    SITU__MADE_OF_OPS(#id "_like");                                                          \
    situ_shape shape;                                                                        \
    situ_options o;                                                                          \
    return like(#id "_like", input, options, &shape, &o) ? make_as(shape, &o, input) : NULL; \
  }
LIKE(empty, empty_as)
LIKE(zeros, zeros_as)
LIKE(ones, ones_as)
LIKE(rand, situ__rand_as)
LIKE(randn, situ__randn_as)

situ_tensor *situ_full_like(situ_tensor *input, double fill_value, const situ_options *options) {
  SITU__MADE_OF_OPS("full_like");
  situ_shape shape;
  situ_options o;
  return like("full_like", input, options, &shape, &o) ? constant("full", shape, fill_value, o.dtype, &o, input) : NULL;
}
situ_tensor *situ_randint_like(situ_tensor *input, int64_t low, int64_t high, const situ_options *options) {
  SITU__MADE_OF_OPS("randint_like");
  situ_shape shape;
  situ_options o;
  return like("randint_like", input, options, &shape, &o) ? situ__randint_as(low, high, shape, &o, input) : NULL;
}

#define NEW(id)                                                                                   \
  situ_tensor *situ_new_##id(situ_tensor *input, situ_shape shape, const situ_options *options) { \
    SITU__MADE_OF_OPS("new_" #id);                                                                \
    situ_shape own;                                                                               \
    situ_options o;                                                                               \
    return like("new_" #id, input, options, &own, &o) ? situ_##id(shape, &o) : NULL;              \
  }
NEW(empty)
NEW(zeros)
NEW(ones)

situ_tensor *situ_new_full(situ_tensor *input, situ_shape shape, double fill_value, const situ_options *options) {
  SITU__MADE_OF_OPS("new_full");
  situ_shape own;
  situ_options o;
  return like("new_full", input, options, &own, &o) ? situ_full(shape, fill_value, &o) : NULL;
}

/* ---- ranges ---- */

/* A range of bool has no step. */
static bool is_countable(const char *op, situ_dtype dtype) {
  if (dtype != SITU_BOOL) return true;
  return situ__fail(SITU_E_DTYPE, op, "bool cannot hold a range; make it in an integer dtype and compare"), false;
}

situ_tensor *situ_arange(double start, double end, double step, const situ_options *options) {
  SITU__DEFAULT_FPU;
  const char *op = "arange";
  bool integers = start == trunc(start) && end == trunc(end) && step == trunc(step);
  if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0)
    return situ__fail(SITU_E_ARG, op, "from %g to %g by %g: bounds must be finite and the step not 0", start, end,
                      step),
           NULL;
  double count = ceil((end - start) / step);
  if ((end - start) / step < 0)
    return situ__fail(SITU_E_ARG, op, "from %g to %g by %g: the step leads away from the end", start, end, step), NULL;
  if (!(count < 0x1p63))
    return situ__fail(SITU_E_ARG, op, "from %g to %g by %g: more than 2^63 values", start, end, step), NULL;
  situ_dtype dtype = dtype_or(options, integers ? SITU_I64 : SITU_F32);
  if (!is_countable(op, dtype)) return NULL;
  situ_tensor *t = situ_op_new(op, SITU_SHAPE((int64_t)count), dtype, device_of(options));
  if (!t || !launch(op, t, &(situ_work){ SITU_VERB_RANGE, .outs = 1, .out = { &t->view }, .scalar = { start, step } }))
    return NULL;
  return finish(t, options);
}

/* A bound in an integer dtype: torch truncates both bounds before it counts. */
static double cut(double bound, situ_dtype dtype) {
  return dtype == SITU_U8 ? (double)(uint8_t)(int)bound : trunc(bound);
}

situ_tensor *situ_linspace(double start, double end, int64_t steps, const situ_options *options) {
  SITU__DEFAULT_FPU;
  const char *op = "linspace";
  if (!isfinite(start) || !isfinite(end) || steps < 0)
    return situ__fail(SITU_E_ARG, op, "%lld steps from %g to %g: bounds must be finite and steps not negative",
                      (long long)steps, start, end),
           NULL;
  const situ_dtype dtype = dtype_or(options, SITU_F32);
  if (!is_countable(op, dtype) || !situ__fits(op, start, dtype) || !situ__fits(op, end, dtype)) return NULL;
  if (situ_dtype_is_integer(dtype)) {
    start = cut(start, dtype);
    end = cut(end, dtype);
  }
  situ_tensor *t = situ_op_new(op, SITU_SHAPE(steps), dtype, device_of(options));
  double step = steps > 1 ? (end - start) / (double)(steps - 1) : 0;
  if (!t || !launch(op, t,
                    &(situ_work){ SITU_VERB_RANGE, .op = 1, .outs = 1, .out = { &t->view },
                                  .scalar = { start, step, steps > 1 ? end : start } }))
    return NULL;
  return finish(t, options);
}

situ_tensor *situ_eye(int64_t n, int64_t m, const situ_options *options) {
  situ_options plain = options ? *options : (situ_options){ 0 };
  plain.memory_format = SITU_CONTIGUOUS_FORMAT;
  plain.requires_grad = false;
  int64_t columns = m < 0 ? n : m;
  if (n < 0) return situ__fail(SITU_E_ARG, "eye", "%lld rows: must not be negative", (long long)n), NULL;
  situ_tensor *t = constant("eye", SITU_SHAPE(n, columns), 0, dtype_or(options, SITU_F32), &plain, NULL);
  if (!t) return NULL;
  situ_view_desc diagonal = t->view;
  diagonal.ndim = 1;
  diagonal.size[0] = n < columns ? n : columns;
  diagonal.stride[0] = columns + 1;
  situ_desc_refresh(&diagonal);
  if (!launch("eye", t,
              &(situ_work){ SITU_VERB_FILL, .outs = 1, .out = { &diagonal }, .scalar = { 1 }, .integer = { 1 } }))
    return NULL;
  return finish(t, options);
}

/* ---- in place: the old values and their gradient are lost ---- */

typedef struct fill_params {
  double value;
} fill_params;

static bool fill_infer(situ_call *c) {
  const fill_params *p = c->params;
  situ_infer_like(c);
  return situ__fits(c->op->name, p->value, c->dtype[0]);
}
static bool fill_forward(situ_call *c) {
  const fill_params *p = c->params;
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_FILL, .outs = 1, .out = { situ__desc(c->out[0]) }, .scalar = { p->value },
                                   .integer = { situ__to_integer(p->value) } });
}
static bool fill_backward(situ_grad_call *g) { return (g->dx[0] = situ_zeros_like(g->grad[0], NULL)) != NULL; }

static bool fill_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "fill_.Scalar", "tn", c->in[0], ((const fill_params *)c->params)->value);
}

SITU_OP(fill_op) = { .name = "fill_",
                     .traced = fill_traced,
                     .operand = { { "input", 0 } },
                     .params_size = sizeof(fill_params),
                     .infer = fill_infer,
                     .forward = fill_forward,
                     .batched = situ_batch_broadcast,
                     .backward = fill_backward,
                     .backward_recorded = fill_backward };

situ_tensor *situ_fill_(situ_tensor *input, double value) {
  return situ_op_run_(&fill_op, &input, 1, &(fill_params){ value });
}
situ_tensor *situ_zero_(situ_tensor *input) {
  SITU__MADE_OF_OPS("zero_");
  return situ_fill_(input, 0);
}

/* ---- triangles ---- */

typedef struct triangle_params {
  int64_t diagonal;
} triangle_params;

static bool triangle_infer(situ_call *c) {
  situ_infer_like(c);
  return c->shape[0].ndim >= 2 ||
         situ_refuse(c, SITU_E_SHAPE, "needs a tensor of at least 2 dimensions, got %d", c->shape[0].ndim);
}
static bool triangle_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "*.default", "ti", c->in[0], ((const triangle_params *)c->params)->diagonal);
}
static bool triangle_forward(situ_call *c) {
  const triangle_params *p = c->params;
  situ_tensor *x = situ_contiguous(c->in[0]);
  return x &&
         situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_TRIANGLE, .op = c->op->code, .ins = 1, .outs = 1, .in = { situ_desc(x) },
                                   .out = { situ__desc(c->out[0]) }, .integer = { p->diagonal } });
}
static bool triangle_backward(situ_grad_call *g) {
  const triangle_params *p = g->params;
  return (g->dx[0] = situ_op_run1(g->op, g->grad[0], p)) != NULL;
}

#define TRIANGLE(id, which)                                               \
  SITU_OP(id##_op) = { .name = #id,                                       \
                       .operand = { { "input", 0 } },                     \
                       .code = which,                                     \
                       .flags = SITU_OP_COMPOSED,                         \
                       .params_size = sizeof(triangle_params),            \
                       .infer = triangle_infer,                           \
                       .forward = triangle_forward,                       \
                       .traced = triangle_traced,                         \
                       .batched = situ_batch_leading,                     \
                       .backward = triangle_backward,                     \
                       .backward_recorded = triangle_backward };          \
  situ_tensor *situ_##id(situ_tensor *input, int64_t diagonal) {          \
    return situ_op_run1(&id##_op, input, &(triangle_params){ diagonal }); \
  }
TRIANGLE(tril, 0)
TRIANGLE(triu, 1)
