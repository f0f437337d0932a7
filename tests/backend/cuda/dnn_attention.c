/* Fused attention on the double's cuDNN: values and gradients against those in f32 on the cpu; what is not of its kind; a way back
   by our own kernels. And the graphs handed to the real library (support/cuda/dnn_beside.c): SKIPPED where there is none.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cudnn */
#include <math.h>
#include <string.h>

#include "situ/autograd.h"
#include "situ/ops.h"
#include "situ/scope.h"
#include "situ/tensor.h"
#include "support/cuda/child.h"
#include "support/cuda/double.h"
#include "support/test.h"

enum { B = 2, H = 3, D = 16, ROOM = 8192, RESULTS = 4 };

typedef struct kind {
  const char *name;
  int64_t queries, keys, width;
  bool causal, heads_inside; /* heads_inside: [b, s, h, d], as a layer's projection gives them */
} kind;

static const kind kinds[] = {
  { "plain", 5, 7, D, false, false },
  { "causal", 6, 6, D, true, false },
  { "causal, more keys", 4, 9, D, true, false },
  { "heads inside", 6, 6, D, true, true },
};

typedef struct attended {
  int64_t count[RESULTS];
  float of[RESULTS][ROOM];
} attended;

/* Values that both dtypes of 16 bits have. */
static situ_tensor *values(const kind *k, int64_t length, int which, situ_dtype dtype, const char *device) {
  static float host[ROOM];
  const int64_t count = B * H * length * k->width;
  CHECK(count <= ROOM);
  for (int64_t at = 0; at < count; at++) host[at] = (float)((at * 7 + at / 11 * 5 + which * 3) % 17 - 8) / 8;
  const situ_shape shape = k->heads_inside ? SITU_SHAPE(B, length, H, k->width) : SITU_SHAPE(B, H, length, k->width);
  situ_tensor *t =
      situ_to(situ_to_dtype(situ_from_host(host, (size_t)count * sizeof *host, shape, NULL), dtype), situ_dev(device));
  return situ_requires_grad_(t, true);
}

static situ_tensor *heads(const kind *k, situ_tensor *t) { return k->heads_inside ? situ_transpose(t, 1, 2) : t; }

/* between: called behind the way there. */
static situ_status attend(const kind *k, situ_dtype dtype, const char *device, void (*between)(void), attended *to) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *q = values(k, k->queries, 0, dtype, device), *key = values(k, k->keys, 1, dtype, device),
              *v = values(k, k->keys, 2, dtype, device);
  situ_tensor *y = situ_scaled_dot_product_attention(heads(k, q), heads(k, key), heads(k, v),
                                                     OPTIONS_AT(situ_attention, with.is_causal = k->causal));
  if (between) between();
  situ_status status = y ? situ_backward(situ_sum(situ_square(y), NULL), NULL) : situ_error();
  situ_tensor *const result[] = { y, status == SITU_OK ? situ_grad(q) : NULL, status == SITU_OK ? situ_grad(key) : NULL,
                                  status == SITU_OK ? situ_grad(v) : NULL };
  for (int r = 0; r < RESULTS && status == SITU_OK; r++) {
    situ_tensor *wide = situ_to_dtype(result[r], SITU_F32);
    to->count[r] = situ_numel(wide);
    status = situ_copy_to_host(wide, to->of[r], (size_t)to->count[r] * sizeof **to->of);
  }
  const situ_status ended = situ_scope_end(&scope);
  return status == SITU_OK ? ended : status;
}

static void close_to_cpu(const kind *k, situ_dtype dtype, const attended *got) {
  static attended want;
  const float near = dtype == SITU_BF16 ? 4e-2f : dtype == SITU_F16 ? 6e-3f : 1e-4f;
  CHECK(attend(k, SITU_F32, "cpu", NULL, &want) == SITU_OK);
  for (int r = 0; r < RESULTS; r++) {
    CHECK(got->count[r] == want.count[r]);
    for (int64_t at = 0; at < want.count[r]; at++) {
      const float off = fabsf(got->of[r][at] - want.of[r][at]);
      if (!(off <= near * (1 + fabsf(want.of[r][at]))))
        (void)fprintf(stderr, "%s, dtype %d: result %d: [%lld] is %g, not %g\n", k->name, (int)dtype, r, (long long)at,
                      (double)got->of[r][at], (double)want.of[r][at]);
      CHECK(off <= near * (1 + fabsf(want.of[r][at])));
    }
  }
}

static attended got;

static void by(const kind *k, situ_dtype dtype, void (*between)(void), long solved) {
  cuda_double *d = cuda_double_state();
  d->solved = 0;
  CHECK(attend(k, dtype, "cuda:0", between, &got) == SITU_OK);
  close_to_cpu(k, dtype, &got);
  if (d->solved != solved) (void)fprintf(stderr, "%s, dtype %d: %ld\n", k->name, dtype, d->solved);
  CHECK(d->solved == solved);
}

static void fused_body(void *payload) {
  (void)payload;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    by(&kinds[k], SITU_BF16, NULL, 2);
    by(&kinds[k], SITU_F16, NULL, 2);
  }
}

/* Not of 16 bits, and heads that are not in steps of 8: our own kernels compute these. */
static void own_kernels_body(void *payload) {
  (void)payload;
  static const kind odd = { "odd", 5, 7, 12, true, false };
  by(&kinds[1], SITU_F32, NULL, 0);
  by(&odd, SITU_BF16, NULL, 0);
  cuda_double_state()->no_engines = true;
  by(&kinds[1], SITU_F16, NULL, 0);
}

static void lose_engines(void) { cuda_double_state()->no_engines = true; }
static void own_way_back_body(void *payload) {
  (void)payload;
  by(&kinds[1], SITU_BF16, lose_engines, 1);
  by(&kinds[0], SITU_BF16, NULL, 0);
}

/* The real library knows the graphs, and has engines for them that situ allows. */
static void real_body(void *payload) {
  cuda_double_state()->beside = payload;
  static const kind large = { "64", 16, 16, 64, true, false };
  by(&large, SITU_BF16, NULL, 2);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void failing_body(void *payload) {
  (void)payload;
  cuda_double *d = cuda_double_state();
  situ_error_mode(SITU_ERROR_QUIET);
  by(&kinds[1], SITU_BF16, NULL, 2);
  d->fail_name = "cudnnBackendExecute";
  for (int nth = 1; nth <= 2; nth++) { /* there, and back */
    d->fail_nth = nth;
    d->fail_error = cudaErrorMemoryAllocation;
    CHECK(attend(&kinds[1], SITU_BF16, "cuda:0", NULL, &got) == SITU_E_NOMEM);
    CHECK_ERROR(SITU_E_NOMEM, "cuda:0: cudnnBackendExecute");
    d->fail_nth = 0;
    by(&kinds[1], SITU_BF16, NULL, 2);
  }
  CHECK(d->orphans() == 0);
  d->fail_nth = 2;
  d->fail_error = cudaErrorLaunchFailure;
  CHECK(attend(&kinds[1], SITU_BF16, "cuda:0", NULL, &got) == SITU_E_LOST);
  CHECK_ERROR(SITU_E_LOST, "cuda:0 is lost: cudnnBackendExecute");
}

#define IN_CHILD(name)                                \
  static void name(void **state) {                    \
    (void)state;                                      \
    assert_int_equal(in_child(name##_body, NULL), 0); \
  }
IN_CHILD(fused)
IN_CHILD(own_kernels)
IN_CHILD(own_way_back)
IN_CHILD(failing)

static void the_real_library_agrees(void **state) {
  (void)state;
  const char *path = SITU_TEST_CUDNN;
  if (access(path, F_OK) != 0) skip();
  assert_int_equal(in_child(real_body, (void *)(uintptr_t)path), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(fused),
    cmocka_unit_test(own_kernels),
    cmocka_unit_test(own_way_back),
    cmocka_unit_test(failing),
    cmocka_unit_test(the_real_library_agrees),
  };
  return cmocka_run_group_tests_name("backend/cuda/dnn_attention", tests, NULL, NULL);
}
