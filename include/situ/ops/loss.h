/* Loss functions: how far an output is from its target.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_LOSS_H
#define SITU_OPS_LOSS_H

#include "../tensor.h"

SITU_BEGIN

/* Results: 0-dim, or one value per element (per sample for cross_entropy and nll_loss) with SITU_REDUCTION_NONE. */

/** (input - target)^2; shapes broadcast; one of the two is floating. */
SITU_API SITU_CHECKED situ_tensor *situ_mse_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction);
/** |input - target|; shapes broadcast. */
SITU_API SITU_CHECKED situ_tensor *situ_l1_loss(situ_tensor *input, situ_tensor *target, situ_reduction reduction);
/** d^2 / (2 beta) where d = |input - target| < beta, else d - beta / 2. torch's default beta is 1; 0 is l1_loss. */
SITU_API SITU_CHECKED situ_tensor *situ_smooth_l1_loss(situ_tensor *input, situ_tensor *target, double beta,
                                                       situ_reduction reduction);

/** d^2 / 2 where d = |input - target| < delta, else delta (d - delta / 2). torch's default delta is 1. */
SITU_API SITU_CHECKED situ_tensor *situ_huber_loss(situ_tensor *input, situ_tensor *target, double delta,
                                                   situ_reduction reduction);

typedef struct situ_cross_entropy_options {
  situ_tensor *weight;   /**< [C] or NULL */
  bool has_ignore_index; /**< false: torch's -100 */
  int64_t ignore_index;  /**< with has_ignore_index; else it must be 0 (SITU_E_ARG) */
  situ_reduction reduction;
  double label_smoothing; /**< 0..1 */
} situ_cross_entropy_options;
/** input: logits [N, C, ...] or [C]; target: class indices (i64 [N, ...]) or probabilities (input's shape and dtype).
    */
SITU_API SITU_CHECKED situ_tensor *situ_cross_entropy(situ_tensor *input, situ_tensor *target,
                                                      const situ_cross_entropy_options *options);
/** input: log-probabilities [N, C, ...] or [C]; target: class indices. label_smoothing is SITU_E_ARG here. */
SITU_API SITU_CHECKED situ_tensor *situ_nll_loss(situ_tensor *input, situ_tensor *target,
                                                 const situ_cross_entropy_options *options);
/** input: logits; target: probabilities of input's shape. weight and pos_weight broadcast to input, or NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_binary_cross_entropy_with_logits(situ_tensor *input, situ_tensor *target,
                                                                         situ_tensor *weight, situ_tensor *pos_weight,
                                                                         situ_reduction reduction);

/** -(target log input + (1 - target) log(1 - input)), logarithms at least -100. input: probabilities; outside 0..1 the
    result is NaN (torch refuses them on the CPU). target has input's shape; weight broadcasts to it, or NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_binary_cross_entropy(situ_tensor *input, situ_tensor *target,
                                                             situ_tensor *weight, situ_reduction reduction);
/** Of a Poisson distribution: exp(input) - target * input, or input - target * log(input + eps) if not log_input. full
    adds Stirling's approximation of log(target!) where target > 1; its gradient by a target of 0 is NaN, as torch's.
    torch's defaults are true, false and 1e-8. */
SITU_API SITU_CHECKED situ_tensor *situ_poisson_nll_loss(situ_tensor *input, situ_tensor *target, bool log_input,
                                                         bool full, double eps, situ_reduction reduction);
/** Of a normal distribution: (log var + (input - target)^2 / var) / 2, with var at least eps; full adds log(2 pi) / 2.
    var has input's shape, or 1 or nothing in its last dimension. torch's defaults are false and 1e-6. */
SITU_API SITU_CHECKED situ_tensor *situ_gaussian_nll_loss(situ_tensor *input, situ_tensor *target, situ_tensor *var,
                                                          bool full, double eps, situ_reduction reduction);

/** input where target is 1, max(0, margin - input) where it is -1. torch's default margin is 1. */
SITU_API SITU_CHECKED situ_tensor *situ_hinge_embedding_loss(situ_tensor *input, situ_tensor *target, double margin,
                                                             situ_reduction reduction);
/** max(0, margin - target * (input1 - input2)): target 1 wants input1 larger, -1 input2. torch's default margin
    is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_margin_ranking_loss(situ_tensor *input1, situ_tensor *input2,
                                                            situ_tensor *target, double margin,
                                                            situ_reduction reduction);
/** log(1 + exp(-target * input)) without overflow; target is 1 or -1, and has input's shape. */
SITU_API SITU_CHECKED situ_tensor *situ_soft_margin_loss(situ_tensor *input, situ_tensor *target,
                                                         situ_reduction reduction);
/** Mean over the last dimension of -(target logsigmoid(input) + (1 - target) logsigmoid(-input)): one value per sample.
    weight broadcasts to input, or NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_multilabel_soft_margin_loss(situ_tensor *input, situ_tensor *target,
                                                                    situ_tensor *weight, situ_reduction reduction);
/** With c the cosine of rows input1 and input2, [N, D] or [D]: 1 - c where target ([N] or 0-dim) is 1, max(0, c -
    margin) where it is -1. torch's default margin is 0. */
SITU_API SITU_CHECKED situ_tensor *situ_cosine_embedding_loss(situ_tensor *input1, situ_tensor *input2,
                                                              situ_tensor *target, double margin,
                                                              situ_reduction reduction);
typedef struct situ_triplet_margin_options {
  size_t size;   /**< of this struct; from situ_triplet_margin_defaults(), as the other defaults */
  double margin; /**< above 0; torch's default is 1 */
  double p;      /**< of situ_pairwise_distance; torch's default is 2 */
  double eps;    /**< of situ_pairwise_distance; torch's default is 1e-6 */
  bool swap;     /**< use the distance of positive and negative where it is smaller */
  situ_reduction reduction;
} situ_triplet_margin_options;
/** torch's defaults. */
static inline situ_triplet_margin_options situ_triplet_margin_defaults(void) {
  situ_triplet_margin_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.margin = 1;
  o.p = 2;
  o.eps = 1e-6;
  return o;
}
/** max(0, margin + distance(anchor, positive) - distance(anchor, negative)) of rows, [N, D] or [D] (Balntas et al.,
    BMVC 2016). */
SITU_API SITU_CHECKED situ_tensor *situ_triplet_margin_loss(situ_tensor *anchor, situ_tensor *positive,
                                                            situ_tensor *negative,
                                                            const situ_triplet_margin_options *options);
typedef struct situ_multi_margin_options {
  size_t size;         /**< of this struct; from situ_multi_margin_defaults(), as the other defaults */
  double p;            /**< 1 or 2; torch's default is 1 */
  double margin;       /**< torch's default is 1 */
  situ_tensor *weight; /**< [C] or NULL */
  situ_reduction reduction;
} situ_multi_margin_options;
/** torch's defaults. */
static inline situ_multi_margin_options situ_multi_margin_defaults(void) {
  situ_multi_margin_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.p = 1;
  o.margin = 1;
  return o;
}
/** Sum over classes c other than target of max(0, margin - input[target] + input[c])^p * weight[target] / C. input: [N,
    C] or [C]; target: class indices [N] or 0-dim. */
SITU_API SITU_CHECKED situ_tensor *situ_multi_margin_loss(situ_tensor *input, situ_tensor *target,
                                                          const situ_multi_margin_options *options);

typedef enum situ_kl_reduction { SITU_KL_MEAN = 0, SITU_KL_SUM, SITU_KL_NONE, SITU_KL_BATCHMEAN } situ_kl_reduction;
/** target * (log target - input). input: log-probabilities; target: probabilities, or their logarithms if log_target.
    Where a probability is 0, so is its part of the loss, and the gradient by it is NaN, as torch's. */
SITU_API SITU_CHECKED situ_tensor *situ_kl_div(situ_tensor *input, situ_tensor *target, situ_kl_reduction reduction,
                                               bool log_target);

/** Sum over the target classes t of a sample and the others i of max(0, 1 - (input[t] - input[i])) / C. input [N, C] or
    [C]; target, of its shape: classes, i64 or i32, up to the first -1. Memory grows with N C^2. */
SITU_API SITU_CHECKED situ_tensor *situ_multilabel_margin_loss(situ_tensor *input, situ_tensor *target,
                                                               situ_reduction reduction);
typedef struct situ_ctc_loss_options {
  int64_t blank; /**< the class that stands between labels; torch's default is 0 */
  situ_reduction reduction;
  bool zero_infinity; /**< the loss of a sample whose targets do not fit into its steps is 0, with a gradient of 0; else
                           infinity, with one of NaN */
} situ_ctc_loss_options;
/** The negative logarithm of the probability of each sample's targets, over all ways to align them (connectionist
    temporal classification). log_probs: floating [T, N, C], or [T, C] for one sample, as log_softmax gives them;
    targets: classes [N, S], of which sample i has the first target_lengths[i], or those of all samples one after the
    other, 1-D; input_lengths: steps of each sample; both lengths [N], or 0-dim for one sample. Indices are i64 or i32.
    SITU_REDUCTION_MEAN divides each loss by its target's length first. The gradient is PyTorch's: that of what
    log_softmax was given. Waits for the device. */
SITU_API SITU_CHECKED situ_tensor *situ_ctc_loss(situ_tensor *log_probs, situ_tensor *targets,
                                                 situ_tensor *input_lengths, situ_tensor *target_lengths,
                                                 const situ_ctc_loss_options *options);

SITU_END
#endif
