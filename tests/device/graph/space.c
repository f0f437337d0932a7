/* The trees by which a graph's memory is planned, beside plain loops over all that is taken.
   SPDX-License-Identifier: MIT */
#include "device/graph/space.h"
#include "device/graph/usage.h"
#include "support/test.h"

enum { TIMES = 37, SPANS = 300, ROUNDS = 40, LARGEST = 9 };

static uint32_t draw(uint32_t below) {
  static uint32_t now = 1;
  now = now * 1664525u + 1013904223u;
  return (now >> 8) % below;
}

static situ__span draw_span(void) {
  const size_t first = draw(TIMES), most = draw(3) ? 4 : TIMES; /* most are short */
  const size_t last = first + draw((uint32_t)most);
  return (situ__span){ first, last < TIMES ? last : TIMES - 1, 1 + draw(LARGEST) };
}

static bool meet(const situ__span *a, const situ__span *b) { return a->first <= b->last && b->first <= a->last; }

/* The lowest offset where no byte is taken by one of the spans before. */
static size_t lowest(const situ__span *span, const size_t *at, int count, size_t from) {
  for (size_t offset = from;; offset++) {
    bool is_free = true;
    for (int k = 0; k < count && is_free; k++)
      is_free = !meet(&span[k], &span[count]) || offset >= at[k] + span[k].bytes || at[k] >= offset + span[count].bytes;
    if (is_free) return offset;
  }
}

static void the_lowest_offset_is_that_of_a_scan(void **state) {
  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    situ__space s;
    situ__span span[SPANS];
    size_t at[SPANS];
    assert_true(situ__space_begin(&s, TIMES));
    for (int k = 0; k < SPANS; k++) {
      const size_t from = draw(2) ? 0 : draw(200);
      span[k] = draw_span();
      at[k] = situ__space_lowest(&s, &span[k], from);
      assert_int_equal(at[k], lowest(span, at, k, from));
      assert_true(situ__space_take(&s, &span[k], at[k]));
    }
    situ__space_free(&s);
  }
}

static void the_peak_is_that_of_a_list(void **state) {
  (void)state;
  int64_t used[TIMES] = { 0 };
  situ__usage u;
  assert_true(situ__usage_begin(&u, TIMES));
  situ__usage_add(&u, 5, 4, 100); /* no time at all */
  for (int k = 0; k < ROUNDS * SPANS; k++) {
    const situ__span span = draw_span();
    const int64_t bytes =
        used[span.first] > LARGEST && used[span.last] > LARGEST && span.last - span.first < 2 && draw(2)
            ? -(int64_t)span.bytes
            : (int64_t)span.bytes;
    situ__usage_add(&u, span.first, span.last, bytes);
    size_t peak = 0;
    for (size_t t = span.first; t <= span.last; t++) used[t] += bytes;
    for (size_t t = 0; t < TIMES; t++) {
      assert_int_equal(situ__usage_at(&u, t), used[t]);
      if (used[t] > used[peak]) peak = t;
    }
    assert_int_equal(situ__usage_peak(&u), peak);
  }
  situ__usage_free(&u);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(the_lowest_offset_is_that_of_a_scan), TEST(the_peak_is_that_of_a_list) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
