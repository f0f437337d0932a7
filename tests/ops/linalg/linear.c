/* Linear layers with an activation: values, what they are composed of, gradients, refusals.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "situ/sys/plain.h"
#include "support/test.h"

enum { ACTIVATIONS = SITU_ACTIVATION_SILU + 1 }; /* NONE among them */

static situ_tensor *composed(situ_tensor *x, situ_tensor *w, situ_tensor *b, situ_activation activation) {
  return test_activated(situ_linear(x, w, b), activation);
}

static void values(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(2, 3), 1, 2, 3, -1, 0, 1), *w = T32(SITU_SHAPE(2, 3), 1, 0, 1, 0, -1, 0),
              *b = T32(SITU_SHAPE(2), 1, 0.5);
  expect_exact(situ_linear_activation(x, w, b, SITU_ACTIVATION_RELU), SITU_SHAPE(2, 2), 5, 0, 1, 0.5);
  expect_exact(situ_linear_activation(x, w, NULL, SITU_ACTIVATION_RELU), SITU_SHAPE(2, 2), 4, 0, 0, 0);
  expect_exact(situ_linear_activation(x, w, b, SITU_ACTIVATION_NONE), SITU_SHAPE(2, 2), 5, -1.5, 1, 0.5);
  expect_values(situ_linear_activation(x, w, b, SITU_ACTIVATION_GELU_TANH), SITU_SHAPE(2, 2), 4.99999977, -0.10042842,
                0.84119199, 0.34571401);
  expect_values(situ_linear_activation(x, w, b, SITU_ACTIVATION_GELU), SITU_SHAPE(2, 2), 4.99999857, -0.10021080,
                0.84134475, 0.34573123);
  expect_values(situ_linear_activation(x, w, b, SITU_ACTIVATION_SILU), SITU_SHAPE(2, 2), 4.96653575, -0.27363864,
                0.73105858, 0.31122967);
  expect_exact(situ_linear_activation(situ_select(x, 0, 0), w, b, SITU_ACTIVATION_RELU), SITU_SHAPE(2), 5, 0);
  expect_exact(situ_linear_activation(T32(SITU_SHAPE(1, 3), NAN, 0, 0), w, NULL, SITU_ACTIVATION_RELU),
               SITU_SHAPE(1, 2), NAN, NAN);
}

/* Widths of which a library takes only the one, inputs of any rank, strided, empty. */
static void as_composed(void **state) {
  (void)state;
  const situ_shape shapes[] = { SITU_SHAPE(4, 8), SITU_SHAPE(2, 3, 8), SITU_SHAPE(8), SITU_SHAPE(0, 8) };
  const situ_dtype dtypes[] = { SITU_F16, SITU_BF16, SITU_F32, SITU_F64 };
  for (int d = 0; d < 4; d++)
    for (int wide = 0; wide < 2; wide++)
      for (int s = 0; s < 4; s++)
        for (int k = SITU_ACTIVATION_RELU; k < ACTIVATIONS; k++) {
          const situ_activation activation = (situ_activation)k;
          const int64_t out = wide ? 16 : 5;
          const double near = dtypes[d] == SITU_F16 ? 2e-3 : dtypes[d] == SITU_BF16 ? 1.6e-2 : 1.3e-6;
          situ_tensor *x = situ_to_dtype(test_random(shapes[s], -1, 1, false), dtypes[d]),
                      *w = situ_to_dtype(test_random(SITU_SHAPE(out, 8), -1, 1, false), dtypes[d]),
                      *b = situ_to_dtype(test_random(SITU_SHAPE(out), -1, 1, false), dtypes[d]);
          expect_same(situ_linear_activation(x, w, b, activation), composed(x, w, b, activation), near, near);
          if (situ_dim(x) != 3) continue;
          situ_tensor *turned = situ_transpose(x, 0, 1);
          expect_same(situ_linear_activation(turned, w, NULL, activation), composed(turned, w, NULL, activation), near,
                      near);
        }
}

static situ_tensor *f_activation(situ_tensor *const *in, void *activation) {
  return situ_linear_activation(in[0], in[1], in[2], *(situ_activation *)activation);
}
static situ_tensor *f_bare(situ_tensor *const *in, void *activation) {
  return situ_linear_activation(in[0], in[1], NULL, *(situ_activation *)activation);
}

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static void gradients(void **state) {
  (void)state;
  for (int k = SITU_ACTIVATION_RELU; k < ACTIVATIONS; k++) {
    situ_activation activation = (situ_activation)k;
    gradcheck(f_activation, &activation, R(4, 3), R(5, 3), R(5));
    gradcheck(f_activation, &activation, R(2, 3, 4), R(8, 4), R(8));
    gradcheck(f_activation, &activation, R(3), R(2, 3), R(2));
    gradcheck(f_bare, &activation, R(4, 3), R(8, 3));
  }
}

/* The same gradients as those of what it is composed of, in each dtype; linear's own among them. */
static void gradients_as_composed(void **state) {
  (void)state;
  const situ_dtype dtypes[] = { SITU_BF16, SITU_F32 };
  for (int d = 0; d < 2; d++)
    for (int k = 0; k < ACTIVATIONS; k++) {
      const situ_activation activation = (situ_activation)k;
      const double near = dtypes[d] == SITU_BF16 ? 3e-2 : 1e-5;
      situ_tensor *leaf[2][3];
      for (int way = 0; way < 2; way++) {
        const situ_shape shape[] = { SITU_SHAPE(4, 8), SITU_SHAPE(16, 8), SITU_SHAPE(16) };
        for (int i = 0; i < 3; i++) {
          leaf[way][i] =
              way ? situ_detach(situ_clone(leaf[0][i])) : situ_to_dtype(test_random(shape[i], -1, 1, false), dtypes[d]);
          leaf[way][i] = situ_requires_grad_(leaf[way][i], true);
        }
        situ_tensor *const *t = leaf[way];
        situ_tensor *y =
            way ? composed(t[0], t[1], t[2], activation) : situ_linear_activation(t[0], t[1], t[2], activation);
        assert_int_equal(situ_backward(situ_sum(situ_square(y), NULL), NULL), SITU_OK);
      }
      for (int i = 0; i < 3; i++) {
        expect_same(situ_grad(leaf[0][i]), situ_grad(leaf[1][i]), near, near * 8);
        for (int way = 0; way < 2; way++) assert_int_equal(situ_set_grad(leaf[way][i], NULL), SITU_OK);
      }
    }
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(1, 2), 1, 2), *w = T32(SITU_SHAPE(1, 2), 1, 2), *v = T32(SITU_SHAPE(3), 1, 2, 3);
  expect_refused(situ_linear_activation(x, w, NULL, (situ_activation)ACTIVATIONS), SITU_E_ARG, "linear_activation",
                 "activation is 5");
  expect_refused(situ_linear_activation(x, v, NULL, SITU_ACTIVATION_RELU), SITU_E_SHAPE, "linear_activation", "weight");
  expect_refused(situ_linear_activation(x, w, v, SITU_ACTIVATION_RELU), SITU_E_SHAPE, "linear_activation",
                 "bias is [3]");
  situ_tensor *whole = TI64(SITU_SHAPE(1, 2), 1, 2);
  expect_refused(situ_linear_activation(whole, whole, NULL, SITU_ACTIVATION_RELU), SITU_E_DTYPE, "linear_activation",
                 "");
}

/* ---- weights that are laid out before ---- */

/* For the rows that it was laid out for, more and fewer; and whatever is in it. */
static void weights_laid_out_before(void **state) {
  static const int64_t shape[][3] = { { 128, 768, 96 }, { 200, 100, 130 }, { 96, 1100, 256 }, { 24, 512, 512 } };
  static const double scale[] = { 1, 0x1p-115, INFINITY };
  (void)state;
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
    for (size_t k = 0; k < sizeof scale / sizeof *scale; k++)
      for (int64_t rows = 1; rows <= 400; rows = 3 * rows + 5) {
        situ_scope scope;
        situ_scope_begin_no_grad(&scope);
        situ_tensor *factor, *w = situ_mul_scalar(test_random_f32(SITU_SHAPE(shape[i][2], shape[i][1])), scale[k]);
        situ_tensor *x = test_random_f32(SITU_SHAPE(1, rows, shape[i][1])),
                    *b = test_random_f32(SITU_SHAPE(shape[i][2]));
        assert_true(situ_linear_lay_out(w, shape[i][0], &factor));
        if (!test_same_bits(situ_linear_by(x, w, rows % 2 ? b : NULL, factor), situ_linear(x, w, rows % 2 ? b : NULL)))
          fail_msg("shape %zu, weights times %g, %d rows", i, scale[k], (int)rows);
        assert_int_equal(situ_scope_end(&scope), SITU_OK);
      }
}

/* Nothing is laid out that products of as many rows would not read: they read other panels where these are written. */
static void what_is_laid_out_is_used(void **state) {
  static const int64_t shape[][2] = { { 768, 96 }, { 100, 130 }, { 1100, 256 }, { 512, 512 }, { 300, 65 } };
  enum { HEAD = 64 };
  (void)state;
  for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
    for (int64_t rows = 8; rows <= 200; rows = rows * 3 / 2)
      for (int across = 0; across < 2; across++) {
        situ_scope scope;
        situ_scope_begin_no_grad(&scope);
        const int64_t in = shape[i][0], out = shape[i][1];
        situ_tensor *factor, *x = test_random_f32(SITU_SHAPE(rows, in)), *w = test_random_f32(SITU_SHAPE(out, in));
        if (across) w = situ_transpose(test_random_f32(SITU_SHAPE(in, out)), 0, 1);
        assert_true(situ_linear_lay_out(w, rows, &factor));
        if (factor) {
          situ_tensor *y = situ_linear_by(x, w, NULL, factor);
          situ_zero_(situ_narrow(factor, 0, HEAD, situ_numel(factor) - HEAD));
          if (test_same_bits(situ_linear_by(x, w, NULL, factor), y))
            fail_msg("[%d, %d] for %d rows, %s: is not used", (int)out, (int)in, (int)rows,
                     across ? "across" : "plain");
        }
        assert_int_equal(situ_scope_end(&scope), SITU_OK);
      }
}

/* What was made of other values is used where ops compute values alone, and nowhere else. */
static void laid_out_weights_and_gradients(void **state) {
  situ_tensor *factor, *x = test_random_f32(SITU_SHAPE(96, 256)), *w = test_random_f32(SITU_SHAPE(256, 256)),
                       *other = situ_mul_scalar(w, 2);
  situ_scope scope;
  (void)state;
  assert_true(situ_linear_lay_out(w, 96, &factor));
  situ_requires_grad_(other, true);
  situ_tensor *y = situ_linear_by(x, other, NULL, factor);
  assert_true(test_same_bits(y, situ_linear(x, other, NULL)));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  assert_non_null(situ_grad(other));
  situ_scope_begin_no_grad(&scope);
  y = situ_linear_by(x, other, NULL, factor);
  assert_true(test_same_bits(y, situ_linear(x, factor ? w : other, NULL)));
  expect_refused(situ_linear_by(x, w, NULL, x), SITU_E_ARG, "linear_by", "packed");
  expect_refused(situ_linear_by(x, NULL, NULL, x), SITU_E_ARG, "linear_by", "weight");
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values),
                                      TEST(as_composed),
                                      TEST(gradients),
                                      TEST(gradients_as_composed),
                                      TEST(refusals),
                                      TEST(weights_laid_out_before),
                                      TEST(what_is_laid_out_is_used),
                                      TEST(laid_out_weights_and_gradients) };
  return cmocka_run_group_tests_name("ops/linalg/linear", tests, NULL, NULL);
}
