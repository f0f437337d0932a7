/* Which errors of a dry run its recorder gets.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "situ/error.h"
#include "situ/sys/dry.h"
#include "support/test.h"

typedef struct recorder {
  situ_dry dry; /* first: the callback gets it */
  int found;
  char last[256]; /* message */
} recorder;

static void note(situ_dry *dry) {
  recorder *r = (recorder *)dry;
  r->found++;
  (void)snprintf(r->last, sizeof r->last, "%s", situ_error_message());
}

static void expect_found(const recorder *r, int count, const char *part) {
  assert_int_equal(r->found, count);
  if (!strstr(r->last, part)) fail_msg("%s", r->last);
}

/* What was recorded before a call, by what is no op, is told as well, and once. */
static void errors_between_calls_are_told(void **state) {
  (void)state;
  recorder r = { .dry = { .found = note } };
  situ_tensor *x = situ_ones(SITU_SHAPE(2), NULL);
  assert_int_equal(situ_dry_begin(&r.dry), SITU_OK);
  assert_false(situ_set(NULL, x));
  assert_int_equal(r.found, 0);
  assert_non_null(situ_neg(x));
  expect_found(&r, 1, "set: ");
  assert_int_equal(situ_error(), SITU_OK);
  assert_non_null(situ_neg(x));
  assert_int_equal(r.found, 1);
  assert_int_equal(situ_dry_end(&r.dry), 2);
}

/* A call without its operand repeats an error until that is cleared. */
static void what_follows_an_error_is_not_told_again(void **state) {
  (void)state;
  recorder r = { .dry = { .found = note } };
  assert_int_equal(situ_dry_begin(&r.dry), SITU_OK);
  assert_null(situ_neg(NULL));
  expect_found(&r, 1, "neg: ");
  assert_null(situ_abs(situ_exp(NULL)));
  assert_int_equal(r.found, 1);
  situ_error_clear();
  assert_null(situ_exp(NULL));
  expect_found(&r, 2, "exp: ");
  situ_error_clear();
  assert_int_equal(situ_dry_end(&r.dry), 0);
}

/* A function that consists of other ops goes on behind a wrong dtype, but not without an operand. */
static void what_a_refused_call_did_not_make_is_missing(void **state) {
  (void)state;
  recorder r = { .dry = { .found = note } };
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 3), NULL);
  assert_int_equal(situ_dry_begin(&r.dry), SITU_OK);
  situ_tensor *none = situ_to_dtype(x, (situ_dtype)99);
  assert_null(none);
  assert_int_equal(situ_error(), SITU_E_DTYPE);
  assert_null(situ_searchsorted(none, x, false));
  situ_error_clear();
  SITU_IGNORE(situ_dry_end(&r.dry));
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(errors_between_calls_are_told),
                                      TEST(what_a_refused_call_did_not_make_is_missing),
                                      TEST(what_follows_an_error_is_not_told_again) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
