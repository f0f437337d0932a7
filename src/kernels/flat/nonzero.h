/* Indices of nonzero elements: OP 0 counts them in pieces of x, 1 computes the prefix sums of the counts, 2 writes
   indices in order.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"

enum { PIECE = 256 };
#define PIECES ((w.numel + PIECE - 1) / PIECE)

#if OP == 0
GROUPS KERNEL run(GLOBAL I64 *counts, GLOBAL const MEMORY(D1) *x, CONST_PARAM walk w) {
  const I64 piece = ITEM;
  if (piece >= PIECES) return;
  I64 count = 0;
  for (I64 i = piece * PIECE; i < w.numel && i < (piece + 1) * PIECE; i++) count += LOAD(D1, x[w.offset[0] + i]) != 0;
  counts[piece] = count;
}
#elif OP == 1
GROUPS KERNEL run(GLOBAL I64 *counts, CONST_PARAM walk w) {
  if (ITEM) return;
  I64 before = 0;
  for (I64 piece = 0; piece < PIECES; piece++) {
    const I64 own = counts[piece];
    counts[piece] = before;
    before += own;
  }
}
#else
/* Nothing is written past the result, even if x changed after the result was sized. */
GROUPS KERNEL run(GLOBAL const I64 *counts, GLOBAL const MEMORY(D1) *x, GLOBAL I64 *to, CONST_PARAM walk w,
                  const I64 offset, const I64 capacity) {
  const I64 piece = ITEM;
  if (piece >= PIECES) return;
  I64 row = counts[piece];
  for (I64 i = piece * PIECE; i < w.numel && i < (piece + 1) * PIECE; i++) {
    if (LOAD(D1, x[w.offset[0] + i]) == 0 || row >= capacity) continue;
    I64 rest = i;
    for (I64 d = w.ndim - 1; d >= 0; d--) {
      to[offset + row * w.ndim + d] = rest % w.size[d];
      rest /= w.size[d];
    }
    row++;
  }
}
#endif
