/* Gradients of gradients of every op of the table: those that create_graph records are differentiated again, with respect to
   every operand and to the incoming gradient, and compared with central differences of the first gradient, which the op's own
   kernels give. The first gradients of both ways must be equal. */
/* test-devices: cpu sim:0 opencl:0 */
/* test-slow: opencl:0 opencl:1 cuda:0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/domains.h"

enum { LEAVES = PARITY_OPERANDS + 2, MOST = 512 };

/* Operands, and the weights of the results: everything that a first gradient depends on. */
typedef struct setting {
  const parity_row *row;
  int operands, leaves;
  situ_tensor *leaf[LEAVES];      /* f64 leaves that require a gradient, and constants; weights at the end */
  situ_tensor *direction[LEAVES]; /* of the second derivative */
  int wrong;
} setting;

/* The sum of the results' products with their weights; NULL if nothing is differentiable. */
static situ_tensor *loss(setting *s) {
  situ_tensor *out[2] = { NULL }, *sum = NULL, *copy[PARITY_OPERANDS];
  situ_manual_seed(3);
  for (int i = 0; i < s->operands; i++) /* what a call writes to its operands must not stay */
    copy[i] = situ_dtype_is_floating(situ_dtype_of(s->leaf[i])) ? situ_clone(s->leaf[i]) : s->leaf[i];
  out[0] = s->row->call(copy, &out[1]);
  for (int k = 0; k < 2; k++) {
    if (!out[k] || !situ_requires_grad(out[k]) || situ_dtype_of(out[k]) != SITU_F64) continue;
    const int at = s->operands + k;
    if (!s->leaf[at]) {
      situ_tensor *weight = situ_to(test_random(situ_shape_of(out[k]), 0.5, 1.5, false), situ_device_of(out[k]));
      s->leaf[at] = situ_retain(situ_requires_grad_(weight, true));
      s->leaves = at + 1;
    }
    situ_tensor *part = situ_sum(situ_mul(out[k], s->leaf[at]), NULL);
    sum = sum ? situ_add(sum, part) : part;
  }
  return sum;
}

static int listed(const setting *s, situ_tensor **leaf, int *which) {
  int count = 0;
  for (int i = 0; i < s->leaves; i++)
    if (s->leaf[i] && situ_requires_grad(s->leaf[i])) {
      which[count] = i;
      leaf[count++] = s->leaf[i];
    }
  return count;
}

/* The first gradients of the operands, times the directions, summed. first: what they are, if given. */
static situ_tensor *slope(setting *s, bool create_graph, situ_tensor **first) {
  situ_tensor *y = loss(s), *leaf[LEAVES], *grad[LEAVES], *sum = NULL;
  int which[LEAVES];
  const int count = listed(s, leaf, which);
  if (!y) return NULL;
  if (situ_autograd_grad(y, count, leaf, grad, &(situ_backward_options){ .create_graph = create_graph }) != SITU_OK)
    return NULL;
  for (int k = 0; k < count; k++) {
    const int i = which[k];
    if (first) first[i] = grad[k];
    if (!grad[k] || i >= s->operands) continue;
    if (!s->direction[i]) s->direction[i] = situ_retain(test_random(situ_shape_of(grad[k]), 0.5, 1.5, false));
    situ_tensor *part = situ_sum(situ_mul(create_graph ? grad[k] : situ_detach(grad[k]), s->direction[i]), NULL);
    sum = sum ? situ_add(sum, part) : part;
  }
  return sum;
}

static double slope_at(setting *s) {
  situ_scope scope;
  double value = NAN;
  situ_scope_begin(&scope);
  situ_tensor *sum = slope(s, false, NULL);
  if (sum) SITU_IGNORE(situ_item(sum, &value));
  if (situ_scope_end(&scope) != SITU_OK) fail_msg("%s: %s", s->row->op, situ_error_message());
  return value;
}

static void write_leaf(situ_tensor *t, const double *values) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  if (situ_copy_from_host(t, values, (size_t)situ_numel(t) * sizeof *values) != SITU_OK)
    fail_msg("%s", situ_error_message());
  SITU_IGNORE(situ_scope_end(&scope));
}

/* The difference quotient; *noise: what the rounding of the slopes may change of it. */
static double difference(setting *s, situ_tensor *leaf, double *values, int64_t at, double step, double *noise) {
  const double keep = values[at];
  double side[2];
  for (int k = 0; k < 2; k++) {
    values[at] = keep + (k ? -step : step);
    write_leaf(leaf, values);
    side[k] = slope_at(s);
  }
  values[at] = keep;
  write_leaf(leaf, values);
  *noise = 1e-14 * (fabs(side[0]) + fabs(side[1])) / step;
  return (side[0] - side[1]) / (2 * step);
}

/* Compares one leaf's second gradient with differences; returns the number of elements compared. */
static int compare_leaf(setting *s, int i, situ_tensor *second) {
  situ_tensor *leaf = s->leaf[i];
  const int64_t count = situ_numel(leaf);
  double values[MOST], got[MOST] = { 0 };
  int compared = 0;
  assert_true(count <= MOST);
  test_read(leaf, values);
  if (second) test_read(second, got);
  const int64_t stride = count > 12 ? count / 8 : 1; /* some elements of large operands */
  for (int64_t e = 0; e < count; e += stride) {
    double noise;
    const double far = difference(s, leaf, values, e, 2e-5, &noise),
                 near = difference(s, leaf, values, e, 1e-5, &noise);
    const double slack = 2e-5 + 2e-4 * fabs(near) + noise;
    if (!isfinite(near) || fabs(near - far) > slack) continue; /* a kink lies between */
    compared++;
    if (fabs(got[e] - near) <= slack) continue;
    print_error("%s, operands %s: second derivative by leaf %d at %lld is %.10g, differences say %.10g\n", s->row->op,
                s->row->operands, i, (long long)e, got[e], near);
    s->wrong++;
    break;
  }
  return compared;
}

typedef enum outcome { CONSTANT, REFUSED, COMPARED } outcome;

static void same_first(setting *s, situ_tensor *const *a, situ_tensor *const *b) {
  for (int i = 0; i < s->leaves; i++) {
    if (!a[i] != !b[i]) {
      print_error("%s: leaf %d has a first derivative in one way only\n", s->row->op, i);
      s->wrong++;
    }
    if (!a[i] || !b[i]) continue;
    double x[MOST], y[MOST], most = 0;
    test_read(a[i], x);
    test_read(b[i], y);
    for (int64_t e = 0; e < situ_numel(a[i]); e++) most = fmax(most, isfinite(y[e]) ? fabs(y[e]) : 0);
    for (int64_t e = 0; e < situ_numel(a[i]); e++) {
      if ((isnan(x[e]) && isnan(y[e])) || x[e] == y[e] || fabs(x[e] - y[e]) <= 1e-12 + 1e-11 * most) continue;
      print_error("%s, operands %s: first derivative by leaf %d at %lld is %.17g with create_graph, %.17g without\n",
                  s->row->op, s->row->operands, i, (long long)e, x[e], y[e]);
      s->wrong++;
      break;
    }
  }
}

static outcome check(setting *s, int *compared, char *why) {
  situ_tensor *first[LEAVES] = { NULL }, *plain[LEAVES] = { NULL }, *leaf[LEAVES], *second[LEAVES] = { NULL };
  int which[LEAVES];
  if (!loss(s)) return situ_error() == SITU_OK ? CONSTANT : REFUSED;
  situ_tensor *sum = slope(s, true, first);
  if (!sum && situ_error() == SITU_E_UNSUPPORTED) {
    snprintf(why, 200, "%s", situ_error_message());
    return REFUSED;
  }
  if (situ_error() != SITU_OK) fail_msg("%s: %s", s->row->op, situ_error_message());
  if (!sum) return CONSTANT;
  const int count = listed(s, leaf, which);
  if (situ_requires_grad(sum) && situ_autograd_grad(sum, count, leaf, second, NULL) != SITU_OK) {
    if (situ_error() != SITU_E_UNSUPPORTED) fail_msg("%s: %s", s->row->op, situ_error_message());
    snprintf(why, 200, "%s", situ_error_message());
    return REFUSED;
  }
  if (!slope(s, false, plain)) fail_msg("%s: %s", s->row->op, situ_error_message());
  same_first(s, first, plain);
  for (int k = 0; k < count; k++) *compared += compare_leaf(s, which[k], second[k]);
  return COMPARED;
}

/* One call with operands from one domain. Returns false after printing what is wrong. */
static bool check_domain(const parity_row *row, const struct domain *d, outcome *most, int *compared) {
  setting s = { .row = row };
  char why[200] = "";
  situ_scope scope;
  situ_scope_begin(&scope);
  for (; row->operands[s.operands]; s.operands++)
    s.leaf[s.operands] = domain_operand(row->operands[s.operands], d, true);
  s.leaves = s.operands;
  const outcome o = check(&s, compared, why);
  situ_error_clear();
  for (int i = s.operands; i < s.leaves; i++) situ_drop(&s.leaf[i]);
  for (int i = 0; i < LEAVES; i++) situ_drop(&s.direction[i]);
  SITU_IGNORE(situ_scope_end(&scope));
  situ_error_clear();
  if (o > *most) *most = o;
  if (o == REFUSED) print_error("%s is refused: %s\n", row->op, why);
  return o != REFUSED && !s.wrong;
}

static void check_rows(const parity_row *rows, size_t count) {
  int agree = 0, constant = 0, bad = 0;
  situ_device_properties p;
  assert_int_equal(situ_device_info(test_device(), &p), SITU_OK);
  if (!(p.dtypes >> SITU_F64 & 1)) skip(); /* differences of f32 are too coarse */
  for (size_t r = 0; r < count; r++) {
    int compared = 0;
    outcome most = CONSTANT;
    if (rows[r].backward == NO_GRAD || domain_is_missing(&rows[r])) continue;
    for (size_t d = 0; d < DOMAINS; d++) bad += !check_domain(&rows[r], &domains[d], &most, &compared);
    agree += most == COMPARED;
    constant += most == CONSTANT;
    if (most == COMPARED && !compared) {
      print_error("%s: nothing was compared\n", rows[r].op);
      bad++;
    }
  }
  print_message("second derivatives: %d calls agree, %d have a constant gradient\n", agree, constant);
  assert_int_equal(bad, 0);
}

static void every_op(void **state) {
  (void)state;
  check_rows(parity_rows, parity_row_count);
}

/* ---- what the table does not try: other options of ops whose second derivatives are written by hand ---- */

/* The middle row of the queries sees no key. */
static situ_tensor *blind(situ_tensor *like) {
  situ_tensor *mask =
      situ_ones(SITU_SHAPE(3, 3), &(situ_options){ .dtype = SITU_BOOL, .device = situ_device_of(like) });
  return situ_fill_(situ_select(mask, 0, 1), 0) ? mask : NULL;
}
static situ_tensor *zero_at(situ_tensor *x, int64_t column) {
  situ_tensor *copy = situ_clone(x);
  return situ_fill_(situ_select(copy, -1, column), 0) ? copy : NULL;
}
/* Half of a class each: one is ignored. */
static const situ_cross_entropy_options each = { .reduction = SITU_REDUCTION_NONE,
                                                 .has_ignore_index = true,
                                                 .ignore_index = 1 },
                                        total = { .reduction = SITU_REDUCTION_SUM, .label_smoothing = 0.2 };

#define OPTIONS(_)                                                                                                    \
  _(prod_of_zeros, "x", situ_prod(zero_at(t[0], 1), &(situ_reduce_options){ .dim = SITU_DIMS(1, 2) }))                \
  _(prod_of_all, "x", situ_prod(t[0], NULL))                                                                          \
  _(cumprod_of_zeros, "x", situ_cumprod(zero_at(t[0], 2), -1))                                                        \
  _(pow_2, "x", situ_pow_scalar(t[0], 2))                                                                             \
  _(pow_half, "x", situ_pow_scalar(t[0], 0.5))                                                                        \
  _(pow_1, "x", situ_pow_scalar(t[0], 1))                                                                             \
  _(celu, "x", situ_celu(t[0], 0.7))                                                                                  \
  _(softplus, "x", situ_softplus(t[0], 1, 1.5))                                                                       \
  _(norm_3, "x", situ_norm(t[0], 3, NULL))                                                                            \
  _(cross_entropy_each, "rt", situ_cross_entropy(t[0], t[1], &each))                                                  \
  _(cross_entropy_sum, "rt", situ_cross_entropy(t[0], t[1], &total))                                                  \
  _(nll_mean, "rt", situ_nll_loss(t[0], t[1], NULL))                                                                  \
  _(layer_norm_plain, "m", situ_layer_norm(t[0], SITU_SHAPE(3, 4), NULL, NULL, 1e-5))                                 \
  _(rms_norm_plain, "m", situ_rms_norm(t[0], SITU_SHAPE(4), NULL, SITU_NONE))                                         \
  _(batch_norm_fixed, "mUUuu",                                                                                        \
    situ_batch_norm(t[0], t[1], situ_add_scalar(situ_square(t[2]), 0.5), t[3], t[4],                                  \
                    OPTIONS_AT(situ_batch_norm, with.training = false)))                                              \
  _(attention_bool, "mmm",                                                                                            \
    situ_scaled_dot_product_attention(t[0], t[1], t[2], OPTIONS_AT(situ_attention, with.attn_mask = blind(t[0]))))    \
  _(attention_bias, "mmma",                                                                                           \
    situ_scaled_dot_product_attention(t[0], t[1], t[2],                                                               \
                                      OPTIONS_AT(situ_attention, with.attn_mask = situ_narrow(t[3], 1, 0, 3))))       \
  _(conv_groups, "gG",                                                                                                \
    situ_conv2d(t[0], situ_narrow(situ_reshape(t[1], SITU_SHAPE(-1, 1, 2, 2)), 0, 0, 6), NULL,                        \
                &(situ_conv_options){ .groups = 3, .dilation = SITU_DIMS(2), .padding = SITU_DIMS(2) }))              \
  _(avg_pool, "g",                                                                                                    \
    situ_avg_pool2d(t[0], &(situ_pool_options){ .kernel = SITU_DIMS(3), .stride = SITU_DIMS(2), .ceil_mode = true })) \
  _(linear_relu, "mwe", situ_linear_activation(t[0], t[1], t[2], SITU_ACTIVATION_RELU))                               \
  _(linear_gelu, "mwe", situ_linear_activation(t[0], t[1], t[2], SITU_ACTIVATION_GELU))                               \
  _(linear_silu, "mwe", situ_linear_activation(t[0], t[1], t[2], SITU_ACTIVATION_SILU))                               \
  _(scatter_mean, "rjr", situ_scatter_reduce(t[0], 0, t[1], t[2], SITU_SCATTER_MEAN, false))                          \
  _(scatter_most, "rjr", situ_scatter_reduce(t[0], 0, t[1], t[2], SITU_SCATTER_AMAX, true))                           \
  _(rnn_relu, "mhr", situ_rnn_layer(t[0], t[1], t[2], &(situ_recurrent_options){ .relu = true, .reverse = true }))    \
  _(lstm_projected, "Gmh", lstm_projected(t))                                                                         \
  _(gru_bias, "JLr", situ_gru_layer(t[0], t[1], situ_reshape(situ_narrow(t[1], 1, 0, 1), SITU_SHAPE(-1)), t[2], NULL))

/* weight_hh [16, 2], weight_hr [2, 4], of pieces of other operands. */
static situ_tensor *lstm_projected(situ_tensor **t) {
  situ_tensor *flat = situ_reshape(t[0], SITU_SHAPE(-1)), *h = situ_narrow(situ_select(t[1], 0, 0), 1, 0, 2);
  return situ_lstm_layer(t[0], situ_reshape(situ_narrow(flat, 0, 0, 32), SITU_SHAPE(16, 2)), situ_narrow(t[2], 0, 0, 2),
                         h, situ_select(t[1], 0, 1), NULL);
}
#define DEFINE(name, operands, expression)                               \
  static situ_tensor *call_##name(situ_tensor **t, situ_tensor **also) { \
    (void)also;                                                          \
    return expression;                                                   \
  }
OPTIONS(DEFINE)

static void other_options(void **state) {
  (void)state;
#define LIST(name, operands, expression) { #name, operands, CHAIN, CHAIN, call_##name },
  static const parity_row rows[] = { OPTIONS(LIST) };
  check_rows(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_op), TEST(other_options) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
