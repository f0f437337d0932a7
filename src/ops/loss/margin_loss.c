/* Losses with a margin: of pairs, of distances, of classes.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "base/options.h"
#include "loss.h"

/* x where target is `which`, else 0. */
static situ_tensor *only(situ_tensor *target, double which, situ_tensor *x) {
  return situ_masked_fill(x, situ_ne_scalar(target, which), 0);
}

situ_tensor *situ_hinge_embedding_loss(situ_tensor *input, situ_tensor *target, double margin,
                                       situ_reduction reduction) {
  SITU__MADE_OF_OPS("hinge_embedding_loss");
  static const situ_operand operands[] = { { "input", SITU_FLOATING }, { "target", 0 } };
  situ_tensor *in[2] = { input, target }, *x, *t;
  if (!situ__loss_operands("hinge_embedding_loss", operands, in, 2)) return NULL;
  situ_shape both = situ__shape(&in[0]->view), other = situ__shape(&in[1]->view);
  if (!situ_shape_broadcast("hinge_embedding_loss", &both, &other)) return NULL;
  x = situ_expand(in[0], both);
  t = situ_expand(in[1], both);
  /* torch adds both terms for a target that is neither 1 nor -1 */
  situ_tensor *apart = situ_masked_fill(situ_relu(situ_rsub_scalar(x, margin)), situ_eq_scalar(t, 1), 0);
  situ_tensor *near = situ_masked_fill(x, situ_eq_scalar(t, -1), 0);
  return situ__reduce_loss("hinge_embedding_loss", situ_add(apart, near), reduction);
}

situ_tensor *situ_margin_ranking_loss(situ_tensor *input1, situ_tensor *input2, situ_tensor *target, double margin,
                                      situ_reduction reduction) {
  SITU__MADE_OF_OPS("margin_ranking_loss");
  static const situ_operand operands[] = { { "input1", 0 }, { "input2", 0 }, { "target", 0 } };
  situ_tensor *in[3] = { input1, input2, target };
  if (!situ__loss_operands("margin_ranking_loss", operands, in, 3)) return NULL;
  situ_tensor *lag = situ__floating(situ_mul(situ_neg(in[2]), situ_sub(in[0], in[1])));
  return situ__reduce_loss("margin_ranking_loss", situ_relu(situ_add_scalar(lag, margin)), reduction);
}

situ_tensor *situ_soft_margin_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction) {
  SITU__MADE_OF_OPS("soft_margin_loss");
  static const situ_operand operands[] = { { "input", SITU_FLOATING }, { "target", 0 } };
  situ_tensor *in[2] = { input, target };
  if (!situ__loss_operands("soft_margin_loss", operands, in, 2) ||
      !situ__equal_shapes("soft_margin_loss", "target", in[1], "input", in[0]))
    return NULL;
  return situ__reduce_loss("soft_margin_loss", situ_softplus(situ_neg(situ_mul(in[0], in[1])), 1, 40), reduction);
}

situ_tensor *situ_multilabel_soft_margin_loss(situ_tensor *input, situ_tensor *target, situ_tensor *weight,
                                              situ_reduction reduction) {
  SITU__MADE_OF_OPS("multilabel_soft_margin_loss");
  const char *op = "multilabel_soft_margin_loss";
  static const situ_operand operands[] = { { "input", SITU_FLOATING },
                                           { "target", SITU_FLOATING },
                                           { "weight", SITU_OPTIONAL } };
  situ_tensor *in[3] = { input, target, weight };
  if (!situ__loss_operands(op, operands, in, 3) || !situ__equal_shapes(op, "target", in[1], "input", in[0]) ||
      !situ__spreads_to(op, "weight", in[2], in[0]))
    return NULL;
  situ_tensor *yes = situ_mul(in[1], situ_logsigmoid(in[0]));
  situ_tensor *no = situ_mul(situ_rsub_scalar(in[1], 1), situ_logsigmoid(situ_neg(in[0])));
  situ_tensor *each = situ_neg(situ_add(yes, no));
  if (in[2]) each = situ_mul(each, in[2]);
  return situ__reduce_loss(op, situ_mean(each, &(situ_reduce_options){ .dim = SITU_DIMS(-1) }), reduction);
}

/* ---- of vectors ---- */

/* torch's cosine here: a small number is added to the squares, not a bound to the norms. */
static situ_tensor *cosine(situ_tensor *a, situ_tensor *b) {
  const situ_reduce_options along = { .dim = SITU_DIMS(-1) };
  situ_tensor *aa = situ_add_scalar(situ_sum(situ_square(a), &along), 1e-12);
  situ_tensor *bb = situ_add_scalar(situ_sum(situ_square(b), &along), 1e-12);
  return situ_div(situ_sum(situ_mul(a, b), &along), situ_sqrt(situ_mul(aa, bb)));
}

situ_tensor *situ_cosine_embedding_loss(situ_tensor *input1, situ_tensor *input2, situ_tensor *target, double margin,
                                        situ_reduction reduction) {
  SITU__MADE_OF_OPS("cosine_embedding_loss");
  const char *op = "cosine_embedding_loss";
  static const situ_operand operands[] = { { "input1", 0 }, { "input2", 0 }, { "target", 0 } };
  situ_tensor *in[3] = { input1, input2, target };
  if (!situ__loss_operands(op, operands, in, 3)) return NULL;
  const int ndim = in[2]->view.ndim;
  if (ndim > 1 || in[0]->view.ndim != ndim + 1 || in[1]->view.ndim != ndim + 1)
    return situ__fail(SITU_E_SHAPE, op, "target has %d dimensions, input1 %d, input2 %d: 1, 2 and 2, or 0, 1 and 1",
                      ndim, in[0]->view.ndim, in[1]->view.ndim),
           NULL;
  situ_tensor *c = cosine(in[0], in[1]);
  situ_tensor *alike = only(in[2], 1, situ_rsub_scalar(c, 1));
  situ_tensor *unlike = only(in[2], -1, situ_relu(situ_sub_scalar(c, margin)));
  return situ__reduce_loss(op, situ_add(alike, unlike), reduction);
}

situ_tensor *situ_triplet_margin_loss(situ_tensor *anchor, situ_tensor *positive, situ_tensor *negative,
                                      const situ_triplet_margin_options *options) {
  SITU__MADE_OF_OPS("triplet_margin_loss");
  const char *op = "triplet_margin_loss";
  static const situ_operand operands[] = { { "anchor", 0 }, { "positive", 0 }, { "negative", 0 } };
  situ_triplet_margin_options o = situ_triplet_margin_defaults();
  if (!situ__options_read(op, "situ_triplet_margin_defaults", options, &o, sizeof o)) return NULL;
  situ_tensor *in[3] = { anchor, positive, negative };
  if (!situ__loss_operands(op, operands, in, 3)) return NULL;
  if (!(o.margin > 0)) return situ__fail(SITU_E_ARG, op, "margin is %g, must be above 0", o.margin), NULL;
  if (in[0]->view.ndim != in[1]->view.ndim || in[0]->view.ndim != in[2]->view.ndim || !in[0]->view.ndim)
    return situ__fail(SITU_E_SHAPE, op,
                      "anchor has %d dimensions, positive %d, negative %d: they must be equal, and not 0",
                      in[0]->view.ndim, in[1]->view.ndim, in[2]->view.ndim),
           NULL;
  situ_tensor *near = situ_pairwise_distance(in[0], in[1], o.p, o.eps, false);
  situ_tensor *far = situ_pairwise_distance(in[0], in[2], o.p, o.eps, false);
  if (o.swap) far = situ_minimum(far, situ_pairwise_distance(in[1], in[2], o.p, o.eps, false));
  return situ__reduce_loss(op, situ_relu(situ_add_scalar(situ_sub(near, far), o.margin)), o.reduction);
}

/* ---- of classes ---- */

/* Makes [N, C] and [N, 1] of input and target; one sample may come without the batch dimension. */
static bool classes(const char *op, situ_tensor **input, situ_tensor **target, const situ_tensor *weight) {
  const int ndim = (*input)->view.ndim;
  const int64_t samples = ndim == 2 ? (*input)->view.size[0] : 1, count = ndim ? (*input)->view.size[ndim - 1] : 1;
  if (ndim > 2 || (*target)->view.ndim > 1 || (*target)->view.numel != samples || !count) {
    const situ_shape x = situ__shape(&(*input)->view), t = situ__shape(&(*target)->view);
    char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, op, "input is %s, target %s: must be [N, C] and [N], or [C] and []",
                      situ_shape_text(&x, a), situ_shape_text(&t, b)),
           false;
  }
  if (weight && (weight->view.ndim != 1 || weight->view.size[0] != count))
    return situ__fail(SITU_E_SHAPE, op, "weight must be [%lld], one number for each class", (long long)count), false;
  *input = situ_reshape(*input, SITU_SHAPE(samples, count));
  *target = situ_reshape(*target, SITU_SHAPE(samples, 1));
  return *input && *target;
}

situ_tensor *situ_multi_margin_loss(situ_tensor *input, situ_tensor *target, const situ_multi_margin_options *options) {
  SITU__MADE_OF_OPS("multi_margin_loss");
  const char *op = "multi_margin_loss";
  static const situ_operand operands[] = { { "input", SITU_FLOATING | SITU_SAME },
                                           { "target", SITU_INDEX },
                                           { "weight", SITU_OPTIONAL | SITU_SAME } };
  situ_multi_margin_options o = situ_multi_margin_defaults();
  if (!situ__options_read(op, "situ_multi_margin_defaults", options, &o, sizeof o)) return NULL;
  situ_tensor *in[3] = { input, target, o.weight };
  if (!situ__loss_operands(op, operands, in, 3)) return NULL;
  const bool batched = in[1]->view.ndim == 1;
  if (o.p != 1 && o.p != 2) return situ__fail(SITU_E_ARG, op, "p is %g: must be 1 or 2", o.p), NULL;
  if (!classes(op, &in[0], &in[1], in[2])) return NULL;
  situ_tensor *lead = situ_sub(in[0], situ_gather(in[0], 1, in[1]));
  lead = situ_scatter_value(lead, 1, in[1], -INFINITY); /* before anything makes NaN of it where it is inf - inf */
  situ_tensor *over = situ_relu(situ_add_scalar(lead, o.margin));
  situ_tensor *each = situ_mean(o.p == 2 ? situ_square(over) : over, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
  if (in[2]) each = situ_mul(each, situ_index_select(in[2], 0, situ_reshape(in[1], SITU_SHAPE(-1))));
  return situ__reduce_loss(op, batched ? each : situ_squeeze(each, SITU_DIMS(0)), o.reduction);
}

/* ---- of several classes: those before the first -1 ---- */

situ_tensor *situ_multilabel_margin_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction) {
  const char *op = "multilabel_margin_loss";
  SITU__MADE_OF_OPS(op);
  static const situ_operand operands[] = { { "input", SITU_FLOATING }, { "target", SITU_INDEX } };
  situ_tensor *in[2] = { input, target };
  if (!situ__loss_operands(op, operands, in, 2) || !situ__equal_shapes(op, "target", in[1], "input", in[0]))
    return NULL;
  if (in[0]->view.ndim > 2)
    return situ__fail(SITU_E_SHAPE, op, "input has %d dimensions: [N, C] or [C]", in[0]->view.ndim), NULL;
  for (int k = 0; k < 2; k++)
    if (!in[k]->view.ndim && !(in[k] = situ_reshape(in[k], SITU_SHAPE(1)))) return NULL;
  situ_tensor *class = situ_to_dtype(in[1], SITU_I64), *listed = situ_to_dtype(situ_ge_scalar(class, 0), SITU_I64);
  listed = situ_cumprod(listed, -1); /* 1 up to the first -1 */
  class = situ_mul(class, listed);
  if (!class) return NULL;
  situ_tensor *is_target = situ_gt_scalar(situ_scatter_add(situ_zeros_like(class, NULL), -1, class, listed), 0);
  situ_tensor *counts = situ_logical_and(situ_unsqueeze(listed, -1), situ_unsqueeze(situ_logical_not(is_target), -2));
  situ_tensor *own = situ_unsqueeze(situ_gather(in[0], -1, class), -1), *other = situ_unsqueeze(in[0], -2);
  situ_tensor *lag = situ_masked_fill(situ_sub(other, own), situ_logical_not(counts), -INFINITY);
  situ_tensor *each = situ_sum(situ_relu(situ_add_scalar(lag, 1)), &(situ_reduce_options){ .dim = SITU_DIMS(-2, -1) });
  return situ__reduce_loss(op, situ_div_scalar(each, (double)situ_size(in[0], -1)), reduction);
}
