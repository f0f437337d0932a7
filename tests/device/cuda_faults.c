/* Every call of CUDA's that a scenario makes is failed once, on the double: each failure is reported, or made good; nothing is
   wrong afterwards, nothing leaks, and a device is well or lost.
   SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>

#include "device/device.h"
#include "support/cuda/child.h"
#include "support/cuda/double.h"
#include "support/test.h"

enum { SMALL = 1000, LARGE = (4 << 20) + 1000 /* a piece and a little */ };

/* What one run found; shared with the child that found it. */
typedef struct outcome {
  bool hit, reported, lost[2], none;
  long calls, streams, events, pinned, pools, libraries;
} outcome;

typedef struct plan {
  long nth;
  cudaError_t error;
  bool sticky;
  outcome *to;
} plan;

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
  if (status == SITU_OK)
    status = situ__copy_from_host("test", store[0], 0, host, bytes, SITU__COPY_USER);
  memset(host, 0, bytes);
  for (int k = 0; k < 2 && status == SITU_OK; k++)
    status = situ__copy_storage("test", store[k + 1], 0, store[k], 0, bytes, SITU__COPY_USER);
  if (status == SITU_OK)
    status = situ__copy_storage("test", store[0], 0, store[2], 0, bytes, SITU__COPY_USER);
  if (status == SITU_OK)
    status = situ__copy_to_host("test", store[0], 0, host, bytes, SITU__COPY_USER);
  if (status == SITU_OK) CHECK(same(host, bytes, seed));
  CHECK(situ_error() == status);
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
  situ_error_clear();
  return status;
}

/* Well, with right values, or lost for good, and no third thing. */
static void look_at(int device, outcome *to) {
  situ_status status = round_trip(device, device, SMALL, 4);
  if (status == SITU_OK) status = round_trip(device, device, SMALL, 5);
  to->lost[device] = status != SITU_OK;
  if (status == SITU_OK) return;
  CHECK(status == SITU_E_LOST && situ__device_lost(situ_dev(names[device])));
  CHECK(round_trip(device, device, SMALL, 6) == SITU_E_LOST);
}

static void run_body(void *payload) {
  const plan *p = payload;
  outcome *to = p->to;
  cuda_double *d = cuda_double_state();
  situ_error_mode(SITU_ERROR_QUIET);
  d->fail_nth = p->nth;
  d->fail_error = p->error;
  d->fail_sticky = p->sticky;
  to->none = situ_device_count("cuda") == 0;
  if (to->none) { /* counting them failed: they are not there, and it is said why */
    to->hit = to->reported = d->failed == 1;
    CHECK(to->hit && strstr(situ_device_status("cuda"), "the devices cannot be counted") != NULL);
    return;
  }
  situ_status status = scenario();
  to->calls = d->calls;
  to->hit = d->failed == 1;
  to->reported = status != SITU_OK;
  CHECK(to->hit || status == SITU_OK);
  d->fail_nth = 0;
  for (int k = 0; k < 2; k++) look_at(k, to);
  for (int k = 0; k < 2; k++) {
    if (to->lost[k]) {
      CHECK(to->hit);
      continue;
    }
    CHECK(situ_empty_cache(situ_dev(names[k])) == SITU_OK);
    CHECK(situ_synchronize(situ_dev(names[k])) == SITU_OK);
    CHECK(d->bytes[k] == 0);
  }
  to->streams = d->streams;
  to->events = d->events;
  to->pinned = d->pinned;
  to->pools = d->pools_open;
  to->libraries = d->libraries;
}

/* The nth call fails; true if there was one. */
static bool run_one(plan *p, const outcome *clean) {
  *p->to = (outcome){ .hit = false };
  if (in_child(run_body, p) != 0) fail_msg("call %ld failed with error %d", p->nth, (int)p->error);
  const outcome *o = p->to;
  if (clean) {
    assert_true(o->streams <= clean->streams && o->events <= clean->events);
    assert_true(o->pinned <= clean->pinned && o->pools <= clean->pools);
    assert_true(o->libraries <= clean->libraries);
  }
  return o->hit;
}

static void walk_with(cudaError_t error, bool sticky) {
  outcome clean,
      *to = mmap(NULL, sizeof *to, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(to != MAP_FAILED);
  plan p = { .error = error, .sticky = sticky, .to = to };
  assert_false(run_one(&p, NULL));
  clean = *to;
  assert_false(clean.reported || clean.lost[0] || clean.lost[1] || clean.none);
  long failed = 0, made_good = 0, lost = 0, none = 0;
  for (p.nth = 1; run_one(&p, &clean); p.nth++) {
    failed++;
    made_good += !to->reported;
    lost += to->lost[0] || to->lost[1];
    none += to->none;
  }
  assert_int_equal(failed, clean.calls);
  print_message(
      "error %d%s: %ld calls failed once: %ld reported (%ld: no device, %ld: device lost), "
      "%ld made good; 0 silent, 0 leaks\n",
      (int)error, sticky ? " (sticky)" : "", failed, failed - made_good, none, lost, made_good);
  (void)munmap(to, sizeof *to);
}

static void no_memory(void **state) { (void)state, walk_with(cudaErrorMemoryAllocation, false); }
static void refused(void **state) { (void)state, walk_with(cudaErrorInvalidValue, false); }
static void broken(void **state) { (void)state, walk_with(cudaErrorLaunchFailure, true); }

int main(void) {
  (void)setenv("SITU_NUM_THREADS", "1", 1); /* hundreds of children need no threads of their own */
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_memory),
    cmocka_unit_test(refused),
    cmocka_unit_test(broken),
  };
  return cmocka_run_group_tests_name("device/cuda_faults", tests, NULL, NULL);
}
