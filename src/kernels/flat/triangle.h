/* Lower (OP 0) and upper (OP 1) triangles of the last two dimensions; D0 is any dtype of the element's size.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D0) *x, CONST_PARAM walk w, const I64 rows,
                  const I64 columns, const I64 diagonal) {
  const I64 i = ITEM;
  if (i >= w.numel) return;
  const I64 row = i / columns % rows, column = i % columns;
  const bool keep = OP == 0 ? column - row <= diagonal : column - row >= diagonal;
  y[walk_at(&w, 0, i)] = keep ? x[walk_at(&w, 1, i)] : 0;
}
