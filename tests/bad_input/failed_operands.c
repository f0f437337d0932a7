/* An operand that is NULL because the call that was to make it failed is not one that was left out; and an error of
   another call refuses nothing to a function whose operands are all there. */
/* test-devices: cpu sim:0 */
#include "support/api/api.h"
#include "support/test.h"

static void every_operand_of_a_failed_call(void **state) {
  (void)state;
  api_sweep(api_failed_handle);
}

static void every_function_after_an_error(void **state) {
  (void)state;
  api_sweep(api_failed_before);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(every_operand_of_a_failed_call),
                                      cmocka_unit_test(every_function_after_an_error) };
  return cmocka_run_group_tests_name("bad_input/failed_operands", tests, NULL, NULL);
}
