/* The hash map of pointers: what it finds, and that keys at usual distances neither collide often nor scatter.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/map.h"

enum { KEYS = 50000, NEAR = 16 /* entries: four cache lines */, LAST = 4 };

/* Key i of a set. */
typedef uintptr_t (*key_at)(uintptr_t i, uintptr_t step);
static uintptr_t in_steps(uintptr_t i, uintptr_t step) { return 0x7f1200000000u + (i + 1) * step; }
static uintptr_t in_slabs(uintptr_t i, uintptr_t step) {
  const uintptr_t places = (16384 - 128) / step;
  return 0x7f1200000000u + i / places * 16384 + 64 + i % places * step;
}
/* SplitMix64. Source: Steele, Lea, Flood, Fast splittable pseudorandom number generators. */
static uintptr_t at_random(uintptr_t i, uintptr_t step) {
  uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (uintptr_t)(z ^ z >> 31) | step;
}

static const struct set {
  key_at key;
  uintptr_t step;
  double probes; /* of an absent key, on the mean: at most; 2.5 are right for random slots in half a table */
  double jumps;  /* of a walk over all keys to an entry that is near none of the last ones, for a key: at most */
} sets[] = { { in_slabs, 64, 6, 0.2 },    { in_slabs, 128, 8, 0.2 },    { in_slabs, 192, 2.5, 0.3 },
             { in_slabs, 256, 2.5, 0.3 }, { in_slabs, 320, 2.5, 0.4 },  { in_slabs, 384, 2.5, 0.5 },
             { in_slabs, 512, 2.5, 0.4 }, { in_slabs, 1024, 2.5, 0.6 }, { in_steps, 16, 8, 1 },
             { in_steps, 48, 4, 1 },      { in_steps, 4096, 2.5, 1 },   { in_steps, 65536, 2.5, 1 },
             { at_random, 1, 2.5, 1 } };

static void put_all(situ__map *map, const struct set *s) {
  for (uintptr_t i = 0; i < KEYS; i++) {
    const void *key = (const void *)s->key(i, s->step);
    assert_null(situ__map_get(map, key));
    assert_true(situ__map_put(map, key, (void *)(i + 1)));
  }
  assert_int_equal(map->count, KEYS);
}

/* A search ends at a free entry, so it takes half of a run of taken ones on the mean. */
static double probes_of(const situ__map *map) {
  double sum = 0, run = 0;
  for (size_t i = 0; i < map->size; i++) {
    run = map->entries[i].key ? run + 1 : 0;
    sum += run + 1;
  }
  return sum / (double)map->size;
}

static bool is_near(const size_t *place, size_t i) {
  for (size_t k = 1; k <= LAST && k <= i; k++)
    if (place[i] - place[i - k] + NEAR <= 2 * NEAR) return true;
  return false;
}

static double jumps_of(const situ__map *map) {
  static size_t place[KEYS];
  double jumps = 0;
  for (size_t i = 0; i < map->size; i++)
    if (map->entries[i].key) place[(uintptr_t)map->entries[i].value - 1] = i;
  for (size_t i = 0; i < KEYS; i++) jumps += !is_near(place, i);
  return jumps / KEYS;
}

static void keys_are_found_fast(void **state) {
  (void)state;
  bool good = true;
  for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
    situ__map map = { 0 };
    put_all(&map, &sets[k]);
    for (uintptr_t i = 0; i < KEYS; i++)
      assert_int_equal((uintptr_t)situ__map_get(&map, (const void *)sets[k].key(i, sets[k].step)), i + 1);
    const double probes = probes_of(&map), jumps = jumps_of(&map);
    print_message("step %5d: %5.2f probes, %4.2f jumps\n", (int)sets[k].step, probes, jumps);
    good = good && probes <= sets[k].probes && jumps <= sets[k].jumps;
    situ__map_free(&map);
  }
  assert_true(good);
}

static void a_value_is_replaced(void **state) {
  (void)state;
  situ__map map = { 0 };
  int keys[2] = { 0 };
  assert_null(situ__map_get(&map, keys));
  assert_true(situ__map_put(&map, keys, &keys[1]) && situ__map_put(&map, keys, keys));
  assert_ptr_equal(situ__map_get(&map, keys), keys);
  assert_null(situ__map_get(&map, &keys[1]));
  assert_int_equal(map.count, 1);
  situ__map_free(&map);
  assert_null(situ__map_get(&map, keys));
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(keys_are_found_fast), cmocka_unit_test(a_value_is_replaced) };
  return cmocka_run_group_tests_name("base/map", tests, NULL, NULL);
}
