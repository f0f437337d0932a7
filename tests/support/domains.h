/* Operands of the calls of calls.h where functions are smooth: what tests of derivatives walk.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_DOMAINS_H
#define SITU_TESTS_SUPPORT_DOMAINS_H

#include <string.h>

#include "situ/sys/op.h"
#include "support/calls.h"
#include "support/test.h"

/* Around 0, between 0 and 1, above 1. */
enum { DOMAINS = 3 };
static const struct domain { double low, high; } domains[DOMAINS] = { { -2, 2 }, { 0.1, 0.9 }, { 1.2, 2.8 } };

/* The operand that a letter stands for (parity_shape), f64; with grad, a leaf that requires a gradient where it is not a
   constant. */
static inline situ_tensor *domain_operand(char letter, const struct domain *d, bool grad) {
  const situ_shape base = SITU_SHAPE(2, 3, 4), shape = parity_shape(letter, base, 0);
  if (letter == 'z') return situ_gt_scalar(test_random(shape, -1, 1, false), 0);
  if (parity_is_index(letter)) {
    const int64_t limit = parity_shape(letter == 't' ? 'v' : 'u', base, 0).dim[0];
    return situ_to_dtype(test_random(shape, 0, (double)limit, false), SITU_I64);
  }
  if (letter == 'q') return test_random(shape, 0.15, 0.85, grad);
  if (letter == 'p') return test_random(shape, 0.3, 2.2, grad);
  return test_random(shape, d->low, d->high, grad && !parity_is_constant(letter));
}

/* Whether the call needs linear algebra, on a device or in a library that has none. */
static inline bool domain_is_missing(const parity_row *row) {
  return strncmp(row->op, "linalg_", 7) == 0 &&
         (!test_has_lapack() || !situ_device_has(test_device(), SITU_VERB_LINALG));
}

#endif
