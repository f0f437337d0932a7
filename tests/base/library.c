/* Libraries that are opened at run time: which file is taken, what is said of those that are not.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/library.h"

static double (*cosine)(double);
static void *nothing;
static const situ__symbol good[] = { { "cos", &cosine } },
                          bad[] = { { "cos", &cosine }, { "no_such_symbol", &nothing } };
static int asked;
static bool refuse_first(void *handle, char *why, size_t size) {
  (void)handle;
  return ++asked > 1 || (strncpy(why, "not this one", size), false);
}

#define MATHS(...) \
  { .name = "maths", .variable = "SITU_TEST_MATHS", .package = "libmaths", .symbol = good, .symbols = 1, __VA_ARGS__ }

static void expect_needed(situ__library *library, const char *words) {
  situ__problem problem;
  assert_false(situ__library_need(library, &problem));
  assert_int_equal(problem.status, SITU_E_UNSUPPORTED);
  const char *all[] = { "needs maths: install it (Debian: libmaths), or name its file by SITU_TEST_MATHS; ", words };
  for (int i = 0; i < 2; i++)
    if (!strstr(problem.text, all[i])) fail_msg("no \"%s\" in: %s", all[i], problem.text);
}

static void the_first_file_that_will_do(void **state) {
  (void)state;
  situ__library first = MATHS(.file = { "libm.so.6" }), second = MATHS(.file = { "libnowhere.so.1", "libm.so.6" }),
                third = MATHS(.file = { "libm.so.6", "libm.so.6" }, .accept = refuse_first);
  assert_true(situ__library_open(&first) && situ__library_open(&first));
  assert_true(cosine(0) == 1);
  assert_true(situ__library_open(&second));
  assert_true(situ__library_open(&third));
  assert_int_equal(asked, 2);
}

static void what_is_said_of_the_others(void **state) {
  (void)state;
  situ__library missing = MATHS(.file = { "libnowhere.so.1", "libnowhere.so.2" }),
                refused = MATHS(.file = { "libm.so.6" }), odd = MATHS(.file = { "libm.so.6" });
  asked = 0;
  refused.accept = refuse_first;
  odd.symbol = bad, odd.symbols = 2;
  expect_needed(&missing, "libnowhere.so.2: cannot open");
  expect_needed(&missing, "libnowhere.so.1: cannot open"); /* again, without opening again */
  expect_needed(&refused, "libm.so.6: not this one");
  expect_needed(&odd, "libm.so.6: it has no no_such_symbol");
}

static void the_variable_names_the_only_file(void **state) {
  (void)state;
  situ__library off = MATHS(.file = { "libm.so.6" }), there = MATHS(.file = { "libnowhere.so.1" });
  assert_int_equal(setenv("SITU_TEST_MATHS", "off", 1), 0);
  expect_needed(&off, "off: cannot open");
  assert_int_equal(setenv("SITU_TEST_MATHS", "libm.so.6", 1), 0);
  assert_true(situ__library_open(&there));
  assert_int_equal(unsetenv("SITU_TEST_MATHS"), 0);
}

static void *open_one(void *library) { return (void *)(uintptr_t)situ__library_open(library); }
static void threads_open_it_once(void **state) {
  (void)state;
  situ__library one = MATHS(.file = { "libm.so.6" }, .accept = refuse_first);
  pthread_t thread[4];
  asked = 1;
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, open_one, &one), 0);
  for (int i = 0; i < 4; i++) {
    void *opened;
    assert_int_equal(pthread_join(thread[i], &opened), 0);
    assert_non_null(opened);
  }
  assert_int_equal(asked, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_first_file_that_will_do),
    cmocka_unit_test(what_is_said_of_the_others),
    cmocka_unit_test(the_variable_names_the_only_file),
    cmocka_unit_test(threads_open_it_once),
  };
  return cmocka_run_group_tests_name("base/library", tests, NULL, NULL);
}
