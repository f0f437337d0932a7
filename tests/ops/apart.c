/* Where PyTorch 2.15 on the CPU is not right, and situ does not follow it: docs/numerics.md lists these. Each says what
   PyTorch gives, and shows by differences or by the definition what is right. tools/golden/edges.py leaves them out. */
/* test-devices: cpu sim:0 opencl:0 */
#include <math.h>

#include "situ/func.h"
#include "support/test.h"

static const situ_backward_options create = { .create_graph = true };

static situ_tensor *grad_of(situ_tensor *loss, situ_tensor *x) {
  situ_tensor *g = NULL;
  if (situ_autograd_grad(situ_sum(loss, NULL), 1, &x, &g, &create) != SITU_OK) fail_msg("%s", situ_error_message());
  return g;
}
static situ_tensor *leaf(situ_tensor *x) { return situ_requires_grad_(x, true); }

/* ---- batch_norm whose gradient arrives transposed ---- */

typedef struct norm {
  situ_memory_format format; /* of what is normalised; SITU_PRESERVE_FORMAT: the transposed view itself */
  int to;                    /* the dimension that becomes the channels */
  bool training;
} norm;

static situ_tensor *transposed_norm(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  const norm *n = payload;
  situ_tensor *x = situ_transpose(in[0], 1, n->to);
  if (n->format != SITU_PRESERVE_FORMAT) x = situ_contiguous_memory_format(x, n->format);
  const int64_t channels = situ_size(x, 1);
  situ_tensor *mean =
                  situ_full(SITU_SHAPE(channels), 0.1, &(situ_options){ .dtype = SITU_F64, .device = test_device() }),
              *var = situ_full_like(mean, 0.8, NULL);
  situ_tensor *y = situ_batch_norm(x, n->training ? NULL : mean, n->training ? NULL : var, in[1], in[2],
                                   OPTIONS_AT(situ_batch_norm, with.training = n->training));
  return situ_transpose(y, 1, n->to);
}

/* PyTorch: gradients of weight and bias that belong to other elements (-1.1 where differences say 3.4, in the audio
   encoder of CLAP), where what is normalised is contiguous with a last size of 1. */
static void batch_norm_whose_gradient_arrives_transposed(void **state) {
  (void)state;
  const situ_memory_format formats[] = { SITU_PRESERVE_FORMAT, SITU_CONTIGUOUS_FORMAT, SITU_CHANNELS_LAST };
  const situ_shape shapes[] = { SITU_SHAPE(2, 1, 4, 3), SITU_SHAPE(2, 4, 1, 3), SITU_SHAPE(2, 3, 4, 1) };
  for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int bits = 0; bits < 4; bits++) {
        norm n = { .format = formats[f], .to = 2 + bits % 2, .training = bits / 2 };
        const int64_t channels = shapes[s].dim[n.to];
        situ_tensor *in[3] = { situ_to(test_random(shapes[s], -1, 1, false), test_device()),
                               situ_to(test_random(SITU_SHAPE(channels), 0.5, 1.5, false), test_device()),
                               situ_to(test_random(SITU_SHAPE(channels), -1, 1, false), test_device()) };
        for (int k = 0; k < 3; k++) in[k] = leaf(situ_detach(in[k]));
        if (situ_autograd_gradcheck(transposed_norm, &n, 3, in, NULL) != SITU_OK)
          fail_msg("format %d, shape %d, dimension %d, training %d: %s", (int)f, (int)s, n.to, n.training,
                   situ_error_message());
      }
}

/* ---- losses ---- */

/* PyTorch: log(1 + exp(100)) is infinite in f32, with a gradient of NaN. */
static void soft_margin_loss_of_large_inputs(void **state) {
  (void)state;
  situ_tensor *x = leaf(T32(SITU_SHAPE(3), 100, -1e30, -INFINITY)), *y = T32(SITU_SHAPE(3), -1, 1, 1);
  situ_tensor *loss = situ_soft_margin_loss(x, y, SITU_REDUCTION_NONE), *g = grad_of(loss, x);
  expect_values(loss, SITU_SHAPE(3), 100, 1e30, INFINITY);
  expect_values(g, SITU_SHAPE(3), 1, -1, -1);
  expect_values(grad_of(g, x), SITU_SHAPE(3), 0, 0, 0);
}

/* PyTorch: 0 for both. It leaves out terms that are NaN, and computes (margin - input[target]) + input, where 1 - 1e30
   is -1e30. */
static void margin_losses_of_equal_inputs(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 2), INFINITY, INFINITY, 1e30, 1e30), *y = TI64(SITU_SHAPE(2), 0, 0);
  situ_tensor *rows = TI64(SITU_SHAPE(2, 2), 0, -1, 0, -1);
  expect_values(situ_multi_margin_loss(x, y, OPTIONS_AT(situ_multi_margin, with.reduction = SITU_REDUCTION_NONE)),
                SITU_SHAPE(2), NAN, 0.5);
  expect_values(situ_multilabel_margin_loss(x, rows, SITU_REDUCTION_NONE), SITU_SHAPE(2), NAN, 0.5);
}

/* ---- distances and norms ---- */

/* PyTorch: 1 for each of several largest differences, which add up to more than the distance grows by; and NaN for one
   that is infinite. Its own norm divides the gradient among them. */
static void distances_with_several_largest_differences(void **state) {
  (void)state;
  situ_tensor *x = leaf(T64(SITU_SHAPE(3, 2), 1, 1, -2, 2, INFINITY, 1)), *zero = T64(SITU_SHAPE(1, 2), 0, 0);
  expect_exact(grad_of(situ_cdist(x, zero, INFINITY), x), SITU_SHAPE(3, 2), 0.5, 0.5, -0.5, 0.5, 1, 0);
  situ_tensor *pair = leaf(T64(SITU_SHAPE(2, 2), 1, 1, 0, 0));
  expect_exact(grad_of(situ_pdist(pair, INFINITY), pair), SITU_SHAPE(2, 2), 0.5, 0.5, -0.5, -0.5);
}

/* PyTorch: NaN, of 0 times infinity. The gradient there is 0 for every incoming gradient. */
static void gradients_of_norms_of_zeros_by_the_incoming_one(void **state) {
  (void)state;
  const double powers[] = { 1.5, 3, 4 };
  for (int k = 0; k < 3; k++) {
    situ_tensor *x = leaf(T64(SITU_SHAPE(2), 0, 0)), *up = leaf(T64(SITU_SCALAR, 2)), *g;
    assert_int_equal(situ_autograd_grad(situ_norm(x, powers[k], NULL), 1, &x, &g,
                                        &(situ_backward_options){ .gradient = up, .create_graph = true }),
                     SITU_OK);
    expect_exact(g, SITU_SHAPE(2), 0, 0);
    expect_exact(grad_of(g, up), SITU_SCALAR, 0);
  }
}

/* PyTorch: NaN, as 1e-30 to the power -2 is infinite in f32. */
static void norms_of_negative_power_of_tiny_elements(void **state) {
  (void)state;
  situ_tensor *x = leaf(T32(SITU_SHAPE(2), 1e-30, -1e-30));
  expect_values(grad_of(situ_norm(x, -1, NULL), x), SITU_SHAPE(2), 0.25, -0.25);
}

/* ---- images ---- */

/* PyTorch: 1 in all rows, the first one's. */
static void antialiased_to_one_column(void **state) {
  (void)state;
  situ_tensor *image = T32(SITU_SHAPE(1, 1, 2, 2), 0, 2, 10, 12);
  const situ_interpolate_options to = { .size = SITU_DIMS(3, 1), .mode = SITU_INTERPOLATE_BILINEAR, .antialias = true };
  expect_values(situ_interpolate(image, &to), SITU_SHAPE(1, 1, 3, 1), 1, 6, 11);
}

/* PyTorch: -infinity, whose gradient is written to a wild index; situ's backward names it. The window's two places are 1
   before the image and 1 behind it. */
static void a_dilated_window_of_padding_alone(void **state) {
  (void)state;
  situ_tensor *image = leaf(T32(SITU_SHAPE(1, 1, 2, 2), 1, 2, 3, 4));
  const situ_pool_options o = { .kernel = SITU_DIMS(2), .padding = SITU_DIMS(1), .dilation = SITU_DIMS(3) };
  situ_tensor *y = situ_max_pool2d(image, &o, NULL);
  expect_exact(y, SITU_SHAPE(1, 1, 1, 1), -INFINITY);
  assert_true(situ_backward(situ_sum(y, NULL), NULL) == SITU_E_INDEX ||
              situ_synchronize(test_device()) == SITU_E_INDEX);
  situ_error_clear();
}

/* PyTorch: NaN, as it multiplies the -infinity of the mask by the scale. */
static void causal_attention_of_scale_0(void **state) {
  (void)state;
  situ_tensor *q = test_random(SITU_SHAPE(1, 3, 2), -1, 1, false), *v = T64(SITU_SHAPE(1, 3, 1), 1, 3, 8);
  expect_close(
      situ_scaled_dot_product_attention(q, q, v, OPTIONS_AT(situ_attention, with.is_causal = true, with.scale = 0)),
      SITU_SHAPE(1, 3, 1), 1e-12, 0, 1, 2, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(batch_norm_whose_gradient_arrives_transposed),
                                      TEST(soft_margin_loss_of_large_inputs),
                                      TEST(margin_losses_of_equal_inputs),
                                      TEST(distances_with_several_largest_differences),
                                      TEST(gradients_of_norms_of_zeros_by_the_incoming_one),
                                      TEST(norms_of_negative_power_of_tiny_elements),
                                      TEST(causal_attention_of_scale_0),
                                      TEST(antialiased_to_one_column),
                                      TEST(a_dilated_window_of_padding_alone) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
