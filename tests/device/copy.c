/* Copies between memories.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/launch/launch.h"
#include "situ/sys/sim.h"

static const situ_device cpu = { SITU_CPU, 0 }, sim0 = { SITU_SIM, 0 }, sim1 = { SITU_SIM, 1 }, meta = { SITU_META, 0 };

static int fresh(void **state) {
  (void)state;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  return situ_sim_create(2) != SITU_OK || situ_sim_reset(0) != SITU_OK || situ_sim_reset(1) != SITU_OK;
}

static situ_storage *make(situ_device device, size_t bytes) {
  situ_storage *s = situ__storage_new("test", device, bytes);
  assert_non_null(s);
  return s;
}

/* Through every pair of devices, at odd places and sizes. */
/* placement: A5 */
static void any_to_any(void **state) {
  (void)state;
  enum { BYTES = 100000 };
  const situ_device device[] = { cpu, sim0, sim1 };
  unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
  assert_non_null(out);
  assert_non_null(in);
  for (int i = 0; i < BYTES; i++) out[i] = (unsigned char)(i * 7 + i / 251);
  for (int from = 0; from < 3; from++) {
    for (int to = 0; to < 3; to++) {
      situ_storage *a = make(device[from], BYTES + 13), *b = make(device[to], BYTES + 5);
      assert_int_equal(situ__copy_from_host("t", a, 13, out, BYTES, SITU__COPY_USER), SITU_OK);
      assert_int_equal(a->version, 1);
      assert_true(situ__holds_some(a));
      assert_int_equal(situ__copy_storage("t", b, 5, a, 13, BYTES, SITU__COPY_USER), SITU_OK);
      assert_int_equal(a->version, 1);
      assert_int_equal(b->version, 1);
      memset(in, 0, BYTES);
      assert_int_equal(situ__copy_to_host("t", b, 5, in, BYTES, SITU__COPY_READ), SITU_OK);
      assert_memory_equal(in, out, BYTES);
      situ__storage_release(a);
      situ__storage_release(b);
    }
  }
  free(out);
  free(in);
}

/* Between devices of two backends bytes pass through the host, a stage at a time. No second such
   backend is in every build, so sim's own way is taken from it for a moment. */
/* placement: F5 */
static void staged(void **state) {
  (void)state;
  enum { BYTES = 10 << 20, TAIL = 4 << 20 };
  const char sign = 77;
  char found = 0;
  situ_backend *backend = (situ_backend *)(uintptr_t)situ__sim_backend();
  situ_status (*peer)(int, void *, size_t, int, const void *, size_t, size_t) = backend->copy_peer;
  uint32_t *out = malloc(BYTES), *in = calloc(1, BYTES);
  assert_non_null(out);
  assert_non_null(in);
  for (uint32_t i = 0; i < BYTES / 4; i++) out[i] = i * 2654435761u;
  situ_storage *a = make(sim0, BYTES + 3), *b = make(sim1, BYTES + 1 + TAIL);
  assert_int_equal(situ__copy_from_host("t", a, 3, out, BYTES, SITU__COPY_USER), SITU_OK);
  assert_int_equal(situ__copy_from_host("t", b, BYTES + 1, &sign, 1, SITU__COPY_USER), SITU_OK);
  backend->copy_peer = NULL;
  situ_status status = situ__copy_storage("t", b, 1, a, 3, BYTES, SITU__COPY_USER);
  assert_int_equal(situ_sim_fail(1, SITU_SIM_COPY, 2, false), SITU_OK);
  situ_status broken = situ__copy_storage("t", b, 1, a, 3, BYTES, SITU__COPY_USER);
  backend->copy_peer = peer;
  assert_int_equal(status, SITU_OK);
  assert_int_equal(broken, SITU_E_IO);
  assert_int_equal(situ__copy_to_host("t", b, 1, in, BYTES, SITU__COPY_USER), SITU_OK);
  assert_memory_equal(in, out, BYTES);
  assert_int_equal(situ__copy_to_host("t", b, BYTES + 1, &found, 1, SITU__COPY_USER), SITU_OK);
  assert_int_equal(found, sign); /* the last stage was a short one */
  situ__storage_release(a);
  situ__storage_release(b);
  free(out);
  free(in);
}

static void refused(void **state) {
  (void)state;
  char byte[16] = { 0 };
  situ_storage *s = make(sim0, 10), *nothing = make(meta, 10);
  assert_int_equal(situ__copy_from_host("t", s, 5, byte, 6, SITU__COPY_USER), SITU_E_INDEX);
  assert_int_equal(situ__copy_from_host("t", s, SIZE_MAX, byte, 2, SITU__COPY_USER), SITU_E_INDEX);
  assert_int_equal(situ__copy_to_host("t", s, 11, byte, 0, SITU__COPY_USER), SITU_E_INDEX);
  assert_int_equal(situ__copy_to_host("t", s, 10, byte, 0, SITU__COPY_USER), SITU_OK);
  assert_int_equal(s->version, 0);
  situ_error_clear();
  assert_int_equal(situ__copy_from_host("copy_", nothing, 0, byte, 1, SITU__COPY_USER), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "copy_: a tensor on meta has no values"));
  assert_int_equal(situ__copy_storage("t", s, 0, nothing, 0, 1, SITU__COPY_USER), SITU_E_UNSUPPORTED);
  assert_int_equal(situ__copy_storage("t", nothing, 0, s, 0, 1, SITU__COPY_USER), SITU_E_UNSUPPORTED);
  situ__storage_release(s);
  situ__storage_release(nothing);
}

/* A device that fails leaves the host's buffer, the version and the ledger as they were. */
static void failing_copy(void **state) {
  (void)state;
  char byte[4] = { 1, 2, 3, 4 };
  situ_storage *s = make(sim0, 4);
  situ_ledger ledger;
  situ_ledger_begin_none(&ledger);
  assert_int_equal(situ_sim_fail(0, SITU_SIM_COPY, 1, true), SITU_OK);
  assert_int_equal(situ__copy_from_host("to", s, 0, byte, 4, SITU__COPY_USER), SITU_E_IO);
  assert_string_equal(situ_error_op(), "to");
  assert_non_null(strstr(situ_error_message(), "copying on sim:0 failed: IO"));
  assert_int_equal(s->version, 0);
  assert_int_equal(s->flags, SITU_STORAGE_UNWRITTEN);
  assert_int_equal(situ__copy_to_host("to", s, 0, byte, 4, SITU__COPY_USER), SITU_E_IO);
  assert_int_equal(byte[0], 1);
  assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
  situ__storage_release(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(any_to_any, fresh),
    cmocka_unit_test_setup(staged, fresh),
    cmocka_unit_test_setup(refused, fresh),
    cmocka_unit_test_setup(failing_copy, fresh),
  };
  return cmocka_run_group_tests_name("device/copy", tests, NULL, NULL);
}
