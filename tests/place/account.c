/* The predicted peak of a run is what it needs: models, run and trained on sim:0, against the smallest budget with which the
   same run succeeds. SITU_TABLE=1 prints the table. */
/* test-devices: sim:0 */
#include <stdlib.h>

#include "device/block_cache.h"
#include "situ/nn.h"
#include "situ/optim.h"
#include "support/pairs.h"

/* ---- models ---- */

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

/* ---- runs ---- */

static situ_optim *sgd(situ_tree *p) { return situ_optim_sgd(p, .01, NULL); }
static situ_optim *momentum(situ_tree *p) {
  situ_optim_options o = situ_optim_sgd_defaults();
  o.momentum = .9;
  return situ_optim_sgd(p, .01, &o);
}
static situ_optim *adam(situ_tree *p) { return situ_optim_adam(p, .001, NULL); }
static situ_optim *rmsprop(situ_tree *p) {
  situ_optim_options o = situ_optim_rmsprop_defaults();
  o.centered = true;
  o.momentum = .9;
  return situ_optim_rmsprop(p, .001, &o);
}
static const struct mode {
  const char *name;
  situ_optim *(*make)(situ_tree *parameters); /* NULL: inference */
} modes[] = {
  { "inference", NULL }, { "SGD", sgd }, { "momentum", momentum }, { "Adam", adam }, { "RMSprop", rmsprop }
};
enum { MODES = sizeof modes / sizeof *modes };

static situ_tensor *input_of(const struct kind *k) {
  const situ_options o = { .device = there() };
  return k->tokens ? situ_randint(0, k->tokens, k->in, &o) : situ_randn(k->in, &o);
}

static situ_status infer(situ_nn_module *m, situ_tensor *x) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *y = situ_nn_forward(m, x);
  const situ_status status = y ? situ_synchronize(there()) : situ_error();
  return situ_scope_end(&scope) == SITU_OK ? status : situ_error();
}

typedef struct goal {
  int loss;
  situ_tensor *target;
} goal;
static situ_tensor *loss_of(situ_tensor *y, const goal *g) {
  if (g->loss == ENTROPY) return situ_cross_entropy(situ_flatten(y, 0, 1), situ_flatten(g->target, 0, 1), NULL);
  return g->loss == MEAN ? situ_mean(y, NULL) : situ_sum(y, NULL);
}
static situ_tensor *own_loss(const situ_tree *outputs, void *payload) {
  return loss_of(situ_tree_kind_of(outputs) == SITU_TREE_TENSOR ? situ_tree_value(outputs)
                                                                : situ_tree_tensor_at(outputs, 0),
                 payload);
}

static situ_status step(situ_nn_module *m, situ_tensor *x, situ_optim *o, const goal *g) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *y = situ_nn_forward(m, x), *loss = y ? loss_of(y, g) : NULL;
  situ_status status = loss ? situ_backward(loss, NULL) : situ_error();
  if (status == SITU_OK) status = situ_optim_step(o);
  if (status == SITU_OK) status = situ_optim_zero_grad(o, true);
  if (status == SITU_OK) status = situ_synchronize(there());
  return situ_scope_end(&scope) == SITU_OK ? status : situ_error();
}

/* As a program does, with states that the first step makes. Leaves the device as it was. */
static situ_status real_run(situ_nn_module *m, situ_tensor *x, const struct mode *mode, const goal *g) {
  if (!mode->make) return infer(m, x);
  situ_optim *o = mode->make(situ_nn_parameters(m));
  situ_status status = SITU_OK;
  for (int k = 0; k < 3 && status == SITU_OK; k++) status = step(m, x, o, g);
  situ_optim_free(o);
  return status;
}

/* The smallest budget is the most that is out: one byte less is refused. */
static uint64_t smallest_budget(situ_nn_module *m, situ_tensor *x, const struct mode *mode, const goal *g) {
  const situ__block_cache *cache = situ__block_cache_of(there());
  expect_ok(situ_empty_cache(there()));
  expect_ok(real_run(m, x, mode, g));
  const uint64_t most = cache->highest > cache->before ? cache->highest : cache->before;
  for (uint64_t less = 0; less < 2; less++) {
    expect_ok(situ_empty_cache(there()));
    expect_ok(situ_sim_budget(there().index, most - less));
    assert_int_equal(real_run(m, x, mode, g), less ? SITU_E_NOMEM : SITU_OK);
    situ_error_clear();
    situ_nn_zero_grad(m);
  }
  expect_ok(situ_sim_reset(there().index));
  return most;
}

static uint64_t predicted(situ_nn_module *m, situ_tensor *x, const struct mode *mode, goal *g, int64_t *mistakes) {
  situ_scope scope;
  situ_place_report r;
  situ_tree *in = SITU_TREE(x);
  situ_optim *o = mode->make ? mode->make(situ_nn_parameters(m)) : NULL;
  if (o) situ_scope_begin(&scope);
  else situ_scope_begin_no_grad(&scope);
  const situ_place_check_options options = {
    .optims = &o, .optim_count = o != NULL, .loss = g->loss == SUM ? NULL : own_loss, .payload = g
  };
  expect_ok(situ_place_check(m, in, &options, &r));
  assert_true(r.finished);
  assert_int_equal(r.load_count, 1);
  const uint64_t peak = r.loads[0].peak;
  if (mistakes) *mistakes = r.mistakes;
  situ_place_report_free(&r);
  expect_ok(situ_scope_end(&scope));
  situ_optim_free(o);
  situ_tree_free(in);
  return peak;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void the_peak_is_the_smallest_budget(void **state) {
  (void)state;
  double ratio[KINDS * MODES];
  int count = 0;
  const bool table = getenv("SITU_TABLE") != NULL;
  if (table) print_message("%-22s %-10s %10s %10s  ratio\n", "", "", "predicted", "needed");
  for (const struct kind *k = kinds; k < kinds + KINDS; k++) {
    for (const struct mode *mode = modes; mode < modes + MODES; mode++) {
      situ_scope scope;
      situ_scope_begin(&scope);
      situ_nn_module *m = k->make();
      expect_ok(situ_nn_to(m, there()));
      if (!mode->make) situ_nn_eval(m);
      situ_tensor *x = input_of(k);
      goal g = { k->loss, k->tokens && mode->make ? input_of(k) : NULL };
      const uint64_t need = smallest_budget(m, x, mode, &g), guess = predicted(m, x, mode, &g, NULL);
      ratio[count] = (double)guess / (double)need;
      if (table)
        print_message("%-22s %-10s %10llu %10llu  %.4f\n", k->name, mode->name, (unsigned long long)guess,
                      (unsigned long long)need, ratio[count]);
      count++;
      situ_nn_free(m);
      expect_ok(situ_scope_end(&scope));
    }
  }
  qsort(ratio, (size_t)count, sizeof *ratio, by_size);
  if (table) print_message("from %.4f to %.4f, in the middle %.4f\n", ratio[0], ratio[count - 1], ratio[count / 2]);
  assert_true(ratio[0] >= 1);
  assert_true(ratio[count - 1] <= 1.05);
  assert_true(ratio[count / 2] <= 1.02);
}

/* A device of the predicted peak is enough, of a byte less is not; also beside tensors of others, and for a run whose states
   and gradients are there already. */
static void a_run_that_fits_is_told_from_one_that_does_not(void **state) {
  (void)state;
  const struct mode *mode = &modes[3];
  const struct kind *k = &kinds[0];
  goal g = { SUM, NULL };
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = k->make();
  expect_ok(situ_nn_to(m, there()));
  situ_tensor *x = input_of(k);
  for (int others = 0; others < 2; others++) {
    if (others) assert_non_null(situ_zeros(SITU_SHAPE(100000), &(situ_options){ .device = there() }));
    const uint64_t peak = predicted(m, x, mode, &g, NULL) + (others ? situ__memory_block(400000) : 0);
    for (uint64_t less = 0; less < 2; less++) {
      int64_t mistakes;
      expect_ok(situ_sim_budget(there().index, peak - less));
      (void)predicted(m, x, mode, &g, &mistakes);
      assert_int_equal(mistakes, less);
    }
    expect_ok(situ_sim_reset(there().index));
  }
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

/* What exists of a run is not needed once more: states and gradients in the middle of a step. */
static void a_run_in_the_middle_of_training_fits_where_it_runs(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = mlp();
  expect_ok(situ_nn_to(m, there()));
  situ_tensor *x = input_of(&kinds[0]);
  situ_optim *o = adam(situ_nn_parameters(m));
  const goal g = { SUM, NULL };
  expect_ok(step(m, x, o, &g));
  const uint64_t need = predicted(m, x, &modes[3], &(goal){ SUM, NULL }, NULL);
  expect_ok(situ_sim_budget(there().index, need));
  situ_tree *in = SITU_TREE(x);
  situ_place_report r;
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .optims = &o, .optim_count = 1 }, &r));
  assert_int_equal(r.mistakes, 0);
  assert_int_equal(r.loads[0].peak, need);
  situ_place_report_free(&r);
  expect_ok(situ_sim_reset(there().index));
  situ_tree_free(in);
  situ_optim_free(o);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

static void a_wrong_loss_is_found(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = words();
  expect_ok(situ_nn_to(m, there()));
  situ_tree *in = SITU_TREE(situ_zeros(SITU_SHAPE(6, 30), &(situ_options){ .dtype = SITU_I64, .device = there() }));
  goal g = { ENTROPY, situ_zeros(SITU_SHAPE(6, 30), &(situ_options){ .dtype = SITU_I64, .device = here() }) };
  situ_place_report r;
  expect_ok(situ_place_check(m, in, &(situ_place_check_options){ .loss = own_loss, .payload = &g }, &r));
  assert_int_equal(r.mistakes, 1);
  assert_int_equal(r.findings[0].problem, SITU_PLACE_DEVICE);
  assert_string_equal(r.findings[0].op, "cross_entropy");
  situ_place_report_free(&r);
  situ_tree_free(in);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

static void optimisers_are_checked(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *m = tiny();
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 16), NULL));
  situ_optim *none = NULL;
  assert_int_equal(situ_place_check(m, in, &(situ_place_check_options){ .optim_count = 1 }, NULL), SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(situ_place_check(m, in, &(situ_place_check_options){ .optims = &none, .optim_count = 1 }, NULL),
                   SITU_E_ARG);
  situ_error_clear();
  situ_tree_free(in);
  situ_nn_free(m);
  expect_ok(situ_scope_end(&scope));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(the_peak_is_the_smallest_budget),
    PAIR_TEST(a_run_that_fits_is_told_from_one_that_does_not),
    PAIR_TEST(a_run_in_the_middle_of_training_fits_where_it_runs),
    PAIR_TEST(a_wrong_loss_is_found),
    PAIR_TEST(optimisers_are_checked),
  };
  return cmocka_run_group_tests_name("place/account", tests, NULL, NULL);
}
