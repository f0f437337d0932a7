/* Provenance: the line outside the library that a call came from.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "device/launch/launch.h"
#include "situ/sys/sim.h"
#include "support/test.h"

/* Libraries without line tables, or a toolchain without objcopy, can say less; what they say must
   still be true. */
static void check_line(const char *text, int line, const char *function) {
  char wanted[128];
  (void)snprintf(wanted, sizeof wanted, "site.c:%d in %s", line, function);
  if (!test_has_lines()) {
    (void)snprintf(wanted, sizeof wanted, "device_site+0x");
    if (!strstr(text, wanted)) (void)snprintf(wanted, sizeof wanted, "%s+0x", function);
  }
  if (!strstr(text, wanted)) fail_msg("\"%s\" does not have \"%s\"", text, wanted);
}

/* The library is called, and calls itself several levels deep before it asks. */
static void of_a_transfer(void **state) {
  (void)state;
  char byte = 0, text[256];
  situ__transfer *t;
  int64_t count;
  situ_ledger ledger;
  assert_int_equal(situ_sim_create(1), SITU_OK);
  situ_storage *s = situ__storage_new("test", (situ_device){ SITU_SIM, 0 }, 1);
  situ_ledger_begin(&ledger);
  int line = __LINE__ + 1;
  assert_int_equal(situ__copy_from_host("t", s, 0, &byte, 1, SITU__COPY_USER), SITU_OK);
  assert_true(situ__ledger_entries("t", &ledger, &t, &count));
  assert_int_equal(count, 1);
  assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
  situ__storage_release(s);
  void *site = t[0].site;
  situ__free(t);
  if (!site) skip(); /* linked into the program without a section of its own */
  check_line(situ__site_text(site, text, sizeof text), line, "of_a_transfer");
}

/* placement: D5 */
static void of_an_error(void **state) {
  (void)state;
  situ_device device;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  int line = __LINE__ + 1;
  assert_int_equal(situ_device_parse("CUDA", &device), SITU_E_ARG);
  const char *second = strchr(situ_error_message(), '\n');
  if (!situ__call_site()) skip();
  assert_non_null(second);
  assert_int_equal(strncmp(second, "\n  at ", 6), 0);
  check_line(second, line, "of_an_error");
  assert_null(strchr(second + 1, '\n')); /* said once, however often it is read */
  assert_ptr_equal(strchr(situ_error_message(), '\n'), second);
  situ_error_clear();
}

static void small_buffers(void **state) {
  (void)state;
  char text[8];
  memset(text, 'x', sizeof text);
  assert_string_equal(situ__site_text(NULL, text, sizeof text), "");
  (void)situ__site_text((void *)(uintptr_t)16, text, 0);
  assert_int_equal(*text, 0); /* untouched */
  void *here = __builtin_return_address(0);
  (void)situ__site_text(here, text, sizeof text);
  assert_in_range(strlen(text), 1, 7);
  (void)situ__site_text((void *)(uintptr_t)16, text, sizeof text);
  assert_string_equal(text, "0xf");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(of_a_transfer),
    cmocka_unit_test(of_an_error),
    cmocka_unit_test(small_buffers),
  };
  return cmocka_run_group_tests_name("device/site", tests, NULL, NULL);
}
