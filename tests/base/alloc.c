/* The allocator hook, the counter that fails the n-th allocation, and the lists of small objects.
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
#include "base/fail.h"
#include "base/slab.h"

static void overflow_is_no_memory(void **state) {
  (void)state;
  assert_null(situ__calloc(SIZE_MAX / 2, 3));
  unsigned char *cleared = situ__calloc(100, 3);
  assert_non_null(cleared);
  for (int i = 0; i < 300; i++) assert_int_equal(cleared[i], 0);
  situ__free(cleared);
  situ__free(NULL);
}

static void zero_bytes_are_memory(void **state) {
  (void)state;
  void *a = situ__alloc(0), *b = situ__aligned(64, 0), *c = situ__calloc(0, 8), *d = situ__small_alloc(0);
  assert_non_null(a);
  assert_non_null(b);
  assert_non_null(c);
  assert_non_null(d);
  situ__free(a);
  situ__free(b);
  situ__free(c);
  situ__small_free(d, 0);
}

static void alignment(void **state) {
  (void)state;
  for (size_t a = 16; a <= (size_t)2 << 20; a *= 2) {
    char *block = situ__aligned(a, 1000);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % a, 0);
    memset(block, 1, 1000);
    situ__free(block);
  }
}

static void copies_text(void **state) {
  (void)state;
  char *text = situ__strdup("situ");
  assert_string_equal(text, "situ");
  text = situ__realloc(text, 4096);
  assert_string_equal(text, "situ");
  situ__free(text);
}

static void nth_fails_once(void **state) {
  (void)state;
  situ_fail_allocation(3, false);
  void *block[5];
  block[0] = situ__alloc(8);
  block[1] = situ__small_alloc(100);
  block[2] = situ__calloc(1, 8);
  block[3] = situ__aligned(64, 8);
  block[4] = situ__strdup("x");
  assert_int_equal(situ_allocation_count(), 5);
  for (int i = 0; i < 5; i++) assert_true((block[i] == NULL) == (i == 2));
  situ_fail_allocation(1, false);
  assert_null(situ__realloc(block[0], 1 << 20));
  assert_non_null(block[0] = situ__realloc(block[0], 1 << 20)); /* it had survived */
  situ__small_free(block[1], 100);
  for (int i = 0; i < 5; i++)
    if (i != 1) situ__free(block[i]);
  situ_fail_allocation(0, false);
}

static void sticky_fails_on(void **state) {
  (void)state;
  situ_fail_allocation(2, true);
  void *first = situ__alloc(8);
  assert_non_null(first);
  for (int i = 0; i < 10; i++) assert_null(situ__small_alloc(64));
  void *kept = situ__alloc_uncounted(8); /* what errors are recorded in */
  assert_non_null(kept);
  assert_int_equal(situ_allocation_count(), 11);
  situ_fail_allocation(0, false);
  void *again = situ__alloc(8);
  assert_non_null(again);
  situ__free(first);
  situ__free(kept);
  situ__free(again);
}

/* Also when the object comes from a list, or a warm library could not be tested. */
static void lists_can_fail(void **state) {
  (void)state;
  void *object = situ__small_alloc(200);
  situ__small_free(object, 200);
  situ_fail_allocation(1, false);
  assert_null(situ__small_alloc(200));
  situ_fail_allocation(0, false);
}

static void lists_reuse(void **state) {
  (void)state;
  void *a = situ__small_alloc(65);
  situ__small_free(a, 65);
  void *b = situ__small_alloc(128); /* the same class */
  assert_ptr_equal(a, b);
  void *c = situ__small_alloc(64); /* not this one */
  assert_ptr_not_equal(a, c);
  situ__small_free(b, 128);
  situ__small_free(c, 64);
  situ__small_free(NULL, 64);
  void *large = situ__small_alloc(5000);
  memset(large, 1, 5000);
  situ__small_free(large, 5000);
}

/* More of each size than a thread keeps, so that some come from pieces and go back to them, by another thread, too. */
enum { MANY = 1500 };
static unsigned char *many[MANY];

static void *free_half(void *size) {
  for (int i = 0; i < MANY; i += 2) situ__small_free(many[i], *(const size_t *)size);
  return NULL;
}

static void small_objects_grow(void **state) {
  (void)state;
  static const size_t sizes[] = { 40, 60, 1000, 1025, 9000 };
  unsigned char *object = situ__small_grow(NULL, 0, sizes[0]);
  assert_non_null(object);
  for (int k = 0; k < 4; k++) {
    memset(object, k + 1, sizes[k]);
    situ_fail_allocation(1, true);
    assert_null(situ__small_grow(object, sizes[k], sizes[k + 1]));
    situ_fail_allocation(0, false);
    object = situ__small_grow(object, sizes[k], sizes[k + 1]);
    assert_non_null(object);
    for (size_t i = 0; i < sizes[k]; i++) assert_int_equal(object[i], k + 1);
  }
  situ__small_free(object, sizes[4]);
}

static void an_array_doubles(void **state) {
  (void)state;
  int32_t *list = NULL;
  int64_t capacity = 0, growths = 0;
  situ_fail_allocation(0, false);
  for (int32_t i = 0; i < 10000; i++) {
    const int64_t before = capacity;
    assert_true(situ__grow("op", &list, &capacity, sizeof *list, i + 1));
    assert_true(capacity == before || capacity >= 2 * before);
    growths += capacity != before;
    list[i] = i;
  }
  assert_int_equal(situ_allocation_count(), growths); /* none where there was space */
  assert_in_range(growths, 1, 14);
  for (int32_t i = 0; i < 10000; i++) assert_int_equal(list[i], i);
  assert_true(situ__grow("op", &list, &capacity, sizeof *list, 100000)); /* by more than that at once */
  assert_in_range(capacity, 100000, 200000);
  list[capacity - 1] = 1;
  assert_int_equal(situ_error(), SITU_OK);
  situ__free(list);
}

/* Arrays of elements of any size that begin together have one capacity. */
static void parallel_arrays_grow_alike(void **state) {
  (void)state;
  for (int64_t needed = 1; needed < 100; needed += 7) {
    char *small = NULL, (*large)[1000] = NULL;
    int64_t a = 0, b = 0;
    for (int64_t n = needed; n < 400; n += needed) {
      assert_true(situ__grow(NULL, &small, &a, sizeof *small, n) && situ__grow(NULL, &large, &b, sizeof *large, n));
      assert_int_equal(a, b);
    }
    situ__free(small);
    situ__free(large);
  }
}

static void an_array_that_cannot_grow_stays(void **state) {
  (void)state;
  static const struct {
    bool fails; /* the allocation */
    size_t size;
    int64_t needed;
  } bad[] = { { true, 8, 9 },          { true, 8, 1000000 },       { false, 8, INT64_MAX / 8 + 1 },
              { false, 8, INT64_MAX }, { false, SIZE_MAX / 2, 9 }, { false, SIZE_MAX / 16 + 1, 16 },
              { false, 1, INT64_MIN }, /* a sum that has overflowed */
              { false, 8, -1 } };
  int64_t *list = NULL, capacity = 0;
  assert_true(situ__grow("op", &list, &capacity, sizeof *list, 8));
  for (int64_t i = 0; i < capacity; i++) list[i] = i;
  const int64_t *was = list, had = capacity;
  assert_int_equal(had, 8);
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    for (int named = 0; named < 2; named++) {
      situ_fail_allocation(bad[k].fails, true);
      assert_false(situ__grow(named ? "op" : NULL, &list, &capacity, bad[k].size, bad[k].needed));
      assert_int_equal(situ_allocation_count(), bad[k].fails);
      situ_fail_allocation(0, false);
      assert_ptr_equal(list, was);
      assert_int_equal(capacity, had);
      for (int64_t i = 0; i < had; i++) assert_int_equal(list[i], i);
      assert_int_equal(situ_error(), named ? SITU_E_NOMEM : SITU_OK);
      if (named) assert_ptr_equal(strstr(situ_error_message(), "op: no memory for "), situ_error_message());
      situ_error_clear();
    }
  }
  assert_true(situ__grow("op", &list, &capacity, sizeof *list, 9));
  assert_int_equal(list[7], 7);
  situ__free(list);
}

static void common_names_are_never_freed(void **state) {
  (void)state;
  char *weight = situ__shared_text("weight"), *other = situ__shared_text("weights");
  assert_ptr_equal(weight, situ__share_text(weight));
  for (int k = 0; k < 3; k++) situ__drop_text(weight);
  assert_string_equal(weight, "weight");
  assert_ptr_equal(weight, situ__shared_text("weight"));
  assert_ptr_equal(other, situ__share_text(other));
  situ__drop_text(other);
  assert_string_equal(other, "weights");
  situ__drop_text(other);
}

static void small_objects_are_on_lines(void **state) {
  (void)state;
  for (size_t size = 1; size <= 1024; size += 93) {
    for (int round = 0; round < 2; round++) {
      for (int i = round; i < MANY; i += round + 1) {
        many[i] = situ__small_alloc(size);
        assert_non_null(many[i]);
        assert_int_equal((uintptr_t)many[i] % 64, 0);
        memset(many[i], i % 251, size);
      }
      for (int i = 0; i < MANY; i++)
        for (size_t k = 0; (!round || i % 2) && k < size; k++) assert_int_equal(many[i][k], i % 251);
      pthread_t thread;
      if (round == 0) assert_int_equal(pthread_create(&thread, NULL, free_half, &size), 0);
      if (round == 0) assert_int_equal(pthread_join(thread, NULL), 0);
      for (int i = 1; i < MANY; i += 2) situ__small_free(many[i], size);
    }
  }
  situ__small_trim();
}

/* ---- the hook ---- */

enum { HUGE_PAGE = 2 << 20 };

static int64_t held, huge; /* allocations, huge: for huge pages, too */
static bool no_huge;

static void *counted_allocate(size_t bytes, size_t alignment, void *payload) {
  assert_ptr_equal(payload, &held);
  const size_t step = alignment ? alignment : 64;
  if (step == HUGE_PAGE && no_huge) return NULL;
  void *memory = aligned_alloc(step, (bytes + step - 1) / step * step);
  if (memory) __atomic_add_fetch(&held, 1, __ATOMIC_RELAXED);
  if (memory) huge += step == HUGE_PAGE;
  return memory;
}

static void *counted_reallocate(void *old, size_t bytes, void *payload) {
  assert_ptr_equal(payload, &held);
  void *memory = realloc(old, bytes);
  if (memory && !old) __atomic_add_fetch(&held, 1, __ATOMIC_RELAXED);
  return memory;
}

static void counted_release(void *memory, void *payload) {
  assert_ptr_equal(payload, &held);
  free(memory);
  __atomic_sub_fetch(&held, 1, __ATOMIC_RELAXED);
}

static void *use_lists(void *objects) {
  void *object[64];
  for (int i = 0; i < 64; i++) object[i] = situ__small_alloc(300);
  for (int i = 0; i < 64; i++) situ__small_free(object[i], 300);
  return objects;
}

static const situ_allocator counted = { counted_allocate, counted_reallocate, counted_release, &held };

static void hook_sees_everything(void **state) {
  (void)state;
  situ__small_trim();
  pthread_t thread;
  situ_set_allocator(&counted);
  assert_int_equal(pthread_create(&thread, NULL, use_lists, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(held, 0); /* the thread's lists went with it */
  void *block = situ__alloc(10), *more = situ__realloc(NULL, 10), *small = situ__small_alloc(64);
  assert_int_equal(held, 3);
  situ__free(block);
  situ__free(more);
  situ__small_free(small, 64);
  situ__small_trim();
  situ_set_allocator(NULL);
  /* The heads of this thread's lists may have been made meanwhile, and stay. */
  assert_in_range(held, 0, 1);
}

/* Objects of 1 KiB and of 64 bytes: those of 1 MiB are from small pieces, more from huge pages, and where there are none
   from small pieces. Four huge pages are kept. */
static void many_slabs_are_from_huge_pages(void **state) {
  (void)state;
  enum { KIB = 12000, LINES = 5, SPARES = 4 };
  static unsigned char *object[KIB * (1 + LINES)];
  situ__small_trim();
  situ_set_allocator(&counted);
  for (int round = 0; round < 3; round++) {
    const int64_t before = held;
    no_huge = round == 2;
    huge = 0;
    for (int i = 0; i < KIB * (1 + LINES); i++) {
      const size_t size = i % (1 + LINES) ? 64 : 1024;
      assert_non_null(object[i] = situ__slab_take(size));
      assert_int_equal((uintptr_t)object[i] % 64, 0);
      memset(object[i], i % 251, size);
      if (i == 700 * (1 + LINES)) assert_int_equal(huge, 0);
    }
    assert_in_range(huge, no_huge ? 0 : 7, no_huge ? 0 : 8);
    for (int pass = 0; pass < 2; pass++) /* all places of all sizes are free at the end, in any order */
      for (int i = pass; i < KIB * (1 + LINES); i += 2) {
        const size_t size = i % (1 + LINES) ? 64 : 1024;
        for (size_t k = 0; k < size; k += size - 1) assert_int_equal(object[i][k], i % 251);
        situ__slab_give(object[i]);
      }
    assert_int_equal(held, before + (no_huge ? 0 : 2 * SPARES));
    const int64_t opened = huge;
    void *again = situ__slab_take(64);
    assert_non_null(again);
    situ__slab_give(again);
    assert_int_equal(huge, opened); /* it is used before another one is allocated */
    situ__slab_trim();
    assert_int_equal(held, before);
  }
  no_huge = false;
  situ_set_allocator(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(overflow_is_no_memory),
    cmocka_unit_test(zero_bytes_are_memory),
    cmocka_unit_test(alignment),
    cmocka_unit_test(copies_text),
    cmocka_unit_test(nth_fails_once),
    cmocka_unit_test(sticky_fails_on),
    cmocka_unit_test(lists_can_fail),
    cmocka_unit_test(lists_reuse),
    cmocka_unit_test(small_objects_grow),
    cmocka_unit_test(an_array_doubles),
    cmocka_unit_test(parallel_arrays_grow_alike),
    cmocka_unit_test(an_array_that_cannot_grow_stays),
    cmocka_unit_test(common_names_are_never_freed),
    cmocka_unit_test(small_objects_are_on_lines),
    cmocka_unit_test(hook_sees_everything),
    cmocka_unit_test(many_slabs_are_from_huge_pages),
  };
  return cmocka_run_group_tests_name("base/alloc", tests, NULL, NULL);
}
