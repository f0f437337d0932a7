/* Linear layers on the double's cuBLASLt: bias, activation and the gradient of the bias are parts of the products that they go
   with, and each call of them is failed once (support/cuda/faults.h). That the values are right is ops/linalg/linear's.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cuda */
#include "situ/autograd.h"
#include "situ/ops.h"
#include "situ/scope.h"
#include "situ/tensor.h"
#include "support/cuda/faults.h"

typedef struct counts {
  long products, kernels;
} counts;

/* Of ones, so that every dtype has the results: y is in + 1. */
static situ_status run(int64_t in, int64_t out, situ_dtype dtype, situ_activation activation, bool back, counts *made) {
  const situ_options there = { .dtype = dtype, .device = situ_dev("cuda:0"), .requires_grad = back };
  const cuda_double *d = cuda_double_state();
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *x = situ_ones(SITU_SHAPE(4, in), &there), *w = situ_ones(SITU_SHAPE(out, in), &there),
              *b = situ_ones(SITU_SHAPE(out), &there);
  situ_status status = x && w && b ? situ_synchronize(situ_dev("cuda:0")) : situ_error();
  const counts before = { d->products, d->kernels };
  situ_tensor *y = situ_linear_activation(x, w, b, activation);
  if (status == SITU_OK && !y) status = situ_error();
  if (status == SITU_OK && back) {
    situ_tensor *one = situ_ones_like(y, NULL);
    status = one ? situ_backward(y, &(situ_backward_options){ .gradient = one }) : situ_error();
  }
  *made = (counts){ d->products - before.products, d->kernels - before.kernels };
  double sum = 0;
  if (status == SITU_OK) status = situ_item(situ_sum(y, NULL), &sum);
  const double each = (double)in + 1; /* gelu leaves it as it is, silu from 17 on */
  if (status == SITU_OK) CHECK(sum == 4 * each * (double)out);
  if (status == SITU_OK && back) {
    status = situ_item(situ_sum(situ_grad(b), NULL), &sum);
    if (status == SITU_OK) CHECK(sum == 4 * (double)out);
  }
  const situ_status ended = situ_scope_end(&scope);
  return status == SITU_OK ? ended : status;
}

/* The library's gelu is not exact in f32. */
static bool is_epilogue(situ_dtype dtype, situ_activation activation) {
  return dtype != SITU_F32 || activation != SITU_ACTIVATION_GELU_TANH;
}

static void parts_of_products_body(void *payload) {
  (void)payload;
  const situ_dtype dtypes[] = { SITU_F16, SITU_BF16, SITU_F32 };
  const situ_activation both[] = { SITU_ACTIVATION_RELU, SITU_ACTIVATION_GELU_TANH };
  counts made;
  for (int k = 0; k < 6; k++) {
    const long apart = !is_epilogue(dtypes[k % 3], both[k / 3]);
    CHECK(run(15, 8, dtypes[k % 3], both[k / 3], false, &made) == SITU_OK);
    CHECK(made.products == 1 && made.kernels == apart);
    /* The ones that y's gradient is, and the way back through the activation. */
    CHECK(run(15, 8, dtypes[k % 3], both[k / 3], true, &made) == SITU_OK);
    CHECK(made.products == 3 && made.kernels == 2 + apart);
    CHECK(run(15, 8, dtypes[k % 3], SITU_ACTIVATION_NONE, true, &made) == SITU_OK);
    CHECK(made.products == 3 && made.kernels == 1);
  }
}

/* What gelu was given lies in steps of 8, and f32 has it with TF32 only; f64 has no epilogue, nor have the exact gelu and silu. */
static void composed_body(void *payload) {
  (void)payload;
  counts made;
  CHECK(run(15, 5, SITU_F16, SITU_ACTIVATION_GELU_TANH, false, &made) == SITU_OK);
  CHECK(made.products == 1 && made.kernels == 0);
  CHECK(run(15, 5, SITU_F16, SITU_ACTIVATION_GELU_TANH, true, &made) == SITU_OK);
  CHECK(made.products == 3 && made.kernels == 3);
  CHECK(situ_set_float32_matmul_precision(SITU_PRECISION_HIGH) == SITU_OK);
  CHECK(run(15, 8, SITU_F32, SITU_ACTIVATION_GELU_TANH, false, &made) == SITU_OK);
  CHECK(made.products == 1 && made.kernels == 0);
  CHECK(situ_set_float32_matmul_precision(SITU_PRECISION_HIGHEST) == SITU_OK);
  CHECK(run(15, 8, SITU_F64, SITU_ACTIVATION_RELU, false, &made) == SITU_OK);
  CHECK(made.kernels > 0);
  for (int k = SITU_ACTIVATION_GELU; k <= SITU_ACTIVATION_SILU; k++) {
    CHECK(run(31, 8, SITU_F32, (situ_activation)k, false, &made) == SITU_OK);
    CHECK(made.products == 1 && made.kernels == 1);
  }
}

static void parts_of_products(void **state) {
  (void)state;
  assert_int_equal(in_child(parts_of_products_body, NULL), 0);
}
static void composed(void **state) {
  (void)state;
  assert_int_equal(in_child(composed_body, NULL), 0);
}

/* ---- failures -------------------------------------------------------------------------------- */

static situ_status scenario(void) {
  counts made;
  situ_status status = run(7, 8, SITU_F32, SITU_ACTIVATION_GELU_TANH, true, &made);
  CHECK(situ_error() == status && (status == SITU_OK || *situ_error_message()));
  return status;
}

static void failing_body(void *payload) {
  faults *f = payload;
  (void)setenv("SITU_NUM_THREADS", "1", 1);
  CHECK(situ_device_count("cuda") == 2);
  faults_arm(f);
  cuda_double_state()->fail_name = "cublasLt*";
  faults_disarm(f, scenario());
  faults_look(f, scenario(), situ_dev("cuda:0"));
  faults_count(f);
}

static void walk_with(cudaError_t error, bool sticky) { assert_true(faults_walk(failing_body, error, sticky) > 50); }
static void a_call_without_memory_is_reported_or_made_good(void **state) {
  (void)state, walk_with(cudaErrorMemoryAllocation, false);
}
static void a_broken_device_is_lost(void **state) { (void)state, walk_with(cudaErrorLaunchFailure, true); }

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(parts_of_products),
    cmocka_unit_test(composed),
    cmocka_unit_test(a_call_without_memory_is_reported_or_made_good),
    cmocka_unit_test(a_broken_device_is_lost),
  };
  return cmocka_run_group_tests_name("backend/cuda/linear", tests, NULL, NULL);
}
