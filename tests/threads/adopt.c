/* test-options: -DSITU_TEST_THREADS */
/* Threads that adopt devices, compute there and give them back, all at once: each has its own, and tensors of one stop
   no other.
   SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "situ/interop.h"
#include "situ/scope.h"
#include "situ/sys/sim.h"
#include "support/test.h"

enum { THREADS = 4, TURNS = 60 };

static const char *turn(situ_device device, float *memory, float seed) {
  situ_scope scope;
  float got[2];
  situ_scope_begin(&scope);
  const situ_memory m = { .handle = memory };
  memory[0] = seed;
  situ_tensor *x = situ_from_memory(&m, SITU_SHAPE(2), &(situ_options){ .device = device });
  if (!situ_add_(x, x)) return "no sum";
  if (situ_device_abandon(device) != SITU_E_STATE) return "given back with a tensor";
  situ_error_clear();
  if (situ_copy_to_host(x, got, sizeof got) != SITU_OK || got[0] != 2 * seed) return "another value";
  return situ_scope_end(&scope) == SITU_OK ? NULL : "a scope with an error";
}

static void *adopts(void *payload) {
  const float seed = (float)(uintptr_t)payload;
  float memory[2] = { 0, 0 };
  const situ_sim_context context = { memory, sizeof memory };
  const situ_foreign f = { .kind = SITU_SIM, .context = (void *)(uintptr_t)&context, .queue = memory };
  const char *wrong = NULL;
  for (int i = 0; i < TURNS && !wrong; i++) {
    situ_device device;
    if (situ_device_adopt(&f, &device) != SITU_OK) return (void *)(uintptr_t) "not adopted";
    wrong = turn(device, memory, seed + (float)i);
    if (!wrong && situ_device_abandon(device) != SITU_OK) wrong = "not given back";
  }
  return (void *)(uintptr_t)wrong;
}

static void each_thread_has_its_own(void **state) {
  (void)state;
  pthread_t thread[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, adopts, (void *)(1000 * i)), 0);
  for (int i = 0; i < THREADS; i++) {
    void *wrong = NULL;
    (void)pthread_join(thread[i], &wrong);
    if (wrong) fail_msg("%s", (const char *)wrong);
  }
  assert_int_equal(situ_device_count("sim"), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(each_thread_has_its_own) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
