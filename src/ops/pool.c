/* Pooling: max, average, adaptive average over windows of a plane.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

typedef struct pool_params {
  situ_window window;
  int64_t     size[2];  /* of the result's planes */
} pool_params;

/* ---- geometry ---- */

static bool pair(const char *op, const char *name, const situ_shape *given, const int64_t otherwise[2], int64_t least, int64_t out[2]) {
  if (given->ndim < 0 || given->ndim > 2) {
    situ__fail(SITU_E_ARG, op, "%s lists %d values, must be 1 or 2", name, given->ndim);
    return false;
  }
  for (int k = 0; k < 2; k++) {
    out[k] = given->ndim == 0 ? otherwise[k] : given->dim[given->ndim == 1 ? 0 : k];
    if (out[k] < least || out[k] > INT32_MAX) {
      situ__fail(SITU_E_ARG, op, "%s %lld: must be at least %lld", name, (long long)out[k], (long long)least);
      return false;
    }
  }
  return true;
}

/* How many windows fit; with ceil_mode also one that starts inside but ends outside. */
static int64_t windows(int64_t extent, const situ_window *w, int k, bool ceil_mode) {
  int64_t room = extent + 2 * w->padding[k] - w->dilation[k] * (w->kernel[k] - 1) - 1;
  if (room < 0) return 0;
  int64_t count = (ceil_mode ? situ__ceil_div(room, w->stride[k]) : room / w->stride[k]) + 1;
  if (ceil_mode && (count - 1) * w->stride[k] >= extent + w->padding[k]) count--;
  return count;
}

static bool geometry(const char *op, const situ_tensor *x, const situ_pool_options *o, bool max, pool_params *p) {
  static const int64_t zero[2] = { 0, 0 }, one[2] = { 1, 1 };
  memset(p, 0, sizeof *p);
  situ_window *w = &p->window;
  if (!situ__need(op, "input", x)) return false;
  if (x->view.ndim != 3 && x->view.ndim != 4) {
    situ__fail(SITU_E_SHAPE, op, "input has %d dimensions, must be [N, C, H, W] or [C, H, W]", x->view.ndim);
    return false;
  }
  if (!o || !o->kernel.ndim) {
    situ__fail(SITU_E_ARG, op, "no kernel size is given");
    return false;
  }
  if (!pair(op, "kernel", &o->kernel, zero, 1, w->kernel) || !pair(op, "stride", &o->stride, w->kernel, 1, w->stride) ||
      !pair(op, "padding", &o->padding, zero, 0, w->padding) || !pair(op, "dilation", &o->dilation, one, 1, w->dilation))
    return false;
  if (!max && (w->dilation[0] != 1 || w->dilation[1] != 1 || o->divisor_override < 0)) {
    situ__fail(SITU_E_ARG, op, "an average has no dilation, and a divisor_override that is positive");
    return false;
  }
  w->groups = 1;
  w->exclude_pad = o->exclude_pad;
  w->divisor = o->divisor_override;
  for (int k = 0; k < 2; k++) {
    if (w->padding[k] > w->kernel[k] / 2) {
      situ__fail(SITU_E_ARG, op, "padding %lld is more than half of the kernel %lld", (long long)w->padding[k], (long long)w->kernel[k]);
      return false;
    }
    int64_t extent = x->view.size[x->view.ndim - 2 + k];
    p->size[k] = windows(extent, w, k, o->ceil_mode);
    if (p->size[k] < 1) {
      situ__fail(SITU_E_SHAPE, op, "the kernel %lld does not fit into %lld with padding %lld", (long long)w->kernel[k], (long long)extent, (long long)w->padding[k]);
      return false;
    }
  }
  return true;
}

/* ---- ops on [N, C, H, W] ---- */

static bool infer(situ_call *c) {
  const pool_params *p = c->params;
  situ_infer_like(c);
  for (int k = 0; k < 2; k++) c->shape[0].dim[2 + k] = p->size[k];
  c->shape[1] = c->shape[0];
  c->dtype[1] = SITU_I64;
  return true;
}

static bool launch(const char *op, situ_device device, const pool_params *p, int pass, const situ_view_desc *a, const situ_view_desc *b, const situ_view_desc *y,
                   const situ_view_desc *index) {
  return situ_launch(op, device, &(situ_work){ .verb = SITU_VERB_POOL, .op = pass, .compute = (situ_dtype)y->dtype, .ins = b ? 2 : 1, .outs = index ? 2 : 1, .in = { a, b },
                     .out = { y, index }, .window = &p->window });
}

/* The gradient's pass has the code that follows the forward's. */
static bool forward(situ_call *c) {
  situ_tensor *x = situ_contiguous(c->in[0]);
  return x && launch(c->op->name, c->device, c->params, c->op->code, situ_desc(x), NULL, situ_desc(c->out[0]), situ_desc(c->outs > 1 ? c->out[1] : NULL));
}

static bool backward(situ_grad_call *g) {
  situ_tensor *up = situ_contiguous(g->grad[0]), *dx = situ_empty(g->shape[0], &(situ_options){ .dtype = g->dtype[0], .device = g->device });
  if (!up || !dx) return false;
  g->dx[0] = dx;
  if (!situ_numel(dx) || g->device.kind == SITU_META) return true;
  return launch(g->op->name, g->device, g->params, g->op->code + 1, situ_desc(up), g->outs > 1 ? situ_desc(g->out[1]) : NULL, situ_desc(dx), NULL);
}

#define POOL(id, pass, results)                                                                                      \
  SITU_OP(id##_op) = { .name = #id, .operand = { { "input", SITU_FLOATING } }, .outs = results, .code = pass, .flags = SITU_OP_COMPOSED, \
                       .save = SITU_SAVE_OUT(1), .params_size = sizeof(pool_params), .infer = infer, .forward = forward, .backward = backward };
POOL(max_pool2d, SITU_POOL_MAX, 2)
POOL(avg_pool2d, SITU_POOL_AVG, 1)
POOL(adaptive_avg_pool2d, SITU_POOL_ADAPTIVE_AVG, 1)

/* A sample without its batch dimension is a batch of one. */
static situ_tensor *run(const situ_op *op, situ_tensor *input, const pool_params *p, situ_tensor **indices) {
  bool single = input->view.ndim == 3;
  situ_tensor *x = single ? situ_unsqueeze(input, 0) : input, *outs[2] = { NULL, NULL };
  situ_op_run(op, &x, 1, p, outs);
  if (indices) *indices = single ? situ_squeeze(outs[1], SITU_DIMS(0)) : outs[1];
  return single ? situ_squeeze(outs[0], SITU_DIMS(0)) : outs[0];
}

situ_tensor *situ_max_pool2d(situ_tensor *input, const situ_pool_options *o, situ_tensor **indices) {
  pool_params p;
  if (indices) *indices = NULL;
  return geometry("max_pool2d", input, o, true, &p) ? run(&max_pool2d_op, input, &p, indices) : NULL;
}

situ_tensor *situ_avg_pool2d(situ_tensor *input, const situ_pool_options *o) {
  pool_params p;
  return geometry("avg_pool2d", input, o, false, &p) ? run(&avg_pool2d_op, input, &p, NULL) : NULL;
}

situ_tensor *situ_adaptive_avg_pool2d(situ_tensor *input, situ_shape output_size) {
  const char *op = "adaptive_avg_pool2d";
  pool_params p = { .window = { .groups = 1 } };
  if (!situ__need(op, "input", input)) return NULL;
  int ndim = input->view.ndim;
  if ((ndim != 3 && ndim != 4) || output_size.ndim < 1 || output_size.ndim > 2) {
    situ__fail(SITU_E_SHAPE, op, "input has %d dimensions and output_size %d: [N, C, H, W] or [C, H, W], and 1 or 2", ndim, output_size.ndim);
    return NULL;
  }
  for (int k = 0; k < 2; k++) {
    int64_t extent = input->view.size[ndim - 2 + k];
    p.size[k] = output_size.dim[output_size.ndim == 1 ? 0 : k];
    if (p.size[k] == -1) p.size[k] = extent;
    if (p.size[k] < 1 || p.size[k] > INT32_MAX || extent < 1) {
      situ__fail(SITU_E_ARG, op, "output size %lld of an extent of %lld: both must be positive", (long long)p.size[k], (long long)extent);
      return NULL;
    }
  }
  return run(&adaptive_avg_pool2d_op, input, &p, NULL);
}
