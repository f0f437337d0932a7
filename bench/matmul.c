/* Products that bench/torch/matmul.py has beside PyTorch's, one thread. With `serve` a line of input is a dtype, the
   rows m, the inner size k, the columns n, and one of NN, NT, TN (T: the factor is a transposed view), or LB: linear
   of m rows, forward and backward. The answer is a call's processor seconds, over at least two milliseconds. Without
   it a product of 1024 is done alone.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/measure.h"

static situ_dtype dtype_named(const char *name) {
  static const struct {
    const char *name;
    situ_dtype dtype;
  } all[] = { { "f32", SITU_F32 }, { "f64", SITU_F64 }, { "f16", SITU_F16 }, { "bf16", SITU_BF16 } };
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    if (strcmp(all[k].name, name) == 0) return all[k].dtype;
  return SITU_DTYPE_DEFAULT;
}

typedef struct job {
  situ_tensor *a, *b; /* or the input and the weight of linear */
  bool linear;
} job;

static job make_job(situ_dtype dtype, int64_t m, int64_t k, int64_t n, const char *kind) {
  const bool linear = *kind == 'L';
  const situ_options leaf = { .dtype = dtype, .requires_grad = linear };
  job j = { .linear = linear };
  j.a = *kind == 'T' ? situ_transpose(situ_randn(SITU_SHAPE(k, m), &leaf), 0, 1) : situ_randn(SITU_SHAPE(m, k), &leaf);
  j.b = linear           ? situ_randn(SITU_SHAPE(n, k), &leaf)
        : kind[1] == 'T' ? situ_transpose(situ_randn(SITU_SHAPE(n, k), &leaf), 0, 1)
                         : situ_randn(SITU_SHAPE(k, n), &leaf);
  need(situ_error());
  return j;
}

static void call_once(const job *j) {
  situ_scope s;
  if (!j->linear) {
    situ_scope_begin_no_grad(&s);
    need(situ_matmul(j->a, j->b) ? SITU_OK : situ_error());
    need(situ_scope_end(&s));
    return;
  }
  situ_scope_begin(&s);
  situ_tensor *y = situ_linear(j->a, j->b, NULL);
  need(situ_error());
  need(situ_backward(y, &(situ_backward_options){ .gradient = situ_detach(y) }));
  need(situ_scope_end(&s));
  need(situ_set_grad(j->a, NULL));
  need(situ_set_grad(j->b, NULL));
}

static double time_of(const job *j) {
  int calls = 0;
  const double begin = processor_seconds();
  double taken;
  do {
    call_once(j);
    calls++;
    taken = processor_seconds() - begin;
  } while (taken < 2e-3);
  return taken / calls;
}

int main(int argc, char **argv) {
  char type[8], kind[4], line[64], now[64] = "";
  long long m, k, n;
  situ_scope s;
  job j;
  need(situ_set_num_threads(1));
  situ_scope_begin(&s);
  if (argc < 2 || strcmp(argv[1], "serve") != 0) {
    j = make_job(SITU_F32, 1024, 1024, 1024, "NN");
    (void)time_of(&j);
    printf("     f32 product of 1024: %.2f ms\n", 1e3 * time_of(&j));
    return situ_scope_end(&s) != SITU_OK;
  }
  while (scanf("%7s %lld %lld %lld %3s", type, &m, &k, &n, kind) == 5) {
    (void)snprintf(line, sizeof line, "%s %lld %lld %lld %s", type, m, k, n, kind);
    if (strcmp(line, now) != 0) {
      need(situ_scope_end(&s));
      situ_scope_begin(&s);
      j = make_job(dtype_named(type), m, k, n, kind);
      memcpy(now, line, sizeof now);
    }
    printf("%.9f\n", time_of(&j));
    (void)fflush(stdout);
  }
  return situ_scope_end(&s) != SITU_OK;
}
