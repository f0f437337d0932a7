/* The ledger: what it notes and sums up, how ledgers nest, what none allows, and what it calls a repeat.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "device/launch/launch.h"
#include "situ/sys/sim.h"

static const situ_device cpu = { SITU_CPU, 0 }, sim0 = { SITU_SIM, 0 }, sim1 = { SITU_SIM, 1 };

static int fresh(void **state) {
  (void)state;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  return situ_sim_create(2) != SITU_OK || situ_sim_reset(0) != SITU_OK || situ_sim_reset(1) != SITU_OK;
}

static int closed(void **state) {
  (void)state;
  return situ__ledger_recording() || situ_error() != SITU_OK;
}

static situ_storage *make(situ_device device, size_t bytes) {
  situ_storage *s = situ__storage_new("test", device, bytes);
  assert_non_null(s);
  return s;
}

/* Inlined in every build: each line that copies is a line of its own in the ledger. */
static inline __attribute__((always_inline)) void copy(situ_storage *to, situ_storage *from, size_t bytes) {
  assert_int_equal(situ__copy_storage("to", to, 0, from, 0, bytes, SITU__COPY_USER), SITU_OK);
}

static void put(situ_storage *to, size_t bytes) {
  static const char zeros[512];
  assert_int_equal(situ__copy_from_host("from_host", to, 0, zeros, bytes, SITU__COPY_USER), SITU_OK);
}

static void is(situ_transfers sum, uint64_t count, uint64_t bytes) {
  assert_int_equal(sum.count, count);
  assert_int_equal(sum.bytes, bytes);
}

static void refused(situ_status status, const char *part) {
  assert_int_equal(situ_error(), status);
  if (!strstr(situ_error_message(), part)) fail_msg("\"%s\" is not in: %s", part, situ_error_message());
  situ_error_clear();
}

/* placement: F7 */
static void notes_what_crosses(void **state) {
  (void)state;
  char bytes[300] = { 0 };
  situ_storage *c = make(cpu, 300), *a = make(sim0, 300), *b = make(sim1, 300);
  situ_transfer t[8];
  situ_ledger l;
  put(a, 300); /* nobody records yet */
  situ_ledger_begin(&l);
  assert_true(situ__ledger_recording());
  put(a, 100);
  assert_int_equal(situ__copy_storage("nn_to", b, 0, a, 0, 20, SITU__COPY_MOVE), SITU_OK);
  copy(c, b, 30);
  assert_int_equal(situ__copy_to_host("item", b, 0, bytes, 4, SITU__COPY_READ), SITU_OK);
  put(c, 100); /* one memory */
  put(a, 0);   /* no bytes */
  is(situ_ledger_total(&l), 4, 154);
  is(situ_ledger_sum(&l, SITU_HOST_TO_DEVICE), 1, 100);
  is(situ_ledger_sum(&l, SITU_DEVICE_TO_HOST), 2, 34);
  is(situ_ledger_sum(&l, SITU_DEVICE_TO_DEVICE), 1, 20);
  assert_int_equal(situ_ledger_transfers(&l, NULL, 0), 4);
  assert_int_equal(situ_ledger_transfers(&l, t, 8), 4);
  assert_string_equal(t[0].op, "from_host");
  assert_string_equal(t[0].reason, "asked for");
  assert_true(situ_device_equal(t[0].from, cpu) && situ_device_equal(t[0].to, sim0));
  assert_int_equal(t[0].bytes, 100);
  assert_int_equal(t[0].storage, a->serial);
  assert_int_equal(t[0].version, 2);
  assert_true(situ_device_equal(t[1].from, sim0) && situ_device_equal(t[1].to, sim1));
  assert_string_equal(t[1].reason, "move");
  assert_int_equal(t[1].storage, a->serial);
  assert_true(situ_device_equal(t[2].from, sim1) && situ_device_equal(t[2].to, cpu));
  assert_string_equal(t[3].op, "item");
  assert_string_equal(t[3].reason, "read");
  for (int i = 0; i < 4; i++) assert_true(t[i].seconds >= (i ? t[i - 1].seconds : 0));
  assert_int_equal(situ_ledger_transfers(&l, t, 2), 4); /* the newest */
  assert_string_equal(t[0].op, "to");
  assert_string_equal(t[1].op, "item");
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  assert_false(situ__ledger_recording());
  is(situ_ledger_total(&l), 4, 154);
  is(situ_ledger_sum(&l, SITU_DEVICE_TO_HOST), 2, 34);
  assert_int_equal(situ_ledger_transfers(&l, t, 8), 0);
  situ__storage_release(a);
  situ__storage_release(b);
  situ__storage_release(c);
}

static void ledgers_nest(void **state) {
  (void)state;
  situ_storage *a = make(sim0, 8);
  situ_ledger outer, inner, forgotten;
  situ_ledger_begin(&outer);
  put(a, 1);
  situ_ledger_begin(&inner);
  put(a, 2);
  is(situ_ledger_total(&inner), 1, 2);
  assert_int_equal(situ_ledger_end(&inner), SITU_OK);
  put(a, 4);
  is(situ_ledger_total(&inner), 1, 2); /* as it was when it ended */
  situ_ledger_begin_with(&forgotten, &(situ_ledger_options){ .all_threads = true, .none = true });
  is(situ_ledger_total(&outer), 3, 7);
  assert_int_equal(situ_ledger_end(&outer), SITU_OK);
  assert_false(situ__ledger_recording());
  assert_int_equal(situ_ledger_end(&forgotten), SITU_E_STATE);
  refused(SITU_E_STATE, "an outer one was ended");
  assert_int_equal(situ_ledger_end(&outer), SITU_E_STATE);
  refused(SITU_E_STATE, "ended before");
  is(situ_ledger_total(&forgotten), 0, 0);
  refused(SITU_E_STATE, "an outer one was ended");
  situ_ledger_begin(NULL);
  refused(SITU_E_ARG, "`ledger` is NULL");
  assert_int_equal(situ_ledger_to_string(NULL, NULL, 0), -1);
  refused(SITU_E_ARG, "`ledger` is NULL");
  situ__storage_release(a);
}

/* placement: F7, L4 */
static void none_is_allowed(void **state) {
  (void)state;
  situ_storage *a = make(sim0, 512), *c = make(cpu, 512);
  situ_ledger l;
  put(a, 1);
  situ_ledger_begin_none(&l);
  put(c, 1);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ_ledger_begin_none(&l);
  put(a, 300);
  copy(c, a, 17);
  assert_int_equal(situ_ledger_end(&l), SITU_E_STATE);
  assert_string_equal(situ_error_op(), "ledger_end");
  const char *text = situ_error_message();
  assert_non_null(strstr(text, "2 transfers in a scope that allows none:"));
  assert_non_null(strstr(text, "300 B  cpu -> sim:0  tensor  by from_host (asked for)"));
  assert_non_null(strstr(text, "17 B  sim:0 -> cpu  tensor  by to (asked for)"));
  situ_error_clear();
  is(situ_ledger_total(&l), 2, 317);
  assert_false(situ__ledger_recording());
  situ__storage_release(a);
  situ__storage_release(c);
}

static void waits_are_counted(void **state) {
  (void)state;
  situ_ledger l, outer;
  situ_ledger_begin(&outer);
  situ_ledger_begin_none(&l);
  assert_int_equal(situ_synchronize(cpu), SITU_OK); /* has no queue */
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ_ledger_begin_none(&l);
  assert_int_equal(situ_synchronize(sim0), SITU_OK);
  assert_int_equal(situ_synchronize(sim1), SITU_OK);
  assert_int_equal(situ_ledger_waits(&l), 2);
  assert_int_equal(situ_ledger_end(&l), SITU_E_STATE);
  assert_non_null(
      strstr(situ_error_message(), "2 waits in a scope that allows none:\n  waited for sim:1 in synchronize"));
  situ_error_clear();
  assert_int_equal(situ_ledger_waits(&l), 2); /* as it was when it ended */
  situ_ledger_begin_with(&l, &(situ_ledger_options){ .none = true, .allow_waits = true, .all_threads = true });
  assert_int_equal(situ_synchronize(sim0), SITU_OK);
  assert_int_equal(situ_ledger_waits(&l), 1);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  assert_int_equal(situ_ledger_waits(&outer), 3);
  assert_int_equal(situ_ledger_end(&outer), SITU_OK);
  assert_int_equal(situ_ledger_waits(NULL), 0);
  refused(SITU_E_ARG, "`ledger` is NULL");
}

static void long_records(void **state) {
  (void)state;
  enum { COUNT = 200000, KEPT = 65536 };
  situ_storage *a = make(sim0, 1);
  situ__transfer *t;
  int64_t count;
  situ_ledger l;
  situ_ledger_begin(&l);
  for (uint64_t i = 0; i < COUNT; i++)
    situ__ledger_note(&(situ__transfer){ .from = cpu, .to = sim0, .bytes = i, .op = "x" }, a);
  is(situ_ledger_sum(&l, SITU_HOST_TO_DEVICE), COUNT, (uint64_t)COUNT * (COUNT - 1) / 2);
  assert_true(situ__ledger_entries("t", &l, &t, &count));
  assert_int_equal(count, KEPT);
  for (uint64_t i = 0; i < KEPT; i++) assert_int_equal(t[i].bytes, COUNT - KEPT + i);
  situ__free(t);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ__storage_release(a);
}

/* ---- threads ---- */

static void *put_many(void *payload) {
  for (int i = 0; i < 2000; i++) put(payload, 3);
  return NULL;
}

/* placement: L4 */
static void threads(void **state) {
  (void)state;
  pthread_t thread[3];
  situ_storage *a[4];
  situ_ledger own, all;
  for (int i = 0; i < 4; i++) a[i] = make(sim0, 3);
  situ_ledger_begin(&own);
  situ_ledger_begin_with(&all, &(situ_ledger_options){ .all_threads = true });
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, put_many, a[i]), 0);
  (void)put_many(a[3]);
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  is(situ_ledger_total(&own), 2000, 6000);
  is(situ_ledger_total(&all), 8000, 24000);
  assert_int_equal(situ_ledger_transfers(&own, NULL, 0), 2000);
  assert_int_equal(situ_ledger_transfers(&all, NULL, 0), 8000);
  assert_int_equal(situ_ledger_end(&all), SITU_OK);
  assert_int_equal(situ_ledger_end(&own), SITU_OK);
  for (int i = 0; i < 4; i++) situ__storage_release(a[i]);
}

static void *end_it(void *ledger) {
  situ_error_clear();
  situ_status status = situ_ledger_end(ledger);
  situ_error_clear();
  return status == SITU_E_STATE ? ledger : NULL;
}

static void a_ledger_is_of_its_thread(void **state) {
  (void)state;
  pthread_t thread;
  void *result;
  situ_ledger l;
  situ_ledger_begin(&l);
  assert_int_equal(pthread_create(&thread, NULL, end_it, &l), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_ptr_equal(result, &l);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
}

/* ---- repeats ---- */

/* placement: F8 */
static void unchanged_again_and_again(void **state) {
  (void)state;
  situ_storage *c = make(cpu, 100), *d = make(cpu, 100), *a = make(sim0, 100);
  situ_ledger_repeat r[4];
  situ_ledger l;
  situ_ledger_begin(&l);
  for (int i = 0; i < 10; i++) {
    copy(a, c, 100); /* the same values each time */
    copy(a, d, 90);  /* written to in between: another batch in the same room */
    situ__storage_wrote(d);
  }
  for (int i = 0; i < 3; i++) copy(a, c, 10); /* another line, and not often enough */
  assert_int_equal(situ_ledger_repeats(&l, 0, r, 4), 1);
  is(r[0].sum, 10, 1000);
  assert_int_equal(r[0].last.storage, c->serial);
  assert_int_equal(situ_ledger_repeats(&l, 3, NULL, 0), 2);
  assert_int_equal(situ_ledger_repeats(&l, 11, r, 4), 0);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ__storage_release(c);
  situ__storage_release(d);
  situ__storage_release(a);
}

/* A storage freed and one made in its place share an address, not a number. And what is written from plain memory has
   no source that could be held on to. */
static void new_each_time(void **state) {
  (void)state;
  situ_storage *a = make(sim0, 64);
  situ_ledger l;
  situ_ledger_begin(&l);
  for (int i = 0; i < 20; i++) {
    situ_storage *batch = make(cpu, 64);
    copy(a, batch, 64);
    situ__storage_release(batch);
    put(a, 64);
  }
  assert_int_equal(situ_ledger_repeats(&l, 2, NULL, 0), 0);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ__storage_release(a);
}

/* A data set that is sent part by part, every epoch, is no repeat until the epochs are many and the parts few. */
static void parts_of_a_data_set(void **state) {
  (void)state;
  situ_storage *set = make(cpu, 400), *a = make(sim0, 400);
  situ_ledger l;
  situ_ledger_begin(&l);
  for (int epoch = 0; epoch < 10; epoch++) {
    if (epoch == 5) assert_int_equal(situ_ledger_repeats(&l, 0, NULL, 0), 0);
    for (size_t part = 0; part < 20; part++)
      assert_int_equal(situ__copy_storage("to", a, 0, set, 20 * part, 20, SITU__COPY_USER), SITU_OK);
  }
  assert_int_equal(situ_ledger_repeats(&l, 0, NULL, 0), 20);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ__storage_release(set);
  situ__storage_release(a);
}

static void both_ways_are_two(void **state) {
  (void)state;
  char byte;
  situ_storage *a = make(sim0, 64), *b = make(sim1, 64);
  situ_ledger_repeat r[2];
  situ_ledger l;
  situ_ledger_begin(&l);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(situ__copy_to_host("item", a, 0, &byte, 1, SITU__COPY_READ), SITU_OK);
    copy(b, a, 2);
  }
  assert_int_equal(situ_ledger_repeats(&l, 0, r, 2), 2);
  is(r[0].sum, 6, 12); /* the largest first */
  is(r[1].sum, 6, 6);
  assert_true(situ_device_equal(r[1].last.to, cpu));
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ__storage_release(a);
  situ__storage_release(b);
}

/* ---- texts ---- */

static void texts(void **state) {
  (void)state;
  situ_storage *c = make(cpu, 512), *a = make(sim0, 512);
  char text[4096], cut[10];
  situ_ledger l;
  situ_ledger_begin(&l);
  assert_int_equal(situ_ledger_to_string(&l, text, sizeof text), strlen("0 transfers, 0 B"));
  assert_string_equal(text, "0 transfers, 0 B");
  for (int i = 0; i < 5; i++) copy(a, c, 512);
  int64_t length = situ_ledger_to_string(&l, text, sizeof text);
  assert_int_equal(length, strlen(text));
  assert_int_equal(situ_ledger_to_string(&l, NULL, 0), length);
  assert_int_equal(situ_ledger_to_string(&l, cut, sizeof cut), length);
  assert_string_equal(cut, "5 transfe");
  static const char *const parts[] = { "5 transfers, 2.5 KiB; host -> device 5 (2.5 KiB)\n",
                                       "5 x    2.5 KiB  cpu -> sim:0  tensor  by to (asked for)",
                                       "\ntensor was copied cpu -> sim:0 5 times",
                                       "it did not change in between, so hold on to the copy" };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(text, parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], text);
  length = situ_ledger_json(&l, text, sizeof text);
  assert_int_equal(length, strlen(text));
  static const char *const json[] = {
    "{\"count\": 5, \"bytes\": 2560, \"directions\": {\"host_to_device\": {\"count\": 5, \"bytes\": 2560}",
    "\"repeats\": [{\"times\": 5, \"from\": \"cpu\", \"to\": \"sim:0\"",
    "\"transfers\": [{\"from\": \"cpu\", \"to\": \"sim:0\", \"bytes\": 512, \"op\": \"to\", \"reason\": \"asked for\""
  };
  for (size_t i = 0; i < sizeof json / sizeof *json; i++)
    if (!strstr(text, json[i])) fail_msg("no \"%s\" in:\n%s", json[i], text);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  situ__storage_release(c);
  situ__storage_release(a);
}

#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, fresh, closed)
int main(void) {
  const struct CMUnitTest tests[] = {
    LEDGER_TEST(notes_what_crosses),
    LEDGER_TEST(ledgers_nest),
    LEDGER_TEST(none_is_allowed),
    LEDGER_TEST(waits_are_counted),
    LEDGER_TEST(long_records),
    LEDGER_TEST(threads),
    LEDGER_TEST(a_ledger_is_of_its_thread),
    LEDGER_TEST(unchanged_again_and_again),
    LEDGER_TEST(new_each_time),
    LEDGER_TEST(parts_of_a_data_set),
    LEDGER_TEST(both_ways_are_two),
    LEDGER_TEST(texts),
  };
  return cmocka_run_group_tests_name("device/ledger", tests, NULL, NULL);
}
