/* For tests of what an error says: its parts, and a tensor's options far from the others.
   SPDX-License-Identifier: MIT */
#ifndef TESTS_DISPATCH_REPORT_H
#define TESTS_DISPATCH_REPORT_H

#include <string.h>

#include "support/modules.h"

#define FAR .device = situ_dev("sim:0")

static situ_error_report report(void) {
  situ_error_report r;
  assert_true(situ_error_read(&r));
  return r;
}

static void expect_parts(const char *const *parts, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strstr(situ_error_message(), parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], situ_error_message());
}
#define EXPECT_PARTS(...) \
  expect_parts((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

#endif
