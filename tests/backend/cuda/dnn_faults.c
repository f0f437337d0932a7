/* Every call that convolutions by cuDNN make is failed once, on the double (support/cuda/faults.h).
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cudnn */
#include "support/cuda/convolution.h"
#include "support/cuda/faults.h"

#define KIND { 1, 1, 3, 3 }, { 2, 1, 2, 2 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1, true, false
static const convolution kind = { "with a bias", KIND, false };
/* f64 is the fallback's, and its bias is laid on. */
static const convolution other = { "forward", KIND, true };

static situ_status one(const convolution *c, situ_dtype dtype) {
  static convolved got;
  const situ_status status = convolve_on(c, "cuda:0", dtype, &got);
  if (status == SITU_OK) same_as_cpu(c, dtype, &got);
  return status;
}

static situ_status scenario(void) {
  situ_status status = one(&kind, SITU_F32);
  if (status == SITU_OK) status = one(&other, SITU_F64);
  CHECK(situ_error() == status && (status == SITU_OK || *situ_error_message()));
  return status;
}

static void failing_body(void *payload) {
  faults *f = payload;
  (void)setenv("SITU_NUM_THREADS", "1", 1); /* hundreds of children need no threads of their own */
  CHECK(situ_device_count("cuda") == 2);    /* what fails before is backend/cuda/faults' */
  faults_arm(f);
  cuda_double_state()->fail_name = "cudnn*";
  faults_disarm(f, scenario());
  faults_look(f, scenario(), situ_dev("cuda:0"));
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
  static convolved got;
  cuda_double *d = cuda_double_state();
  situ_error_mode(SITU_ERROR_QUIET);
  d->fail_name = "cudnnBackendExecute";
  d->fail_nth = 1;
  d->fail_error = cudaErrorMemoryAllocation;
  CHECK(convolve_on(&kind, "cuda:0", SITU_F32, &got) == SITU_E_NOMEM);
  CHECK_ERROR(SITU_E_NOMEM, "cuda:0: cudnnBackendExecute: "
                            "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED (4003)");
  CHECK(convolve_on(&kind, "cuda:0", SITU_F32, &got) == SITU_OK);
  same_as_cpu(&kind, SITU_F32, &got);
  d->fail_nth = 1;
  d->fail_error = cudaErrorLaunchFailure;
  CHECK(convolve_on(&kind, "cuda:0", SITU_F32, &got) == SITU_E_LOST);
  CHECK_ERROR(SITU_E_LOST, "cuda:0 is lost: cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED "
                           "(5000)");
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
  return cmocka_run_group_tests_name("backend/cuda/dnn_faults", tests, NULL, NULL);
}
