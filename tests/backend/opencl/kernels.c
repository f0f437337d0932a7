/* test-devices: opencl:0 only */
/* test-links: situ_test_shim */
/* test-sanitized: opencl */
/* Every kernel text, at three shapes that are small, odd, and larger than a group, against the cpu: what is run under Oclgrind
   too, so there are as few elements as make a difference. That none was forgotten is counted where kernels are launched.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "backend/lower/lower.h"
#include "situ/optim.h"
#include "situ/situ.h"
#include "support/opencl/shim.h"
#include "support/optim.h"
#include "support/test.h"

enum { SHAPES = 3, KEPT = 256 };
static const int64_t rows_of[SHAPES] = { 1, 5, 3 }, columns_of[SHAPES] = { 1, 3, 301 };

/* What one run on one device gives. */
typedef struct run {
  situ_device device;
  int64_t rows, columns;
  situ_tensor *result[KEPT];
  int count;
} run;

static situ_tensor *keep(run *r, situ_tensor *t) {
  assert_non_null(t);
  assert_true(r->count < KEPT);
  return r->result[r->count++] = t;
}

/* Values between 0.1 and 1.9, different for each seed; a leaf that requires a gradient. */
static situ_tensor *shaped(const run *r, situ_shape shape, int seed) {
  static float value[1 << 16];
  int64_t count = 1;
  for (int d = 0; d < shape.ndim; d++) count *= shape.dim[d];
  assert_true(count <= 1 << 16);
  for (int64_t i = 0; i < count; i++) value[i] = (float)(0.1 + (double)((i * 37 + seed * 11) % 101) * 0.018);
  situ_tensor *t = situ_from_host(value, (size_t)count * sizeof *value, shape, &(situ_options){ .device = r->device });
  return situ_requires_grad_(t, true);
}
static situ_tensor *matrix(const run *r, int seed) { return shaped(r, SITU_SHAPE(r->rows, r->columns), seed); }

static situ_tensor *integers(const run *r, int64_t count, int64_t bound) {
  int64_t value[1024];
  for (int64_t i = 0; i < count; i++) value[i] = (i * 7 + 3) % bound;
  return situ_from_host(value, (size_t)count * sizeof *value, SITU_SHAPE(count),
                        &(situ_options){ .dtype = SITU_I64, .device = r->device });
}

/* y, and the gradients of its leaves. */
static void with_gradients(run *r, situ_tensor *y, int count, situ_tensor **leaf) {
  keep(r, y);
  assert_int_equal(SITU_OK, situ_backward(situ_sum(situ_square(y), NULL), NULL));
  for (int k = 0; k < count; k++) keep(r, situ_clone(situ_grad(leaf[k]))); /* the next one is added to it */
}
#define WITH_GRADIENTS(r, y, ...)                                                               \
  with_gradients(r, y, (int)(sizeof((situ_tensor *[]){ __VA_ARGS__ }) / sizeof(situ_tensor *)), \
                 (situ_tensor *[]){ __VA_ARGS__ })

static void unary(run *r) {
  static situ_tensor *(*const smooth[])(situ_tensor *) = {
    situ_neg,    situ_abs,        situ_exp, situ_expm1, situ_log,  situ_log1p,   situ_log2, situ_sqrt, situ_rsqrt,
    situ_square, situ_reciprocal, situ_sin, situ_cos,   situ_tanh, situ_sigmoid, situ_relu, situ_silu, situ_erf
  };
  static situ_tensor *(*const stepped[])(situ_tensor *) = { situ_sign,  situ_floor, situ_ceil,  situ_round,
                                                            situ_trunc, situ_isnan, situ_isinf, situ_logical_not };
  situ_tensor *x = matrix(r, 1), *sum = situ_gelu(x, SITU_GELU_NONE);
  for (size_t k = 0; k < sizeof smooth / sizeof *smooth; k++) sum = situ_add(sum, smooth[k](x));
  sum =
      situ_add(sum, situ_add(situ_gelu(x, SITU_GELU_TANH), situ_softplus(situ_leaky_relu(situ_elu(x, 1), 0.1), 1, 20)));
  sum = situ_add(sum, situ_clamp(situ_hardtanh(situ_pow_scalar(x, 1.5), 0.2, 1.5), 0.3, 1.4));
  WITH_GRADIENTS(r, sum, x);
  situ_tensor *plain = situ_detach(x);
  for (size_t k = 0; k < sizeof stepped / sizeof *stepped; k++) keep(r, stepped[k](plain));
}

static void binary(run *r) {
  static situ_tensor *(*const smooth[])(situ_tensor *, situ_tensor *) = { situ_add, situ_sub,     situ_mul,    situ_div,
                                                                          situ_pow, situ_maximum, situ_minimum };
  static situ_tensor *(*const stepped[])(
      situ_tensor *, situ_tensor *) = { situ_fmod, situ_remainder, situ_eq, situ_lt, situ_ge, situ_logical_xor };
  situ_tensor *a = matrix(r, 1), *b = shaped(r, SITU_SHAPE(r->columns), 2), *sum = situ_add(a, b);
  for (size_t k = 0; k < sizeof smooth / sizeof *smooth; k++) sum = situ_add(sum, smooth[k](a, b));
  WITH_GRADIENTS(r, sum, a, b);
  a = situ_detach(a), b = situ_detach(b);
  for (size_t k = 0; k < sizeof stepped / sizeof *stepped; k++) keep(r, stepped[k](a, b));
  keep(r, situ_where(situ_gt(a, b), a, b));
  keep(r, situ_addcdiv(a, a, b, 0.5));
  keep(r, situ_lerp(a, b, a));
  situ_tensor *i = integers(r, r->rows * r->columns, 11);
  keep(r, situ_remainder(i, situ_add_scalar(i, 1)));
  keep(r, situ_bitwise_xor(i, situ_mul(i, i)));
}

static void copies(run *r) {
  static const situ_dtype dtypes[] = { SITU_BOOL, SITU_U8, SITU_I16, SITU_I64, SITU_F16, SITU_BF16, SITU_F64 };
  situ_tensor *x = situ_transpose(situ_detach(matrix(r, 3)), 0, 1);
  for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) keep(r, situ_contiguous(situ_to_dtype(x, dtypes[k])));
  keep(r, situ_flip(x, SITU_DIMS(0)));
}

static void creation(run *r) {
  const situ_options here = { .device = r->device };
  const situ_shape shape = SITU_SHAPE(r->rows, r->columns);
  keep(r, situ_full(shape, 1.5, &here));
  keep(r, situ_arange(0, (double)r->columns, 0.5, &here));
  keep(r, situ_linspace(-1, 1, r->columns, &here));
  keep(r, situ_rand(shape, &here));
  keep(r, situ_randn(shape, &here));
  keep(r, situ_randint(-5, 100, shape, &here));
  keep(r, situ_randperm(r->columns, &here));
  situ_tensor *x = situ_detach(matrix(r, 4));
  keep(r, situ_bernoulli(situ_mul_scalar(x, 0.5), NULL));
  keep(r, situ_tril(x, 1));
  keep(r, situ_triu(x, -1));
}

static void indices(run *r) {
  situ_tensor *x = matrix(r, 5), *source = matrix(r, 6), *at = integers(r, r->columns, r->columns);
  WITH_GRADIENTS(r, situ_index_select(x, 1, at), x);
  WITH_GRADIENTS(r, situ_index_add(situ_mul_scalar(x, 2), 1, at, source, 0.5), source);
  situ_tensor *each = situ_contiguous(situ_expand(at, SITU_SHAPE(r->rows, r->columns)));
  keep(r, situ_gather(situ_detach(x), 1, each));
  keep(r, situ_scatter_add(situ_detach(x), 1, each, situ_detach(source)));
  keep(r, situ_nonzero(situ_gt_scalar(situ_detach(x), 1)));
}

static void order(run *r) {
  situ_tensor *x = situ_detach(matrix(r, 7)), *at;
  keep(r, situ_sort(x, 1, false, &at));
  keep(r, at);
  keep(r, situ_topk(x, 1, 1, true, &at));
  keep(r, at);
  keep(r, situ_cumsum(x, 0));
  situ_tensor *factors = matrix(r, 7);
  WITH_GRADIENTS(r, situ_cumprod(factors, 1), factors);
  keep(r, situ_max_dim(x, 1, false, &at));
  keep(r, at);
  keep(r, situ_argmin(x, NULL));
}

static void reductions(run *r) {
  situ_tensor *x = matrix(r, 8);
  const situ_reduce_options ways[] = { { .dim = SITU_DIMS(0) },
                                       { .dim = SITU_DIMS(1), .keepdim = true },
                                       { .keepdim = false } };
  for (int k = 0; k < 3; k++) {
    WITH_GRADIENTS(r, situ_mean(x, &ways[k]), x);
    situ_tensor *plain = situ_detach(x);
    keep(r, situ_prod(plain, &ways[k]));
    keep(r, situ_var(plain, 0, &ways[k]));
    keep(r, situ_amax(plain, &ways[k]));
    keep(r, situ_norm(plain, 2, &ways[k]));
    keep(r, situ_logsumexp(plain, &ways[k]));
    keep(r, situ_any(situ_gt_scalar(plain, 1.5), &ways[k]));
  }
}

static void normalisations(run *r) {
  situ_tensor *z = matrix(r, 9);
  WITH_GRADIENTS(r, situ_softmax(z, 1), z);
  WITH_GRADIENTS(r, situ_log_softmax(z, 0), z);
  /* nothing but rounding is left of a row of one */
  const int64_t rows = r->rows + 1, columns = r->columns + 2;
  situ_tensor *x = shaped(r, SITU_SHAPE(rows, columns), 9), *w = shaped(r, SITU_SHAPE(columns), 1),
              *b = shaped(r, SITU_SHAPE(columns), 2);
  WITH_GRADIENTS(r, situ_layer_norm(x, SITU_SHAPE(columns), w, b, 0.1), x, w, b);
  WITH_GRADIENTS(r, situ_rms_norm(x, SITU_SHAPE(columns), w, 0.1), x, w);
  const situ_options here = { .device = r->device };
  situ_tensor *mean = situ_zeros(SITU_SHAPE(columns), &here), *var = situ_ones(SITU_SHAPE(columns), &here);
  WITH_GRADIENTS(r,
                 situ_batch_norm(x, mean, var, w, b, OPTIONS_AT(situ_batch_norm, with.training = true, with.eps = 0.1)),
                 x, w, b);
  keep(r, mean);
  keep(r, var);
}

static void matrix_products(run *r) {
  situ_tensor *a = matrix(r, 1), *b = shaped(r, SITU_SHAPE(r->columns, 7), 2), *bias = shaped(r, SITU_SHAPE(7), 3);
  WITH_GRADIENTS(r, situ_addmm(bias, a, b, NULL), a, b, bias);
  situ_tensor *batch = shaped(r, SITU_SHAPE(2, r->rows, 33), 4);
  WITH_GRADIENTS(r, situ_bmm(batch, situ_transpose(batch, 1, 2)), batch);
}

static void convolutions(run *r) {
  const int64_t side = r->rows + 3;
  situ_tensor *x = shaped(r, SITU_SHAPE(2, 4, side, side + 1), 1), *w = shaped(r, SITU_SHAPE(6, 2, 2, 3), 2),
              *b = shaped(r, SITU_SHAPE(6), 3);
  const situ_conv_options how = { .stride = SITU_DIMS(2, 1), .padding = SITU_DIMS(1), .groups = 2 };
  WITH_GRADIENTS(r, situ_conv2d(x, w, b, &how), x, w, b);
  situ_tensor *back = shaped(r, SITU_SHAPE(4, 3, 2, 2), 4);
  WITH_GRADIENTS(r, situ_conv_transpose2d(x, back, NULL, NULL), x, back);
  situ_tensor *at;
  WITH_GRADIENTS(r, situ_max_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(2), .padding = SITU_DIMS(1) }, &at),
                 x);
  keep(r, at);
  WITH_GRADIENTS(r, situ_avg_pool2d(x, &(situ_pool_options){ .kernel = SITU_DIMS(2, 3) }), x);
  WITH_GRADIENTS(r, situ_adaptive_avg_pool2d(x, SITU_DIMS(2, 3)), x);
  const situ_interpolate_options larger = { .size = SITU_DIMS(5, 9), .mode = SITU_INTERPOLATE_BICUBIC };
  WITH_GRADIENTS(r, situ_interpolate(x, &larger), x);
}

static void transforms(run *r) {
  const situ_fft_options how = { .norm = SITU_FFT_NORM_ORTHO };
  situ_tensor *x = matrix(r, 3), *prime = shaped(r, SITU_SHAPE(r->rows, 131, 2), 4);
  WITH_GRADIENTS(r, situ_fft_rfft(x, &how), x);
  WITH_GRADIENTS(r, situ_fft_fft(prime, &how), prime);
  WITH_GRADIENTS(r, situ_fft_irfft(prime, &how), prime);
}

static void losses(run *r) {
  situ_tensor *x = matrix(r, 2), *target = integers(r, r->rows, r->columns),
              *w = situ_detach(shaped(r, SITU_SHAPE(r->columns), 1));
  WITH_GRADIENTS(r, situ_cross_entropy(x, target, &(situ_cross_entropy_options){ .label_smoothing = 0.1, .weight = w }),
                 x);
  WITH_GRADIENTS(r, situ_cross_entropy(x, target, &(situ_cross_entropy_options){ .reduction = SITU_REDUCTION_NONE }),
                 x);
}

static void recurrent_layers(run *r) {
  const int64_t batch = r->rows, hidden = r->columns < 60 ? r->columns : 60;
  situ_tensor *h = shaped(r, SITU_SHAPE(batch, hidden), 1), *c = shaped(r, SITU_SHAPE(batch, hidden), 2);
  situ_tensor *gates = shaped(r, SITU_SHAPE(2, batch, 4 * hidden), 3),
              *w = shaped(r, SITU_SHAPE(4 * hidden, hidden), 4);
  WITH_GRADIENTS(r, situ_lstm_layer(gates, w, NULL, h, c, NULL), gates, w, h, c);
  situ_tensor *three = shaped(r, SITU_SHAPE(2, batch, 3 * hidden), 5),
              *v = shaped(r, SITU_SHAPE(3 * hidden, hidden), 6);
  WITH_GRADIENTS(r, situ_gru_layer(three, v, NULL, h, NULL), three, v);
}

/* With so many keys that it is not composed. */
static void attention(run *r) {
  situ_tensor *query = shaped(r, SITU_SHAPE(1, 2, r->rows, 8), 1),
              *key = shaped(r, SITU_SHAPE(1, 2, 70 + r->columns, 8), 2),
              *value = shaped(r, SITU_SHAPE(1, 2, 70 + r->columns, 8), 3);
  WITH_GRADIENTS(r, situ_scaled_dot_product_attention(query, key, value, NULL), query, key, value);
}

/* Rows of one block of each type, whose scales are 1. */
static void blocks(run *r) {
  unsigned char bytes[5 * 210];
  for (int k = 0; k < SITU_BLOCK_TYPES - 1; k++) {
    const situ_block_type type = (situ_block_type)(k + 1);
    const int64_t size = situ_block_bytes(type);
    for (int64_t i = 0; i < r->rows * size; i++) bytes[i] = (unsigned char)(i % size & 1 ? 0x3c : 7 * i);
    keep(r, situ_dequantize(situ_blocks_from_host(bytes, (size_t)(r->rows * size),
                                                  &SITU_SHAPE(r->rows, situ_block_elements(type)), type,
                                                  &(situ_options){ .device = r->device })));
  }
}

static void optimisers(run *r) {
  static optim_maker *const make[] = { situ_optim_sgd, situ_optim_adamw, situ_optim_rmsprop };
  for (int k = 0; k < 3; k++) {
    situ_tensor *p[] = { matrix(r, 1), shaped(r, SITU_SHAPE(3), 2) };
    situ_optim *o = make[k](situ_tree_of(2, p), 0.1, OPTIM_OPTIONS(make[k], { SITU_OPTIM_MOMENTUM, k == 1 ? 0 : 0.9 }));
    assert_int_equal(SITU_OK,
                     situ_backward(situ_add(situ_sum(situ_square(p[0]), NULL), situ_sum(situ_exp(p[1]), NULL)), NULL));
    for (int step = 0; step < 2; step++) assert_int_equal(SITU_OK, situ_optim_step(o));
    keep(r, situ_detach(p[0]));
    keep(r, situ_detach(p[1]));
    situ_optim_free(o);
  }
}

/* ---- the same on both ----------------------------------------------------------------------- */

static const char *const text[] = {
#define ROW(name) #name,
  SITU__TEXTS(ROW)
#undef ROW
};
static int shapes_of[SITU__TEXT_COUNT]; /* at which a text was launched, in one family after the other */

static void everywhere(void (*family)(run *)) {
  for (int shape = 0; shape < SHAPES; shape++) {
    static run cpu, device;
    run *both[] = { &cpu, &device };
    long before[SITU__TEXT_COUNT];
    for (int t = 0; t < SITU__TEXT_COUNT; t++) before[t] = shim_launches(text[t]);
    for (int k = 0; k < 2; k++) {
      *both[k] =
          (run){ .device = k ? test_device() : situ_dev("cpu"), .rows = rows_of[shape], .columns = columns_of[shape] };
      situ_manual_seed(1);
      family(both[k]);
    }
    assert_int_equal(cpu.count, device.count);
    for (int i = 0; i < cpu.count; i++)
      expect_same(situ_to_dtype(situ_to(device.result[i], situ_dev("cpu")), SITU_F64),
                  situ_to_dtype(situ_to(cpu.result[i], situ_dev("cpu")), SITU_F64), 2e-5, 2e-5);
    for (int t = 0; t < SITU__TEXT_COUNT; t++) shapes_of[t] += shim_launches(text[t]) > before[t];
  }
}

static void every_text_was_run(void **state) {
  (void)state;
  int few = 0;
  const char *kind = getenv("SITU_SHIM"); /* a processor adds up columns in another way */
  if (!kind || strcmp(kind, "gpu")) shapes_of[SITU__TEXT_columns] = SHAPES;
  for (int t = 0; t < SITU__TEXT_COUNT; t++) {
    print_message("%-12s %5ld launches, %2d shapes\n", text[t], shim_launches(text[t]), shapes_of[t]);
    few += shapes_of[t] < SHAPES;
  }
  assert_int_equal(few, 0);
}

/* A function that src/backend/opencl/builtins.cl lacks would have PoCL compile twice. */
static void every_program_was_built_once(void **state) {
  (void)state;
  assert_int_equal(shim_calls("clBuildProgram"), shim_calls("clCreateKernel"));
}

#define FAMILY(name) \
  static void test_##name(void **state) { (void)state, everywhere(name); }
/* clang-format off */
FAMILY(unary) FAMILY(binary) FAMILY(copies) FAMILY(creation) FAMILY(indices) FAMILY(order) FAMILY(reductions) FAMILY(normalisations) FAMILY(matrix_products)
FAMILY(convolutions) FAMILY(transforms) FAMILY(losses) FAMILY(recurrent_layers) FAMILY(attention) FAMILY(blocks) FAMILY(optimisers)
/* clang-format on */

/* argument: one of them only */
int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); /* texts are seen where they are compiled */
  const struct CMUnitTest tests[] = {
    TEST(test_unary),
    TEST(test_binary),
    TEST(test_copies),
    TEST(test_creation),
    TEST(test_indices),
    TEST(test_order),
    TEST(test_reductions),
    TEST(test_normalisations),
    TEST(test_matrix_products),
    TEST(test_convolutions),
    TEST(test_transforms),
    TEST(test_losses),
    TEST(test_recurrent_layers),
    TEST(test_attention),
    TEST(test_blocks),
    TEST(test_optimisers),
    TEST(every_text_was_run),
    TEST(every_program_was_built_once),
  };
  return cmocka_run_group_tests_name("backend/opencl/kernels", tests, NULL, NULL);
}
