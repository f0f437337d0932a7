/* The caching allocator and the storages on it: reuse, limits, statistics, failures, threads.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/sysinfo.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "device/device.h"
#include "situ/scope.h"
#include "situ/sys/alloc.h"
#include "situ/sys/sim.h"

static const situ_device cpu = { SITU_CPU, 0 }, sim = { SITU_SIM, 0 }, meta = { SITU_META, 0 };

static int fresh(void **state) {
  (void)state;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  return situ_sim_create(1) != SITU_OK || situ_sim_reset(0) != SITU_OK || situ_empty_cache(sim) != SITU_OK ||
         situ_empty_cache(cpu) != SITU_OK;
}

static void *take(situ_device device, size_t bytes) {
  void *data = NULL;
  assert_int_equal(situ__memory_alloc("test", device, bytes, &data), SITU_OK);
  return data;
}

/* Every size near a class's ends, whole and writable, and 64-byte aligned. */
static void sizes(void **state) {
  (void)state;
  for (size_t around = 64; around <= (size_t)8 << 20; around += around / 8) {
    for (size_t bytes = around - 1; bytes <= around + 1; bytes++) {
      char *data = take(cpu, bytes);
      assert_int_equal((uintptr_t)data % 64, 0);
      memset(data, 0xff, bytes);
      situ__memory_free(cpu, data, bytes);
    }
  }
  void *nothing = state;
  assert_int_equal(situ__memory_alloc("test", cpu, 0, &nothing), SITU_OK);
  assert_null(nothing);
  situ__memory_free(cpu, NULL, 0);
}

/* Two live blocks never overlap, whatever was freed before. */
static void no_overlap(void **state) {
  (void)state;
  enum { COUNT = 400 };
  static unsigned char *data[COUNT];
  static size_t bytes[COUNT];
  uint32_t random = 7;
  for (int round = 0; round < 4000; round++) {
    random = random * 1664525u + 1013904223u;
    unsigned i = (random >> 8) % COUNT;
    if (data[i]) {
      for (size_t k = 0; k < bytes[i]; k++) assert_int_equal(data[i][k], (unsigned char)i);
      situ__memory_free(cpu, data[i], bytes[i]);
      data[i] = NULL;
    } else {
      bytes[i] = 1 + (random >> 4) % ((random & 15) == 0 ? 3000000 : 5000);
      data[i] = take(cpu, bytes[i]);
      memset(data[i], (int)i, bytes[i]);
    }
  }
  for (unsigned i = 0; i < COUNT; i++) situ__memory_free(cpu, data[i], bytes[i]);
}

static void reuses(void **state) {
  (void)state;
  static const size_t sizes_of[] = { 1, 64, 256, 1000, 5000, (size_t)1 << 20, (size_t)64 << 20 };
  for (int which = 0; which < 2; which++) {
    situ_device device = which ? sim : cpu;
    for (size_t i = 0; i < sizeof sizes_of / sizeof *sizes_of; i++) {
      void *first = take(device, sizes_of[i]);
      situ__memory_free(device, first, sizes_of[i]);
      void *second = take(device, sizes_of[i]);
      assert_ptr_equal(first, second);
      situ__memory_free(device, second, sizes_of[i]);
    }
  }
}

static int64_t cached(void) {
  int64_t used, kept;
  situ__memory_stats(cpu, &used, &kept);
  return kept;
}

/* A freed storage stays with its block for the next one of its size; nothing of it is left but that. Its block serves
   others too, it counts as cached, and it is given back with the rest. */
static void storages_are_made_again(void **state) {
  (void)state;
  situ_storage *first = situ__storage_new("test", cpu, 100);
  void *const data = first->data;
  const uint64_t serial = first->serial;
  situ__storage_wrote(first);
  first->mark = 7, first->slots = 2, first->moved_by = "test";
  const int64_t used = situ__memory_used(), kept = cached();
  situ__storage_release(first);
  assert_int_equal(situ__memory_used(), used - 100);
  assert_int_equal(cached(), kept + 128);
  situ_storage *second = situ__storage_new("test", cpu, 128);
  assert_ptr_equal(second, first);
  assert_ptr_equal(second->data, data);
  assert_int_equal(second->bytes, 128);
  assert_true(second->serial > serial);
  assert_int_equal(second->flags, SITU_STORAGE_UNWRITTEN);
  assert_int_equal(second->refs, 1);
  assert_int_equal(second->version, 0);
  assert_int_equal(second->mark | second->slots, 0);
  assert_null(second->moved_by);
  assert_null(second->payload);
  assert_null(second->handles);
  assert_int_equal(situ__memory_used(), used + 28);
  situ__storage_release(second);
  void *block = take(cpu, 128);
  assert_ptr_equal(block, data);
  situ__memory_free(cpu, block, 128);
  situ__storage_release(situ__storage_new("test", cpu, 5000));
  assert_int_equal(situ_empty_cache(cpu), SITU_OK);
  assert_int_equal(cached(), 0);
}

/* An allocation that is to fail does so where a freed storage is kept. */
static void kept_storages_do_not_hide_failures(void **state) {
  (void)state;
  for (uint64_t nth = 1; nth <= 2; nth++) {
    situ__storage_release(situ__storage_new("test", cpu, 64));
    situ_fail_allocation(nth, false);
    assert_null(situ__storage_new("test", cpu, 64));
    situ_fail_allocation(0, false);
    assert_int_equal(situ_error(), SITU_E_NOMEM);
    situ_error_clear();
  }
}

static void large_blocks_are_aligned(void **state) {
  (void)state;
  void *data = take(cpu, (size_t)5 << 20);
  assert_int_equal((uintptr_t)data % ((size_t)2 << 20), 0);
  situ__memory_free(cpu, data, (size_t)5 << 20);
}

/* placement: A15 */
static void statistics(void **state) {
  (void)state;
  for (int which = 0; which < 2; which++) {
    situ_device device = which ? sim : cpu;
    int64_t used, cached, used_after, cached_after;
    int64_t live = situ_live_bytes();
    situ__memory_stats(device, &used, &cached);
    assert_int_equal(cached, 0);
    situ_storage *small = situ__storage_new("test", device, 1000), *large = situ__storage_new("test", device, 3000000);
    situ__memory_stats(device, &used_after, &cached_after);
    assert_int_equal(used_after - used, 3001000);
    assert_int_equal(situ_live_bytes() - live, 3001000);
    situ__storage_release(small);
    situ__storage_release(large);
    situ__memory_stats(device, &used_after, &cached_after);
    assert_int_equal(used_after, used);
    assert_int_equal(situ_live_bytes(), live);
    assert_in_range(cached_after, 3001000, 3001000 * 9 / 8); /* kept, and at most an eighth is wasted */
    situ_device_properties p;
    assert_int_equal(situ_device_info(device, &p), SITU_OK);
    assert_int_equal(p.memory_cached, cached_after);
    assert_int_equal(p.memory_used, used);
    assert_int_equal(situ_empty_cache(device), SITU_OK);
    situ__memory_stats(device, &used_after, &cached_after);
    assert_int_equal(cached_after, 0);
  }
}

static void storage(void **state) {
  (void)state;
  situ_storage *s = situ__storage_new("test", sim, 100);
  assert_int_equal(s->refs, 1);
  assert_int_equal(s->bytes, 100);
  assert_int_equal(s->version, 0);
  assert_int_equal(s->flags, SITU_STORAGE_UNWRITTEN);
  assert_true(situ_device_equal(s->device, sim));
  situ__storage_retain(s);
  situ__storage_release(s);
  assert_int_equal(s->refs, 1);
  situ__storage_release(s);
  situ__storage_release(NULL);
  s = situ__storage_new("test", meta, (size_t)1 << 60); /* meta has no memory to run out of */
  assert_non_null(s);
  assert_null(s->data);
  situ__storage_release(s);
  s = situ__storage_new("test", cpu, 0);
  assert_non_null(s);
  assert_null(s->data);
  situ__storage_release(s);
}

static void count_release(void *payload) { ++*(int *)payload; }

static void foreign(void **state) {
  (void)state;
  int released = 0;
  float values[4] = { 1, 2, 3, 4 };
  int64_t live = situ_live_bytes();
  situ_storage *s = situ__storage_foreign("from_blob", cpu, values, sizeof values, count_release, &released);
  assert_ptr_equal(s->data, values);
  assert_int_equal(situ_live_bytes() - live, sizeof values);
  assert_false(s->flags & SITU_STORAGE_UNWRITTEN); /* it has values */
  situ__storage_retain(s);
  situ__storage_release(s);
  assert_int_equal(released, 0);
  situ__storage_release(s);
  assert_int_equal(released, 1);
  s = situ__storage_foreign("from_blob", cpu, values, sizeof values, NULL, NULL); /* never freed */
  situ__storage_release(s);
  assert_int_equal(situ_live_bytes(), live);
  s = situ__storage_foreign("from_blob", cpu, values, (size_t)1 << 50, NULL, NULL); /* a mapped file */
  situ_storage *own = situ__storage_new("zeros", cpu, 5 << 20);
  assert_non_null(own); /* it takes nothing from the budget */
  situ__storage_release(own);
  situ__storage_release(s);
  situ_fail_allocation(1, false);
  assert_null(situ__storage_foreign("from_blob", cpu, values, sizeof values, count_release, &released));
  situ_fail_allocation(0, false);
  assert_int_equal(released, 2);
  assert_int_equal(situ_error(), SITU_E_NOMEM);
}

static void impossible_sizes(void **state) {
  (void)state;
  static const size_t bytes[] = { (size_t)1 << 60, (size_t)1 << 62, ((size_t)1 << 62) + 1, SIZE_MAX };
  int64_t live = situ_live_bytes();
  for (int which = 0; which < 2; which++) {
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
      situ_error_clear();
      assert_null(situ__storage_new("zeros", which ? sim : cpu, bytes[i]));
      assert_int_equal(situ_error(), SITU_E_NOMEM);
      assert_string_equal(situ_error_op(), "zeros");
      assert_non_null(strstr(situ_error_message(), which ? "on sim:0" : "on cpu"));
    }
  }
  assert_int_equal(situ_live_bytes(), live);
}

/* The system would promise both halves, and break its word when they are used. */
static void host_has_a_budget(void **state) {
  (void)state;
#ifdef SITU__ASAN
  skip(); /* its shadow of that much memory would be real */
#else
  struct sysinfo host;
  assert_int_equal(sysinfo(&host), 0);
  size_t most = (size_t)(host.totalram + host.totalswap) * host.mem_unit / 5 * 3;
  void *first = NULL, *second = NULL;
  situ_status status = situ__memory_alloc("zeros", cpu, most, &first);
  if (status == SITU_OK) status = situ__memory_alloc("zeros", cpu, most, &second);
  assert_int_equal(status, SITU_E_NOMEM);
  assert_null(second);
  situ__memory_free(cpu, first, most);
  assert_int_equal(situ_empty_cache(cpu), SITU_OK);
#endif
}

/* Whichever allocation fails, nothing is lost and the next try works. */
static void every_failure(void **state) {
  (void)state;
  int64_t live = situ_live_bytes();
  for (int which = 0; which < 2; which++) {
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
      assert_true(nth < 20);
      assert_int_equal(situ_empty_cache(which ? sim : cpu), SITU_OK);
      situ_error_clear();
      situ_fail_allocation(nth, false);
      situ_storage *s = situ__storage_new("zeros", which ? sim : cpu, 2 << 20);
      failed = situ_allocation_count() >= nth;
      situ_fail_allocation(0, false);
      assert_int_equal(situ_error(), s ? SITU_OK : SITU_E_NOMEM);
      situ__storage_release(s);
      assert_int_equal(situ_live_bytes(), live);
    }
  }
}

/* A budget that cached blocks fill up: they are given back, and the allocation is made. */
static void full_cache_is_emptied(void **state) {
  (void)state;
  assert_int_equal(situ_sim_budget(0, 10 << 20), SITU_OK);
  for (int i = 1; i <= 9; i++) {
    void *data = take(sim, (size_t)i << 20);
    situ__memory_free(sim, data, (size_t)i << 20);
  }
  void *data = take(sim, 10 << 20);
  void *more = &more;
  assert_int_equal(situ__memory_alloc("zeros", sim, 64, &more), SITU_E_NOMEM);
  assert_null(more);
  assert_non_null(strstr(situ_error_message(), "(10.0 MiB in use there)"));
  situ__memory_free(sim, data, 10 << 20);
}

/* ---- threads ---- */

typedef struct {
  pthread_mutex_t lock;
  situ_storage *slot[64];
  int bad;
} exchange;

/* Storages made by one thread and freed by another, of host and device. */
static void *trade(void *payload) {
  exchange *e = payload;
  uint32_t random = (uint32_t)(uintptr_t)&random;
  for (int i = 0; i < 6000; i++) {
    random = random * 1664525u + 1013904223u;
    situ_device device = (random >> 20 & 7) == 0 ? sim : cpu;
    situ_storage *s =
        situ__storage_new("test", device, 1 + (random >> 8) % ((random >> 24 & 31) == 0 ? 2000000 : 3000));
    if (!s) __atomic_add_fetch(&e->bad, 1, __ATOMIC_RELAXED);
    if (s && device.kind == SITU_CPU) memset(s->data, 1, s->bytes);
    pthread_mutex_lock(&e->lock);
    situ_storage *old = e->slot[random >> 26];
    e->slot[random >> 26] = s;
    pthread_mutex_unlock(&e->lock);
    situ__storage_release(old);
  }
  return NULL;
}

static void many_threads(void **state) {
  (void)state;
  exchange e = { .lock = PTHREAD_MUTEX_INITIALIZER };
  pthread_t thread[4];
  int64_t live = situ_live_bytes();
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, trade, &e), 0);
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  for (int i = 0; i < 64; i++) situ__storage_release(e.slot[i]);
  assert_int_equal(e.bad, 0);
  assert_int_equal(situ_live_bytes(), live);
}

static void *keep_some(void *unused) {
  void *data[100];
  for (int i = 0; i < 100; i++) data[i] = situ__memory_alloc("test", cpu, 1000, &data[i]) == SITU_OK ? data[i] : NULL;
  for (int i = 0; i < 100; i++) situ__memory_free(cpu, data[i], 1000);
  return unused;
}

/* What an ended thread had kept is there for others. */
static void thread_exit_gives_back(void **state) {
  (void)state;
  pthread_t thread;
  int64_t used, cached;
  assert_int_equal(pthread_create(&thread, NULL, keep_some, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  situ__memory_stats(cpu, &used, &cached);
  assert_int_equal(cached, 100 * 1024);
  void *data = take(cpu, 1000);
  situ__memory_stats(cpu, &used, &cached);
  assert_int_equal(cached, 99 * 1024);
  situ__memory_free(cpu, data, 1000);
  assert_int_equal(situ_empty_cache(cpu), SITU_OK);
  situ__memory_stats(cpu, &used, &cached);
  assert_int_equal(cached, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(sizes, fresh),
    cmocka_unit_test_setup(no_overlap, fresh),
    cmocka_unit_test_setup(reuses, fresh),
    cmocka_unit_test_setup(storages_are_made_again, fresh),
    cmocka_unit_test_setup(kept_storages_do_not_hide_failures, fresh),
    cmocka_unit_test_setup(large_blocks_are_aligned, fresh),
    cmocka_unit_test_setup(statistics, fresh),
    cmocka_unit_test_setup(storage, fresh),
    cmocka_unit_test_setup(foreign, fresh),
    cmocka_unit_test_setup(impossible_sizes, fresh),
    cmocka_unit_test_setup(every_failure, fresh),
    cmocka_unit_test_setup(host_has_a_budget, fresh),
    cmocka_unit_test_setup(full_cache_is_emptied, fresh),
    cmocka_unit_test_setup(many_threads, fresh),
    cmocka_unit_test_setup(thread_exit_gives_back, fresh),
  };
  return cmocka_run_group_tests_name("device/memory", tests, NULL, NULL);
}
