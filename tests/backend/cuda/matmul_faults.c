/* Every call that products by cuBLASLt make is failed once, on the double: each failure is reported, or made good; nothing is
   wrong afterwards, nothing leaks, and the device is well or lost.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cuda */
#include "support/cuda/faults.h"
#include "support/cuda/product.h"

static const product kinds[] = {
  { "plain",
    { 1, 1 },
    5,
    7,
    3,
    { { .row = 3, .column = 1 }, { .row = 7, .column = 1 }, { .at = 0 }, { .row = 7, .column = 1 } },
    1,
    0,
    1,
    false },
  { "with a vector",
    { 1, 1 },
    5,
    7,
    3,
    { { .row = 3, .column = 1 }, { .row = 7, .column = 1 }, { .column = 1 }, { .row = 7, .column = 1 } },
    1,
    1,
    1,
    false },
  { "in two calls",
    { 2, 3 },
    5,
    7,
    3,
    { { 0, 45, 3, 9, 1 }, { 0, 63, 3, 1, 9 }, { .at = 0 }, { 0, 105, 35, 7, 1 } },
    1,
    0,
    2,
    false },
};

/* Right, or the status says what was wrong. */
static situ_status scenario(void) {
  static double got[SPACE];
  situ_status status = SITU_OK;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds && status == SITU_OK; k++) {
    status = launch(&kinds[k], "cuda:0", SITU_F32, SITU_F32, got);
    if (status == SITU_OK) look_at(&kinds[k], got);
  }
  CHECK(situ_error() == status && (status == SITU_OK || *situ_error_message()));
  return status;
}

static void failing_body(void *payload) {
  faults *f = payload;
  CHECK(situ_device_count("cuda") == 2); /* what fails before is backend/cuda/faults' */
  cuda_double_state()->budget = 8 << 20; /* a small workspace does */
  faults_arm(f);
  faults_disarm(f, scenario());
  situ_status status = scenario();
  f->lost = status == SITU_E_LOST;
  if (status == SITU_E_UNSUPPORTED) CHECK(f->error == cudaErrorNotSupported && without_kernels(status));
  if (!f->lost) CHECK(status == SITU_OK || f->error == cudaErrorNotSupported);
  if (f->lost) CHECK(f->hit && situ__device_lost(situ_dev("cuda:0")));
  situ_error_clear();
  faults_count(f);
}

static void walk_with(cudaError_t error, bool sticky) { assert_true(faults_walk(failing_body, error, sticky) > 100); }
static void a_call_without_memory_is_reported_or_made_good(void **state) {
  (void)state, walk_with(cudaErrorMemoryAllocation, false);
}
static void an_unsupported_call_is_reported_or_made_good(void **state) {
  (void)state, walk_with(cudaErrorNotSupported, false);
}
static void a_broken_device_is_lost(void **state) { (void)state, walk_with(cudaErrorLaunchFailure, true); }

/* ---- what is said ----------------------------------------------------------------------------- */

static void said_body(void *payload) {
  (void)payload;
  static double got[SPACE];
  cuda_double *d = cuda_double_state();
  situ_error_mode(SITU_ERROR_QUIET);
  d->fail_name = "cublasLtMatmul";
  d->fail_nth = 1;
  d->fail_error = cudaErrorMemoryAllocation;
  CHECK(launch(kinds, "cuda:0", SITU_F32, SITU_F32, got) == SITU_E_NOMEM);
  CHECK_ERROR(SITU_E_NOMEM, "cuda:0: cublasLtMatmul: the resource allocation failed "
                            "(CUBLAS_STATUS_ALLOC_FAILED, 3)");
  CHECK(launch(kinds, "cuda:0", SITU_F32, SITU_F32, got) == SITU_OK);
  look_at(kinds, got);
  d->fail_nth = 1;
  d->fail_error = cudaErrorLaunchFailure;
  CHECK(launch(kinds, "cuda:0", SITU_F32, SITU_F32, got) == SITU_E_LOST);
  CHECK_ERROR(SITU_E_LOST, "cuda:0 is lost: cublasLtMatmul: a failure of the double's "
                           "(CUBLAS_STATUS_EXECUTION_FAILED, 13)");
}
static void a_failure_names_the_call(void **state) {
  (void)state;
  assert_int_equal(in_child(said_body, NULL), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_failure_names_the_call),
    cmocka_unit_test(a_call_without_memory_is_reported_or_made_good),
    cmocka_unit_test(an_unsupported_call_is_reported_or_made_good),
    cmocka_unit_test(a_broken_device_is_lost),
  };
  return cmocka_run_group_tests_name("backend/cuda/matmul_faults", tests, NULL, NULL);
}
