/* Layer norm (OP 0), RMS norm (2) and their gradients (1, 3) over rows; with FLAG_COLUMNS the sums over rows, which are
   the gradients of weight and bias.
   SPDX-License-Identifier: MIT

   D0 is y or dx, D1 x, D2 g, D3 weight, D4 bias; dweight and dbias have the dtypes of D3 and D4. Statistics are T.
   Absent operands are NULL. */
#include "kernels/element.h"
#include "kernels/floats.h"

#define CENTRED (OP < 2)
#define BACKWARD (OP % 2)
typedef struct parameters {
  T p[4];
} parameters;

#if FLAGS & FLAG_COLUMNS
#include "kernels/norm/columns.h"
#elif FLAGS & FLAG_ROW
#include "kernels/norm/rows.h"
#else
#include "kernels/norm/lines.h"
#endif
