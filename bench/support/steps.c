/* Networks and their training steps; bench/torch/steps.py has the same ones.
   SPDX-License-Identifier: MIT */
#include "support/steps.h"

#include <string.h>

#include "support/gpt2.h"
#include "support/measure.h"

typedef struct recipe {
  const char *name;
  situ_nn_module *(*model)(void);
  situ_tensor *(*loss)(const training *t);
  situ_optim *(*optim)(situ_tree *parameters, double lr, const situ_optim_options *options);
  situ_optim_options (*options)(void);
  situ_shape input;
  int64_t symbols; /* input is whole numbers below it; 0: real ones */
  int64_t targets; /* whole numbers, so many; 0: real ones */
  bool clip;
} recipe;

struct training {
  const recipe *recipe;
  situ_nn_module *net;
  situ_optim *optim;
  situ_tensor *input, *target;
};

/* ---- models ---- */

static situ_nn_module *mlp(void) {
  return situ_nn_sequential(situ_nn_linear(784, 256, NULL), situ_nn_relu(), situ_nn_linear(256, 128, NULL),
                            situ_nn_relu(), situ_nn_linear(128, 10, NULL));
}

static situ_nn_module *lenet(void) {
  return situ_nn_sequential(
      situ_nn_conv2d(1, 6, SITU_DIMS(5), &(situ_nn_conv_options){ .padding = SITU_DIMS(2) }), situ_nn_relu(),
      situ_nn_max_pool2d(SITU_DIMS(2), NULL), situ_nn_conv2d(6, 16, SITU_DIMS(5), NULL), situ_nn_relu(),
      situ_nn_max_pool2d(SITU_DIMS(2), NULL), situ_nn_flatten(1, -1), situ_nn_linear(400, 120, NULL), situ_nn_relu(),
      situ_nn_linear(120, 84, NULL), situ_nn_relu(), situ_nn_linear(84, 10, NULL));
}

static const gpt2_config characters = { .vocabulary = 96, .context = 64, .width = 64, .heads = 4, .layers = 2 };
static situ_nn_module *char_gpt(void) { return gpt2_new(&characters); }
static const gpt2_config blocks = { .vocabulary = 512, .context = 128, .width = 256, .heads = 8, .layers = 4 };
static situ_nn_module *gpt256(void) { return gpt2_new(&blocks); }

static situ_nn_module *lstm_small(void) { return situ_nn_lstm(1, 32, &(situ_nn_rnn_options){ .batch_first = true }); }
static situ_nn_module *lstm(void) { return situ_nn_lstm(128, 256, &(situ_nn_rnn_options){ .batch_first = true }); }

/* A block of ResNet-18 (He et al., arXiv:1512.03385); across is the identity where nothing changes size. */
typedef struct residual {
  situ_nn_module base;
  situ_nn_module *inner, *across;
} residual;
static situ_tensor *residual_forward(situ_nn_module *self, situ_tensor *x) {
  const residual *m = (const residual *)self;
  return situ_relu(situ_add(situ_nn_forward(m->inner, x), situ_nn_forward(m->across, x)));
}
static const situ_nn_type residual_type = { .name = "Residual", .size = sizeof(residual), .forward = residual_forward };

static situ_nn_module *convolve(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return situ_nn_conv2d(
      in, out, SITU_DIMS(kernel),
      &(situ_nn_conv_options){ .stride = SITU_DIMS(stride), .padding = SITU_DIMS(kernel / 2), .no_bias = true });
}
static situ_nn_module *residual_new(int64_t in, int64_t out, int64_t stride) {
  residual *m = situ_nn_alloc(&residual_type);
  situ_nn_child(m, inner,
                situ_nn_sequential(convolve(in, out, 3, stride), situ_nn_batch_norm2d(out, NULL), situ_nn_relu(),
                                   convolve(out, out, 3, 1), situ_nn_batch_norm2d(out, NULL)));
  situ_nn_child(m, across,
                in == out ? situ_nn_identity()
                          : situ_nn_sequential(convolve(in, out, 1, stride), situ_nn_batch_norm2d(out, NULL)));
  return situ_nn_done(m);
}
static situ_nn_module *resnet18(void) {
  situ_nn_module *net = situ_nn_sequential(convolve(3, 64, 3, 1), situ_nn_batch_norm2d(64, NULL), situ_nn_relu());
  static const int64_t width[] = { 64, 64, 128, 256, 512 };
  for (int k = 0; k < 4; k++) {
    situ_nn_append(net, residual_new(width[k], width[k + 1], k ? 2 : 1));
    situ_nn_append(net, residual_new(width[k + 1], width[k + 1], 1));
  }
  situ_nn_append(net, situ_nn_adaptive_avg_pool2d(SITU_DIMS(1)));
  situ_nn_append(net, situ_nn_flatten(1, -1));
  return situ_nn_append(net, situ_nn_linear(512, 10, NULL));
}

/* ---- parameters that only the optimiser sees ---- */

static situ_nn_module *parameters_of(int64_t count, int64_t size) {
  situ_nn_module *net = situ_nn_module_dict();
  for (int64_t i = 0; i < count; i++) {
    char name[32];
    (void)snprintf(name, sizeof name, "p%lld", (long long)i);
    situ_tensor *p = situ_randn(SITU_SHAPE(size), &(situ_options){ .requires_grad = true });
    need(p ? situ_set_grad(p, situ_randn(SITU_SHAPE(size), NULL)) : situ_error());
    situ_nn_add_tensor(net, name, NULL, p, SITU_NN_PARAMETER);
  }
  return net;
}
static situ_nn_module *hundred(void) { return parameters_of(100, 16); }
/* Those of char_gpt at 128 wide. */
static situ_nn_module *many(void) { return parameters_of(52, 15736); }

/* ---- losses ---- */

static situ_tensor *classes(const training *t) {
  situ_tensor *scores = situ_nn_forward(t->net, t->input);
  return situ_cross_entropy(situ_reshape(scores, SITU_SHAPE(-1, situ_size(scores, -1))), t->target, NULL);
}
static situ_tensor *squares(const training *t) {
  situ_tensor *y = situ_nn_forward(t->net, t->input);
  return situ_mse_loss(y, t->target, SITU_REDUCTION_MEAN);
}

static situ_optim_options sgd_options(void) {
  situ_optim_options options = situ_optim_sgd_defaults();
  options.momentum = 0.9;
  options.weight_decay = 5e-4;
  return options;
}

#define SGD situ_optim_sgd, sgd_options
#define ADAMW situ_optim_adamw, situ_optim_adamw_defaults
static const recipe recipes[] = {
  { "mlp", mlp, classes, ADAMW, { 2, { 64, 784 } }, 0, 64, false },
  { "lenet", lenet, classes, SGD, { 4, { 64, 1, 28, 28 } }, 0, 64, false },
  { "char_gpt", char_gpt, classes, ADAMW, { 2, { 16, 64 } }, 96, 16 * 64, true },
  { "gpt256", gpt256, classes, ADAMW, { 2, { 8, 128 } }, 512, 8 * 128, true },
  { "resnet18", resnet18, classes, SGD, { 4, { 32, 3, 32, 32 } }, 0, 32, false },
  { "lstm", lstm, squares, ADAMW, { 3, { 32, 64, 128 } }, 0, 0, false },
  { "lstm_small", lstm_small, squares, ADAMW, { 3, { 64, 40, 1 } }, 0, 0, false },
  { "adamw_16", hundred, NULL, ADAMW, { 1, { 1 } }, 0, 0, false },
  { "adamw_818k", many, NULL, ADAMW, { 1, { 1 } }, 0, 0, false },
};

training *training_new(const char *name) {
  const recipe *r = recipes, *end = recipes + sizeof recipes / sizeof *recipes;
  while (r < end && strcmp(r->name, name) != 0) r++;
  if (r == end) return NULL;
  const situ_options whole = { .dtype = SITU_I64 };
  training *t = calloc(1, sizeof *t);
  if (!t) exit(1);
  *t = (training){ .recipe = r, .net = r->model() };
  need(situ_error());
  const situ_optim_options options = r->options();
  t->optim = r->optim(situ_nn_parameters(t->net), 1e-3, &options);
  t->input = r->symbols ? situ_randint(0, r->symbols, r->input, &whole) : situ_randn(r->input, NULL);
  if (r->targets) t->target = situ_randint(0, r->symbols ? r->symbols : 10, SITU_SHAPE(r->targets), &whole);
  else if (r->loss) t->target = situ_randn_like(situ_detach(situ_nn_forward(t->net, t->input)), NULL);
  need(situ_error());
  situ_retain(t->input);
  situ_retain(t->target);
  return t;
}

void training_step(training *t) {
  situ_scope s;
  situ_scope_begin(&s);
  if (t->recipe->loss) {
    need(situ_optim_zero_grad(t->optim, true));
    need(situ_backward(t->recipe->loss(t), NULL));
  }
  if (t->recipe->clip) need(situ_optim_clip_grad_norm_(t->optim, 1, 2, NULL));
  need(situ_optim_step(t->optim));
  need(situ_scope_end(&s));
}

void training_free(training *t) {
  situ_optim_free(t->optim);
  situ_nn_free(t->net);
  situ_release(t->input);
  situ_release(t->target);
  free(t);
}
