/* Models of every kind of layer, small enough to be trained a hundred times.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_PREFLIGHT_MODELS_H
#define SITU_TEST_PREFLIGHT_MODELS_H

#include "situ/nn.h"
#include "support/test.h"

#define SEQ situ_nn_sequential
#define LIN(a, b) situ_nn_linear(a, b, NULL)

static situ_nn_module *mlp(void) {
  return SEQ(LIN(256, 512), situ_nn_relu(), LIN(512, 512), situ_nn_relu(), LIN(512, 10));
}
static situ_nn_module *tiny(void) { return SEQ(LIN(16, 16), situ_nn_tanh(), LIN(16, 16), situ_nn_tanh(), LIN(16, 1)); }
static situ_nn_module *deep(void) {
  situ_nn_module *m = SEQ(LIN(64, 64));
  for (int i = 0; i < 20; i++) m = situ_nn_append(situ_nn_append(m, situ_nn_silu()), LIN(64, 64));
  return m;
}
static situ_nn_module *norms(void) {
  return SEQ(LIN(128, 256), situ_nn_layer_norm(SITU_SHAPE(256), NULL), situ_nn_gelu(SITU_GELU_NONE), LIN(256, 256),
             situ_nn_softmax(-1), situ_nn_dropout(.1));
}
static situ_nn_module *rms(void) {
  return SEQ(LIN(100, 300), situ_nn_rms_norm(SITU_SHAPE(300), NULL), situ_nn_mish(), situ_nn_dropout(.5), LIN(300, 7));
}
static situ_nn_module *cnn(void) {
  return SEQ(situ_nn_conv2d(3, 16, SITU_DIMS(3), NULL), situ_nn_batch_norm2d(16, NULL), situ_nn_relu(),
             situ_nn_conv2d(16, 32, SITU_DIMS(3), NULL), situ_nn_relu(), situ_nn_flatten(1, -1), LIN(32 * 28 * 28, 10));
}
static situ_nn_module *lenet(void) {
  return SEQ(situ_nn_conv2d(1, 6, SITU_DIMS(5), NULL), situ_nn_relu(), situ_nn_max_pool2d(SITU_DIMS(2), NULL),
             situ_nn_conv2d(6, 16, SITU_DIMS(5), NULL), situ_nn_relu(), situ_nn_avg_pool2d(SITU_DIMS(2), NULL),
             situ_nn_flatten(1, -1), LIN(256, 120), situ_nn_relu(), LIN(120, 84), situ_nn_relu(), LIN(84, 10));
}
static situ_nn_module *wave(void) {
  return SEQ(situ_nn_conv1d(2, 8, 9, NULL), situ_nn_leaky_relu(.2), situ_nn_conv1d(8, 8, 5, NULL), situ_nn_elu(1),
             situ_nn_adaptive_avg_pool1d(SITU_SHAPE(4)), situ_nn_flatten(1, -1), LIN(32, 3));
}
static situ_nn_module *volume(void) {
  return SEQ(situ_nn_conv3d(1, 4, SITU_DIMS(3), NULL), situ_nn_hardswish(), situ_nn_max_pool3d(SITU_DIMS(2), NULL),
             situ_nn_flatten(1, -1), LIN(108, 5));
}
static situ_nn_module *up(void) {
  return SEQ(situ_nn_conv_transpose2d(8, 16, SITU_DIMS(3), NULL), situ_nn_relu(),
             situ_nn_max_pool2d(SITU_DIMS(2), NULL), situ_nn_conv2d(16, 8, SITU_DIMS(3), NULL));
}
static situ_nn_module *group(void) {
  return SEQ(situ_nn_conv2d(4, 12, SITU_DIMS(3), NULL), situ_nn_group_norm(3, 12, NULL), situ_nn_sigmoid(),
             situ_nn_instance_norm2d(12, NULL), situ_nn_adaptive_avg_pool2d(SITU_SHAPE(2, 2)), situ_nn_flatten(1, -1),
             LIN(48, 5));
}
static situ_nn_module *lstm(void) { return situ_nn_lstm(32, 64, NULL); }
static situ_nn_module *gru(void) { return situ_nn_gru(32, 64, NULL); }
static situ_nn_module *rnn(void) { return situ_nn_rnn(24, 48, NULL); }
static situ_nn_module *layer(int64_t wide, int64_t heads, double dropout) {
  situ_nn_transformer_options o = situ_nn_transformer_defaults();
  o.dim_feedforward = 4 * wide;
  o.dropout = dropout;
  o.batch_first = true;
  o.norm_first = dropout > 0;
  return situ_nn_transformer_encoder_layer(wide, heads, &o);
}
static situ_nn_module *encoder(void) { return situ_nn_transformer_encoder(layer(64, 4, 0), 2, NULL); }
static situ_nn_module *dropping(void) { return layer(48, 3, .1); }
static situ_nn_module *words(void) {
  return SEQ(situ_nn_embedding(500, 32, NULL), LIN(32, 64), situ_nn_tanh(), LIN(64, 500));
}
static situ_nn_module *norm1(void) {
  return SEQ(LIN(50, 100), situ_nn_batch_norm1d(100, NULL), situ_nn_relu(), LIN(100, 2));
}
static situ_nn_module *gated(void) { return SEQ(LIN(64, 256), situ_nn_glu(-1), LIN(128, 64), situ_nn_log_softmax(-1)); }
static situ_nn_module *prelu(void) {
  return SEQ(LIN(30, 90), situ_nn_prelu(90, .25, NULL), LIN(90, 90), situ_nn_softplus(1, 20));
}
static situ_nn_module *wide(void) { return SEQ(LIN(2000, 300), situ_nn_relu(), LIN(300, 2000)); }
static situ_nn_module *shared(void) {
  situ_nn_module *same = LIN(96, 96);
  return SEQ(same, situ_nn_relu(), situ_nn_retain(same), situ_nn_relu(), LIN(96, 4));
}
static situ_nn_module *scaled(void) {
  return SEQ(situ_nn_upsample(&(situ_interpolate_options){ .scale_factor = { 2, 2 } }),
             situ_nn_conv2d(2, 4, SITU_DIMS(3), NULL), situ_nn_pixel_shuffle(2), situ_nn_flatten(1, -1));
}

static situ_nn_module *both_ways(void) {
  return situ_nn_lstm(20, 24, &(situ_nn_rnn_options){ .num_layers = 2, .dropout = .2, .bidirectional = true });
}
static situ_nn_module *depthwise(void) {
  return SEQ(situ_nn_conv2d(8, 8, SITU_DIMS(3), &(situ_nn_conv_options){ .padding = SITU_DIMS(1), .groups = 8 }),
             situ_nn_batch_norm2d(8, NULL), situ_nn_relu6(), situ_nn_conv2d(8, 24, SITU_DIMS(1), NULL),
             situ_nn_adaptive_max_pool2d(SITU_SHAPE(3, 3)), situ_nn_flatten(1, -1), LIN(216, 10));
}
static situ_nn_module *strided(void) {
  const situ_nn_conv_options two = { .stride = SITU_DIMS(2), .padding = SITU_DIMS(1) };
  return SEQ(situ_nn_conv2d(1, 8, SITU_DIMS(4), &two), situ_nn_silu(), situ_nn_conv2d(8, 16, SITU_DIMS(4), &two),
             situ_nn_silu(), situ_nn_conv_transpose2d(16, 8, SITU_DIMS(4), &two), situ_nn_silu(),
             situ_nn_conv_transpose2d(8, 1, SITU_DIMS(4), &two), situ_nn_sigmoid());
}
static situ_nn_module *linear(void) { return LIN(784, 10); }

/* x + f(x), twice, the first of them computed again in backward. */
typedef struct residual {
  situ_nn_module base;
  situ_nn_module *first, *second;
  bool again;
} residual;
static situ_tensor *first_part(situ_tensor *const *in, int count, void *payload) {
  assert_int_equal(count, 1);
  return situ_nn_forward(payload, in[0]);
}
static situ_tensor *residual_forward(situ_nn_module *self, situ_tensor *x) {
  residual *m = (residual *)self;
  x = situ_add(x, m->again ? situ_recompute(first_part, m->first, 1, &x) : situ_nn_forward(m->first, x));
  return situ_add(x, situ_nn_forward(m->second, x));
}
static const situ_nn_type residual_type = { .name = "Residual", .size = sizeof(residual), .forward = residual_forward };
static situ_nn_module *residual_of(bool again) {
  residual *m = situ_nn_alloc(&residual_type);
  m->again = again;
  situ_nn_child(m, first, SEQ(LIN(60, 240), situ_nn_relu(), LIN(240, 60)));
  situ_nn_child(m, second, SEQ(situ_nn_layer_norm(SITU_SHAPE(60), NULL), LIN(60, 60), situ_nn_tanh()));
  return situ_nn_done(m);
}
static situ_nn_module *skip_over(void) { return residual_of(false); }
static situ_nn_module *recomputed(void) { return residual_of(true); }

typedef struct tied {
  situ_nn_module base;
  situ_nn_module *embed, *mix;
  situ_tensor *head;
} tied;
static situ_tensor *tied_forward(situ_nn_module *self, situ_tensor *x) {
  tied *m = (tied *)self;
  return situ_linear(situ_gelu(situ_nn_forward(m->mix, situ_nn_forward(m->embed, x)), SITU_GELU_NONE), m->head, NULL);
}
static const situ_nn_type tied_type = { .name = "Tied", .size = sizeof(tied), .forward = tied_forward };
static situ_nn_module *ties(void) {
  tied *m = situ_nn_alloc(&tied_type);
  situ_nn_child(m, embed, situ_nn_embedding(400, 40, NULL));
  situ_nn_child(m, mix, LIN(40, 40));
  situ_nn_param(m, head, situ_nn_get_tensor(m->embed, "weight"));
  return situ_nn_done(m);
}

static const struct kind {
  const char *name;
  situ_nn_module *(*make)(void);
  situ_shape in;
  int64_t tokens;                   /* below which inputs are; 0: inputs are numbers */
  enum { SUM, MEAN, ENTROPY } loss; /* SUM: the check's own */
} kinds[] = {
  { "MLP", mlp, { 2, { 64, 256 } }, 0, MEAN },
  { "tiny", tiny, { 2, { 8, 16 } }, 0, SUM },
  { "deep", deep, { 2, { 256, 64 } }, 0, MEAN },
  { "norms", norms, { 2, { 64, 128 } }, 0, SUM },
  { "RMS norm, dropout", rms, { 2, { 20, 100 } }, 0, SUM },
  { "CNN", cnn, { 4, { 8, 3, 32, 32 } }, 0, MEAN },
  { "LeNet", lenet, { 4, { 5, 1, 28, 28 } }, 0, SUM },
  { "conv1d", wave, { 3, { 6, 2, 100 } }, 0, MEAN },
  { "conv3d", volume, { 5, { 2, 1, 8, 8, 8 } }, 0, SUM },
  { "transposed conv", up, { 4, { 4, 8, 16, 16 } }, 0, SUM },
  { "group, instance norm", group, { 4, { 3, 4, 15, 15 } }, 0, MEAN },
  { "LSTM", lstm, { 3, { 20, 8, 32 } }, 0, MEAN },
  { "GRU", gru, { 3, { 20, 8, 32 } }, 0, MEAN },
  { "RNN", rnn, { 3, { 11, 5, 24 } }, 0, MEAN },
  { "encoder", encoder, { 3, { 4, 64, 64 } }, 0, MEAN },
  { "encoder with dropout", dropping, { 3, { 3, 31, 48 } }, 0, SUM },
  { "embedding", words, { 2, { 6, 30 } }, 500, ENTROPY },
  { "tied", ties, { 2, { 4, 25 } }, 400, ENTROPY },
  { "shared layer", shared, { 2, { 33, 96 } }, 0, SUM },
  { "batch norm", norm1, { 2, { 77, 50 } }, 0, MEAN },
  { "gated", gated, { 2, { 40, 64 } }, 0, SUM },
  { "PReLU, softplus", prelu, { 2, { 21, 30 } }, 0, SUM },
  { "wide", wide, { 2, { 3, 2000 } }, 0, SUM },
  { "LSTM of 2 layers, both ways", both_ways, { 3, { 9, 4, 20 } }, 0, MEAN },
  { "depthwise", depthwise, { 4, { 3, 8, 13, 13 } }, 0, SUM },
  { "autoencoder", strided, { 4, { 4, 1, 28, 28 } }, 0, MEAN },
  { "linear", linear, { 2, { 300, 784 } }, 0, SUM },
  { "residual", skip_over, { 2, { 50, 60 } }, 0, SUM },
  { "recomputed", recomputed, { 2, { 50, 60 } }, 0, MEAN },
  { "upsampled", scaled, { 4, { 2, 2, 12, 12 } }, 0, MEAN },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

#endif
