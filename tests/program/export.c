/* situ_export, situ_export_save and situ_onnx_export: a program of each of many modules gives the module's own bits, so
   does the .pt2 file that it is written to, and the ONNX model gives them up to rounding. SITU_EXPORT_DIR keeps the
   files, which tools/exchange/check_export.py runs in PyTorch, and check_onnx.py in onnxruntime.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scope.h"
#include "situ/situ.h"
#include "situ/sys/shape.h"
#include "support/options.h"

static int open_seeded(void **state) {
  (void)open_scope(state);
  situ_manual_seed(7);
  return 0;
}

/* ---- modules of functions ---- */

typedef situ_tensor *(*function)(situ_tensor *x);
typedef struct made {
  situ_nn_module base;
  function run;
  situ_tensor *w;
} made;
static situ_tensor *made_forward(situ_nn_module *self, situ_tensor *x) { return ((made *)self)->run(x); }
static situ_status made_copy(situ_nn_module *copy, const situ_nn_module *self) {
  ((made *)copy)->run = ((const made *)self)->run;
  return SITU_OK;
}
static const situ_nn_type made_type = {
  .name = "Made", .size = sizeof(made), .forward = made_forward, .copy = made_copy
};
static situ_nn_module *make(function run) {
  made *m = situ_nn_alloc(&made_type);
  if (m) m->run = run;
  return situ_nn_done(m);
}

static situ_tensor *arithmetic(situ_tensor *x) {
  situ_tensor *y = situ_add_scalar(situ_mul(x, x), 0.5), *z = situ_rsub_scalar(situ_div(x, y), 2);
  return situ_pow_scalar(situ_abs(situ_sub_scalar(situ_mul_scalar(z, 3), 1)), 1.5);
}
static situ_tensor *choices(situ_tensor *x) {
  situ_tensor *y = situ_where(situ_gt_scalar(x, 0), x, situ_mul_scalar(x, 0.1));
  y = situ_masked_fill(y, situ_lt_scalar(x, -1), 5);
  return situ_maximum(situ_clamp(y, -0.5, 4), situ_minimum(x, situ_neg(x)));
}
static situ_tensor *pieces(situ_tensor *x) {
  situ_tensor *a = situ_narrow(x, 1, 1, 3), *b = situ_slice(x, 1, 0, 6, 2), *c = situ_select(x, 1, -1);
  situ_tensor *rows[] = { a, situ_flip(b, SITU_DIMS(1)), situ_expand(situ_unsqueeze(c, 1), SITU_SHAPE(-1, 3)) };
  return situ_transpose(situ_cat(rows, 3, 0), 0, 1);
}
static situ_tensor *stacked(situ_tensor *x) {
  situ_tensor *both[] = { x, situ_roll(x, SITU_DIMS(1), SITU_DIMS(0)) };
  return situ_reshape(situ_permute(situ_stack(both, 2, 1), SITU_DIMS(2, 0, 1)), SITU_SHAPE(-1, 2));
}
static situ_tensor *reductions(situ_tensor *x) {
  const situ_reduce_options row = { .dim = SITU_DIMS(1), .keepdim = true };
  situ_tensor *parts[] = { situ_sum(x, &row),    situ_mean(x, &row),      situ_amax(x, &row),   situ_amin(x, &row),
                           situ_std(x, 1, &row), situ_logsumexp(x, &row), situ_norm(x, 2, &row) };
  return situ_add(situ_cat(parts, 7, 1), situ_mean(x, NULL));
}
static situ_tensor *ordered(situ_tensor *x) {
  situ_tensor *at, *place, *top = situ_topk(x, 2, 1, true, &at), *sorted = situ_sort(x, 1, false, &place);
  situ_tensor *parts[] = { top, situ_gather(x, 1, at), sorted, situ_cumsum(x, 1), situ_to_dtype(place, SITU_F32) };
  return situ_cat(parts, 5, 1);
}
static situ_tensor *indices(situ_tensor *x) {
  situ_tensor *at = situ_arange(0, 3, 1, &(situ_options){ .dtype = SITU_I64 });
  situ_tensor *y = situ_index_add(situ_zeros(SITU_SHAPE(3, 6), NULL), 0, at, situ_narrow(x, 0, 0, 3), 2);
  y = situ_scatter_reduce(y, 0, situ_zeros(SITU_SHAPE(2, 6), &(situ_options){ .dtype = SITU_I64 }), x,
                          SITU_SCATTER_AMAX, true);
  return situ_add(situ_index_select(x, 0, at), y);
}
static situ_tensor *made_inside(situ_tensor *x) {
  situ_tensor *steps = situ_arange(0, 6, 1, NULL), *mask = situ_tril(situ_ones(SITU_SHAPE(6, 6), NULL), 0);
  return situ_add(situ_matmul(x, mask), situ_mul_scalar(steps, 0.25));
}
static situ_tensor *in_place(situ_tensor *x) {
  situ_tensor *y = situ_mul_scalar(x, 2), *part = situ_narrow(y, 1, 0, 2);
  situ_add_(part, situ_narrow(x, 1, 2, 2));
  situ_mul_scalar_(part, 0.5);
  situ_fill_(situ_select(y, 0, 0), 3);
  return situ_relu_(situ_copy_(y, situ_sub_scalar(y, 1)));
}
static situ_tensor *buffer_of_steps(situ_tensor *x) {
  situ_tensor *out = situ_zeros(situ_shape_of(x), NULL);
  for (int t = 0; t < 6; t++) situ_copy_(situ_narrow(out, 1, t, 1), situ_mul_scalar(situ_narrow(x, 1, 5 - t, 1), t));
  return out;
}
static situ_tensor *products(situ_tensor *x) {
  situ_tensor *square = situ_matmul(situ_transpose(x, 0, 1), x), *batch = situ_expand(square, SITU_SHAPE(2, 6, 6));
  situ_tensor *y = situ_bmm(batch, situ_contiguous(batch));
  return situ_addmm(situ_select(y, 0, 0), square, square, OPTIONS_AT(situ_addmm, with.alpha = 0.5, with.beta = 2));
}
static situ_tensor *attention(situ_tensor *x) {
  situ_tensor *q = situ_reshape(x, SITU_SHAPE(1, 2, 4, 3));
  const situ_attention_options causal = OPTIONS_OF(situ_attention, with.is_causal = true, with.scale = 0.3),
                               masked = OPTIONS_OF(
                                   situ_attention,
                                   with.attn_mask = situ_tril(
                                       situ_ones(SITU_SHAPE(4, 4), &(situ_options){ .dtype = SITU_BOOL }), 0));
  return situ_add(situ_scaled_dot_product_attention(q, q, q, &masked),
                  situ_scaled_dot_product_attention(q, q, q, &causal));
}
static situ_tensor *differences(situ_tensor *x) { return situ_diff(x, 2, 1); }
static situ_tensor *whole_numbers(situ_tensor *x) {
  situ_tensor *n = situ_to_dtype(situ_mul_scalar(x, 10), SITU_I64);
  n = situ_remainder_scalar(situ_add_scalar(situ_mul_scalar(n, 3), 1), 7);
  return situ_logical_not(situ_logical_and(situ_eq_scalar(n, 1), situ_ge_scalar(x, 0)));
}
static situ_tensor *padded(situ_tensor *x) {
  return situ_triu(situ_pad(x, SITU_DIMS(1, 2, 0, 1), SITU_PAD_CONSTANT, -1), 1);
}
static situ_tensor *normed(situ_tensor *x) {
  return situ_softmax(situ_layer_norm(situ_log_softmax(x, 0), SITU_SHAPE(6), NULL, NULL, 1e-5), -1);
}
static situ_tensor *functions(situ_tensor *x) {
  situ_tensor *y = situ_sigmoid(situ_sin(situ_exp(situ_mul_scalar(x, 0.1))));
  y = situ_add(situ_log1p(situ_sqrt(situ_abs(y))), situ_rsqrt(situ_add_scalar(situ_square(x), 1)));
  return situ_add(situ_erf(y), situ_atan2(situ_tanh(x), situ_cos(y)));
}

/* ---- the table ---- */

static situ_nn_module *mlp(void) {
  return situ_nn_sequential(situ_nn_linear(6, 8, NULL), situ_nn_silu(), situ_nn_linear(8, 8, NULL), situ_nn_tanh(),
                            situ_nn_dropout(0.5), situ_nn_linear(8, 3, NULL));
}
static situ_nn_module *mlp_fused(void) {
  const situ_nn_linear_options relu = { .activation = SITU_ACTIVATION_RELU },
                               gelu = { .activation = SITU_ACTIVATION_GELU_TANH };
  return situ_nn_sequential(situ_nn_linear(6, 8, &relu), situ_nn_linear(8, 8, &gelu), situ_nn_linear(8, 2, NULL));
}
static situ_nn_module *activations(void) {
  return situ_nn_sequential(situ_nn_linear(6, 6, NULL), situ_nn_gelu(SITU_GELU_NONE), situ_nn_gelu(SITU_GELU_TANH),
                            situ_nn_leaky_relu(0.2), situ_nn_elu(1), situ_nn_hardswish(), situ_nn_hardtanh(-2, 2),
                            situ_nn_softplus(1, 20), situ_nn_mish(), situ_nn_softsign(), situ_nn_quick_gelu(),
                            situ_nn_relu6());
}
static situ_nn_module *more_activations(void) {
  return situ_nn_sequential(situ_nn_linear(6, 6, NULL), situ_nn_selu(), situ_nn_log_sigmoid(), situ_nn_hardsigmoid(),
                            situ_nn_celu(1.5), situ_nn_softshrink(0.1), situ_nn_hardshrink(0.1),
                            situ_nn_threshold(0.2, 0.1), situ_nn_prelu(1, 0.25, NULL), situ_nn_glu(-1));
}
static situ_nn_module *cnn(void) {
  return situ_nn_sequential(
      situ_nn_conv2d(3, 8, SITU_DIMS(3), &(situ_nn_conv_options){ .padding = SITU_DIMS(1) }),
      situ_nn_batch_norm2d(8, NULL), situ_nn_relu(), situ_nn_max_pool2d(SITU_DIMS(2), NULL),
      situ_nn_conv2d(8, 8, SITU_DIMS(3),
                     &(situ_nn_conv_options){ .groups = 8, .stride = SITU_DIMS(2), .no_bias = true }),
      situ_nn_adaptive_avg_pool2d(SITU_DIMS(1)), situ_nn_flatten(1, -1), situ_nn_linear(8, 4, NULL));
}
static situ_nn_module *images(void) {
  return situ_nn_sequential(
      situ_nn_conv2d(3, 4, SITU_DIMS(3, 1), &(situ_nn_conv_options){ .dilation = SITU_DIMS(2, 1) }),
      situ_nn_group_norm(2, 4, NULL), situ_nn_avg_pool2d(SITU_DIMS(2), &(situ_pool_options){ .padding = SITU_DIMS(1) }),
      situ_nn_conv_transpose2d(4, 4, SITU_DIMS(2), &(situ_nn_conv_options){ .stride = SITU_DIMS(2) }),
      situ_nn_pixel_shuffle(2), situ_nn_instance_norm2d(1, NULL));
}
static situ_nn_module *same_padding(void) {
  return situ_nn_sequential(situ_nn_conv2d(3, 4, SITU_DIMS(3), &(situ_nn_conv_options){ .same = true }),
                            situ_nn_pixel_unshuffle(2), situ_nn_channel_shuffle(2));
}
static situ_nn_module *sound(void) {
  return situ_nn_sequential(situ_nn_conv1d(3, 4, 3, &(situ_nn_conv_options){ .padding = SITU_DIMS(1) }),
                            situ_nn_batch_norm1d(4, NULL), situ_nn_relu(), situ_nn_max_pool1d(SITU_DIMS(2), NULL),
                            situ_nn_conv_transpose1d(4, 2, 2, NULL), situ_nn_adaptive_avg_pool1d(SITU_DIMS(3)));
}
static situ_nn_module *volume(void) {
  return situ_nn_sequential(situ_nn_conv3d(2, 3, SITU_DIMS(2), NULL), situ_nn_relu(), situ_nn_flatten(1, -1));
}
static situ_nn_module *enlarged(void) {
  return situ_nn_upsample(&(situ_interpolate_options){ .scale_factor = { 2 }, .mode = SITU_INTERPOLATE_NEAREST });
}
static situ_nn_module *smoothed(void) {
  return situ_nn_upsample(&(situ_interpolate_options){ .size = SITU_SHAPE(7, 9), .mode = SITU_INTERPOLATE_BILINEAR });
}
static situ_nn_module *cubic(void) {
  return situ_nn_upsample(
      &(situ_interpolate_options){ .size = SITU_SHAPE(7, 9), .mode = SITU_INTERPOLATE_BICUBIC, .align_corners = true });
}
static situ_nn_module *words(void) {
  return situ_nn_sequential(situ_nn_embedding(11, 6, NULL), situ_nn_layer_norm(SITU_SHAPE(6), NULL),
                            situ_nn_rms_norm(SITU_SHAPE(6), NULL), situ_nn_linear(6, 11, NULL),
                            situ_nn_log_softmax(-1));
}
static situ_nn_module *self_attention(void) {
  return situ_nn_multihead_attention(6, 2, &(situ_nn_multihead_attention_options){ .batch_first = true });
}
static situ_nn_module *encoder(void) {
  const situ_nn_transformer_options o =
      OPTIONS_OF(situ_nn_transformer, with.dim_feedforward = 12, with.batch_first = true, with.gelu = true);
  return situ_nn_transformer_encoder(situ_nn_transformer_encoder_layer(6, 2, &o), 2,
                                     situ_nn_layer_norm(SITU_SHAPE(6), NULL));
}
static situ_nn_module *decoder(void) {
  const situ_nn_transformer_options o =
      OPTIONS_OF(situ_nn_transformer, with.dim_feedforward = 12, with.batch_first = true, with.norm_first = true);
  return situ_nn_transformer_decoder(situ_nn_transformer_decoder_layer(6, 2, &o), 1, NULL);
}
static situ_nn_module *recurrent(void) {
  return situ_nn_rnn(6, 4, &(situ_nn_rnn_options){ .batch_first = true, .relu = true });
}
static situ_nn_module *memory(void) {
  return situ_nn_lstm(6, 4, &(situ_nn_rnn_options){ .num_layers = 2, .batch_first = true, .bidirectional = true });
}
static situ_nn_module *gated(void) { return situ_nn_gru(6, 4, &(situ_nn_rnn_options){ .num_layers = 2 }); }
static situ_nn_module *normed_weight(void) {
  return situ_nn_utils_weight_norm(situ_nn_linear(6, 3, NULL), "weight", 0);
}
static situ_nn_module *tied(void) {
  situ_nn_module *once = situ_nn_linear(6, 6, NULL);
  return situ_nn_sequential(once, situ_nn_relu(), situ_nn_retain(once));
}
#define OF(name) \
  static situ_nn_module *make_##name(void) { return make(name); }
/* clang-format off */
OF(arithmetic) OF(choices) OF(pieces) OF(stacked) OF(reductions) OF(ordered) OF(indices) OF(made_inside) OF(in_place)
OF(buffer_of_steps) OF(products) OF(attention) OF(differences) OF(whole_numbers) OF(padded) OF(normed) OF(functions)
    /* clang-format on */

    typedef enum kind {
      REAL,
      WORDS,
      TWO
    } kind; /* numbers, indices of words, two operands */
typedef struct row {
  const char *name;
  situ_nn_module *(*make)(void);
  situ_shape shape;
  kind kind;
} row;
static const row table[] = {
  { "mlp", mlp, { 2, { 5, 6 } }, REAL },
  { "mlp_fused", mlp_fused, { 2, { 5, 6 } }, REAL },
  { "activations", activations, { 2, { 5, 6 } }, REAL },
  { "more_activations", more_activations, { 2, { 5, 6 } }, REAL },
  { "cnn", cnn, { 4, { 2, 3, 8, 8 } }, REAL },
  { "images", images, { 4, { 2, 3, 9, 8 } }, REAL },
  { "same_padding", same_padding, { 4, { 2, 3, 6, 6 } }, REAL },
  { "sound", sound, { 3, { 2, 3, 12 } }, REAL },
  { "volume", volume, { 5, { 1, 2, 4, 4, 4 } }, REAL },
  { "enlarged", enlarged, { 4, { 1, 2, 4, 5 } }, REAL },
  { "smoothed", smoothed, { 4, { 1, 2, 4, 5 } }, REAL },
  { "cubic", cubic, { 4, { 1, 2, 4, 5 } }, REAL },
  { "words", words, { 2, { 2, 5 } }, WORDS },
  { "self_attention", self_attention, { 3, { 2, 5, 6 } }, REAL },
  { "encoder", encoder, { 3, { 2, 5, 6 } }, REAL },
  { "decoder", decoder, { 3, { 2, 5, 6 } }, TWO },
  { "recurrent", recurrent, { 3, { 2, 5, 6 } }, REAL },
  { "memory", memory, { 3, { 2, 5, 6 } }, REAL },
  { "gated", gated, { 3, { 5, 2, 6 } }, REAL },
  { "normed_weight", normed_weight, { 2, { 4, 6 } }, REAL },
  { "tied", tied, { 2, { 4, 6 } }, REAL },
  { "arithmetic", make_arithmetic, { 2, { 4, 6 } }, REAL },
  { "choices", make_choices, { 2, { 4, 6 } }, REAL },
  { "pieces", make_pieces, { 2, { 4, 6 } }, REAL },
  { "stacked", make_stacked, { 2, { 4, 6 } }, REAL },
  { "reductions", make_reductions, { 2, { 4, 6 } }, REAL },
  { "ordered", make_ordered, { 2, { 4, 6 } }, REAL },
  { "indices", make_indices, { 2, { 4, 6 } }, REAL },
  { "made_inside", make_made_inside, { 2, { 4, 6 } }, REAL },
  { "in_place", make_in_place, { 2, { 4, 6 } }, REAL },
  { "buffer_of_steps", make_buffer_of_steps, { 2, { 4, 6 } }, REAL },
  { "products", make_products, { 2, { 4, 6 } }, REAL },
  { "attention", make_attention, { 2, { 4, 6 } }, REAL },
  { "differences", make_differences, { 2, { 4, 6 } }, REAL },
  { "whole_numbers", make_whole_numbers, { 2, { 4, 6 } }, REAL },
  { "padded", make_padded, { 2, { 4, 6 } }, REAL },
  { "normed", make_normed, { 2, { 4, 6 } }, REAL },
  { "functions", make_functions, { 2, { 4, 6 } }, REAL },
};
enum { ROWS = sizeof table / sizeof *table };

/* ---- the runs ---- */

static situ_tree *inputs_of(const row *r) {
  situ_tensor *x = r->kind == WORDS ? situ_randint(0, 11, r->shape, &(situ_options){ .dtype = SITU_I64 })
                                    : situ_randn(r->shape, NULL);
  return r->kind == TWO ? SITU_TREE(x, situ_randn(r->shape, NULL)) : SITU_TREE(x);
}

static situ_tensor *first_of(const situ_tree *tree) {
  while (tree && situ_tree_kind_of(tree) != SITU_TREE_TENSOR) tree = situ_tree_at(tree, 0);
  return tree ? situ_tree_value(tree) : NULL;
}

static void expect_same(const row *r, const char *what, situ_tensor *a, situ_tensor *b) {
  if (!a || !b) fail_msg("%s, %s: %s", r->name, what, situ_error_message());
  const situ_shape x = situ_shape_of(a), y = situ_shape_of(b);
  if (!situ_shape_equal(&x, &y) || situ_dtype_of(a) != situ_dtype_of(b))
    fail_msg("%s, %s: another shape", r->name, what);
  const size_t bytes = (size_t)situ_numel(a) * situ_dtype_size(situ_dtype_of(a));
  char *left = malloc(2 * bytes + 1), *right = left + bytes;
  assert_non_null(left);
  assert_int_equal(situ_copy_to_host(a, left, bytes), SITU_OK);
  assert_int_equal(situ_copy_to_host(b, right, bytes), SITU_OK);
  const int differs = memcmp(left, right, bytes);
  free(left);
  if (differs) fail_msg("%s, %s: other values", r->name, what);
}

/* Leaves what PyTorch needs to compare: the operands and the first result. */
static void keep_values(const char *path, const situ_tree *inputs, situ_tensor *y) {
  situ_tree *all = situ_tree_dict();
  char key[16];
  for (int64_t i = 0; i < situ_tree_count(inputs); i++) {
    (void)snprintf(key, sizeof key, "in%d", (int)i);
    all = situ_tree_put(all, key, situ_tree_tensor(situ_tree_tensor_at(inputs, i)));
  }
  all = situ_tree_put(all, "out", situ_tree_tensor(situ_contiguous(y)));
  assert_int_equal(situ_save(path, all, NULL), SITU_OK);
  situ_tree_free(all);
}

/* The values of a tensor as doubles, which the caller frees. */
static double *numbers_of(situ_tensor *t) {
  double *values = malloc(((size_t)situ_numel(t) + 1) * sizeof *values);
  assert_non_null(values);
  situ_tensor *wide = situ_contiguous(situ_to_dtype(t, SITU_F64));
  assert_int_equal(situ_copy_to_host(wide, values, (size_t)situ_numel(t) * sizeof *values), SITU_OK);
  return values;
}

/* Equal up to rounding: ONNX writes some calls as several operators. */
static void expect_close(const row *r, situ_tensor *a, situ_tensor *b) {
  if (!a || !b) fail_msg("%s, ONNX: %s", r->name, situ_error_message());
  const situ_shape x = situ_shape_of(a), y = situ_shape_of(b);
  if (!situ_shape_equal(&x, &y) || situ_dtype_of(a) != situ_dtype_of(b)) fail_msg("%s, ONNX: another shape", r->name);
  double *left = numbers_of(a), *right = numbers_of(b), most = 1e-30, worst = 0;
  for (int64_t i = 0; i < situ_numel(a); i++) {
    if (fabs(left[i]) > most) most = fabs(left[i]);
    if (!(fabs(left[i] - right[i]) <= worst)) worst = fabs(left[i] - right[i]);
  }
  free(left);
  free(right);
  if (!(worst <= 2e-6 * most)) fail_msg("%s, ONNX: %g of %g", r->name, worst, most);
}

/* The program as an ONNX model, which tools/exchange/check_onnx.py runs in onnxruntime. */
static void written_as_onnx(const row *r, const char *directory, situ_nn_module *program, const situ_tree *inputs) {
  char path[512];
  (void)snprintf(path, sizeof path, "%s/%s.onnx", directory ? directory : ".", r->name);
  const situ_status status = situ_onnx_export(program, path, NULL);
  if (status != SITU_OK) fail_msg("%s: %s", r->name, situ_error_message());
  situ_nn_module *loaded = situ_export_load(path, NULL);
  if (!loaded) fail_msg("%s: %s", r->name, situ_error_message());
  situ_tree *a = situ_nn_call(program, inputs), *b = situ_nn_call(loaded, inputs);
  expect_close(r, first_of(a), first_of(b));
  situ_tree_free(a);
  situ_tree_free(b);
  situ_nn_free(loaded);
}

static void follows(const row *r) {
  const char *directory = getenv("SITU_EXPORT_DIR");
  char path[512], values[512];
  (void)snprintf(path, sizeof path, "%s/%s.pt2", directory ? directory : ".", r->name);
  (void)snprintf(values, sizeof values, "%s/%s.safetensors", directory ? directory : ".", r->name);
  situ_nn_module *m = r->make();
  if (!m) fail_msg("%s: %s", r->name, situ_error_message());
  situ_nn_eval(m);
  situ_tree *inputs = inputs_of(r), *other = inputs_of(r);
  situ_nn_module *program = situ_export(m, inputs);
  if (!program) fail_msg("%s: %s", r->name, situ_error_message());
  if (situ_export_save(program, path) != SITU_OK) fail_msg("%s: %s", r->name, situ_error_message());
  written_as_onnx(r, directory, program, inputs);
  situ_nn_module *loaded = situ_export_load(path, NULL);
  if (!loaded) fail_msg("%s: %s", r->name, situ_error_message());
  for (int i = 0; i < 2; i++) { /* with other values than the ones that the calls were traced with, too */
    const situ_tree *in = i ? other : inputs;
    situ_tree *a = situ_nn_call(m, in), *b = situ_nn_call(program, in), *c = situ_nn_call(loaded, in);
    expect_same(r, "the program", first_of(a), first_of(b));
    expect_same(r, "the file", first_of(a), first_of(c));
    if (!i && directory) keep_values(values, in, first_of(a));
    situ_tree_free(a);
    situ_tree_free(b);
    situ_tree_free(c);
  }
  situ_tree_free(inputs);
  situ_tree_free(other);
  situ_nn_free(loaded);
  situ_nn_free(program);
  situ_nn_free(m);
}

static void programs_give_the_same(void **state) {
  const char *only = getenv("SITU_EXPORT_ONLY");
  (void)state;
  situ_scope step;
  for (int i = 0; i < ROWS; i++) {
    if (only && strcmp(only, table[i].name) != 0) continue;
    situ_scope_begin(&step);
    follows(&table[i]);
    assert_int_equal(situ_scope_end(&step), SITU_OK);
  }
  print_message("%d modules\n", ROWS);
}

/* One number for each image is a mean of any size; several are windows. */
static void a_mean_is_written_as_one(void **state) {
  (void)state;
  static char bytes[1 << 14];
  for (int size = 1; size <= 2; size++) {
    situ_nn_module *m = situ_nn_adaptive_avg_pool2d(SITU_SHAPE(size, size));
    situ_tree *inputs = SITU_TREE(situ_ones(SITU_SHAPE(1, 2, 4, 4), NULL));
    situ_nn_module *program = situ_export(m, inputs);
    const situ_status status = situ_onnx_export(program, "mean.onnx", NULL);
    FILE *f = status == SITU_OK ? fopen("mean.onnx", "rb") : NULL;
    const size_t length = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    assert_int_equal(length && memmem(bytes, length, "ReduceMean", 10), length && size == 1);
    assert_int_equal(length && memmem(bytes, length, "AveragePool", 11), length && size == 2);
    situ_error_clear();
    situ_nn_free(program);
    situ_tree_free(inputs);
    situ_nn_free(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(programs_give_the_same, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(a_mean_is_written_as_one, open_seeded, close_scope),
  };
  return cmocka_run_group_tests_name("program/export", tests, NULL, NULL);
}
