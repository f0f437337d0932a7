/* Jobs that bench/torch/ops.cc has on libtorch; bench/torch/ops.py lets both take turns: one op each, on one thread.
   `ops serve` reads the name of a job, the elements of x->line, the dtype, and 1 for with backward; it does the job for
   some milliseconds and answers with a call's processor seconds. `ops list` prints the jobs and their variants;
   without an argument each job is done a few times.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "support/measure.h"

/* All are random numbers but for scale (1) and shift (0), masks and indices. */
typedef union operands {
  struct {
    situ_tensor *line, *other, *positive, *one;  /* of n elements; one: a single one */
    situ_tensor *square, *second, *row;          /* the root of n by itself, and one row */
    situ_tensor *blocks, *image, *small, *large; /* [64, 8, 16, 32]; images */
    situ_tensor *w1, *w3, *d3, *d5, *d7, *deep, *stem, *scale, *shift;
    situ_tensor *table, *rows; /* 10,000 and 20,000 rows of 64 */
    situ_tensor *heads, *tokens, *weight, *wide;
    situ_tensor *mask, *marked, *classes, *at, *column, *chosen; /* those without gradients */
  };
  situ_tensor *all[32];
} operands;
static situ_tensor *train_norm(const operands *x) {
  situ_batch_norm_options o = situ_batch_norm_defaults();
  o.training = true;
  return situ_batch_norm(x->image, NULL, NULL, x->scale, x->shift, &o);
}

enum { LEARNING = 26 }; /* of them require a gradient where a job is done with backward */

#define DIM(d) \
  &(situ_reduce_options) { .dim = SITU_DIMS(d) }
#define CONV(...) \
  &(situ_conv_options) { __VA_ARGS__ }
#define POOL(size, step, pad) \
  &(situ_pool_options) { .kernel = SITU_DIMS(size), .stride = SITU_DIMS(step), .padding = SITU_DIMS(pad) }
#define TWICE(m) \
  &(situ_interpolate_options) { .scale_factor = { 2 }, .mode = SITU_INTERPOLATE_##m }

/* Name; variants besides 2^20 elements of f32: s: 2^12 elements, h: bf16 and f16, b: with backward; the call. */
#define JOBS(_)                                                                                                    \
  _(add, "shb", situ_add(x->line, x->other))                                                                       \
  _(mul, "sb", situ_mul(x->line, x->other))                                                                        \
  _(div, "sb", situ_div(x->line, x->positive))                                                                     \
  _(add_scalar, "s", situ_add_scalar(x->line, 2))                                                                  \
  _(add_row, "shb", situ_add(x->square, x->row))                                                                   \
  _(add_permuted, "", situ_add(PERMUTED, PERMUTED))                                                                \
  _(add_transposed, "", situ_add(x->square, TURNED))                                                               \
  _(maximum, "s", situ_maximum(x->line, x->other))                                                                 \
  _(lerp, "", situ_lerp_scalar(x->line, x->other, 0.3))                                                            \
  _(addcmul, "", situ_addcmul(x->line, x->other, x->positive, 1))                                                  \
  _(gt_scalar, "s", situ_gt_scalar(x->line, 0))                                                                    \
  _(where, "sb", situ_where(x->mask, x->line, x->other))                                                           \
  _(masked_fill, "b", situ_masked_fill(x->line, x->mask, 0))                                                       \
  _(clamp, "sb", situ_clamp(x->line, -1, 1))                                                                       \
  _(abs, "", situ_abs(x->line))                                                                                    \
  _(sqrt, "s", situ_sqrt(x->positive))                                                                             \
  _(pow_2, "b", situ_pow_scalar(x->line, 2))                                                                       \
  _(pow_3, "", situ_pow_scalar(x->line, 3))                                                                        \
  _(exp, "shb", situ_exp(x->line))                                                                                 \
  _(log, "sb", situ_log(x->positive))                                                                              \
  _(log1p, "", situ_log1p(x->positive))                                                                            \
  _(sin, "s", situ_sin(x->line))                                                                                   \
  _(cos, "", situ_cos(x->line))                                                                                    \
  _(tanh, "shb", situ_tanh(x->line))                                                                               \
  _(erf, "", situ_erf(x->line))                                                                                    \
  _(sigmoid, "shb", situ_sigmoid(x->line))                                                                         \
  _(relu, "shb", situ_relu(x->line))                                                                               \
  _(gelu, "shb", situ_gelu(x->line, SITU_GELU_NONE))                                                               \
  _(gelu_tanh, "sb", situ_gelu(x->line, SITU_GELU_TANH))                                                           \
  _(silu, "shb", situ_silu(x->line))                                                                               \
  _(softplus, "", situ_softplus(x->line, 1, 20))                                                                   \
  _(leaky_relu, "", situ_leaky_relu(x->line, 0.01))                                                                \
  _(hardswish, "", situ_hardswish(x->line))                                                                        \
  _(dropout, "b", situ_dropout(x->line, 0.1, true, NULL))                                                          \
  _(clone, "h", situ_clone(x->line))                                                                               \
  _(to_f16, "", situ_to_dtype(x->line, SITU_F16))                                                                  \
  _(to_i64, "", situ_to_dtype(x->line, SITU_I64))                                                                  \
  _(permute, "", situ_contiguous(PERMUTED))                                                                        \
  _(head_split, "", situ_contiguous(situ_transpose(situ_reshape(x->tokens, SITU_SHAPE(2, 128, 12, 64)), 1, 2)))    \
  _(transpose, "h", situ_contiguous(TURNED))                                                                       \
  _(channels_last, "", situ_contiguous(situ_permute(x->image, SITU_DIMS(0, 2, 3, 1))))                             \
  _(cat, "b", situ_cat(PAIR, 2, 1))                                                                                \
  _(stack, "", situ_stack(PAIR, 2, 0))                                                                             \
  _(flip, "", situ_flip(x->square, SITU_DIMS(1)))                                                                  \
  _(tril, "", situ_tril(x->square, 0))                                                                             \
  _(sum, "shb", situ_sum(x->line, NULL))                                                                           \
  _(sum_columns, "s", situ_sum(x->square, DIM(0)))                                                                 \
  _(sum_rows, "sb", situ_sum(x->square, DIM(1)))                                                                   \
  _(mean, "", situ_mean(x->line, NULL))                                                                            \
  _(var, "b", situ_var(x->square, 1, DIM(1)))                                                                      \
  _(norm, "b", situ_norm(x->line, 2, NULL))                                                                        \
  _(amax_rows, "", situ_amax(x->square, DIM(1)))                                                                   \
  _(max_columns, "", situ_max_dim(x->square, 0, false, NULL))                                                      \
  _(argmax, "", situ_argmax(x->square, DIM(1)))                                                                    \
  _(logsumexp, "", situ_logsumexp(x->square, DIM(1)))                                                              \
  _(any, "", situ_any(x->mask, NULL))                                                                              \
  _(cumsum, "b", situ_cumsum(x->square, 1))                                                                        \
  _(softmax, "shb", situ_softmax(x->square, 1))                                                                    \
  _(log_softmax, "b", situ_log_softmax(x->square, 1))                                                              \
  _(cross_entropy, "b", situ_cross_entropy(x->square, x->classes, NULL))                                           \
  _(mse_loss, "b", situ_mse_loss(x->line, x->other, SITU_REDUCTION_MEAN))                                          \
  _(l1_loss, "b", situ_l1_loss(x->line, x->other, SITU_REDUCTION_MEAN))                                            \
  _(topk, "", situ_topk(x->line, 10, 0, true, NULL))                                                               \
  _(sort, "", situ_sort(x->line, 0, false, NULL))                                                                  \
  _(sort_rows, "", situ_sort(x->square, 1, false, NULL))                                                           \
  _(argsort_rows, "", situ_argsort(x->square, 1, false))                                                           \
  _(nonzero, "", situ_nonzero(x->marked))                                                                          \
  _(masked_select, "", situ_masked_select(x->line, x->mask))                                                       \
  _(index_select, "b", situ_index_select(x->table, 0, x->at))                                                      \
  _(gather, "b", situ_gather(x->square, 1, x->chosen))                                                             \
  _(index_rows, "b", situ_index(x->table, &x->at, 1))                                                              \
  _(index_pairs, "b", situ_index(x->table, (situ_tensor *[]){ x->at, x->column }, 2))                              \
  _(index_put, "b", situ_index_put(x->table, &x->at, 1, x->rows, false))                                           \
  _(index_add, "b", situ_index_add(x->table, 0, x->at, x->rows, 1))                                                \
  _(scatter_add, "", situ_scatter_add(x->square, 1, x->chosen, x->second))                                         \
  _(embedding, "b", situ_embedding(x->at, x->table, NULL))                                                         \
  _(rand, "", situ_rand(SITU_SHAPE(1 << 20), NULL))                                                                \
  _(randn, "", situ_randn(SITU_SHAPE(1 << 20), NULL))                                                              \
  _(randint, "", situ_randint(0, 100, SITU_SHAPE(1 << 20), NULL))                                                  \
  _(randperm, "", situ_randperm(1 << 20, NULL))                                                                    \
  _(bernoulli, "", situ_bernoulli(x->positive, NULL))                                                              \
  _(avg_pool_all, "b", situ_adaptive_avg_pool2d(x->image, SITU_DIMS(1, 1)))                                        \
  _(avg_pool, "b", situ_avg_pool2d(x->image, POOL(2, 2, 0)))                                                       \
  _(max_pool, "b", situ_max_pool2d(x->image, POOL(2, 2, 0), NULL))                                                 \
  _(max_pool_3, "b", situ_max_pool2d(x->image, POOL(3, 2, 1), NULL))                                               \
  _(interpolate_nearest, "b", situ_interpolate(x->image, TWICE(NEAREST)))                                          \
  _(interpolate_bilinear, "b", situ_interpolate(x->image, TWICE(BILINEAR)))                                        \
  _(interpolate_bicubic, "b", situ_interpolate(x->image, TWICE(BICUBIC)))                                          \
  _(layer_norm, "shb", situ_layer_norm(x->square, SITU_DIMS(situ_size(x->row, 0)), x->row, x->row, 1e-5))          \
  _(rms_norm, "sb", situ_rms_norm(x->square, SITU_DIMS(situ_size(x->row, 0)), x->row, 1e-5))                       \
  _(batch_norm, "b", train_norm(x))                                                                                \
  _(group_norm, "b", situ_group_norm(x->image, 8, x->scale, x->shift, 1e-5))                                       \
  _(group_norm_large, "b", situ_group_norm(x->large, 32, x->scale, x->shift, 1e-5))                                \
  _(conv_stem, "b", situ_conv2d(situ_narrow(x->large, 1, 0, 3), x->stem, NULL, CONV(.stride = SITU_DIMS(2))))      \
  _(conv_1x1, "hb", situ_conv2d(x->image, x->w1, NULL, NULL))                                                      \
  _(conv_1x1_wide, "", situ_conv2d(WIDE_IMAGE, WIDE_KERNEL, NULL, NULL))                                           \
  _(conv_3x3, "hb", situ_conv2d(x->image, x->w3, x->shift, CONV(.padding = SITU_DIMS(1))))                         \
  _(conv_stride_2, "b", situ_conv2d(x->large, x->w3, NULL, CONV(.padding = SITU_DIMS(1), .stride = SITU_DIMS(2)))) \
  _(conv_deep, "b", situ_conv2d(x->small, x->deep, NULL, CONV(.padding = SITU_DIMS(1))))                           \
  _(conv_depthwise_3, "b", situ_conv2d(x->large, x->d3, NULL, CONV(.padding = SITU_DIMS(1), .groups = 64)))        \
  _(conv_depthwise_5, "b", situ_conv2d(x->large, x->d5, NULL, CONV(.padding = SITU_DIMS(2), .groups = 64)))        \
  _(conv_depthwise_7, "b", situ_conv2d(x->large, x->d7, NULL, CONV(.padding = SITU_DIMS(3), .groups = 64)))        \
  _(conv_transpose, "b", situ_conv_transpose2d(x->image, x->w3, NULL, CONV(.stride = SITU_DIMS(2))))               \
  _(linear, "shb", situ_linear(x->square, x->second, x->row))                                                      \
  _(linear_wide, "b", situ_linear(x->tokens, x->wide, NULL))                                                       \
  _(bmm, "hb", situ_matmul(x->heads, situ_transpose(x->heads, 1, 2)))                                              \
  _(mv, "", situ_matmul(x->square, x->row))                                                                        \
  _(outer, "", situ_outer(x->row, x->row))                                                                         \
  _(one_row, "h", situ_linear(situ_unsqueeze(x->row, 0), x->second, NULL))                                         \
  _(item, "", read_value(x->one))

#define PERMUTED situ_permute(x->blocks, SITU_DIMS(3, 1, 0, 2))
#define TURNED situ_transpose(x->square, 0, 1)
#define WIDE_IMAGE situ_reshape(x->large, SITU_SHAPE(8, 256, 28, 28))
#define WIDE_KERNEL situ_reshape(situ_narrow(x->second, 0, 0, 32), SITU_SHAPE(128, 256, 1, 1))
#define PAIR ((situ_tensor *[]){ x->square, x->second })

static double last_value;
static situ_tensor *read_value(situ_tensor *t) { return situ_item(t, &last_value) == SITU_OK ? t : NULL; }

#define CALL(name, variants, call) \
  static situ_tensor *job_##name(operands *x) { return (void)x, call; }
JOBS(CALL)

static const struct job {
  const char *name, *variants;
  situ_tensor *(*call)(operands *x);
} jobs[] = {
#define ENTRY(name, variants, call) { #name, variants, job_##name },
  JOBS(ENTRY)
};
enum { COUNT = sizeof jobs / sizeof *jobs };

static void make_operands(operands *x, int64_t n, situ_dtype dtype, bool learns) {
  const situ_options leaf = { .dtype = dtype, .requires_grad = learns };
  const int64_t side = (int64_t)sqrt((double)n);
  situ_manual_seed(1);
  *x = (operands){ { .line = situ_randn(SITU_SHAPE(n), &leaf),
                     .other = situ_randn(SITU_SHAPE(n), &leaf),
                     .positive = situ_rand(SITU_SHAPE(n), &leaf),
                     .one = situ_randn(SITU_SHAPE(1), &leaf),
                     .square = situ_randn(SITU_SHAPE(side, side), &leaf),
                     .second = situ_randn(SITU_SHAPE(side, side), &leaf),
                     .row = situ_randn(SITU_SHAPE(side), &leaf),
                     .blocks = situ_randn(SITU_SHAPE(64, 8, 16, 32), &leaf),
                     .image = situ_randn(SITU_SHAPE(32, 64, 28, 28), &leaf),
                     .small = situ_randn(SITU_SHAPE(8, 256, 14, 14), &leaf),
                     .large = situ_randn(SITU_SHAPE(8, 64, 56, 56), &leaf),
                     .w1 = situ_randn(SITU_SHAPE(64, 64, 1, 1), &leaf),
                     .w3 = situ_randn(SITU_SHAPE(64, 64, 3, 3), &leaf),
                     .d3 = situ_randn(SITU_SHAPE(64, 1, 3, 3), &leaf),
                     .d5 = situ_randn(SITU_SHAPE(64, 1, 5, 5), &leaf),
                     .d7 = situ_randn(SITU_SHAPE(64, 1, 7, 7), &leaf),
                     .deep = situ_randn(SITU_SHAPE(256, 256, 3, 3), &leaf),
                     .stem = situ_randn(SITU_SHAPE(64, 3, 7, 7), &leaf),
                     .scale = situ_ones(SITU_SHAPE(64), &leaf),
                     .shift = situ_zeros(SITU_SHAPE(64), &leaf),
                     .table = situ_randn(SITU_SHAPE(10000, 64), &leaf),
                     .rows = situ_randn(SITU_SHAPE(20000, 64), &leaf),
                     .heads = situ_randn(SITU_SHAPE(64, 128, 64), &leaf),
                     .tokens = situ_randn(SITU_SHAPE(256, 768), &leaf),
                     .weight = situ_randn(SITU_SHAPE(768, 768), &leaf),
                     .wide = situ_randn(SITU_SHAPE(3072, 768), &leaf),
                     .classes = situ_randint(0, side, SITU_SHAPE(side), NULL),
                     .at = situ_randint(0, 10000, SITU_SHAPE(20000), NULL),
                     .column = situ_randint(0, 64, SITU_SHAPE(20000), NULL),
                     .chosen = situ_randint(0, side, SITU_SHAPE(side, side), NULL) } };
  x->mask = situ_gt_scalar(x->line, 0);
  x->marked = situ_gt_scalar(x->square, 1);
  need(situ_error());
}

static void call_once(const struct job *job, operands *x, bool backward) {
  situ_scope s;
  if (backward) situ_scope_begin(&s);
  else situ_scope_begin_no_grad(&s);
  situ_tensor *y = job->call(x);
  need(y ? SITU_OK : situ_error());
  if (backward) need(situ_backward(y, &(situ_backward_options){ .gradient = situ_detach(y) }));
  need(situ_scope_end(&s));
  for (int k = 0; backward && k < LEARNING; k++) need(situ_set_grad(x->all[k], NULL));
}

/* Processor seconds of a call, over at least two milliseconds. */
static double time_of(const struct job *job, operands *x, bool backward) {
  int calls = 0;
  const double begin = processor_seconds();
  double taken;
  do {
    call_once(job, x, backward);
    calls++;
    taken = processor_seconds() - begin;
  } while (taken < 2e-3);
  return taken / calls;
}

static int serve(void) {
  char name[64], type[8], variant[64], now[64] = "";
  long long n;
  int backward;
  operands x;
  situ_scope s;
  situ_scope_begin(&s);
  while (scanf("%63s %lld %7s %d", name, &n, type, &backward) == 4) {
    (void)snprintf(variant, sizeof variant, "%lld %s %d", n, type, backward);
    if (strcmp(variant, now) != 0) {
      need(situ_scope_end(&s));
      situ_scope_begin(&s);
      make_operands(&x, n, *type == 'b' ? SITU_BF16 : strcmp(type, "f16") == 0 ? SITU_F16 : SITU_F32, backward != 0);
      memcpy(now, variant, sizeof now);
    }
    int k = 0;
    while (k < COUNT && strcmp(jobs[k].name, name) != 0) k++;
    if (k == COUNT) return fprintf(stderr, "no job %s\n", name), 1;
    printf("%.9f\n", time_of(&jobs[k], &x, backward != 0));
    (void)fflush(stdout);
  }
  return situ_scope_end(&s) != SITU_OK;
}

static int list(void) {
  for (int k = 0; k < COUNT; k++) printf("%s -%s\n", jobs[k].name, jobs[k].variants);
  return 0;
}

int main(int argc, char **argv) {
  operands x;
  situ_scope s;
  need(situ_set_num_threads(1));
  if (argc > 1 && strcmp(argv[1], "serve") == 0) return serve();
  if (argc > 1 && strcmp(argv[1], "list") == 0) return list();
  situ_scope_begin(&s);
  make_operands(&x, 1 << 20, SITU_F32, false);
  for (int k = 0; k < COUNT; k++) {
    enum { ROUNDS = 9 };
    double each[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) each[r] = time_of(&jobs[k], &x, false);
    printf("     %-18s %12.2f us\n", jobs[k].name, 1e6 * median(each, ROUNDS));
    (void)fflush(stdout);
  }
  return situ_scope_end(&s) != SITU_OK;
}
