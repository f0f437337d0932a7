/* Every call of CUDA's that a scenario makes is failed once, on the double: each failure is reported, or made good; nothing is
   wrong afterwards, nothing leaks, and a device is well or lost.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cuda */
#include "support/cuda/faults.h"

enum { SMALL = 1000, LARGE = (4 << 20) + 1000 /* a piece and a little */ };

static const char *const names[] = { "cuda:0", "cuda:1" };

static bool same(const unsigned char *a, size_t bytes, int seed) {
  for (size_t i = 0; i < bytes; i++)
    if (a[i] != (unsigned char)(i * 7 + (i >> 8) + (size_t)seed)) return false;
  return true;
}

static unsigned char *numbers(size_t bytes, int seed) {
  unsigned char *out = malloc(bytes);
  CHECK(out != NULL);
  for (size_t i = 0; i < bytes; i++) out[i] = (unsigned char)(i * 7 + (i >> 8) + (size_t)seed);
  return out;
}

/* Through one device to the next and back: in, across, within, out. Values are right, or the status says what was wrong. */
static situ_status round_trip(int first, int second, size_t bytes, int seed) {
  unsigned char *host = numbers(bytes, seed);
  situ_status status = SITU_OK;
  situ_storage *store[3] = { NULL };
  for (int k = 0; k < 3 && status == SITU_OK; k++) {
    store[k] = situ__storage_new("test", situ_dev(names[k == 1 ? second : first]), bytes);
    if (!store[k]) status = situ_error();
  }
  if (status == SITU_OK) status = situ__copy_from_host("test", store[0], 0, host, bytes, SITU__COPY_USER);
  memset(host, 0, bytes);
  for (int k = 0; k < 2 && status == SITU_OK; k++)
    status = situ__copy_storage("test", store[k + 1], 0, store[k], 0, bytes, SITU__COPY_USER);
  if (status == SITU_OK) status = situ__copy_storage("test", store[0], 0, store[2], 0, bytes, SITU__COPY_USER);
  if (status == SITU_OK) status = situ__copy_to_host("test", store[0], 0, host, bytes, SITU__COPY_USER);
  if (status == SITU_OK) CHECK(same(host, bytes, seed));
  CHECK(situ_error() == status && (status == SITU_OK || *situ_error_message()));
  situ_error_clear();
  for (int k = 0; k < 3; k++) situ__storage_release(store[k]);
  CHECK(situ_error() == SITU_OK); /* freeing never fails */
  free(host);
  return status;
}

static situ_status scenario(void) {
  situ_status status = round_trip(0, 1, SMALL, 1);
  if (status == SITU_OK) status = round_trip(1, 0, LARGE, 2);
  if (status == SITU_OK) status = round_trip(0, 1, SMALL, 3);
  for (int k = 0; k < 2 && status == SITU_OK; k++) status = situ_synchronize(situ_dev(names[k]));
  return status;
}

/* Well, with right values, or lost for good, and no third thing. */
static void look_at(int device, faults *f) {
  situ_status status = round_trip(device, device, SMALL, 4);
  if (status == SITU_OK) status = round_trip(device, device, SMALL, 5);
  if (status == SITU_OK) {
    CHECK(situ_empty_cache(situ_dev(names[device])) == SITU_OK);
    CHECK(situ_synchronize(situ_dev(names[device])) == SITU_OK);
    CHECK(cuda_double_state()->bytes[device] == 0);
    return;
  }
  f->lost = true;
  CHECK(status == SITU_E_LOST && situ__device_lost(situ_dev(names[device])));
  CHECK(round_trip(device, device, SMALL, 6) == SITU_E_LOST);
}

static void run_body(void *payload) {
  faults *f = payload;
  faults_arm(f);
  f->none = situ_device_count("cuda") == 0;
  if (f->none) { /* counting them failed: they are not there, and it is said why */
    f->hit = f->reported = cuda_double_state()->failed == 1;
    CHECK(f->hit && strstr(situ_device_status("cuda"), "the devices cannot be counted") != NULL);
    return;
  }
  faults_disarm(f, scenario());
  for (int k = 0; k < 2; k++) look_at(k, f);
  CHECK(f->hit || !f->lost);
  faults_count(f);
}

static void walk_with(cudaError_t error, bool sticky) { assert_true(faults_walk(run_body, error, sticky) > 200); }

static void a_call_without_memory_is_reported_or_made_good(void **state) {
  (void)state, walk_with(cudaErrorMemoryAllocation, false);
}
static void a_refused_call_is_reported_or_made_good(void **state) {
  (void)state, walk_with(cudaErrorInvalidValue, false);
}
static void a_broken_device_is_lost(void **state) { (void)state, walk_with(cudaErrorLaunchFailure, true); }

int main(void) {
  (void)setenv("SITU_NUM_THREADS", "1", 1); /* hundreds of children need no threads of their own */
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_call_without_memory_is_reported_or_made_good),
    cmocka_unit_test(a_refused_call_is_reported_or_made_good),
    cmocka_unit_test(a_broken_device_is_lost),
  };
  return cmocka_run_group_tests_name("backend/cuda/faults", tests, NULL, NULL);
}
