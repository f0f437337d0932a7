/* Every handle that a public function takes, NULL, freed, of another kind, and memory that never was one: no crash, and an
   error, or for NULL a documented meaning.
   SPDX-License-Identifier: MIT */
#include "support/api/api.h"
#include "support/test.h"

static void every_handle(void **state) {
  (void)state;
  api_sweep(api_bad_handle);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(every_handle) };
  return cmocka_run_group_tests_name("bad_input/handles", tests, NULL, NULL);
}
