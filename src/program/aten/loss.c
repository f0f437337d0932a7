/* ATen's losses.
   SPDX-License-Identifier: MIT */
#include "program/graph/program.h"

/* torch's number of a reduction: none, mean, sum. */
static situ_reduction reduction_of(const situ__op_call *c, int k) {
  const int64_t number = situ__arg_int(c, k);
  return number == 0 ? SITU_REDUCTION_NONE : number == 1 ? SITU_REDUCTION_MEAN : SITU_REDUCTION_SUM;
}

/* Arguments: self, target, reduction. */
typedef situ_tensor *loss(situ_tensor *, situ_tensor *, situ_reduction);
static situ_tensor *compare(situ__op_call *c, loss *fn) {
  return fn(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), reduction_of(c, 2));
}
static situ_tensor *run_mse(situ__op_call *c) { return compare(c, situ_mse_loss); }
static situ_tensor *run_l1(situ__op_call *c) { return compare(c, situ_l1_loss); }
static situ_tensor *run_soft_margin(situ__op_call *c) { return compare(c, situ_soft_margin_loss); }
static situ_tensor *run_multilabel_margin(situ__op_call *c) { return compare(c, situ_multilabel_margin_loss); }

/* Arguments: self, target, reduction, and a number. */
typedef situ_tensor *loss_by(situ_tensor *, situ_tensor *, double, situ_reduction);
static situ_tensor *compare_by(situ__op_call *c, loss_by *fn) {
  return fn(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_number(c, 3), reduction_of(c, 2));
}
static situ_tensor *run_smooth_l1(situ__op_call *c) { return compare_by(c, situ_smooth_l1_loss); }
/* In self's dtype, whatever the target's. */
static situ_tensor *run_huber(situ__op_call *c) {
  return situ_to_dtype(compare_by(c, situ_huber_loss), situ_dtype_of(situ__arg_tensor(c, 0)));
}
static situ_tensor *run_hinge_embedding(situ__op_call *c) { return compare_by(c, situ_hinge_embedding_loss); }

/* Arguments: self, target, weight, reduction, ignore_index, label_smoothing. */
typedef situ_tensor *classes_loss(situ_tensor *, situ_tensor *, const situ_cross_entropy_options *);
static situ_tensor *compare_classes(situ__op_call *c, classes_loss *fn) {
  const situ_cross_entropy_options o = { .weight = situ__arg_tensor(c, 2),
                                         .has_ignore_index = true,
                                         .ignore_index = situ__arg_int(c, 4),
                                         .reduction = reduction_of(c, 3),
                                         .label_smoothing = situ__arg_number(c, 5) };
  return fn(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), &o);
}
static situ_tensor *run_cross_entropy(situ__op_call *c) { return compare_classes(c, situ_cross_entropy); }
static situ_tensor *run_nll(situ__op_call *c) { return compare_classes(c, situ_nll_loss); }

/* And the sum of the weights of the targets. */
static situ_tensor *run_nll_forward(situ__op_call *c) {
  situ_cross_entropy_options o = { .weight = situ__arg_tensor(c, 2),
                                   .has_ignore_index = true,
                                   .ignore_index = situ__arg_int(c, 4),
                                   .reduction = reduction_of(c, 3) };
  situ_tensor *x = situ__arg_tensor(c, 0), *target = situ__arg_tensor(c, 1), **total = situ__call_wanted(c, 1);
  situ_tensor *y = situ_nll_loss(x, target, &o);
  o.reduction = SITU_REDUCTION_SUM;
  if (total) *total = situ_nll_loss(situ_full_like(x, -1, NULL), target, &o);
  return y;
}

static situ_tensor *run_bce(situ__op_call *c) {
  return situ_binary_cross_entropy(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2),
                                   reduction_of(c, 3));
}
static situ_tensor *run_bce_with_logits(situ__op_call *c) {
  return situ_binary_cross_entropy_with_logits(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2),
                                               situ__arg_tensor(c, 3), reduction_of(c, 4));
}
static situ_tensor *run_kl_div(situ__op_call *c) {
  static const situ_kl_reduction reductions[] = { SITU_KL_NONE, SITU_KL_MEAN, SITU_KL_SUM };
  const int64_t number = situ__arg_int(c, 2);
  if (number < 0 || number > 2) return situ__call_refuse(c, "has a reduction that situ does not know");
  return situ_kl_div(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), reductions[number], situ__arg_flag(c, 3));
}
static situ_tensor *run_poisson_nll(situ__op_call *c) {
  return situ_poisson_nll_loss(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_flag(c, 2),
                               situ__arg_flag(c, 3), situ__arg_number(c, 4), reduction_of(c, 5));
}

/* Arguments: input1, input2, target, margin, reduction. */
typedef situ_tensor *pair_loss(situ_tensor *, situ_tensor *, situ_tensor *, double, situ_reduction);
static situ_tensor *compare_pairs(situ__op_call *c, pair_loss *fn) {
  return fn(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), situ__arg_number(c, 3),
            reduction_of(c, 4));
}
static situ_tensor *run_margin_ranking(situ__op_call *c) { return compare_pairs(c, situ_margin_ranking_loss); }
static situ_tensor *run_cosine_embedding(situ__op_call *c) { return compare_pairs(c, situ_cosine_embedding_loss); }

static situ_tensor *run_triplet_margin(situ__op_call *c) {
  const situ_triplet_margin_options o = { .size = sizeof o,
                                          .margin = situ__arg_number(c, 3),
                                          .p = situ__arg_number(c, 4),
                                          .eps = situ__arg_number(c, 5),
                                          .swap = situ__arg_flag(c, 6),
                                          .reduction = reduction_of(c, 7) };
  return situ_triplet_margin_loss(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), &o);
}
static situ_tensor *run_multi_margin(situ__op_call *c) {
  const situ_multi_margin_options o = { .size = sizeof o,
                                        .p = situ__arg_number(c, 2),
                                        .margin = situ__arg_number(c, 3),
                                        .weight = situ__arg_tensor(c, 4),
                                        .reduction = reduction_of(c, 5) };
  return situ_multi_margin_loss(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), &o);
}

/* The lengths at k as a tensor. */
static situ_tensor *lengths_of(situ__op_call *c, int k) {
  if (situ__arg_is_tensor(c, k)) return situ__arg_tensor(c, k);
  int count;
  const int64_t *list = situ__arg_host_list(c, k, &count);
  if (!list) return NULL;
  situ_tensor *t =
      situ_from_host(list, (size_t)count * sizeof *list, SITU_SHAPE(count), &(situ_options){ .dtype = SITU_I64 });
  return situ_to(t, situ_device_of(situ__arg_tensor(c, 0)));
}
static situ_tensor *run_ctc(situ__op_call *c) {
  const situ_ctc_loss_options o = { .blank = situ__arg_int(c, 4),
                                    .reduction = reduction_of(c, 5),
                                    .zero_infinity = situ__arg_flag(c, 6) };
  return situ_ctc_loss(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), lengths_of(c, 2), lengths_of(c, 3), &o);
}

#define COMPARED "t self, t target, i reduction=1"
#define CLASSES "t self, t target, t? weight, i reduction=1, i ignore_index=-100, n label_smoothing=0"
#define FORWARD "t self, t target, t? weight, i reduction, i ignore_index"
#define CTC "t log_probs, t targets, h input_lengths, h target_lengths, i blank=0, i reduction=1, b zero_infinity=0"

static const situ__op_row rows[] = {
  { "mse_loss.default", COMPARED, .run = run_mse },
  { "l1_loss.default", COMPARED, .run = run_l1 },
  { "soft_margin_loss.default", COMPARED, .run = run_soft_margin },
  { "multilabel_margin_loss.default", COMPARED, .run = run_multilabel_margin },
  { "smooth_l1_loss.default", COMPARED ", n beta=1", .run = run_smooth_l1 },
  { "huber_loss.default", COMPARED ", n delta=1", .run = run_huber },
  { "hinge_embedding_loss.default", "t self, t target, i reduction=1, n margin=1", .run = run_hinge_embedding },
  { "cross_entropy_loss.default", CLASSES, .run = run_cross_entropy },
  { "nll_loss.default", CLASSES, .run = run_nll },
  { "nll_loss_forward.default", FORWARD, .results = 2, .run = run_nll_forward },
  { "nll_loss2d_forward.default", FORWARD, .results = 2, .run = run_nll_forward },
  { "nll_loss2d.default", CLASSES, .run = run_nll },
  { "nll_loss_nd.default", CLASSES, .run = run_nll },
  { "binary_cross_entropy.default", "t self, t target, t? weight, i reduction=1", .run = run_bce },
  { "binary_cross_entropy_with_logits.default", "t self, t target, t? weight, t? pos_weight, i reduction=1",
    .run = run_bce_with_logits },
  { "kl_div.default", COMPARED ", *b log_target=0", .run = run_kl_div },
  { "poisson_nll_loss.default", "t input, t target, b log_input, b full, n eps, i reduction", .run = run_poisson_nll },
  { "margin_ranking_loss.default", "t input1, t input2, t target, n margin=0, i reduction=1",
    .run = run_margin_ranking },
  { "cosine_embedding_loss.default", "t input1, t input2, t target, n margin=0, i reduction=1",
    .run = run_cosine_embedding },
  { "triplet_margin_loss.default",
    "t anchor, t positive, t negative, n margin=1, n p=2, n eps=1e-06, b swap=0, i reduction=1",
    .run = run_triplet_margin },
  { "multi_margin_loss.default", "t self, t target, n p=1, n margin=1, t? weight, i reduction=1",
    .run = run_multi_margin },
  { "ctc_loss.IntList", CTC, .run = run_ctc },
  { "ctc_loss.Tensor", CTC, .run = run_ctc },
};
const situ__op_family situ__loss_family = { rows, sizeof rows / sizeof *rows };
