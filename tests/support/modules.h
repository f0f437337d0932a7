/* For tests of modules: no module may be left alive either.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_MODULES_H
#define SITU_TEST_MODULES_H

#include "situ/nn.h"
#include "support/test.h"

static int64_t modules_before;

static inline int test_begin_modules(void **state) {
  modules_before = situ_nn_live_modules();
  return test_begin(state);
}
static inline int test_end_modules(void **state) {
  int64_t left = situ_nn_live_modules() - modules_before;
  if (left) print_error("%lld modules left alive\n", (long long)left);
  return test_end(state) | (left != 0);
}
#define MODULE_TEST(name) cmocka_unit_test_setup_teardown(name, test_begin_modules, test_end_modules)

/* Options that put a layer on the device under test. */
#define HERE .device = test_device()

#endif
