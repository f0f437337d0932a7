/* cross_entropy and nll_loss. With class indices both are one fused op; with probabilities cross_entropy consists of
   log_softmax and a product.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/pair.h"
#include "ops/ops.h"

typedef struct nll_params {
  int64_t ignore_index;
  situ_reduction reduction;
  bool logits;
  double smoothing;
} nll_params;

/* [N, C, S] and [N, S] of input [N, C, ...] or [C], target [N, ...] or []. */
static situ_shape classes(const situ_shape *x) {
  if (x->ndim == 1) return SITU_SHAPE(1, x->dim[0], 1);
  situ_shape shape = SITU_SHAPE(x->dim[0], x->dim[1], 1);
  for (int d = 2; d < x->ndim; d++) shape.dim[2] *= x->dim[d];
  return shape;
}
static situ_shape places(const situ_shape *x) {
  situ_shape shape = classes(x);
  return SITU_SHAPE(shape.dim[0], shape.dim[2]);
}

/* Of the loss alone; as large as the target. */
static bool set_results(situ_call *c) {
  const nll_params *p = c->params;
  c->shape[0] = p->reduction == SITU_REDUCTION_NONE ? situ__shape(situ__desc(c->in[1])) : SITU_SCALAR;
  c->dtype[0] = (situ_dtype)situ__desc(c->in[0])->dtype;
  return true;
}

/* Results: the loss, the total weight that a mean divides by, and logsumexp for backward. */
static bool infer(situ_call *c) {
  const nll_params *p = c->params;
  situ_shape x = situ__shape(situ__desc(c->in[0])), t = situ__shape(situ__desc(c->in[1])), want = x;
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  if (x.ndim < 1) return situ_refuse(c, SITU_E_SHAPE, "input is 0-dim, must be [C] or [N, C, ...]");
  int at = x.ndim == 1 ? 0 : 1;
  for (int d = at; d + 1 < x.ndim; d++) want.dim[d] = x.dim[d + 1];
  want.ndim--;
  if (!situ_shape_equal(&want, &t))
    return situ_refuse(c, SITU_E_SHAPE, "target is %s, must be %s for input %s", situ_shape_text(&t, a),
                       situ_shape_text(&want, b), situ_shape_text(&x, (char[SITU_SHAPE_TEXT]){ 0 }));
  const situ_view_desc *w = situ__desc(c->in[2]);
  if (w && (w->ndim != 1 || w->size[0] != x.dim[at])) {
    situ_shape own = situ__shape(w);
    return situ_refuse(c, SITU_E_SHAPE, "weight is %s, input has %lld classes", situ_shape_text(&own, a),
                       (long long)x.dim[at]);
  }
  set_results(c);
  c->shape[1] = SITU_SCALAR;
  c->shape[2] = places(&x);
  /* Backward divides by the one and subtracts the other, so they are wider: f16 could not even count to 2049. */
  c->dtype[1] = c->dtype[0] == SITU_F64 ? SITU_F64 : SITU_F32;
  c->dtype[2] = p->logits ? c->dtype[1] : SITU_DTYPE_DEFAULT;
  return true;
}

static situ_work work_of(const nll_params *p, int pass, situ_dtype compute) {
  return (situ_work){ SITU_VERB_NLL, .op = pass, .compute = compute, .scalar = { p->smoothing },
                      .integer = { p->ignore_index, p->reduction, p->logits } };
}

/* Makes operands contiguous and class indices i64. */
static bool prepare(situ_tensor *const *in, situ_tensor **x, situ_tensor **target, situ_tensor **weight) {
  *x = situ_contiguous(in[0]);
  *target = situ_contiguous(situ_to_dtype(in[1], SITU_I64));
  *weight = in[2] ? situ_contiguous(in[2]) : NULL;
  return *x && *target && (*weight || !in[2]);
}

static bool forward(situ_call *c) {
  const nll_params *p = c->params;
  situ_tensor *x, *target, *weight;
  if (!prepare(c->in, &x, &target, &weight)) return false;
  situ_shape shape = situ__shape(situ_desc(x)), at = places(&shape);
  situ_view_desc desc[4];
  bool each = p->reduction == SITU_REDUCTION_NONE;
  situ_work work = work_of(p, SITU_NLL, c->dtype[0]);
  work.ins = work.outs = 3;
  work.in[0] = situ_desc_reshape(situ_desc(x), classes(&shape), &desc[0]);
  work.in[1] = situ_desc_reshape(situ_desc(target), at, &desc[1]);
  work.in[2] = situ_desc(weight);
  work.out[0] = each ? situ_desc_reshape(situ__desc(c->out[0]), at, &desc[2]) : situ__desc(c->out[0]);
  work.out[1] = situ__desc(c->out[1]);
  work.out[2] = c->out[2] ? situ__desc(c->out[2]) : NULL;
  return situ_launch(c->op->name, c->device, &work);
}

static bool backward(situ_grad_call *g) {
  const nll_params *p = g->params;
  situ_tensor *x, *target, *weight,
      *up = situ_contiguous(g->grad[0]),
      *dx = situ_empty(g->shape[0], &(situ_options){ .dtype = g->dtype[0], .device = g->device });
  if (!up || !dx || !prepare(g->in, &x, &target, &weight)) return false;
  g->dx[0] = dx;
  if (!situ_numel(dx) || g->device.kind == SITU_META) return true;
  situ_shape at = places(&g->shape[0]);
  situ_view_desc desc[4];
  situ_work work = work_of(p, SITU_NLL_GRAD, g->dtype[0]);
  work.ins = 6;
  work.outs = 1;
  work.in[0] = p->reduction == SITU_REDUCTION_NONE ? situ_desc_reshape(situ_desc(up), at, &desc[0]) : situ_desc(up);
  work.in[1] = situ_desc_reshape(situ_desc(x), classes(&g->shape[0]), &desc[1]);
  work.in[2] = situ_desc_reshape(situ_desc(target), at, &desc[2]);
  work.in[3] = situ_desc(weight);
  work.in[4] = situ__desc(g->out[1]);
  work.in[5] = situ__desc(g->out[2]);
  work.out[0] = situ_desc_reshape(situ_desc(dx), classes(&g->shape[0]), &desc[3]);
  return situ_launch(g->op->name, g->device, &work);
}

/* The mean over classes of weight * -log p, by which label smoothing mixes the targets' own. */
static situ_tensor *smooth_loss(situ_tensor *logs, situ_tensor *weight) {
  situ_tensor *each = situ_neg(logs);
  if (weight) each = situ_mul(each, situ_reshape(weight, SITU_SHAPE(1, -1, 1)));
  return situ_div_scalar(situ_sum(each, &(situ_reduce_options){ .dim = SITU_DIMS(1) }), (double)situ_size(logs, 1));
}

/* input as [N, C, places]. Its derivatives do not depend on where targets are ignored: those elements are replaced. */
static situ_tensor *composed(const situ_grad_call *g, situ_tensor *const *in, int result) {
  (void)result;
  const nll_params *p = g->params;
  situ_tensor *x = situ_reshape(in[0], classes(&g->shape[0]));
  situ_tensor *target = situ_reshape(situ_to_dtype(in[1], SITU_I64), SITU_SHAPE(situ_size(x, 0), 1, situ_size(x, 2)));
  situ_tensor *ignored = situ_eq_scalar(target, (double)p->ignore_index), *kept = situ_masked_fill(target, ignored, 0);
  situ_tensor *logs = p->logits ? situ_log_softmax(x, 1) : x;
  situ_tensor *weight = in[2]
                            ? situ_reshape(situ_index_select(in[2], 0, situ_flatten(kept, 0, -1)), situ_shape_of(kept))
                            : situ_ones_like(kept, &(situ_options){ .dtype = situ_dtype_of(logs) });
  weight = situ_masked_fill(weight, ignored, 0);
  situ_tensor *loss = situ_mul(situ_neg(situ_gather(logs, 1, kept)), weight);
  if (p->smoothing != 0) {
    situ_tensor *smooth = situ_masked_fill(situ_unsqueeze(smooth_loss(logs, in[2]), 1), ignored, 0);
    loss = situ_add(situ_mul_scalar(loss, 1 - p->smoothing), situ_mul_scalar(smooth, p->smoothing));
  }
  if (p->reduction == SITU_REDUCTION_NONE) {
    situ_shape each = g->shape[0]; /* without the dimension of the classes */
    const int at = each.ndim > 1;
    for (int d = at; d + 1 < each.ndim; d++) each.dim[d] = each.dim[d + 1];
    each.ndim--;
    return situ_reshape(loss, each);
  }
  loss = situ_sum(loss, NULL);
  return p->reduction == SITU_REDUCTION_SUM ? loss : situ_div(loss, situ_sum(weight, NULL));
}
static bool backward_recorded(situ_grad_call *g) { return situ_backward_through(g, composed); }

#define NLL(id)                                                                                                  \
  SITU_OP(id##_op) = { .name = #id,                                                                              \
                       .operand = { { "input", SITU_FLOATING | SITU_SAME },                                      \
                                    { "target", SITU_INDEX },                                                    \
                                    { "weight", SITU_FLOATING | SITU_SAME | SITU_OPTIONAL } },                   \
                       .outs = 3,                                                                                \
                       .shown = 1,                                                                               \
                       .flags = SITU_OP_COMPOSED,                                                                \
                       .autocast = { SITU_CAST_F32, SITU_CAST_F32 },                                             \
                       .save = SITU_SAVE(0) | SITU_SAVE(1) | SITU_SAVE(2) | SITU_SAVE_OUT(1) | SITU_SAVE_OUT(2), \
                       .params_size = sizeof(nll_params),                                                        \
                       .infer = infer,                                                                           \
                       .mend = set_results,                                                                      \
                       .forward = forward,                                                                       \
                       .backward = backward,                                                                     \
                       .backward_recorded = backward_recorded };
NLL(cross_entropy)
NLL(nll_loss)

static nll_params params_of(const situ_cross_entropy_options *o, bool logits) {
  nll_params p = { .ignore_index = -100, .logits = logits };
  if (!o) return p;
  if (o->has_ignore_index) p.ignore_index = o->ignore_index;
  p.reduction = o->reduction;
  p.smoothing = o->label_smoothing;
  return p;
}

static bool good(const char *op, const situ_cross_entropy_options *o, const nll_params *p) {
  if (o && !situ__check_pair(op, "ignore_index", o->has_ignore_index, o->ignore_index)) return false;
  if (!p->logits && p->smoothing != 0)
    return situ__fail(SITU_E_ARG, op, "label_smoothing is given: only cross_entropy has it"), false;
  if ((unsigned)p->reduction <= SITU_REDUCTION_NONE && p->smoothing >= 0 && p->smoothing <= 1) return true;
  return situ__fail(SITU_E_ARG, op, "label_smoothing %g must be in 0..1, and %d a reduction", p->smoothing,
                    (int)p->reduction),
         false;
}

/* torch accepts class indices of u8, too. */
static situ_tensor *indices_of(situ_tensor *target) {
  return situ__alive(target) && target->view.dtype == SITU_U8 ? situ_to_dtype(target, SITU_I64) : target;
}

/* -sum over classes of weight t log_softmax(x); a mean divides by the number of samples. */
static situ_tensor *of_probabilities(situ_tensor *input, situ_tensor *target, situ_tensor *weight,
                                     const nll_params *p) {
  const char *op = "cross_entropy";
  situ_shape x = situ__shape(&input->view), t = situ__shape(&target->view);
  int dim = x.ndim == 1 ? 0 : 1;
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  if (!x.ndim || !situ_shape_equal(&x, &t))
    return situ__fail(SITU_E_SHAPE, op, "target of probabilities is %s, input %s: they must be equal",
                      situ_shape_text(&t, a), situ_shape_text(&x, b)),
           NULL;
  if (p->smoothing > 0)
    target = situ_add_scalar(situ_mul_scalar(target, 1 - p->smoothing), p->smoothing / (double)x.dim[dim]);
  situ_tensor *each = situ_mul(situ_log_softmax(input, dim), target);
  if (weight) {
    situ_shape across = { .ndim = x.ndim };
    for (int d = 0; d < x.ndim; d++) across.dim[d] = d == dim ? x.dim[dim] : 1;
    each = situ_mul(each, situ_reshape(weight, across));
  }
  each = situ_neg(situ_sum(each, &(situ_reduce_options){ .dim = SITU_DIMS(dim) }));
  if (!each || p->reduction == SITU_REDUCTION_NONE) return each;
  situ_tensor *sum = situ_sum(each, NULL);
  return p->reduction == SITU_REDUCTION_SUM ? sum : situ_div_scalar(sum, (double)each->view.numel);
}

situ_tensor *situ_cross_entropy(situ_tensor *input, situ_tensor *target, const situ_cross_entropy_options *options) {
  SITU__MADE_OF_OPS("cross_entropy");
  nll_params p = params_of(options, true);
  situ_tensor *weight = options ? options->weight : NULL;
  if (!situ__need("cross_entropy", "input", input) || !situ__need("cross_entropy", "target", target) ||
      !good("cross_entropy", options, &p))
    return NULL;
  if (situ_dtype_is_floating((situ_dtype)target->view.dtype)) {
    situ_tensor *in[3] = { input, target, weight };
    if (p.ignore_index >= 0)
      return situ__fail(SITU_E_ARG, "cross_entropy",
                        "ignore_index is %lld, but target holds probabilities: it is for class indices",
                        (long long)p.ignore_index),
             NULL;
    return situ__autocast(&cross_entropy_op, in, 3) ? of_probabilities(in[0], in[1], in[2], &p) : NULL;
  }
  return situ_op_run3(&cross_entropy_op, input, indices_of(target), weight, &p);
}

situ_tensor *situ_nll_loss(situ_tensor *input, situ_tensor *target, const situ_cross_entropy_options *options) {
  SITU__MADE_OF_OPS("nll_loss");
  nll_params p = params_of(options, false);
  if (!good("nll_loss", options, &p)) return NULL;
  return situ_op_run3(&nll_loss_op, input, indices_of(target), options ? options->weight : NULL, &p);
}
