/* Jobs that bench/torch/ops.py has beside PyTorch's: one op each, on one thread of the host. `ops serve` reads the name
   of a job from each line of its input, calls it for some milliseconds and answers with a call's processor seconds, so
   that both sides can take turns; without an argument it does each job a few times and prints the medians.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/measure.h"

typedef struct operands {
  situ_tensor *line, *positive, *mask, *one; /* 2^20 elements; one: a single one */
  situ_tensor *square, *marked;              /* 1024 x 1024; marked: where it is above 1 */
  situ_tensor *f16, *bf16;                   /* square, in that dtype */
  situ_tensor *permuted, *image, *deep;
  situ_tensor *w1, *w3, *depthwise, *wide, *scale, *shift;
} operands;

#define DIM(d) \
  &(situ_reduce_options) { .dim = SITU_DIMS(d) }
#define PADDED(...) \
  &(situ_conv_options) { .padding = SITU_DIMS(1), __VA_ARGS__ }

/* Name, and the call with operands x. */
#define JOBS(_)                                                                      \
  _(pow_2, situ_pow_scalar(x->line, 2))                                              \
  _(pow_3, situ_pow_scalar(x->line, 3))                                              \
  _(exp, situ_exp(x->line))                                                          \
  _(log, situ_log(x->positive))                                                      \
  _(log1p, situ_log1p(x->positive))                                                  \
  _(sin, situ_sin(x->line))                                                          \
  _(tanh, situ_tanh(x->line))                                                        \
  _(erf, situ_erf(x->line))                                                          \
  _(gelu, situ_gelu(x->line, SITU_GELU_NONE))                                        \
  _(silu, situ_silu(x->line))                                                        \
  _(sigmoid, situ_sigmoid(x->line))                                                  \
  _(clamp, situ_clamp(x->line, -1, 1))                                               \
  _(where, situ_where(x->mask, x->line, x->positive))                                \
  _(add, situ_add(x->line, x->line))                                                 \
  _(add_permuted, situ_add(x->permuted, x->permuted))                                \
  _(add_transposed, situ_add(x->square, situ_transpose(x->square, 0, 1)))            \
  _(permute, situ_contiguous(x->permuted))                                           \
  _(transpose, situ_contiguous(situ_transpose(x->square, 0, 1)))                     \
  _(cat, situ_cat((situ_tensor *[]){ x->square, x->square }, 2, 1))                  \
  _(sum, situ_sum(x->line, NULL))                                                    \
  _(sum_columns, situ_sum(x->square, DIM(0)))                                        \
  _(sum_rows, situ_sum(x->square, DIM(1)))                                           \
  _(argmax, situ_argmax(x->square, DIM(1)))                                          \
  _(cumsum, situ_cumsum(x->square, 1))                                               \
  _(softmax, situ_softmax(x->square, 1))                                             \
  _(topk, situ_topk(x->line, 10, 0, true, NULL))                                     \
  _(sort, situ_sort(x->line, 0, false, NULL))                                        \
  _(sort_rows, situ_sort(x->square, 1, false, NULL))                                 \
  _(nonzero, situ_nonzero(x->marked))                                                \
  _(masked_select, situ_masked_select(x->line, x->mask))                             \
  _(rand, situ_rand(SITU_SHAPE(1 << 20), NULL))                                      \
  _(randn, situ_randn(SITU_SHAPE(1 << 20), NULL))                                    \
  _(randint, situ_randint(0, 100, SITU_SHAPE(1 << 20), NULL))                        \
  _(randperm, situ_randperm(1 << 20, NULL))                                          \
  _(avg_pool_all, situ_adaptive_avg_pool2d(x->image, SITU_DIMS(1, 1)))               \
  _(group_norm, situ_group_norm(x->image, 8, x->scale, x->shift, 1e-5))              \
  _(conv_1x1, situ_conv2d(x->image, x->w1, NULL, NULL))                              \
  _(conv_3x3, situ_conv2d(x->image, x->w3, NULL, PADDED(.groups = 1)))               \
  _(conv_deep, situ_conv2d(x->deep, x->wide, NULL, PADDED(.groups = 1)))             \
  _(conv_depthwise, situ_conv2d(x->image, x->depthwise, NULL, PADDED(.groups = 64))) \
  _(matmul, situ_matmul(x->square, x->square))                                       \
  _(matmul_transposed, situ_matmul(situ_transpose(x->square, 0, 1), x->square))      \
  _(matmul_f16, situ_matmul(x->f16, x->f16))                                         \
  _(matmul_bf16, situ_matmul(x->bf16, x->bf16))                                      \
  _(item, read_value(x->one))

static double last_value;
static situ_tensor *read_value(situ_tensor *t) { return situ_item(t, &last_value) == SITU_OK ? t : NULL; }

#define CALL(name, call) \
  static situ_tensor *job_##name(const operands *x) { return (void)x, call; }
JOBS(CALL)

static const struct job {
  const char *name;
  situ_tensor *(*call)(const operands *x);
} jobs[] = {
#define ENTRY(name, call) { #name, job_##name },
  JOBS(ENTRY)
};
enum { COUNT = sizeof jobs / sizeof *jobs };

static void make_operands(operands *x) {
  situ_manual_seed(1);
  *x = (operands){ .line = situ_randn(SITU_SHAPE(1 << 20), NULL),
                   .positive = situ_rand(SITU_SHAPE(1 << 20), NULL),
                   .one = situ_randn(SITU_SHAPE(1), NULL),
                   .square = situ_randn(SITU_SHAPE(1024, 1024), NULL),
                   .permuted = situ_permute(situ_randn(SITU_SHAPE(64, 8, 16, 32), NULL), SITU_DIMS(3, 1, 0, 2)),
                   .image = situ_randn(SITU_SHAPE(32, 64, 28, 28), NULL),
                   .deep = situ_randn(SITU_SHAPE(8, 256, 14, 14), NULL),
                   .w1 = situ_randn(SITU_SHAPE(64, 64, 1, 1), NULL),
                   .w3 = situ_randn(SITU_SHAPE(64, 64, 3, 3), NULL),
                   .depthwise = situ_randn(SITU_SHAPE(64, 1, 3, 3), NULL),
                   .wide = situ_randn(SITU_SHAPE(256, 256, 3, 3), NULL),
                   .scale = situ_ones(SITU_SHAPE(64), NULL),
                   .shift = situ_zeros(SITU_SHAPE(64), NULL) };
  x->mask = situ_gt_scalar(x->line, 0);
  x->marked = situ_gt_scalar(x->square, 1);
  x->f16 = situ_to_dtype(x->square, SITU_F16);
  x->bf16 = situ_to_dtype(x->square, SITU_BF16);
  need(situ_error());
}

/* Processor seconds of a call, over at least two milliseconds. */
static double time_of(const struct job *job, const operands *x) {
  int calls = 0;
  const double begin = processor_seconds();
  double taken;
  do {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    need(job->call(x) ? SITU_OK : situ_error());
    need(situ_scope_end(&s));
    calls++;
    taken = processor_seconds() - begin;
  } while (taken < 2e-3);
  return taken / calls;
}

static int serve(const operands *x) {
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    int k = 0;
    while (k < COUNT && strcmp(jobs[k].name, line) != 0) k++;
    if (k == COUNT) return fprintf(stderr, "no job %s\n", line), 1;
    printf("%.9f\n", time_of(&jobs[k], x));
    (void)fflush(stdout);
  }
  return 0;
}

int main(int argc, char **argv) {
  operands x;
  need(situ_set_num_threads(1));
  make_operands(&x);
  if (argc > 1 && strcmp(argv[1], "serve") == 0) return serve(&x);
  for (int k = 0; k < COUNT; k++) {
    enum { ROUNDS = 9 };
    double each[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) each[r] = time_of(&jobs[k], &x);
    printf("     %-18s %12.2f us\n", jobs[k].name, 1e6 * median(each, ROUNDS));
    (void)fflush(stdout);
  }
  return 0;
}
