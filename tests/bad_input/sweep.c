/* Every public function, every argument, every bad value: no crash, no hang, and an error or a documented meaning.
   SPDX-License-Identifier: MIT */
/* test-slow: opencl:0 opencl:1 cuda:0 cpu/sanitized */
/* test-cost: 400 */
#include "support/api/api.h"
#include "support/test.h"

/* placement: D13 */
static void every_function(void **state) {
  (void)state;
  api_sweep(api_bad);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(every_function) };
  return cmocka_run_group_tests_name("bad_input/sweep", tests, NULL, NULL);
}
