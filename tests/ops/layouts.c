/* Every op with operands in other orders of memory, columns and channels last: the same values and gradients as of
   row-major ones.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "support/ops/parity.h"

static void the_order_of_memory_changes_no_value(void **state) {
  (void)state;
  int failed = 0, done = 0, tried = 0;
  for (size_t k = 0; k < parity_row_count; k++) {
    const parity_row *row = &parity_rows[k];
    if (!test_is_mine(k)) continue;
    tried++;
    if (parity_is_missing(row)) continue;
    const int shapes = parity_layouts(row, test_device(), parity_is_integer(row) ? SITU_I64 : SITU_F32);
    failed += shapes < 0;
    done += shapes > 0;
    if (test_device().kind == SITU_CPU) failed += parity_layouts(row, test_device(), SITU_BF16) < 0;
  }
  assert_int_equal(failed, 0);
  assert_true(done > tried * 9 / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(the_order_of_memory_changes_no_value) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
