/* test-devices: opencl:0 only */
/* test-links: situ_test_shim */
/* Each call of OpenCL's fails once, everywhere in a program that uses two devices: it is told, nothing leaks, what was lost
   stays lost with its first cause, and all else goes on. A device that is lost stays so until the process ends, so each
   failure has a process of its own.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "situ/scope.h"
#include "support/opencl/shim.h"
#include "support/test.h"

/* OpenCL's codes. */
enum { NOT_AVAILABLE = -2, OUT_OF_RESOURCES = -5 };

/* How a process ends. */
enum { TOLD, HARMLESS, NO_SUCH_CALL, WRONG };

static int wrong(const char *what) {
  const char *call = shim_failed();
  fprintf(stderr, "%s failed: %s (%s)\n", call ? call : "nothing", what, situ_error_message());
  return WRONG;
}

/* ---- a program ------------------------------------------------------------------------------ */

/* Copies in, between and out, kernels with scratch, with a check of indices, and with neither. */
static situ_status use(situ_device a, situ_device b, bool *right) {
  static const float value[] = { 3, 1, 2, 5 }, want[] = { 8, 1, 2, 0 };
  static const int64_t index[] = { 0, 1, 2, 0 };
  float got[4] = { 0 };
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *x = situ_from_host(value, sizeof value, SITU_SHAPE(4), &(situ_options){ .device = a });
  situ_tensor *at =
      situ_from_host(index, sizeof index, SITU_SHAPE(4), &(situ_options){ .dtype = SITU_I64, .device = a });
  situ_tensor *y = situ_add(situ_index_add(x, 0, at, x, 1), situ_neg(x));
  y = situ_add(situ_to(y, b), situ_zeros(SITU_SHAPE(4), &(situ_options){ .device = b }));
  situ_status status = situ_copy_to_host(y, got, sizeof got);
  *right = memcmp(got, want, sizeof got) == 0;
  if (status == SITU_OK) status = situ_synchronize(a);
  situ_status ended = situ_scope_end(&scope);
  return status == SITU_OK ? ended : status;
}

/* Every call says so, with the cause; freeing has worked, and cpu works. */
static int is_lost(situ_device device, const char *name, int code) {
  bool right = false;
  const char *cause = situ_device_status(name);
  char number[16];
  snprintf(number, sizeof number, "(%d)", code);
  if (!strstr(cause, number)) return wrong(cause);
  for (int i = 0; i < 2; i++) {
    situ_error_clear();
    if (use(device, device, &right) != SITU_E_LOST || situ_error() != SITU_E_LOST)
      return wrong("a lost device came back");
    if (!strstr(situ_error_message(), cause)) return wrong("not the first cause");
    situ_error_clear();
    if (situ_synchronize(device) != SITU_E_LOST) return wrong("a lost device can be waited for");
  }
  situ_error_clear();
  return use(situ_dev("cpu"), situ_dev("cpu"), &right) == SITU_OK && right ? TOLD : wrong("cpu is lost too");
}

/* The n-th call fails: this process. */
static int fail_once(long nth, int code, bool from_then_on) {
  const situ_device first = { SITU_OPENCL, 0 }, second = { SITU_OPENCL, 1 };
  bool right = false;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  shim_fail(NULL, nth, code, from_then_on);
  situ_status status = use(first, second, &right);
  const char *cause = shim_failed();
  if (!cause) return status == SITU_OK && right ? NO_SUCH_CALL : wrong("it failed without a failure");
  if (status == SITU_OK && !right) return wrong("wrong values without an error");
  shim_fail(NULL, 0, 0, false);
  if (!from_then_on && status == SITU_E_LOST && !strstr(situ_error_message(), cause)) return wrong("not the cause");
  int end = status == SITU_OK ? HARMLESS : TOLD;
  if (status != SITU_OK && situ_error() == SITU_OK) return wrong("an error without a record");
  if (situ_device_count("opencl") < 2) {
    if (status == SITU_OK || !strlen(situ_device_status("opencl"))) return wrong("a device that is not there was used");
    return TOLD;
  }
  if (status != SITU_OK && status != SITU_E_LOST && status != SITU_E_NOMEM) return wrong("an odd status");
  if (code == NOT_AVAILABLE && status != SITU_E_LOST && status != SITU_OK) return wrong("not lost");
  const bool lost[] = { strcmp(situ_device_status("opencl:0"), "it is there") != 0,
                        strcmp(situ_device_status("opencl:1"), "it is there") != 0 };
  if ((lost[0] || lost[1]) != (status == SITU_E_LOST)) return wrong("lost, or not?");
  if (lost[0]) end |= is_lost(first, "opencl:0", code);
  if (lost[1]) end |= is_lost(second, "opencl:1", code);
  situ_error_clear();
  const situ_device goes_on = lost[0] ? second : first;
  if (!(lost[0] && lost[1]) && (use(goes_on, lost[1] ? first : second, &right) != SITU_OK || !right))
    return wrong("what was not lost does not work");
  SITU_IGNORE(situ_empty_cache(first));
  SITU_IGNORE(situ_empty_cache(second));
  /* An open device keeps its context, its queue and one buffer. */
  if (situ_live_bytes() || shim_alive(SHIM_PROGRAM) || shim_alive(SHIM_QUEUE) != shim_alive(SHIM_CONTEXT) ||
      shim_alive(SHIM_BUFFER) != shim_alive(SHIM_CONTEXT))
    return wrong("a leak");
  return end;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int run_self(long nth, int code, bool from_then_on) {
  char command[128];
  snprintf(command, sizeof command, "exec /proc/%ld/exe %ld %d %d", (long)getpid(), nth, code, from_then_on);
  int status = system(command);
  if (!WIFEXITED(status)) fail_msg("%s ended by signal %d", command, WTERMSIG(status));
  return WEXITSTATUS(status);
}

/* cold: no compiled program is on disk. */
static void fail_each_call(int code, bool from_then_on, bool cold) {
  int count[WRONG + 1] = { 0 };
  char cache[1024];
  (void)test_device();
  assert_non_null(getcwd(cache, sizeof cache - 8));
  strcat(cache, "/cache");
  setenv("XDG_CACHE_HOME", cache, 1);
  if (!cold) (void)run_self(0, 0, false);
  for (long nth = 1; !count[NO_SUCH_CALL]; nth = test_next_fault(nth)) {
    if (cold) assert_int_equal(system("rm -rf cache"), 0);
    int end = run_self(nth, code, from_then_on);
    assert_in_range(end, TOLD, WRONG - 1);
    count[end]++;
  }
  print_message("%d, %s, %s: %d failures told, %d harmless, none silent, no leaks\n", code,
                from_then_on ? "from then on" : "once", cold ? "cold" : "warm", count[TOLD], count[HARMLESS]);
  assert_true(count[TOLD] > (test_is_slow() ? 8 : 30));
}

static void out_of_resources_once(void **state) {
  (void)state;
  fail_each_call(OUT_OF_RESOURCES, false, true);
}

static void gone_from_then_on(void **state) {
  (void)state;
  fail_each_call(NOT_AVAILABLE, true, false);
}

int main(int argc, char **argv) {
  if (argc == 4) return fail_once(atol(argv[1]), atoi(argv[2]), atoi(argv[3]));
  const struct CMUnitTest tests[] = {
    TEST(out_of_resources_once),
    TEST(gone_from_then_on),
  };
  return cmocka_run_group_tests_name("backend/opencl/faults", tests, NULL, NULL);
}
