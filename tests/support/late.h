/* Refusals that a kernel makes: at once where the host computes, at the next synchronisation where there is a queue.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_LATE_H
#define SITU_TEST_LATE_H

#include "support/test.h"

/* The call gave nothing, or a result that the device disowns when it is waited for; either way with this error. */
static inline void test_late_(situ_tensor *y, situ_status status, const char *op, const char *part, const char *file,
                              int line) {
  situ_status got = y ? situ_synchronize(test_device()) : situ_error();
  if (got != status) {
    print_error("wanted %s, got %s: %s\n", situ_status_name(status), situ_status_name(got), situ_error_message());
    _fail(file, line);
  }
  test_error_(status, op, part, file, line);
}
#define expect_refused_late(call, status, op, part) test_late_(call, status, op, part, __FILE__, __LINE__)

#endif
