/* Layers (torch.nn) and containers. Parameter names and initial values are torch's. NULL options are torch's defaults.
   A struct of options that begins with `size` comes from its function ..._defaults(), and 0 is 0 in it (a size of 0,
   or above the library's, is SITU_E_ARG); in the others a zero field is torch's default. A positional number is taken
   as it is given. dtype and device are those of the parameters. All return a module that the caller owns; NULL on
   error.
   SPDX-License-Identifier: MIT */
#ifndef SITU_NN_LAYERS_H
#define SITU_NN_LAYERS_H

#include "../nn.h"

SITU_BEGIN

/* ---- containers: they own the modules that they are given ------------------------------------ */

/** Sequential: calls the modules in order; names are "0", "1", ... A NULL module frees the others and returns NULL. */
SITU_API situ_nn_module *situ_nn_sequential_of(int64_t count, situ_nn_module *const *modules);
/** ModuleList: without a forward, for modules to loop over. As situ_nn_sequential_of. */
SITU_API situ_nn_module *situ_nn_module_list_of(int64_t count, situ_nn_module *const *modules);
#ifndef __cplusplus
#define SITU_NN_COUNT_(...) ((int64_t)(sizeof((situ_nn_module *[]){ __VA_ARGS__ }) / sizeof(situ_nn_module *)))
#define situ_nn_sequential(...) situ_nn_sequential_of(SITU_NN_COUNT_(__VA_ARGS__), (situ_nn_module *[]){ __VA_ARGS__ })
#define situ_nn_module_list(...) \
  situ_nn_module_list_of(SITU_NN_COUNT_(__VA_ARGS__), (situ_nn_module *[]){ __VA_ARGS__ })
#endif
/** ModuleDict: empty, filled with situ_nn_put. */
SITU_API situ_nn_module *situ_nn_module_dict(void);

/** Appends to a Sequential or a ModuleList; returns the container. On error frees both and returns NULL. */
SITU_API situ_nn_module *situ_nn_append(situ_nn_module *container, situ_nn_module *module);
/** Adds under a name to a ModuleDict or a Sequential (torch's OrderedDict form); returns the container. On error frees
    both and returns NULL. */
SITU_API situ_nn_module *situ_nn_put(situ_nn_module *container, const char *name, situ_nn_module *module);
/** Number of modules in a container. */
SITU_API int64_t situ_nn_len(const situ_nn_module *container);
/** The i-th module (negative counts from the end). Borrowed; NULL on error. */
SITU_API situ_nn_module *situ_nn_at(const situ_nn_module *container, int64_t i);
/** The module of that name. Borrowed; NULL on error. */
SITU_API situ_nn_module *situ_nn_get(const situ_nn_module *container, const char *name);

/* ---- linear, embedding ----------------------------------------------------------------------- */

typedef struct situ_nn_linear_options {
  bool no_bias;
  situ_activation activation; /**< applied to the result; zero: none, as torch's Linear */
  situ_dtype dtype;
  situ_device device;
} situ_nn_linear_options;
/** Linear: y = x W^T + b; weight [out, in], bias [out]. */
SITU_API situ_nn_module *situ_nn_linear(int64_t in_features, int64_t out_features,
                                        const situ_nn_linear_options *options);
/** LazyLinear: infers in_features from its first input, and becomes a Linear. */
SITU_API situ_nn_module *situ_nn_lazy_linear(int64_t out_features, const situ_nn_linear_options *options);
typedef struct situ_nn_bilinear_options {
  bool no_bias;
  situ_dtype dtype;
  situ_device device;
} situ_nn_bilinear_options;
/** Bilinear: situ_bilinear of two inputs (situ_nn_forward2); weight [out, in1, in2], bias [out]. */
SITU_API situ_nn_module *situ_nn_bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features,
                                          const situ_nn_bilinear_options *options);
/** Identity: returns its input. */
SITU_API situ_nn_module *situ_nn_identity(void);

typedef struct situ_nn_embedding_options {
  size_t size; /**< of this struct; from situ_nn_embedding_defaults(), as the other defaults */
  bool has_padding_idx;
  int64_t padding_idx; /**< this row starts as 0 and gets no gradient; negative counts from the end. Without
                            has_padding_idx it must be 0 (SITU_E_ARG) */
  double max_norm;     /**< as in situ_embedding_options, with the next two */
  double norm_type;
  bool scale_grad_by_freq;
  situ_dtype dtype;
  situ_device device;
} situ_nn_embedding_options;
/** torch's defaults. */
static inline situ_nn_embedding_options situ_nn_embedding_defaults(void) {
  situ_nn_embedding_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.max_norm = SITU_NONE;
  o.norm_type = 2;
  return o;
}
/** Embedding: weight [num_embeddings, embedding_dim]. */
SITU_API situ_nn_module *situ_nn_embedding(int64_t num_embeddings, int64_t embedding_dim,
                                           const situ_nn_embedding_options *options);

typedef struct situ_nn_embedding_bag_options {
  size_t size; /**< of this struct; from situ_nn_embedding_bag_defaults(), as the other defaults */
  situ_embedding_bag_mode mode;
  bool include_last_offset; /**< of calls with offsets: the last is the end of the last bag */
  bool has_padding_idx;
  int64_t padding_idx; /**< this row starts as 0, and is in no bag; negative counts from the end. Without
                            has_padding_idx it must be 0 (SITU_E_ARG) */
  double max_norm;     /**< as in situ_embedding_bag_options, with the next two */
  double norm_type;
  bool scale_grad_by_freq;
  situ_dtype dtype;
  situ_device device;
} situ_nn_embedding_bag_options;
/** torch's defaults. */
static inline situ_nn_embedding_bag_options situ_nn_embedding_bag_defaults(void) {
  situ_nn_embedding_bag_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.max_norm = SITU_NONE;
  o.norm_type = 2;
  return o;
}
/** Arguments of a call, for situ_nn_forward_kwargs: as in situ_embedding_bag_options. */
typedef struct situ_nn_embedding_bag_kwargs {
  situ_tensor *offsets, *per_sample_weights;
} situ_nn_embedding_bag_kwargs;
/** EmbeddingBag: weight [num_embeddings, embedding_dim]. situ_nn_forward takes [bags, entries], situ_nn_forward_kwargs
    also [n] with offsets: the result is [bags, embedding_dim], as situ_embedding_bag's. */
SITU_API situ_nn_module *situ_nn_embedding_bag(int64_t num_embeddings, int64_t embedding_dim,
                                               const situ_nn_embedding_bag_options *options);

/* ---- convolution, pooling -------------------------------------------------------------------- */

typedef struct situ_nn_conv_options {
  situ_shape stride, padding, dilation; /**< 1 value, or 1 for each dimension */
  situ_shape output_padding;            /**< transposed only */
  int64_t groups;
  situ_pad_mode padding_mode; /**< not for transposed */
  bool same;                  /**< torch's padding="same": the result has the input's sizes; stride 1, no padding */
  bool no_bias;
  situ_dtype dtype;
  situ_device device;
} situ_nn_conv_options;
/** Conv1d on [N, C, L]: weight [out, in / groups, kernel], bias [out]. */
SITU_API situ_nn_module *situ_nn_conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                                        const situ_nn_conv_options *options);
/** Conv2d on [N, C, H, W]: weight [out, in / groups, kh, kw], bias [out]. kernel_size: SITU_DIMS(3) or SITU_DIMS(3,
    5). */
SITU_API situ_nn_module *situ_nn_conv2d(int64_t in_channels, int64_t out_channels, situ_shape kernel_size,
                                        const situ_nn_conv_options *options);
/** ConvTranspose2d on [N, C, H, W]: weight [in, out / groups, kh, kw], bias [out]. */
SITU_API situ_nn_module *situ_nn_conv_transpose2d(int64_t in_channels, int64_t out_channels, situ_shape kernel_size,
                                                  const situ_nn_conv_options *options);

/** Conv3d on [N, C, D, H, W]: weight [out, in / groups, kd, kh, kw], bias [out]. */
SITU_API situ_nn_module *situ_nn_conv3d(int64_t in_channels, int64_t out_channels, situ_shape kernel_size,
                                        const situ_nn_conv_options *options);
/** ConvTranspose1d on [N, C, L]: weight [in, out / groups, k], bias [out]. */
SITU_API situ_nn_module *situ_nn_conv_transpose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                                                  const situ_nn_conv_options *options);
/** ConvTranspose3d on [N, C, D, H, W]: weight [in, out / groups, kd, kh, kw], bias [out]. */
SITU_API situ_nn_module *situ_nn_conv_transpose3d(int64_t in_channels, int64_t out_channels, situ_shape kernel_size,
                                                  const situ_nn_conv_options *options);

/** MaxPool2d; options->kernel is not read. */
SITU_API situ_nn_module *situ_nn_max_pool2d(situ_shape kernel_size, const situ_pool_options *options);
/** AvgPool2d; options->kernel is not read. */
SITU_API situ_nn_module *situ_nn_avg_pool2d(situ_shape kernel_size, const situ_pool_options *options);
/** AdaptiveAvgPool2d; output_size: 1 or 2 sizes, or SITU_KEEP_SIZE. */
SITU_API situ_nn_module *situ_nn_adaptive_avg_pool2d(situ_shape output_size);
/** MaxPool1d on [N, C, L]; options->kernel is not read. */
SITU_API situ_nn_module *situ_nn_max_pool1d(situ_shape kernel_size, const situ_pool_options *options);
/** MaxPool3d on [N, C, D, H, W]; options->kernel is not read. */
SITU_API situ_nn_module *situ_nn_max_pool3d(situ_shape kernel_size, const situ_pool_options *options);
/** AvgPool1d on [N, C, L]; options->kernel is not read. */
SITU_API situ_nn_module *situ_nn_avg_pool1d(situ_shape kernel_size, const situ_pool_options *options);
/** AvgPool3d on [N, C, D, H, W]; options->kernel is not read. */
SITU_API situ_nn_module *situ_nn_avg_pool3d(situ_shape kernel_size, const situ_pool_options *options);
/** AdaptiveAvgPool1d; output_size: 1 size. */
SITU_API situ_nn_module *situ_nn_adaptive_avg_pool1d(situ_shape output_size);
/** AdaptiveAvgPool3d; output_size: 1 or 3 sizes, or SITU_KEEP_SIZE. */
SITU_API situ_nn_module *situ_nn_adaptive_avg_pool3d(situ_shape output_size);
/** AdaptiveMaxPool1d; output_size: 1 size. */
SITU_API situ_nn_module *situ_nn_adaptive_max_pool1d(situ_shape output_size);
/** AdaptiveMaxPool2d; output_size: 1 or 2 sizes, or SITU_KEEP_SIZE. */
SITU_API situ_nn_module *situ_nn_adaptive_max_pool2d(situ_shape output_size);
/** AdaptiveMaxPool3d; output_size: 1 or 3 sizes, or SITU_KEEP_SIZE. */
SITU_API situ_nn_module *situ_nn_adaptive_max_pool3d(situ_shape output_size);
/** Upsample: situ_interpolate with these options. */
SITU_API situ_nn_module *situ_nn_upsample(const situ_interpolate_options *options);
/** PixelShuffle: situ_pixel_shuffle. */
SITU_API situ_nn_module *situ_nn_pixel_shuffle(int64_t upscale_factor);
/** PixelUnshuffle: situ_pixel_unshuffle. */
SITU_API situ_nn_module *situ_nn_pixel_unshuffle(int64_t downscale_factor);
/** ChannelShuffle: situ_channel_shuffle. */
SITU_API situ_nn_module *situ_nn_channel_shuffle(int64_t groups);
/** Unfold: situ_unfold. */
SITU_API situ_nn_module *situ_nn_unfold(situ_shape kernel_size, const situ_unfold_options *options);
/** Fold: situ_fold. */
SITU_API situ_nn_module *situ_nn_fold(situ_shape output_size, situ_shape kernel_size,
                                      const situ_unfold_options *options);
/** Flatten: merges dimensions start_dim..end_dim; torch's defaults are 1 and -1, and 0 is 0. */
SITU_API situ_nn_module *situ_nn_flatten(int start_dim, int end_dim);

/* ---- normalisation, dropout ------------------------------------------------------------------ */

typedef struct situ_nn_batch_norm_options {
  size_t size;                 /**< of this struct; from situ_nn_batch_norm_defaults(), as the other defaults */
  double eps;                  /**< torch's default is 1e-5 */
  double momentum;             /**< torch's default is 0.1 */
  bool cumulative;             /**< torch's momentum=None: the cumulative average over all batches */
  bool no_affine;              /**< no weight and bias */
  bool no_track_running_stats; /**< always use the batch's statistics */
  situ_dtype dtype;
  situ_device device;
} situ_nn_batch_norm_options;
/** torch's defaults. */
static inline situ_nn_batch_norm_options situ_nn_batch_norm_defaults(void) {
  situ_nn_batch_norm_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.eps = 1e-5;
  o.momentum = 0.1;
  return o;
}
typedef struct situ_nn_instance_norm_options {
  size_t size;              /**< of this struct; from situ_nn_instance_norm_defaults(), as the other defaults */
  double eps;               /**< torch's default is 1e-5 */
  double momentum;          /**< torch's default is 0.1 */
  bool affine;              /**< weight and bias; torch's default is without */
  bool track_running_stats; /**< running statistics, by which evaluation normalises; torch's default is without */
  situ_dtype dtype;
  situ_device device;
} situ_nn_instance_norm_options;
/** torch's defaults. */
static inline situ_nn_instance_norm_options situ_nn_instance_norm_defaults(void) {
  situ_nn_instance_norm_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.eps = 1e-5;
  o.momentum = 0.1;
  return o;
}
/** InstanceNorm1d on [N, C, L]. */
SITU_API situ_nn_module *situ_nn_instance_norm1d(int64_t num_features, const situ_nn_instance_norm_options *options);
/** InstanceNorm2d on [N, C, H, W]. */
SITU_API situ_nn_module *situ_nn_instance_norm2d(int64_t num_features, const situ_nn_instance_norm_options *options);
/** InstanceNorm3d on [N, C, D, H, W]. */
SITU_API situ_nn_module *situ_nn_instance_norm3d(int64_t num_features, const situ_nn_instance_norm_options *options);
/** LocalResponseNorm: situ_local_response_norm; torch's defaults are alpha 1e-4, beta 0.75, k 1. */
SITU_API situ_nn_module *situ_nn_local_response_norm(int64_t size, double alpha, double beta, double k);
/** BatchNorm1d on [N, C] or [N, C, L]. */
SITU_API situ_nn_module *situ_nn_batch_norm1d(int64_t num_features, const situ_nn_batch_norm_options *options);
/** BatchNorm2d on [N, C, H, W]. */
SITU_API situ_nn_module *situ_nn_batch_norm2d(int64_t num_features, const situ_nn_batch_norm_options *options);
/** Running statistics become equal averages of all batches (torch's momentum=None), or follow the layer's own momentum
    again. False if m is not a batch norm with running statistics. */
SITU_API bool situ_nn_batch_norm_average(situ_nn_module *m, bool on);

typedef struct situ_nn_norm_options {
  size_t size;    /**< of this struct; from situ_nn_norm_defaults(), as the other defaults */
  double eps;     /**< SITU_NONE, the default: torch's, 1e-5; of RMSNorm the dtype's machine epsilon */
  bool no_affine; /**< no weight and bias */
  bool no_bias;
  situ_dtype dtype;
  situ_device device;
} situ_nn_norm_options;
/** torch's defaults. */
static inline situ_nn_norm_options situ_nn_norm_defaults(void) {
  situ_nn_norm_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.eps = SITU_NONE;
  return o;
}
/** LayerNorm over the last dimensions, which have these sizes. */
SITU_API situ_nn_module *situ_nn_layer_norm(situ_shape normalized_shape, const situ_nn_norm_options *options);
/** RMSNorm over the last dimensions, which have these sizes. */
SITU_API situ_nn_module *situ_nn_rms_norm(situ_shape normalized_shape, const situ_nn_norm_options *options);
/** GroupNorm on [N, C, ...]. */
SITU_API situ_nn_module *situ_nn_group_norm(int64_t num_groups, int64_t num_channels,
                                            const situ_nn_norm_options *options);

/** Dropout: zeroes elements with probability p in training mode; torch's default p is 0.5, and 0 is 0. */
SITU_API situ_nn_module *situ_nn_dropout(double p);

/* ---- activations ----------------------------------------------------------------------------- */

/** ReLU. */
SITU_API situ_nn_module *situ_nn_relu(void);
/** SiLU. */
SITU_API situ_nn_module *situ_nn_silu(void);
/** Sigmoid. */
SITU_API situ_nn_module *situ_nn_sigmoid(void);
/** Tanh. */
SITU_API situ_nn_module *situ_nn_tanh(void);
/** Mish. */
SITU_API situ_nn_module *situ_nn_mish(void);
/** Hardswish. */
SITU_API situ_nn_module *situ_nn_hardswish(void);
/** Hardsigmoid. */
SITU_API situ_nn_module *situ_nn_hardsigmoid(void);
/** ReLU6. */
SITU_API situ_nn_module *situ_nn_relu6(void);
/** SELU. */
SITU_API situ_nn_module *situ_nn_selu(void);
/** LogSigmoid. */
SITU_API situ_nn_module *situ_nn_log_sigmoid(void);
/** Softsign. */
SITU_API situ_nn_module *situ_nn_softsign(void);
/** Tanhshrink. */
SITU_API situ_nn_module *situ_nn_tanhshrink(void);
/** QuickGELU: situ_quick_gelu; torch has no such module. */
SITU_API situ_nn_module *situ_nn_quick_gelu(void);
/** GELU; SITU_GELU_NONE is torch's default. */
SITU_API situ_nn_module *situ_nn_gelu(situ_gelu_approximate approximate);
/** LeakyReLU; torch's default negative_slope is 0.01, and 0 is ReLU. */
SITU_API situ_nn_module *situ_nn_leaky_relu(double negative_slope);
/** ELU; torch's default alpha is 1, and 0 is ReLU. */
SITU_API situ_nn_module *situ_nn_elu(double alpha);
/** CELU; torch's default alpha is 1, and 0 is refused when it is called. */
SITU_API situ_nn_module *situ_nn_celu(double alpha);
/** Softshrink; torch's default lambd is 0.5; a negative one is refused when it is called. */
SITU_API situ_nn_module *situ_nn_softshrink(double lambd);
/** Hardshrink; torch's default lambd is 0.5. */
SITU_API situ_nn_module *situ_nn_hardshrink(double lambd);
/** Threshold. */
SITU_API situ_nn_module *situ_nn_threshold(double threshold, double value);
/** GLU along dim; torch's default is -1. */
SITU_API situ_nn_module *situ_nn_glu(int dim);

typedef struct situ_nn_prelu_options {
  situ_dtype dtype;
  situ_device device;
} situ_nn_prelu_options;
/** PReLU: weight [num_parameters], which starts as init. num_parameters is 1, or the size of the input's dimension 1;
    torch's defaults are 1 and 0.25, and 0 is 0. */
SITU_API situ_nn_module *situ_nn_prelu(int64_t num_parameters, double init, const situ_nn_prelu_options *options);
/** Softplus; torch's defaults are beta 1 and threshold 20, and beta 0 divides by 0. */
SITU_API situ_nn_module *situ_nn_softplus(double beta, double threshold);
/** Hardtanh; torch's defaults are -1 and 1, and 0 is 0. */
SITU_API situ_nn_module *situ_nn_hardtanh(double min_val, double max_val);
/** Softmax along dim. */
SITU_API situ_nn_module *situ_nn_softmax(int dim);
/** LogSoftmax along dim. */
SITU_API situ_nn_module *situ_nn_log_softmax(int dim);

/* ---- recurrent layers ------------------------------------------------------------------------ */

/** Fields that a layer does not have must be 0 (SITU_E_ARG). */
typedef struct situ_nn_rnn_options {
  int64_t num_layers; /**< 0: 1; not of cells */
  double dropout;     /**< of each layer's output but the last's, in training mode; not of cells */
  int64_t proj_size;  /**< LSTM: width of h, below hidden_size; 0: hidden_size */
  bool relu;          /**< RNN, RNNCell: torch's nonlinearity='relu'; else tanh */
  bool no_bias;
  bool batch_first;   /**< [N, L, input_size] instead of [L, N, input_size]; not of the states, not of cells */
  bool bidirectional; /**< not of cells */
  situ_dtype dtype;
  situ_device device;
} situ_nn_rnn_options;
/** RNN: h' = tanh(W_ih x + b_ih + W_hh h + b_hh). Of layer k: weight_ih_lk [hidden_size, in], weight_hh_lk
    [hidden_size, hidden_size], bias_ih_lk, bias_hh_lk [hidden_size], and the same with _reverse. situ_nn_forward maps
    [L, N, input_size] to [L, N, hidden_size], twice as wide with two directions; without a batch both lack N. */
SITU_API situ_nn_module *situ_nn_rnn(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options);
/** LSTM (Hochreiter and Schmidhuber 1997), as situ_nn_rnn; the weights have 4 hidden_size rows: i, f, g, o. With
    proj_size also weight_hr_lk [proj_size, hidden_size] (Sak et al., arXiv:1402.1128). */
SITU_API situ_nn_module *situ_nn_lstm(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options);
/** GRU (Cho et al., arXiv:1406.1078), as situ_nn_rnn; the weights have 3 hidden_size rows: r, z, n. */
SITU_API situ_nn_module *situ_nn_gru(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options);
/** RNNCell: one step of an RNN, [N, input_size] to [N, hidden_size]; weight_ih, weight_hh, bias_ih, bias_hh. */
SITU_API situ_nn_module *situ_nn_rnn_cell(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options);
/** LSTMCell: as situ_nn_rnn_cell. */
SITU_API situ_nn_module *situ_nn_lstm_cell(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options);
/** GRUCell: as situ_nn_rnn_cell. */
SITU_API situ_nn_module *situ_nn_gru_cell(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options);

/** The states of a recurrent layer: [num_layers * directions, N, width of h], of a cell [N, hidden_size]; without N for
    an input without a batch. */
typedef struct situ_nn_hx {
  situ_tensor *h;
  situ_tensor *c; /**< LSTM: as h, hidden_size wide; else NULL */
} situ_nn_hx;
/** Calls a recurrent layer or cell with states; returns its output. hx gives the states before, {0} for zeros, and gets
    those after; unchanged on error. NULL: zeros before. In trees: a list [input, h] or [input, [h, c]], also [input],
    gives [output, h] or [output, [h, c]]. */
SITU_API situ_tensor *situ_nn_recur(situ_nn_module *layer, situ_tensor *input, situ_nn_hx *hx);

/* ---- attention (Vaswani et al., arXiv:1706.03762) -------------------------------------------- */

typedef struct situ_nn_multihead_attention_options {
  double dropout; /**< of the attention weights, in training mode */
  bool no_bias;
  int64_t kdim, vdim; /**< widths of key and value; 0: embed_dim */
  bool batch_first;   /**< [N, L, E] instead of [L, N, E] */
  situ_dtype dtype;
  situ_device device;
} situ_nn_multihead_attention_options;
/** MultiheadAttention: in_proj_weight, in_proj_bias, out_proj (q_, k_ and v_proj_weight if kdim or vdim differ).
    situ_nn_forward is self-attention; situ_nn_call takes a list [query, key, value], or a dict of these and optionally
    key_padding_mask and attn_mask, and returns the list [output]. */
SITU_API situ_nn_module *situ_nn_multihead_attention(int64_t embed_dim, int64_t num_heads,
                                                     const situ_nn_multihead_attention_options *options);

typedef struct situ_nn_attend_options {
  situ_tensor *key_padding_mask; /**< [N, S]; bool: true is masked, as in torch; floating: added */
  situ_tensor *attn_mask;        /**< [L, S] or [N * heads, L, S]; bool: true is masked; floating: added */
  bool is_causal;                /**< position i attends to 0..i only; not together with attn_mask */
  bool per_head_weights;         /**< torch's average_attn_weights=False: [N, heads, L, S] */
  situ_tensor **weights;         /**< gets the attention [N, L, S]; NULL: torch's need_weights=False, faster */
} situ_nn_attend_options;
/** Calls a MultiheadAttention with masks; returns the output, shaped as query. options may be NULL. */
SITU_API situ_tensor *situ_nn_attend(situ_nn_module *attention, situ_tensor *query, situ_tensor *key,
                                     situ_tensor *value, const situ_nn_attend_options *options);

typedef struct situ_nn_transformer_options {
  size_t size;             /**< of this struct; from situ_nn_transformer_defaults(), as the other defaults */
  int64_t dim_feedforward; /**< torch's default is 2048 */
  double dropout;          /**< torch's default is 0.1 */
  bool gelu;               /**< activation; else relu */
  double layer_norm_eps;   /**< torch's default is 1e-5 */
  bool batch_first, norm_first, no_bias;
  situ_dtype dtype;
  situ_device device;
} situ_nn_transformer_options;
/** torch's defaults. */
static inline situ_nn_transformer_options situ_nn_transformer_defaults(void) {
  situ_nn_transformer_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.dim_feedforward = 2048;
  o.dropout = 0.1;
  o.layer_norm_eps = 1e-5;
  return o;
}
/** TransformerEncoderLayer: self_attn, linear1, dropout, linear2, norm1, norm2, dropout1, dropout2. situ_nn_forward
    takes src without masks. */
SITU_API situ_nn_module *situ_nn_transformer_encoder_layer(int64_t d_model, int64_t nhead,
                                                           const situ_nn_transformer_options *options);
/** TransformerEncoder: "layers", a ModuleList of encoder_layer and num_layers - 1 clones of it, and "norm", unless that
    is NULL. Takes ownership of both, also on error. num_layers: 1 to 65536, else SITU_E_ARG. It is called as its layers
    are. */
SITU_API situ_nn_module *situ_nn_transformer_encoder(situ_nn_module *encoder_layer, int64_t num_layers,
                                                     situ_nn_module *norm);
/** Calls a TransformerEncoder or TransformerEncoderLayer: attn_mask, key_padding_mask and is_causal are read; NULL:
    none. */
SITU_API situ_tensor *situ_nn_encode(situ_nn_module *encoder, situ_tensor *src, const situ_nn_attend_options *masks);

/** TransformerDecoderLayer: self_attn, multihead_attn, linear1, dropout, linear2, norm1 to norm3, dropout1 to dropout3.
    Attention of tgt to itself, then to memory, then a feed-forward network. It is called by situ_nn_decode, or by
    situ_nn_call with a list [tgt, memory] or a dict of these and the fields of situ_nn_decode_options. */
SITU_API situ_nn_module *situ_nn_transformer_decoder_layer(int64_t d_model, int64_t nhead,
                                                           const situ_nn_transformer_options *options);
/** TransformerDecoder: "layers", a ModuleList of decoder_layer and num_layers - 1 clones of it, and "norm", unless that
    is NULL. Takes ownership of both, also on error. num_layers: 1 to 65536, else SITU_E_ARG. It is called as its layers
    are. */
SITU_API situ_nn_module *situ_nn_transformer_decoder(situ_nn_module *decoder_layer, int64_t num_layers,
                                                     situ_nn_module *norm);

/** Masks as those of situ_nn_attend_options. */
typedef struct situ_nn_decode_options {
  situ_tensor *tgt_mask;                /**< [T, T] or [N * heads, T, T] */
  situ_tensor *memory_mask;             /**< [T, S] or [N * heads, T, S] */
  situ_tensor *tgt_key_padding_mask;    /**< [N, T] */
  situ_tensor *memory_key_padding_mask; /**< [N, S] */
  bool tgt_is_causal;                   /**< tgt's position i attends to 0..i of tgt only; not together with tgt_mask */
  bool memory_is_causal;                /**< to 0..i of memory only; not together with memory_mask */
} situ_nn_decode_options;
/** Calls a TransformerDecoder or TransformerDecoderLayer. tgt: [T, N, E] ([N, T, E] if batch_first), or [T, E]; memory:
    the same with S for T, in the same order. Returns the output, shaped as tgt; NULL on error. options may be NULL. */
SITU_API situ_tensor *situ_nn_decode(situ_nn_module *decoder, situ_tensor *tgt, situ_tensor *memory,
                                     const situ_nn_decode_options *options);

SITU_END

#include "adapt.h"
#include "packed.h"

#endif
