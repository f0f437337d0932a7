/* One call of every op of the table, with operands described by letters: what parity tests and fuzzers walk.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_CALLS_H
#define SITU_TESTS_SUPPORT_CALLS_H

#include <stddef.h>

#include "situ/ops.h"

/* How far a device may be from the host; docs/numerics.md has the same table with the reasons. */
typedef enum parity_class {
  SAME,
  MATH,
  TAIL,
  SUMS,
  PRODUCTS,
  CHAIN,
  CELLS,
  BLOCKS,
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

/* Every op of situ_op_table at least once. */
extern const parity_row parity_rows[];
extern const size_t parity_row_count;

/* The shape that a letter stands for beside a base shape, which is seen as [b, n, l]; `variant` chooses how 'o' broadcasts.
   Upper case and lower case of a letter are unrelated. */
situ_shape parity_shape(char letter, situ_shape base, int variant);
/* Letters of operands that are never differentiated; u and v are the same shapes with a gradient. */
static inline bool parity_is_constant(char letter) { return letter == 'U' || letter == 'V'; }
/* Letters of indices: i64, below n (t: below l). z is bool, q a probability, p above 0, y row-major. */
static inline bool parity_is_index(char letter) { return letter == 'i' || letter == 'j' || letter == 't'; }

#endif
