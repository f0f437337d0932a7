/* torch.nn.functional: convolution, pooling, normalisation, softmax, dropout, attention. F.conv2d is situ_conv2d.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_NN_H
#define SITU_OPS_NN_H

#include "linalg.h"

SITU_BEGIN

/** {0} is torch's default: stride 1, padding 0, dilation 1, groups 1. An empty list (ndim 0) takes its default; one
    value serves both dimensions; a zero or negative stride is SITU_E_ARG. */
typedef struct situ_conv_options {
  situ_shape stride, padding, dilation; /**< 1 value, or 1 for each spatial dimension; SITU_DIMS(2, 1) */
  int64_t groups;                       /**< 0: 1 */
  situ_shape output_padding;            /**< transposed only */
  bool same;                            /**< torch's padding="same": the result has the input's sizes; stride 1 */
  situ_activation activation; /**< of the result, in the same pass where gradients are off and the device can; not
                                   transposed */
} situ_conv_options;
/** input [N, C, L] (or [C, L]), weight [O, C/groups, k], bias [O] or NULL: [N, O, L']. */
SITU_API SITU_CHECKED situ_tensor *situ_conv1d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                               const situ_conv_options *options);
/** input [N, C, H, W] (or [C, H, W]), weight [O, C/groups, kh, kw], bias [O] or NULL: [N, O, H', W']. */
SITU_API SITU_CHECKED situ_tensor *situ_conv2d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                               const situ_conv_options *options);
/** input [N, C, D, H, W] (or [C, D, H, W]), weight [O, C/groups, kd, kh, kw], bias [O] or NULL: [N, O, D', H', W'].
    Takes kd times the input's memory; SITU_E_LIMIT: kd is more than 65,536. */
SITU_API SITU_CHECKED situ_tensor *situ_conv3d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                               const situ_conv_options *options);
/** input [N, C, L] (or [C, L]), weight [C, O/groups, k], bias [O] or NULL: [N, O, L']. */
SITU_API SITU_CHECKED situ_tensor *situ_conv_transpose1d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                                         const situ_conv_options *options);
/** input [N, C, D, H, W] (or [C, D, H, W]), weight [C, O/groups, kd, kh, kw], bias [O] or NULL: [N, O, D', H', W'].
    SITU_E_LIMIT: kd is more than 65,536. */
SITU_API SITU_CHECKED situ_tensor *situ_conv_transpose3d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                                         const situ_conv_options *options);
/** input [N, C, H, W] (or [C, H, W]), weight [C, O/groups, kh, kw], bias [O] or NULL: [N, O, H', W']. */
SITU_API SITU_CHECKED situ_tensor *situ_conv_transpose2d(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                                         const situ_conv_options *options);

typedef struct situ_pool_options {
  situ_shape kernel;            /**< 1 size, or 1 for each spatial dimension; required */
  situ_shape stride;            /**< none: the kernel's */
  situ_shape padding, dilation; /**< dilation: max only */
  bool ceil_mode;
  bool exclude_pad;         /**< avg: torch's count_include_pad=False */
  int64_t divisor_override; /**< avg: divide by this instead; 0: no */
} situ_pool_options;
/** input [N, C, H, W] or [C, H, W]. *indices (may be NULL) gets each maximum's index in its H x W plane, i64. */
SITU_API SITU_CHECKED situ_tensor *situ_max_pool2d(situ_tensor *input, const situ_pool_options *options,
                                                   situ_tensor **indices);
/** input [N, C, H, W] or [C, H, W]. */
SITU_API SITU_CHECKED situ_tensor *situ_avg_pool2d(situ_tensor *input, const situ_pool_options *options);
/** In the output_size of adaptive pooling, torch's None: the input's size. */
#define SITU_KEEP_SIZE INT64_MIN
/** input [N, C, H, W] or [C, H, W]; output_size: 1 or 2 sizes, not negative, or SITU_KEEP_SIZE. */
SITU_API SITU_CHECKED situ_tensor *situ_adaptive_avg_pool2d(situ_tensor *input, situ_shape output_size);

/** input [N, C, L] or [C, L]. */
SITU_API SITU_CHECKED situ_tensor *situ_max_pool1d(situ_tensor *input, const situ_pool_options *options,
                                                   situ_tensor **indices);
/** input [N, C, D, H, W] or [C, D, H, W]. *indices (may be NULL) gets each maximum's index in its volume, i64. */
SITU_API SITU_CHECKED situ_tensor *situ_max_pool3d(situ_tensor *input, const situ_pool_options *options,
                                                   situ_tensor **indices);
/** input [N, C, L] or [C, L]. */
SITU_API SITU_CHECKED situ_tensor *situ_avg_pool1d(situ_tensor *input, const situ_pool_options *options);
/** input [N, C, D, H, W] or [C, D, H, W], floating. */
SITU_API SITU_CHECKED situ_tensor *situ_avg_pool3d(situ_tensor *input, const situ_pool_options *options);
/** input [N, C, L] or [C, L]. */
SITU_API SITU_CHECKED situ_tensor *situ_adaptive_avg_pool1d(situ_tensor *input, int64_t output_size);
/** input [N, C, D, H, W] or [C, D, H, W]; output_size: 1 or 3 sizes, or SITU_KEEP_SIZE. */
SITU_API SITU_CHECKED situ_tensor *situ_adaptive_avg_pool3d(situ_tensor *input, situ_shape output_size);
/** Maxima of equal parts. *indices (may be NULL) gets their indices in their line. */
SITU_API SITU_CHECKED situ_tensor *situ_adaptive_max_pool1d(situ_tensor *input, int64_t output_size,
                                                            situ_tensor **indices);
/** Maxima of equal parts; output_size: 1 or 2 sizes, or SITU_KEEP_SIZE. *indices as in situ_max_pool2d. */
SITU_API SITU_CHECKED situ_tensor *situ_adaptive_max_pool2d(situ_tensor *input, situ_shape output_size,
                                                            situ_tensor **indices);
/** Maxima of equal parts; output_size: 1 or 3 sizes, or SITU_KEEP_SIZE. *indices as in situ_max_pool3d. */
SITU_API SITU_CHECKED situ_tensor *situ_adaptive_max_pool3d(situ_tensor *input, situ_shape output_size,
                                                            situ_tensor **indices);
/** (sum of input^norm_type over each window)^(1 / norm_type) on [N, C, L] or [C, L]; no stride: the kernel's. */
SITU_API SITU_CHECKED situ_tensor *situ_lp_pool1d(situ_tensor *input, double norm_type, situ_shape kernel_size,
                                                  situ_shape stride, bool ceil_mode);
/** The same on [N, C, H, W] or [C, H, W]. */
SITU_API SITU_CHECKED situ_tensor *situ_lp_pool2d(situ_tensor *input, double norm_type, situ_shape kernel_size,
                                                  situ_shape stride, bool ceil_mode);
/** The same on [N, C, D, H, W] or [C, D, H, W]. */
SITU_API SITU_CHECKED situ_tensor *situ_lp_pool3d(situ_tensor *input, double norm_type, situ_shape kernel_size,
                                                  situ_shape stride, bool ceil_mode);
/** Each value of input at its index (of situ_max_pool1d) in a line of zeros; output_size {0}: by kernel, stride (none:
    the kernel's) and padding. */
SITU_API SITU_CHECKED situ_tensor *situ_max_unpool1d(situ_tensor *input, situ_tensor *indices, situ_shape kernel_size,
                                                     situ_shape stride, situ_shape padding, situ_shape output_size);
/** The same with planes and the indices of situ_max_pool2d. */
SITU_API SITU_CHECKED situ_tensor *situ_max_unpool2d(situ_tensor *input, situ_tensor *indices, situ_shape kernel_size,
                                                     situ_shape stride, situ_shape padding, situ_shape output_size);
/** The same with volumes and the indices of situ_max_pool3d. */
SITU_API SITU_CHECKED situ_tensor *situ_max_unpool3d(situ_tensor *input, situ_tensor *indices, situ_shape kernel_size,
                                                     situ_shape stride, situ_shape padding, situ_shape output_size);

typedef enum situ_interpolate_mode {
  SITU_INTERPOLATE_NEAREST,
  SITU_INTERPOLATE_LINEAR,    /**< [N, C, L] */
  SITU_INTERPOLATE_BILINEAR,  /**< [N, C, H, W] */
  SITU_INTERPOLATE_BICUBIC,   /**< [N, C, H, W] */
  SITU_INTERPOLATE_TRILINEAR, /**< [N, C, D, H, W] */
  SITU_INTERPOLATE_AREA,      /**< means of equal parts, as adaptive_avg_pool */
  SITU_INTERPOLATE_NEAREST_EXACT
} situ_interpolate_mode;
typedef struct situ_interpolate_options {
  situ_shape size;        /**< of the result: 1 value, or 1 for each spatial dimension; or scale_factor */
  double scale_factor[3]; /**< 1 value, or 1 for each spatial dimension; 0: not given */
  situ_interpolate_mode mode;
  bool align_corners;          /**< linear and cubic: the centres of the first and last places match, not the edges */
  bool recompute_scale_factor; /**< with scale_factor: places are computed by the sizes, not by the factor */
  bool antialias;              /**< bilinear and bicubic */
} situ_interpolate_options;
/** input [N, C, L], [N, C, H, W] or [N, C, D, H, W], of another size; floating dtypes, in f32 inside for f16 and
    bf16. u8 has the modes nearest, nearest-exact, bilinear and bicubic; each dimension rounds, and torch's values, from
    weights that are whole numbers, differ by at most 1. */
SITU_API SITU_CHECKED situ_tensor *situ_interpolate(situ_tensor *input, const situ_interpolate_options *options);

typedef enum situ_grid_mode { SITU_GRID_BILINEAR, SITU_GRID_NEAREST, SITU_GRID_BICUBIC } situ_grid_mode;
typedef enum situ_grid_padding { SITU_GRID_ZEROS, SITU_GRID_BORDER, SITU_GRID_REFLECTION } situ_grid_padding;
typedef struct situ_grid_sample_options {
  situ_grid_mode mode; /**< bicubic: [N, C, H, W] only */
  situ_grid_padding padding_mode;
  bool align_corners; /**< -1 and 1 are the centres of the first and last pixels, not their edges */
} situ_grid_sample_options;
/** The values of input [N, C, H, W] at the places of grid [N, H', W', 2], (x, y) from -1 to 1: [N, C, H', W']; or of
    [N, C, D, H, W] at [N, D', H', W', 3]. */
SITU_API SITU_CHECKED situ_tensor *situ_grid_sample(situ_tensor *input, situ_tensor *grid,
                                                    const situ_grid_sample_options *options);
/** The grid of an affine map theta [N, 2, 3] for an image of size [N, C, H, W]: [N, H, W, 2]; or [N, 3, 4] for
    [N, C, D, H, W]. */
SITU_API SITU_CHECKED situ_tensor *situ_affine_grid(situ_tensor *theta, situ_shape size, bool align_corners);

/* torchvision.ops. Boxes are x1, y1, x2, y2 with x1 <= x2 and y1 <= y2. */

typedef struct situ_deform_conv2d_options {
  situ_shape stride, padding, dilation; /**< one value or two; not given: 1, 0, 1 */
  situ_tensor *mask;                    /**< [N, G kh kw, oh, ow]: a factor for each place; NULL: 1 */
} situ_deform_conv2d_options;
/** torchvision.ops.deform_conv2d: convolution of input [N, C, H, W] with weight [O, C/groups, kh, kw], plus bias [O]
    (may be NULL): [N, O, oh, ow]. Its kernel reads the image bilinearly, 0 outside, at places moved by offset
    [N, 2 G kh kw, oh, ow], y and x of each place one after the other (Dai et al., arXiv:1703.06211; with mask Zhu et
    al., arXiv:1811.11168). groups are C divided by weight's second size; each of the G groups of channels has places of
    its own. Floating dtypes, in f32 inside for f16 and bf16. Made of other ops: its memory is several tensors of
    N C kh kw oh ow elements, most of which are kept for backward. */
SITU_API SITU_CHECKED situ_tensor *situ_deform_conv2d(situ_tensor *input, situ_tensor *offset, situ_tensor *weight,
                                                      situ_tensor *bias, const situ_deform_conv2d_options *options);

/** Indices, i64, of those of boxes [n, 4] that no box of a higher score covers: their intersection over union is at
    most iou_threshold. In descending order of scores [n]. Memory grows with n^2. Waits for the device; on meta it is
    SITU_E_UNSUPPORTED. */
SITU_API SITU_CHECKED situ_tensor *situ_nms(situ_tensor *boxes, situ_tensor *scores, double iou_threshold);
/** Parts of images input [N, C, H, W], each divided into output_size bins (one or two sizes), of which the mean of
    bilinear samples is taken: [K, C, *output_size]. boxes [K, 5]: the image's index and a box, times spatial_scale in
    pixels. sampling_ratio: samples of a bin along each dimension; 0 or less: as many as it has pixels. aligned: pixel
    centres are half a pixel inside. torch's defaults are 1, -1 and false. Boxes have no gradient. A pixel that is NaN
    or infinite reaches all boxes. Waits for the device. */
SITU_API SITU_CHECKED situ_tensor *situ_roi_align(situ_tensor *input, situ_tensor *boxes, situ_shape output_size,
                                                  double spatial_scale, int64_t sampling_ratio, bool aligned);

typedef struct situ_unfold_options {
  situ_shape dilation, padding, stride; /**< 1 value, or 2; none: 1, 0, 1 */
} situ_unfold_options;
/** Patches of [N, C, H, W] (or [C, H, W]) as columns: [N, C kh kw, patches] (im2col). */
SITU_API SITU_CHECKED situ_tensor *situ_unfold(situ_tensor *input, situ_shape kernel_size,
                                               const situ_unfold_options *options);
/** Columns [N, C kh kw, patches] (or without N) added up to images of output_size: [N, C, H, W] (col2im). */
SITU_API SITU_CHECKED situ_tensor *situ_fold(situ_tensor *input, situ_shape output_size, situ_shape kernel_size,
                                             const situ_unfold_options *options);
/** Channels of [N, C, ...], seen as [groups, C / groups], in the order of the transpose. */
SITU_API SITU_CHECKED situ_tensor *situ_channel_shuffle(situ_tensor *input, int64_t groups);

typedef struct situ_instance_norm_options {
  size_t size;         /**< of this struct; from situ_instance_norm_defaults(), as the other defaults */
  bool no_input_stats; /**< torch's use_input_stats=False: normalise by the running statistics */
  double momentum;     /**< weight of the new value, 0..1; torch's default is 0.1 */
  double eps;          /**< torch's default is 1e-5 */
} situ_instance_norm_options;
/** torch's defaults. */
static inline situ_instance_norm_options situ_instance_norm_defaults(void) {
  situ_instance_norm_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.momentum = 0.1;
  o.eps = 1e-5;
  return o;
}
/** A batch norm of each instance by itself: input [N, C, ...], the other four [C] or NULL. Updates the running
    statistics in place, unless it normalises by them (Ulyanov et al., arXiv:1607.08022). */
SITU_API SITU_CHECKED situ_tensor *situ_instance_norm(situ_tensor *input, situ_tensor *running_mean,
                                                      situ_tensor *running_var, situ_tensor *weight, situ_tensor *bias,
                                                      const situ_instance_norm_options *options);
/** input / (k + alpha mean(input^2 of the `size` channels around))^beta on [N, C, ...]; torch's defaults are alpha
    1e-4, beta 0.75 and k 1 (Krizhevsky et al., 2012). */
SITU_API SITU_CHECKED situ_tensor *situ_local_response_norm(situ_tensor *input, int64_t size, double alpha, double beta,
                                                            double k);

typedef struct situ_batch_norm_options {
  size_t size;     /**< of this struct; from situ_batch_norm_defaults(), as the other defaults */
  bool training;   /**< use the batch's statistics, and update the running ones */
  double momentum; /**< weight of the new value, 0..1; torch's default is 0.1 */
  double eps;      /**< torch's default is 1e-5. With 0 a channel of equal elements is NaN in training, where
                        torch.nn.functional refuses 0 and its op gives NaN too */
} situ_batch_norm_options;
/** torch's defaults. */
static inline situ_batch_norm_options situ_batch_norm_defaults(void) {
  situ_batch_norm_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.momentum = 0.1;
  o.eps = 1e-5;
  return o;
}
/** input [N, C, ...]; the other four [C], of any strides, or NULL (running statistics only when training). Training
    updates the running statistics in place, whose elements must not share memory then (SITU_E_ALIAS; Ioffe and Szegedy,
    arXiv:1502.03167). */
SITU_API SITU_CHECKED situ_tensor *situ_batch_norm(situ_tensor *input, situ_tensor *running_mean,
                                                   situ_tensor *running_var, situ_tensor *weight, situ_tensor *bias,
                                                   const situ_batch_norm_options *options);
/** Over the last normalized_shape.ndim dimensions; weight and bias of that shape, or NULL. torch's default eps is
    1e-5 (Ba et al., arXiv:1607.06450). */
SITU_API SITU_CHECKED situ_tensor *situ_layer_norm(situ_tensor *input, situ_shape normalized_shape, situ_tensor *weight,
                                                   situ_tensor *bias, double eps);
/** input [N, C, ...]; weight and bias [C] or NULL. torch's default eps is 1e-5 (Wu and He, arXiv:1803.08494). */
SITU_API SITU_CHECKED situ_tensor *situ_group_norm(situ_tensor *input, int64_t num_groups, situ_tensor *weight,
                                                   situ_tensor *bias, double eps);
/** input / sqrt(mean(input^2) + eps) * weight. eps SITU_NONE, torch's default: the dtype's machine epsilon, of 16 bits
    that of f32 (Zhang and Sennrich, arXiv:1910.07467). */
SITU_API SITU_CHECKED situ_tensor *situ_rms_norm(situ_tensor *input, situ_shape normalized_shape, situ_tensor *weight,
                                                 double eps);

/** Gated linear unit: the first half of input along dim times the sigmoid of the second (Dauphin et al.,
    arXiv:1612.08083); dim's size must be even. Floating dtypes. torch's default dim is -1. */
SITU_API SITU_CHECKED situ_tensor *situ_glu(situ_tensor *input, int dim);
/** input where input > 0, else weight * input (He et al., arXiv:1502.01852); floating dtypes. weight has one element,
    or one for each of input's dimension 1. */
SITU_API SITU_CHECKED situ_tensor *situ_prelu(situ_tensor *input, situ_tensor *weight);
/** exp(input) / sum(exp(input)) along dim, without overflow; floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_softmax(situ_tensor *input, int dim);
/** log(softmax(input)) along dim, without overflow; floating dtypes. */
SITU_API SITU_CHECKED situ_tensor *situ_log_softmax(situ_tensor *input, int dim);
/** Zeroes each element with probability p and scales the rest by 1 / (1 - p); input itself if not training. torch's
    default p is 0.5; 0 is 0. NULL generator: the default one. */
SITU_API SITU_CHECKED situ_tensor *situ_dropout(situ_tensor *input, double p, bool training, situ_generator *generator);

/** input / max(norm, eps), with the p-norm along dim. torch's defaults are p 2, dim 1 and eps 1e-12. */
SITU_API SITU_CHECKED situ_tensor *situ_normalize(situ_tensor *input, double p, int dim, double eps);
/** x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along dim; shapes broadcast. torch's defaults are dim 1 and eps 1e-8. */
SITU_API SITU_CHECKED situ_tensor *situ_cosine_similarity(situ_tensor *x1, situ_tensor *x2, int dim, double eps);
/** The p-norm of x1 - x2 + eps along the last dimension; shapes broadcast. torch's defaults are p 2, eps 1e-6 and
    keepdim false. */
SITU_API SITU_CHECKED situ_tensor *situ_pairwise_distance(situ_tensor *x1, situ_tensor *x2, double p, double eps,
                                                          bool keepdim);

typedef struct situ_attention_options {
  size_t size; /**< of this struct; from situ_attention_defaults(), as the other defaults */
  situ_tensor
      *attn_mask; /**< bool (true: attend), or f32 or the query's dtype (added), broadcastable to [..., L, S]; or NULL.
                                 A query that attends to no key gets 0, and no gradient */
  bool is_causal; /**< query i attends to keys 0..i; not together with attn_mask */
  double dropout_p; /**< applied whenever it is not 0, as in torch */
  double scale;     /**< SITU_NONE, torch's default: 1 / sqrt(E) */
  bool enable_gqa; /**< query [..., heads, L, E], key and value of fewer heads, whose number divides the query's: head h
                         of the query attends to head h / (heads / groups) of the groups, without a copy */
} situ_attention_options;
/** torch's defaults. */
static inline situ_attention_options situ_attention_defaults(void) {
  situ_attention_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.scale = SITU_NONE;
  return o;
}
/** query [..., L, E], key [..., S, E], value [..., S, V]: [..., L, V] (Vaswani et al., arXiv:1706.03762). On devices
    with SITU_VERB_ATTENTION memory is linear in L and S, unless attn_mask requires a gradient, or key and value differ
    in the dimensions before the last two, or have more of them than query: then, and on other devices, all L x S
    weights are kept for backward, as are those of up to 64 keys on the cpu. */
SITU_API SITU_CHECKED situ_tensor *situ_scaled_dot_product_attention(situ_tensor *query, situ_tensor *key,
                                                                     situ_tensor *value,
                                                                     const situ_attention_options *options);

/* One direction of one recurrent layer, for all time steps. gates [L, N, gates * hidden]: W_ih x + b_ih of all of them
   (situ_linear). Gives h of all steps, [L, N, width of h]. situ_nn_lstm and its kin are made of these. */

typedef struct situ_recurrent_options {
  bool reverse;      /**< from the last step to the first */
  bool relu;         /**< rnn_layer: relu in place of tanh */
  situ_tensor **c_n; /**< lstm_layer: gets c after the last of its steps, [N, hidden]; may be NULL */
} situ_recurrent_options;
/** h' = tanh(gates + W_hh h). gates [L, N, hidden], weight_hh [hidden, hidden], hx [N, hidden]. options may be NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_rnn_layer(situ_tensor *gates, situ_tensor *weight_hh, situ_tensor *hx,
                                                  const situ_recurrent_options *options);
/** (i, f, g, o) = gates + W_hh h; c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c'), projected by
    weight_hr [width, hidden] unless it is NULL. weight_hh [4 hidden, width], hx [N, width], cx [N, hidden]. options may
    be NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_lstm_layer(situ_tensor *gates, situ_tensor *weight_hh, situ_tensor *weight_hr,
                                                   situ_tensor *hx, situ_tensor *cx,
                                                   const situ_recurrent_options *options);
/** (r, z, n) = gates, (r', z', n') = W_hh h + bias_hh; R = sigmoid(r + r'), Z = sigmoid(z + z'), h' = (1 - Z)
    tanh(n + R n') + Z h. weight_hh [3 hidden, hidden], bias_hh [3 hidden] or NULL, hx [N, hidden]. options may be
    NULL. */
SITU_API SITU_CHECKED situ_tensor *situ_gru_layer(situ_tensor *gates, situ_tensor *weight_hh, situ_tensor *bias_hh,
                                                  situ_tensor *hx, const situ_recurrent_options *options);

SITU_END
#endif
