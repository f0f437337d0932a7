/* Random permutations: each number once, and nothing that tells them from permutations drawn fairly: where numbers go,
   alone and in pairs, numbers that stay, and rises from one to the next. Lengths just above a power of two are those
   whose elements are computed most often.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/test.h"

enum { DRAWS = 2000, BINS = 16, PAIRS = 8 };

typedef struct tally {
  int64_t first[BINS], last[BINS]; /* where the first and the last element lie */
  int64_t pair[PAIRS * PAIRS];     /* where two neighbours lie together */
  int64_t still, rises, odd;       /* odd: rises whose number is odd, as a parity would show */
} tally;

static void count(tally *t, const int64_t *order, int64_t n) {
  t->first[order[0] * BINS / n]++;
  t->last[order[n - 1] * BINS / n]++;
  t->pair[order[n / 3] * PAIRS / n * PAIRS + order[n / 3 + 1] * PAIRS / n]++;
  int64_t rises = 0;
  for (int64_t i = 0; i < n; i++) t->still += order[i] == i;
  for (int64_t i = 1; i < n; i++) rises += order[i] > order[i - 1];
  t->rises += rises;
  t->odd += rises & 1;
}

/* Chi-square of equally likely bins, as a number of standard deviations from its mean. */
static double spread(const int64_t *bins, int count, int64_t draws) {
  double sum = 0;
  const double each = (double)draws / count;
  for (int k = 0; k < count; k++) sum += ((double)bins[k] - each) * ((double)bins[k] - each) / each;
  return (sum - (count - 1)) / sqrt(2.0 * (count - 1));
}

static void near(const char *what, int64_t n, double deviations) {
  if (!(fabs(deviations) < 4.5)) fail_msg("n = %lld: %s: %.1f standard deviations", (long long)n, what, deviations);
}

static void permutations_are_fair(void **state) {
  (void)state;
  static const int64_t lengths[] = { 5, 64, 1000, 1024, 1025, 1500, 2048, 2050, 4097 };
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
    const int64_t n = lengths[k];
    tally t;
    memset(&t, 0, sizeof t);
    int64_t *order = malloc((size_t)n * sizeof *order);
    bool *met = malloc((size_t)n);
    for (int draw = 0; draw < DRAWS; draw++) {
      situ_generator g = situ_generator_seeded((uint64_t)draw);
      situ_scope s;
      situ_scope_begin(&s);
      situ_tensor *p = situ_randperm(n, &(situ_options){ .generator = &g });
      assert_int_equal(situ_copy_to_host(p, order, (size_t)n * sizeof *order), SITU_OK);
      assert_int_equal(situ_scope_end(&s), SITU_OK);
      memset(met, 0, (size_t)n);
      for (int64_t i = 0; i < n; i++) {
        assert_in_range(order[i], 0, n - 1);
        assert_false(met[order[i]]);
        met[order[i]] = true;
      }
      count(&t, order, n);
    }
    free(order);
    free(met);
    if (n >= BINS * 4) {
      near("the first element", n, spread(t.first, BINS, DRAWS));
      near("the last element", n, spread(t.last, BINS, DRAWS));
      near("neighbours", n, spread(t.pair, PAIRS * PAIRS, DRAWS));
    }
    near("numbers that stay", n, ((double)t.still - DRAWS) / sqrt(DRAWS));
    near("rises", n, ((double)t.rises - DRAWS * (double)(n - 1) / 2) / sqrt(DRAWS * (double)(n + 1) / 12));
    if (n >= 64) near("odd numbers of rises", n, ((double)t.odd - DRAWS / 2.0) / sqrt(DRAWS / 4.0));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(permutations_are_fair) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
