/* The simulated device's memory: the host cannot touch it, it has a budget, and its allocator
   loses nothing.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/sim/sim.h"
#include "base/alloc.h"
#include "device/launch/launch.h"

static const situ_device sim = { SITU_SIM, 0 };

static int fresh(void **state) {
  (void)state;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  return situ_sim_create(2) != SITU_OK || situ_sim_reset(0) != SITU_OK || situ_empty_cache(sim) != SITU_OK;
}

/* The signal that kills a child which reads (or writes) there; 0: it lived. */
static int signal_of(volatile char *address, bool write) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer would make a report and an exit code of it */
    if (write) *address = 1;
    _exit(*address == 1 && !write);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* placement: I7, I8 */
static void host_cannot_touch_it(void **state) {
  (void)state;
  char one = 1, back = 0;
  situ_storage *s = situ__storage_new("test", sim, 3 << 20);
  assert_non_null(s);
  assert_int_equal(situ__copy_from_host("t", s, 77, &one, 1, SITU__COPY_USER), SITU_OK);
  assert_int_equal(situ_synchronize(sim), SITU_OK);
  assert_int_equal(signal_of((char *)s->data + 77, false), SIGSEGV);
  assert_int_equal(signal_of((char *)s->data + 77, true), SIGSEGV);
  assert_int_equal(signal_of((char *)s->data + (3 << 20) - 1, false), SIGSEGV);
  assert_int_equal(situ__copy_to_host("t", s, 77, &back, 1, SITU__COPY_READ), SITU_OK);
  assert_int_equal(back, 1);
  assert_int_equal(signal_of(&back, false), 0); /* this test can tell the two apart */
  situ__sim *device = situ__sim_lock(0);
  char *alias = situ__sim_alias(&device->arena, s->data);
  situ__sim_unlock(device);
  assert_int_equal(alias[77], 1);
  assert_int_equal(signal_of(alias + 77, false), SIGSEGV); /* no child sees the device's side */
  situ__storage_release(s);
}

/* placement: I7, I8 */
static void budget(void **state) {
  (void)state;
  situ_sim_statistics st;
  assert_int_equal(situ_sim_budget(0, 1 << 20), SITU_OK);
  situ_storage *a = situ__storage_new("zeros", sim, 768 << 10);
  assert_non_null(a);
  assert_null(situ__storage_new("zeros", sim, 512 << 10));
  assert_int_equal(situ_error(), SITU_E_NOMEM);
  assert_non_null(strstr(situ_error_message(), "zeros: no memory for 512.0 KiB on sim:0 (768.0 KiB in use there)"));
  assert_int_equal(situ_sim_stats(0, &st), SITU_OK);
  assert_int_equal(st.used, 768 << 10);
  assert_int_equal(st.budget, 1 << 20);
  situ_storage *b = situ__storage_new("zeros", sim, 256 << 10); /* to the last byte */
  assert_non_null(b);
  situ__storage_release(a);
  situ__storage_release(b);
  assert_int_equal(situ_sim_budget(0, 0), SITU_OK); /* below what the cache holds */
  situ_error_clear();
  assert_null(situ__storage_new("zeros", sim, 1));
  assert_int_equal(situ_sim_stats(0, &st), SITU_OK);
  assert_int_equal(st.used, 0); /* the cache was given back on the way */
  assert_int_equal(situ_sim_budget(0, UINT64_MAX), SITU_E_ARG);
  situ_device_properties p;
  assert_int_equal(situ_device_info(sim, &p), SITU_OK);
  assert_int_equal(p.memory_total, 0);
}

/* The arena itself: pseudo-random blocks never overlap, and all addresses come back together in
   the end. */
static void arena(void **state) {
  (void)state;
  enum { COUNT = 300 };
  situ__sim_arena arena = { 0 };
  static char *block[COUNT];
  static size_t bytes[COUNT];
  uint32_t random = 3;
  for (int round = 0; round < 6000; round++) {
    random = random * 1664525u + 1013904223u;
    unsigned i = (random >> 8) % COUNT;
    if (block[i]) {
      char *alias = situ__sim_alias(&arena, block[i]);
      assert_int_equal(alias[0], (char)i);
      assert_int_equal(alias[bytes[i] - 1], (char)i);
      situ__sim_arena_free(&arena, block[i], bytes[i]);
      block[i] = NULL;
    } else {
      bytes[i] = 1 + (random >> 4) % ((random & 7) == 0 ? 300000 : 3000);
      block[i] = situ__sim_arena_alloc(&arena, bytes[i]);
      assert_non_null(block[i]);
      assert_true(situ__sim_owns(&arena, block[i], bytes[i]));
      memset(situ__sim_alias(&arena, block[i]), (int)i, bytes[i]);
    }
    for (size_t k = 1; k < arena.count; k++)
      assert_true(arena.free[k - 1].at + arena.free[k - 1].bytes < arena.free[k].at);
  }
  for (unsigned i = 0; i < COUNT; i++)
    if (block[i]) situ__sim_arena_free(&arena, block[i], bytes[i]);
  assert_int_equal(arena.live, 0);
  assert_int_equal(arena.count, 1);
  assert_int_equal(arena.free[0].at, 0);
  assert_int_equal(arena.free[0].bytes, situ__sim_arena_most());
  assert_null(situ__sim_arena_alloc(&arena, situ__sim_arena_most() + 1));
  void *all = situ__sim_arena_alloc(&arena, situ__sim_arena_most());
  assert_non_null(all);
  assert_null(situ__sim_arena_alloc(&arena, 1));
  situ__sim_arena_free(&arena, all, situ__sim_arena_most());
  assert_false(situ__sim_owns(&arena, &arena, 1));
  assert_false(situ__sim_owns(&arena, arena.handle, situ__sim_arena_most() + 1));
  assert_int_equal(munmap(arena.handle, situ__sim_arena_most()), 0);
  assert_int_equal(munmap(arena.alias, situ__sim_arena_most()), 0);
  situ__free(arena.free);
}

/* Giving pages back must not reach into a neighbour that shares one. */
static void neighbours_survive(void **state) {
  (void)state;
  enum { BYTES = 10000 };
  char out[BYTES], in[BYTES];
  situ_storage *s[3];
  memset(out, 9, sizeof out);
  for (int i = 0; i < 3; i++) {
    s[i] = situ__storage_new("test", sim, BYTES);
    assert_int_equal(situ__copy_from_host("t", s[i], 0, out, BYTES, SITU__COPY_USER), SITU_OK);
  }
  situ__storage_release(s[1]);
  assert_int_equal(situ_empty_cache(sim), SITU_OK);
  for (int i = 0; i < 3; i += 2) {
    assert_int_equal(situ__copy_to_host("t", s[i], 0, in, BYTES, SITU__COPY_READ), SITU_OK);
    assert_memory_equal(in, out, BYTES);
    situ__storage_release(s[i]);
  }
}

/* What a process that begins with this SITU_SIM has. */
static int devices_with(const char *wanted) {
  const pid_t child = fork();
  if (child == 0) {
    (void)setenv("SITU_SIM", wanted, 1);
    _exit(situ_device_count("sim"));
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/* Before there are devices here. */
static void number_of_the_environment(void **state) {
  (void)state;
  assert_int_equal(devices_with("3"), 3);
  assert_int_equal(devices_with("16"), SITU_SIM_MAX);
  static const char *const none[] = { "", "0", "-1", "17", "2x", "two", "99999999999999999999" };
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_int_equal(devices_with(none[i]), 0);
}

/* placement: I8 */
static void switches(void **state) {
  (void)state;
  situ_sim_statistics st;
  assert_int_equal(situ_sim_create(0), SITU_E_ARG);
  assert_int_equal(situ_sim_create(SITU_SIM_MAX + 1), SITU_E_ARG);
  int count = situ_device_count("sim");
  assert_int_equal(situ_sim_create(1), SITU_OK);
  assert_int_equal(situ_device_count("sim"), count); /* never fewer */
  assert_int_equal(situ_sim_create(count + 1), SITU_OK);
  assert_int_equal(situ_device_count("sim"), count + 1);
  assert_true(situ_device_is_available((situ_device){ SITU_SIM, (uint16_t)count }));
  situ_error_clear();
  assert_int_equal(situ_sim_reset(-1), SITU_E_ARG);
  assert_non_null(strstr(situ_error_message(), "sim_reset: there is no sim:-1 (there are "));
  assert_int_equal(situ_sim_reset(count + 1), SITU_E_ARG);
  assert_int_equal(situ_sim_budget(99, 1), SITU_E_ARG);
  const uint64_t most = situ__sim_arena_most();
  assert_int_equal(situ_sim_budget(0, most), SITU_OK);
  assert_int_equal(situ_sim_budget(0, most + 1), SITU_E_ARG);
  assert_int_equal(situ_sim_without(99, 1), SITU_E_ARG);
  assert_int_equal(situ_sim_fail(99, SITU_SIM_COPY, 1, true), SITU_E_ARG);
  assert_int_equal(situ_sim_fail(0, SITU_SIM_FAULTS, 1, true), SITU_E_ARG);
  assert_int_equal(situ_sim_stats(99, &st), SITU_E_ARG);
  assert_int_equal(situ_sim_stats(0, NULL), SITU_E_ARG);
}

/* The addresses that this process has; 0: unknown. */
static rlim_t addresses(void) {
  unsigned long pages = 0;
  FILE *size = fopen("/proc/self/statm", "r");
  if (size && fscanf(size, "%lu", &pages) != 1) pages = 0;
  if (size) fclose(size);
  return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Addresses for one of the two mappings of a device, and not for both: there is no memory. */
static void too_few_addresses(void **state) {
  (void)state;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    situ__sim_arena arena = { 0 };
    const rlim_t now = addresses(), most = situ__sim_arena_most();
    if (!now || setrlimit(RLIMIT_AS, &(struct rlimit){ now + most + most / 2, RLIM_INFINITY }) != 0) _exit(0);
    _exit(situ__sim_arena_alloc(&arena, 4096) != NULL);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(number_of_the_environment),
    cmocka_unit_test_setup(host_cannot_touch_it, fresh),
    cmocka_unit_test_setup(budget, fresh),
    cmocka_unit_test_setup(arena, fresh),
    cmocka_unit_test_setup(neighbours_survive, fresh),
    cmocka_unit_test_setup(switches, fresh),
    cmocka_unit_test(too_few_addresses),
  };
  return cmocka_run_group_tests_name("backend/sim/memory", tests, NULL, NULL);
}
