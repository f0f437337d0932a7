/* What the tests of linear algebra share. The policy lets a device without LAPACK leave it to the CPU.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_LAPACK_H
#define SITU_TESTS_SUPPORT_LAPACK_H

#include <math.h>

#include "situ/policy.h"
#include "support/late.h"

static inline int begin(void **state) {
  static situ_setting before;
  const int failed = test_begin(state);
  situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY, .device_to_host = SITU_POLICY_COPY });
  return failed;
}
#define MATRIX_TEST(name) cmocka_unit_test_setup_teardown(name, begin, test_end)

static inline void needs_lapack(void **state) {
  (void)state;
  if (!test_has_lapack()) skip();
}

#define R(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, false)
#define LEAF(...) test_random(SITU_SHAPE(__VA_ARGS__), -1, 1, true)

static inline situ_tensor *mt(situ_tensor *x) { return situ_transpose(x, -2, -1); }
static inline situ_tensor *eye(int64_t n) {
  return situ_eye(n, n, &(situ_options){ .dtype = SITU_F64, .device = test_device() });
}

#endif
