/* Losses as modules.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "nn/nn.h"

typedef struct loss {
  situ_nn_module base;
  situ_tensor *weight, *pos_weight;
  situ_tensor *(*of)(struct loss *m, situ_tensor *input, situ_tensor *target);
  int reduction; /* situ_kl_reduction begins with the same values */
  double beta;
  bool log_target;
  situ_cross_entropy_options cross;
} loss;

static situ_tree *loss_call(situ_nn_module *self, const situ_tree *inputs) {
  loss *m = (loss *)self;
  if (situ_tree_kind_of(inputs) != SITU_TREE_LIST || situ_tree_count(inputs) != 2)
    return situ__fail(SITU_E_ARG, "nn_call", "%s needs the list [input, target]", self->type->name), NULL;
  return situ_tree_tensor(m->of(m, situ_tree_tensor_at(inputs, 0), situ_tree_tensor_at(inputs, 1)));
}

static situ_nn_module *make(const situ_nn_type *type, loss with) {
  loss *m = situ_nn_alloc(type);
  if (!m) return NULL;
  m->of = with.of;
  m->reduction = with.reduction;
  m->beta = with.beta;
  m->log_target = with.log_target;
  m->cross = with.cross;
  if (with.weight) situ_nn_buffer(m, weight, with.weight);
  if (with.pos_weight) situ_nn_buffer(m, pos_weight, with.pos_weight);
  return situ_nn_done(m);
}

static situ_reduction reduction(const loss *m) { return (situ_reduction)m->reduction; }
static situ_tensor *mse(loss *m, situ_tensor *x, situ_tensor *y) { return situ_mse_loss(x, y, reduction(m)); }
static situ_tensor *l1(loss *m, situ_tensor *x, situ_tensor *y) { return situ_l1_loss(x, y, reduction(m)); }
static situ_tensor *smooth_l1(loss *m, situ_tensor *x, situ_tensor *y) {
  return situ_smooth_l1_loss(x, y, m->beta, reduction(m));
}
static situ_tensor *huber(loss *m, situ_tensor *x, situ_tensor *y) {
  return situ_huber_loss(x, y, m->beta, reduction(m));
}
static situ_tensor *bce(loss *m, situ_tensor *x, situ_tensor *y) {
  return situ_binary_cross_entropy(x, y, m->weight, reduction(m));
}
static situ_tensor *cross_entropy(loss *m, situ_tensor *x, situ_tensor *y) {
  situ_cross_entropy_options options = m->cross;
  options.weight = m->weight; /* the buffer, which may have been replaced */
  return situ_cross_entropy(x, y, &options);
}
static situ_tensor *nll(loss *m, situ_tensor *x, situ_tensor *y) {
  situ_cross_entropy_options options = m->cross;
  options.weight = m->weight;
  return situ_nll_loss(x, y, &options);
}
static situ_tensor *bce_with_logits(loss *m, situ_tensor *x, situ_tensor *y) {
  return situ_binary_cross_entropy_with_logits(x, y, m->weight, m->pos_weight, reduction(m));
}
static situ_tensor *kl_div(loss *m, situ_tensor *x, situ_tensor *y) {
  return situ_kl_div(x, y, (situ_kl_reduction)m->reduction, m->log_target);
}

static const situ_nn_type mse_type = { .name = "MSELoss", .size = sizeof(loss), .call = loss_call };
static const situ_nn_type l1_type = { .name = "L1Loss", .size = sizeof(loss), .call = loss_call };
static const situ_nn_type smooth_l1_type = { .name = "SmoothL1Loss", .size = sizeof(loss), .call = loss_call };
static const situ_nn_type huber_type = { .name = "HuberLoss", .size = sizeof(loss), .call = loss_call };
static const situ_nn_type bce_type = { .name = "BCELoss", .size = sizeof(loss), .call = loss_call };
static const situ_nn_type cross_entropy_type = { .name = "CrossEntropyLoss", .size = sizeof(loss), .call = loss_call };
static const situ_nn_type nll_type = { .name = "NLLLoss", .size = sizeof(loss), .call = loss_call };
static const situ_nn_type bce_with_logits_type = { .name = "BCEWithLogitsLoss",
                                                   .size = sizeof(loss),
                                                   .call = loss_call };
static const situ_nn_type kl_div_type = { .name = "KLDivLoss", .size = sizeof(loss), .call = loss_call };

situ_nn_module *situ_nn_mse_loss(situ_reduction reduction) {
  return make(&mse_type, (loss){ .of = mse, .reduction = (int)reduction });
}
situ_nn_module *situ_nn_l1_loss(situ_reduction reduction) {
  return make(&l1_type, (loss){ .of = l1, .reduction = (int)reduction });
}
situ_nn_module *situ_nn_smooth_l1_loss(double beta, situ_reduction reduction) {
  return make(&smooth_l1_type, (loss){ .of = smooth_l1, .beta = beta, .reduction = (int)reduction });
}
situ_nn_module *situ_nn_huber_loss(double delta, situ_reduction reduction) {
  return make(&huber_type, (loss){ .of = huber, .beta = delta, .reduction = (int)reduction });
}
situ_nn_module *situ_nn_bce_loss(situ_tensor *weight, situ_reduction reduction) {
  if (!situ__optional("nn_bce_loss", "weight", weight, SITU__A_TENSOR)) return NULL;
  return make(&bce_type, (loss){ .of = bce, .weight = weight, .reduction = (int)reduction });
}
static situ_nn_module *make_cross(const char *op, const situ_nn_type *type, loss with,
                                  const situ_cross_entropy_options *options) {
  if (options && !situ__optional(op, "weight", options->weight, SITU__A_TENSOR)) return NULL;
  if (options) with.cross = *options;
  with.weight = with.cross.weight;
  return make(type, with);
}
situ_nn_module *situ_nn_cross_entropy_loss(const situ_cross_entropy_options *options) {
  return make_cross("nn_cross_entropy_loss", &cross_entropy_type, (loss){ .of = cross_entropy }, options);
}
situ_nn_module *situ_nn_nll_loss(const situ_cross_entropy_options *options) {
  return make_cross("nn_nll_loss", &nll_type, (loss){ .of = nll }, options);
}
situ_nn_module *situ_nn_bce_with_logits_loss(situ_tensor *weight, situ_tensor *pos_weight, situ_reduction reduction) {
  const char *op = "nn_bce_with_logits_loss";
  if (!situ__optional(op, "weight", weight, SITU__A_TENSOR) ||
      !situ__optional(op, "pos_weight", pos_weight, SITU__A_TENSOR))
    return NULL;
  return make(&bce_with_logits_type,
              (loss){ .of = bce_with_logits, .weight = weight, .pos_weight = pos_weight, .reduction = (int)reduction });
}
situ_nn_module *situ_nn_kl_div_loss(situ_kl_reduction reduction, bool log_target) {
  return make(&kl_div_type, (loss){ .of = kl_div, .reduction = (int)reduction, .log_target = log_target });
}
