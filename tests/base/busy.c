/* Claims and uses of one object by two threads (base/busy.h).
   SPDX-License-Identifier: MIT */
#include "base/busy.h"

#include <pthread.h>
#include <stdatomic.h>

#include "situ/situ.h"
#include "support/test.h"

enum { CLAIMS = 200000 };

static uint64_t mark;
static atomic_bool stop;
static atomic_long tried, admitted;

static bool visit_mark(const void *object, situ__mark_visitor *visit) { return visit((uint64_t *)(uintptr_t)object); }

static void *keep_using(void *unused) {
  (void)unused;
  while (!stop) {
    situ__use use;
    tried++;
    if (!situ__use_begin(&use, visit_mark, &mark)) continue;
    admitted++;
    situ__use_end();
  }
  return NULL;
}

/* A thread may claim an object twice while another thread tries to use it and is refused. */
static void claims_of_one_thread_nest_beside_uses(void **state) {
  (void)state;
  pthread_t thread;
  int refused = 0;
  situ__claim outer, inner;
  assert_true(situ__claim_begin(&outer, visit_mark, &mark));
  assert_int_equal(pthread_create(&thread, NULL, keep_using, NULL), 0);
  while (!tried) {}
  for (int i = 0; i < CLAIMS; i++) {
    refused += !situ__claim_begin(&inner, visit_mark, &mark);
    situ__claim_end(&inner);
  }
  assert_int_equal(admitted, 0);
  situ__claim_end(&outer);
  while (!admitted) {}
  stop = true;
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(refused, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(claims_of_one_thread_nest_beside_uses) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
