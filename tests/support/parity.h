/* One call on the host and the same call on another device: equal shapes and dtypes, values within a stated tolerance.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_PARITY_H
#define SITU_TESTS_SUPPORT_PARITY_H

#include "support/test.h"

/* How far a device may be from the host; docs/numerics.md has the same table with the reasons. */
typedef enum parity_class {
  SAME,
  MATH,
  TAIL,
 
  SUMS,
  CHAIN,
  NO_GRAD,
  PARITY_CLASSES
} parity_class;

enum { PARITY_OPERANDS = 5 };

/* A function: operands as letters (parity_shape), a class for its results and one for its gradients (NO_GRAD: they
   are not asked for). A second result goes to *also. */
typedef struct parity_row {
  const char *op, *operands;
  parity_class forward, backward;
  situ_tensor *(*call)(situ_tensor **t, situ_tensor **also);
} parity_row;

/* Runs a row for every shape and each of these dtypes (bits), on the host and twice on the device. Prints what it found.
   Returns how many shapes were computed (of the dtype that had most), -1 if anything differs. */
int parity_run(const parity_row *row, situ_device device, unsigned dtypes);

#endif
