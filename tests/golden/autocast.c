/* The dtype of each op's result outside of autocast and in it, as torch 2.15 has it: on cpu by its CPU rules, elsewhere by
   its CUDA rules (tools/golden/autocast.py). And so is each gradient its operand's.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <stdio.h>
#include <string.h>

#include "situ/amp.h"
#include "support/gold_run.h"
#include "support/test.h"

#define REDUCTION SITU_REDUCTION_MEAN
#define FUNCTIONS(_)                                                                                            \
  _(neg, situ_neg(t[0]))                                                                                        \
  _(abs, situ_abs(t[0]))                                                                                        \
  _(exp, situ_exp(t[0]))                                                                                        \
  _(expm1, situ_expm1(t[0]))                                                                                    \
  _(log, situ_log(t[0]))                                                                                        \
  _(log1p, situ_log1p(t[0]))                                                                                    \
  _(log2, situ_log2(t[0]))                                                                                      \
  _(log10, situ_log10(t[0]))                                                                                    \
  _(tan, situ_tan(t[0]))                                                                                        \
  _(asin, situ_asin(t[0]))                                                                                      \
  _(acos, situ_acos(t[0]))                                                                                      \
  _(atan, situ_atan(t[0]))                                                                                      \
  _(sinh, situ_sinh(t[0]))                                                                                      \
  _(cosh, situ_cosh(t[0]))                                                                                      \
  _(erfinv, situ_erfinv(t[0]))                                                                                  \
  _(erfc, situ_erfc(t[0]))                                                                                      \
  _(lgamma, situ_lgamma(t[0]))                                                                                  \
  _(digamma, situ_digamma(t[0]))                                                                                \
  _(mish, situ_mish(t[0]))                                                                                      \
  _(hardswish, situ_hardswish(t[0]))                                                                            \
  _(sqrt, situ_sqrt(t[0]))                                                                                      \
  _(rsqrt, situ_rsqrt(t[0]))                                                                                    \
  _(square, situ_square(t[0]))                                                                                  \
  _(reciprocal, situ_reciprocal(t[0]))                                                                          \
  _(sin, situ_sin(t[0]))                                                                                        \
  _(cos, situ_cos(t[0]))                                                                                        \
  _(erf, situ_erf(t[0]))                                                                                        \
  _(tanh, situ_tanh(t[0]))                                                                                      \
  _(sigmoid, situ_sigmoid(t[0]))                                                                                \
  _(relu, situ_relu(t[0]))                                                                                      \
  _(leaky_relu, situ_leaky_relu(t[0], 0.01))                                                                    \
  _(elu, situ_elu(t[0], 1))                                                                                     \
  _(gelu, situ_gelu(t[0], SITU_GELU_NONE))                                                                      \
  _(silu, situ_silu(t[0]))                                                                                      \
  _(softplus, situ_softplus(t[0], 1, 20))                                                                       \
  _(hardtanh, situ_hardtanh(t[0], -1, 1))                                                                       \
  _(clamp, situ_clamp(t[0], 0, 1))                                                                              \
  _(floor, situ_floor(t[0]))                                                                                    \
  _(round, situ_round(t[0]))                                                                                    \
  _(isnan, situ_isnan(t[0]))                                                                                    \
  _(add_scalar, situ_add_scalar(t[0], 1.5))                                                                     \
  _(mul_scalar, situ_mul_scalar(t[0], 1.5))                                                                     \
  _(div_scalar, situ_div_scalar(t[0], 1.5))                                                                     \
  _(pow_scalar, situ_pow_scalar(t[0], 1.5))                                                                     \
  _(scalar_pow, situ_scalar_pow(1.5, t[0]))                                                                     \
  _(nan_to_num, situ_nan_to_num(t[0], NULL))                                                                    \
  _(sum, situ_sum(t[0], NULL))                                                                                  \
  _(mean, situ_mean(t[0], NULL))                                                                                \
  _(prod, situ_prod(t[0], NULL))                                                                                \
  _(var, situ_var(t[0], 1, NULL))                                                                               \
  _(std, situ_std(t[0], 1, NULL))                                                                               \
  _(amax, situ_amax(t[0], NULL))                                                                                \
  _(norm, situ_norm(t[0], 2, NULL))                                                                             \
  _(logsumexp, situ_logsumexp(t[0], &(situ_reduce_options){ .dim = SITU_DIMS(1) }))                             \
  _(cumsum, situ_cumsum(t[0], 0))                                                                               \
  _(cumprod, situ_cumprod(t[0], 0))                                                                             \
  _(softmax, situ_softmax(t[0], 1))                                                                             \
  _(log_softmax, situ_log_softmax(t[0], 1))                                                                     \
  _(sort, situ_sort(t[0], -1, false, NULL))                                                                     \
  _(any, situ_any(t[0], NULL))                                                                                  \
  _(pad, situ_pad(t[0], SITU_SHAPE(1, 1), SITU_PAD_CONSTANT, 0))                                                \
  _(dropout, situ_dropout(t[0], 0.5, true, NULL))                                                               \
  _(clone, situ_clone(t[0]))                                                                                    \
  _(transpose, situ_transpose(t[0], 0, 1))                                                                      \
  _(max_pool2d, situ_max_pool2d(t[0], &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL))                    \
  _(avg_pool2d, situ_avg_pool2d(t[0], &(situ_pool_options){ .kernel = SITU_DIMS(2) }))                          \
  _(max_pool3d, situ_max_pool3d(t[0], &(situ_pool_options){ .kernel = SITU_DIMS(2) }, NULL))                    \
  _(max_pool3d_with_indices, situ_max_pool3d(t[0], &(situ_pool_options){ .kernel = SITU_DIMS(2) }, &at))        \
  _(avg_pool3d, situ_avg_pool3d(t[0], &(situ_pool_options){ .kernel = SITU_DIMS(2) }))                          \
  _(adaptive_avg_pool3d, situ_adaptive_avg_pool3d(t[0], SITU_DIMS(1)))                                          \
  _(adaptive_max_pool2d, situ_adaptive_max_pool2d(t[0], SITU_DIMS(1), NULL))                                    \
  _(adaptive_max_pool3d, situ_adaptive_max_pool3d(t[0], SITU_DIMS(1), NULL))                                    \
  _(lp_pool2d, situ_lp_pool2d(t[0], 2, SITU_DIMS(2), SITU_DIMS(2), false))                                      \
  _(lp_pool3d, situ_lp_pool3d(t[0], 2, SITU_DIMS(2), SITU_DIMS(2), false))                                      \
  _(max_unpool1d, situ_max_unpool1d(t[0], t[1], SITU_DIMS(2), SITU_DIMS(2), SITU_DIMS(0), SITU_DIMS(4)))        \
  _(local_response_norm, situ_local_response_norm(t[0], 2, 1e-4, 0.75, 1))                                      \
  _(local_response_norm_lines, situ_local_response_norm(t[0], 2, 1e-4, 0.75, 1))                                \
  _(grid_sample, situ_grid_sample(t[0], t[1], NULL))                                                            \
  _(affine_grid, situ_affine_grid(t[0], SITU_SHAPE(1, 1, 2, 2), false))                                         \
  _(interpolate, situ_interpolate(t[0], &(situ_interpolate_options){ .size = SITU_DIMS(3) }))                   \
  _(add, situ_add(t[0], t[1]))                                                                                  \
  _(sub, situ_sub(t[0], t[1]))                                                                                  \
  _(mul, situ_mul(t[0], t[1]))                                                                                  \
  _(div, situ_div(t[0], t[1]))                                                                                  \
  _(pow, situ_pow(t[0], t[1]))                                                                                  \
  _(atan2, situ_atan2(t[0], t[1]))                                                                              \
  _(hypot, situ_hypot(t[0], t[1]))                                                                              \
  _(logaddexp, situ_logaddexp(t[0], t[1]))                                                                      \
  _(maximum, situ_maximum(t[0], t[1]))                                                                          \
  _(eq, situ_eq(t[0], t[1]))                                                                                    \
  _(lt, situ_lt(t[0], t[1]))                                                                                    \
  _(fmod, situ_fmod(t[0], t[1]))                                                                                \
  _(where, situ_where(t[0], t[1], t[2]))                                                                        \
  _(addcmul, situ_addcmul(t[0], t[1], t[2], 1))                                                                 \
  _(addcdiv, situ_addcdiv(t[0], t[1], t[2], 1))                                                                 \
  _(lerp, situ_lerp(t[0], t[1], t[2]))                                                                          \
  _(matmul, situ_matmul(t[0], t[1]))                                                                            \
  _(matmul_vectors, situ_matmul(t[0], t[1]))                                                                    \
  _(mm, situ_mm(t[0], t[1]))                                                                                    \
  _(bmm, situ_bmm(t[0], t[1]))                                                                                  \
  _(mv, situ_mv(t[0], t[1]))                                                                                    \
  _(dot, situ_dot(t[0], t[1]))                                                                                  \
  _(outer, situ_outer(t[0], t[1]))                                                                              \
  _(addmm, situ_addmm(t[0], t[1], t[2], NULL))                                                                  \
  _(baddbmm, situ_baddbmm(t[0], t[1], t[2], NULL))                                                              \
  _(linear, situ_linear(t[0], t[1], t[2]))                                                                      \
  _(conv1d, situ_conv1d(t[0], t[1], t[2], NULL))                                                                \
  _(conv2d, situ_conv2d(t[0], t[1], t[2], NULL))                                                                \
  _(conv_transpose1d, situ_conv_transpose1d(t[0], t[1], t[2], NULL))                                            \
  _(conv_transpose2d, situ_conv_transpose2d(t[0], t[1], t[2], NULL))                                            \
  _(conv3d, situ_conv3d(t[0], t[1], t[2], NULL))                                                                \
  _(conv_transpose3d, situ_conv_transpose3d(t[0], t[1], t[2], NULL))                                            \
  _(attention, situ_scaled_dot_product_attention(t[0], t[1], t[2], NULL))                                       \
  _(layer_norm, situ_layer_norm(t[0], SITU_SHAPE(2), t[1], t[2], 1e-5))                                         \
  _(group_norm, situ_group_norm(t[0], 1, t[1], t[2], 1e-5))                                                     \
  _(batch_norm, situ_batch_norm(t[0], t[1], t[2], t[3], t[4], NULL))                                            \
  _(mse_loss, situ_mse_loss(t[0], t[1], REDUCTION))                                                             \
  _(l1_loss, situ_l1_loss(t[0], t[1], REDUCTION))                                                               \
  _(smooth_l1_loss, situ_smooth_l1_loss(t[0], t[1], 1, REDUCTION))                                              \
  _(kl_div, situ_kl_div(t[0], t[1], SITU_KL_MEAN, false))                                                       \
  _(binary_cross_entropy_with_logits, situ_binary_cross_entropy_with_logits(t[0], t[1], NULL, NULL, REDUCTION)) \
  _(cross_entropy, situ_cross_entropy(t[0], t[1], NULL))                                                        \
  _(nll_loss, situ_nll_loss(t[0], t[1], NULL))                                                                  \
  _(cross_entropy_weight, situ_cross_entropy(t[0], t[1], &(situ_cross_entropy_options){ .weight = t[2] }))      \
  _(cross_entropy_probabilities, situ_cross_entropy(t[0], t[1], NULL))                                          \
  _(cat, situ_cat(t, 2, 0))                                                                                     \
  _(stack, situ_stack(t, 2, 0))                                                                                 \
  _(scatter_add, situ_scatter_add(t[0], 0, t[1], t[2]))                                                         \
  _(index_select, situ_index_select(t[0], 0, t[1]))                                                             \
  _(embedding, situ_embedding(t[0], t[1], NULL))

typedef struct function {
  const char *name;
  situ_tensor *(*call)(situ_tensor **t);
} function;
#define DEFINE(name, expression)                     \
  static situ_tensor *call_##name(situ_tensor **t) { \
    situ_tensor *at;                                 \
    return (void)at, expression;                     \
  }
FUNCTIONS(DEFINE)
#define LIST(name, expression) { #name, call_##name },
static const function functions[] = { FUNCTIONS(LIST) };

/* A row of the table. */
typedef struct row {
  char name[48], operands[8], dtypes[8], outside[8], on_cpu[8], elsewhere[8];
} row;

/* What situ does otherwise than torch 2.15, outside of autocast: it refuses what torch casts there by itself. */
static bool known_outside(const row *r) { return strcmp(r->dtypes, "mixed") == 0 && strstr(r->name, "_norm") != NULL; }

static situ_tensor *operand(char kind, situ_dtype dtype) {
  const situ_options o = { .dtype = dtype, .device = test_device() },
                     i64 = { .dtype = SITU_I64, .device = test_device() };
  switch (kind) {
  case 'i': return situ_zeros(SITU_SHAPE(2), &i64);
  case 'j': return situ_zeros(SITU_SHAPE(2, 2), &i64);
  case 'b': return situ_to_dtype(situ_ones(SITU_SHAPE(2, 2), &i64), SITU_BOOL);
  case 'v': return situ_full(SITU_SHAPE(2), 0.5, &o);
  case 'n': return situ_full(SITU_SHAPE(1, 2, 2, 2), 0.5, &o);
  case 'w': return situ_full(SITU_SHAPE(2, 2, 1, 1), 0.5, &o);
  case 'l': return situ_full(SITU_SHAPE(1, 2, 2), 0.5, &o);
  case 'g': return situ_full(SITU_SHAPE(1, 2, 2, 2), 0.5, &o);
  case 'a': return situ_full(SITU_SHAPE(1, 2, 3), 0.5, &o);
  case 'x': return situ_full(SITU_SHAPE(1, 1, 1, 1, 1), 0.5, &o);
  case 'z': return situ_mul_scalar(situ_expand(situ_arange(0, 2, 1, &i64), SITU_SHAPE(1, 2, 2)), 2);
  case 'u': return situ_full(SITU_SHAPE(1), 0.5, &o);
  case 'k': return situ_full(SITU_SHAPE(2, 2, 1), 0.5, &o);
  default: return situ_full(SITU_SHAPE(2, 2), 0.5, &o);
  }
}

/* Running statistics and the weights of classes are no parameters. */
static bool is_differentiated(const row *r, int i) {
  if (!strcmp(r->name, "batch_norm")) return i != 1 && i != 2;
  return strcmp(r->name, "cross_entropy_weight") || i == 0;
}

static int make(const row *r, situ_tensor **t) {
  int count = 0, floating = 0;
  for (const char *k = r->operands; *k; k++) {
    const bool whole = strchr("ijbz", *k),
               low = !strcmp(r->dtypes, "bf16") || (!strcmp(r->dtypes, "mixed") && !floating);
    t[count] = operand(*k, low ? SITU_BF16 : SITU_F32);
    assert_non_null(t[count]);
    if (!whole && is_differentiated(r, count)) situ_requires_grad_(t[count], true);
    floating += !whole;
    count++;
  }
  return count;
}

/* y is as torch has it, and what comes back has the dtypes of what it is for. */
static void check(const row *r, const char *where, const char *want, situ_tensor *y, situ_tensor **t, int count) {
  if (!strcmp(want, "-")) return; /* torch refuses it; we may not */
  if (!y) fail_msg("%s %s %s: %s", r->name, r->dtypes, where, situ_error_message());
  if (strcmp(situ_dtype_name(situ_dtype_of(y)), want))
    fail_msg("%s %s %s: %s, torch has %s", r->name, r->dtypes, where, situ_dtype_name(situ_dtype_of(y)), want);
  if (!situ_requires_grad(y)) return;
  if (situ_backward(situ_sum(y, NULL), NULL) != SITU_OK)
    fail_msg("%s %s %s: %s", r->name, r->dtypes, where, situ_error_message());
  for (int i = 0; i < count; i++) {
    if (!situ_requires_grad(t[i])) continue;
    if (!situ_grad(t[i]) || situ_dtype_of(situ_grad(t[i])) != situ_dtype_of(t[i]))
      fail_msg("%s %s %s: operand %d has no gradient of its dtype", r->name, r->dtypes, where, i);
  }
}

static void check_row(const row *r, const function *f) {
  situ_scope s;
  situ_setting before;
  situ_tensor *t[8];
  situ_scope_begin(&s);
  int count = make(r, t);
  situ_tensor *y = f->call(t);
  if (!known_outside(r)) check(r, "outside", r->outside, y, t, count);
  situ_error_clear();
  count = make(r, t);
  assert_int_equal(situ_autocast_begin(&before, test_device(), &(situ_autocast_options){ .dtype = SITU_BF16 }),
                   SITU_OK);
  y = f->call(t);
  situ_autocast_end(&before);
  check(r, "in autocast", test_device().kind == SITU_CPU ? r->on_cpu : r->elsewhere, y, t, count);
  situ_error_clear();
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

static void every_result_has_torchs_dtype(void **state) {
  (void)state;
  char path[1000], line[200];
  FILE *file = fopen(gold_data("autocast.txt", path, sizeof path), "r");
  assert_non_null(file);
  int rows = 0;
  bool used[sizeof functions / sizeof *functions] = { false };
  while (fgets(line, sizeof line, file)) {
    row r;
    if (*line == '#') continue;
    assert_int_equal(
        sscanf(line, "%47s %7s %7[^:]: %7s %7s %7s", r.name, r.operands, r.dtypes, r.outside, r.on_cpu, r.elsewhere),
        6);
    size_t i = 0;
    while (i < sizeof functions / sizeof *functions && strcmp(functions[i].name, r.name)) i++;
    if (i == sizeof functions / sizeof *functions) fail_msg("no call for %s", r.name);
    used[i] = true;
    check_row(&r, &functions[i]);
    rows++;
  }
  fclose(file);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (!used[i]) fail_msg("no row for %s", functions[i].name);
  assert_true(rows > 200);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_result_has_torchs_dtype) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
