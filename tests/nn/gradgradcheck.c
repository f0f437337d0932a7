/* gradcheck, with forward mode, and gradgradcheck of smooth layers, by the input and by every parameter. */
#include "situ/func.h"
#include "support/modules.h"

enum { MOST = 24 }; /* the input, and parameters */

typedef struct layer {
  situ_nn_module *module;
  const char *path[MOST];
} layer;

/* in[0] is the input; the others are the parameters. */
static situ_tensor *run(situ_tensor *const *in, int count, void *payload) {
  const layer *l = payload;
  situ_tree *tensors = situ_tree_dict();
  for (int i = 1; i < count; i++) tensors = situ_tree_put(tensors, l->path[i], situ_tree_tensor(in[i]));
  situ_tensor *y = situ_func_functional_call(l->module, tensors, in[0], NULL);
  situ_tree_free(tensors);
  return y;
}

static situ_tensor *leaf(situ_shape shape) { return test_random(shape, -0.8, 0.9, true); }

/* Frees the module. Returns whether it is good. */
static bool check(const char *name, situ_nn_module *module, situ_shape shape) {
  layer l = { .module = module };
  situ_tensor *in[MOST] = { leaf(shape) };
  situ_tree *state = situ_nn_state_dict(module);
  int count = 1;
  for (int64_t i = 0; i < situ_tree_count(state); i++) {
    situ_tensor *parameter = situ_tree_tensor_at(state, i);
    const char *path = situ_tree_key(state, i);
    if (!situ_requires_grad(situ_nn_get_tensor(module, path))) continue; /* a buffer */
    assert_true(count < MOST);
    l.path[count] = path;
    in[count++] = leaf(situ_shape_of(parameter));
  }
  const situ_gradcheck_options forward = OPTIONS_OF(situ_gradcheck, with.check_forward_ad = true);
  const bool good = situ_autograd_gradcheck(run, &l, count, in, &forward) == SITU_OK &&
                    situ_autograd_gradgradcheck(run, &l, count, in, NULL) == SITU_OK;
  if (!good) print_error("%s: %s\n", name, situ_error_message());
  situ_error_clear();
  situ_tree_free(state);
  situ_nn_free(module);
  return good;
}

#define F64 .dtype = SITU_F64, HERE
#define F64_OF(name, ...) OPTIONS_AT(name, with.dtype = SITU_F64, with HERE, __VA_ARGS__)
#define CONV (&(situ_nn_conv_options){ F64 })
#define NORM F64_OF(situ_nn_norm, (void)0)
#define RNN (&(situ_nn_rnn_options){ F64 })
#define BOTH (&(situ_nn_rnn_options){ .num_layers = 2, .bidirectional = true, F64 })
#define BLOCK(first) \
  F64_OF(situ_nn_transformer, with.dim_feedforward = 4, with.dropout = 0, with.gelu = true, with.norm_first = first)
#define LAYERS(_)                                                                              \
  _(situ_nn_linear(3, 2, &(situ_nn_linear_options){ F64 }), 2, 3)                              \
  _(situ_nn_conv1d(2, 2, 3, CONV), 1, 2, 5)                                                    \
  _(situ_nn_conv2d(2, 2, SITU_SHAPE(2), CONV), 1, 2, 3, 3)                                     \
  _(situ_nn_conv3d(1, 2, SITU_SHAPE(2), CONV), 1, 1, 2, 3, 2)                                  \
  _(situ_nn_conv_transpose1d(2, 2, 3, CONV), 1, 2, 3)                                          \
  _(situ_nn_conv_transpose2d(2, 1, SITU_SHAPE(2), CONV), 1, 2, 2, 2)                           \
  _(situ_nn_conv_transpose3d(1, 1, SITU_SHAPE(2), CONV), 1, 1, 2, 2, 2)                        \
  _(situ_nn_avg_pool1d(SITU_SHAPE(2), NULL), 1, 2, 4)                                          \
  _(situ_nn_avg_pool2d(SITU_SHAPE(2), NULL), 1, 1, 4, 4)                                       \
  _(situ_nn_avg_pool3d(SITU_SHAPE(2), NULL), 1, 1, 2, 2, 4)                                    \
  _(situ_nn_adaptive_avg_pool1d(SITU_SHAPE(2)), 1, 2, 5)                                       \
  _(situ_nn_adaptive_avg_pool2d(SITU_SHAPE(2, 1)), 1, 1, 3, 3)                                 \
  _(situ_nn_adaptive_avg_pool3d(SITU_SHAPE(1, 2, 1)), 1, 1, 2, 3, 2)                           \
  _(situ_nn_pixel_shuffle(2), 1, 4, 2, 1)                                                      \
  _(situ_nn_flatten(1, -1), 2, 2, 2)                                                           \
  _(situ_nn_batch_norm1d(2, F64_OF(situ_nn_batch_norm, (void)0)), 4, 2)                        \
  _(situ_nn_batch_norm2d(2, F64_OF(situ_nn_batch_norm, (void)0)), 2, 2, 2, 2)                  \
  _(situ_nn_instance_norm1d(2, F64_OF(situ_nn_instance_norm, with.affine = true)), 1, 2, 4)    \
  _(situ_nn_instance_norm2d(2, F64_OF(situ_nn_instance_norm, with.affine = true)), 1, 2, 2, 2) \
  _(situ_nn_layer_norm(SITU_SHAPE(4), NORM), 2, 4)                                             \
  _(situ_nn_rms_norm(SITU_SHAPE(4), NORM), 2, 4)                                               \
  _(situ_nn_group_norm(2, 4, NORM), 1, 4, 3)                                                   \
  _(situ_nn_local_response_norm(2, 1e-2, 0.75, 1), 1, 3, 2)                                    \
  _(situ_nn_silu(), 5)                                                                         \
  _(situ_nn_sigmoid(), 5)                                                                      \
  _(situ_nn_tanh(), 5)                                                                         \
  _(situ_nn_mish(), 5)                                                                         \
  _(situ_nn_selu(), 5)                                                                         \
  _(situ_nn_log_sigmoid(), 5)                                                                  \
  _(situ_nn_softsign(), 5)                                                                     \
  _(situ_nn_tanhshrink(), 5)                                                                   \
  _(situ_nn_quick_gelu(), 5)                                                                   \
  _(situ_nn_gelu(SITU_GELU_NONE), 5)                                                           \
  _(situ_nn_gelu(SITU_GELU_TANH), 5)                                                           \
  _(situ_nn_elu(1), 5)                                                                         \
  _(situ_nn_glu(-1), 2, 4)                                                                     \
  _(situ_nn_softplus(1, 20), 5)                                                                \
  _(situ_nn_softmax(-1), 2, 3)                                                                 \
  _(situ_nn_log_softmax(-1), 2, 3)                                                             \
  _(situ_nn_rnn(2, 2, RNN), 3, 1, 2)                                                           \
  _(situ_nn_lstm(2, 2, RNN), 3, 1, 2)                                                          \
  _(situ_nn_gru(2, 2, RNN), 3, 1, 2)                                                           \
  _(situ_nn_gru(2, 1, BOTH), 2, 1, 2)                                                          \
  _(situ_nn_rnn_cell(2, 2, RNN), 2, 2)                                                         \
  _(situ_nn_gru_cell(2, 2, RNN), 2, 2)                                                         \
  _(situ_nn_transformer_encoder_layer(4, 2, BLOCK(false)), 2, 1, 4)                            \
  _(situ_nn_transformer_encoder_layer(4, 1, BLOCK(true)), 2, 1, 4)

static void smooth_layers(void **state) {
  (void)state;
  int count = 0, bad = 0;
#define CHECK(module, ...)                                                                      \
  {                                                                                             \
    situ_scope s;                                                                               \
    situ_scope_begin(&s);                                                                       \
    if (test_is_mine((size_t)count++)) bad += !check(#module, module, SITU_SHAPE(__VA_ARGS__)); \
    SITU_IGNORE(situ_scope_end(&s));                                                            \
  }
  LAYERS(CHECK)
  print_message("gradcheck with forward mode, and gradgradcheck: %d of %d layers\n", count - bad, count);
  assert_int_equal(bad, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(smooth_layers) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
