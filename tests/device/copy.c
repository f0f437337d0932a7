/* Copies between memories, and the ledger that notes them.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"
#include "situ/sys/sim.h"

static const situ_device cpu = { SITU_CPU, 0 }, sim0 = { SITU_SIM, 0 }, sim1 = { SITU_SIM, 1 },
                         meta = { SITU_META, 0 };

static int fresh(void **state) {
  (void)state;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  return situ_sim_create(2) != SITU_OK || situ_sim_reset(0) != SITU_OK ||
         situ_sim_reset(1) != SITU_OK;
}

static situ_storage *make(situ_device device, size_t bytes) {
  situ_storage *s = situ__storage_new("test", device, bytes);
  assert_non_null(s);
  return s;
}

/* Through every pair of devices, at odd places and sizes. */
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
      assert_int_equal(a->flags & SITU_STORAGE_UNWRITTEN, 0);
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
  assert_int_equal(situ__copy_from_host("copy_", nothing, 0, byte, 1, SITU__COPY_USER),
                   SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "copy_: a tensor on meta has no values"));
  assert_int_equal(situ__copy_storage("t", s, 0, nothing, 0, 1, SITU__COPY_USER),
                   SITU_E_UNSUPPORTED);
  assert_int_equal(situ__copy_storage("t", nothing, 0, s, 0, 1, SITU__COPY_USER),
                   SITU_E_UNSUPPORTED);
  situ__storage_release(s);
  situ__storage_release(nothing);
}

/* A device that fails leaves the host's buffer, the version and the ledger as they were. */
static void failing_copy(void **state) {
  (void)state;
  char byte[4] = { 1, 2, 3, 4 };
  situ_storage *s = make(sim0, 4);
  situ__ledger_mark mark = situ__ledger_start(), sum;
  assert_int_equal(situ_sim_fail(0, SITU_SIM_COPY, 1, true), SITU_OK);
  assert_int_equal(situ__copy_from_host("to", s, 0, byte, 4, SITU__COPY_USER), SITU_E_IO);
  assert_string_equal(situ_error_op(), "to");
  assert_non_null(strstr(situ_error_message(), "copying on sim:0 failed: IO"));
  assert_int_equal(s->version, 0);
  assert_int_equal(s->flags, SITU_STORAGE_UNWRITTEN);
  assert_int_equal(situ__copy_to_host("to", s, 0, byte, 4, SITU__COPY_USER), SITU_E_IO);
  assert_int_equal(byte[0], 1);
  assert_int_equal(situ__ledger_read(&mark, &sum, NULL, 0), 0);
  assert_int_equal(sum.count, 0);
  situ__ledger_stop();
  situ__storage_release(s);
}

/* ---- the ledger ---- */

static void notes_what_crosses(void **state) {
  (void)state;
  char bytes[300] = { 0 };
  situ_storage *c = make(cpu, 300), *a = make(sim0, 300), *b = make(sim1, 300);
  situ__transfer t[8];
  situ__ledger_mark sum;
  assert_int_equal(situ__copy_from_host("before", a, 0, bytes, 300, SITU__COPY_USER),
                   SITU_OK); /* nobody records yet */
  situ__ledger_mark mark = situ__ledger_start();
  assert_true(situ__ledger_recording());
  assert_int_equal(situ__copy_from_host("from_host", a, 0, bytes, 100, SITU__COPY_USER), SITU_OK);
  assert_int_equal(situ__copy_storage("to", b, 0, a, 0, 20, SITU__COPY_MOVE), SITU_OK);
  assert_int_equal(situ__copy_storage("to", c, 0, b, 0, 30, SITU__COPY_USER), SITU_OK);
  assert_int_equal(situ__copy_to_host("item", b, 0, bytes, 4, SITU__COPY_READ), SITU_OK);
  assert_int_equal(situ__copy_from_host("host", c, 0, bytes, 100, SITU__COPY_USER),
                   SITU_OK); /* one memory */
  assert_int_equal(situ__copy_from_host("none", a, 0, bytes, 0, SITU__COPY_USER),
                   SITU_OK); /* no bytes */
  assert_int_equal(situ__ledger_read(&mark, &sum, t, 8), 4);
  assert_int_equal(sum.count, 4);
  assert_int_equal(sum.bytes, 154);
  assert_string_equal(t[0].op, "from_host");
  assert_true(situ_device_equal(t[0].from, cpu) && situ_device_equal(t[0].to, sim0));
  assert_int_equal(t[0].bytes, 100);
  assert_int_equal(t[0].reason, SITU__COPY_USER);
  assert_true(situ_device_equal(t[1].from, sim0) && situ_device_equal(t[1].to, sim1));
  assert_int_equal(t[1].reason, SITU__COPY_MOVE);
  assert_ptr_equal(t[1].storage, a);
  assert_true(situ_device_equal(t[2].from, sim1) && situ_device_equal(t[2].to, cpu));
  assert_string_equal(t[3].op, "item");
  assert_int_equal(situ__ledger_read(&mark, &sum, t, 2), 2); /* the newest */
  assert_int_equal(sum.count, 4);
  assert_string_equal(t[1].op, "item");
  situ__ledger_stop();
  assert_false(situ__ledger_recording());
  situ__storage_release(a);
  situ__storage_release(b);
  situ__storage_release(c);
}

static void recorders_nest(void **state) {
  (void)state;
  situ__transfer one = { .bytes = 1, .op = "x" }, t[4];
  situ__ledger_mark sum, outer = situ__ledger_start();
  situ__ledger_note(&one);
  situ__ledger_mark inner = situ__ledger_start();
  situ__ledger_note(&one);
  assert_int_equal(situ__ledger_read(&inner, &sum, t, 4), 1);
  assert_int_equal(sum.count, 1);
  situ__ledger_stop();
  situ__ledger_note(&one);
  assert_int_equal(situ__ledger_read(&outer, &sum, t, 4), 3);
  situ__ledger_stop();
  situ__ledger_stop(); /* one too many is harmless */
  situ__ledger_note(&one);
  outer = situ__ledger_start();
  assert_int_equal(situ__ledger_read(&outer, &sum, t, 4), 0);
  situ__ledger_stop();
}

static void long_records(void **state) {
  (void)state;
  enum { COUNT = 200000, KEPT = 65536 };
  situ__transfer *t = malloc((KEPT + 10) * sizeof *t);
  assert_non_null(t);
  situ__ledger_mark sum, mark = situ__ledger_start();
  for (uint64_t i = 0; i < COUNT; i++)
    situ__ledger_note(&(situ__transfer){ .bytes = i, .op = "x" });
  assert_int_equal(situ__ledger_read(&mark, &sum, t, KEPT + 10), KEPT);
  assert_int_equal(sum.count, COUNT);
  assert_int_equal(sum.bytes, (uint64_t)COUNT * (COUNT - 1) / 2);
  for (uint64_t i = 0; i < KEPT; i++) assert_int_equal(t[i].bytes, COUNT - KEPT + i);
  situ__ledger_stop();
  free(t);
}

static void *note_many(void *unused) {
  for (int i = 0; i < 5000; i++) situ__ledger_note(&(situ__transfer){ .bytes = 3, .op = "x" });
  return unused;
}

static void notes_of_all_threads(void **state) {
  (void)state;
  pthread_t thread[3];
  situ__ledger_mark sum, mark = situ__ledger_start();
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, note_many, NULL), 0);
  (void)note_many(NULL);
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  assert_int_equal(situ__ledger_read(&mark, &sum, NULL, 0), 0);
  assert_int_equal(sum.count, 20000);
  assert_int_equal(sum.bytes, 60000);
  situ__ledger_stop();
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(any_to_any, fresh),
    cmocka_unit_test_setup(staged, fresh),
    cmocka_unit_test_setup(refused, fresh),
    cmocka_unit_test_setup(failing_copy, fresh),
    cmocka_unit_test_setup(notes_what_crosses, fresh),
    cmocka_unit_test_setup(recorders_nest, fresh),
    cmocka_unit_test_setup(long_records, fresh),
    cmocka_unit_test_setup(notes_of_all_threads, fresh),
  };
  return cmocka_run_group_tests_name("device/copy", tests, NULL, NULL);
}
