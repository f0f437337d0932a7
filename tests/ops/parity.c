/* Every op on the device under test beside the host: every dtype, every shape and layout, forward and backward.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 opencl:0 opencl:1 */
/* test-cost: opencl:0=1000 */
/* test-limit: opencl:0=2400 */
#include <stdlib.h>
#include <string.h>

#include "situ/sys/op.h"
#include "situ/policy.h"
#include "support/ops/parity.h"

static void every_op_is_called(void **state) {
  (void)state;
  const situ_op *const *ops;
  size_t count = situ_op_table(&ops), missing = 0;
  for (size_t k = 0; k < count; k++) {
    size_t at = 0;
    while (at < parity_row_count && strcmp(parity_rows[at].op, ops[k]->name) != 0) at++;
    if (at == parity_row_count) missing++, print_error("no call of %s\n", ops[k]->name);
  }
  assert_int_equal(missing, 0);
}

/* Every dtype; but where that takes long (test_is_slow), f32 and every sixth other dtype (OpenCL: every 16th), not the
   same ones as the next row has, and of those others every second shape, as on sim:0, which computes by the cpu's kernels.
   `./run test --all` tries all. */
static unsigned dtypes_of(size_t row) {
  unsigned dtypes = 1u << SITU_F32;
  const bool all = !test_is_slow();
  const unsigned every = test_device().kind == SITU_OPENCL ? 16 : 6;
  for (unsigned t = SITU_BOOL; t < SITU_DTYPES; t++)
    if (all || (row + t) % every == 0) dtypes |= 1u << t;
  if (parity_is_integer(&parity_rows[row])) dtypes |= 1u << SITU_I64;
  return dtypes;
}

/* On OpenCL, which compiles another kernel for them, every third row has operands with gaps. */
static bool has_gaps(size_t row) { return row % 3 == 0 || test_device().kind != SITU_OPENCL || !test_is_slow(); }

static void every_call_gives_what_the_host_gives(void **state) {
  (void)state;
  const bool fewer = test_is_slow() || (test_device().kind == SITU_SIM && !getenv("SITU_TEST_ALL"));
  int failed = 0;
  situ_setting before;
  situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY, .device_to_host = SITU_POLICY_COPY });
  for (size_t k = 0; k < parity_row_count; k++) {
    const bool gaps = has_gaps(k);
    if (!parity_is_missing(&parity_rows[k]) && test_is_mine(k))
      failed += parity_run(&parity_rows[k], test_device(), dtypes_of(k), fewer, gaps) < (gaps ? 20 : 8);
  }
  assert_int_equal(failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_op_is_called), TEST(every_call_gives_what_the_host_gives) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
