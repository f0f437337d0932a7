/* batch_norm: normalises each channel by the batch's statistics, or by the running ones.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "base/options.h"
#include "ops/ops.h"

typedef struct batch_norm_params {
  bool training;
  double momentum, eps;
} batch_norm_params;

static bool infer(situ_call *c) {
  const batch_norm_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]);
  if (x->ndim < 2)
    return situ_refuse(c, SITU_E_SHAPE, "input has %d dimensions, must have at least 2: [N, C, ...]", x->ndim);
  for (int i = 1; i < c->ins; i++) {
    const situ_view_desc *v = situ__desc(c->in[i]);
    if (!v || (v->ndim == 1 && v->size[0] == x->size[1])) continue;
    situ_shape own = situ__shape(v);
    char text[SITU_SHAPE_TEXT];
    return situ_refuse(c, SITU_E_SHAPE, "%s is %s, input has %lld channels", c->op->operand[i].name,
                       situ_shape_text(&own, text), (long long)x->size[1]);
  }
  if (!p->training && (!c->in[1] || !c->in[2]))
    return situ_refuse(c, SITU_E_ARG, "running_mean and running_var are needed when not training");
  if (!c->in[1] != !c->in[2]) return situ_refuse(c, SITU_E_ARG, "running_mean and running_var come together");
  for (int i = 1; i <= 2; i++)
    if (c->in[i] && p->training && situ__desc_overlaps(situ__desc(c->in[i])))
      return situ_refuse(c, SITU_E_ALIAS,
                         "%s is updated in place, but its elements share memory (expanded?); clone it first",
                         c->op->operand[i].name);
  situ_infer_like(c);
  int64_t per_channel = x->size[1] ? x->numel / x->size[1] : 0;
  if (p->training && per_channel == 1)
    return situ_refuse(c, SITU_E_ARG, "one value a channel has no variance; training needs more");
  for (int k = 1; k <= 2; k++) {
    c->shape[k] = SITU_SHAPE(x->size[1]);
    c->dtype[k] = c->dtype[0] == SITU_F64 ? SITU_F64 : SITU_F32;
  }
  return true;
}

/* [N, C, S] of x; of channels_last images [N S, C, 1], which the kernels take as rows of channels. */
static situ_shape planes_of(const situ_shape *x, situ_memory_format format) {
  situ_shape shape = situ__planes(x);
  return format < SITU_CHANNELS_LAST ? shape : SITU_SHAPE(shape.dim[0] * shape.dim[2], shape.dim[1], 1);
}

/* v, dense in that format, as planes_of. */
static const situ_view_desc *planes(const situ_view_desc *v, const situ_shape *shape, situ_view_desc *desc) {
  situ_view_desc memory = *v;
  memory.contiguous = true;
  return situ_desc_reshape(&memory, *shape, desc);
}

/* The format of what a call writes. */
static situ_memory_format format_of(const situ_view_desc *written) {
  return written->contiguous ? SITU_CONTIGUOUS_FORMAT : situ__suggest_format(written);
}

/* The vectors without gaps, for the kernels; those of the running statistics may be copies. */
static bool dense_vectors(situ_tensor *const *in, situ_tensor **vector) {
  for (int i = 1; i < 5; i++)
    if (in[i] && !(vector[i] = situ_contiguous(in[i]))) return false;
  return true;
}

static bool write_back(const situ_call *c, situ_tensor *const *vector) {
  bool good = true;
  for (int i = 1; good && i <= 2; i++) {
    if (!vector[i] || vector[i] == c->in[i]) continue;
    const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { situ_desc(vector[i]) },
                             .out = { situ__desc(c->in[i]) } };
    good = situ_launch(c->op->name, c->device, &work);
  }
  return good;
}

/* The running variance is unbiased; in training the kernel updates both statistics. */
static bool forward(situ_call *c) {
  const batch_norm_params *p = c->params;
  const situ_memory_format format = format_of(situ__desc(c->out[0]));
  situ_tensor *x = situ_contiguous_memory_format(c->in[0], format), *vector[5] = { NULL };
  if (!x || !dense_vectors(c->in, vector)) return false;
  if (!situ_desc(x)->numel) return true;
  const situ_view_desc *mean = situ__desc(vector[1]), *var = situ__desc(vector[2]);
  situ_view_desc from, to;
  const situ_shape shape = planes_of(&c->shape[0], format);
  const bool good = situ_launch(
      c->op->name, c->device,
      &(situ_work){
          SITU_VERB_BATCH_NORM, .op = SITU_BATCH_NORM, .compute = c->dtype[0], .ins = 5, .outs = 5,
          .in = { planes(situ_desc(x), &shape, &from), situ__desc(vector[3]), situ__desc(vector[4]), mean, var },
          .out = { planes(situ__desc(c->out[0]), &shape, &to), situ__desc(c->out[1]), situ__desc(c->out[2]),
                   p->training ? mean : NULL, p->training ? var : NULL },
          .scalar = { p->eps, p->momentum }, .integer = { p->training } });
  return good && (!p->training || write_back(c, vector));
}

static situ_tensor *like_operand(const situ_grad_call *g, int i, situ_memory_format format) {
  const situ_options o = { .dtype = g->dtype[i], .device = g->device, .memory_format = i == 0 ? format : 0 };
  return situ_empty(g->shape[i], &o);
}

static bool backward(situ_grad_call *g) {
  const batch_norm_params *p = g->params;
  const situ_memory_format suggested = situ__suggest_format(situ__desc(g->in[0]));
  situ_tensor *up = situ_contiguous_memory_format(g->grad[0], suggested),
              *x = situ_contiguous_memory_format(g->in[0], suggested),
              *weight = g->in[3] ? situ_contiguous(g->in[3]) : NULL;
  static const int operand[3] = { 0, 3, 4 };
  const situ_view_desc *out[3] = { NULL };
  if (!up || !x || (g->in[3] && !weight)) return false;
  for (int k = 0; k < 3; k++) {
    int i = operand[k];
    if (!g->wants[i]) continue;
    if (!(g->dx[i] = like_operand(g, i, suggested))) return false;
    out[k] = situ__desc(g->dx[i]);
  }
  if (g->device.kind == SITU_META) return true;
  if (!situ_desc(x)->numel) { /* an empty batch gives weight and bias a gradient of 0 */
    for (int k = 1; k < 3; k++)
      if (g->dx[operand[k]] && !situ_zero_(g->dx[operand[k]])) return false;
    return true;
  }
  situ_view_desc a, b, to;
  const situ_shape shape = planes_of(&g->shape[0], suggested);
  return situ_launch(g->op->name, g->device,
                     &(situ_work){ SITU_VERB_BATCH_NORM, .op = SITU_BATCH_NORM_GRAD, .compute = g->dtype[0], .ins = 5,
                                   .outs = 3,
                                   .in = { planes(situ_desc(up), &shape, &a), planes(situ_desc(x), &shape, &b),
                                           situ__desc(g->out[1]), situ__desc(g->out[2]), situ_desc(weight) },
                                   .out = { out[0] ? planes(out[0], &shape, &to) : NULL, out[1], out[2] },
                                   .scalar = { p->eps }, .integer = { p->training } });
}

/* With the running statistics as they were in forward: they are constants, which the op does not save. */
static situ_tensor *composed(const situ_grad_call *g, situ_tensor *const *in, int result) {
  (void)result;
  const batch_norm_params *p = g->params;
  situ_tensor *x = in[0], *mean = g->out[1], *rstd = g->out[2];
  situ_shape channels = { .ndim = g->shape[0].ndim };
  situ_reduce_options planes = { .keepdim = true };
  for (int d = 0; d < channels.ndim; d++) {
    channels.dim[d] = d == 1 ? g->shape[0].dim[1] : 1;
    if (d != 1) planes.dim.dim[planes.dim.ndim++] = d;
  }
  if (p->training) {
    x = situ_sub(x, situ_mean(x, &planes));
    rstd = situ_rsqrt(situ_add_scalar(situ_mean(situ_square(x), &planes), p->eps));
  } else {
    x = situ_sub(x, situ_reshape(situ_detach(mean), channels));
    rstd = situ_reshape(situ_detach(rstd), channels);
  }
  situ_tensor *y = situ_mul(x, rstd);
  if (in[3]) y = situ_mul(y, situ_reshape(in[3], channels));
  return in[4] ? situ_add(y, situ_reshape(in[4], channels)) : y;
}
static bool backward_recorded(situ_grad_call *g) { return situ_backward_through(g, composed); }

enum { VECTOR = SITU_FLOATING | SITU_OPTIONAL };
/* The samples are more images; the statistics of all are the running ones. */
static bool fold(situ_batch_call *c) {
  situ_tensor *in[5] = { situ_flatten(c->in[0], 0, 1), c->in[1], c->in[2], c->in[3], c->in[4] };
  if (!in[0] || !situ_batch_run(c, in, NULL) || !(c->out[0] = situ__batch_result(c, c->out[0], 0))) return false;
  for (int k = 1; k < c->outs; k++)
    if (c->out[k] && !(c->out[k] = situ_expand(c->out[k], SITU_SHAPE(c->samples, c->shape[k].dim[0])))) return false;
  return true;
}

/* A sample has statistics of its own; running ones, which are the same for all samples, are visible outside. */
static bool batched(situ_batch_call *c) {
  const batch_norm_params *p = c->params;
  if (!p->training && c->batched[0] && !c->batched[1] && !c->batched[2] && !c->batched[3] && !c->batched[4])
    return fold(c);
  if (!p->training) return situ_batch_each(c);
  if (!c->in[1] || (c->batched[1] && c->batched[2])) return situ_batch_each(c);
  return situ_fail(
             SITU_E_UNSUPPORTED, c->op->name,
             "in situ_func_vmap each sample would write its running statistics to one buffer; use eval, or a layer "
             "without running statistics"),
         false;
}

static bool traced(const situ_call *c, situ_export_trace *t) {
  const batch_norm_params *p = c->params;
  return situ_export_call(t, "batch_norm.default", "tttttbnnb", c->in[0], c->in[3], c->in[4], c->in[1], c->in[2],
                          (int)p->training, p->momentum, p->eps, true);
}

SITU_OP(batch_norm_op) = { .name = "batch_norm",
                           .traced = traced,
                           .operand = { { "input", SITU_FLOATING | SITU_SAME },
                                        { "running_mean", VECTOR | SITU_WRITTEN },
                                        { "running_var", VECTOR | SITU_WRITTEN },
                                        { "weight", VECTOR | SITU_SAME },
                                        { "bias", VECTOR | SITU_SAME } },
                           .outs = 3,
                           .shown = 1,
                           .flags = SITU_OP_COMPOSED | SITU_OP_FORMAT,
                           .autocast = { SITU_CAST_BACK, SITU_CAST_BACK },
                           .save = SITU_SAVE(0) | SITU_SAVE(3) | SITU_SAVE_OUT(1) | SITU_SAVE_OUT(2),
                           .params_size = sizeof(batch_norm_params),
                           .infer = infer,
                           .forward = forward,
                           .batched = batched,
                           .mend = situ_infer_like,
                           .backward = backward,
                           .backward_recorded = backward_recorded };

situ_tensor *situ_batch_norm(situ_tensor *input, situ_tensor *running_mean, situ_tensor *running_var,
                             situ_tensor *weight, situ_tensor *bias, const situ_batch_norm_options *options) {
  situ_batch_norm_options o = situ_batch_norm_defaults();
  if (!situ__options_read("batch_norm", "situ_batch_norm_defaults", options, &o, sizeof o)) return NULL;
  const batch_norm_params p = { .training = o.training, .momentum = o.momentum, .eps = o.eps };
  if (!(p.eps >= 0) || !isfinite(p.eps) || !(p.momentum >= 0 && p.momentum <= 1))
    return situ__fail(SITU_E_ARG, "batch_norm", "eps %g must not be negative, momentum %g in 0..1", p.eps, p.momentum),
           NULL;
  situ_tensor *in[5] = { input, running_mean, running_var, weight, bias };
  return situ_op_run(&batch_norm_op, in, 5, &p, NULL);
}
